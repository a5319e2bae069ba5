"""The desk of hosts: what all parts of the fold of hosts share. Rows, settings, the present moment, and the outbox."""

from collections import Counter
from typing import Protocol

from agent.contracts.outputs import Message
from processors.fold.desk import FoldSettings, Tombstone
from processors.hosts.batch import MinuteBatch
from processors.hosts.roster import Roster
from processors.hosts.windows import HostWindows
from processors.messages import Context


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
    """Rows of hosts and resources, their windows, and what the fold of one event leaves behind.

    `outbox` and `tally` are as on the other desk, but what is in this outbox stays there until it is sent.

    >>> from processors.fold.desk import FoldSettings
    >>> from agent.contracts.settings import AlertSettings, JobSettings, RunTimeSettings
    >>> desk = HostDesk(FoldSettings(JobSettings(), RunTimeSettings(), AlertSettings(), "1.0"))
    >>> desk.roster.enter("exa", "nid1", "cpu_available", 0), desk.context.time
    ((0, 0), '1970-01-01T00:00:00Z')
    """

    def __init__(self, settings: FoldSettings) -> None:
        self.settings = settings
        self.now_ms = 0
        self.outbox: list[Message | Tombstone] = []
        self.tally: Counter[tuple[str, str]] = Counter()
        self.roster = Roster(settings.hosts.series_max)
        self.windows = HostWindows()
        self.roster.series.join(self.windows)

    @property
    def context(self) -> Context:
        """What messages say of their maker and moment."""
        return Context(self.settings.agent_version, self.now_ms)
