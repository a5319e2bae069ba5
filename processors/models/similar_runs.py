"""How long the next run may take where no scaling law helps: past runs, weighted by how alike they are.

A run's past comes in groups, from the most alike to the least: runs of its user, of its name, of its class (time limit
and size) and of the centre. Each group keeps its newest runs. A past run counts with

    weight = trust decay^age exp(-|ln L'/L| / limit_width - |ln n'/n| / size_width) (other_name if the names differ)

L the time limits, n the sizes, age the number of runs since. Classes and centre share a fixed trust among their runs;
user and name have the more say the more alike runs they hold. The sum is a weighted sample of ln run time: its
quantiles are the forecast, its median the point forecast. It is a kernel regression on ordered keys, as in Smith,
Foster, Taylor, "Predicting Application Run Times with Historical Information" (1998), with weights in place of templates.

A run that did not complete (it failed, was cancelled, met its limit) says only that it takes longer than it was held:
it is censored, and its weight goes to the longer ones (Kaplan, Meier 1958, as redistributed to the right by Efron 1967).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from processors.models.numerics.arrays import Floats
from processors.models.numerics.statistics import six_digits

Rows = npt.NDArray[np.float32]
Row = npt.NDArray[np.float32]  # (4,)
Marks = npt.NDArray[np.bool_]

RUNS_MAX = 64
NAMES_MAX = 2**24  # a name's number has to be exact as a float of 32 bits
TIME_ROW, LIMIT_ROW, SIZE_ROW, NAME_ROW = range(4)
_STORED = "<f4"
_ROOM = RUNS_MAX + 32  # so that all are moved at one run in 32 only
_LIMIT_CLASS = 1.4  # time limits within a factor of four share a class
_SIZE_CLASS = 2.0 * math.log(2.0)  # and so do such sizes


@dataclass(frozen=True, slots=True)
class ModelJob:
    """What is known of a job before it runs: its size, a number that stands for its name, its time limit in seconds.

    `name` must be a whole number below NAMES_MAX; 0 stands for no name. Raises ValueError where a number cannot be true.

    >>> ModelJob(n=64, name=7, time_limit_s=3600.0).n
    64
    """

    n: float
    name: int = 0
    time_limit_s: float | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        if not 0 < self.n < math.inf:
            raise ValueError("A size must be positive and finite.")
        if not 0 <= self.name < NAMES_MAX:
            raise ValueError("A name is a whole number from 0 to 2^24.")
        if self.time_limit_s is not None and not 0 < self.time_limit_s < math.inf:
            raise ValueError("A time limit must be positive and finite.")


def class_of(job: ModelJob) -> tuple[int, int]:
    """Return the class of a job: its time limit and its size, both in steps of about four; -1 for no limit.

    >>> class_of(ModelJob(n=16, time_limit_s=3600.0)) == class_of(ModelJob(n=20, time_limit_s=4000.0)), class_of(ModelJob(n=1))
    (True, (-1, 0))
    """
    limit = -1 if job.time_limit_s is None else max(round(math.log(job.time_limit_s) / _LIMIT_CLASS), 0)
    return limit, round(math.log(job.n) / _SIZE_CLASS)


class PastRuns:
    """The newest runs of a group, newest first, at most RUNS_MAX; to six digits, as they are stored.

    >>> past = PastRuns()
    >>> past.add(ModelJob(n=4), 100.0)
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
        self._completed = int(np.count_nonzero(retained[NAME_ROW] >= 0))  # how many of the runs did

    def __repr__(self) -> str:
        """Return the run times."""
        return f"PastRuns({self.run_times_s()})"

    @property
    def rows(self) -> Rows:
        """Return ln run time, ln limit (nan: none), ln size and name, shape (4, count).

        The name is -1 - name for a run that did not complete: so states of before, when none was told apart, can be read.
        """
        return self._rows[:, self._first : self._first + self.count]

    def packed(self) -> bytes:
        """Return the rows as they are stored: 16 bytes a run."""
        return self.rows.astype(_STORED).tobytes()

    def run_times_s(self) -> list[float]:
        """Return the run times, newest first."""
        return [six_digits(time_s) for time_s in np.exp(self.rows[TIME_ROW].astype(np.float64))]

    @property
    def known(self) -> int:
        """How many of them say how long they take: they completed, or held their nodes to their limit."""
        return int(np.count_nonzero(_known(self.rows)))

    def tell(self, least: int) -> bool:
        """Return whether at least so many are known."""
        return self._completed >= least or self.known >= least

    def completed(self, index: int) -> bool:
        """Return whether the run that has `index` newer ones before it completed."""
        return bool(self.rows[NAME_ROW, index] >= 0)

    def add(self, job: ModelJob, run_time_s: float, runs_max: int = RUNS_MAX, *, completed: bool = True) -> None:
        """Take a run in; the oldest beyond `runs_max` leaves. ValueError unless its time is positive and finite."""
        self.put(row_of(job, run_time_s, completed=completed), runs_max)

    def put(self, row: Row, runs_max: int = RUNS_MAX) -> None:
        """Take a run in by its row; the oldest beyond `runs_max` leaves."""
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
        """Correct the run that has `index` newer ones before it; IndexError where there is none."""
        if not 0 <= index < self.count:
            raise IndexError("There is no such run.")
        self._completed += bool(row[NAME_ROW] >= 0) - self.completed(index)
        self.rows[:, index] = row

    def remove(self, index: int) -> None:
        """Take the run away that has `index` newer ones before it; IndexError where there is none."""
        if not 0 <= index < self.count:
            raise IndexError("There is no such run.")
        self._completed -= self.completed(index)
        rows = self.rows
        rows[:, index:-1] = rows[:, index + 1 :]
        self.count -= 1


def row_of(job: ModelJob, run_time_s: float, *, completed: bool = True) -> Row:
    """Return a run as histories keep it, (4,): all its groups keep the same. ValueError unless its time is positive and finite.

    >>> row_of(ModelJob(n=1, name=7), 1.0, completed=False).tolist()
    [0.0, nan, 0.0, -8.0]
    """
    if not 0 < run_time_s < math.inf:
        raise ValueError("A run time must be positive and finite.")
    limit = math.nan if job.time_limit_s is None else math.log(job.time_limit_s)
    name = float(job.name if completed else -1 - job.name)
    return np.array((math.log(run_time_s), limit, math.log(job.n), name), dtype=np.float32)


def _known(rows: npt.NDArray[np.floating]) -> Marks:
    """Return which runs say how long they hold their nodes, (k,): those that completed, or reached their own limit."""
    known: Marks = (rows[NAME_ROW] >= 0) | _reached(rows)
    return known


def _reached(rows: npt.NDArray[np.floating]) -> Marks:
    reached: Marks = rows[TIME_ROW] >= rows[LIMIT_ROW] - AT_LIMIT  # one without a limit never does
    return reached


LIMIT_WIDTH = 0.3  # a time limit 1.35 times another makes a run count 1/e
SIZE_WIDTH = 1.0  # and so does a size 2.7 times another
LIMIT_FAR = 10.0  # widths: limits this far apart, or unknown, are all the same
OTHER_NAME = 0.1
PRIOR_TRUST = 0.02
PRIOR_POINTS = 16
OVERRUN_S = 120.0  # schedulers end a job up to two minutes after its limit
AT_LIMIT = 1e-4  # a run that came so near to its limit has reached it: times are stored to six digits
REACHING_TRUST = 2.0  # how often the runs of the least alike group reach their limit counts as so many fresh runs
REACHING_RUNS = (1.0, 20.0)  # before any is known one in 20 does
FAILING = REACHING_RUNS[0] / REACHING_RUNS[1]  # and so fails one in 20
LONGEST_S = 7 * 86_400.0  # without a limit the prior ends here
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
    """How a group of past runs counts.

    `shift` is the power of the ratio of time limits by which a past run time is scaled: people raise the limit of a run
    that they expect to take longer. `pooled` groups share `trust` among their runs, in others each run brings its own.
    `decays` are the weights by age.

    >>> weights = np.array([1.0, 1.0])
    >>> CLASS.pool(weights)
    >>> CLASS.weight(weights), weights.round(2).tolist()
    (0.8, [0.4, 0.4])
    """

    trust: float
    decay: float
    shift: float
    pooled: bool
    decays: Floats

    def pool(self, weights: Floats) -> None:
        """Let the runs of a pooled group share its trust."""
        weights += _TINY
        weights *= self.trust / float(np.add.reduce(weights))

    def weight(self, weights: Floats) -> float:
        """Return what the weights of its runs amount to."""
        return self.trust if self.pooled else float(np.add.reduce(weights))


def group_of(trust: float, decay: float, shift: float, *, pooled: bool) -> SimilarityGroup:
    """Return a group with its weights by age.

    >>> group_of(1.0, 0.5, 0.0, pooled=False).decays[:3].tolist()
    [1.0, 0.5, 0.25]
    """
    weights = np.power(decay, np.arange(RUNS_MAX))
    return SimilarityGroup(trust, decay, shift, pooled, weights if pooled else trust * weights)


USER = group_of(trust=1.0, decay=0.92, shift=0.5, pooled=False)
NAME = group_of(trust=0.35, decay=0.95, shift=0.5, pooled=False)
CLASS = group_of(trust=0.8, decay=1.0, shift=1.0, pooled=True)
CENTRE = group_of(trust=0.2, decay=1.0, shift=1.0, pooled=True)


@dataclass(slots=True)
class BandLevels:
    """The levels of a distribution that .05, .9 and .95 of the runs really keep below, learned from those that did.

    Adaptive conformal inference (Gibbs, Candes 2021) for each by itself: with probability p aimed at, a level rises by
    p STEP after a run above its quantile and falls by (1 - p) STEP after one below. In the long run the share below is
    p, whatever the law of the runs.

    >>> levels = BandLevels()
    >>> levels.note(3000.0, (10.0, 800.0, 1000.0))
    >>> levels.current
    (0.02525, 0.9445, 0.97475)
    """

    low: float = 0.025  # a few runs know the tails badly, so all start further out than they aim at
    upper: float = 0.94
    high: float = 0.97

    @property
    def current(self) -> tuple[float, float, float]:
        """The three levels."""
        return self.low, self.upper, self.high

    def note(self, run_time_s: float, quantiles_s: tuple[float, float, float]) -> None:
        """Take in a run and the three quantiles that were told before it."""
        self.low = self._moved(self.low, LOW, run_time_s < quantiles_s[0] * (1 - _EDGE))
        self.upper = 1 - self._moved(1 - self.upper, 1 - UPPER, run_time_s > quantiles_s[1] * (1 + _EDGE))
        self.high = 1 - self._moved(1 - self.high, 1 - HIGH, run_time_s > quantiles_s[2] * (1 + _EDGE))

    @staticmethod
    def _moved(share: float, aim: float, passed: bool) -> float:  # noqa: FBT001  # private, and named at each call
        return round(min(max(share + STEP * (aim - passed), SHARE_MIN), SHARE_MAX), 9)


class RunTimeDistribution:
    """A distribution of run time: weighted points on the ln scale, ascending, linear between them.

    `alike` is the weight of runs that are alike, in fresh runs of the same user, name, size and limit; `shares` is what
    each group that holds runs weighs in the whole, in the order in which the groups were given. `reaching` is the
    probability to reach the time limit, None without one; `failing` that to end before it without having completed.

    >>> past = PastRuns()
    >>> for time_s in (90.0, 100.0, 110.0): past.add(ModelJob(n=4), time_s)
    >>> found = distribution([(USER, past)], ModelJob(n=4))
    >>> round(found.quantile(0.5), -1), round(found.alike, 2), found.below(1e6) > 0.95
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
        """Return the run times in seconds at levels between 0 and 1; ValueError at others."""
        if not all(0 <= level <= 1 for level in levels):
            raise ValueError("A quantile needs a level between 0 and 1.")
        times_s: list[float] = np.exp(np.interp(levels, self._cumulative, self._points)).tolist()
        return times_s

    def below(self, run_time_s: float) -> float:
        """Return the probability of a shorter run; beyond all points it stops at half of what the last one leaves."""
        if not run_time_s > 0:
            return 0.0
        first, last = float(self._cumulative[0]), float(self._cumulative[-1])
        return float(
            np.interp(math.log(run_time_s), self._points, self._cumulative, left=first / 2, right=(1 + last) / 2)
        )


class _Layout(NamedTuple):
    """Where the runs of each group stand among those of all, and what follows from that alone: (k,) decays and shifts."""

    parts: tuple[tuple[SimilarityGroup, slice], ...]
    last: int
    decays: Floats
    shifts: Floats


@lru_cache(maxsize=256)  # groups that are full have the same counts for ever
def _layout(groups: tuple[SimilarityGroup, ...], counts: tuple[int, ...]) -> _Layout:
    ends = np.cumsum(counts).tolist()
    parts = tuple((group, slice(end - count, end)) for group, count, end in zip(groups, counts, ends, strict=True))
    decays = np.concatenate([group.decays[:count] for group, count in zip(groups, counts, strict=True)])
    return _Layout(parts, counts[-1], decays, np.repeat([group.shift for group in groups], counts))


class _Weighed(NamedTuple):
    """Past runs with what each counts for a job: their rows (4, k) and `weights` (k,).

    Marked are those that did not complete, `held`, that `reached` their own limit, and that are `unknown`: they do not say
    how long they hold their nodes.
    """

    layout: _Layout
    rows: Floats
    weights: Floats
    held: Marks
    reached: Marks
    unknown: Marks

    @property
    def failing(self) -> float:
        """The probability to end without having completed, before any limit."""
        return _share(self.unknown, self.weights, self.layout.last)


def _weighed(past: Iterable[tuple[SimilarityGroup, PastRuns]], job: ModelJob) -> _Weighed | None:
    """Return the runs of all groups with their weights; None where there are none."""
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
    """Return the probability that a job ends without having completed, as `distribution` does, and nothing else of it.

    >>> past = PastRuns()
    >>> past.add(ModelJob(n=4), 90.0, completed=False)
    >>> failing_share([(USER, past)], ModelJob(n=4)) == distribution([(USER, past)], ModelJob(n=4)).failing
    True
    """
    weighed = _weighed(past, job)
    return FAILING if weighed is None else weighed.failing


def distribution(past: Iterable[tuple[SimilarityGroup, PastRuns]], job: ModelJob) -> RunTimeDistribution:
    """Return the distribution of a job's run time from the groups of runs that it belongs to, in any number.

    A weak prior, even in ln t from one second to the time limit (or a week), answers where there are none and keeps the
    tails open. No mass lies more than OVERRUN_S beyond the time limit.

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
        own = weighed.weights[part]
        shares.append(group.weight(own))
        if not group.pooled:
            alike += float(np.add.reduce(own[known[part]]))
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
    """Return the run times at levels between 0 and 1, as `distribution` does, and nothing else of it.

    >>> past = PastRuns()
    >>> past.add(ModelJob(n=4), 90.0)
    >>> quantiles_s([(USER, past)], ModelJob(n=4), [0.5]) == distribution([(USER, past)], ModelJob(n=4)).quantiles([0.5])
    True
    """
    return RunTimeDistribution(*_sample(_weighed(past, job), job), 0.0).quantiles(levels)


def _sample(weighed: _Weighed | None, job: ModelJob) -> tuple[Floats, Floats]:
    """Return run times on the ln scale as they tell of a job, those of the prior among them, and their weights."""
    prior = _PRIOR * max(math.log(job.time_limit_s or LONGEST_S), 1.0)
    if weighed is None:
        return prior, _PRIOR_WEIGHTS
    own = weighed.rows[TIME_ROW] if job.time_limit_s is None else _at_limit(weighed, job.time_limit_s)
    points, weights = np.concatenate((own, prior)), np.concatenate((weighed.weights, _PRIOR_WEIGHTS))
    if np.count_nonzero(weighed.held):
        return _released(points, weights, weighed.held, job)
    return points, weights


def _reaching(weighed: _Weighed, known: Marks) -> float:
    """Return the probability to reach the time limit.

    The points tell it too high: a run that came near to a shorter limit is moved beyond this one.
    """
    last = int(np.count_nonzero(known[known.size - weighed.layout.last :]))
    return _share(weighed.reached[known], weighed.weights[known], last)


def _released(points: Floats, weights: Floats, held: Marks, job: ModelJob) -> tuple[Floats, Floats]:
    """Return points and weights, (m,), in which runs that did not complete, `held` (k,), only say that they take longer.

    Where nothing longer is known, they end anywhere up to the time limit, or a week, evenly in ln t.
    """
    runs, longest = held.size, float(points[: held.size][held].max())
    ends = _even(longest, max(longest, math.log(job.time_limit_s or LONGEST_S)))
    beyond, of_prior = (
        points[runs:] > longest,
        weights[runs:],
    )  # that is even in ln t as well, but for one point at most
    share = (_TINY + float(np.add.reduce(of_prior[beyond]))) / PRIOR_POINTS
    of_prior[beyond] = 0.0
    whole = np.zeros(points.size + PRIOR_POINTS, dtype=bool)
    whole[:runs] = held
    shares = np.full(PRIOR_POINTS, share)
    return redistributed(np.concatenate((points, ends)), np.concatenate((weights, shares)), whole)


def _even(first: float, last: float) -> Floats:
    """Return PRIOR_POINTS numbers at equal distances, as `numpy.linspace` does, which takes as long as the sum of all weights."""
    points: Floats = _STEPS * ((last - first) / (PRIOR_POINTS - 1)) + first
    points[-1] = last
    return points


def redistributed(points: Floats, weights: Floats, held: Marks) -> tuple[Floats, Floats]:
    """Return the points that have weight once each censored one has given its own to the longer ones, in proportion.

    `held` tells which of the points, (k,), are only known to be longer. The last of all keeps its weight: nothing longer
    is known. Source: Efron, "The two sample problem with censored data" (1967), which gives Kaplan and Meier's estimate.

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


def _share(marked: Marks, weights: Floats, last: int) -> float:
    """Return the weighted share of runs that are marked, (k,), drawn to that of the `last` ones."""
    usual = (float(np.count_nonzero(marked[marked.size - last :])) + REACHING_RUNS[0]) / (last + REACHING_RUNS[1])
    whole = float(np.add.reduce(weights)) + PRIOR_TRUST + REACHING_TRUST
    return (float(weights @ marked) + REACHING_TRUST * usual) / whole


def _likeness(rows: Floats, job: ModelJob) -> Floats:
    """Return how alike each past run is to the job, 1 for the same size, limit and name."""
    distance: Floats = rows[SIZE_ROW] - math.log(job.n)
    np.abs(distance, out=distance)
    distance /= -SIZE_WIDTH
    if job.time_limit_s is not None:
        apart = rows[LIMIT_ROW] - math.log(job.time_limit_s)
        np.abs(apart, out=apart)
        apart /= LIMIT_WIDTH
        distance -= np.fmin(apart, LIMIT_FAR, out=apart)  # fmin also where a past run had no limit
    likeness = np.exp(distance, out=distance)
    names = rows[NAME_ROW]
    others = names != job.name
    others &= names != -1.0 - job.name
    return np.multiply(likeness, OTHER_NAME, out=likeness, where=others)


def _at_limit(weighed: _Weighed, time_limit_s: float) -> Floats:
    """Return past run times on the ln scale, shifted where they had another limit and cut off behind this one."""
    points: Floats = math.log(time_limit_s) - weighed.rows[LIMIT_ROW]
    points[np.isnan(points) | weighed.held] = 0.0  # held runs would have been held as long, at least
    points *= weighed.layout.shifts
    points += weighed.rows[TIME_ROW]
    return np.minimum(points, math.log(time_limit_s + OVERRUN_S), out=points)
