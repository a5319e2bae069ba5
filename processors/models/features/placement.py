"""Placement: how far apart the hosts of a run are in the network, and what its messages share, without a counter.

A mapping of ranks onto a known network tells the hops of a message (its dilation), and with a rule of routing also the links
that it passes: the metrics of mappings of A. Bhatele, L. Kale, "Application-specific topology-aware mapping for three dimensional
topologies" (2008), that N. Jain et al., SC 2013, compare measured features with. Who talks to whom is seldom known, so that `spread`
tells of two patterns that need no knowledge: each host to all others, and each rank to the next. Where messages between ranks are
known `routed` tells theirs.

Messages go along one dimension of a torus after the other, each the shorter way round, and in a tree up to the first switch
that is above both hosts and down again. Networks that choose routes by their load do better than that.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from processors.models.features.communication import average_outliers, top_outliers
from processors.models.numerics.arrays import Floats

Integers = npt.NDArray[np.int64]

HOSTS_AVG_HOPS: Final = "hosts_avg_hops"
NEXT_AVG_HOPS: Final = "next_avg_hops"
NEXT_MAX_HOPS: Final = "next_max_hops"
NEXT_AVG_LINK: Final = "next_avg_link"
NEXT_MAX_LINK: Final = "next_max_link"
NEXT_OFF_HOST: Final = "next_off_host"
SPREAD_NAMES: Final = (HOSTS_AVG_HOPS, NEXT_AVG_HOPS, NEXT_MAX_HOPS, NEXT_AVG_LINK, NEXT_MAX_LINK, NEXT_OFF_HOST)
SPREAD_SETS: Final[Mapping[str, tuple[str, ...]]] = {
    "all_pairs": (HOSTS_AVG_HOPS,),
    "neighbours": (NEXT_AVG_HOPS, NEXT_MAX_HOPS),
    "links": (NEXT_AVG_LINK, NEXT_MAX_LINK),
    "pairs_and_links": (HOSTS_AVG_HOPS, NEXT_AVG_HOPS, NEXT_MAX_LINK),
    "mapping": (NEXT_OFF_HOST, NEXT_AVG_HOPS, NEXT_MAX_LINK),
}
"""Sets of features that predict together."""


class Passed(NamedTuple):
    """Which links messages pass: the number of a link, and of the message that passes it, (m,) each.

    >>> Passed(np.array([4, 6]), np.array([0, 0])).link.tolist()
    [4, 6]
    """

    link: Integers
    message: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Torus:
    """A torus of any number of dimensions, with rings of so many nodes; `at` are the coordinates of hosts (k, d).

    >>> torus = Torus(np.array([[0, 0], [3, 1], [1, 1]]), np.array([4, 4]))
    >>> torus.hops(np.array([0, 0]), np.array([1, 2])).tolist(), round(torus.mean_hops(), 6)
    ([2, 2], 2.0)
    """

    at: Integers
    sides: Integers

    def hops(self, sender: Integers, receiver: Integers) -> Integers:
        """Return the links between pairs of hosts (m,)."""
        return np.asarray(np.abs(self._offsets(sender, receiver)).sum(axis=1))

    def mean_hops(self) -> float:
        """Return the mean over all pairs of the hosts, of which there are two at least."""
        count, total = len(self.at), 0.0
        for column, side in zip(self.at.T, self.sides.tolist(), strict=True):
            place, hosts = np.unique(column, return_counts=True)
            apart = np.abs(place[:, None] - place)
            total += float(hosts @ np.minimum(apart, side - apart) @ hosts)
        return total / (count * (count - 1))

    def passed(self, sender: Integers, receiver: Integers) -> Passed:
        """Return the links that messages between pairs of hosts (m,) pass."""
        offsets, here = self._offsets(sender, receiver), self.at[sender]
        links, messages = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for dimension in range(len(self.sides)):
            far, way = np.abs(offsets[:, dimension]), np.sign(offsets[:, dimension])
            for step in range(int(far.max(initial=0))):
                going = np.flatnonzero(far > step)
                node = here[going]
                node[:, dimension] = (node[:, dimension] + step * way[going]) % self.sides[dimension]
                number = np.ravel_multi_index(tuple(node.T), tuple(self.sides.tolist()))
                links.append((number * len(self.sides) + dimension) * 2 + (way[going] > 0))
                messages.append(going)
            here[:, dimension] = self.at[receiver, dimension]
        return Passed(np.concatenate(links), np.concatenate(messages))

    def _offsets(self, sender: Integers, receiver: Integers) -> Integers:
        ahead = (self.at[receiver] - self.at[sender]) % self.sides
        return np.where(2 * ahead > self.sides, ahead - self.sides, ahead)


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A tree of switches: `above` are the numbers of the switches above hosts (k, l), from the top down, -1 below the lowest.

    Hosts without a common switch are connected above all that are known.

    >>> tree = Tree(np.array([[0, 1], [0, 1], [0, 2]]))
    >>> tree.hops(np.array([0, 0]), np.array([1, 2])).tolist(), round(tree.mean_hops(), 6)
    ([2, 4], 3.333333)
    """

    above: Integers

    def hops(self, sender: Integers, receiver: Integers) -> Integers:
        """Return the links between pairs of hosts (m,), that of each host among them; none from a host to itself."""
        depth, common = self._depth, self._common(sender, receiver)
        return np.where(sender == receiver, 0, depth[sender] + depth[receiver] - 2 * common + 2)

    def mean_hops(self) -> float:
        """Return the mean over all pairs of the hosts, of which there are two at least."""
        count, pairs = len(self.above), len(self.above) * (len(self.above) - 1)
        total = 2 * (count - 1) * int(self._depth.sum()) + 2 * pairs
        for column in self.above.T:
            hosts = np.unique(column[column >= 0], return_counts=True)[1]
            total -= 2 * int((hosts * (hosts - 1)).sum())
        return total / pairs

    def passed(self, sender: Integers, receiver: Integers) -> Passed:
        """Return the links that messages between pairs of hosts (m,) pass."""
        common, apart = self._common(sender, receiver), sender != receiver
        levels, switches = self.above.shape[1], int(self.above.max(initial=-1)) + 1
        links, messages = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for end, hosts in enumerate((sender, receiver)):  # up from the one, down to the other
            going = np.flatnonzero(apart)
            links.append((switches + hosts[going]) * 2 + end)
            messages.append(going)
            for level in range(levels):
                going = np.flatnonzero(apart & (common <= level) & (self._depth[hosts] > level))
                links.append(self.above[hosts[going], level] * 2 + end)
                messages.append(going)
        return Passed(np.concatenate(links), np.concatenate(messages))

    @property
    def _depth(self) -> Integers:
        return np.asarray((self.above >= 0).sum(axis=1))

    def _common(self, sender: Integers, receiver: Integers) -> Integers:
        alike = (self.above[sender] == self.above[receiver]) & (self.above[sender] >= 0)
        return np.asarray(np.logical_and.accumulate(alike, axis=1).sum(axis=1))


Network = Torus | Tree


def spread(network: Network, ranks: Integers | None = None) -> dict[str, float]:
    """Return features of a placement on the hosts of a network; nothing where it is on one host.

    `ranks` are the hosts of ranks (r,). Without them ranks are taken to fill one host after the other, so that one message
    goes from each host to the next. Hops are means over messages that leave their host, links those that any of them passes.

    >>> torus = Torus(np.array([[0], [1], [3], [2]]), np.array([8]))
    >>> found = spread(torus)
    >>> [round(found[name], 3) for name in SPREAD_NAMES if name in found]
    [1.667, 1.333, 2.0, 1.0, 1.0]
    >>> spread(torus, np.array([0, 0, 1, 1]))["next_off_host"].__round__(3)
    0.333
    """
    hosts = np.arange(len(_places(network)))
    at = hosts if ranks is None else ranks
    sender, receiver = at[:-1], at[1:]
    off = sender != receiver
    if len(hosts) < PAIR or not off.any():
        return {}
    sender, receiver = sender[off], receiver[off]
    hops = network.hops(sender, receiver)
    load = np.unique(network.passed(sender, receiver).link, return_counts=True)[1]
    found = {
        HOSTS_AVG_HOPS: network.mean_hops(),
        NEXT_AVG_HOPS: float(hops.mean()),
        NEXT_MAX_HOPS: float(hops.max()),
        NEXT_AVG_LINK: float(load.mean()) if load.size else 0.0,
        NEXT_MAX_LINK: float(load.max(initial=0)),
    }
    return found if ranks is None else found | {NEXT_OFF_HOST: float(off.mean())}


PAIR: Final = 2  # hosts, and fewer have no network between them


class Routed(NamedTuple):
    """Hops of messages (m,), and features of the bytes on the links that they pass.

    >>> Routed(np.array([2]), {}).hops.tolist()
    [2]
    """

    hops: Integers
    link_features: dict[str, float]


def routed(network: Network, sender: Integers, receiver: Integers, carried: Floats) -> Routed:
    """Return what messages between pairs of hosts (m,) do in a network, of so many bytes each.

    >>> torus = Torus(np.array([[0], [1], [3]]), np.array([8]))
    >>> found = routed(torus, np.array([0, 0]), np.array([1, 2]), np.array([10.0, 4.0]))
    >>> found.hops.tolist(), found.link_features["max_bytes"], round(found.link_features["avg_bytes"], 3)
    ([1, 3], 14.0, 7.333)
    """
    passed = network.passed(sender, receiver)
    place = np.unique(passed.link, return_inverse=True)[1]
    load = np.asarray(np.bincount(place, carried[passed.message]), np.float64)
    found: dict[str, float] = {}
    if load.size:
        found = {
            "avg_bytes": float(load.mean()),
            "avg_bytes_ao": average_outliers(load),
            "avg_bytes_to": top_outliers(load),
            "max_bytes": float(load.max()),
        }
    return Routed(network.hops(sender, receiver), found)


def _places(network: Network) -> Integers:
    return network.at if isinstance(network, Torus) else network.above
