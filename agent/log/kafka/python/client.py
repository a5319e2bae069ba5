"""kafka-python as a client of the log: its admin client, the factory of its other clients, and the meaning of its errors."""

import ssl
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kafka import KafkaConsumer, errors
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic
from kafka.client_async import KafkaClient
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.find_coordinator import FindCoordinatorRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.structs import TopicPartition as ClientPartition

from agent.log.kafka.client import REFUSED, Adapter, Fault, KafkaLogSettings, milliseconds
from agent.log.kafka.python.arguments import connection, reading
from agent.log.kafka.python.consumer import PythonMember, PythonReader
from agent.log.kafka.python.producer import PythonTransactions, PythonWriter
from processors.contracts.errors import FencedError, RebalancingError
from processors.contracts.log import FoundTopic, TopicPartition

OPERATIONS: Final = {3: "Read", 4: "Write", 5: "Create", 8: "Describe", 10: "DescribeConfigs"}
UNTOLD: Final = 31  # the only bit set if a broker does not report the allowed operations
OPERATIONS_OF_TOPICS: Final = 8  # first request version that reports allowed operations
OPERATIONS_OF_GROUPS: Final = 3
COORDINATORS_OF_TRANSACTIONS: Final = 1  # first request version that finds the coordinator of a transactional id
TRANSACTION: Final = 1  # kind of coordinator in a request
NO_COORDINATOR: Final = (errors.CoordinatorNotAvailableError, errors.CoordinatorLoadInProgressError)


class _Admin(KafkaAdminClient):  # type: ignore[misc] # the client ships no types
    """Does not read the allowed operations in metadata, because the client fails if the broker does not report them."""

    def _process_metadata_response(self, metadata_response: Any) -> Any:
        return metadata_response.to_object()


class PythonAdmin:
    """Implements `ClusterAdmin`; builds requests itself if this version of the client has no public call."""

    def __init__(self, settings: KafkaLogSettings) -> None:
        self._settings = settings
        self._admin = _Admin(**connection(settings, "admin"), request_timeout_ms=settings.request_ms)

    def topics(self) -> Sequence[str]:
        names: list[str] = self._admin.list_topics()
        return names

    def describe(self, topics: Sequence[str]) -> Mapping[str, FoundTopic]:
        refused = errors.TopicAuthorizationFailedError.errno
        return {
            one["topic"]: _topic(one) if one["error_code"] == 0 else REFUSED
            for one in self._metadata(topics)
            if one["error_code"] in (0, refused)
        }

    def settings(self, topics: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        resources = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics]
        answers = self._admin.describe_configs(resources) if resources else []
        return {
            name: {entry[0]: entry[1] for entry in entries if entry[1] is not None}
            for answer in answers
            for code, _, _, name, entries in answer.resources
            if code == 0
        }

    def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        consumer = KafkaConsumer(**reading(self._settings, committed=True))
        try:
            ends = consumer.end_offsets([ClientPartition(*partition) for partition in partitions])
        finally:
            consumer.close()
        return {(one.topic, one.partition): end for one, end in ends.items()}

    def group_operations(self, group: str) -> frozenset[str] | None:
        try:
            (coordinator,) = self._admin._find_coordinator_ids([group]).values()  # noqa: SLF001 - no public way
        except errors.GroupAuthorizationFailedError:
            return frozenset()
        except NO_COORDINATOR:  # a new cluster has no group coordinator before its first group
            return None
        version = self._version(DescribeGroupsRequest, OPERATIONS_OF_GROUPS)
        if version < OPERATIONS_OF_GROUPS:
            return None
        request = DescribeGroupsRequest[version](groups=(group,), include_authorized_operations=True)
        (group_answer,) = self._admin.send_request(request, coordinator).groups
        if group_answer[0] == errors.GroupAuthorizationFailedError.errno:
            return frozenset()
        return _operations(group_answer[-1])

    def transactional_operations(self, names: Sequence[str]) -> Mapping[str, frozenset[str] | None]:
        """Return an empty set for each id that the user may not describe, and hence not use; None for all other ids.

        A user who may write with an id may also describe it. A test write would fence the learner that uses the id.
        """
        version = self._version(FindCoordinatorRequest, 2)
        if version < COORDINATORS_OF_TRANSACTIONS:
            return dict.fromkeys(names)
        requests = [(FindCoordinatorRequest[version](name, TRANSACTION), None) for name in names]
        codes = self._admin.send_requests(requests, response_fn=lambda answer: answer.error_code)
        refused = errors.TransactionalIdAuthorizationFailedError.errno
        return {name: frozenset() if code == refused else None for name, code in zip(names, codes, strict=True)}

    def brokers(self) -> int:
        return len(self._admin.describe_cluster()["brokers"])

    def create(self, topic: str, partitions: int, replicas: int, options: Mapping[str, str]) -> bool:
        try:
            self._admin.create_topics([NewTopic(topic, partitions, replicas, topic_configs=dict(options))])
        except errors.TopicAlreadyExistsError:
            return False
        return True

    def close(self) -> None:
        self._admin.close()

    def _metadata(self, topics: Sequence[str]) -> list[dict[str, Any]]:
        """Return the metadata of topics, because the client's own call fails if the broker hides a part from this user."""
        if not topics:  # because an empty list means all topics
            return []
        version = self._version(MetadataRequest, OPERATIONS_OF_TOPICS)
        arguments: dict[str, Any] = {"topics": list(topics)}
        if version > 3:
            arguments["allow_auto_topic_creation"] = False
        if version >= OPERATIONS_OF_TOPICS:
            arguments |= {"include_cluster_authorized_operations": False, "include_topic_authorized_operations": True}
        topics_metadata: list[dict[str, Any]] = self._admin.send_request(
            MetadataRequest[version](**arguments)
        ).to_object()["topics"]
        return topics_metadata

    def _version(self, request: Any, highest: int) -> int:
        """Return the highest version of a request that the broker supports, at most `highest`."""
        version: int = min(self._admin._client.api_version(request, max_version=highest), highest)  # noqa: SLF001 - no public way
        return version


def _topic(topic: Mapping[str, Any]) -> FoundTopic:
    replicas = min((len(partition["replicas"]) for partition in topic["partitions"]), default=0)
    return FoundTopic(len(topic["partitions"]), replicas, None, _operations(topic.get("authorized_operations")))


def _operations(bits: Iterable[int] | None) -> frozenset[str] | None:
    if bits is None or UNTOLD in bits:
        return None
    return frozenset(OPERATIONS[bit] for bit in bits if bit in OPERATIONS)


FENCED: Final = (errors.FencedInstanceIdError, errors.InvalidProducerEpochError, errors.ProducerFencedError)
REBALANCED: Final = (
    errors.CommitFailedError,
    errors.IllegalGenerationError,
    errors.RebalanceInProgressError,
    errors.UnknownMemberIdError,
)
UNREACHABLE: Final = (errors.NoBrokersAvailable, errors.KafkaConnectionError, ssl.SSLError)
RESOURCES: Final = {"Topic": "a topic", "Group": "a consumer group", "TransactionalId": "a transactional id"}


def fault_of(error: BaseException) -> Fault:
    """Return the class and text of a client error.

    Errors in its `args` are classified as well: after a failed write, the next write raises an error with the first one in its
    `args`.
    """
    if isinstance(error, UNREACHABLE):
        return Fault("" if str(error) == type(error).__name__ else str(error), unreachable=True)
    causes = (error, *error.args)
    for cause in causes:
        if isinstance(cause, errors.AuthorizationError):
            return _forbidden(cause)
    name, text = type(error).__name__, str(error).partition("\n")[0]
    reason = text if name in text else f"{name}: {text}" if text else name
    for agent_error, kinds in ((FencedError, FENCED), (RebalancingError, REBALANCED)):
        if any(isinstance(cause, kinds) for cause in causes):
            return Fault(reason, agent_error)
    return Fault(reason)


def named_brokers(settings: KafkaLogSettings, timeout_s: float) -> int:
    client = KafkaClient(**connection(settings, "check"))
    try:
        answer = client.cluster.request_update()
        client.poll(future=answer, timeout_ms=milliseconds(timeout_s))
        if isinstance(answer.exception, errors.MetadataEmptyBrokerList):
            return 0
        if not (answer.is_done and answer.succeeded()):
            raise answer.exception if answer.is_done else errors.NoBrokersAvailable
        return len(client.cluster.brokers())
    finally:
        client.close()


ADAPTER: Final = Adapter(
    fault_of, named_brokers, PythonWriter, PythonTransactions, PythonMember, PythonReader, PythonAdmin
)


def _forbidden(cause: BaseException) -> Fault:
    resource = next((kind for kind in RESOURCES if kind in type(cause).__name__), "")
    names = cause.args[0] if cause.args and isinstance(cause.args[0], (list, tuple, set, frozenset)) else ()
    return Fault(str(cause), forbidden=RESOURCES.get(resource, "this"), names=tuple(map(str, names)))
