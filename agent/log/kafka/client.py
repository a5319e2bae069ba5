"""The interface between the Kafka log and the client libraries.

First come the settings of a cluster and the TLS checks, then the protocols that `kafka.python` and `kafka.confluent` implement,
then the functions that both adapters share: the translation of errors, deadlines, and the check that a broker answers. An
adapter raises the errors of its library, and `Client.fault` classifies each error.
"""

import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from threading import Thread
from typing import Final, Literal, NamedTuple, Protocol, TypeVar

import msgspec
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from processors.contracts.errors import ConfigError, ScalewatchError, UnavailableError
from processors.contracts.log import Batch, FoundTopic, Position, TopicPartition

ADDRESSES_MAX: Final = 3
TIMEOUT_S: Final = 2.0
UNKNOWN_ISSUER: Final = frozenset({18, 19, 20, 21})  # X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT and its three successors
ASK_AGAIN_S: Final = 0.2
NAMES_MAX: Final = 5
REFUSED: Final = FoundTopic(0, 0, None, frozenset())  # a topic that the user may not see
Result = TypeVar("Result")
KeyValue = tuple[bytes, bytes | None]
ISOLATION: Final = {True: "read_committed", False: "read_uncommitted"}  # key: whether only committed records are read
# start of a consumer without a position; key: whether it starts from the beginning
FIRST_READ: Final = {True: "earliest", False: "latest"}

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Compression = Literal["none", "gzip", "lz4", "zstd"]
ClientName = Literal["auto", "kafka-python", "confluent"]
REQUEST_BYTES_MAX = 1 << 20
BATCH_BYTES_MIN = 1024
BATCH_MARGIN_BYTES = 512  # size of a batch header
WAIT_MS = 20  # how long in ms a broker may wait for more records; a checkpoint waits for this answer
LINGER_MS = 5  # how long a record waits for more, unless the producer is flushed: requests are expensive


class Secret(str):
    """A text hidden in its repr, because clients and tracebacks print their settings."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


class KafkaSecurity(msgspec.Struct, frozen=True):
    """The settings for authentication between the agent and the brokers."""

    protocol: SecurityProtocol = "PLAINTEXT"
    mechanism: str | None = None
    username: str | None = None
    password: str | None = None
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None

    def __post_init__(self) -> None:
        if self.password is not None:
            msgspec.structs.force_setattr(self, "password", Secret(self.password))

    @property
    def described(self) -> str:
        return self.protocol if self.mechanism is None else f"{self.protocol}, {self.mechanism} as {self.username}"

    @property
    def encrypted(self) -> bool:
        return self.protocol.endswith("SSL")

    def check(self) -> None:
        """Raise ConfigError if the login is incomplete."""
        if self.protocol.startswith("SASL") and not (self.mechanism and self.username and self.password):
            raise ConfigError(f"{self.protocol} needs a mechanism, a user name and a password.")


class KafkaLogSettings(msgspec.Struct, frozen=True):
    """The settings of the Kafka log with their defaults."""

    bootstrap: str
    client: ClientName = "auto"
    client_id: str = "scalewatch"
    security: KafkaSecurity = KafkaSecurity()
    state_topic: str = "scalewatch.state"
    compression: Compression = "none"
    # replicas of topics that the agent creates; None: 3, or the number of brokers if there are fewer
    replication_factor: int | None = None
    bootstrap_timeout_s: float = 10.0
    request_timeout_s: float = 10.0
    delivery_timeout_s: float = 60.0
    block_timeout_s: float = 10.0
    session_timeout_s: float = 10.0
    work_timeout_s: float = 300.0  # a member that does not poll for this time loses its partitions
    metadata_age_s: float = 30.0  # delay until new topics are noticed
    stuck_after_s: float = 30.0  # a consumer that lags but receives nothing for this time is replaced
    read_timeout_s: float = 30.0
    checkpoint_timeout_s: float = 8.0
    transaction_timeout_s: float = 60.0
    take_overs_max: int = 5
    queue_records_max: int = 50_000
    queue_bytes_max: int = 64 << 20
    poll_records_max: int = 2000
    written_topics: tuple[str, ...] = ()  # topics that the agent writes; their max.message.bytes bounds a batch
    batch_bytes_max: int = REQUEST_BYTES_MAX
    fetched_bytes_max: int = 16 << 20  # size of the records that a client holds for the next polls
    on_wait: Callable[[], object] = tuple  # called before each wait for a broker, in any thread
    now_ms: Callable[[], int] | None = None  # stamps records without a time; if None, the client does

    def stamp_ms(self) -> int | None:
        """Return the current time in ms as the timestamp of a record; None if the client sets timestamps."""
        return None if self.now_ms is None else self.now_ms()

    @property
    def request_ms(self) -> int:
        return milliseconds(self.request_timeout_s)

    @property
    def delivery_ms(self) -> int:
        """The time limit in ms for the delivery of a record; at least the request timeout plus the linger time."""
        return max(milliseconds(self.delivery_timeout_s), self.request_ms + LINGER_MS)

    @property
    def session_ms(self) -> int:
        return milliseconds(self.session_timeout_s)

    @property
    def heartbeat_ms(self) -> int:
        """The heartbeat interval in ms, chosen so that a session survives two lost heartbeats."""
        return self.session_ms // 3

    @property
    def work_ms(self) -> int:
        """The maximum time in ms between two polls; at least the session timeout."""
        return max(milliseconds(self.work_timeout_s), self.session_ms)

    def client_id_for(self, purpose: str) -> str:
        """Return the client.id for a purpose."""
        return f"{self.client_id}-{purpose}"


def context_of(security: KafkaSecurity) -> ssl.SSLContext:
    """Return the TLS context of the agent, because kafka-python's default context accepts TLS versions that are no longer safe."""
    try:
        context = ssl.create_default_context(cafile=security.ca_file)
        if security.certificate_file is not None:
            context.load_cert_chain(security.certificate_file, security.key_file)
    except OSError as error:  # also raised if a file has unexpected content
        files = ", ".join(filter(None, (security.ca_file, security.certificate_file, security.key_file)))
        raise ConfigError(f"The certificate files {files} cannot be used: {error}.") from error
    return context


def refusal(settings: KafkaLogSettings) -> str:
    """Return a sentence with the reason why TLS to the brokers fails; empty if TLS does not fail."""
    if not settings.security.encrypted:
        return ""
    context = context_of(settings.security)
    for address in settings.bootstrap.split(",")[:ADDRESSES_MAX]:
        host, _, port = address.strip().rpartition(":")
        name = host.strip("[]")
        try:
            with (
                socket.create_connection((name, int(port)), TIMEOUT_S) as plain,
                context.wrap_socket(plain, server_hostname=name),
            ):
                return ""
        except ssl.SSLCertVerificationError as error:
            return _refused(address.strip(), error)
        except ssl.SSLError as error:
            return f"TLS with {address.strip()} fails: {(error.reason or str(error)).lower().replace('_', ' ')}."
        except (OSError, ValueError):
            continue
    return ""


def _refused(address: str, error: ssl.SSLCertVerificationError) -> str:
    why = error.verify_message.rstrip(".")
    if error.verify_code in UNKNOWN_ISSUER:
        why += ", so the CA file of the configuration has not signed it"
    return f"The certificate of {address} is refused: {why}."


def milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


class Fault(NamedTuple):
    """The text of a client error, and the error of the agent that replaces it.

    `unreachable` is true if no broker can be reached. `forbidden` is the kind of resource for which the user lacks the required
    permission, and `names` are the names of these resources; for all other errors both are empty.
    """

    reason: str
    error: type[ScalewatchError] = UnavailableError
    unreachable: bool = False
    forbidden: str = ""
    names: tuple[str, ...] = ()


class NotQueuedError(Exception):
    """A record could not be queued; the producer is still usable. The cause of this error is the client's error."""


class RecordWriter(Protocol):
    """An idempotent producer that waits for all replicas. After any error except NotQueuedError the caller must close it by `give_up`."""

    def offer(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int | None, timestamp_ms: int | None
    ) -> bool:
        """Queue a record; return False if the queue is full. Raise NotQueuedError if the topic does not exist."""

    def settle(self, timeout_s: float) -> bool:
        """Process acknowledgements; wait at most `timeout_s` for the first one, and return False if none came.

        Raise the error of a record that could not be delivered.
        """

    def unacknowledged(self) -> int:
        """Return the number of records that are queued or in flight."""

    def flush(self, timeout_s: float) -> None:
        """Wait for all acknowledgements. Raise the error of a failed record, or an error at the deadline."""

    def give_up(self) -> None:
        """Close all connections within about a second without sending queued records."""


class TransactionWriter(Protocol):
    """A transactional producer. Every call except `send` and `give_up` may hang beyond its deadline."""

    def fence(self) -> None:
        """End the transactions of every former producer with this transactional id, and fence these producers."""

    def begin(self) -> None: ...

    def send(
        self, topic: str, partition: int, records: Sequence[KeyValue], timeout_s: float, timestamp_ms: int | None
    ) -> int:
        """Write pairs of key and value, wait for all acknowledgements, and return the last offset. Raise the error of a failed record."""

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def give_up(self) -> None:
        """Close all connections within about a second without sending queued records."""


class PartitionBounds(Protocol):
    """Looks up the offsets of partitions."""

    def beginning(self, partition: TopicPartition) -> int:
        """Return the first offset that still exists."""

    def end(self, partition: TopicPartition) -> int:
        """Return the offset after the last record visible to this consumer."""


class GroupMember(PartitionBounds, Protocol):
    """A member of a consumer group that commits only on request.

    At a rebalance the member revokes all its partitions. It reads nothing from new partitions before `start`.
    """

    def poll(self, timeout_s: float) -> Sequence[Batch]:
        """Return the next records; wait at most `timeout_s` for the first record."""

    def rebalancing(self) -> bool:
        """Return whether a rebalance is running and this member has already released its partitions."""

    def assignment(self) -> frozenset[TopicPartition] | None:
        """Return the partitions assigned by a finished rebalance, once; None if there was no rebalance since the last call."""

    def generation(self) -> int | None:
        """Return the group's generation number; None if it is unknown, or if partitions were lost."""

    def start(self, offsets: Mapping[TopicPartition, int | None], paused: Iterable[TopicPartition]) -> None:
        """Start reading all assigned partitions at these offsets.

        None means the client's current position, or else the committed offset. Partitions in `paused` stay paused.
        """

    def pause(self, partitions: Iterable[TopicPartition]) -> None: ...

    def resume(self, partitions: Iterable[TopicPartition]) -> None: ...

    def position(self, partition: TopicPartition) -> int | None:
        """Return the next offset to read, skipping transaction markers; None if the offset is not known yet."""

    def committed(self, partition: TopicPartition) -> Position | None: ...

    def commit(self, positions: Mapping[TopicPartition, Position]) -> None: ...

    def close(self) -> None:
        """Leave the group, within one or two seconds even if the broker does not answer."""


class PartitionReader(PartitionBounds, Protocol):
    """Reads one partition outside of any group."""

    def seek(self, offset: int) -> None: ...

    def position(self) -> int:
        """Return the next offset to read, skipping transaction markers."""

    def poll(self, timeout_s: float) -> Batch | None:
        """Return the next records; None if no record came within `timeout_s`."""

    def close(self) -> None: ...


class ClusterAdmin(Protocol):
    """Describes topics, groups and brokers, and creates topics."""

    def topics(self) -> Sequence[str]:
        """Return the names of all topics that the user may see."""

    def describe(self, topics: Sequence[str]) -> Mapping[str, FoundTopic]:
        """Return partitions, replicas and allowed operations of existing topics, without their settings.

        A topic that the user may not see has no partitions and no operations.
        """

    def settings(self, topics: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """Return the settings of the topics whose settings the user may read."""

    def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the offset after the last committed record of each partition."""

    def group_operations(self, group: str) -> frozenset[str] | None:
        """Return the operations that the user may perform on a group; None if the broker does not report them."""

    def transactional_operations(self, names: Sequence[str]) -> Mapping[str, frozenset[str] | None]:
        """Return the allowed operations by transactional id; None if only a request that fences the id's owner could show them."""

    def brokers(self) -> int:
        """Return the number of active brokers."""

    def create(self, topic: str, partitions: int, replicas: int, options: Mapping[str, str]) -> bool:
        """Create a topic; return False if the topic exists already."""

    def close(self) -> None: ...


class Adapter(NamedTuple):
    """The parts of a client library; clients get their settings first, and connect when they are created, or at their first use.

    `named_brokers` returns the number of brokers in the cluster's metadata (0 during a failover); its last argument is a timeout in
    seconds. `transaction_writer` takes a purpose and a transactional id, and does not fence yet. `group_member` takes a group, topics
    (names that start with ``^`` are regular expressions), the member's name, and `from_beginning`. `partition_reader` takes a
    topic, a partition and `committed`; without `committed` the reader also returns records of open and aborted transactions.
    """

    fault: Callable[[BaseException], Fault]
    named_brokers: Callable[[KafkaLogSettings, float], int]
    record_writer: Callable[[KafkaLogSettings], RecordWriter]
    transaction_writer: Callable[[KafkaLogSettings, str, str], TransactionWriter]
    group_member: Callable[..., GroupMember]
    partition_reader: Callable[..., PartitionReader]
    cluster_admin: Callable[[KafkaLogSettings], ClusterAdmin]


class Client(NamedTuple):
    """A client library with the settings of a cluster."""

    settings: KafkaLogSettings
    adapter: Adapter


ADAPTERS: Final[dict[ClientName, str]] = {
    "kafka-python": "agent.log.kafka.python.client",
    "confluent": "agent.log.kafka.confluent.client",
}


def client_name(configured: ClientName) -> ClientName:
    """Return the client library that `kafka.client` selects. Raise ConfigError if it is not installed."""
    installed = find_spec("confluent_kafka") is not None
    if configured == "auto":
        return "confluent" if installed else "kafka-python"
    if configured == "confluent" and not installed:
        raise ConfigError("kafka.client is confluent, which is not installed: run `pip install scalewatch[fast]`.")
    return configured


def client_of(settings: KafkaLogSettings) -> Client:
    """Return the client for these settings. Only the selected library is imported, because imports delay the start."""
    return Client(settings, import_module(ADAPTERS[client_name(settings.client)]).ADAPTER)


@contextmanager
def translated(client: Client, doing: str) -> Iterator[None]:
    """Run a block, and replace each error of the client library by FencedError, RebalancingError or UnavailableError."""
    client.settings.on_wait()
    try:
        yield
    except ScalewatchError:
        raise
    except Exception as error:  # closed clients also raise AssertionError, AttributeError and RuntimeError
        raise translate(client, error, doing) from error


def translate(client: Client, error: BaseException, doing: str) -> ScalewatchError:
    if isinstance(error, ScalewatchError):
        return error
    fault, settings = client.adapter.fault(error), client.settings
    if fault.unreachable:
        return UnavailableError(unreachable(settings, fault.reason))
    if fault.forbidden:
        return UnavailableError(forbidden(settings, doing, fault.forbidden, fault.names))
    return fault.error(f"{doing} failed at {settings.bootstrap}: {fault.reason.rstrip('.')}.")


def forbidden(settings: KafkaLogSettings, doing: str, resource: str, names: Sequence[str]) -> str:
    """Return the error message for a request that the broker's authorizer refused."""
    listed = f" ({', '.join(sorted(names)[:NAMES_MAX])})" if names else ""
    user = settings.security.username or "without a log-in"
    return (
        f"{doing} failed at {settings.bootstrap}: the agent's user ({user}) has no right to {resource}{listed}. "
        "`scalewatch topics --acls` prints the rights that the user needs."
    )


def unreachable(settings: KafkaLogSettings, cause: str = "") -> str:
    """Return the error message for an unreachable cluster; it lists what to check, because libraries rarely name the cause."""
    security, refused = settings.security, refusal(settings)
    tls = ", and that the CA file has signed the broker's certificate" if security.encrypted else ""
    login = ", the user and password" if security.mechanism else " without a password"
    last = f" The last error was: {cause.rstrip('.')}." if cause else ""
    reason = f" {refused}" if refused else last
    return (
        f"No Kafka broker could be reached at {settings.bootstrap} ({security.described}) within "
        f"{settings.bootstrap_timeout_s:g} s: check the address and port, that this listener speaks "
        f"{security.protocol}{login}{tls}.{reason}"
    )


def check_reachable(client: Client) -> None:
    """Request the metadata of the cluster until it lists a broker. Raise UnavailableError if it lists none in time.

    Without this check, a client with a wrong or missing login would wait silently for ever. A broker that lost contact with its
    controller answers, but lists no broker, not even itself.
    """
    timeout_s = client.settings.bootstrap_timeout_s
    until_one_is_named = Retrying(
        retry=retry_if_result(lambda count: count == 0),
        wait=wait_fixed(ASK_AGAIN_S),
        stop=stop_after_delay(timeout_s),
        retry_error_callback=lambda _: 0,
    )
    with translated(client, "Connecting"):
        if not until_one_is_named(client.adapter.named_brokers, client.settings, timeout_s):
            raise UnavailableError(unreachable(client.settings, "the cluster names no broker"))


def within(timeout_s: float, call: Callable[[], Result], doing: str) -> Result:
    """Run `call` in a thread and wait at most `timeout_s`, because some calls never return once a broker has died.

    Raise UnavailableError at the deadline. The thread keeps running, so the caller must give up the client.
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - handed to the waiting thread
            future.set_exception(error)

    Thread(target=run, name=doing, daemon=True).start()
    if not wait([future], timeout_s).done:
        raise UnavailableError(f"{doing} did not end within {timeout_s:g} s.")
    return future.result()
