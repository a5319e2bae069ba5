"""A reader of one partition on confluent-kafka."""

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from agent.log.kafka.confluent.arguments import reading
from agent.log.kafka.confluent.consumer import bounds, columns, known
from agent.log.kafka.faults import within
from agent.log.kafka.settings import KafkaSettings
from processors.contracts.log import Batch

CLOSE_S = 1.0


class ConfluentReader:
    """Reads one partition by hand."""

    def __init__(self, settings: KafkaSettings, topic: str, partition: int, *, committed: bool) -> None:
        self._timeout_s, self._records_max = settings.request_timeout_s, settings.poll_records_max
        self._topic, self._partition = topic, partition
        self._offset = 0
        self._consumer = Consumer(reading(settings, committed=committed))

    def beginning(self) -> int:
        """Return the first offset that is still there."""
        return self._bounds()[0]

    def end(self) -> int:
        """Return the offset after the last record that this reader may see."""
        return self._bounds()[1]

    def seek(self, offset: int) -> None:
        """Read on from an offset."""
        self._offset = offset
        self._consumer.assign([self._place(offset)])

    def position(self) -> int:
        """Return the next offset to read, past what transactions hide."""
        return max(self._offset, known(self._consumer.position([self._place()])[0]) or 0)

    def poll(self, timeout_s: float) -> Batch | None:
        """Return the next records; None where none came in time."""
        first = self._consumer.poll(timeout_s)
        if first is None:
            return None
        batches, failure = columns(self._consumer, [first, *self._consumer.consume(self._records_max - 1, 0.0)])
        if failure is not None and failure.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:  # it uses no group
            raise KafkaException(failure)
        return batches[0] if batches else None

    def close(self) -> None:
        """Free the connections."""
        within(CLOSE_S, self._consumer.close, "Closing a reader")

    def _bounds(self) -> tuple[int, int]:
        return bounds(self._consumer, (self._topic, self._partition), self._timeout_s)

    def _place(self, offset: int = -1) -> ClientPartition:
        return ClientPartition(self._topic, self._partition, offset)
