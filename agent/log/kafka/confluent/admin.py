"""The administration of a cluster by confluent-kafka."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AclOperation, AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from agent.log.kafka.confluent.arguments import connection
from agent.log.kafka.confluent.ending import end_unattended
from agent.log.kafka.confluent.faults import code_of, settled
from agent.log.kafka.settings import KafkaSettings
from processors.contracts.log import FoundTopic, TopicPartition

OPERATIONS: Final = {
    AclOperation.READ: "Read",
    AclOperation.WRITE: "Write",
    AclOperation.CREATE: "Create",
    AclOperation.DESCRIBE: "Describe",
    AclOperation.DESCRIBE_CONFIGS: "DescribeConfigs",
}
REFUSED: Final = FoundTopic(0, 0, None, frozenset())
NO_COORDINATOR: Final = (
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
)
OLD_BROKER: Final = (KafkaError._UNSUPPORTED_FEATURE, KafkaError.UNSUPPORTED_VERSION)  # noqa: SLF001 - its public name


class ConfluentAdmin:
    """Asks a cluster."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._timeout_s = settings.request_timeout_s
        self._admin = AdminClient(connection(settings, "admin"))

    def topics(self) -> Sequence[str]:
        """Return the names of all topics that the user may see."""
        return list(self._admin.list_topics(timeout=self._timeout_s).topics)

    def describe(self, topics: Sequence[str]) -> Mapping[str, FoundTopic]:
        """Return how topics are, without their settings; those that are missing are left out."""
        if not topics:
            return {}
        try:
            return self._described(topics, include_authorized_operations=True)
        except KafkaException as error:
            if code_of(error) not in OLD_BROKER:
                raise
        return self._described(topics, include_authorized_operations=False)

    def settings(self, topics: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """Return the settings of the topics that the user may read them of."""
        if not topics:
            return {}
        wanted = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        found: dict[str, dict[str, str]] = {}
        for resource, answer in self._admin.describe_configs(wanted, request_timeout=self._timeout_s).items():
            try:
                entries = answer.result()
            except KafkaException as error:
                if code_of(error) != KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise
                continue
            found[resource.name] = {name: entry.value for name, entry in entries.items() if entry.value is not None}
        return found

    def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the offset after the last record of partitions that is committed."""
        wanted = {ClientPartition(*partition): OffsetSpec.latest() for partition in partitions}

        def ask() -> dict[TopicPartition, int]:
            answers = self._admin.list_offsets(
                wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=self._timeout_s
            )
            return {(one.topic, one.partition): answer.result().offset for one, answer in answers.items()}

        return settled(ask)

    def group_operations(self, group: str) -> frozenset[str] | None:
        """Return what the user may do with a group; None where the broker does not say."""

        def ask() -> frozenset[str] | None:
            answers = self._admin.describe_consumer_groups(
                [group], include_authorized_operations=True, request_timeout=self._timeout_s
            )
            return _operations(answers[group].result().authorized_operations)

        try:
            return settled(ask)
        except KafkaException as error:
            code = code_of(error)
            if code == KafkaError.GROUP_AUTHORIZATION_FAILED:
                return frozenset()
            if code in (*NO_COORDINATOR, *OLD_BROKER):  # a new cluster has no coordinator before its first group
                return None
            raise

    def transactional_operations(self, names: Sequence[str]) -> Mapping[str, frozenset[str] | None]:
        """Return that it cannot be told: the library has no question whose answer would not fence the owner."""
        return dict.fromkeys(names)

    def brokers(self) -> int:
        """Return how many brokers serve."""
        return len(self._admin.describe_cluster(request_timeout=self._timeout_s).result().nodes)

    def create(self, topic: str, partitions: int, replicas: int, options: Mapping[str, str]) -> bool:
        """Create a topic; False where somebody else was faster."""
        wanted = NewTopic(topic, partitions, replicas, config=dict(options))
        try:
            self._admin.create_topics([wanted], request_timeout=self._timeout_s)[topic].result()
        except KafkaException as error:
            if code_of(error) != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            return False
        return True

    def close(self) -> None:
        """Free the connections."""
        end_unattended(self, "_admin")

    def _described(self, topics: Sequence[str], *, include_authorized_operations: bool) -> dict[str, FoundTopic]:
        answers = self._admin.describe_topics(
            TopicCollection(list(dict.fromkeys(topics))),
            request_timeout=self._timeout_s,
            include_authorized_operations=include_authorized_operations,
        )
        found: dict[str, FoundTopic] = {}
        for name, answer in answers.items():
            try:
                found[name] = _found(answer.result())
            except KafkaException as error:
                code = code_of(error)
                if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    found[name] = REFUSED
                elif code != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
        return found


def _found(topic: Any) -> FoundTopic:
    replicas = min((len(partition.replicas) for partition in topic.partitions), default=0)
    return FoundTopic(len(topic.partitions), replicas, None, _operations(topic.authorized_operations))


def _operations(allowed: Sequence[AclOperation] | None) -> frozenset[str] | None:
    """Return what is allowed by name; None where the broker does not say."""
    if allowed is None:
        return None
    return frozenset(OPERATIONS[operation] for operation in allowed if operation in OPERATIONS)
