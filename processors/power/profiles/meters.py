"""The meters of hosts that profiles are made of: their quantities, their rows, and from reported minutes to readings."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from functools import lru_cache, partial
from math import inf, nan
from typing import ClassVar, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from processors.contracts.events import HostMinute, ResourceMinute
from processors.contracts.telemetry import (
    COMPONENTS,
    COUNTER_DELTA,
    COUNTER_LEVEL,
    COUNTER_RATE,
    COUNTER_TOTAL,
    ENERGY_TOTAL,
    JOB,
    NIC_TOTAL,
    POWER_W,
    named,
)
from processors.hosts.rows import NEVER_MS, HostRows, RowIndex, Rows, RowTable, SeriesRows
from processors.models.features.communication_counters import busiest_of
from processors.store import digest64
from processors.windows.settings import MINUTE_MS

NAMES_MAX: Final = 2048
NO_NUMBER: Final = -1  # of a quantity of which there are too many


class QuantityNames:
    """Numbers of quantities, at most NAMES_MAX; the smallest free one first.

    What is summed is kept by number, for there are many sums and few names.
    """

    def __init__(self, names: Sequence[str | None] = ()) -> None:
        """Begin with these names by number, None of a number that is free; ValueError where one stands twice."""
        self.restore(names)

    def restore(self, names: Sequence[str | None]) -> None:
        """Begin anew with these names."""
        if len(names) > NAMES_MAX or len(set(names) - {None}) < len(names) - list(names).count(None):
            raise ValueError("A quantity stands twice, or there are too many.")
        self.all = list(names)
        self.numbers = {name: number for number, name in enumerate(self.all) if name is not None}

    def __len__(self) -> int:
        """Return how many have a number."""
        return len(self.numbers)

    def number(self, name: str) -> int:
        """Return the number of a name; NO_NUMBER where it has none."""
        return self.numbers.get(name, NO_NUMBER)

    def of(self, number: int) -> str:
        """Return the name of a number, "" of one that is free."""
        return self.all[number] or ""

    def add(self, name: str) -> int | None:
        """Return the number of a name, a new one where it has none; None where there are too many."""
        if name in self.numbers:
            return self.numbers[name]
        if len(self.numbers) >= NAMES_MAX:
            return None
        number = self.all.index(None) if len(self.numbers) < len(self.all) else len(self.all)
        self.all[number : number + 1] = [name]
        self.numbers[name] = number
        return number

    def keep(self, numbers: Iterable[int]) -> None:
        """Let all names go but those of these numbers."""
        retained = set(numbers)
        self.all = [name if number in retained else None for number, name in enumerate(self.all)]
        while self.all and self.all[-1] is None:
            self.all.pop()
        self.numbers = {name: number for number, name in enumerate(self.all) if name is not None}


COUNTER: Final = "counter/"
NIC: Final = "nic/"
BUSIEST: Final = "busiest/"
POWER: Final = "power/"
ENERGY: Final = "energy/"
ESTIMATED: Final = "estimated/"
LEFT_OUT: Final = "left_out/"
COVERED: Final = "covered"
SHARED: Final = "shared"
SPLIT: Final = "split"
REASONS: Final = ("missing", "negative", "zero", "excessive", "reset", "doubtful", "part")
ALWAYS: Final = (COVERED, JOB + COVERED, SHARED, *(LEFT_OUT + reason for reason in REASONS))
"""How names of quantities begin, or whole ones: minutes that are told, and minutes with another job. Why readings
are left out. BUSIEST begins what the adapter did that did most. ALWAYS are the quantities that every run may have. SPLIT is what a run gets of the power of hosts that it shares."""

NAME_CHARACTERS_MAX: Final = 96


class ReadingKind(IntEnum):
    """How a resource is read."""

    DELTA = 0  # what it grew in each sample
    TOTAL = 1  # a count since some start
    ENERGY = 2  # joules since some start, within a range
    MEMORY_ENERGY = 3  # the same of memory
    POWER = 4  # watts
    GPU_POWER = 5  # watts of what may be off
    RATE = 6  # what a producer made a rate per second of; parts add up
    LEVEL = 7  # a ratio, a frequency or an amount: the mean over parts counts


class Quantity(NamedTuple):
    """What a resource is: `name` is what it adds to, `own` the mark of the job whose it is, else "", `part` of a host or all.

    A counter of an `adapter` also adds to what that did of `busiest`, as so many of its units as `factor` says.
    """

    kind: ReadingKind
    name: str
    part: bool
    own: str = ""
    adapter: str = ""
    busiest: str = ""
    factor: float = 1.0


_COUNTERS: Final = {
    COUNTER_DELTA: ReadingKind.DELTA,
    COUNTER_TOTAL: ReadingKind.TOTAL,
    COUNTER_RATE: ReadingKind.RATE,
    COUNTER_LEVEL: ReadingKind.LEVEL,
}
_POWERS: Final = {"gpu": ReadingKind.GPU_POWER}
_ENERGIES: Final = {"memory": ReadingKind.MEMORY_ENERGY}


@lru_cache(maxsize=8192)
def quantity(name: str) -> Quantity | None:
    """Return what a resource is to a profile, by its name; None where it is nothing.

    What is of one part of a host adds to the same quantity as its other parts. What is of one job is a quantity of its own,
    for the host may tell the same of all its jobs together.
    """
    resource, peer, job = named(name)
    found = _read(resource, peer)
    if found is None or len(found.name) > NAME_CHARACTERS_MAX:
        return None
    return (
        Quantity(found.kind, JOB + found.name, found.part, JOB + job) if job else found
    )  # no job has an adapter alone


def _read(resource: str, peer: str) -> Quantity | None:
    whole, colon, part = peer.rpartition(":")
    if resource in _COUNTERS and peer:
        is_part = bool(colon) and part.isdigit()
        return Quantity(_COUNTERS[resource], COUNTER + (whole if is_part else peer), is_part)
    if resource == NIC_TOTAL and part:
        found = busiest_of(part)
        of_adapter = ("", "", 1.0) if found is None else (whole, BUSIEST + found[0], found[1])
        return Quantity(ReadingKind.TOTAL, NIC + part, bool(whole), "", *of_adapter)
    component, colon, _ = peer.partition(":")
    component = component or COMPONENTS[0]
    if component not in COMPONENTS:
        return None
    if resource == POWER_W:
        return Quantity(_POWERS.get(component, ReadingKind.POWER), POWER + component, bool(colon))
    if resource == ENERGY_TOTAL:
        return Quantity(_ENERGIES.get(component, ReadingKind.ENERGY), ENERGY + component, bool(colon))
    return None


T = TypeVar("T", bound=np.generic)


class MeterHosts(HostRows):
    """Hosts of which something is followed. The hosts that one job alone reports have its mark: ``nid1#812``."""

    name: ClassVar[str] = "profile_hosts"


class HostMeters(SeriesRows):
    """Resources of hosts; `learned_ms` is when the last minute began that was closed with a value."""

    name: ClassVar[str] = "profile_meters"


MINUTES_MAX: Final = 10_000
MINUTES_UNSURE: Final = 2.0  # of a level, of which nothing is known at first
LEVEL_RATE: Final = 0.02  # how quickly a level is forgotten
LEVEL_STEP: Final = 0.2  # one minute moves a level as if it had been off by at most this, in ln
LEVEL_MAX: Final = 0.5  # beyond it is no level but a wrong sensor


class LastReadings(RowTable):
    """What each resource told last: its value, where it is a count since some start, and how many minutes it took."""

    name: ClassVar[str] = "profile_last_values"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        super().__init__(np.dtype([("last", "<f8"), ("reach", "<i4")]), last=np.nan)


class Covered(RowTable):
    """Up to when each host has told something."""

    name: ClassVar[str] = "profile_covered"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        super().__init__(np.dtype([("until_ms", "<i8")]), until_ms=NEVER_MS)


class PowerLevels(RowTable):
    """What each host draws beyond what its counters let expect of one of its kind: the ln of that by component, and of how many minutes."""

    name: ClassVar[str] = "profile_power_levels"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        super().__init__(np.dtype([("ln", "<f4", (len(COMPONENTS),)), ("minutes", "<i4", (len(COMPONENTS),))]))

    def learn(self, hosts: npt.NDArray[np.int64], component: int, ln_off: npt.NDArray[np.float64]) -> None:
        """Take in how far off hosts (k,) were in ln beyond their level, each once."""
        minutes, ln = self.rows["minutes"], self.rows["ln"]
        count = np.minimum(minutes[hosts, component] + 1, MINUTES_MAX)
        rate = np.maximum(1.0 / (count + MINUTES_UNSURE), LEVEL_RATE)
        moved = ln[hosts, component] + rate * np.clip(ln_off, -LEVEL_STEP, LEVEL_STEP)
        ln[hosts, component] = np.clip(moved, -LEVEL_MAX, LEVEL_MAX)
        minutes[hosts, component] = count

    def of(self, hosts: npt.NDArray[np.int64], component: int) -> npt.NDArray[np.float64]:
        """Return the level in ln of hosts (k,) of one kind against the mean of those whose level is known, 0 where it is not."""
        ln = self.rows["ln"][hosts, component].astype(np.float64)
        known = self.rows["minutes"][hosts, component] > 0
        return np.where(known, ln - (ln[known].mean() if known.any() else 0.0), 0.0)


class MeterIndex(RowIndex):
    """Rows of hosts and resources, and what follows from the names of those.

    `kind_of`, `host_of`, `quantity_of` and `part_of`, whether it is of one part of the host, are (rows,) each. So are `adapter_of`,
    the number of an adapter's name, `busiest_of`, the number of the quantity that what it did adds to (-1: none), and `factor_of`.
    `version` changes with every host that comes or goes.
    """

    def __init__(self, meters_max: int, names: QuantityNames) -> None:
        super().__init__(meters_max)
        self.hosts, self.series = MeterHosts(), HostMeters()
        self.last_values, self.covered, self.power_levels = LastReadings(), Covered(), PowerLevels()
        self.series.join(self.last_values)
        self.hosts.join(self.covered)
        self.hosts.join(self.power_levels)
        self.names = names
        self.version = 0
        self._marked: dict[tuple[str, str], dict[int, None]] = {}
        for name in ALWAYS:
            names.add(name)
        self.kind_of: npt.NDArray[np.int8] = np.zeros(0, np.int8)
        self.host_of: npt.NDArray[np.int32] = np.zeros(0, np.int32)
        self.quantity_of: npt.NDArray[np.int32] = np.zeros(0, np.int32)
        self.part_of: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.adapter_of: npt.NDArray[np.int32] = np.zeros(0, np.int32)
        self.busiest_of: npt.NDArray[np.int32] = np.zeros(0, np.int32)
        self.factor_of: npt.NDArray[np.float64] = np.zeros(0, np.float64)
        self._adapters: dict[str, int] = {}

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
        hosts = len(self.hosts.ids)
        entered = self.enter(system, host + found.own, resource, minute_ms)
        if entered is None:
            return None
        self.version += len(self.hosts.ids) - hosts
        self._note(entered[0], found, entered[1])
        return entered[0]

    def marked(self, system: str, job_id: str) -> list[int]:
        """Return the hosts that one job alone reports."""
        return list(self._marked.get((system, job_id), ()))

    def noted(self) -> None:
        """Work out again what follows from names, after a restore."""
        for row, (host, resource) in self.series.ids:
            found = quantity(resource)
            if found is not None:
                self._note(row, found, host)

    def note_report(self, meters: Rows, hosts: Rows, minute_ms: int) -> None:
        """Note that these rows told a minute."""
        for table, rows in ((self.series, meters), (self.hosts, hosts)):
            table.rows["last_ms"][rows] = np.maximum(table.rows["last_ms"][rows], minute_ms)

    def forget_before(self, minute_ms: int) -> int:
        """Forget resources whose last minute began before, and hosts without one; return how many hosts they were."""
        hosts = super().forget_before(minute_ms)
        if hosts:
            self.version += 1
            self._marked = {}
            for row, (system, name) in self.hosts.ids:
                self._mark(row, system, name)
        return hosts

    def forget_marked_before(self, minute_ms: int, of_system: Callable[[str], bool]) -> None:
        """Forget hosts that one job alone reported, of some systems, whose last minute began before."""
        last_ms = self.hosts.rows["last_ms"]
        quiet = {row for rows in self._marked.values() for row in rows if last_ms[row] < minute_ms}
        gone = [row for row in sorted(quiet) if of_system((self.hosts.ids.key(row) or ("", ""))[0])]
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
        room = len(self.series.rows) - len(self.kind_of)
        if room > 0:
            self.kind_of, self.host_of = _longer(self.kind_of, room), _longer(self.host_of, room)
            self.quantity_of, self.part_of = _longer(self.quantity_of, room), _longer(self.part_of, room)
            self.adapter_of, self.busiest_of = _longer(self.adapter_of, room), _longer(self.busiest_of, room)
            self.factor_of = _longer(self.factor_of, room)
        key = self.hosts.ids.key(host)
        if found.own and key is not None:
            self._mark(host, *key)
        self.kind_of[row], self.host_of[row], self.part_of[row] = found.kind, host, found.part
        self.quantity_of[row] = self.names.add(found.name) or 0
        self.adapter_of[row] = self._adapters.setdefault(found.adapter, len(self._adapters))
        self.busiest_of[row] = (self.names.add(found.busiest) or -1) if found.busiest else -1
        self.factor_of[row] = found.factor

    def _mark(self, host: int, system: str, name: str) -> None:
        mark = name.partition(JOB)[2]
        if mark:
            self._marked.setdefault((system, mark), {})[host] = None


def _longer(column: npt.NDArray[T], room: int) -> npt.NDArray[T]:
    return np.concatenate([column, np.zeros(room, column.dtype)])


READING: Final = np.dtype(
    [("meter", "<i4"), ("source", "<u4"), ("revision", "<i4"), ("count", "<i4"), ("value", "<f8")]
)
Readings = npt.NDArray[np.void]
"""Columns of m readings: the row of the meter, who told it, which telling it is, of how many samples, and the value."""


class WaitingReadings:
    """Readings by minute (`parts`), in the order in which they came; at most `readings_max`."""

    def __init__(self, readings_max: int) -> None:
        self.readings_max = readings_max
        self.parts: dict[int, list[Readings]] = {}
        self._count = 0

    def __len__(self) -> int:
        """Return how many wait."""
        return self._count

    def add(self, minute_ms: int, readings: Readings) -> bool:
        """Let readings of a minute wait; False where they would be too many."""
        if self._count + len(readings) > self.readings_max:
            return False
        self._count += len(readings)
        self.parts.setdefault(minute_ms, []).append(readings)
        return True

    def due(self, before_ms: int) -> Iterator[tuple[int, Readings]]:
        """Yield the minutes that begin before, each once, the oldest first."""
        for minute_ms in sorted(minute_ms for minute_ms in self.parts if minute_ms < before_ms):
            parts = self.parts.pop(minute_ms)
            self._count -= sum(map(len, parts))
            yield minute_ms, np.concatenate(parts)

    def by_minute(self) -> Iterator[tuple[int, Readings]]:
        """Yield all that waits, which stays."""
        for minute_ms, parts in sorted(self.parts.items()):
            self.parts[minute_ms] = [np.concatenate(parts)]
            yield minute_ms, self.parts[minute_ms][0]


def last_word(readings: Readings) -> Readings:
    """Return of what a source reported a meter the highest revision, of these the last; by meter, then by source."""
    ordered = readings[np.argsort(readings["meter"], kind="stable")]
    meter = ordered["meter"]
    if (meter[1:] != meter[:-1]).all():
        return ordered
    ordered = ordered[np.lexsort((ordered["revision"], ordered["source"], ordered["meter"]))]
    after = ordered[1:]
    last = (after["meter"] != ordered["meter"][:-1]) | (after["source"] != ordered["source"][:-1])
    return ordered[np.append(last, True)] if len(ordered) else ordered


WHOLE_MAX: Final = 2**31 - 1
MINUTE_S: Final = MINUTE_MS / 1000


class Layout(NamedTuple):
    """The resources of a host that are meters (k,): places among all, rows, and how each is read; how many had no room."""

    names: tuple[str, ...]
    places: tuple[int, ...]
    rows: npt.NDArray[np.int32]
    read: tuple[Callable[[ResourceMinute], float], ...]
    refused: int


class _Taken:
    """What was taken in of one minute: a piece for each host, and the values of all of them."""

    __slots__ = ("counts", "pieces", "revisions", "sources", "values")

    def __init__(self) -> None:
        self.pieces: list[npt.NDArray[np.int32]] = []
        self.sources: list[int] = []
        self.revisions: list[int] = []
        self.counts: list[int] = []
        self.values: list[float] = []

    def readings(self) -> Readings:
        """Return all of it as columns."""
        length = [len(piece) for piece in self.pieces]
        found = np.zeros(len(self.values), READING)
        found["meter"], found["value"] = np.concatenate(self.pieces), self.values
        found["source"] = np.repeat(np.array(self.sources, np.uint32), length)
        found["revision"] = np.repeat(np.array(self.revisions, np.float64).clip(0, WHOLE_MAX), length)
        found["count"] = np.array(self.counts, np.float64).clip(0, WHOLE_MAX)
        return found


class Ingest:
    """Readings of hosts by minute. A host tells the same resources every minute, so their rows are looked up once.

    One sample that cannot be makes a minute of a meter one that cannot be.
    """

    def __init__(self, index: MeterIndex, power_max_w: float) -> None:
        self._index, self._power_max_w = index, power_max_w
        self._layouts: dict[tuple[str, str, str], Layout] = {}
        self._taken: dict[int, _Taken] = {}
        self._read = dict.fromkeys(ReadingKind, _mean) | {
            ReadingKind.DELTA: _grown,
            ReadingKind.TOTAL: _last,
            ReadingKind.ENERGY: _last,
            ReadingKind.MEMORY_ENERGY: _last,
            ReadingKind.POWER: partial(_energy, power_max_w=power_max_w, may_be_off=False),
            ReadingKind.GPU_POWER: partial(_energy, power_max_w=power_max_w, may_be_off=True),
        }

    def take(self, event: HostMinute) -> int:
        """Take a minute of a host in; return how many of its resources there was no room for."""
        layout = self._layout(event)
        if layout.places:
            reported = list(event.resources.values())
            if len(layout.places) < len(reported):
                reported = [reported[place] for place in layout.places]
            values = [read(minute) for read, minute in zip(layout.read, reported, strict=True)]
            taken = self._taken.get(event.minute_ms)
            if taken is None:
                taken = self._taken[event.minute_ms] = _Taken()
            taken.pieces.append(layout.rows)
            taken.sources.append(digest64(event.source) & 0xFFFFFFFF)
            taken.revisions.append(event.revision)
            taken.counts += [minute.count for minute in reported]
            taken.values += values
        return layout.refused

    def readings(self) -> Iterable[tuple[int, Readings]]:
        """Return what was taken in since the last call, by minute."""
        taken, self._taken = self._taken, {}
        for minute_ms, each in taken.items():
            readings = each.readings()
            meters = readings["meter"]
            self._index.note_report(meters, self._index.host_of[meters], minute_ms)
            yield minute_ms, readings

    def forget(self) -> None:
        """Look rows up anew: some were released."""
        self._layouts.clear()

    def _layout(self, event: HostMinute) -> Layout:
        key = event.system, event.host, event.source
        found = self._layouts.get(key)
        names = tuple(event.resources)
        if found is None or found.names != names:
            found = self._made(event, names)
            if not found.refused:  # else there may be room the next time
                self._layouts[key] = found
        return found

    def _made(self, event: HostMinute, names: tuple[str, ...]) -> Layout:
        system, host, minute_ms = event.system, event.host, event.minute_ms
        meters = [(place, name, found.kind) for place, name in enumerate(names) if (found := quantity(name))]
        rows = [self._index.meter(system, host, name, minute_ms) for _, name, _ in meters]
        known = [(place, row, kind) for (place, _, kind), row in zip(meters, rows, strict=True) if row is not None]
        return Layout(
            names,
            tuple(place for place, _, _ in known),
            np.array([row for _, row, _ in known], dtype=np.int32),
            tuple(self._read[kind] for _, _, kind in known),
            len(meters) - len(known),
        )


def _grown(minute: ResourceMinute) -> float:
    """Return what a counter grew in all samples."""
    return -1.0 if minute.low < 0 else minute.mean * minute.count


def _last(minute: ResourceMinute) -> float:
    """Return the newest count."""
    return nan if minute.last is None else minute.last


def _mean(minute: ResourceMinute) -> float:
    """Return a rate or a level times the seconds of the minute."""
    return -1.0 if minute.low < 0 else minute.mean * MINUTE_S


def _energy(minute: ResourceMinute, *, power_max_w: float, may_be_off: bool) -> float:
    """Return the joules of the minute."""
    if minute.low < 0:
        return -1.0
    if minute.high > power_max_w:
        return inf
    if minute.low == 0 and not may_be_off:
        return 0.0
    return minute.mean * MINUTE_S if minute.energy_j is None else minute.energy_j
