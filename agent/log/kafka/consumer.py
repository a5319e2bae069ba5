"""A group member on Kafka."""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from msgspec.structs import replace

from agent.log.kafka.client import ClusterAdmin, KafkaSettings, client_of, translated
from processors.contracts.errors import RebalancingError, UnavailableError
from processors.contracts.log import Assignment, Batch, Poll, Position, TopicPartition, topic_pattern

END: Final = "\n"
NUL: Final = "\0"


def marked(metadata: str) -> str:
    """Return metadata as it is stored."""
    return metadata + END


def unmarked(stored: str, *, exact: bool) -> str:
    """Return the metadata up to its mark. Without one it is older: kept where the client reads it exactly, else left out."""
    text, mark, _ = stored.partition(END)
    if mark:
        return text
    return stored.rstrip(NUL) if exact else ""


JOIN_TIMEOUT_S = 1.0  # a member without partitions polls so long, because a join should end within a call


class KafkaLogConsumer:
    """A member of a group. A poll that changes the assignment returns no records, so that the caller can seek first.

    At every rebalance the client gives all partitions up and goes back to the committed offsets. A partition that
    stays with its member, with no generation between that could have given it to another, just reads on.
    """

    def __init__(
        self, settings: KafkaSettings, group: str, topics: Sequence[str], member: str, *, from_beginning: bool = True
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
            self._member = self._client.group_member(group, topics, member, from_beginning=from_beginning)

    def poll(self, timeout_s: float) -> Poll:
        """Return what is there, waiting at most `timeout_s`, or a second while nothing is assigned."""
        self._check_open()
        with translated(self._client, f"Polling for the group {self._group}"):
            if self._to_start:
                self._start()
            wait_s = timeout_s if self._owned else max(timeout_s, JOIN_TIMEOUT_S)
            batches = tuple(self._member.poll(wait_s))
            assigned = self._member.assignment()
            if assigned is not None:
                return Poll(self._settle(assigned))  # what came before it is read again
        self._next.update({(batch.topic, batch.partition): batch.next_offset for batch in batches})
        self._watch(0.0 if batches else self._quiet_s + wait_s)
        return Poll(Assignment(), batches)

    def assigned(self) -> frozenset[TopicPartition]:
        """Return the partitions this member owns, as of the last poll."""
        return self._owned

    def committed(self, partition: TopicPartition) -> Position | None:
        """Return the group's committed position."""
        self._check_open()
        with translated(self._client, f"Asking for the position of the group {self._group}"):
            found = self._member.committed(partition)
        if found is None:
            return None
        return Position(found.offset, unmarked(found.metadata, exact=self._client.reads_metadata_exactly))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from an offset; ValueError where the partition is not owned."""
        self._check_open()
        if partition not in self._owned:
            raise ValueError(f"The partition {partition[0]}/{partition[1]} is not assigned.")
        self._next[partition] = offset
        self._to_start = True

    def beginning(self, partition: TopicPartition) -> int:
        """Return the first offset that is still there."""
        return self._bound(partition, self._member.beginning)

    def end(self, partition: TopicPartition) -> int:
        """Return the offset after the last record that is committed."""
        return self._bound(partition, self._member.end)

    def commit(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Commit positions; those of partitions that are not owned are dropped: a broker would take them.

        Raises RebalancingError while the group rebalances, or has gone on without this member: the next poll joins it
        again. Raises FencedError where another process has this member's name, else UnavailableError.
        """
        self._check_open()
        if self._member.rebalancing():
            raise RebalancingError(f"The group {self._group} is rebalancing; commit after the next poll.")
        owned = {
            partition: Position(at.offset, marked(at.metadata))
            for partition, at in positions.items()
            if partition in self._owned
        }
        if owned:
            with translated(self._client, f"Committing for the group {self._group}"):
                self._member.commit(owned)

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop returning records of these partitions until `resume`, or until they are lost."""
        self._check_open()
        chosen = self._owned.intersection(partitions)
        self._paused |= chosen
        if not self._to_start:  # else the next poll starts it paused
            self._member.pause(chosen)

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Return records of these partitions again."""
        self._check_open()
        chosen = self._paused.intersection(partitions)
        self._paused -= chosen
        if not self._to_start:
            self._member.resume(chosen)

    def close(self) -> None:
        """Leave the group; nothing happens the second time."""
        if not self.closed:
            self.closed = True
            self._owned = frozenset()
            with suppress(Exception):  # with the broker away there is nobody to tell
                self._member.close()

    def _start(self) -> None:
        """Read on: only now, so that the caller could seek."""
        self._member.start({partition: self._next.get(partition) for partition in self._owned}, self._paused)
        self._to_start = False

    def _settle(self, now: frozenset[TopicPartition]) -> Assignment:
        """Compare what the rebalance gave with what was owned before."""
        retained = now & self._owned if self._follows() else frozenset()
        change = Assignment(gained=tuple(sorted(now - retained)), lost=tuple(sorted(self._owned - retained)))
        self._owned = now
        self._to_start = True
        self._paused &= retained
        self._next = {partition: offset for partition, offset in self._next.items() if partition in retained}
        return change

    def _follows(self) -> bool:
        """Return whether this generation is the one right after the last, and note it."""
        previous, self._generation = self._generation, self._member.generation()
        return previous is not None and self._generation == previous + 1

    def _bound(self, partition: TopicPartition, look_up: Callable[[TopicPartition], int]) -> int:
        self._check_open()
        with translated(self._client, f"Looking for the bounds of {partition[0]}"):
            return look_up(partition)

    def _watch(self, quiet_s: float) -> None:
        """Give up a client that gets nothing although there is something: seen after outages."""
        self._quiet_s = quiet_s
        if quiet_s < self._settings.stuck_after_s:
            return
        self._quiet_s = 0.0
        for partition, offset in self._next.items():
            reached = max(offset, self._member.position(partition) or 0)
            if partition not in self._paused and reached < self.end(partition):
                where = f"{partition[0]}/{partition[1]}"
                raise UnavailableError(f"Nothing of {where} arrived for {quiet_s:g} s although there are records.")

    def _check_open(self) -> None:
        if self.closed:
            raise UnavailableError("The consumer is closed.")


POLL_S = 0.2


def ends(admin: ClusterAdmin, topics: Sequence[str]) -> dict[str, dict[int, int]]:
    """Return the ends of the partitions of each topic that is there, by name or regular expression."""
    names = list(filter(topic_pattern(topics).fullmatch, admin.topics()))
    counts = {name: one.partitions for name, one in admin.describe(names).items()}
    places = [(name, partition) for name in sorted(counts) for partition in range(counts[name])]
    found: dict[str, dict[int, int]] = {name: {} for name in sorted(counts)}
    for (name, partition), end in (admin.ends(places) if places else {}).items():
        found[name][partition] = end
    return found


class KafkaReader:
    """Reads one partition by hand. With `committed` off it also sees what open and aborted transactions wrote."""

    def __init__(self, settings: KafkaSettings, topic: str, partition: int, *, committed: bool = True) -> None:
        self._timeout_s = settings.read_timeout_s
        self._topic, self._place = topic, f"{topic}/{partition}"
        self._client = client_of(settings)
        with translated(self._client, f"Reading {topic}"):
            self._reader = self._client.partition_reader(topic, partition, committed=committed)

    def beginning(self) -> int:
        """Return the first offset that is still there."""
        with translated(self._client, f"Looking for the beginning of {self._topic}"):
            return self._reader.beginning()

    def end(self) -> int:
        """Return the offset after the last record that this reader may see."""
        with translated(self._client, f"Looking for the end of {self._topic}"):
            return self._reader.end()

    def read(self, on_batch: Callable[[Batch], None], newest: int | None = None) -> int:
        """Read from the beginning, or only the `newest` offsets, to the present end and return that end."""
        first, end = self.beginning(), self.end()
        with translated(self._client, f"Reading {self._topic}"):
            self._reader.seek(first if newest is None else max(first, end - newest))
            quiet_s = 0.0
            while self._reader.position() < end:
                self._client.settings.on_wait()
                batch = self._reader.poll(POLL_S)
                quiet_s = 0.0 if batch else quiet_s + POLL_S
                self._check_progress(quiet_s, end)
                if batch and batch.offsets[0] < end:
                    on_batch(_before(batch, end))
        return end

    def value_at(self, offset: int) -> tuple[bytes | None] | None:
        """Return the value at this offset, None where the reader gets past it without seeing a record."""
        with translated(self._client, f"Reading {self._topic}"):
            self._reader.seek(offset)
            quiet_s = 0.0
            while self._reader.position() <= offset:
                batch = self._reader.poll(POLL_S)
                quiet_s = 0.0 if batch else quiet_s + POLL_S
                self._check_progress(quiet_s, offset)
                if batch:
                    return (batch.values[0],) if batch.offsets[0] == offset else None
        return None

    def close(self) -> None:
        """Free the connections."""
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _check_progress(self, quiet_s: float, goal: int) -> None:
        if quiet_s > self._timeout_s:
            raise UnavailableError(f"Reading {self._place} to {goal} stopped for {self._timeout_s:g} s.")


def _before(batch: Batch, end: int) -> Batch:
    """Return what of a batch was there when the end was looked up."""
    if batch.next_offset <= end:
        return batch
    count = bisect_left(batch.offsets, end)
    return replace(
        batch,
        next_offset=end,
        offsets=batch.offsets[:count],
        values=batch.values[:count],
        keys=batch.keys[:count],
        timestamps_ms=batch.timestamps_ms[:count],
    )
