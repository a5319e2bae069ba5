"""Features in the fold: runs are learned with their attributes when they settle, answers and forecasts take them in."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

import msgspec

from processors.contracts.events import Attribute, Evidence, JobStarted, PredictionRequested
from processors.contracts.hosts import Profile
from processors.contracts.names import LATEST_MS, ApplicationKey, escaped
from processors.contracts.outputs import FeatureModel
from processors.contracts.settings import FeatureSettings
from processors.facts import CurvePrediction, plausible, trains
from processors.features import FeatureFact, FeatureTimes, shares_text
from processors.jobs.lifecycle import EndedRun, Job, Placement, merged_evidence, parted
from processors.models.communication import NAMES, comparable
from processors.models.communication_counters import counted_features
from processors.pipeline.stage import TickWork, guard
from processors.pipeline.state import ShardState
from processors.run_time.communication_pool import CommunicationPool, SharedForecast, SharedRun, SharedScore
from processors.store import FIT_COST_GRAIN_MS, FIT_COST_MAX, share

FIELDS: Final = ("module", "container", "executable", "partition", "account", "qos", "user", "time_limit_s")


class KnownFeatures(NamedTuple):
    """What is known of a run besides its size: attributes that count, and features of its communication."""

    attributes: Mapping[str, Attribute]
    network: Mapping[str, float]


NOTHING: Final = KnownFeatures({}, {})
POOLS_MAX: Final = 64  # of a shard: systems, times units of sizes


class Features:
    """What features say of the run times of one shard; nothing where neither attributes nor communication are told."""

    def __init__(self, state: ShardState) -> None:
        self._state = state

    def of_request(self, event: PredictionRequested) -> KnownFeatures:
        """Return what a request reports the run to come."""
        return KnownFeatures(_chosen(self._state.settings.features, event.evidence), event.features)

    def of_job(self, job: Job, event: JobStarted) -> KnownFeatures:
        """Return what is known of a run that goes on."""
        if not job.networks and not self._state.settings.features.attributes:
            return NOTHING
        return KnownFeatures(self._attributes(job, event.evidence), parted(job.networks, event.start_ms, LATEST_MS)[0])

    def published(self, placement: Placement) -> CurvePrediction | None:
        """Return what is published about a run that just ended, where features will be compared with it."""
        key, n = placement.application_id, placement.n
        times = self.model(key)
        model = self._state.models.get(key) if key else None
        if times is None or model is None or model.published is None or n is None or not plausible(n, 1.0):
            return None
        at, near = model.published.at(n), model.published.at(times.nearest(n))
        return CurvePrediction(at, near, model.published.horizon(n)) if at and near else None

    def settled(self, job: Job, run: EndedRun, profile: Profile | None) -> Profile | None:
        """Learn a run that settled, where anything but its size is known of it; return its profile with its communication."""
        began, goes_on = run.event.start_ms, job.running
        until_ms = min(run.settle_ms, goes_on.start_ms - 1) if goes_on else run.settle_ms
        own, rest = parted(job.networks, began, until_ms)
        job.network(rest)
        network = (profile.network if profile else {}) | own
        counts = self._state.settings.features.attributes
        attributes = self._attributes(job, merged_evidence(job, run.event)) if counts else {}
        counted = self._counted(profile, run.event.run_time_s)
        if attributes or network or counted:
            self._learn(job, run, KnownFeatures(attributes, counted | network))
        if not network:
            return profile
        return msgspec.structs.replace(profile or Profile(hosts=0), network=network)

    def _counted(self, profile: Profile | None, run_time_s: float) -> dict[str, float]:
        """Return what adapters counted of a run, where enough of its minutes are known to be its own."""
        if profile is None or profile.short or profile.coverage < self._state.settings.profiles.coverage_min:
            return {}
        return counted_features(profile.nic, run_time_s)

    def _learn(self, job: Job, run: EndedRun, known: KnownFeatures) -> None:
        event, placement = run.event, run.placement
        key, n = placement.application_id, placement.n
        if key is None or n is None or key not in self._state.models:
            return
        if not trains(n, event, resized=job.resized):
            return
        own, now_ms = ApplicationKey.parse(key), self._state.now_ms
        shared = self.shared(own, known, n) if run.published is not None else None
        fact = FeatureFact(event.run_id, n, event.run_time_s, event.end_ms, now_ms, *known, run.published, shared)
        scores: list[SharedScore | None] = []
        self._guarded(key, lambda times: scores.append(times.compared(fact)))
        if not known.network.keys().isdisjoint(NAMES):
            ended = SharedRun(key, event.run_id, event.end_ms, event.run_time_s, comparable(known.network, n), now_ms)
            self._share(own, ended, scores[0] if scores else None)

    def shared(self, key: ApplicationKey, known: KnownFeatures, n: float) -> SharedForecast | None:
        """Return what the applications of a system say of the communication of a run of one of them; None where nothing."""
        pool = self._pool(key) if known.network and n > 0 else None
        run = SharedRun(key.id, "", 0, 0.0, comparable(known.network, n), 0)
        return pool.score(run) if pool is not None else None

    def _share(self, key: ApplicationKey, run: SharedRun, score: SharedScore | None) -> None:
        """Let the applications of a system know of a run, and of how good what they had said of it was."""
        pools, of = self._state.communication_pools, pool_key(key)
        if of not in pools and len(pools) >= POOLS_MAX:
            self._state.tally["bound", "communication_pools_max"] += 1
            return
        with self._pool_guard(of):
            pool = pools.open(of)
            if score is not None:
                pool.compare(score)
            pool.learn(run)
            pools.changed(of, pool, self._state.now_ms)

    def _pool(self, key: ApplicationKey) -> CommunicationPool | None:
        with self._pool_guard(pool_key(key)):  # what cannot be read back begins anew
            return self._state.communication_pools.get(pool_key(key))
        return None

    def _pool_guard(self, of: str) -> guard:
        return guard(self._state, CommunicationPool.name, recover=partial(self._state.communication_pools.remove, of))

    def forget(self, application_id: str, run_id: str) -> None:
        """Let a run that belongs to another application tell nothing of this one any more."""
        if application_id in self._state.feature_times:
            self._guarded(application_id, lambda times: times.forget(run_id, self._state.now_ms))
        key, now_ms = ApplicationKey.parse(application_id), self._state.now_ms
        pool = self._pool(key)
        if pool is not None and pool.forget(application_id, run_id, now_ms):
            self._state.communication_pools.changed(pool_key(key), pool, now_ms)

    def fit_features(self, work: TickWork) -> None:
        """Go on with fits, that which waits for longest first; a short tick has its share of what a full one may cost."""
        left = share(FIT_COST_MAX, self._state.now_ms, work.since_ms, FIT_COST_GRAIN_MS)
        while left > 0 and (due := self._state.feature_times.due(self._state.now_ms, 1)):
            done: list[int] = []
            self._guarded(due[0], partial(_steps, left, done))
            left -= max(sum(done), 1)
        while left > 0 and (due := self._state.communication_pools.due(self._state.now_ms, 1)):
            left -= self._fit_pool(due[0])

    def _fit_pool(self, of: str) -> int:
        """Do a step of the fit of shared costs, and return what it cost."""
        pools = self._state.communication_pools
        with self._pool_guard(of):
            pool = pools.open(of)
            pool.step()
            pools.changed(of, pool, self._state.now_ms)
            return pool.step_cost
        return 1

    def explanation(self, application_id: str, known: KnownFeatures, shares: Mapping[str, float]) -> str:
        """Return what an answer says of the features that were asked for: what is missing, and what counts how much."""
        times = self.model(application_id) if known != NOTHING else None
        if times is None:
            return ""
        missing = times.missing(*known)
        why = f" It does not tell {', '.join(missing)}: such features do not count." if missing else ""
        return f"{why} {shares_text(shares)}" if shares else why

    def models(self, application_id: str) -> tuple[FeatureModel, ...]:
        """Return what features report an application, for those who read predictions."""
        times = self.model(application_id)
        if times is None:
            return ()
        pool = self._pool(ApplicationKey.parse(application_id))
        shared = times.shared_model(pool) if pool is not None else None
        return (*times.models(), *([shared] if shared is not None else []))

    def _attributes(self, job: Job, own: Evidence) -> dict[str, Attribute]:
        known: dict[str, Attribute] = {}
        if not self._state.settings.features.attributes:
            return known
        for evidence in (*(identity.evidence for identity in job.identities), own):
            known |= _chosen(self._state.settings.features, evidence)
        return known

    def model(self, application_id: str | None) -> FeatureTimes | None:
        """Return the models of an application's features, None where there are none."""
        if application_id is None or application_id not in self._state.feature_times:
            return None  # as nearly always: to look takes a tenth of the time of a guard
        with self._guard(application_id):  # what cannot be read back begins anew, and the curve answers
            return self._state.feature_times.get(application_id)
        return None

    def _guarded(self, application_id: str, work: Callable[[FeatureTimes], None]) -> None:
        with self._guard(application_id):  # features of one application must not stop the others
            times = self._state.feature_times.open(application_id)
            work(times)
            self._state.feature_times.changed(application_id, times, self._state.now_ms)

    def _guard(self, application_id: str) -> guard:
        return guard(self._state, FeatureTimes.name, recover=partial(self._state.feature_times.remove, application_id))


def pool_key(key: ApplicationKey) -> str:
    """Return the key of what applications share: one for each system, and unit of sizes."""
    return f"{escaped(key.system)}/{escaped(key.unit)}"


def _chosen(settings: FeatureSettings, evidence: Evidence) -> dict[str, Attribute]:
    """Return the attributes of evidence that count; an attribute goes before a field of its name."""
    if not settings.attributes:
        return {}
    fields = {name: value for name in FIELDS if (value := getattr(evidence, name)) is not None}
    return {name: value for name, value in (fields | evidence.attributes).items() if settings.names(name)}


def _steps(most: int, done: list[int], times: FeatureTimes) -> None:
    """Do steps of a fit that cost so much, and note what each cost."""
    goes_on = True
    while goes_on and sum(done) < most:
        goes_on = times.step()
        done.append(times.step_cost)
