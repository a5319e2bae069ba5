"""Completed runs: recognised, placed with an application, scored against what was published, and learned."""

from collections.abc import Mapping

from agent.contracts.events import SUCCESS, Attribute, JobCompleted, JobStarted
from agent.contracts.names import ApplicationKey
from processors.curve import PublishedPoint
from processors.digest import digest64
from processors.facts import RunFact, trains
from processors.fold.desk import Desk
from processors.fold.features import Features
from processors.fold.histories import Histories
from processors.fold.outcomes import Outcomes
from processors.fold.training import Training
from processors.fold.warnings import Warnings
from processors.jobs import Job, Placement, merged_evidence, told_attributes
from processors.seen import SeenRun, bucket, content_digest

NOTHING = 0  # digest of no application
AS_BEFORE = "as before"


class Runs:
    """Learns from the runs of one shard, each exactly once.

    >>> from agent.app.compose import make_shard
    >>> from agent.config.tree import Config
    >>> from agent.contracts.events import Evidence
    >>> desk = make_shard(Config()).desk
    >>> evidence = Evidence(application="lammps", sizes={"nodes": 4})
    >>> run = JobCompleted("exa", "1", "exa/1@0", 0, 60_000, 60.0, "COMPLETED", evidence)
    >>> runs = Runs(desk, Warnings(desk), Histories(desk))
    >>> runs.completed(desk.jobs.open("exa/1"), run).application_id, desk.models.get("exa/lammps//nodes").observations
    ('exa/lammps//nodes', 1)
    >>> runs.completed(desk.jobs.open("exa/1"), run) is None  # a repeat
    True
    """

    def __init__(self, desk: Desk, warnings: Warnings, histories: Histories) -> None:
        self._desk = desk
        self._histories = histories
        self._training = Training(desk, warnings)
        self._outcomes = Outcomes(desk, warnings)
        self._features = Features(desk)

    def place(self, job: Job, event: JobCompleted) -> Placement:
        """Return what a run is taken for, from all evidence of its job."""
        found = self._desk.identify(merged_evidence(job, event), event.system, job.identities, None)
        return Placement(
            found.key.id if found.key else None, found.n, found.source, found.confidence, found.input_sizes
        )

    def known(self, event: JobStarted) -> bool:
        """Tell whether the run that is said to start has ended already, or may have."""
        return self.reported(event) or self._before_memory(bucket(event.run_id, event.start_ms))

    def reported(self, event: JobStarted | JobCompleted) -> bool:
        """Tell whether the end of a run is known already."""
        return self._desk.seen.open(bucket(event.run_id, event.start_ms)).score((event.run_id, 0)) is not None

    def completed(self, job: Job, event: JobCompleted) -> Placement | None:
        """Learn a run, or the corrected report of one; None where it is a repeat or can not be told from one."""
        key = bucket(event.run_id, event.start_ms)
        if self._before_memory(key):
            self._desk.tally["refused", "too_old"] += 1
            return None
        seen = self._desk.seen.open(key)
        known = seen.score((event.run_id, 0))
        if known is None and seen.full():
            self._desk.tally["bound", "seen_buckets_max"] += 1
            self._desk.tally["refused", "too_many"] += 1
            return None
        before = self._before(job, event, known)
        placement = self._corrected(job, event, before)
        fact = self._fact(job, event, placement)
        content = _content(event, placement, fact)
        if known is not None and known.tells(content) and _same_place(known, placement, before):
            self._desk.tally["event", "repeated"] += 1
            return None
        if fact is None and event.state == SUCCESS and event.run_time_s > 0 and placement.n is not None:
            self._desk.tally["refused", "not_one_size" if job.resized else "implausible"] += 1
        self._remember_times(job, event, placement, before, first=known is None)
        told = told_attributes(job, event)
        self._learn(event, placement, fact, self._trained(known), told, first=known is None)
        former = before.application_id if before else None
        self._outcomes.take(event, placement.application_id, former, first=known is None)
        self._remember(key, event.run_id, placement, content)
        return placement

    def moved(self, job: Job, event: JobCompleted, old: Placement, new: Placement) -> None:
        """Take a run for another application or size than before: later evidence says so."""
        key = bucket(event.run_id, event.start_ms)
        fact = self._fact(job, event, new)
        self._remember_times(job, event, new, old, first=False)
        former = self._trained(self._desk.seen.open(key).score((event.run_id, 0)))
        self._learn(event, new, fact, former, {}, first=False)
        self._outcomes.take(event, new.application_id, old.application_id, first=False)
        self._remember(key, event.run_id, new, _content(event, new, fact))

    def _trained(self, known: SeenRun | None) -> str | None:
        """Return the application whose model has learned a run."""
        return self._desk.application_id(known.application) if known is not None and known.trained else None

    def _before(self, job: Job, event: JobCompleted, known: SeenRun | None) -> Placement | None:
        """Return what a run was taken for when it was reported before; None for the first report, or if it is forgotten."""
        if known is None:
            return None
        pending = next((run.placement for run in job.ended if run.event.run_id == event.run_id), None)
        former = self._desk.application_id(known.application)
        return pending or (Placement(former, None, AS_BEFORE, 1.0) if former else None)

    def _corrected(self, job: Job, event: JobCompleted, before: Placement | None) -> Placement:
        # the second report of a run may come from a poorer source, or after the other evidence of the job was forgotten
        found = self.place(job, event)
        if before is None or before.application_id is None:
            return found
        application_id, n, source = found.application_id, found.n, found.source
        if application_id != before.application_id and found.confidence < before.confidence:
            unit = ApplicationKey.parse(before.application_id).unit
            application_id, n, source = before.application_id, event.evidence.sizes.get(unit), AS_BEFORE
        if n is None and application_id == before.application_id:
            model = self._desk.models.get(application_id)
            n = before.n or (model.n_of(event.run_id) if model else None)
        sizes = found.input_sizes if application_id == found.application_id else ()
        return Placement(application_id, n, source, found.confidence, sizes)

    def _remember_times(
        self, job: Job, event: JobCompleted, placement: Placement, before: Placement | None, *, first: bool
    ) -> None:
        """Let a run count for its user, name and class; a part of a job that changed its size does not."""
        evidence = merged_evidence(job, event)
        if not first:
            was = self._histories.was(job, event, before, evidence)
            self._histories.corrected(event, was, placement, evidence)
        elif not job.resized:
            self._histories.ended(event, placement, evidence, self._said_by_size(event, placement))

    def _said_by_size(self, event: JobCompleted, placement: Placement) -> PublishedPoint | None:
        """Return what the curve of its application had said of a run; None for one that is no test of a curve."""
        if event.state != SUCCESS or placement.application_id is None or placement.n is None:
            return None
        model = self._desk.models.get(placement.application_id)
        return model.published.curve_at(placement.n) if model is not None and model.published is not None else None

    def _learn(
        self,
        event: JobCompleted,
        placement: Placement,
        fact: RunFact | None,
        former: str | None,
        told: Mapping[str, Attribute],
        *,
        first: bool,
    ) -> None:
        """Learn a run; `former` is the application that it trained before, `told` what else is known of it."""
        stays = fact is not None and placement.application_id == former
        if former is not None and not stays:
            self._features.forget(former, event.run_id)
        if former is not None and not stays and not self._training.forget(former, event.run_id):
            self._desk.tally["refused", "correction_too_late"] += 1
        elif fact is not None and placement.application_id is not None:
            sizes = placement.input_sizes
            self._training.train(placement.application_id, fact, sizes, told, first=first, replaces=stays)

    def _fact(self, job: Job, event: JobCompleted, placement: Placement) -> RunFact | None:
        if placement.application_id is None or not trains(placement.n, event, resized=job.resized):
            return None
        return RunFact(
            event.run_id, float(placement.n), event.run_time_s, event.start_ms, event.end_ms, self._desk.now_ms
        )

    def _remember(self, key: str, run_id: str, placement: Placement, content: int) -> None:
        seen = self._desk.seen.open(key)
        application_id = placement.application_id
        seen.learn((run_id, SeenRun(digest64(application_id) if application_id else NOTHING, content)))
        self._desk.seen.changed(key, seen, self._desk.now_ms)
        if len(self._desk.seen) > self._desk.settings.jobs.seen_buckets_max:
            self._forget_oldest_bucket()

    def _before_memory(self, key: str) -> bool:
        mark = self._desk.low_water.get("mark")
        return mark is not None and mark.score(key)

    def _forget_oldest_bucket(self) -> None:
        keys = sorted(self._desk.seen.keys())
        self._desk.seen.remove(keys[0])
        mark = self._desk.low_water.open("mark")
        mark.learn(keys[1])
        self._desk.low_water.changed("mark", mark, self._desk.now_ms)
        self._desk.tally["bound", "seen_buckets_max"] += 1


def _content(event: JobCompleted, placement: Placement, fact: RunFact | None) -> int:
    return content_digest(placement.n, event.run_time_s, event.state, event.end_ms, trained=fact is not None)


def _same_place(known: SeenRun, placement: Placement, before: Placement | None) -> bool:
    """Tell whether a run is taken for what it was, or for what nobody knows any more."""
    application_id = placement.application_id
    same = known.application == (digest64(application_id) if application_id else NOTHING)
    return same or (before is None and known.application != NOTHING)
