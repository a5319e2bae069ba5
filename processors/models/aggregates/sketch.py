"""A mergeable sketch of positive values: counts in logarithmic buckets, exact for any order of events.

Source: Masson, Rim, Lee, "DDSketch" (VLDB 2019), with the uniform collapse of Epicoco et al., "UDDSketch" (2020), which
bounds the memory. All state except minimum and maximum consists of integers, so merging is exactly associative and
commutative. Each bucket also keeps the sum of the positions of its values on the logarithmic scale: a single value, or
equal values, are then exact within 5e-6 instead of 5e-3.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

ALPHA = 0.005  # largest relative error of a quantile while the values need at most BUCKETS_MAX buckets
GAMMA = (1 + ALPHA) / (1 - ALPHA)
BUCKETS_MAX = 256
POSITIONS = 1024  # positions on the logarithmic scale per bucket of level 0
_LEVEL_MAX = 16  # all positive floats fit in BUCKETS_MAX buckets of level 10
_LOG_STEP = math.log(GAMMA) / POSITIONS
_LOG_MAX = math.log(1.7976931348623157e308)


class Bucket(NamedTuple):
    """A bucket of a sketch: number of values, and sum of their positions on the logarithmic scale."""

    number: int
    positions: int

    @property
    def mean_ln(self) -> float:
        return self.positions / self.number * _LOG_STEP


class LogSketch:
    """Quantiles of positive values in bounded memory; the state does not depend on the order of adding and merging.

    A value has the integer position round(1024 log_gamma value); a bucket of level l spans 2^l 1024 positions. At level 0 the
    relative error of a quantile is at most 0.5 %, and BUCKETS_MAX buckets cover values within a factor of about twelve. If more
    buckets are needed, all pairs of neighbours merge: l grows by one, and the error about doubles.

    >>> sketch = LogSketch()
    >>> for value in (10.0, 11.0, 30.0): sketch.add(value)
    >>> round(sketch.quantile(0.5), 3), sketch.count, sketch.min, sketch.max
    (11.0, 3, 10.0, 30.0)
    >>> LogSketch.build(sketch.snapshot()) == sketch
    True
    """

    __slots__ = ("_buckets", "count", "level", "max", "min")

    def __init__(self) -> None:
        self.count = 0
        self.min = math.inf
        self.max = 0.0
        self.level = 0
        self._buckets: dict[int, Bucket] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LogSketch) and self.snapshot() == other.snapshot()

    __hash__ = None  # type: ignore[assignment]  # it changes

    def add(self, value: float) -> None:
        """Add a value. Raise ValueError unless `value` is positive and finite."""
        if not 0 < value < math.inf:
            raise ValueError("A sketch holds positive, finite values only.")
        position = round(math.log(value) / _LOG_STEP)
        self._put(_key(position, self.level), Bucket(1, position))
        self.count += 1
        self.min = min(self.min, float(value))
        self.max = max(self.max, float(value))
        self._bound()

    def merge(self, other: "LogSketch") -> None:
        self._collapse_to(other.level)
        shift = self.level - other.level
        for key, bucket in other._buckets.items():  # noqa: SLF001  # the same class
            self._put(_joined(key, shift), bucket)
        self.count += other.count
        self.min, self.max = min(self.min, other.min), max(self.max, other.max)
        self._bound()

    def moved(self, positions: int, times: int = 1) -> "LogSketch":
        """Return a sketch of all values shifted by `positions` on the logarithmic scale; each value counts `times` times.

        All values of a bucket move together with their mean, which can increase the error by the width of a bucket.

        >>> sketch = LogSketch()
        >>> sketch.add(100.0)
        >>> round(sketch.moved(positions_of(math.log(1.25)), times=3).quantile(0.5), 2)
        125.0
        """
        twin = LogSketch()
        twin.level, twin.count = self.level, self.count * times
        factor = math.exp(min(positions * _LOG_STEP, _LOG_MAX / 2))
        twin.min, twin.max = self.min * factor, self.max * factor
        for bucket in self._buckets.values():
            total = bucket.positions + bucket.number * positions
            twin._put(_key(-(-total // bucket.number), self.level), Bucket(bucket.number * times, total * times))
        return twin

    def squares(self) -> float:
        """Return the sum of squared deviations of ln value from the mean; 0 for an empty sketch."""
        buckets = list(self.buckets())
        mean_ln = [bucket.mean_ln for bucket in buckets]
        centre = sum(bucket.number * ln for bucket, ln in zip(buckets, mean_ln, strict=True)) / max(self.count, 1)
        return sum(bucket.number * (ln - centre) ** 2 for bucket, ln in zip(buckets, mean_ln, strict=True))

    def buckets(self) -> Iterator[Bucket]:
        """Yield the buckets from the smallest values to the largest."""
        for key in sorted(self._buckets):
            yield self._buckets[key]

    def quantile(self, q: float) -> float:
        """Return the q-quantile, interpolated between order statistics as numpy does; 0 and 1 are exact.

        Raises ValueError if the sketch is empty or q lies outside 0 to 1.
        """
        if not 0 <= q <= 1 or self.count == 0:
            raise ValueError("A quantile needs a level between 0 and 1 and at least one value.")
        rank = q * (self.count - 1)
        low = math.floor(rank)
        if low == rank:
            return self._value(low)
        below, above = self._value(low), self._value(low + 1)
        return below + (rank - low) * (above - below)

    def snapshot(self) -> list[float]:
        """Return the state as a flat list of numbers: up to two values themselves, else min, max, level and three numbers per bucket.

        The three numbers are the key minus the previous key, the count, and the sum of the positions relative to the lower end of
        the bucket.
        """
        if self.count <= 2:
            return [self.min, self.max][2 - self.count :]
        state, last = [self.min, self.max, self.level], 0
        for key in sorted(self._buckets):
            count, positions = self._buckets[key]
            state += [key - last, count, positions - count * _start(key, self.level)]
            last = key
        return state

    @classmethod
    def build(cls, state: Sequence[float] = ()) -> "LogSketch":
        """Return the sketch of a snapshot. Raises ValueError if the list is not a snapshot."""
        sketch = cls()
        if len(state) <= 2:
            for value in state:
                sketch.add(value)
            return sketch
        if len(state) % 3 or not 0 <= state[2] <= _LEVEL_MAX:
            raise ValueError("A sketch's state has minimum, maximum, level 0 to 16 and three numbers for each bucket.")
        sketch.min, sketch.max, sketch.level = float(state[0]), float(state[1]), int(state[2])
        key = 0
        for step, count, positions in zip(*(map(int, state[start::3]) for start in (3, 4, 5)), strict=True):
            key += step
            sketch._put(key, Bucket(count, positions + count * _start(key, sketch.level)))
            sketch.count += count
        return sketch

    def _value(self, rank: int) -> float:
        """Return the order statistic of a rank 0..count-1 within the relative error."""
        if rank == 0:
            return self.min
        if rank == self.count - 1:
            return self.max
        before = 0
        for key in sorted(self._buckets):
            bucket = self._buckets[key]
            if rank < before + bucket.number:
                break
            before += bucket.number
        position = _order_statistic(bucket, rank - before + 1, _start(key, self.level), self.level)
        return min(max(math.exp(min(position * _LOG_STEP, _LOG_MAX)), self.min), self.max)

    def _put(self, key: int, bucket: Bucket) -> None:
        entry = self._buckets.get(key)
        self._buckets[key] = bucket if entry is None else Bucket(entry[0] + bucket[0], entry[1] + bucket[1])

    def _bound(self) -> None:
        while len(self._buckets) > BUCKETS_MAX:
            self._collapse_to(self.level + 1)

    def _collapse_to(self, level: int) -> None:
        shift = level - self.level
        if shift > 0:
            buckets, self._buckets, self.level = self._buckets, {}, level
            for key, bucket in buckets.items():
                self._put(_joined(key, shift), bucket)


def positions_of(ln_factor: float) -> int:
    """Return the distance on the scale of the sketches, in positions, of a factor given as its logarithm."""
    return round(ln_factor / _LOG_STEP)


def ln_factor_of(positions: int) -> float:
    """Return the logarithm of the factor that corresponds to a distance in positions."""
    return positions * _LOG_STEP


def _key(position: int, level: int) -> int:
    """Return the number k of the bucket that holds a position: the bucket covers ((k - 1) w, k w], with the width w = 2^level 1024."""
    return _joined(-(-position // POSITIONS), level)


def _joined(key: int, shift: int) -> int:
    """Return the number of the bucket that contains bucket `key` after neighbouring buckets have merged in pairs `shift` times."""
    return -(-key >> shift)


def _start(key: int, level: int) -> int:
    """Return the position of the lower end of a bucket."""
    return ((key - 1) << level) * POSITIONS


def _order_statistic(bucket: Bucket, rank: int, start: int, level: int) -> float:
    """Return the position of the `rank`-th smallest value (1..count) of a bucket, within the relative error of the sketch.

    Count and mean bound the value: it is lowest if all larger values lie at the upper end of the bucket, and highest if all
    smaller values lie at the lower end. The result is the mean, moved if necessary so that it is close enough to both bounds.
    """
    width = POSITIONS << level
    count, total = bucket.number, bucket.positions - bucket.number * start
    lowest = max(0.0, (total - (count - rank) * width) / rank)
    highest = min(float(width), total / (count - rank + 1))
    growth = GAMMA ** (1 << level)
    above = math.log(2 * growth / (growth + 1)) / _LOG_STEP
    return start + min(max(total / count, highest - (width - above)), max(lowest + above, 0.0))
