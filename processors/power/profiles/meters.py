"""The meters of hosts: their quantities, their rows, and the readings of each reported minute."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from functools import lru_cache, partial
from itertools import chain
from math import inf, nan
from typing import ClassVar, Final, NamedTuple

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
from processors.models.features.communication import busiest_of
from processors.store import digest64
from processors.windows.settings import MINUTE_MS

NAMES_MAX: Final = 2048
NO_NUMBER: Final = -1  # the number of an unknown name


class QuantityNames:
    """Numbers for the names of quantities, at most NAMES_MAX; a new name gets the smallest free number.

    Sums are stored by number, because there are many sums and few names.
    """

    def __init__(self) -> None:
        self.restore(())

    def restore(self, names: Sequence[str | None]) -> None:
        """Start with names by number, None for a free number. Raise ValueError if a name occurs twice."""
        if len(names) > NAMES_MAX or len(set(names) - {None}) < len(names) - list(names).count(None):
            raise ValueError("A quantity stands twice, or there are too many.")
        self.all = list(names)
        self.numbers = {name: number for number, name in enumerate(self.all) if name is not None}

    def __len__(self) -> int:
        return len(self.numbers)

    def number(self, name: str) -> int:
        """Return the number of a name; NO_NUMBER for an unknown name."""
        return self.numbers.get(name, NO_NUMBER)

    def of(self, number: int) -> str:
        """Return the name of a number; "" for a free number."""
        return self.all[number] or ""

    def add(self, name: str) -> int | None:
        """Return the number of a name. A new name gets a number, or None if NAMES_MAX names are in use."""
        if name in self.numbers:
            return self.numbers[name]
        if len(self.numbers) >= NAMES_MAX:
            return None
        number = self.all.index(None) if len(self.numbers) < len(self.all) else len(self.all)
        self.all[number : number + 1] = [name]
        self.numbers[name] = number
        return number

    def keep(self, numbers: Iterable[int]) -> None:
        """Remove all names except those with these numbers."""
        retained = set(numbers)
        names = [name if number in retained else None for number, name in enumerate(self.all)]
        while names and names[-1] is None:
            names.pop()
        self.restore(names)


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
"""Names and prefixes of quantities.

COVERED counts reported minutes, SHARED minutes shared with another job. Names that begin with BUSIEST are quantities of
the busiest network adapter, names that begin with LEFT_OUT count readings rejected for one of REASONS. SPLIT is the part of a
run in the energy of shared hosts. Any run may have the quantities in ALWAYS.
"""

NAME_CHARACTERS_MAX: Final = 96


class ReadingKind(IntEnum):
    """The kind of values of a resource, which decides how readings become amounts."""

    DELTA = 0  # increments since the previous sample
    TOTAL = 1  # a count since an unknown start
    ENERGY = 2  # joules since an unknown start; the counter wraps at a known value
    MEMORY_ENERGY = 3  # joules of the memory since an unknown start; the counter wraps at a known value
    POWER = 4  # watts
    GPU_POWER = 5  # watts of a device that may be off
    RATE = 6  # a rate per second; the rates of the parts of a host are summed
    LEVEL = 7  # a ratio, a frequency or an amount; the values of the parts of a host are averaged


class Quantity(NamedTuple):
    """The meaning of a resource: the quantity `name` to which its readings are added, and whether it measures a `part` of a host.

    `own` marks a resource that belongs to one job; "" for any other resource. A counter of a network `adapter` also adds `factor`
    times its amount to the quantity `busiest`, which is summed for this adapter alone.
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
    """Return the meaning of a resource by its name; None if profiles do not use the resource.

    Parts of a host are summed to one quantity. A resource of one job is a separate quantity, because the host may
    report the same resource for all its jobs together.
    """
    resource, peer, job = named(name)
    meaning = _read(resource, peer)
    if meaning is None or len(meaning.name) > NAME_CHARACTERS_MAX:
        return None
    # an adapter never belongs to one job
    return Quantity(meaning.kind, JOB + meaning.name, meaning.part, JOB + job) if job else meaning


def _read(resource: str, peer: str) -> Quantity | None:
    whole, colon, part = peer.rpartition(":")
    if resource in _COUNTERS and peer:
        is_part = bool(colon) and part.isdigit()
        return Quantity(_COUNTERS[resource], COUNTER + (whole if is_part else peer), is_part)
    if resource == NIC_TOTAL and part:
        figure = busiest_of(part)
        of_adapter = ("", "", 1.0) if figure is None else (whole, BUSIEST + figure[0], figure[1])
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


class MeterHosts(HostRows):
    """Hosts with meters. The name of a host that only one job reports contains the mark of the job: ``nid1#812``."""

    name: ClassVar[str] = "profile_hosts"


class HostMeters(SeriesRows):
    """Resources of hosts; `learned_ms` is the start of the last closed minute with a value."""

    name: ClassVar[str] = "profile_meters"


MINUTES_MAX: Final = 10_000
MINUTES_UNSURE: Final = 2.0  # weight, in minutes of measurements, of the prior level 0
LEVEL_RATE: Final = 0.02  # weight of the newest minute in a level
LEVEL_STEP: Final = 0.2  # largest error, in ln, by which one minute moves a level
LEVEL_MAX: Final = 0.5  # largest level in ln; a sensor with a larger level must be wrong


class LastReadings(RowTable):
    """The last count of each cumulative resource, and the number of minutes that its last difference covered."""

    name: ClassVar[str] = "profile_last_values"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        super().__init__(np.dtype([("last", "<f8"), ("reach", "<i4")]), last=np.nan)


class Covered(RowTable):
    """The end of the last reported minute of each host."""

    name: ClassVar[str] = "profile_covered"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        super().__init__(np.dtype([("until_ms", "<i8")]), until_ms=NEVER_MS)


class PowerLevels(RowTable):
    """The power of each host relative to the estimate for its kind, in ln by component, and the number of minutes behind each level."""

    name: ClassVar[str] = "profile_power_levels"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        super().__init__(np.dtype([("ln", "<f4", (len(COMPONENTS),)), ("minutes", "<i4", (len(COMPONENTS),))]))

    def learn(self, hosts: npt.NDArray[np.int64], component: int, ln_off: npt.NDArray[np.float64]) -> None:
        """Adjust the levels of distinct hosts (k,) by their remaining errors in ln."""
        minutes, ln = self.rows["minutes"], self.rows["ln"]
        count = np.minimum(minutes[hosts, component] + 1, MINUTES_MAX)
        rate = np.maximum(1.0 / (count + MINUTES_UNSURE), LEVEL_RATE)
        moved = ln[hosts, component] + rate * np.clip(ln_off, -LEVEL_STEP, LEVEL_STEP)
        ln[hosts, component] = np.clip(moved, -LEVEL_MAX, LEVEL_MAX)
        minutes[hosts, component] = count

    def of(self, hosts: npt.NDArray[np.int64], component: int) -> npt.NDArray[np.float64]:
        """Return the levels of hosts (k,) of one kind in ln, relative to the mean of their known levels; 0 if unknown."""
        ln = self.rows["ln"][hosts, component].astype(np.float64)
        is_known = self.rows["minutes"][hosts, component] > 0
        return np.where(is_known, ln - (ln[is_known].mean() if is_known.any() else 0.0), 0.0)


METER: Final = np.dtype(
    [("host", "i8"), ("factor", "f8"), ("quantity", "i4"), ("adapter", "i4"), ("busiest", "i4"), ("kind", "i1"), ("part", "?")]
)  # fmt: skip
"""Properties of a resource. `part` is True for a part of the host, `adapter` is the number of the name of the network adapter,
`busiest` the number of the quantity of the busiest adapter (-1 if the resource adds to none)."""


class MeterIndex(RowIndex):
    """Rows of hosts and resources, and the properties of each resource, which follow from its name.

    `meters` has the properties by row of the resource. `version` changes whenever a host is added or removed.
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
        self.meters = np.zeros(0, METER)
        self._adapters: dict[str, int] = {}

    @property
    def own(self) -> npt.NDArray[np.bool_]:
        """A mask by number of the quantities that belong to a single job."""
        return np.array([(name or "").startswith(JOB) for name in self.names.all])

    def meter(self, system: str, host: str, resource: str, minute_ms: int) -> int | None:
        """Return the row of a resource; a new resource gets a row. None if the resource is not a meter or too many resources are known."""
        meaning = quantity(resource)
        # a reported host name must not contain the mark of a job
        if meaning is None or JOB in host or self.names.add(meaning.name) is None:
            return None
        hosts = len(self.hosts.ids)
        entered = self.enter(system, host + meaning.own, resource, minute_ms)
        if entered is None:
            return None
        self.version += len(self.hosts.ids) - hosts
        self._note(entered[0], meaning, entered[1])
        return entered[0]

    def marked(self, system: str, job_id: str) -> list[int]:
        """Return the host rows with resources of the job `job_id` alone; they are separate from the rows of the real hosts."""
        return list(self._marked.get((system, job_id), ()))

    def restore_meanings(self) -> None:
        for row, (host, resource) in self.series.ids:
            meaning = quantity(resource)
            if meaning is not None:
                self._note(row, meaning, host)

    def note_report(self, meters: Rows, hosts: Rows, minute_ms: int) -> None:
        for table, rows in ((self.series, meters), (self.hosts, hosts)):
            table.rows["last_ms"][rows] = np.maximum(table.rows["last_ms"][rows], minute_ms)

    def forget_before(self, minute_ms: int) -> int:
        """Drop resources without a report since `minute_ms`, and hosts without resources; return the number of dropped hosts."""
        hosts = super().forget_before(minute_ms)
        if hosts:
            self._mark_again()
        return hosts

    def forget_marked_before(self, minute_ms: int, of_system: Callable[[str], bool]) -> None:
        """Drop host rows of single jobs without a report since `minute_ms`, on systems for which `of_system` returns True."""
        last_ms = self.hosts.rows["last_ms"]
        silent = sorted(
            row
            for (system, _), rows in self._marked.items()
            for row in rows
            if last_ms[row] < minute_ms and of_system(system)
        )
        if not silent:
            return
        meters = [row for host in silent for row in self._resources.pop(host, {}).values()]
        self.series.release(np.array(meters, dtype=np.intp))
        self.hosts.release(np.array(silent, dtype=np.intp))
        self._mark_again()

    def _note(self, row: int, meaning: Quantity, host: int) -> None:
        if len(self.series.rows) > len(self.meters):
            self.meters = np.concatenate([self.meters, np.zeros(len(self.series.rows) - len(self.meters), METER)])
        key = self.hosts.ids.key(host)
        if meaning.own and key is not None:
            self._mark(host, *key)
        busiest = (self.names.add(meaning.busiest) or -1) if meaning.busiest else -1
        adapter = self._adapters.setdefault(meaning.adapter, len(self._adapters))
        quantity = self.names.add(meaning.name) or 0
        self.meters[row] = (host, meaning.factor, quantity, adapter, busiest, meaning.kind, meaning.part)

    def _mark(self, host: int, system: str, name: str) -> None:
        mark = name.partition(JOB)[2]
        if mark:
            self._marked.setdefault((system, mark), {})[host] = None

    def _mark_again(self) -> None:
        """Find the hosts with the mark of a job again, because hosts were removed."""
        self.version += 1
        self._marked = {}
        for row, (system, name) in self.hosts.ids:
            self._mark(row, system, name)


READING: Final = np.dtype(
    [("meter", "<i4"), ("source", "<u4"), ("revision", "<i4"), ("count", "<i4"), ("value", "<f8")]
)
Readings = npt.NDArray[np.void]
"""m readings: the row of the meter, the source, its revision, the number of samples, and the value."""


class WaitingReadings:
    """Readings of minutes that are not closed (`parts`), in order of arrival; at most `readings_max`."""

    def __init__(self, readings_max: int) -> None:
        self.readings_max = readings_max
        self.parts: dict[int, list[Readings]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, minute_ms: int, readings: Readings) -> bool:
        """Add readings of a minute; return False if too many readings already wait."""
        if self._count + len(readings) > self.readings_max:
            return False
        self._count += len(readings)
        self.parts.setdefault(minute_ms, []).append(readings)
        return True

    def due(self, before_ms: int) -> Iterator[tuple[int, Readings]]:
        """Remove and yield the minutes that begin before a time, oldest first."""
        for minute_ms in sorted(minute_ms for minute_ms in self.parts if minute_ms < before_ms):
            parts = self.parts.pop(minute_ms)
            self._count -= sum(map(len, parts))
            yield minute_ms, np.concatenate(parts)

    def by_minute(self) -> Iterator[tuple[int, Readings]]:
        """Yield all waiting readings by minute, without removing them."""
        for minute_ms, parts in sorted(self.parts.items()):
            self.parts[minute_ms] = [np.concatenate(parts)]
            yield minute_ms, self.parts[minute_ms][0]


def last_word(readings: Readings) -> Readings:
    """Return the newest revision of the reading of each source and meter, ascending by meter, then source."""
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
    """Which of the resources `names` in a report of a host are meters: `places` are their positions (k,), `rows` their rows.

    `read` are the functions that read them; `refused` is the number of meters for which there was no room.
    """

    names: tuple[str, ...]
    places: tuple[int, ...]
    rows: npt.NDArray[np.int32]
    read: tuple[Callable[[ResourceMinute], float], ...]
    refused: int


class _HostReadings(NamedTuple):
    """The readings of one reported minute of a host: rows of the meters, and the number of samples and value of each."""

    rows: npt.NDArray[np.int32]
    source: int
    revision: int
    counts: list[int]
    values: list[float]


def _columns(reported: Sequence[_HostReadings]) -> Readings:
    rows, source, revision, counts, values = zip(*reported, strict=True)
    length = list(map(len, rows))
    columns = np.zeros(sum(length), READING)
    columns["meter"], columns["value"] = np.concatenate(rows), list(chain.from_iterable(values))
    columns["source"] = np.repeat(np.array(source, np.uint32), length)
    columns["revision"] = np.repeat(np.array(revision, np.float64).clip(0, WHOLE_MAX), length)
    columns["count"] = np.array(list(chain.from_iterable(counts)), np.float64).clip(0, WHOLE_MAX)
    return columns


class Ingest:
    """Turns reported minutes of hosts into readings.

    A host reports the same resources every minute, so the rows of the resources are looked up once. One implausible sample
    invalidates the whole minute of its meter.
    """

    def __init__(self, index: MeterIndex, power_max_w: float) -> None:
        self._index, self._power_max_w = index, power_max_w
        self._layouts: dict[tuple[str, str, str], Layout] = {}
        self._reported: dict[int, list[_HostReadings]] = {}
        self._read = dict.fromkeys(ReadingKind, _mean) | {
            ReadingKind.DELTA: _grown,
            ReadingKind.TOTAL: _last,
            ReadingKind.ENERGY: _last,
            ReadingKind.MEMORY_ENERGY: _last,
            ReadingKind.POWER: partial(_energy, power_max_w=power_max_w, may_be_off=False),
            ReadingKind.GPU_POWER: partial(_energy, power_max_w=power_max_w, may_be_off=True),
        }

    def take(self, event: HostMinute) -> int:
        """Read one minute of a host; return the number of its meters that were refused for lack of room."""
        layout = self._layout(event)
        if layout.places:
            reported = list(event.resources.values())
            if len(layout.places) < len(reported):
                reported = [reported[place] for place in layout.places]
            values = [read(minute) for read, minute in zip(layout.read, reported, strict=True)]
            counts, source = [minute.count for minute in reported], digest64(event.source) & 0xFFFFFFFF
            host_readings = _HostReadings(layout.rows, source, event.revision, counts, values)
            self._reported.setdefault(event.minute_ms, []).append(host_readings)
        return layout.refused

    def readings(self) -> Iterable[tuple[int, Readings]]:
        """Yield the readings since the last call, by minute."""
        by_minute, self._reported = self._reported, {}
        for minute_ms, reported in by_minute.items():
            readings = _columns(reported)
            meters = readings["meter"]
            self._index.note_report(meters, self._index.meters["host"][meters], minute_ms)
            yield minute_ms, readings

    def forget(self) -> None:
        """Discard the cached rows, because rows were released."""
        self._layouts.clear()

    def _layout(self, event: HostMinute) -> Layout:
        key = event.system, event.host, event.source
        layout = self._layouts.get(key)
        names = tuple(event.resources)
        if layout is None or layout.names != names:
            layout = self._build_layout(event, names)
            if not layout.refused:  # not cached otherwise: a refused resource may find room next time
                self._layouts[key] = layout
        return layout

    def _build_layout(self, event: HostMinute, names: tuple[str, ...]) -> Layout:
        system, host, minute_ms = event.system, event.host, event.minute_ms
        meters = [(place, name, meaning.kind) for place, name in enumerate(names) if (meaning := quantity(name))]
        rows = [self._index.meter(system, host, name, minute_ms) for _, name, _ in meters]
        accepted = [(place, row, kind) for (place, _, kind), row in zip(meters, rows, strict=True) if row is not None]
        return Layout(
            names,
            tuple(place for place, _, _ in accepted),
            np.array([row for _, row, _ in accepted], dtype=np.int32),
            tuple(self._read[kind] for _, _, kind in accepted),
            len(meters) - len(accepted),
        )


def _grown(minute: ResourceMinute) -> float:
    return -1.0 if minute.low < 0 else minute.mean * minute.count


def _last(minute: ResourceMinute) -> float:
    return nan if minute.last is None else minute.last


def _mean(minute: ResourceMinute) -> float:
    """Return the mean of a rate or level times the seconds of the minute; -1 if a sample is negative."""
    return -1.0 if minute.low < 0 else minute.mean * MINUTE_S


def _energy(minute: ResourceMinute, *, power_max_w: float, may_be_off: bool) -> float:
    if minute.low < 0:
        return -1.0
    if minute.high > power_max_w:
        return inf
    if minute.low == 0 and not may_be_off:
        return 0.0
    return minute.mean * MINUTE_S if minute.energy_j is None else minute.energy_j
