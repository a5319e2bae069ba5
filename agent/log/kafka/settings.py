"""How the Kafka log reaches a cluster, its limits, and what follows from them: the same for both clients."""

from collections.abc import Callable
from typing import Literal

import msgspec

from processors.contracts.errors import ConfigError

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
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

    protocol: Protocol = "PLAINTEXT"
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


def isolation(*, committed: bool) -> str:
    """Return which records a consumer sees: what is committed, or also what open and aborted transactions wrote."""
    return "read_committed" if committed else "read_uncommitted"


def first_read(*, from_beginning: bool) -> str:
    """Return where a consumer begins that has no position."""
    return "earliest" if from_beginning else "latest"


def milliseconds(seconds: float) -> int:
    """Return a time as clients take it."""
    return round(seconds * 1000)
