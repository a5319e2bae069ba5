"""Producers of kafka-python."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from kafka import KafkaProducer
from kafka.errors import KafkaTimeoutError
from kafka.record.util import encode_varint

from agent.log.kafka.client import KafkaSettings, NotQueuedError
from agent.log.kafka.python.arguments import producing, transactional
from processors.contracts.log import check_record

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


GIVE_UP_S = 1.0


@dataclass(slots=True)
class Waiting:
    """Records of one batch that are not acknowledged."""

    first: Sent
    records: int = 0
    size_bytes: int = 0


class PythonWriter:
    """Counts the records that are not acknowledged: the client has no bound on its memory."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._records_max, self._bytes_max = settings.queue_records_max, settings.queue_bytes_max
        self._waiting: dict[Any, Waiting] = {}  # by batch, the oldest first
        self._queued_records = self._queued_bytes = 0
        self._producer = KafkaProducer(**producing(settings, "producer"))
        self._sender = QuickSender(self._producer)

    def offer(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int | None, timestamp_ms: int | None
    ) -> bool:
        """Queue a record; False where the queue is full. Raises NotQueuedError where the topic cannot be found."""
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
        """Take in what was acknowledged, and wait for one where none was; False at the deadline. Raises for what failed."""
        if not next(iter(self._waiting)).wait(timeout_s):
            return False
        while self._waiting and next(iter(self._waiting)).is_done:
            self._acknowledge()
        return True

    def unacknowledged(self) -> int:
        """Return how many records are queued or under way."""
        return self._queued_records

    def flush(self, timeout_s: float) -> None:
        """Wait for every acknowledgement. Raises for what failed, and at the deadline."""
        self._producer.flush(timeout_s)
        while self._waiting:
            self._acknowledge()

    def give_up(self) -> None:
        """Free everything within about a second, and write nothing more of what is queued."""
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
    """A transactional producer."""

    def __init__(self, settings: KafkaSettings, purpose: str, transactional_id: str) -> None:
        self._producer = KafkaProducer(**transactional(settings, purpose, transactional_id))
        self._sender = QuickSender(self._producer)

    def fence(self) -> None:
        """End and fence every former producer of this name."""
        self._producer.init_transactions()

    def begin(self) -> None:
        """Begin a transaction."""
        self._producer.begin_transaction()

    def send(
        self,
        topic: str,
        partition: int,
        records: Sequence[tuple[bytes, bytes | None]],
        timeout_s: float,
        timestamp_ms: int | None = None,
    ) -> int:
        """Write keys and values, wait for each acknowledgement, and return the offset of the last."""
        send = self._sender.send
        last = {
            sent.batch: sent for sent in (send(topic, value, key, partition, timestamp_ms) for key, value in records)
        }
        self._producer.flush(timeout_s)
        return [sent.offset() for sent in last.values()][-1]

    def commit(self) -> None:
        """Commit the transaction."""
        self._producer.commit_transaction()

    def abort(self) -> None:
        """Abort the transaction."""
        self._producer.abort_transaction()

    def give_up(self) -> None:
        """Free everything within about a second, and write nothing more of what is queued."""
        give_up(self._producer)


def give_up(producer: Any) -> None:
    """End a producer without writing what it still holds: a plain close would wait, and write it later.

    The client has no public way to do this, and its own forced end fails on a batch that is under way, before the
    connections are closed. Nobody looks at the futures of that batch any more, so nothing has to be told to them.
    """
    sender = producer._sender  # noqa: SLF001 - see above
    sender._accumulator.abort_incomplete_batches = lambda: None  # noqa: SLF001 - see above
    with suppress(
        OSError, AttributeError
    ):  # it is told at last by its socket, which it may have closed or dropped by then
        sender.force_close()
    sender.join(GIVE_UP_S)
    producer._unregister_cleanup()  # noqa: SLF001 - it would flush once more at the end of the process
    producer._closed = True  # noqa: SLF001 - and once more when it is collected
