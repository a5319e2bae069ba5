"""confluent-kafka as a client of the log: its admin client and the factory of its other clients.

These defects, of versions up to 2.16.1, shape this folder. We saw each one ourselves or in the issues of the projects
(P: confluent-kafka-python, R: librdkafka). Each entry ends with the workaround.

- `Producer.poll` waits its whole time although acknowledgements came (P2215): it is called in steps of 0.2 s.
- `consume(n, timeout)` waits until there are n records, or since 2.13 returns after 0.2 s (P2205): `poll` waits for the
  first record, and `consume` without a wait takes the rest.
- `commit` has no deadline and waits for a coordinator that is away. `close`, and the end of any client, may wait for ever
  for a broker that does not answer (R4519, R3740, P107). Both run in a thread with a deadline, which is then abandoned.
- `Producer.close` writes its queue before it ends: it is never called, the queue is purged.
- A transactional call may hang for ever after a fatal error (R4420). After a call that timed out the producer cannot
  be trusted (R3227, R3444). `kafka.checkpoint` sets the deadline and gives up the producer, as for every client.
- `seek` right after an assignment, or in its callback, is refused (R3959, P373, P1669), and a pause before the first
  record was once lost (R1802): nothing is assigned in the callback, and `start` assigns with the offsets.
- Records of partitions that a rebalance revoked may still come in the same call (P1013): a poll with a new assignment
  returns no records.
- Keys go to other partitions than with Java and kafka-python (P1103): see `partitioner`.
- Regular expressions of a group are those of C, and match a part of a name: names are matched here.
- An exception in a callback is raised by whatever call runs it, and other callbacks are lost: ours raise nothing.
- Errors that pass by themselves come as records, such as a topic that does not exist yet, or a member that worked too
  long (P552): see `PASSING`.
- The metadata of a committed position gets a NUL at its end, and is read up to the next NUL (R4649): see `marked`.
- No request finds out whether a transactional id may be used, except one that fences its owner: the answer is "unknown".
- A timestamp of 0 means now: no record can be of the first millisecond of 1970.
- A fatal error, such as that of a fenced producer, becomes a SystemError if a callback runs after it: its cause is read.
  A callback may also lose the error, then the next call repeats it: see `producer`.
- Without a logger the library writes to standard error. Ctrl-C is noticed every 0.2 s since 2.13 (P209).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AclOperation, AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from agent.log.kafka.client import REFUSED, Adapter, KafkaLogSettings
from agent.log.kafka.confluent.arguments import NO_COORDINATOR, NoBrokerError, code_of, connection, fault_of, settled
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
OLD_BROKER: Final = (KafkaError._UNSUPPORTED_FEATURE, KafkaError.UNSUPPORTED_VERSION)  # noqa: SLF001 - its public name


class ConfluentAdmin:
    """Implements `ClusterAdmin`."""

    def __init__(self, settings: KafkaLogSettings) -> None:
        self._timeout_s = settings.request_timeout_s
        self._admin = AdminClient(connection(settings, "admin"))

    def topics(self) -> Sequence[str]:
        return list(self._admin.list_topics(timeout=self._timeout_s).topics)

    def describe(self, topics: Sequence[str]) -> Mapping[str, FoundTopic]:
        if not topics:
            return {}
        try:
            return self._described(topics, include_authorized_operations=True)
        except KafkaException as error:
            if code_of(error) not in OLD_BROKER:
                raise
        return self._described(topics, include_authorized_operations=False)

    def settings(self, topics: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        if not topics:
            return {}
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        settings_by_topic: dict[str, dict[str, str]] = {}
        for resource, answer in self._admin.describe_configs(resources, request_timeout=self._timeout_s).items():
            try:
                entries = answer.result()
            except KafkaException as error:
                if code_of(error) != KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise
                continue
            settings_by_topic[resource.name] = {
                name: entry.value for name, entry in entries.items() if entry.value is not None
            }
        return settings_by_topic

    def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        questions = {ClientPartition(*partition): OffsetSpec.latest() for partition in partitions}

        def ask() -> dict[TopicPartition, int]:
            answers = self._admin.list_offsets(
                questions, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=self._timeout_s
            )
            return {(one.topic, one.partition): answer.result().offset for one, answer in answers.items()}

        return settled(ask)

    def group_operations(self, group: str) -> frozenset[str] | None:
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
            if code in (*NO_COORDINATOR, *OLD_BROKER):  # a new cluster has no group coordinator before its first group
                return None
            raise

    def transactional_operations(self, names: Sequence[str]) -> Mapping[str, frozenset[str] | None]:
        """Return None for each id, because the library has no request that answers without fencing the owner."""
        return dict.fromkeys(names)

    def brokers(self) -> int:
        return len(self._admin.describe_cluster(request_timeout=self._timeout_s).result().nodes)

    def create(self, topic: str, partitions: int, replicas: int, options: Mapping[str, str]) -> bool:
        new_topic = NewTopic(topic, partitions, replicas, config=dict(options))
        try:
            self._admin.create_topics([new_topic], request_timeout=self._timeout_s)[topic].result()
        except KafkaException as error:
            if code_of(error) != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            return False
        return True

    def close(self) -> None:
        end_unattended(self, "_admin")

    def _described(self, topics: Sequence[str], *, include_authorized_operations: bool) -> dict[str, FoundTopic]:
        answers = self._admin.describe_topics(
            TopicCollection(list(dict.fromkeys(topics))),
            request_timeout=self._timeout_s,
            include_authorized_operations=include_authorized_operations,
        )
        topics_by_name: dict[str, FoundTopic] = {}
        for name, answer in answers.items():
            try:
                topics_by_name[name] = _topic(answer.result())
            except KafkaException as error:
                code = code_of(error)
                if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    topics_by_name[name] = REFUSED
                elif code != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
        return topics_by_name


def _topic(topic: Any) -> FoundTopic:
    replicas = min((len(partition.replicas) for partition in topic.partitions), default=0)
    return FoundTopic(len(topic.partitions), replicas, None, _operations(topic.authorized_operations))


def _operations(allowed: Sequence[AclOperation] | None) -> frozenset[str] | None:
    if allowed is None:
        return None
    return frozenset(OPERATIONS[operation] for operation in allowed if operation in OPERATIONS)


def named_brokers(settings: KafkaLogSettings, timeout_s: float) -> int:
    reasons: list[KafkaError] = []
    arguments: dict[str, Any] = {**connection(settings, "check"), "error_cb": reasons.append}
    admin = AdminClient(arguments)
    try:
        return len(admin.list_topics(timeout=timeout_s).brokers)
    except KafkaException as error:
        if code_of(error) == KafkaError._PARTIAL:  # noqa: SLF001 - its public name
            return 0
        admin.poll(0)
        causes = [reason.str() for reason in reasons if reason.code() != KafkaError._ALL_BROKERS_DOWN]  # noqa: SLF001 - see above
        raise NoBrokerError(*causes[-1:]) from error


ADAPTER: Final = Adapter(
    fault_of, named_brokers, ConfluentWriter, ConfluentTransactions, ConfluentMember, ConfluentReader, ConfluentAdmin
)
