"""The latest samples of every series in rings that start small and grow; a series with too many samples is thinned."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from processors.models.numerics.arrays import Floats
from processors.windows.settings import NEVER_MS

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int64]

ROWS_STEP: Final = 64
CAPACITIES: Final = (16, 48, 128, 304, 432, 512)
_CAPACITY: Final = np.array(CAPACITIES)
ROUND: Final = 128  # samples of one series taken at a time, so that they fit beside what is there
GROUP: Final = 4096  # rings that grow at a time, so that old and new ones together stay small
CELL_MS: Final = 10_000
NO_RING: Final = -1
DEFAULTS: Final = {
    "pool": NO_RING,
    "row": NO_RING,
    "next": 0,
    "filled": 0,
    "newest_ms": NEVER_MS,
    "in_cell": 0,
    "thinned": 0,
}
"""The columns of rings by series, and what they hold of a series without one."""


class Strip(NamedTuple):
    """Rings as arrays: series number (r,), times and values (r, capacity) by slot, and number of filled slots (r,)."""

    series: Ints
    time: npt.NDArray[np.uint32]
    value: npt.NDArray[np.float32]
    filled: Ints


class Held(NamedTuple):
    """What the rings of some series (r,) hold in order of time, each (r, capacity), with what is `alive`; and the state of each (r,)."""

    time_ms: Ints
    value: npt.NDArray[np.float32]
    alive: npt.NDArray[np.bool_]
    newest_ms: Ints
    in_cell: Ints
    thinned: npt.NDArray[np.bool_]


class Pool:
    """Rings of `capacity` samples, a row each, close together in two arrays; `owner` (rows,) names the series of each row.

    A sample is one value, or `width` of them. Times are milliseconds modulo 2**32 (49 days), eight bytes a sample in all. Rows stay dense: a removed row is
    filled by one from the end, so that memory follows use at once. Arrays grow in place; keep no view of them.
    """

    def __init__(self, capacity: int, width: int | None = None) -> None:
        self.capacity = capacity
        self.rows = 0
        self._rows_step = ROWS_STEP // (width or 1)
        self.time = np.zeros((0, capacity), np.uint32)
        self.value = np.zeros((0, capacity) if width is None else (0, capacity, width), np.float32)
        self.owner = np.zeros(0, np.int32)

    def add(self, series: npt.NDArray[np.integer]) -> Rows:
        """Add rows for these series; return the rows (m,), whose content is undefined."""
        rows = np.arange(self.rows, self.rows + len(series))
        self._resize(self.rows + len(series))
        self.owner[rows] = series
        return rows

    def remove(self, rows: Rows) -> tuple[Rows, Rows]:
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

    def memory_bytes(self) -> int:
        return self.time.nbytes + self.value.nbytes + self.owner.nbytes

    def _resize(self, rows: int) -> None:
        self.rows = rows
        allocated = len(self.owner)
        slack = max(self._rows_step, rows // 16)
        if rows <= allocated <= rows + 4 * slack:
            return
        wanted = rows + slack if rows else 0
        for column in (self.time, self.value):
            column.resize((wanted, *column.shape[1:]), refcheck=False)  # in place: no second copy of a large array
        self.owner.resize(wanted, refcheck=False)


class Rings:
    """Samples by series number; a sample of a time that is there already counts once, the first stays.

    `keep_ms` is how long a sample may be needed. Each ten seconds of a series keep as many samples as fit into 512 for
    all of `keep_ms` (11 of 430 s), the first to come; what is left out is counted, and the series marked as thinned.
    That follows from the samples alone, so that windows fill the same again. Memory is at most 4.2 KB for a series with
    samples and 50 bytes for one without.

    With a `width` a series is a group of so many, whose values (m, width) come together: each counts as so many samples.
    """

    def __init__(self, keep_ms: int, width: int | None = None) -> None:
        self.width = width or 1
        self.pools = tuple(Pool(capacity, width) for capacity in CAPACITIES)
        self.cell_max = CAPACITIES[-1] // (keep_ms // CELL_MS + 2)
        self.repeated = 0
        self.thinned_away = 0
        self.pool = np.zeros(0, np.int8)
        self.row = np.zeros(0, np.int64)
        self.next = np.zeros(0, np.int64)
        self.filled = np.zeros(0, np.int64)
        self.newest_ms = np.zeros(0, np.int64)
        self.in_cell = np.zeros(0, np.int64)
        self.thinned = np.zeros(0, np.bool_)

    def append(self, series: Ints, time_ms: Ints, value: Floats, floor_ms: int) -> None:
        """Add samples (m,); samples older than `floor_ms` may be overwritten."""
        if not len(series):
            return
        self._reserve(int(series.max()) + 1)
        if (series[1:] < series[:-1]).any():
            order = _stable_order(series)
            series, time_ms, value = series[order], time_ms[order], value[order]
        rank = _ranks(series)
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

    def take_out(self, series: Ints, floor_ms: int) -> Iterator[tuple[Ints, Held]]:
        """Remove the rings of these series and yield series numbers with the content of their rings, in parts."""
        series = series[self.has(series)]
        for number in range(len(self.pools)):
            some = series[self.pool[series] == number]
            if len(some):
                state = self.newest_ms[some], self.in_cell[some], self.thinned[some]
                held = Held(*self._alive(some, floor_ms), *state)
                self._clear(some)
                yield some, held

    def put_in(self, series: Ints, held: Held) -> None:
        """Store the content of removed rings for series that have no ring."""
        self._reserve(int(series.max()) + 1)
        target = np.searchsorted(CAPACITIES, held.alive.sum(axis=1))
        for number in np.unique(target):
            some = np.flatnonzero(target == number)
            self._settle(int(number), series[some], (held.time_ms[some], held.value[some], held.alive[some]))
        self.newest_ms[series], self.in_cell[series], self.thinned[series] = held.newest_ms, held.in_cell, held.thinned

    def has(self, series: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
        """Return a mask, in the shape of `series`, of the series that have a ring."""
        found = series < len(self.pool)
        found[found] = self.pool[series[found]] != NO_RING
        return np.asarray(found)

    def strips(self, chosen: npt.NDArray[np.bool_], rows: int) -> Iterator[Strip]:
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

    def retained(self, series: int) -> tuple[Ints, npt.NDArray[np.float32]]:
        """Return times and values of a series in order of time, including expired samples that were not overwritten yet."""
        if series >= len(self.pool) or self.pool[series] == NO_RING:
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        pool, filled = self.pools[self.pool[series]], int(self.filled[series])
        newest_ms = int(self.newest_ms[series])
        time_ms = newest_ms - _age(pool.time[self.row[series], :filled], newest_ms).astype(np.int64)
        order = np.argsort(time_ms, kind="stable")
        return time_ms[order], pool.value[self.row[series], :filled][order]

    def numbers(self) -> Ints:
        """Return the series that have a ring."""
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

    def memory_bytes(self) -> int:
        columns = (self.pool, self.row, self.next, self.filled, self.newest_ms, self.in_cell, self.thinned)
        return sum(pool.memory_bytes() for pool in self.pools) + sum(column.nbytes for column in columns)

    def _round(self, series: Ints, time_ms: Ints, value: Floats, floor_ms: int) -> None:
        fresh = self._fresh(series, time_ms)
        if not fresh.all():
            series, time_ms, value = series[fresh], time_ms[fresh], value[fresh]
        while len(crowded := self._crowded(series, floor_ms)):
            self._enlarge(crowded, np.bincount(series, minlength=len(self.pool))[crowded], floor_ms)
        self._write(series, time_ms, value)

    def _fresh(self, series: Ints, time_ms: Ints) -> npt.NDArray[np.bool_]:
        """Return a mask of samples (sorted by series) with a new time and free space in their ten-second cell."""
        fresh = np.ones(len(series), np.bool_)
        if not len(series):
            return fresh
        newest_ms, cell = self.newest_ms[series], time_ms // CELL_MS
        before_ms = np.concatenate(([NEVER_MS], time_ms[:-1]))
        starts = np.flatnonzero(_starts(series))
        before_ms[starts] = newest_ms[starts]
        retained = np.where(cell == newest_ms // CELL_MS, self.in_cell[series], 0)
        late = time_ms <= before_ms
        if late.any():
            self._compare(series, time_ms, late, (fresh, retained))
            self.repeated += self.width * (len(fresh) - int(fresh.sum()))
        return self._with_room(series, cell, retained, fresh)

    def _compare(
        self, series: Ints, time_ms: Ints, late: npt.NDArray[np.bool_], found: tuple[npt.NDArray[np.bool_], Ints]
    ) -> None:
        """Compare samples of series that have a late sample with the stored ones: repeated times and cell counts go to `found`."""
        fresh, retained = found
        doubtful = np.zeros(len(self.pool), np.bool_)
        doubtful[series[late]] = True
        rows = np.flatnonzero(doubtful[series])
        rows = rows[np.lexsort((time_ms[rows], series[rows]))]
        for first in range(0, len(rows), GROUP * 4):
            some = rows[first : first + GROUP * 4]
            known, retained[some] = self._already_stored(series[some], time_ms[some])
            fresh[some] = ~known
        again = (series[rows][1:] == series[rows][:-1]) & (time_ms[rows][1:] == time_ms[rows][:-1])
        fresh[rows[1:][again]] = False

    def _with_room(
        self, series: Ints, cell: Ints, retained: Ints, fresh: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        """Return the mask `fresh` without samples that exceed the limit of their cell, which already holds `retained` samples."""
        if not (series[1:] == series[:-1]).any():
            crowd = np.flatnonzero(fresh & (retained >= self.cell_max))  # one sample of each series
        else:
            found = np.flatnonzero(fresh)
            order = found[np.lexsort((cell[found], series[found]))]
            rank = _ranks(series[order] * (2**40) + cell[order] % 2**40)
            crowd = order[rank + retained[order] >= self.cell_max]
        if len(crowd):
            fresh[crowd] = False
            self.thinned[series[crowd]] = True
            self.thinned_away += self.width * len(crowd)
        return fresh

    def _already_stored(self, series: Ints, time_ms: Ints) -> tuple[npt.NDArray[np.bool_], Ints]:
        """Return a mask of the times already stored, and the number of stored samples in each sample's cell."""
        found, retained = np.zeros(len(series), np.bool_), np.zeros(len(series), np.int64)
        for number, pool in enumerate(self.pools):
            here = np.flatnonzero(self.pool[series] == number)
            if len(here):
                s, wanted_ms = series[here], time_ms[here][:, None]
                newest_ms = self.newest_ms[s][:, None]
                stored_ms = newest_ms - _age(pool.time[self.row[s]], newest_ms).astype(np.int64)
                filled = np.arange(pool.capacity) < self.filled[s][:, None]
                found[here] = ((stored_ms == wanted_ms) & filled).any(axis=1)
                retained[here] = ((stored_ms // CELL_MS == wanted_ms // CELL_MS) & filled).sum(axis=1)
        return found, retained

    def _crowded(self, series: Ints, floor_ms: int) -> Ints:
        """Return the series without a ring, or with a ring in which these samples would overwrite samples still needed."""
        rank = _ranks(series)
        crowded = self.pool[series] == NO_RING
        for pool, here in self._by_pool(series):
            s, nth = series[here], rank[here]
            slot = (self.next[s] + nth) % pool.capacity
            newest_ms = self.newest_ms[s]
            floor_age = np.minimum(newest_ms - floor_ms, 2**31)  # a ring ahead of the floor by more is no ring
            stored = pool.time.reshape(-1)[self.row[s] * pool.capacity + slot]
            needed = _age(stored, newest_ms).astype(np.int64) <= floor_age
            crowded[here] = (nth >= pool.capacity) | ((slot < self.filled[s]) & needed)
        if not crowded.any():
            return np.zeros(0, np.int64)
        return np.flatnonzero(np.bincount(series[crowded], minlength=len(self.pool)))

    def _by_pool(self, series: Ints) -> Iterator[tuple[Pool, "Ints | slice"]]:
        """Yield each pool that holds rings of these series (m,), with the indexes of its series in `series`."""
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
        time_ms, value, alive = self._alive(series, floor_ms)
        # only samples of more than `keep_ms` could be too many: the oldest go
        alive &= alive[:, ::-1].cumsum(axis=1)[:, ::-1] <= (CAPACITIES[-1] - needs)[:, None]
        target = np.searchsorted(CAPACITIES, alive.sum(axis=1) + needs)
        self._free(series)
        for number in np.unique(target):
            chosen = np.flatnonzero(target == number)
            self._settle(int(number), series[chosen], (time_ms[chosen], value[chosen], alive[chosen]))

    def _alive(self, series: Ints, floor_ms: int) -> tuple[Ints, npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
        """Return times, values and a mask of needed samples, each (m, capacity), in order of time; all series share one pool."""
        number = int(self.pool[series[0]])
        if number == NO_RING:
            nothing, value = np.zeros((len(series), 0)), self.pools[0].value
            return (
                nothing.astype(np.int64),
                np.zeros((*nothing.shape, *value.shape[2:]), value.dtype),
                nothing.astype(np.bool_),
            )
        pool, rows = self.pools[number], self.row[series]
        newest_ms = self.newest_ms[series][:, None]
        time_ms = newest_ms - _age(pool.time[rows], newest_ms).astype(np.int64)
        alive = (time_ms >= floor_ms) & (np.arange(pool.capacity) < self.filled[series][:, None])
        order = np.argsort(np.where(alive, time_ms, NEVER_MS), axis=1, kind="stable")
        row = np.arange(len(series))[:, None]
        return time_ms[row, order], pool.value[rows][row, order], alive[row, order]

    def _settle(
        self, number: int, series: Ints, content: tuple[Ints, npt.NDArray[np.float32], npt.NDArray[np.bool_]]
    ) -> None:
        time_ms, value, alive = content
        pool = self.pools[number]
        rows = pool.add(series)
        source, column = np.nonzero(alive)
        slot = _ranks(source)
        pool.time[rows[source], slot] = (time_ms[source, column] & 0xFFFFFFFF).astype(np.uint32)
        pool.value[rows[source], slot] = value[source, column]
        self.pool[series], self.row[series] = number, rows
        self.filled[series] = alive.sum(axis=1)
        self.next[series] = self.filled[series] % pool.capacity

    def _clear(self, series: Ints) -> None:
        self._free(series)
        self.newest_ms[series] = NEVER_MS
        self.in_cell[series], self.thinned[series] = 0, False

    def _free(self, series: Ints) -> None:
        for number, pool in enumerate(self.pools):
            here = series[self.pool[series] == number]
            if len(here):
                moved, rows = pool.remove(self.row[here])
                self.row[moved] = rows
        self.pool[series], self.filled[series], self.next[series] = NO_RING, 0, 0

    def _write(self, series: Ints, time_ms: Ints, value: Floats) -> None:
        if not len(series):
            return
        rank = _ranks(series)
        for pool, here in self._by_pool(series):
            s = series[here]
            place = self.row[s] * pool.capacity + _wrapped(self.next[s] + rank[here], pool.capacity)
            pool.time.reshape(-1)[place] = (time_ms[here] & 0xFFFFFFFF).astype(np.uint32)
            pool.value.reshape(-1, *pool.value.shape[2:])[place] = value[here]
        last = np.flatnonzero(np.concatenate((series[1:] != series[:-1], [True])))
        if len(last) == len(series):
            self._note_one(series, time_ms)
        else:
            self._note_several(series, time_ms, series[last], rank[last] + 1)

    def _note_one(self, series: Ints, time_ms: Ints) -> None:
        """Store one sample of each series in the bookkeeping of its cell."""
        self._move_on(series, 1)
        before_ms = self.newest_ms[series]
        newest_ms = np.maximum(before_ms, time_ms)
        cell = newest_ms // CELL_MS
        in_cell = np.where(before_ms // CELL_MS == cell, self.in_cell[series], 0)
        self.in_cell[series] = in_cell + (time_ms // CELL_MS == cell)
        self.newest_ms[series] = newest_ms

    def _note_several(self, series: Ints, time_ms: Ints, ends: Ints, counts: Ints) -> None:
        """Store `counts` samples of each series in the bookkeeping of its cells."""
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
        wanted = max(count, have + have // 4, 64)
        for name, default in DEFAULTS.items():
            old = getattr(self, name)
            setattr(self, name, np.concatenate((old, np.full(wanted - have, default, old.dtype))))


def _age(time: npt.NDArray[np.uint32], newest_ms: Ints | int) -> npt.NDArray[np.uint32]:
    """Return the age in ms of stored times relative to the newest time of their series; uint32 wraps after 49 days."""
    return (np.asarray(newest_ms) & 0xFFFFFFFF).astype(np.uint32) - time


def _stable_order(series: Ints) -> Ints:
    """Return a stable sort order by series, from unique keys because they sort several times faster than a stable sort."""
    bits = len(series).bit_length()
    keys = np.sort(series << bits | np.arange(len(series)))
    return keys & (1 << bits) - 1


def _wrapped(slot: Ints, capacity: Ints | int) -> Ints:
    """Return slots modulo the capacity, for slots less than one capacity past the end; avoids a slower division."""
    return np.where(slot >= capacity, slot - capacity, slot)


def _starts(sorted_keys: Ints) -> npt.NDArray[np.bool_]:
    """Return a mask of the first element of each run of equal keys."""
    return np.concatenate(([True], sorted_keys[1:] != sorted_keys[:-1]))


def _ranks(sorted_keys: Ints) -> Ints:
    """Return the position of each element within its run of equal keys."""
    if not (sorted_keys[1:] == sorted_keys[:-1]).any():
        return np.zeros(len(sorted_keys), np.int64)
    starts = np.flatnonzero(_starts(sorted_keys))
    return np.arange(len(sorted_keys)) - np.repeat(starts, np.diff(np.append(starts, len(sorted_keys))))
