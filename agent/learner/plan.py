"""What a learner is handed: its topics, its rhythm, and the fold that each shard is made of."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from agent.contracts.decoding import DeadLetter
from agent.contracts.events import JournalRecord, Origin, PredictionRequested
from agent.contracts.hosts import HostView
from agent.contracts.outputs import Answer, Emission


class Fold(Protocol):
    """One shard's fold: records in, messages out, state by key.

    It has two groups of states. That of hosts is large and less precious, and has a rhythm of checkpoints of its own.
    """

    @property
    def now_ms(self) -> int:
        """The newest tick."""

    def fold(self, record: JournalRecord) -> list[Any]:
        """Take a record in and return the messages to send because of it."""

    def fold_hosts(self, record: JournalRecord) -> list[Any]:
        """Take a record in that the jobs' group knows already."""

    @property
    def hosts_wait(self) -> bool:
        """Whether the state of hosts is that of some records ago: they are folded with a later one."""

    @property
    def hosts_now_ms(self) -> int:
        """The newest tick that the hosts' group has folded."""

    def answer(self, request: PredictionRequested) -> Answer:
        """Answer a question that is not in the journal."""

    def restore(self, states: Mapping[str, bytes], now_ms: int, hosts_now_ms: int | None = None) -> None:
        """Put a checkpoint back; without `hosts_now_ms` the hosts begin anew, whatever states of theirs are there."""

    def dirty(self) -> dict[str, bytes | None]:
        """Return every state that a checkpoint has to write, without those of hosts."""

    def confirm(self) -> None:
        """Take note that the checkpoint of `dirty` is surely there."""

    def copied_hosts(self) -> Callable[[], dict[str, bytes | None]]:
        """Copy the states of hosts, and return what makes of the copy what a checkpoint has to write, in any thread."""

    def confirm_hosts(self) -> None:
        """Take note that the checkpoint of `copied_hosts` is surely there."""

    def power_errors(self) -> Mapping[str, float]:
        """Return how far estimates of the power of hosts are out where sensors are, in W by component."""

    def first_hosts(self, limit: int) -> Sequence[tuple[str, str]]:
        """Return system and name of at most so many hosts, those with anomalies first."""

    def host_names(self, limit: int) -> list[tuple[str, str]]:
        """Return system and name of at most so many hosts in that order; cheap beside their views."""

    def host_view(self, system: str, host: str) -> HostView | None:
        """Return one host; None where it is not known."""

    def tallied(self) -> dict[tuple[str, str], int]:
        """Return counts since the last call."""

    def sizes(self) -> dict[str, int]:
        """Return the number of states by processor."""


class Plan(msgspec.Struct, frozen=True):
    """Everything that depends on the configuration.

    `topics` maps a kind of output to its topic. `encode` makes a record of a message, `dead_letter` one of a journal
    record that a processor could not take (origin, bytes, what was raised).
    """

    journal_topic: str
    journal_partitions: int
    group: str
    topics: Mapping[str, str]
    make_fold: Callable[[], Fold]
    encode: Callable[[Any], Emission]
    dead_letter: Callable[[Origin, bytes, Exception], DeadLetter]
    agent_version: str
    config_hash: str
    checkpoint_interval_s: float = 10.0
    host_checkpoint_interval_s: float = 600.0
    checkpoint_records_max: int = 20_000
    flush_timeout_s: float = 30.0
