"""The connection to the broker: its settings, and retries while the broker is unreachable."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tenacity import Retrying, retry_if_exception_type, sleep_using_event, stop_when_event_set, wait_exponential_jitter

from agent.app.logs import limit_libraries
from agent.config.topics import own_topics, source_topics
from agent.config.tree import Config
from agent.log.kafka.client import KafkaLogSettings, KafkaSecurity, SecurityProtocol
from agent.log.kafka.log import KafkaLog
from processors.contracts.errors import UnavailableError
from processors.contracts.log import Log

PROTOCOLS: Final[dict[str, SecurityProtocol]] = {
    "plaintext": "PLAINTEXT",
    "tls": "SSL",
    "sasl_plaintext": "SASL_PLAINTEXT",
    "sasl_tls": "SASL_SSL",
}


def kafka_settings(config: Config) -> KafkaLogSettings:
    configured = config.kafka.security
    security = KafkaSecurity(
        protocol=PROTOCOLS[configured.protocol],
        mechanism=configured.mechanism,
        username=configured.username,
        password=configured.password.get_secret_value() if configured.password else None,
        ca_file=configured.ca_file,
        certificate_file=configured.cert_file,
        key_file=configured.key_file,
    )
    return KafkaLogSettings(
        bootstrap=config.kafka.bootstrap,
        client=config.kafka.client,
        client_id=config.topics.prefix,
        security=security,
        state_topic=config.topics.state,
        written_topics=tuple(topic.name for topic in (*own_topics(config), *source_topics(config))),
        compression=config.kafka.compression,
        replication_factor=config.topics.replication,
        checkpoint_timeout_s=config.learner.deadline_s,
        session_timeout_s=config.kafka.session_timeout_s,
    )


@contextmanager
def connected(config: Config) -> Iterator[Log]:
    """Yield the log on the broker, and close the log at the end. The log connects at the first request."""
    limit_libraries()  # so that a command prints one sentence instead of a line for each connection attempt
    log = KafkaLog(kafka_settings(config))
    try:
        yield log
    finally:
        log.close()


def until_available(
    work: Callable[[], object],
    stop: threading.Event,
    again_max_s: float,
    before_sleep: Callable[[Any], None] | None = None,
) -> bool:
    """Call `work` until it raises no UnavailableError, at intervals that grow up to `again_max_s`; return False as soon as `stop` is set."""
    attempts = Retrying(
        retry=retry_if_exception_type(UnavailableError),
        wait=wait_exponential_jitter(initial=1, max=again_max_s),
        stop=stop_when_event_set(stop),
        sleep=sleep_using_event(stop),
        before_sleep=before_sleep,
        reraise=True,
    )
    try:
        attempts(work)
    except UnavailableError:
        if not stop.is_set():
            raise
        return False
    return True
