"""Judge one run against the model: its cost beyond need, and the size or limit to request instead.

Only reliable predictions are used. A run counts as waste only if the whole band of the prediction confirms it. Runs that cannot
be judged stay open; nothing is guessed.
"""

import math
from typing import Final, Literal, NamedTuple

import msgspec

from agent.reports.waste_runs import WeekRun
from processors.contracts.events import SUCCESS
from processors.contracts.outputs import RELIABLE, CurvePoint, Prediction
from processors.pipeline.outcomes import FAILED_STATES
from sinks.web.views.job_messages import SIMILAR_RUNS, enough_limit

Kind = Literal["slows_down", "beyond_useful", "failed", "timed_out", "long_limit", "odd_host"]
KINDS: Final[tuple[Kind, ...]] = ("slows_down", "beyond_useful", "failed", "timed_out", "long_limit", "odd_host")
LOST: Final[frozenset[Kind]] = frozenset({"slows_down", "beyond_useful", "failed", "timed_out"})
"""What is counted as lost: a long limit uses nothing, and an odd host is nobody's fault."""

TIMEOUT: Final = "TIMEOUT"
ENDED_BY_HOST: Final = frozenset({"NODE_FAIL", "BOOT_FAIL"})


class Amount(msgspec.Struct, frozen=True):
    """A number of unit-hours with a low and a high bound if it is predicted; both bounds equal the value if it was measured.

    The bounds of a sum are the sums of the bounds, as if all errors had the same sign; within one application they do.
    """

    value: float = 0.0
    low: float = 0.0
    high: float = 0.0

    @classmethod
    def measured(cls, value: float) -> "Amount":
        """Return a measured amount, whose bounds equal `value`."""
        return cls(value, value, value)

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.value + other.value, self.low + other.low, self.high + other.high)


class Bounds(msgspec.Struct, frozen=True):
    """Thresholds of waste: the minimum efficiency on the published curve, and the maximum ratio of a limit to the time needed."""

    efficiency_min: float = 0.5
    limit_factor: float = 10.0


class Expected(msgspec.Struct, frozen=True):
    """The predicted run time at a size, with its band."""

    n: float
    run_time_s: float
    low_s: float
    high_s: float

    def hours(self, seconds: float) -> float:
        """Return the unit-hours of `seconds` at this size."""
        return self.n * seconds / 3600.0


class Finding(msgspec.Struct, frozen=True):
    """One waste of a run: its amount, the expected run time at its size, and the size or limit to request instead."""

    kind: Kind
    lost: Amount
    expected: Expected | None = None
    advised: Expected | None = None
    limit_s: float | None = None


class Judged(NamedTuple):
    """The findings of a run, and whether its size could be judged."""

    known: bool
    findings: tuple[Finding, ...] = ()


NOT_JUDGED: Final = Judged(known=False)


def judge(run: WeekRun, curve: Prediction | None, bounds: Bounds) -> Judged:
    """Return the cost of a run beyond need, judged by the curve of its application."""
    if run.state in ENDED_BY_HOST:
        return _known(Finding("odd_host", Amount.measured(run.hours)))
    expected = _expected(run, curve)
    if run.state == TIMEOUT:
        limit_s = enough_limit(expected.high_s) if expected else None
        return _known(Finding("timed_out", Amount.measured(run.hours), expected, limit_s=limit_s))
    if run.state in FAILED_STATES:
        return _known(Finding("failed", Amount.measured(run.hours)))
    if run.state != SUCCESS:
        return NOT_JUDGED
    limit = _limit(run, expected, bounds)
    if run.slowed_by is not None:
        lost = run.hours * max(1.0 - 1.0 / run.slowed_by.factor, 0.0)
        return _known(Finding("odd_host", Amount.measured(lost)), *limit)
    known, size = _size(run, curve, bounds)
    return Judged(known, (*size, *limit))


def _known(*findings: Finding) -> Judged:
    return Judged(known=True, findings=findings)


def _expected(run: WeekRun, curve: Prediction | None) -> Expected | None:
    """Return the reliable run time at the run's size: from the present curve, else from the prediction made at the start of the run."""
    point = _reliable(curve, run.n) if curve is not None else None
    if point is not None:
        return _of(point)
    start = run.predicted
    if start is None or run.n is None or start.verdict != RELIABLE or start.source == SIMILAR_RUNS:
        return None
    return Expected(run.n, start.run_time_s, start.low_s, start.high_s) if start.high_s < math.inf else None


def _of(point: CurvePoint) -> Expected:
    return Expected(point.n, point.run_time_s, point.low_s, point.high_s)


def _reliable(curve: Prediction, n: float | None) -> CurvePoint | None:
    return next((point for point in curve.curve if point.n == n and point.reliable), None)


def _limit(run: WeekRun, expected: Expected | None, bounds: Bounds) -> tuple[Finding, ...]:
    """Return the time requested beyond a sufficient limit, if the limit is many times both the upper end of the band and the run time."""
    if expected is None or run.time_limit_s is None:
        return ()
    needed_s = max(expected.high_s, run.run_time_s)
    limit_s = enough_limit(needed_s)
    if run.time_limit_s < bounds.limit_factor * needed_s or limit_s >= run.time_limit_s:
        return ()
    unused = Amount.measured(run.hours_of(run.time_limit_s - limit_s))
    return (Finding("long_limit", unused, expected, limit_s=limit_s),)


def _size(run: WeekRun, curve: Prediction | None, bounds: Bounds) -> tuple[bool, tuple[Finding, ...]]:
    """Return whether the size of a run can be judged, and its cost beyond a better size."""
    point = _reliable(curve, run.n) if curve is not None else None
    if curve is None or point is None or point.efficiency is None:
        return False, ()
    fastest = curve.useful_n.slower_beyond
    if fastest is not None and point.n > fastest:
        advised = _reliable(curve, fastest)
        return advised is not None, _beyond("slows_down", run, point, advised)
    if point.efficiency >= bounds.efficiency_min:
        return True, ()
    advised = _efficient(curve, point.n, bounds.efficiency_min)
    return advised is not None, _beyond("beyond_useful", run, point, advised)


def _efficient(curve: Prediction, below_n: float, efficiency_min: float) -> CurvePoint | None:
    """Return the largest efficient size below `below_n`, among the sizes that were run and the powers of two between them."""
    found = [
        point
        for point in curve.curve
        if point.n < below_n
        and (point.n in curve.sizes or math.log2(point.n).is_integer())
        and point.efficiency is not None
        and point.efficiency >= efficiency_min
        and point.reliable
    ]
    return max(found, key=lambda point: point.n, default=None)


def _beyond(kind: Kind, run: WeekRun, point: CurvePoint, advised: CurvePoint | None) -> tuple[Finding, ...]:
    """Return the cost of a size beyond a smaller size; empty if the bands of the two sizes overlap.

    A run time outside of its band has causes other than the size, so it is clipped to the end of the band.
    """
    if advised is None:
        return ()
    used = run.hours_of(min(max(run.run_time_s, point.low_s), point.high_s))
    least = _of(advised)
    low, value, high = (used - least.hours(seconds) for seconds in (advised.high_s, advised.run_time_s, advised.low_s))
    return (Finding(kind, Amount(value, low, high), _of(point), least),) if low > 0 else ()
