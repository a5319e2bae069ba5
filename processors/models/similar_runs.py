"""The run time of a job without a scaling law: a distribution of past runs, weighted by their similarity to the job.

Past runs come in groups, from the most similar to the least: runs of the same user, of the same name, of the same class
(time limit and size), and of the centre. Each group keeps its newest runs. A past run has the weight

    weight = trust decay^age exp(-|ln L'/L| / limit_width - |ln n'/n| / size_width) (other_name if the names differ)

with the time limits L, the sizes n, and age, the number of newer runs. Class and centre distribute a fixed trust among their
runs; user and name weigh more, the more similar runs they hold. The sum is a weighted sample of ln run time: its quantiles are
the forecast, its median the point forecast. The method is a kernel regression on ordered keys, as in Smith, Foster, Taylor,
"Predicting Application Run Times with Historical Information" (1998), with weights in place of templates.

A run that did not complete (failed, cancelled, ended by its limit) only shows that the job takes longer: the run is
censored, and its weight moves to longer runs (Kaplan, Meier 1958, as redistributed to the right by Efron 1967).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from processors.models.numerics.arrays import Bools, Floats
from processors.models.numerics.statistics import six_digits

Rows = npt.NDArray[np.float32]
Row = npt.NDArray[np.float32]  # (4,)

RUNS_MAX = 64
NAMES_MAX = 2**24  # the number of a name must be exact in a 32-bit float
TIME_ROW, LIMIT_ROW, SIZE_ROW, NAME_ROW = range(4)
_STORED = "<f4"
_ROOM = RUNS_MAX + 32  # columns; 32 are spare, so that only one run in 32 moves all rows
_LIMIT_CLASS = 1.4  # in ln; time limits within a factor of about four share a class
_SIZE_CLASS = 2.0 * math.log(2.0)  # in ln; sizes within a factor of four share a class


@dataclass(frozen=True, slots=True)
class ModelJob:
    """A future job: size, number of its name, time limit in seconds.

    `name` must be a whole number below NAMES_MAX; 0 means no name. Raises ValueError for a number outside its allowed range.
    """

    n: float
    name: int = 0
    time_limit_s: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.n < math.inf:
            raise ValueError("A size must be positive and finite.")
        if not 0 <= self.name < NAMES_MAX:
            raise ValueError("A name is a whole number from 0 to 2^24.")
        if self.time_limit_s is not None and not 0 < self.time_limit_s < math.inf:
            raise ValueError("A time limit must be positive and finite.")


def class_of(job: ModelJob) -> tuple[int, int]:
    """Return the class of a job: time limit (-1 without a limit) and size, both rounded on a logarithmic scale.

    The steps of both scales are a factor of about four.

    >>> class_of(ModelJob(n=16, time_limit_s=3600.0)) == class_of(ModelJob(n=20, time_limit_s=4000.0)), class_of(ModelJob(n=1))
    (True, (-1, 0))
    """
    limit = -1 if job.time_limit_s is None else max(round(math.log(job.time_limit_s) / _LIMIT_CLASS), 0)
    return limit, round(math.log(job.n) / _SIZE_CLASS)


class PastRuns:
    """At most RUNS_MAX newest runs of a group, newest first.

    >>> past = PastRuns()
    >>> past.put(row_of(ModelJob(n=4), 100.0))
    >>> past.count, past.run_times_s(), PastRuns(past.packed()).run_times_s()
    (1, [100.0], [100.0])
    """

    __slots__ = ("_completed", "_first", "_rows", "count")

    def __init__(self, packed: bytes = b"") -> None:
        retained = np.frombuffer(packed, dtype=_STORED).reshape(4, -1)
        self._rows = np.empty((4, _ROOM), dtype=np.float32)
        self.count = retained.shape[1]
        self._first = _ROOM - self.count
        self.rows[:] = retained
        self._completed = int(np.count_nonzero(retained[NAME_ROW] >= 0))

    def __repr__(self) -> str:
        return f"PastRuns({self.run_times_s()})"

    @property
    def rows(self) -> Rows:
        """Return ln run time, ln limit (nan: none), ln size and name, shape (4, count).

        The name of a run that did not complete is stored as -1 - name; older states, which have no such names, thus stay readable.
        """
        return self._rows[:, self._first : self._first + self.count]

    def packed(self) -> bytes:
        """Return the stored form: 16 bytes per run."""
        return self.rows.astype(_STORED).tobytes()

    def run_times_s(self) -> list[float]:
        """Return the run times in s, rounded to six digits, newest first."""
        return [six_digits(time_s) for time_s in np.exp(self.rows[TIME_ROW].astype(np.float64))]

    def tell(self, least: int) -> bool:
        """Return whether at least `least` runs have a known run time: runs that completed, or reached their own time limit."""
        if self._completed >= least:
            return True
        return int(np.count_nonzero((self.rows[NAME_ROW] >= 0) | _reached(self.rows))) >= least

    def completed(self, index: int) -> bool:
        """Return whether the run at `index` (0 is the newest) completed."""
        return bool(self.rows[NAME_ROW, index] >= 0)

    def put(self, row: Row, runs_max: int = RUNS_MAX) -> None:
        """Add a run by its row and drop the oldest runs beyond `runs_max`."""
        if not self._first:
            self._first = _ROOM - self.count
            self._rows[:, self._first :] = self._rows[:, : self.count]
        self._first -= 1
        self._rows[:, self._first] = row
        self.count += 1
        self._completed += row.item(NAME_ROW) >= 0
        while self.count > runs_max:
            self.count -= 1
            self._completed -= self._rows.item(NAME_ROW, self._first + self.count) >= 0

    def replace(self, index: int, row: Row) -> None:
        """Correct the run at `index` (0 is the newest); IndexError without such a run."""
        if not 0 <= index < self.count:
            raise IndexError("There is no such run.")
        self._completed += bool(row[NAME_ROW] >= 0) - self.completed(index)
        self.rows[:, index] = row

    def remove(self, index: int) -> None:
        """Remove the run at `index` (0 is the newest); IndexError without such a run."""
        if not 0 <= index < self.count:
            raise IndexError("There is no such run.")
        self._completed -= self.completed(index)
        rows = self.rows
        rows[:, index:-1] = rows[:, index + 1 :]
        self.count -= 1


def row_of(job: ModelJob, run_time_s: float, *, completed: bool = True) -> Row:
    """Return a run as the row (4,) that `PastRuns.rows` describes. Raise ValueError unless the run time is positive and finite.

    >>> row_of(ModelJob(n=1, name=7), 1.0, completed=False).tolist()
    [0.0, nan, 0.0, -8.0]
    """
    if not 0 < run_time_s < math.inf:
        raise ValueError("A run time must be positive and finite.")
    limit = math.nan if job.time_limit_s is None else math.log(job.time_limit_s)
    name = float(job.name if completed else -1 - job.name)
    return np.array((math.log(run_time_s), limit, math.log(job.n), name), dtype=np.float32)


def _reached(rows: npt.NDArray[np.floating]) -> Bools:
    reached: Bools = rows[TIME_ROW] >= rows[LIMIT_ROW] - AT_LIMIT  # false without a limit
    return reached


LIMIT_WIDTH = 0.3  # a factor of 1.35 between time limits divides the weight by e
SIZE_WIDTH = 1.0  # a factor of 2.7 between sizes divides the weight by e
LIMIT_FAR = 10.0  # largest distance of limits in widths, also used for unknown limits
OTHER_NAME = 0.1
PRIOR_TRUST = 0.02
PRIOR_POINTS = 16
OVERRUN_S = 120.0  # schedulers end a job up to two minutes after its limit
AT_LIMIT = 1e-4  # in ln; a run this close has reached its limit: times are stored to six digits
REACHING_TRUST = 2.0  # weight of the share in the least similar group, in newest runs
REACHING_RUNS = (1.0, 20.0)  # prior: one run in 20 reaches its limit
FAILING = REACHING_RUNS[0] / REACHING_RUNS[1]  # prior: one run in 20 fails
LONGEST_S = 7 * 86_400.0  # end of the prior without a time limit
LOW, UPPER, HIGH = 0.05, 0.9, 0.95
STEP = 0.005
SHARE_MIN, SHARE_MAX = 0.0005, 0.2
_EDGE = 1e-9
_TINY = 1e-12
_PRIOR = (np.arange(PRIOR_POINTS) + 0.5) / PRIOR_POINTS
_STEPS = np.arange(PRIOR_POINTS, dtype=np.float64)
_PRIOR_WEIGHTS = np.full(PRIOR_POINTS, PRIOR_TRUST / PRIOR_POINTS)


@dataclass(frozen=True, slots=True, eq=False)
class SimilarityGroup:
    """How the past runs of a group are weighted.

    In a `pooled` group the weights of all runs add up to `trust`; in other groups each run has the weight `trust` before age and
    similarity. `decays` are the factors by age, newest run first. A past run time is multiplied by the ratio of the time limits
    (job over past run) to the power `shift`, because people request more time for a run that they expect to take longer.

    >>> weights = np.array([1.0, 1.0])
    >>> CLASS.pool(weights)
    >>> CLASS.weight(weights), weights.round(2).tolist()
    (0.8, [0.4, 0.4])
    """

    trust: float
    shift: float
    pooled: bool
    decays: Floats

    def pool(self, weights: Floats) -> None:
        """Scale the weights of the runs of a pooled group, in place, to the sum `trust`."""
        weights += _TINY
        weights *= self.trust / float(np.add.reduce(weights))

    def weight(self, weights: Floats) -> float:
        """Return the total weight of the runs of the group."""
        return self.trust if self.pooled else float(np.add.reduce(weights))


def group_of(trust: float, decay: float, shift: float, *, pooled: bool) -> SimilarityGroup:
    weights = np.power(decay, np.arange(RUNS_MAX))
    return SimilarityGroup(trust, shift, pooled, weights if pooled else trust * weights)


USER = group_of(trust=1.0, decay=0.92, shift=0.5, pooled=False)
NAME = group_of(trust=0.35, decay=0.95, shift=0.5, pooled=False)
CLASS = group_of(trust=0.8, decay=1.0, shift=1.0, pooled=True)
CENTRE = group_of(trust=0.2, decay=1.0, shift=1.0, pooled=True)


class BandLevels(NamedTuple):
    """The quantile levels at which forecasts are read so that shares of .05, .9 and .95 of the runs lie below; learned from past runs.

    Each level follows adaptive conformal inference (Gibbs, Candes 2021): for the target share p it rises by p STEP after a run
    above its quantile and falls by (1 - p) STEP after a run below. In the long run the share below is p, for any distribution.

    >>> BandLevels().after(3000.0, (10.0, 800.0, 1000.0))
    BandLevels(low=0.02525, upper=0.9445, high=0.97475)
    """

    low: float = 0.025  # few runs say little about tails, so all levels start beyond their targets
    upper: float = 0.94
    high: float = 0.97

    def after(self, run_time_s: float, quantiles_s: tuple[float, float, float]) -> "BandLevels":
        """Return the levels learned from a further run and the three quantiles that were predicted for it."""
        return BandLevels(
            _moved(self.low, LOW, run_time_s < quantiles_s[0] * (1 - _EDGE)),
            1 - _moved(1 - self.upper, 1 - UPPER, run_time_s > quantiles_s[1] * (1 + _EDGE)),
            1 - _moved(1 - self.high, 1 - HIGH, run_time_s > quantiles_s[2] * (1 + _EDGE)),
        )


def _moved(share: float, aim: float, passed: bool) -> float:  # noqa: FBT001  # private, and named at each call
    return round(min(max(share + STEP * (aim - passed), SHARE_MIN), SHARE_MAX), 9)


class RunTimeDistribution:
    """A distribution of run time: weighted points on the ln scale, interpolated linearly.

    `alike` is the total weight of similar runs, where a new run of the same user, name, size and limit counts 1. `shares` are the
    parts of the groups in the total weight, in the order of the groups that have runs. `reaching` is the probability of reaching
    the time limit (None without a limit), `failing` that of ending earlier without completing.

    >>> past = PastRuns()
    >>> for time_s in (90.0, 100.0, 110.0): past.put(row_of(ModelJob(n=4), time_s))
    >>> law = distribution([(USER, past)], ModelJob(n=4))
    >>> round(law.quantile(0.5), -1), round(law.alike, 2), law.below(1e6) > 0.95
    (100.0, 2.77, True)
    """

    __slots__ = ("_cumulative", "_points", "alike", "failing", "reaching", "shares")

    def __init__(
        self,
        points: Floats,
        weights: Floats,
        alike: float,
        shares: tuple[float, ...] = (),
        *,
        reaching: float | None = None,
        failing: float = FAILING,
    ) -> None:
        order = points.argsort(kind="stable")
        self._points, weights = points[order], weights[order]
        cumulative = weights.cumsum()
        self._cumulative = (cumulative - weights / 2) / cumulative[-1]
        self.alike = alike
        self.shares = shares
        self.reaching = reaching
        self.failing = failing

    def quantile(self, level: float) -> float:
        """Return the run time in seconds at a level between 0 and 1."""
        return self.quantiles((level,))[0]

    def quantiles(self, levels: Sequence[float]) -> list[float]:
        """Return the run times in seconds at levels between 0 and 1; ValueError at other levels."""
        if not all(0 <= level <= 1 for level in levels):
            raise ValueError("A quantile needs a level between 0 and 1.")
        times_s: list[float] = np.exp(np.interp(levels, self._cumulative, self._points)).tolist()
        return times_s

    def below(self, run_time_s: float) -> float:
        """Return the probability of a run time below `run_time_s`.

        Beyond the first and the last point it is neither 0 nor 1: a quarter of the weight of this point remains.
        """
        if not run_time_s > 0:
            return 0.0
        first, last = float(self._cumulative[0]), float(self._cumulative[-1])
        return float(
            np.interp(math.log(run_time_s), self._points, self._cumulative, left=first / 2, right=(1 + last) / 2)
        )


class _Layout(NamedTuple):
    """Where the runs of each group lie among all k runs, and the factors by age (`decays`) and exponents (`shifts`) of all runs, (k,).

    `last` is the number of runs of the last group.
    """

    parts: tuple[tuple[SimilarityGroup, slice], ...]
    last: int
    decays: Floats
    shifts: Floats


@lru_cache(maxsize=256)  # full groups keep the same counts
def _layout(groups: tuple[SimilarityGroup, ...], counts: tuple[int, ...]) -> _Layout:
    ends = np.cumsum(counts).tolist()
    parts = tuple((group, slice(end - count, end)) for group, count, end in zip(groups, counts, ends, strict=True))
    decays = np.concatenate([group.decays[:count] for group, count in zip(groups, counts, strict=True)])
    return _Layout(parts, counts[-1], decays, np.repeat([group.shift for group in groups], counts))


class _Weighed(NamedTuple):
    """All past runs with their weights for a job: `rows` (4, k) and `weights` (k,).

    Masks (k,): `held` runs did not complete, `reached` runs reached their own time limit. `unknown` runs are `held` but not
    `reached`, so the time that they needed is unknown.
    """

    layout: _Layout
    rows: Floats
    weights: Floats
    held: Bools
    reached: Bools
    unknown: Bools

    @property
    def failing(self) -> float:
        """The probability that the job ends before its limit without completing."""
        return _share(self.unknown, self.weights, self.layout.last)


def _weighed(past: Iterable[tuple[SimilarityGroup, PastRuns]], job: ModelJob) -> _Weighed | None:
    """Return the runs of all groups with their weights for the job; None without runs."""
    retained = [(group, runs) for group, runs in past if runs.count]
    if not retained:
        return None
    layout = _layout(tuple([group for group, _ in retained]), tuple([runs.count for _, runs in retained]))
    rows = np.concatenate([runs.rows for _, runs in retained], axis=1, dtype=np.float64)
    weights = _likeness(rows, job)
    weights *= layout.decays
    for group, part in layout.parts:
        if group.pooled:
            group.pool(weights[part])
    held, reached = rows[NAME_ROW] < 0, _reached(rows)
    return _Weighed(layout, rows, weights, held, reached, held > reached)


def failing_share(past: Iterable[tuple[SimilarityGroup, PastRuns]], job: ModelJob) -> float:
    """Return the probability that a job ends without completing. The result equals that of `distribution` at a lower cost."""
    weighed = _weighed(past, job)
    return FAILING if weighed is None else weighed.failing


def distribution(past: Iterable[tuple[SimilarityGroup, PastRuns]], job: ModelJob) -> RunTimeDistribution:
    """Return the distribution of the run time of a job from the groups of past runs that the job belongs to.

    A weak prior is added, uniform in ln t from one second to the time limit (or a week); without runs the result is this prior. No
    point lies more than OVERRUN_S beyond the time limit.

    >>> 1 < distribution([], ModelJob(n=4, time_limit_s=3600.0)).quantile(0.5) < 3600
    True
    """
    weighed = _weighed(past, job)
    points, weights = _sample(weighed, job)
    if weighed is None:
        reaching = None if job.time_limit_s is None else FAILING
        return RunTimeDistribution(points, weights, 0.0, (), reaching=reaching)
    known, alike, shares = ~weighed.unknown, 0.0, []
    for group, part in weighed.layout.parts:
        part_weights = weighed.weights[part]
        shares.append(group.weight(part_weights))
        if not group.pooled:
            alike += float(np.add.reduce(part_weights[known[part]]))
    whole = sum(shares) + PRIOR_TRUST
    return RunTimeDistribution(
        points,
        weights,
        alike,
        tuple(weight / whole for weight in shares),
        reaching=None if job.time_limit_s is None else _reaching(weighed, known),
        failing=weighed.failing,
    )


def quantiles_s(
    past: Iterable[tuple[SimilarityGroup, PastRuns]], job: ModelJob, levels: Sequence[float]
) -> list[float]:
    """Return the run times in s at `levels` between 0 and 1. The result equals that of `distribution` at a lower cost."""
    return RunTimeDistribution(*_sample(_weighed(past, job), job), 0.0).quantiles(levels)


def _sample(weighed: _Weighed | None, job: ModelJob) -> tuple[Floats, Floats]:
    """Return the points of the distribution for a job, ln of past run times and of the prior, and their weights."""
    prior = _PRIOR * max(math.log(job.time_limit_s or LONGEST_S), 1.0)
    if weighed is None:
        return prior, _PRIOR_WEIGHTS
    past = weighed.rows[TIME_ROW] if job.time_limit_s is None else _at_limit(weighed, job.time_limit_s)
    points, weights = np.concatenate((past, prior)), np.concatenate((weighed.weights, _PRIOR_WEIGHTS))
    if np.count_nonzero(weighed.held):
        return _released(points, weights, weighed.held, job)
    return points, weights


def _reaching(weighed: _Weighed, known: Bools) -> float:
    """Return the probability that the job reaches its time limit, from the weights of past runs that reached their own limit.

    The points of the distribution would overestimate it: run times near a shorter limit are scaled beyond the job's limit.
    """
    last = int(np.count_nonzero(known[known.size - weighed.layout.last :]))
    return _share(weighed.reached[known], weighed.weights[known], last)


def _released(points: Floats, weights: Floats, held: Bools, job: ModelJob) -> tuple[Floats, Floats]:
    """Return points and weights after the runs that did not complete, marked in `held` (k,), passed their weight on to longer runs.

    Weight for which no longer run is known is spread uniformly in ln t up to the time limit, or a week.
    """
    runs, longest = held.size, float(points[: held.size][held].max())
    ends = _even(longest, max(longest, math.log(job.time_limit_s or LONGEST_S)))
    beyond, of_prior = points[runs:] > longest, weights[runs:]  # the prior; all but one point uniform in ln t
    share = (_TINY + float(np.add.reduce(of_prior[beyond]))) / PRIOR_POINTS
    of_prior[beyond] = 0.0
    whole = np.zeros(points.size + PRIOR_POINTS, dtype=bool)
    whole[:runs] = held
    shares = np.full(PRIOR_POINTS, share)
    return redistributed(np.concatenate((points, ends)), np.concatenate((weights, shares)), whole)


def _even(first: float, last: float) -> Floats:
    """Return PRIOR_POINTS evenly spaced numbers from `first` to `last`, faster than `numpy.linspace`."""
    points: Floats = _STEPS * ((last - first) / (PRIOR_POINTS - 1)) + first
    points[-1] = last
    return points


def redistributed(points: Floats, weights: Floats, held: Bools) -> tuple[Floats, Floats]:
    """Return the points with weight after each censored point has passed its weight on to all longer points, in proportion.

    `held` (k,) marks the censored points. The longest point keeps its weight.
    Source: Efron, "The two sample problem with censored data" (1967), which gives the estimate of Kaplan and Meier.

    >>> points, weights = redistributed(np.array([1.0, 2.0, 3.0]), np.ones(3), np.array([False, True, False]))
    >>> points.tolist(), weights.tolist()
    ([1.0, 3.0], [1.0, 2.0])
    """
    order = np.lexsort((held, points))
    points, weights, held = points[order], weights[order], held[order]
    held[-1] = False
    at_risk = weights[::-1].cumsum()[::-1]
    hazard = weights / at_risk
    hazard[held] = 0.0
    alive = np.empty(points.size)
    alive[0] = 1.0
    np.multiply.accumulate(1.0 - hazard[:-1], out=alive[1:])
    moved = at_risk[0] * alive * hazard
    left = moved > 0
    return points[left], moved[left]


def _share(marked: Bools, weights: Floats, last: int) -> float:
    """Return the weighted share of the runs `marked` (k,), shrunk towards the unweighted share among the last `last` runs (the centre)."""
    usual = (float(np.count_nonzero(marked[marked.size - last :])) + REACHING_RUNS[0]) / (last + REACHING_RUNS[1])
    whole = float(np.add.reduce(weights)) + PRIOR_TRUST + REACHING_TRUST
    return (float(weights @ marked) + REACHING_TRUST * usual) / whole


def _likeness(rows: Floats, job: ModelJob) -> Floats:
    """Return the similarity of each past run to the job, (k,): 1 for equal size, time limit and name, less for each difference."""
    distance: Floats = rows[SIZE_ROW] - math.log(job.n)
    np.abs(distance, out=distance)
    distance /= -SIZE_WIDTH
    if job.time_limit_s is not None:
        limit_distance = rows[LIMIT_ROW] - math.log(job.time_limit_s)
        np.abs(limit_distance, out=limit_distance)
        limit_distance /= LIMIT_WIDTH
        # fmin also handles past runs without a limit (nan)
        distance -= np.fmin(limit_distance, LIMIT_FAR, out=limit_distance)
    likeness = np.exp(distance, out=distance)
    names = rows[NAME_ROW]
    different = names != job.name
    different &= names != -1.0 - job.name
    return np.multiply(likeness, OTHER_NAME, out=likeness, where=different)


def _at_limit(weighed: _Weighed, time_limit_s: float) -> Floats:
    """Return ln of past run times, scaled by the ratio of time limits (see `SimilarityGroup`) and cut off soon after the job's limit."""
    points: Floats = math.log(time_limit_s) - weighed.rows[LIMIT_ROW]
    points[np.isnan(points) | weighed.held] = 0.0  # the time of an incomplete run is a lower bound under any limit
    points *= weighed.layout.shifts
    points += weighed.rows[TIME_ROW]
    return np.minimum(points, math.log(time_limit_s + OVERRUN_S), out=points)
