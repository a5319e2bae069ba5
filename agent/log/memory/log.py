"""The log in memory: the embedded default, and the broker of simulated crashes."""

from collections.abc import Callable, Mapping, Sequence

from agent.log.kafka.checkpoint import Restoration, checkpoint_records
from agent.log.memory.broker import MemoryBroker
from processors.contracts.errors import FencedError, UnavailableError
from processors.contracts.log import (
    Assignment,
    Batch,
    Marker,
    Poll,
    Position,
    Restored,
    TopicPartition,
    TopicSettings,
    check_record,
)

# A consumer of the memory log.


NO_CHANGE = Assignment()
POLL_RECORDS_MAX = 2000


class MemoryConsumer:
    """A member of a group. A poll that changes the assignment returns no records, so that the caller can seek first."""

    def __init__(
        self, broker: MemoryBroker, group: str, topics: Sequence[str], member: str, *, from_beginning: bool = True
    ) -> None:
        self._broker = broker
        self._group = group
        self._topics = tuple(topics)
        self._name = member
        self._from_beginning = from_beginning
        self._positions: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self.closed = False
        self._member = broker.join(group, topics, member)

    def poll(self, timeout_s: float) -> Poll:
        """Return what is there, waiting at most `timeout_s` of real time for the first record or change."""
        with self._broker.changed:
            self._check_open()
            if timeout_s > 0 and not self._ready():
                self._broker.wait_for(self._ready, timeout_s)
                self._check_open()
            change = self._settle()
            return Poll(change) if change is not NO_CHANGE else Poll(NO_CHANGE, self._take())

    def assigned(self) -> frozenset[TopicPartition]:
        """Return the partitions this member owns now."""
        return frozenset(self._positions)

    def committed(self, partition: TopicPartition) -> Position | None:
        """Return the group's committed position."""
        with self._broker.changed:
            self._check_open()
            return self._broker.group(self._group).committed.get(partition)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from an offset; ValueError where the partition is not owned."""
        if partition not in self._positions:
            raise ValueError(f"The partition {partition[0]}/{partition[1]} is not assigned to {self._name}.")
        self._positions[partition] = offset

    def beginning(self, partition: TopicPartition) -> int:
        """Return the first offset that is still there."""
        with self._broker.changed:
            return self._broker.partition(partition).first_offset

    def end(self, partition: TopicPartition) -> int:
        """Return the offset after the last record."""
        with self._broker.changed:
            return self._broker.partition(partition).next_offset

    def commit(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Commit positions; those of partitions that are not owned are dropped. Raises FencedError."""
        with self._broker.changed:
            self._check_open()
            self._broker.commit(self._group, self._member, positions)

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop returning records of these partitions until `resume`, or until they are lost."""
        self._paused.update(partition for partition in partitions if partition in self._positions)

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Return records of these partitions again."""
        self._paused.difference_update(partitions)

    def close(self) -> None:
        """Leave the group; nothing happens the second time."""
        if not self.closed:
            self.closed = True
            self._broker.leave(self._group, self._member)

    def _check_open(self) -> None:
        if self.closed:
            raise UnavailableError(f"The consumer {self._name} is closed.")

    def _settle(self) -> Assignment:
        if self._member.expelled:
            return self._join_again()
        group = self._broker.group(self._group)
        if group.settled(self._member):
            return NO_CHANGE
        change = group.settle(self._member)
        self._forget(change.lost)
        for partition in change.gained:
            self._positions[partition] = self._start(partition, group.committed.get(partition))
        return change

    def _join_again(self) -> Assignment:
        lost = tuple(sorted(self._positions))
        self._forget(lost)
        self._member = self._broker.join(self._group, self._topics, self._name)
        return Assignment(lost=lost)

    def _forget(self, lost: Sequence[TopicPartition]) -> None:
        for partition in lost:
            self._positions.pop(partition, None)
            self._paused.discard(partition)

    def _start(self, partition: TopicPartition, committed: Position | None) -> int:
        if committed is not None:
            return committed.offset
        store = self._broker.partition(partition)
        return store.first_offset if self._from_beginning else store.next_offset

    def _ready(self) -> bool:
        if self.closed or self._member.expelled or not self._broker.group(self._group).settled(self._member):
            return True
        return any(
            offset < self._broker.partition(partition).next_offset
            for partition, offset in self._positions.items()
            if partition not in self._paused
        )

    def _take(self) -> tuple[Batch, ...]:
        batches: list[Batch] = []
        room = POLL_RECORDS_MAX
        for partition in [one for one in self._positions if one not in self._paused]:
            batch = self._next(partition, room)
            if batch is not None:
                batches.append(batch)
                room -= len(batch.values)
            if room <= 0:
                break
        return tuple(batches)

    def _next(self, partition: TopicPartition, records_max: int) -> Batch | None:
        store = self._broker.partition(partition)
        batch = store.read(max(self._positions[partition], store.first_offset), records_max)
        offset = self._positions.pop(partition)  # put back last, so that the next poll begins with another partition
        self._positions[partition] = offset if batch is None else batch.next_offset
        return batch


# A producer of the memory log.


class MemoryProducer:
    """Writes at once, so there is never anything left to flush."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self.closed = False

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Write a record; without a timestamp it gets 0. Raises UnavailableError, ValueError where it is too large."""
        self._check_open()
        check_record(topic, value, key)
        self._broker.append(topic, value, key, partition, timestamp_ms or 0)

    def flush(self, timeout_s: float) -> None:  # noqa: ARG002 - the contract's argument; nothing is ever under way
        """Return at once: every record is there."""
        self._check_open()

    def close(self) -> None:
        """Refuse every further call."""
        self.closed = True

    def _check_open(self) -> None:
        if self.closed:
            raise UnavailableError("The producer is closed.")


# The checkpoint store of the memory log.


class MemoryCheckpointStore:
    """Fenced by an epoch: each take-over begins a new one, and a write under an older one is refused."""

    def __init__(self, broker: MemoryBroker, topic: str, shard: int) -> None:
        self._broker = broker
        self._partition = (topic, shard)
        self._owner = f"{topic}-{shard}"
        self._epoch: int | None = None
        self.closed = False

    def take_over(self) -> Restored:
        """Fence every former owner and read the state back."""
        self._check_open()
        self._epoch = self._broker.fence(self._owner)
        restoration = Restoration()
        batch, _ = self._broker.snapshot(self._partition)
        if batch is not None:
            restoration.add(batch)
        return restoration.result()

    def save(self, states: Mapping[str, bytes | None], marker: Marker) -> None:
        """Write states and marker at once. After any error the store is dead."""
        self._check_open()
        if self._epoch is None:
            raise UnavailableError("Nothing can be saved before the take-over.")
        records = checkpoint_records(states, marker)
        try:
            self._broker.transact(self._owner, self._epoch, self._partition, records)
        except FencedError:
            self.close()
            raise

    def close(self) -> None:
        """Refuse every further call."""
        self.closed = True

    def _check_open(self) -> None:
        if self.closed:
            raise UnavailableError("The checkpoint store is closed; take over with a new one.")


READ_RECORDS_MAX = 2000
Client = MemoryConsumer | MemoryProducer | MemoryCheckpointStore


class MemoryLog:
    """One process's way to a `MemoryBroker`. Without one it makes its own; give it one to come back after a crash."""

    def __init__(self, broker: MemoryBroker | None = None, *, state_topic: str = "scalewatch.state") -> None:
        self.broker = MemoryBroker() if broker is None else broker
        self._state_topic = state_topic
        self._clients: list[Client] = []
        self._closed = False

    def consumer(
        self, group: str, topics: Sequence[str], *, member: str, from_beginning: bool = True
    ) -> MemoryConsumer:
        """Return a new member of a group; topics may be regular expressions when they start with ``^``."""
        self._check_open()
        consumer = MemoryConsumer(self.broker, group, topics, member, from_beginning=from_beginning)
        self._keep(consumer)
        return consumer

    def producer(self) -> MemoryProducer:
        """Return a new producer."""
        self._check_open()
        producer = MemoryProducer(self.broker)
        self._keep(producer)
        return producer

    def checkpoints(self, shard: int) -> MemoryCheckpointStore:
        """Return a new store for a shard's checkpoints; the shard is the partition of the state topic."""
        self._check_open()
        store = MemoryCheckpointStore(self.broker, self._state_topic, shard)
        self._keep(store)
        return store

    def partitions(self, topic: str) -> int | None:
        """Return the number of partitions, None where the topic does not exist."""
        self._check_open()
        return self.broker.partitions(topic)

    def create(self, topics: Sequence[TopicSettings]) -> Sequence[str]:
        """Create the topics that are missing; return their names."""
        self._check_open()
        return self.broker.create(topics)

    def read(self, topic: str, partition: int, on_batch: Callable[[Batch], None], *, newest: int | None = None) -> int:
        """Read a partition to its present end, of a compacted topic the last record of each key; return the end.

        With `newest` only the records of its last so many offsets.
        """
        self._check_open()
        whole, end = self.broker.snapshot((topic, partition), newest)
        for start in range(0, len(whole.values) if whole else 0, READ_RECORDS_MAX):
            on_batch(_part(whole, start, end)) if whole else None
        return end

    def close(self) -> None:
        """Close everything this log handed out; the broker keeps its records."""
        self._closed = True
        for client in self._clients:
            client.close()
        self._clients.clear()

    def _keep(self, client: Client) -> None:
        self._clients = [*(one for one in self._clients if not one.closed), client]

    def _check_open(self) -> None:
        if self._closed:
            raise UnavailableError("The log is closed.")


def _part(whole: Batch, start: int, end: int) -> Batch:
    stop = start + READ_RECORDS_MAX
    return Batch(
        topic=whole.topic,
        partition=whole.partition,
        next_offset=whole.offsets[stop] if stop < len(whole.offsets) else end,
        offsets=whole.offsets[start:stop],
        values=whole.values[start:stop],
        keys=whole.keys[start:stop],
        timestamps_ms=whole.timestamps_ms[start:stop],
    )
