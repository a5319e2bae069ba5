"""Group members and partition readers of confluent-kafka."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import OFFSET_STORED, Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from agent.log.kafka.client import KafkaLogSettings, milliseconds, within
from agent.log.kafka.confluent.arguments import joining, reading, settled
from processors.contracts.log import Batch, Position, TopicPartition, topic_pattern

CLOSE_S: Final = 2.0
READER_CLOSE_S: Final = 1.0
ASK_AGAIN: Final = 20
FORMAT: Final = b"CGMDv2:"  # header of the group metadata for transactions, followed by the generation as a number
PASSING: Final = (  # transient errors, whose outcome the next polls show
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._MAX_POLL_EXCEEDED,  # noqa: SLF001 - its public name
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001 - see above
    KafkaError._TRANSPORT,  # noqa: SLF001 - see above
)


class _ConfluentConsumer:
    """The common part of group members and partition readers."""

    def __init__(self, settings: KafkaLogSettings, arguments: dict[str, Any]) -> None:
        self._timeout_s, self._records_max = settings.request_timeout_s, settings.poll_records_max
        self._consumer = Consumer(arguments)

    def beginning(self, partition: TopicPartition) -> int:
        return self._bounds(partition)[0]

    def end(self, partition: TopicPartition) -> int:
        return self._bounds(partition)[1]

    def _bounds(self, partition: TopicPartition) -> tuple[int, int]:
        place = ClientPartition(*partition)
        # a broker may not know a new partition yet
        first, end = settled(lambda: self._consumer.get_watermark_offsets(place, self._timeout_s))
        return first, end

    def _polled(self, timeout_s: float) -> tuple[list[Batch], KafkaError | None]:
        """Return the next records, see `columns`; wait at most `timeout_s` for the first record."""
        first = self._consumer.poll(timeout_s)
        messages = [] if first is None else [first, *self._consumer.consume(self._records_max - 1, 0.0)]
        return columns(self._consumer, messages)


class ConfluentMember(_ConfluentConsumer):
    """Implements `GroupMember`."""

    def __init__(
        self, settings: KafkaLogSettings, group: str, topics: Sequence[str], member: str, *, from_beginning: bool
    ) -> None:
        self._topics = topics
        self._assigned: list[ClientPartition] | None = None
        self._rebalancing = self._lost = False
        self._failure: KafkaError | None = None
        self._subscribed: list[str] | None = None
        self._look_again = patterns = any(topic.startswith("^") for topic in topics)
        arguments = joining(settings, group, member, from_beginning=from_beginning)
        if patterns:  # the periodic statistics callback also looks for new topics
            rhythm_ms = milliseconds(settings.metadata_age_s)
            arguments |= {"statistics.interval.ms": rhythm_ms, "stats_cb": self._on_time}
        super().__init__(settings, arguments)
        if patterns:
            self._subscribe_to_known()
        else:
            self._subscribe(list(topics))

    def poll(self, timeout_s: float) -> Sequence[Batch]:
        if self._look_again:
            self._subscribe_to_known()
        if self._failure is None:
            batches, self._failure = self._polled(timeout_s)
            if batches:
                # the next poll raises an error that came among records, because raising it now would lose the records
                return batches
        failure, self._failure = self._failure, None
        if failure is not None:
            raise KafkaException(failure)
        return ()

    def rebalancing(self) -> bool:
        return self._rebalancing

    def assignment(self) -> frozenset[TopicPartition] | None:
        assigned, self._assigned = self._assigned, None
        return None if assigned is None else frozenset((one.topic, one.partition) for one in assigned)

    def generation(self) -> int | None:
        lost, self._lost = self._lost, False
        packed = self._consumer.consumer_group_metadata()
        if lost or not isinstance(packed, bytes) or not packed.startswith(FORMAT):
            return None
        return int.from_bytes(packed[len(FORMAT) : len(FORMAT) + 4], sys.byteorder, signed=True)

    def start(self, offsets: Mapping[TopicPartition, int | None], paused: Iterable[TopicPartition]) -> None:
        starts = {one: self.position(one) if offset is None else offset for one, offset in offsets.items()}
        self._consumer.assign(
            [ClientPartition(*one, OFFSET_STORED if offset is None else offset) for one, offset in starts.items()]
        )
        self.pause(paused)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self._consumer.pause([ClientPartition(*partition) for partition in partitions])

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._consumer.resume([ClientPartition(*partition) for partition in partitions])

    def position(self, partition: TopicPartition) -> int | None:
        return _offset(self._consumer.position([ClientPartition(*partition)])[0])

    def committed(self, partition: TopicPartition) -> Position | None:
        committed = self._committed(ClientPartition(*partition))
        offset = _offset(committed)
        return None if offset is None else Position(offset, committed.metadata or "")

    def commit(self, positions: Mapping[TopicPartition, Position]) -> None:
        offsets = [ClientPartition(*one, at.offset, at.metadata) for one, at in positions.items()]
        commit = lambda: self._consumer.commit(offsets=offsets, asynchronous=False)  # noqa: E731 - called in a thread
        for one in within(self._timeout_s, commit, "Committing"):
            _offset(one)

    def close(self) -> None:
        within(CLOSE_S, self._consumer.close, "Leaving the group")

    def _committed(self, partition: ClientPartition) -> ClientPartition:
        """Return the committed offset; repeat the request if the library cannot decode the metadata.

        The library appends random bytes to metadata without an end mark, which an older agent wrote.
        """
        for _ in range(ASK_AGAIN):
            with suppress(UnicodeDecodeError):
                return self._consumer.committed([partition], self._timeout_s)[0]
        return self._consumer.committed([partition], self._timeout_s)[0]

    def _subscribe(self, topics: list[str]) -> None:
        self._subscribed = topics
        self._consumer.subscribe(topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost)

    def _subscribe_to_known(self) -> None:
        """Subscribe to the topics whose whole names match a pattern.

        The library itself would use POSIX regular expressions, and match parts of names.
        """
        self._look_again = False
        topics = self._consumer.list_topics(timeout=self._timeout_s).topics
        matching = sorted(filter(topic_pattern(self._topics).fullmatch, topics))
        if matching and matching != self._subscribed:
            self._subscribe(matching)

    def _on_time(self, _figures: str) -> None:
        self._look_again = True

    def _on_assign(self, consumer: Consumer, partitions: list[ClientPartition]) -> None:
        consumer.assign([])  # nothing is read before `start`
        self._assigned = partitions
        self._rebalancing = False

    def _on_revoke(self, consumer: Consumer, _partitions: list[ClientPartition]) -> None:
        self._rebalancing = True
        consumer.unassign()

    def _on_lost(self, consumer: Consumer, partitions: list[ClientPartition]) -> None:
        self._lost = True
        self._on_revoke(consumer, partitions)


def columns(consumer: Consumer, messages: Sequence[Message]) -> tuple[list[Batch], KafkaError | None]:
    """Return the messages as one batch per partition, and the first error that is not in PASSING.

    `map` builds whole columns, because a Python loop over the messages would take as long as the library takes to read them.
    """
    failure: KafkaError | None = None
    if any(map(Message.error, messages)):
        errors = [error for error in map(Message.error, messages) if error]
        failure = next((error for error in errors if error.code() not in PASSING), None)
        messages = [message for message in messages if not message.error()]
    by_partition: dict[TopicPartition, list[Message]] = {}
    places: list[Any] = list(zip(map(Message.topic, messages), map(Message.partition, messages), strict=True))
    if places and places.count(places[0]) == len(places):
        by_partition[places[0]] = list(messages)
    else:
        for place, message in zip(places, messages, strict=True):
            by_partition.setdefault(place, []).append(message)
    return [_batch(consumer, *entry) for entry in by_partition.items()], failure


def _offset(answer: ClientPartition) -> int | None:
    """Return the offset in a response of the library; None if the library knows no offset. Raise KafkaException on an error response."""
    if answer.error is not None:
        raise KafkaException(answer.error)
    return answer.offset if answer.offset >= 0 else None


def _batch(consumer: Consumer, partition: TopicPartition, messages: list[Message]) -> Batch:
    offsets: list[Any] = list(map(Message.offset, messages))
    position = _offset(consumer.position([ClientPartition(*partition)])[0])
    values, keys = list(map(Message.value, messages)), list(map(Message.key, messages))
    times_ms = [time_ms for _, time_ms in map(Message.timestamp, messages)]
    return Batch(*partition, max(offsets[-1] + 1, position or 0), offsets, values, keys, times_ms)


class ConfluentReader(_ConfluentConsumer):
    """Implements `PartitionReader`."""

    def __init__(self, settings: KafkaLogSettings, topic: str, partition: int, *, committed: bool) -> None:
        super().__init__(settings, reading(settings, committed=committed))
        self._topic, self._partition = topic, partition
        self._offset = 0

    def seek(self, offset: int) -> None:
        self._offset = offset
        self._consumer.assign([self._place(offset)])

    def position(self) -> int:
        return max(self._offset, _offset(self._consumer.position([self._place()])[0]) or 0)

    def poll(self, timeout_s: float) -> Batch | None:
        batches, failure = self._polled(timeout_s)
        if failure is not None and failure.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:  # a reader uses no group
            raise KafkaException(failure)
        return batches[0] if batches else None

    def close(self) -> None:
        within(READER_CLOSE_S, self._consumer.close, "Closing a reader")

    def _place(self, offset: int = -1) -> ClientPartition:
        return ClientPartition(self._topic, self._partition, offset)
