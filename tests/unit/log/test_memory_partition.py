"""One partition in memory: compaction, retention and bounds."""

from hypothesis import given
from hypothesis import strategies as st

from agent.log.memory import COMPACTION_SLACK, MemoryPartition
from processors.contracts.log import TopicSettings

STATE = TopicSettings("state", 1, compacted=True)
RAW = TopicSettings("raw", 1, compacted=False)
RECORDS = st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.none() | st.binary(max_size=3)), max_size=40)


def filled(partition: MemoryPartition, count: int, step_ms: int = 1) -> MemoryPartition:
    for number in range(count):
        partition.append(b"%d" % number, b"key-%d" % (number % 10), number * step_ms)
    return partition


@given(RECORDS, st.integers(0, 40))
def test_compaction_keeps_the_last_value_of_each_key_whenever_it_runs(
    records: list[tuple[bytes, bytes | None]], when: int
) -> None:
    partition = MemoryPartition(STATE, 0)
    for number, (key, value) in enumerate(records):
        if number == when:
            partition.compact()
        partition.append(value, key, 0)
    partition.compact()
    batch = partition.read(0, 100)
    retained = {} if batch is None else dict(zip(batch.keys, batch.values, strict=True))
    live = {key: value for key, value in dict(records).items() if value is not None}
    assert {key: value for key, value in retained.items() if value is not None} == live
    assert batch is None or len(batch.keys) == len(retained)
    assert batch is None or batch.next_offset == partition.next_offset == len(records)


def test_a_tombstone_outlives_one_compaction_and_not_two() -> None:
    partition = MemoryPartition(STATE, 0)
    partition.append(b"value", b"key", 0)
    partition.append(None, b"key", 0)
    partition.compact()
    batch = partition.read(0, 10)
    assert batch is not None
    assert batch.values == [None]
    partition.compact()
    assert partition.read(0, 10) is None


def test_a_compacted_partition_stays_small_by_itself() -> None:
    partition = filled(MemoryPartition(STATE, 0), 20 * COMPACTION_SLACK)
    batch = partition.read(0, 10**6)
    assert batch is not None
    assert len(batch.values) <= 3 * COMPACTION_SLACK


def test_the_oldest_records_go_when_there_are_too_many() -> None:
    partition = filled(MemoryPartition(RAW, 0, records_max=3000), 20_000)
    batch = partition.read(0, 10**6)
    assert batch is not None
    assert 3000 <= len(batch.values) <= 3000 * 1.25 + COMPACTION_SLACK
    assert batch.offsets[0] == partition.first_offset
    assert batch.values[-1] == b"19999"


def test_records_older_than_the_retention_go() -> None:
    partition = filled(MemoryPartition(TopicSettings("raw", 1, compacted=False, retention_ms=5000), 0), 20_000)
    batch = partition.read(0, 10**6)
    assert batch is not None
    assert 5000 <= len(batch.values) <= 5000 + 2 * COMPACTION_SLACK
    assert partition.first_offset == batch.offsets[0] == 20_000 - len(batch.values)


def test_the_end_of_a_transaction_takes_an_offset_without_a_record() -> None:
    partition = filled(MemoryPartition(RAW, 0), 3)
    partition.mark()
    batch = partition.read(0, 10)
    assert batch is not None
    assert (batch.offsets, batch.next_offset) == ([0, 1, 2], 4)
    assert partition.read(4, 10) is None
