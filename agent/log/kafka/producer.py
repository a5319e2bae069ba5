"""A producer on Kafka: a bounded queue, and every acknowledgement checked."""

from agent.log.kafka.client import KafkaSettings, NotQueuedError, client_of, translate, translated
from processors.contracts.errors import ScalewatchError, UnavailableError
from processors.contracts.log import check_record


class KafkaLogProducer:
    """Sends in the background. After any failed write it is dead: its later records could be taken for repeats.

    When the queue is full, `send` waits for an acknowledgement, at most `block_timeout_s`.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._client = client_of(settings)
        self._death: ScalewatchError | None = None
        with translated(self._client, "Making a producer"):
            self._writer = self._client.record_writer()

    @property
    def closed(self) -> bool:
        """Return whether it was closed, or died of an error."""
        return self._death is not None

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Queue a record. Raises UnavailableError, or ValueError where a broker would never take it."""
        if self._death is not None:
            self._refuse()
        check_record(topic, value, key)
        if timestamp_ms is None:
            timestamp_ms = self._settings.stamp_ms()
        try:
            while not self._writer.offer(topic, value, key, partition, timestamp_ms):
                self._make_room()
        except NotQueuedError as error:
            cause = error.__cause__ or error
            raise translate(self._client, cause, f"Writing to {topic}") from cause
        except UnavailableError:
            raise
        except Exception as error:
            raise self._die(translate(self._client, error, f"Writing to {topic}")) from error

    def flush(self, timeout_s: float) -> None:
        """Wait for every acknowledgement. Raises UnavailableError: the producer is then dead."""
        if self._death is not None:
            self._refuse()
        try:
            self._writer.flush(timeout_s)
        except Exception as error:
            raise self._die(translate(self._client, error, "Flushing")) from error

    def close(self) -> None:
        """Give up what is queued and free the connections."""
        if self._death is None:
            self._die(UnavailableError("The producer is closed."))

    def _make_room(self) -> None:
        if not self._writer.settle(self._settings.block_timeout_s):
            count = self._writer.unacknowledged()
            raise UnavailableError(f"The queue is full: {count} records are not acknowledged.")

    def _refuse(self) -> None:
        raise UnavailableError(f"The producer cannot be used any more. {self._death}")

    def _die(self, reason: ScalewatchError) -> ScalewatchError:
        self._death = UnavailableError(str(reason))
        self._writer.give_up()
        return self._death
