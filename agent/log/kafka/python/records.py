"""Records out of the batches that a broker sends, by our own code.

kafka-python makes three objects of each record, here it is one. To take records apart is most of what a collector of
single samples does, and the client needs three times as long for it. None of this is needed with the other client.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from kafka.consumer.fetcher import READ_COMMITTED, Fetcher
from kafka.errors import CorruptRecordError

from processors.contracts.log import Batch

NEW_FORMAT = 2
MORE = 128  # the bit of a byte after which a number goes on


class Record(NamedTuple):
    """What is asked of a record."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


class QuickRecords(Fetcher.PartitionRecords):  # type: ignore[misc] # the client ships no types
    """Takes the place of the class that a consumer's fetcher makes for each answer of the broker."""

    def _unpack_records(self, _partition: Any, records: Any, *_deserializers: Any) -> Iterator[Record]:
        batch = records.next_batch()
        while batch is not None:
            if self.check_crcs and not batch.validate_crc():
                raise CorruptRecordError(f"The batch at {batch.base_offset} of {self.topic_partition} is damaged.")
            if not self._hidden(batch):
                self.bytes_read += batch.size_in_bytes
                for record in records_of(batch):
                    self.next_fetch_offset = record.offset + 1
                    yield record
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


def records_of(batch: Any) -> Iterator[Record]:
    """Yield the records of one batch, without their headers; CorruptRecordError where they are cut off."""
    if batch.magic != NEW_FORMAT:
        for record in batch:
            yield Record(record.offset, record.timestamp, record.key, record.value)
        return
    batch._maybe_uncompress()  # noqa: SLF001 - no public way to the bytes
    data, at = bytes(batch._buffer), batch._pos  # noqa: SLF001 - see above
    base, first_ms = batch.base_offset, batch.first_timestamp
    appended_ms = batch.max_timestamp if batch.timestamp_type else None
    try:
        for _ in range(batch.records_count):
            number, at = _number(data, at)
            end = at + (number >> 1)
            number, at = _number(data, at + 1)  # after the attributes, which say nothing
            time_ms = first_ms + ((number >> 1) ^ -(number & 1)) if appended_ms is None else appended_ms
            number, at = _number(data, at)
            offset = base + (number >> 1)
            key, at = _bytes(data, at)
            value, at = _bytes(data, at)
            if at > end:
                raise CorruptRecordError(f"The record at {offset} is longer than it says.")
            at = end  # headers are for others
            yield Record(offset, time_ms, key, value)
    except IndexError:
        raise CorruptRecordError(f"The batch at {base} ends within a record.") from None
    if at != len(data):
        raise CorruptRecordError(f"The batch at {base} has {len(data) - at} bytes after its records.")


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number as it is written, its sign in the last bit, and the place after it."""
    number = data[at]
    if number < MORE:
        return number, at + 1
    more = data[at + 1]
    if more < MORE:
        return number & 127 | more << 7, at + 2
    number, shift, at = number & 127 | (more & 127) << 7, 14, at + 2
    while (more := data[at]) >= MORE:
        number, shift, at = number | (more & 127) << shift, shift + 7, at + 1
    return number | more << shift, at + 1


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    number, at = _number(data, at)
    if number & 1:
        return None, at
    end = at + (number >> 1)
    return data[at:end], end


def batch_of(partition: Any, records: list[Any], next_offset: int) -> Batch:
    """Return the client's records as columns."""
    return Batch(
        topic=partition.topic,
        partition=partition.partition,
        next_offset=next_offset,
        offsets=[record.offset for record in records],
        values=[record.value for record in records],
        keys=[record.key for record in records],
        timestamps_ms=[record.timestamp for record in records],
    )
