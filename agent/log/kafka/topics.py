"""Topics on a broker: made, counted, and examined: how they really are, and what the user may do with them."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from kafka import errors
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.find_coordinator import FindCoordinatorRequest
from kafka.protocol.metadata import MetadataRequest

from agent.log.kafka.connection import KafkaSettings, translated
from processors.contracts.errors import UnavailableError
from processors.contracts.log import IN_SYNC_MIN, REPLICAS_SAFE, Examined, FoundTopic, TopicSettings

REPLICAS: Final = 3
TOPIC_READY_POLLS: Final = 50
ACTIVE_POLLS, ACTIVE_POLL_S = 100, 0.1
OPERATIONS: Final = {3: "Read", 4: "Write", 5: "Create", 8: "Describe", 10: "DescribeConfigs"}
UNTOLD: Final = 31  # the only bit where a broker does not say what is allowed
OPERATIONS_OF_TOPICS: Final = 8  # the version of the request from which on it can say so
OPERATIONS_OF_GROUPS: Final = 3
COORDINATORS_OF_TRANSACTIONS: Final = 1  # see above
TRANSACTION: Final = 1  # the kind of coordinator
REFUSED: Final = FoundTopic(0, 0, None, frozenset())
NO_COORDINATOR: Final = (errors.CoordinatorNotAvailableError, errors.CoordinatorLoadInProgressError)
Result = TypeVar("Result")


class Admin(KafkaAdminClient):  # type: ignore[misc] # the client ships no types
    """Leaves out which rights this user has: the client fails on the answer of an authorizer that does not tell them."""

    def _process_metadata_response(self, metadata_response: Any) -> Any:
        return metadata_response.to_object()


def asking(settings: KafkaSettings, doing: str, ask: Callable[[Any], Result]) -> Result:
    """Ask the cluster with a client of its own. Raises UnavailableError."""
    with translated(settings, doing):
        timeout_ms = round(settings.request_timeout_s * 1000)
        admin = Admin(**settings.connection("admin"), request_timeout_ms=timeout_ms)
        try:
            return ask(admin)
        finally:
            admin.close()


def counts(admin: Any, topics: Sequence[str]) -> dict[str, int]:
    """Return the number of partitions of the topics that there are; TopicAuthorizationFailedError where one may not be seen."""
    found = _metadata(admin, topics)
    forbidden = [one["topic"] for one in found if one["error_code"] == errors.TopicAuthorizationFailedError.errno]
    if forbidden:
        raise errors.TopicAuthorizationFailedError(forbidden)
    return {one["topic"]: len(one["partitions"]) for one in found if one["error_code"] == 0}


def create(admin: Any, settings: KafkaSettings, topics: Sequence[TopicSettings]) -> list[str]:
    """Create the topics that are missing, wait until they are known, and return their names."""
    existing = counts(admin, [topic.name for topic in topics])
    missing = [topic for topic in topics if topic.name not in existing]
    active = _active_brokers(admin) if missing else 0
    replicas = settings.replication_factor or min(REPLICAS, active)
    made = [topic.name for topic in missing if _create_one(admin, topic, replicas)]
    for _ in range(TOPIC_READY_POLLS):  # a broker learns of a new topic a little after its controller
        if len(counts(admin, made)) == len(made):
            break
    return made


def examine(admin: Any, topics: Sequence[str], groups: Sequence[str], transactional_ids: Sequence[str]) -> Examined:
    """Return how topics really are, and what the user may do with topics, groups and transactional ids."""
    found = {one["topic"]: one for one in _metadata(admin, topics) if one["error_code"] == 0}
    refused = errors.TopicAuthorizationFailedError.errno
    denied = {one["topic"]: REFUSED for one in _metadata(admin, topics) if one["error_code"] == refused}
    settings = _settings(admin, found)
    known = {name: _found(one, settings.get(name)) for name, one in found.items()}
    return Examined(
        known | denied,
        {group: _group_operations(admin, group) for group in groups},
        _transactional_operations(admin, transactional_ids),
    )


def _metadata(admin: Any, topics: Sequence[str]) -> list[dict[str, Any]]:
    """Return what the cluster says of topics; the client's own call fails where it may not say everything."""
    if not topics:  # to the broker none means all
        return []
    version = min(admin._client.api_version(MetadataRequest, max_version=8), 8)  # noqa: SLF001 - no public way
    wanted: dict[str, Any] = {"topics": list(topics)}
    if version > 3:
        wanted["allow_auto_topic_creation"] = False
    if version >= OPERATIONS_OF_TOPICS:
        wanted |= {"include_cluster_authorized_operations": False, "include_topic_authorized_operations": True}
    answer = admin.send_request(MetadataRequest[version](**wanted)).to_object()
    found: list[dict[str, Any]] = answer["topics"]
    return found


def _settings(admin: Any, topics: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
    """Return the settings of the topics that the user may read them of."""
    wanted = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics]
    answers = admin.describe_configs(wanted) if wanted else []
    return {
        name: {entry[0]: entry[1] for entry in entries if entry[1] is not None}
        for answer in answers
        for code, _, _, name, entries in answer.resources
        if code == 0
    }


def _found(topic: Mapping[str, Any], settings: Mapping[str, str] | None) -> FoundTopic:
    replicas = min((len(partition["replicas"]) for partition in topic["partitions"]), default=0)
    return FoundTopic(len(topic["partitions"]), replicas, settings, _operations(topic.get("authorized_operations")))


def _group_operations(admin: Any, group: str) -> frozenset[str] | None:
    try:
        (coordinator,) = admin._find_coordinator_ids([group]).values()  # noqa: SLF001 - no public way
    except errors.GroupAuthorizationFailedError:
        return frozenset()
    except NO_COORDINATOR:  # a new cluster has none before its first group
        return None
    version = admin._client.api_version(DescribeGroupsRequest, max_version=OPERATIONS_OF_GROUPS)  # noqa: SLF001 - see above
    if version < OPERATIONS_OF_GROUPS:
        return None
    request = DescribeGroupsRequest[version](groups=(group,), include_authorized_operations=True)
    (found,) = admin.send_request(request, coordinator).groups
    if found[0] == errors.GroupAuthorizationFailedError.errno:
        return frozenset()
    return _operations(found[-1])


def _transactional_operations(admin: Any, names: Sequence[str]) -> Mapping[str, frozenset[str] | None]:
    """Return nothing for transactional ids that the user may not even see, and so not use; of others nobody says more.

    Whoever may write with one may see it. To try whether it may write would fence the learner that does.
    """
    version = min(admin._client.api_version(FindCoordinatorRequest, max_version=2), 2)  # noqa: SLF001 - no public way
    if version < COORDINATORS_OF_TRANSACTIONS:
        return dict.fromkeys(names)
    requests = [(FindCoordinatorRequest[version](name, TRANSACTION), None) for name in names]
    codes = admin.send_requests(requests, response_fn=lambda answer: answer.error_code)
    refused = errors.TransactionalIdAuthorizationFailedError.errno
    return {name: frozenset() if code == refused else None for name, code in zip(names, codes, strict=True)}


def _operations(bits: Iterable[int] | None) -> frozenset[str] | None:
    """Return what is allowed by name; None where the broker does not say."""
    if bits is None or UNTOLD in bits:
        return None
    return frozenset(OPERATIONS[bit] for bit in bits if bit in OPERATIONS)


def _active_brokers(admin: Any) -> int:
    """Return how many brokers serve; one that comes back from a hang is not among them for a second or two."""
    pause = threading.Event()
    for _ in range(ACTIVE_POLLS):
        if brokers := admin.describe_cluster()["brokers"]:
            return len(brokers)
        pause.wait(ACTIVE_POLL_S)
    raise UnavailableError("The cluster has no active broker yet, so no topic can be created.")


def _create_one(admin: Any, topic: TopicSettings, replicas: int) -> bool:
    options = dict(topic.options())
    if replicas >= REPLICAS_SAFE:  # a broker's own default is one
        options["min.insync.replicas"] = str(IN_SYNC_MIN)
    try:
        admin.create_topics([NewTopic(topic.name, topic.partitions, replicas, topic_configs=options)])
    except errors.TopicAlreadyExistsError:  # somebody else was faster
        return False
    return True
