"""The state of the hosts of one shard: rows with their columns, stores, what profiles are made from, and the outbox.

Every kind of state is declared once, in `HostShardState.__init__`. Checkpoint, restore, sizes and the names of all kinds
follow from what is declared there.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from re import compile as pattern
from typing import Any, Final

import msgspec

from processors.alerts.lifecycle import AlertLife, AlertState, HostAlertLife
from processors.contracts.outputs import Message
from processors.contracts.settings import AlertSettings, JobSettings, RunTimeSettings
from processors.hosts.detectors import AnomalyCandidates, MultivariateDetector, PeerComparison, PeerRules, Records
from processors.hosts.jobs import (
    HostCondition,
    HostConditionState,
    HostJob,
    HostJobState,
    PartitionHosts,
    PartitionHostsState,
)
from processors.hosts.rows import BlockCopy, RowIndex
from processors.hosts.windows import HostForecasts, HostWindows
from processors.pipeline.state import FoldSettings, Tombstone
from processors.power.profiles.attribution import ProfileRun, ProfileRunState, StartsTold, StartsToldState
from processors.power.profiles.finalisation import HostPower, HostPowerState
from processors.power.profiles.sums import ProfileStore
from processors.run_time.messages import Context
from processors.store import Kind, Shelf

FOLLOWED_MAX: Final = 100_000  # jobs and runs whose state stays decoded
Copy = dict[str, BlockCopy | bytes | None]


class HostShardState:
    """All that is known of the hosts of one shard, the present moment, and what the fold of one event leaves behind.

    What is in the outbox stays there until it is sent.
    """

    def __init__(self, settings: FoldSettings) -> None:
        self.settings = settings
        self.now_ms = 0
        self.outbox: list[Message | Tombstone] = []
        self.tally: Counter[tuple[str, str]] = Counter()
        self._kinds: list[type[Any]] = []
        self._stores: list[Shelf[Any]] = []
        self._written: set[str] = set()
        self._saving: set[str] = set()

        anomaly, straggler = settings.alerts.host_anomaly, settings.alerts.straggler
        rules = PeerRules(straggler.deviations, straggler.difference, straggler.share_max)
        self.index = RowIndex(settings.hosts.series_max)
        series, hosts = self.index.series, self.index.hosts
        self.windows = series.join(HostWindows())
        self.forecasts = series.join(HostForecasts())
        self.records = series.join(Records())
        self.peers = series.join(PeerComparison(pattern(straggler.resources), rules))
        self.multivariate = hosts.join(MultivariateDetector(high_ratio=anomaly.combined_ratio))
        self.places = series.join(self.multivariate.places)
        self.candidates = hosts.join(AnomalyCandidates())

        self.jobs: Shelf[HostJob] = self._store(HostJob, HostJobState, live_max=FOLLOWED_MAX)
        self.partitions: Shelf[PartitionHosts] = self._store(PartitionHosts, PartitionHostsState)
        self.conditions: Shelf[HostCondition] = self._store(HostCondition, HostConditionState)
        self.alerts: Shelf[AlertLife] = self._store(HostAlertLife, AlertState)
        self.runs: Shelf[ProfileRun] = self._store(ProfileRun, ProfileRunState, live_max=FOLLOWED_MAX)
        self.starts: Shelf[StartsTold] = self._store(StartsTold, StartsToldState)
        self.powers: Shelf[HostPower] = self._store(HostPower, HostPowerState)

        self.profiles = ProfileStore(settings.profiles)

    @property
    def context(self) -> Context:
        """What messages say of their maker and moment."""
        return Context(self.settings.agent_version, self.now_ms)

    def columns(self) -> tuple[Any, ...]:
        """Return all kinds that are kept in rows."""
        return tuple(type(kept) for index in (self.index, self.profiles.index) for kept in index.kept())

    def stored(self) -> tuple[Any, ...]:
        """Return all kinds of processors that are kept by key."""
        return tuple(self._kinds)

    def shelves(self) -> Iterator[Shelf[Any]]:
        """Return all stores, in the order of their declaration."""
        return iter(self._stores)

    def sizes(self) -> dict[str, int]:
        """Return the number of rows or states by kind."""
        stores = {store.kind.name: len(store) for store in self._stores}
        return self.index.sizes() | self.profiles.sizes() | stores

    def copied(self) -> Copy:
        """Return a copy of every state that a checkpoint has to write; `encoded` makes bytes of it, in any thread."""
        blocks = self.index.copied() | self.profiles.copied()
        gone: Copy = dict.fromkeys(self._written - blocks.keys())
        states = {f"{store.kind.name}/{key}": value for store in self._stores for key, value in store.dirty().items()}
        self._written |= blocks.keys()
        self._saving = set(blocks)
        return gone | states | blocks

    def confirm(self) -> None:
        """Take note that the checkpoint of `copied` is surely there."""
        self._written = set(self._saving)
        for store in self._stores:
            store.confirm()

    def restore(self, states: Mapping[str, bytes], now_ms: int) -> None:
        """Put stored states back; ConfigError where this agent can not read them."""
        self.now_ms = now_ms
        stores = {store.kind.name: store for store in self._stores}
        of_profiles = frozenset(self.profiles.sizes())
        rows: dict[str, bytes] = {}
        profiles: dict[str, bytes] = {}
        for key, value in states.items():
            kind, _, own = key.partition("/")
            if kind in stores:
                stores[kind].restore(own, value)
            else:
                (profiles if kind in of_profiles else rows)[key] = value
        self._written = {*rows, *profiles}
        self.index.restore(rows)
        self.profiles.restore(profiles)

    def forget(self, keys: Iterable[str]) -> None:
        """Let the next checkpoint remove states that are not put back."""
        self._written.update(keys)

    def _store(self, kind: type[Any], state: type[msgspec.Struct], live_max: int = 5000) -> Shelf[Any]:
        """Declare a kind of processor that is kept by key."""
        self._kinds.append(kind)
        store: Shelf[Any] = Shelf(Kind(kind.name, kind.version, state, kind.build), live_max)
        self._stores.append(store)
        return store


_EMPTY: Final = HostShardState(FoldSettings(JobSettings(), RunTimeSettings(), AlertSettings(), agent_version=""))
COLUMNS: Final = _EMPTY.columns()
SHELVED: Final = _EMPTY.stored()
KINDS: Final = frozenset(_EMPTY.sizes())


def of_hosts(key: str) -> bool:
    """Tell whether a state, by its key, is one of hosts."""
    return key.partition("/")[0] in KINDS


def encoded(copy: Copy) -> dict[str, bytes | None]:
    """Return the states of a copy as a checkpoint writes them."""
    return {key: value.encoded() if isinstance(value, BlockCopy) else value for key, value in copy.items()}
