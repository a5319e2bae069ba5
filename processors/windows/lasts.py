"""What kind of resource a series is, and the newest values of cumulative ones, in full precision."""

from typing import Final

import numpy as np
import numpy.typing as npt

from agent.contracts.telemetry import SeriesIndex, is_cumulative, is_power, is_profiled
from processors.windows.settings import MINUTE_MS, NEVER_MS

SLOTS: Final = 16  # minutes; more than can be open
NO_ROW: Final = -1
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Lasts:
    """The newest value of each open minute of the series that are cumulative and have windows; of one time the first counts.

    Values in rings have seven digits, too few for the difference of two counters. 256 bytes a series.

    >>> from agent.contracts.telemetry import Series
    >>> index = SeriesIndex(series_max=2)
    >>> numbers = [index.number(Series("exa", "nid1", name)) for name in ("network_total", "power_w")]
    >>> lasts = Lasts(index)
    >>> lasts.note(np.array([0, 0, 1]), np.array([2_000, 1_000, 1_000]), np.array([1e15 + 1.0, 1e15, 400.0]))
    >>> lasts.of(np.array([0, 1]), minute=0), lasts.power(2)
    (array([1.e+15,    nan]), array([False,  True]))
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
