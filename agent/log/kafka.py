"""The log on Kafka."""

from collections.abc import Callable, Sequence

from agent.contracts.errors import UnavailableError
from agent.contracts.log import Batch, TopicSettings
from agent.log.kafka_admin import create_topics, partition_counts
from agent.log.kafka_checkpoint import KafkaCheckpointStore
from agent.log.kafka_connection import check_reachable
from agent.log.kafka_consumer import KafkaLogConsumer
from agent.log.kafka_producer import KafkaLogProducer
from agent.log.kafka_reading import KafkaReader
from agent.log.kafka_settings import KafkaSettings

Client = KafkaLogConsumer | KafkaLogProducer | KafkaCheckpointStore


class KafkaLog:
    """Clients of one cluster. Nothing is connected before it is needed.

    >>> log = KafkaLog(KafkaSettings(bootstrap="127.0.0.1:1", bootstrap_timeout_s=0.1))
    >>> log.partitions("raw")
    Traceback (most recent call last):
    agent.contracts.errors.UnavailableError: No Kafka broker could be reached at 127.0.0.1:1 (PLAINTEXT) within ...
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._clients: list[Client] = []
        self._partitions: dict[str, int] = {}
        self._reached = False
        self._closed = False

    def consumer(
        self, group: str, topics: Sequence[str], *, member: str, from_beginning: bool = True
    ) -> KafkaLogConsumer:
        """Return a new member of a group; topics may be regular expressions when they start with ``^``."""
        self._connect()
        consumer = KafkaLogConsumer(self._settings, group, topics, member, from_beginning=from_beginning)
        self._keep(consumer)
        return consumer

    def producer(self) -> KafkaLogProducer:
        """Return a new producer (acks of all replicas, idempotent)."""
        self._connect()
        producer = KafkaLogProducer(self._settings)
        self._keep(producer)
        return producer

    def checkpoints(self, shard: int) -> KafkaCheckpointStore:
        """Return a new store for a shard's checkpoints; the shard is the partition of the state topic."""
        self._connect()
        store = KafkaCheckpointStore(self._settings, shard)
        self._keep(store)
        return store

    def partitions(self, topic: str) -> int | None:
        """Return the number of partitions, None where the topic does not exist; a known number is not asked again."""
        self._connect()
        if topic not in self._partitions:
            self._partitions.update(partition_counts(self._settings, [topic]))
        return self._partitions.get(topic)

    def create(self, topics: Sequence[TopicSettings]) -> Sequence[str]:
        """Create the topics that are missing; return their names. Raises UnavailableError."""
        self._connect()
        return create_topics(self._settings, topics)

    def read(self, topic: str, partition: int, on_batch: Callable[[Batch], None], *, newest: int | None = None) -> int:
        """Read a partition from its beginning to its present end; return that end. Raises UnavailableError.

        With `newest` only its last so many offsets: fewer records where compaction or transactions left gaps.
        """
        self._connect()
        with KafkaReader(self._settings, topic, partition) as reader:
            return reader.read(on_batch, newest)

    def close(self) -> None:
        """Close everything this log handed out."""
        self._closed = True
        for client in self._clients:
            client.close()
        self._clients.clear()

    def _keep(self, client: Client) -> None:
        self._clients = [*(one for one in self._clients if not one.closed), client]

    def _connect(self) -> None:
        if self._closed:
            raise UnavailableError("The log is closed.")
        if not self._reached:
            check_reachable(self._settings)
            self._reached = True
