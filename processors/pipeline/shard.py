"""One shard: a deterministic fold of journal records into messages and state, in stages for each kind of record."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Final, TypeVarTuple
from urllib.parse import unquote

from processors.alerts.lifecycle import AlertLife
from processors.contracts.events import (
    HostState,
    Identity,
    JobCompleted,
    JobProfile,
    JobStarted,
    JournalEvent,
    JournalRecord,
    Network,
    PredictionRequested,
    Tick,
)
from processors.contracts.hosts import ExplainedRunList, HostLines, HostView
from processors.contracts.log import Watermarks
from processors.contracts.names import ApplicationKey, job_key
from processors.contracts.outputs import Answer, Message, Tombstone
from processors.contracts.service import Comparison, LevelChange, ModelFit, Neighbour, Story, StrangeSize, Views
from processors.facts import PublishedCurve
from processors.features.shared import CommunicationPool
from processors.features.times import FeatureTimes
from processors.hosts.lines import LINE_KINDS
from processors.hosts.rows import HostRows
from processors.inputs import ApplicationInputs
from processors.jobs.lifecycle import ForecastAllowance, Job
from processors.jobs.memory import (
    AnsweredRequests,
    ExplainedRuns,
    FailureRate,
    HostFailureRate,
    LowWater,
    RunDeduplication,
)
from processors.load.scores import LoadScores
from processors.models.aggregates.sizes import LEVELS_MAX, Level, LevelTable
from processors.models.aggregates.sketch import ln_factor_of
from processors.pipeline import host_state
from processors.pipeline.alerts import Warnings
from processors.pipeline.answers import Answering
from processors.pipeline.completions import Completions, Forgetting
from processors.pipeline.features import Features
from processors.pipeline.fits import FitQueue
from processors.pipeline.host_state import ARRAYS, encoded, of_hosts
from processors.pipeline.hosts import HostShard
from processors.pipeline.inputs import UnseenInputs
from processors.pipeline.job_alerts import JobAlerts
from processors.pipeline.jobs import Forecasts, Jobs
from processors.pipeline.outcomes import Outcomes
from processors.pipeline.power import PowerPredictions, Profiles
from processors.pipeline.predictor import Predictor
from processors.pipeline.similar_runs import SimilarRunForecasts
from processors.pipeline.stage import STOP, Line, MayStop, TickWork, attempt, of_job, run_stages, stage, tick_stage
from processors.pipeline.state import (
    CoefficientsOf,
    FoldSettings,
    Identify,
    ShardState,
    T,
    inputs_key,
    related_curves_key,
    shipped,
    stateful,
)
from processors.power.blame import PowerBlame
from processors.power.model import ProfileModels
from processors.run_time.calibration import BandPool
from processors.run_time.drift import Drift
from processors.run_time.machine import Allocations, NodeShapes
from processors.run_time.members import Members
from processors.run_time.model import RunTime
from processors.run_time.related_curves import RelatedCurves, ScorePool
from processors.similar_runs import ModelComparison, SimilarRuns
from processors.store import Unsaved

Arguments = TypeVarTuple("Arguments")

HOSTS_MAX: Final = 1_000  # most hosts in one answer
DIGITS: Final = 3
FLOOD_MIN: Final = 500  # fewest waiting keys of a lane that floods the shard
COMPARISONS: Final[dict[str, Comparison]] = {"SlowSize": "slower", "FastSize": "faster"}


def story_of(state: ShardState, application_id: str) -> Story | None:
    """Return the history of the model of an application; None for an application without a model. Changes no state."""
    model = state.models.get(application_id)
    if model is None:
        return None
    key, stored, curve = ApplicationKey.parse(application_id), model.snapshot(), model.published
    runs, table = stored.runs, LevelTable.build(stored.sizes or None)
    curves, inputs = state.related_curves.get(related_curves_key(key)), state.inputs.get(inputs_key(key))
    changes = list(_changes(table.levels))
    for n, levels in table.of_sizes.items():
        changes += _changes(levels, n)
    flagged = {n: COMPARISONS[alert] for alert, n in model.flagged if alert in COMPARISONS}
    return Story(
        application_id=application_id,
        time_ms=state.now_ms,
        runs=model.observations,
        sizes=model.sizes(),
        newest_run_ms=model.newest_ms,
        newest_runs=len(runs),
        slow_runs=sum(run.outlier > 0 for run in runs),
        fast_runs=sum(run.outlier < 0 for run in runs),
        loaded_runs=sum(run.ln_load > 0 for run in runs),
        level_changes=tuple(sorted(changes, key=lambda change: change.time_ms)),
        strange_sizes=tuple(
            StrangeSize(n, flagged.get(n)) for n in sorted({*flagged, *(curve.excluded if curve else ())})
        ),
        fit=_fit(curve) if curve is not None else None,
        fit_due_ms=model.due_ms(),
        related_curves=sum(curve.key != application_id for curve in curves.related.curves) if curves is not None else 0,
        inputs=len(inputs.records) if inputs is not None else 0,
        quality=model.quality,
    )


def _changes(levels: Sequence[Level], n: float | None = None) -> Iterator[LevelChange]:
    """Yield the stored changes of level of size `n`; of all sizes together if `n` is None. The first level may be forgotten."""
    remembered_all = len(levels) < LEVELS_MAX
    before = 0 if remembered_all else levels[0].position
    for level in levels if remembered_all else levels[1:]:
        yield LevelChange(level.since_ms, round(math.exp(ln_factor_of(level.position - before)), DIGITS), n)
        before = level.position


def _fit(curve: PublishedCurve) -> ModelFit:
    return ModelFit(
        time_ms=curve.time_ms,
        runs=curve.observations,
        model=curve.model,
        weights={name: round(weight, DIGITS) for name, weight in curve.weights.items()},
        verdicts=tuple((point.n, curve.judged(point)) for point in curve.points),
        whole=curve.whole,
    )


# Every kind of state that a shard keeps, of jobs and of hosts.
STATEFUL: Final[tuple[Any, ...]] = (*stateful(), *host_state.COLUMNS, *host_state.STORED)
PROCESSORS: Final = tuple(processor.name for processor in STATEFUL) + ARRAYS + LINE_KINDS

NO_TURN: Final = nullcontext()
# state that learns from a settled run
SETTLED: Final = (Job, ProfileModels, FeatureTimes, CommunicationPool, RunTime, AlertLife, PowerBlame)
FITTED: Final = (RunTime, Members, Drift, RelatedCurves, ScorePool, BandPool, ApplicationInputs, AlertLife)
LEARNED: Final = (  # state that changes if a run is added or removed
    RunTime, Members, Drift, Allocations, ModelComparison, ProfileModels, FeatureTimes, CommunicationPool, SimilarRuns,
    ApplicationInputs, AlertLife,
)  # fmt: skip
FORGOTTEN: Final = (  # state that is deleted with an application
    RunTime, Members, Drift, Allocations, ModelComparison, LoadScores, ProfileModels, FeatureTimes, SimilarRuns,
    RelatedCurves, BandPool, ApplicationInputs, AlertLife,
)  # fmt: skip


class Shard:
    """The complete state of one journal partition. The same records give bit-identical messages and state."""

    def __init__(self, settings: FoldSettings, identify: Identify, coefficients_of: CoefficientsOf = shipped) -> None:
        self.hosts = HostShard(settings)
        self.watermarks = Watermarks()
        self.state = ShardState(settings, identify, self.hosts, coefficients_of)
        state, self._warnings = self.state, Warnings(self.state)
        self._similar_runs, self._features = similar_runs, features = SimilarRunForecasts(state), Features(state)
        inputs, power = UnseenInputs(state), PowerPredictions(state)
        self._predictor = Predictor(state, similar_runs, features, inputs)
        completions = Completions(state, self._warnings, similar_runs, features, inputs)
        forecasts = Forecasts(state, self._predictor, features, power, JobAlerts(state, self._warnings))
        profiles = Profiles(state, self._warnings, power)
        jobs = Jobs(state, completions, forecasts, features, profiles)
        fits = FitQueue(
            state, self._warnings, self._predictor, similar_runs, features=features, unseen=inputs, power=power
        )
        self._answering = Answering(state, self._predictor, features, inputs, power)
        self.lines = self._pipeline(completions, jobs, profiles, fits)

    def _pipeline(self, completions: Completions, jobs: Jobs, profiles: Profiles, fits: FitQueue) -> dict[type, Line]:
        """Return the stages of each kind of record, in order, with the kinds of state that each stage may write."""
        state, answers, failures = self.state, self._answering, Outcomes(self.state, self._warnings)
        forgetting = Forgetting(state, self._warnings)
        return {
            JobStarted: Line(partial(of_job, state), (
                stage(jobs.remember),
                stage(jobs.forecast_end, ForecastAllowance, AlertLife),
                stage(jobs.keep, Job),
            )),
            Identity: Line(partial(of_job, state), (
                stage(jobs.remember),
                stage(jobs.place_again, FailureRate, HostFailureRate, RunDeduplication, LowWater, NodeShapes, *LEARNED),
                stage(forgetting.forget_emptied, *FORGOTTEN),
                stage(jobs.forecast_end, AlertLife),
                stage(jobs.keep, Job),
            )),
            Network: Line(partial(of_job, state), (
                stage(jobs.remember_network),
                stage(jobs.revise_end, AlertLife),
                stage(jobs.keep, Job),
            )),
            JobCompleted: Line(completions.begin, (
                stage(completions.recognise),
                stage(fits.catch_up, *FITTED),
                stage(completions.compare_with_similar_runs, SimilarRuns, ModelComparison),
                stage(completions.take_away, NodeShapes, *LEARNED),
                stage(forgetting.forget_emptied, *FORGOTTEN),
                stage(completions.learn, NodeShapes, ExplainedRuns, *LEARNED),
                stage(completions.count_failures, FailureRate, HostFailureRate, AlertLife),
                stage(completions.remember, RunDeduplication, LowWater),
                stage(jobs.end, LoadScores, *SETTLED),
                stage(jobs.keep, Job),
            )),
            JobProfile: Line(partial(of_job, state), (stage(profiles.remember, Job),)),
            HostState: Line(lambda event: event, (stage(failures.forget_host, HostFailureRate, AlertLife),)),
            PredictionRequested: Line(lambda event: event, (
                stage(answers.deduplicate, AnsweredRequests),
                stage(answers.publish),
            )),
            Tick: Line(TickWork, (
                stage(self._advance),
                tick_stage(jobs.settle_due, (state.jobs, state.forecast_allowances), ForecastAllowance, *SETTLED),
                tick_stage(profiles.fit_profiles, (state.profile_models,), ProfileModels),
                tick_stage(fits.fit_curves, (state.models,), *FITTED),
                tick_stage(forgetting.forget_excess_applications, (state.models,), *FORGOTTEN),
                tick_stage(
                    self._features.fit_features, (state.feature_times, state.communication_pools),
                    FeatureTimes, CommunicationPool,
                ),
                tick_stage(failures.forget_excess, (state.hosts, state.failures), FailureRate, HostFailureRate, AlertLife),
                tick_stage(
                    self._warnings.fire_and_resolve, (state.alerts, state.explained_runs), AlertLife, ExplainedRuns
                ),
                tick_stage(answers.forget_old, (state.answered_requests,), AnsweredRequests),
                tick_stage(self._similar_runs.evict, (state.similar_runs,), SimilarRuns),
            )),
        }  # fmt: skip

    @property
    def now_ms(self) -> int:
        """The time of the newest tick."""
        return self.state.now_ms

    def fold(self, record: JournalRecord) -> list[Message | Tombstone]:
        """Fold a record into the state and return the messages to send.

        If this method raises, no message about jobs is sent for the record, and the caller reports the refused record. Messages
        about hosts are then returned by the next call.
        """
        event = self._in_time(record.event)
        attempt(self.state, HostRows.name, self.hosts.take, event)  # an exception in host state does not stop the jobs
        line = self.lines.get(type(event))
        messages = run_stages(self.state, line, event) if line is not None else []
        self.state.tally["event", "processed"] += 1
        return messages + self.hosts.sent()

    def give_way_by(self, give_way: Callable[[], None]) -> None:
        """Set the function that is called between slices of long work; this function may answer requests, but must not fold records."""
        self.state.give_way = self.hosts.state.give_way = give_way

    def fold_hosts(self, record: JournalRecord) -> list[Message | Tombstone]:
        """Fold a record into the host state alone, after a restart: host states are stored less often than job states."""
        attempt(self.state, HostRows.name, self.hosts.take, self._in_time(record.event))
        self.state.tally["event", "processed"] += 1
        return self.hosts.sent()

    def answer(self, request: PredictionRequested) -> Answer:
        """Answer a request that is not in the journal; changes no state."""
        return self._answering.answer(request)

    def first_hosts(self, limit: int) -> list[tuple[str, str]]:
        """Return system and name of at most `limit` hosts: anomalous hosts first, then by system and name."""
        return self.hosts.views.names(min(limit, HOSTS_MAX))

    def views(self, system: str, turn: AbstractContextManager[object] = NO_TURN) -> "ShardViews":
        """Return the views of a system; each call enters `turn`, so that no call reads state in the middle of a fold."""
        return ShardViews(self, system, turn)

    def tallied(self) -> dict[tuple[str, str], int]:
        """Return the counts since the last call, for metrics."""
        tally = self.state.tally + self.hosts.state.tally
        self.state.tally.clear()
        self.hosts.state.tally.clear()
        return dict(tally)

    def restore(self, states: Mapping[str, bytes], now_ms: int, hosts_now_ms: int | None = None) -> None:
        """Restore a checkpoint; if `hosts_now_ms` is None, ignore stored host states and start the hosts empty."""
        hosts = {key: value for key, value in states.items() if of_hosts(key)}
        self.state.now_ms = now_ms
        self.state.restore({key: value for key, value in states.items() if key not in hosts})
        if hosts_now_ms is None:
            self.hosts.state.forget(set(hosts))
        else:
            self.hosts.restore(hosts, hosts_now_ms)

    def unsaved(self, *, with_hosts: bool = False) -> Unsaved:
        """Return a snapshot of every state that a checkpoint has to write; the snapshot is encoded later while the fold continues.

        States of hosts are included only if `with_hosts` is set, because they are large.
        """
        if not with_hosts:
            return Unsaved(list(self.state.stores()))
        rows = partial(encoded, self.hosts.state.copied())
        return Unsaved([*self.state.stores(), *self.hosts.state.stores()], rows)

    def sizes(self) -> dict[str, int]:
        """Return the number of states or rows by processor."""
        return {store.kind.name: len(store) for store in self.state.stores()} | self.hosts.state.sizes()

    def flood(self) -> str | None:
        """Return the name of the user, application or system whose fits flood the shard; None if there is no flood.

        A lane floods the shard if it has at least FLOOD_MIN waiting fits, and more than all other lanes together.
        """
        waiting = self.state.waiting_fits
        lane = max(waiting, key=lambda lane: (waiting[lane], lane), default="")
        if waiting[lane] < FLOOD_MIN or 2 * waiting[lane] <= waiting.total():
            return None
        system, *owner = (unquote(part) for part in lane.split("/"))
        return f"{' '.join(owner)} of {system}" if owner else f"system {system}"

    def confirm(self, *, with_hosts: bool = False) -> None:
        """Record that the checkpoint of `unsaved` is durable."""
        self.state.confirm()
        if with_hosts:
            self.hosts.state.confirm()

    def _in_time(self, event: JournalEvent) -> JournalEvent:
        """Return a tick with the time that all collectors have reached, in place of its own time; other events are unchanged."""
        if not isinstance(event, Tick):
            return event
        self.watermarks = self.watermarks.after(event)
        return Tick("", time_ms=self.watermarks.now_ms)

    def _advance(self, work: TickWork) -> MayStop:
        """Advance the present time to that of the tick; end the processing of a tick that is not later."""
        if work.event.time_ms <= self.state.now_ms:
            self.state.tally["event", "repeated"] += 1
            return STOP
        work.since_ms, self.state.now_ms = work.event.time_ms - self.state.now_ms, work.event.time_ms
        self.state.waiting_fits = Counter()
        return None


class ShardViews(Views):
    """The views of one system of a shard."""

    def __init__(self, shard: Shard, system: str, turn: AbstractContextManager[object]) -> None:
        self._shard, self._system, self._turn = shard, system, turn

    def host(self, host: str) -> HostView | None:
        return self._ask(self._shard.hosts.views.host, self._system, host)

    def host_lines(self, host: str, resource: str | None = None) -> HostLines | None:
        return self._ask(self._shard.hosts.views.lines, self._system, host, resource)

    def hosts_of_job(self, job_id: str) -> Sequence[str]:
        return self._ask(self._shard.hosts.jobs.of, job_key(self._system, job_id))

    def neighbours(self, job_id: str) -> Sequence[Neighbour]:
        return self._ask(self._shard.hosts.jobs.neighbours_of, job_key(self._system, job_id))

    def explained_runs(self, host: str) -> ExplainedRunList:
        with self._turn:
            runs = self._shard.state.explained_runs.get(job_key(self._system, host))
            return ExplainedRunList() if runs is None else runs.explained

    def story(self, application_id: str) -> Story | None:
        return self._ask(story_of, self._shard.state, application_id)

    def _ask(self, question: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
        with self._turn:
            return question(*arguments)
