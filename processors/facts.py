"""Facts: what passes between processors."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from statistics import NormalDist
from typing import Final, Literal, TypeGuard

import msgspec

from processors.contracts.events import SUCCESS, JobCompleted
from processors.contracts.names import Horizon, horizon_of
from processors.models.statistics import Z95

# When will a running job end: the published band as a log-normal law, given that the job still runs.


_NORMAL = NormalDist()
_SURVIVAL_MIN = 1e-9
_SPREAD_MAX = 50.0  # of ln T: beyond it nothing is known, and the numbers of the machine end


class EndForecast(msgspec.Struct, frozen=True):
    """Run time in seconds with its 90 % band, and the probability that it exceeds the time limit."""

    run_time_s: float
    low_s: float
    high_s: float
    exceeds: float | None


def forecast(run_time_s: float, low_s: float, high_s: float, elapsed_s: float, limit_s: float | None) -> EndForecast:
    """Return the run time of a job that has run for `elapsed_s` and has not ended.

    The law is ln T ~ N(ln run_time_s, s^2) with s from the width of the 90 % band, cut off below the elapsed time.
    """
    spread = min(max((math.log(high_s) - math.log(low_s)) / (2 * Z95), 1e-6), _SPREAD_MAX)
    centre = math.log(run_time_s)

    def below(time_s: float) -> float:
        return _NORMAL.cdf((math.log(time_s) - centre) / spread) if time_s > 0 else 0.0

    passed = below(elapsed_s)
    alive = max(1.0 - passed, _SURVIVAL_MIN)

    def quantile(share: float) -> float:
        level = min(max(passed + share * alive, 1e-12), 1 - 1e-12)
        return max(math.exp(centre + spread * _NORMAL.inv_cdf(level)), elapsed_s)

    exceeds = None if limit_s is None else min(max((1.0 - below(limit_s)) / alive, 0.0), 1.0)
    point = run_time_s if passed < 1e-6 else quantile(0.5)  # nothing is cut off yet
    return EndForecast(float(point), min(quantile(0.05), point), max(quantile(0.95), point), exceeds)


def noteworthy(old: tuple[float, float, float] | None, new: EndForecast, tolerance: float = 0.02) -> bool:
    """Tell whether a forecast differs enough from the last one (run time, low, high) to be published."""
    if old is None:
        return True
    pairs = zip(old, (new.run_time_s, new.low_s, new.high_s), strict=True)
    return any(abs(math.log(b / a)) > tolerance for a, b in pairs)


N_MIN: Final = 1e-3
N_MAX: Final = 1e9
RUN_TIME_MIN_S: Final = 1e-3
RUN_TIME_MAX_S: Final = 1e9

Ground = Literal["runs", "curve", "doubted"]


class RunFact(msgspec.Struct, frozen=True):
    """A completed run of an application at size `n`; `seen_ms` is the agent's own time when it learned of it."""

    run_id: str
    n: float
    run_time_s: float
    start_ms: int
    end_ms: int
    seen_ms: int


def plausible(n: float, run_time_s: float) -> bool:
    """Tell whether size and run time can be true: a thousandth to a thousand million, in units and in seconds."""
    return N_MIN <= n <= N_MAX and RUN_TIME_MIN_S <= run_time_s <= RUN_TIME_MAX_S


def trains(n: float | None, event: JobCompleted, *, resized: bool) -> TypeGuard[float]:
    """Tell whether a run tells how long its application takes at size `n`: it came to its end, in one size, and can be true."""
    return event.state == SUCCESS and not resized and n is not None and plausible(n, event.run_time_s)


class Outcome(msgspec.Struct, frozen=True):
    """How a run of something (an application on a host, say) ended; `of` tells causes apart."""

    run_id: str
    failed: bool
    of: str = ""


class Scored(msgspec.Struct, frozen=True):
    """A run against the prediction that was published before it ended.

    `ln_ratio` is ln(observed / expected); `half_width` that of the band, in ln. `observations` is how many runs the
    prediction knew. `ground` is what it rests on at this size: runs of the size itself, other ones, or other ones though
    this size was run and was out of line.
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


# A published curve: what users were told, as points; between points ln T is linear in ln n.


class PublishedPoint(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Run time and band at one size, in seconds."""

    n: float
    run_time_s: float
    low_s: float
    high_s: float


class CurveSaid(msgspec.Struct, frozen=True, array_like=True):
    """What was published about a run when it ended: at its size, at the nearest size that features know, and how far it lay."""

    at: PublishedPoint
    near: PublishedPoint
    horizon: Horizon


class PublishedCurve(msgspec.Struct, frozen=True):
    """The points by rising size, the sizes that were observed then (smallest, largest), and how many runs there were.

    `by_size` is what the curve itself says, where something else was published because run times do not follow the size.
    At the sizes of `own` it rests on their own runs; those of `doubted` were run and out of line, and it passes them by.
    `power_w` is what was told of power at its points; empty where power was not known.
    """

    points: tuple[PublishedPoint, ...]
    n_min: float
    n_max: float
    observations: int
    time_ms: int
    verdict: str = "insufficient"
    reasons: tuple[str, ...] = ()
    widening: float = 1.0
    by_size: tuple[PublishedPoint, ...] = ()
    own: tuple[float, ...] = ()
    doubted: tuple[float, ...] = ()
    power_w: tuple[float | None, ...] = ()

    def at(self, n: float) -> PublishedPoint | None:
        """Return the curve at a size; None outside of it."""
        return _at(self.points, n)

    def curve_at(self, n: float) -> PublishedPoint | None:
        """Return what the curve itself says at a size; None outside of it."""
        return _at(self.by_size or self.points, n)

    @property
    def of_one_size(self) -> bool:
        """Whether runs of one size were all there was."""
        return self.n_min == self.n_max

    def horizon(self, n: float) -> Horizon:
        """Return how far a size lies beyond what was observed when the curve was published."""
        return horizon_of(n, self.n_min, self.n_max)

    def ground(self, n: float) -> Ground:
        """Return what the curve rests on at a size."""
        return "runs" if n in self.own else "doubted" if n in self.doubted else "curve"

    def score(self, run: RunFact) -> Scored | None:
        """Return how a run compares; None where the curve says nothing about its size."""
        point = self.at(run.n)
        if point is None:
            return None
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
        )


def _at(points: Sequence[PublishedPoint], n: float) -> PublishedPoint | None:
    sizes = [point.n for point in points]
    i = bisect_left(sizes, n)
    if i == len(sizes) or (i == 0 and sizes[0] != n):
        return None
    if sizes[i] == n:
        return points[i]
    left, right = points[i - 1], points[i]
    share = math.log(n / left.n) / math.log(right.n / left.n)
    return PublishedPoint(
        n,
        _between(left.run_time_s, right.run_time_s, share),
        _between(left.low_s, right.low_s, share),
        _between(left.high_s, right.high_s, share),
    )


def _between(left: float, right: float, share: float) -> float:
    return math.exp((1.0 - share) * math.log(left) + share * math.log(right))
