"""Predictions of run time from features of a job: attributes, communication and counters.

A run is learned with its features when it settles. Answers and forecasts use the fitted feature models.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from processors.contracts.events import Attribute, Evidence, JobStarted, PredictionRequested
from processors.contracts.hosts import Profile
from processors.contracts.names import LATEST_MS, ApplicationKey, escaped, job_key
from processors.contracts.outputs import FeatureModel
from processors.facts import Band, CurvePrediction, plausible, trains
from processors.features.shared import STEP_COST, CommunicationPool, SharedForecast, SharedRun, SharedScore
from processors.features.times import KNOWN_NAMES, FeatureFact, FeatureTimes, shares_text
from processors.jobs.lifecycle import EndedRun, Job, Placement, merged_evidence, parted
from processors.models.features.communication import NAMES, comparable, counted_features
from processors.pipeline.stage import TickWork, guard
from processors.pipeline.state import ShardState, T
from processors.power.by_size import reported_counters, values_of
from processors.power.model import GIVEN_SIZE, ProfileModels, RunTimeByCounters
from processors.store import FIT_COST_GRAIN_MS, FIT_COST_MAX, P, Store, share

SO_FAR_MIN: Final = 3  # whole minutes that each host must report before the counters of a running job are used
FIELDS: Final = ("module", "container", "executable", "partition", "account", "qos", "user", "time_limit_s")


class KnownFeatures(NamedTuple):
    """The features of a run apart from its size: configured attributes, communication features and counters."""

    attributes: Mapping[str, Attribute]
    network: Mapping[str, float]
    counters: Mapping[str, float] = {}


NOTHING: Final = KnownFeatures({}, {})
POOLS_MAX: Final = 64  # shared communication models of a shard: one per system and unit of sizes


class Features:
    """The feature models of one shard. Runs without attributes, communication features and counters get no prediction from features."""

    def __init__(self, state: ShardState) -> None:
        self._state = state

    def of_request(self, event: PredictionRequested) -> KnownFeatures:
        """Return the features in a request; each feature without a known communication name is taken as a counter."""
        network = {name: value for name, value in event.features.items() if name in KNOWN_NAMES}
        counters = {name: value for name, value in event.features.items() if name not in network}
        network = self._placed(event.system, event.evidence) | network
        return KnownFeatures(self._chosen(event.evidence), network, reported_counters(counters))

    def of_job(self, job: Job, event: JobStarted, application_id: str | None) -> KnownFeatures:
        """Return the features of a running job, including the counters that its hosts have reported so far."""
        counters = self._so_far(event, application_id)
        placed = self._placed(event.system, event.evidence)
        if not job.networks and not self._state.settings.features.attributes and not counters and not placed:
            return NOTHING
        network = placed | parted(job.networks, event.start_ms, LATEST_MS)[0]
        return KnownFeatures(self._attributes(job, event.evidence), network, counters)

    def by_counters(self, application_id: str, n: float, counters: Mapping[str, float]) -> RunTimeByCounters | None:
        """Return the run time predicted from counters at the nearest size with runs; None if the counters do not suffice."""
        models = self._state.profile_models.get(application_id) if counters else None
        return models.run_time(n, counters) if models is not None else None

    def _so_far(self, event: JobStarted, application_id: str | None) -> Mapping[str, float]:
        """Return the counters of a running job so far; empty if counters are not trusted or too few minutes are covered."""
        models = self._state.profile_models.get(application_id) if application_id else None
        times = self.model(application_id) if models is not None and models.followed() else None
        if times is None or not times.trusts_counters:
            return {}
        with guard(self._state, ProfileModels.name):  # an exception in host data must not prevent the forecast
            profile = self._state.profiles.profile_so_far(job_key(event.system, event.job_id), event.run_id)
            enough = profile is not None and profile.minutes >= SO_FAR_MIN * max(profile.hosts, 1)
            if profile is not None and enough and profile.coverage >= self._state.settings.profiles.coverage_min:
                return values_of(1.0, profile)
        return {}

    def published(self, placement: Placement) -> CurvePrediction | None:
        """Return the published prediction for an ended run; None if no feature model is compared with the curve."""
        key, n = placement.application_id, placement.n
        times = self.model(key)
        model = self._state.models.get(key) if key else None
        known = times is not None or (key is not None and key in self._state.profile_models)
        if not known or model is None or model.published is None or n is None or not plausible(n, 1.0):
            return None
        at, near = model.published.at(n), model.published.at(times.nearest(n) if times is not None else n)
        return CurvePrediction(at, near, model.published.horizon(n)) if at and near else None

    def settled(self, job: Job, run: EndedRun, profile: Profile | None, by_counters: Band | None) -> Profile | None:
        """Learn a settled run that has attributes, communication features or counters; return its profile with communication features added.

        `by_counters` is the run time that counters predicted before the run was learned.
        """
        began, goes_on = run.event.start_ms, job.running
        until_ms = min(run.settle_ms, goes_on.start_ms - 1) if goes_on else run.settle_ms
        own, rest = parted(job.networks, began, until_ms)
        job.networks = rest
        network = (profile.network if profile else {}) | own
        evidence = merged_evidence(run.event.evidence, run.start)
        attributes = self._attributes(job, evidence)
        computed = self._placed(run.event.system, evidence)
        if profile is not None and not profile.short and profile.coverage >= self._state.settings.profiles.coverage_min:
            computed = counted_features(profile.nic, run.event.run_time_s, profile.nic_busiest) | computed
        if attributes or network or computed or by_counters is not None:
            self._learn(job, run, KnownFeatures(attributes, computed | network), by_counters)
        if not network:
            return profile
        return msgspec.structs.replace(profile or Profile(hosts=0), network=network)

    def _placed(self, system: str, evidence: Evidence) -> dict[str, float]:
        """Return the placement features of a run; empty if the network positions of its hosts are not configured."""
        return self._state.settings.placements.of(system, evidence.hosts)

    def _learn(self, job: Job, run: EndedRun, known: KnownFeatures, by_counters: Band | None) -> None:
        event, placement = run.event, run.placement
        key, n = placement.application_id, placement.n
        if key is None or n is None or key not in self._state.models:
            return
        if not trains(n, event, resized=job.resized):
            return
        own, now_ms = ApplicationKey.parse(key), self._state.now_ms
        shared = self.shared(own, known, n) if run.published is not None else None
        of_run, features = (event.run_id, n, event.run_time_s, event.end_ms, now_ms), (known.attributes, known.network)
        fact = FeatureFact(*of_run, *features, run.published, shared, by_counters)
        score = self._guarded(key, lambda times: times.compared(fact), learns=True)
        if not known.network.keys().isdisjoint(NAMES):
            ended = SharedRun(key, event.run_id, event.end_ms, event.run_time_s, comparable(known.network, n), now_ms)
            self._share(own, ended, score)

    def shared(self, key: ApplicationKey, known: KnownFeatures, n: float) -> SharedForecast | None:
        """Return the forecast from the communication costs that all applications of a system share; None if no forecast is possible."""
        pool = self._pool(key) if known.network and n > 0 else None
        run = SharedRun(key.id, "", 0, 0.0, comparable(known.network, n), 0)
        return pool.score(run) if pool is not None else None

    def _share(self, key: ApplicationKey, run: SharedRun, score: SharedScore | None) -> None:
        """Add a run to the shared communication model of its system, and store the score of this model's forecast for the run."""
        pools, of = self._state.communication_pools, pool_key(key)
        if of not in pools and len(pools) >= POOLS_MAX:
            self._state.tally["bound", "communication_pools_max"] += 1
            return
        with self._guard(pools, of):
            pool = pools.open(of)
            if score is not None:
                pool.compare(score)
            pool.learn(run)
            pools.changed(of, pool, self._state.now_ms)

    def _pool(self, key: ApplicationKey) -> CommunicationPool | None:
        return self._stored(self._state.communication_pools, pool_key(key))

    def forget(self, application_id: str, run_id: str) -> None:
        """Remove a run from the feature models of an application, because the run belongs to another application."""
        if application_id in self._state.feature_times:
            self._guarded(application_id, lambda times: times.forget(run_id, self._state.now_ms))
        key, now_ms = ApplicationKey.parse(application_id), self._state.now_ms
        pool = self._pool(key)
        if pool is not None and pool.forget(application_id, run_id, now_ms):
            self._state.communication_pools.changed(pool_key(key), pool, now_ms)

    def fit_features(self, work: TickWork) -> None:
        """Do steps of the fits that are due, longest waiting first; the longer the last tick ago, the more steps."""
        pools = self._state.communication_pools
        left = share(FIT_COST_MAX, self._state.now_ms, work.since_ms, FIT_COST_GRAIN_MS)
        while left > 0 and (due := self._state.feature_times.due(self._state.now_ms, 1)):
            left -= self._guarded(due[0], partial(_steps, left)) or 1
        while left > 0 and (due := pools.due(self._state.now_ms, 1)):
            left -= STEP_COST
            with self._guard(pools, due[0]):
                pool = pools.open(due[0])
                pool.step()
                pools.changed(due[0], pool, self._state.now_ms)

    def explanation(self, application_id: str, known: KnownFeatures, shares: Mapping[str, float]) -> str:
        """Return the sentences of an answer about features: the missing features, and the weight of the known ones."""
        times = self.model(application_id) if known != NOTHING else None
        if times is None:
            return ""
        models = self._state.profile_models.get(application_id) if known.counters else None
        of_counters = models.missing(known.counters) if models is not None else ()
        missing = (*times.missing(known.attributes, known.network), *of_counters)
        why = f" It does not tell {', '.join(missing)}: such features do not count." if missing else ""
        return f"{why} {shares_text(shares)}" if shares else why

    def models(self, application_id: str) -> tuple[FeatureModel, ...]:
        """Return the feature models of an application for published predictions."""
        times = self.model(application_id)
        if times is None:
            return ()
        pool = self._pool(ApplicationKey.parse(application_id))
        shared = times.shared_model(pool) if pool is not None else None
        profiles = self._state.profile_models.get(application_id)
        followed = profiles.followed() if profiles is not None else {}
        counters = times.counters_model(GIVEN_SIZE, profiles.runs, followed) if profiles and followed else None
        return (*times.models(), *(model for model in (shared, counters) if model is not None))

    def _attributes(self, job: Job, own: Evidence) -> dict[str, Attribute]:
        """Return the configured attributes of a job from all evidence; the evidence `own` of the run overrides older evidence."""
        sources = [*(identity.evidence for identity in job.identities), own]
        return {name: value for evidence in sources for name, value in self._chosen(evidence).items()}

    def _chosen(self, evidence: Evidence) -> dict[str, Attribute]:
        """Return the configured attributes in the evidence; an attribute overrides an evidence field of the same name."""
        settings = self._state.settings.features
        if not settings.attributes:
            return {}
        fields = {name: value for name in FIELDS if (value := getattr(evidence, name)) is not None}
        return {name: value for name, value in (fields | evidence.attributes).items() if settings.names(name)}

    def model(self, application_id: str | None) -> FeatureTimes | None:
        """Return the feature models of an application; None if the application has no such models."""
        if application_id is None or application_id not in self._state.feature_times:
            return None  # the usual case; this test takes a tenth of the time of a guard
        return self._stored(self._state.feature_times, application_id)

    def _stored(self, store: Store[P], key: str) -> P | None:
        with self._guard(
            store, key
        ):  # an undecodable stored state is replaced by an empty state, and the curve predicts
            return store.get(key)
        return None

    def _guarded(self, application_id: str, work: Callable[[FeatureTimes], T], *, learns: bool = False) -> T | None:
        """Call `work` with the feature models of an application and return its result; None if it raised an exception."""
        with self._guard(
            self._state.feature_times, application_id
        ):  # an exception in one application must not stop the others
            times = self._state.feature_times.open(application_id)
            applications = max(len(self._state.feature_times), 1)
            if times.bound(self._state.settings.features.bytes_max // applications) and learns:
                self._state.tally["bound", "feature_bytes_max"] += 1
            found = work(times)
            self._state.feature_times.changed(application_id, times, self._state.now_ms)
            return found
        return None

    def _guard(self, store: Store[Any], key: str) -> guard:
        return guard(self._state, store.kind.name, recover=partial(store.remove, key))


def pool_key(key: ApplicationKey) -> str:
    """Return the key of a shared communication model; each system and unit of sizes has one model."""
    return f"{escaped(key.system)}/{escaped(key.unit)}"


def _steps(most: int, times: FeatureTimes) -> int:
    """Do steps of the fits in `times` until their total cost reaches `most` or no step is left; return the total cost."""
    cost, goes_on = 0, True
    while goes_on and cost < most:
        goes_on = times.step()
        cost += times.step_cost
    return cost
