"""Rows of the tracked hosts and of their resources, and the columns that share these rows.

Rows are stored in blocks, one block per state of a checkpoint, so that no state is too large for a broker.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from processors.contracts.errors import ConfigError
from processors.contracts.telemetry import BY_LOAD, CPU_AVAILABLE, PEER, is_cumulative, is_profiled
from processors.models.numerics.arrays import ranks

ROWS_MAX: Final = 4_000_000  # twice the largest configurable number
BLOCK: Final = 256  # rows of series in one stored block; columns grow by whole blocks
HOST_BLOCK: Final = 32  # rows of hosts in one block; the state of a host is as large as that of all its resources
ENTERED_MAX: Final = 4  # cached lists of resources per host, because each source of a host reports other resources
NEVER_MS: Final = -1  # the time of an event that has not happened
HEAL: Final = "run `scalewatch rebuild`: it lets what is learned of hosts begin anew."

Host = tuple[str, str]  # system and name
Series = tuple[int, str]  # row of the host and name of the resource
Rows = npt.NDArray[np.intp]
K = TypeVar("K")


class IdAllocator(Generic[K]):
    """Assigns a row number to each key. A key keeps its row until the key is released; then a new key may get the row."""

    def __init__(self, keys: Iterable[tuple[int, K]] = ()) -> None:
        """Start with the rows and keys in `keys`. Raise ValueError if a row or a key occurs twice or a row is negative."""
        key_by_row = dict(keys)
        self._keys: list[K | None] = [None] * (max(key_by_row, default=-1) + 1)
        for row, key in key_by_row.items():
            self._keys[row] = key
        self.rows = {key: row for row, key in key_by_row.items()}
        if min(key_by_row, default=0) < 0 or len(self.rows) < len(key_by_row):
            raise ValueError("A row or a key stands twice, or a row is negative.")
        self._free = [row for row, key in enumerate(self._keys) if key is None]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[tuple[int, K]]:
        """Yield each used row with its key, ascending by row."""
        return ((row, key) for row, key in enumerate(self._keys) if key is not None)

    @property
    def end(self) -> int:
        """The largest row ever used, plus one."""
        return len(self._keys)

    def key(self, row: int) -> K | None:
        """Return the key of a row; None for an unused row."""
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
        for row in rows:
            key = self._keys[row]
            if key is not None:
                del self.rows[key]
                self._keys[row] = None
                heapq.heappush(self._free, row)

    def keys(self, first: int, last: int) -> list[K | None]:
        """Return the keys of the rows from `first` to `last`, exclusive; None for unused rows."""
        return self._keys[first:last]


class StoredColumns(Protocol):
    """Columns that survive a restart; each row describes one series or one host.

    A row must depend only on the data of its own series or host. `KeyedRows` assigns the row numbers, and assigns a number again
    after its row was cleared. `name` is the prefix of the keys of stored blocks, `version` the version of the stored form.
    """

    name: ClassVar[str]
    version: ClassVar[int]

    def grow(self, rows: int) -> None:
        """Grow to at least `rows` rows; new rows are empty."""

    def clear(self, rows: Rows) -> None:
        """Reset rows (k,) to exactly the state of new rows."""

    def stored(self, first: int, last: int) -> bytes:
        """Return a copy of the rows from `first` to `last`, exclusive, as plain numbers."""

    def restore(self, first: int, last: int, stored: bytes) -> None:
        """Restore rows from `stored` after `grow`; raise ValueError if the bytes do not have the stored form."""


C = TypeVar("C", bound=StoredColumns)


class RowTable:
    """A growing table of rows with a structured dtype and initial values. Simple kinds of columns derive from this class.

    `rows` (rows,) is a new array whenever the table grows, so a view of a field is valid only until then.
    """

    def __init__(self, dtype: np.dtype[Any], **start: npt.ArrayLike) -> None:
        """Start without rows; `start` holds the initial values of fields, zero for all other fields."""
        self.dtype = dtype
        self._empty = np.zeros((), dtype)
        for name, value in start.items():
            self._empty[name] = value
        self.rows = np.zeros(0, dtype)

    def grow(self, rows: int) -> None:
        more = rows - len(self.rows)
        if more > 0:
            self.rows = np.concatenate([self.rows, np.full(more, self._empty)])

    def clear(self, rows: Rows) -> None:
        self.rows[rows] = self._empty

    def stored(self, first: int, last: int) -> bytes:
        return self.rows[first:last].tobytes()

    def restore(self, first: int, last: int, stored: bytes) -> None:
        """Restore rows; raise ValueError if `stored` has another number of bytes than these rows."""
        if len(stored) != (last - first) * self.dtype.itemsize:
            raise ValueError(
                f"{last - first} rows have {(last - first) * self.dtype.itemsize} bytes, not {len(stored)}."
            )
        self.rows[first:last] = np.frombuffer(stored, self.dtype)


class KeyedRows(RowTable, Generic[K]):
    """Assigns a row to each key, and keeps the joined columns in step: they grow with these rows and clear released rows."""

    name: ClassVar[str]
    version: ClassVar[int]
    times: ClassVar[tuple[str, ...]]
    block: ClassVar[int] = BLOCK

    def __init__(self) -> None:
        super().__init__(np.dtype([(name, "<i8") for name in self.times]), **dict.fromkeys(self.times, NEVER_MS))
        self.ids: IdAllocator[K] = IdAllocator()
        self.columns: list[StoredColumns] = []
        self._on_clear: list[Callable[[Rows], None]] = []

    def join(self, columns: C) -> C:
        """Make `columns` grow and clear together with these rows from now on; return `columns`."""
        if self.rows.size:
            columns.grow(self.rows.size)
        self.columns.append(columns)
        return columns

    def on_clear(self, clear: Callable[[Rows], None]) -> None:
        """Register `clear`, which is then called with all rows that are released; for data by row outside the joined columns."""
        self._on_clear.append(clear)

    def add(self, key: K) -> int:
        row = self.ids.add(key)
        self.grow(row + 1)
        return row

    def fill(self, keys: Iterable[tuple[int, K]]) -> None:
        """Start with the rows and keys in `keys`; raise ValueError if a row or a key occurs twice."""
        self.ids = IdAllocator(keys)
        self.grow(self.ids.end)

    def release(self, rows: Rows) -> None:
        if not rows.size:
            return
        self.ids.release(rows.tolist())
        for columns in (self, *self.columns):
            columns.clear(rows)
        for clear in self._on_clear:
            clear(rows)

    def grow(self, rows: int) -> None:
        if rows > len(self.rows):
            room = -(-rows * 5 // (4 * BLOCK)) * BLOCK  # grows by a quarter, because each growth copies all rows
            super().grow(room)
            for columns in self.columns:
                columns.grow(room)


class HostRows(KeyedRows[Host]):
    """Hosts by system and name, with the start of their last reported minute."""

    name: ClassVar[str] = "host_rows"
    version: ClassVar[int] = 1
    times: ClassVar[tuple[str, ...]] = ("last_ms",)
    block: ClassVar[int] = HOST_BLOCK


class SeriesRows(KeyedRows[Series]):
    """Resources by host and name, with the starts of their last reported and last learned minutes."""

    name: ClassVar[str] = "host_series"
    version: ClassVar[int] = 1
    times: ClassVar[tuple[str, ...]] = ("last_ms", "learned_ms")


class Block(msgspec.Struct, frozen=True, omit_defaults=True):
    """Stored form of some rows: `data` are little-endian numbers, `names` the keys of the rows (only for keyed rows).

    An entry of `names` is row, system and host name for a host; row, row of the host and resource name for a resource.
    """

    version: int
    data: bytes
    names: list[tuple[int, str | int, str]] = []


class BlockCopy(NamedTuple):
    """A copy of some rows that any thread can encode later, because encoding takes longer than copying."""

    version: int
    data: bytes
    first: int
    keys: Sequence[tuple[str | int, str] | None]

    def encoded(self) -> bytes:
        """Return the stored form as JSON."""
        names = [(row, *key) for row, key in enumerate(self.keys, self.first) if key is not None]
        return msgspec.json.encode(Block(self.version, self.data, names))


def decoded(states: Mapping[str, bytes], versions: Mapping[str, int]) -> dict[str, Block]:
    """Return the blocks of known kinds and versions. Raise ConfigError if a block is damaged or written by a newer agent."""
    blocks: dict[str, Block] = {}
    for key, value in states.items():
        version, block = versions[key.partition("/")[0]], _decoded(key, value)
        if block.version > version:
            raise ConfigError(
                f"The stored state {key} was written by a newer agent, in version {block.version} where this one knows "
                f"{version}: start that agent again, or {HEAL}"
            )
        if block.version == version:
            blocks[key] = block
    return blocks


def _decoded(key: str, value: bytes) -> Block:
    try:
        return msgspec.json.decode(value, type=Block)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"The stored state {key} is damaged ({error}): {HEAL}") from error


class EnteredHost(NamedTuple):
    """The rows of a host (-1 for none) and of its reported `resources` (k,); `refused` counts the resources without a row."""

    host: int
    resources: tuple[str, ...]
    row: Rows
    refused: int


class RowIndex:
    """Hosts and their resources, at most `series_max` resources in all."""

    def __init__(self, series_max: int) -> None:
        self.hosts, self.series = HostRows(), SeriesRows()
        self._series_max = series_max
        self._resources: dict[int, dict[str, int]] = {}
        self._entered: dict[tuple[str, str, tuple[str, ...]], EnteredHost] = {}
        self._measured: Counter[str] = Counter()  # number of rows of each resource, counted over all destinations
        # by row of `series`; cumulative resources have no lines and no detectors
        self.cumulative = np.zeros(0, np.bool_)

    def fill(self, hosts: Iterable[tuple[int, Host]], series: Iterable[tuple[int, Series]]) -> None:
        """Start with the given rows of hosts and series. Raise ValueError if the host of a series is not in `hosts`."""
        self._entered.clear()
        self.hosts.fill(hosts)
        self.series.fill(series)
        self._resources = {row: {} for row, _ in self.hosts.ids}
        self.cumulative = np.zeros(len(self.series.rows), np.bool_)
        for row, (host, resource) in self.series.ids:
            if host not in self._resources:
                raise ValueError(f"resource {resource} is of host {host}, which is none")
            self._resources[host][resource], self.cumulative[row] = row, is_cumulative(resource)
        self._measured = Counter(_plain(resource) for _, (_, resource) in self.series.ids)

    def host(self, system: str, name: str) -> int | None:
        """Return the row of a host; None for an unknown host."""
        return self.hosts.ids.rows.get((system, name))

    def resources(self, host: int) -> dict[str, int]:
        """Return the rows of a host's resources, sorted by name."""
        return dict(sorted(self._resources.get(host, {}).items()))

    def row(self, system: str, name: str, resource: str) -> int | None:
        """Return the row of a resource of a host; None for an unknown resource."""
        host = self.host(system, name)
        return None if host is None else self._resources[host].get(resource)

    def is_measured(self, resource: str) -> bool:
        """Return whether any host reports the resource, as a whole or per destination (for example per network target)."""
        return self._measured[resource] > 0

    def rows_towards(self, system: str, name: str, resource: str) -> list[int]:
        """Return the rows of the resource for its single destinations (for example network targets), sorted by destination."""
        host = self.host(system, name)
        if host is None:
            return []
        return [row for each, row in sorted(self._resources[host].items()) if each.startswith(resource + PEER)]

    def enter(self, system: str, name: str, resource: str, minute_ms: int) -> tuple[int, int] | None:
        """Return the rows of a resource and its host, adding missing rows; None if there are too many resources.

        `minute_ms` is the start of the reported minute.
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
            if row >= len(self.cumulative):
                self.cumulative.resize(len(self.series.rows), refcheck=False)
            self.cumulative[row] = is_cumulative(resource)
        for rows, place in ((self.series.rows, row), (self.hosts.rows, host)):
            last_ms = rows["last_ms"]
            last_ms[place] = max(last_ms[place], minute_ms)
        return row, host

    def enter_all(self, system: str, name: str, resources: tuple[str, ...], minute_ms: int) -> EnteredHost:
        """Do `enter` for all resources of a host, except those that only profiles use; an estimate gets the row of its resource.

        A host reports the same resources every minute, so the rows are cached.
        """
        key = system, name, resources
        if (entered := self._entered.get(key)) is None:
            learned = [each for each in resources if not is_profiled(each)]
            rows, host = dict[str, int](), -1
            for each in learned:
                place = self.enter(system, name, CPU_AVAILABLE if each == BY_LOAD else each, minute_ms)
                if place is not None:
                    rows[each], host = place
            entered = EnteredHost(host, tuple(rows), np.array([*rows.values()], np.intp), len(learned) - len(rows))
            if len(self._entered) >= ENTERED_MAX * len(self.hosts.ids):
                self._entered.clear()
            self._entered[key] = entered
        elif entered.resources:
            for keyed, target in ((self.series, entered.row), (self.hosts, entered.host)):
                last_ms = keyed.rows["last_ms"]
                last_ms[target] = np.maximum(last_ms[target], minute_ms)
        return entered

    def forget_before(self, minute_ms: int) -> int:
        """Forget resources without a minute since `minute_ms`, and hosts without resources; return the number of forgotten hosts."""
        last_ms = self.series.rows["last_ms"]
        rows = np.flatnonzero((last_ms != NEVER_MS) & (last_ms < minute_ms))
        if rows.size:
            self._entered.clear()
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
        """Return the number of used rows by kind."""
        return {
            retained.name: len(each.ids) for each in (self.hosts, self.series) for retained in (each, *each.columns)
        }

    def copied(self) -> Iterator[tuple[str, BlockCopy]]:
        """Yield the key and a copy of each block that has a used row. The rows must not change before the iterator is exhausted."""
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
        """Restore blocks by key. Raise ConfigError if blocks are damaged or written by a newer agent.

        Columns without a stored block of the present version start empty. If the ids start empty, all columns do.
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


def discard(index: dict[K, dict[str, Any]], key: K, member: str) -> None:
    """Remove a member from the members of a key, and the key with its last member."""
    members = index.get(key, {})
    members.pop(member, None)
    if not members:
        index.pop(key, None)


def rounds(numbers: npt.NDArray[np.integer]) -> Iterator[npt.NDArray[np.intp]]:
    """Yield rounds of ascending indexes into `numbers`: the first occurrence of each number, then the second occurrences, and so on."""
    if not len(numbers):
        return
    order = np.argsort(numbers, kind="stable")
    turn = np.empty(len(numbers), np.intp)
    turn[order] = ranks(numbers[order])
    for k in range(int(turn.max()) + 1):
        yield np.flatnonzero(turn == k)


SILENT_MS: Final = 600_000  # after the last measured idle share, estimates are ignored for this time


class MeasuredProcessors(RowTable):
    """By host (a row is a host), the start of the last minute in which the idle share of its processors was measured."""

    name: ClassVar[str] = "host_measured_processors"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        super().__init__(np.dtype([("measured_ms", "<i8")]), measured_ms=NEVER_MS)

    def note(self, host: int, minute_ms: int) -> None:
        measured_ms = self.rows["measured_ms"]
        measured_ms[host] = max(measured_ms[host], minute_ms)

    def known(self, host: int, minute_ms: int) -> bool:
        """Return whether the host reported a measured idle share after `minute_ms` or less than SILENT_MS before; no estimate is needed then."""
        measured_ms = int(self.rows["measured_ms"][host])
        return measured_ms != NEVER_MS and minute_ms - measured_ms < SILENT_MS
