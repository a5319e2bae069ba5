"""Judges one run against what the model knows: what it cost beyond what was needed, and what to ask for in its place.

Only what may be relied on counts. A run is held to have wasted something where the whole band of the prediction says so; what
cannot be judged is left open, never guessed.
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
    """A number of unit-hours, between a low and a high end where it rests on a prediction; both are the value where it was measured.

    Ends add up as if all bands erred to the same side, which those of one application do.
    """

    value: float = 0.0
    low: float = 0.0
    high: float = 0.0

    @classmethod
    def measured(cls, value: float) -> "Amount":
        """Return what was measured."""
        return cls(value, value, value)

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.value + other.value, self.low + other.low, self.high + other.high)


class Bounds(msgspec.Struct, frozen=True):
    """From where on something is waste: less than this efficiency on the published curve, a limit so many times what is needed."""

    efficiency_min: float = 0.5
    limit_factor: float = 10.0


class Expected(msgspec.Struct, frozen=True):
    """What the model expects at a size: the run time with its band."""

    n: float
    run_time_s: float
    low_s: float
    high_s: float

    def hours(self, seconds: float) -> float:
        """Return what so many seconds at this size are, in unit times hours."""
        return self.n * seconds / 3600.0


class Finding(msgspec.Struct, frozen=True):
    """Something that a run cost: how much, what was expected at its size, and the size or limit to ask for in its place."""

    kind: Kind
    lost: Amount
    expected: Expected | None = None
    advised: Expected | None = None
    limit_s: float | None = None


class Judged(NamedTuple):
    """What was found of a run, and whether its size could be judged at all."""

    known: bool
    findings: tuple[Finding, ...] = ()


NOT_JUDGED: Final = Judged(known=False)


def judge(run: WeekRun, curve: Prediction | None, bounds: Bounds) -> Judged:
    """Return what a run cost beyond what was needed, by the curve of its application."""
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
    """Return what may be relied on of the run time at a run's size: by the curve of now, else by what was predicted at its start."""
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
    """Return what was asked for beyond a limit that holds, where it is many times both the band's upper end and the run itself."""
    if expected is None or run.time_limit_s is None:
        return ()
    needed_s = max(expected.high_s, run.run_time_s)
    limit_s = enough_limit(needed_s)
    if run.time_limit_s < bounds.limit_factor * needed_s or limit_s >= run.time_limit_s:
        return ()
    unused = Amount.measured(run.hours_of(run.time_limit_s - limit_s))
    return (Finding("long_limit", unused, expected, limit_s=limit_s),)


def _size(run: WeekRun, curve: Prediction | None, bounds: Bounds) -> tuple[bool, tuple[Finding, ...]]:
    """Return whether the size of a run can be judged, and what it cost beyond a better one."""
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
    """Return the largest smaller size that is efficient enough, of those that were run and the powers of two among them."""
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
    """Return what a size cost beyond a smaller one; nothing where the band of that one reaches as far.

    A run time outside of its band has other causes than the size, so only the band's end counts then.
    """
    if advised is None:
        return ()
    used = run.hours_of(min(max(run.run_time_s, point.low_s), point.high_s))
    least = _of(advised)
    low, value, high = (used - least.hours(seconds) for seconds in (advised.high_s, advised.run_time_s, advised.low_s))
    return (Finding(kind, Amount(value, low, high), _of(point), least),) if low > 0 else ()
