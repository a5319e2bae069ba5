"""A group member of kafka-python."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as ClientPartition

from agent.log.kafka.metadata import NUL
from agent.log.kafka.python.arguments import joining
from agent.log.kafka.python.records import batch_of, take_quickly
from agent.log.kafka.settings import KafkaSettings, milliseconds
from processors.contracts.log import Batch, Position, TopicPartition, topic_pattern

CLOSE_TIMEOUT_MS = 1000


class _Rebalances(ConsumerRebalanceListener):  # type: ignore[misc] # the client ships no types
    """Notes what the client says of partitions. New ones are paused at once, so that the caller can seek first.

    A join that a new topic or partition began, and that does not end within one poll, is forgotten by the client: the
    group gives partitions to a member that never takes them. So a join that has begun is asked for until it has ended.
    """

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self.running = False
        self.done = False

    def on_partitions_revoked(self, revoked: Collection[Any]) -> None:  # noqa: ARG002 - the whole set comes back
        self.running = True
        self._consumer._coordinator.request_rejoin()  # noqa: SLF001 - no public way

    def on_partitions_assigned(self, assigned: Collection[Any]) -> None:
        self._consumer.pause(*assigned)
        self.running = False
        self.done = True


class PythonMember:
    """A member of a group."""

    def __init__(
        self, settings: KafkaSettings, group: str, topics: Sequence[str], member: str, *, from_beginning: bool
    ) -> None:
        self._timeout_ms = milliseconds(settings.request_timeout_s)
        self._consumer = KafkaConsumer(**joining(settings, group, member, from_beginning=from_beginning))
        take_quickly(self._consumer)
        # look-ups of offsets take this one; the coordinator has its own copy, which must outlast a join
        self._consumer.config["request_timeout_ms"] = self._timeout_ms
        self._rebalances = _Rebalances(self._consumer)
        self._subscribe(topics)

    def poll(self, timeout_s: float) -> Sequence[Batch]:
        """Return what is there, waiting at most so long for the first record."""
        records = self._consumer.poll(timeout_ms=milliseconds(timeout_s))
        if self._rebalances.done:
            return ()
        return [batch_of(partition, found, self._consumer.position(partition)) for partition, found in records.items()]

    def rebalancing(self) -> bool:
        """Return whether the group shares its partitions out, and this member has given its own up."""
        return self._rebalances.running

    def assignment(self) -> frozenset[TopicPartition] | None:
        """Return what a rebalance gave, once after it; None while there was none."""
        if not self._rebalances.done:
            return None
        self._rebalances.done = False
        return frozenset((one.topic, one.partition) for one in self._consumer.assignment())

    def generation(self) -> int | None:
        """Return the number of the group's generation."""
        current = self._consumer._coordinator.generation_if_stable()  # noqa: SLF001 - no public way tells the generation
        return None if current is None else current.generation_id

    def start(self, offsets: Mapping[TopicPartition, int | None], paused: Iterable[TopicPartition]) -> None:
        """Read all assigned partitions on from these offsets; None: from where the client is, or what is committed."""
        for partition, offset in offsets.items():
            if offset is not None:
                self._consumer.seek(ClientPartition(*partition), offset)
        held = set(paused)
        self.pause(held)  # one that goes back may be running
        self.resume(offsets.keys() - held)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop returning records."""
        self._consumer.pause(*(ClientPartition(*partition) for partition in partitions))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Return records again."""
        self._consumer.resume(*(ClientPartition(*partition) for partition in partitions))

    def position(self, partition: TopicPartition) -> int | None:
        """Return the next offset to read, past what transactions hide; None where it is not known yet."""
        found: int | None = self._consumer.position(ClientPartition(*partition), timeout_ms=self._timeout_ms)
        return found

    def committed(self, partition: TopicPartition) -> Position | None:
        """Return the group's committed position."""
        found = self._consumer.committed(ClientPartition(*partition), metadata=True, timeout_ms=self._timeout_ms)
        return None if found is None else Position(found.offset, found.metadata or "")

    def beginning(self, partition: TopicPartition) -> int:
        """Return the first offset that is still there."""
        wanted = ClientPartition(*partition)
        offsets: dict[Any, int] = self._consumer.beginning_offsets([wanted])
        return offsets[wanted]

    def end(self, partition: TopicPartition) -> int:
        """Return the offset after the last record that is committed."""
        wanted = ClientPartition(*partition)
        offsets: dict[Any, int] = self._consumer.end_offsets([wanted])
        return offsets[wanted]

    def commit(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Commit positions."""
        offsets = {
            ClientPartition(*partition): OffsetAndMetadata(
                at.offset, at.metadata + NUL, -1
            )  # the other client reads to the next one
            for partition, at in positions.items()
        }
        self._consumer.commit(offsets, timeout_ms=self._timeout_ms)

    def close(self) -> None:
        """Leave the group, within a second or two whatever the broker does."""
        self._consumer.close(autocommit=False, timeout_ms=CLOSE_TIMEOUT_MS)

    def _subscribe(self, topics: Sequence[str]) -> None:
        if any(topic.startswith("^") for topic in topics):
            pattern = f"^(?:{topic_pattern(topics).pattern})$"
            self._consumer.subscribe(pattern=pattern, listener=self._rebalances)
        else:
            self._consumer.subscribe(topics=list(topics), listener=self._rebalances)
