"""Records are taken out of a broker's batches as the client would."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.consumer.fetcher import READ_COMMITTED, Fetcher
from kafka.errors import CorruptRecordError
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.structs import TopicPartition

from agent.log.kafka.python.consumer import QuickRecords, records_of

PARTITION = TopicPartition("raw", 0)
# of a long one its length and its beginning are drawn: to draw every byte takes most of the time
LONG = st.builds(
    lambda length, begin: (begin * length)[:length], st.integers(8_000, 20_000), st.binary(min_size=1, max_size=200)
)
PART = st.one_of(st.none(), st.binary(max_size=200), LONG)
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=5)), max_size=2)
RECORDS = st.lists(st.tuples(st.integers(0, 4 * 10**12), PART, PART, HEADERS), min_size=1, max_size=12)


def batch(records: list[tuple[int, Any, Any, list[tuple[str, bytes]]]], compression: int = 0, **given: Any) -> bytes:
    arguments = {"is_transactional": False, "producer_id": -1, "producer_epoch": -1, "base_sequence": -1, **given}
    builder = DefaultRecordBatchBuilder(magic=2, compression_type=compression, batch_size=10**7, **arguments)
    for offset, (time_ms, key, value, headers) in enumerate(records):
        assert builder.append(offset, time_ms, key, value, headers) is not None
    return bytes(builder.build())


def taken(kind: type, data: bytes, fetch_offset: int = 0) -> list[list[Any]]:
    found = kind(fetch_offset, PARTITION, MemoryRecords(data), isolation_level=READ_COMMITTED)
    rows = []
    while found:
        rows.append([*map(plain, found.take(3)), found.next_fetch_offset])
    return rows


def plain(record: Any) -> tuple[Any, ...]:
    return record if type(record) is tuple else (record.offset, record.timestamp, record.key, record.value)


@given(RECORDS, st.sampled_from([0, 1]), st.integers(0, 5))
def test_records_are_those_that_the_client_finds(
    records: list[tuple[int, Any, Any, list[tuple[str, bytes]]]], compression: int, fetch_offset: int
) -> None:
    data = batch(records, compression)
    assert taken(QuickRecords, data, fetch_offset) == taken(Fetcher.PartitionRecords, data, fetch_offset)


def test_a_damaged_batch_is_refused() -> None:
    data = bytearray(batch([(1, b"key", b"value", [])]))
    data[-3] ^= 1
    with pytest.raises(CorruptRecordError):
        taken(QuickRecords, bytes(data))


@pytest.mark.parametrize("cut", [1, 4, 9])
def test_records_that_are_cut_off_are_refused(cut: int) -> None:
    with pytest.raises(CorruptRecordError):
        list(records_of(DefaultRecordBatch(batch([(1, b"key", b"value", [])])[:-cut])))
