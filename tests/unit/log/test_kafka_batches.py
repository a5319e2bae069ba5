"""Records come into the batches of a client as the client would write them, and whoever waits hears of their batch."""

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.errors import KafkaTimeoutError, NotLeaderForPartitionError
from kafka.producer.producer_batch import ProducerBatch
from kafka.record import MemoryRecords, MemoryRecordsBuilder
from kafka.record.default_records import DefaultRecordBatch
from kafka.structs import TopicPartition

from agent.log.kafka.python.consumer import records_of
from agent.log.kafka.python.producer import Sent, appended
from tests.unit.log.test_kafka_records import PART

Record = tuple[int, bytes | None, bytes | None]
RECORDS: Final = st.lists(st.tuples(st.integers(0, 4 * 10**12), PART, PART), min_size=2, max_size=12)
ROOM: Final = 10**7
GZIP: Final = 1


def begun(record: Record, compression: int = 0, batch_size: int = ROOM) -> MemoryRecordsBuilder:
    records = MemoryRecordsBuilder(2, compression, batch_size)
    assert records.append(*record) is not None
    return records


def closed(records: MemoryRecordsBuilder) -> bytes:
    records.set_producer_state(7, 1, 3, is_transactional=True)
    records.close()
    return bytes(records.buffer())


def twins(given: list[Record], compression: int) -> tuple[bytes, bytes]:
    """Return a batch of these records with ours appended to the first one, and as the client makes it alone."""
    ours, clients = begun(given[0], compression), begun(given[0], compression)
    for place, (time_ms, key, value) in enumerate(given[1:], 1):
        assert appended(ours, value, key, time_ms) == place
        assert clients.append(time_ms, key, value).offset == place
    assert ours.next_offset() == clients.next_offset()
    return closed(ours), closed(clients)


@given(RECORDS)
def test_a_batch_is_to_the_byte_as_the_client_makes_it(given: list[Record]) -> None:
    ours, clients = twins(given, 0)
    assert ours == clients


@given(RECORDS)
def test_a_batch_that_the_client_compresses_has_the_same_records(given: list[Record]) -> None:
    ours, clients = (list(records_of(DefaultRecordBatch(batch))) for batch in twins(given, GZIP))
    # not to the byte: gzip writes the time in seconds into its head, and the next second may begin between the two
    assert ours == clients


def test_a_batch_takes_as_many_records_as_with_the_client() -> None:
    ours, clients = begun((5, None, b"x" * 100), batch_size=1000), begun((5, None, b"x" * 100), batch_size=1000)
    while clients.append(6, None, b"y" * 90) is not None:
        assert appended(ours, b"y" * 90, None, 6) is not None
    assert appended(ours, b"y" * 90, None, 6) is None
    assert closed(ours) == closed(clients)


def test_a_batch_that_is_closed_takes_no_more() -> None:
    records = begun((5, None, b"value"))
    closed(records)
    assert appended(records, b"more", None, 6) is None


def test_a_record_without_a_time_has_that_of_the_first_in_its_batch() -> None:
    records = begun((5, None, b"value"))
    appended(records, b"more", None, None)
    assert [record.timestamp for record in MemoryRecords(closed(records)).next_batch()] == [5, 5]


def batch() -> Any:
    return ProducerBatch(TopicPartition("raw", 0), begun((5, None, b"value")))


def test_who_waits_gets_the_offset_of_the_record() -> None:
    waited_for = batch()
    sent = Sent(waited_for.produce_future, 3)
    with pytest.raises(KafkaTimeoutError):
        sent.offset()
    waited_for.complete(100, -1)
    assert sent.offset() == 103


def test_who_waits_gets_what_refused_the_batch() -> None:
    waited_for = batch()
    waited_for.complete_exceptionally(NotLeaderForPartitionError(), lambda _: NotLeaderForPartitionError())
    with pytest.raises(NotLeaderForPartitionError):
        Sent(waited_for.produce_future, 0).offset()
