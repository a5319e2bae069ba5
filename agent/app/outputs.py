"""Reading the agent's own output topics: what nobody can read is left out, counted and named, and costs nothing else."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeVar

from agent.app import logs
from processors.contracts.errors import InvalidInputError
from processors.contracts.log import Batch, Log
from processors.contracts.outputs import Emission
from processors.contracts.service import Measures
from sinks.topics import Kind, record

T = TypeVar("T")
Decode = Callable[[bytes | None, bytes | None], T]
NAMED_MAX: Final = 10  # records that the log names one by one, of each look at a topic


class OutputTopics:
    """The output topics as their readers see them; `topics` has the name of each kind.

    A record is counted once, however often its topic is read again. A tombstone, or the next message of its key, takes its
    place; until then readers see the message before it, where the topic still has that.
    """

    def __init__(self, log: Log, topics: Mapping[str, str], measures: Measures) -> None:
        self._log, self._topics, self._measures = log, topics, measures
        self._read: dict[tuple[Kind, int], int] = {}

    def read(self, kind: Kind, take: Callable[[Emission], None], newest: int | None = None) -> None:
        """Hand on the messages of a topic, or of its `newest` offsets, oldest first. Raises UnavailableError."""
        self.read_as(kind, partial(record, kind), take, newest)

    def read_as(self, kind: Kind, decode: Decode[T], take: Callable[[T], None], newest: int | None = None) -> None:
        """Do so with what `decode` makes of key and value; InvalidInputError where it cannot."""
        topic = self._topics[kind]
        for partition in range(self._log.partitions(topic) or 0):
            counted_to, found = self._read.get((kind, partition), 0), Unreadable()

            def on_batch(batch: Batch, counted_to: int = counted_to, found: Unreadable = found) -> None:
                for offset, key, value in zip(batch.offsets, batch.keys, batch.values, strict=True):
                    try:
                        message = decode(key, value)
                    except InvalidInputError as error:
                        if offset >= counted_to:
                            found.add(f"{batch.topic}/{batch.partition}/{offset}", error)
                        continue
                    take(message)

            self._read[kind, partition] = self._log.read(topic, partition, on_batch, newest=newest)
            found.report(kind, self._measures)


class Unreadable:
    """The records of one look at a topic that nobody can read."""

    def __init__(self) -> None:
        self._named: list[tuple[str, InvalidInputError]] = []
        self._count = 0

    def add(self, place: str, error: InvalidInputError) -> None:
        """Take note of a record."""
        self._count += 1
        if len(self._named) < NAMED_MAX:
            self._named.append((place, error))

    def report(self, kind: Kind, measures: Measures) -> None:
        """Count and name what was noted."""
        if not self._count:
            return
        measures.add("scalewatch_outputs_unreadable_total", self._count, topic=kind)
        log = logs.logger("readers")
        for place, error in self._named:
            log.warning("a record of an output topic cannot be read", record=place, reason=str(error))
        if self._count > len(self._named):
            log.warning("more records of an output topic cannot be read", topic=kind, records=self._count)
