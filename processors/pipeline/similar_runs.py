"""Forecasts from similar runs: past runs of the same user, application, class of jobs or centre."""

import math
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from processors.contracts.events import SUCCESS, Evidence, JobCompleted
from processors.contracts.names import ApplicationKey, lane_of_user
from processors.facts import Band, PublishedPoint, plausible
from processors.jobs.lifecycle import Job
from processors.pipeline.stage import RunReport, TickWork
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
    """The run histories of one shard. In a history, the job name is the application id, so each input has its own name."""

    def __init__(self, state: ShardState) -> None:
        self._state = state

    def predict(self, system: str, job: ComingJob | None) -> SimilarRunsPrediction | None:
        """Return the forecast for a job; None if there are too few similar runs. Changes nothing."""
        return predict(job, self._groups(system, job)) if job is not None else None

    def fails(self, system: str, job: ComingJob | None) -> float | None:
        """Return the probability that a job does not complete; None if there are too few similar runs."""
        return failing(job, self._groups(system, job)) if job is not None else None

    def _groups(self, system: str, job: ComingJob) -> dict[GroupKind, SimilarRuns]:
        return {kind: self._state.similar_runs.open(key) for kind, key in group_keys(system, job).items()}

    def has_similar(self, system: str, key: ApplicationKey | None, evidence: Evidence) -> bool:
        """Return whether a future run has a user with past runs, a time limit, or a job name with past runs.

        A run without these three is similar only to all runs of the centre, and those runs do not predict this run.
        """
        application_id = key.id if key else None
        job = coming(application_id, 1.0, evidence)
        if job is None or job.time_limit_s is not None:
            return job is not None
        keys = group_keys(home(system, application_id), job)
        return any(key in self._state.similar_runs for kind, key in keys.items() if kind in ("user", "name"))

    def learn(self, report: RunReport, point: PublishedPoint | None) -> None:
        """Score the forecast for a run, then learn the run; `point` is the prediction of the run's curve, for comparison.

        If many runs end between two ticks, some runs are not scored.
        """
        event, placement = report.event, report.placement
        job = coming(placement.application_id, placement.n, report.evidence)
        if job is None or not occupied_nodes(event, job):
            return
        keys = self._keys(event.system, job)
        groups = {kind: self._state.similar_runs.open(key) for kind, key in keys.items()}
        run, lane = ended_job(event, job), lane_of_user(event.system, job.user)
        if run.completed or (job.time_limit_s is not None and event.run_time_s >= job.time_limit_s):
            # the full run time of a run that ended early for another reason is unknown
            self._score(job, event.run_time_s, groups, point)
        for kind, history in groups.items():
            history.learn(run, RETAINED_MAX[kind])
            self._state.similar_runs.changed(keys[kind], history, self._state.now_ms, _lane(kind, keys[kind], lane))

    def correct(self, job: Job, report: RunReport) -> None:
        """Move a run between histories after a correction: remove the run from some histories, add it to others, and replace it in the rest.

        A run that was already dropped from its histories is not learned a second time.
        """
        event, placement, evidence = report.event, report.placement, report.evidence
        now = coming(placement.application_id, placement.n, evidence)
        before = self._keys(event.system, self._job_before(job, report))
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

    def _job_before(self, job: Job, report: RunReport) -> ComingJob | None:
        """Return the job of a run according to the previous report; None if the previous placement is unknown."""
        run_id, former = report.event.run_id, report.former
        pending = job.ended_run(run_id)
        if pending is not None:
            place = pending.placement
            return coming(place.application_id, place.n, job.evidence_of(pending.event))
        if former is None or former.application_id is None:
            return None
        model = self._state.models.get(former.application_id)
        return coming(former.application_id, former.n or (model.n_of(run_id) if model else None), report.evidence)

    def better_records(self, application_id: str, sizes: Sequence[float | None]) -> list[bool | None]:
        """Return whether similar runs have predicted better than the curve, for each of `sizes`; None with too few scored runs.

        A size of None stands for a size that was never run: the scores of all sizes decide.
        """
        comparison = self._state.model_comparisons.get(application_id)
        return [None] * len(sizes) if comparison is None else list(map(comparison.score, sizes))

    def not_by_size(self, application_id: str) -> bool:
        """Return whether the run times of an application do not depend on the size."""
        comparison, model = self._state.model_comparisons.get(application_id), self._state.models.get(application_id)
        return comparison is not None and comparison.chosen and not (model is not None and model.falls_with_size)

    def evict(self, _work: TickWork) -> None:
        """Evict histories until at most `similar_runs_max` are left, least recently used first."""
        histories = self._state.similar_runs
        for key in histories.excess(histories.bound, self._state.stale_ms):
            histories.remove(key)
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
    """Return the lane of a history: all job names of one user share a lane, and any other history has its own lane."""
    return of_user if kind == "name" else key


def coming(application_id: str | None, n: float | None, evidence: Evidence) -> ComingJob | None:
    """Return the properties of a job by which similar runs are found; None if the size of the job is unknown or implausible."""
    if n is None or not plausible(n, 1.0):
        return None
    limit_s = evidence.time_limit_s
    if limit_s is not None and not 0 < limit_s < math.inf:
        limit_s = None
    return ComingJob(float(n), application_id, evidence.user, limit_s)


def ended_job(event: JobCompleted, job: ComingJob) -> EndedJob:
    return EndedJob(event.run_id, job, event.run_time_s, completed=event.state == SUCCESS, start_ms=event.start_ms)


def occupied_nodes(event: JobCompleted, job: ComingJob) -> bool:
    """Return whether a run held the same number of nodes throughout; False for parts of resized jobs and jobs that never ran."""
    return event.state != "RESIZING" and plausible(job.n, event.run_time_s)


def home(system: str, application_id: str | None) -> str:
    """Return the name of the centre of a run, read from the application id because `system` may be an alias."""
    return unquote(application_id.partition("/")[0]) if application_id else system
