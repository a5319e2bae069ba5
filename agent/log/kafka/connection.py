"""Clients of kafka-python: how they are made, and what their errors mean to us."""

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any, Literal, TypeVar

import msgspec
from kafka import errors
from kafka.client_async import KafkaClient
from kafka.codec import has_lz4, has_zstd
from kafka.structs import TopicPartition
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from processors.contracts.errors import ConfigError, FencedError, ScalewatchError, UnavailableError
from processors.contracts.log import Batch

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Compression = Literal["none", "gzip", "lz4", "zstd"]
REQUEST_BYTES_MAX = 1 << 20
LINGER_MS = 5  # a record waits so long for others, unless somebody flushes: a request for each costs more than the rest
FRAME_BYTES_MAX = 128 << 20  # the client's own limit of 1 MB is less than what one partition may answer
FENCED = (
    errors.CommitFailedError,
    errors.FencedInstanceIdError,
    errors.IllegalGenerationError,
    errors.InvalidProducerEpochError,
    errors.ProducerFencedError,
    errors.UnknownMemberIdError,
)
NO_CONNECTION = (errors.NoBrokersAvailable, errors.KafkaConnectionError, ssl.SSLError)
GIVE_UP_S = 1.0
ASK_AGAIN_S = 0.2
Result = TypeVar("Result")


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
                context.load_cert_chain(self.certificate_file, self.key_file)
        except OSError as error:  # also of a file that holds something else
            files = ", ".join(one for one in (self.ca_file, self.certificate_file, self.key_file) if one is not None)
            raise ConfigError(f"The certificate files {files} cannot be used: {error}.") from error
        return context


class KafkaSettings(msgspec.Struct, frozen=True):
    """Everything that the Kafka log has to know. Every default is here."""

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


@contextmanager
def translated(settings: KafkaSettings, doing: str) -> Iterator[None]:
    """Turn whatever the client raises into FencedError or UnavailableError, with a sentence for a person."""
    try:
        yield
    except ScalewatchError:
        raise
    except Exception as error:  # the client also raises AssertionError and AttributeError while it is closed
        raise translate(error, settings, doing) from error


def translate(error: BaseException, settings: KafkaSettings, doing: str) -> ScalewatchError:
    """Return our error for one of the client."""
    if isinstance(error, NO_CONNECTION):
        return UnavailableError(unreachable(settings, error))
    for one in (error, *error.args):
        if isinstance(one, errors.AuthorizationError):
            return UnavailableError(forbidden(settings, doing, one))
    name, text = type(error).__name__, str(error).partition("\n")[0]
    reason = text if name in text else f"{name}: {text}" if text else name
    message = f"{doing} failed at {settings.bootstrap}: {reason.rstrip('.')}."
    # of a write that comes after the one that failed, the client hands the cause on as an argument
    fenced = any(isinstance(one, FENCED) for one in (error, *error.args))
    return FencedError(message) if fenced else UnavailableError(message)


def forbidden(settings: KafkaSettings, doing: str, error: BaseException) -> str:
    """Return what to do where the broker's authorizer refuses something."""
    what = next((kind for kind in ("Topic", "Group", "TransactionalId") if kind in type(error).__name__), "Cluster")
    kind = {"Topic": "a topic", "Group": "a consumer group", "TransactionalId": "a transactional id"}.get(what, "this")
    names = error.args[0] if error.args and isinstance(error.args[0], (list, tuple, set, frozenset)) else ()
    named = f" ({', '.join(sorted(map(str, names))[:5])})" if names else ""
    user = settings.security.username or "without a log-in"
    return (
        f"{doing} failed at {settings.bootstrap}: the agent's user ({user}) has no right to {kind}{named}. "
        "`scalewatch topics --acls` prints the rights that it needs."
    )


def unreachable(settings: KafkaSettings, cause: BaseException | None = None) -> str:
    """Return what to check when no broker can be talked to: the client says the same for nearly every cause."""
    tls = (
        ", and that the CA file has signed the broker's certificate"
        if settings.security.protocol.endswith("SSL")
        else ""
    )
    login = ", the user and password" if settings.security.mechanism else " without a password"
    seen = f" The last error was: {cause}." if cause is not None and str(cause) != type(cause).__name__ else ""
    return (
        f"No Kafka broker could be reached at {settings.bootstrap} ({settings.security.described}) within "
        f"{settings.bootstrap_timeout_s:g} s: check the address and port, that this listener speaks "
        f"{settings.security.protocol}{login}{tls}.{seen}"
    )


def check_reachable(settings: KafkaSettings) -> None:
    """Ask the cluster who it is, until it names a broker. Raises UnavailableError.

    The client's constructors return although a login is wrong or missing, and then wait in silence for ever. A broker
    that was out of its controller's sight for a moment answers, but names no broker, not even itself.
    """
    until_one_is_named = Retrying(
        retry=retry_if_result(lambda answer: isinstance(answer.exception, errors.MetadataEmptyBrokerList)),
        wait=wait_fixed(ASK_AGAIN_S),
        stop=stop_after_delay(settings.bootstrap_timeout_s),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
    )
    with translated(settings, "Connecting"):
        client = KafkaClient(**settings.connection("check"))
        try:
            answer = until_one_is_named(_who_is_there, client, settings.bootstrap_timeout_s)
        finally:
            client.close()
    if not (answer.is_done and answer.succeeded()):
        raise UnavailableError(unreachable(settings, answer.exception if answer.is_done else None))


def _who_is_there(client: Any, timeout_s: float) -> Any:
    answer = client.cluster.request_update()
    client.poll(future=answer, timeout_ms=round(timeout_s * 1000))
    return answer


def within(timeout_s: float, call: Callable[[], Result], doing: str) -> Result:
    """Call in a thread and wait at most so long: transactional calls may never return once a broker has died.

    Raises UnavailableError at the deadline; the thread is then left to itself, so its producer has to be given up.
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


def give_up(producer: Any) -> None:
    """End a producer without writing what it still holds: a plain close would wait, and write it later.

    The client has no public way to do this, and its own forced end fails on a batch that is under way, before the
    connections are closed. Nobody looks at the futures of that batch any more, so nothing has to be told to them.
    """
    sender = producer._sender  # noqa: SLF001 - see above
    sender._accumulator.abort_incomplete_batches = lambda: None  # noqa: SLF001 - see above
    with suppress(OSError):  # it is told at last by its socket, which it may have closed by then
        sender.force_close()
    sender.join(GIVE_UP_S)
    producer._unregister_cleanup()  # noqa: SLF001 - it would flush once more at the end of the process
    producer._closed = True  # noqa: SLF001 - and once more when it is collected


def batch_of(partition: TopicPartition, records: list[Any], next_offset: int) -> Batch:
    """Return the client's records as columns."""
    return Batch(
        topic=partition.topic,
        partition=partition.partition,
        next_offset=next_offset,
        offsets=[record.offset for record in records],
        values=[record.value for record in records],
        keys=[record.key for record in records],
        timestamps_ms=[record.timestamp for record in records],
    )
