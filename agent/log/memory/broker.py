"""The broker in memory: topics, groups and the epochs that fence checkpoint writers, behind one lock."""

import re
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Condition

from processors.contracts.errors import FencedError, UnavailableError
from processors.contracts.log import Assignment, Batch, Position, TopicPartition, TopicSettings

# One partition in memory: columns of records, compaction and retention. It knows no threads and no groups.


COMPACTION_SLACK = 1024  # superseded records are let pile up to the live ones plus these
RETENTION_SLACK = 1.25  # cutting the front off a list costs its length, so it is done in large steps


class MemoryPartition:
    """Records in order of their offsets.

    A compacted partition keeps the last record of each key; a tombstone outlives one compaction, so that a reader who
    is less than one compaction behind sees it. Otherwise the oldest records go when there are more than `records_max`,
    or when they are more than `retention_ms` older than the newest timestamp seen. Offsets are never used twice.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        *,
        compacted: bool = False,
        records_max: int | None = None,
        retention_ms: int | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.compacted = compacted
        self.first_offset = 0
        self.next_offset = 0
        self._records_max = records_max
        self._retention_ms = retention_ms
        self._newest_ms = 0
        self._tombstones_until = 0
        self._compact_at = COMPACTION_SLACK
        self._offsets: array[int] = array("q")
        self._timestamps_ms: array[int] = array("q")
        self._values: list[bytes | None] = []
        self._keys: list[bytes | None] = []

    def append(self, value: bytes | None, key: bytes | None, timestamp_ms: int) -> int:
        """Add a record and return its offset. A compacted partition needs a key: ValueError without one."""
        if self.compacted and key is None:
            raise ValueError(f"The topic {self.topic} is compacted, so a record needs a key.")
        offset = self.next_offset
        self._offsets.append(offset)
        self._values.append(value)
        self._keys.append(key)
        self._timestamps_ms.append(timestamp_ms)
        self._newest_ms = max(self._newest_ms, timestamp_ms)
        self.next_offset = offset + 1
        if not offset % COMPACTION_SLACK:
            self._shorten()
        return offset

    def mark(self) -> None:
        """Take an offset without a record, as the end of a transaction does."""
        self.next_offset += 1

    def read(self, offset: int, records_max: int) -> Batch | None:
        """Return the records from `offset` on, at most so many; None when there is nothing left."""
        if offset >= self.next_offset:
            return None
        start = bisect_left(self._offsets, offset)
        stop = min(start + records_max, len(self._offsets))
        if start == stop:
            return None
        return Batch(
            topic=self.topic,
            partition=self.partition,
            next_offset=self.next_offset if stop == len(self._offsets) else self._offsets[stop - 1] + 1,
            offsets=self._offsets[start:stop].tolist(),
            values=self._values[start:stop],
            keys=self._keys[start:stop],
            timestamps_ms=self._timestamps_ms[start:stop].tolist(),
        )

    def compact(self) -> None:
        """Keep the last record of each key, without the tombstones that an earlier compaction has kept."""
        last = {key: index for index, key in enumerate(self._keys)}
        self._keep([index for index in sorted(last.values()) if not self._forgotten(index)])
        self._tombstones_until = self.next_offset
        self._compact_at = 2 * len(self._offsets) + COMPACTION_SLACK

    def _forgotten(self, index: int) -> bool:
        return self._values[index] is None and self._offsets[index] < self._tombstones_until

    def _keep(self, kept: list[int]) -> None:
        self._offsets = array("q", [self._offsets[index] for index in kept])
        self._timestamps_ms = array("q", [self._timestamps_ms[index] for index in kept])
        self._values = [self._values[index] for index in kept]
        self._keys = [self._keys[index] for index in kept]

    def _shorten(self) -> None:
        if self.compacted:
            if len(self._offsets) > self._compact_at:
                self.compact()
            return
        cut = max(self._over_records_max(), self._over_retention())
        if cut:
            for column in (self._offsets, self._timestamps_ms, self._values, self._keys):
                del column[:cut]
            self.first_offset = self._offsets[0]

    def _over_records_max(self) -> int:
        if self._records_max is None or len(self._offsets) <= RETENTION_SLACK * self._records_max:
            return 0
        return len(self._offsets) - self._records_max

    def _over_retention(self) -> int:
        if self._retention_ms is None:
            return 0
        oldest_ms = self._newest_ms - self._retention_ms
        newer = (index for index, time_ms in enumerate(self._timestamps_ms) if time_ms >= oldest_ms)
        return next(newer, len(self._offsets) - 1)  # the newest record stays, it names the first offset


# Consumer groups in memory: who owns which partition, and what the group has committed.


class Member:
    """One member's view of its group: the partitions it holds, and whether the group still counts on it."""

    def __init__(self, name: str, number: int) -> None:
        self.order = (name, number)
        self.held: set[TopicPartition] = set()
        self.wanted: frozenset[TopicPartition] = frozenset()
        self.expelled = False


class MemoryGroup:
    """Shares partitions out among members.

    A partition changes hands in two steps: its owner gives it up at its own next poll, only then the new owner gets
    it. So no two members ever hold one partition, except that an expelled member does not know it yet: that one can
    commit no more.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.members: list[Member] = []
        self.committed: dict[TopicPartition, Position] = {}
        self._joined = 0
        self._holders: dict[TopicPartition, Member] = {}

    def join(self, name: str) -> Member:
        """Add a member. It owns nothing before `share` and `settle`."""
        self._joined += 1
        member = Member(name, self._joined)
        self.members.append(member)
        self.members.sort(key=lambda one: one.order)
        return member

    def remove(self, member: Member) -> None:
        """Forget a member and free what it holds."""
        member.expelled = True
        member.wanted = frozenset()
        self.members = [one for one in self.members if one is not member]
        self._holders = {partition: holder for partition, holder in self._holders.items() if holder is not member}

    def share(self, readable: Mapping[Member, Iterable[TopicPartition]]) -> None:
        """Begin a new generation: each partition to one of the members that can read it, in turn."""
        self.generation += 1
        readers: dict[TopicPartition, list[Member]] = {}
        for member in self.members:
            for partition in readable.get(member, ()):
                readers.setdefault(partition, []).append(member)
        wanted: dict[Member, set[TopicPartition]] = {member: set() for member in self.members}
        for turn, partition in enumerate(sorted(readers)):
            wanted[readers[partition][turn % len(readers[partition])]].add(partition)
        for member, partitions in wanted.items():
            member.wanted = frozenset(partitions)

    def settled(self, member: Member) -> bool:
        """Tell whether `settle` would change nothing."""
        return member.held == member.wanted or (
            member.held < member.wanted and all(partition in self._holders for partition in member.wanted - member.held)
        )

    def settle(self, member: Member) -> Assignment:
        """Give up what the member shall not have and take what is free; return both."""
        lost = sorted(member.held - member.wanted)
        for partition in lost:
            if self._holders.get(partition) is member:
                del self._holders[partition]
        gained = sorted(partition for partition in member.wanted - member.held if partition not in self._holders)
        self._holders.update(dict.fromkeys(gained, member))
        member.held = (member.held & member.wanted) | set(gained)
        return Assignment(gained=tuple(gained), lost=tuple(lost))

    def commit(self, member: Member, positions: Mapping[TopicPartition, Position]) -> None:
        """Keep the positions of partitions that the member holds, and drop the others."""
        self.committed.update({partition: at for partition, at in positions.items() if partition in member.held})


Record = tuple[bytes | None, bytes | None]  # key and value


class MemoryBroker:
    """What outlives a crash of its clients: give one broker to several `MemoryLog`s, one per simulated process.

    It asks no clock: timestamps come with the records. `records_max` bounds each partition that is not compacted;
    without it only a topic's `retention_ms` does, by the newest timestamp in the partition.
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
