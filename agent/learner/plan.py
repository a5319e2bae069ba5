"""What a learner is handed: its topics, its rhythm, and the fold that each shard is made of."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from agent.contracts.decoding import DeadLetter
from agent.contracts.events import JournalRecord, Origin, PredictionRequested
from agent.contracts.outputs import Answer, Emission


class Fold(Protocol):
    """One shard's fold: records in, messages out, state by key."""

    @property
    def now_ms(self) -> int:
        """The newest tick."""

    def fold(self, record: JournalRecord) -> list[Any]:
        """Take a record in and return the messages to send because of it."""

    def answer(self, request: PredictionRequested) -> Answer:
        """Answer a question that is not in the journal."""

    def restore(self, states: Mapping[str, bytes], now_ms: int) -> None:
        """Put a checkpoint back."""

    def dirty(self) -> dict[str, bytes | None]:
        """Return every state that a checkpoint has to write."""

    def confirm(self) -> None:
        """Take note that the checkpoint of `dirty` is surely there."""

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
    checkpoint_records_max: int = 20_000
    flush_timeout_s: float = 30.0
