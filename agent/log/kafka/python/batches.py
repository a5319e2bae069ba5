"""Records into the batches that a client sends, by our own code.

kafka-python's `send` makes a dozen objects of each record, and calls each of them back when its batch was acknowledged:
46 us a record, which was half of what a collector does for a job, and most of a checkpoint of many small states. Only the
first record of a batch takes that way here, for it has to: the client looks for the partition and adds it to the transaction,
at whose end no batch is open. Whoever waits then waits for the batch. None of this is needed with the other client.
"""

from functools import lru_cache
from typing import Any, Final, NamedTuple

from kafka import KafkaProducer
from kafka.errors import KafkaTimeoutError
from kafka.record.util import encode_varint

NUMBERS: Final = 8192  # that are remembered: most are small, and come again and again
HEADERS: Final = b"\0"  # there are none
ATTRIBUTES: Final = b"\0"
NO_BYTES: Final = b"\1"  # the length -1


class Sent(NamedTuple):
    """What a record waits for: its batch, and its place in it.

    `batch` ends with the offset of its first record, or with what refused it.
    """

    batch: Any
    place: int

    def offset(self) -> int:
        """Return the offset of the record, once its batch is done. Raises what refused the batch, KafkaTimeoutError before."""
        if not self.batch.is_done:
            raise KafkaTimeoutError("The batch is not acknowledged.")
        first, _, refused = self.batch.value
        if refused is not None:
            raise refused(self.place)
        return int(first) + self.place


class QuickSender:
    """Sends records of one client's producer; the client goes on to send, retry and expire the batches."""

    def __init__(self, producer: KafkaProducer) -> None:
        self._producer = producer
        accumulator = producer._accumulator  # noqa: SLF001 - no public way, as of all below
        self._batches, self._locks = accumulator._batches, accumulator._tp_locks  # noqa: SLF001

    def send(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int | None, timestamp_ms: int | None = None
    ) -> Sent:
        """Put a record into the open batch of its partition, else let the client begin one. Raises what the client raises."""
        if partition is None and key is not None:
            partition = self._producer._partition(topic, None, key, value, key, value)  # noqa: SLF001
        queue = self._batches.get((topic, partition))
        if queue:
            with self._locks[topic, partition]:  # else the client may close the batch meanwhile, to send it
                place = appended(queue[-1].records, value, key, timestamp_ms) if queue else None
                if place is not None:
                    return Sent(queue[-1].produce_future, place)
        future = self._producer.send(topic, value, key, partition=partition, timestamp_ms=timestamp_ms)
        if future.failed():  # refused before it had a batch
            raise future.exception
        return Sent(future._produce_future, future.args[0])  # noqa: SLF001


def appended(records: Any, value: bytes | None, key: bytes | None, timestamp_ms: int | None) -> int | None:
    """Append a record to the records of a batch and return its place; None where the batch is closed, or would become too large.

    A record without a time has that of the batch's first one, a few milliseconds ago.
    """
    if records._closed:  # noqa: SLF001
        return None
    builder, place = records._builder, records._next_offset  # noqa: SLF001
    time_ms = builder._first_timestamp if timestamp_ms is None else timestamp_ms  # noqa: SLF001
    record = encoded(time_ms - builder._first_timestamp, place, value, key)  # noqa: SLF001
    buffer = builder._buffer  # noqa: SLF001
    if len(buffer) + len(record) > builder._batch_size:  # noqa: SLF001
        return None
    buffer += record
    builder._max_timestamp = max(builder._max_timestamp, time_ms)  # noqa: SLF001
    builder._num_records += 1  # noqa: SLF001
    builder._last_offset = place  # noqa: SLF001
    records._next_offset = place + 1  # noqa: SLF001
    return int(place)


def encoded(later_ms: int, place: int, value: bytes | None, key: bytes | None) -> bytes:
    """Return a record as the second format of batches has it, `later_ms` after the first one."""
    body = b"".join((ATTRIBUTES, _number(later_ms), _number(place), *_part(key), *_part(value), HEADERS))
    return _number(len(body)) + body


def _part(data: bytes | None) -> tuple[bytes, ...]:
    return (NO_BYTES,) if data is None else (_number(len(data)), data)


@lru_cache(maxsize=NUMBERS)
def _number(number: int) -> bytes:
    """Return a number of variable length, as the client writes it."""
    written = bytearray()
    encode_varint(number, written.append)
    return bytes(written)
