"""Completed runs: recognised, placed with an application, scored against what was published, and learned."""

import math
from collections.abc import Mapping
from typing import Final

from processors.alerts import applications
from processors.alerts.policy import NO_RUN, About
from processors.contracts.events import PART_OF, SUCCESS, Attribute, Evidence, JobCompleted, JobStarted
from processors.contracts.hosts import ExplainedRun, HostCause
from processors.contracts.names import ApplicationKey
from processors.contracts.outputs import AlertEnd, SlowedBy
from processors.facts import PublishedCurve, PublishedPoint, RunFact, Scored, trains
from processors.fairness import lane_of_run
from processors.inputs import Sizes
from processors.jobs.deduplication import KnownRun, bucket, content_digest, following
from processors.jobs.lifecycle import Job, Placement, merged_evidence, reported_attributes
from processors.models.drift import LN_RATIO_MIN
from processors.pipeline.alerts import Warnings
from processors.pipeline.features import Features
from processors.pipeline.inputs import Machines, UnseenInputs
from processors.pipeline.load import UnderLoads
from processors.pipeline.outcomes import Outcomes
from processors.pipeline.similar_runs import SimilarRunForecasts
from processors.pipeline.stage import STOP, CompletionWork, JobWork, guard
from processors.pipeline.state import ShardState
from processors.power.blame import MovedCounter
from processors.power.model import ProfileModels
from processors.run_time.drift import ScoredRun, Shift, SizeTurn, Taken, without_load
from processors.run_time.members import MemberFact
from processors.run_time.model import MARGIN_MIN, RunTime
from processors.store import digest64

MARK = "mark"


class KnownRuns:
    """All runs that are remembered, at most `deduplication_runs_max` of them in `deduplication_buckets_max` buckets.

    A bucket that is full is followed by another one of the same quarter of an hour.
    """

    def __init__(self, state: ShardState) -> None:
        self._state = state
        self._found: tuple[str, int, str, KnownRun | None] | None = (
            None  # what was looked up last, until one is remembered
        )

    def find(self, run_id: str, start_ms: int) -> KnownRun | None:
        """Return what is remembered of a run; None for a new one."""
        return self._look_up(run_id, start_ms)[1]

    def is_forgotten(self, run_id: str, start_ms: int) -> bool:
        """Return whether a run belongs before everything that is remembered: it cannot be told from a repeat."""
        mark = self._state.low_water.get(MARK)
        return mark is not None and mark.score(bucket(run_id, start_ms))

    def remember(self, run_id: str, start_ms: int, known: KnownRun) -> None:
        """Remember a run, or remember it anew; where there are too many the oldest buckets go and are counted."""
        chosen, before = self._look_up(run_id, start_ms)
        self._found = None
        if before is None:
            self._count(1)
        found = self._state.known_runs.open(chosen)
        found.learn((run_id, known))
        self._state.known_runs.changed(chosen, found, self._state.now_ms)
        self._forget_excess()

    def _look_up(self, run_id: str, start_ms: int) -> tuple[str, KnownRun | None]:
        """Return the bucket that holds a run, and what is remembered of it; of a new one the bucket that takes it."""
        found = self._found
        if found is None or found[0] != run_id or found[1] != start_ms:
            self._found = found = (run_id, start_ms, *self._searched(run_id, start_ms))
        return found[2], found[3]

    def _searched(self, run_id: str, start_ms: int) -> tuple[str, KnownRun | None]:
        first = bucket(run_id, start_ms)
        key, last, follows = first, None, 0
        while (held := self._state.known_runs.get(key)) is not None:
            known = held.score(run_id)
            if known is not None:
                return key, known
            last, follows = (key, held), follows + 1
            key = following(first, follows)
        return (key if last is None or last[1].full() else last[0]), None

    def _count(self, runs: int) -> None:
        mark = self._state.low_water.open(MARK)
        mark.count(runs)
        self._state.low_water.changed(MARK, mark, self._state.now_ms)

    def _forget_excess(self) -> None:
        settings, known = self._state.settings.jobs, self._state.known_runs
        while len(known) > 1:
            too_many = self._state.low_water.open(MARK).runs > settings.deduplication_runs_max
            if not too_many and len(known) <= settings.deduplication_buckets_max:
                return
            oldest, oldest_left, *_ = sorted(known.keys())
            self._count(-len(known.open(oldest)))
            known.remove(oldest)
            mark = self._state.low_water.open(MARK)
            mark.learn(oldest_left)
            self._state.low_water.changed(MARK, mark, self._state.now_ms)
            if too_many:
                self._state.tally["bound", "deduplication_runs_max"] += 1
            else:
                self._state.tally["bound", "deduplication_buckets_max"] += 1


UNWATCHED: Final = Taken(None)
FACTOR_LN_MAX: Final = 10.0  # how many times as long a run took is told up to this, in ln


class DriftDetection:
    """The watches of one shard."""

    def __init__(self, state: ShardState, warnings: Warnings) -> None:
        self._state = state
        self._warnings = warnings

    def take(self, application_id: str, model: RunTime, run: ScoredRun) -> Taken:
        """Judge a run before its model learns it; one of an earlier level says nothing about the present one."""
        if model.began_before_its_level(run.scored.run):
            return UNWATCHED
        drift = self._state.drifts.open(application_id)
        taken = drift.take(run)
        if taken.judgement is not None:
            self._state.drifts.changed(application_id, drift, self._state.now_ms)
        return taken

    def outlier(self, application_id: str, scored: Scored | None) -> int:
        """Return how strange a run is whose report was corrected: 1 slow, -1 fast, 0 not at all or not to be told."""
        drift = self._state.drifts.get(application_id)
        judged = drift.score(ScoredRun(scored)) if drift and scored else None
        return judged.outlier if judged else 0

    def follow(self, application_id: str, model: RunTime, scored: Scored, taken: Taken, about: About) -> None:
        """Move the model's level where it shifted, and tell people; history moves models only."""
        key = ApplicationKey.parse(application_id)
        recent = self._state.recent(scored.run.end_ms)
        if taken.over is not None:
            self._end(applications.ALERT_OF[taken.over.direction], key, applications.BACK)
        shift, turned = taken.found, taken.turned
        if shift is not None and model.of_one_size_only(shift.sizes, shift.since_run):
            self.published(application_id)  # the other sizes may be as before
        elif shift is not None:
            turned = None
            self._report_shift(key, shift, about, back=self._move(model, shift), recent=recent)
        elif taken.judgement is not None:
            self._report_outlier(key, scored, taken, about, recent=recent)
        if turned is not None:
            self._turn(key, model, scored, turned, about=about if recent else None)

    def published(self, application_id: str) -> None:
        """Note that the published curve is at the new level."""
        drift = self._state.drifts.get(application_id)
        if drift is not None and drift.shift is not None:
            drift.adopted()
            self._state.drifts.changed(application_id, drift, self._state.now_ms)

    def _report_outlier(self, key: ApplicationKey, scored: Scored, taken: Taken, about: About, *, recent: bool) -> None:
        settings, now_ms = self._state.settings.alerts.strange_run, self._state.now_ms
        if taken.judgement is None or not recent:
            return
        if taken.judgement.outlier:
            prediction = applications.strange_run(key, scored, taken.judgement, settings, now_ms)
            self._warnings.take([prediction] if prediction else [], about)
        for outlier in sorted(taken.open_questions):  # runs of other sizes do not answer them
            labels = applications.strange_run_labels(key, outlier)
            self._warnings.renew(applications.STRANGE_RUN, labels)

    def _turn(
        self, key: ApplicationKey, model: RunTime, scored: Scored, turned: SizeTurn, *, about: About | None
    ) -> None:
        """Move the level of one size; its strange run was none, and the alert says so until that of the size takes over.

        `about` is what is known of the run, None for one of long ago.
        """
        moved = model.move_size(turned, self._state.now_ms)
        if moved is None:
            return
        self._state.tally["size_shift", turned.direction] += 1
        drift = self._state.drifts.open(key.id)
        drift.size_moved(turned.n)
        self._state.drifts.changed(key.id, drift, self._state.now_ms)
        if about is not None:
            settings, now_ms = self._state.settings.alerts.strange_run, self._state.now_ms
            prediction = applications.size_turned(key, scored, moved, turned.noise, settings=settings, now_ms=now_ms)
            self._warnings.take([prediction] if prediction else [], about)

    def _move(self, model: RunTime, shift: Shift) -> bool:
        margin = max(MARGIN_MIN, 2 * shift.noise / math.sqrt(shift.runs))
        self._state.tally["shift", shift.direction] += 1
        return model.move_level(
            shift.since_run, shift.since_ms, math.log(shift.factor), margin=margin, detected_ms=self._state.now_ms
        )

    def _report_shift(self, key: ApplicationKey, shift: Shift, about: About, *, back: bool, recent: bool) -> None:
        slower = shift.direction == "regression"
        opposite = applications.IMPROVEMENT if slower else applications.REGRESSION
        undone = (
            self._end(opposite, key, applications.BACK)
            if back
            else self._end(opposite, key, applications.OVERTAKEN, by="superseded")
        )
        outlier = applications.strange_run_labels(key, 1 if slower else -1)
        self._warnings.ends(
            applications.ended(
                applications.STRANGE_RUN, outlier, applications.EXPLAINED, self._state.now_ms, by="superseded"
            )
        )
        moved, settings = self._moved(key, shift), self._state.settings.alerts.shift
        prediction = applications.shifted(key, shift, settings, self._state.now_ms, moved)
        if prediction is not None and recent and not (back and undone):
            self._warnings.take([prediction], about)

    def _moved(self, key: ApplicationKey, shift: Shift) -> MovedCounter | None:
        profiles = self._state.profile_models.get(key.id)
        if profiles is None:
            return None
        with guard(self._state, ProfileModels.name):  # what counters tell must not cost the alert
            return profiles.moved(shift.since_ms)
        return None

    def _end(self, name: str, key: ApplicationKey, why: str, *, by: AlertEnd = "itself") -> bool:
        labels = applications.application_labels(key)
        return self._warnings.ends(applications.ended(name, labels, why, self._state.now_ms, by=by))


class Training:
    """Teaches the models of one shard; a run is scored against what was published before it is learned."""

    def __init__(self, state: ShardState, warnings: Warnings, unseen: UnseenInputs) -> None:
        self._state = state
        self._warnings = warnings
        self._unseen_inputs = unseen
        self._drift_detection = DriftDetection(state, warnings)

    def train(
        self,
        application_id: str,
        fact: RunFact,
        sizes: Sizes,
        attributes: Mapping[str, Attribute],
        *,
        first: bool,
        replaces: bool,
        ln_load: float = 0.0,
        cause: HostCause | None = None,
        about: About = NO_RUN,
    ) -> SlowedBy | None:
        """Learn a run of an input of the given sizes; `attributes` tell builds and versions apart.

        `first` is its first report, `replaces` a corrected one of a run of the same application. What `ln_load` explains of
        its run time is no news of the application: three of four regressions of the simulated centre were loaded hosts. Nor is
        a slow run on a host of which something is wrong, the `cause`: it says nothing for or against a change, and that is returned.
        """
        model = self._state.models.open(application_id)
        if replaces and not model.holds(fact.run_id):
            self._state.tally["refused", "correction_too_late"] += 1
            return None
        slowed_by: SlowedBy | None = None
        scored = model.score(fact)
        if first:
            self._compare(application_id, model.published, fact, scored)
        if scored is None or not first:
            model.learn(fact, self._drift_detection.outlier(application_id, scored))
        elif cause is not None and scored.ln_ratio > LN_RATIO_MIN:
            model.learn(fact, 1, round(ln_load, 4))  # inside a band that such runs have widened it is strange, too
            model.note(scored)
            factor = round(math.exp(min(scored.ln_ratio, FACTOR_LN_MAX)), 3)
            explained = ExplainedRun(fact.run_id, application_id, factor, fact.end_ms)
            self._warnings.explained(ApplicationKey.parse(application_id).system, cause, explained)
            slowed_by = SlowedBy(cause.host, factor)
        else:
            quiet = without_load(scored, ln_load)
            slowed = self._drift_detection.outlier(application_id, scored) if quiet is not scored else 0
            residual = scored.ln_ratio - ln_load if quiet is not scored else None
            taken = self._drift_detection.take(application_id, model, ScoredRun(quiet, attributes, residual))
            outlier = taken.judgement.outlier if taken.judgement else 0
            model.learn(fact, outlier or slowed, round(scored.ln_ratio - quiet.ln_ratio, 4))
            model.note(scored)
            self._drift_detection.follow(application_id, model, quiet, taken, about)
        lane = lane_of_run(application_id, about.user or None, self._state.models.lane(application_id))
        self._state.model_changed(application_id, model, lane)
        self._unseen_inputs.ran(application_id, sizes, model)
        return slowed_by

    def forget(self, application_id: str, run_id: str) -> bool:
        """Take a run away from a model that learned it; False where it is not held any more."""
        self._forget_profile(application_id, run_id)
        model = self._state.models.get(application_id)
        if model is None or not model.forget(run_id, self._state.now_ms):
            return False
        self._state.model_changed(application_id, model)
        self._unseen_inputs.fitted(ApplicationKey.parse(application_id), model)
        if not model.observations:
            self._warnings.forget_application(application_id)
        return True

    def _forget_profile(self, application_id: str, run_id: str) -> None:
        profiles = self._state.profile_models.get(application_id)
        if profiles is not None and profiles.forget(run_id):
            self._state.profile_models.changed(application_id, profiles, self._state.now_ms)

    def _compare(
        self, application_id: str, published: PublishedCurve | None, fact: RunFact, scored: Scored | None
    ) -> None:
        """Let the run say which law was right."""
        members = self._state.members.get(application_id)
        if members is None or published is None:
            return
        horizon = scored.horizon if scored else published.horizon(fact.n)
        members.learn(MemberFact(fact.n, fact.run_time_s, horizon, scored.ln_ratio if scored else None))
        self._state.members.changed(application_id, members, self._state.now_ms)


NOTHING = 0  # digest of no application
AS_BEFORE = "as before"


class Completions:
    """Takes completed runs in, each exactly once: recognised, placed with an application, scored, learned, remembered."""

    def __init__(
        self,
        state: ShardState,
        warnings: Warnings,
        similar_runs: SimilarRunForecasts,
        features: Features,
        unseen: UnseenInputs,
    ) -> None:
        self._state = state
        self._similar_runs = similar_runs
        self._known_runs = KnownRuns(state)
        self._training = Training(state, warnings, unseen)
        self._outcomes = Outcomes(state, warnings)
        self._under_loads = UnderLoads(state)
        self._features = features
        self._machines = Machines(state)

    def recognise(self, work: CompletionWork) -> bool | None:
        """Find an earlier report of the run; stop one that cannot be told from a repeat."""
        run_id, start_ms = work.event.run_id, work.event.start_ms
        if self._known_runs.is_forgotten(run_id, start_ms):
            self._state.tally["refused", "too_old"] += 1
            return STOP
        work.known = self._known_runs.find(run_id, start_ms)
        return None

    def identify(self, work: CompletionWork) -> bool | None:
        """Place the run with an application and a size; stop a report that says nothing new."""
        event, job, known = work.event, work.job, work.known
        work.before = self._before(job, event, known)
        work.placement = self._corrected(work, work.before)
        work.fact = self._fact(job, event, work.placement)
        work.content = _content(event, work.placement, work.fact)
        if known is not None and known.matches(work.content) and _same_place(known, work.placement, work.before):
            self._state.tally["event", "repeated"] += 1
            return STOP
        part = PART_OF in work.evidence.attributes
        sized = work.placement.n is not None or part
        if work.fact is None and event.state == SUCCESS and event.run_time_s > 0 and sized:
            self._state.tally["refused", "not_one_size" if job.resized or part else "implausible"] += 1
        return None

    def compare_with_similar_runs(self, work: CompletionWork) -> None:
        """Let a run count for its user, name and class; a part of a job that changed its size does not."""
        event, job, evidence = work.event, work.job, work.evidence
        if not work.first:
            was = self._similar_runs.was(job, event, work.before, evidence)
            self._similar_runs.corrected(event, was, work.placement, evidence)
            return
        work.ln_load = self._under_loads.explained(job, event, work.placement)
        if not job.resized:
            usual = abs(work.ln_load) < LN_RATIO_MIN  # a loaded host is no test of either
            point = self._curve_point(event, work.placement) if usual else None
            self._similar_runs.ended(event, work.placement, evidence, point)

    def learn(self, work: CompletionWork) -> None:
        """Score the run by the published curve, look for drift, and let the model of its application learn it."""
        evidence = work.evidence
        former, known = self._trained(work.known), reported_attributes(work.job, evidence)
        cause, about = (
            self._cause(evidence, work.event) if work.first else None,
            About.of_run(evidence, work.event.run_time_s),
        )
        work.slowed_by = self._learn(
            work.event, work.placement, work.fact, former, known, first=work.first, ln_load=work.ln_load, cause=cause, about=about
        )  # fmt: skip

    def count_failures(self, work: CompletionWork) -> None:
        """Count how the run ended, for its application, its hosts and the centre."""
        former = work.before.application_id if work.before else None
        self._outcomes.take(work.event, work.placement.application_id, former, first=work.first)

    def remember(self, work: CompletionWork) -> None:
        """Remember the run, so that a repeat is recognised."""
        event, application_id = work.event, work.placement.application_id
        known = KnownRun(digest64(application_id) if application_id else NOTHING, work.content)
        self._known_runs.remember(event.run_id, event.start_ms, known)

    def move(self, work: JobWork, event: JobCompleted, old: Placement, new: Placement) -> None:
        """Take a run for another application or size than before: later evidence says so."""
        known = self._known_runs.find(event.run_id, event.start_ms)
        fact = self._fact(work.job, event, new)
        evidence = merged_evidence(work.job, event)
        moved = CompletionWork(event, work.key, work.job, evidence, known, old, new, fact, _content(event, new, fact))
        self._similar_runs.corrected(event, self._similar_runs.was(work.job, event, old, evidence), new, evidence)
        about = About.of_run(evidence, event.run_time_s)
        self._learn(event, new, fact, self._trained(known), {}, first=False, about=about)
        self._outcomes.take(event, new.application_id, old.application_id, first=False)
        self.remember(moved)

    def place(self, job: Job, event: JobCompleted, evidence: Evidence | None = None) -> Placement:
        """Return what a run is taken for, from all evidence of its job; `evidence` is that of the run where it is known."""
        evidence = evidence or merged_evidence(job, event)
        found = self._state.identify(evidence, event.system, job.identities, None)
        key = found.key
        return Placement(key.id if key else None, found.n, found.source, found.confidence, found.input_sizes)

    def has_ended(self, event: JobStarted) -> bool:
        """Return whether the run that is reported to start has ended already, or may have."""
        run_id, start_ms = event.run_id, event.start_ms
        return self._known_runs.find(run_id, start_ms) is not None or self._known_runs.is_forgotten(run_id, start_ms)

    def _trained(self, known: KnownRun | None) -> str | None:
        """Return the application whose model has learned a run."""
        return self._state.application_id(known.application) if known is not None and known.trained else None

    def _before(self, job: Job, event: JobCompleted, known: KnownRun | None) -> Placement | None:
        """Return what a run was taken for when it was reported before; None for the first report, or if it is forgotten."""
        if known is None:
            return None
        pending = next((run.placement for run in job.ended if run.event.run_id == event.run_id), None)
        former = self._state.application_id(known.application)
        return pending or (Placement(former, None, AS_BEFORE, 1.0) if former else None)

    def _corrected(self, work: CompletionWork, before: Placement | None) -> Placement:
        # the second report of a run may come from a poorer source, or after the other evidence of the job was forgotten
        event = work.event
        found = self.place(work.job, event, work.evidence)
        if before is None or before.application_id is None:
            return found
        application_id, n, source = found.application_id, found.n, found.source
        if application_id != before.application_id and found.confidence < before.confidence:
            unit = ApplicationKey.parse(before.application_id).unit
            application_id, n, source = before.application_id, event.evidence.sizes.get(unit), AS_BEFORE
        if n is None and application_id == before.application_id:
            model = self._state.models.get(application_id)
            n = before.n or (model.n_of(event.run_id) if model else None)
        sizes = found.input_sizes if application_id == found.application_id else ()
        return Placement(application_id, n, source, found.confidence, sizes)

    def _curve_point(self, event: JobCompleted, placement: Placement) -> PublishedPoint | None:
        """Return what the curve of its application had given for a run; None for one that is no test of a curve."""
        if event.state != SUCCESS or placement.application_id is None or placement.n is None:
            return None
        model = self._state.models.get(placement.application_id)
        return model.published.curve_at(placement.n) if model is not None and model.published is not None else None

    def _learn(
        self,
        event: JobCompleted,
        placement: Placement,
        fact: RunFact | None,
        former: str | None,
        known: Mapping[str, Attribute],
        *,
        first: bool,
        ln_load: float = 0.0,
        cause: HostCause | None = None,
        about: About = NO_RUN,
    ) -> SlowedBy | None:
        """Learn a run; `former` is the application that it trained before, `known` what else is known of it.

        `ln_load` is what the load of its hosts explains of its run time, `cause` what was wrong with one of them, which is returned
        where it explains why the run was slow.
        """
        stays = fact is not None and placement.application_id == former
        if former is not None and not stays:
            self._features.forget(former, event.run_id)
            self._machines.forget(former, event)
        if former is not None and not stays and not self._training.forget(former, event.run_id):
            self._state.tally["refused", "correction_too_late"] += 1
        elif fact is not None and placement.application_id is not None:
            sizes = placement.input_sizes
            slowed_by = self._training.train(
                placement.application_id,
                fact,
                sizes,
                known,
                first=first,
                replaces=stays,
                ln_load=ln_load,
                cause=cause,
                about=about,
            )
            self._machines.learn(placement.application_id, event)
            return slowed_by
        return None

    def _cause(self, evidence: Evidence, event: JobCompleted) -> HostCause | None:
        """Return what was wrong with a host of a run that may have made it slow."""
        found = self._state.causes.cause(event.system, evidence.hosts, event.start_ms, event.end_ms)
        return found if found is not None and not found.power_only else None

    def _fact(self, job: Job, event: JobCompleted, placement: Placement) -> RunFact | None:
        if placement.application_id is None or not trains(placement.n, event, resized=job.resized):
            return None
        return RunFact(
            event.run_id, float(placement.n), event.run_time_s, event.start_ms, event.end_ms, self._state.now_ms
        )


def _content(event: JobCompleted, placement: Placement, fact: RunFact | None) -> int:
    return content_digest(placement.n, event.run_time_s, event.state, event.end_ms, trained=fact is not None)


def _same_place(known: KnownRun, placement: Placement, before: Placement | None) -> bool:
    """Return whether a run is taken for what it was, or for what nobody knows any more."""
    application_id = placement.application_id
    same = known.application == (digest64(application_id) if application_id else NOTHING)
    return same or (before is None and known.application != NOTHING)
