"""Completed runs: recognised, placed with an application, scored against what was published, and learned."""

from agent.contracts.events import SUCCESS, JobCompleted, JobStarted
from agent.contracts.names import ApplicationKey
from processors import alert_rules
from processors.digest import digest64
from processors.facts import RunFact
from processors.fold.desk import Desk
from processors.fold.outcomes import Outcomes
from processors.fold.warnings import Warnings
from processors.jobs import Job, Placement, merged_evidence
from processors.seen import SeenRun, bucket, content_digest

NOTHING = 0  # digest of no application


class Runs:
    """Learns from the runs of one shard, each exactly once."""

    def __init__(self, desk: Desk, warnings: Warnings) -> None:
        self._desk = desk
        self._warnings = warnings
        self._outcomes = Outcomes(desk, warnings)

    def place(self, job: Job, event: JobCompleted) -> Placement:
        """Return what a run is taken for, from all evidence of its job."""
        found = self._desk.identify(merged_evidence(job, event), event.system, job.identities, None)
        return Placement(found.key.id if found.key else None, found.n, found.source, found.confidence)

    def known(self, event: JobStarted) -> bool:
        """Tell whether the run that is said to start has ended already, or may have."""
        key = bucket(event.run_id, event.start_ms)
        return self._desk.seen.open(key).score((event.run_id, 0)) is not None or self._before_memory(key)

    def completed(self, job: Job, event: JobCompleted) -> Placement | None:
        """Learn a run, or the corrected report of one; None where it is a repeat or too old to tell."""
        key = bucket(event.run_id, event.start_ms)
        if self._before_memory(key):
            self._desk.tally["refused", "too_old"] += 1
            return None
        placement = self.place(job, event)
        seen = self._desk.seen.open(key)
        content = content_digest(placement.n, event.run_time_s, event.state, event.end_ms)
        known = seen.score((event.run_id, content))
        if known is not None and known.content == content:
            self._desk.tally["event", "repeated"] += 1
            return None
        placement = self._as_before(job, event, known, placement)
        trained = known is not None and known.content & 1
        former = self._desk.application_id(known.application) if known and trained else None
        self._learn(job, event, placement, former, first=known is None)
        self._remember(key, event.run_id, placement, content)
        return placement

    def moved(self, job: Job, event: JobCompleted, old: Placement, new: Placement) -> None:
        """Take a run for another application than before: later evidence says so."""
        former = old.application_id if event.state == SUCCESS else None
        self._learn(job, event, new, former, first=False)
        content = content_digest(new.n, event.run_time_s, event.state, event.end_ms)
        self._remember(bucket(event.run_id, event.start_ms), event.run_id, new, content)

    def _as_before(self, job: Job, event: JobCompleted, known: SeenRun | None, placement: Placement) -> Placement:
        # a correction that comes after the job was forgotten lacks the other evidence: it stays where the run was
        former = self._desk.application_id(known.application) if known else None
        pending = any(run.event.run_id == event.run_id for run in job.ended)
        if former is None or pending or former == placement.application_id:
            return placement
        n = event.evidence.sizes.get(ApplicationKey.parse(former).unit)
        return Placement(former, n, "as before", placement.confidence)

    def _learn(self, job: Job, event: JobCompleted, placement: Placement, former: str | None, *, first: bool) -> None:
        """Learn a run; `former` is the application that it trained before."""
        fact = self._fact(job, event, placement)
        stays = fact is not None and placement.application_id == former
        if former is not None and not stays and not self._forget(former, event.run_id):
            self._desk.tally["refused", "correction_too_late"] += 1
        elif fact is not None and placement.application_id is not None:
            self._train(placement.application_id, fact, first=first, replaces=stays)
        if placement.application_id is not None:
            self._outcomes.take(placement.application_id, event)

    def _fact(self, job: Job, event: JobCompleted, placement: Placement) -> RunFact | None:
        trains = event.state == SUCCESS and event.run_time_s > 0 and not job.resized
        if not trains or placement.n is None or placement.n <= 0:
            return None
        return RunFact(
            event.run_id, float(placement.n), event.run_time_s, event.start_ms, event.end_ms, self._desk.now_ms
        )

    def _train(self, application_id: str, fact: RunFact, *, first: bool, replaces: bool) -> None:
        model = self._desk.models.open(application_id)
        if replaces and not model.holds(fact.run_id):
            self._desk.tally["refused", "correction_too_late"] += 1
            return
        scored = model.score(fact) if first else None
        model.learn(fact)
        if scored is not None:
            model.note(scored)
            settings = self._desk.settings.alerts.outside_band
            key = ApplicationKey.parse(application_id)
            found = alert_rules.outside_band(key, scored, settings, self._desk.now_ms)
            self._warnings.take([found] if found and self._desk.recent(fact.end_ms) else [])
        self._desk.model_changed(application_id, model)

    def _forget(self, application_id: str, run_id: str) -> bool:
        model = self._desk.models.get(application_id)
        if model is None or not model.forget(run_id, self._desk.now_ms):
            return False
        self._desk.model_changed(application_id, model)
        return True

    def _remember(self, key: str, run_id: str, placement: Placement, content: int) -> None:
        seen = self._desk.seen.open(key)
        application_id = placement.application_id
        seen.learn((run_id, SeenRun(digest64(application_id) if application_id else NOTHING, content)))
        self._desk.seen.changed(key, seen, self._desk.now_ms)
        if len(self._desk.seen) > self._desk.settings.jobs.seen_buckets_max:
            self._forget_oldest_bucket()

    def _before_memory(self, key: str) -> bool:
        return self._desk.low_water.open("mark").score(key)

    def _forget_oldest_bucket(self) -> None:
        keys = sorted(self._desk.seen.keys())
        self._desk.seen.remove(keys[0])
        mark = self._desk.low_water.open("mark")
        mark.learn(keys[1])
        self._desk.low_water.changed("mark", mark, self._desk.now_ms)
        self._desk.tally["bound", "seen_buckets_max"] += 1
