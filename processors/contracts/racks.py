"""Racks: which hosts stand together, by the centre's own list, and where that is silent by their names."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from processors.contracts.nodes import expand

RACK_HOSTS_MAX: Final = 200_000  # of all racks together


class RackHosts(msgspec.Struct, frozen=True):
    """A line of the list: a rack, and some of its hosts as a host list; `system` is empty where it is the same in all systems."""

    rack: str
    hosts: str
    system: str = ""


class HostRack(NamedTuple):
    """The rack of a host, and whether the list names it; where not, the name of the host does."""

    name: str
    listed: bool

    @property
    def known_by(self) -> str:
        """Where the rack is known from, to go behind "the same rack"; nothing where the centre's list names it.

        >>> HostRack("r3", listed=True).known_by, HostRack("r3", listed=False).known_by
        ('', ' by its name')
        """
        return "" if self.listed else " by its name"


class Racks:
    r"""The racks of all hosts. What the list names is so; of other hosts, the first group of `pattern` in their names is a guess.

    >>> racks = Racks([RackHosts("r3", "nid[001-004]", "exa")], pattern=r"^(x\d+)c\d+")
    >>> racks.of("exa", "nid002"), racks.of("exa", "x1000c0s1b0n0"), racks.of("mega", "nid002")
    (HostRack(name='r3', listed=True), HostRack(name='x1000', listed=False), None)
    """

    def __init__(self, listed: Iterable[RackHosts] = (), pattern: str | None = None) -> None:
        self._listed = {
            (row.system, host): HostRack(row.rack, listed=True)
            for row in listed
            for host in expand(row.hosts, RACK_HOSTS_MAX)
        }
        self._pattern = None if pattern is None else re.compile(pattern)

    def of(self, system: str, host: str) -> HostRack | None:
        """Return the rack of a host; None where nothing says it."""
        listed = self._listed.get((system, host)) or self._listed.get(("", host))
        if listed is not None or self._pattern is None:
            return listed
        found = self._pattern.search(host)
        return HostRack(found[1], listed=False) if found is not None and found[1] else None


NO_RACKS: Final = Racks()
