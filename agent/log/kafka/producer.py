"""A producer on Kafka: a bounded queue, and every acknowledgement checked."""

from collections import deque
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaTimeoutError

from agent.log.kafka.connection import KafkaSettings, give_up, translate, translated
from processors.contracts.errors import ScalewatchError, UnavailableError
from processors.contracts.log import check_record


class KafkaLogProducer:
    """Sends in the background. After any failed write it is dead: its later records could be taken for repeats.

    The client has no bound on its memory. So the records that are not yet acknowledged are counted here, and `send`
    waits for the oldest when there are too many, at most `block_timeout_s`.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._unacknowledged: deque[tuple[Any, int]] = deque()
        self._queued_bytes = 0
        self._death: ScalewatchError | None = None
        with translated(settings, "Making a producer"):
            self._producer = KafkaProducer(**settings.producing("producer"))

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
        self._check_alive()
        size_bytes = check_record(topic, value, key)
        if self._full():
            self._make_room()
        try:
            future = self._producer.send(topic, value, key, partition=partition, timestamp_ms=timestamp_ms)
        except KafkaTimeoutError as error:  # nothing is known of the topic, and nothing was queued
            raise translate(error, self._settings, f"Writing to {topic}") from error
        except Exception as error:
            raise self._die(translate(error, self._settings, f"Writing to {topic}")) from error
        self._unacknowledged.append((future, size_bytes))
        self._queued_bytes += size_bytes

    def flush(self, timeout_s: float) -> None:
        """Wait for every acknowledgement. Raises UnavailableError: the producer is then dead."""
        self._check_alive()
        try:
            self._producer.flush(timeout_s)
        except Exception as error:
            raise self._die(translate(error, self._settings, "Flushing")) from error
        while self._unacknowledged:
            self._acknowledge(0.0)

    def close(self) -> None:
        """Give up what is queued and free the connections."""
        if self._death is None:
            self._die(UnavailableError("The producer is closed."))

    def _full(self) -> bool:
        too_many = len(self._unacknowledged) >= self._settings.queue_records_max
        return too_many or self._queued_bytes >= self._settings.queue_bytes_max

    def _make_room(self) -> None:
        while self._unacknowledged and (self._full() or self._unacknowledged[0][0].is_done):
            self._acknowledge(self._settings.block_timeout_s)

    def _acknowledge(self, timeout_s: float) -> None:
        future, size_bytes = self._unacknowledged[0]
        try:
            future.get(timeout_s)
        except KafkaTimeoutError as error:
            if future.is_done:  # the record itself has timed out
                raise self._die(translate(error, self._settings, "Writing")) from error
            count = len(self._unacknowledged)
            raise UnavailableError(f"The queue is full: {count} records are not acknowledged.") from error
        except Exception as error:
            raise self._die(translate(error, self._settings, "Writing")) from error
        self._unacknowledged.popleft()
        self._queued_bytes -= size_bytes

    def _check_alive(self) -> None:
        if self._death is not None:
            raise UnavailableError(f"The producer cannot be used any more. {self._death}")

    def _die(self, reason: ScalewatchError) -> ScalewatchError:
        self._death = UnavailableError(str(reason))
        self._unacknowledged.clear()
        self._queued_bytes = 0
        give_up(self._producer)
        return self._death
