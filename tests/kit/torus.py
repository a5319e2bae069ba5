"""A simulated network: a three-dimensional torus whose links forward one packet per tick, and a two-dimensional halo on it.

Processes exchange packets with their four neighbours in a grid. Each goes the shortest way along x, then y, then z. A
link forwards the packet that has waited for longest; the others are buffered, and take longer for that. The run time is
when the last packet has arrived, so a mapping is slow for the reasons a real one is: distance, load of single links, and
queues.
"""

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np
import numpy.typing as npt

from processors.models.communication import Traffic, reported_features

Integers = npt.NDArray[np.int64]

SIDE = 4
NODES = SIDE**3
GRID = 8
PACKETS = tuple(4 + 7 * number % 23 for number in range(23))  # of a message, by what it is of 23
PACKET_BYTES = 32
BUFFER_TICKS = 1  # more that a packet takes out of a buffer
WAYS = 6  # links that leave a node: up and down each dimension


@dataclass(frozen=True, slots=True, eq=False)
class Mapped:
    """A run of one mapping: what its network did, and how long it took."""

    traffic: Traffic
    run_time_s: float


def mappings(count: int, seed: int) -> list[Integers]:
    """Return where each process runs: the processes in order, of which a part, from none to all, is shuffled."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        node = np.arange(NODES)
        moved = rng.permutation(NODES)[: int(rng.integers(0, NODES + 1))]
        node[np.sort(moved)] = moved
        found.append(node)
    return found


def run(node: Integers, noise: float = 0.0, seed: int = 1) -> Mapped:
    """Return what happens with this mapping; `noise` is the deviation of ln of the run time."""
    routes = [_route(int(node[a]), int(node[b])) for a, b in _neighbours()]
    dilation = np.array([len(route) for route in routes])
    ticks, buffered, received = _forwarded(routes)
    first = np.array([route[0] for route in routes if route], dtype=np.int64)
    traffic = reported_features(
        links=([PACKET_BYTES * count for count in received], buffered, received),
        messages=(list(dilation), [PACKET_BYTES * _size(message) for message in range(len(routes))]),
        fifo_messages=list(np.bincount(first, minlength=NODES * WAYS)),
    )
    chance = np.random.default_rng([seed, *node])
    return Mapped(traffic, ticks * 1e-3 * float(np.exp(noise * chance.normal())))


def _forwarded(routes: list[list[int]]) -> tuple[int, list[int], list[int]]:
    """Return ticks until all have arrived, and per link the packets that were buffered and those that went through."""
    buffered, received, free = ([0] * (NODES * WAYS) for _ in range(3))
    # when a packet comes to its next link, which packet it is of which message, and how many links lie behind it
    coming = [(0, packet, message, 0) for message, way in enumerate(routes) if way for packet in range(_size(message))]
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


def _size(message: int) -> int:
    return PACKETS[message % len(PACKETS)]


def _neighbours() -> list[tuple[int, int]]:
    """Return the pairs of processes that talk, each in both directions; the grid has edges."""
    found = []
    for row in range(GRID):
        for column in range(GRID):
            for down, right in ((0, 1), (1, 0), (0, -1), (-1, 0)):
                if 0 <= row + down < GRID and 0 <= column + right < GRID:
                    found.append((row * GRID + column, (row + down) * GRID + column + right))
    return found


def _route(start: int, end: int) -> list[int]:
    """Return the links on the way from a node to another: dimension by dimension, the short way round."""
    place = [start % SIDE, start // SIDE % SIDE, start // SIDE**2]
    goal = [end % SIDE, end // SIDE % SIDE, end // SIDE**2]
    links = []
    for dimension in range(3):
        ahead = (goal[dimension] - place[dimension]) % SIDE
        step = 1 if ahead <= SIDE // 2 else -1
        for _ in range(ahead if step == 1 else SIDE - ahead):
            node = place[0] + SIDE * place[1] + SIDE**2 * place[2]
            links.append(node * WAYS + 2 * dimension + (step < 0))
            place[dimension] = (place[dimension] + step) % SIDE
    return links
