"""A reader of one partition on kafka-python."""

from typing import Any

from kafka import KafkaConsumer
from kafka.errors import KafkaTimeoutError
from kafka.structs import TopicPartition

from agent.log.kafka.python.arguments import reading
from agent.log.kafka.python.records import batch_of, take_quickly
from agent.log.kafka.settings import KafkaSettings, milliseconds
from processors.contracts.log import Batch

CLOSE_TIMEOUT_MS = 500


class PythonReader:
    """Reads one partition by hand."""

    def __init__(self, settings: KafkaSettings, topic: str, partition: int, *, committed: bool) -> None:
        self._timeout_ms = milliseconds(settings.read_timeout_s)
        self._partition = TopicPartition(topic, partition)
        self._consumer = KafkaConsumer(**reading(settings, committed=committed))
        take_quickly(self._consumer)
        self._consumer.assign([self._partition])

    def beginning(self) -> int:
        """Return the first offset that is still there."""
        offsets: dict[Any, int] = self._consumer.beginning_offsets([self._partition])
        return offsets[self._partition]

    def end(self) -> int:
        """Return the offset after the last record that this reader may see."""
        offsets: dict[Any, int] = self._consumer.end_offsets([self._partition])
        return offsets[self._partition]

    def seek(self, offset: int) -> None:
        """Read on from an offset."""
        self._consumer.seek(self._partition, offset)

    def position(self) -> int:
        """Return the next offset to read, past what transactions hide."""
        position: int | None = self._consumer.position(self._partition, timeout_ms=self._timeout_ms)
        if position is None:
            raise KafkaTimeoutError("the position could not be found")
        return position

    def poll(self, timeout_s: float) -> Batch | None:
        """Return the next records; None where none came in time."""
        records = self._consumer.poll(timeout_ms=milliseconds(timeout_s)).get(self._partition)
        return batch_of(self._partition, records, self.position()) if records else None

    def close(self) -> None:
        """Free the connections."""
        self._consumer.close(autocommit=False, timeout_ms=CLOSE_TIMEOUT_MS)
