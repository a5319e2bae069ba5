"""Profiles of settled runs. When a run settles, its profile is computed, compared with predictions, and learned."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

import msgspec

from processors.alerts import applications, rules
from processors.alerts.applications import strange_run_labels, suspect_labels
from processors.alerts.policy import About
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import Evidence, JobCompleted, JobProfile
from processors.contracts.hosts import HostCause, Profile
from processors.contracts.names import ApplicationKey, job_key
from processors.contracts.nodes import expand
from processors.contracts.outputs import AnswerPoint, ExpectedFromCounters, Prediction
from processors.facts import Band, plausible, trains
from processors.jobs.lifecycle import EndedRun, Job, merged_evidence, reported_attributes
from processors.models.numerics.conformal import PredictedBand
from processors.pipeline.alerts import OpenAlerts
from processors.pipeline.stage import JobWork, TickWork, guard
from processors.pipeline.state import Emits, ShardState
from processors.power.blame import HOSTS_MAX
from processors.power.by_size import changed, powered
from processors.power.model import ProfileFact, ProfileFinding, ProfileModels
from processors.store import FIT_COST_GRAIN_MS, FIT_COST_MAX, share


class PowerPredictions:
    """Predicts power from the profile models of one shard; without measured power there is no prediction."""

    def __init__(self, state: ShardState) -> None:
        self._state = state

    def at(self, application_id: str | None, sizes: Sequence[float]) -> list[PredictedBand | None]:
        """Return the total power of all hosts in W at each size; None at sizes without a prediction."""
        models = self._state.profile_models.get(application_id) if application_id else None
        if models is not None:
            # an exception in power must not prevent the run time prediction
            with guard(self._state, ProfileModels.name):
                return models.power_w(sizes)
        return [None] * len(sizes)

    def predicted(self, application_id: str, prediction: Prediction) -> Prediction:
        """Return `prediction` with the profile models of the application and the accuracy of its power predictions added."""
        models = self._state.profile_models.get(application_id)
        if models is None:
            return prediction
        with guard(self._state, ProfileModels.name):
            return msgspec.structs.replace(prediction, power=models.power_quality(), profiles=models.models())
        return prediction

    def answered(self, application_id: str, points: Sequence[AnswerPoint]) -> tuple[AnswerPoint, ...]:
        """Return the points of an answer, with power and energy added to each."""
        return tuple(map(powered, points, self.at(application_id, [point.n for point in points])))

    def note(self, application_id: str) -> None:
        """Schedule a prediction for publication if its power has changed since the last publication."""
        model = self._state.models.get(application_id)
        if model is None or model.published is None:
            return
        if changed(model.published.power_w, self.at(application_id, [point.n for point in model.published.points])):
            model.republish(self._state.now_ms)
            self._state.model_changed(application_id, model)


DISTURBED: Final = 0.5  # a run with a smaller weight was disturbed


class SettledProfile(NamedTuple):
    """The profile of a settled run, and the values that were predicted from its counters before it was learned.

    `profile` is None if the hosts of the run sent no telemetry. `run_time` is the predicted run time in s, with its band.
    """

    profile: Profile | None = None
    by_counters: tuple[ExpectedFromCounters, ...] = ()
    run_time: Band | None = None


class Profiles:
    """Learns the profiles of the runs of one shard. Each profile is checked for alerts before it is learned."""

    def __init__(self, state: ShardState, alerts: OpenAlerts, power: PowerPredictions) -> None:
        self._state, self._alerts, self._power = state, alerts, power

    def remember(self, work: JobWork) -> None:
        """Keep a profile from a rebuild or a backfill until its run settles; drop and count a profile whose run is unknown."""
        event: JobProfile = work.event
        run = work.job.ended_run(event.run_id)
        if run is None:
            self._state.tally["event", "dropped"] += 1
            return
        work.job.replace(run, msgspec.structs.replace(run, profile=event.profile))
        self._state.jobs.changed(work.key, work.job, self._state.now_ms)

    def settled(self, job: Job, run: EndedRun) -> Emits[SettledProfile]:
        """Learn the profile of a settled run if it covers enough of the run; return it with the values that its counters predicted."""
        profile = run.profile or self._requested(run)
        why = self._left_out(job, run, profile)
        self._state.tally["profile", why or "learned"] += 1
        if why is None or profile is None:
            with guard(self._state, ProfileModels.name):  # an exception in a profile must not lose the run itself
                return (yield from self._take(job, run, profile))
        return SettledProfile(profile)

    def fit_profiles(self, work: TickWork) -> None:
        """Do some steps of the fits that are due, longest waiting first.

        The number of steps follows from their nominal cost and never from a clock, so that a replay does the same steps.
        """
        left = share(FIT_COST_MAX, self._state.now_ms, work.since_ms, FIT_COST_GRAIN_MS)
        while left > 0 and (due := self._state.profile_models.due(self._state.now_ms, 1)):
            left = self._fit(due[0], left)

    def _fit(self, application_id: str, left: int) -> int:
        """Do steps of the fit of an application up to a cost of `left`; return the remaining cost."""
        models = self._bounded(application_id)
        forget = partial(self._state.profile_models.remove, application_id)
        # an exception in one application's fit must not stop the others
        with guard(self._state, ProfileModels.name, recover=forget):
            while left > 0 and models.tick():
                left -= models.step_cost
            self._state.profile_models.changed(application_id, models, self._state.now_ms)
            return left
        return left - 1

    def _bounded(self, application_id: str, *, learns: bool = False) -> ProfileModels:
        """Return the models of an application, reduced to the runs that fit into the application's share of memory."""
        models = self._state.profile_models.open(application_id)
        applications = max(len(self._state.profile_models), 1)
        if models.bound(self._state.settings.profiles.bytes_max // applications) and learns:
            self._state.tally["bound", "profile_bytes_max"] += 1
        return models

    def _requested(self, run: EndedRun) -> Profile | None:
        event = run.event
        with guard(self._state, ProfileModels.name):
            return self._state.profiles.profile(job_key(event.system, event.job_id), event.run_id)
        return None

    def _left_out(self, job: Job, run: EndedRun, profile: Profile | None) -> str | None:
        """Return the reason why a run is not learned, as a metric label; None if the run is learned."""
        placement = run.placement
        if profile is None:
            return "no_telemetry"
        if placement.application_id is None or placement.n is None:
            return "not_identified"
        if not trains(placement.n, run.event, resized=job.resized):
            return "not_completed"
        return None if profile.coverage >= self._state.settings.profiles.coverage_min else "coverage"

    def _take(self, job: Job, run: EndedRun, profile: Profile | None) -> Emits[SettledProfile]:
        """Learn a run. If a corrected run has no profile any more, correct only its size and run time in the models."""
        if profile is not None:
            return (yield from self._learn(job, run, profile))
        application_id, n, run_time_s = run.placement.application_id, run.placement.n, run.event.run_time_s
        models = self._state.profile_models.get(application_id) if application_id else None
        if application_id is None or models is None or n is None or not plausible(n, run_time_s):
            return SettledProfile()
        if models.corrected(run.event.run_id, n, run_time_s):
            self._state.profile_models.changed(application_id, models, self._state.now_ms)
        return SettledProfile()

    def _learn(self, job: Job, run: EndedRun, profile: Profile) -> Emits[SettledProfile]:
        event, application_id, n = run.event, run.placement.application_id or "", float(run.placement.n or 0.0)
        evidence = merged_evidence(event.evidence, run.start)
        attributes = reported_attributes(job, evidence)
        fact = ProfileFact(event.run_id, n, event.run_time_s, event.end_ms, profile, attributes)
        models = self._bounded(application_id, learns=True)
        finding = models.score(fact)
        expected = models.by_counters(fact)
        yield from self._warn(application_id, event, evidence, fact, finding)
        models.learn(fact)
        self._state.profile_models.changed(application_id, models, self._state.now_ms)
        if finding.weight < DISTURBED:
            model = self._state.models.get(application_id)
            if model is not None and model.disturbed(event.run_id, self._state.now_ms):
                self._state.model_changed(application_id, model)  # a slow disturbed run is treated like an outlier
        with guard(self._state, ProfileModels.name):
            self._power.note(application_id)
        run_time = finding.run_time
        band = Band(run_time.value, run_time.low, run_time.high) if run_time is not None else None
        return SettledProfile(profile, expected, band)

    def _warn(
        self, application_id: str, event: JobCompleted, evidence: Evidence, fact: ProfileFact, finding: ProfileFinding
    ) -> Emits[None]:
        """Raise or end alerts according to the finding about a recent run."""
        with guard(self._state, ProfileModels.name):  # an exception in an alert must not prevent learning the run
            models = self._state.profile_models.get(application_id)
            if models is None or not self._state.recent(fact.end_ms):
                return
            curve = self._state.models.get(application_id)
            point = curve.published.at(fact.n) if curve is not None and curve.published is not None else None
            expected_s = point.run_time_s if point is not None else None
            ln_load = curve.ln_load(event.run_id) if curve is not None else 0.0
            key = ApplicationKey.parse(application_id)
            run = applications.JudgedRun(key, fact, finding, models.models(), expected_s, ln_load)
            cause = self._state.causes.cause(event.system, evidence.hosts, event.start_ms, event.end_ms)
            about = About(evidence, event.run_time_s)
            yield from self._judge_power(run, event.system, cause, about)
            if finding.unusual and (cause is None or cause.power_only):
                neighbours = self._state.causes.neighbours(event.system, event.job_id, evidence.hosts, event.end_ms)
                yield from self._judge_disturbance(run, about._replace(neighbours=neighbours))

    def _judge_disturbance(self, run: applications.JudgedRun, about: About) -> Emits[None]:
        """Raise the alert about a disturbed run, which replaces the alert about the run time of the same run."""
        settings, now_ms = self._state.settings.alerts.disturbed_run, self._state.now_ms
        disturbed, labels = applications.disturbed_run(run, settings, now_ms, about), strange_run_labels(run.key, 1)
        yield from self._alerts.take(disturbed, about=about)
        if disturbed is not None and self._alerts.is_open(rules.STRANGE_RUN.name, labels, run.fact.run_id):
            yield from self._alerts.ends(rules.STRANGE_RUN.ended(labels, rules.DISTURBED, now_ms, by="superseded"))

    def _judge_power(
        self, run: applications.JudgedRun, system: str, cause: HostCause | None, about: About
    ) -> Emits[None]:
        """Raise or end the alerts about power that counters do not explain.

        Such power is attributed to a host if `PowerBlame` names one, else to the application, unless a known fault of a host
        explains it. An alert about a host ends when another alert tells of a fault of the same host.
        """
        settings, now_ms = self._state.settings.alerts.unexplained_power, self._state.now_ms
        hosts: tuple[str, ...] = ()
        with suppress(InvalidInputError):  # a run with too many hosts cannot single out one host
            hosts = expand(",".join(about.evidence.hosts), HOSTS_MAX) if about.evidence.hosts else ()
        judged = applications.judged_power(run, hosts, settings)
        if judged is None:
            return
        blame = self._state.power_blames.open(system)
        blame.learn(judged)
        blamed = blame.score(hosts)
        for names in blame.over(hosts):
            yield from self._alerts.take(rules.UNEXPLAINED_POWER.over(suspect_labels(system, names), now_ms))
        if not judged.off or (blamed is None and cause is None):
            models = self._state.profile_models.get(run.key.id) if judged.off else None
            run = run._replace(added=models.added(applications.TARGET, run.fact)) if models is not None else run
            in_a_row = blame.in_a_row(run.key.id)
            condition = applications.unexplained_power(run, judged, settings, now_ms, in_a_row=in_a_row)
            yield from self._alerts.take(condition, about=about)
        else:
            condition = rules.UNEXPLAINED_POWER.over(rules.application_labels(run.key), now_ms, by="superseded")
            yield from self._alerts.take(condition)
        if judged.off and blamed is not None:
            of_host = applications.power_of_host(system, blamed, run, settings, now_ms)
            # another alert may tell of a fault of the same host
            replaced = [blamed.hosts] if cause is not None and cause.host in blamed.hosts.split(",") else []
            if cause is None:
                replaced = blame.name_hosts(blamed)
                yield from self._alerts.take(of_host)
            for names in replaced:
                labels = suspect_labels(system, names)
                yield from self._alerts.take(rules.UNEXPLAINED_POWER.over(labels, now_ms, by="superseded"))
        self._state.power_blames.changed(system, blame, now_ms)
