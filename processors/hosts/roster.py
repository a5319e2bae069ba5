"""Which hosts and which of their resources are followed, each with its row: the one numbering that all columns share."""

from collections.abc import Iterable
from typing import ClassVar, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from processors.hosts.columns import NEVER_MS, Kept, Rows, RowTable
from processors.hosts.numbering import Numbering

BLOCK: Final = 256  # rows of series that are stored together; columns grow by whole blocks
HOST_BLOCK: Final = 32  # rows of hosts: one has what all its resources together have

K = TypeVar("K")
Host = tuple[str, str]  # system and name
Series = tuple[int, str]  # row of the host and name of the resource


class Numbered(Generic[K]):
    """Rows of keys with columns that go along: each has room for every row, and forgets a row that is released.

    >>> hosts = HostRows()
    >>> hosts.add(("exa", "nid1")), len(hosts.table), hosts.release(np.array([0]))
    (0, 256, None)
    """

    name: ClassVar[str]
    version: ClassVar[int]
    block: ClassVar[int] = BLOCK

    def __init__(self, table: RowTable) -> None:
        self.numbers: Numbering[K] = Numbering()
        self.table = table
        self.columns: list[Kept] = []
        self._room = 0

    def join(self, columns: Kept) -> None:
        """Let columns go along from now on."""
        columns.grow(self._room)
        self.columns.append(columns)

    def add(self, key: K) -> int:
        """Give a new key a row."""
        row = self.numbers.add(key)
        self.grow(row + 1)
        return row

    def fill(self, keys: Iterable[tuple[int, K]]) -> None:
        """Begin with these rows; ValueError where a row or a key stands twice."""
        self.numbers = Numbering(keys)
        self.grow(self.numbers.end)

    def release(self, rows: Rows) -> None:
        """Let rows go."""
        self.numbers.release(rows.tolist())
        for columns in (self, *self.columns):
            columns.clear(rows)

    def grow(self, rows: int) -> None:
        """Have room for at least so many rows."""
        if rows > self._room:
            self._room = -(-rows * 5 // (4 * BLOCK)) * BLOCK  # in growing steps, for each one copies all rows
            for columns in (self.table, *self.columns):
                columns.grow(self._room)

    def clear(self, rows: Rows) -> None:
        """Let the times of some rows start anew."""
        self.table.clear(rows)

    def stored(self, first: int, last: int) -> bytes:
        """Return a copy of the times of some rows."""
        return self.table.stored(first, last)

    def restore(self, first: int, last: int, stored: bytes) -> None:
        """Put the times of some rows back; ValueError where the bytes are of another form."""
        self.table.restore(first, last, stored)


class HostRows(Numbered[Host]):
    """Hosts that measure something: system, name, and when the last minute began that was told of them.

    >>> HostRows().add(("exa", "nid1"))
    0
    """

    name: ClassVar[str] = "host_rows"
    version: ClassVar[int] = 1
    block: ClassVar[int] = HOST_BLOCK

    def __init__(self) -> None:
        super().__init__(RowTable(np.dtype([("last_ms", "<i8")]), last_ms=NEVER_MS))


class SeriesRows(Numbered[Series]):
    """Resources of hosts: name, and when the last minutes began that were told and that were learned.

    >>> SeriesRows().add((0, "cpu_available"))
    0
    """

    name: ClassVar[str] = "host_series"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        dtype = np.dtype([("last_ms", "<i8"), ("learned_ms", "<i8")])
        super().__init__(RowTable(dtype, last_ms=NEVER_MS, learned_ms=NEVER_MS))


class Roster:
    """Hosts and their resources, at most `series_max`.

    >>> roster = Roster(series_max=2)
    >>> roster.enter("exa", "nid1", "cpu", 0), roster.enter("exa", "nid1", "memory", 0), roster.enter("exa", "nid2", "cpu", 0)
    ((0, 0), (1, 0), None)
    >>> roster.row("exa", "nid1", "memory"), roster.resources(0)
    (1, {'cpu': 0, 'memory': 1})
    """

    def __init__(self, series_max: int) -> None:
        self.hosts, self.series = HostRows(), SeriesRows()
        self._series_max = series_max
        self._resources: dict[int, dict[str, int]] = {}

    def fill(self, hosts: Iterable[tuple[int, Host]], series: Iterable[tuple[int, Series]]) -> None:
        """Begin with these hosts and resources; ValueError where they do not fit each other."""
        self.hosts.fill(hosts)
        self.series.fill(series)
        self._resources = {row: {} for row, _ in self.hosts.numbers}
        for row, (host, resource) in self.series.numbers:
            if host not in self._resources:
                raise ValueError(f"resource {resource} is of host {host}, which is none")
            self._resources[host][resource] = row

    def host(self, system: str, name: str) -> int | None:
        """Return the row of a host; None of one that is not known."""
        return self.hosts.numbers.row((system, name))

    def resources(self, host: int) -> dict[str, int]:
        """Return the rows of a host's resources by their names, in the order of those."""
        return dict(sorted(self._resources.get(host, {}).items()))

    def row(self, system: str, name: str, resource: str) -> int | None:
        """Return the row of a resource of a host; None of one that is not known."""
        host = self.host(system, name)
        return None if host is None else self._resources[host].get(resource)

    def enter(self, system: str, name: str, resource: str, minute_ms: int) -> tuple[int, int] | None:
        """Return the rows of a resource and its host, new ones where they need some; None where there are too many.

        `minute_ms` is when the minute begins that was told of it.
        """
        host = self.hosts.numbers.row((system, name))
        row = None if host is None else self._resources[host].get(resource)
        if host is None or row is None:
            if len(self.series.numbers) >= self._series_max:
                return None
            if host is None:
                host = self.hosts.add((system, name))
                self._resources[host] = {}
            row = self._resources[host][resource] = self.series.add((host, resource))
        for table, place in ((self.series.table, row), (self.hosts.table, host)):
            last_ms = table["last_ms"]
            last_ms[place] = max(last_ms[place], minute_ms)
        return row, host

    def learned_ms(self) -> npt.NDArray[np.int64]:
        """Return when the last minute began that was learned of each series, (rows,)."""
        return self.series.table["learned_ms"]

    def forget_before(self, minute_ms: int) -> int:
        """Forget resources whose last minute began before, and hosts without one; return how many hosts they were."""
        last_ms = self.series.table["last_ms"]
        rows = np.flatnonzero((last_ms != NEVER_MS) & (last_ms < minute_ms))
        for row in rows.tolist():
            key = self.series.numbers.key(row)
            if key is not None:
                del self._resources[key[0]][key[1]]
        self.series.release(rows)
        hosts = np.array([host for host, found in self._resources.items() if not found], dtype=np.intp)
        for host in hosts.tolist():
            del self._resources[host]
        self.hosts.release(hosts)
        return len(hosts)
