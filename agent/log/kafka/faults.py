"""What a client's errors are to us, with a sentence for a person; and calls that have to end in time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Final, TypeVar

from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from agent.log.kafka.client import Client, Fault, Meaning
from agent.log.kafka.settings import KafkaSettings
from agent.log.kafka.tls import refusal
from processors.contracts.errors import FencedError, RebalancingError, ScalewatchError, UnavailableError

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
