"""Clients of kafka-python: how they are made, and what their errors mean to us."""

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any, TypeVar

from kafka import errors
from kafka.client_async import KafkaClient
from kafka.structs import TopicPartition

from agent.contracts.errors import FencedError, ScalewatchError, UnavailableError
from agent.contracts.log import Batch
from agent.log.kafka_settings import KafkaSettings

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
Result = TypeVar("Result")


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
    """Return our error for one of the client.

    >>> translate(errors.KafkaTimeoutError(), KafkaSettings(bootstrap="kafka:9092"), "Flushing")
    UnavailableError('Flushing failed at kafka:9092: KafkaTimeoutError.')

    Of a write that comes after the one that failed, the client hands the cause on as an argument:

    >>> later = errors.KafkaError("An earlier request has failed.", errors.InvalidProducerEpochError())
    >>> type(translate(later, KafkaSettings(bootstrap="kafka:9092"), "Saving")).__name__
    'FencedError'
    """
    if isinstance(error, NO_CONNECTION):
        return UnavailableError(unreachable(settings, error))
    name, text = type(error).__name__, str(error).partition("\n")[0]
    said = text if name in text else f"{name}: {text}" if text else name
    sentence = f"{doing} failed at {settings.bootstrap}: {said.rstrip('.')}."
    fenced = any(isinstance(one, FENCED) for one in (error, *error.args))
    return FencedError(sentence) if fenced else UnavailableError(sentence)


def unreachable(settings: KafkaSettings, cause: BaseException | None = None) -> str:
    """Return what to check when no broker can be talked to: the client says the same for nearly every cause.

    >>> unreachable(KafkaSettings(bootstrap="kafka:9092")).partition(":9092")[0]
    'No Kafka broker could be reached at kafka'
    """
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
    """Ask the cluster who it is. Raises UnavailableError.

    The client's constructors return although a login is wrong or missing, and then wait in silence for ever.
    """
    with translated(settings, "Connecting"):
        client = KafkaClient(**settings.connection("check"))
        try:
            answer = client.cluster.request_update()
            client.poll(future=answer, timeout_ms=round(settings.bootstrap_timeout_s * 1000))
        finally:
            client.close()
    if not (answer.is_done and answer.succeeded()):
        raise UnavailableError(unreachable(settings, answer.exception if answer.is_done else None))


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
    sender._accumulator.abort_incomplete_batches = _do_nothing  # noqa: SLF001 - see above
    with suppress(OSError):  # it is told at last by its socket, which it may have closed by then
        sender.force_close()
    sender.join(GIVE_UP_S)
    producer._unregister_cleanup()  # noqa: SLF001 - it would flush once more at the end of the process
    producer._closed = True  # noqa: SLF001 - and once more when it is collected


def _do_nothing() -> None:
    pass


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
