"""The log on Kafka."""

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from agent.log.kafka.checkpoint import KafkaCheckpointStore
from agent.log.kafka.client import (
    BATCH_BYTES_MIN,
    BATCH_MARGIN_BYTES,
    REQUEST_BYTES_MAX,
    ClusterAdmin,
    Fault,
    KafkaSettings,
    Meaning,
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


class KafkaLogProducer:
    """Sends in the background. After any failed write it is dead: its later records could be taken for repeats.

    When the queue is full, `send` waits for an acknowledgement, at most `block_timeout_s`.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._client = client_of(settings)
        self._death: ScalewatchError | None = None
        with translated(self._client, "Making a producer"):
            self._writer = self._client.record_writer()

    @property
    def closed(self) -> bool:
        """Return whether it was closed, or died of an error."""
        return self._death is not None

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Queue a record. Raises UnavailableError, or ValueError where a broker would never take it."""
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
        """Wait for every acknowledgement. Raises UnavailableError: the producer is then dead."""
        if self._death is not None:
            self._refuse()
        try:
            self._writer.flush(timeout_s)
        except Exception as error:
            raise self._die(translate(self._client, error, "Flushing")) from error

    def close(self) -> None:
        """Give up what is queued and free the connections."""
        if self._death is None:
            self._die(UnavailableError("The producer is closed."))

    def _make_room(self) -> None:
        if not self._writer.settle(self._settings.block_timeout_s):
            count = self._writer.unacknowledged()
            raise UnavailableError(f"The queue is full: {count} records are not acknowledged.")

    def _refuse(self) -> None:
        raise UnavailableError(f"The producer cannot be used any more. {self._death}")

    def _die(self, reason: ScalewatchError) -> ScalewatchError:
        self._death = UnavailableError(str(reason))
        self._writer.give_up()
        return self._death


REPLICAS: Final = 3
TOPIC_READY_POLLS: Final = 50
ACTIVE_POLLS, ACTIVE_POLL_S = 100, 0.1
Result = TypeVar("Result")


def asking(settings: KafkaSettings, doing: str, ask: Callable[[ClusterAdmin], Result]) -> Result:
    """Ask the cluster with a client of its own. Raises UnavailableError."""
    client = client_of(settings)
    with translated(client, doing):
        admin = client.cluster_admin()
        try:
            return ask(admin)
        finally:
            admin.close()


def counts(admin: ClusterAdmin, settings: KafkaSettings, topics: Sequence[str]) -> dict[str, int]:
    """Return the number of partitions of the topics that there are; UnavailableError where one may not be seen."""
    found = admin.describe(topics) if topics else {}
    denied = tuple(name for name, one in found.items() if not one.partitions)
    if denied:
        raise UnavailableError(
            forbidden(settings, "Looking up topics", Fault(Meaning.FORBIDDEN, "", "a topic", denied))
        )
    return {name: one.partitions for name, one in found.items()}


def create(admin: ClusterAdmin, settings: KafkaSettings, topics: Sequence[TopicSettings]) -> list[str]:
    """Create the topics that are missing, wait until they are known, and return their names."""
    existing = counts(admin, settings, [topic.name for topic in topics])
    missing = [topic for topic in topics if topic.name not in existing]
    active = _active_brokers(admin) if missing else 0
    replicas = settings.replication_factor or min(REPLICAS, active)
    made = [topic.name for topic in missing if _create_one(admin, topic, replicas)]
    for _ in range(TOPIC_READY_POLLS):  # a broker learns of a new topic a little after its controller
        if len(counts(admin, settings, made)) == len(made):
            break
    return made


def examine(
    admin: ClusterAdmin, topics: Sequence[str], groups: Sequence[str], transactional_ids: Sequence[str]
) -> Examined:
    """Return how topics really are, and what the user may do with topics, groups and transactional ids."""
    found = admin.describe(topics)
    settings = admin.settings([name for name, one in found.items() if one.partitions])
    return Examined(
        {name: replace(one, settings=settings.get(name)) for name, one in found.items()},
        {group: admin.group_operations(group) for group in groups},
        admin.transactional_operations(transactional_ids),
    )


def _active_brokers(admin: ClusterAdmin) -> int:
    """Return how many brokers serve; one that comes back from a hang is not among them for a second or two."""
    pause = threading.Event()
    for _ in range(ACTIVE_POLLS):
        if brokers := admin.brokers():
            return brokers
        pause.wait(ACTIVE_POLL_S)
    raise UnavailableError("The cluster has no active broker yet, so no topic can be created.")


def _create_one(admin: ClusterAdmin, topic: TopicSettings, replicas: int) -> bool:
    options = dict(topic.options())
    if replicas >= REPLICAS_SAFE:  # a broker's own default is one
        options["min.insync.replicas"] = str(IN_SYNC_MIN)
    return admin.create(topic.name, topic.partitions, replicas, options)


LIMIT: Final = "max.message.bytes"
Client = TypeVar("Client", bound=KafkaLogConsumer | KafkaLogProducer | KafkaCheckpointStore)


class KafkaLog:
    """Clients of one cluster. Nothing is connected before it is needed."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._clients: list[KafkaLogConsumer | KafkaLogProducer | KafkaCheckpointStore] = []
        self._partitions: dict[str, int] = {}
        self._writes: KafkaSettings | None = None
        self._reached = False
        self._closed = False

    def consumer(
        self, group: str, topics: Sequence[str], *, member: str, from_beginning: bool = True
    ) -> KafkaLogConsumer:
        """Return a new member of a group; topics may be regular expressions when they start with ``^``."""
        self._connect()
        return self._retained(KafkaLogConsumer(self._settings, group, topics, member, from_beginning=from_beginning))

    def producer(self) -> KafkaLogProducer:
        """Return a new producer (acks of all replicas, idempotent)."""
        self._connect()
        return self._retained(KafkaLogProducer(self._writing()))

    def checkpoints(self, shard: int) -> KafkaCheckpointStore:
        """Return a new store for a shard's checkpoints; the shard is the partition of the state topic."""
        self._connect()
        return self._retained(KafkaCheckpointStore(self._writing(), shard))

    def partitions(self, topic: str) -> int | None:
        """Return the number of partitions, None where the topic does not exist; a known number is not asked again."""
        self._connect()
        if topic not in self._partitions:
            look_up = partial(counts, settings=self._settings, topics=[topic])
            self._partitions.update(asking(self._settings, "Looking up topics", look_up))
        return self._partitions.get(topic)

    def ends(self, topics: Sequence[str]) -> Mapping[str, Mapping[int, int]]:
        """Return the ends of the partitions of each topic that is there; names with ``^`` are regular expressions."""
        self._connect()
        return asking(self._settings, "Looking for the ends of the sources", partial(ends, topics=topics))

    def create(self, topics: Sequence[TopicSettings]) -> Sequence[str]:
        """Create the topics that are missing; return their names. Raises UnavailableError."""
        self._connect()
        make = partial(create, settings=self._settings, topics=topics)
        return asking(self._settings, "Creating topics", make)

    def examine(self, topics: Sequence[str], groups: Sequence[str], transactional_ids: Sequence[str]) -> Examined:
        """Return how topics really are, and what the user may do with all these. Raises UnavailableError."""
        self._connect()
        look = partial(examine, topics=topics, groups=groups, transactional_ids=transactional_ids)
        return asking(self._settings, "Reading the settings of topics", look)

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the first offset that is still there and the end of a partition. Raises UnavailableError."""
        self._connect()
        with KafkaReader(self._settings, topic, partition) as reader:
            return reader.beginning(), reader.end()

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

    def _writing(self) -> KafkaSettings:
        """Return the settings of clients that write: a broker refuses a whole batch if it is larger than a topic allows."""
        if self._writes is None:
            found = self.examine(self._settings.written_topics, [], []).topics if self._settings.written_topics else {}
            limits = [int((topic.settings or {}).get(LIMIT, REQUEST_BYTES_MAX)) for topic in found.values()]
            fitting = min(limits, default=REQUEST_BYTES_MAX) - BATCH_MARGIN_BYTES
            self._writes = msgspec.structs.replace(self._settings, batch_bytes_max=max(fitting, BATCH_BYTES_MIN))
        return self._writes

    def _retained(self, client: Client) -> Client:
        self._clients = [*(one for one in self._clients if not one.closed), client]
        return client

    def _connect(self) -> None:
        if self._closed:
            raise UnavailableError("The log is closed.")
        if not self._reached:
            check_reachable(client_of(self._settings))
            self._reached = True
