"""What the errors of confluent-kafka mean."""

from typing import Final

from confluent_kafka import KafkaError, KafkaException

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
