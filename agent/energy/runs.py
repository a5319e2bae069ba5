"""Collects the runs that were there in a week, with what is known of their energy, from the agent's own messages."""

from collections.abc import Iterable
from typing import Final

import msgspec

from agent.waste.runs import CURVES_MAX, RUNS_MAX, reported_evidence
from agent.waste.week import Week
from processors.contracts.events import Evidence, JobCompleted, nodes_of
from processors.contracts.hosts import Profile
from processors.contracts.names import ApplicationKey
from processors.contracts.outputs import CurvePoint, Emission, Prediction, Run
from processors.power.accounting import RunEnergy, energy_of_run
from processors.power.by_size import relied_on
from sinks.web.views.job_messages import RELIABLE, predicted_now

_RUN: Final = msgspec.json.Decoder(Run)
_PREDICTION: Final = msgspec.json.Decoder(Prediction)
_COMPLETION: Final = msgspec.json.Decoder(JobCompleted)


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

    @property
    def application(self) -> str | None:
        """What it ran, without its input; None where nothing names it."""
        return ApplicationKey.parse(self.application_id).application if self.application_id else None


class EnergyRuns:
    """The runs of a week, of one `user` or of all, and the newest curve of each application; a sink as files are one.

    A run counts for the part of it that lies in the week, so it is known once it has ended, maybe later. `newest_ms` is when the
    last run of all ended.
    """

    def __init__(self, week: Week, user: str | None = None) -> None:
        self._week, self._user = week, user
        self.runs: dict[str, EnergyRun] = {}
        self.curves: dict[str, Prediction] = {}
        self.left_out = 0
        self.newest_ms: int | None = None

    def write(self, emissions: Iterable[Emission]) -> None:
        """Take messages in; a later one of the same key replaces the earlier one."""
        for emission in emissions:
            if emission.kind == "predictions":
                self._take_curve(emission)
            elif emission.kind == "runs":
                self._take_run(emission)

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

    def _take_curve(self, emission: Emission) -> None:
        self.curves.pop(emission.key, None)
        if emission.value is not None:
            self.curves[emission.key] = _PREDICTION.decode(emission.value)
            if len(self.curves) > CURVES_MAX:
                del self.curves[next(iter(self.curves))]

    def _take_run(self, emission: Emission) -> None:
        self.runs.pop(emission.key, None)
        if emission.value is None:
            return
        run = _RUN.decode(emission.value)
        event = _COMPLETION.decode(run.event)
        self.newest_ms = max(event.end_ms, self.newest_ms or event.end_ms)
        week = self._week
        if (
            event.run_time_s <= 0
            or event.start_ms >= week.until_ms
            or event.end_ms <= max(week.from_ms, event.start_ms)
        ):
            return
        found = _energy_run(run, event)
        if self._user is not None and found.user != self._user:
            return
        if len(self.runs) >= RUNS_MAX:
            self.left_out += 1
            return
        self.runs[emission.key] = found


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
    )


def _nodes(profile: Profile | None, evidence: list[Evidence]) -> int:
    if profile is not None and profile.hosts:
        return profile.hosts
    return next((nodes for each in evidence if (nodes := nodes_of(each)) is not None), 1)
