"""Forecasts of running jobs, from what was published of their application."""

from typing import NamedTuple

from agent.contracts.events import JobStarted
from agent.contracts.moments import LATEST_MS, rfc3339
from agent.contracts.names import ApplicationKey
from agent.contracts.outputs import JobPrediction, Reliability
from processors.digest import hexdigest
from processors.facts import N_MAX, N_MIN
from processors.fold.desk import Desk, Identified
from processors.fold.unseen import Unseen
from processors.inputs import Inputs
from processors.job_ends import EndForecast, forecast, noteworthy
from processors.jobs import Forecast, FromInputs, Job
from processors.other_inputs import UNSEEN
from processors.quality import COVERAGE, coverages

NOT_KNOWN = Reliability("unknown", ("no_model",), ())
COLD_START = Reliability(
    "uncertain", (UNSEEN,), ("No curve of this input is known: this comes from other inputs of the application.",)
)


class Forecasts:
    """Publishes when running jobs will end, and revises it while they run.

    >>> from agent.app.compose import make_shard
    >>> from agent.config.tree import Config
    >>> from agent.contracts.events import Evidence
    >>> desk = make_shard(Config()).desk
    >>> job = desk.jobs.open("exa/1")
    >>> job.learn(JobStarted("exa", job_id="1", run_id="exa/1@0", start_ms=0, evidence=Evidence(application="lammps")))
    >>> Forecasts(desk).publish(job)
    >>> [(said.job_id, said.known) for said in desk.outbox]
    [('1', False)]
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._unseen = Unseen(desk)

    def publish(self, job: Job) -> None:
        """Say when the job will end."""
        started = job.running
        if started is None:
            return
        found = self._desk.identify(started.evidence, started.system, job.identities, None)
        key = found.key.id if found.key else None
        source = self._source(key, found.n) or self._from_inputs(found)
        self._send(job, started, Forecast(key, found.n, None, None, None), source)

    def revise(self, job: Job) -> None:
        """Say it anew if it changed noticeably."""
        started, last = job.running, job.forecast
        if started is None or last is None:
            return
        source = self._source(last.application_id, last.n) or _as_before(last.from_inputs)
        if source is not None and noteworthy(_numbers(last), self._expected(source, started)):
            self._send(job, started, last, source)
        else:
            job.published(last, self._desk.now_ms)

    def _source(self, application_id: str | None, n: float | None) -> "_Source | None":
        """Return the run time by the published curve of the application; None where it has none that says anything."""
        model = self._desk.models.get(application_id) if application_id else None
        curve = model.published if model else None
        point = curve.at(n) if curve and n else None
        if point is None or curve is None:
            return None
        band = FromInputs(point.run_time_s, point.low_s, point.high_s)
        return _Source(band, Reliability(curve.verdict, curve.reasons), by_curve=True)

    def _from_inputs(self, found: Identified) -> "_Source | None":
        """Return the run time by other inputs of the application; None where these tell nothing."""
        if found.key is None or found.n is None or not found.input_sizes or not N_MIN <= found.n <= N_MAX:
            return None
        try:
            return _as_before(self._unseen.forecast(found.key, found.input_sizes, found.n))
        except Exception:  # noqa: BLE001  what can not be reckoned must not cost the forecast
            self._desk.tally["fault", Inputs.name] += 1
            return None

    def _expected(self, source: "_Source", started: JobStarted) -> EndForecast:
        elapsed_s = max(self._desk.now_ms - started.start_ms, 0) / 1000
        limit_s = started.evidence.time_limit_s
        return forecast(source.band.run_time_s, source.band.low_s, source.band.high_s, elapsed_s, limit_s)

    def _send(self, job: Job, started: JobStarted, of: Forecast, source: "_Source | None") -> None:
        expected = self._expected(source, started) if source else None
        from_inputs = None if source is None or source.by_curve else source.band
        said = Forecast(of.application_id, of.n, *_times(expected), from_inputs)
        context = self._desk.context
        key = ApplicationKey.parse(said.application_id) if said.application_id else None
        self._desk.outbox.append(
            JobPrediction(
                schema="scalewatch.job-prediction/1",
                id=f"{started.run_id}@{context.now_ms}:{_digest(said)}",
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
                coverage_measured=self._measured(said) if source and source.by_curve else None,
                end=_end(started, expected.run_time_s) if expected else None,
                end_low=_end(started, expected.low_s) if expected else None,
                end_high=_end(started, expected.high_s) if expected else None,
                probability_exceeds_limit=expected.exceeds if expected else None,
                reliability=source.reliability if source else NOT_KNOWN,
            )
        )
        job.published(said, context.now_ms)

    def _measured(self, said: Forecast) -> float | None:
        model = self._desk.models.get(said.application_id) if said.application_id else None
        if model is None or model.published is None or said.n is None:
            return None
        return coverages(model.scores).get(model.published.horizon(said.n))


class _Source(NamedTuple):
    """The run time of a whole run with its band, what to think of it, and whether a curve of the application says it."""

    band: FromInputs
    reliability: Reliability
    by_curve: bool


def _as_before(band: FromInputs | None) -> _Source | None:
    return _Source(band, COLD_START, by_curve=False) if band is not None else None


def _times(expected: EndForecast | None) -> tuple[float | None, float | None, float | None]:
    return (expected.run_time_s, expected.low_s, expected.high_s) if expected else (None, None, None)


def _end(started: JobStarted, run_time_s: float) -> str | None:
    """Return when the job ends; None where no calendar goes so far."""
    end_ms = started.start_ms + run_time_s * 1000
    return rfc3339(round(end_ms)) if end_ms <= LATEST_MS else None


def _digest(said: Forecast) -> str:
    """Return what tells two forecasts of one moment apart: other evidence may follow a start at once."""
    return hexdigest(
        said.application_id or "", repr(said.n), repr(said.run_time_s), repr(said.low_s), repr(said.high_s)
    )


def _numbers(last: Forecast | None) -> tuple[float, float, float] | None:
    if last is None or last.run_time_s is None or last.low_s is None or last.high_s is None:
        return None
    return last.run_time_s, last.low_s, last.high_s
