"""The clients of a `FaultyLog`."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

from processors.contracts.errors import CheckpointLostError, RebalancingError, ScalewatchError, UnavailableError
from processors.contracts.log import (
    Assignment,
    Batch,
    CheckpointStore,
    Consumer,
    Log,
    Marker,
    Poll,
    Position,
    Restored,
    TopicPartition,
    check_record,
)

Record = tuple[str, bytes | None, bytes | None, int | None, int | None]
Result = TypeVar("Result")
FLUSH_S = 1.0


class Dice(Protocol):
    """The part of the faults that clients use."""

    def happens(self, fault: str, where: str) -> bool: ...

    @property
    def random(self) -> "Random": ...


class Random(Protocol):
    def randint(self, low: int, high: int) -> int: ...


class Process(Protocol):
    """The log that made the client."""

    @property
    def faults(self) -> Dice: ...

    def strike(self, call: str, effect: Callable[[], Result], *, refusable: bool = True) -> Result: ...


class FaultyConsumer:
    """A member whose group drops it now and then, and whose polls return less than there is."""

    def __init__(self, process: Process, join: Callable[[], Consumer]) -> None:
        self._process = process
        self._join = join
        self._inner = join()
        self._lost: frozenset[TopicPartition] = frozenset()

    def poll(self, timeout_s: float) -> Poll:
        return self._process.strike("poll", lambda: self._poll(timeout_s))

    def assigned(self) -> frozenset[TopicPartition]:
        return self._lost or self._inner.assigned()

    def committed(self, partition: TopicPartition) -> Position | None:
        return self._process.strike("committed", lambda: self._inner.committed(partition))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        if partition not in self._lost:  # the member does not know yet, and its seek does no harm
            self._inner.seek(partition, offset)

    def beginning(self, partition: TopicPartition) -> int:
        return self._process.strike("beginning", lambda: self._inner.beginning(partition))

    def end(self, partition: TopicPartition) -> int:
        return self._process.strike("end", lambda: self._inner.end(partition))

    def commit(self, positions: Mapping[TopicPartition, Position]) -> None:
        if self._process.faults.happens("rebalance", "at commit"):
            self._drop()
        if self._lost:
            raise RebalancingError("The group has gone on without this member.")
        self._process.strike("commit", lambda: self._inner.commit(positions))

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        self._inner.pause(partitions)

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        self._inner.resume(partitions)

    def close(self) -> None:
        self._inner.close()

    def _poll(self, timeout_s: float) -> Poll:
        if self._process.faults.happens("rebalance", "at poll"):
            self._drop()
        if self._lost:
            lost, self._lost = self._lost, frozenset()
            return Poll(Assignment(lost=tuple(sorted(lost))))
        poll = self._inner.poll(timeout_s)
        return Poll(poll.assignment, tuple(self._split(batch) for batch in poll.batches))

    def _drop(self) -> None:
        if not self._lost:
            self._lost = self._inner.assigned()
            self._inner.close()
            self._inner = self._join()

    def _split(self, batch: Batch) -> Batch:
        if len(batch.offsets) < 2 or not self._process.faults.happens("split", "at poll"):
            return batch
        count = self._process.faults.random.randint(1, len(batch.offsets) - 1)
        self._inner.seek((batch.topic, batch.partition), batch.offsets[count])
        return Batch(
            topic=batch.topic,
            partition=batch.partition,
            next_offset=batch.offsets[count],
            offsets=batch.offsets[:count],
            values=batch.values[:count],
            keys=batch.keys[:count],
            timestamps_ms=batch.timestamps_ms[:count],
        )


class FaultyProducer:
    """Holds records back until a flush. Acknowledged ones are never lost, but may be seen late."""

    def __init__(self, process: Process, log: Log) -> None:
        self._process = process
        self._log = log
        self._inner = log.producer()
        self._acknowledged: list[Record] = []
        self._queue: list[Record] = []
        self._dead = False

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        self._check_alive()
        check_record(topic, value, key)
        if self._log.partitions(topic) is None:
            raise UnavailableError(f"The topic {topic} does not exist.")
        self._process.strike("send", lambda: self._queue.append((topic, value, key, partition, timestamp_ms)))

    def flush(self, timeout_s: float) -> None:
        self._check_alive()
        try:
            self._process.strike("flush", lambda: self._flush(timeout_s))
        except UnavailableError:
            self.crash()
            raise

    def close(self) -> None:
        self.crash()

    def crash(self) -> None:
        """Die: what was acknowledged is written, of the queue only the beginning, however much of it."""
        if not self._dead:
            self._dead = True
            count = self._process.faults.random.randint(0, len(self._queue))
            with suppress(ScalewatchError):  # the log itself may be closed by now
                self._write([*self._acknowledged, *self._queue[:count]])
                self._inner.flush(FLUSH_S)
                self._inner.close()

    def _flush(self, timeout_s: float) -> None:
        ready = self._acknowledged + self._queue
        faults = self._process.faults
        late = faults.random.randint(1, len(ready)) if ready and faults.happens("delay", "at flush") else 0
        self._acknowledged, self._queue = ready[len(ready) - late :], []
        self._write(ready[: len(ready) - late])
        if not late and ready and faults.happens("repeat", "at flush"):
            self._write(ready[faults.random.randint(0, len(ready) - 1) :])
        self._inner.flush(timeout_s)

    def _write(self, records: Sequence[Record]) -> None:
        for topic, value, key, partition, timestamp_ms in records:
            self._inner.send(topic, value, key, partition, timestamp_ms)

    def _check_alive(self) -> None:
        if self._dead:
            raise UnavailableError("The producer is closed.")


class FaultyCheckpointStore:
    """Saves may be refused although they are done, be lost, or find that another owner has come."""

    def __init__(self, process: Process, log: Log, shard: int) -> None:
        self._process = process
        self._log = log
        self._shard = shard
        self._inner: CheckpointStore = log.checkpoints(shard)

    def take_over(self) -> Restored:
        return self._dying("take_over", self._inner.take_over)

    def save(self, states: Mapping[str, bytes | None], marker: Marker) -> None:
        if self._process.faults.happens("rebalance", "at save"):
            self._log.checkpoints(self._shard).take_over()
        self._dying("save", lambda: self._save(states, marker))

    def close(self) -> None:
        self._inner.close()

    def _save(self, states: Mapping[str, bytes | None], marker: Marker) -> None:
        if self._process.faults.happens("delay", "at save"):
            raise CheckpointLostError("The checkpoint is not there.")
        self._inner.save(states, marker)

    def _dying(self, call: str, effect: Callable[[], Result]) -> Result:
        try:
            return self._process.strike(call, effect)
        except ScalewatchError:
            self._inner.close()
            raise
