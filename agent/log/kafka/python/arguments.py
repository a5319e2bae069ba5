"""The settings of the log as arguments for kafka-python's clients."""

from typing import Any, Final

from kafka.codec import has_lz4, has_zstd

from agent.log.kafka.client import (
    FIRST_READ,
    ISOLATION,
    LINGER_MS,
    REQUEST_BYTES_MAX,
    WAIT_MS,
    KafkaLogSettings,
    KafkaSecurity,
    context_of,
    milliseconds,
)
from processors.contracts.errors import ConfigError

# a batch costs the client 0.7 ms: at its default size of 16 kB, batches cost more than their records
BATCH_BYTES: Final = 64 << 10
FRAME_BYTES_MAX: Final = 128 << 20  # the client's default of 1 MB is less than one partition may return


def connection(settings: KafkaLogSettings, purpose: str) -> dict[str, Any]:
    """Return the arguments of every client; `purpose` becomes part of the client.id."""
    return {
        "bootstrap_servers": settings.bootstrap.split(","),
        "client_id": settings.client_id_for(purpose),
        "api_version_auto_timeout_ms": milliseconds(settings.bootstrap_timeout_s),
        "receive_message_max_bytes": FRAME_BYTES_MAX,
        **_security(settings.security),
    }


def producing(settings: KafkaLogSettings, purpose: str) -> dict[str, Any]:
    """Return the arguments of every producer: acknowledgement by all replicas, and idempotent retries."""
    return {
        **connection(settings, purpose),
        "acks": "all",
        "enable_idempotence": True,
        "allow_auto_create_topics": False,
        "metrics_enabled": False,
        "compression_type": _compression(settings),
        "max_request_size": REQUEST_BYTES_MAX,
        "batch_size": min(BATCH_BYTES, settings.batch_bytes_max),
        "linger_ms": LINGER_MS,
        "request_timeout_ms": settings.request_ms,
        "delivery_timeout_ms": settings.delivery_ms,
        "max_block_ms": milliseconds(settings.block_timeout_s),
    }


def transactional(settings: KafkaLogSettings, purpose: str, transactional_id: str) -> dict[str, Any]:
    return {
        **producing(settings, purpose),
        "transactional_id": transactional_id,
        "transaction_timeout_ms": milliseconds(settings.transaction_timeout_s),
    }


def consuming(settings: KafkaLogSettings, purpose: str) -> dict[str, Any]:
    """Return the arguments of every consumer: committed records only, and no automatic commit."""
    return {
        **connection(settings, purpose),
        "enable_auto_commit": False,
        "isolation_level": ISOLATION[True],
        "allow_auto_create_topics": False,
        "metrics_enabled": False,
        "max_poll_records": settings.poll_records_max,
        "metadata_max_age_ms": milliseconds(settings.metadata_age_s),
    }


def reading(settings: KafkaLogSettings, *, committed: bool) -> dict[str, Any]:
    return {
        **consuming(settings, "reader"),
        "isolation_level": ISOLATION[committed],
        "auto_offset_reset": FIRST_READ[True],
        "request_timeout_ms": settings.request_ms,
        "fetch_max_wait_ms": WAIT_MS,
    }


def joining(settings: KafkaLogSettings, group: str, member: str, *, from_beginning: bool) -> dict[str, Any]:
    return {
        **consuming(settings, member),
        "group_id": group,
        "auto_offset_reset": FIRST_READ[from_beginning],
        "session_timeout_ms": settings.session_ms,
        "heartbeat_interval_ms": settings.heartbeat_ms,
        "max_poll_interval_ms": settings.work_ms,
        "request_timeout_ms": settings.work_ms + 5000,  # a group join may wait for the poll of the slowest member
        "connections_max_idle_ms": settings.work_ms + 240_000,
    }


def _security(security: KafkaSecurity) -> dict[str, Any]:
    security.check()
    login = {
        "sasl_mechanism": security.mechanism,
        "sasl_plain_username": security.username,
        "sasl_plain_password": security.password,
    }
    context = {"ssl_context": context_of(security)} if security.encrypted else {}
    return {"security_protocol": security.protocol, **context, **(login if security.mechanism else {})}


def _compression(settings: KafkaLogSettings) -> str | None:
    packages = {"lz4": has_lz4, "zstd": has_zstd}
    if settings.compression in packages and not packages[settings.compression]():
        raise ConfigError(
            f"Compression by {settings.compression} needs its Python package: install the package, or use gzip."
        )
    return None if settings.compression == "none" else settings.compression
