"""Topics on Kafka: how many partitions they have, and making the missing ones."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import TopicAlreadyExistsError

from agent.contracts.errors import UnavailableError
from agent.contracts.log import TopicSettings
from agent.log.kafka_connection import translated
from agent.log.kafka_settings import KafkaSettings

REPLICAS = 3
TOPIC_READY_POLLS = 50
ACTIVE_POLLS, ACTIVE_POLL_S = 100, 0.1
Result = TypeVar("Result")


def partition_counts(settings: KafkaSettings, topics: Sequence[str]) -> dict[str, int]:
    """Return the number of partitions of those topics that exist. Raises UnavailableError."""
    return _asking(settings, "Looking up topics", lambda admin: _counts(admin, topics))


def create_topics(settings: KafkaSettings, topics: Sequence[TopicSettings]) -> list[str]:
    """Make the topics that are missing and return their names. Raises UnavailableError."""
    return _asking(settings, "Creating topics", lambda admin: _create(admin, settings, topics))


def _asking(settings: KafkaSettings, doing: str, ask: Callable[[Any], Result]) -> Result:
    with translated(settings, doing):
        timeout_ms = round(settings.request_timeout_s * 1000)
        admin = KafkaAdminClient(**settings.connection("admin"), request_timeout_ms=timeout_ms)
        try:
            return ask(admin)
        finally:
            admin.close()


def _counts(admin: Any, topics: Sequence[str]) -> dict[str, int]:
    found = admin.describe_topics(list(topics))
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
