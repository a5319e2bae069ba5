"""The log on Kafka."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import TopicAlreadyExistsError, TopicAuthorizationFailedError

from agent.log.kafka.checkpoint import KafkaCheckpointStore
from agent.log.kafka.connection import KafkaSettings, check_reachable, translated
from agent.log.kafka.consumer import KafkaLogConsumer
from agent.log.kafka.producer import KafkaLogProducer
from agent.log.kafka.reading import KafkaReader, ends
from processors.contracts.errors import UnavailableError
from processors.contracts.log import Batch, TopicSettings

REPLICAS = 3
TOPIC_READY_POLLS = 50
ACTIVE_POLLS, ACTIVE_POLL_S = 100, 0.1
Result = TypeVar("Result")
Client = TypeVar("Client", bound=KafkaLogConsumer | KafkaLogProducer | KafkaCheckpointStore)


class Admin(KafkaAdminClient):  # type: ignore[misc] # the client ships no types
    """Leaves out which rights this user has: the client fails on the answer of an authorizer that does not tell them."""

    def _process_metadata_response(self, metadata_response: Any) -> Any:
        return metadata_response.to_object()


def _asking(settings: KafkaSettings, doing: str, ask: Callable[[Any], Result]) -> Result:
    with translated(settings, doing):
        timeout_ms = round(settings.request_timeout_s * 1000)
        admin = Admin(**settings.connection("admin"), request_timeout_ms=timeout_ms)
        try:
            return ask(admin)
        finally:
            admin.close()


def _counts(admin: Any, topics: Sequence[str]) -> dict[str, int]:
    found = admin.describe_topics(list(topics))
    forbidden = [one["topic"] for one in found if one["error_code"] == TopicAuthorizationFailedError.errno]
    if forbidden:
        raise TopicAuthorizationFailedError(forbidden)
    return {one["topic"]: len(one["partitions"]) for one in found if one["error_code"] == 0}


def _create(admin: Any, settings: KafkaSettings, topics: Sequence[TopicSettings]) -> list[str]:
    existing = _counts(admin, [topic.name for topic in topics])
    missing = [topic for topic in topics if topic.name not in existing]
    active = _active_brokers(admin) if missing else 0
    replicas = settings.replication_factor or min(REPLICAS, active)
    made = [topic.name for topic in missing if _create_one(admin, topic, replicas)]
    for _ in range(TOPIC_READY_POLLS):  # a broker learns of a new topic a little after its controller
        if len(_counts(admin, made)) == len(made):
            break
    return made


def _active_brokers(admin: Any) -> int:
    """Return how many brokers serve; one that comes back from a hang is not among them for a second or two."""
    pause = threading.Event()
    for _ in range(ACTIVE_POLLS):
        if brokers := admin.describe_cluster()["brokers"]:
            return len(brokers)
        pause.wait(ACTIVE_POLL_S)
    raise UnavailableError("The cluster has no active broker yet, so no topic can be created.")


def _create_one(admin: Any, topic: TopicSettings, replicas: int) -> bool:
    options = {"cleanup.policy": "compact" if topic.compacted else "delete"}
    if topic.retention_ms is not None:
        options["retention.ms"] = str(topic.retention_ms)
    try:
        admin.create_topics([NewTopic(topic.name, topic.partitions, replicas, topic_configs=options)])
    except TopicAlreadyExistsError:  # somebody else was faster
        return False
    return True


class KafkaLog:
    """Clients of one cluster. Nothing is connected before it is needed."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._clients: list[KafkaLogConsumer | KafkaLogProducer | KafkaCheckpointStore] = []
        self._partitions: dict[str, int] = {}
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
        return self._retained(KafkaLogProducer(self._settings))

    def checkpoints(self, shard: int) -> KafkaCheckpointStore:
        """Return a new store for a shard's checkpoints; the shard is the partition of the state topic."""
        self._connect()
        return self._retained(KafkaCheckpointStore(self._settings, shard))

    def partitions(self, topic: str) -> int | None:
        """Return the number of partitions, None where the topic does not exist; a known number is not asked again."""
        self._connect()
        if topic not in self._partitions:
            self._partitions.update(_asking(self._settings, "Looking up topics", lambda admin: _counts(admin, [topic])))
        return self._partitions.get(topic)

    def ends(self, topics: Sequence[str]) -> Mapping[str, Mapping[int, int]]:
        """Return the ends of the partitions of each topic that is there; names with ``^`` are regular expressions."""
        self._connect()
        return ends(self._settings, topics)

    def create(self, topics: Sequence[TopicSettings]) -> Sequence[str]:
        """Create the topics that are missing; return their names. Raises UnavailableError."""
        self._connect()
        return _asking(self._settings, "Creating topics", lambda admin: _create(admin, self._settings, topics))

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

    def _retained(self, client: Client) -> Client:
        self._clients = [*(one for one in self._clients if not one.closed), client]
        return client

    def _connect(self) -> None:
        if self._closed:
            raise UnavailableError("The log is closed.")
        if not self._reached:
            check_reachable(self._settings)
            self._reached = True
