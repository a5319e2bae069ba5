"""A consumer of the memory log."""

from collections.abc import Mapping, Sequence

from agent.contracts.errors import UnavailableError
from agent.contracts.log import Assignment, Batch, Poll, Position, TopicPartition
from agent.log.memory_broker import MemoryBroker

NO_CHANGE = Assignment()
POLL_RECORDS_MAX = 2000


class MemoryConsumer:
    """A member of a group. A poll that changes the assignment returns no records, so that the caller can seek first.

    >>> from agent.contracts.log import TopicSettings
    >>> broker = MemoryBroker()
    >>> _ = broker.create([TopicSettings(name="raw", partitions=1, compacted=False)])
    >>> broker.append("raw", b"value", None, 0, 0)
    >>> consumer = MemoryConsumer(broker, "group", ["raw"], "member")
    >>> consumer.poll(0).assignment.gained
    (('raw', 0),)
    >>> consumer.poll(0).batches[0].values
    [b'value']
    """

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
