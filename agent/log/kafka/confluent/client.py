"""confluent-kafka as a client of the log: what it makes, and what its errors mean.

Its defects that shape this folder, of versions up to 2.16.1, each seen here or in its issues (P: confluent-kafka-python,
R: librdkafka), with the way round:

- `Producer.poll` waits its whole time though acknowledgements came (P2215): it is called in steps of 0.2 s.
- `consume(n, timeout)` waits until there are n records, or since 2.13 gives up after 0.2 s (P2205): `poll` waits for the
  first record, `consume` with no time takes the rest.
- `commit` has no deadline and waits for a coordinator that is away; `close`, and the end of any client, may wait for ever
  for a broker that does not answer (R4519, R3740, P107): both run in a thread with a deadline, which is left to itself.
- `Producer.close` writes what is queued before it ends: it is never called, the queue is purged.
- A transactional call may hang for ever after a fatal error (R4420), and after one that timed out the producer cannot
  be trusted (R3227, R3444): the deadline and the end of the producer are those of every client, in `kafka.checkpoint`.
- `seek` right after an assignment, or in its callback, is refused (R3959, P373, P1669), and a pause before the first
  record was once lost (R1802): nothing is assigned in the callback, and `start` assigns with the offsets.
- Records of partitions that a rebalance took may still come in the same call (P1013): a poll with a new assignment
  returns no records.
- The partition of a key is another than that of Java and kafka-python (P1103): see `partitioner`.
- A group's regular expressions are those of C, and match a part of a name: names are matched here.
- What a callback raises is raised by whatever call runs it, and other callbacks are lost: ours raise nothing.
- Errors that end by themselves come as records: a topic that is not there yet, a member that worked too long (P552).
- The metadata of a committed position gets a NUL at its end, and is read to the next one (R4649): see `kafka.metadata`.
- Nobody can ask whether a transactional id may be used without fencing its owner: it cannot be told beforehand.
- A time of 0 means now: a record cannot be of the first millisecond of 1970.
- A fatal error, as that of a fenced producer, becomes a SystemError where a callback runs after it: its cause is read.
  A callback may also lose it, then the next call tells it again: see `producer`.
- It writes to standard error where it has no logger. Ctrl-C is seen every 0.2 s since 2.13 (P209).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AclOperation, AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from agent.log.kafka.client import Client, Fault, KafkaSettings
from agent.log.kafka.confluent.arguments import NoBrokerError, code_of, connection, fault_of, settled
from agent.log.kafka.confluent.consumer import ConfluentMember, ConfluentReader
from agent.log.kafka.confluent.producer import ConfluentTransactions, ConfluentWriter, end_unattended
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


class ConfluentClient:
    """Clients of confluent-kafka for one cluster."""

    reads_metadata_exactly = False

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings

    def fault(self, error: BaseException) -> Fault:
        """Return what an error means."""
        return fault_of(error)

    def named_brokers(self, timeout_s: float) -> int:
        """Return how many brokers the cluster names when it is asked who it is; it may be none for a moment."""
        reasons: list[KafkaError] = []
        arguments: dict[str, Any] = {**connection(self.settings, "check"), "error_cb": reasons.append}
        admin = AdminClient(arguments)
        try:
            return len(admin.list_topics(timeout=timeout_s).brokers)
        except KafkaException as error:
            if code_of(error) == KafkaError._PARTIAL:  # noqa: SLF001 - its public name
                return 0
            admin.poll(0)
            causes = [one.str() for one in reasons if one.code() != KafkaError._ALL_BROKERS_DOWN]  # noqa: SLF001 - see above
            raise NoBrokerError(*causes[-1:]) from error

    def record_writer(self) -> ConfluentWriter:
        """Return a new producer."""
        return ConfluentWriter(self.settings)

    def transaction_writer(self, purpose: str, transactional_id: str) -> ConfluentTransactions:
        """Return a new transactional producer, which has fenced nobody yet."""
        return ConfluentTransactions(self.settings, purpose, transactional_id)

    def group_member(self, group: str, topics: Sequence[str], member: str, *, from_beginning: bool) -> ConfluentMember:
        """Return a new member of a group; topics may be regular expressions when they start with ``^``."""
        return ConfluentMember(self.settings, group, topics, member, from_beginning=from_beginning)

    def partition_reader(self, topic: str, partition: int, *, committed: bool) -> ConfluentReader:
        """Return a reader; with `committed` off it also sees what open and aborted transactions wrote."""
        return ConfluentReader(self.settings, topic, partition, committed=committed)

    def cluster_admin(self) -> ConfluentAdmin:
        """Return what asks the cluster."""
        return ConfluentAdmin(self.settings)


def make(settings: KafkaSettings) -> Client:
    """Return the client of some settings."""
    return ConfluentClient(settings)
