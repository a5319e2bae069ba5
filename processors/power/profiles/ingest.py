"""From what a collector told of a host's minute to readings of its meters."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import inf, nan
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from processors.contracts.events import HostMinute, ResourceMinute
from processors.power.profiles.meters import Kind, MeterIndex, quantity
from processors.store import digest64
from processors.windows.settings import MINUTE_MS

# Readings of meters that wait until nothing can change their minute any more.


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
    """Return of what a source told of a meter the highest revision, of these the last; by meter, then by source."""
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

    One sample that can not be makes a minute of a meter one that can not be.
    """

    def __init__(self, index: MeterIndex, power_max_w: float) -> None:
        self._index, self._power_max_w = index, power_max_w
        self._layouts: dict[tuple[str, str, str], Layout] = {}
        self._taken: dict[int, _Taken] = {}
        self._read = dict.fromkeys(Kind, _mean) | {
            Kind.DELTA: _grown,
            Kind.TOTAL: _last,
            Kind.ENERGY: _last,
            Kind.MEMORY_ENERGY: _last,
            Kind.POWER: partial(_energy, power_max_w=power_max_w, may_be_off=False),
            Kind.GPU_POWER: partial(_energy, power_max_w=power_max_w, may_be_off=True),
        }

    def take(self, event: HostMinute) -> int:
        """Take a minute of a host in; return how many of its resources there was no room for."""
        layout = self._layout(event)
        if layout.places:
            told = list(event.resources.values())
            if len(layout.places) < len(told):
                told = [told[place] for place in layout.places]
            values = [read(minute) for read, minute in zip(layout.read, told, strict=True)]
            taken = self._taken.get(event.minute_ms)
            if taken is None:
                taken = self._taken[event.minute_ms] = _Taken()
            taken.pieces.append(layout.rows)
            taken.sources.append(digest64(event.source) & 0xFFFFFFFF)
            taken.revisions.append(event.revision)
            taken.counts += [minute.count for minute in told]
            taken.values += values
        return layout.refused

    def readings(self) -> Iterable[tuple[int, Readings]]:
        """Return what was taken in since the last call, by minute."""
        taken, self._taken = self._taken, {}
        for minute_ms, each in taken.items():
            readings = each.readings()
            meters = readings["meter"]
            self._index.told(meters, self._index.host_of[meters], minute_ms)
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
