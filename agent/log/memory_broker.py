"""The broker in memory: topics, groups and the epochs that fence checkpoint writers, behind one lock."""

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from threading import Condition

from agent.contracts.errors import FencedError, UnavailableError
from agent.contracts.log import Batch, Position, TopicPartition, TopicSettings
from agent.log.memory_group import Member, MemoryGroup
from agent.log.memory_partition import MemoryPartition

Record = tuple[bytes | None, bytes | None]  # key and value


class MemoryBroker:
    """What outlives a crash of its clients: give one broker to several `MemoryLog`s, one per simulated process.

    It asks no clock: timestamps come with the records. `records_max` bounds each partition that is not compacted;
    without it only a topic's `retention_ms` does, by the newest timestamp in the partition.

    >>> broker = MemoryBroker()
    >>> broker.create([TopicSettings(name="raw", partitions=2, compacted=False)])
    ['raw']
    >>> broker.append("raw", b"value", None, 1, 0)
    >>> broker.partition(("raw", 1)).next_offset
    1
    """

    def __init__(self, *, records_max: int | None = None) -> None:
        self.changed = Condition()
        self._records_max = records_max
        self._topics: dict[str, list[MemoryPartition]] = {}
        self._groups: dict[str, MemoryGroup] = {}
        self._subscriptions: dict[Member, re.Pattern[str]] = {}
        self._turns: dict[str, int] = {}
        self._epochs: dict[str, int] = {}
        self._waiting = 0

    def create(self, topics: Sequence[TopicSettings]) -> list[str]:
        """Create the topics that are missing; return their names."""
        with self.changed:
            missing = [topic for topic in topics if topic.name not in self._topics]
            for topic in missing:
                self._topics[topic.name] = [self._new_partition(topic, number) for number in range(topic.partitions)]
            for group in self._groups.values() if missing else ():
                self._share(group)
            return [topic.name for topic in missing]

    def partitions(self, topic: str) -> int | None:
        """Return the number of partitions, None where the topic does not exist."""
        with self.changed:
            return len(self._topics[topic]) if topic in self._topics else None

    def partition(self, partition: TopicPartition) -> MemoryPartition:
        """Return a partition; UnavailableError where there is none."""
        topic, number = partition
        if topic not in self._topics:
            raise UnavailableError(f"The topic {topic} does not exist.")
        if not 0 <= number < len(self._topics[topic]):
            raise UnavailableError(f"The topic {topic} has no partition {number}.")
        return self._topics[topic][number]

    def append(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int | None, timestamp_ms: int
    ) -> None:
        """Add a record; without a partition its key decides, without a key the partitions take turns."""
        with self.changed:
            number = self._pick(topic, key) if partition is None else partition
            self.partition((topic, number)).append(value, key, timestamp_ms)
            self._notify()

    def snapshot(self, partition: TopicPartition, newest: int | None = None) -> tuple[Batch | None, int]:
        """Return all records of a partition, of a compacted one the last of each key, and its end.

        With `newest` only the records of its last so many offsets.
        """
        with self.changed:
            store = self.partition(partition)
            if store.compacted:
                store.compact()
            first = store.first_offset if newest is None else max(store.next_offset - newest, store.first_offset)
            return store.read(first, store.next_offset + 1), store.next_offset

    def wait_for(self, ready: Callable[[], bool], timeout_s: float) -> None:
        """Wait until `ready`, at most so long; the caller holds the lock."""
        self._waiting += 1
        try:
            self.changed.wait_for(ready, timeout_s)
        finally:
            self._waiting -= 1

    def fence(self, transactional_id: str) -> int:
        """Begin a new epoch; owners of earlier epochs can write no more."""
        with self.changed:
            self._epochs[transactional_id] = self._epochs.get(transactional_id, 0) + 1
            return self._epochs[transactional_id]

    def transact(self, transactional_id: str, epoch: int, partition: TopicPartition, records: Sequence[Record]) -> None:
        """Write all records or none. Raises FencedError where a later epoch has begun."""
        with self.changed:
            if self._epochs.get(transactional_id) != epoch:
                raise FencedError(f"Another owner has taken over {transactional_id}.")
            store = self.partition(partition)
            for key, value in records:
                store.append(value, key, 0)
            store.mark()
            self._notify()

    def join(self, group: str, topics: Sequence[str], name: str) -> Member:
        """Add a member to a group; topics that start with ``^`` are regular expressions."""
        with self.changed:
            member = self._group(group).join(name)
            patterns = [topic if topic.startswith("^") else re.escape(topic) for topic in topics]
            self._subscriptions[member] = re.compile("|".join(f"(?:{pattern})" for pattern in patterns))
            self._share(self._group(group))
            return member

    def leave(self, group: str, member: Member) -> None:
        """Remove a member; the others share what it held."""
        with self.changed:
            self._group(group).remove(member)
            if self._subscriptions.pop(member, None) is not None:
                self._share(self._group(group))

    def expel(self, group: str, name: str) -> None:
        """Remove the members of this name, as a broker does with those whose session has expired."""
        with self.changed:
            for member in [one for one in self._group(group).members if one.order[0] == name]:
                self.leave(group, member)

    def group(self, group: str) -> MemoryGroup:
        """Return a group; the caller holds the lock."""
        return self._group(group)

    def commit(self, group: str, member: Member, positions: Mapping[TopicPartition, Position]) -> None:
        """Commit positions for a member. Raises FencedError where the group has gone on without it."""
        with self.changed:
            if member.expelled:
                raise FencedError(f"The group {group} has gone on without {member.order[0]}.")
            self._group(group).commit(member, positions)

    def _group(self, name: str) -> MemoryGroup:
        return self._groups.setdefault(name, MemoryGroup())

    def _share(self, group: MemoryGroup) -> None:
        group.share({member: self._readable(self._subscriptions[member]) for member in group.members})
        self._notify()

    def _readable(self, pattern: re.Pattern[str]) -> list[TopicPartition]:
        return [
            (topic, number)
            for topic, partitions in self._topics.items()
            if pattern.fullmatch(topic)
            for number in range(len(partitions))
        ]

    def _new_partition(self, topic: TopicSettings, number: int) -> MemoryPartition:
        return MemoryPartition(
            topic.name,
            number,
            compacted=topic.compacted,
            records_max=self._records_max,
            retention_ms=topic.retention_ms,
        )

    def _pick(self, topic: str, key: bytes | None) -> int:
        count = self.partitions(topic) or 1
        if key is not None:
            return zlib.crc32(key) % count
        self._turns[topic] = (self._turns.get(topic, -1) + 1) % count
        return self._turns[topic]

    def _notify(self) -> None:
        if self._waiting:
            self.changed.notify_all()
