"""A shard that this process owns: its fold, its place in the journal and its checkpoints."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from agent.contracts.errors import ConfigError
from agent.contracts.events import JournalRecord
from agent.contracts.log import CheckpointStore, Consumer, Marker, TopicPartition
from agent.learner.plan import Fold, Plan

NO_HOSTS: Final = dict[str, bytes | None]


class Place(msgspec.Struct, frozen=True):
    """What the state of hosts stands for: the next journal offset, and the newest tick before it."""

    offset: int
    now_ms: int


class Snapshot(msgspec.Struct, frozen=True):
    """A checkpoint on its way: when it was taken, its marker, and whether the hosts are in it."""

    taken_s: float
    marker: Marker
    with_hosts: bool


class OwnedShard:
    """Made by a take-over; given up on any error.

    `offset` is the next journal offset to fold, `records` how many were folded since the last snapshot, `saved_s` when
    the snapshot was taken whose checkpoint was confirmed last. The states of hosts are written more rarely than the
    others: after a restart the records between are folded for them alone. `hosts_lost` tells that the journal does not
    hold all of those any more, so that the hosts begin anew.

    >>> from agent.app import compose
    >>> from agent.config.tree import Config
    >>> from agent.log.memory import MemoryLog
    >>> from agent.topics import own_topics
    >>> log, config = MemoryLog(), Config()
    >>> _ = log.create(own_topics(config))
    >>> reader = log.consumer("g", [config.topics.journal], member="a")
    >>> shard = OwnedShard(compose.plan(config), log.checkpoints(0), reader, (config.topics.journal, 0))
    >>> write = shard.snapshot(now_s=7.0)
    >>> write()
    >>> shard.confirm(), shard.saved_s
    (0, 7.0)
    """

    def __init__(self, plan: Plan, store: CheckpointStore, consumer: Consumer, partition: TopicPartition) -> None:
        self._plan = plan
        self._store = store
        restored = store.take_over()
        marker = restored.marker
        _check(marker, plan)
        first = consumer.beginning(partition)
        self._jobs_from = marker.offset if marker else first
        if self._jobs_from < first:
            raise ConfigError(
                f"The journal of shard {partition[1]} begins at {first}, but the last checkpoint ends at "
                f"{self._jobs_from}: records were deleted before they were folded. Run `scalewatch rebuild`."
            )
        hosts = _hosts(marker)
        self.hosts_lost = hosts is not None and hosts.offset < first
        if self.hosts_lost:
            hosts = None
        self.fold: Fold = plan.make_fold()
        self.fold.restore(restored.states, marker.now_ms if marker else 0, hosts.now_ms if hosts else None)
        self._saved_hosts = hosts
        self._hosts = hosts or Place(self._jobs_from, 0)
        self.offset = self._hosts.offset
        self._number = marker.number if marker else 0
        self.records = 0
        self.saved_s: float | None = None
        self._hosts_saved_s: float | None = None
        self._saving: Snapshot | None = None

    @property
    def unsaved(self) -> bool:
        """Whether anything was folded that no snapshot holds."""
        return self.records > 0 or self._saved_hosts is None or self._saved_hosts.offset < self._hosts.offset

    def took_over(self, now_s: float) -> None:
        """Take note of when the shard was taken over: the rhythm of its checkpoints begins."""
        self.saved_s = now_s
        self._hosts_saved_s = now_s if self._saved_hosts else None

    def take(self, offset: int, record: JournalRecord) -> list[Any]:
        """Fold a record, the next one, for whom it is new; return the messages to send because of it."""
        try:
            return self.fold.fold(record) if offset >= self._jobs_from else self.fold.fold_hosts(record)
        finally:
            if not self.fold.hosts_wait:
                self._hosts = Place(offset + 1, self.fold.hosts_now_ms)

    def snapshot(self, now_s: float, *, with_hosts: bool = False) -> Callable[[], None]:
        """Return steps 2 and 3 of a checkpoint of what is known now, to be done once, in any thread.

        What is folded before they are done belongs to the next checkpoint. The hosts are in it when it is their time.
        """
        with_hosts = with_hosts or self._hosts_due(now_s)
        states, hosts = self.fold.dirty(), self.fold.copied_hosts() if with_hosts else NO_HOSTS
        place = self._hosts if with_hosts else self._saved_hosts
        marker = Marker(
            offset=max(self.offset, self._jobs_from),
            number=self._number + 1,
            count=0,
            agent_version=self._plan.agent_version,
            config_hash=self._plan.config_hash,
            journal_partitions=self._plan.journal_partitions,
            now_ms=self.fold.now_ms,
            hosts_offset=place.offset if place else None,
            hosts_now_ms=place.now_ms if place else 0,
        )
        self._saving = Snapshot(now_s, marker, with_hosts)
        self.records = 0

        def write() -> None:
            written = states | hosts()
            self._store.save(written, msgspec.structs.replace(marker, count=len(written)))

        return write

    def confirm(self) -> int:
        """Take note that the checkpoint of the last snapshot is surely there; return its journal offset."""
        if self._saving is None:
            raise RuntimeError("There was no snapshot.")
        saved, self._saving = self._saving, None
        self.saved_s = saved.taken_s
        self.fold.confirm()
        if saved.with_hosts:
            self.fold.confirm_hosts()
            self._saved_hosts, self._hosts_saved_s = _hosts(saved.marker), saved.taken_s
        self._number = saved.marker.number
        return saved.marker.offset

    def close(self) -> None:
        """Free the connections."""
        self._store.close()

    def _hosts_due(self, now_s: float) -> bool:
        saved_s = self._hosts_saved_s
        return saved_s is None or now_s - saved_s >= self._plan.host_checkpoint_interval_s


def _hosts(marker: Marker | None) -> Place | None:
    if marker is None or marker.hosts_offset is None:
        return None
    return Place(marker.hosts_offset, marker.hosts_now_ms)


def _check(marker: Marker | None, plan: Plan) -> None:
    if marker is not None and marker.journal_partitions != plan.journal_partitions:
        raise ConfigError(
            f"The state was written with {marker.journal_partitions} journal partitions, the configuration has "
            f"{plan.journal_partitions}: systems would change their shards. Run `scalewatch rebuild`."
        )
