"""Features of a placement in a known network: hops and shared links of the messages, computed without counters.

A mapping of ranks onto a network defines the hops of each message (its dilation), and a routing rule defines the links. Both are
metrics of A. Bhatele, L. Kale, "Application-specific topology-aware mapping for three dimensional topologies" (2008), to which
N. Jain et al., SC 2013, compare measured features. The message pattern is seldom known. `spread` therefore assumes two patterns:
from each host to all others, and from each rank to the next. `routed` uses the real messages if they are reported.

In a torus, messages travel one dimension after the other, the shorter way round; in a tree, up to the first common switch and
down again. Networks with adaptive routing spread the load better.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from processors.models.features.communication import averages
from processors.models.numerics.arrays import Floats, Ints

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
    """The links that messages use, as m pairs: the number of a link, and the index of a message that uses it."""

    link: Ints
    message: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Torus:
    """A torus with d dimensions of `sides` (d,) nodes each; `places` (k, d) are the coordinates of the k hosts.

    >>> torus = Torus(np.array([[0, 0], [3, 1], [1, 1]]), np.array([4, 4]))
    >>> torus.hops(np.array([0, 0]), np.array([1, 2])).tolist(), round(torus.mean_hops(), 6)
    ([2, 2], 2.0)
    """

    places: Ints
    sides: Ints

    def hops(self, sender: Ints, receiver: Ints) -> Ints:
        """Return the number of links between pairs of hosts (m,)."""
        return np.asarray(np.abs(self._offsets(sender, receiver)).sum(axis=1))

    def mean_hops(self) -> float:
        count, total = len(self.places), 0.0
        for column, side in zip(self.places.T, self.sides.tolist(), strict=True):
            place, hosts = np.unique(column, return_counts=True)
            apart = np.abs(place[:, None] - place)
            total += float(hosts @ np.minimum(apart, side - apart) @ hosts)
        return total / (count * (count - 1))

    def passed(self, sender: Ints, receiver: Ints) -> Passed:
        offsets, current = self._offsets(sender, receiver), self.places[sender]
        links, messages = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for dimension in range(len(self.sides)):
            distance, direction = np.abs(offsets[:, dimension]), np.sign(offsets[:, dimension])
            for step in range(int(distance.max(initial=0))):
                travelling = np.flatnonzero(distance > step)
                node = current[travelling]
                node[:, dimension] = (node[:, dimension] + step * direction[travelling]) % self.sides[dimension]
                number = np.ravel_multi_index(tuple(node.T), tuple(self.sides.tolist()))
                links.append((number * len(self.sides) + dimension) * 2 + (direction[travelling] > 0))
                messages.append(travelling)
            current[:, dimension] = self.places[receiver, dimension]
        return Passed(np.concatenate(links), np.concatenate(messages))

    def _offsets(self, sender: Ints, receiver: Ints) -> Ints:
        ahead = (self.places[receiver] - self.places[sender]) % self.sides
        return np.where(2 * ahead > self.sides, ahead - self.sides, ahead)


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A tree of switches: row i of `places` (k, l) has the numbers of the switches above host i, from the top down, padded with -1.

    >>> tree = Tree(np.array([[0, 1], [0, 1], [0, 2]]))
    >>> tree.hops(np.array([0, 0]), np.array([1, 2])).tolist(), round(tree.mean_hops(), 6)
    ([2, 4], 3.333333)
    """

    places: Ints

    def hops(self, sender: Ints, receiver: Ints) -> Ints:
        """Return the number of links between pairs of hosts (m,), including the links of the hosts; 0 from a host to itself."""
        depth, common = self._depth, self._common(sender, receiver)
        return np.where(sender == receiver, 0, depth[sender] + depth[receiver] - 2 * common + 2)

    def mean_hops(self) -> float:
        count, pairs = len(self.places), len(self.places) * (len(self.places) - 1)
        total = 2 * (count - 1) * int(self._depth.sum()) + 2 * pairs
        for column in self.places.T:
            hosts = np.unique(column[column >= 0], return_counts=True)[1]
            total -= 2 * int((hosts * (hosts - 1)).sum())
        return total / pairs

    def passed(self, sender: Ints, receiver: Ints) -> Passed:
        common, different = self._common(sender, receiver), sender != receiver
        levels, switches = self.places.shape[1], int(self.places.max(initial=-1)) + 1
        links, messages = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for end, hosts in enumerate((sender, receiver)):  # up from the sender, down to the receiver
            travelling = np.flatnonzero(different)
            links.append((switches + hosts[travelling]) * 2 + end)
            messages.append(travelling)
            for level in range(levels):
                travelling = np.flatnonzero(different & (common <= level) & (self._depth[hosts] > level))
                links.append(self.places[hosts[travelling], level] * 2 + end)
                messages.append(travelling)
        return Passed(np.concatenate(links), np.concatenate(messages))

    @property
    def _depth(self) -> Ints:
        return np.asarray((self.places >= 0).sum(axis=1))

    def _common(self, sender: Ints, receiver: Ints) -> Ints:
        alike = (self.places[sender] == self.places[receiver]) & (self.places[sender] >= 0)
        return np.asarray(np.logical_and.accumulate(alike, axis=1).sum(axis=1))


Network = Torus | Tree


def spread(network: Network, ranks: Ints | None = None) -> dict[str, float]:
    """Return the features of a placement: hops and loads of links for assumed messages; {} if no message leaves its host.

    Each rank sends one message to the next rank. `ranks` (r,) has the host of each rank, by default one rank per host. Hops are
    averaged over the messages that leave their host, loads over the links that carry a message.

    >>> torus = Torus(np.array([[0], [1], [3], [2]]), np.array([8]))
    >>> features = spread(torus)
    >>> [round(features[name], 3) for name in SPREAD_NAMES if name in features]
    [1.667, 1.333, 2.0, 1.0, 1.0]
    >>> spread(torus, np.array([0, 0, 1, 1]))["next_off_host"].__round__(3)
    0.333
    """
    hosts = np.arange(len(network.places))
    host_of_rank = hosts if ranks is None else ranks
    sender, receiver = host_of_rank[:-1], host_of_rank[1:]
    leaves_host = sender != receiver
    if len(hosts) < PAIR or not leaves_host.any():
        return {}
    sender, receiver = sender[leaves_host], receiver[leaves_host]
    hops = network.hops(sender, receiver)
    load = np.unique(network.passed(sender, receiver).link, return_counts=True)[1]
    features = {
        HOSTS_AVG_HOPS: network.mean_hops(),
        NEXT_AVG_HOPS: float(hops.mean()),
        NEXT_MAX_HOPS: float(hops.max()),
        NEXT_AVG_LINK: float(load.mean()) if load.size else 0.0,
        NEXT_MAX_LINK: float(load.max(initial=0)),
    }
    return features if ranks is None else features | {NEXT_OFF_HOST: float(leaves_host.mean())}


PAIR: Final = 2  # hosts; one host needs no network


def routed(network: Network, sender: Ints, receiver: Ints, carried: Floats) -> tuple[Ints, dict[str, float]]:
    """Return the hops (m,) of messages, and the features of the bytes on their links.

    Message i carries `carried[i]` bytes from host `sender[i]` to host `receiver[i]`.

    >>> torus = Torus(np.array([[0], [1], [3]]), np.array([8]))
    >>> hops, link_features = routed(torus, np.array([0, 0]), np.array([1, 2]), np.array([10.0, 4.0]))
    >>> hops.tolist(), link_features["max_bytes"], round(link_features["avg_bytes"], 3)
    ([1, 3], 14.0, 7.333)
    """
    passed = network.passed(sender, receiver)
    place = np.unique(passed.link, return_inverse=True)[1]
    load = np.asarray(np.bincount(place, carried[passed.message]), np.float64)
    features = averages("avg_bytes", load) | {"max_bytes": float(load.max())} if load.size else {}
    return network.hops(sender, receiver), features
