"""Which hosts and which of their resources are followed, each with its row, and the columns that share these rows.

Rows are stored in blocks, one state of a checkpoint each, so that none is too large for a broker.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from processors.contracts.errors import ConfigError
from processors.contracts.telemetry import BY_LOAD, CPU_AVAILABLE, PEER

ROWS_MAX: Final = 4_000_000  # twice what a configuration may ask for
BLOCK: Final = 256  # rows of series that are stored together; columns grow by whole blocks
HOST_BLOCK: Final = 32  # rows of hosts: one has what all its resources together have
NEVER_MS: Final = -1  # the time of what did not happen yet
HEAL: Final = "run `scalewatch rebuild`: it lets what is learned of hosts begin anew."

Host = tuple[str, str]  # system and name
Series = tuple[int, str]  # row of the host and name of the resource
Rows = npt.NDArray[np.intp]
K = TypeVar("K")


class IdAllocator(Generic[K]):
    """Rows of keys, as `rows` has them. A key keeps its row until it is released; then the next new key may have it."""

    def __init__(self, keys: Iterable[tuple[int, K]] = ()) -> None:
        """Start with rows and their keys; ValueError where a row or a key stands twice or a row is negative."""
        given = dict(keys)
        self._keys: list[K | None] = [None] * (max(given, default=-1) + 1)
        for row, key in given.items():
            self._keys[row] = key
        self.rows = {key: row for row, key in given.items()}
        if min(given, default=0) < 0 or len(self.rows) < len(given):
            raise ValueError("A row or a key stands twice, or a row is negative.")
        self._free = [row for row, key in enumerate(self._keys) if key is None]

    def __len__(self) -> int:
        """Return how many keys there are."""
        return len(self.rows)

    def __iter__(self) -> Iterator[tuple[int, K]]:
        """Return rows in use and their keys, by row."""
        return ((row, key) for row, key in enumerate(self._keys) if key is not None)

    @property
    def end(self) -> int:
        """One more than the largest row that was ever in use."""
        return len(self._keys)

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
        self.rows[key] = row
        return row

    def release(self, rows: Iterable[int]) -> None:
        """Let rows in use go."""
        for row in rows:
            key = self._keys[row]
            if key is not None:
                del self.rows[key]
                self._keys[row] = None
                heapq.heappush(self._free, row)

    def keys(self, first: int, last: int) -> list[K | None]:
        """Return the keys of the rows from `first` up to `last`, None of those that are not in use."""
        return self._keys[first:last]


class StoredColumns(Protocol):
    """Numbers of many rows, a row per series or per host, that are kept through a restart.

    What a row becomes depends on what it was told, never on others. Rows are numbered by somebody else: a number is used
    again once its row was cleared. `name` begins the keys of their blocks, `version` numbers their form.
    """

    name: ClassVar[str]
    version: ClassVar[int]

    def grow(self, rows: int) -> None:
        """Have at least so many rows; new ones are empty."""

    def clear(self, rows: Rows) -> None:
        """Let some rows (k,) start anew: they are then as new ones, to the bit."""

    def stored(self, first: int, last: int) -> bytes:
        """Return a copy of the rows from `first` up to `last`: plain numbers, as many bytes for every row."""

    def restore(self, first: int, last: int, stored: bytes) -> None:
        """Put rows back as `stored` gave them; they were grown before. ValueError where the bytes are of another form."""


C = TypeVar("C", bound=StoredColumns)


class RowTable:
    """Rows of one form: a structured type, and what a new row is. Columns that are no more than that derive from it.

    `rows` (rows,) is a new array whenever the table grows: a field of it is a view until then.
    """

    def __init__(self, dtype: np.dtype[Any], **start: npt.ArrayLike) -> None:
        """Start without a row; fields that `start` does not name begin with zeros."""
        self.dtype = dtype
        self._empty = np.zeros((), dtype)
        for name, value in start.items():
            self._empty[name] = value
        self.rows = np.zeros(0, dtype)

    def grow(self, rows: int) -> None:
        """Have at least so many rows; new ones are empty."""
        more = rows - len(self.rows)
        if more > 0:
            self.rows = np.concatenate([self.rows, np.full(more, self._empty)])

    def clear(self, rows: Rows) -> None:
        """Let some rows start anew."""
        self.rows[rows] = self._empty

    def stored(self, first: int, last: int) -> bytes:
        """Return a copy of some rows."""
        return self.rows[first:last].tobytes()

    def restore(self, first: int, last: int, stored: bytes) -> None:
        """Put rows back; ValueError where there are more or fewer bytes than these rows have."""
        if len(stored) != (last - first) * self.dtype.itemsize:
            raise ValueError(
                f"{last - first} rows have {(last - first) * self.dtype.itemsize} bytes, not {len(stored)}."
            )
        self.rows[first:last] = np.frombuffer(stored, self.dtype)


class KeyedRows(RowTable, Generic[K]):
    """Rows of keys with columns that go along: each has room for every row, and forgets a row that is released."""

    name: ClassVar[str]
    version: ClassVar[int]
    block: ClassVar[int] = BLOCK

    def __init__(self, *times: str) -> None:
        """Start without a row; each has these times."""
        super().__init__(np.dtype([(name, "<i8") for name in times]), **dict.fromkeys(times, NEVER_MS))
        self.ids: IdAllocator[K] = IdAllocator()
        self.columns: list[StoredColumns] = []
        self._on_clear: list[Callable[[Rows], None]] = []

    def join(self, columns: C) -> C:
        """Let columns go along from now on, and return them."""
        if self.rows.size:
            columns.grow(self.rows.size)
        self.columns.append(columns)
        return columns

    def on_clear(self, clear: Callable[[Rows], None]) -> None:
        """Have `clear` called with rows that are released: for what is kept by row and is no column."""
        self._on_clear.append(clear)

    def add(self, key: K) -> int:
        """Give a new key a row."""
        row = self.ids.add(key)
        self.grow(row + 1)
        return row

    def fill(self, keys: Iterable[tuple[int, K]]) -> None:
        """Begin with these rows; ValueError where a row or a key stands twice."""
        self.ids = IdAllocator(keys)
        self.grow(self.ids.end)

    def release(self, rows: Rows) -> None:
        """Let rows go."""
        if not rows.size:
            return
        self.ids.release(rows.tolist())
        for columns in (self, *self.columns):
            columns.clear(rows)
        for clear in self._on_clear:
            clear(rows)

    def grow(self, rows: int) -> None:
        """Have room for at least so many rows."""
        if rows > len(self.rows):
            room = -(-rows * 5 // (4 * BLOCK)) * BLOCK  # in growing steps, for each one copies all rows
            super().grow(room)
            for columns in self.columns:
                columns.grow(room)


class HostRows(KeyedRows[Host]):
    """Hosts that measure something: system, name, and when the last minute began that was reported them."""

    name: ClassVar[str] = "host_rows"
    version: ClassVar[int] = 1
    block: ClassVar[int] = HOST_BLOCK

    def __init__(self) -> None:
        super().__init__("last_ms")


class SeriesRows(KeyedRows[Series]):
    """Resources of hosts: name, and when the last minutes began that were told and that were learned."""

    name: ClassVar[str] = "host_series"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        super().__init__("last_ms", "learned_ms")


class Block(msgspec.Struct, frozen=True, omit_defaults=True):
    """Stored form of some rows: their numbers as plain little-endian bytes, and of keyed rows the names.

    A name is the row, the host's system or the row of the host, and the host or the resource.
    """

    version: int
    data: bytes
    names: list[tuple[int, str | int, str]] = []


class BlockCopy(NamedTuple):
    """Some rows as they are now: what is encoded later, in any thread, because that takes longer."""

    version: int
    data: bytes
    first: int
    keys: Sequence[tuple[str | int, str] | None]

    def encoded(self) -> bytes:
        """Return the stored form as JSON."""
        names = [(row, *key) for row, key in enumerate(self.keys, self.first) if key is not None]
        return msgspec.json.encode(Block(self.version, self.data, names))


def decoded(states: Mapping[str, bytes], versions: Mapping[str, int]) -> dict[str, Block]:
    """Return the blocks of the kinds and versions that are known; ConfigError where they are damaged or of a newer agent."""
    found: dict[str, Block] = {}
    for key, value in states.items():
        version, block = versions[key.partition("/")[0]], _decoded(key, value)
        if block.version > version:
            raise ConfigError(
                f"The stored state {key} was written by a newer agent, in version {block.version} where this one knows "
                f"{version}: start that agent again, or {HEAL}"
            )
        if block.version == version:
            found[key] = block
    return found


def _decoded(key: str, value: bytes) -> Block:
    try:
        return msgspec.json.decode(value, type=Block)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"The stored state {key} is damaged ({error}): {HEAL}") from error


class RowIndex:
    """Hosts and their resources, at most `series_max`."""

    def __init__(self, series_max: int) -> None:
        self.hosts, self.series = HostRows(), SeriesRows()
        self._series_max = series_max
        self._resources: dict[int, dict[str, int]] = {}
        self._measured: Counter[str] = Counter()  # resources without what follows a PEER: of how many rows each is

    def fill(self, hosts: Iterable[tuple[int, Host]], series: Iterable[tuple[int, Series]]) -> None:
        """Begin with these hosts and resources; ValueError where they do not fit each other."""
        self.hosts.fill(hosts)
        self.series.fill(series)
        self._resources = {row: {} for row, _ in self.hosts.ids}
        for row, (host, resource) in self.series.ids:
            if host not in self._resources:
                raise ValueError(f"resource {resource} is of host {host}, which is none")
            self._resources[host][resource] = row
        self._measured = Counter(_plain(resource) for _, (_, resource) in self.series.ids)

    def host(self, system: str, name: str) -> int | None:
        """Return the row of a host; None of one that is not known."""
        return self.hosts.ids.rows.get((system, name))

    def resources(self, host: int) -> dict[str, int]:
        """Return the rows of a host's resources by their names, in the order of those."""
        return dict(sorted(self._resources.get(host, {}).items()))

    def row(self, system: str, name: str, resource: str) -> int | None:
        """Return the row of a resource of a host; None of one that is not known."""
        host = self.host(system, name)
        return None if host is None else self._resources[host].get(resource)

    def is_measured(self, resource: str) -> bool:
        """Return whether any host measures a resource, be it towards others alone."""
        return self._measured[resource] > 0

    def rows_towards(self, system: str, name: str, resource: str) -> list[int]:
        """Return the rows of what a host measures of a resource towards others, in the order of these."""
        host = self.host(system, name)
        if host is None:
            return []
        return [row for each, row in sorted(self._resources[host].items()) if each.startswith(resource + PEER)]

    def enter(self, system: str, name: str, resource: str, minute_ms: int) -> tuple[int, int] | None:
        """Return the rows of a resource and its host, new ones where they need some; None where there are too many.

        `minute_ms` is when the minute begins that was reported it.
        """
        host = self.hosts.ids.rows.get((system, name))
        row = None if host is None else self._resources[host].get(resource)
        if host is None or row is None:
            if len(self.series.ids.rows) >= self._series_max:
                return None
            if host is None:
                host = self.hosts.add((system, name))
                self._resources[host] = {}
            row = self._resources[host][resource] = self.series.add((host, resource))
            self._measured[_plain(resource)] += 1
        for rows, place in ((self.series.rows, row), (self.hosts.rows, host)):
            last_ms = rows["last_ms"]
            last_ms[place] = max(last_ms[place], minute_ms)
        return row, host

    def forget_before(self, minute_ms: int) -> int:
        """Forget resources whose last minute began before, and hosts without one; return how many hosts they were."""
        last_ms = self.series.rows["last_ms"]
        rows = np.flatnonzero((last_ms != NEVER_MS) & (last_ms < minute_ms))
        for row in rows.tolist():
            key = self.series.ids.key(row)
            if key is not None:
                del self._resources[key[0]][key[1]]
                self._measured[_plain(key[1])] -= 1
        self.series.release(rows)
        hosts = np.array([host for host, found in self._resources.items() if not found], dtype=np.intp)
        for host in hosts.tolist():
            del self._resources[host]
        self.hosts.release(hosts)
        return len(hosts)

    def retained(self) -> tuple[StoredColumns, ...]:
        """Return all kinds of rows and columns."""
        return (self.hosts, self.series, *self.series.columns, *self.hosts.columns)

    def sizes(self) -> dict[str, int]:
        """Return the number of rows in use by kind."""
        return {
            retained.name: len(each.ids) for each in (self.hosts, self.series) for retained in (each, *each.columns)
        }

    def copied(self) -> Iterator[tuple[str, BlockCopy]]:
        """Yield a copy of each block that has a row in use, with its key; nothing may change meanwhile."""
        for keyed in (self.hosts, self.series):
            for first in range(0, keyed.ids.end, keyed.block):
                last, number = first + keyed.block, first // keyed.block
                keys = keyed.ids.keys(first, last)
                if keys.count(None) == len(keys):
                    continue
                for retained in (keyed, *keyed.columns):
                    names = keys if retained is keyed else ()
                    stored = retained.stored(first, last)
                    yield f"{retained.name}/{number}", BlockCopy(retained.version, stored, first, names)

    def restore(self, states: Mapping[str, bytes]) -> None:
        """Put blocks back, given by their keys; ConfigError where they are damaged or of a newer agent.

        Columns of which an older version is stored, or nothing, begin anew. Where the ids do, everything does.
        """
        blocks = decoded(states, {retained.name: retained.version for retained in self.retained()})
        try:
            self.fill(
                [(row, (str(system), name)) for row, system, name in _names(self.hosts, blocks)],
                [(row, (int(host), resource)) for row, host, resource in _names(self.series, blocks)],
            )
            for keyed in (self.hosts, self.series):
                _fill(keyed, blocks)
        except ValueError as error:
            raise ConfigError(f"The stored states of hosts are damaged ({error}): {HEAL}") from error


def _plain(resource: str) -> str:
    return resource.partition(PEER)[0]


def _names(keyed: KeyedRows[Any], blocks: Mapping[str, Block]) -> Iterator[tuple[int, str | int, str]]:
    for key, block in blocks.items():
        kind, _, number = key.partition("/")
        if kind != keyed.name:
            continue
        for name in block.names:
            if name[0] // keyed.block != int(number) or not 0 <= name[0] < ROWS_MAX:
                raise ValueError(f"row {name[0]} stands in {key}")
            yield name


def _fill(keyed: KeyedRows[Any], blocks: Mapping[str, Block]) -> None:
    for number in sorted({row // keyed.block for row, _ in keyed.ids}):
        for columns in (keyed, *keyed.columns):
            block = blocks.get(f"{columns.name}/{number}")
            if block is not None:
                columns.restore(number * keyed.block, (number + 1) * keyed.block, block.data)


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


SILENT_MS: Final = 600_000  # so long after the last measured share an estimate counts again


class MeasuredProcessors(RowTable):
    """When the minute began in which the idle share of a host was measured last; a row is a host."""

    name: ClassVar[str] = "host_measured_processors"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        super().__init__(np.dtype([("measured_ms", "<i8")]), measured_ms=NEVER_MS)

    def note(self, host: int, resource: str, minute_ms: int) -> None:
        """Note what a host reported of a minute."""
        if resource == CPU_AVAILABLE:
            measured_ms = self.rows["measured_ms"]
            measured_ms[host] = max(measured_ms[host], minute_ms)

    def known(self, host: int, minute_ms: int) -> bool:
        """Return whether the share was measured about a minute, so that an estimate of it says nothing."""
        measured_ms = int(self.rows["measured_ms"][host])
        return measured_ms != NEVER_MS and minute_ms - measured_ms < SILENT_MS


def entered_as(resource: str) -> str:
    """Return the resource that something reported of a host is: of an estimate what it is an estimate of."""
    return CPU_AVAILABLE if resource == BY_LOAD else resource
