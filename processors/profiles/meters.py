"""Hosts and their resources that profiles are made of, by row, with what each told last."""

from collections.abc import Callable
from typing import ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from agent.contracts.telemetry import JOB
from processors.hosts.columns import NEVER_MS, Rows, RowTable
from processors.hosts.roster import HostRows, Roster, SeriesRows
from processors.profiles.names import QuantityNames
from processors.profiles.quantities import ALWAYS, Quantity, quantity

T = TypeVar("T", bound=np.generic)


class MeterHosts(HostRows):
    """Hosts of which something is followed. The hosts that one job alone tells of have its mark: ``nid1#812``.

    >>> MeterHosts().add(("exa", "nid1#812"))
    0
    """

    name: ClassVar[str] = "profile_hosts"


class Meters(SeriesRows):
    """Resources of hosts; `learned_ms` is when the last minute began that was closed with a value.

    >>> Meters().add((0, "counter_delta>cycles"))
    0
    """

    name: ClassVar[str] = "profile_meters"


class Lasts(RowTable):
    """What each resource told last: its value, where it is a count since some start, and how many minutes it took.

    >>> lasts = Lasts()
    >>> lasts.grow(1)
    >>> lasts["last"][0]
    np.float64(nan)
    """

    name: ClassVar[str] = "profile_lasts"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        super().__init__(np.dtype([("last", "<f8"), ("reach", "<i4")]), last=np.nan)


class Covered(RowTable):
    """Up to when each host has told something.

    >>> covered = Covered()
    >>> covered.grow(1)
    >>> int(covered["until_ms"][0])
    -1
    """

    name: ClassVar[str] = "profile_covered"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        super().__init__(np.dtype([("until_ms", "<i8")]), until_ms=NEVER_MS)


class MeterRoster(Roster):
    """Rows of hosts and resources, and what follows from the names of those.

    `kind_of`, `host_of`, `quantity_of` and `part_of`, whether it is of one part of the host, are (rows,) each.
    `version` changes with every host that comes or goes.

    >>> from processors.profiles.names import QuantityNames
    >>> roster = MeterRoster(meters_max=9, names=QuantityNames())
    >>> row = roster.meter("exa", "nid1", "counter_total>cycles", 0)
    >>> row, roster.kind_of[0], roster.quantity_of[0], roster.meter("exa", "nid1", "cpu_available", 0)
    (0, np.int8(1), np.int32(10), None)
    """

    def __init__(self, meters_max: int, names: QuantityNames) -> None:
        super().__init__(meters_max)
        self.hosts, self.series = MeterHosts(), Meters()
        self.lasts, self.covered = Lasts(), Covered()
        self.series.join(self.lasts)
        self.hosts.join(self.covered)
        self.names = names
        self.version = 0
        self._marked: dict[tuple[str, str], dict[int, None]] = {}
        for name in ALWAYS:
            names.add(name)
        self.kind_of: npt.NDArray[np.int8] = np.zeros(0, np.int8)
        self.host_of: npt.NDArray[np.int32] = np.zeros(0, np.int32)
        self.quantity_of: npt.NDArray[np.int32] = np.zeros(0, np.int32)
        self.part_of: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)

    @property
    def own(self) -> npt.NDArray[np.bool_]:
        """Which quantities (by number) are of one job alone."""
        return np.array([(name or "").startswith(JOB) for name in self.names.all])

    def meter(self, system: str, host: str, resource: str, minute_ms: int) -> int | None:
        """Return the row of a resource, a new one where it needs one; None where it is no meter or there are too many."""
        found = quantity(resource)
        if found is None or JOB in host:  # the mark of a job is no part of a host's name
            return None
        if self.names.add(found.name) is None:
            return None
        hosts = len(self.hosts.numbers)
        entered = self.enter(system, host + found.own, resource, minute_ms)
        if entered is None:
            return None
        self.version += len(self.hosts.numbers) - hosts
        self._note(entered[0], found, entered[1])
        return entered[0]

    def marked(self, system: str, job_id: str) -> list[int]:
        """Return the hosts that one job alone tells of."""
        return list(self._marked.get((system, job_id), ()))

    def noted(self) -> None:
        """Work out again what follows from names, after a restore."""
        for row, (host, resource) in self.series.numbers:
            found = quantity(resource)
            if found is not None:
                self._note(row, found, host)

    def told(self, meters: Rows, hosts: Rows, minute_ms: int) -> None:
        """Note that these rows told a minute."""
        for table, rows in ((self.series.table, meters), (self.hosts.table, hosts)):
            table["last_ms"][rows] = np.maximum(table["last_ms"][rows], minute_ms)

    def forget_before(self, minute_ms: int) -> int:
        """Forget resources whose last minute began before, and hosts without one; return how many hosts they were."""
        hosts = super().forget_before(minute_ms)
        if hosts:
            self.version += 1
            self._marked = {}
            for row, (system, name) in self.hosts.numbers:
                self._mark(row, system, name)
        return hosts

    def forget_marked_before(self, minute_ms: int, of_system: Callable[[str], bool]) -> None:
        """Forget hosts that one job alone told of, of some systems, whose last minute began before."""
        last_ms = self.hosts.table["last_ms"]
        quiet = {row for rows in self._marked.values() for row in rows if last_ms[row] < minute_ms}
        gone = [row for row in sorted(quiet) if of_system((self.hosts.numbers.key(row) or ("", ""))[0])]
        if not gone:
            return
        meters = [row for host in gone for row in self._resources.pop(host, {}).values()]
        self.series.release(np.array(meters, dtype=np.intp))
        self.hosts.release(np.array(gone, dtype=np.intp))
        self.version += 1
        over = set(gone)
        left = {key: {row: None for row in rows if row not in over} for key, rows in self._marked.items()}
        self._marked = {key: rows for key, rows in left.items() if rows}

    def _note(self, row: int, found: Quantity, host: int) -> None:
        room = len(self.series.table) - len(self.kind_of)
        if room > 0:
            self.kind_of, self.host_of = _longer(self.kind_of, room), _longer(self.host_of, room)
            self.quantity_of, self.part_of = _longer(self.quantity_of, room), _longer(self.part_of, room)
        key = self.hosts.numbers.key(host)
        if found.own and key is not None:
            self._mark(host, *key)
        self.kind_of[row], self.host_of[row], self.part_of[row] = found.kind, host, found.part
        self.quantity_of[row] = self.names.add(found.name) or 0

    def _mark(self, host: int, system: str, name: str) -> None:
        mark = name.partition(JOB)[2]
        if mark:
            self._marked.setdefault((system, mark), {})[host] = None


def _longer(column: npt.NDArray[T], room: int) -> npt.NDArray[T]:
    return np.concatenate([column, np.zeros(room, column.dtype)])
