"""Rings of series of which many come together: eight that one record always brings at once share a ring.

What it costs to take a sample is the search for its place, not the sample. Eight series of one record have the same times,
so they have the same place, and their times are stored once.
"""

from collections.abc import Iterator
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from processors.models.numerics.arrays import Floats
from processors.windows.rings import Held, Rings, Strip

WIDTH: Final = 8
NO_GROUP: Final = -1
GROUPS_STEP: Final = 64
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Number = TypeVar("Number", bound=np.generic)


class GroupedRings:
    """The samples of series as `Rings` has them, in less time and memory where records are wide.

    Eight series of a record that all come for the first time become a group. It lasts while they come together, in this order:
    with the first sample of one alone each gets a ring of its own, with what the group held, and keeps that one.
    """

    def __init__(self, keep_ms: int) -> None:
        self._single = Rings(keep_ms)
        self._joint = Rings(keep_ms, WIDTH)
        self._group = np.zeros(0, np.int32)  # of each series
        self._members = np.zeros((0, WIDTH), np.int32)  # of each group
        self._free: list[int] = []

    @property
    def repeated(self) -> int:
        """Return the number of samples dropped because the series already had a sample of that time."""
        return self._single.repeated + self._joint.repeated

    @property
    def thinned_away(self) -> int:
        """Return the number of samples dropped because their ten seconds were full."""
        return self._single.thinned_away + self._joint.thinned_away

    def append(self, series: Ints, time_ms: Ints, value: Floats, record: Ints, floor_ms: int) -> None:
        """Add samples (m,), sorted so that samples of one `record` are adjacent. Samples older than `floor_ms` may be dropped."""
        first = _eights(record, time_ms)
        if not len(first) and not len(self._members):  # as where each record is one sample
            self._single.append(series, time_ms, value, floor_ms)
            return
        self._reserve(int(series.max(initial=-1)) + 1)
        eights = _side_by_side(series, first)
        self._form(eights)
        grouped = self._grouped(eights)
        if WIDTH * np.count_nonzero(grouped) < len(series):
            self._part(self._group[series[_outside(first[grouped], len(series))]], floor_ms)
            grouped &= self._group[eights[:, 0]] != NO_GROUP
            alone = _outside(first[grouped], len(series))
            self._single.append(series[alone], time_ms[alone], value[alone], floor_ms)
        first = first[grouped]
        group = self._group[series[first]].astype(np.int64)
        self._joint.append(group, time_ms[first], _side_by_side(value, first), floor_ms)

    def clear_quiet(self, floor_ms: int) -> int:
        """Free the rings of series whose samples are all older than `floor_ms`; return the number of rings freed."""
        cleared = self._single.clear_quiet(floor_ms) + WIDTH * self._joint.clear_quiet(floor_ms)
        self._forget(np.flatnonzero(self._used() & ~self._joint.has(np.arange(len(self._members)))))
        return cleared

    def retained(self, series: int) -> tuple[Ints, npt.NDArray[np.float32]]:
        """Return times and values of a series in order of time, including expired samples that were not overwritten yet."""
        group = self._group[series] if series < len(self._group) else NO_GROUP
        if group == NO_GROUP:
            return self._single.retained(series)
        time_ms, value = self._joint.retained(int(group))
        return time_ms, value[:, self._members[group].tolist().index(series)]

    def numbers(self) -> Ints:
        """Return the series that have a ring."""
        return np.sort(np.concatenate((self._single.numbers(), self._members[self._used()].reshape(-1))))

    def renumber(self, retained: Ints) -> None:
        """Renumber the series `retained` (in order) to 0, 1, ...; it must contain every series that has a ring."""
        self._reserve(int(retained.max(initial=-1)) + 1)
        number = np.zeros(len(self._group), np.int32)
        number[retained] = np.arange(len(retained))
        self._members = number[self._members]
        self._group = self._group[retained]
        self._single.renumber(retained)

    def series_count(self) -> int:
        return self._single.series_count() + WIDTH * self._joint.series_count()

    def memory_bytes(self) -> int:
        own = self._group.nbytes + self._members.nbytes
        return own + self._single.memory_bytes() + self._joint.memory_bytes()

    def strips(self, chosen: Bools, rows: int) -> Iterator[Strip]:
        """Yield the rings of the chosen series (mask by series number), at most `rows` rings at a time."""
        yield from self._single.strips(chosen, rows)
        wanted = np.asarray(chosen[self._members].any(axis=1))
        for joint in self._joint.strips(wanted, rows // WIDTH):
            series = self._members[joint.series].reshape(-1).astype(np.int64)
            row = np.flatnonzero(chosen[series])
            group = row // WIDTH
            yield Strip(series[row], joint.time[group], _apart(joint.value)[row], joint.filled[group])

    def _grouped(self, eights: Ints) -> Bools:
        """Return a mask of the sets of eight series (n, WIDTH) that form a group."""
        group = self._group[eights[:, 0]]
        found = group != NO_GROUP
        found[found] = (self._members[group[found]] == eights[found]).all(axis=1)
        return np.asarray(found)

    def _form(self, eights: Ints) -> None:
        """Form groups of the sets of eight series that are all new; overlapping sets may be skipped."""
        fresh = eights[(self._group[eights[:, 0]] == NO_GROUP)]
        fresh = fresh[(self._group[fresh] == NO_GROUP).all(axis=1) & ~self._single.has(fresh).any(axis=1)]
        ordered = np.sort(fresh, axis=1)
        fresh = fresh[(ordered[:, 1:] != ordered[:, :-1]).all(axis=1)]
        fresh = fresh[np.unique(fresh[:, 0], return_index=True)[1]]
        if not len(fresh):
            return
        while len(self._free) < len(fresh):
            self._grow()
        numbers = np.array([self._free.pop() for _ in range(len(fresh))])
        self._members[numbers], self._group[fresh] = fresh, numbers[:, None]
        self._forget(numbers[(self._group[fresh] != numbers[:, None]).any(axis=1)])

    def _part(self, group: npt.NDArray[np.int32], floor_ms: int) -> None:
        """Split groups: give each member a ring of its own."""
        parted = np.unique(group[group != NO_GROUP]).astype(np.int64)
        for some, held in self._joint.take_out(parted, floor_ms):
            row = np.repeat(np.arange(len(some)), WIDTH)
            state = held.newest_ms[row], held.in_cell[row], held.thinned[row]
            alone = Held(held.time_ms[row], _apart(held.value), held.alive[row], *state)
            self._single.put_in(self._members[some].reshape(-1).astype(np.int64), alone)
        self._forget(parted)

    def _forget(self, group: Ints) -> None:
        members = self._members[group]
        # of some another may have become the group
        self._group[members[self._group[members] == group[:, None]]] = NO_GROUP
        self._members[group] = 0
        self._free += group.tolist()

    def _used(self) -> Bools:
        used = np.ones(len(self._members), np.bool_)
        used[self._free] = False
        return used

    def _grow(self) -> None:
        have = len(self._members)
        more = max(GROUPS_STEP, have // 4)
        self._free += range(have + more - 1, have - 1, -1)
        self._members = np.concatenate((self._members, np.zeros((more, WIDTH), np.int32)))

    def _reserve(self, count: int) -> None:
        have = len(self._group)
        if count > have:
            more = max(count, have + have // 4, 64) - have
            self._group = np.concatenate((self._group, np.full(more, NO_GROUP, np.int32)))


def _eights(record: Ints, time_ms: Ints) -> Ints:
    """Return the start indexes (n,) of runs of eight samples with one record and one time; shorter remainders are left out."""
    same = (record[1:] == record[:-1]) & (time_ms[1:] == time_ms[:-1])
    if not same.any():
        return np.zeros(0, np.int64)
    starts = np.concatenate((np.zeros(1, np.int64), np.flatnonzero(~same) + 1))
    counts = np.diff(np.append(starts, len(record))) // WIDTH
    nth = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.asarray(np.repeat(starts, counts) + WIDTH * nth)


def _side_by_side(column: npt.NDArray[Number], first: Ints) -> npt.NDArray[Number]:
    """Return the runs of eight values that begin at `first` (n,) as rows (n, WIDTH)."""
    if len(first) * WIDTH == len(column):
        return column.reshape(-1, WIDTH)
    return np.asarray(column[first[:, None] + np.arange(WIDTH)])


def _outside(first: Ints, count: int) -> Bools:
    """Return a mask of the `count` samples that belong to no run of eight."""
    outside = np.ones(count, np.bool_)
    outside[first[:, None] + np.arange(WIDTH)] = False
    return outside


def _apart(value: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Reshape the values of groups (g, capacity, WIDTH) to one row per series (g WIDTH, capacity)."""
    return value.transpose(0, 2, 1).reshape(-1, value.shape[1])
