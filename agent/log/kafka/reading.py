"""Reading one partition without a group: to its end, or one record of it."""

from collections.abc import Callable, Sequence
from contextlib import closing
from types import TracebackType
from typing import Any, Self

from kafka import KafkaConsumer
from kafka.structs import TopicPartition

from agent.log.kafka.connection import KafkaSettings, batch_of, translated
from processors.contracts.errors import UnavailableError
from processors.contracts.log import Batch, topic_pattern

POLL_MS = 200
WAIT_MS = 20  # how long the broker may wait for more before it answers; a checkpoint waits for this answer


def ends(settings: KafkaSettings, topics: Sequence[str]) -> dict[str, dict[int, int]]:
    """Return the ends of the partitions of each topic that is there, by name or regular expression."""
    arguments = settings.consuming("ends") | {"request_timeout_ms": round(settings.request_timeout_s * 1000)}
    with translated(settings, "Looking for the ends of the sources"), closing(KafkaConsumer(**arguments)) as consumer:
        names = list(filter(topic_pattern(topics).fullmatch, consumer.topics()))
        places = [TopicPartition(name, one) for name in names for one in consumer.partitions_for_topic(name) or ()]
        found: dict[str, dict[int, int]] = {name: {} for name in sorted(names)}
        for place, end in (consumer.end_offsets(places) if places else {}).items():
            found[place.topic][place.partition] = end
        return found


class KafkaReader:
    """Reads one partition by hand. With `committed` off it also sees what open and aborted transactions wrote."""

    def __init__(self, settings: KafkaSettings, topic: str, partition: int, *, committed: bool = True) -> None:
        self._settings = settings
        self._partition = TopicPartition(topic, partition)
        arguments = settings.consuming("reader")
        arguments["isolation_level"] = "read_committed" if committed else "read_uncommitted"
        arguments["auto_offset_reset"] = "earliest"
        arguments["request_timeout_ms"] = round(settings.request_timeout_s * 1000)
        arguments["fetch_max_wait_ms"] = WAIT_MS
        with translated(settings, f"Reading {topic}"):
            self._consumer = KafkaConsumer(**arguments)
            self._consumer.assign([self._partition])

    def beginning(self) -> int:
        """Return the first offset that is still there."""
        with translated(self._settings, f"Looking for the beginning of {self._partition.topic}"):
            offsets: dict[Any, int] = self._consumer.beginning_offsets([self._partition])
            return offsets[self._partition]

    def end(self) -> int:
        """Return the offset after the last record that this reader may see."""
        with translated(self._settings, f"Looking for the end of {self._partition.topic}"):
            offsets: dict[Any, int] = self._consumer.end_offsets([self._partition])
            return offsets[self._partition]

    def read(self, on_batch: Callable[[Batch], None], newest: int | None = None) -> int:
        """Read from the beginning, or only the `newest` offsets, to the present end and return that end."""
        end = self.end()
        with translated(self._settings, f"Reading {self._partition.topic}"):
            self._seek(end, newest)
            quiet_ms = 0
            while self._position() < end:
                records = self._poll()
                quiet_ms = 0 if records else quiet_ms + POLL_MS
                self._check_progress(quiet_ms, end)
                wanted = [record for record in records if record.offset < end]
                if wanted:
                    on_batch(batch_of(self._partition, wanted, min(self._position(), end)))
        return end

    def record_at(self, offset: int) -> Any:
        """Return the record with this offset, or None where the reader gets past it without seeing it."""
        with translated(self._settings, f"Reading {self._partition.topic}"):
            self._consumer.seek(self._partition, offset)
            quiet_ms = 0
            while self._position() <= offset:
                records = self._poll()
                quiet_ms = 0 if records else quiet_ms + POLL_MS
                self._check_progress(quiet_ms, offset)
                if records:
                    return records[0] if records[0].offset == offset else None
        return None

    def close(self) -> None:
        """Free the connections."""
        self._consumer.close(autocommit=False, timeout_ms=500)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _seek(self, end: int, newest: int | None) -> None:
        self._consumer.seek_to_beginning(self._partition)
        if newest is not None and self._position() < end - newest:
            self._consumer.seek(self._partition, end - newest)

    def _position(self) -> int:
        timeout_ms = round(self._settings.read_timeout_s * 1000)
        position: int | None = self._consumer.position(self._partition, timeout_ms=timeout_ms)
        if position is None:
            raise UnavailableError(f"The beginning of {self._partition.topic} could not be found.")
        return position

    def _poll(self) -> list[Any]:
        records: list[Any] = self._consumer.poll(timeout_ms=POLL_MS).get(self._partition, [])
        return records

    def _check_progress(self, quiet_ms: int, goal: int) -> None:
        if quiet_ms > self._settings.read_timeout_s * 1000:
            where = f"{self._partition.topic}/{self._partition.partition}"
            raise UnavailableError(f"Reading {where} to {goal} stopped for {self._settings.read_timeout_s:g} s.")
