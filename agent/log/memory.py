"""The log in memory: the embedded agent runs on it, and simulated crashes use it in place of a broker."""

import re
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter, itemgetter
from threading import Condition
from typing import TypeVar

from processors.contracts.errors import FencedError, RebalancingError, UnavailableError
from processors.contracts.log import (
    Assignment,
    Batch,
    Examined,
    FoundTopic,
    LiveStates,
    Marker,
    Poll,
    Position,
    Restoration,
    Restored,
    TopicPartition,
    TopicSettings,
    check_record,
    checkpoint_records,
    topic_pattern,
)

COMPACTION_SLACK = 1024  # compaction starts when there are this many more superseded records than live records
RETENTION_SLACK = 1.25  # dropping the oldest records of a list costs its whole length, so it is done in large steps

POLL_RECORDS_MAX = 2000
NO_CHANGE = Assignment()
Record = tuple[bytes | None, bytes | None]  # key and value
AnyClient = TypeVar("AnyClient", bound="_Client")


class MemoryPartition:
    """Records in order of their offsets.

    A compacted partition keeps the last record of each key. A tombstone survives one compaction, so that a reader less than
    one compaction behind still sees it. Any other partition drops its oldest records when it has more than `records_max`, or
    when they are more than `retention_ms` older than the newest timestamp. An offset is never used twice.
    """

    def __init__(self, topic: TopicSettings, partition: int, records_max: int | None = None) -> None:
        self.settings = topic
        self.topic, self.partition, self.compacted = topic.name, partition, topic.compacted
        self.first_offset = self.next_offset = 0
        self._records_max, self._retention_ms = records_max, topic.retention_ms
        self._newest_ms = self._tombstones_until = 0
        self._compact_at = COMPACTION_SLACK
        self._records: list[tuple[int, int, bytes | None, bytes | None]] = []  # offset, timestamp, key, value

    def append(self, value: bytes | None, key: bytes | None, timestamp_ms: int) -> int:
        """Add a record and return its offset. Raise ValueError for a record without a key in a compacted partition."""
        if self.compacted and key is None:
            raise ValueError(f"The topic {self.topic} is compacted, so a record needs a key.")
        offset = self.next_offset
        self._records.append((offset, timestamp_ms, key, value))
        self._newest_ms = max(self._newest_ms, timestamp_ms)
        self.next_offset = offset + 1
        if not offset % COMPACTION_SLACK:
            self._shorten()
        return offset

    def mark(self) -> None:
        """Use up an offset without a record, like a transaction marker."""
        self.next_offset += 1

    def read(self, offset: int, records_max: int) -> Batch | None:
        start = bisect_left(self._records, offset, key=itemgetter(0))
        records = self._records[start : start + records_max]
        if not records:
            return None
        offsets, timestamps_ms, keys, values = map(list, zip(*records, strict=True))
        is_last = start + len(records) == len(self._records)
        next_offset = self.next_offset if is_last else records[-1][0] + 1
        return Batch(self.topic, self.partition, next_offset, offsets, values, keys, timestamps_ms)

    def compact(self) -> None:
        last = {record[2]: record for record in self._records}.values()
        self._records = sorted(
            record for record in last if record[3] is not None or record[0] >= self._tombstones_until
        )
        self._tombstones_until = self.next_offset
        self._compact_at = 2 * len(self._records) + COMPACTION_SLACK

    def _shorten(self) -> None:
        if self.compacted:
            if len(self._records) > self._compact_at:
                self.compact()
            return
        cut = 0
        if self._records_max is not None and len(self._records) > RETENTION_SLACK * self._records_max:
            cut = len(self._records) - self._records_max
        if self._retention_ms is not None:
            oldest_ms = self._newest_ms - self._retention_ms
            newer = (index for index, record in enumerate(self._records) if record[1] >= oldest_ms)
            # keep the newest record, because its offset becomes the first offset
            cut = max(cut, next(newer, len(self._records) - 1))
        if cut:
            del self._records[:cut]
            self.first_offset = self._records[0][0]


class MemoryMember:
    """A group member: its current partitions (`assigned`), its future partitions (`target`), and whether it was expelled."""

    def __init__(self, name: str, number: int) -> None:
        self.order = (name, number)
        self.assigned: set[TopicPartition] = set()
        self.target: set[TopicPartition] = set()
        self.expelled = False


class MemoryGroup:
    """The members of a consumer group, and the assignment of partitions to members.

    A partition changes hands in two steps: its owner releases the partition at the owner's next poll, and only then the new owner
    gets the partition. So two members never hold the same partition, except for an expelled member that has not noticed its
    expulsion yet; an expelled member cannot commit.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.members: list[MemoryMember] = []
        self.committed: dict[TopicPartition, Position] = {}
        self._joined = 0
        self._holders: dict[TopicPartition, MemoryMember] = {}

    def join(self, name: str) -> MemoryMember:
        self._joined += 1
        member = MemoryMember(name, self._joined)
        self.members.append(member)
        self.members.sort(key=attrgetter("order"))
        return member

    def remove(self, member: MemoryMember) -> None:
        member.expelled = True
        member.target = set()
        self.members = [one for one in self.members if one is not member]
        self._holders = {partition: holder for partition, holder in self._holders.items() if holder is not member}

    def share(self, readable: Mapping[MemoryMember, Iterable[TopicPartition]]) -> None:
        """Begin a new generation: distribute the partitions in turn over the members that can read them."""
        self.generation += 1
        readers: dict[TopicPartition, list[MemoryMember]] = {}
        for member in self.members:
            for partition in readable.get(member, ()):
                readers.setdefault(partition, []).append(member)
            member.target = set()
        for turn, partition in enumerate(sorted(readers)):
            readers[partition][turn % len(readers[partition])].target.add(partition)

    def settled(self, member: MemoryMember) -> bool:
        return member.assigned <= member.target and member.target - member.assigned <= self._holders.keys()

    def settle(self, member: MemoryMember) -> Assignment:
        """Release the member's partitions that now belong to others, and take its new partitions that are free; return both."""
        lost = sorted(member.assigned - member.target)
        for partition in lost:
            if self._holders.get(partition) is member:
                del self._holders[partition]
        gained = sorted(partition for partition in member.target - member.assigned if partition not in self._holders)
        self._holders.update(dict.fromkeys(gained, member))
        member.assigned = (member.assigned & member.target) | set(gained)
        return Assignment(gained=tuple(gained), lost=tuple(lost))

    def commit(self, member: MemoryMember, positions: Mapping[TopicPartition, Position]) -> None:
        """Store the positions of partitions that the member holds; ignore other partitions."""
        self.committed.update({key: position for key, position in positions.items() if key in member.assigned})


class MemoryBroker:
    """The state that survives a crash of its clients, behind one lock. Several `MemoryLog`s share a broker, one per simulated process.

    Timestamps come with the records; the broker reads no clock. `records_max` limits each partition that is not compacted. Without
    `records_max`, only the `retention_ms` of the topic limits a partition, relative to its newest timestamp.
    """

    def __init__(self, *, records_max: int | None = None) -> None:
        self.changed = Condition()
        self._records_max = records_max
        self._topics: dict[str, list[MemoryPartition]] = {}
        self._groups: dict[str, MemoryGroup] = {}
        self._subscriptions: dict[MemoryMember, re.Pattern[str]] = {}
        self._turns: dict[str, int] = {}
        self._epochs: dict[str, int] = {}

    def create(self, topics: Sequence[TopicSettings]) -> list[str]:
        with self.changed:
            missing = [topic for topic in topics if topic.name not in self._topics]
            for topic in missing:
                self._topics[topic.name] = [
                    MemoryPartition(topic, number, self._records_max) for number in range(topic.partitions)
                ]
            for group in self._groups.values() if missing else ():
                self._share(group)
            return [topic.name for topic in missing]

    def partitions(self, topic: str) -> int | None:
        with self.changed:
            return len(self._topics[topic]) if topic in self._topics else None

    def examine(self, topics: Sequence[str]) -> dict[str, FoundTopic]:
        with self.changed:
            existing = [self._topics[topic][0].settings for topic in topics if topic in self._topics]
            return {topic.name: FoundTopic(topic.partitions, 1, topic.options(), None) for topic in existing}

    def ends(self, topics: Sequence[str]) -> dict[str, dict[int, int]]:
        with self.changed:
            names = filter(topic_pattern(topics).fullmatch, self._topics)
            return {name: {store.partition: store.next_offset for store in self._topics[name]} for name in names}

    def partition(self, partition: TopicPartition) -> MemoryPartition:
        """Return a partition. Raise UnavailableError if the topic has no partition with this number."""
        topic, number = partition
        if topic not in self._topics:
            raise UnavailableError(f"The topic {topic} does not exist.")
        if not 0 <= number < len(self._topics[topic]):
            raise UnavailableError(f"The topic {topic} has no partition {number}.")
        return self._topics[topic][number]

    def append(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int | None, timestamp_ms: int
    ) -> None:
        """Append a record. Without `partition`, the key selects the partition; without a key, partitions are used in turn."""
        with self.changed:
            number = self._pick(topic, key) if partition is None else partition
            self.partition((topic, number)).append(value, key, timestamp_ms)
            self.changed.notify_all()

    def snapshot(self, partition: TopicPartition, newest: int | None = None) -> tuple[Batch | None, int]:
        with self.changed:
            store = self.partition(partition)
            if store.compacted:
                store.compact()
            first = store.first_offset if newest is None else max(store.next_offset - newest, store.first_offset)
            return store.read(first, store.next_offset + 1), store.next_offset

    def fence(self, transactional_id: str) -> int:
        """Begin a new epoch of a transactional id; owners of earlier epochs can no longer write."""
        with self.changed:
            self._epochs[transactional_id] = self._epochs.get(transactional_id, 0) + 1
            return self._epochs[transactional_id]

    def transact(self, transactional_id: str, epoch: int, partition: TopicPartition, records: Sequence[Record]) -> None:
        with self.changed:
            if self._epochs.get(transactional_id) != epoch:
                raise FencedError(f"Another owner has taken over {transactional_id}.")
            store = self.partition(partition)
            for key, value in records:
                store.append(value, key, 0)
            store.mark()
            self.changed.notify_all()

    def join(self, group: str, topics: Sequence[str], name: str) -> MemoryMember:
        """Add a member to a group; topics that start with ``^`` are regular expressions."""
        with self.changed:
            member = self.group(group).join(name)
            self._subscriptions[member] = topic_pattern(topics)
            self._share(self.group(group))
            return member

    def leave(self, group: str, member: MemoryMember) -> None:
        with self.changed:
            self.group(group).remove(member)
            if self._subscriptions.pop(member, None) is not None:
                self._share(self.group(group))

    def group(self, group: str) -> MemoryGroup:
        """Return a group; the caller holds the lock."""
        return self._groups.setdefault(group, MemoryGroup())

    def _share(self, group: MemoryGroup) -> None:
        readable: dict[MemoryMember, list[TopicPartition]] = {}
        for member in group.members:
            topics = filter(self._subscriptions[member].fullmatch, self._topics)
            readable[member] = [(topic, number) for topic in topics for number in range(len(self._topics[topic]))]
        group.share(readable)
        self.changed.notify_all()

    def _pick(self, topic: str, key: bytes | None) -> int:
        count = self.partitions(topic) or 1
        if key is not None:
            return zlib.crc32(key) % count
        self._turns[topic] = (self._turns.get(topic, -1) + 1) % count
        return self._turns[topic]


class _Client:
    """A client that can be closed; `title` is its name in errors."""

    title: str
    closed = False

    def close(self) -> None:
        self.closed = True

    def _check_open(self) -> None:
        if self.closed:
            raise UnavailableError(f"The {self.title} is closed.")


class MemoryConsumer(_Client):
    """A member of a consumer group. A poll that changes the assignment returns no records, so that the caller can seek first."""

    def __init__(
        self, broker: MemoryBroker, group: str, topics: Sequence[str], member: str, *, from_beginning: bool = True
    ) -> None:
        self._broker, self._group, self._topics = broker, group, tuple(topics)
        self._name, self._from_beginning = member, from_beginning
        self.title = f"consumer {member}"
        self._positions: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self._member = broker.join(group, topics, member)

    def poll(self, timeout_s: float) -> Poll:
        """Return the next records; wait at most `timeout_s` of real time for the first record or assignment change."""
        with self._broker.changed:
            self._check_open()
            if timeout_s > 0:
                self._broker.changed.wait_for(self._ready, timeout_s)
                self._check_open()
            change = self._settle()
            return Poll(change) if change is not NO_CHANGE else Poll(NO_CHANGE, self._take())

    def assigned(self) -> frozenset[TopicPartition]:
        return frozenset(self._positions)

    def committed(self, partition: TopicPartition) -> Position | None:
        with self._broker.changed:
            self._check_open()
            return self._broker.group(self._group).committed.get(partition)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Set the next offset to read; raise ValueError if the partition is not owned."""
        if partition not in self._positions:
            raise ValueError(f"The partition {partition[0]}/{partition[1]} is not assigned to {self._name}.")
        self._positions[partition] = offset

    def beginning(self, partition: TopicPartition) -> int:
        return self._broker.partition(partition).first_offset

    def end(self, partition: TopicPartition) -> int:
        return self._broker.partition(partition).next_offset

    def commit(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Commit positions of owned partitions; ignore others. Raise RebalancingError if the group has expelled the member."""
        with self._broker.changed:
            self._check_open()
            if self._member.expelled:
                raise RebalancingError(f"The group {self._group} has gone on without {self._name}.")
            self._broker.group(self._group).commit(self._member, positions)

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        self._paused.update(partition for partition in partitions if partition in self._positions)

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        self._paused.difference_update(partitions)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._broker.leave(self._group, self._member)

    def _settle(self) -> Assignment:
        if self._member.expelled:
            lost = tuple(sorted(self._positions))
            self._forget(lost)
            self._member = self._broker.join(self._group, self._topics, self._name)
            return Assignment(lost=lost)
        group = self._broker.group(self._group)
        if group.settled(self._member):
            return NO_CHANGE
        change = group.settle(self._member)
        self._forget(change.lost)
        for partition in change.gained:
            store, committed = self._broker.partition(partition), group.committed.get(partition)
            first = store.first_offset if self._from_beginning else store.next_offset
            self._positions[partition] = first if committed is None else committed.offset
        return change

    def _forget(self, lost: Sequence[TopicPartition]) -> None:
        for partition in lost:
            self._positions.pop(partition, None)
            self._paused.discard(partition)

    def _ready(self) -> bool:
        if self.closed or self._member.expelled or not self._broker.group(self._group).settled(self._member):
            return True
        reading = self._positions.keys() - self._paused
        return any(self._positions[one] < self._broker.partition(one).next_offset for one in reading)

    def _take(self) -> tuple[Batch, ...]:
        batches: list[Batch] = []
        room = POLL_RECORDS_MAX
        for partition in [owned for owned in self._positions if owned not in self._paused]:
            store = self._broker.partition(partition)
            batch = store.read(max(self._positions[partition], store.first_offset), room)
            # moved to the end, so that the next poll begins with another partition
            offset = self._positions.pop(partition)
            self._positions[partition] = offset if batch is None else batch.next_offset
            if batch is not None:
                batches.append(batch)
                room -= len(batch.values)
            if room <= 0:
                break
        return tuple(batches)


class MemoryProducer(_Client):
    """A producer that writes at once, so `flush` has nothing to wait for."""

    title = "producer"

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Write a record, by default with timestamp 0. Raise UnavailableError, or ValueError if the record is too large."""
        self._check_open()
        check_record(topic, value, key)
        self._broker.append(topic, value, key, partition, timestamp_ms or 0)

    def flush(self, timeout_s: float) -> None:  # noqa: ARG002 - an argument of the protocol; every write has already happened
        self._check_open()


class MemoryCheckpointStore(_Client):
    """A checkpoint store with fencing by epochs: each take-over begins a new epoch, and writes of older epochs are refused."""

    title = "checkpoint store"

    def __init__(self, broker: MemoryBroker, topic: str, shard: int) -> None:
        self._broker = broker
        self._partition = (topic, shard)
        self._owner = f"{topic}-{shard}"
        self._epoch: int | None = None
        self._live = LiveStates()

    def take_over(self) -> Restored:
        self._check_open()
        self._epoch = self._broker.fence(self._owner)
        restoration = Restoration()
        batch, _ = self._broker.snapshot(self._partition)
        if batch is not None:
            restoration.add(batch)
        restored = restoration.result()
        self._live = LiveStates(restored.states)
        return restored

    def save(self, states: Mapping[str, bytes | None], marker: Marker) -> None:
        """Write states and marker. Raise ValueError, UnavailableError, or FencedError, which closes the store."""
        self._check_open()
        if self._epoch is None:
            raise UnavailableError("A checkpoint can be saved only after the take-over.")
        records = checkpoint_records(states, marker, self._live)
        try:
            self._broker.transact(self._owner, self._epoch, self._partition, records)
        except FencedError:
            self.close()
            raise


class MemoryLog(_Client):
    """One process's access to a `MemoryBroker`; without `broker`, to a new one. Pass an existing broker to resume after a crash."""

    title = "log"

    def __init__(self, broker: MemoryBroker | None = None, *, state_topic: str = "scalewatch.state") -> None:
        self.broker = MemoryBroker() if broker is None else broker
        self._state_topic = state_topic
        self._clients: list[_Client] = []

    def consumer(
        self, group: str, topics: Sequence[str], *, member: str, from_beginning: bool = True
    ) -> MemoryConsumer:
        return self._retained(MemoryConsumer(self._open, group, topics, member, from_beginning=from_beginning))

    def producer(self) -> MemoryProducer:
        return self._retained(MemoryProducer(self._open))

    def checkpoints(self, shard: int) -> MemoryCheckpointStore:
        return self._retained(MemoryCheckpointStore(self._open, self._state_topic, shard))

    def partitions(self, topic: str) -> int | None:
        return self._open.partitions(topic)

    def ends(self, topics: Sequence[str]) -> Mapping[str, Mapping[int, int]]:
        return self._open.ends(topics)

    def create(self, topics: Sequence[TopicSettings]) -> Sequence[str]:
        return self._open.create(topics)

    def examine(self, topics: Sequence[str], groups: Sequence[str], transactional_ids: Sequence[str]) -> Examined:
        """Return the settings of topics; all operations are allowed."""
        return Examined(self._open.examine(topics), dict.fromkeys(groups), dict.fromkeys(transactional_ids))

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the first existing offset and the end offset of a partition."""
        store = self._open.partition((topic, partition))
        return store.first_offset, store.next_offset

    def read(self, topic: str, partition: int, on_batch: Callable[[Batch], None], *, newest: int | None = None) -> int:
        """Read a partition, or only its last `newest` offsets, up to its current end offset; return the end offset.

        In a compacted topic, only the last record of each key is read.
        """
        batch, end = self._open.snapshot((topic, partition), newest)
        if batch is not None:
            on_batch(batch)
        return end

    def close(self) -> None:
        """Close every client that this log made; the broker keeps its records."""
        super().close()
        for client in self._clients:
            client.close()
        self._clients.clear()

    @property
    def _open(self) -> MemoryBroker:
        self._check_open()
        return self.broker

    def _retained(self, client: AnyClient) -> AnyClient:
        self._clients = [*(former for former in self._clients if not former.closed), client]
        return client
