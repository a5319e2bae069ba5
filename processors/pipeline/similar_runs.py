"""Past runs of users, names, classes of jobs and centres: run times of those that completed, bounds from the others."""

import math
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from processors.contracts.events import SUCCESS, Evidence, JobCompleted
from processors.contracts.names import ApplicationKey
from processors.facts import Band, PublishedPoint, plausible
from processors.fairness import lane_of_user
from processors.jobs.lifecycle import Job, Placement, merged_evidence
from processors.pipeline.stage import TickWork
from processors.pipeline.state import ShardState
from processors.similar_runs import (
    RETAINED_MAX,
    ComingJob,
    EndedJob,
    GroupKind,
    ScorePair,
    SimilarRuns,
    SimilarRunsPrediction,
    expected_band,
    failing,
    group_keys,
    loss_s,
    predict,
)


class SimilarRunForecasts:
    """The histories of one shard. The name in them is the application's id, so that another input is another name."""

    def __init__(self, state: ShardState) -> None:
        self._state = state

    def predict(self, system: str, job: ComingJob | None) -> SimilarRunsPrediction | None:
        """Return what similar runs report a job; None where they are too few. Changes nothing."""
        return predict(job, self._groups(system, job)) if job is not None else None

    def fails(self, system: str, job: ComingJob | None) -> float | None:
        """Return the chance that a job does not complete, as `predict` has it; None where similar runs are too few."""
        return failing(job, self._groups(system, job)) if job is not None else None

    def _groups(self, system: str, job: ComingJob) -> dict[GroupKind, SimilarRuns]:
        return {kind: self._state.similar_runs.open(key) for kind, key in group_keys(system, job).items()}

    def has_similar(self, system: str, key: ApplicationKey | None, evidence: Evidence) -> bool:
        """Return whether a run to come says what is similar to it: a known user, a time limit, or a name that ran before.

        Without any of these the runs of the whole centre would answer, which says nothing of this one.
        """
        application_id = key.id if key else None
        job = coming(application_id, 1.0, evidence)
        if job is None or job.time_limit_s is not None:
            return job is not None
        keys = group_keys(home(system, application_id), job)
        return any(key in self._state.similar_runs for kind, key in keys.items() if kind in ("user", "name"))

    def ended(
        self, event: JobCompleted, placement: Placement, evidence: Evidence, point: PublishedPoint | None
    ) -> None:
        """Learn a run, after the bands that were told before it; where `point` is what its curve said, both are compared.

        Not every run is scored where many end between two ticks.
        """
        job = coming(placement.application_id, placement.n, evidence)
        if job is None or not occupied_nodes(event, job):
            return
        keys = group_keys(home(event.system, placement.application_id), job)
        groups = {kind: self._state.similar_runs.open(key) for kind, key in keys.items()}
        run = ended_job(event, job)
        if run.completed or (job.time_limit_s is not None and event.run_time_s >= job.time_limit_s):
            self._score(job, event.run_time_s, groups, point)  # of others nobody knows how long they would have taken
        changed, now_ms, of_user = (
            self._state.similar_runs.changed,
            self._state.now_ms,
            lane_of_user(event.system, job.user),
        )
        for kind, history in groups.items():
            history.learn(run, RETAINED_MAX[kind])
            changed(keys[kind], history, now_ms, _lane(kind, keys[kind], of_user))

    def corrected(self, event: JobCompleted, was: ComingJob | None, placement: Placement, evidence: Evidence) -> None:
        """Take a run for something else than before: `was` is what it had been taken for, as far as that is known.

        It moves from the groups that it left to those that it joined, and is replaced where it stays. A run that left its
        histories already is not learned a second time.
        """
        now = coming(placement.application_id, placement.n, evidence)
        before = self._keys(event.system, was)
        if now is not None and not occupied_nodes(event, now):
            now = None
        after = self._keys(event.system, now)
        left = [self._forget(key, event.run_id) for key in before.values() if key not in after.values()]
        if now is None:
            return
        run = ended_job(event, now)
        for kind, key in after.items():
            history = self._state.similar_runs.open(key)
            if not history.correct(run):
                if not any(left) or key in before.values():
                    continue
                history.learn(run, RETAINED_MAX[kind])
            lane = _lane(kind, key, lane_of_user(event.system, now.user))
            self._state.similar_runs.changed(key, history, self._state.now_ms, lane)

    def was(self, job: Job, event: JobCompleted, before: Placement | None, evidence: Evidence) -> ComingJob | None:
        """Return what a run was taken for when it was reported before."""
        pending = next((run for run in job.ended if run.event.run_id == event.run_id), None)
        if pending is not None:
            place = pending.placement
            return coming(place.application_id, place.n, merged_evidence(job, pending.event))
        if before is None or before.application_id is None:
            return None
        model = self._state.models.get(before.application_id)
        return coming(before.application_id, before.n or (model.n_of(event.run_id) if model else None), evidence)

    def better_records(self, application_id: str, sizes: Sequence[float | None]) -> list[bool | None]:
        """Return whether similar runs predicted runs of each size better than the curve; None before enough were scored.

        None for a size asks for one that was never run, of which the runs of all sizes say what there is to say.
        """
        comparison = self._state.model_comparisons.get(application_id)
        return [None] * len(sizes) if comparison is None else list(map(comparison.score, sizes))

    def not_by_size(self, application_id: str) -> bool:
        """Return whether the run times of an application do not follow its size."""
        comparison = self._state.model_comparisons.get(application_id)
        return comparison is not None and comparison.chosen

    def evict(self, _work: TickWork) -> None:
        """Forget the histories that were unused for the longest time, where there are too many."""
        excess = len(self._state.similar_runs) - self._state.settings.run_time.similar_runs_max
        for key in self._state.similar_runs.longest_unused(excess, self._state.stale_ms):
            self._state.similar_runs.remove(key)
            self._state.tally["bound", "similar_runs_max"] += 1

    def _score(
        self, job: ComingJob, run_time_s: float, groups: Mapping[GroupKind, SimilarRuns], point: PublishedPoint | None
    ) -> None:
        centre, now_ms = groups["centre"], self._state.now_ms
        comparison = self._state.model_comparisons.open(job.name) if point and job.name else None
        compares = comparison is not None and comparison.wants(now_ms)
        is_scored = centre.wants(now_ms)
        if not compares and not is_scored:
            return
        found = expected_band(job, groups)
        if compares and comparison and point and job.name:
            by_curve = loss_s(run_time_s, point.band)
            by_past = loss_s(run_time_s, Band(found.run_time_s, found.low_s, found.high_s))
            comparison.learn(ScorePair(job.n, by_curve, by_past, now_ms))
            self._state.model_comparisons.changed(job.name, comparison, now_ms)
        if is_scored:
            centre.note(run_time_s, found, now_ms)

    def _forget(self, key: str, run_id: str) -> bool:
        history = self._state.similar_runs.get(key)
        if history is None or not history.forget(run_id):
            return False
        self._state.similar_runs.changed(key, history, self._state.now_ms)
        return True

    @staticmethod
    def _keys(system: str, job: ComingJob | None) -> Mapping[GroupKind, str]:
        return group_keys(home(system, job.name), job) if job is not None else {}


def _lane(kind: GroupKind, key: str, of_user: str) -> str:
    """Return the lane of a history: those of the names that a user runs share one, any other has its own."""
    return of_user if kind == "name" else key


def coming(application_id: str | None, n: float | None, evidence: Evidence) -> ComingJob | None:
    """Return a job as histories see it; None where its size is not known, or none that a machine has."""
    if n is None or not plausible(n, 1.0):
        return None
    limit_s = evidence.time_limit_s
    if limit_s is not None and not 0 < limit_s < math.inf:
        limit_s = None
    return ComingJob(float(n), application_id, evidence.user, limit_s)


def ended_job(event: JobCompleted, job: ComingJob) -> EndedJob:
    """Return a run that is over as histories see it."""
    return EndedJob(event.run_id, job, event.run_time_s, completed=event.state == SUCCESS, start_ms=event.start_ms)


def occupied_nodes(event: JobCompleted, job: ComingJob) -> bool:
    """Return whether a run held nodes of one size for its time: no part of a job that changed its size, or never ran."""
    return event.state != "RESIZING" and plausible(job.n, event.run_time_s)


def home(system: str, application_id: str | None) -> str:
    """Return the centre that a run belongs to: that of its application, whose name is no alias."""
    return unquote(application_id.partition("/")[0]) if application_id else system
