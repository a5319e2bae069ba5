"""The runs that were there in a week, with what is known of their energy, as its report wants them."""

from typing import Final

import msgspec

from agent.reports.collected import Collected, reported_evidence
from agent.reports.week import Week
from processors.contracts.events import Evidence, JobCompleted, nodes_of
from processors.contracts.hosts import Profile
from processors.contracts.names import ApplicationKey
from processors.contracts.outputs import CurvePoint, Run
from processors.contracts.settings import SESSION
from processors.power.by_size import RunEnergy, energy_of_run, relied_on
from sinks.web.views.job_messages import RELIABLE, predicted_now

SESSIONS: Final = "interactive sessions"


class EnergyRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was there in the week; `user` is as the agent writes it, `nodes` at least 1, also where nobody counted them."""

    job_id: str
    system: str
    user: str | None
    account: str | None
    application_id: str | None
    n: float | None
    nodes: int
    start_ms: int
    end_ms: int
    run_time_s: float
    profile: Profile | None = None
    exclusive: bool | None = None
    scheduler_j: float | None = None
    session: bool = False

    @property
    def application(self) -> str | None:
        """The application without its input, or SESSIONS for an interactive session; None where nothing names it."""
        if self.session:
            return SESSIONS
        return ApplicationKey.parse(self.application_id).application if self.application_id else None


class EnergyRuns(Collected[EnergyRun]):
    """The runs of which a part lies in a week, so each is known once it has ended, maybe later."""

    def __init__(self, week: Week, user: str | None = None) -> None:
        self._week = week
        super().__init__(self._partly_in_week, user)

    def _partly_in_week(self, run: Run, event: JobCompleted) -> EnergyRun | None:
        week = self._week
        in_week = event.start_ms < week.until_ms and event.end_ms > max(week.from_ms, event.start_ms)
        return _energy_run(run, event) if in_week and event.run_time_s > 0 else None

    def energy(self, run: EnergyRun) -> RunEnergy:
        """Return what a run used, by the first source that knows it."""
        return energy_of_run(
            run.profile,
            run.scheduler_j,
            exclusive=run.exclusive,
            run_time_s=run.run_time_s,
            predicted=self._predicted(run),
        )

    def _predicted(self, run: EnergyRun) -> CurvePoint | None:
        """Return the point of a run's size on the curve of its application, where its energy can be relied on."""
        curve = self.curves.get(run.application_id or "")
        if curve is None:
            return None
        points = [point for point in curve.curve if point.n == run.n]
        return next(iter(relied_on(points, lambda point: predicted_now(curve, point).verdict == RELIABLE)), None)


def _energy_run(run: Run, event: JobCompleted) -> EnergyRun:
    evidence = list(reported_evidence(run, event))
    return EnergyRun(
        job_id=event.job_id,
        system=event.system,
        user=next((each.user for each in evidence if each.user), None),
        account=next((each.account for each in evidence if each.account), None),
        application_id=run.application_id,
        n=run.n,
        nodes=_nodes(run.profile, evidence),
        start_ms=event.start_ms,
        end_ms=event.end_ms,
        run_time_s=event.run_time_s,
        profile=run.profile,
        exclusive=next((each.exclusive for each in evidence if each.exclusive is not None), None),
        scheduler_j=event.energy_j,
        session=run.identified_by == SESSION,
    )


def _nodes(profile: Profile | None, evidence: list[Evidence]) -> int:
    if profile is not None and profile.hosts:
        return profile.hosts
    return next((nodes for each in evidence if (nodes := nodes_of(each)) is not None), 1)
