"""The settled runs of a week, in the form that the waste report reads."""

import msgspec

from agent.reports.week import Collected, Week, reported_evidence
from processors.contracts.events import UNITS, JobCompleted
from processors.contracts.names import ApplicationKey
from processors.contracts.outputs import PredictedAtStart, Run, SlowedBy
from processors.contracts.settings import SESSION


class WeekRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that ended in the week. `user` is in the form the agent writes; `n` is None if its size in `unit` is unknown."""

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
        """The unit-hours used by the run; 0 if its size is unknown."""
        return self.hours_of(self.run_time_s)

    def hours_of(self, seconds: float) -> float:
        """Return the unit-hours of `seconds` at the size of the run."""
        return (self.n or 0.0) * seconds / 3600.0

    @property
    def application(self) -> ApplicationKey | None:
        """The application of the run; None if the run names no application."""
        return ApplicationKey.parse(self.application_id) if self.application_id else None


class WeekRuns(Collected[WeekRun]):
    """Collects the runs that ended in a week; `unit` is the unit of size for runs of unknown applications."""

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
        user=next((each.user for each in evidence if each.user), None),
        application_id=run.application_id,
        unit=unit,
        n=n,
        start_ms=event.start_ms,
        run_time_s=event.run_time_s,
        state=event.state,
        time_limit_s=next((each.time_limit_s for each in evidence if each.time_limit_s), None),
        failed_host=event.failed_host,
        predicted=run.predicted,
        slowed_by=run.slowed_by,
        session=run.identified_by == SESSION,
    )
