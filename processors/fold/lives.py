"""Lives of jobs: starts, other evidence, ends; forecasts of running jobs; settled runs for the training set."""

import msgspec

from agent.contracts.events import Identity, JobCompleted, JobStarted, Network
from agent.contracts.moments import rfc3339
from agent.contracts.names import job_key
from agent.contracts.outputs import Run
from agent.contracts.recent import Told
from processors.digest import hexdigest
from processors.fold.desk import Desk, Tombstone
from processors.fold.features import Features
from processors.fold.forecasts import Forecasts
from processors.fold.histories import Histories
from processors.fold.profiles import Profiles
from processors.fold.runs import Runs
from processors.fold.under_load import UnderLoads
from processors.forecast import told_by_curve
from processors.job_networks import NetworkTold, features_of, joined
from processors.jobs import EndedRun, Job, Placement

DUE_PER_TICK_MAX = 20_000
STARTED = "job.started"  # source of the evidence that a run's start gave


class Lives:
    """All jobs of one shard; at most `open_jobs_max` are known at once, the longest untouched are forgotten first.

    >>> from agent.app.compose import make_shard
    >>> from agent.config.tree import Config
    >>> from agent.contracts.events import Evidence
    >>> from processors.fold.warnings import Warnings
    >>> desk = make_shard(Config()).desk
    >>> histories = Histories(desk)
    >>> lives = Lives(desk, Runs(desk, Warnings(desk), histories), histories)
    >>> lives.started(JobStarted("exa", job_id="1", run_id="exa/1@0", start_ms=0, evidence=Evidence(job_name="lammps")))
    >>> list(desk.jobs.keys())
    ['exa/1']
    """

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

    def _told_by_curve(self, event: JobCompleted, placement: Placement) -> Told | None:
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
    """Return what only the start of a run told, as evidence of its job.

    >>> from agent.contracts.events import Evidence
    >>> from processors.jobs import Placement
    >>> event = JobCompleted("a", "1", "a/1@0", 0, 5, 5.0, "FAILED", Evidence())
    >>> told_at_start(EndedRun(event, Placement(None, None, "none", 0.0), 9, Evidence(module="x")))[0].source
    'job.started'
    """
    event, start = run.event, run.start
    return [Identity(event.system, job_id=event.job_id, source=STARTED, evidence=start)] if start else []
