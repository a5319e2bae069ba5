"""The contract of the log, checked on every kind of it: records and topics. The id of a test is `kind:check`."""

from collections.abc import Callable

import pytest

from processors.contracts.errors import UnavailableError
from processors.contracts.log import Batch, TopicSettings
from tests.kit.logs import WAIT_S, Bench, cases, collect, fold, own, values, write


def check_flushed_records_arrive_with_key_time_and_offset(bench: Bench) -> None:
    topic = bench.topic()
    producer = bench.log.producer()
    producer.send(topic, b"one", b"a", 0, 1_000)
    producer.send(topic, b"two", None, 0, 2_000)
    producer.send(topic, None, b"a", 0, 3_000)
    producer.flush(WAIT_S)
    consumer = bench.log.consumer(bench.fresh("group"), [topic], member="m")
    batches = collect(consumer, 3)
    assert values(batches) == [b"one", b"two", None]
    assert [key for batch in batches for key in batch.keys] == [b"a", None, b"a"]
    assert [time_ms for batch in batches for time_ms in batch.timestamps_ms] == [1_000, 2_000, 3_000]
    assert [offset for batch in batches for offset in batch.offsets] == [0, 1, 2]
    assert batches[-1].next_offset == 3


def check_a_key_always_goes_to_the_same_partition(bench: Bench) -> None:
    topic = bench.topic(4)
    producer = bench.log.producer()
    for number in range(40):
        producer.send(topic, b"v", b"key-%d" % (number % 8))
    producer.flush(WAIT_S)
    partitions_by_key: dict[bytes | None, set[int]] = {}
    for batch in collect(bench.log.consumer(bench.fresh("group"), [topic], member="m"), 40):
        for key in batch.keys:
            partitions_by_key.setdefault(key, set()).add(batch.partition)
    assert len(partitions_by_key) == 8
    assert all(len(partitions) == 1 for partitions in partitions_by_key.values())


def check_seek_goes_back_and_forth_between_beginning_and_end(bench: Bench) -> None:
    topic = bench.topic()
    write(bench.log, topic, [b"0", b"1", b"2"])
    consumer = bench.log.consumer(bench.fresh("group"), [topic], member="a")
    assert len(values(collect(consumer, 3))) == 3
    assert (consumer.beginning((topic, 0)), consumer.end((topic, 0))) == (0, 3)
    consumer.seek((topic, 0), 1)
    assert values(collect(consumer, 2)) == [b"1", b"2"]
    with pytest.raises(ValueError, match="not assigned"):
        consumer.seek(("another", 0), 0)


def check_the_bounds_of_a_partition_are_its_first_offset_and_its_end(bench: Bench) -> None:
    topic = bench.topic(2)
    assert bench.log.bounds(topic, 1) == (0, 0)
    write(bench.log, topic, [b"0", b"1", b"2"], 1)
    assert bench.another().bounds(topic, 1) == (0, 3)


def check_a_paused_partition_is_silent_until_it_is_resumed(bench: Bench) -> None:
    topic = bench.topic(2)
    consumer = bench.log.consumer(bench.fresh("group"), [topic], member="a")
    own([consumer], 2)
    consumer.pause([(topic, 0)])
    write(bench.log, topic, [b"quiet"], 0)
    write(bench.log, topic, [b"heard"], 1)
    assert values(collect(consumer, 1)) == [b"heard"]
    assert not consumer.poll(0.5).batches
    consumer.resume([(topic, 0)])
    assert values(collect(consumer, 1)) == [b"quiet"]


def check_a_partition_that_goes_back_and_is_paused_is_read_from_there_once_it_is_resumed(bench: Bench) -> None:
    topic = bench.topic(2)
    consumer = bench.log.consumer(bench.fresh("group"), [topic], member="a")
    own([consumer], 2)
    write(bench.log, topic, [b"0", b"1", b"2"], 0)
    assert values(collect(consumer, 3)) == [b"0", b"1", b"2"]
    consumer.seek((topic, 0), 1)
    consumer.pause([(topic, 0)])
    write(bench.log, topic, [b"heard"], 1)
    assert values(collect(consumer, 1)) == [b"heard"]
    write(bench.log, topic, [b"3"], 0)
    write(bench.log, topic, [b"heard too"], 1)
    assert values(collect(consumer, 1)) == [b"heard too"]
    consumer.resume([(topic, 0)])
    assert values(collect(consumer, 3)) == [b"1", b"2", b"3"]


def check_batches_follow_each_other_without_gap_or_overlap(bench: Bench) -> None:
    topic = bench.topic()
    write(bench.log, topic, [b"%d" % number for number in range(7_000)])
    batches = collect(bench.log.consumer(bench.fresh("group"), [topic], member="a"), 7_000)
    assert values(batches) == [b"%d" % number for number in range(7_000)]
    starts = [batch.offsets[0] for batch in batches[1:]]
    assert starts == [batch.next_offset for batch in batches[:-1]]
    assert all(len(batch.values) == len(batch.keys) == len(batch.timestamps_ms) for batch in batches)


def check_records_near_the_size_limit_arrive_and_larger_ones_are_refused(bench: Bench) -> None:
    topic = bench.topic()
    sizes = [999_000, 999_000, *[16_000] * 200, 999_000]
    write(bench.log, topic, [b"x" * size for size in sizes])
    assert [len(value or b"") for value in values(_read(bench, topic))] == sizes
    with pytest.raises(ValueError, match="larger than a broker takes"):
        bench.log.producer().send(topic, b"x" * 1_000_000)


def check_read_ends_at_the_present_end(bench: Bench) -> None:
    topic = bench.topic()
    write(bench.log, topic, [b"%d" % number for number in range(5_000)])
    batches: list[Batch] = []
    assert bench.log.read(topic, 0, batches.append) == 5_000
    assert values(batches) == [b"%d" % number for number in range(5_000)]
    assert batches[-1].next_offset == 5_000


def check_read_of_the_newest_starts_near_the_end(bench: Bench) -> None:
    topic = bench.topic()
    write(bench.log, topic, [b"%d" % number for number in range(5_000)])
    for newest, expected in ((3, [b"4997", b"4998", b"4999"]), (0, []), (9_000, [b"%d" % i for i in range(5_000)])):
        batches: list[Batch] = []
        assert bench.log.read(topic, 0, batches.append, newest=newest) == 5_000
        assert values(batches) == expected


def check_read_of_the_newest_of_an_empty_or_compacted_partition_gives_what_is_there(bench: Bench) -> None:
    empty, compacted = bench.topic(), bench.topic(compacted=True)
    batches: list[Batch] = []
    assert bench.log.read(empty, 0, batches.append, newest=5) == 0
    assert batches == []
    producer = bench.log.producer()
    for number in range(30):
        producer.send(compacted, b"%d" % number, b"key-%d" % (number % 3))
    producer.flush(WAIT_S)
    assert bench.log.read(compacted, 0, batches.append, newest=5) == 30
    assert values(batches)[-3:] == [b"27", b"28", b"29"]
    assert all(offset >= 25 for batch in batches for offset in batch.offsets)


def check_read_of_an_empty_partition_gives_nothing(bench: Bench) -> None:
    topic = bench.topic()
    batches: list[Batch] = []
    assert bench.log.read(topic, 0, batches.append) == 0
    assert batches == []


def check_a_compacted_topic_gives_the_last_value_of_each_key(bench: Bench) -> None:
    topic = bench.topic(compacted=True)
    producer = bench.log.producer()
    for number in range(30):
        producer.send(topic, b"%d" % number, b"key-%d" % (number % 3))
    producer.send(topic, None, b"key-0")
    producer.flush(WAIT_S)
    assert fold(bench.log, (topic, 0)) == {b"key-1": b"28", b"key-2": b"29"}


def check_topics_are_created_once_and_their_partitions_known(bench: Bench) -> None:
    name = bench.fresh("topic")
    assert bench.log.partitions(name) is None
    wanted = [TopicSettings(name=name, partitions=3, compacted=False, retention_ms=60_000)]
    assert list(bench.log.create(wanted)) == [name]
    assert list(bench.log.create(wanted)) == []
    assert bench.log.partitions(name) == 3


def check_writing_to_a_topic_that_is_missing_is_an_error(bench: Bench) -> None:
    producer = bench.log.producer()
    with pytest.raises(UnavailableError, match=bench.fresh("missing")):
        producer.send(bench.fresh("missing"), b"value")


def check_a_closed_log_closes_its_clients_and_refuses_new_ones(bench: Bench) -> None:
    topic = bench.topic()
    producer, consumer = bench.log.producer(), bench.log.consumer(bench.fresh("group"), [topic], member="a")
    bench.log.close()
    bench.log.close()
    for call in (lambda: producer.send(topic, b"v"), lambda: consumer.poll(0), bench.log.producer):
        with pytest.raises(UnavailableError):
            call()


def check_the_ends_of_topics_are_those_of_names_and_patterns(bench: Bench) -> None:
    topic, empty = bench.topic(2), bench.fresh("empty")
    bench.log.create([TopicSettings(empty, 1, compacted=False)])
    write(bench.log, topic, [b"0", b"1"], 1)
    assert bench.log.ends([topic, empty, bench.fresh("missing")]) == {topic: {0: 0, 1: 2}, empty: {0: 0}}
    assert set(bench.log.ends([f"^{topic}.*"])) == {topic}


def _read(bench: Bench, topic: str) -> list[Batch]:
    batches: list[Batch] = []
    bench.log.read(topic, 0, batches.append)
    return batches


@pytest.mark.parametrize(("kind", "check"), cases(globals()))
def test_log(kind: str, check: Callable[[Bench], None], make_bench: Callable[[str], Bench]) -> None:
    check(make_bench(kind))
