"""Ring buffers of the latest samples of every series, which start small and grow; a series with too many samples is thinned.

Finding the ring of a sample costs more than storing the sample. Eight series that always arrive together in one record
therefore share a ring, because their samples have the same times and the same slots.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from processors.models.numerics.arrays import Bools, Floats, Ints, ranks, run_starts
from processors.windows.settings import NEVER_MS

Singles = npt.NDArray[np.float32]

ROWS_STEP: Final = 64
CAPACITIES: Final = (16, 48, 128, 304, 432, 512)
_CAPACITY: Final = np.array(CAPACITIES)
ROUND: Final = 128  # samples of a series added at a time, so that they fit beside the stored samples
GROUP: Final = 4096  # rings that grow at a time, so that old and new rings together stay small
CELL_MS: Final = 10_000
NO_RING: Final = -1
_ZERO: Final = ("next", "filled", "in_cell", "thinned")
DEFAULTS: Final = {"pool": NO_RING, "row": NO_RING, "newest_ms": NEVER_MS} | dict.fromkeys(_ZERO, 0)


class Strip(NamedTuple):
    """Rings as arrays: series number (r,), times and values (r, capacity) by slot, and number of filled slots (r,)."""

    series: Ints
    time: npt.NDArray[np.uint32]
    value: Singles
    filled: Ints


class Held(NamedTuple):
    """The samples of r series by time, each field (r, capacity); a sample that is not `alive` has no meaning."""

    time_ms: Ints
    value: Singles
    alive: Bools

    def of(self, rows: Ints) -> "Held":
        return Held(self.time_ms[rows], self.value[rows], self.alive[rows])


State = tuple[Ints, Ints, Bools]
"""State of r series, each (r,): newest time, number of samples in the newest ten-second cell, and whether samples were dropped."""


class Pool:
    """Rings of `capacity` samples, a row each, in two dense arrays; `owner` (rows,) is the series of each row.

    A sample is one value, or `width` values. Times are milliseconds modulo 2**32 (49 days); a sample takes eight bytes.
    The last row moves to the place of a removed row, so that memory shrinks at once. Arrays grow in place; keep no view
    of them.
    """

    def __init__(self, capacity: int, width: int | None = None) -> None:
        self.capacity = capacity
        self.rows = 0
        self._rows_step = ROWS_STEP // (width or 1)
        self.time = np.zeros((0, capacity), np.uint32)
        self.value = np.zeros((0, capacity) if width is None else (0, capacity, width), np.float32)
        self.owner = np.zeros(0, np.int32)

    def add(self, series: npt.NDArray[np.integer]) -> Ints:
        rows = np.arange(self.rows, self.rows + len(series))
        self._resize(self.rows + len(series))
        self.owner[rows] = series
        return rows

    def remove(self, rows: Ints) -> tuple[Ints, Ints]:
        """Free rows; return the series that moved into the gaps, and their new rows."""
        left = self.rows - len(rows)
        gaps = rows[rows < left]
        stays = np.ones(self.rows - left, np.bool_)
        stays[rows[rows >= left] - left] = False
        movers = np.flatnonzero(stays) + left
        for column in (self.time, self.value, self.owner):
            column[gaps] = column[movers]
        moved = self.owner[gaps].astype(np.int64)
        self._resize(left)
        return moved, gaps

    def _resize(self, rows: int) -> None:
        self.rows = rows
        allocated = len(self.owner)
        slack = max(self._rows_step, rows // 16)
        if rows <= allocated <= rows + 4 * slack:
            return
        room = rows + slack if rows else 0
        for column in (self.time, self.value):
            column.resize((room, *column.shape[1:]), refcheck=False)  # in place, without a second copy of a large array
        self.owner.resize(room, refcheck=False)


class Rings:
    """Samples by series number; of several samples with the same time only the first counts.

    A sample may be needed for `keep_ms`. Of each ten seconds of a series only the first samples are kept, so many that a ring of
    512 samples suffices for `keep_ms` (11 per ten seconds for 430 s). Dropped samples are counted, and the series is marked as
    thinned. The result depends on the samples alone, so that windows fill the same way after a restart. A series with samples
    takes at most 4.2 KB, a series without samples 50 bytes.

    With a `width` each series is a group of `width` series whose values (m, width) arrive together. `counts` counts samples
    that were ``repeated``, and samples that were ``thinned`` away.
    """

    def __init__(self, keep_ms: int, width: int | None = None, counts: Counter[str] | None = None) -> None:
        self.width = width or 1
        self.pools = tuple(Pool(capacity, width) for capacity in CAPACITIES)
        self.cell_max = CAPACITIES[-1] // (keep_ms // CELL_MS + 2)
        self.counts = Counter() if counts is None else counts
        self.pool = np.zeros(0, np.int8)
        self.row = np.zeros(0, np.int64)
        self.next = np.zeros(0, np.int64)
        self.filled = np.zeros(0, np.int64)
        self.newest_ms = np.zeros(0, np.int64)
        self.in_cell = np.zeros(0, np.int64)
        self.thinned = np.zeros(0, np.bool_)

    def append(self, series: Ints, time_ms: Ints, value: Floats, floor_ms: int) -> None:
        """Add samples, (m,) each. Stored samples older than `floor_ms` may be overwritten."""
        if not len(series):
            return
        self._reserve(int(series.max()) + 1)
        if (series[1:] < series[:-1]).any():
            order = _stable_order(series)
            series, time_ms, value = series[order], time_ms[order], value[order]
        rank = ranks(series)
        most = int(rank.max()) + 1
        if most <= ROUND:
            self._round(series, time_ms, value, floor_ms)
            return
        for first in range(0, most, ROUND):
            chosen = (rank >= first) & (rank < first + ROUND)
            self._round(series[chosen], time_ms[chosen], value[chosen], floor_ms)

    def clear_quiet(self, floor_ms: int) -> int:
        """Free the rings of series whose samples are all older than `floor_ms`; return the number of rings freed."""
        quiet = np.flatnonzero((self.pool != NO_RING) & (self.newest_ms < floor_ms))
        self._clear(quiet)
        return len(quiet)

    def take_out(self, series: Ints, floor_ms: int) -> Iterator[tuple[Ints, Held, State]]:
        """Remove the rings of `series`, and yield series numbers with the content and state of their rings, in parts."""
        series = series[self.has(series)]
        for number in range(len(self.pools)):
            some = series[self.pool[series] == number]
            if len(some):
                held = self._alive(some, floor_ms)
                state = self.newest_ms[some], self.in_cell[some], self.thinned[some]
                self._clear(some)
                yield some, held, state

    def put_in(self, series: Ints, held: Held, state: State) -> None:
        """Store the content of removed rings for series that have no ring."""
        self._reserve(int(series.max()) + 1)
        self._settle(series, held, held.alive.sum(axis=1))
        self.newest_ms[series], self.in_cell[series], self.thinned[series] = state

    def has(self, series: npt.NDArray[np.integer]) -> Bools:
        """Return a mask of the series that have a ring, in the shape of `series`."""
        has_ring = series < len(self.pool)
        has_ring[has_ring] = self.pool[series[has_ring]] != NO_RING
        return np.asarray(has_ring)

    def strips(self, chosen: Bools, rows: int) -> Iterator[Strip]:
        """Yield the rings of the chosen series (mask by number), at most `rows` at a time, as views that later calls invalidate."""
        for pool in self.pools:
            for first in range(0, pool.rows, rows):
                some = slice(first, min(first + rows, pool.rows))
                owner = pool.owner[some].astype(np.int64)
                row = np.flatnonzero(chosen[owner])
                time, value = pool.time[some], pool.value[some]
                if len(row) == len(owner):
                    yield Strip(owner, time, value, self.filled[owner])
                elif len(row):
                    yield Strip(owner[row], time[row], value[row], self.filled[owner[row]])

    def numbers(self) -> Ints:
        return np.flatnonzero(self.pool != NO_RING)

    def renumber(self, retained: Ints) -> None:
        """Renumber the series `retained` (in order) to 0, 1, ...; it must contain every series that has a ring."""
        number = np.full(max(len(self.pool), int(retained.max(initial=-1)) + 1), NO_RING, np.int32)
        number[retained] = np.arange(len(retained))
        for pool in self.pools:
            pool.owner[: pool.rows] = number[pool.owner[: pool.rows]]
        self._reserve(len(number))
        for name in DEFAULTS:
            setattr(self, name, getattr(self, name)[retained])

    def series_count(self) -> int:
        return sum(pool.rows for pool in self.pools)

    def _round(self, series: Ints, time_ms: Ints, value: Floats, floor_ms: int) -> None:
        fresh = self._fresh(series, time_ms)
        if not fresh.all():
            series, time_ms, value = series[fresh], time_ms[fresh], value[fresh]
        while len(crowded := self._crowded(series, floor_ms)):
            self._enlarge(crowded, np.bincount(series, minlength=len(self.pool))[crowded], floor_ms)
        self._write(series, time_ms, value)

    def _fresh(self, series: Ints, time_ms: Ints) -> Bools:
        """Return a mask of samples (sorted by series) whose time is new and whose ten-second interval is not full."""
        fresh = np.ones(len(series), np.bool_)
        if not len(series):
            return fresh
        newest_ms, cell = self.newest_ms[series], time_ms // CELL_MS
        before_ms = np.concatenate(([NEVER_MS], time_ms[:-1]))
        starts = run_starts(series)
        before_ms[starts] = newest_ms[starts]
        retained = np.where(cell == newest_ms // CELL_MS, self.in_cell[series], 0)
        late = time_ms <= before_ms
        if late.any():
            self._compare(series, time_ms, late, fresh, retained)
            self.counts["repeated"] += self.width * (len(fresh) - int(fresh.sum()))
        return self._with_room(series, cell, retained, fresh)

    def _compare(self, series: Ints, time_ms: Ints, late: Bools, fresh: Bools, retained: Ints) -> None:
        """Compare the new samples of series that have a late sample with their stored samples.

        Set `fresh` to False for samples whose time is already stored, and `retained` to the number of samples stored in their ten
        seconds.
        """
        doubtful = np.zeros(len(self.pool), np.bool_)
        doubtful[series[late]] = True
        rows = np.flatnonzero(doubtful[series])
        rows = rows[np.lexsort((time_ms[rows], series[rows]))]
        for first in range(0, len(rows), GROUP * 4):
            some = rows[first : first + GROUP * 4]
            stored, retained[some] = self._already_stored(series[some], time_ms[some])
            fresh[some] = ~stored
        again = (series[rows][1:] == series[rows][:-1]) & (time_ms[rows][1:] == time_ms[rows][:-1])
        fresh[rows[1:][again]] = False

    def _with_room(self, series: Ints, cell: Ints, retained: Ints, fresh: Bools) -> Bools:
        """Return `fresh` without samples beyond the limit of their ten seconds (`cell`), which already have `retained` samples."""
        if not (series[1:] == series[:-1]).any():
            crowd = np.flatnonzero(fresh & (retained >= self.cell_max))  # one sample of each series
        else:
            candidates = np.flatnonzero(fresh)
            order = candidates[np.lexsort((cell[candidates], series[candidates]))]
            rank = ranks(series[order] * (2**40) + cell[order] % 2**40)
            crowd = order[rank + retained[order] >= self.cell_max]
        if len(crowd):
            fresh[crowd] = False
            self.thinned[series[crowd]] = True
            self.counts["thinned"] += self.width * len(crowd)
        return fresh

    def _already_stored(self, series: Ints, time_ms: Ints) -> tuple[Bools, Ints]:
        """Return a mask of samples whose time is already stored, and the number of stored samples in the ten seconds of each sample."""
        is_stored, retained = np.zeros(len(series), np.bool_), np.zeros(len(series), np.int64)
        for number, pool in enumerate(self.pools):
            chosen = np.flatnonzero(self.pool[series] == number)
            if len(chosen):
                s, wanted_ms = series[chosen], time_ms[chosen][:, None]
                newest_ms = self.newest_ms[s][:, None]
                stored_ms = newest_ms - _age(pool.time[self.row[s]], newest_ms).astype(np.int64)
                filled = np.arange(pool.capacity) < self.filled[s][:, None]
                is_stored[chosen] = ((stored_ms == wanted_ms) & filled).any(axis=1)
                retained[chosen] = ((stored_ms // CELL_MS == wanted_ms // CELL_MS) & filled).sum(axis=1)
        return is_stored, retained

    def _crowded(self, series: Ints, floor_ms: int) -> Ints:
        """Return the series that need a larger ring: they have no ring, or new samples would overwrite samples still needed."""
        rank = ranks(series)
        crowded = self.pool[series] == NO_RING
        for pool, chosen in self._by_pool(series):
            s, nth = series[chosen], rank[chosen]
            slot = (self.next[s] + nth) % pool.capacity
            newest_ms = self.newest_ms[s]
            floor_age = np.minimum(newest_ms - floor_ms, 2**31)  # times wrap around, so larger ages have no meaning
            stored = pool.time.reshape(-1)[self.row[s] * pool.capacity + slot]
            needed = _age(stored, newest_ms).astype(np.int64) <= floor_age
            crowded[chosen] = (nth >= pool.capacity) | ((slot < self.filled[s]) & needed)
        if not crowded.any():
            return np.zeros(0, np.int64)
        return np.flatnonzero(np.bincount(series[crowded], minlength=len(self.pool)))

    def _by_pool(self, series: Ints) -> Iterator[tuple[Pool, "Ints | slice"]]:
        """Yield each pool with rings of `series` (m,), and the indexes in `series` of the series in this pool."""
        number = self.pool[series]
        counts = np.bincount(number + 1, minlength=len(self.pools) + 1)[1:]
        for found in np.flatnonzero(counts).tolist():
            alone = counts[found] == len(series)
            yield self.pools[found], slice(None) if alone else np.flatnonzero(number == found)

    def _enlarge(self, series: Ints, needs: Ints, floor_ms: int) -> None:
        """Move the series to rings with space for their needed samples plus `needs` more."""
        for first in range(0, len(series), GROUP):
            group, more = series[first : first + GROUP], needs[first : first + GROUP]
            numbers = self.pool[group]
            for number in np.unique(numbers):
                self._move(group[numbers == number], more[numbers == number], floor_ms)

    def _move(self, series: Ints, needs: Ints, floor_ms: int) -> None:
        held = self._alive(series, floor_ms)
        # samples that do not fit span more than `keep_ms`; the oldest are dropped
        room = (CAPACITIES[-1] - needs)[:, None]
        held = held._replace(alive=held.alive & (held.alive[:, ::-1].cumsum(axis=1)[:, ::-1] <= room))
        self._free(series)
        self._settle(series, held, held.alive.sum(axis=1) + needs)

    def _alive(self, series: Ints, floor_ms: int) -> Held:
        """Return the samples (not older than `floor_ms`) of series that share one pool."""
        number = int(self.pool[series[0]])
        if number == NO_RING:
            shape, value = (len(series), 0), self.pools[0].value
            return Held(
                np.zeros(shape, np.int64), np.zeros((*shape, *value.shape[2:]), value.dtype), np.zeros(shape, np.bool_)
            )
        pool, rows = self.pools[number], self.row[series]
        newest_ms = self.newest_ms[series][:, None]
        time_ms = newest_ms - _age(pool.time[rows], newest_ms).astype(np.int64)
        alive = (time_ms >= floor_ms) & (np.arange(pool.capacity) < self.filled[series][:, None])
        order = np.argsort(np.where(alive, time_ms, NEVER_MS), axis=1, kind="stable")
        row = np.arange(len(series))[:, None]
        return Held(time_ms[row, order], pool.value[rows][row, order], alive[row, order])

    def _settle(self, series: Ints, held: Held, samples: Ints) -> None:
        """Give each series without a ring a new ring with room for its number of `samples`, and store the content `held`."""
        target = np.searchsorted(CAPACITIES, samples)
        for number in np.unique(target).tolist():
            chosen, pool = np.flatnonzero(target == number), self.pools[number]
            some, (time_ms, value, alive) = series[chosen], held.of(chosen)
            rows = pool.add(some)
            source, column = np.nonzero(alive)
            slot = ranks(source)
            pool.time[rows[source], slot] = (time_ms[source, column] & 0xFFFFFFFF).astype(np.uint32)
            pool.value[rows[source], slot] = value[source, column]
            self.pool[some], self.row[some] = number, rows
            self.filled[some] = alive.sum(axis=1)
            self.next[some] = self.filled[some] % pool.capacity

    def _clear(self, series: Ints) -> None:
        self._free(series)
        self.newest_ms[series] = NEVER_MS
        self.in_cell[series], self.thinned[series] = 0, False

    def _free(self, series: Ints) -> None:
        for number, pool in enumerate(self.pools):
            released = series[self.pool[series] == number]
            if len(released):
                moved, rows = pool.remove(self.row[released])
                self.row[moved] = rows
        self.pool[series], self.filled[series], self.next[series] = NO_RING, 0, 0

    def _write(self, series: Ints, time_ms: Ints, value: Floats) -> None:
        if not len(series):
            return
        rank = ranks(series)
        for pool, chosen in self._by_pool(series):
            s = series[chosen]
            place = self.row[s] * pool.capacity + _wrapped(self.next[s] + rank[chosen], pool.capacity)
            pool.time.reshape(-1)[place] = (time_ms[chosen] & 0xFFFFFFFF).astype(np.uint32)
            pool.value.reshape(-1, *pool.value.shape[2:])[place] = value[chosen]
        last = np.flatnonzero(np.concatenate((series[1:] != series[:-1], [True])))
        if len(last) == len(series):
            self._note_one(series, time_ms)
        else:
            self._note_several(series, time_ms, series[last], rank[last] + 1)

    def _note_one(self, series: Ints, time_ms: Ints) -> None:
        """Update the state of `series` after one sample was added to each series."""
        self._move_on(series, 1)
        before_ms = self.newest_ms[series]
        newest_ms = np.maximum(before_ms, time_ms)
        cell = newest_ms // CELL_MS
        in_cell = np.where(before_ms // CELL_MS == cell, self.in_cell[series], 0)
        self.in_cell[series] = in_cell + (time_ms // CELL_MS == cell)
        self.newest_ms[series] = newest_ms

    def _note_several(self, series: Ints, time_ms: Ints, ends: Ints, counts: Ints) -> None:
        """Update the state of `series` after `counts` samples were added to each series."""
        self._move_on(ends, counts)
        before = self.newest_ms[ends] // CELL_MS
        np.maximum.at(self.newest_ms, series, time_ms)
        newest = self.newest_ms[series] // CELL_MS
        self.in_cell[ends] = np.where(before == self.newest_ms[ends] // CELL_MS, self.in_cell[ends], 0)
        np.add.at(self.in_cell, series[time_ms // CELL_MS == newest], 1)

    def _move_on(self, series: Ints, counts: Ints | int) -> None:
        capacity = _CAPACITY[self.pool[series]]
        self.next[series] = _wrapped(self.next[series] + counts, capacity)
        self.filled[series] = np.minimum(self.filled[series] + counts, capacity)

    def _reserve(self, count: int) -> None:
        have = len(self.pool)
        if count <= have:
            return
        room = max(count, have + have // 4, 64)
        for name, default in DEFAULTS.items():
            old = getattr(self, name)
            setattr(self, name, np.concatenate((old, np.full(room - have, default, old.dtype))))


def _age(time: npt.NDArray[np.uint32], newest_ms: Ints | int) -> npt.NDArray[np.uint32]:
    """Return the age in ms of stored times relative to the newest time of their series; uint32 wraps after 49 days."""
    return (np.asarray(newest_ms) & 0xFFFFFFFF).astype(np.uint32) - time


def _stable_order(series: Ints) -> Ints:
    """Return a stable sort order by series; sorting unique keys is several times faster than a stable sort."""
    bits = len(series).bit_length()
    keys = np.sort(series << bits | np.arange(len(series)))
    return keys & (1 << bits) - 1


def _wrapped(slot: Ints, capacity: Ints | int) -> Ints:
    """Return slots modulo `capacity`; each slot must be less than twice the capacity, because no division is done."""
    return np.where(slot >= capacity, slot - capacity, slot)


WIDTH: Final = 8
NO_GROUP: Final = -1
GROUPS_STEP: Final = 64
Number = TypeVar("Number", bound=np.generic)


class GroupedRings:
    """The samples of series, as in `Rings`, but with less time and memory if records are wide.

    Eight new series of a record become a group. The group lasts while the eight series arrive together in this order.
    At the first sample of a single member the group is split, and each member gets its own ring with its samples.
    """

    def __init__(self, keep_ms: int, counts: Counter[str] | None = None) -> None:
        self._single = Rings(keep_ms, counts=counts)
        self.counts = self._single.counts
        self._joint = Rings(keep_ms, WIDTH, self.counts)
        self._group = np.zeros(0, np.int32)  # group of each series
        self._members = np.zeros((0, WIDTH), np.int32)  # members of each group
        self._free: list[int] = []

    def append(self, series: Ints, time_ms: Ints, value: Floats, record: Ints, floor_ms: int) -> None:
        """Add samples (m,), sorted so that samples of one `record` are adjacent. Samples older than `floor_ms` may be dropped."""
        first = _eights(record, time_ms)
        if not len(first) and not len(self._members):  # every record has one sample
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
        cleared = self._single.clear_quiet(floor_ms) + WIDTH * self._joint.clear_quiet(floor_ms)
        self._forget(np.flatnonzero(self._used() & ~self._joint.has(np.arange(len(self._members)))))
        return cleared

    def numbers(self) -> Ints:
        return np.sort(np.concatenate((self._single.numbers(), self._members[self._used()].reshape(-1))))

    def renumber(self, retained: Ints) -> None:
        self._reserve(int(retained.max(initial=-1)) + 1)
        number = np.zeros(len(self._group), np.int32)
        number[retained] = np.arange(len(retained))
        self._members = number[self._members]
        self._group = self._group[retained]
        self._single.renumber(retained)

    def series_count(self) -> int:
        return self._single.series_count() + WIDTH * self._joint.series_count()

    def strips(self, chosen: Bools, rows: int) -> Iterator[Strip]:
        yield from self._single.strips(chosen, rows)
        groups = np.asarray(chosen[self._members].any(axis=1))
        for joint in self._joint.strips(groups, rows // WIDTH):
            series = self._members[joint.series].reshape(-1).astype(np.int64)
            row = np.flatnonzero(chosen[series])
            group = row // WIDTH
            yield Strip(series[row], joint.time[group], _apart(joint.value)[row], joint.filled[group])

    def _grouped(self, eights: Ints) -> Bools:
        """Return a mask of the sets of eight series (n, WIDTH) that form a group."""
        group = self._group[eights[:, 0]]
        is_group = group != NO_GROUP
        is_group[is_group] = (self._members[group[is_group]] == eights[is_group]).all(axis=1)
        return np.asarray(is_group)

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
        """Split the groups `group`: each member gets its own ring with its samples."""
        parted = np.unique(group[group != NO_GROUP]).astype(np.int64)
        for some, held, (newest_ms, in_cell, thinned) in self._joint.take_out(parted, floor_ms):
            row = np.repeat(np.arange(len(some)), WIDTH)
            alone = Held(held.time_ms[row], _apart(held.value), held.alive[row])
            series = self._members[some].reshape(-1).astype(np.int64)
            self._single.put_in(series, alone, (newest_ms[row], in_cell[row], thinned[row]))
        self._forget(parted)

    def _forget(self, group: Ints) -> None:
        members = self._members[group]
        # a member may already belong to another group
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
    """Return the eight values of `column` from each index in `first` (n,) on, as rows (n, WIDTH)."""
    if len(first) * WIDTH == len(column):
        return column.reshape(-1, WIDTH)
    return np.asarray(column[first[:, None] + np.arange(WIDTH)])


def _outside(first: Ints, count: int) -> Bools:
    outside = np.ones(count, np.bool_)
    outside[first[:, None] + np.arange(WIDTH)] = False
    return outside


def _apart(value: Singles) -> Singles:
    """Reshape the values of groups (g, capacity, WIDTH) to one row per series (g WIDTH, capacity)."""
    return value.transpose(0, 2, 1).reshape(-1, value.shape[1])
