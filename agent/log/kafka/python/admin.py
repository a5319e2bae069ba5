"""The administration of a cluster by kafka-python."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kafka import KafkaConsumer, errors
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.find_coordinator import FindCoordinatorRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.structs import TopicPartition as ClientPartition

from agent.log.kafka.python.arguments import asking, reading
from agent.log.kafka.settings import KafkaSettings
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
