"""Topics on a broker: made, counted, and examined: how they really are, and what the user may do with them."""

import threading
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from msgspec.structs import replace

from agent.log.kafka.client import ClusterAdmin, Fault, Meaning
from agent.log.kafka.clients import client_of
from agent.log.kafka.faults import forbidden, translated
from agent.log.kafka.settings import KafkaSettings
from processors.contracts.errors import UnavailableError
from processors.contracts.log import IN_SYNC_MIN, REPLICAS_SAFE, Examined, TopicSettings

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
