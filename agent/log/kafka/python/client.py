"""kafka-python as a client of the log: what it makes, and what its errors mean."""

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

from agent.log.kafka.client import Client, Fault, KafkaSettings, Meaning, milliseconds
from agent.log.kafka.python.arguments import asking, connection, reading
from agent.log.kafka.python.consumer import PythonMember, PythonReader
from agent.log.kafka.python.producer import PythonTransactions, PythonWriter
from processors.contracts.log import FoundTopic, TopicPartition

OPERATIONS: Final = {3: "Read", 4: "Write", 5: "Create", 8: "Describe", 10: "DescribeConfigs"}
UNTOLD: Final = 31  # the only bit where a broker does not say what is allowed
OPERATIONS_OF_TOPICS: Final = 8  # the version of the request from which on it can say so
OPERATIONS_OF_GROUPS: Final = 3
COORDINATORS_OF_TRANSACTIONS: Final = 1  # see above
TRANSACTION: Final = 1  # the kind of coordinator
REFUSED: Final = FoundTopic(0, 0, None, frozenset())
NO_COORDINATOR: Final = (errors.CoordinatorNotAvailableError, errors.CoordinatorLoadInProgressError)


class _Admin(KafkaAdminClient):  # type: ignore[misc] # the client ships no types
    """Leaves out which rights this user has: the client fails on the answer of an authorizer that does not tell them."""

    def _process_metadata_response(self, metadata_response: Any) -> Any:
        return metadata_response.to_object()


class PythonAdmin:
    """Asks a cluster. Some of it has no public way in this version of the client: the requests are made here."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._admin = _Admin(**asking(settings, "admin"))

    def topics(self) -> Sequence[str]:
        """Return the names of all topics that the user may see."""
        names: list[str] = self._admin.list_topics()
        return names

    def describe(self, topics: Sequence[str]) -> Mapping[str, FoundTopic]:
        """Return how topics are, without their settings; those that are missing are left out."""
        refused = errors.TopicAuthorizationFailedError.errno
        return {
            one["topic"]: _found(one) if one["error_code"] == 0 else REFUSED
            for one in self._metadata(topics)
            if one["error_code"] in (0, refused)
        }

    def settings(self, topics: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """Return the settings of the topics that the user may read them of."""
        wanted = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics]
        answers = self._admin.describe_configs(wanted) if wanted else []
        return {
            name: {entry[0]: entry[1] for entry in entries if entry[1] is not None}
            for answer in answers
            for code, _, _, name, entries in answer.resources
            if code == 0
        }

    def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the offset after the last record of partitions that is committed."""
        consumer = KafkaConsumer(**reading(self._settings, committed=True))
        try:
            found = consumer.end_offsets([ClientPartition(*partition) for partition in partitions])
        finally:
            consumer.close()
        return {(one.topic, one.partition): end for one, end in found.items()}

    def group_operations(self, group: str) -> frozenset[str] | None:
        """Return what the user may do with a group; None where the broker does not say."""
        try:
            (coordinator,) = self._admin._find_coordinator_ids([group]).values()  # noqa: SLF001 - no public way
        except errors.GroupAuthorizationFailedError:
            return frozenset()
        except NO_COORDINATOR:  # a new cluster has none before its first group
            return None
        version = self._version(DescribeGroupsRequest, OPERATIONS_OF_GROUPS)
        if version < OPERATIONS_OF_GROUPS:
            return None
        request = DescribeGroupsRequest[version](groups=(group,), include_authorized_operations=True)
        (found,) = self._admin.send_request(request, coordinator).groups
        if found[0] == errors.GroupAuthorizationFailedError.errno:
            return frozenset()
        return _operations(found[-1])

    def transactional_operations(self, names: Sequence[str]) -> Mapping[str, frozenset[str] | None]:
        """Return nothing for transactional ids that the user may not even see, and so not use; of others nobody says more.

        Whoever may write with one may see it. To try whether it may write would fence the learner that does.
        """
        version = self._version(FindCoordinatorRequest, 2)
        if version < COORDINATORS_OF_TRANSACTIONS:
            return dict.fromkeys(names)
        requests = [(FindCoordinatorRequest[version](name, TRANSACTION), None) for name in names]
        codes = self._admin.send_requests(requests, response_fn=lambda answer: answer.error_code)
        refused = errors.TransactionalIdAuthorizationFailedError.errno
        return {name: frozenset() if code == refused else None for name, code in zip(names, codes, strict=True)}

    def brokers(self) -> int:
        """Return how many brokers serve."""
        return len(self._admin.describe_cluster()["brokers"])

    def create(self, topic: str, partitions: int, replicas: int, options: Mapping[str, str]) -> bool:
        """Create a topic; False where somebody else was faster."""
        try:
            self._admin.create_topics([NewTopic(topic, partitions, replicas, topic_configs=dict(options))])
        except errors.TopicAlreadyExistsError:
            return False
        return True

    def close(self) -> None:
        """Free the connections."""
        self._admin.close()

    def _metadata(self, topics: Sequence[str]) -> list[dict[str, Any]]:
        """Return what the cluster says of topics; the client's own call fails where it may not say everything."""
        if not topics:  # to the broker none means all
            return []
        version = self._version(MetadataRequest, OPERATIONS_OF_TOPICS)
        wanted: dict[str, Any] = {"topics": list(topics)}
        if version > 3:
            wanted["allow_auto_topic_creation"] = False
        if version >= OPERATIONS_OF_TOPICS:
            wanted |= {"include_cluster_authorized_operations": False, "include_topic_authorized_operations": True}
        found: list[dict[str, Any]] = self._admin.send_request(MetadataRequest[version](**wanted)).to_object()["topics"]
        return found

    def _version(self, request: Any, highest: int) -> int:
        """Return the version of a request that this broker and we speak."""
        known: int = min(self._admin._client.api_version(request, max_version=highest), highest)  # noqa: SLF001 - no public way
        return known


def _found(topic: Mapping[str, Any]) -> FoundTopic:
    replicas = min((len(partition["replicas"]) for partition in topic["partitions"]), default=0)
    return FoundTopic(len(topic["partitions"]), replicas, None, _operations(topic.get("authorized_operations")))


def _operations(bits: Iterable[int] | None) -> frozenset[str] | None:
    """Return what is allowed by name; None where the broker does not say."""
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


class PythonClient:
    """Clients of kafka-python for one cluster."""

    reads_metadata_exactly = True

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings

    def fault(self, error: BaseException) -> Fault:
        """Return what an error means. Of a write that comes after the one that failed, the client hands the cause on."""
        if isinstance(error, UNREACHABLE):
            return Fault(Meaning.UNREACHABLE, "" if str(error) == type(error).__name__ else str(error))
        causes = (error, *error.args)
        for cause in causes:
            if isinstance(cause, errors.AuthorizationError):
                return _forbidden(cause)
        name, text = type(error).__name__, str(error).partition("\n")[0]
        reason = text if name in text else f"{name}: {text}" if text else name
        for meaning, kinds in ((Meaning.FENCED, FENCED), (Meaning.REBALANCED, REBALANCED)):
            if any(isinstance(cause, kinds) for cause in causes):
                return Fault(meaning, reason)
        return Fault(Meaning.OTHER, reason)

    def named_brokers(self, timeout_s: float) -> int:
        """Return how many brokers the cluster names when it is asked who it is; it may be none for a moment."""
        client = KafkaClient(**connection(self.settings, "check"))
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

    def record_writer(self) -> PythonWriter:
        """Return a new producer."""
        return PythonWriter(self.settings)

    def transaction_writer(self, purpose: str, transactional_id: str) -> PythonTransactions:
        """Return a new transactional producer, which has fenced nobody yet."""
        return PythonTransactions(self.settings, purpose, transactional_id)

    def group_member(self, group: str, topics: Sequence[str], member: str, *, from_beginning: bool) -> PythonMember:
        """Return a new member of a group; topics may be regular expressions when they start with ``^``."""
        return PythonMember(self.settings, group, topics, member, from_beginning=from_beginning)

    def partition_reader(self, topic: str, partition: int, *, committed: bool) -> PythonReader:
        """Return a reader; with `committed` off it also sees what open and aborted transactions wrote."""
        return PythonReader(self.settings, topic, partition, committed=committed)

    def cluster_admin(self) -> PythonAdmin:
        """Return what asks the cluster."""
        return PythonAdmin(self.settings)


def make(settings: KafkaSettings) -> Client:
    """Return the client of some settings."""
    return PythonClient(settings)


def _forbidden(cause: BaseException) -> Fault:
    resource = next((kind for kind in RESOURCES if kind in type(cause).__name__), "")
    names = cause.args[0] if cause.args and isinstance(cause.args[0], (list, tuple, set, frozenset)) else ()
    return Fault(Meaning.FORBIDDEN, str(cause), RESOURCES.get(resource, "this"), tuple(map(str, names)))
