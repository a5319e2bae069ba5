"""Group members and partition readers of kafka-python, with a faster decoder for records."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.consumer.fetcher import READ_COMMITTED, Fetcher
from kafka.errors import CorruptRecordError, KafkaTimeoutError
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as ClientPartition

from agent.log.kafka.client import KafkaLogSettings, milliseconds
from agent.log.kafka.python.arguments import joining, reading
from processors.contracts.log import Batch, Position, TopicPartition, topic_pattern

Record = tuple[int, int, bytes | None, bytes | None]
"""Offset, timestamp in ms, key and value of a record."""

NEW_FORMAT = 2
MORE = 128  # bit of a byte that says that the number continues
NO_BYTES = 1  # the encoded length -1
NUL = "\0"
CLOSE_TIMEOUT_MS, READER_CLOSE_TIMEOUT_MS = 1000, 500


class QuickRecords(Fetcher.PartitionRecords):  # type: ignore[misc] # the client ships no types
    """Decodes fetched batches of records; replaces a slower class of the client inside a consumer's fetcher."""

    def take(self, n: int | None = None) -> list[Record]:
        """Return the next records, at most `n`; the next fetch starts after the last of them."""
        records: list[Record] = super().take(n)
        if records and self.record_iterator is not None:  # else all records were taken, and the offset is already set
            self.next_fetch_offset = records[-1][0] + 1
        return records

    def _maybe_skip_record(self, record: Record) -> bool:
        return bool(record[0] < self.fetch_offset)  # earlier records of the batch were read before

    def _unpack_records(self, _partition: Any, records: Any, *_deserializers: Any) -> Iterator[Record]:
        batch = records.next_batch()
        while batch is not None:
            if self.check_crcs and not batch.validate_crc():
                raise CorruptRecordError(f"The batch at {batch.base_offset} of {self.topic_partition} is damaged.")
            if not self._hidden(batch):
                self.bytes_read += batch.size_in_bytes
                yield from records_of(batch)
            if batch.magic == NEW_FORMAT:
                self.next_fetch_offset = batch.next_offset  # because compaction may have removed the last record
            batch = records.next_batch()
        self.drain()

    def _hidden(self, batch: Any) -> bool:
        """Return whether a batch is a transaction marker, or belongs to an aborted transaction."""
        if batch.magic != NEW_FORMAT:
            return False
        if self.isolation_level == READ_COMMITTED and batch.has_producer_id():
            self._consume_aborted_transactions_up_to(batch.last_offset)
            if batch.is_control_batch and self._contains_abort_marker(batch):
                self.aborted_producer_ids.discard(batch.producer_id)
            elif self._is_batch_aborted(batch):
                return True
        return bool(batch.is_control_batch)


def records_of(batch: Any) -> Iterator[Record]:
    """Yield the records of one batch without headers. Raise CorruptRecordError if a record is truncated.

    Numbers are zigzag encoded, with the sign in the last bit. Most numbers have one byte and are decoded in this loop, because a
    function call for each number takes as long as all other work.
    """
    if batch.magic != NEW_FORMAT:
        for record in batch:
            yield record.offset, record.timestamp, record.key, record.value
        return
    batch._maybe_uncompress()  # noqa: SLF001 - no public way to the bytes
    data, index = bytes(batch._buffer), batch._pos  # noqa: SLF001 - see above
    base, first_ms = batch.base_offset, batch.first_timestamp
    appended_ms = batch.max_timestamp if batch.timestamp_type else None
    try:
        for _ in range(batch.records_count):
            number, index = data[index], index + 1
            if number >= MORE:
                number, index = _longer(data, number, index)
            end = index + (number >> 1)
            number, index = data[index + 1], index + 2  # skip the unused attributes
            if number >= MORE:
                number, index = _longer(data, number, index)
            time_ms = first_ms + ((number >> 1) ^ -(number & 1)) if appended_ms is None else appended_ms
            number, index = data[index], index + 1
            if number >= MORE:
                number, index = _longer(data, number, index)
            offset = base + (number >> 1)
            key, index = (None, index + 1) if data[index] == NO_BYTES else _bytes(data, index)
            value, index = _bytes(data, index)
            if index > end:
                raise CorruptRecordError(f"The record at {offset} is longer than its stated length.")
            index = end  # skip the headers
            yield offset, time_ms, key, value
    except IndexError:
        raise CorruptRecordError(f"The batch at {base} ends within a record.") from None
    if index != len(data):
        raise CorruptRecordError(f"The batch at {base} has {len(data) - index} bytes after its records.")


def _longer(data: bytes, number: int, index: int) -> tuple[int, int]:
    """Return a number of several bytes, and the index after it."""
    more, index = data[index], index + 1
    number, shift = number & 127 | (more & 127) << 7, 14
    while more >= MORE:
        more, index = data[index], index + 1
        number, shift = number | (more & 127) << shift, shift + 7
    return number, index


def _bytes(data: bytes, index: int) -> tuple[bytes | None, int]:
    number, index = data[index], index + 1
    if number >= MORE:
        number, index = _longer(data, number, index)
    if number & 1:
        return None, index
    end = index + (number >> 1)
    return data[index:end], end


def batch_of(partition: Any, records: list[Any], next_offset: int) -> Batch:
    offsets, times_ms, keys, values = zip(*records, strict=True)
    return Batch(partition.topic, partition.partition, next_offset, offsets, values, keys, times_ms)


class _Rebalances(ConsumerRebalanceListener):  # type: ignore[misc] # the client ships no types
    """Follows rebalances. Gained partitions are paused at once, so that the caller can seek first.

    The group rebalances when a topic or partition is added. If the member's join takes longer than one poll, the client forgets
    that it joined, and the partitions assigned to the member stay unread. So the join is requested again until it has ended.
    """

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self.running = False
        self.ended = False

    def on_partitions_revoked(self, revoked: Collection[Any]) -> None:  # noqa: ARG002 - a member revokes all its partitions
        self.running = True
        self._consumer._coordinator.request_rejoin()  # noqa: SLF001 - no public way

    def on_partitions_assigned(self, assigned: Collection[Any]) -> None:
        self._consumer.pause(*assigned)
        self.running = False
        self.ended = True


class _PythonConsumer:
    """The common part of group members and partition readers. Records are decoded with `QuickRecords`."""

    def __init__(self, arguments: dict[str, Any], timeout_s: float) -> None:
        self._timeout_ms = milliseconds(timeout_s)
        self._consumer = KafkaConsumer(**arguments)
        self._consumer._fetcher.PartitionRecords = QuickRecords  # noqa: SLF001 - no public way

    def beginning(self, partition: TopicPartition) -> int:
        return self._bound(self._consumer.beginning_offsets, partition)

    def end(self, partition: TopicPartition) -> int:
        return self._bound(self._consumer.end_offsets, partition)

    def _bound(self, look_up: Callable[[list[Any]], dict[Any, int]], partition: TopicPartition) -> int:
        client_partition = ClientPartition(*partition)
        return look_up([client_partition])[client_partition]


class PythonMember(_PythonConsumer):
    """Implements `GroupMember`."""

    def __init__(
        self, settings: KafkaLogSettings, group: str, topics: Sequence[str], member: str, *, from_beginning: bool
    ) -> None:
        super().__init__(joining(settings, group, member, from_beginning=from_beginning), settings.request_timeout_s)
        # for offset requests; the coordinator has its own copy, which must outlast a join
        self._consumer.config["request_timeout_ms"] = self._timeout_ms
        self._rebalances = _Rebalances(self._consumer)
        self._subscribe(topics)

    def poll(self, timeout_s: float) -> Sequence[Batch]:
        records = self._consumer.poll(timeout_ms=milliseconds(timeout_s))
        if self._rebalances.ended:
            return ()
        return [
            batch_of(partition, partition_records, self._consumer.position(partition))
            for partition, partition_records in records.items()
        ]

    def rebalancing(self) -> bool:
        return self._rebalances.running

    def assignment(self) -> frozenset[TopicPartition] | None:
        if not self._rebalances.ended:
            return None
        self._rebalances.ended = False
        return frozenset((one.topic, one.partition) for one in self._consumer.assignment())

    def generation(self) -> int | None:
        current = self._consumer._coordinator.generation_if_stable()  # noqa: SLF001 - no public way tells the generation
        return None if current is None else current.generation_id

    def start(self, offsets: Mapping[TopicPartition, int | None], paused: Iterable[TopicPartition]) -> None:
        for partition, offset in offsets.items():
            if offset is not None:
                self._consumer.seek(ClientPartition(*partition), offset)
        paused_partitions = set(paused)
        self.pause(paused_partitions)  # because a partition whose offset is set back may not be paused
        self.resume(offsets.keys() - paused_partitions)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self._consumer.pause(*(ClientPartition(*partition) for partition in partitions))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._consumer.resume(*(ClientPartition(*partition) for partition in partitions))

    def position(self, partition: TopicPartition) -> int | None:
        position: int | None = self._consumer.position(ClientPartition(*partition), timeout_ms=self._timeout_ms)
        return position

    def committed(self, partition: TopicPartition) -> Position | None:
        committed = self._consumer.committed(ClientPartition(*partition), metadata=True, timeout_ms=self._timeout_ms)
        return None if committed is None else Position(committed.offset, committed.metadata or "")

    def commit(self, positions: Mapping[TopicPartition, Position]) -> None:
        offsets = {
            # confluent-kafka reads metadata up to the next NUL
            ClientPartition(*partition): OffsetAndMetadata(position.offset, position.metadata + NUL, -1)
            for partition, position in positions.items()
        }
        self._consumer.commit(offsets, timeout_ms=self._timeout_ms)

    def close(self) -> None:
        self._consumer.close(autocommit=False, timeout_ms=CLOSE_TIMEOUT_MS)

    def _subscribe(self, topics: Sequence[str]) -> None:
        if any(topic.startswith("^") for topic in topics):
            pattern = f"^(?:{topic_pattern(topics).pattern})$"
            self._consumer.subscribe(pattern=pattern, listener=self._rebalances)
        else:
            self._consumer.subscribe(topics=list(topics), listener=self._rebalances)


class PythonReader(_PythonConsumer):
    """Implements `PartitionReader`."""

    def __init__(self, settings: KafkaLogSettings, topic: str, partition: int, *, committed: bool) -> None:
        super().__init__(reading(settings, committed=committed), settings.read_timeout_s)
        self._partition = ClientPartition(topic, partition)
        self._consumer.assign([self._partition])

    def seek(self, offset: int) -> None:
        self._consumer.seek(self._partition, offset)

    def position(self) -> int:
        position: int | None = self._consumer.position(self._partition, timeout_ms=self._timeout_ms)
        if position is None:
            raise KafkaTimeoutError("the position could not be found")
        return position

    def poll(self, timeout_s: float) -> Batch | None:
        records = self._consumer.poll(timeout_ms=milliseconds(timeout_s)).get(self._partition)
        return batch_of(self._partition, records, self.position()) if records else None

    def close(self) -> None:
        self._consumer.close(autocommit=False, timeout_ms=READER_CLOSE_TIMEOUT_MS)
