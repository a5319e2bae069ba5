"""Completed runs: each report is deduplicated, identified, scored against the published curve, and learned."""

import math
from typing import Final

import msgspec

from processors.alerts import applications, rules
from processors.alerts.policy import About
from processors.alerts.rules import AlertType
from processors.contracts.events import PART_OF, SUCCESS, JobCompleted, JobStarted
from processors.contracts.hosts import ExplainedRun, HostCause
from processors.contracts.names import ApplicationKey, job_key, lane_of_run
from processors.contracts.outputs import AlertEnd, PredictedAtStart, SlowedBy, Tombstone
from processors.facts import PublishedPoint, RunFact, Scored, trains
from processors.inputs import input_key
from processors.jobs.lifecycle import Job, Placement, reported_attributes
from processors.jobs.memory import KnownRun, bucket, content_digest
from processors.models.drift import LN_RATIO_MIN
from processors.pipeline.alerts import Warnings
from processors.pipeline.features import Features
from processors.pipeline.inputs import Machines, UnseenInputs
from processors.pipeline.load import UnderLoads
from processors.pipeline.outcomes import Outcomes
from processors.pipeline.similar_runs import SimilarRunForecasts
from processors.pipeline.stage import STOP, CompletionWork, JobWork, MayStop, ReportKind, RunReport, guard
from processors.pipeline.state import Emits, ShardState, inputs_key, related_curves_key
from processors.power.blame import MovedCounter
from processors.power.model import ProfileModels
from processors.run_time.drift import DriftFindings, ScoredRun, Shift, SizeTurn, without_load
from processors.run_time.members import MemberFact
from processors.run_time.model import MARGIN_MIN, RunTime
from processors.similar_runs import name_key
from processors.store import digest64

MARK = "mark"


class KnownRuns:
    """The runs remembered for deduplication: at most `deduplication_runs_max` in `deduplication_buckets_max` buckets.

    A bucket holds runs that started in the same quarter of an hour. If it is full, further runs go to a continuation bucket.
    """

    def __init__(self, state: ShardState) -> None:
        self._state = state
        self._last: tuple[tuple[str, int, int], tuple[str, KnownRun | None]] | None = None

    def find(self, run_id: str, start_ms: int) -> KnownRun | None:
        """Return the remembered run; None if the run is new."""
        return self._look_up(run_id, start_ms)[1]

    def is_forgotten(self, run_id: str, start_ms: int) -> bool:
        """Return whether a run started before all remembered runs, in which case it may be a repeat."""
        mark = self._state.low_water.get(MARK)
        return mark is not None and mark.score(bucket(run_id, start_ms))

    def remember(self, run_id: str, start_ms: int, known: KnownRun) -> None:
        """Remember a run or replace its entry; if there are too many runs, evict and count the oldest buckets."""
        key, before = self._look_up(run_id, start_ms)
        if before is None:
            self._count(1)
        self._state.known_runs.learn(key, (run_id, known), self._state.now_ms)
        self._forget_excess()

    def _look_up(self, run_id: str, start_ms: int) -> tuple[str, KnownRun | None]:
        """Return the bucket key of a run and the remembered run; for a new run, the key of the bucket to add it to, and None.

        The last result is cached, because a completion looks up the same run twice.
        """
        question = run_id, start_ms, self._state.known_runs.changes
        if self._last is None or self._last[0] != question:
            self._last = question, self._searched(run_id, start_ms)
        return self._last[1]

    def _searched(self, run_id: str, start_ms: int) -> tuple[str, KnownRun | None]:
        first = bucket(run_id, start_ms)
        key, last, follows = first, None, 0
        while (held := self._state.known_runs.get(key)) is not None:
            known = held.score(run_id)
            if known is not None:
                return key, known
            last, follows = (key, held), follows + 1
            key = f"{first}+{follows}"  # a full bucket is followed by further ones
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
            self._state.low_water.learn(MARK, oldest_left, self._state.now_ms)
            self._state.tally["bound", "deduplication_runs_max" if too_many else "deduplication_buckets_max"] += 1


UNWATCHED: Final = DriftFindings(None)
FACTOR_LN_MAX: Final = 10.0  # largest reported factor of a run's delay, in ln(run time)


class DriftDetection:
    """Detects changes of run time in one shard: single outliers, shifts of an application, and changes at one size."""

    def __init__(self, state: ShardState, warnings: Warnings) -> None:
        self._state = state
        self._warnings = warnings

    def take(self, application_id: str, model: RunTime, run: ScoredRun) -> DriftFindings:
        """Score a run for drift before its model learns the run; a run from before the last shift is ignored."""
        if model.began_before_its_level(run.scored.run):
            return UNWATCHED
        drift = self._state.drifts.open(application_id)
        taken = drift.take(run)
        if taken.judgement is not None:
            self._state.drifts.changed(application_id, drift, self._state.now_ms)
        return taken

    def outlier(self, application_id: str, scored: Scored | None) -> int:
        """Return 1 for an unusually slow run, -1 for an unusually fast run, else 0; changes no state."""
        drift = self._state.drifts.get(application_id)
        judged = drift.score(ScoredRun(scored)) if drift and scored else None
        return judged.outlier if judged else 0

    def follow(self, model: RunTime, scored: Scored, taken: DriftFindings, report: RunReport) -> Emits[None]:
        """Move the level of a model whose run times shifted, and raise or end the alerts that follow from a run.

        A run too old for alerts raises none.
        """
        key = ApplicationKey.parse(report.placement.application_id or "")
        about = report.about if self._state.recent(scored.run.end_ms) else None
        if taken.over is not None:
            yield from self._end(applications.ALERT_OF[taken.over.direction], key, rules.BACK)
        shift, turned = taken.found, taken.turned
        if shift is not None and model.of_one_size_only(shift.sizes, shift.since_run):
            self.published(key.id)  # no shift of the application: its other sizes may have kept their level
        elif shift is not None:
            turned = None
            yield from self._report_shift(key, shift, about, back=self._move(model, shift))
        elif taken.judgement is not None and about is not None:
            yield from self._report_outlier(key, scored, taken, report)
        if turned is not None:
            yield from self._turn(key, model, scored, turned, about)

    def published(self, application_id: str) -> None:
        """Record that the published curve now takes the last shift into account."""
        drift = self._state.drifts.get(application_id)
        if drift is not None and drift.shift is not None:
            drift.adopted()
            self._state.drifts.changed(application_id, drift, self._state.now_ms)

    def _report_outlier(
        self, key: ApplicationKey, scored: Scored, taken: DriftFindings, report: RunReport
    ) -> Emits[None]:
        """Raise the alert about an outlier.

        The run is judged by the prediction that users saw, because the curve ignores load and other inputs.
        """
        settings, judgement = self._state.settings.alerts.strange_run, taken.judgement
        seen = scored if report.predicted is None else seen_by_users(scored, report.predicted)
        if judgement is not None and judgement.outlier * seen.ln_ratio > 0.0 and not seen.inside:
            event, about = report.event, report.about
            neighbours = self._state.causes.neighbours(event.system, event.job_id, report.evidence.hosts, event.end_ms)
            about = about._replace(neighbours=neighbours)
            condition = applications.strange_run(key, seen, judgement, settings, self._state.now_ms, about=about)
            yield from self._warnings.take(condition, about=about)
        # whether the outlier was one run or a change of its size is open until a run of the same size ends
        for outlier in sorted(taken.open_questions):
            self._warnings.renew(rules.STRANGE_RUN.name, applications.strange_run_labels(key, outlier))

    def _turn(
        self, key: ApplicationKey, model: RunTime, scored: Scored, turned: SizeTurn, about: About | None
    ) -> Emits[None]:
        """Move the level of one size, and raise the alert about the size, which replaces the alert about the outlier.

        `about` is None for an old run, which raises no alert.
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
            condition = applications.size_turned(key, scored, moved, turned.noise, settings=settings, now_ms=now_ms)
            yield from self._warnings.take(condition, about=about)

    def _move(self, model: RunTime, shift: Shift) -> bool:
        margin = max(MARGIN_MIN, 2 * shift.noise / math.sqrt(shift.runs))
        self._state.tally["shift", shift.direction] += 1
        return model.move_level(
            shift.since_run, shift.since_ms, math.log(shift.factor), margin=margin, detected_ms=self._state.now_ms
        )

    def _report_shift(self, key: ApplicationKey, shift: Shift, about: About | None, *, back: bool) -> Emits[None]:
        """End the alerts that a shift explains, and raise the alert about the shift.

        If the run times only return to an earlier level (`back`) and the alert about the opposite shift was open, no new alert is
        raised.
        """
        slower, now_ms = shift.direction == "regression", self._state.now_ms
        opposite = rules.IMPROVEMENT if slower else rules.REGRESSION
        if back:
            undone = yield from self._end(opposite, key, rules.BACK)
        else:
            undone = yield from self._end(opposite, key, rules.OVERTAKEN, by="superseded")
        direction = "slow" if slower else "fast"
        yield from self._end(rules.STRANGE_RUN, key, rules.EXPLAINED, by="superseded", direction=direction)
        condition = applications.shifted(
            key, shift, self._state.settings.alerts.shift, now_ms, self._moved_counters(key, shift)
        )
        if about is not None and not (back and undone):
            yield from self._warnings.take(condition, about=about)

    def _moved_counters(self, key: ApplicationKey, shift: Shift) -> MovedCounter | None:
        profiles = self._state.profile_models.get(key.id)
        if profiles is None:
            return None
        with guard(self._state, ProfileModels.name):  # an exception in counters must not prevent the alert
            return profiles.moved(shift.since_ms)
        return None

    def _end(self, rule: AlertType, key: ApplicationKey, why: str, by: AlertEnd = "itself", **more: str) -> Emits[bool]:
        labels = {**rules.application_labels(key), **more}
        return self._warnings.ends(rule.ended(labels, why.format_map(labels), self._state.now_ms, by=by))


class Training:
    """Trains the run-time models of one shard: each run is scored against the published curve before it is learned."""

    def __init__(self, state: ShardState, warnings: Warnings, unseen: UnseenInputs) -> None:
        self._state = state
        self._warnings = warnings
        self._unseen_inputs = unseen
        self._drift_detection = DriftDetection(state, warnings)

    def train(self, application_id: str, fact: RunFact, report: RunReport) -> Emits[SlowedBy | None]:
        """Learn a run; return the faulty host that explains why the run was slow, or None.

        The part of a run time that host load explains is removed before drift detection, because in the simulated centre three
        of four regressions were loaded hosts. A slow run on a faulty host is not evidence of a change either.
        """
        model = self._state.models.open(application_id)
        if report.stays and not model.holds(fact.run_id):
            self._state.tally["refused", "correction_too_late"] += 1
            return None
        scored, slowed_by = model.score(fact), None
        if report.kind == "first":
            self._compare_members(application_id, model, fact, scored)
        if scored is None or report.kind != "first":
            model.learn(fact, self._drift_detection.outlier(application_id, scored))
        elif report.cause is not None and scored.ln_ratio > LN_RATIO_MIN:
            slowed_by = self._learn_slowed(model, scored, report, report.cause)
        else:
            yield from self._learn_scored(model, scored, report)
        lane = lane_of_run(application_id, report.evidence.user, self._state.models.lane(application_id))
        self._state.model_changed(application_id, model, lane)
        self._unseen_inputs.ran(application_id, report.placement.input_sizes, model)
        return slowed_by

    def forget(self, application_id: str, run_id: str) -> bool:
        """Remove a run from the model that learned it; return False if the model has merged it with other runs."""
        profiles = self._state.profile_models.get(application_id)
        if profiles is not None and profiles.forget(run_id):
            self._state.profile_models.changed(application_id, profiles, self._state.now_ms)
        model = self._state.models.get(application_id)
        if model is None or not model.forget(run_id, self._state.now_ms):
            return False
        self._state.model_changed(application_id, model)
        self._unseen_inputs.fitted(ApplicationKey.parse(application_id), model)
        return True

    def _learn_slowed(self, model: RunTime, scored: Scored, report: RunReport, cause: HostCause) -> SlowedBy:
        """Learn a run that a faulty host slowed down."""
        fact, key = scored.run, ApplicationKey.parse(report.placement.application_id or "")
        # an outlier even inside the band, because slowed runs have widened the band
        model.learn(fact, 1, round(report.ln_load, 4))
        model.note(scored)
        factor = round(math.exp(min(scored.ln_ratio, FACTOR_LN_MAX)), 3)
        self._warnings.explained(key.system, cause, ExplainedRun(fact.run_id, key.id, factor, fact.end_ms))
        return SlowedBy(cause.host, factor)

    def _learn_scored(self, model: RunTime, scored: Scored, report: RunReport) -> Emits[None]:
        """Learn the first report of a run, and handle a shift of run times if the run confirms one."""
        application_id, detection = report.placement.application_id or "", self._drift_detection
        quiet = without_load(scored, report.ln_load)
        slowed = detection.outlier(application_id, scored) if quiet is not scored else 0
        residual = scored.ln_ratio - report.ln_load if quiet is not scored else None
        taken = detection.take(application_id, model, ScoredRun(quiet, report.attributes, residual))
        outlier = taken.judgement.outlier if taken.judgement else 0
        model.learn(scored.run, outlier or slowed, round(scored.ln_ratio - quiet.ln_ratio, 4))
        model.note(scored)
        yield from detection.follow(model, quiet, taken, report)

    def _compare_members(self, application_id: str, model: RunTime, fact: RunFact, scored: Scored | None) -> None:
        """Score the prediction of each ensemble member for the run."""
        members, published = self._state.members.get(application_id), model.published
        if members is None or published is None:
            return
        horizon = scored.horizon if scored else published.horizon(fact.n)
        members.learn(MemberFact(fact.n, fact.run_time_s, horizon, scored.ln_ratio if scored else None))
        self._state.members.changed(application_id, members, self._state.now_ms)


def seen_by_users(scored: Scored, predicted: PredictedAtStart) -> Scored:
    """Return `scored` with the prediction that users saw during the run in place of the curve's prediction."""
    return msgspec.structs.replace(
        scored,
        expected_s=predicted.run_time_s,
        low_s=predicted.low_s,
        high_s=predicted.high_s,
        ln_ratio=math.log(scored.run.run_time_s / predicted.run_time_s),
        inside=predicted.holds(scored.run.run_time_s),
    )


NOTHING = 0  # the digest that stands for "no application"
AS_BEFORE = "as before"


class Completions:
    """Processes completed runs, each exactly once."""

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

    def begin(self, event: JobCompleted) -> CompletionWork:
        """Return the work item for a report of a completed run."""
        key = job_key(event.system, event.job_id)
        job = self._state.jobs.open(key)
        return CompletionWork(event, key, job, report=self._report(job, event))

    def recognise(self, work: CompletionWork) -> MayStop:
        """End the processing of a repeat and of a run that is too old; count a completed run from which no model can learn."""
        report, event, tally = work.report, work.event, self._state.tally
        if report.kind == "too_old":
            tally["refused", "too_old"] += 1
            return STOP
        if report.kind == "repeat":
            tally["event", "repeated"] += 1
            return STOP
        part = PART_OF in report.evidence.attributes
        sized = report.placement.n is not None or part
        if report.fact is None and event.state == SUCCESS and event.run_time_s > 0 and sized:
            tally["refused", "not_one_size" if work.job.resized or part else "implausible"] += 1
        return None

    def compare_with_similar_runs(self, work: CompletionWork) -> None:
        """Add a run to the histories of its user, name and class, unless the run is part of a resized job."""
        report = work.report
        if report.kind != "first":
            self._similar_runs.correct(work.job, report)
        elif not work.job.resized:
            self._similar_runs.learn(report, self._curve_point(report))

    def take_away(self, work: CompletionWork) -> None:
        """If a correction assigns a run to another application, remove the run from the model of the former application."""
        report, former = work.report, work.report.learned_by
        if former is None or report.stays:
            return
        self._features.forget(former, work.event.run_id)
        self._machines.forget(former, work.event)
        work.held = self._training.forget(former, work.event.run_id)
        if not work.held:
            self._state.tally["refused", "correction_too_late"] += 1
        elif not self._state.models.open(former).observations:
            work.emptied.append(former)

    def learn(self, work: CompletionWork) -> Emits[None]:
        """Score a run against the published curve, detect drift, and train the model of its application."""
        report, application_id = work.report, work.report.placement.application_id
        if work.held and report.fact is not None and application_id is not None:
            work.slowed_by = yield from self._training.train(application_id, report.fact, report)
            self._machines.learn(application_id, work.event)

    def count_failures(self, work: CompletionWork) -> Emits[None]:
        """Count the outcome of a run for its application, its hosts and the centre."""
        return self._outcomes.take(work.report)

    def remember(self, work: CompletionWork) -> None:
        """Remember a run, so that a repeated report is recognised."""
        event, application_id = work.event, work.report.placement.application_id
        known = KnownRun(digest64(application_id) if application_id else NOTHING, work.report.content)
        self._known_runs.remember(event.run_id, event.start_ms, known)

    def move(self, work: JobWork, event: JobCompleted, former: Placement, placement: Placement) -> Emits[None]:
        """Assign an ended run to another application or size, because late evidence identifies the run differently."""
        known = self._known_runs.find(event.run_id, event.start_ms)
        fact, learned_by = self._fact(work.job, event, placement), self._learned_by(known)
        evidence, content = work.job.evidence_of(event), _content(event, placement, fact)
        report = RunReport("moved", event, evidence, placement, fact, content, former, learned_by)
        moved = CompletionWork(event, work.key, work.job, work.emptied, report=report)
        self.compare_with_similar_runs(moved)
        self.take_away(moved)
        yield from self.learn(moved)
        yield from self.count_failures(moved)
        self.remember(moved)

    def place(self, job: Job, event: JobCompleted) -> Placement:
        """Return the application and the size of a run, identified from all evidence of its job."""
        identified = self._state.identify(job.evidence_of(event), event.system, job.identities, None)
        key = identified.key
        return Placement(
            key.id if key else None, identified.n, identified.source, identified.confidence, identified.input_sizes
        )

    def has_ended(self, event: JobStarted) -> bool:
        """Return whether the run whose start `event` reports has already ended, or may have ended."""
        run_id, start_ms = event.run_id, event.start_ms
        return self._known_runs.find(run_id, start_ms) is not None or self._known_runs.is_forgotten(run_id, start_ms)

    def _report(self, job: Job, event: JobCompleted) -> RunReport:
        evidence = job.evidence_of(event)
        if self._known_runs.is_forgotten(event.run_id, event.start_ms):
            return RunReport("too_old", event, evidence, Placement(None, None, "none", 0.0))
        known = self._known_runs.find(event.run_id, event.start_ms)
        former = self._former(job, event, known)
        placement = self._placement(job, event, former)
        fact = self._fact(job, event, placement)
        content, is_first = _content(event, placement, fact), known is None
        is_repeat = known is not None and known.matches(content) and _same_place(known, placement, former)
        kind: ReportKind = "first" if is_first else "repeat" if is_repeat else "correction"
        return RunReport(
            kind,
            event,
            evidence,
            placement,
            fact,
            content,
            former,
            self._learned_by(known),
            reported_attributes(job, evidence),
            self._under_loads.explained(job, event, placement) if is_first else 0.0,
            self._cause(evidence.hosts, event) if is_first else None,
            job.prediction_for(event) if is_first else None,
        )

    def _learned_by(self, known: KnownRun | None) -> str | None:
        """Return the id of the application whose model has learned a run; None if no model has."""
        return self._state.application_id(known.application) if known is not None and known.trained else None

    def _former(self, job: Job, event: JobCompleted, known: KnownRun | None) -> Placement | None:
        """Return the placement from the previous report of a run; None for a first report or a forgotten placement."""
        if known is None:
            return None
        pending, application_id = job.ended_run(event.run_id), self._state.application_id(known.application)
        if pending is not None:
            return pending.placement
        return Placement(application_id, None, AS_BEFORE, 1.0) if application_id else None

    def _placement(self, job: Job, event: JobCompleted, former: Placement | None) -> Placement:
        # a second report may come from a poorer source, or after the other evidence of the job was forgotten
        placement = self.place(job, event)
        if former is None or former.application_id is None:
            return placement
        application_id, n, source = placement.application_id, placement.n, placement.source
        if application_id != former.application_id and placement.confidence < former.confidence:
            unit = ApplicationKey.parse(former.application_id).unit
            application_id, n, source = former.application_id, event.evidence.sizes.get(unit), AS_BEFORE
        if n is None and application_id == former.application_id:
            model = self._state.models.get(application_id)
            n = former.n or (model.n_of(event.run_id) if model else None)
        sizes = placement.input_sizes if application_id == placement.application_id else ()
        return Placement(application_id, n, source, placement.confidence, sizes)

    def _curve_point(self, report: RunReport) -> PublishedPoint | None:
        """Return the published prediction for a run.

        None if there is none, if the run did not complete, or if the load of its hosts changed its run time.
        """
        event, placement = report.event, report.placement
        if event.state != SUCCESS or placement.application_id is None or placement.n is None:
            return None
        if abs(report.ln_load) >= LN_RATIO_MIN:
            return None
        model = self._state.models.get(placement.application_id)
        return model.published.curve_at(placement.n) if model is not None and model.published is not None else None

    def _cause(self, hosts: tuple[str, ...], event: JobCompleted) -> HostCause | None:
        """Return the fault of a host that may have slowed the run; None if no fault is known."""
        cause = self._state.causes.cause(event.system, hosts, event.start_ms, event.end_ms)
        return cause if cause is not None and not cause.power_only else None

    def _fact(self, job: Job, event: JobCompleted, placement: Placement) -> RunFact | None:
        if placement.application_id is None or not trains(placement.n, event, resized=job.resized):
            return None
        return RunFact(
            event.run_id, float(placement.n), event.run_time_s, event.start_ms, event.end_ms, self._state.now_ms
        )


def _content(event: JobCompleted, placement: Placement, fact: RunFact | None) -> int:
    return content_digest(placement.n, event.run_time_s, event.state, event.end_ms, trained=fact is not None)


def _same_place(known: KnownRun, placement: Placement, former: Placement | None) -> bool:
    """Return whether a report assigns the run to the same application as before; True if the former application is forgotten."""
    application_id = placement.application_id
    same = known.application == (digest64(application_id) if application_id else NOTHING)
    return same or (former is None and known.application != NOTHING)


class Forgetting:
    """Removes applications: their state, their prediction and their alerts."""

    def __init__(self, state: ShardState, warnings: Warnings) -> None:
        self._state = state
        self._warnings = warnings

    def forget_emptied(self, work: JobWork) -> Emits[None]:
        """Forget the applications in `work.emptied`, which have lost their last run."""
        for application_id in work.emptied:
            yield from self.forget(application_id)

    def forget_excess_applications(self, _work: object) -> Emits[None]:
        """Forget applications until at most `applications_max` are left, least recently used first."""
        state = self._state
        for application_id in state.models.excess(state.models.bound, state.stale_ms):
            yield from self.forget(application_id)
            state.tally["bound", "applications_max"] += 1

    def forget(self, application_id: str) -> Emits[None]:
        """Forget one application: end its alerts, remove its state, and withdraw its prediction."""
        model, key = self._state.models.get(application_id), ApplicationKey.parse(application_id)
        flagged = model.flagged if model else ()
        verdicts = self._state.settings.alerts.unreliable.verdicts
        yield from self._warnings.take(*applications.forgotten(key, flagged, verdicts, self._state.now_ms))
        if model is not None and model.transferred:
            self._state.teach((model.transferred, {}))
        for store in self._state.per_application:
            store.remove(application_id)
        self._state.similar_runs.remove(name_key(key.system, application_id))
        self._forget_shared(key)
        self._state.forget_unused_id(application_id)
        # an application without a published prediction needs no tombstone
        if model is not None and model.published is not None:
            yield Tombstone("predictions", application_id)

    def _forget_shared(self, key: ApplicationKey) -> None:
        """Remove an application from its related curves and its inputs; what it added to the scores of the centre remains."""
        state, curves_key = self._state, related_curves_key(key)
        related_curves = state.related_curves.get(curves_key)
        if related_curves is not None and related_curves.forget(key.id):
            state.related_curves.changed(curves_key, related_curves, state.now_ms)
        elif related_curves is not None:
            state.related_curves.remove(curves_key)
        inputs = state.inputs.get(inputs_key(key))
        if inputs is None or inputs.of(input_key(key)) is None:
            return
        if inputs.forget(input_key(key)):
            state.inputs.changed(inputs_key(key), inputs, state.now_ms)
        else:
            state.inputs.remove(inputs_key(key))
