"""Profiles of runs: asked for when a run settles, compared with what was expected, and learned."""

from typing import Final

import msgspec

from agent.contracts.events import JobProfile
from agent.contracts.names import job_key
from agent.contracts.profiles import Profile
from processors.facts import plausible, trains
from processors.fold.desk import Desk
from processors.fold.profile_warnings import ProfileWarnings
from processors.jobs import EndedRun, Job, told_attributes
from processors.pace import FIT_COST_MAX, share
from processors.profile_models import ProfileFact, ProfileModels

DISTURBED: Final = 0.5  # a run that counts less than this was disturbed


class Profiles:
    """What the runs of one shard learn of their hosts.

    >>> from agent.app.compose import make_shard
    >>> from agent.config.tree import Config
    >>> from agent.contracts.events import Evidence, JobCompleted
    >>> from processors.jobs import Placement
    >>> desk = make_shard(Config()).desk
    >>> job, event = desk.jobs.open("exa/1"), JobCompleted("exa", "1", "exa/1@0", 0, 60_000, 60.0, "COMPLETED", Evidence())
    >>> told = Profile(hosts=4, minutes=4, expected=4, power_w={"system": 400.0})
    >>> run = EndedRun(event, Placement("exa/lammps//nodes", 4.0, "application", 1.0), 0, profile=told)
    >>> Profiles(desk).settled(job, run) is told, list(desk.profile_models.keys())
    (True, ['exa/lammps//nodes'])
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._warnings = ProfileWarnings(desk)

    def told(self, event: JobProfile) -> None:
        """Keep the profile that a rebuild or a backfill tells of a run until it settles; one that is unknown is counted."""
        key = job_key(event.system, event.job_id)
        job = self._desk.jobs.get(key)
        run = next((run for run in job.ended if run.event.run_id == event.run_id), None) if job is not None else None
        if job is None or run is None:
            self._desk.tally["event", "dropped"] += 1
            return
        job.replace(run, msgspec.structs.replace(run, profile=event.profile))
        self._desk.jobs.changed(key, job, self._desk.now_ms)

    def settled(self, job: Job, run: EndedRun) -> Profile | None:
        """Return the profile of a run that settles, and learn it where it says enough of the run."""
        profile = run.profile or self._asked(run)
        why = self._left_out(job, run, profile)
        self._desk.tally["profile", why or "learned"] += 1
        if why is None or profile is None:
            try:
                self._take(job, run, profile)
            except Exception:  # noqa: BLE001  what profiles tell must not cost the run itself
                self._desk.tally["fault", ProfileModels.name] += 1
        return profile

    def tick(self, since_ms: int) -> None:
        """Do some steps of the fits that are due, the longest wait first; `since_ms` is the time since the last tick.

        How many follows from what they are said to cost and never from a clock: a replay makes the same ones.
        """
        left = share(FIT_COST_MAX, since_ms)
        while left > 0:
            due = self._desk.profile_models.due(self._desk.now_ms, 1)
            if not due:
                return
            left = self._fit(due[0], left)

    def _fit(self, application_id: str, left: int) -> int:
        """Do steps of the fit of an application for a cost of `left` and return what is left of that."""
        models = self._desk.profile_models.open(application_id)
        try:
            while left > 0 and models.tick():
                left -= models.step_cost
        except Exception:  # noqa: BLE001  one application's fit must not stop the others
            self._desk.profile_models.remove(application_id)
            self._desk.tally["fault", ProfileModels.name] += 1
            return left - 1
        self._desk.profile_models.changed(application_id, models, self._desk.now_ms)
        return left

    def _asked(self, run: EndedRun) -> Profile | None:
        event = run.event
        try:
            return self._desk.profiles.profile(job_key(event.system, event.job_id), event.run_id)
        except Exception:  # noqa: BLE001  as above
            self._desk.tally["fault", ProfileModels.name] += 1
            return None

    def _left_out(self, job: Job, run: EndedRun, profile: Profile | None) -> str | None:
        """Return why a run is not learned from, in the words of the metric that counts them; None where it is."""
        placement = run.placement
        if profile is None:
            return "no_telemetry"
        if placement.application_id is None or placement.n is None:
            return "not_identified"
        if not trains(placement.n, run.event, resized=job.resized):
            return "not_completed"
        return None if profile.coverage >= self._desk.settings.profiles.coverage_min else "coverage"

    def _take(self, job: Job, run: EndedRun, profile: Profile | None) -> None:
        """Learn a run; where the report of one that was learned is corrected after its profile was forgotten, its time."""
        if profile is not None:
            self._learn(job, run, profile)
            return
        application_id, n, run_time_s = run.placement.application_id, run.placement.n, run.event.run_time_s
        models = self._desk.profile_models.get(application_id) if application_id else None
        if application_id is None or models is None or n is None or not plausible(n, run_time_s):
            return
        if models.corrected(run.event.run_id, n, run_time_s):
            self._desk.profile_models.changed(application_id, models, self._desk.now_ms)

    def _learn(self, job: Job, run: EndedRun, profile: Profile) -> None:
        event, application_id = run.event, run.placement.application_id or ""
        fact = ProfileFact(
            event.run_id,
            float(run.placement.n or 0.0),
            event.run_time_s,
            event.end_ms,
            profile,
            told_attributes(job, event),
        )
        models = self._desk.profile_models.open(application_id)
        finding = models.score(fact)
        self._warnings.take(application_id, fact, finding)
        models.learn(fact)
        self._desk.profile_models.changed(application_id, models, self._desk.now_ms)
        if finding.weight < DISTURBED:
            self._disturbed(application_id, event.run_id)
        self._warnings.learned(application_id)

    def _disturbed(self, application_id: str, run_id: str) -> None:
        """Let a run that others disturbed, and that was slow, count for its run-time model as a strange one does."""
        model = self._desk.models.get(application_id)
        if model is not None and model.disturbed(run_id, self._desk.now_ms):
            self._desk.model_changed(application_id, model)
