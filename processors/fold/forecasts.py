"""Forecasts of running jobs, from what was published of their application."""

from agent.contracts.events import JobStarted
from agent.contracts.moments import LATEST_MS, rfc3339
from agent.contracts.names import ApplicationKey
from agent.contracts.outputs import JobPrediction
from processors.digest import hexdigest
from processors.energy import PowerBand
from processors.fold.desk import Desk
from processors.fold.end_outlooks import EndOutlook, EndOutlooks
from processors.fold.features import Features
from processors.fold.histories import Histories
from processors.fold.power import Power
from processors.fold.under_load import UnderLoads
from processors.forecast import Forecast, ToldAtStart, told_by
from processors.job_ends import EndForecast, noteworthy
from processors.jobs import Job
from processors.models.digits import six_digits
from processors.quality import COVERAGE


class Forecasts:
    """Publishes when running jobs will end, and revises it while they run.

    >>> from agent.app.compose import make_shard
    >>> from agent.config.tree import Config
    >>> from agent.contracts.events import Evidence
    >>> desk = make_shard(Config()).desk
    >>> job = desk.jobs.open("exa/1")
    >>> job.learn(JobStarted("exa", job_id="1", run_id="exa/1@0", start_ms=0, evidence=Evidence(application="lammps")))
    >>> Forecasts(desk, Histories(desk)).publish(job)
    >>> [(said.job_id, said.known) for said in desk.outbox]
    [('1', False)]
    """

    def __init__(self, desk: Desk, histories: Histories) -> None:
        self._desk = desk
        self._outlooks = EndOutlooks(desk, histories)
        self._under_loads = UnderLoads(desk)
        self._power = Power(desk)
        self._features = Features(desk)

    def publish(self, job: Job) -> None:
        """Say when the job will end."""
        started = job.running
        if started is None:
            return
        found = self._desk.identify(started.evidence, started.system, job.identities, None)
        key = found.key.id if found.key else None
        outlook = self._outlooks.first(started, found, self._features.of_job(job, started))
        first = Forecast(key, found.n, *_times(outlook.end))
        before, now = job.start_load, self._under_loads.at_start(started, first)
        if now is not None or before is None or (before.application_id, before.said.n) != (key, found.n):
            job.loaded(now)  # else the windows are gone, and what they said still holds
        told = told_by(outlook.end, outlook.model, outlook.reliability)
        job.told(ToldAtStart(self._desk.now_ms, told) if told else None)
        self._send(job, started, first, outlook)

    def revise(self, job: Job) -> None:
        """Say it anew if it changed noticeably."""
        started, last = job.running, job.forecast
        if started is None or last is None:
            return
        outlook = self._outlooks.again(started, last, self._features.of_job(job, started))
        if outlook.end is not None and noteworthy(_numbers(last), outlook.end):
            self._send(job, started, last, outlook)
        else:
            job.published(last, self._desk.now_ms, outlook.revise_s)

    def _send(self, job: Job, started: JobStarted, of: Forecast, outlook: EndOutlook) -> None:
        expected = outlook.end
        said = Forecast(of.application_id, of.n, *_times(expected), outlook.from_inputs)
        context = self._desk.context
        power = self._power.at(said.application_id, [said.n])[0] if said.n is not None else None
        key = ApplicationKey.parse(said.application_id) if said.application_id else None
        self._desk.outbox.append(
            JobPrediction(
                schema="scalewatch.job-prediction/1",
                id=f"{started.run_id}@{context.now_ms}:{_digest(said, power)}",
                time=context.time,
                as_of=context.time,
                agent_version=context.agent_version,
                system=started.system,
                job_id=started.job_id,
                application=key.application if key else None,
                input=key.input if key else None,
                unit=key.unit if key else None,
                n=said.n,
                start=rfc3339(started.start_ms),
                time_limit_s=started.evidence.time_limit_s,
                known=expected is not None,
                run_time_s=expected.run_time_s if expected else None,
                low_s=expected.low_s if expected else None,
                high_s=expected.high_s if expected else None,
                coverage=COVERAGE if expected else None,
                coverage_measured=outlook.measured,
                end=_end(started, expected.run_time_s) if expected else None,
                end_low=_end(started, expected.low_s) if expected else None,
                end_high=_end(started, expected.high_s) if expected else None,
                probability_exceeds_limit=expected.exceeds if expected else None,
                reliability=outlook.reliability,
                model=outlook.model,
                under_load=job.start_load.said if job.start_load else None,
                power_w=six_digits(power.power_w) if power else None,
                power_low_w=six_digits(power.low_w) if power else None,
                power_high_w=six_digits(power.high_w) if power else None,
                user=started.evidence.user,
            )
        )
        job.published(said, context.now_ms, outlook.revise_s)


def _times(expected: EndForecast | None) -> tuple[float | None, float | None, float | None]:
    return (expected.run_time_s, expected.low_s, expected.high_s) if expected else (None, None, None)


def _end(started: JobStarted, run_time_s: float) -> str | None:
    """Return when the job ends; None where no calendar goes so far."""
    end_ms = started.start_ms + run_time_s * 1000
    return rfc3339(round(end_ms)) if end_ms <= LATEST_MS else None


def _digest(said: Forecast, power: PowerBand | None) -> str:
    """Return what tells two forecasts of one moment apart: other evidence may follow a start at once."""
    known = (repr(power.power_w), repr(power.low_w), repr(power.high_w)) if power else ()
    return hexdigest(
        said.application_id or "", repr(said.n), repr(said.run_time_s), repr(said.low_s), repr(said.high_s), *known
    )


def _numbers(last: Forecast | None) -> tuple[float, float, float] | None:
    if last is None or last.run_time_s is None or last.low_s is None or last.high_s is None:
        return None
    return last.run_time_s, last.low_s, last.high_s
