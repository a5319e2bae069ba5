"""Profiles of runs: asked for when a run settles, compared with what was expected, and learned."""

from collections.abc import Sequence
from typing import Final

import msgspec

from processors.alerts import profiles
from processors.contracts.events import JobProfile
from processors.contracts.hosts import Profile
from processors.contracts.names import ApplicationKey, job_key
from processors.contracts.outputs import AnswerPoint, Prediction, UsefulSizes
from processors.facts import plausible, trains
from processors.jobs.lifecycle import EndedRun, Job, told_attributes
from processors.pipeline.alerts import OpenAlerts
from processors.pipeline.state import Desk
from processors.power.by_size import PowerBand, changed, powered, relied_on, with_least_energy
from processors.power.model import ProfileFact, ProfileFinding, ProfileModels
from processors.run_time.prediction import RELIABLE
from processors.store import FIT_COST_MAX, share

# Power and energy on what is published: predictions, answers and forecasts of running jobs.


class Power:
    """What the models of profiles say of power in one shard; nothing where power was never measured."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def at(self, application_id: str | None, sizes: Sequence[float]) -> tuple[PowerBand | None, ...]:
        """Return the power of all hosts together at sizes, None where it is not known."""
        models = self._desk.profile_models.get(application_id) if application_id else None
        if models is None:
            return (None,) * len(sizes)
        try:
            return tuple(models.power(sizes))
        except Exception:  # noqa: BLE001  what is told of power must not cost the run time
            self._desk.tally["fault", ProfileModels.name] += 1
            return (None,) * len(sizes)

    def predicted(self, application_id: str, said: Prediction) -> Prediction:
        """Return a prediction with the models of profiles and how good their power has been."""
        models = self._desk.profile_models.get(application_id)
        if models is None:
            return said
        try:
            told, quality = models.models(), models.power_quality()
        except Exception:  # noqa: BLE001  as above
            self._desk.tally["fault", ProfileModels.name] += 1
            return said
        return msgspec.structs.replace(said, power=quality, profiles=told)

    def answered(self, application_id: str, points: Sequence[AnswerPoint]) -> tuple[AnswerPoint, ...]:
        """Return the points of an answer with power and energy."""
        found = self.at(application_id, [point.n for point in points])
        return tuple(powered(point, power) for point, power in zip(points, found, strict=True))

    def note(self, application_id: str) -> None:
        """Let a prediction be published again where what it told of power has changed since."""
        model = self._desk.models.get(application_id)
        published = model.published if model is not None else None
        if model is None or published is None:
            return
        if changed(published.power_w, self.at(application_id, [point.n for point in published.points])):
            model.tell_again(self._desk.now_ms)
            self._desk.model_changed(application_id, model)


def least_energy(useful: UsefulSizes, points: Sequence[AnswerPoint]) -> UsefulSizes:
    """Return sizes worth asking for with those of least energy; each point has a verdict of its own."""
    relied = relied_on(points, _reliable)
    return with_least_energy(useful, relied)


def _reliable(point: AnswerPoint) -> bool:
    return point.reliability.verdict == RELIABLE


# Alerts about profiles of runs, raised when they settle; and predictions whose power has changed are told again.


class ProfileWarnings:
    """Looks at each run with a profile before its models learn it."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._alerts = OpenAlerts(desk)
        self._power = Power(desk)

    def take(self, application_id: str, fact: ProfileFact, finding: ProfileFinding) -> None:
        """Raise and end alerts by what was found of a run before it was learned; history wakes nobody."""
        try:
            self._alert(application_id, fact, finding)
        except Exception:  # noqa: BLE001  what is said of a run must not cost that it is learned
            self._desk.tally["fault", ProfileModels.name] += 1

    def learned(self, application_id: str) -> None:
        """Let a prediction be told again where a run that was learned has changed what is told of power."""
        try:
            self._power.note(application_id)
        except Exception:  # noqa: BLE001  as above
            self._desk.tally["fault", ProfileModels.name] += 1

    def _alert(self, application_id: str, fact: ProfileFact, finding: ProfileFinding) -> None:
        models = self._desk.profile_models.get(application_id)
        if models is None or not self._desk.recent(fact.end_ms):
            return
        curve = self._desk.models.get(application_id)
        point = curve.published.at(fact.n) if curve is not None and curve.published is not None else None
        expected_s = point.run_time_s if point is not None else None
        key, settings, now_ms = ApplicationKey.parse(application_id), self._desk.settings.alerts, self._desk.now_ms
        run = profiles.JudgedRun(key, fact, finding, models.models(), expected_s)
        said = (
            profiles.unexplained_power(run, settings.unexplained_power, now_ms),
            profiles.disturbed_run(run, settings.disturbed_run, now_ms),
        )
        self._alerts.take(condition for condition in said if condition is not None)


DISTURBED: Final = 0.5  # a run that counts less than this was disturbed


class Profiles:
    """What the runs of one shard learn of their hosts."""

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
