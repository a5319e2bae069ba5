"""Producers of kafka-python, with a faster encoder for records.

The encoder sets private attributes of the client, so the client is pinned to one version.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from kafka import KafkaProducer
from kafka.errors import KafkaTimeoutError
from kafka.record.util import encode_varint

from agent.log.kafka.client import KafkaLogSettings, KeyValue, NotQueuedError
from agent.log.kafka.python.arguments import producing, transactional
from processors.contracts.log import check_record

NUMBERS: Final = 8192  # cached encodings, because most numbers are small and recur
HEADERS: Final = b"\0"  # no headers
ATTRIBUTES: Final = b"\0"
NO_BYTES: Final = b"\1"  # the encoded length -1
GIVE_UP_S: Final = 1.0


class Sent(NamedTuple):
    """A sent record: the future of its batch, and the index of the record in the batch.

    The future `batch` is resolved with the offset of the batch's first record, or with the error of the batch.
    """

    batch: Any
    number: int

    def offset(self) -> int:
        """Return the record's offset. Raise the error of the batch, or KafkaTimeoutError if the batch is not acknowledged yet."""
        if not self.batch.is_done:
            raise KafkaTimeoutError("The batch is not acknowledged.")
        first, _, error = self.batch.value
        if error is not None:
            raise error(self.number)
        return int(first) + self.number


class QuickSender:
    """Appends records directly to the open batches of a producer; the client sends, retries and expires the batches."""

    def __init__(self, producer: KafkaProducer) -> None:
        self._producer = producer
        accumulator = producer._accumulator  # noqa: SLF001 - no public way, here and below
        self._batches, self._locks = accumulator._batches, accumulator._tp_locks  # noqa: SLF001

    def send(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int | None, timestamp_ms: int | None = None
    ) -> Sent:
        """Append a record to the open batch of its partition, or let the client begin a batch. Raise the errors of the client."""
        if partition is None and key is not None:
            partition = self._producer._partition(topic, None, key, value, key, value)  # noqa: SLF001
        queue = self._batches.get((topic, partition))
        if queue:
            with self._locks[topic, partition]:  # otherwise the client may close the batch meanwhile to send it
                index = appended(queue[-1].records, value, key, timestamp_ms) if queue else None
                if index is not None:
                    return Sent(queue[-1].produce_future, index)
        future = self._producer.send(topic, value, key, partition=partition, timestamp_ms=timestamp_ms)
        if future.failed():  # the record was refused before it had a batch
            raise future.exception
        return Sent(future._produce_future, future.args[0])  # noqa: SLF001


def appended(records: Any, value: bytes | None, key: bytes | None, timestamp_ms: int | None) -> int | None:
    """Append a record to a batch and return its index; None if the batch is closed or would become too large.

    A record without a timestamp gets the timestamp of the batch's first record, which is a few milliseconds older.
    """
    if records._closed:  # noqa: SLF001
        return None
    builder, index = records._builder, records._next_offset  # noqa: SLF001
    time_ms = builder._first_timestamp if timestamp_ms is None else timestamp_ms  # noqa: SLF001
    record = encoded(time_ms - builder._first_timestamp, index, value, key)  # noqa: SLF001
    buffer = builder._buffer  # noqa: SLF001
    if len(buffer) + len(record) > builder._batch_size:  # noqa: SLF001
        return None
    buffer += record
    builder._max_timestamp = max(builder._max_timestamp, time_ms)  # noqa: SLF001
    builder._num_records += 1  # noqa: SLF001
    builder._last_offset = index  # noqa: SLF001
    records._next_offset = index + 1  # noqa: SLF001
    return int(index)


def encoded(later_ms: int, index: int, value: bytes | None, key: bytes | None) -> bytes:
    """Return a record in version 2 of the batch format, `later_ms` after the first record of its batch."""
    body = b"".join((ATTRIBUTES, _number(later_ms), _number(index), *_part(key), *_part(value), HEADERS))
    return _number(len(body)) + body


def _part(data: bytes | None) -> tuple[bytes, ...]:
    return (NO_BYTES,) if data is None else (_number(len(data)), data)


@lru_cache(maxsize=NUMBERS)
def _number(number: int) -> bytes:
    written = bytearray()
    encode_varint(number, written.append)
    return bytes(written)


@dataclass(slots=True)
class Waiting:
    """The unacknowledged records of one batch."""

    first: Sent
    records: int = 0
    size_bytes: int = 0


class PythonWriter:
    """Implements `RecordWriter`. Counts the unacknowledged records, because the client does not limit its memory."""

    def __init__(self, settings: KafkaLogSettings) -> None:
        self._records_max, self._bytes_max = settings.queue_records_max, settings.queue_bytes_max
        self._waiting: dict[Any, Waiting] = {}  # unacknowledged records by batch, oldest first
        self._queued_records = self._queued_bytes = 0
        self._producer = KafkaProducer(**producing(settings, "producer"))
        self._sender = QuickSender(self._producer)

    def offer(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int | None, timestamp_ms: int | None
    ) -> bool:
        if self._queued_records >= self._records_max or self._queued_bytes >= self._bytes_max:
            return False
        try:
            sent = self._sender.send(topic, value, key, partition, timestamp_ms)
        except KafkaTimeoutError as error:
            raise NotQueuedError from error
        size_bytes = check_record(topic, value, key)
        waiting = self._waiting.get(sent.batch)
        if waiting is None:
            waiting = self._waiting[sent.batch] = Waiting(sent)
        waiting.records += 1
        waiting.size_bytes += size_bytes
        self._queued_records += 1
        self._queued_bytes += size_bytes
        return True

    def settle(self, timeout_s: float) -> bool:
        if not next(iter(self._waiting)).wait(timeout_s):
            return False
        while self._waiting and next(iter(self._waiting)).is_done:
            self._acknowledge()
        return True

    def unacknowledged(self) -> int:
        return self._queued_records

    def flush(self, timeout_s: float) -> None:
        self._producer.flush(timeout_s)
        while self._waiting:
            self._acknowledge()

    def give_up(self) -> None:
        self._waiting.clear()
        self._queued_records = self._queued_bytes = 0
        give_up(self._producer)

    def _acknowledge(self) -> None:
        batch, waiting = next(iter(self._waiting.items()))
        waiting.first.offset()
        del self._waiting[batch]
        self._queued_records -= waiting.records
        self._queued_bytes -= waiting.size_bytes


class PythonTransactions:
    """Implements `TransactionWriter`."""

    def __init__(self, settings: KafkaLogSettings, purpose: str, transactional_id: str) -> None:
        self._producer = KafkaProducer(**transactional(settings, purpose, transactional_id))
        self._sender = QuickSender(self._producer)

    def fence(self) -> None:
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(
        self, topic: str, partition: int, records: Sequence[KeyValue], timeout_s: float, timestamp_ms: int | None
    ) -> int:
        send = self._sender.send
        last = {
            sent.batch: sent for sent in (send(topic, value, key, partition, timestamp_ms) for key, value in records)
        }
        self._producer.flush(timeout_s)
        return [sent.offset() for sent in last.values()][-1]

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def give_up(self) -> None:
        give_up(self._producer)


def give_up(producer: Any) -> None:
    """End a producer without writing its queue, which a plain `close` would wait for and write.

    The client has no public way to do this. The forced close of the client fails on a batch in flight, before it has closed the
    connections. No caller waits for the futures of this batch any more, so they need no result.
    """
    sender = producer._sender  # noqa: SLF001 - see above
    sender._accumulator.abort_incomplete_batches = lambda: None  # noqa: SLF001 - see above
    with suppress(OSError, AttributeError):  # the call ends by waking up a socket, which may be closed already
        sender.force_close()
    sender.join(GIVE_UP_S)
    producer._unregister_cleanup()  # noqa: SLF001 - the cleanup would flush once more at the end of the process
    producer._closed = True  # noqa: SLF001 - and once more when the object is collected
