"""The faulty log is no weaker than a broker: what it breaks, a correct program puts right, whatever the seed."""

import zlib
from collections.abc import Callable

import pytest

from agent.log.memory import MemoryBroker, MemoryLog
from processors.contracts.errors import RebalancingError, ScalewatchError, UnavailableError
from processors.contracts.log import Consumer, Log, Position, TopicSettings
from tests.kit.effort import seeds
from tests.kit.faults import Crash, FaultRates, FaultyLog
from tests.kit.logs import marker

RATES = FaultRates(crash=0.03, unavailable=0.05, delay=0.2, rebalance=0.05, repeat=0.2, split=0.8)
FACTS = [b"fact-%d" % number for number in range(300)]
ATTEMPTS_MAX = 400


def prepared() -> MemoryBroker:
    broker = MemoryBroker()
    topics = [("raw", 2, False), ("journal", 1, False), ("scalewatch.state", 1, True)]
    broker.create([TopicSettings(name=name, partitions=count, compacted=flat) for name, count, flat in topics])
    for fact in FACTS:
        broker.append("raw", fact, None, None, 0)
    return broker


def live(broker: MemoryBroker, seed: int, work: Callable[[Log], None]) -> list[str]:
    """Run a program over and over, as a supervisor does, until it ends by itself; return the faults it survived."""
    happened: list[str] = []
    for number in range(ATTEMPTS_MAX):
        log = FaultyLog(MemoryLog(broker), seed * 1000 + number, RATES)
        try:
            work(log)
        except (Crash, ScalewatchError):
            happened += log.faults.happened
            log.close()
        else:
            log.close()
            return happened
    raise AssertionError(f"seed {seed}: not done after {ATTEMPTS_MAX} lives: {happened[-20:]}")


def copy(log: Log) -> None:
    """Write every raw fact to the journal: flush first, commit then."""
    consumer, producer = log.consumer("collector", ["^raw$"], member="c"), log.producer()
    while not done(consumer):
        batches = consumer.poll(0).batches
        for batch in batches:
            for value in batch.values:
                producer.send("journal", value, partition=0)
        producer.flush(1.0)
        consumer.commit({(batch.topic, batch.partition): Position(offset=batch.next_offset) for batch in batches})
    producer.flush(1.0)


def copy_wrongly(log: Log) -> None:
    """Commit before the flush, a mistake that no undisturbed run shows."""
    consumer, producer = log.consumer("collector", ["raw"], member="c"), log.producer()
    while not done(consumer):
        batches = consumer.poll(0).batches
        consumer.commit({(batch.topic, batch.partition): Position(offset=batch.next_offset) for batch in batches})
        for batch in batches:
            for value in batch.values:
                producer.send("journal", value, partition=0)
        producer.flush(1.0)


def done(consumer: Consumer) -> bool:
    """Return whether the group has committed everything."""
    positions = [(consumer.committed(("raw", number)), consumer.end(("raw", number))) for number in range(2)]
    return all(position is not None and position.offset >= end for position, end in positions)


def fold(log: Log) -> None:
    """Count the journal and hash it in its order; the marker is the position."""
    store, consumer = log.checkpoints(0), log.consumer("learner", ["journal"], member="l")
    restored = store.take_over()
    position, number = (restored.marker.offset, restored.marker.number) if restored.marker else (0, 0)
    count, digest = (int(part) for part in restored.states.get("fold", b"0 0").split())
    while position < end_of(log):
        poll = consumer.poll(0)
        for partition in poll.assignment.gained:
            consumer.seek(partition, position)
        for batch in poll.batches:
            for value in batch.values:
                count, digest = count + 1, zlib.crc32(value or b"", digest)
            position, number = batch.next_offset, number + 1
            store.save({"fold": b"%d %d" % (count, digest)}, marker(number, 1, offset=position))


def end_of(log: Log) -> int:
    return log.read("journal", 0, lambda _batch: None)


@pytest.mark.parametrize("seed", seeds(5, 15))
def test_every_fact_arrives_and_the_state_is_that_of_an_undisturbed_run(seed: int) -> None:
    broker = prepared()
    happened = live(broker, seed, copy) + live(broker, seed, fold)
    batch, end = broker.snapshot(("journal", 0))
    assert batch is not None
    assert set(batch.values) == set(FACTS)
    digest = 0
    for value in batch.values:
        digest = zlib.crc32(value or b"", digest)
    restored = MemoryLog(broker).checkpoints(0).take_over()
    assert restored.states == {"fold": b"%d %d" % (len(batch.values), digest)}
    assert restored.marker is not None
    assert restored.marker.offset == end
    assert happened


def test_a_program_that_commits_before_it_flushes_is_found_out() -> None:
    lost = 0
    for seed in range(10):
        broker = prepared()
        live(broker, seed, copy_wrongly)
        batch, _ = broker.snapshot(("journal", 0))
        lost += batch is None or set(batch.values) != set(FACTS)
    assert lost


def test_the_same_seed_brings_the_same_faults() -> None:
    assert live(prepared(), 3, copy) == live(prepared(), 3, copy)


def test_over_some_seeds_every_kind_of_fault_happens() -> None:
    happened = [note for seed in range(6) for note in [*live(prepared(), seed, copy)]]
    assert {note.split()[0] for note in happened} == set(RATES.__dataclass_fields__)


def after(log: FaultyLog, fault: str) -> None:
    """From now on this fault, and only this, happens at every chance."""
    log.faults.rates = FaultRates(**{fault: 1.0})


def test_a_crash_ends_the_process_and_its_membership() -> None:
    broker = prepared()
    log = FaultyLog(MemoryLog(broker), 1, FaultRates())
    consumer = log.consumer("group", ["raw"], member="m")
    consumer.poll(0)
    after(log, "crash")
    with pytest.raises(Crash):
        consumer.poll(0)
    assert broker.group("group").members == []
    with pytest.raises(Crash):
        log.producer()


def test_of_an_unflushed_queue_only_a_beginning_survives_a_crash() -> None:
    survived = set()
    for seed in range(12):
        broker = prepared()
        log = FaultyLog(MemoryLog(broker), seed, FaultRates())
        producer = log.producer()
        for number in range(5):
            producer.send("journal", b"%d" % number)
        after(log, "crash")
        with pytest.raises(Crash):
            producer.flush(1.0)
        batch, _ = broker.snapshot(("journal", 0))
        written = [] if batch is None else batch.values
        assert written == [b"%d" % number for number in range(len(written))]
        survived.add(len(written))
    assert len(survived) > 2


def test_an_acknowledged_record_may_be_seen_late_and_is_never_lost() -> None:
    broker = prepared()
    log = FaultyLog(MemoryLog(broker), 1, FaultRates(delay=1.0))
    producer = log.producer()
    producer.send("journal", b"value")
    producer.flush(1.0)
    assert broker.snapshot(("journal", 0))[0] is None
    producer.close()
    batch, _ = broker.snapshot(("journal", 0))
    assert batch is not None
    assert batch.values == [b"value"]


def test_a_refused_write_may_be_done_and_its_producer_is_dead() -> None:
    outcomes = set()
    for seed in range(8):
        broker = prepared()
        log = FaultyLog(MemoryLog(broker), seed, FaultRates())
        producer = log.producer()
        producer.send("journal", b"value")
        after(log, "unavailable")
        with pytest.raises(UnavailableError):
            producer.flush(1.0)
        with pytest.raises(UnavailableError):
            producer.send("journal", b"value")
        outcomes.add(broker.snapshot(("journal", 0))[0] is None)
    assert outcomes == {True, False}


def test_a_member_that_was_dropped_cannot_commit_and_learns_its_loss_at_the_next_poll() -> None:
    log = FaultyLog(MemoryLog(prepared()), 1, FaultRates())
    consumer = log.consumer("group", ["raw"], member="m")
    gained = consumer.poll(0).assignment.gained
    after(log, "rebalance")
    with pytest.raises(RebalancingError):
        consumer.commit({gained[0]: Position(offset=1)})
    after(log, "split")
    assert consumer.poll(0).assignment.lost == gained
    assert consumer.poll(0).assignment.gained == gained
