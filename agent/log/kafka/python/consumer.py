"""A group member of kafka-python."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.consumer.fetcher import READ_COMMITTED, Fetcher
from kafka.errors import CorruptRecordError, KafkaTimeoutError
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as ClientPartition

from agent.log.kafka.client import KafkaSettings, milliseconds
from agent.log.kafka.consumer import NUL
from agent.log.kafka.python.arguments import joining, reading
from processors.contracts.log import Batch, Position, TopicPartition, topic_pattern

Record = tuple[int, int, bytes | None, bytes | None]
"""What is asked of a record: offset, time in ms, key, value."""

NEW_FORMAT = 2
MORE = 128  # the bit of a byte after which a number goes on
NO_BYTES = 1  # the length -1


class QuickRecords(Fetcher.PartitionRecords):  # type: ignore[misc] # the client ships no types
    """Takes the place of the class that a consumer's fetcher makes for each answer of the broker."""

    def take(self, n: int | None = None) -> list[Record]:
        """Return the next records, and note where the ones after them begin."""
        found: list[Record] = super().take(n)
        if found and self.record_iterator is not None:  # else all were taken, and it is known where to go on
            self.next_fetch_offset = found[-1][0] + 1
        return found

    def _maybe_skip_record(self, record: Record) -> bool:
        return bool(record[0] < self.fetch_offset)  # within a batch of which the first were read before

    def _unpack_records(self, _partition: Any, records: Any, *_deserializers: Any) -> Iterator[Record]:
        batch = records.next_batch()
        while batch is not None:
            if self.check_crcs and not batch.validate_crc():
                raise CorruptRecordError(f"The batch at {batch.base_offset} of {self.topic_partition} is damaged.")
            if not self._hidden(batch):
                self.bytes_read += batch.size_in_bytes
                yield from records_of(batch)
            if batch.magic == NEW_FORMAT:
                self.next_fetch_offset = batch.next_offset  # the last record may be gone by compaction
            batch = records.next_batch()
        self.drain()

    def _hidden(self, batch: Any) -> bool:
        """Return whether a batch is a mark of a transaction, or of one that was aborted."""
        if batch.magic != NEW_FORMAT:
            return False
        if self.isolation_level == READ_COMMITTED and batch.has_producer_id():
            self._consume_aborted_transactions_up_to(batch.last_offset)
            if batch.is_control_batch and self._contains_abort_marker(batch):
                self.aborted_producer_ids.discard(batch.producer_id)
            elif self._is_batch_aborted(batch):
                return True
        return bool(batch.is_control_batch)


def take_quickly(consumer: Any) -> None:
    """Let a consumer take its records apart by our code."""
    consumer._fetcher.PartitionRecords = QuickRecords  # noqa: SLF001 - no public way


def records_of(batch: Any) -> Iterator[Record]:
    """Yield the records of one batch, without their headers; CorruptRecordError where they are cut off.

    Numbers have their sign in the last bit. Most are of one byte, and are read here: a call for each takes as long as all the rest.
    """
    if batch.magic != NEW_FORMAT:
        for record in batch:
            yield record.offset, record.timestamp, record.key, record.value
        return
    batch._maybe_uncompress()  # noqa: SLF001 - no public way to the bytes
    data, at = bytes(batch._buffer), batch._pos  # noqa: SLF001 - see above
    base, first_ms = batch.base_offset, batch.first_timestamp
    appended_ms = batch.max_timestamp if batch.timestamp_type else None
    try:
        for _ in range(batch.records_count):
            number, at = data[at], at + 1
            if number >= MORE:
                number, at = _longer(data, number, at)
            end = at + (number >> 1)
            number, at = data[at + 1], at + 2  # after the attributes, which say nothing
            if number >= MORE:
                number, at = _longer(data, number, at)
            time_ms = first_ms + ((number >> 1) ^ -(number & 1)) if appended_ms is None else appended_ms
            number, at = data[at], at + 1
            if number >= MORE:
                number, at = _longer(data, number, at)
            offset = base + (number >> 1)
            key, at = (None, at + 1) if data[at] == NO_BYTES else _bytes(data, at)
            value, at = _bytes(data, at)
            if at > end:
                raise CorruptRecordError(f"The record at {offset} is longer than it says.")
            at = end  # headers are for others
            yield offset, time_ms, key, value
    except IndexError:
        raise CorruptRecordError(f"The batch at {base} ends within a record.") from None
    if at != len(data):
        raise CorruptRecordError(f"The batch at {base} has {len(data) - at} bytes after its records.")


def _longer(data: bytes, number: int, at: int) -> tuple[int, int]:
    """Return a number that goes on after its first byte, and the place after it."""
    more, at = data[at], at + 1
    number, shift = number & 127 | (more & 127) << 7, 14
    while more >= MORE:
        more, at = data[at], at + 1
        number, shift = number | (more & 127) << shift, shift + 7
    return number, at


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    number, at = data[at], at + 1
    if number >= MORE:
        number, at = _longer(data, number, at)
    if number & 1:
        return None, at
    end = at + (number >> 1)
    return data[at:end], end


def batch_of(partition: Any, records: list[Any], next_offset: int) -> Batch:
    """Return the client's records as columns."""
    offsets, times_ms, keys, values = zip(*records, strict=True)
    return Batch(
        topic=partition.topic,
        partition=partition.partition,
        next_offset=next_offset,
        offsets=offsets,
        values=values,
        keys=keys,
        timestamps_ms=times_ms,
    )


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


READER_CLOSE_TIMEOUT_MS = 500


class PythonReader:
    """Reads one partition by hand."""

    def __init__(self, settings: KafkaSettings, topic: str, partition: int, *, committed: bool) -> None:
        self._timeout_ms = milliseconds(settings.read_timeout_s)
        self._partition = ClientPartition(topic, partition)
        self._consumer = KafkaConsumer(**reading(settings, committed=committed))
        take_quickly(self._consumer)
        self._consumer.assign([self._partition])

    def beginning(self) -> int:
        """Return the first offset that is still there."""
        offsets: dict[Any, int] = self._consumer.beginning_offsets([self._partition])
        return offsets[self._partition]

    def end(self) -> int:
        """Return the offset after the last record that this reader may see."""
        offsets: dict[Any, int] = self._consumer.end_offsets([self._partition])
        return offsets[self._partition]

    def seek(self, offset: int) -> None:
        """Read on from an offset."""
        self._consumer.seek(self._partition, offset)

    def position(self) -> int:
        """Return the next offset to read, past what transactions hide."""
        position: int | None = self._consumer.position(self._partition, timeout_ms=self._timeout_ms)
        if position is None:
            raise KafkaTimeoutError("the position could not be found")
        return position

    def poll(self, timeout_s: float) -> Batch | None:
        """Return the next records; None where none came in time."""
        records = self._consumer.poll(timeout_ms=milliseconds(timeout_s)).get(self._partition)
        return batch_of(self._partition, records, self.position()) if records else None

    def close(self) -> None:
        """Free the connections."""
        self._consumer.close(autocommit=False, timeout_ms=READER_CLOSE_TIMEOUT_MS)
