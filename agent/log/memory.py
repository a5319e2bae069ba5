"""The log in memory: the embedded default, and the broker of simulated crashes."""

from collections.abc import Callable, Sequence

from agent.contracts.errors import UnavailableError
from agent.contracts.log import Batch, TopicSettings
from agent.log.memory_broker import MemoryBroker
from agent.log.memory_checkpoint import MemoryCheckpointStore
from agent.log.memory_consumer import MemoryConsumer
from agent.log.memory_producer import MemoryProducer

READ_RECORDS_MAX = 2000
Client = MemoryConsumer | MemoryProducer | MemoryCheckpointStore


class MemoryLog:
    """One process's way to a `MemoryBroker`. Without one it makes its own; give it one to come back after a crash.

    >>> log = MemoryLog()
    >>> log.create([TopicSettings(name="raw", partitions=1, compacted=False)])
    ['raw']
    >>> producer = log.producer()
    >>> producer.send("raw", b"value", timestamp_ms=7)
    >>> producer.flush(1.0)
    >>> batches = []
    >>> log.read("raw", 0, batches.append)
    1
    >>> batches[0].values, batches[0].timestamps_ms
    ([b'value'], [7])
    """

    def __init__(self, broker: MemoryBroker | None = None, *, state_topic: str = "scalewatch.state") -> None:
        self.broker = MemoryBroker() if broker is None else broker
        self._state_topic = state_topic
        self._clients: list[Client] = []
        self._closed = False

    def consumer(
        self, group: str, topics: Sequence[str], *, member: str, from_beginning: bool = True
    ) -> MemoryConsumer:
        """Return a new member of a group; topics may be regular expressions when they start with ``^``."""
        self._check_open()
        consumer = MemoryConsumer(self.broker, group, topics, member, from_beginning=from_beginning)
        self._keep(consumer)
        return consumer

    def producer(self) -> MemoryProducer:
        """Return a new producer."""
        self._check_open()
        producer = MemoryProducer(self.broker)
        self._keep(producer)
        return producer

    def checkpoints(self, shard: int) -> MemoryCheckpointStore:
        """Return a new store for a shard's checkpoints; the shard is the partition of the state topic."""
        self._check_open()
        store = MemoryCheckpointStore(self.broker, self._state_topic, shard)
        self._keep(store)
        return store

    def partitions(self, topic: str) -> int | None:
        """Return the number of partitions, None where the topic does not exist."""
        self._check_open()
        return self.broker.partitions(topic)

    def create(self, topics: Sequence[TopicSettings]) -> Sequence[str]:
        """Create the topics that are missing; return their names."""
        self._check_open()
        return self.broker.create(topics)

    def read(self, topic: str, partition: int, on_batch: Callable[[Batch], None], *, newest: int | None = None) -> int:
        """Read a partition to its present end, of a compacted topic the last record of each key; return the end.

        With `newest` only the records of its last so many offsets.
        """
        self._check_open()
        whole, end = self.broker.snapshot((topic, partition), newest)
        for start in range(0, len(whole.values) if whole else 0, READ_RECORDS_MAX):
            on_batch(_part(whole, start, end)) if whole else None
        return end

    def close(self) -> None:
        """Close everything this log handed out; the broker keeps its records."""
        self._closed = True
        for client in self._clients:
            client.close()
        self._clients.clear()

    def _keep(self, client: Client) -> None:
        self._clients = [*(one for one in self._clients if not one.closed), client]

    def _check_open(self) -> None:
        if self._closed:
            raise UnavailableError("The log is closed.")


def _part(whole: Batch, start: int, end: int) -> Batch:
    stop = start + READ_RECORDS_MAX
    return Batch(
        topic=whole.topic,
        partition=whole.partition,
        next_offset=whole.offsets[stop] if stop < len(whole.offsets) else end,
        offsets=whole.offsets[start:stop],
        values=whole.values[start:stop],
        keys=whole.keys[start:stop],
        timestamps_ms=whole.timestamps_ms[start:stop],
    )
