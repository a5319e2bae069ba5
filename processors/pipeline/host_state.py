"""The desk of hosts: what all parts of their fold share. Rows, settings, the present moment, the outbox, and the state."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

from processors.alerts.lifecycle import AlertState, HostAlertLife
from processors.contracts.outputs import Message
from processors.hosts.detectors import Records, Suspects, Unlike
from processors.hosts.jobs import (
    HostCondition,
    HostConditionState,
    HostJob,
    HostJobState,
    PartitionHosts,
    PartitionHostsState,
)
from processors.hosts.multivariate import Places, Together
from processors.hosts.rows import HostRows, RowIndex, SeriesRows
from processors.hosts.rows import BlockCopy, copied, restore
from processors.hosts.windows import HostForecasts, HostWindows, MinuteBatch
from processors.pipeline.state import FoldSettings, Tombstone
from processors.power.profiles import sums
from processors.power.profiles.attribution import ProfileRun, ProfileRunState, StartsTold, StartsToldState
from processors.power.profiles.finalisation import HostPower, HostPowerState
from processors.run_time.messages import Context
from processors.store import Kind, Shelf

COLUMNS: Final = (
    HostRows, SeriesRows, HostWindows, HostForecasts, Records, Unlike, Places, Together, Suspects, *sums.COLUMNS,
)  # fmt: skip
SHELVED: Final = (HostJob, PartitionHosts, HostCondition, HostAlertLife, ProfileRun, StartsTold, HostPower)
OF_PROFILES: Final = frozenset((*(kind.name for kind in sums.COLUMNS), *sums.ARRAYS))
KINDS: Final = frozenset(kind.name for kind in (*COLUMNS, *SHELVED)) | OF_PROFILES
Copy = dict[str, BlockCopy | bytes | None]


def of_hosts(key: str) -> bool:
    """Tell whether a state, by its key, is one of hosts."""
    return key.partition("/")[0] in KINDS


class HostPart(Protocol):
    """Something that learns from minutes of hosts. All of it happens at ticks, of which each knows the minutes before.

    `name` is that of a processor: faults are counted by it.
    """

    @property
    def name(self) -> str:
        """The processor that it is."""

    def take(self, batch: MinuteBatch) -> None:
        """Learn a minute of many series; nothing is said yet."""

    def tick(self, now_ms: int) -> None:
        """Say what there is to say, after all minutes that came before the tick."""


class HostDesk:
    """Rows of hosts and resources with the columns that go along, shelves, and what the fold of one event leaves behind.

    `outbox` and `tally` are as on the other desk, but what is in this outbox stays there until it is sent. A part keeps
    numbers by joining its columns to `index.series` or `index.hosts`.
    """

    def __init__(self, settings: FoldSettings) -> None:
        self.settings = settings
        self.now_ms = 0
        self.outbox: list[Message | Tombstone] = []
        self.tally: Counter[tuple[str, str]] = Counter()
        self.index = RowIndex(settings.hosts.series_max)
        self.windows, self.forecasts = HostWindows(), HostForecasts()
        self.index.series.join(self.windows)
        self.index.series.join(self.forecasts)
        self.jobs = Shelf(Kind(HostJob.name, HostJob.version, HostJobState, HostJob.build), live_max=100_000)
        self.partitions = Shelf(
            Kind(PartitionHosts.name, PartitionHosts.version, PartitionHostsState, PartitionHosts.build)
        )
        self.conditions = Shelf(
            Kind(HostCondition.name, HostCondition.version, HostConditionState, HostCondition.build)
        )
        self.alerts = Shelf(Kind(HostAlertLife.name, HostAlertLife.version, AlertState, HostAlertLife.build))
        self.ledger = sums.Ledger(settings.profiles)
        self.runs = Shelf(
            Kind(ProfileRun.name, ProfileRun.version, ProfileRunState, ProfileRun.build), live_max=100_000
        )
        self.starts = Shelf(Kind(StartsTold.name, StartsTold.version, StartsToldState, StartsTold.build))
        self.powers = Shelf(Kind(HostPower.name, HostPower.version, HostPowerState, HostPower.build))
        self._written: set[str] = set()
        self._saving: set[str] = set()

    @property
    def context(self) -> Context:
        """What messages say of their maker and moment."""
        return Context(self.settings.agent_version, self.now_ms)

    def shelves(self) -> Iterator[Shelf[Any]]:
        """Return all shelves."""
        yield from (self.jobs, self.partitions, self.conditions, self.alerts, self.runs, self.starts, self.powers)

    def sizes(self) -> dict[str, int]:
        """Return the number of rows or states by processor."""
        numbered = (self.index.hosts, self.index.series)
        rows = {kept.name: len(each.ids) for each in numbered for kept in (each, *each.columns)}
        return rows | self.ledger.sizes() | {shelf.kind.name: len(shelf) for shelf in self.shelves()}

    def copied(self) -> Copy:
        """Return a copy of every state that a checkpoint has to write; `encoded` makes bytes of it, in any thread."""
        blocks = copied(self.index.hosts) | copied(self.index.series) | self.ledger.copied()
        gone: Copy = dict.fromkeys(self._written - blocks.keys())
        states = {f"{shelf.kind.name}/{key}": value for shelf in self.shelves() for key, value in shelf.dirty().items()}
        self._written |= blocks.keys()
        self._saving = set(blocks)
        return gone | states | blocks

    def confirm(self) -> None:
        """Take note that the checkpoint of `copied` is surely there."""
        self._written = set(self._saving)
        for shelf in self.shelves():
            shelf.confirm()

    def restore(self, states: Mapping[str, bytes], now_ms: int) -> None:
        """Put stored states back; ConfigError where this agent can not read them."""
        self.now_ms = now_ms
        shelves = {shelf.kind.name: shelf for shelf in self.shelves()}
        blocks: dict[str, bytes] = {}
        for key, value in states.items():
            kind, _, own = key.partition("/")
            if kind in shelves:
                shelves[kind].restore(own, value)
            else:
                blocks[key] = value
        self._written = set(blocks)
        restore(self.index, {key: value for key, value in blocks.items() if not _of_profiles(key)})
        self.ledger.restore({key: value for key, value in blocks.items() if _of_profiles(key)})

    def forget(self, keys: set[str]) -> None:
        """Let the next checkpoint remove states that are not put back."""
        self._written |= keys


def _of_profiles(key: str) -> bool:
    return key.partition("/")[0] in OF_PROFILES


def encoded(copy: Copy) -> dict[str, bytes | None]:
    """Return the states of a copy as a checkpoint writes them."""
    return {key: value.encoded() if isinstance(value, BlockCopy) else value for key, value in copy.items()}
