"""The desk: what all parts of the fold share. Shelves of processors, settings, the present moment, and the outbox."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol
from urllib.parse import quote

import msgspec

from processors.alerts.lifecycle import AlertLife, AlertState
from processors.contracts.errors import ConfigError
from processors.contracts.events import Evidence, Identity
from processors.contracts.hosts import HostSettings, NoProfiles, NoWindows, Profiles, Windows
from processors.contracts.load import UnderLoadSettings
from processors.contracts.names import SAFE, ApplicationKey
from processors.contracts.outputs import Message
from processors.contracts.settings import AlertSettings, FeatureSettings, JobSettings, ProfileSettings, RunTimeSettings
from processors.features import FeatureTimes, FeatureTimesState
from processors.inputs import Inputs, InputsState, input_key
from processors.jobs.deduplication import Asked, AskedState, LowWater, LowWaterState, SeenRuns, SeenState
from processors.jobs.failures import FailureRate, FailureState, HostFailureRate
from processors.jobs.lifecycle import Job, JobState
from processors.load.scores import LoadScores, LoadScoresState
from processors.power.model import ProfileModels, ProfileModelsState
from processors.run_time.drift import Drift, DriftState
from processors.run_time.members import Members, MembersState
from processors.run_time.messages import Context
from processors.run_time.model import UPGRADES, RunTime, RunTimeState
from processors.run_time.related_curves import Laws, LawsState, Pool, PoolState
from processors.similar_runs import Rivals, RivalsState, RunHistory, RunHistoryState, name_key
from processors.store import Kind, Shelf, digest64

# Under which keys things of several curves are kept.


def laws_key(key: ApplicationKey) -> str:
    """Return the key under which all curves of an application teach each other."""
    return quote(key.application, safe=SAFE)


def inputs_key(key: ApplicationKey) -> str:
    """Return the key under which the inputs of an application in one unit are kept."""
    return f"{laws_key(key)}/{quote(key.unit, safe=SAFE)}"


STATEFUL: Final = (
    Job,
    RunTime,
    SeenRuns,
    LowWater,
    FailureRate,
    HostFailureRate,
    AlertLife,
    Asked,
    Laws,
    Pool,
    Members,
    Inputs,
    RunHistory,
    Rivals,
    Drift,
    LoadScores,
    ProfileModels,
    FeatureTimes,
)

PROFILE_MODELS_LIVE_MAX: Final = 64  # decoded ones hold matrices and runs, up to 5 MB each


class Identified(Protocol):
    """What identification tells of a job."""

    @property
    def key(self) -> ApplicationKey | None:
        """The key of the application's curve; None for a job that nothing names."""

    @property
    def n(self) -> float | None:
        """The size in the key's unit."""

    @property
    def source(self) -> str:
        """Where the name came from."""

    @property
    def confidence(self) -> float:
        """How sure it is, between 0 and 1."""

    @property
    def reason(self) -> str | None:
        """Why there is no name."""

    @property
    def input_sizes(self) -> tuple[tuple[str, float], ...]:
        """How large the input is: names and numbers, as far as they are known."""


Identify = Callable[[Evidence, str, Sequence[Identity], str | None], Identified]


OF_APPLICATION: Final = "application/"  # how keys of failure rates begin; the others are of a whole centre


class Tombstone(msgspec.Struct, frozen=True):
    """A key that leaves a compacted topic."""

    kind: str
    key: str


class FoldSettings(msgspec.Struct, frozen=True):
    """Everything configurable about the fold."""

    jobs: JobSettings
    run_time: RunTimeSettings
    alerts: AlertSettings
    agent_version: str
    hosts: HostSettings = HostSettings()
    under_load: UnderLoadSettings = UnderLoadSettings()
    profiles: ProfileSettings = ProfileSettings()
    features: FeatureSettings = FeatureSettings()


class Desk:
    """Shelves by kind, and what the fold of one event leaves behind: messages to send and a tally for metrics."""

    def __init__(
        self,
        settings: FoldSettings,
        identify: Identify,
        windows: Windows | None = None,
        profiles: Profiles | None = None,
    ) -> None:
        self.settings = settings
        self.identify = identify
        self.windows: Windows = windows or NoWindows()
        self.profiles: Profiles = profiles or NoProfiles()
        self.now_ms = 0
        self.outbox: list[Message | Tombstone] = []
        self.tally: Counter[tuple[str, str]] = Counter()
        self.jobs = Shelf(Kind(Job.name, Job.version, JobState, partial(Job.build, settings.jobs)))
        self.models = Shelf(
            Kind(RunTime.name, RunTime.version, RunTimeState, partial(RunTime.build, settings.run_time), UPGRADES)
        )
        self.seen = Shelf(Kind(SeenRuns.name, SeenRuns.version, SeenState, SeenRuns.build), live_max=500)
        self.low_water = Shelf(Kind(LowWater.name, LowWater.version, LowWaterState, LowWater.build))
        rates = settings.alerts.failure_rate
        self.failures = Shelf(
            Kind(FailureRate.name, FailureRate.version, FailureState, partial(FailureRate.build, rates))
        )
        self.hosts = Shelf(
            Kind(HostFailureRate.name, HostFailureRate.version, FailureState, partial(HostFailureRate.build, rates))
        )
        self.alerts = Shelf(Kind(AlertLife.name, AlertLife.version, AlertState, AlertLife.build))
        self.asked = Shelf(Kind(Asked.name, Asked.version, AskedState, Asked.build))
        self.laws = Shelf(Kind(Laws.name, Laws.version, LawsState, Laws.build))
        self.pool = Shelf(Kind(Pool.name, Pool.version, PoolState, Pool.build))
        self.members = Shelf(Kind(Members.name, Members.version, MembersState, Members.build))
        self.inputs = Shelf(Kind(Inputs.name, Inputs.version, InputsState, Inputs.build))
        self.histories = Shelf(Kind(RunHistory.name, RunHistory.version, RunHistoryState, RunHistory.build))
        self.rivals = Shelf(Kind(Rivals.name, Rivals.version, RivalsState, Rivals.build))
        self.drifts = Shelf(Kind(Drift.name, Drift.version, DriftState, Drift.build))
        self.loads = Shelf(Kind(LoadScores.name, LoadScores.version, LoadScoresState, LoadScores.build))
        self.profile_models = Shelf(
            Kind(
                ProfileModels.name,
                ProfileModels.version,
                ProfileModelsState,
                partial(ProfileModels.build, settings.profiles),
            ),
            live_max=PROFILE_MODELS_LIVE_MAX,
        )
        self.feature_times = Shelf(
            Kind(
                FeatureTimes.name,
                FeatureTimes.version,
                FeatureTimesState,
                partial(FeatureTimes.build, settings.profiles.runs_max),
            ),
            live_max=PROFILE_MODELS_LIVE_MAX,
        )
        self._application_ids: dict[int, str] = {}

    @property
    def context(self) -> Context:
        """What messages say of their maker and moment."""
        return Context(self.settings.agent_version, self.now_ms)

    def application_id(self, digest: int) -> str | None:
        """Return the application that a digest stands for, if anything of it is remembered."""
        return self._application_ids.get(digest)

    def recent(self, end_ms: int) -> bool:
        """Tell whether a run ended so recently that it may raise an alert: history never does."""
        return self.now_ms - end_ms <= self.settings.alerts.run_age_max_s * 1000

    def model_changed(self, application_id: str, model: RunTime) -> None:
        """Take in a model that is new or was changed."""
        self._remember(OF_APPLICATION + application_id)
        self.models.changed(application_id, model, self.now_ms)

    def failures_changed(self, key: str, rate: FailureRate) -> None:
        """Take in a failure rate; its key is ``application/`` and the id, or ``centre/`` and the system."""
        self._remember(key)
        self.failures.changed(key, rate, self.now_ms)

    def remove_model(self, application_id: str) -> None:
        """Forget the model of an application; what was published of it leaves its topic."""
        self.models.remove(application_id)
        self.members.remove(application_id)
        self.drifts.remove(application_id)
        self._forget_digest(application_id)
        self._forget_laws(ApplicationKey.parse(application_id))
        self._forget_input(ApplicationKey.parse(application_id))
        self.rivals.remove(application_id)
        self.loads.remove(application_id)
        self.profile_models.remove(application_id)
        self.feature_times.remove(application_id)
        self.histories.remove(name_key(ApplicationKey.parse(application_id).system, application_id))
        self.outbox.append(Tombstone("predictions", application_id))

    def _forget_laws(self, key: ApplicationKey) -> None:
        # what the curve taught the centre stays
        laws = self.laws.get(laws_key(key))
        if laws is None:
            return
        if laws.forget(key.id):
            self.laws.changed(laws_key(key), laws, self.now_ms)
        else:
            self.laws.remove(laws_key(key))

    def _forget_input(self, key: ApplicationKey) -> None:
        inputs = self.inputs.get(inputs_key(key))
        if inputs is None or inputs.of(input_key(key)) is None:
            return
        if inputs.forget(input_key(key)):
            self.inputs.changed(inputs_key(key), inputs, self.now_ms)
        else:
            self.inputs.remove(inputs_key(key))

    def remove_failures(self, key: str) -> None:
        """Forget a failure rate."""
        self.failures.remove(key)
        self._forget_digest(key.removeprefix(OF_APPLICATION))

    def restore(self, states: Mapping[str, bytes]) -> None:
        """Put stored states back; ConfigError where this agent can not read them."""
        shelves = {shelf.kind.name: shelf for shelf in self.shelves()}
        for key, value in states.items():
            kind, _, own = key.partition("/")
            if kind not in shelves:
                raise ConfigError(
                    f"The stored state {key} is of a kind that this agent does not know: it was written by a newer "
                    "agent. Start that one again, or run `scalewatch rebuild`."
                )
            shelves[kind].restore(own, value)
        for key in [*(OF_APPLICATION + key for key in self.models.keys()), *self.failures.keys()]:  # noqa: SIM118  no mapping
            self._remember(key)

    def dirty(self) -> dict[str, bytes | None]:
        """Return every state that a checkpoint has to write."""
        return {f"{shelf.kind.name}/{key}": value for shelf in self.shelves() for key, value in shelf.dirty().items()}

    def confirm(self) -> None:
        """Take note that the checkpoint of `dirty` is surely there."""
        for shelf in self.shelves():
            shelf.confirm()

    def shelves(self) -> Iterator[Shelf[Any]]:
        """Return all shelves."""
        yield from (self.jobs, self.models, self.seen, self.low_water, self.failures, self.hosts)
        yield from (self.alerts, self.asked, self.laws, self.pool, self.members, self.inputs)
        yield from (self.histories, self.rivals, self.drifts, self.loads, self.profile_models, self.feature_times)

    def _remember(self, key: str) -> None:
        if key.startswith(OF_APPLICATION):
            application_id = key.removeprefix(OF_APPLICATION)
            self._application_ids[digest64(application_id)] = application_id

    def _forget_digest(self, application_id: str) -> None:
        if application_id not in self.models and OF_APPLICATION + application_id not in self.failures:
            self._application_ids.pop(digest64(application_id), None)
