"""Lives of jobs: starts, other evidence, ends; forecasts of running jobs; settled runs for the training set."""

from typing import NamedTuple

import msgspec

from processors.contracts.events import Identity, JobCompleted, JobStarted, Network
from processors.contracts.names import LATEST_MS, ApplicationKey, job_key, rfc3339
from processors.contracts.outputs import JobPrediction, Model, PredictedAtStart, Reliability, Run
from processors.facts import N_MAX, N_MIN, EndForecast, PublishedCurve, forecast, noteworthy
from processors.features import DECIDES
from processors.inputs import NAME, UNSEEN, Inputs
from processors.jobs.lifecycle import EndedRun, Job, NetworkTold, Placement, features_of, joined
from processors.jobs.remaining_time import Forecast, FromInputs, ToldAtStart, told_by, told_by_curve
from processors.models.statistics import six_digits
from processors.pipeline.completions import Runs
from processors.pipeline.features import NOTHING, Features, Told
from processors.pipeline.inputs import Unseen
from processors.pipeline.load import UnderLoads
from processors.pipeline.power import Power, Profiles
from processors.pipeline.similar_runs import Histories, coming, home
from processors.pipeline.state import Desk, Identified, Tombstone
from processors.power.by_size import PowerBand
from processors.run_time.model import RunTime
from processors.run_time.quality import COVERAGE, coverages
from processors.similar_runs import NO_CURVE, NOT_BY_SIZE, end_forecast, reliability
from processors.store import hexdigest

# Who tells when a running job ends: its application's curve, other inputs of it, or similar runs.


NOT_KNOWN = Reliability("unknown", ("no_model",), ())
COLD_START = Reliability(
    "uncertain", (UNSEEN,), ("No curve of this input is known: this comes from other inputs of the application.",)
)
OF_CURVE = Model("curve", ())
OF_INPUTS = Model(NAME, ())
BAND_MAX = 1e4  # a curve whose band is wider says nothing
REVISE_SHARE = 0.25  # of the time it has run: a broad distribution changes with every minute, but not by much


class EndOutlook(NamedTuple):
    """When a job ends, and where that came from; `end` is None where nothing is known.

    `measured` is the share of late of runs that kept to such bands, `revise_s` how long it may stay as it is at least.
    """

    end: EndForecast | None
    model: Model | None
    reliability: Reliability
    measured: float | None = None
    revise_s: float = 0.0
    from_inputs: FromInputs | None = None


UNKNOWN = EndOutlook(None, None, NOT_KNOWN)


class EndOutlooks:
    """Asks those who may know of one shard's jobs, the one that knows most first.

    The published curve of its application answers. Similar runs do where there is none, where it knows one size alone,
    and where they have told more of its runs than it did; an input that was never run is told by other inputs first.
    """

    def __init__(self, desk: Desk, histories: Histories) -> None:
        self._desk = desk
        self._histories = histories
        self._unseen = Unseen(desk)
        self._features = Features(desk)

    def first(self, started: JobStarted, found: Identified, told: Told = NOTHING) -> EndOutlook:
        """Return when a job ends that has just been taken for something; `told` is known of it besides its size."""
        key = found.key.id if found.key else None
        by_curve = self._by_features(key, found.n, started, told) or self._by_curve(key, found.n, started)
        return by_curve or self._by_inputs(self._from_inputs(found), started) or self._else(key, found.n, started)

    def again(self, started: JobStarted, last: Forecast, told: Told = NOTHING) -> EndOutlook:
        """Return when a job ends of which something was told before."""
        key = last.application_id
        by_curve = self._by_features(key, last.n, started, told) or self._by_curve(key, last.n, started)
        return by_curve or self._by_inputs(last.from_inputs, started) or self._else(key, last.n, started)

    def _by_features(
        self, application_id: str | None, n: float | None, started: JobStarted, told: Told
    ) -> EndOutlook | None:
        """Return what features and the curve say; None where they say nothing, or less than similar runs."""
        if application_id is None or n is None or told == NOTHING:
            return None
        found = self._features.forecast(application_id, n, told)
        if found is None:
            return None
        said, curve = found.said, self._desk.models.open(application_id).published
        if sum(said.shares.values()) < DECIDES and curve and self._prefers_similar(application_id, curve, n):
            return None
        elapsed_s, limit_s = self._elapsed_s(started), _limit_s(started)
        end = forecast(said.run_time_s, said.low_s, said.high_s, elapsed_s, limit_s)
        return EndOutlook(end, found.model, found.reliability, said.coverage)

    def _by_curve(self, application_id: str | None, n: float | None, started: JobStarted) -> EndOutlook | None:
        model = self._desk.models.get(application_id) if application_id else None
        curve = model.published if model else None
        if model is None or curve is None or application_id is None or n is None:
            return None
        if self._prefers_similar(application_id, curve, n):
            why = NO_CURVE if curve.of_one_size else NOT_BY_SIZE
            similar = self._by_similar(application_id, n, started, why)
            if similar is not None:
                return similar
        return self._of_curve(model, curve, n, started)

    def _prefers_similar(self, application_id: str, curve: PublishedCurve, n: float) -> bool:
        point = curve.at(n)
        useless = point is not None and point.high_s > BAND_MAX * point.low_s
        return useless or self._histories.prefers_similar(application_id, n, of_one_size=curve.of_one_size)

    def _of_curve(self, model: RunTime, curve: PublishedCurve, n: float, started: JobStarted) -> EndOutlook | None:
        point = curve.at(n)
        if point is None:
            return None
        end = forecast(point.run_time_s, point.low_s, point.high_s, self._elapsed_s(started), _limit_s(started))
        measured = coverages(model.scores).get(curve.horizon(n))
        return EndOutlook(end, OF_CURVE, Reliability(curve.verdict, curve.reasons), measured)

    def _from_inputs(self, found: Identified) -> FromInputs | None:
        """Return the run time by other inputs of the application; None where these tell nothing."""
        if found.key is None or found.n is None or not found.input_sizes or not N_MIN <= found.n <= N_MAX:
            return None
        try:
            return self._unseen.forecast(found.key, found.input_sizes, found.n)
        except Exception:  # noqa: BLE001  what can not be reckoned must not cost the forecast
            self._desk.tally["fault", Inputs.name] += 1
            return None

    def _by_inputs(self, band: FromInputs | None, started: JobStarted) -> EndOutlook | None:
        if band is None:
            return None
        end = forecast(band.run_time_s, band.low_s, band.high_s, self._elapsed_s(started), _limit_s(started))
        return EndOutlook(end, OF_INPUTS, COLD_START, from_inputs=band)

    def _else(self, application_id: str | None, n: float | None, started: JobStarted) -> EndOutlook:
        """Return what similar runs tell of a job without a curve; a size beyond a curve is not known."""
        model = self._desk.models.get(application_id) if application_id else None
        if model is not None and model.published is not None:
            return UNKNOWN
        return self._by_similar(application_id, n, started, NO_CURVE) or UNKNOWN

    def _by_similar(
        self, application_id: str | None, n: float | None, started: JobStarted, why: str
    ) -> EndOutlook | None:
        job = coming(application_id, n, started.evidence)
        told = self._histories.told(home(started.system, application_id), job)
        if told is None or job is None:
            return None
        elapsed_s = self._elapsed_s(started)
        end = end_forecast(told.expected, elapsed_s, job.time_limit_s)
        judged = reliability(told.expected.alike, why)
        return EndOutlook(end, told.model, judged, told.coverage, REVISE_SHARE * elapsed_s)

    def _elapsed_s(self, started: JobStarted) -> float:
        return max(self._desk.now_ms - started.start_ms, 0) / 1000


def _limit_s(started: JobStarted) -> float | None:
    return started.evidence.time_limit_s


# Forecasts of running jobs, from what was published of their application.


class Forecasts:
    """Publishes when running jobs will end, and revises it while they run."""

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


DUE_PER_TICK_MAX = 20_000
STARTED = "job.started"  # source of the evidence that a run's start gave


class Lives:
    """All jobs of one shard; at most `open_jobs_max` are known at once, the longest untouched are forgotten first."""

    def __init__(self, desk: Desk, runs: Runs, histories: Histories) -> None:
        self._desk = desk
        self._runs = runs
        self._forecasts = Forecasts(desk, histories)
        self._under_loads = UnderLoads(desk)
        self._profiles = Profiles(desk)
        self._features = Features(desk)

    def started(self, event: JobStarted) -> None:
        """Forecast the end of a job that began to run."""
        key = job_key(event.system, event.job_id)
        job = self._desk.jobs.open(key)
        if not job.score(event) or self._runs.known(event):
            self._desk.tally["event", "repeated"] += 1
            return
        job.learn(event)
        if job.running == event:
            self._forecasts.publish(job)
        self._keep(key, job)

    def identified(self, event: Identity) -> None:
        """Take in other evidence: runs that have not settled are looked at anew."""
        key = job_key(event.system, event.job_id)
        job = self._desk.jobs.open(key)
        if not job.score(event):
            self._desk.tally["event", "repeated"] += 1
            return
        job.learn(event)
        job.keep_until(self._desk.now_ms + round(self._desk.settings.jobs.evidence_keep_s * 1000))
        for run in job.ended:
            placement, published, told = self._runs.place(job, run.event), run.published, run.told
            if placement.tells_other_than(run.placement):
                self._runs.moved(job, run.event, run.placement, placement)
                published, told = self._features.published(placement), self._told_by_curve(run.event, placement)
            job.replace(run, msgspec.structs.replace(run, placement=placement, published=published, told=told))
        if job.running is not None:
            self._forecasts.publish(job)
        self._keep(key, job)

    def network(self, event: Network) -> None:
        """Hold what the network did for a job until its run settles; what no run settles with is counted."""
        key = job_key(event.system, event.job_id)
        job = self._desk.jobs.open(key)
        try:
            told = NetworkTold(event.time_ms, features_of(event, self._desk.settings.profiles.names_max))
        except ValueError:
            self._desk.tally["refused", "implausible"] += 1
            return
        job.network(joined(job.networks, told))
        job.keep_until(self._desk.now_ms + round(self._desk.settings.jobs.evidence_keep_s * 1000))
        if job.running is not None and job.forecast is not None:
            self._forecasts.revise(job)
        self._keep(key, job)

    def completed(self, event: JobCompleted) -> None:
        """Take in that a run ended, or that the report of it was corrected."""
        key = job_key(event.system, event.job_id)
        job = self._desk.jobs.open(key)
        first = not self._runs.reported(event)
        placement = self._runs.completed(job, event)
        if placement is None:
            return
        published = self._features.published(placement) if first else None
        forecast, start_load, started = job.forecast, job.start_load, job.running
        job.end(event, placement, published, job.told_of(event) or self._told_by_curve(event, placement))
        if forecast is not None and job.running is None:
            self._desk.outbox.append(Tombstone("job_predictions", key))
        if start_load is not None and started is not None and job.running is None and not job.resized:
            self._under_loads.ended(start_load, started, event, placement)
        self._desk.outbox.extend(self._settled(job, run) for run in job.settle_excess())
        self._keep(key, job)

    def tick(self) -> None:
        """Settle, revise and forget what is due."""
        for key in self._desk.jobs.due(self._desk.now_ms, DUE_PER_TICK_MAX):
            try:
                self._look_at(key)
            except Exception:  # noqa: BLE001  one job must not stop the others
                self._forget(key)
                self._desk.tally["fault", Job.name] += 1
        self._bound()

    def _look_at(self, key: str) -> None:
        job = self._desk.jobs.open(key)
        for run in job.settle(self._desk.now_ms):
            self._desk.outbox.append(self._settled(job, run))
        if job.expired(self._desk.now_ms):
            job.forget_run()
            self._desk.outbox.append(Tombstone("job_predictions", key))
            self._desk.tally["bound", "open_job_max_s"] += 1
        elif job.running is not None:
            self._forecasts.revise(job)
        self._keep(key, job)

    def _forget(self, key: str) -> None:
        self._desk.jobs.remove(key)
        self._desk.outbox.append(Tombstone("job_predictions", key))

    def _keep(self, key: str, job: Job) -> None:
        if job.over(self._desk.now_ms):
            self._desk.jobs.remove(key)
            if job.networks:
                self._desk.tally["refused", "network_of_no_run"] += len(job.networks)
        else:
            self._desk.jobs.changed(key, job, self._desk.now_ms)

    def _bound(self) -> None:
        excess = len(self._desk.jobs) - self._desk.settings.jobs.open_jobs_max
        if excess <= 0:
            return
        for key in self._desk.jobs.longest_unused(excess):
            job = self._desk.jobs.open(key)
            self._desk.outbox.extend(self._settled(job, run) for run in job.ended)
            if job.forecast is not None:
                self._desk.outbox.append(Tombstone("job_predictions", key))
            self._desk.jobs.remove(key)
            self._desk.tally["bound", "open_jobs_max"] += 1

    def _told_by_curve(self, event: JobCompleted, placement: Placement) -> PredictedAtStart | None:
        model = self._desk.models.get(placement.application_id) if placement.application_id else None
        return told_by_curve(model.published if model else None, placement.n, event.end_ms)

    def _settled(self, job: Job, run: EndedRun) -> Run:
        event = msgspec.json.encode(run.event)
        others = [*job.identities, *told_at_start(run)]
        identities = [msgspec.json.encode(identity) for identity in others]
        placement = run.placement
        told = () if run.told is None else (msgspec.json.encode(run.told),)
        texts = [value.decode() for value in (event, *identities, *told)]
        return Run(
            schema="scalewatch.run/1",
            id=f"{run.event.run_id}:{hexdigest(placement.application_id or '', *texts)}",
            time=rfc3339(run.settle_ms),
            as_of=rfc3339(run.settle_ms),
            agent_version=self._desk.settings.agent_version,
            run_id=run.event.run_id,
            application_id=placement.application_id,
            identified_by=placement.source,
            confidence=placement.confidence,
            n=placement.n,
            run_time_s=run.event.run_time_s,
            state=run.event.state,
            event=msgspec.Raw(event),
            identities=tuple(msgspec.Raw(value) for value in identities),
            profile=self._features.settled(job, run, self._profiles.settled(job, run)),
            told=run.told,
        )


def told_at_start(run: EndedRun) -> list[Identity]:
    """Return what only the start of a run told, as evidence of its job."""
    event, start = run.event, run.start
    return [Identity(event.system, job_id=event.job_id, source=STARTED, evidence=start)] if start else []
