"""What the errors of confluent-kafka mean."""

from collections.abc import Callable
from typing import Final, TypeVar

from confluent_kafka import KafkaError, KafkaException
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from agent.log.kafka.client import Fault, Meaning

FENCED: Final = frozenset(
    {KafkaError.FENCED_INSTANCE_ID, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED, KafkaError._FENCED}  # noqa: SLF001 - its public names
)
REBALANCED: Final = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError._ASSIGNMENT_LOST,  # noqa: SLF001 - see above
    }
)
UNREACHABLE: Final = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001 - see above
        KafkaError._AUTHENTICATION,  # noqa: SLF001 - see above
        KafkaError._RESOLVE,  # noqa: SLF001 - see above
        KafkaError._SSL,  # noqa: SLF001 - see above
        KafkaError._TRANSPORT,  # noqa: SLF001 - see above
        KafkaError.SASL_AUTHENTICATION_FAILED,
    }
)
FORBIDDEN: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "a topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "a consumer group",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "a transactional id",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "this",
}


# what a broker says of a partition or a group that was just made, or has just moved; the library passes it on
UNSETTLED: Final = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - see above
    }
)
UNSETTLED_S: Final = 5.0
AGAIN_S: Final = 0.1
T = TypeVar("T")


def settled(ask: Callable[[], T]) -> T:
    """Ask until the broker knows what it has just been told of, for some seconds; then raise what it says."""
    again = Retrying(
        retry=retry_if_exception(lambda error: code_of(error) in UNSETTLED),
        stop=stop_after_delay(UNSETTLED_S),
        wait=wait_fixed(AGAIN_S),
        reraise=True,
    )
    return again(ask)


class RecordsFailedError(Exception):
    """Records were not acknowledged in time, and no error says why."""


class NoBrokerError(Exception):
    """No broker said who it is; the text is the last reason, if any."""


def code_of(error: BaseException) -> int | None:
    """Return the code of the library's error within an exception; None where it is another exception."""
    found = _error_of(error)
    return None if found is None else found.code()


def _error_of(error: BaseException) -> KafkaError | None:
    raised = error.__cause__ if isinstance(error, SystemError) and error.__cause__ else error
    found = raised.args[0] if isinstance(raised, KafkaException) and raised.args else None
    return found if isinstance(found, KafkaError) else None


def fault_of(error: BaseException) -> Fault:
    """Return what an error means."""
    found = _error_of(error)
    if isinstance(error, NoBrokerError):
        return Fault(Meaning.UNREACHABLE, str(error))
    if found is None:
        text = str(error).partition("\n")[0]
        return Fault(Meaning.OTHER, f"{type(error).__name__}: {text}" if text else type(error).__name__)
    code, reason = found.code(), f"{found.name()}: {found.str()}"
    if code in FORBIDDEN:
        return Fault(Meaning.FORBIDDEN, reason, FORBIDDEN[code])
    for meaning, codes in (
        (Meaning.FENCED, FENCED),
        (Meaning.REBALANCED, REBALANCED),
        (Meaning.UNREACHABLE, UNREACHABLE),
    ):
        if code in codes:
            return Fault(meaning, reason)
    return Fault(Meaning.OTHER, reason)
