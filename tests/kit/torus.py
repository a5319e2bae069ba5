"""A simulated network: a three-dimensional torus whose links forward one packet per tick, and patterns of messages on it.

Processes exchange packets with their neighbours in a grid of two or three dimensions, or with all of their group. Each goes the shortest way along x, then y, then z. A
link forwards the packet that has waited for longest; the others are buffered, and take longer for that. The run time is
when the last packet has arrived, so a mapping is slow for the reasons a real one is: distance, load of single links, and
queues.
"""

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from processors.models.features.communication import Links, Messages

Integers = npt.NDArray[np.int64]

SIDE = 4
NODES = SIDE**3
GROUP = 8  # processes that talk to one another where they do so in groups
PACKETS = tuple(4 + 7 * number % 23 for number in range(23))  # of a message, by what it is of 23
FEW_PACKETS = (2, 3, 4)  # the same where messages are many
PACKET_BYTES = 32
BUFFER_TICKS = 1  # more that a packet takes out of a buffer
WAYS = 6  # links that leave a node: up and down each dimension


class Traffic(NamedTuple):
    """The arguments of `features`."""

    links: Links
    messages: Messages
    fifo_messages: list[float]


@dataclass(frozen=True, slots=True, eq=False)
class Mapped:
    """A run of one mapping: what its network did, and how long it took."""

    traffic: Traffic
    run_time_s: float


@dataclass(frozen=True, slots=True)
class Pattern:
    """Who talks to whom on a torus with so many nodes to a side, and how many packets a message has, by turns."""

    side: int
    pairs: tuple[tuple[int, int], ...]
    packets: tuple[int, ...]


def halo_2d(side: int = SIDE) -> Pattern:
    """Return a grid with edges, as square as it can be: 8 by 8 on a side of 4, 16 by 32 on one of 8."""
    rows = 1 << ((side**3).bit_length() - 1) // 2
    columns = side**3 // rows
    steps = ((0, 1), (1, 0), (0, -1), (-1, 0))
    pairs = (
        (row * columns + column, (row + down) * columns + column + right)
        for row in range(rows)
        for column in range(columns)
        for down, right in steps
        if 0 <= row + down < rows and 0 <= column + right < columns
    )
    return Pattern(side, tuple(pairs), PACKETS)


def halo_3d(side: int = SIDE) -> Pattern:
    """Return a grid of as many processes along each dimension, without edges."""
    steps = ((1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1))
    pairs = (
        (_number(side, x, y, z), _number(side, x + a, y + b, z + c))
        for z in range(side)
        for y in range(side)
        for x in range(side)
        for a, b, c in steps
    )
    return Pattern(side, tuple(pairs), PACKETS)


def groups(side: int = SIDE) -> Pattern:
    """Return groups in which each process talks to all others: the all-to-all of sub-communicators."""
    starts = range(0, side**3, GROUP)
    pairs = ((start + i, start + j) for start in starts for i in range(GROUP) for j in range(GROUP) if i != j)
    return Pattern(side, tuple(pairs), FEW_PACKETS)


def mappings(count: int, seed: int, nodes: int = NODES) -> list[Integers]:
    """Return where each process runs: the processes in order, of which a part, from none to all, is shuffled."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        node = np.arange(nodes)
        moved = rng.permutation(nodes)[: int(rng.integers(0, nodes + 1))]
        node[np.sort(moved)] = moved
        found.append(node)
    return found


def run(node: Integers, noise: float = 0.0, seed: int = 1, pattern: Pattern | None = None) -> Mapped:
    """Return what happens with this mapping; `noise` is the deviation of ln of the run time."""
    of = pattern or halo_2d()
    routes = [_route(int(node[a]), int(node[b]), of.side) for a, b in of.pairs]
    packets = [of.packets[message % len(of.packets)] for message in range(len(routes))]
    dilation = np.array([len(route) for route in routes])
    ticks, buffered, received = _forwarded(routes, packets, of.side**3)
    first = np.array([route[0] for route in routes if route], dtype=np.int64)
    traffic = Traffic(
        links=([PACKET_BYTES * count for count in received], buffered, received),
        messages=(list(dilation), [PACKET_BYTES * count for count in packets]),
        fifo_messages=list(np.bincount(first, minlength=of.side**3 * WAYS)),
    )
    chance = np.random.default_rng([seed, *node])
    return Mapped(traffic, ticks * 1e-3 * float(np.exp(noise * chance.normal())))


def _forwarded(routes: list[list[int]], packets: list[int], nodes: int) -> tuple[int, list[int], list[int]]:
    """Return ticks until all have arrived, and per link the packets that were buffered and those that went through."""
    buffered, received, free = ([0] * (nodes * WAYS) for _ in range(3))
    # when a packet comes to its next link, which packet it is of which message, and how many links lie behind it
    coming = [
        (0, packet, message, 0) for message, way in enumerate(routes) if way for packet in range(packets[message])
    ]
    heapify(coming)
    while coming:
        tick, packet, message, behind = heappop(coming)
        link = routes[message][behind]
        late = free[link] > tick
        received[link] += 1
        buffered[link] += late
        free[link] = max(free[link], tick) + 1 + BUFFER_TICKS * late
        if behind + 1 < len(routes[message]):
            heappush(coming, (free[link], packet, message, behind + 1))
    return max(free), buffered, received


def _number(side: int, x: int, y: int, z: int) -> int:
    """Return the number of a place; beyond an end it goes on at the other."""
    return x % side + side * (y % side) + side**2 * (z % side)


def _route(start: int, end: int, side: int) -> list[int]:
    """Return the links on the way from a node to another: dimension by dimension, the short way round."""
    place = [start % side, start // side % side, start // side**2]
    goal = [end % side, end // side % side, end // side**2]
    links = []
    for dimension in range(3):
        ahead = (goal[dimension] - place[dimension]) % side
        step = 1 if ahead <= side // 2 else -1
        for _ in range(ahead if step == 1 else side - ahead):
            node = place[0] + side * place[1] + side**2 * place[2]
            links.append(node * WAYS + 2 * dimension + (step < 0))
            place[dimension] = (place[dimension] + step) % side
    return links
