"""Judges the runs of a week by the curves of their applications: what each run wasted, and what to request instead.

Only reliable predictions count. A run wasted something only if the whole band of the prediction says so; runs that cannot be
judged are reported as such, never guessed.
"""

import math
from typing import Final, Literal, NamedTuple

import msgspec

from agent.reports.week import Collected, Week, reported_evidence
from processors.advice import enough_limit, is_dependable, reliable_point
from processors.contracts.events import SUCCESS, UNITS, JobCompleted
from processors.contracts.names import ApplicationKey
from processors.contracts.outputs import CurvePoint, PredictedAtStart, Prediction, Run, SlowedBy
from processors.contracts.settings import SESSION
from processors.pipeline.outcomes import FAILED_STATES


class WeekRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that ended in the week; `user` is written as the agent writes users, `n` is None if no size in `unit` is known."""

    run_id: str
    job_id: str
    system: str
    user: str | None
    application_id: str | None
    unit: str
    n: float | None
    start_ms: int
    run_time_s: float
    state: str
    time_limit_s: float | None = None
    failed_host: str | None = None
    predicted: PredictedAtStart | None = None
    slowed_by: SlowedBy | None = None
    session: bool = False

    @property
    def hours(self) -> float:
        """The unit-hours that the run used; 0 if its size is unknown."""
        return self.hours_of(self.run_time_s)

    def hours_of(self, seconds: float) -> float:
        """Return the unit-hours of some seconds at the size of the run."""
        return (self.n or 0.0) * seconds / 3600.0

    @property
    def application(self) -> ApplicationKey | None:
        """The application of the run; None if it is unknown."""
        return ApplicationKey.parse(self.application_id) if self.application_id else None


class WeekRuns(Collected[WeekRun]):
    """The runs that ended in a week; `unit` is the unit of runs of unknown applications."""

    def __init__(self, week: Week, user: str | None = None, unit: str = "nodes") -> None:
        self._week, self._unit = week, unit
        super().__init__(self._ended, user)

    def _ended(self, run: Run, event: JobCompleted) -> WeekRun | None:
        in_week = self._week.holds(event.end_ms) and event.run_time_s > 0
        return _week_run(run, event, self._unit) if in_week else None


def _week_run(run: Run, event: JobCompleted, unit: str) -> WeekRun:
    evidence = list(reported_evidence(run, event))
    if run.application_id is not None:
        unit, n = ApplicationKey.parse(run.application_id).unit, run.n
    else:
        sizes = event.evidence.sizes
        unit = next((name for name in (unit, *UNITS) if name in sizes), unit)
        n = sizes.get(unit)
    return WeekRun(
        run_id=run.run_id,
        job_id=event.job_id,
        system=event.system,
        user=next((report.user for report in evidence if report.user), None),
        application_id=run.application_id,
        unit=unit,
        n=n,
        start_ms=event.start_ms,
        run_time_s=event.run_time_s,
        state=event.state,
        time_limit_s=next((report.time_limit_s for report in evidence if report.time_limit_s), None),
        failed_host=event.failed_host,
        predicted=run.predicted,
        slowed_by=run.slowed_by,
        session=run.identified_by == SESSION,
    )


Kind = Literal["slows_down", "beyond_useful", "failed", "timed_out", "long_limit", "odd_host"]
KINDS: Final[tuple[Kind, ...]] = ("slows_down", "beyond_useful", "failed", "timed_out", "long_limit", "odd_host")
LOST: Final[frozenset[Kind]] = frozenset({"slows_down", "beyond_useful", "failed", "timed_out"})
"""Kinds that count as lost: a long limit uses nothing, and an abnormal host is nobody's fault."""

TIMEOUT: Final = "TIMEOUT"
ENDED_BY_HOST: Final = frozenset({"NODE_FAIL", "BOOT_FAIL"})


class Amount(msgspec.Struct, frozen=True):
    """A number of unit-hours with the ends of its band; measured amounts have no width.

    Ends add up as if all bands erred to the same side, which the bands of one application do.
    """

    value: float = 0.0
    low: float = 0.0
    high: float = 0.0

    @classmethod
    def measured(cls, value: float) -> "Amount":
        return cls(value, value, value)

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.value + other.value, self.low + other.low, self.high + other.high)


class Bounds(msgspec.Struct, frozen=True):
    """The bounds of waste: the least efficiency on the published curve, and the largest ratio of time limit to need."""

    efficiency_min: float = 0.5
    limit_factor: float = 10.0


class Expected(msgspec.Struct, frozen=True):
    """The predicted run time at a size, with its band."""

    n: float
    run_time_s: float
    low_s: float
    high_s: float

    def hours(self, seconds: float) -> float:
        """Return the unit-hours of some seconds at this size."""
        return self.n * seconds / 3600.0


class Finding(msgspec.Struct, frozen=True):
    """A waste of a run: unit-hours, prediction at its size, and the size or limit to request instead."""

    kind: Kind
    lost: Amount
    expected: Expected | None = None
    advised: Expected | None = None
    limit_s: float | None = None


class Judged(NamedTuple):
    """The findings about a run, and whether its size could be judged."""

    known: bool
    findings: tuple[Finding, ...] = ()


NOT_JUDGED: Final = Judged(known=False)


def judge(run: WeekRun, curve: Prediction | None, bounds: Bounds) -> Judged:
    """Return the waste of a run by the curve of its application."""
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
    """Return the reliable prediction at a run's size: by the current curve, else the prediction at its start."""
    point = reliable_point(curve, run.n)
    if point is not None:
        return _of(point)
    start = run.predicted
    if start is None or run.n is None or not is_dependable(start):
        return None
    return Expected(run.n, start.run_time_s, start.low_s, start.high_s) if start.high_s < math.inf else None


def _of(point: CurvePoint) -> Expected:
    return Expected(point.n, point.run_time_s, point.low_s, point.high_s)


def _limit(run: WeekRun, expected: Expected | None, bounds: Bounds) -> tuple[Finding, ...]:
    """Return the time requested beyond an enough limit, if it is many times both the band's upper end and the run time."""
    if expected is None or run.time_limit_s is None:
        return ()
    needed_s = max(expected.high_s, run.run_time_s)
    limit_s = enough_limit(needed_s)
    if run.time_limit_s < bounds.limit_factor * needed_s or limit_s >= run.time_limit_s:
        return ()
    unused = Amount.measured(run.hours_of(run.time_limit_s - limit_s))
    return (Finding("long_limit", unused, expected, limit_s=limit_s),)


def _size(run: WeekRun, curve: Prediction | None, bounds: Bounds) -> tuple[bool, tuple[Finding, ...]]:
    """Return whether the size of a run can be judged, and its waste against a better size."""
    point = reliable_point(curve, run.n)
    if curve is None or point is None or point.efficiency is None:
        return False, ()
    fastest = curve.useful_n.slower_beyond
    if fastest is not None and point.n > fastest:
        advised = reliable_point(curve, fastest)
        return advised is not None, _beyond("slows_down", run, point, advised)
    if point.efficiency >= bounds.efficiency_min:
        return True, ()
    advised = _efficient(curve, point.n, bounds.efficiency_min)
    return advised is not None, _beyond("beyond_useful", run, point, advised)


def _efficient(curve: Prediction, below_n: float, efficiency_min: float) -> CurvePoint | None:
    """Return the largest smaller size that is efficient enough, among sizes that were run and powers of two."""
    efficient = [
        point
        for point in curve.curve
        if point.n < below_n
        and (point.n in curve.sizes or math.log2(point.n).is_integer())
        and point.efficiency is not None
        and point.efficiency >= efficiency_min
        and point.reliable
    ]
    return max(efficient, key=lambda point: point.n, default=None)


def _beyond(kind: Kind, run: WeekRun, point: CurvePoint, advised: CurvePoint | None) -> tuple[Finding, ...]:
    """Return the waste of a size against a smaller one; nothing if the band of the smaller size reaches as far.

    A run time outside its band has other causes than the size, so it counts only up to the end of the band.
    """
    if advised is None:
        return ()
    used = run.hours_of(min(max(run.run_time_s, point.low_s), point.high_s))
    least = _of(advised)
    low, value, high = (used - least.hours(seconds) for seconds in (advised.high_s, advised.run_time_s, advised.low_s))
    return (Finding(kind, Amount(value, low, high), _of(point), least),) if low > 0 else ()
