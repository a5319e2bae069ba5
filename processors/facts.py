"""Types that several packages share: runs and their outcomes, bands of run time, and published curves."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property, lru_cache
from operator import attrgetter
from statistics import NormalDist
from typing import Final, Literal, NamedTuple, TypeGuard

import msgspec

from processors.contracts.events import SUCCESS, JobCompleted
from processors.contracts.names import Horizon, horizon_of
from processors.contracts.outputs import RELIABLE, Reliability, ScalabilityStudy, Source, UsefulSizes
from processors.models.numerics.statistics import Z95, rounded, six_digits

N_MIN: Final = 1e-3
N_MAX: Final = 1e9
RUN_TIME_MIN_S: Final = 1e-3
RUN_TIME_MAX_S: Final = 1e9

Ground = Literal["runs", "curve", "excluded"]


class RunFact(msgspec.Struct, frozen=True):
    """A completed run of an application at size `n`; `detected_ms` is the time at which the agent learned of the run."""

    run_id: str
    n: float
    run_time_s: float
    start_ms: int
    end_ms: int
    detected_ms: int


def plausible(n: float, run_time_s: float) -> bool:
    """Return whether size and run time are plausible: the size from 0.001 to 1e9 units, the run time from 0.001 to 1e9 s."""
    return N_MIN <= n <= N_MAX and RUN_TIME_MIN_S <= run_time_s <= RUN_TIME_MAX_S


def trains(n: float | None, event: JobCompleted, *, resized: bool) -> TypeGuard[float]:
    """Return whether a model can learn the run: it completed, its size `n` did not change, and size and run time are plausible."""
    return event.state == SUCCESS and not resized and n is not None and plausible(n, event.run_time_s)


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of a run: failed or not.

    The other fields serve the failure rate of a host: `of` is the application of the run, `expected` the probability that the
    run would fail on other hosts, and `share` the part of a failure that counts for this host.
    """

    run_id: str
    failed: bool
    of: str = ""
    expected: float = 0.0
    share: float = 1.0


_NORMAL = NormalDist()
_LN_MAX: Final = 700.0  # largest ln of a time in seconds that a float can hold
_UNTOUCHED: Final = 1e-6  # if a smaller share of the runs has ended by the elapsed time, the band of the start is kept
_LN_DEVIATION_MIN: Final = 1e-6
# share of the runs above the band that follow another law, because they hang or have more work than usual
OUTLASTING: Final = 0.1
_ABOVE: Final = 0.05  # share of the runs above the band
REMEMBERED: Final = 4096  # number of cached bands; all runs of an application and size share a band until the next fit
_LN_DEVIATION_MAX: Final = 50.0  # a wider band carries no information, and would overflow a float


QUANTILES: Final = (0.05, 0.25, 0.5, 0.75, 0.95)


class Band(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A run time and the ends of its 90 % band, in seconds."""

    run_time_s: float
    low_s: float
    high_s: float


class Remaining(msgspec.Struct, frozen=True):
    """The predicted total run time of a running job, and the probability that it exceeds its time limit.

    `quartiles_s` are two run times: a quarter of similar runs end within the first, and three quarters within the second.
    """

    band: Band
    exceeds_limit: float | None
    quartiles_s: tuple[float, float]

    @classmethod
    def of(cls, band: Band, exceeds_limit: float | None, quartiles_s: tuple[float, float]) -> "Remaining":
        """Return a `Remaining` whose lower quartile lies in the lower half of the band and whose upper quartile lies in the upper half."""
        lower_s, upper_s = quartiles_s
        lower_s = min(max(lower_s, band.low_s), band.run_time_s)
        return cls(band, exceeds_limit, (lower_s, max(min(upper_s, band.high_s), band.run_time_s)))

    @property
    def quantiles_s(self) -> tuple[float, ...]:
        lower_s, upper_s = self.quartiles_s
        return (self.band.low_s, lower_s, self.band.run_time_s, upper_s, self.band.high_s)


def remaining(band: Band, elapsed_s: float, limit_s: float | None) -> Remaining:
    """Return the predicted run time of a job in total, given that the job still runs after `elapsed_s`.

    On either side of the median, ln T is normal with a deviation that leaves 5 % of the runs below `low_s` and 5 % above
    `high_s`. The part of this distribution before the elapsed time is cut off. A job that has just started keeps exactly the
    published band. A share OUTLASTING of the runs above the band follows another law: each time that the elapsed time doubles,
    half of them end. A job that has long outlived its band therefore gets a band from 1.05 to 20 times the elapsed time. With
    the normal law alone, the predicted end of such a job was always the present moment, with a band of no width.
    """
    law = _law(band)
    alive = law.longer(elapsed_s)
    if alive == 1.0 and elapsed_s <= band.low_s:
        return _at_start(band, limit_s)
    exceeds = None if limit_s is None else min(law.longer(limit_s) / alive, 1.0)
    low_s, lower_s, middle_s, upper_s, high_s = (
        max(law.outlived_by((1.0 - level) * alive), elapsed_s) for level in QUANTILES
    )
    if 1.0 - alive < _UNTOUCHED and elapsed_s <= band.low_s:
        return Remaining.of(band, exceeds, (lower_s, upper_s))
    if limit_s is not None and elapsed_s < limit_s:  # the scheduler ends a hanging job at its limit
        high_s = min(high_s, max(limit_s, band.high_s, middle_s))
    return Remaining.of(Band(middle_s, min(low_s, middle_s), max(high_s, middle_s)), exceeds, (lower_s, upper_s))


@lru_cache(maxsize=REMEMBERED)
def _at_start(band: Band, limit_s: float | None) -> Remaining:
    law = _law(band)
    exceeds = None if limit_s is None else min(law.longer(limit_s), 1.0)
    return Remaining.of(band, exceeds, (law.outlived_by(0.75), law.outlived_by(0.25)))


def outlasted(elapsed_s: float, exceeds: float | None) -> Remaining:
    """Return the prediction for a job that has run longer than any known run: half of such jobs still run after twice the elapsed time."""
    low_s, lower_s, middle_s, upper_s, high_s = (elapsed_s / (1.0 - level) for level in QUANTILES)
    return Remaining.of(Band(middle_s, low_s, high_s), exceeds, (lower_s, upper_s))


class _Law:
    """The distribution of a run time that corresponds to a band."""

    def __init__(self, band: Band) -> None:
        self._centre = math.log(band.run_time_s)
        self._below, self._above = (
            min(max(abs(math.log(end_s) - self._centre) / Z95, _LN_DEVIATION_MIN), _LN_DEVIATION_MAX)
            for end_s in (band.low_s, band.high_s)
        )
        self._ln_high = self._centre + Z95 * self._above

    def longer(self, time_s: float) -> float:
        """Return the share of the runs that take longer than a time."""
        return 1.0 if time_s <= 0 else self._longer(math.log(time_s))

    def outlived_by(self, share: float) -> float:
        """Return the time in seconds that a share (above 0) of the runs exceed. This is the inverse of `longer`."""
        if share >= _ABOVE:
            deviations = _NORMAL.inv_cdf(min(max(1.0 - share, 1e-12), 1 - 1e-12))
            return math.exp(self._centre + deviations * (self._below if deviations < 0 else self._above))
        low, normal = self._ln_high, self._centre - self._above * _NORMAL.inv_cdf(max(share, 1e-300))
        high = max(normal, low + math.log(_ABOVE / share))  # an upper bound for both kinds of runs
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if self._longer(middle) > share else (low, middle)
        return math.exp(min(high, _LN_MAX))

    def _longer(self, ln_time: float) -> float:
        ln_ratio = ln_time - self._centre
        normal = _NORMAL.cdf(-ln_ratio / (self._below if ln_ratio < 0 else self._above))
        if ln_time <= self._ln_high:
            return normal
        return (1.0 - OUTLASTING) * normal + OUTLASTING * _ABOVE * math.exp(self._ln_high - ln_time)


@lru_cache(maxsize=REMEMBERED)
def _law(band: Band) -> _Law:
    return _Law(band)


def noteworthy(old: Band | None, new: Band, tolerance: float = 0.02) -> bool:
    """Return whether the prediction `new` differs from the published prediction `old` by more than `tolerance` in ln T."""
    if old is None:
        return True
    pairs = zip((old.run_time_s, old.low_s, old.high_s), (new.run_time_s, new.low_s, new.high_s), strict=True)
    return any(abs(math.log(after / before)) > tolerance for before, after in pairs)


class Scored(msgspec.Struct, frozen=True):
    """A run compared with the prediction that was published before it ended.

    `ln_ratio` is ln(observed / expected), and `half_width` the half-width of the published band in ln T. `model_half_width` is
    the half-width on the side of the observed run time, before any calibration. `observations` is the number of runs that the
    prediction knew. `ground` tells what the prediction at this size rested on: runs of this size, runs of this size that the
    fit excluded, or only runs of other sizes.
    """

    run: RunFact
    expected_s: float
    low_s: float
    high_s: float
    ln_ratio: float
    half_width: float
    inside: bool
    horizon: Horizon
    observations: int
    ground: Ground = "runs"
    model_half_width: float = 1.0


# The middle of a wider band is a guess, so nobody should plan with it.
BAND_RATIO_MAX: Final = 1000.0  # high end over low end; each side of a band is cut at this ratio too


def uninformative(point: "Band | PublishedPoint") -> bool:
    """Return whether a band is too wide to plan with."""
    return point.high_s >= BAND_RATIO_MAX * point.low_s * (1.0 - 1e-5)


class PublishedPoint(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Run time and band in seconds at one size, their source, and the index of the verdict in the `verdicts` of the curve.

    `below` and `above` are the half-widths of both sides of the band in ln T before any calibration; 0 if they were not stored.
    """

    n: float
    run_time_s: float
    low_s: float
    high_s: float
    source: Source = "interpolated"
    verdict: int = 0
    below: float = 0.0
    above: float = 0.0

    @property
    def band(self) -> Band:
        return Band(self.run_time_s, self.low_s, self.high_s)


class Measured(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The measured coverage of bands: the share of runs inside the band, and the number of scored runs."""

    coverage: float
    runs: int


READ_MAX: Final = 64  # most cached points of a curve
COVERAGE_RUNS_MIN: Final = 20  # with a true coverage of 85 %, ten runs are all inside the band one time in five


def measured(coverage: float | None, runs: float) -> Measured | None:
    """Return the measured coverage; None if too few runs were scored."""
    return None if coverage is None or runs < COVERAGE_RUNS_MIN else Measured(six_digits(coverage), int(runs))


class CurveReading(NamedTuple):
    """The values of a curve at one size: rounded band, measured coverage, extrapolation ratio, source and verdict."""

    n: float
    band: Band
    measured: Measured | None
    extrapolation: float
    source: Source
    reliability: Reliability


class CurvePrediction(msgspec.Struct, frozen=True, array_like=True):
    """The prediction that was published when a run ended: `at` the size of the run, and at the nearest size known to the features.

    `horizon` is the distance of the run's size from the observed sizes.
    """

    at: PublishedPoint
    near: PublishedPoint
    horizon: Horizon


class PublishedCurve(msgspec.Struct, frozen=True, omit_defaults=True, dict=True):
    """The last fitted curve of an application, from which all published numbers about the application come.

    `points` are sorted by size; between them, ln T and both ends of the band are linear in ln n. `one` is the point at size 1,
    even if the curve does not reach size 1. `n_min` and `n_max` are the smallest and the largest observed size. If run times do
    not depend on the size, `points` hold another prediction, and `by_size` the fitted curve. At the sizes in `own`, the curve
    rests on runs of that size. The sizes in `excluded` have runs that do not fit the curve, so the fit ignores them. The sizes
    in `apart` have many runs off the curve of the other sizes, so interpolation skips them. `whole` is the verdict on the
    application, and `verdicts` are those on the points. `measured` is the measured coverage by horizon; its key "own" is the
    coverage at observed sizes. `model` names the fitted model, `weights` are the weights of its members, `downey` the
    parameters of Downey's model, and `study` the measurements of ADEPT's study. `power_w` is the published power at the points,
    empty if the power is unknown.
    """

    points: tuple[PublishedPoint, ...]
    n_min: float
    n_max: float
    observations: int
    time_ms: int
    whole: Reliability = Reliability("insufficient")
    by_size: tuple[PublishedPoint, ...] = ()
    own: tuple[float, ...] = ()
    excluded: tuple[float, ...] = ()
    apart: tuple[float, ...] = ()
    power_w: tuple[float | None, ...] = ()
    one: PublishedPoint | None = None
    verdicts: tuple[Reliability, ...] = ()
    measured: dict[str, Measured] = {}
    useful: UsefulSizes | None = None
    model: str = ""
    weights: dict[str, float] = {}
    downey: dict[str, float] = {}
    study: ScalabilityStudy | None = None

    def at(self, n: float) -> PublishedPoint | None:
        """Return the published point at a size; None if the size is outside the curve."""
        return self._interpolated(self.points, n)

    @cached_property
    def _points_before(self) -> "dict[float, PublishedPoint | None]":
        """Points that `curve_at` has returned, by size. Every run needs the point of its size, and a curve never changes."""
        return {}

    def curve_at(self, n: float) -> PublishedPoint | None:
        """Return the point of the fitted curve at a size; None outside the curve, except for size 1."""
        before = self._points_before
        if n not in before:
            if len(before) >= READ_MAX:
                before.clear()
            before[n] = self._interpolated(self.by_size or self.points, n) or (self.one if n == 1.0 else None)
        return before[n]

    def _interpolated(self, points: Sequence[PublishedPoint], n: float) -> PublishedPoint | None:
        if self.apart:  # interpolation half way to a slow size once predicted half of its slow-down
            points = [point for point in points if point.n == n or point.n not in self.apart]
        i = bisect_left(points, n, key=_SIZE)
        if i == len(points):
            return None
        if points[i].n == n:
            return points[i]
        if i == 0:
            return None
        left, right = points[i - 1], points[i]
        share = math.log(n / left.n) / math.log(right.n / left.n)
        # an interpolated run time is as unreliable as the less reliable of its two points
        worse = right if not self.verdicts or self.verdicts[left.verdict].verdict == RELIABLE else left
        sources = {left.source, right.source}
        source: Source = "extrapolated" if "extrapolated" in sources else "interpolated"
        return PublishedPoint(
            n,
            _between(left.run_time_s, right.run_time_s, share),
            _between(left.low_s, right.low_s, share),
            _between(left.high_s, right.high_s, share),
            left.source if sources == {"similar_runs"} else source,
            worse.verdict,
            (1.0 - share) * left.below + share * right.below,
            (1.0 - share) * left.above + share * right.above,
        )

    def is_uninformative(self, n: float) -> bool:
        """Return whether the band of the fitted curve at a size is too wide to plan with; False if the size is outside the curve."""
        point = self.curve_at(n)
        return point is not None and uninformative(point)

    def read(self, sizes: Sequence[float]) -> "list[CurveReading]":
        """Return the readings of the fitted curve, without sizes that are outside the curve or have a band too wide to plan with."""
        points = ((n, self.curve_at(n)) for n in sizes)
        readings = (self._reading(n, point) for n, point in points if point is not None)
        return [reading for reading in readings if reading is not None]

    def _reading(self, n: float, point: PublishedPoint) -> "CurveReading | None":
        observed = point.source == "observed"
        if uninformative(point) and not observed:
            return None
        measured = self.measured.get("own" if observed else self.horizon(n))
        is_rounded = observed or n in self._known_sizes  # fitted points already have six digits
        band = point.band if is_rounded else Band(*rounded(point.run_time_s, point.low_s, point.high_s))
        return CurveReading(n, band, measured, n / self.n_max, point.source, self.judged(point))

    @cached_property
    def _known_sizes(self) -> frozenset[float]:
        return frozenset([point.n for point in self.by_size or self.points])

    def judged(self, point: PublishedPoint) -> Reliability:
        return self.verdicts[point.verdict] if self.verdicts else self.whole

    def horizon(self, n: float) -> Horizon:
        """Return the horizon of size `n`: its distance class from the sizes observed at publication."""
        return horizon_of(n, self.n_min, self.n_max)

    def ground(self, n: float) -> Ground:
        """Return the basis of the curve at a size: runs of the size, excluded runs of the size, or only runs of other sizes."""
        return "runs" if n in self.own else "excluded" if n in self.excluded else "curve"

    def score(self, run: RunFact) -> Scored | None:
        """Return the score of a run against the curve; None if its size is outside the curve.

        If the curve has runs of its own sizes, the fitted curve is scored, even if predictions from similar runs are published
        instead, because the errors of both are recorded separately.
        """
        point = self.curve_at(run.n) if self.own else self.at(run.n)
        if point is None:
            return None
        slower = run.run_time_s >= point.run_time_s
        side = abs(math.log(point.high_s if slower else point.low_s) - math.log(point.run_time_s))
        return Scored(
            run=run,
            expected_s=point.run_time_s,
            low_s=point.low_s,
            high_s=point.high_s,
            ln_ratio=math.log(run.run_time_s) - math.log(point.run_time_s),
            half_width=max((math.log(point.high_s) - math.log(point.low_s)) / 2.0, 1e-6),
            inside=point.low_s <= run.run_time_s <= point.high_s,
            horizon=self.horizon(run.n),
            observations=self.observations,
            ground=self.ground(run.n),
            model_half_width=max((point.above if slower else point.below) or side, 1e-6),
        )


_SIZE: Final = attrgetter("n")


def _between(left: float, right: float, share: float) -> float:
    return math.exp((1.0 - share) * math.log(left) + share * math.log(right))
