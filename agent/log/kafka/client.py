"""What a client library has to do for the log, as protocols: `kafka.python` and `kafka.confluent` implement them.

What is decided stands beside this file, once: which errors are ours, deadlines, the steps of a checkpoint, what a
rebalance takes away. Here a client only adapts: it raises what its library raises, and `Client.fault` says what it means.
"""

import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from importlib import import_module
from importlib.util import find_spec
from threading import Thread
from typing import Final, Literal, NamedTuple, Protocol, TypeVar, cast

import msgspec
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from processors.contracts.errors import ConfigError, FencedError, RebalancingError, ScalewatchError, UnavailableError
from processors.contracts.log import Batch, FoundTopic, Position, TopicPartition

ADDRESSES_MAX: Final = 3
TIMEOUT_S: Final = 2.0
UNKNOWN_ISSUER: Final = frozenset({18, 19, 20, 21})  # X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT and those after it


SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Compression = Literal["none", "gzip", "lz4", "zstd"]
ClientName = Literal["auto", "kafka-python", "confluent"]
REQUEST_BYTES_MAX = 1 << 20
BATCH_BYTES_MIN = 1024
BATCH_MARGIN_BYTES = 512  # what a batch may have around its records
WAIT_MS = 20  # a broker may wait so long for more before it answers a reader; a checkpoint waits for this answer
LINGER_MS = 5  # a record waits so long for others, unless somebody flushes: a request for each costs more than the rest


class Secret(str):
    """A text that does not show in a repr: clients and tracebacks print their settings."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


class KafkaSecurity(msgspec.Struct, frozen=True):
    """How to prove who we are, and how the broker proves who it is."""

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
        """Return protocol, mechanism and user for an error message."""
        return self.protocol if self.mechanism is None else f"{self.protocol}, {self.mechanism} as {self.username}"

    @property
    def encrypted(self) -> bool:
        """Return whether the connection is encrypted."""
        return self.protocol.endswith("SSL")

    def check(self) -> None:
        """Raise ConfigError where a login is not complete."""
        if self.protocol.startswith("SASL") and not (self.mechanism and self.username and self.password):
            raise ConfigError(f"{self.protocol} needs a mechanism, a user name and a password.")


class KafkaSettings(msgspec.Struct, frozen=True):
    """Everything that the Kafka log has to know. Every default is here."""

    bootstrap: str
    client: ClientName = "auto"
    client_id: str = "scalewatch"
    security: KafkaSecurity = KafkaSecurity()
    state_topic: str = "scalewatch.state"
    compression: Compression = "none"
    replication_factor: int | None = None  # of topics we create; None: 3, or as many as there are brokers
    static_membership: bool = False  # keep partitions through a restart, at the price of a slower leave
    bootstrap_timeout_s: float = 10.0
    request_timeout_s: float = 10.0
    delivery_timeout_s: float = 60.0
    block_timeout_s: float = 10.0
    session_timeout_s: float = 10.0
    work_timeout_s: float = 300.0  # a member that does not poll for so long loses its partitions
    metadata_age_s: float = 30.0  # how soon new topics are found
    stuck_after_s: float = 30.0  # a consumer that is behind and gets nothing for so long is given up
    read_timeout_s: float = 30.0
    checkpoint_timeout_s: float = 8.0
    transaction_timeout_s: float = 60.0
    take_overs_max: int = 5
    queue_records_max: int = 50_000
    queue_bytes_max: int = 64 << 20
    poll_records_max: int = 2000
    written_topics: tuple[str, ...] = ()  # whose max.message.bytes bounds a batch
    batch_bytes_max: int = REQUEST_BYTES_MAX
    fetched_bytes_max: int = 16 << 20  # that a client holds for the next polls
    on_wait: Callable[[], object] = tuple  # called before each wait for a broker, in any thread
    now_ms: Callable[[], int] | None = None  # gives records their time that have none; None: the client does

    def stamp_ms(self) -> int | None:
        """Return the time of a record that is written now; None if the client has to give it."""
        return None if self.now_ms is None else self.now_ms()

    @property
    def request_ms(self) -> int:
        """How long a broker may take for an answer."""
        return milliseconds(self.request_timeout_s)

    @property
    def delivery_ms(self) -> int:
        """How long a record may be under way: at least as long as one request, which has waited for others."""
        return max(milliseconds(self.delivery_timeout_s), self.request_ms + LINGER_MS)

    @property
    def session_ms(self) -> int:
        """How long a group waits for a member's heartbeat."""
        return milliseconds(self.session_timeout_s)

    @property
    def heartbeat_ms(self) -> int:
        """How often a member's heart beats: two beats may be lost."""
        return self.session_ms // 3

    @property
    def work_ms(self) -> int:
        """How long a member may work between two polls; never shorter than its session."""
        return max(milliseconds(self.work_timeout_s), self.session_ms)

    def named(self, purpose: str) -> str:
        """Return the name of a client towards the brokers."""
        return f"{self.client_id}-{purpose}"


def context_of(security: KafkaSecurity) -> ssl.SSLContext:
    """Return our own TLS context: the client's accepts versions that are no longer safe."""
    try:
        context = ssl.create_default_context(cafile=security.ca_file)
        if security.certificate_file is not None:
            context.load_cert_chain(security.certificate_file, security.key_file)
    except OSError as error:  # also of a file that holds something else
        named = (security.ca_file, security.certificate_file, security.key_file)
        files = ", ".join(one for one in named if one is not None)
        raise ConfigError(f"The certificate files {files} cannot be used: {error}.") from error
    return context


def refusal(settings: KafkaSettings) -> str:
    """Return in a sentence why no TLS connection to the brokers is possible; empty if TLS is not the reason."""
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


def isolation(*, committed: bool) -> str:
    """Return which records a consumer sees: what is committed, or also what open and aborted transactions wrote."""
    return "read_committed" if committed else "read_uncommitted"


def first_read(*, from_beginning: bool) -> str:
    """Return where a consumer begins that has no position."""
    return "earliest" if from_beginning else "latest"


def milliseconds(seconds: float) -> int:
    """Return a time as clients take it."""
    return round(seconds * 1000)


class Meaning(Enum):
    """What an error of a client means to us."""

    FENCED = auto()
    """Another process has this name."""
    REBALANCED = auto()
    """The group has gone on, or goes on, without this member."""
    FORBIDDEN = auto()
    """The user has no right to it."""
    UNREACHABLE = auto()
    """No broker can be talked to."""
    OTHER = auto()


class Fault(NamedTuple):
    """An error of a client: its meaning, its text, and what the user may not use: kind of resource and names."""

    meaning: Meaning
    reason: str
    resource: str = "this"
    names: tuple[str, ...] = ()


class NotQueuedError(Exception):
    """Nothing was queued, and the producer is as it was: the cause says why."""


class RecordWriter(Protocol):
    """An idempotent producer: acks of all replicas. After an error it is given up."""

    def offer(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int | None, timestamp_ms: int | None
    ) -> bool:
        """Queue a record; False where the queue is full. Raises NotQueuedError where the topic cannot be found."""

    def settle(self, timeout_s: float) -> bool:
        """Take in what was acknowledged, and wait for one where none was; False at the deadline. Raises for what failed."""

    def unacknowledged(self) -> int:
        """Return how many records are queued or under way."""

    def flush(self, timeout_s: float) -> None:
        """Wait for every acknowledgement. Raises for what failed, and at the deadline."""

    def give_up(self) -> None:
        """Free everything within about a second, and write nothing more of what is queued."""


class TransactionWriter(Protocol):
    """A transactional producer. Every call but `send` and `give_up` may hang, whatever its deadline."""

    def fence(self) -> None:
        """End and fence every former producer of this name."""

    def begin(self) -> None:
        """Begin a transaction."""

    def send(
        self,
        topic: str,
        partition: int,
        records: Sequence[tuple[bytes, bytes | None]],
        timeout_s: float,
        timestamp_ms: int | None = None,
    ) -> int:
        """Write keys and values, wait for each acknowledgement, and return the offset of the last. Raises for what failed."""

    def commit(self) -> None:
        """Commit the transaction."""

    def abort(self) -> None:
        """Abort the transaction."""

    def give_up(self) -> None:
        """Free everything within about a second, and write nothing more of what is queued."""


class GroupMember(Protocol):
    """A member of a group that commits nothing by itself.

    At a rebalance it gives all partitions up, and it reads none of the new ones before `start`.
    """

    def poll(self, timeout_s: float) -> Sequence[Batch]:
        """Return what is there, waiting at most so long for the first record."""

    def rebalancing(self) -> bool:
        """Return whether the group shares its partitions out, and this member has given its own up."""

    def assignment(self) -> frozenset[TopicPartition] | None:
        """Return what a rebalance gave, once after it; None while there was none."""

    def generation(self) -> int | None:
        """Return the number of the group's generation; None where it cannot be told, or where partitions were lost."""

    def start(self, offsets: Mapping[TopicPartition, int | None], paused: Iterable[TopicPartition]) -> None:
        """Read all assigned partitions on from these offsets; None: from where the client is, or what is committed."""

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop returning records."""

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Return records again."""

    def position(self, partition: TopicPartition) -> int | None:
        """Return the next offset to read, past what transactions hide; None where it is not known yet."""

    def committed(self, partition: TopicPartition) -> Position | None:
        """Return the group's committed position."""

    def beginning(self, partition: TopicPartition) -> int:
        """Return the first offset that is still there."""

    def end(self, partition: TopicPartition) -> int:
        """Return the offset after the last record that is committed."""

    def commit(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Commit positions."""

    def close(self) -> None:
        """Leave the group, within a second or two whatever the broker does."""


class PartitionReader(Protocol):
    """Reads one partition by hand."""

    def beginning(self) -> int:
        """Return the first offset that is still there."""

    def end(self) -> int:
        """Return the offset after the last record that this reader may see."""

    def seek(self, offset: int) -> None:
        """Read on from an offset."""

    def position(self) -> int:
        """Return the next offset to read, past what transactions hide."""

    def poll(self, timeout_s: float) -> Batch | None:
        """Return the next records; None where none came in time."""

    def close(self) -> None:
        """Free the connections."""


class ClusterAdmin(Protocol):
    """Asks a cluster about its topics, and makes some."""

    def topics(self) -> Sequence[str]:
        """Return the names of all topics that the user may see."""

    def describe(self, topics: Sequence[str]) -> Mapping[str, FoundTopic]:
        """Return how topics are, without their settings; those that are missing are left out.

        Of one that the user may not even see: no partition, no operation.
        """

    def settings(self, topics: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """Return the settings of the topics that the user may read them of."""

    def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the offset after the last record of partitions that is committed."""

    def group_operations(self, group: str) -> frozenset[str] | None:
        """Return what the user may do with a group; None where the broker does not say."""

    def transactional_operations(self, names: Sequence[str]) -> Mapping[str, frozenset[str] | None]:
        """Return what the user may do with transactional ids; None where that cannot be told without fencing their owners."""

    def brokers(self) -> int:
        """Return how many brokers serve."""

    def create(self, topic: str, partitions: int, replicas: int, options: Mapping[str, str]) -> bool:
        """Create a topic; False where somebody else was faster."""

    def close(self) -> None:
        """Free the connections."""


class Client(Protocol):
    """One client library, with the settings of a cluster. Whatever it makes is connected when it is made or first used."""

    settings: KafkaSettings
    reads_metadata_exactly: bool
    """Whether the metadata of a committed position ends where it was written to end."""

    def fault(self, error: BaseException) -> Fault:
        """Return what an error of this library means."""

    def named_brokers(self, timeout_s: float) -> int:
        """Return how many brokers the cluster names when it is asked who it is; it may be none for a moment."""

    def record_writer(self) -> RecordWriter:
        """Return a new producer."""

    def transaction_writer(self, purpose: str, transactional_id: str) -> TransactionWriter:
        """Return a new transactional producer, which has fenced nobody yet."""

    def group_member(self, group: str, topics: Sequence[str], member: str, *, from_beginning: bool) -> GroupMember:
        """Return a new member of a group; topics may be regular expressions when they start with ``^``."""

    def partition_reader(self, topic: str, partition: int, *, committed: bool) -> PartitionReader:
        """Return a reader; with `committed` off it also sees what open and aborted transactions wrote."""

    def cluster_admin(self) -> ClusterAdmin:
        """Return what asks the cluster."""


ADAPTERS: Final[dict[ClientName, str]] = {
    "kafka-python": "agent.log.kafka.python.client",
    "confluent": "agent.log.kafka.confluent.client",
}


def client_name(wanted: ClientName) -> ClientName:
    """Return the client that a setting means here. Raises ConfigError where it is not installed."""
    installed = find_spec("confluent_kafka") is not None
    if wanted == "auto":
        return "confluent" if installed else "kafka-python"
    if wanted == "confluent" and not installed:
        raise ConfigError("kafka.client is confluent, which is not installed: `pip install scalewatch[fast]` does it.")
    return wanted


def client_of(settings: KafkaSettings) -> Client:
    """Return the client of some settings. Only its own library is imported: each costs a start."""
    adapter = import_module(ADAPTERS[client_name(settings.client)])
    return cast("Client", adapter.make(settings))


ASK_AGAIN_S: Final = 0.2
NAMES_MAX: Final = 5
Result = TypeVar("Result")


@contextmanager
def translated(client: Client, doing: str) -> Iterator[None]:
    """Turn whatever the client raises into FencedError, RebalancingError or UnavailableError."""
    client.settings.on_wait()
    try:
        yield
    except ScalewatchError:
        raise
    except Exception as error:  # closed clients also raise AssertionError, AttributeError and RuntimeError
        raise translate(client, error, doing) from error


def translate(client: Client, error: BaseException, doing: str) -> ScalewatchError:
    """Return our error for one of the client."""
    if isinstance(error, ScalewatchError):
        return error
    fault, settings = client.fault(error), client.settings
    if fault.meaning is Meaning.UNREACHABLE:
        return UnavailableError(unreachable(settings, fault.reason))
    if fault.meaning is Meaning.FORBIDDEN:
        return UnavailableError(forbidden(settings, doing, fault))
    message = f"{doing} failed at {settings.bootstrap}: {fault.reason.rstrip('.')}."
    if fault.meaning is Meaning.FENCED:
        return FencedError(message)
    return RebalancingError(message) if fault.meaning is Meaning.REBALANCED else UnavailableError(message)


def forbidden(settings: KafkaSettings, doing: str, fault: Fault) -> str:
    """Return what to do where the broker's authorizer refuses something."""
    named = f" ({', '.join(sorted(fault.names)[:NAMES_MAX])})" if fault.names else ""
    user = settings.security.username or "without a log-in"
    return (
        f"{doing} failed at {settings.bootstrap}: the agent's user ({user}) has no right to {fault.resource}{named}. "
        "`scalewatch topics --acls` prints the rights that it needs."
    )


def unreachable(settings: KafkaSettings, cause: str = "") -> str:
    """Return what to check when no broker can be talked to: the clients say the same for nearly every cause."""
    security, refused = settings.security, refusal(settings)
    tls = ", and that the CA file has signed the broker's certificate" if security.encrypted else ""
    login = ", the user and password" if security.mechanism else " without a password"
    last = f" The last error was: {cause.rstrip('.')}." if cause else ""
    seen = f" {refused}" if refused else last
    return (
        f"No Kafka broker could be reached at {settings.bootstrap} ({security.described}) within "
        f"{settings.bootstrap_timeout_s:g} s: check the address and port, that this listener speaks "
        f"{security.protocol}{login}{tls}.{seen}"
    )


def check_reachable(client: Client) -> None:
    """Ask the cluster who it is, until it names a broker. Raises UnavailableError.

    Clients can be made although a login is wrong or missing, and then wait in silence for ever. A broker that was out of
    its controller's sight for a moment answers, but names no broker, not even itself.
    """
    timeout_s = client.settings.bootstrap_timeout_s
    until_one_is_named = Retrying(
        retry=retry_if_result(lambda count: count == 0),
        wait=wait_fixed(ASK_AGAIN_S),
        stop=stop_after_delay(timeout_s),
        retry_error_callback=lambda _: 0,
    )
    with translated(client, "Connecting"):
        if not until_one_is_named(client.named_brokers, timeout_s):
            raise UnavailableError(unreachable(client.settings, "the cluster names no broker"))


def within(timeout_s: float, call: Callable[[], Result], doing: str) -> Result:
    """Call in a thread and wait at most so long: some calls may never return once a broker has died.

    Raises UnavailableError at the deadline; the thread is then left to itself, so its client has to be given up.
    """
    results: list[Result] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:  # noqa: BLE001 - handed to the waiting thread
            raised.append(error)

    thread = Thread(target=run, name=doing, daemon=True)
    thread.start()
    thread.join(timeout_s)
    if raised:
        raise raised[0]
    if not results:
        raise UnavailableError(f"{doing} did not end within {timeout_s:g} s.")
    return results[0]
