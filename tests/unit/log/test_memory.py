"""The log in memory, beyond the contract that all logs keep."""

from threading import Condition, Thread

import pytest

from agent.log.memory import MemoryBroker, MemoryLog
from processors.contracts.errors import UnavailableError
from processors.contracts.log import TopicSettings

RECORDS = 30_000


def log_with(*topics: str, partitions: int = 1, records_max: int | None = None) -> MemoryLog:
    log = MemoryLog(MemoryBroker(records_max=records_max))
    log.create([TopicSettings(name=name, partitions=partitions, compacted=False) for name in topics])
    return log


def test_several_threads_write_and_read_without_losing_a_record() -> None:
    log = log_with("raw", partitions=3)
    consumer = log.consumer("group", ["raw"], member="m")
    seen: list[bytes | None] = []

    def write(name: bytes) -> None:
        producer = log.producer()
        for number in range(RECORDS // 3):
            producer.send("raw", b"%s-%d" % (name, number))

    writers = [Thread(target=write, args=(name,)) for name in (b"a", b"b", b"c")]
    for writer in writers:
        writer.start()
    while len(seen) < RECORDS:
        poll = consumer.poll(90.0)
        assert poll.batches or poll.assignment.gained
        seen.extend(value for batch in poll.batches for value in batch.values)
    for writer in writers:
        writer.join()
    assert len(set(seen)) == RECORDS


def test_a_waiting_poll_wakes_up_for_a_record_of_another_thread() -> None:
    log = log_with("raw")
    consumer = log.consumer("group", ["raw"], member="m")
    consumer.poll(0)
    writer = Thread(target=lambda: log.producer().send("raw", b"value"))
    writer.start()
    assert consumer.poll(30.0).batches[0].values == [b"value"]
    writer.join()


def test_a_poll_without_patience_never_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(self: Condition, timeout: float | None = None) -> bool:
        raise AssertionError(f"It waits for {timeout} s.")

    consumer = log_with("raw").consumer("group", ["raw"], member="m")
    monkeypatch.setattr(Condition, "wait", wait)
    assert consumer.poll(0).assignment.gained
    assert not consumer.poll(0).batches
    with pytest.raises(AssertionError, match="It waits"):
        consumer.poll(0.1)


def test_a_busy_partition_does_not_hold_up_a_quiet_one() -> None:
    log = log_with("raw", partitions=2)
    producer = log.producer()
    for _ in range(20_000):
        producer.send("raw", b"busy", partition=0)
    producer.send("raw", b"quiet", partition=1)
    consumer = log.consumer("group", ["raw"], member="m")
    consumer.poll(0)
    first_two = [value for _ in range(2) for batch in consumer.poll(0).batches for value in batch.values]
    assert b"quiet" in first_two


def test_a_consumer_that_fell_behind_the_retention_goes_on_with_the_oldest_record() -> None:
    log = log_with("raw", records_max=1000)
    consumer = log.consumer("group", ["raw"], member="m")
    consumer.poll(0)
    producer = log.producer()
    for number in range(10_000):
        producer.send("raw", b"%d" % number)
    batch = consumer.poll(0).batches[0]
    assert batch.offsets[0] == consumer.beginning(("raw", 0)) > 0


def test_a_crashed_process_comes_back_to_the_same_records() -> None:
    log = log_with("raw")
    log.producer().send("raw", b"value")
    log.close()
    batches: list[bytes | None] = []
    assert MemoryLog(log.broker).read("raw", 0, lambda batch: batches.extend(batch.values)) == 1
    assert batches == [b"value"]


def test_a_closed_client_refuses_to_work() -> None:
    log = log_with("raw")
    producer, consumer = log.producer(), log.consumer("group", ["raw"], member="m")
    producer.close()
    consumer.close()
    with pytest.raises(UnavailableError, match="producer is closed"):
        producer.flush(1.0)
    with pytest.raises(UnavailableError, match="consumer m is closed"):
        consumer.poll(0)


def test_a_partition_that_is_not_there_is_named() -> None:
    log = log_with("raw")
    with pytest.raises(UnavailableError, match="raw has no partition 3"):
        log.producer().send("raw", b"value", partition=3)


def test_a_record_without_a_key_is_refused_by_a_compacted_topic() -> None:
    log = MemoryLog()
    log.create([TopicSettings(name="state", partitions=1, compacted=True)])
    with pytest.raises(ValueError, match="needs a key"):
        log.producer().send("state", b"value")
