"""Consumers of the Kafka log: a group member, and a reader of one partition."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from agent.log.kafka.client import ClusterAdmin, KafkaLogSettings, client_of, translated
from processors.contracts.errors import RebalancingError, UnavailableError
from processors.contracts.log import Assignment, Batch, Poll, Position, TopicPartition, topic_pattern

END: Final = "\n"
POLL_S: Final = 0.2
JOIN_TIMEOUT_S: Final = 1.0  # longest poll of a member without partitions: one call should suffice for a group join


def marked(metadata: str) -> str:
    """Return `metadata` with an end mark, because a client may append bytes to it."""
    return metadata + END


def unmarked(stored: str) -> str:
    """Return stored metadata without its end mark; empty if it has no end mark, because its end is then unknown."""
    text, mark, _ = stored.partition(END)
    return text if mark else ""


class KafkaLogConsumer:
    """A member of a consumer group. A poll that changes the assignment returns no records, so that the caller can seek first.

    At every rebalance the client releases all partitions and returns to the committed offsets. If a partition stays with its
    member, the member continues at its last position, unless another member could have owned the partition in between.
    """

    def __init__(
        self, settings: KafkaLogSettings, group: str, topics: Sequence[str], member: str, *, from_beginning: bool = True
    ) -> None:
        self._settings = settings
        self._client = client_of(settings)
        self._group = group
        self._next: dict[TopicPartition, int] = {}
        self._owned: frozenset[TopicPartition] = frozenset()
        self._paused: set[TopicPartition] = set()
        self._to_start = False
        self._generation: int | None = None
        self._quiet_s = 0.0
        self.closed = False
        with translated(self._client, f"Joining the group {group}"):
            join = self._client.adapter.group_member
            self._member = join(settings, group, topics, member, from_beginning=from_beginning)

    def poll(self, timeout_s: float) -> Poll:
        """Return the next records; wait at most `timeout_s` for them, or one second while no partition is assigned."""
        self._check_open()
        with translated(self._client, f"Polling for the group {self._group}"):
            if self._to_start:
                self._start()
            wait_s = timeout_s if self._owned else max(timeout_s, JOIN_TIMEOUT_S)
            batches = tuple(self._member.poll(wait_s))
            assigned = self._member.assignment()
            if assigned is not None:
                return Poll(self._settle(assigned))  # records polled before the rebalance are read again
        self._next.update({(batch.topic, batch.partition): batch.next_offset for batch in batches})
        self._watch(0.0 if batches else self._quiet_s + wait_s)
        return Poll(Assignment(), batches)

    def assigned(self) -> frozenset[TopicPartition]:
        return self._owned

    def committed(self, partition: TopicPartition) -> Position | None:
        self._check_open()
        with translated(self._client, f"Asking for the position of the group {self._group}"):
            stored = self._member.committed(partition)
        if stored is None:
            return None
        return Position(stored.offset, unmarked(stored.metadata))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Set the next offset to read; raise ValueError if the partition is not owned."""
        self._check_open()
        if partition not in self._owned:
            raise ValueError(f"The partition {partition[0]}/{partition[1]} is not assigned.")
        self._next[partition] = offset
        self._to_start = True

    def beginning(self, partition: TopicPartition) -> int:
        return self._bound(partition, self._member.beginning)

    def end(self, partition: TopicPartition) -> int:
        return self._bound(partition, self._member.end)

    def commit(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Commit positions of owned partitions; ignore all other partitions, although a broker would accept their positions.

        Raise RebalancingError while the group rebalances, or if the group has rebalanced without this member; the next poll joins
        the group again. Raise UnavailableError after any other failure.
        """
        self._check_open()
        if self._member.rebalancing():
            raise RebalancingError(f"The group {self._group} is rebalancing; commit after the next poll.")
        owned = {
            partition: Position(position.offset, marked(position.metadata))
            for partition, position in positions.items()
            if partition in self._owned
        }
        if owned:
            with translated(self._client, f"Committing for the group {self._group}"):
                self._member.commit(owned)

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        self._check_open()
        chosen = self._owned.intersection(partitions)
        self._paused |= chosen
        if not self._to_start:  # otherwise the next poll starts the partitions in paused state
            self._member.pause(chosen)

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        self._check_open()
        chosen = self._paused.intersection(partitions)
        self._paused -= chosen
        if not self._to_start:
            self._member.resume(chosen)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._owned = frozenset()
            with suppress(Exception):  # the broker may be unreachable
                self._member.close()

    def _start(self) -> None:
        self._member.start({partition: self._next.get(partition) for partition in self._owned}, self._paused)
        self._to_start = False

    def _settle(self, assigned: frozenset[TopicPartition]) -> Assignment:
        retained = assigned & self._owned if self._follows() else frozenset()
        change = Assignment(gained=tuple(sorted(assigned - retained)), lost=tuple(sorted(self._owned - retained)))
        self._owned = assigned
        self._to_start = True
        self._paused &= retained
        self._next = {partition: offset for partition, offset in self._next.items() if partition in retained}
        return change

    def _follows(self) -> bool:
        """Store the group's generation, and return whether it is the next one after the stored generation, with none in between."""
        previous, self._generation = self._generation, self._member.generation()
        return previous is not None and self._generation == previous + 1

    def _bound(self, partition: TopicPartition, look_up: Callable[[TopicPartition], int]) -> int:
        self._check_open()
        with translated(self._client, f"Looking up the bounds of {partition[0]}"):
            return look_up(partition)

    def _watch(self, quiet_s: float) -> None:
        """Raise UnavailableError if the client receives nothing although there are records, which has happened after outages."""
        self._quiet_s = quiet_s
        if quiet_s < self._settings.stuck_after_s:
            return
        self._quiet_s = 0.0
        for partition, offset in self._next.items():
            reached = max(offset, self._member.position(partition) or 0)
            if partition not in self._paused and reached < self.end(partition):
                where = f"{partition[0]}/{partition[1]}"
                raise UnavailableError(f"{where} has records, but none arrived for {quiet_s:g} s.")

    def _check_open(self) -> None:
        if self.closed:
            raise UnavailableError("The consumer is closed.")


def ends(admin: ClusterAdmin, topics: Sequence[str]) -> dict[str, dict[int, int]]:
    """Return the end offsets of the partitions of each existing topic; `topics` are names or regular expressions."""
    names = list(filter(topic_pattern(topics).fullmatch, admin.topics()))
    counts = {name: topic.partitions for name, topic in sorted(admin.describe(names).items())}
    partitions = [(name, number) for name, count in counts.items() for number in range(count)]
    ends_by_topic: dict[str, dict[int, int]] = {name: {} for name in counts}
    for (name, number), end in (admin.ends(partitions) if partitions else {}).items():
        ends_by_topic[name][number] = end
    return ends_by_topic


class KafkaReader:
    """Reads one partition outside any group. Without `committed` the reader also returns records of open and aborted transactions."""

    def __init__(self, settings: KafkaLogSettings, topic: str, partition: int, *, committed: bool = True) -> None:
        self._timeout_s = settings.read_timeout_s
        self._topic, self._partition = topic, (topic, partition)
        self._client = client_of(settings)
        with translated(self._client, f"Reading {topic}"):
            self._reader = self._client.adapter.partition_reader(settings, topic, partition, committed=committed)

    def beginning(self) -> int:
        with translated(self._client, f"Looking up the beginning of {self._topic}"):
            return self._reader.beginning(self._partition)

    def end(self) -> int:
        with translated(self._client, f"Looking up the end of {self._topic}"):
            return self._reader.end(self._partition)

    def read(self, on_batch: Callable[[Batch], None], newest: int | None = None) -> int:
        """Pass the records up to the current end offset to `on_batch`; return this end offset.

        Reading starts at the beginning; with `newest`, at most that many offsets before the end.
        """
        first, end = self.beginning(), self.end()
        with translated(self._client, f"Reading {self._topic}"):
            self._reader.seek(first if newest is None else max(first, end - newest))
            for batch in self._batches_to(end):
                if batch.offsets[0] < end:
                    on_batch(batch.part(0, bisect_left(batch.offsets, end)))
        return end

    def value_at(self, offset: int) -> tuple[bytes | None] | None:
        """Return a tuple with the value at this offset (None for a tombstone); return None if no record exists there."""
        with translated(self._client, f"Reading {self._topic}"):
            self._reader.seek(offset)
            batch = next(self._batches_to(offset + 1), None)
        return (batch.values[0],) if batch is not None and batch.offsets[0] == offset else None

    def close(self) -> None:
        self._reader.close()

    def _batches_to(self, goal: int) -> Iterator[Batch]:
        quiet_s = 0.0
        while self._reader.position() < goal:
            self._client.settings.on_wait()
            batch = self._reader.poll(POLL_S)
            quiet_s = 0.0 if batch else quiet_s + POLL_S
            if quiet_s > self._timeout_s:
                raise UnavailableError(
                    f"Reading {self._topic}/{self._partition[1]} up to offset {goal} made no progress for {self._timeout_s:g} s."
                )
            if batch:
                yield batch
