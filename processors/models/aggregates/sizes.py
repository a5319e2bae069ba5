"""Run times of one application by size: the input of every model of run time.

All values pass through the integer arithmetic of the sketches and are summed in the order of sizes. Any order of events,
merged or not, therefore gives the same bits.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import astuple, dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from processors.models.aggregates.sketch import LogSketch, ln_factor_of, positions_of
from processors.models.numerics.arrays import Floats

SIZES_MAX = 64
NOISE_MIN = 0.03  # least standard deviation of ln t between runs that is credible
MISFIT = 0.02  # relative error of the models themselves
REPEATS_MIN = 8  # fewer repeats do not measure the noise
SCATTER_RATIO_MAX = 2.25  # of variances: a factor of 1.5 in ln t
_DIGITS = 9
LOW: Final = 0.25  # level of the quantile that stands for undisturbed runs
SLOW: Final = 0.95
DELAYS_MAX: Final = 10
SKEWED: Final = 3.0  # least ratio of the upper tail of the delays to their median if other jobs slow runs down: 1 for normal noise, 2.3 if exponential
SKEW_FLOOR: Final = 0.01  # in ln T
SKEWNESS_MIN: Final = 0.3  # least mean skewness of the sizes
NUMBERS: Final = 7  # leading fields of Derived that are numbers


class Derived(NamedTuple):
    """Statistics of the runs of one size: total weight of the runs, median and minimum in s, and spread.

    `squares` is the sum of squared deviations of ln t, each from the mean of its level, with `repeats` degrees of freedom.
    `low_s` is the run time at the lower quartile, and `level` the quantile level that this order statistic estimates. `delays` are
    up to DELAYS_MAX quantiles of ln(run time / low_s), empty for a single run. `skewness`, from -1 to 1, is the difference of the
    upper and the lower tail of ln t divided by their sum (Bowley, with deciles).
    """

    runs: float
    median_s: float
    min_s: float
    squares: float
    repeats: float
    low_s: float
    level: float = 0.5
    delays: tuple[float, ...] = ()
    skewness: float = 0.0

    @classmethod
    def of(cls, sketch: LogSketch, runs: float, *, min_s: float, squares: float, repeats: float) -> "Derived":
        """Return the statistics of a size; `runs` is the total weight, of which the counts in `sketch` are a fixed multiple."""
        median_s, times = sketch.quantile(0.5), sketch.count / runs
        if runs < 2.0:
            return cls(runs, median_s, min_s, squares, repeats, median_s)
        order, shown = int((runs - 1.0) * LOW), min(int(runs), DELAYS_MAX)  # the smallest run has the order 0
        low_s = sketch.quantile((order * times + (times - 1.0) / 2.0) / (sketch.count - 1.0))
        delays = [math.log(sketch.quantile((2 * i + 1) / (2 * shown)) / low_s) for i in range(shown)]
        above, below = math.log(sketch.quantile(0.9) / median_s), math.log(median_s / sketch.quantile(0.1))
        skewness = (above - below) / (above + below + SKEW_FLOOR)
        level = (order + 0.625) / (runs + 0.25)
        return cls(runs, median_s, min_s, squares, repeats, low_s, level, tuple(delays), skewness)


@dataclass(slots=True)
class SizeStat:
    """The run times of one size, and the end of the last run in ms since the epoch."""

    sketch: LogSketch = field(default_factory=LogSketch)
    last_ms: int = 0

    def add(self, run_time_s: float, time_ms: int) -> None:
        """Add a run; raise ValueError unless the run time is positive and finite."""
        self.sketch.add(run_time_s)
        self.last_ms = max(self.last_ms, time_ms)


class SizeTable:
    """Run times by size, for at most SIZES_MAX sizes. The size whose last run is oldest is evicted; `evicted` counts evictions.

    Sizes that agree in nine digits are one size.

    >>> table = SizeTable()
    >>> table.add(8, 100.0, time_ms=1)
    >>> table.add(8, 104.0, time_ms=2)
    >>> table.stats[8.0].sketch.count
    2
    >>> SizeTable.build(table.snapshot()).snapshot() == table.snapshot()
    True
    """

    __slots__ = ("evicted", "stats")

    def __init__(self) -> None:
        self.stats: dict[float, SizeStat] = {}
        self.evicted = 0

    def add(self, n: float, run_time_s: float, time_ms: int) -> None:
        """Add a run of the size `n`. Raises ValueError unless size and time are positive and finite."""
        size = rounded_size(n)
        stat = self.stats.get(size) or SizeStat()
        stat.add(run_time_s, time_ms)
        self.stats[size] = stat
        if len(self.stats) > SIZES_MAX:
            oldest = min(self.stats, key=lambda n: (self.stats[n].last_ms, n))
            del self.stats[oldest]
            self.evicted += 1

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain data: sizes ascending, each [n, last_ms, *sketch]."""
        rows = [[n, self.stats[n].last_ms, *self.stats[n].sketch.snapshot()] for n in sorted(self.stats)]
        return {"evicted": self.evicted, "sizes": rows}

    @classmethod
    def build(cls, state: dict[str, Any] | None = None) -> "SizeTable":
        table = cls()
        if state is not None:
            table.evicted = state["evicted"]
            table.stats = {
                float(n): SizeStat(LogSketch.build(sketch), last_ms) for n, last_ms, *sketch in state["sizes"]
            }
        return table


@dataclass(frozen=True, slots=True, eq=False)
class AggregatedSizes:
    """Aggregated observations by ascending size, arrays of shape (k,): the input of a fit.

    `noise` s is the standard deviation of ln t within a size, pooled over sizes, at least NOISE_MIN. `weight` is
    (tau^2 + s^2) / (tau^2 + s^2 / count), where tau is the relative error of the models: many repeats make a size more certain, but
    not more certain than the model. `scatter` is the measured noise without a minimum; 0 without repeats. If other jobs slow runs
    down, `median_s` and `noise` are derived from the low quantiles of the sizes, and `slowed_by` is the distance in ln t from the
    median to the 95 % quantile; otherwise `slowed_by` is 0.
    """

    n: Floats
    median_s: Floats
    min_s: Floats
    count: Floats
    weight: Floats
    noise: float
    scatter: float
    slowed_by: float = 0.0


def _sizes_by(derived: dict[float, Derived]) -> AggregatedSizes:
    sizes = sorted(derived)
    rows = np.array([derived[n][:NUMBERS] for n in sizes], dtype=np.float64).reshape(-1, NUMBERS)
    count, median_s, min_s, squares, repeats, low_s, level = rows.T
    alike = sizes_of(np.array(sizes), median_s, min_s, count, repeats=repeats, squares=squares)
    contention = _contention([derived[n] for n in sizes])
    if contention is None:
        return alike
    middle, slow = contention.at(0.5), contention.at(SLOW)
    noise = max(NOISE_MIN, float(middle))
    typical_s = low_s * np.exp(middle - contention.at(level))
    return replace(
        alike, median_s=typical_s, weight=_weights(count, noise), noise=noise, slowed_by=float(slow - middle)
    )


class _Contention(NamedTuple):
    """The distribution of delays by other jobs, pooled over sizes: `delays` (q,), ln(run time / `low_s` of the size), at quantile `levels`."""

    levels: Floats
    delays: Floats

    def at(self, level: float | Floats) -> Floats:
        return np.asarray(np.interp(level, self.levels, self.delays))


def _contention(derived: Sequence[Derived]) -> _Contention | None:
    """Return the distribution of delays by other jobs; None if there are few runs or ln t scatters symmetrically.

    A run takes T = I(n) C: the undisturbed time I of its size, and a slow-down C >= 1 by other jobs, whose distribution is the
    same at all sizes. The lower quartile of a size estimates I better than the median: if other jobs slow down a fifth of the
    runs, at least two of four runs are slow in one case of five, but hardly ever all four.
    """
    runs = sum(size.repeats for size in derived if size.delays)
    # a size whose runs are of several kinds has a long tail among all sizes, but to both sides
    if runs < REPEATS_MIN or sum(size.repeats * size.skewness for size in derived if size.delays) < SKEWNESS_MIN * runs:
        return None
    weighed: list[tuple[float, float]] = [
        (delay, size.repeats / len(size.delays)) for size in derived for delay in size.delays
    ]
    delays, mass = np.array(sorted(weighed), dtype=np.float64).T
    contention = _Contention((mass.cumsum() - mass / 2.0) / mass.sum(), delays)
    middle, slow = contention.at(np.array([0.5, 0.9])).tolist()
    return contention if slow - middle > SKEWED * max(middle, SKEW_FLOOR) else None


def bounded_squares(repeats: Floats, squares: Floats) -> Floats:
    """Return the sums of squares of sizes (k,), each limited to SCATTER_RATIO_MAX times the sum expected from all other sizes.

    There is no limit if the other sizes have fewer than REPEATS_MIN repeats. A size whose run time shifted permanently has runs at
    two levels: with 44 runs of 1 % noise, such a size raised the noise of the whole application to 15 % and widened the bands of
    unrelated sizes.

    >>> bounded_squares(np.array([10.0, 10.0, 40.0]), np.array([0.001, 0.001, 4.0])).round(4).tolist()
    [0.001, 0.001, 0.009]
    """
    other_repeats, other_squares = repeats.sum() - repeats, squares.sum() - squares
    most = SCATTER_RATIO_MAX * repeats * other_squares / np.maximum(other_repeats, 1.0)
    return np.where((other_repeats >= REPEATS_MIN) & (other_squares > 0.0), np.minimum(squares, most), squares)


def sizes_of(
    n: Floats, median_s: Floats, min_s: Floats, count: Floats, *, repeats: Floats, squares: Floats
) -> AggregatedSizes:
    """Return the observations of sizes (k,) with their weights.

    The noise is pooled from the sums of squared deviations of ln t, `squares` (k,), with `repeats` (k,) degrees of freedom.
    """
    total, bounded = float(repeats.sum()), float(bounded_squares(repeats, squares).sum())
    scatter = math.sqrt(bounded / max(total, 1.0))
    noise = NOISE_MIN if total < REPEATS_MIN else max(NOISE_MIN, scatter)  # too few repeats measure no noise
    return AggregatedSizes(n, median_s, min_s, count, _weights(count, noise), noise, scatter)


def thin(sizes: AggregatedSizes, limit: int = 12) -> AggregatedSizes:
    """Return at most `limit` sizes: the two sizes nearest in ln n merge repeatedly; the smallest and the largest size never merge.

    A merged size has the means of ln n and ln t, weighted by counts. Raises ValueError if `limit` is below 3.

    >>> many = aggregate(LevelTable(), [PlacedRun(n, 100 / n, 0) for n in (1, 2, 3.9, 4.1, 8)])
    >>> thin(many, 4).n.round(2).tolist()
    [1.0, 2.0, 4.0, 8.0]
    """
    if limit < 3:
        raise ValueError("Thinning keeps at least three sizes.")
    if sizes.n.size <= limit:
        return sizes
    groups = _groups(np.log(sizes.n).tolist(), sizes.count.tolist(), limit)
    count = np.add.reduceat(sizes.count, groups)
    n, median_s, min_s = (_log_means(row, sizes.count, groups) for row in (sizes.n, sizes.median_s, sizes.min_s))
    weight = _weights(count, sizes.noise)
    return replace(sizes, n=n, median_s=median_s, min_s=min_s, count=count, weight=weight)


def rounded_size(n: float) -> float:
    """Return a size rounded to nine digits; raise ValueError unless the size is positive and finite."""
    if not 0 < n < math.inf:
        raise ValueError("A size must be positive and finite.")
    size = float(n)
    return size if size.is_integer() and size < 10**_DIGITS else float(f"{size:.{_DIGITS}g}")


def rounded_sizes(sizes: Iterable[float]) -> list[float]:
    """Return sizes rounded to nine digits; raise ValueError unless all sizes are positive and finite."""
    return [rounded_size(n) for n in sizes]


def _weights(count: Floats, noise: float) -> Floats:
    weights: Floats = (MISFIT**2 + noise**2) / (MISFIT**2 + noise**2 / count)
    return weights


def _groups(logs: list[float], counts: list[float], limit: int) -> list[int]:
    """Return the start index of each group of sizes that merge: the nearest pair merges until `limit` groups are left.

    The first and the last size never merge. Gaps are rounded to nine decimals, because equal ratios of sizes must tie and then
    merge from the smallest sizes upward.
    """
    starts, logs, counts = list(range(len(logs))), list(logs), list(counts)
    gaps = [math.inf, *(round(b - a, 9) for a, b in pairwise(logs[1:-1])), math.inf]
    while len(starts) > limit:
        left = gaps.index(min(gaps))
        total = counts[left] + counts[left + 1]
        logs[left] = (counts[left] * logs[left] + counts[left + 1] * logs[left + 1]) / total
        counts[left] = total
        del logs[left + 1], counts[left + 1], starts[left + 1], gaps[left]
        for pair in (left - 1, left):
            if 0 < pair < len(logs) - 2:
                gaps[pair] = round(logs[pair + 1] - logs[pair], 9)
    return starts


def _log_means(values: Floats, count: Floats, groups: list[int]) -> Floats:
    """Return the weighted geometric mean of each group; a group of one value keeps this value to the bit."""
    total = np.add.reduceat(count, groups)
    means = np.exp(np.add.reduceat(count * np.log(values), groups) / total)
    alone = np.diff([*groups, values.size]) == 1
    return np.where(alone, values[groups], means)


FULL: Final = 20  # weights of runs in twentieths: present level, outliers, earlier levels
OUTLIER: Final = 5
EARLIER: Final = 2
OWN_ENOUGH: Final = 16  # with this many runs at the present level a size needs no earlier runs
LEVELS_MAX: Final = 8


class PlacedRun(NamedTuple):
    """A run to be added to a table: size, run time in s, and start in ms since the epoch; an outlier has less weight."""

    n: float
    run_time_s: float
    start_ms: int
    outlier: bool = False


@dataclass(frozen=True, slots=True)
class Level:
    """A period of run times that starts at `since_ms`; `position` is its shift from the first level, in positions of the sketches.

    `old_place` is set if one size shifted alone: the position of its median before the shift, converted to the first level of all
    sizes.
    """

    since_ms: int
    position: int
    old_place: int = 0


class LevelTable:
    """Run times by size, separated by level: all runs lie on one level until a lasting shift of the run times starts a new level.

    The table retains runs of the present level and, for sizes with few such runs, of one earlier level.

    >>> table = LevelTable()
    >>> for i in range(9): table.add(PlacedRun(4, 100.0, start_ms=i), end_ms=i)
    >>> table.move(since_ms=10, ln_factor=0.2231, margin=0.05)  # 25 % slower
    False
    >>> aggregate(table, []).median_s.round(1).tolist()
    [125.0]
    >>> table.move(since_ms=20, ln_factor=-0.21, margin=0.05)  # it is back
    True
    >>> aggregate(table, []).median_s.round(1).tolist()
    [100.0]
    """

    __slots__ = ("earlier", "levels", "of_sizes", "own")

    def __init__(self) -> None:
        self.own = SizeTable()
        self.earlier: dict[float, tuple[int, SizeStat]] = {}
        self.levels: list[Level] = []
        # sizes that shifted alone: their levels relative to all other sizes
        self.of_sizes: dict[float, list[Level]] = {}

    def since_ms(self, n: float) -> int | None:
        """Return the time at which the present level of the size `n` started; None if its run times never shifted."""
        last = [levels[-1].since_ms for levels in (self.levels, self.of_sizes.get(rounded_size(n))) if levels]
        return max(last, default=None)

    def sizes(self) -> set[float]:
        return {*self.own.stats, *self.earlier}

    def counts(self) -> Counter[float]:
        """Return the number of retained runs of each size, over all levels."""
        counts = Counter({n: stat.sketch.count for n, stat in self.own.stats.items()})
        counts.update({n: stat.sketch.count for n, (_, stat) in self.earlier.items()})
        return counts

    @property
    def single(self) -> bool:
        """Whether the application has a single level, because its run times never shifted."""
        return not self.levels and not self.of_sizes

    def position(self, size: float, start_ms: float = math.inf) -> int:
        """Return the level of a size at `start_ms` (default: now), as its shift from the first level in positions of the sketches."""
        return _at(self.levels, start_ms) + _at(self.of_sizes.get(size, ()), start_ms)

    def moved_alone(self) -> dict[float, float]:
        """Return the sizes that shifted alone, each with the run time in s that the size would have now without this shift."""
        now = _at(self.levels, math.inf)
        moved = {n: levels[-1] for n, levels in self.of_sizes.items() if levels[-1].position}
        return {n: math.exp(ln_factor_of(level.old_place + now)) for n, level in moved.items()}

    def add(self, run: PlacedRun, end_ms: int) -> None:
        """Add a run to the level at which it started. Raise ValueError unless size and time are positive and finite."""
        size = rounded_size(run.n)
        position = self.position(size, run.start_ms)
        if position == self.position(size):
            self.own.add(size, run.run_time_s, end_ms)
            if size in self.own.stats and self.own.stats[size].sketch.count >= OWN_ENOUGH:
                self.earlier.pop(size, None)
            return
        entry = self.earlier.get(size)
        enough = size in self.own.stats and self.own.stats[size].sketch.count >= OWN_ENOUGH
        if enough or (entry is None and len(self.earlier) >= SIZES_MAX):
            return
        if entry is None or (entry[0] != position and self._age(size, entry[0]) > self._age(size, position)):
            entry = self.earlier[size] = (position, SizeStat())
        if entry[0] == position:
            entry[1].add(run.run_time_s, end_ms)

    def move(self, since_ms: int, ln_factor: float, margin: float) -> bool:
        """Start a level at exp(`ln_factor`) times the present level for all sizes; return whether it is an earlier level again.

        A level within `margin` (in ln) of an earlier level counts as that level.
        """
        sizes = self.sizes()
        before = {n: self.position(n) for n in sizes}
        self.levels, back = _moved(self.levels, since_ms, ln_factor, margin)
        for n in sizes:
            self._leave(n, before[n])
        return back

    def move_size(self, n: float, since_ms: int, ln_factor: float, margin: float, *, before_s: float) -> bool:
        """Start a new level for the size `n` only; arguments and result as in `move`.

        `before_s` is the median run time of `n` before the shift.
        """
        size = rounded_size(n)
        before, levels = self.position(size), self.of_sizes.pop(size, [])
        old_place = levels[-1].old_place if levels else positions_of(math.log(before_s)) - before
        levels, back = _moved(levels, since_ms, ln_factor, margin)
        # ordered by the time of the last shift
        self.of_sizes[size] = [*levels[:-1], replace(levels[-1], old_place=old_place)]
        if len(self.of_sizes) > SIZES_MAX:
            del self.of_sizes[next(iter(self.of_sizes))]
        self._leave(size, before)
        return back

    def _leave(self, size: float, before: int) -> None:
        """Store the runs of a size under its former level `before`, and restore its stored runs if they are of the present level."""
        stat, entry = self.own.stats.pop(size, None), self.earlier.get(size)
        if entry is not None and entry[0] == self.position(size):
            self.own.stats[size] = entry[1]
            del self.earlier[size]
        if stat is not None:
            self.earlier[size] = (before, stat)
            self.earlier = dict(sorted(self.earlier.items())[:SIZES_MAX])

    def snapshot(self) -> dict[str, Any]:
        rows = [[self.earlier[n][0], n, self.earlier[n][1].last_ms, *self.earlier[n][1].sketch.snapshot()]
                for n in sorted(self.earlier)]  # fmt: skip
        if self.single:
            return self.own.snapshot()
        levels = [[level.since_ms, level.position] for level in self.levels]
        of_sizes = [[n, [list(astuple(level)) for level in size_levels]] for n, size_levels in self.of_sizes.items()]
        return self.own.snapshot() | {"levels": levels, "earlier": rows} | ({"of_sizes": of_sizes} if of_sizes else {})

    @classmethod
    def build(cls, state: dict[str, Any] | None = None) -> "LevelTable":
        table = cls()
        table.own = SizeTable.build(state)
        if state is not None:
            table.levels = [Level(*level) for level in state.get("levels", ())]
            table.of_sizes = {
                float(n): [Level(*level) for level in size_levels] for n, size_levels in state.get("of_sizes", ())
            }
            table.earlier = {
                float(n): (position, SizeStat(LogSketch.build(sketch), last_ms))
                for position, n, last_ms, *sketch in state.get("earlier", ())
            }
        return table

    def _age(self, size: float, position: int) -> int:
        """Return how many level changes ago a size was last at `position`; the number of all its levels if it never was there."""
        since = sorted(level.since_ms for level in (*self.levels, *self.of_sizes.get(size, ())))
        positions = [self.position(size, moment) for moment in (-math.inf, *since)]
        return positions[::-1].index(position) if position in positions else len(positions)


def _at(levels: Sequence[Level], start_ms: float) -> int:
    positions = [level.position for level in levels if level.since_ms <= start_ms]
    return positions[-1] if positions else 0


def _moved(levels: list[Level], since_ms: int, ln_factor: float, margin: float) -> tuple[list[Level], bool]:
    """Return `levels` with a new level at exp(`ln_factor`) times the last level, and whether the new level is an earlier level again.

    A level within `margin` (in ln) of an earlier level gets the position of that level.
    """
    before = levels[-1].position if levels else 0
    target = before + positions_of(ln_factor)
    positions = {0, *(level.position for level in levels)} - {before}
    nearest = min(positions, key=lambda position: (abs(position - target), position), default=None)
    back = nearest is not None and abs(nearest - target) <= positions_of(margin)
    position = nearest if back and nearest is not None else target
    return [*levels, Level(since_ms, position)][-LEVELS_MAX:], back


@dataclass(slots=True)
class _Size:
    """Sketches of the runs of one size: at the present level, outliers, and at each earlier level."""

    own: LogSketch = field(default_factory=LogSketch)
    outlier: LogSketch = field(default_factory=LogSketch)
    earlier: defaultdict[int, LogSketch] = field(default_factory=lambda: defaultdict(LogSketch))


def aggregate(
    table: LevelTable, runs: Iterable[PlacedRun] = (), known: dict[float, Derived] | None = None
) -> AggregatedSizes:
    """Return the observations of `table` and of further `runs`, converted to the present level. `table` does not change.

    An outlier has a quarter of the weight of a run. For sizes with fewer than OWN_ENOUGH runs at the present level, runs of earlier
    levels are shifted to the present level and have a tenth of the weight. `known` caches the statistics of sizes that have not
    changed since an earlier call; the call adds the other sizes. Raises ValueError for a run whose size or time is not positive
    and finite.

    >>> sizes = aggregate(LevelTable(), [PlacedRun(2, 10.0, 0), PlacedRun(2, 10.2, 1), PlacedRun(2, 99.0, 2, outlier=True)])
    >>> sizes.count.tolist(), sizes.noise
    ([2.25], 0.03)
    """
    derived = {} if known is None else known
    derived.update({n: _derived(table, n, size) for n, size in _gathered(table, runs, derived).items()})
    return _sizes_by(derived)


def _derived(table: LevelTable, n: float, size: _Size) -> Derived:
    own, enough = size.own, size.own.count >= OWN_ENOUGH
    if own.count and not size.outlier.count and (enough or not size.earlier):
        return Derived.of(own, own.count, min_s=own.min, squares=own.squares(), repeats=own.count - 1)
    present = _weighted([(size.own, 0, FULL), (size.outlier, 0, OUTLIER)])
    earlier = sorted(size.earlier.items())  # sorted by level, because sums of floats depend on their order
    moved = [(sketch, table.position(n) - position, EARLIER) for position, sketch in earlier]
    whole = present if enough else _weighted([(present, 0, 1), *moved])
    repeats = squares = 0.0
    for sketch, unit in ((present, FULL), *((sketch, 1) for _, sketch in earlier)):
        repeats += max(sketch.count / unit - 1, 0.0)
        squares += sketch.squares() / unit
    least_s = (size.own if size.own.count else whole).min
    return Derived.of(whole, whole.count / FULL, min_s=least_s, squares=squares, repeats=repeats)


def _gathered(table: LevelTable, runs: Iterable[PlacedRun], known: Container[float]) -> dict[float, _Size]:
    """Return the sketches of `table` and `runs` for each size that `known` lacks."""
    sizes: defaultdict[float, _Size] = defaultdict(_Size)

    for n, stat in table.own.stats.items():
        if n not in known:
            sizes[n].own.merge(stat.sketch)
    for n, (position, stat) in table.earlier.items():
        if n not in known:
            sizes[n].earlier[position].merge(stat.sketch)
    for run in runs:
        if run.n in known or (n := rounded_size(run.n)) in known:
            continue
        entry, position = sizes[n], table.position(n, run.start_ms)
        if position != table.position(n):
            entry.earlier[position].add(run.run_time_s)
        else:
            (entry.outlier if run.outlier else entry.own).add(run.run_time_s)
    return sizes


def _weighted(parts: Iterable[tuple[LogSketch, int, int]]) -> LogSketch:
    """Return one sketch of all `parts`; a part is a sketch, the shift of its values in positions, and how often each value counts."""
    whole = LogSketch()
    for sketch, positions, times in parts:
        if sketch.count:
            whole.merge(sketch.moved(positions, times))
    return whole
