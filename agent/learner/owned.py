"""A shard that this process owns: its fold, its place in the journal and its checkpoints."""

from agent.contracts.errors import ConfigError
from agent.contracts.log import CheckpointStore, Consumer, Marker, TopicPartition
from agent.learner.plan import Fold, Plan


class OwnedShard:
    """Made by a take-over; given up on any error.

    `offset` is the next journal offset to fold, `records` how many were folded since the last checkpoint.

    >>> from agent.app import compose
    >>> from agent.config.tree import Config
    >>> from agent.log.memory import MemoryLog
    >>> from agent.topics import own_topics
    >>> log, config = MemoryLog(), Config()
    >>> _ = log.create(own_topics(config))
    >>> reader = log.consumer("g", [config.topics.journal], member="a")
    >>> shard = OwnedShard(compose.plan(config), log.checkpoints(0), reader, (config.topics.journal, 0))
    >>> shard.offset, shard.checkpoint(now_s=0.0)
    (0, 0)
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

    def checkpoint(self, now_s: float) -> int:
        """Do steps 2 and 3 of a checkpoint, write and confirm; return the number of states written."""
        states = self.fold.dirty()
        marker = Marker(
            offset=self.offset,
            number=self._number + 1,
            count=len(states),
            agent_version=self._plan.agent_version,
            config_hash=self._plan.config_hash,
            journal_partitions=self._plan.journal_partitions,
            now_ms=self.fold.now_ms,
        )
        self._store.save(states, marker)
        self.fold.confirm()
        self._number, self.records, self.saved_s = marker.number, 0, now_s
        return len(states)

    def close(self) -> None:
        """Free the connections."""
        self._store.close()


def _check(marker: Marker | None, plan: Plan) -> None:
    if marker is not None and marker.journal_partitions != plan.journal_partitions:
        raise ConfigError(
            f"The state was written with {marker.journal_partitions} journal partitions, the configuration has "
            f"{plan.journal_partitions}: systems would change their shards. Run `scalewatch rebuild`."
        )
