"""A shard that this process owns: its processors, its position in the journal, and its checkpoints."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from agent.collector.deadletters import Allowance
from processors.contracts.errors import ConfigError
from processors.contracts.events import DeadLetter, JournalRecord, Refusal
from processors.contracts.log import (
    Batch,
    CheckpointStore,
    Consumer,
    HostPosition,
    Marker,
    Position,
    Restored,
    TopicPartition,
    partitions_fault,
    record_digest,
)
from processors.contracts.outputs import Emission

if TYPE_CHECKING:  # the shard's code imports 130 modules, which only processes with a learner load
    from processors.pipeline.shard import Shard
    from processors.store import Unsaved


class LearnerPlan(msgspec.Struct, frozen=True):
    """The settings of a learner that depend on the configuration.

    `topics` maps each kind of output to its topic. `encode` makes the record of a message. `is_source` returns whether a name is
    the topic of a source; other names are files.
    """

    journal_topic: str
    journal_partitions: int
    group: str
    topics: Mapping[str, str]
    make_fold: Callable[[], "Shard"]
    encode: Callable[[Any], Emission]
    dead_letter: Callable[[Refusal], DeadLetter]
    agent_version: str
    config_hash: str
    deadletter_bytes_per_s_max: float
    is_source: Callable[[str], bool] = bool
    checkpoint_interval_s: float = 10.0
    host_checkpoint_interval_s: float = 600.0
    checkpoint_records_max: int = 20_000


class Snapshot(msgspec.Struct, frozen=True):
    """A checkpoint that is not confirmed yet: its time, its marker, its states, and whether they include host states."""

    taken_s: float
    marker: Marker
    with_hosts: bool
    unsaved: "Unsaved"
    store: CheckpointStore

    def write(self) -> None:
        """Write the states and the marker to the store. Call once, after all states are encoded; any thread may call."""
        written = self.unsaved.states()
        self.store.save(written, msgspec.structs.replace(self.marker, count=len(written)))


class OwnedShard:
    """A shard from its take-over until an error or the loss of its partition.

    - `offset` is the next journal offset to process, and `start` the first offset to read. Reading starts at the last processed
      record, whose digest shows whether this is still the same journal.
    - `records` counts the records processed since the last snapshot. `saved_s` is the time of the last confirmed snapshot.
    - Host states are saved less often than other states. After a restart, the records since the last save of host states are applied
      to host states alone. `hosts_lost` means that the journal has deleted some of these records, so host states start empty.
    - `dead_letters` is the allowance for dead letters. Its clock is event time and checkpoints store it, so a replay decides alike.

    Raise ConfigError if the stored state or the journal does not match the last checkpoint; then only a rebuild helps.
    """

    def __init__(
        self, plan: LearnerPlan, store: CheckpointStore, consumer: Consumer, partition: TopicPartition, now_s: float
    ) -> None:
        self._plan = plan
        self._store = store
        self._consumer, self._partition = consumer, partition
        shards = plan.journal_partitions
        if partition[1] >= shards:
            raise ConfigError(partitions_fault(plan.journal_topic, f"at least {partition[1] + 1}", shards))
        restored = store.take_over()
        check_restored(restored, shards, partition[1], consumer.committed(partition))
        first = consumer.beginning(partition)
        marker = restored.marker or Marker(first, 0, 0, plan.agent_version, plan.config_hash, shards)
        self._jobs_from, self._last_record, hosts = marker.offset, marker.last_record, marker.hosts
        check_bounds(partition[1], self._jobs_from, first, consumer.end(partition))
        self.hosts_lost = hosts is not None and hosts.offset < first
        if self.hosts_lost:
            hosts = None
        self.fold = plan.make_fold()
        self.fold.restore(restored.states, marker.now_ms, hosts.now_ms if hosts else None)
        self.fold.watermarks = hosts.watermarks if hosts else marker.watermarks
        self.dead_letters = Allowance(
            plan.deadletter_bytes_per_s_max, lambda: self.fold.now_ms / 1000, marker.dead_letters
        )
        self._saved_hosts, self._hosts_watermarks = hosts, self.fold.watermarks
        self._hosts_offset = self.offset = hosts.offset if hosts else self._jobs_from
        has_record = self._last_record is not None and self.offset == self._jobs_from > first
        self.start = self.offset - 1 if has_record else self.offset
        self._number = marker.number
        self.records = 0
        self.saved_s, self._hosts_saved_s = now_s, now_s if hosts else None
        self._saving: Snapshot | None = None

    @property
    def unsaved(self) -> bool:
        """Whether the shard has processed records that no snapshot contains."""
        return self.records > 0 or self._saved_hosts is None or self._saved_hosts.offset < self._hosts_offset

    def is_known(self, offset: int) -> bool:
        """Return whether the record at `offset` is replayed for the host states only; its messages were already sent."""
        return offset < self._jobs_from

    def check(self, batch: Batch) -> None:
        """Check that the records of a batch directly follow the processed records. Raise ConfigError if they do not."""
        first = batch.offsets[0] if batch.offsets else batch.next_offset
        if first > self.offset:  # a gap alone is not an error, because transaction markers use offsets
            check_bounds(self._partition[1], self.offset, self._consumer.beginning(self._partition), first)
        if first < self.start:
            raise ConfigError(_other_journal(self._partition[1], f"it goes on at {first} after {self.offset}"))
        last = self._jobs_from - 1 - first
        is_read = (
            self._last_record is not None and 0 <= last < len(batch.values) and batch.offsets[last] == first + last
        )
        if is_read and record_digest(batch.values[last]) != self._last_record:
            raise ConfigError(_other_journal(self._partition[1], f"its record {self._jobs_from - 1} is another"))
        self.start = batch.next_offset

    def folded(self, batch: Batch) -> None:
        """Advance the offset past a processed batch, and store the digest of its last record."""
        if batch.next_offset > max(self.offset, self._jobs_from) and batch.values:
            self._last_record = record_digest(batch.values[-1])
        self.offset = max(self.offset, batch.next_offset)

    def take(self, offset: int, record: JournalRecord) -> list[Any]:
        """Process the next record, and return the messages to send."""
        try:
            return self.fold.fold_hosts(record) if self.is_known(offset) else self.fold.fold(record)
        finally:
            if not self.fold.hosts.waiting:
                self._hosts_offset, self._hosts_watermarks = offset + 1, self.fold.watermarks

    def snapshot(self, now_s: float, *, with_hosts: bool = False) -> Snapshot:
        """Return a snapshot of the current state. Records processed afterwards belong to the next checkpoint."""
        hosts_s, interval_s = self._hosts_saved_s, self._plan.host_checkpoint_interval_s
        with_hosts = with_hosts or hosts_s is None or now_s - hosts_s >= interval_s
        unsaved = self.fold.unsaved(with_hosts=with_hosts)
        hosts = self._saved_hosts
        if with_hosts:
            hosts = HostPosition(self._hosts_offset, self.fold.hosts.state.now_ms, self._hosts_watermarks)
        marker = Marker(
            offset=max(self.offset, self._jobs_from),
            number=self._number + 1,
            count=0,
            agent_version=self._plan.agent_version,
            config_hash=self._plan.config_hash,
            journal_partitions=self._plan.journal_partitions,
            now_ms=self.fold.now_ms,
            last_record=self._last_record,
            watermarks=self.fold.watermarks,
            hosts=hosts,
            dead_letters=self.dead_letters.left,
        )
        self._saving = Snapshot(now_s, marker, with_hosts, unsaved, self._store)
        self.records = 0
        return self._saving

    def confirm(self) -> int:
        """Record that the last snapshot is saved durably; return its journal offset."""
        if self._saving is None:
            raise RuntimeError("There was no snapshot.")
        saved, self._saving = self._saving, None
        self.saved_s = saved.taken_s
        self.fold.confirm(with_hosts=saved.with_hosts)
        if saved.with_hosts:
            self._saved_hosts, self._hosts_saved_s = saved.marker.hosts, saved.taken_s
        self._number = saved.marker.number
        return saved.marker.offset

    def close(self) -> None:
        self._store.close()


def check_restored(restored: Restored, shards: int, shard: int, committed: Position | None) -> None:
    """Raise ConfigError if the stored state is damaged or missing, or was written with another number of journal partitions."""
    marker = restored.marker
    if marker is not None and marker.journal_partitions != shards:
        raise ConfigError(
            f"The state was written with {marker.journal_partitions} journal partitions, the configuration has "
            f"{shards}: systems would change their shards. Run `scalewatch rebuild`."
        )
    fault = restored.fault
    if marker is None and fault is None and committed is not None:
        fault = f"it is empty, but learners have folded the journal to {committed.offset}"
    if fault is not None:
        raise ConfigError(
            f"The state of shard {shard} is damaged: {fault}. Something else than the agent deleted or wrote it. "
            "Run `scalewatch rebuild`."
        )


def check_bounds(shard: int, offset: int, first: int, end: int) -> None:
    """Raise ConfigError if `offset`, where the last checkpoint ends, is outside the journal's offsets `first` to `end`."""
    if offset < first:
        raise ConfigError(
            f"The journal of shard {shard} begins at {first}, but the last checkpoint ends at {offset}: records were "
            "deleted before they were folded. Run `scalewatch rebuild`."
        )
    if offset > end:
        raise ConfigError(_other_journal(shard, f"it ends at {end}, but the last checkpoint at {offset}"))


def _other_journal(shard: int, sign: str) -> str:
    return (
        f"The journal of shard {shard} is another one, or was cut: {sign}. Stop the learners and run "
        "`scalewatch rebuild`; the journal is then read from its beginning."
    )
