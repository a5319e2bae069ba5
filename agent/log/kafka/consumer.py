"""A group member on Kafka."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.consumer.fetcher import READ_COMMITTED, Fetcher
from kafka.errors import (
    CommitFailedError,
    CorruptRecordError,
    IllegalGenerationError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as ClientPartition

from agent.log.kafka.connection import KafkaSettings, batch_of, translated
from processors.contracts.errors import RebalancingError, UnavailableError
from processors.contracts.log import Assignment, Poll, Position, TopicPartition

# Records out of the batches that a broker sends: the client makes three objects of each, here it is one.
# To take records apart is most of what a collector of single samples does, and the client needs three times as long for it.
NEW_FORMAT = 2
MORE = 128  # the bit of a byte after which a number goes on


class Record(NamedTuple):
    """What is asked of a record."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


class QuickRecords(Fetcher.PartitionRecords):  # type: ignore[misc] # the client ships no types
    """Takes the place of the class that a consumer's fetcher makes for each answer of the broker."""

    def _unpack_records(self, _partition: Any, records: Any, *_deserializers: Any) -> Iterator[Record]:
        batch = records.next_batch()
        while batch is not None:
            if self.check_crcs and not batch.validate_crc():
                raise CorruptRecordError(f"The batch at {batch.base_offset} of {self.topic_partition} is damaged.")
            if not self._hidden(batch):
                self.bytes_read += batch.size_in_bytes
                for record in records_of(batch):
                    self.next_fetch_offset = record.offset + 1
                    yield record
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


def records_of(batch: Any) -> Iterator[Record]:
    """Yield the records of one batch, without their headers; CorruptRecordError where they are cut off."""
    if batch.magic != NEW_FORMAT:
        for record in batch:
            yield Record(record.offset, record.timestamp, record.key, record.value)
        return
    batch._maybe_uncompress()  # noqa: SLF001 - no public way to the bytes
    data, at = bytes(batch._buffer), batch._pos  # noqa: SLF001 - see above
    base, first_ms = batch.base_offset, batch.first_timestamp
    appended_ms = batch.max_timestamp if batch.timestamp_type else None
    try:
        for _ in range(batch.records_count):
            number, at = _number(data, at)
            end = at + (number >> 1)
            number, at = _number(data, at + 1)  # after the attributes, which say nothing
            time_ms = first_ms + ((number >> 1) ^ -(number & 1)) if appended_ms is None else appended_ms
            number, at = _number(data, at)
            offset = base + (number >> 1)
            key, at = _bytes(data, at)
            value, at = _bytes(data, at)
            if at > end:
                raise CorruptRecordError(f"The record at {offset} is longer than it says.")
            at = end  # headers are for others
            yield Record(offset, time_ms, key, value)
    except IndexError:
        raise CorruptRecordError(f"The batch at {base} ends within a record.") from None
    if at != len(data):
        raise CorruptRecordError(f"The batch at {base} has {len(data) - at} bytes after its records.")


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number as it is written, its sign in the last bit, and the place after it."""
    number = data[at]
    if number < MORE:
        return number, at + 1
    more = data[at + 1]
    if more < MORE:
        return number & 127 | more << 7, at + 2
    number, shift, at = number & 127 | (more & 127) << 7, 14, at + 2
    while (more := data[at]) >= MORE:
        number, shift, at = number | (more & 127) << shift, shift + 7, at + 1
    return number | more << shift, at + 1


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    number, at = _number(data, at)
    if number & 1:
        return None, at
    end = at + (number >> 1)
    return data[at:end], end


REBALANCED = (CommitFailedError, IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError)
JOIN_TIMEOUT_S = 1.0  # a member without partitions polls so long, because a join should end within a call
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


class KafkaLogConsumer:
    """A member of a group. A poll that changes the assignment returns no records, so that the caller can seek first.

    At every rebalance the client gives all partitions up and goes back to the committed offsets. A partition that
    stays with its member, with no generation between that could have given it to another, just reads on.
    """

    def __init__(
        self, settings: KafkaSettings, group: str, topics: Sequence[str], member: str, *, from_beginning: bool = True
    ) -> None:
        self._settings = settings
        self._group, self._member = group, member
        self._next: dict[TopicPartition, int] = {}
        self._owned: frozenset[TopicPartition] = frozenset()
        self._fresh: set[TopicPartition] = set()
        self._paused: set[TopicPartition] = set()
        self._generation = -1
        self._quiet_s = 0.0
        self.closed = False
        with translated(settings, f"Joining the group {group}"):
            self._consumer = KafkaConsumer(**_arguments(settings, group, member, from_beginning=from_beginning))
            self._consumer._fetcher.PartitionRecords = QuickRecords  # noqa: SLF001 - no public way
            # look-ups of offsets take this one; the coordinator has its own copy, which must outlast a join
            self._consumer.config["request_timeout_ms"] = round(settings.request_timeout_s * 1000)
            self._rebalances = _Rebalances(self._consumer)
            self._subscribe(topics)

    def poll(self, timeout_s: float) -> Poll:
        """Return what is there, waiting at most `timeout_s`, or a second while nothing is assigned."""
        self._check_open()
        with translated(self._settings, f"Polling for the group {self._group}"):
            self._release()
            wait_s = timeout_s if self._owned else max(timeout_s, JOIN_TIMEOUT_S)
            records = self._consumer.poll(timeout_ms=round(wait_s * 1000))
            if self._rebalances.done:
                return Poll(self._settle())
            batches = tuple(
                batch_of(partition, found, self._consumer.position(partition)) for partition, found in records.items()
            )
        self._next.update({(batch.topic, batch.partition): batch.next_offset for batch in batches})
        self._watch(0.0 if batches else self._quiet_s + wait_s)
        return Poll(Assignment(), batches)

    def assigned(self) -> frozenset[TopicPartition]:
        """Return the partitions this member owns, as of the last poll."""
        return self._owned

    def committed(self, partition: TopicPartition) -> Position | None:
        """Return the group's committed position."""
        self._check_open()
        with translated(self._settings, f"Asking for the position of the group {self._group}"):
            timeout_ms = round(self._settings.request_timeout_s * 1000)
            found = self._consumer.committed(ClientPartition(*partition), metadata=True, timeout_ms=timeout_ms)
        return None if found is None else Position(found.offset, found.metadata or "")

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from an offset; ValueError where the partition is not owned."""
        self._check_open()
        if partition not in self._owned:
            raise ValueError(f"The partition {partition[0]}/{partition[1]} is not assigned.")
        self._consumer.seek(ClientPartition(*partition), offset)
        self._next[partition] = offset

    def beginning(self, partition: TopicPartition) -> int:
        """Return the first offset that is still there."""
        return self._bound(partition, self._consumer.beginning_offsets)

    def end(self, partition: TopicPartition) -> int:
        """Return the offset after the last record that is committed."""
        return self._bound(partition, self._consumer.end_offsets)

    def commit(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Commit positions; those of partitions that are not owned are dropped: a broker would take them.

        Raises RebalancingError while the group rebalances, or has gone on without this member: the next poll joins it
        again. Raises FencedError where another process has this member's name, else UnavailableError.
        """
        self._check_open()
        offsets = {
            ClientPartition(*partition): OffsetAndMetadata(at.offset, at.metadata, -1)
            for partition, at in positions.items()
            if partition in self._owned
        }
        if self._rebalances.running:
            raise RebalancingError(f"The group {self._group} is rebalancing; commit after the next poll.")
        with translated(self._settings, f"Committing for the group {self._group}"):
            try:
                self._consumer.commit(offsets, timeout_ms=round(self._settings.request_timeout_s * 1000))
            except REBALANCED as error:
                raise RebalancingError(f"The group {self._group} went on without {self._member}: {error}") from error

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop returning records of these partitions until `resume`, or until they are lost."""
        self._check_open()
        chosen = self._owned.intersection(partitions)
        self._paused |= chosen
        self._consumer.pause(*(ClientPartition(*partition) for partition in chosen))

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Return records of these partitions again."""
        self._check_open()
        chosen = self._paused.intersection(partitions)
        self._paused -= chosen
        self._consumer.resume(*(ClientPartition(*partition) for partition in chosen))

    def close(self) -> None:
        """Leave the group; nothing happens the second time."""
        if not self.closed:
            self.closed = True
            self._owned = frozenset()
            with suppress(Exception):  # with the broker away there is nobody to tell
                self._consumer.close(autocommit=False, timeout_ms=CLOSE_TIMEOUT_MS)

    def _subscribe(self, topics: Sequence[str]) -> None:
        if not any(topic.startswith("^") for topic in topics):
            self._consumer.subscribe(topics=list(topics), listener=self._rebalances)
            return
        patterns = [topic if topic.startswith("^") else re.escape(topic) for topic in topics]
        pattern = "|".join(f"(?:{pattern})$" for pattern in patterns)
        self._consumer.subscribe(pattern=f"^(?:{pattern})", listener=self._rebalances)

    def _release(self) -> None:
        self._consumer.resume(*(ClientPartition(*partition) for partition in self._fresh - self._paused))
        self._fresh.clear()

    def _settle(self) -> Assignment:
        """Compare what the rebalance gave with what was owned before."""
        self._rebalances.done = False
        now = frozenset((one.topic, one.partition) for one in self._consumer.assignment())
        retained = now & self._owned if self._follows() else frozenset()
        change = Assignment(gained=tuple(sorted(now - retained)), lost=tuple(sorted(self._owned - retained)))
        self._owned = now
        self._fresh = set(now)
        self._paused &= retained
        self._next = {partition: offset for partition, offset in self._next.items() if partition in retained}
        for partition, offset in self._next.items():
            self._consumer.seek(ClientPartition(*partition), offset)
        return change

    def _follows(self) -> bool:
        """Return whether this generation is the one right after the last, and note it."""
        current = self._consumer._coordinator.generation_if_stable()  # noqa: SLF001 - no public way tells the generation
        previous, self._generation = self._generation, -1 if current is None else current.generation_id
        return previous >= 0 and self._generation == previous + 1

    def _bound(self, partition: TopicPartition, look_up: Any) -> int:
        self._check_open()
        wanted = ClientPartition(*partition)
        with translated(self._settings, f"Looking for the bounds of {partition[0]}"):
            offsets: dict[Any, int] = look_up([wanted])
            return offsets[wanted]

    def _watch(self, quiet_s: float) -> None:
        """Give up a client that gets nothing although there is something: seen after outages."""
        self._quiet_s = quiet_s
        if quiet_s < self._settings.stuck_after_s:
            return
        self._quiet_s = 0.0
        for partition, offset in self._next.items():
            if partition not in self._paused and offset < self.end(partition):
                where = f"{partition[0]}/{partition[1]}"
                raise UnavailableError(f"Nothing of {where} arrived for {quiet_s:g} s although there are records.")

    def _check_open(self) -> None:
        if self.closed:
            raise UnavailableError("The consumer is closed.")


def _arguments(settings: KafkaSettings, group: str, member: str, *, from_beginning: bool) -> dict[str, Any]:
    work_ms = round(settings.work_timeout_s * 1000)
    session_ms = round(settings.session_timeout_s * 1000)
    static = {"group_instance_id": member} if settings.static_membership else {}
    return {
        **settings.consuming(member),
        **static,
        "group_id": group,
        "auto_offset_reset": "earliest" if from_beginning else "latest",
        "session_timeout_ms": session_ms,
        "heartbeat_interval_ms": session_ms // 3,
        "max_poll_interval_ms": work_ms,
        "request_timeout_ms": max(work_ms, session_ms) + 5000,  # a join may wait for the slowest member's work
        "connections_max_idle_ms": max(work_ms, session_ms) + 240_000,
    }
