"""How to reach a Kafka cluster, and the limits of its clients."""

import ssl
from typing import Any, Literal

import msgspec
from kafka.codec import has_lz4, has_zstd

from agent.contracts.errors import ConfigError

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Compression = Literal["none", "gzip", "lz4", "zstd"]
REQUEST_BYTES_MAX = 1 << 20
LINGER_MS = 5  # a record waits so long for others, unless somebody flushes: a request for each costs more than the rest
FRAME_BYTES_MAX = 128 << 20  # the client's own limit of 1 MB is less than what one partition may answer


class Secret(str):
    """A text that does not show in a repr: clients and tracebacks print their settings.

    >>> Secret("correct horse")
    '***'
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


class KafkaSecurity(msgspec.Struct, frozen=True):
    """How to prove who we are, and how the broker proves who it is.

    >>> KafkaSecurity(protocol="SASL_SSL", mechanism="SCRAM-SHA-256", username="agent", password="x").described
    'SASL_SSL, SCRAM-SHA-256 as agent'
    """

    protocol: Protocol = "PLAINTEXT"
    mechanism: str | None = None
    username: str | None = None
    password: str | None = None
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    key_password: str | None = None
    check_hostname: bool = True

    def __post_init__(self) -> None:
        for name in ("password", "key_password"):
            value = getattr(self, name)
            if value is not None:
                msgspec.structs.force_setattr(self, name, Secret(value))

    @property
    def described(self) -> str:
        """Return protocol, mechanism and user for an error message."""
        return self.protocol if self.mechanism is None else f"{self.protocol}, {self.mechanism} as {self.username}"

    def arguments(self) -> dict[str, Any]:
        """Return the client's arguments. Raises ConfigError where a login is not complete."""
        if self.protocol.startswith("SASL") and not (self.mechanism and self.username and self.password):
            raise ConfigError(f"{self.protocol} needs a mechanism, a user name and a password.")
        login = {
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.username,
            "sasl_plain_password": self.password,
        }
        context = {"ssl_context": self._context()} if self.protocol.endswith("SSL") else {}
        return {"security_protocol": self.protocol, **context, **(login if self.mechanism else {})}

    def _context(self) -> ssl.SSLContext:
        """Return our own TLS context: the client's accepts versions that are no longer safe."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.certificate_file is not None:
                context.load_cert_chain(self.certificate_file, self.key_file, self.key_password)
        except OSError as error:  # also of a file that holds something else
            files = ", ".join(one for one in (self.ca_file, self.certificate_file, self.key_file) if one is not None)
            raise ConfigError(f"The certificate files {files} cannot be used: {error}.") from error
        context.check_hostname = self.check_hostname
        return context


class KafkaSettings(msgspec.Struct, frozen=True):
    """Everything that the Kafka log has to know. Every default is here.

    >>> KafkaSettings(bootstrap="kafka:9092").state_topic
    'scalewatch.state'
    """

    bootstrap: str
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

    def connection(self, purpose: str) -> dict[str, Any]:
        """Return the arguments that every client takes; the purpose becomes part of its name."""
        return {
            "bootstrap_servers": self.bootstrap.split(","),
            "client_id": f"{self.client_id}-{purpose}",
            "api_version_auto_timeout_ms": _ms(self.bootstrap_timeout_s),
            "receive_message_max_bytes": FRAME_BYTES_MAX,
            **self.security.arguments(),
        }

    def consuming(self, purpose: str) -> dict[str, Any]:
        """Return the arguments of every consumer: only what is committed, and no commit of its own."""
        return {
            **self.connection(purpose),
            "enable_auto_commit": False,
            "isolation_level": "read_committed",
            "allow_auto_create_topics": False,
            "metrics_enabled": False,
            "max_poll_records": self.poll_records_max,
            "metadata_max_age_ms": _ms(self.metadata_age_s),
        }

    def producing(self, purpose: str) -> dict[str, Any]:
        """Return the arguments of every producer: all replicas acknowledge, and a retry is no repeat."""
        return {
            **self.connection(purpose),
            "acks": "all",
            "enable_idempotence": True,
            "allow_auto_create_topics": False,
            "metrics_enabled": False,
            "compression_type": self._compression(),
            "max_request_size": REQUEST_BYTES_MAX,
            "linger_ms": LINGER_MS,
            "request_timeout_ms": _ms(self.request_timeout_s),
            "delivery_timeout_ms": max(_ms(self.delivery_timeout_s), _ms(self.request_timeout_s) + LINGER_MS),
            "max_block_ms": _ms(self.block_timeout_s),
        }

    def _compression(self) -> str | None:
        packages = {"lz4": has_lz4, "zstd": has_zstd}
        if self.compression in packages and not packages[self.compression]():
            raise ConfigError(f"Compression by {self.compression} needs its Python package; use gzip or install it.")
        return None if self.compression == "none" else self.compression


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
