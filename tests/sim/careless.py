"""Roles that leave a step out: the simulation has to catch each of them."""

from agent.collector.collector import Collector
from agent.collector.reading import PartitionReading
from agent.learner.learner import Learner
from agent.learner.shard import OwnedShard
from processors.contracts.errors import ScalewatchError
from processors.contracts.log import Position, TopicPartition
from processors.store import Unsaved


class HastyCollector(Collector):
    """Commits before its writes are acknowledged: step 5 before step 4."""

    def commit(self) -> None:
        self._commit_folded()
        self._writing.flush()


class AbsentCollector(Collector):
    """Commits the offset after the last record, although its windows are open."""

    def _commit_folded(self) -> None:
        folded = {partition: reading.next_offset for partition, reading in self._readings.items() if not reading.part}
        self._consumer.commit({partition: Position(at) for partition, at in folded.items() if at is not None})


class NaiveCollector(Collector):
    """Reads again from where it has to, and does not know what was told already."""

    def _begin(self, partition: TopicPartition) -> None:
        super()._begin(partition)
        topic, number = partition
        read = self._readings[partition]
        windows = self._routes.windows(f"{topic}/{number}", "")
        self._readings[partition] = PartitionReading(read.source, windows, read.committed, read.spoke_s, read.attempts)


class HastyLearner(Learner):
    """Saves the state before the emissions are acknowledged: without step 1."""

    def _flush(self) -> None:
        """Leave it to chance."""


class TrustingLearner(Learner):
    """Goes on after an error of a checkpoint as if it were saved: without step 3."""

    def _confirm(self, partition: TopicPartition, shard: OwnedShard, *, wait: bool) -> None:
        try:
            super()._confirm(partition, shard, wait=wait)
        except ScalewatchError:
            if shard._saving is not None:
                shard.confirm()
            shard._store = self._log.checkpoints(partition[1])
            shard._store.take_over()


class ForgetfulLearner(Learner):
    """Takes what changed while a checkpoint was written for saved, too."""

    def _confirm(self, partition: TopicPartition, shard: OwnedShard, *, wait: bool) -> None:
        on_its_way = partition in self._saves
        super()._confirm(partition, shard, wait=wait)
        if on_its_way and partition not in self._saves:
            shard.fold.unsaved().states()
            shard.fold.confirm()


class FastLearner(Learner):
    """Gives a checkpoint the place of the journal at which it was done, not that of its snapshot."""

    def _checkpoint(
        self, partition: TopicPartition, shard: OwnedShard, now_s: float, *, with_hosts: bool = False
    ) -> None:
        unsaved = shard.fold.unsaved

        def late(*, with_hosts: bool = False) -> Unsaved:
            shard.offset += 1
            return unsaved(with_hosts=with_hosts)

        shard.fold.unsaved = late  # type: ignore[method-assign] # a careless one
        try:
            super()._checkpoint(partition, shard, now_s, with_hosts=with_hosts)
        finally:
            shard.fold.unsaved = unsaved  # type: ignore[method-assign] # as before
            shard.offset -= 1
