"""The state of one shard: a store for each kind of processor, and the time of the newest tick.

Every kind of state is declared once, in `ShardState.__init__`. Checkpoint, restore, metrics and eviction are derived
from this declaration, so a new kind needs one line.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from processors.alerts.lifecycle import AlertLife
from processors.contracts.alerts import AlertSettings
from processors.contracts.errors import ConfigError
from processors.contracts.events import Evidence, Identity
from processors.contracts.hosts import Hosts, HostSettings
from processors.contracts.load import UnderLoadSettings
from processors.contracts.names import ApplicationKey, Identification, escaped
from processors.contracts.nodes import NO_RACKS, Racks
from processors.contracts.outputs import Message, Tombstone
from processors.contracts.settings import FeatureSettings, JobSettings, ProfileSettings, RunTimeSettings
from processors.features.placements import NO_PLACEMENTS, Placements
from processors.features.shared import CommunicationPool, CommunicationPoolState
from processors.features.times import FeatureTimes, FeatureTimesState
from processors.inputs import ApplicationInputs
from processors.jobs.lifecycle import ForecastAllowance, Job
from processors.jobs.memory import (
    AnsweredRequests,
    AnsweredRequestsState,
    ExplainedRuns,
    FailureRate,
    FailureState,
    HostFailureRate,
    HostFailureState,
    LowWater,
    RunDeduplication,
    RunDeduplicationState,
)
from processors.load.messages import LoadPredictor
from processors.load.scores import LoadScores
from processors.models.combination.combine import SHIPPED, Coefficients
from processors.power.blame import PowerBlame
from processors.power.model import ProfileModels, ProfileModelsState
from processors.run_time.calibration import BandPool, Counts
from processors.run_time.drift import Drift
from processors.run_time.machine import Allocations, NodeShapes
from processors.run_time.members import Members
from processors.run_time.messages import Context
from processors.run_time.model import RunTime, RunTimeState
from processors.run_time.related_curves import RelatedCurves, ScorePool
from processors.similar_runs import ModelComparison, SimilarRuns, SimilarRunsState
from processors.store import UNBOUNDED, Kind, P, Processor, Store, digest64, go_on

T = TypeVar("T")
Outgoing = Message | Tombstone
Emits = Generator[Outgoing, None, T]
"""A generator that yields messages and returns a result; only `yield from` runs it."""

EXPLAINING_MAX: Final = 10_000  # hosts with a list of the runs that they explain
LIVE_MAX: Final = 5000
SEEN_LIVE_MAX: Final = 500
FITTED_LIVE_MAX: Final = 64  # decoded models with matrices and runs; each takes up to 5 MB
DAY_MS: Final = 86_400_000
STALE_DAYS: Final = 7
RUNS_A_DAY: Final = 8  # this number of runs keeps the model of an application for one day longer
CENTRE: Final = "centre"  # the key of the state learned from all applications together
# prefix of the failure rate keys of applications; all other keys are of whole systems
OF_APPLICATION: Final = "application/"


Identify = Callable[[Evidence, str, Sequence[Identity], str | None], Identification]
CoefficientsOf = Callable[[ApplicationKey], Coefficients]


def shipped(_key: ApplicationKey) -> Coefficients:
    """Return the default coefficients, which are the same for every application."""
    return SHIPPED


class FoldSettings(msgspec.Struct, frozen=True):
    """The part of the configuration that the fold depends on."""

    jobs: JobSettings
    run_time: RunTimeSettings
    alerts: AlertSettings
    agent_version: str
    hosts: HostSettings = HostSettings()
    under_load: UnderLoadSettings = UnderLoadSettings()
    profiles: ProfileSettings = ProfileSettings()
    features: FeatureSettings = FeatureSettings()
    external_url: str = ""
    racks: Racks = NO_RACKS
    placements: Placements = NO_PLACEMENTS


class ProcessorStores:
    """The stores of a shard, the settings of the processors, and the time of the newest tick."""

    def __init__(self, settings: FoldSettings) -> None:
        self.settings = settings
        self.now_ms = 0
        self.tally: Counter[tuple[str, str]] = Counter()
        self.give_way: Callable[[], None] = go_on  # called between parts of long work
        self.per_application: list[Store[Any]] = []
        self._stores: dict[str, Store[Any]] = {}

    @property
    def context(self) -> Context:
        """The fields that every message has: agent version and time."""
        return Context(self.settings.agent_version, self.now_ms)

    def stores(self) -> Iterator[Store[Any]]:
        """Return every store, in the order of declaration."""
        return iter(self._stores.values())

    def confirm(self) -> None:
        """Mark the saved states as clean, because the checkpoint is durable."""
        for store in self.stores():
            store.confirm()

    def _store(
        self,
        processor: type[P],
        state: type[msgspec.Struct] | None = None,
        *settings: object,
        per_application: bool = False,
        live_max: int = LIVE_MAX,
        bound: int = UNBOUNDED,
    ) -> Store[P]:
        store = self._stores[processor.name] = Store(Kind.of(processor, state, settings), live_max, bound)
        if per_application:
            self.per_application.append(store)
        return store


class ShardState(ProcessorStores):
    """The state of all processors of one shard.

    `per_application` lists the stores whose keys are application ids. `coefficients_of` returns the coefficients of the ensemble
    for an application; only measurements of prediction quality pass another function than `shipped`, so that an application is
    predicted with coefficients that were fitted without it.
    """

    def __init__(
        self,
        settings: FoldSettings,
        identify: Identify,
        hosts: Hosts | None = None,
        coefficients_of: CoefficientsOf = shipped,
    ) -> None:
        super().__init__(settings)
        self.identify = identify
        self.coefficients_of = coefficients_of
        self.windows = self.profiles = self.causes = self.activity = hosts or Hosts()
        self.load_predictor = LoadPredictor(settings.under_load)  # shared by all users, because it caches windows
        # by lane, at the last tick; for display only, not part of the state
        self.waiting_fits: Counter[str] = Counter()
        self._application_ids: dict[int, str] = {}

        jobs, run_time, rates = settings.jobs, settings.run_time, settings.alerts.failure_rate
        applications_max = run_time.applications_max
        self.jobs = self._store(Job, bound=jobs.open_jobs_max)
        self.models = self._store(RunTime, RunTimeState, run_time, per_application=True, bound=applications_max)
        self.known_runs = self._store(
            RunDeduplication, RunDeduplicationState, live_max=SEEN_LIVE_MAX, bound=jobs.deduplication_buckets_max
        )
        self.low_water = self._store(LowWater)
        self.failures = self._store(FailureRate, FailureState, rates, bound=applications_max)
        self.hosts = self._store(HostFailureRate, HostFailureState, rates, bound=rates.hosts_max)
        self.alerts = self._store(AlertLife, bound=settings.alerts.open_max)
        self.answered_requests = self._store(AnsweredRequests, AnsweredRequestsState)
        self.forecast_allowances = self._store(ForecastAllowance)
        self.related_curves = self._store(RelatedCurves)
        self.pool = self._store(ScorePool)
        self.band_pool = self._store(BandPool)
        self.members = self._store(Members, per_application=True)
        self.inputs = self._store(ApplicationInputs)
        self.similar_runs = self._store(SimilarRuns, SimilarRunsState, bound=run_time.similar_runs_max)
        self.model_comparisons = self._store(ModelComparison, per_application=True)
        self.drifts = self._store(Drift, per_application=True)
        self.allocations = self._store(Allocations, per_application=True)
        self.node_shapes = self._store(NodeShapes)
        self.loads = self._store(LoadScores, per_application=True)
        self.power_blames = self._store(PowerBlame)
        self.explained_runs = self._store(ExplainedRuns, bound=EXPLAINING_MAX)
        self.profile_models = self._store(
            ProfileModels, ProfileModelsState, settings.profiles, per_application=True, live_max=FITTED_LIVE_MAX
        )
        self.feature_times = self._store(
            FeatureTimes, FeatureTimesState, settings.features.runs_max, per_application=True, live_max=FITTED_LIVE_MAX
        )
        self.communication_pools = self._store(CommunicationPool, CommunicationPoolState)

    def recent(self, end_ms: int) -> bool:
        """Return whether a run that ended at `end_ms` is recent enough to raise an alert."""
        return self.now_ms - end_ms <= self.settings.alerts.run_age_max_s * 1000

    def model_changed(self, application_id: str, model: RunTime, lane: str | None = None) -> None:
        """Store a new or changed run-time model. The more runs a model has, the later it is evicted after its last use."""
        if application_id not in self.models:
            self._remember(application_id)
        longer_ms = min(model.observations // RUNS_A_DAY, STALE_DAYS) * DAY_MS
        self.models.changed(application_id, model, self.now_ms + longer_ms, lane)

    def teach(self, shares: tuple[Counts, Counts]) -> None:
        """Replace what an application contributed to the band scores of the centre; `shares` are its old and its new counts."""
        if self.band_pool.open(CENTRE).score(shares):
            self.band_pool.learn(CENTRE, shares, self.now_ms)

    def failures_changed(self, key: str, rate: FailureRate, lane: str | None = None) -> None:
        """Store a new or changed failure rate; the key is ``application/`` and the id, or ``centre/`` and the system."""
        if key.startswith(OF_APPLICATION) and key not in self.failures:
            self._remember(key.removeprefix(OF_APPLICATION))
        self.failures.changed(key, rate, self.now_ms, lane)

    @property
    def stale_ms(self) -> int:
        """The time before which entries are stale; a store over its bound first evicts stale entries, of any lane."""
        return self.now_ms - STALE_DAYS * DAY_MS

    def remove_failures(self, key: str) -> None:
        self.failures.remove(key)
        self.forget_unused_id(key.removeprefix(OF_APPLICATION))

    def application_id(self, digest: int) -> str | None:
        """Return the application id with this digest; None if no state of the application is left."""
        return self._application_ids.get(digest)

    def restore(self, states: Mapping[str, bytes]) -> None:
        """Load a checkpoint. Raise ConfigError if a kind of state is unknown to this version."""
        for key, value in states.items():
            kind, _, subkey = key.partition("/")
            if kind not in self._stores:
                raise ConfigError(
                    f"The stored state {key} is of a kind that this agent does not know: it was written by a newer "
                    "agent. Start that one again, or run `scalewatch rebuild`."
                )
            self._stores[kind].restore(subkey, value)
        rates = (key for key in self.failures.keys() if key.startswith(OF_APPLICATION))  # noqa: SIM118  no mapping
        for application_id in (*self.models.keys(), *(key.removeprefix(OF_APPLICATION) for key in rates)):
            self._remember(application_id)

    def _remember(self, application_id: str) -> None:
        self._application_ids[digest64(application_id)] = application_id

    def forget_unused_id(self, application_id: str) -> None:
        if application_id not in self.models and OF_APPLICATION + application_id not in self.failures:
            self._application_ids.pop(digest64(application_id), None)


def related_curves_key(key: ApplicationKey) -> str:
    """Return the key of the state through which the curves of an application learn from each other."""
    return escaped(key.application)


def inputs_key(key: ApplicationKey) -> str:
    """Return the key of the state that holds the inputs of an application, for sizes in one unit."""
    return f"{related_curves_key(key)}/{escaped(key.unit)}"


def stateful() -> tuple[type[Processor[Any, Any]], ...]:
    """Return the class of every kind of processor that a shard keeps, for reference pages and metrics."""
    settings = FoldSettings(JobSettings(), RunTimeSettings(), AlertSettings(), agent_version="")
    return tuple(type(store.open("")) for store in ShardState(settings, _identifies_nothing).stores())


def _identifies_nothing(*_evidence: object) -> Identification:
    raise NotImplementedError
