"""The record detector: a measurement is anomalous if the value, or the step of its mean, is outside the range of all earlier values.

Each value x of a series is tested in three ways. Is x outside the range of all values so far? Is the step (mean of the last 30
values minus mean of the 30 values before) outside the range of all steps, once a whole day was observed? Is x outside the range of
its hour of the day, once this hour was observed on eight days? The margin is the distance outside the range as a share of its width.
The detector fires if the margin exceeds a tolerance. Values often leave the range of their hour. In this test the margin must
therefore also exceed the earlier margins of the series by a quarter. Records are frequent at the start and come in swarms, so after
a record that fires the series rests.

The detector stays sensitive over a long time. The ranges cover the last 15,000 to 20,000 values, but at least three weeks, so that a
weekend is not forgotten by Friday. The range of an hour shrinks a little each day, and so do the margins.
Benchmark: Lavin, Ahmad, "Evaluating real-time anomaly detection algorithms - the Numenta anomaly benchmark" (2015). On the
development half of the files of this benchmark, the condition on earlier margins raises the score from 72 to 82 (low false
positives: 61 to 77), on the other half from 76 to 82 (65 to 76); any factor from 1 to 2 does as well.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from processors.models.numerics.arrays import Floats, Indices

ROWS_FIRST: Final = 16
MARK_BYTES: Final = 4  # length of the checksum of the columns before stored rows


@dataclass(frozen=True, slots=True)
class Column:
    """The layout of a column: the shape, type and start value of one row."""

    shape: tuple[int, ...]
    dtype: str
    start: float

    def empty(self, rows: int) -> NDArray[Any]:
        return np.full((rows, *self.shape), self.start, self.dtype)


class ColumnTable:
    """Columns by name, each an array (rows, ...). `size` rows are in use; a row has `row_bytes` bytes, in memory and stored.

    >>> table = ColumnTable({"count": Column((), "int64", 0)})
    >>> table.grow(3)
    >>> table["count"][1] = 7
    >>> other = ColumnTable({"count": Column((), "int64", 0)})
    >>> other.restore(1, 3, table.stored(1, 3))
    >>> other["count"][:3].tolist(), other.size, other.row_bytes
    ([0, 7, 0], 3, 8)
    """

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = dict(columns)
        self._mark = crc32(repr(sorted(columns.items())).encode()).to_bytes(MARK_BYTES, "little")
        self.row_bytes = sum(column.empty(1).nbytes for column in columns.values())
        self.size = 0
        self._arrays = {name: column.empty(0) for name, column in columns.items()}

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return the array of a column. The table replaces the array when it grows."""
        return self._arrays[name]

    def grow(self, rows: int) -> None:
        """Grow to at least `rows` rows; the capacity doubles and never shrinks."""
        room = next(iter(self._arrays.values())).shape[0]
        if rows > room:
            more = max(rows, 2 * room, ROWS_FIRST) - room
            for name, column in self._columns.items():
                self._arrays[name] = np.concatenate([self._arrays[name], column.empty(more)])
        self.size = max(self.size, rows)

    def clear(self, rows: NDArray[np.intp]) -> None:
        for name, column in self._columns.items():
            self._arrays[name][rows] = column.start

    def stored(self, first: int, last: int) -> bytes:
        """Return the rows from `first` to `last`, exclusive: a checksum of the columns, then the bytes of each column."""
        return self._mark + b"".join(_little(self._arrays[name][first:last]).tobytes() for name in self._columns)

    def stored_each(self, rows: NDArray[np.intp]) -> NDArray[np.uint8]:
        """Return what `stored` returns for each single row of `rows` (m,), as an array (m, bytes).

        >>> table = ColumnTable({"count": Column((), "int64", 5), "mean": Column((2,), "float32", 0.5)})
        >>> table.grow(3)
        >>> table.stored_each(np.array([2, 0]))[1].tobytes() == table.stored(0, 1)
        True
        """
        mark = np.broadcast_to(np.frombuffer(self._mark, np.uint8), (len(rows), MARK_BYTES))
        columns = (np.ascontiguousarray(_little(self._arrays[name][rows])) for name in self._columns)
        return np.concatenate([mark, *(part.reshape(len(rows), -1).view(np.uint8) for part in columns)], axis=1)

    def restore(self, first: int, last: int, state: bytes) -> None:
        """Restore the rows from `first` to `last`, exclusive, from a result of `stored`.

        Raise ValueError if `state` has other columns or another number of rows.
        """
        if state[:MARK_BYTES] != self._mark or len(state) != MARK_BYTES + (last - first) * self.row_bytes:
            raise ValueError("the stored rows are of other columns or another number of rows")
        self.grow(last)
        at = MARK_BYTES
        for name, column in self._columns.items():
            stored_type = np.dtype(column.dtype).newbyteorder("<")
            count = (last - first) * int(np.prod(column.shape))
            flat = np.frombuffer(state, stored_type, count, at)
            self._arrays[name][first:last] = flat.reshape((last - first, *column.shape))
            at += count * stored_type.itemsize


def _little(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values in the byte order of stored rows."""
    return values.astype(values.dtype.newbyteorder("<"), copy=False)


Singles = NDArray[np.float32]

HALF: Final = 30  # values in each of the two means
WARM_UP: Final = 30  # values in a range before the range is used
STEP_H: Final = 24  # hours that the range of steps must cover before the range is used
# days on which an hour was observed before its margins are stored, because until then each weekday is new
HOUR_SEEN: Final = 7
BLOCKS: Final = 4  # blocks of values that a range covers
HOURS: Final = 24
HOUR_MS: Final = 3_600_000
OUTSIDE: Final = 1e-9  # least distance outside a range
REST_SHARE: Final = 0.03  # length of a rest, as a share of the number of values so far
REST_MIN: Final = 30
REST_MAX: Final = 150
RESTING: Final = 0.4  # factor of a score while the series rests

WAYS: Final = ("value", "step", "hour")
# of a value, of the step between means, and of a value at its hour, as shares of the range
TOLERANCES: Final = (0.02, 0.02, 0.1)
HOUR_DAYS: Final = 8  # earlier days that the test of the hour needs
HOUR_MARGIN: Final = 1.25  # a margin of the hour must exceed the largest margin so far by this factor
HOUR_DECAY: Final = (
    0.005  # share of its width by which each side of an hour's range shrinks per day; so does the largest margin
)
BLOCK: Final = 5000  # least number of values in a block
BLOCK_H: Final = 168  # least length of a block
SINGLE_MAX: Final = 3e38  # largest stored distance

COLUMNS: Final = {  # values are stored as their difference from the first value
    "count": Column((), "int32", 0),
    "rests_until": Column((), "int32", 0),
    "slot": Column((), "int32", -1),
    "block": Column((), "uint8", 0),
    "block_count": Column((), "int32", 0),
    "block_slot": Column((), "int32", 0),
    "base": Column((), "float64", 0.0),
    "history": Column((2 * HALF,), "float32", 0.0),
    "low": Column((2, BLOCKS), "float32", np.inf),
    "high": Column((2, BLOCKS), "float32", -np.inf),
    "hour_low": Column((HOURS,), "float32", np.inf),
    "hour_high": Column((HOURS,), "float32", -np.inf),
    "hour_days": Column((HOURS,), "uint8", 0),
    "hour_margin": Column((), "float32", 0.0),
    "first_slot": Column((), "int32", 0),
}


class RecordStep(NamedTuple):
    """The verdict on m new values, each field (m,): score in [0, 1], whether the detector fired, and the margin of the value.

    The margin is the distance outside the earlier range, as a share of its width. `way` is the index in WAYS of the test with the
    largest margin relative to its tolerance. `low` and `high` are the range of all earlier values; for the hour test, of those in
    the same hour of the day.
    """

    score: Floats
    fired: NDArray[np.bool_]
    margin: Floats
    low: Floats
    high: Floats
    way: Indices


class RecordRule:
    """The record detector for many series, one row each.

    >>> rule = RecordRule()
    >>> for x in [10.0, 12.0, 11.0] * 12 + [12.03, 12.5]:
    ...     step = rule.step(np.array([0]), np.array([x]), 0)
    >>> step.margin.round(4), step.fired, (step.low, step.high.round(4))
    (array([0.2315]), array([ True]), (array([10.]), array([12.03])))
    """

    def __init__(self) -> None:
        self.table = ColumnTable(COLUMNS)

    def step(self, rows: Indices, value: Floats, time_ms: int | NDArray[np.int64]) -> RecordStep:
        """Score one value of each of the series `rows` (m,), then learn the value. Values that are not finite are skipped.

        `time_ms` is (m,) or a single time. Each row occurs once; missing rows are added.
        """
        result = RecordStep(*(np.zeros(rows.size, kind) for kind in (float, bool, float, float, float, np.intp)))
        use = np.flatnonzero(np.isfinite(value))
        if use.size == 0:
            return result
        at = rows[use]
        self.table.grow(int(at.max()) + 1)
        found = self._score(at, value[use], np.broadcast_to(np.asarray(time_ms, np.int64), rows.shape)[use])
        for whole, part in zip(result, found, strict=True):
            whole[use] = part
        return result

    def _score(self, at: Indices, x: Floats, time_ms: NDArray[np.int64]) -> RecordStep:
        """Return the verdicts on finite values `x` of the series `at`, and learn these values."""
        table = self.table
        count = table["count"][at].astype(np.int64)
        base = np.where(count == 0, x, table["base"][at])
        table["base"][at] = base
        with np.errstate(over="ignore"):
            single = np.clip(x - base, -SINGLE_MAX, SINGLE_MAX).astype(np.float32)
        pair = np.stack([single, self._push(at, single, count)], axis=1)
        low, high = table["low"][at].min(axis=2).astype(float), table["high"][at].max(axis=2).astype(float)
        width = high - low
        off, step = pair.astype(float).T
        by_value = _margin(off, low[:, 0], high[:, 0], width[:, 0], count >= WARM_UP)
        first_slot = np.where(count == 0, time_ms // HOUR_MS, table["first_slot"][at])
        table["first_slot"][at] = first_slot
        covered = time_ms // HOUR_MS - first_slot >= STEP_H
        by_step = _margin(step, low[:, 1], high[:, 1], width[:, 1], (count >= 2 * HALF - 1 + WARM_UP) & covered)
        by_hour, hour_low, hour_high = self._hour(at, single, time_ms, width[:, 0])
        ways = np.stack([by / tol for by, tol in zip((by_value, by_step, by_hour), TOLERANCES, strict=True)])
        self._learn(at, pair, count)
        score, fired = self._rest(at, count, ways.max(axis=0))
        way = ways.argmax(axis=0)
        usual_low, usual_high = (
            np.where(way == 2, of_hour, of_all) for of_hour, of_all in ((hour_low, low[:, 0]), (hour_high, high[:, 0]))
        )
        return RecordStep(score, fired, by_value, base + usual_low, base + usual_high, way)

    def _push(self, at: Indices, single: Singles, count: NDArray[np.int64]) -> Singles:
        """Append the values to the history, and return the mean of its newer half minus that of its older half; nan until it is full."""
        history = np.concatenate([self.table["history"][at][:, 1:], single[:, None]], axis=1)
        self.table["history"][at] = history
        step = history[:, HALF:].mean(axis=1, dtype=float) - history[:, :HALF].mean(axis=1, dtype=float)
        return np.where(count >= 2 * HALF - 1, np.clip(step, -SINGLE_MAX, SINGLE_MAX), np.nan).astype(np.float32)

    def _hour(self, at: Indices, single: Singles, time_ms: NDArray[np.int64], width: Floats) -> tuple[Floats, ...]:
        """Return the margins of the values outside the range of their hour of the day, and both ends of this range; learn the values.

        `width` is the width of the range of all values, which the margins are a share of.
        """
        table = self.table
        slot = time_ms // HOUR_MS
        hour, new = slot % HOURS, slot != table["slot"][at]
        days = table["hour_days"][at, hour].astype(np.int64)
        low, high = table["hour_low"][at, hour], table["hour_high"][at, hour]
        found = low.astype(float), high.astype(float)
        margin = _margin(single.astype(float), *found, width, days - ~new >= HOUR_SEEN)
        judged = days - ~new >= HOUR_DAYS
        margin = self._above_past(at, margin, judged, np.where(new, HOUR_DECAY / HOURS, 0.0))
        with np.errstate(invalid="ignore", over="ignore"):
            shrink = np.where(new & (days > 0), HOUR_DECAY * (high - low), 0.0).astype(np.float32)
        table["hour_low"][at, hour] = np.minimum(low + shrink, single)
        table["hour_high"][at, hour] = np.maximum(high - shrink, single)
        table["hour_days"][at, hour] = np.minimum(days + new, 255)
        table["slot"][at] = slot
        return margin, *found

    def _above_past(self, at: Indices, margin: Floats, judged: NDArray[np.bool_], decay: Floats) -> Floats:
        """Return each margin that exceeds `hour_margin` times the largest margin before, 0 for others and where not `judged`.

        The largest margin shrinks by the share `decay` and is updated.
        """
        past = (1.0 - decay) * self.table["hour_margin"][at]
        self.table["hour_margin"][at] = np.minimum(np.maximum(past, margin), SINGLE_MAX)
        return np.where(judged & (margin > HOUR_MARGIN * past), margin, 0.0)

    def _learn(self, at: Indices, pair: Singles, count: NDArray[np.int64]) -> None:
        """Extend the ranges of the current block by new values and steps; if the block is full, start a new one in place of the oldest."""
        table = self.table
        low, high, slot = table["low"], table["high"], table["slot"][at]
        begun = np.where(count == 0, slot, table["block_slot"][at])
        anew = (table["block_count"][at] >= BLOCK) & (slot - begun >= BLOCK_H)
        block = (table["block"][at] + anew) % BLOCKS
        table["block"][at], table["block_slot"][at] = block, np.where(anew, slot, begun)
        table["block_count"][at] = np.where(anew, 1, table["block_count"][at] + 1)
        low[at[anew], :, block[anew]] = np.inf
        high[at[anew], :, block[anew]] = -np.inf
        low[at, :, block] = np.fmin(low[at, :, block], pair)
        high[at, :, block] = np.fmax(high[at, :, block], pair)
        table["count"][at] = count + 1

    def _rest(self, at: Indices, count: NDArray[np.int64], over: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the scores, and a mask of the series that fire; `over` is the largest margin divided by its tolerance.

        A series that fires does not fire again for a number of values, and its scores are multiplied by RESTING.
        """
        resting = count <= self.table["rests_until"][at]
        resting &= self.table["rests_until"][at] > 0
        fired = (over > 1.0) & ~resting
        rest = np.clip(REST_SHARE * count, REST_MIN, REST_MAX).astype(np.int64)
        self.table["rests_until"][at] = np.where(fired, count + rest, self.table["rests_until"][at])
        return -np.expm1(-over) * np.where(resting, RESTING, 1.0), fired


def _margin(y: Floats, low: Floats, high: Floats, width: Floats, judged: NDArray[np.bool_]) -> Floats:
    """Return the distance of `y` from the range `low` to `high` as a share of `width`; 0 inside the range or if not `judged`.

    Outside a range of zero width the margin is 1.
    """
    with np.errstate(all="ignore"):
        outside = np.maximum(y - high, low - y)
        margin = np.where(width > 0.0, outside / width, 1.0)
    return np.where(judged & (outside > OUTSIDE) & ~np.isnan(margin), margin, 0.0)
