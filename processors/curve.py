"""A published curve: what users were told, as points; between points ln T is linear in ln n."""

import math
from bisect import bisect_left
from collections.abc import Sequence

import msgspec

from agent.contracts.horizons import Horizon, horizon_of
from processors.facts import Ground, RunFact, Scored


class PublishedPoint(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Run time and band at one size, in seconds."""

    n: float
    run_time_s: float
    low_s: float
    high_s: float


class CurveSaid(msgspec.Struct, frozen=True, array_like=True):
    """What was published about a run when it ended: at its size, at the nearest size that features know, and how far it lay.

    >>> CurveSaid(PublishedPoint(1, 100, 90, 110), PublishedPoint(1, 100, 90, 110), "inside").horizon
    'inside'
    """

    at: PublishedPoint
    near: PublishedPoint
    horizon: Horizon


class PublishedCurve(msgspec.Struct, frozen=True):
    """The points by rising size, the sizes that were observed then (smallest, largest), and how many runs there were.

    `by_size` is what the curve itself says, where something else was published because run times do not follow the size.
    At the sizes of `own` it rests on their own runs; those of `doubted` were run and out of line, and it passes them by.
    `power_w` is what was told of power at its points; empty where power was not known.

    >>> points = (PublishedPoint(1, 100, 90, 110), PublishedPoint(4, 25, 20, 30))
    >>> curve = PublishedCurve(points=points, n_min=1, n_max=4, observations=9, time_ms=0)
    >>> round(curve.at(2).run_time_s, 6)
    50.0
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
        """Return how a run compares; None where the curve says nothing about its size.

        >>> points = (PublishedPoint(1, 100, 90, 110),)
        >>> curve = PublishedCurve(points=points, n_min=1, n_max=1, observations=9, time_ms=0)
        >>> curve.score(RunFact("r", n=1, run_time_s=120, start_ms=0, end_ms=1, seen_ms=1)).inside
        False
        """
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
