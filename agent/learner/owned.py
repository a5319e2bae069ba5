"""A shard that this process owns: its fold, its place in the journal and its checkpoints."""

from collections.abc import Callable
from functools import partial

from agent.contracts.errors import ConfigError
from agent.contracts.log import CheckpointStore, Consumer, Marker, TopicPartition
from agent.learner.plan import Fold, Plan


class OwnedShard:
    """Made by a take-over; given up on any error.

    `offset` is the next journal offset to fold, `records` how many were folded since the last snapshot, `saved_s` when
    the snapshot was taken whose checkpoint was confirmed last.

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
        self.fold: Fold = plan.make_fold()
        self.fold.restore(restored.states, marker.now_ms if marker else 0)
        first = consumer.beginning(partition)
        self.offset = marker.offset if marker else first
        if self.offset < first:
            raise ConfigError(
                f"The journal of shard {partition[1]} begins at {first}, but the last checkpoint ends at "
                f"{self.offset}: records were deleted before they were folded. Run `scalewatch rebuild`."
            )
        self._number = marker.number if marker else 0
        self.records = 0
        self.saved_s: float | None = None
        self._saving: tuple[float, Marker] | None = None

    def snapshot(self, now_s: float) -> Callable[[], None]:
        """Return steps 2 and 3 of a checkpoint of what is known now, to be done once, in any thread.

        What is folded before they are done belongs to the next checkpoint.
        """
        states = self.fold.dirty()
        self._saving = (
            now_s,
            Marker(
                offset=self.offset,
                number=self._number + 1,
                count=len(states),
                agent_version=self._plan.agent_version,
                config_hash=self._plan.config_hash,
                journal_partitions=self._plan.journal_partitions,
                now_ms=self.fold.now_ms,
            ),
        )
        self.records = 0
        return partial(self._store.save, states, self._saving[1])

    def confirm(self) -> int:
        """Take note that the checkpoint of the last snapshot is surely there; return its journal offset."""
        if self._saving is None:
            raise RuntimeError("There was no snapshot.")
        (self.saved_s, marker), self._saving = self._saving, None
        self.fold.confirm()
        self._number = marker.number
        return marker.offset

    def close(self) -> None:
        """Free the connections."""
        self._store.close()


def _check(marker: Marker | None, plan: Plan) -> None:
    if marker is not None and marker.journal_partitions != plan.journal_partitions:
        raise ConfigError(
            f"The state was written with {marker.journal_partitions} journal partitions, the configuration has "
            f"{plan.journal_partitions}: systems would change their shards. Run `scalewatch rebuild`."
        )
