"""Placements of jobs in the network of a centre: features of the hosts of a job, and of a mapping of its ranks."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from processors.contracts.errors import InvalidInputError
from processors.contracts.events import Network as NetworkEvent
from processors.contracts.nodes import PLACED_HOSTS_MAX, HostPlace, expand, expand_all
from processors.models.features.communication import features
from processors.models.features.placement import Network, Torus, Tree, routed, spread
from processors.models.numerics.arrays import Ints

HOSTS_MAX: Final = 65_536  # largest number of hosts of a job
REMEMBERED: Final = 1_024  # cached placements, because each forecast of a running job needs the same placement


class _Known(NamedTuple):
    """The hosts of a system with a known position in its network.

    `rows` is the row of each host name in `places`. `places` has the coordinates of a host, or its path of switches from the top.
    `sides` are the side lengths of a torus; None for a tree.
    """

    rows: Mapping[str, int]
    places: Ints
    sides: Ints | None

    def network(self, hosts: Sequence[str]) -> Network | None:
        """Return the network of `hosts` alone, in this order; None if the position of a host is unknown."""
        rows = [row for host in hosts if (row := self.rows.get(host)) is not None]
        if len(rows) < len(hosts):
            return None
        places = self.places[rows]
        return Tree(places) if self.sides is None else Torus(places, self.sides)


class Placements:
    """The positions of the hosts of a centre in its networks.

    A job has no placement features if a host is unknown, if it has a single host, or if it has more than HOSTS_MAX.
    """

    def __init__(self, listed: Iterable[HostPlace] = ()) -> None:
        by_system = defaultdict[str, list[HostPlace]](list)
        for place in listed:
            by_system[place.system].append(place)
        self._systems = {system: _known(places) for system, places in by_system.items()}
        self._of = lru_cache(maxsize=REMEMBERED)(self._spread)

    def of(self, system: str, hosts: tuple[str, ...]) -> dict[str, float]:
        """Return the placement features of a job; empty if the position of a host is unknown.

        `hosts` are the host lists of the job; their order is the order of the ranks.
        """
        return dict(self._of(system, hosts)) if hosts and self._systems else {}

    def mapped(self, event: NetworkEvent) -> dict[str, float]:
        """Return the placement features of reported ranks, with the hops and link loads of the reported messages between ranks.

        The result is empty if no ranks were reported or the position of a host is unknown. Raise ValueError if a rank has no host, or if
        messages name ranks that do not exist.
        """
        ranks = np.asarray(event.ranks, np.int64)
        if ranks.size and int(ranks.max()) >= len(event.hosts):
            raise ValueError("Each rank needs a host.")
        network = self._network(event.system, event.hosts) if ranks.size else None
        if network is None:
            return {}
        spread_features = spread(network, ranks)
        sender, receiver, carried = (np.asarray(each) for each in event.exchanged)
        if not len(sender):
            return spread_features
        if max(int(sender.max()), int(receiver.max())) >= len(ranks):
            raise ValueError("Messages are between ranks that the mapping has.")
        hops, of_links = routed(network, ranks[sender.astype(np.int64)], ranks[receiver.astype(np.int64)], carried)
        return spread_features | of_links | features(messages=(hops.tolist(), carried.tolist()))

    def _spread(self, system: str, hosts: tuple[str, ...]) -> dict[str, float]:
        with suppress(InvalidInputError):
            network = self._network(system, tuple(dict.fromkeys(expand_all(hosts, HOSTS_MAX))))
            return spread(network) if network is not None else {}
        return {}

    def _network(self, system: str, hosts: Sequence[str]) -> Network | None:
        network = self._systems.get(system) or self._systems.get("")
        return network.network(hosts) if network is not None else None


def _known(listed: Sequence[HostPlace]) -> _Known:
    """Return the network positions of the hosts in `listed`. Either all entries must have coordinates, or all must have switches."""
    rows: dict[str, int] = {}
    numbers: dict[tuple[str, ...], int] = {}  # number of each switch, by the path of switches down to it
    places: list[tuple[int, ...]] = []
    for each in listed:
        above = each.switches
        path = [numbers.setdefault(above[: level + 1], len(numbers)) for level in range(len(above))]
        for host in expand(each.hosts, PLACED_HOSTS_MAX):
            rows[host] = len(places)
            places.append(each.coordinates or tuple(path))
    depth = max(map(len, places))
    array = np.array([place + (-1,) * (depth - len(place)) for place in places], np.int64).reshape(len(places), depth)
    return _Known(rows, array, array.max(axis=0) + 1 if listed[0].coordinates else None)


NO_PLACEMENTS: Final = Placements()
