"""The settings of the log as configuration of librdkafka, the library below confluent-kafka, and the meaning of its errors."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from agent.log.kafka.client import (
    FIRST_READ,
    ISOLATION,
    LINGER_MS,
    REQUEST_BYTES_MAX,
    WAIT_MS,
    Fault,
    KafkaLogSettings,
    KafkaSecurity,
    milliseconds,
)
from processors.contracts.errors import ConfigError, FencedError, RebalancingError, UnavailableError

LOGGER: Final = logging.getLogger("confluent_kafka")
LOG_EVERYTHING, LOG_NOTHING = 7, 0  # without a logger, librdkafka writes to standard error
BATCH_BYTES: Final = 1_000_000  # librdkafka's default
SOCKET_MS_MAX, SETUP_MS_MIN = 300_000, 1000  # limits set by librdkafka
RECONNECT_MS_MAX: Final = 2000  # librdkafka's default of ten seconds would delay the first records after an outage
FETCH_BACKOFF_MS: Final = 10  # librdkafka's default of one second would leave the queue empty for so long
FETCHES_AHEAD: Final = 10  # number of polls whose records are fetched ahead


def connection(settings: KafkaLogSettings, purpose: str) -> dict[str, Any]:
    """Return the configuration of every client; `purpose` becomes part of the client.id."""
    return {
        "bootstrap.servers": settings.bootstrap,
        "client.id": settings.client_id_for(purpose),
        "socket.timeout.ms": min(settings.request_ms, SOCKET_MS_MAX),
        "socket.connection.setup.timeout.ms": max(milliseconds(settings.bootstrap_timeout_s), SETUP_MS_MIN),
        "reconnect.backoff.max.ms": RECONNECT_MS_MAX,
        "allow.auto.create.topics": False,
        **_log(),
        **_security(settings.security),
    }


def producing(settings: KafkaLogSettings, purpose: str) -> dict[str, Any]:
    """Return the configuration of every producer: acknowledgement by all replicas, and idempotent retries."""
    return {
        **connection(settings, purpose),
        "acks": "all",
        "enable.idempotence": True,
        "compression.type": settings.compression,
        "message.max.bytes": REQUEST_BYTES_MAX,
        "batch.size": min(BATCH_BYTES, settings.batch_bytes_max),
        "linger.ms": LINGER_MS,
        "request.timeout.ms": settings.request_ms,
        "delivery.timeout.ms": settings.delivery_ms,
        "queue.buffering.max.messages": settings.queue_records_max,
        "queue.buffering.max.kbytes": max(1, settings.queue_bytes_max >> 10),
        # librdkafka's default partitioner assigns keys to other partitions than kafka-python and Java do
        "partitioner": "murmur2_random",
    }


def transactional(settings: KafkaLogSettings, purpose: str, transactional_id: str) -> dict[str, Any]:
    timeout_ms = milliseconds(settings.transaction_timeout_s)
    arguments = producing(settings, purpose)
    # librdkafka refuses longer values
    arguments["delivery.timeout.ms"] = min(arguments["delivery.timeout.ms"], timeout_ms)
    return {**arguments, "transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms}


def consuming(settings: KafkaLogSettings, purpose: str, group: str) -> dict[str, Any]:
    """Return the configuration of every consumer: committed records only, no automatic commit, bounded memory."""
    return {
        **connection(settings, purpose),
        "group.id": group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "isolation.level": ISOLATION[True],
        "check.crcs": True,
        "fetch.queue.backoff.ms": FETCH_BACKOFF_MS,
        "queued.min.messages": FETCHES_AHEAD * settings.poll_records_max,
        "queued.max.messages.kbytes": settings.fetched_bytes_max >> 10,
        "fetch.max.bytes": settings.fetched_bytes_max,
        "topic.metadata.refresh.interval.ms": milliseconds(settings.metadata_age_s),
        "metadata.max.age.ms": 3 * milliseconds(settings.metadata_age_s),
    }


def reading(settings: KafkaLogSettings, *, committed: bool) -> dict[str, Any]:
    """Return the configuration of a reader of one partition, which joins no group although librdkafka requires a group.id."""
    return {
        **consuming(settings, "reader", settings.client_id_for("reader")),
        "isolation.level": ISOLATION[committed],
        "auto.offset.reset": FIRST_READ[True],
        "fetch.wait.max.ms": WAIT_MS,
    }


def joining(settings: KafkaLogSettings, group: str, member: str, *, from_beginning: bool) -> dict[str, Any]:
    """Return the configuration of a group member, with kafka-python's assignment strategies so that both libraries can share a group."""
    return {
        **consuming(settings, member, group),
        "auto.offset.reset": FIRST_READ[from_beginning],
        "partition.assignment.strategy": "range,roundrobin",
        "session.timeout.ms": settings.session_ms,
        "heartbeat.interval.ms": settings.heartbeat_ms,
        "max.poll.interval.ms": settings.work_ms,
    }


def _log() -> dict[str, Any]:
    if LOGGER.isEnabledFor(logging.WARNING):
        return {"logger": LOGGER, "log_level": LOG_EVERYTHING}
    return {"log_level": LOG_NOTHING}


def _security(security: KafkaSecurity) -> dict[str, Any]:
    security.check()
    files = {
        "ssl.ca.location": security.ca_file,
        "ssl.certificate.location": security.certificate_file,
        "ssl.key.location": security.key_file,
    }
    used_files = {name: file for name, file in files.items() if file is not None and security.encrypted}
    missing = [file for file in used_files.values() if not Path(file).is_file()]
    if missing:
        raise ConfigError(f"The certificate files {', '.join(missing)} cannot be used: they do not exist.")
    login = {
        "sasl.mechanism": security.mechanism,
        "sasl.username": security.username,
        "sasl.password": security.password,
    }
    return {"security.protocol": security.protocol, **used_files, **(login if security.mechanism else {})}


ERRORS: Final = {
    KafkaError.FENCED_INSTANCE_ID: FencedError,
    KafkaError.INVALID_PRODUCER_EPOCH: FencedError,
    KafkaError.PRODUCER_FENCED: FencedError,
    KafkaError._FENCED: FencedError,  # noqa: SLF001 - its public name
    KafkaError.ILLEGAL_GENERATION: RebalancingError,
    KafkaError.REBALANCE_IN_PROGRESS: RebalancingError,
    KafkaError.UNKNOWN_MEMBER_ID: RebalancingError,
    KafkaError._ASSIGNMENT_LOST: RebalancingError,  # noqa: SLF001 - see above
}
UNREACHABLE: Final = (
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001 - see above
    KafkaError._AUTHENTICATION,  # noqa: SLF001 - see above
    KafkaError._RESOLVE,  # noqa: SLF001 - see above
    KafkaError._SSL,  # noqa: SLF001 - see above
    KafkaError._TRANSPORT,  # noqa: SLF001 - see above
    KafkaError.SASL_AUTHENTICATION_FAILED,
)
FORBIDDEN: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "a topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "a consumer group",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "a transactional id",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "this",
}


NO_COORDINATOR: Final = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)
# errors about a partition or group that was just created or moved; librdkafka passes these errors on
UNSETTLED: Final = (
    *NO_COORDINATOR,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - see above
)
UNSETTLED_S: Final = 5.0
AGAIN_S: Final = 0.1
T = TypeVar("T")


def settled(ask: Callable[[], T]) -> T:
    """Call `ask` until it succeeds; for UNSETTLED_S seconds, ignore errors of a broker that does not know a recent change yet."""
    retrying = Retrying(
        retry=retry_if_exception(lambda error: code_of(error) in UNSETTLED),
        stop=stop_after_delay(UNSETTLED_S),
        wait=wait_fixed(AGAIN_S),
        reraise=True,
    )
    return retrying(ask)


class RecordsFailedError(Exception):
    """Records were not acknowledged in time, and the library reported no cause."""


class NoBrokerError(Exception):
    """No broker returned metadata; the text is the last known reason."""


def code_of(error: BaseException) -> int | None:
    """Return the code of the library's error inside an exception; None for exceptions without a code."""
    kafka_error = _error_of(error)
    return None if kafka_error is None else kafka_error.code()


def _error_of(error: BaseException) -> KafkaError | None:
    raised = error.__cause__ if isinstance(error, SystemError) and error.__cause__ else error
    kafka_error = raised.args[0] if isinstance(raised, KafkaException) and raised.args else None
    return kafka_error if isinstance(kafka_error, KafkaError) else None


def fault_of(error: BaseException) -> Fault:
    kafka_error = _error_of(error)
    if isinstance(error, NoBrokerError):
        return Fault(str(error), unreachable=True)
    if kafka_error is None:
        text = str(error).partition("\n")[0]
        return Fault(f"{type(error).__name__}: {text}" if text else type(error).__name__)
    code, reason = kafka_error.code(), f"{kafka_error.name()}: {kafka_error.str()}"
    return Fault(reason, ERRORS.get(code, UnavailableError), code in UNREACHABLE, FORBIDDEN.get(code, ""))
