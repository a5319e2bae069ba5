"""The life cycle of jobs: starts, evidence and ends, forecasts of running jobs, and settled runs for the training set."""

import math
from functools import lru_cache, partial
from typing import Final

import msgspec

from processors.contracts.events import Identity, JobCompleted, JobStarted, Network, nodes_of
from processors.contracts.hosts import Profile
from processors.contracts.names import ApplicationKey, lane_of_user, rfc3339
from processors.contracts.outputs import JobPrediction, PredictedAtStart, Run, Tombstone
from processors.contracts.settings import SESSION
from processors.facts import QUANTILES, REMEMBERED, Band, Remaining, noteworthy
from processors.jobs.lifecycle import (
    EVIDENCE_KEEP_MS,
    UNDER_LOAD,
    EndedRun,
    Forecast,
    FromInputs,
    Job,
    NetworkFeatures,
    Placement,
    StartPrediction,
    features_of,
    joined,
    merged_evidence,
    predicted_at_start,
    predicted_by_curve,
    reported_end,
    source_of,
)
from processors.load.runs import better_band
from processors.models.numerics.statistics import band_digits, six_digits, to_digits
from processors.pipeline.completions import Completions
from processors.pipeline.features import Features
from processors.pipeline.job_alerts import JobAlerts
from processors.pipeline.load import UnderLoads
from processors.pipeline.power import PowerPredictions, Profiles
from processors.pipeline.predictor import UNKNOWN, Predicted, Predictor, Question
from processors.pipeline.stage import STOP, CompletionWork, JobWork, MayStop, TickWork, guard
from processors.pipeline.state import Emits, ShardState
from processors.power.by_size import energy_of_run
from processors.run_time.quality import COVERAGE
from processors.store import hexdigest

# least time between revisions of a broad (slowly changing) forecast, as a share of the elapsed time
REVISE_SHARE: Final = 0.25


class Forecasts:
    """Publishes the expected end of each running job, and revises this end while the job runs."""

    def __init__(
        self, state: ShardState, predictor: Predictor, features: Features, power: PowerPredictions, alerts: JobAlerts
    ) -> None:
        self._state = state
        self._predictor = predictor
        self.alerts = alerts
        self._under_loads = UnderLoads(state)
        self._power = power
        self._features = features

    def publish(self, job: Job) -> Emits[None]:
        """Publish the expected end of the job."""
        started = job.running
        if started is None:
            return
        match = self._state.identify(started.evidence, started.system, job.identities, None)
        key = match.key.id if match.key else None
        features = self._features.of_job(job, started, key)
        question = Question(started.system, match.key, started.evidence, match.input_sizes, features, runs=True)
        predicted, plain = self._predicted(question, match.n, started)
        inputs = None
        if predicted is not None and predicted.source == "transfer":
            inputs = FromInputs(predicted.band, predicted.extrapolation, predicted.reliability)
        first = Forecast(key, match.n, plain.band if plain else None, inputs, session=match.source == SESSION)
        before, now = job.start_load, self._under_loads.at_start(started, first)
        if now is not None or before is None or (before.application_id, before.prediction.n) != (key, match.n):
            job.start_load = now  # otherwise the stored prediction is kept; it remains valid after its windows are gone
        end, source = self._by_record(job, started, predicted, plain)
        fails = self._predictor.fails(question, match.n, predicted) if match.n is not None else None
        first = msgspec.structs.replace(first, band=end.band if end else None, source=source, fails=fails)
        job.predicted = None
        if predicted and end and source:
            at_start = predicted_at_start(end.band, predicted.reliability.verdict, source)
            job.predicted = StartPrediction(self._state.now_ms, at_start)
        if job.forecast is None or self._is_news(job.forecast, first):
            yield self._message(job, started, first, predicted, end)
        yield from self.alerts.watch(job, predicted, end)

    def revise(self, job: Job) -> Emits[None]:
        """Publish the expected end of `job` again if the end changed noticeably."""
        started, last = job.running, job.forecast
        if started is None or last is None:
            return
        if job.start_load is not None:
            job.start_load = self._under_loads.meanwhile(job.start_load, started, self._state.now_ms)
        key = ApplicationKey.parse(last.application_id) if last.application_id else None
        features = self._features.of_job(job, started, last.application_id)
        question = Question(started.system, key, started.evidence, (), features, last.from_inputs, runs=True)
        predicted, plain = self._predicted(question, last.n, started)
        end, source = self._by_record(job, started, predicted, plain)
        now = msgspec.structs.replace(last, band=end.band, source=source) if end else last
        if self._is_news(last, now):
            yield self._message(job, started, now, predicted, end)
        else:
            job.revise_ms = self._revise_ms(started, predicted)
        yield from self.alerts.watch(job, predicted, end)

    def _predicted(
        self, question: Question, n: float | None, started: JobStarted
    ) -> tuple[Predicted | None, Remaining | None]:
        """Return the prediction of the whole run, and the run time given how long the job already runs."""
        predicted = self._predictor.predict(question, [n]).get(n) if n is not None else None
        if predicted is None:
            return None, None
        return predicted, predicted.remaining(self._elapsed_s(started), started.evidence.time_limit_s)

    def _by_record(
        self, job: Job, started: JobStarted, predicted: Predicted | None, plain: Remaining | None
    ) -> tuple[Remaining | None, str | None]:
        """Return the run time of a running job and its source.

        It is the prediction under load if such predictions have been more accurate so far, else `plain`.
        """
        if predicted is None:
            return plain, None
        band = better_band(job.start_load)
        if band is None:
            return plain, source_of(predicted.model)
        loaded = predicted._replace(band=band, similar=None)
        return loaded.remaining(self._elapsed_s(started), started.evidence.time_limit_s), UNDER_LOAD

    @staticmethod
    def _is_news(last: Forecast, now: Forecast) -> bool:
        """Return whether `now` differs enough from `last` to be published; otherwise any new evidence would repeat a message."""
        if now.band is None or last.band is None:
            band_differs = now.band is not last.band
        else:
            band_differs = noteworthy(last.band, now.band)
        before, after = ((one.application_id, one.n, one.source, one.session) for one in (last, now))
        return band_differs or before != after

    def _elapsed_s(self, started: JobStarted) -> float:
        return max(self._state.now_ms - started.start_ms, 0) / 1000

    def _revise_ms(self, started: JobStarted, predicted: Predicted | None) -> int:
        wait_s, elapsed_s, alerts = 0.0, self._elapsed_s(started), self._state.settings.alerts
        if predicted is not None and predicted.similar is not None:  # near the end, alerts need the present state
            near_s = (started.evidence.time_limit_s or math.inf) - alerts.job_near_limit.lead_s
            left_s = max(min(predicted.band.high_s, near_s) - elapsed_s, 0.0)
            wait_s = min(REVISE_SHARE * elapsed_s, left_s)
        return self._state.now_ms + round(max(self._state.settings.jobs.revise_s, wait_s) * 1000)

    def _message(
        self, job: Job, started: JobStarted, of: Forecast, predicted: Predicted | None, end: Remaining | None
    ) -> JobPrediction:
        """Return the message of a forecast, and record the forecast as published in the job."""
        context = self._state.context
        quantiles = reported_end(started, end, context.now_ms) if end else ()
        low, _, middle, _, high = quantiles or (None,) * len(QUANTILES)
        measured = predicted.measured if predicted and of.source != UNDER_LOAD else None
        exceeds = end.exceeds_limit if end else None
        power = self._power.at(of.application_id, [of.n])[0] if of.n is not None else None
        power_texts = (repr(power.value), repr(power.low), repr(power.high)) if power else ()
        power_digits = band_digits(power.value, power.low, power.high) if power else 0
        key = ApplicationKey.parse(of.application_id) if of.application_id else None
        job.forecast, job.revise_ms = of, self._revise_ms(started, predicted)
        return JobPrediction(
            schema="scalewatch.job-prediction/1",
            id=f"{started.run_id}@{context.now_ms}:{_digest(of.application_id, of.n, of.band, of.source, power_texts)}",
            time=context.time,
            as_of=context.time,
            agent_version=context.agent_version,
            system=started.system,
            job_id=started.job_id,
            application=key.application if key else None,
            input=key.input if key else None,
            unit=key.unit if key else None,
            n=of.n,
            start=rfc3339(started.start_ms),
            time_limit_s=started.evidence.time_limit_s,
            known=predicted is not None,
            run_time_s=middle.run_time_s if middle else None,
            low_s=low.run_time_s if low else None,
            high_s=high.run_time_s if high else None,
            coverage=COVERAGE if end else None,
            coverage_measured=measured.coverage if measured else None,
            coverage_runs=measured.runs if measured else None,
            end=middle.end if middle else None,
            end_low=low.end if low else None,
            end_high=high.end if high else None,
            quantiles=quantiles,
            probability_exceeds_limit=exceeds,
            probability_ends_before_limit=None if exceeds is None else six_digits(1.0 - exceeds),
            reliability=predicted.reliability if predicted else UNKNOWN,
            model=predicted.model if predicted else None,
            under_load=job.start_load.prediction if job.start_load else None,
            power_w=to_digits(power.value, power_digits) if power else None,
            power_low_w=to_digits(power.low, power_digits) if power else None,
            power_high_w=to_digits(power.high, power_digits) if power else None,
            user=started.evidence.user,
            source=of.source,
            probability_fails=of.fails,
            nodes=nodes_of(started.evidence),
            partition=started.evidence.partition,
            account=started.evidence.account,
            session=of.session,
        )


# cached, because jobs of one application and size that have just started get the same prediction
@lru_cache(maxsize=REMEMBERED)
def _digest(
    application_id: str | None, n: float | None, band: Band | None, source: str | None, power_texts: tuple[str, ...]
) -> str:
    """Return a digest of a forecast for its message id, because a job may get two forecasts at the same time.

    `power_texts` are the numbers of the predicted power.
    """
    return hexdigest(application_id or "", repr(n), repr(band), source or "", *power_texts)


DUE_PER_TICK_MAX = 20_000
LOOKED_AT_ONCE = 32  # jobs settled or revised before giving way to requests
STARTED = "job.started"  # source of the evidence in a run's start event


class Jobs:
    """The jobs of one shard. If there are more than `open_jobs_max` jobs, the least recently updated jobs are forgotten."""

    def __init__(
        self, state: ShardState, completions: Completions, forecasts: Forecasts, features: Features, profiles: Profiles
    ) -> None:
        self._state = state
        self._completions = completions
        self._forecasts = forecasts
        self._under_loads = UnderLoads(state)
        self._profiles = profiles
        self._features = features

    def remember(self, work: JobWork) -> MayStop:
        """Record the start of a job, or further evidence.

        End the processing of a repeated event, and of a start event that arrives after the end of its run.
        """
        is_start = isinstance(work.event, JobStarted)
        if not work.job.score(work.event) or (is_start and self._completions.has_ended(work.event)):
            self._state.tally["event", "repeated"] += 1
            return STOP
        work.job.learn(work.event)
        if not is_start:
            work.job.keep_until(self._state.now_ms + EVIDENCE_KEEP_MS)
        return None

    def place_again(self, work: JobWork) -> Emits[None]:
        """Repeat the identification of the unsettled runs of a job, from all evidence received so far."""
        for run in work.job.ended:
            placement, published, shown = self._completions.place(work.job, run.event), run.published, run.predicted
            if placement.differs_from(run.placement):
                yield from self._completions.move(work, run.event, run.placement, placement)
                published, shown = self._features.published(placement), self._predicted_by_curve(run.event, placement)
            work.job.replace(
                run, msgspec.structs.replace(run, placement=placement, published=published, predicted=shown)
            )

    def remember_network(self, work: JobWork) -> MayStop:
        """Keep the network features of a job until its run settles; refuse and count implausible values."""
        event: Network = work.event
        try:
            mapped = self._state.settings.placements.mapped(event)
            report = NetworkFeatures(event.time_ms, features_of(event, mapped, self._state.settings.profiles.names_max))
        except ValueError:
            self._state.tally["refused", "implausible"] += 1
            return STOP
        work.job.networks = joined(work.job.networks, report)
        work.job.keep_until(self._state.now_ms + EVIDENCE_KEEP_MS)
        return None

    def forecast_end(self, work: JobWork) -> Emits[None]:
        """Publish the expected end of a running job; delay it to a tick if the user starts very many jobs."""
        job, event = work.job, work.event
        if job.running is None or (isinstance(event, JobStarted) and job.running != event):
            return
        wait_ms = self._wait_ms(job.running) if isinstance(event, JobStarted) else 0
        if wait_ms:
            job.revise_ms = self._state.now_ms + wait_ms
            self._state.tally["bound", "forecasts_per_user_max"] += 1
        elif job.forecast is not None or isinstance(event, JobStarted):
            yield from self._forecasts.publish(job)

    def revise_end(self, work: JobWork) -> Emits[None]:
        """Publish the expected end of a running job again if the end changed noticeably."""
        if work.job.running is not None and work.job.forecast is not None:
            yield from self._forecasts.revise(work.job)

    def end(self, work: CompletionWork) -> Emits[None]:
        """Record the end of a run, or a correction of its report."""
        job, event, placement = work.job, work.event, work.report.placement
        published = self._features.published(placement) if work.report.kind == "first" else None
        forecast, start_load, started = job.forecast, job.start_load, job.running
        predicted = job.prediction_for(event) or self._predicted_by_curve(event, placement)
        settle_ms = event.end_ms + round(self._state.settings.jobs.settle_max_s * 1000)
        job.end(event, placement, settle_ms, published=published, predicted=predicted, slowed_by=work.slowed_by)
        if forecast is not None and job.running is None:
            yield from self._forecasts.alerts.end(work.key, job)
        if start_load is not None and started is not None and job.running is None and not job.resized:
            self._under_loads.ended(start_load, started, event, placement)
        for run in job.settle_excess():
            yield (yield from self._settled(job, run))

    def keep(self, work: JobWork) -> None:
        """Store the job, or forget it if none of its data is needed any more."""
        event = work.event
        has_user = isinstance(event, JobStarted | JobCompleted)
        self._keep(work.key, work.job, lane_of_user(event.system, event.evidence.user) if has_user else None)

    def settle_due(self, _work: TickWork) -> Emits[None]:
        """Settle runs, revise forecasts and forget jobs that are due; keep at most `open_jobs_max` jobs."""
        for place, key in enumerate(self._state.jobs.due(self._state.now_ms, DUE_PER_TICK_MAX), 1):
            faulty = list[str]()
            # an exception in one job must not stop the others
            with guard(self._state, Job.name, recover=partial(faulty.append, key)):
                yield from self._look_at(key)
            if faulty:
                self._state.jobs.remove(key)
                yield Tombstone("job_predictions", key)
            if place % LOOKED_AT_ONCE == 0:
                self._state.give_way()
        self._state.forecast_allowances.forget_due(self._state.now_ms, DUE_PER_TICK_MAX)
        yield from self._bound()

    def _wait_ms(self, started: JobStarted) -> int:
        """Return the time in ms that the forecast of a starting job must wait, and use up one forecast of the user's allowance."""
        lane, now_ms = lane_of_user(started.system, started.evidence.user), self._state.now_ms
        wait_ms = self._state.forecast_allowances.open(lane).score(now_ms)
        self._state.forecast_allowances.learn(lane, now_ms, now_ms)
        return wait_ms

    def _look_at(self, key: str) -> Emits[None]:
        job = self._state.jobs.open(key)
        for run in job.settle(self._state.now_ms):
            yield (yield from self._settled(job, run))
        if job.expired(self._state.now_ms):
            job.forget_run()
            yield from self._forecasts.alerts.end(key, job, by="forgotten")
            self._state.tally["bound", "open_job_max_s"] += 1
        elif job.running is not None and job.forecast is None:
            yield from self._forecasts.publish(job)  # the first forecast was delayed
        elif job.running is not None:
            yield from self._forecasts.revise(job)
        self._keep(key, job)

    def _keep(self, key: str, job: Job, lane: str | None = None) -> None:
        if job.over(self._state.now_ms):
            self._state.jobs.remove(key)
            if job.networks:
                self._state.tally["refused", "network_of_no_run"] += len(job.networks)
        else:
            self._state.jobs.changed(key, job, self._state.now_ms, lane)

    def _bound(self) -> Emits[None]:
        for key in self._state.jobs.excess(self._state.jobs.bound):
            job = self._state.jobs.open(key)
            for run in job.ended:
                yield (yield from self._settled(job, run))
            if job.forecast is not None:
                yield from self._forecasts.alerts.end(key, job, by="forgotten")
            self._state.jobs.remove(key)
            self._state.tally["bound", "open_jobs_max"] += 1

    def _predicted_by_curve(self, event: JobCompleted, placement: Placement) -> PredictedAtStart | None:
        model = self._state.models.get(placement.application_id) if placement.application_id else None
        return predicted_by_curve(model.published if model else None, placement.n, event.end_ms)

    def _count_energy(self, run: EndedRun, profile: Profile | None) -> None:
        """Count the node-seconds of a run with measured, estimated and unknown energy, and the energy in J."""
        event, evidence = run.event, merged_evidence(run.event.evidence, run.start)
        if event.run_time_s <= 0:
            return
        nodes = profile.hosts if profile is not None and profile.hosts else nodes_of(evidence) or 1
        energy = energy_of_run(profile, event.energy_j, exclusive=evidence.exclusive)
        known_share = energy.measured + energy.estimated
        for name, part in (("measured", energy.measured), ("estimated", energy.estimated), ("unknown", energy.unknown)):
            self._state.tally["node_s", name] += round(nodes * event.run_time_s * part)
            if energy.energy_j is not None and known_share > 0 and name != "unknown":
                self._state.tally["energy_j", name] += round(energy.energy_j * part / known_share)

    def _settled(self, job: Job, run: EndedRun) -> Emits[Run]:
        event = msgspec.json.encode(run.event)
        evidence = [*job.identities, *reported_at_start(run)]
        identities = [msgspec.json.encode(identity) for identity in evidence]
        placement = run.placement
        settled = yield from self._profiles.settled(job, run)
        self._count_energy(run, settled.profile)
        predictions = [msgspec.json.encode(each) for each in (run.predicted, run.slowed_by) if each is not None]
        texts = [value.decode() for value in (event, *identities, *predictions)]
        return Run(
            schema="scalewatch.run/1",
            id=f"{run.event.run_id}:{hexdigest(placement.application_id or '', *texts)}",
            time=rfc3339(run.settle_ms),
            as_of=rfc3339(run.settle_ms),
            agent_version=self._state.settings.agent_version,
            run_id=run.event.run_id,
            application_id=placement.application_id,
            identified_by=placement.source,
            confidence=placement.confidence,
            n=placement.n,
            run_time_s=run.event.run_time_s,
            state=run.event.state,
            event=msgspec.Raw(event),
            identities=tuple(msgspec.Raw(value) for value in identities),
            profile=self._features.settled(job, run, settled.profile, settled.run_time),
            predicted=run.predicted,
            slowed_by=run.slowed_by,
            by_counters=settled.by_counters,
        )


def reported_at_start(run: EndedRun) -> list[Identity]:
    """Return the evidence that only the start event of a run contained."""
    event, start = run.event, run.start
    return [Identity(event.system, job_id=event.job_id, source=STARTED, evidence=start)] if start else []
