"""Traits of series, and sums per minute of the series that only profiles use."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import repeat
from math import isnan
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from processors.contracts.events import ResourceMinute
from processors.contracts.telemetry import COUNTER_LEVEL, PEER, SeriesIndex, is_cumulative, is_power, is_profiled
from processors.models.numerics.arrays import Bools, Floats, Ints, run_starts
from processors.windows.settings import MINUTE_MS, NEVER_MS, significant

NO_ROW: Final = -1
SLOTS_MORE: Final = 3  # number of open minutes besides those that wait to settle
MOMENT_MS: Final = 500  # length of a moment; of a series, at most one sample per moment counts
WORD: Final = 64  # moments per word in the bit set of used moments
LANES: Final = 2
MOMENT_BITS: Final = 7  # bits of the number of a moment within its minute
ROWS_STEP: Final = 1_024


_KINDS: Final[dict[str, Callable[[str], bool]]] = {
    "power": is_power,
    "profiled": is_profiled,
    "summed": lambda name: is_profiled(name) and not is_power(name),
    "cumulative": is_cumulative,
    "shared": lambda name: name.partition(PEER)[0] == COUNTER_LEVEL,
}


class SeriesTraits:
    """The kinds of the series of an index as masks (series,), and the host number of each series; both grow with the index.

    Hosts are numbered in the order of their first series.
    """

    def __init__(self, index: SeriesIndex) -> None:
        self._index = index
        self._numbers: dict[tuple[str, str], int] = {}
        self._hosts = np.zeros(0, np.int32)
        self._masks = {kind: np.zeros(0, np.bool_) for kind in _KINDS}

    def mask(self, kind: str, count: int | None = None) -> Bools:
        """Return the mask of one kind, for the first `count` series or for all."""
        self._follow()
        return self._masks[kind][:count]

    def hosts(self) -> npt.NDArray[np.int32]:
        """Return the host number of each series, (series,)."""
        self._follow()
        return self._hosts

    def _follow(self) -> None:
        have = len(self._hosts)
        if have == len(self._index):
            return
        new = [self._index[number] for number in range(have, len(self._index))]
        numbers = [self._numbers.setdefault(series[:2], len(self._numbers)) for series in new]
        self._hosts = np.concatenate((self._hosts, np.array(numbers, np.int32)))
        for kind, is_kind in _KINDS.items():
            mask = np.array([is_kind(series.resource) for series in new], np.bool_)
            self._masks[kind] = np.concatenate((self._masks[kind], mask))


class SumColumns(msgspec.Struct, frozen=True):
    """Sums of m series over one minute, (m,) each; `last` is nan if a resource is not cumulative."""

    series: Ints
    count: Ints
    mean: Floats
    low: Floats
    high: Floats
    last: Floats
    late: Ints

    def take(self, rows: Ints | slice) -> "SumColumns":
        return SumColumns(*(getattr(self, name)[rows] for name in self.__struct_fields__))

    def ordered_by(self, host: npt.NDArray[np.integer]) -> "SumColumns":
        key = host[self.series].astype(np.int64) << 32 | self.series
        return self if (key[1:] > key[:-1]).all() else self.take(np.argsort(key))

    def resources(self) -> Iterator[ResourceMinute]:
        figures = [part.tolist() for part in (self.count, self.mean, self.low, self.high)]
        without_window = repeat(()), repeat(()), repeat(()), repeat(0)
        return map(ResourceMinute, *figures, *without_window, self.late.tolist(), or_none(self.last))


def or_none(values: Floats) -> list[float | None]:
    """Return the values (m,) as a list, with None for nan."""
    missing = np.isnan(values)
    if missing.all():  # the common case
        return [None] * len(values)
    return [None if isnan(value) else value for value in values.tolist()] if missing.any() else values.tolist()


class Sums:
    """The number, sum, range and newest value of the samples of each series in each open minute, for series of the kind ``summed``.

    The samples themselves are not kept; a series takes 57 bytes per minute. Of each half second only the first sample of a series
    counts, so that a repeated report counts once. For levels all samples count, because several parts of a host may report a level
    under one name.
    """

    def __init__(self, traits: SeriesTraits, settle_minutes: int, counts: Counter[str] | None = None) -> None:
        self.counts = Counter() if counts is None else counts
        self._traits = traits
        self._slots = settle_minutes + SLOTS_MORE
        self._row = np.zeros(0, np.int32)  # row of each series
        self._free: list[int] = []
        self._series = np.zeros(0, np.int32)  # series of each row, NO_ROW for a free row; all arrays below are by row
        self._newest_ms = np.zeros(0, np.int64)
        self._minute = np.zeros((0, self._slots), np.int32)  # by slot
        self._count = np.zeros((0, self._slots), np.int32)
        self._sum = np.zeros((0, self._slots))
        self._low = np.zeros((0, self._slots))
        self._high = np.zeros((0, self._slots))
        self._last = np.zeros((0, self._slots))
        self._last_moment = np.zeros((0, self._slots), np.int8)
        self._moments = np.zeros((0, self._slots, LANES), np.uint64)

    def __len__(self) -> int:
        return int(np.count_nonzero(self._series != NO_ROW))

    def append(self, series: Ints, time_ms: Ints, value: Floats) -> None:
        """Add samples (m,) of summed series in order of arrival."""
        if not len(series):
            return
        self._follow()
        row = self._rows(series)
        np.maximum.at(self._newest_ms, row, time_ms)
        minute, at_ms = np.divmod(time_ms, MINUTE_MS)
        place = row * self._slots + minute % self._slots
        self._begin(place, minute)
        key = (place << MOMENT_BITS) + at_ms // MOMENT_MS
        if not (key[1:] > key[:-1]).all():
            order = np.argsort(key, kind="stable")
            key, series, value = key[order], series[order], value[order]
        counted = self._taken(key, self._traits.mask("shared")[series])
        self.counts["repeated"] += len(counted) - int(np.count_nonzero(counted))
        if not counted.all():
            key, value = key[counted], value[counted]
        if len(key):
            self._add(key, value)

    def of(self, chosen: Bools, minute: int, late: Ints) -> SumColumns:
        """Return the sums of the chosen series that have a sample in the minute; `chosen` and `late` are indexed by series number."""
        self._follow()
        slot = minute % self._slots
        has_sum = (self._minute[:, slot] == minute) & (self._count[:, slot] > 0) & (self._series != NO_ROW)
        rows = np.flatnonzero(has_sum)
        rows = rows[chosen[self._series[rows]]]
        series = self._series[rows].astype(np.int64)
        count, low = self._count[rows, slot], significant(self._low[rows, slot])
        single = bool((count == 1).all())  # fast path for series with one sample a minute, whose sum starts at 0.0
        return SumColumns(
            series=series,
            count=count,
            mean=low + 0.0 if single else significant(self._sum[rows, slot] / count),
            low=low,
            high=low if single else significant(self._high[rows, slot]),
            last=np.where(self._traits.mask("cumulative")[series], self._last[rows, slot], np.nan),
            late=late[series],
        )

    def clear_quiet(self, floor_ms: int) -> int:
        quiet = np.flatnonzero((self._series != NO_ROW) & (self._newest_ms < floor_ms))
        self._row[self._series[quiet]] = NO_ROW
        self._series[quiet] = NO_ROW
        self._free += quiet[::-1].tolist()
        return len(quiet)

    def numbers(self) -> Ints:
        return np.flatnonzero(self._row != NO_ROW)

    def renumber(self, traits: SeriesTraits, retained: Ints) -> None:
        """Renumber the series `retained` to 0, 1, ..., and use `traits`, which belong to the new index."""
        self._follow()
        self._row, self._traits = self._row[retained], traits
        used = np.flatnonzero(self._row != NO_ROW)
        self._series[self._row[used]] = used

    def _taken(self, key: Ints, shared: Bools) -> Bools:
        """Return a mask of the samples that count, and store their times; `key` is sorted by slot and half second.

        The first sample in each half second counts, and every sample of a series with `shared`.
        """
        place, moment = key >> MOMENT_BITS, key & (1 << MOMENT_BITS) - 1
        word = place * LANES + moment // WORD
        bit = np.left_shift(np.uint64(1), (moment % WORD).astype(np.uint64))
        moments = self._moments.reshape(-1)
        new = (moments[word] & bit) == 0
        new[1:] &= key[1:] != key[:-1]
        starts = run_starts(word)
        moments[word[starts]] |= np.bitwise_or.reduceat(bit, starts)
        return np.asarray(new | shared)

    def _add(self, key: Ints, value: Floats) -> None:
        """Add sorted samples that all count; with 32-bit values the sum does not depend on their order."""
        short = value.astype(np.float32).astype(np.float64)
        of_sample = key >> MOMENT_BITS
        starts = run_starts(of_sample)
        place, ends = of_sample[starts], np.append(starts[1:], len(key)) - 1
        count, total, low, high = (part.reshape(-1) for part in (self._count, self._sum, self._low, self._high))
        count[place] += (ends + 1 - starts).astype(np.int32)
        if len(starts) == len(key):  # fast path if all samples belong to different series
            total[place] += short
            low[place] = np.minimum(low[place], short)
            high[place] = np.maximum(high[place], short)
        else:
            total[place] += np.add.reduceat(short, starts)
            low[place] = np.minimum(low[place], np.minimum.reduceat(short, starts))
            high[place] = np.maximum(high[place], np.maximum.reduceat(short, starts))
        last, last_moment = self._last.reshape(-1), self._last_moment.reshape(-1)
        moment = (key[ends] & (1 << MOMENT_BITS) - 1).astype(np.int8)
        newer = np.flatnonzero(moment > last_moment[place])
        last[place[newer]], last_moment[place[newer]] = value[ends[newer]], moment[newer]

    def _begin(self, place: Ints, minute: Ints) -> None:
        """Empty the slots `place` that still hold the sums of another minute than `minute`."""
        retained = self._minute.reshape(-1)
        outdated = np.flatnonzero(retained[place] != minute)
        if not len(outdated):
            return
        place = place[outdated]
        retained[place] = minute[outdated]
        for part, nothing in (
            (self._count, 0), (self._sum, 0.0), (self._low, np.inf), (self._high, -np.inf), (self._last_moment, -1),
        ):  # fmt: skip
            part.reshape(-1)[place] = nothing
        self._moments.reshape(-1, LANES)[place] = 0

    def _rows(self, series: Ints) -> Ints:
        """Return the row of each of `series`; a series without a row gets a new row."""
        row = self._row[series].astype(np.int64)
        none = row == NO_ROW
        if not none.any():
            return row
        for number in np.unique(series[none]).tolist():
            if not self._free:
                self._grow()
            place = self._free.pop()
            self._row[number], self._series[place] = place, number
            self._newest_ms[place], self._minute[place] = NEVER_MS, -1
        return self._row[series].astype(np.int64)

    def _grow(self) -> None:
        have = len(self._series)
        more = max(ROWS_STEP, have // 4)
        self._free += range(have + more - 1, have - 1, -1)
        for name in ("_minute", "_count", "_sum", "_low", "_high", "_last", "_last_moment", "_moments", "_newest_ms"):
            old = getattr(self, name)
            setattr(self, name, np.concatenate((old, np.zeros((more, *old.shape[1:]), old.dtype))))
        self._series = np.concatenate((self._series, np.full(more, NO_ROW, np.int32)))

    def _follow(self) -> None:
        more = len(self._traits.mask("summed")) - len(self._row)
        if more:
            self._row = np.concatenate((self._row, np.full(more, NO_ROW, np.int32)))
