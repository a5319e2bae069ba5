"""Records out of the batches that a broker sends, by our own code.

kafka-python makes three objects of each record, here it is a tuple. To take records apart is most of what a collector of
single samples does, and the client needs five times as long for it. None of this is needed with the other client.
"""

from collections.abc import Iterator
from typing import Any

from kafka.consumer.fetcher import READ_COMMITTED, Fetcher
from kafka.errors import CorruptRecordError

from processors.contracts.log import Batch

Record = tuple[int, int, bytes | None, bytes | None]
"""What is asked of a record: offset, time in ms, key, value."""

NEW_FORMAT = 2
MORE = 128  # the bit of a byte after which a number goes on
NO_BYTES = 1  # the length -1


class QuickRecords(Fetcher.PartitionRecords):  # type: ignore[misc] # the client ships no types
    """Takes the place of the class that a consumer's fetcher makes for each answer of the broker."""

    def take(self, n: int | None = None) -> list[Record]:
        """Return the next records, and note where the ones after them begin."""
        found: list[Record] = super().take(n)
        if found and self.record_iterator is not None:  # else all were taken, and it is known where to go on
            self.next_fetch_offset = found[-1][0] + 1
        return found

    def _maybe_skip_record(self, record: Record) -> bool:
        return bool(record[0] < self.fetch_offset)  # within a batch of which the first were read before

    def _unpack_records(self, _partition: Any, records: Any, *_deserializers: Any) -> Iterator[Record]:
        batch = records.next_batch()
        while batch is not None:
            if self.check_crcs and not batch.validate_crc():
                raise CorruptRecordError(f"The batch at {batch.base_offset} of {self.topic_partition} is damaged.")
            if not self._hidden(batch):
                self.bytes_read += batch.size_in_bytes
                yield from records_of(batch)
            if batch.magic == NEW_FORMAT:
                self.next_fetch_offset = batch.next_offset  # the last record may be gone by compaction
            batch = records.next_batch()
        self.drain()

    def _hidden(self, batch: Any) -> bool:
        """Return whether a batch is a mark of a transaction, or of one that was aborted."""
        if batch.magic != NEW_FORMAT:
            return False
        if self.isolation_level == READ_COMMITTED and batch.has_producer_id():
            self._consume_aborted_transactions_up_to(batch.last_offset)
            if batch.is_control_batch and self._contains_abort_marker(batch):
                self.aborted_producer_ids.discard(batch.producer_id)
            elif self._is_batch_aborted(batch):
                return True
        return bool(batch.is_control_batch)


def take_quickly(consumer: Any) -> None:
    """Let a consumer take its records apart by our code."""
    consumer._fetcher.PartitionRecords = QuickRecords  # noqa: SLF001 - no public way


def records_of(batch: Any) -> Iterator[Record]:
    """Yield the records of one batch, without their headers; CorruptRecordError where they are cut off.

    Numbers have their sign in the last bit. Most are of one byte, and are read here: a call for each takes as long as all the rest.
    """
    if batch.magic != NEW_FORMAT:
        for record in batch:
            yield record.offset, record.timestamp, record.key, record.value
        return
    batch._maybe_uncompress()  # noqa: SLF001 - no public way to the bytes
    data, at = bytes(batch._buffer), batch._pos  # noqa: SLF001 - see above
    base, first_ms = batch.base_offset, batch.first_timestamp
    appended_ms = batch.max_timestamp if batch.timestamp_type else None
    try:
        for _ in range(batch.records_count):
            number, at = data[at], at + 1
            if number >= MORE:
                number, at = _longer(data, number, at)
            end = at + (number >> 1)
            number, at = data[at + 1], at + 2  # after the attributes, which say nothing
            if number >= MORE:
                number, at = _longer(data, number, at)
            time_ms = first_ms + ((number >> 1) ^ -(number & 1)) if appended_ms is None else appended_ms
            number, at = data[at], at + 1
            if number >= MORE:
                number, at = _longer(data, number, at)
            offset = base + (number >> 1)
            key, at = (None, at + 1) if data[at] == NO_BYTES else _bytes(data, at)
            value, at = _bytes(data, at)
            if at > end:
                raise CorruptRecordError(f"The record at {offset} is longer than it says.")
            at = end  # headers are for others
            yield offset, time_ms, key, value
    except IndexError:
        raise CorruptRecordError(f"The batch at {base} ends within a record.") from None
    if at != len(data):
        raise CorruptRecordError(f"The batch at {base} has {len(data) - at} bytes after its records.")


def _longer(data: bytes, number: int, at: int) -> tuple[int, int]:
    """Return a number that goes on after its first byte, and the place after it."""
    more, at = data[at], at + 1
    number, shift = number & 127 | (more & 127) << 7, 14
    while more >= MORE:
        more, at = data[at], at + 1
        number, shift = number | (more & 127) << shift, shift + 7
    return number, at


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    number, at = data[at], at + 1
    if number >= MORE:
        number, at = _longer(data, number, at)
    if number & 1:
        return None, at
    end = at + (number >> 1)
    return data[at:end], end


def batch_of(partition: Any, records: list[Any], next_offset: int) -> Batch:
    """Return the client's records as columns."""
    offsets, times_ms, keys, values = zip(*records, strict=True)
    return Batch(
        topic=partition.topic,
        partition=partition.partition,
        next_offset=next_offset,
        offsets=offsets,
        values=values,
        keys=keys,
        timestamps_ms=times_ms,
    )
