"""Which hosts and which of their resources are followed, each with its row: the one numbering that all columns share."""

import heapq
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

# Which row belongs to what: the smallest free number first, so that the numbering follows from what is kept alone.


K = TypeVar("K")


class Numbering(Generic[K]):
    """Rows of keys. A key keeps its row until it is released; then the next new key may have it."""

    def __init__(self, keys: Iterable[tuple[int, K]] = ()) -> None:
        """Start with rows and their keys; ValueError where a row or a key stands twice or a row is negative."""
        given = dict(keys)
        self._keys: list[K | None] = [None] * (max(given, default=-1) + 1)
        for row, key in given.items():
            self._keys[row] = key
        self._rows = {key: row for row, key in given.items()}
        if min(given, default=0) < 0 or len(self._rows) < len(given):
            raise ValueError("A row or a key stands twice, or a row is negative.")
        self._free = [row for row, key in enumerate(self._keys) if key is None]

    def __len__(self) -> int:
        """Return how many keys there are."""
        return len(self._rows)

    def __iter__(self) -> Iterator[tuple[int, K]]:
        """Return rows in use and their keys, by row."""
        return ((row, key) for row, key in enumerate(self._keys) if key is not None)

    @property
    def end(self) -> int:
        """One more than the largest row that was ever in use."""
        return len(self._keys)

    def row(self, key: K) -> int | None:
        """Return the row of a key, None where it has none."""
        return self._rows.get(key)

    def key(self, row: int) -> K | None:
        """Return the key of a row, None of one that is not in use."""
        return self._keys[row] if row < len(self._keys) else None

    def add(self, key: K) -> int:
        """Give a new key the smallest free row and return it."""
        if self._free:
            row = heapq.heappop(self._free)
            self._keys[row] = key
        else:
            row = len(self._keys)
            self._keys.append(key)
        self._rows[key] = row
        return row

    def release(self, rows: Iterable[int]) -> None:
        """Let rows in use go."""
        for row in rows:
            key = self._keys[row]
            if key is not None:
                del self._rows[key]
                self._keys[row] = None
                heapq.heappush(self._free, row)

    def keys(self, first: int, last: int) -> list[K | None]:
        """Return the keys of the rows from `first` up to `last`, None of those that are not in use."""
        return self._keys[first:last]


# Numbers kept per row: what everything learned of many series or hosts at once has in common.


Rows = npt.NDArray[np.intp]
NEVER_MS: Final = -1  # the time of what did not happen yet


class Columns(Protocol):
    """Numbers of many rows, a row per series or per host. What a row becomes depends on what it was told, never on others.

    Rows are numbered by somebody else: a number is used again once its row was cleared.
    """

    def grow(self, rows: int) -> None:
        """Have at least so many rows; new ones are empty."""

    def clear(self, rows: Rows) -> None:
        """Let some rows (k,) start anew: they are then as new ones, to the bit."""

    def stored(self, first: int, last: int) -> bytes:
        """Return a copy of the rows from `first` up to `last`: plain numbers, as many bytes for every row."""

    def restore(self, first: int, last: int, stored: bytes) -> None:
        """Put rows back as `stored` gave them; they were grown before. ValueError where the bytes are of another form."""


class Kept(Columns, Protocol):
    """Columns that are kept through a restart: `name` begins the keys of their blocks, `version` numbers their form."""

    name: ClassVar[str]
    version: ClassVar[int]


class RowTable:
    """Rows of one form: a structured type, and what a new row is. Columns that are no more than that derive from it."""

    def __init__(self, dtype: np.dtype[Any], **start: npt.ArrayLike) -> None:
        """Start without a row; fields that `start` does not name begin with zeros."""
        self.dtype = dtype
        self._empty = np.zeros((), dtype)
        for name, value in start.items():
            self._empty[name] = value
        self._rows = np.zeros(0, dtype)

    def __len__(self) -> int:
        """Return how many rows there are."""
        return len(self._rows)

    def __getitem__(self, field: str) -> npt.NDArray[Any]:
        """Return a field of all rows (rows, ...): a view until the table grows."""
        return self._rows[field]

    def grow(self, rows: int) -> None:
        """Have at least so many rows; new ones are empty."""
        more = rows - len(self._rows)
        if more > 0:
            self._rows = np.concatenate([self._rows, np.full(more, self._empty)])

    def clear(self, rows: Rows) -> None:
        """Let some rows start anew."""
        self._rows[rows] = self._empty

    def stored(self, first: int, last: int) -> bytes:
        """Return a copy of some rows."""
        return self._rows[first:last].tobytes()

    def restore(self, first: int, last: int, stored: bytes) -> None:
        """Put rows back; ValueError where there are more or fewer bytes than these rows have."""
        if len(stored) != (last - first) * self.dtype.itemsize:
            raise ValueError(
                f"{last - first} rows have {(last - first) * self.dtype.itemsize} bytes, not {len(stored)}."
            )
        self._rows[first:last] = np.frombuffer(stored, self.dtype)


# Columns in which something stands several times, in rounds in which it stands once.


def rounds(numbers: npt.NDArray[np.integer]) -> Iterator[npt.NDArray[np.intp]]:
    """Yield places such that each round holds every number once, the first occurrence of each first; places rise."""
    if not len(numbers):
        return
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    turn = np.empty(len(numbers), np.intp)
    turn[order] = np.arange(len(numbers)) - np.repeat(first, np.diff(np.r_[first, len(numbers)]))
    for k in range(int(turn.max()) + 1):
        yield np.flatnonzero(turn == k)


BLOCK: Final = 256  # rows of series that are stored together; columns grow by whole blocks
HOST_BLOCK: Final = 32  # rows of hosts: one has what all its resources together have

Host = tuple[str, str]  # system and name
Series = tuple[int, str]  # row of the host and name of the resource


class Numbered(Generic[K]):
    """Rows of keys with columns that go along: each has room for every row, and forgets a row that is released."""

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
    """Hosts that measure something: system, name, and when the last minute began that was told of them."""

    name: ClassVar[str] = "host_rows"
    version: ClassVar[int] = 1
    block: ClassVar[int] = HOST_BLOCK

    def __init__(self) -> None:
        super().__init__(RowTable(np.dtype([("last_ms", "<i8")]), last_ms=NEVER_MS))


class SeriesRows(Numbered[Series]):
    """Resources of hosts: name, and when the last minutes began that were told and that were learned."""

    name: ClassVar[str] = "host_series"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        dtype = np.dtype([("last_ms", "<i8"), ("learned_ms", "<i8")])
        super().__init__(RowTable(dtype, last_ms=NEVER_MS, learned_ms=NEVER_MS))


class Roster:
    """Hosts and their resources, at most `series_max`."""

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
