"""What the collector is handed: how each topic is decoded and where each system's journal is."""

from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec

from agent.contracts.decoding import DeadLetter, Decode
from agent.contracts.errors import InvalidInputError
from agent.contracts.events import HostMinute, JobEvent, Origin
from agent.contracts.telemetry import DecodeSamples, MakeWindows

Fact = TypeVar("Fact", bound=JobEvent | HostMinute)


class Privacy(Protocol):
    """Rewrites what an event says of people."""

    def __call__(self, event: Fact, /) -> Fact:
        """Return the event as it may be written."""


class Source(msgspec.Struct, frozen=True):
    """The decoders of a topic and the name of its format.

    `decode` takes messages of jobs, one by one; `telemetry` makes the decoder of slices of one partition, which takes
    messages of jobs, too, where there are both. One of them may be missing.
    """

    format: str
    decode: Decode | None
    telemetry: Callable[[], DecodeSamples] | None = None


class Refusal(msgspec.Struct, frozen=True):
    """A refused message, or the `index`-th refused part of one."""

    origin: Origin
    index: int
    format: str
    value: bytes | None
    error: InvalidInputError
    timestamp_ms: int


class Routes(msgspec.Struct, frozen=True):
    """Everything that depends on the configuration.

    `source` tells how a topic is decoded, `partition` the journal partition of a system (None: not accepted),
    `privacy` rewrites what an event says of people, `windows` makes those of a source partition. Events that need more
    than `record_bytes_max` are refused: what the learner makes of one, its state and its settled run, has to fit into a
    record, too. Between two commits pass `commit_s`.
    """

    topics: tuple[str, ...]
    source: Callable[[str], Source]
    partition: Callable[[str], int | None]
    privacy: Privacy
    dead_letter: Callable[[Refusal], DeadLetter]
    windows: MakeWindows
    journal_topic: str
    journal_partitions: int
    deadletter_topic: str
    group: str
    tick_ms: int = 1000
    flush_timeout_s: float = 30.0
    commit_s: float = 1.0
    record_bytes_max: int = 400_000
