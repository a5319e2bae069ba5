"""Collects the settled runs of a week and the newest curves from the agent's own messages."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from agent.waste.week import Week
from processors.contracts.events import UNITS, Evidence, Identity, JobCompleted
from processors.contracts.names import ApplicationKey
from processors.contracts.outputs import Emission, PredictedAtStart, Prediction, Run, SlowedBy

RUNS_MAX: Final = 1_000_000  # of a week, which are held in memory; what is more is counted and left out
CURVES_MAX: Final = 20_000
_RUN: Final = msgspec.json.Decoder(Run)
_PREDICTION: Final = msgspec.json.Decoder(Prediction)
_COMPLETION: Final = msgspec.json.Decoder(JobCompleted)
_IDENTITY: Final = msgspec.json.Decoder(Identity)


class WeekRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that ended in the week. `user` is as the agent writes it; `n` is None where no size is known in `unit`."""

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

    @property
    def hours(self) -> float:
        """What the run used, in its unit times hours; 0 where its size is not known."""
        return self.hours_of(self.run_time_s)

    def hours_of(self, seconds: float) -> float:
        """Return what so many seconds at its size are, in its unit times hours."""
        return (self.n or 0.0) * seconds / 3600.0

    @property
    def application(self) -> ApplicationKey | None:
        """What it ran; None where nothing names it."""
        return ApplicationKey.parse(self.application_id) if self.application_id else None


class WeekRuns:
    """The runs that ended in a week, of one `user` or of all, and the newest curve of each application; a sink as files are one.

    `unit` sizes the runs of which no application is known. `newest_ms` is when the last run of all ended, in the week or not.
    """

    def __init__(self, week: Week, user: str | None = None, unit: str = "nodes") -> None:
        self._week, self._user, self._unit = week, user, unit
        self.runs: dict[str, WeekRun] = {}
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
        if not self._week.holds(event.end_ms) or event.run_time_s <= 0:
            return
        found = _week_run(run, event, self._unit)
        if self._user is not None and found.user != self._user:
            return
        if len(self.runs) >= RUNS_MAX:
            self.left_out += 1
            return
        self.runs[emission.key] = found


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
    )


def reported_evidence(run: Run, event: JobCompleted) -> Iterator[Evidence]:
    """Yield the evidence of a run: that of its end first, then what only its start or other sources had."""
    yield event.evidence
    known = event.evidence
    if known.user and known.time_limit_s and known.account and known.exclusive is not None:
        return
    for raw in run.identities:
        yield _IDENTITY.decode(raw).evidence
