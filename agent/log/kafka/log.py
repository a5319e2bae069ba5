"""The log on Kafka: the producer, the requests about topics, and `KafkaLog`, which makes all clients of a cluster."""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Final, TypeVar

from msgspec.structs import replace

from agent.log.kafka.checkpoint import KafkaCheckpointStore
from agent.log.kafka.client import (
    BATCH_BYTES_MIN,
    BATCH_MARGIN_BYTES,
    REQUEST_BYTES_MAX,
    ClusterAdmin,
    KafkaLogSettings,
    NotQueuedError,
    check_reachable,
    client_of,
    forbidden,
    translate,
    translated,
)
from agent.log.kafka.consumer import KafkaLogConsumer, KafkaReader, ends
from processors.contracts.errors import ScalewatchError, UnavailableError
from processors.contracts.log import IN_SYNC_MIN, REPLICAS_SAFE, Batch, Examined, TopicSettings, check_record

REPLICAS: Final = 3
TOPIC_READY_POLLS: Final = 50
ACTIVE_POLLS, ACTIVE_POLL_S = 100, 0.1
LIMIT: Final = "max.message.bytes"
Result = TypeVar("Result")


class KafkaLogProducer:
    """Sends records in the background. After a failed write the producer is unusable.

    The broker could mistake later records of the same producer for duplicates. While the queue is full, `send` waits at most
    `block_timeout_s` for an acknowledgement.
    """

    def __init__(self, settings: KafkaLogSettings) -> None:
        self._settings = settings
        self._client = client_of(settings)
        self._death: ScalewatchError | None = None
        with translated(self._client, "Making a producer"):
            self._writer = self._client.adapter.record_writer(settings)

    @property
    def closed(self) -> bool:
        return self._death is not None

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Queue a record. Raise UnavailableError, or ValueError if no broker would accept the record."""
        if self._death is not None:
            self._refuse()
        check_record(topic, value, key)
        if timestamp_ms is None:
            timestamp_ms = self._settings.stamp_ms()
        try:
            while not self._writer.offer(topic, value, key, partition, timestamp_ms):
                self._make_room()
        except NotQueuedError as error:
            cause = error.__cause__ or error
            raise translate(self._client, cause, f"Writing to {topic}") from cause
        except UnavailableError:
            raise
        except Exception as error:
            raise self._die(translate(self._client, error, f"Writing to {topic}")) from error

    def flush(self, timeout_s: float) -> None:
        """Wait for all acknowledgements. Raise UnavailableError, after which the producer is unusable."""
        if self._death is not None:
            self._refuse()
        try:
            self._writer.flush(timeout_s)
        except Exception as error:
            raise self._die(translate(self._client, error, "Flushing")) from error

    def close(self) -> None:
        """Drop the queue and close the connections."""
        if self._death is None:
            self._die(UnavailableError("The producer is closed."))

    def _make_room(self) -> None:
        if not self._writer.settle(self._settings.block_timeout_s):
            count = self._writer.unacknowledged()
            raise UnavailableError(
                f"The queue is full: {count} records are not acknowledged after {self._settings.block_timeout_s:g} s."
            )

    def _refuse(self) -> None:
        raise UnavailableError(f"The producer cannot be used any more. {self._death}")

    def _die(self, reason: ScalewatchError) -> ScalewatchError:
        self._death = UnavailableError(str(reason))
        self._writer.give_up()
        return self._death


def counts(admin: ClusterAdmin, settings: KafkaLogSettings, topics: Sequence[str]) -> dict[str, int]:
    """Return the number of partitions of each existing topic. Raise UnavailableError if the user may not see one of the topics."""
    topics_by_name = admin.describe(topics) if topics else {}
    denied = tuple(name for name, topic in topics_by_name.items() if not topic.partitions)
    if denied:
        raise UnavailableError(forbidden(settings, "Looking up topics", "a topic", denied))
    return {name: topic.partitions for name, topic in topics_by_name.items()}


def create(admin: ClusterAdmin, settings: KafkaLogSettings, topics: Sequence[TopicSettings]) -> list[str]:
    """Create missing topics, wait until the brokers know them, and return their names."""
    existing = counts(admin, settings, [topic.name for topic in topics])
    missing = [topic for topic in topics if topic.name not in existing]
    active = _active_brokers(admin) if missing else 0
    replicas = settings.replication_factor or min(REPLICAS, active)
    created = [topic.name for topic in missing if _create_one(admin, topic, replicas)]
    for _ in range(TOPIC_READY_POLLS):  # brokers learn of a new topic shortly after the controller
        if len(counts(admin, settings, created)) == len(created):
            break
    return created


def examine(
    admin: ClusterAdmin, topics: Sequence[str], groups: Sequence[str], transactional_ids: Sequence[str]
) -> Examined:
    """Return the actual settings of topics, and the operations that the user may perform on topics, groups and transactional ids."""
    topics_by_name = admin.describe(topics)
    settings = admin.settings([name for name, topic in topics_by_name.items() if topic.partitions])
    return Examined(
        {name: replace(topic, settings=settings.get(name)) for name, topic in topics_by_name.items()},
        {group: admin.group_operations(group) for group in groups},
        admin.transactional_operations(transactional_ids),
    )


def _active_brokers(admin: ClusterAdmin) -> int:
    """Return the number of active brokers; a broker that resumes after a hang is inactive for one or two seconds."""
    pause = threading.Event()
    for _ in range(ACTIVE_POLLS):
        if brokers := admin.brokers():
            return brokers
        pause.wait(ACTIVE_POLL_S)
    raise UnavailableError("The cluster has no active broker yet, so no topic can be created.")


def _create_one(admin: ClusterAdmin, topic: TopicSettings, replicas: int) -> bool:
    options = dict(topic.options())
    if replicas >= REPLICAS_SAFE:  # because a broker's default is a single replica
        options["min.insync.replicas"] = str(IN_SYNC_MIN)
    return admin.create(topic.name, topic.partitions, replicas, options)


LogClient = KafkaLogConsumer | KafkaLogProducer | KafkaCheckpointStore
AnyClient = TypeVar("AnyClient", bound=LogClient)


class KafkaLog:
    """Creates the clients of one Kafka cluster. The first request checks that the cluster can be reached."""

    def __init__(self, settings: KafkaLogSettings) -> None:
        self._settings = settings
        self._clients: list[LogClient] = []
        self._partitions: dict[str, int] = {}
        self._writes: KafkaLogSettings | None = None
        self._reached = False
        self._closed = False

    def consumer(
        self, group: str, topics: Sequence[str], *, member: str, from_beginning: bool = True
    ) -> KafkaLogConsumer:
        """Return a new group member; topics that start with ``^`` are regular expressions."""
        self._connect()
        return self._retained(KafkaLogConsumer(self._settings, group, topics, member, from_beginning=from_beginning))

    def producer(self) -> KafkaLogProducer:
        self._connect()
        return self._retained(KafkaLogProducer(self._writing()))

    def checkpoints(self, shard: int) -> KafkaCheckpointStore:
        """Return a new checkpoint store for a shard, whose states are in one partition of the state topic."""
        self._connect()
        return self._retained(KafkaCheckpointStore(self._writing(), shard))

    def partitions(self, topic: str) -> int | None:
        """Return the number of partitions; None if the topic does not exist. The number of an existing topic is cached."""
        if topic not in self._partitions:
            look_up = partial(counts, settings=self._settings, topics=[topic])
            self._partitions.update(self._ask("Looking up topics", look_up))
        return self._partitions.get(topic)

    def ends(self, topics: Sequence[str]) -> Mapping[str, Mapping[int, int]]:
        """Return the end offsets of the partitions of each existing topic; topics that start with ``^`` are regular expressions."""
        return self._ask("Looking up the ends of topics", partial(ends, topics=topics))

    def create(self, topics: Sequence[TopicSettings]) -> Sequence[str]:
        """Create missing topics and return their names. Raise UnavailableError on failure."""
        return self._ask("Creating topics", partial(create, settings=self._settings, topics=topics))

    def examine(self, topics: Sequence[str], groups: Sequence[str], transactional_ids: Sequence[str]) -> Examined:
        look = partial(examine, topics=topics, groups=groups, transactional_ids=transactional_ids)
        return self._ask("Reading the settings of topics", look)

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the first existing offset and the end offset of a partition. Raise UnavailableError without a broker."""
        self._connect()
        with closing(KafkaReader(self._settings, topic, partition)) as reader:
            return reader.beginning(), reader.end()

    def read(self, topic: str, partition: int, on_batch: Callable[[Batch], None], *, newest: int | None = None) -> int:
        """Read a partition from its beginning to its current end offset; return the end offset. Raise UnavailableError on failure.

        `newest` limits reading to the last offsets; compaction and transactions leave gaps between offsets.
        """
        self._connect()
        with closing(KafkaReader(self._settings, topic, partition)) as reader:
            return reader.read(on_batch, newest)

    def close(self) -> None:
        """Close every client that this log made."""
        self._closed = True
        for client in self._clients:
            client.close()
        self._clients.clear()

    def _writing(self) -> KafkaLogSettings:
        """Return the settings of writing clients: their batches may not exceed the smallest size limit of the written topics."""
        if self._writes is None:
            names = self._settings.written_topics
            topics = self.examine(names, [], []).topics if names else {}
            limits = [int((topic.settings or {}).get(LIMIT, REQUEST_BYTES_MAX)) for topic in topics.values()]
            fitting = min(limits, default=REQUEST_BYTES_MAX) - BATCH_MARGIN_BYTES
            self._writes = replace(self._settings, batch_bytes_max=max(fitting, BATCH_BYTES_MIN))
        return self._writes

    def _retained(self, client: AnyClient) -> AnyClient:
        self._clients = [*(former for former in self._clients if not former.closed), client]
        return client

    def _ask(self, doing: str, ask: Callable[[ClusterAdmin], Result]) -> Result:
        """Send a request with a new admin client. Raise UnavailableError if it fails."""
        self._connect()
        client = client_of(self._settings)
        with translated(client, doing), closing(client.adapter.cluster_admin(self._settings)) as admin:
            return ask(admin)

    def _connect(self) -> None:
        if self._closed:
            raise UnavailableError("The log is closed.")
        if not self._reached:
            check_reachable(client_of(self._settings))
            self._reached = True
