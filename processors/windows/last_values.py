"""What kind of resource a series is, and the newest values of cumulative ones, in full precision."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from processors.contracts.telemetry import SeriesIndex, is_cumulative, is_power, is_profiled
from processors.windows.settings import MINUTE_MS, NEVER_MS

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


# Which minutes are open, which of them were told, and what changed since.


OPEN_SLOTS: Final = 32  # minutes whose changes are known; far more than can be open
LATE_SLOTS: Final = 16
WINDOW_MINUTES: Final = 5
LATE_COUNT_MAX: Final = 2**16 - 1


class OpenMinutes:
    """Minutes (whole, since the epoch) between collected and settled; a bit per series and minute that changed."""

    def __init__(self, settle_minutes: int) -> None:
        self._settle = settle_minutes
        self._clock: int | None = None
        self._told: int | None = None  # the last minute that was told or is never to be told
        self._settled: int | None = None
        self._changed = np.zeros(0, np.uint32)
        self._late = np.zeros((0, LATE_SLOTS), np.uint16)

    def resume(self, first_open: int) -> None:
        """Tell nothing of the minutes before this one: that was done."""
        self._told = self._settled = first_open - 1

    def first_open(self) -> int | None:
        """Return the first minute that may still change; None before the first sample."""
        return None if self._settled is None else self._settled + 1

    def begin(self, clock: int) -> bool:
        """Collect this minute from now on; False where that is so already."""
        if self._clock is not None and clock <= self._clock:
            return False
        settled = clock - 1 - self._settle
        if self._told is None or self._settled is None:
            self._told = self._settled = settled
        elif self._clock is not None:
            self._told = max(self._told, clock - 1)
        self._settled = max(self._settled, settled)
        self._forget_late(clock)
        self._clock = clock
        return True

    def due_first(self, clock: int, newest: int) -> Iterator[int]:
        """Yield the minutes to tell first when `clock` begins; there is nothing after minute `newest`."""
        if self._clock is not None and self._told is not None and clock > self._clock:
            yield from range(self._told + 1, min(clock - 1, newest) + 1)

    def due_again(self, clock: int) -> Iterator[tuple[int, Ints]]:
        """Yield the minutes that settle when `clock` begins, each with the series that changed since it was told."""
        if self._clock is None or self._told is None or self._settled is None or clock <= self._clock:
            return
        for minute in range(self._settled + 1, min(self._told, clock - 1 - self._settle) + 1):
            bit = np.uint32(1 << minute % OPEN_SLOTS)
            changed = np.flatnonzero(self._changed & bit)
            if len(changed):
                self._changed &= ~bit
                yield minute, changed

    def touch(self, series: Ints, minute: Ints, *, windows: int = WINDOW_MINUTES) -> None:
        """Note samples of these series in these minutes (m,): so many windows change, of which some were told."""
        if self._told is None or self._settled is None or not len(series):
            return
        self._reserve(int(series.max()) + 1)
        old = np.flatnonzero(minute <= self._told)
        series, minute = series[old], minute[old]
        for later in range(windows):
            told = (minute + later <= self._told) & (minute + later > self._settled)
            bits = np.left_shift(np.uint32(1), ((minute[told] + later) % OPEN_SLOTS).astype(np.uint32))
            np.bitwise_or.at(self._changed, series[told], bits)

    def note_late(self, series: Ints) -> None:
        """Count samples that came too late while this minute was collected."""
        if len(series) and self._clock is not None:
            self._reserve(int(series.max()) + 1)
            slot = self._clock % LATE_SLOTS
            counts = self._late[:, slot] + np.bincount(series, minlength=len(self._late))
            self._late[:, slot] = np.minimum(counts, LATE_COUNT_MAX)

    def late(self, minute: int, series_count: int) -> Ints:
        """Return how many samples of each series came too late in this minute, (series_count,)."""
        self._reserve(series_count)
        if self._clock is None or not self._clock - LATE_SLOTS < minute <= self._clock:
            return np.zeros(series_count, np.int64)
        return self._late[:series_count, minute % LATE_SLOTS].astype(np.int64)

    def numbers(self) -> Ints:
        """Return the series of which anything is noted."""
        return np.flatnonzero((self._changed != 0) | self._late.any(axis=1))

    def renumber(self, kept: Ints) -> None:
        """Give the series `kept` the numbers 0, 1, ...; nothing may be noted of the others."""
        kept = kept[kept < len(self._changed)]
        self._changed, self._late = self._changed[kept], self._late[kept]

    def _forget_late(self, clock: int) -> None:
        oldest = clock - LATE_SLOTS + 1
        for minute in range(oldest if self._clock is None else max(self._clock + 1, oldest), clock + 1):
            self._late[:, minute % LATE_SLOTS] = 0

    def _reserve(self, count: int) -> None:
        have = len(self._changed)
        if count > have:
            more = max(count, have + have // 4, 64) - have
            self._changed = np.concatenate((self._changed, np.zeros(more, np.uint32)))
            self._late = np.concatenate((self._late, np.zeros((more, LATE_SLOTS), np.uint16)))


SLOTS: Final = 16  # minutes; more than can be open
NO_ROW: Final = -1


class Lasts:
    """The newest value of each open minute of the series that are cumulative and have windows; of one time the first counts.

    Values in rings have seven digits, too few for the difference of two counters. 256 bytes a series.
    """

    def __init__(self, index: SeriesIndex) -> None:
        self._index = index
        self._row = np.zeros(0, np.int32)  # of each series
        self._power = np.zeros(0, np.bool_)
        self._profiled = np.zeros(0, np.bool_)
        self._time_ms = np.zeros((0, SLOTS), np.int64)
        self._value = np.zeros((0, SLOTS), np.float64)

    def power(self, count: int) -> npt.NDArray[np.bool_]:
        """Tell which of the first `count` series are of power."""
        self._follow()
        return _first(self._power, count)

    def profiled(self, count: int) -> npt.NDArray[np.bool_]:
        """Tell which of the first `count` series are only part of profiles."""
        self._follow()
        return _first(self._profiled, count)

    def note(self, series: Ints, time_ms: Ints, value: Floats) -> None:
        """Take samples (m,) in the order in which they came."""
        self._follow()
        if not len(self._time_ms):
            return
        row = self._row[series]
        some = np.flatnonzero(row != NO_ROW)
        row, time_ms, value = row[some], time_ms[some], value[some]
        slot = time_ms // MINUTE_MS % SLOTS
        order = np.lexsort((-np.arange(len(row)), time_ms, slot, row))
        row, slot, time_ms, value = row[order], slot[order], time_ms[order], value[order]
        ends = np.flatnonzero(np.concatenate(((row[1:] != row[:-1]) | (slot[1:] != slot[:-1]), [True])))[: len(row)]
        newer = ends[time_ms[ends] > self._time_ms[row[ends], slot[ends]]]
        self._time_ms[row[newer], slot[newer]] = time_ms[newer]
        self._value[row[newer], slot[newer]] = value[newer]

    def of(self, series: Ints, minute: int) -> Floats:
        """Return the last value of each series (m,) in a minute; nan for those without."""
        self._follow()
        found = np.full(len(series), np.nan)
        some = np.flatnonzero(self._row[series] != NO_ROW)
        row, slot = self._row[series[some]], minute % SLOTS
        here = self._time_ms[row, slot] // MINUTE_MS == minute
        found[some[here]] = self._value[row[here], slot]
        return found

    def renumber(self, index: SeriesIndex, kept: Ints) -> None:
        """Go on with an index that numbers the series `kept` 0, 1, ... and has no others."""
        self._follow()
        row = self._row[kept]
        rows = row[row != NO_ROW]
        self._time_ms, self._value = self._time_ms[rows], self._value[rows]
        self._row = np.where(row != NO_ROW, np.cumsum(row != NO_ROW) - 1, NO_ROW).astype(np.int32)
        self._power, self._profiled, self._index = self._power[kept], self._profiled[kept], index

    def _follow(self) -> None:
        have = len(self._row)
        if have == len(self._index):
            return
        names = [self._index[number].resource for number in range(have, len(self._index))]
        cumulative = np.array([is_cumulative(name) and not is_profiled(name) for name in names], np.bool_)
        rows = len(self._time_ms) + np.cumsum(cumulative) - 1
        more = int(cumulative.sum())
        self._row = np.concatenate((self._row, np.where(cumulative, rows, NO_ROW).astype(np.int32)))
        self._power = np.concatenate((self._power, np.array([is_power(name) for name in names], np.bool_)))
        self._profiled = np.concatenate((self._profiled, np.array([is_profiled(name) for name in names], np.bool_)))
        self._time_ms = np.concatenate((self._time_ms, np.full((more, SLOTS), NEVER_MS)))
        self._value = np.concatenate((self._value, np.zeros((more, SLOTS))))


def _first(kind: npt.NDArray[np.bool_], count: int) -> npt.NDArray[np.bool_]:
    found = np.zeros(count, np.bool_)
    found[: len(kind)] = kind[:count]
    return found
