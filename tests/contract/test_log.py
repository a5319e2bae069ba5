"""The contract of the log, checked on every kind of it. The id of a test is `kind:check`."""

import time
from collections.abc import Callable, Iterator

import pytest

from agent.contracts.errors import FencedError, UnavailableError
from agent.contracts.log import Batch, Poll, Position, TopicSettings
from tests.kit.faults import FaultRates
from tests.kit.logs import (
    WAIT_S,
    Bench,
    collect,
    fold,
    kafka_bench,
    marker,
    memory_bench,
    own,
    poll_until,
    values,
    write,
)


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


def check_a_poll_that_changes_the_assignment_returns_no_records(bench: Bench) -> None:
    topic = bench.topic(2)
    write(bench.log, topic, [b"0", b"1", b"2"])
    consumer = bench.log.consumer(bench.fresh("group"), [topic], member="m")
    polls: list[Poll] = []
    poll_until([consumer], lambda: any(poll.assignment.gained for poll in polls), lambda _, poll: polls.append(poll))
    assert polls[-1].assignment.gained == ((topic, 0), (topic, 1))
    assert consumer.assigned() == {(topic, 0), (topic, 1)}
    assert not any(poll.batches for poll in polls)
    consumer.seek((topic, 0), 2)
    assert values(collect(consumer, 1)) == [b"2"]


def check_a_new_group_can_begin_at_the_end(bench: Bench) -> None:
    topic = bench.topic()
    write(bench.log, topic, [b"old"])
    consumer = bench.log.consumer(bench.fresh("group"), [topic], member="m", from_beginning=False)
    own([consumer], 1)
    consumer.poll(1.0)
    write(bench.log, topic, [b"new"])
    assert values(collect(consumer, 1)) == [b"new"]


def check_members_share_the_partitions_and_each_record_comes_once(bench: Bench) -> None:
    topic, group = bench.topic(4), bench.fresh("group")
    members = [bench.another().consumer(group, [topic], member=name) for name in "ab"]
    own(members, 4)
    assert members[0].assigned().isdisjoint(members[1].assigned())
    for partition in range(4):
        write(bench.log, topic, [b"%d" % partition], partition)
    seen: list[bytes | None] = []
    poll_until(members, lambda: len(seen) >= 4, lambda _, poll: seen.extend(values(poll.batches)))
    assert sorted(value for value in seen if value) == [b"0", b"1", b"2", b"3"]
    _close(*members)


def check_a_member_learns_what_it_loses_and_what_it_gains(bench: Bench) -> None:
    topic, group = bench.topic(2), bench.fresh("group")
    first = bench.another().consumer(group, [topic], member="a")
    own([first], 2)
    second = bench.another().consumer(group, [topic], member="b")
    lost: set[object] = set()
    poll_until(
        [first, second],
        lambda: len(first.assigned()) == len(second.assigned()) == 1,
        lambda number, poll: lost.update(poll.assignment.lost) if number == 0 else None,
    )
    assert second.assigned() <= lost
    second.close()
    own([first], 2)
    _close(first)


def check_a_partition_that_stays_reads_on_after_a_rebalance(bench: Bench) -> None:
    topic, group = bench.topic(2), bench.fresh("group")
    for partition in range(2):
        write(bench.log, topic, [b"before-%d" % partition], partition)
    first = bench.another().consumer(group, [topic], member="a")
    collect(first, 2)
    second = bench.another().consumer(group, [topic], member="b")
    seen: list[bytes | None] = []
    note = lambda number, poll: seen.extend(values(poll.batches)) if number == 0 else None  # noqa: E731
    poll_until([first, second], lambda: len(first.assigned()) == len(second.assigned()) == 1, note)
    ((_, kept),) = first.assigned()
    write(bench.log, topic, [b"after"], kept)
    poll_until([first, second], lambda: b"after" in seen, note)
    assert seen == [b"after"]
    _close(first, second)


def check_a_committed_position_and_its_metadata_outlive_the_member(bench: Bench) -> None:
    topic, group = bench.topic(), bench.fresh("group")
    write(bench.log, topic, [b"0", b"1", b"2"])
    first = bench.another().consumer(group, [topic], member="a")
    own([first], 1)
    assert first.committed((topic, 0)) is None
    first.commit({(topic, 0): Position(offset=2, metadata="minute 7")})
    first.close()
    second = bench.another().consumer(group, [topic], member="b")
    assert values(collect(second, 1)) == [b"2"]
    assert second.committed((topic, 0)) == Position(offset=2, metadata="minute 7")
    _close(second)


def check_the_position_of_a_lost_partition_is_not_committed(bench: Bench) -> None:
    topic, group = bench.topic(2), bench.fresh("group")
    first = bench.another().consumer(group, [topic], member="a")
    own([first], 2)
    second = bench.another().consumer(group, [topic], member="b")
    own([first, second], 2)
    first.commit({(topic, partition): Position(offset=0, metadata="first") for partition in range(2)})
    ((_, lost),) = second.assigned()
    assert second.committed((topic, lost)) is None
    assert second.committed((topic, 1 - lost)) == Position(offset=0, metadata="first")
    _close(first, second)


def check_a_member_the_group_has_dropped_cannot_commit_and_can_come_back(bench: Bench) -> None:
    topic, group = bench.topic(), bench.fresh("group")
    consumer = bench.log.consumer(group, [topic], member="a")
    own([consumer], 1)
    bench.expel(group, "a")
    with pytest.raises(FencedError):
        consumer.commit({(topic, 0): Position(offset=0)})
    polls: list[Poll] = []
    poll_until([consumer], lambda: any(poll.assignment.gained for poll in polls), lambda _, poll: polls.append(poll))
    assert [lost for poll in polls for lost in poll.assignment.lost] == [(topic, 0)]
    consumer.commit({(topic, 0): Position(offset=0)})


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


def check_a_pattern_finds_topics_also_those_made_later(bench: Bench) -> None:
    early, other = bench.topic(name="raw-early"), bench.topic(name="other-raw")
    consumer = bench.log.consumer(bench.fresh("group"), ["^" + bench.fresh("raw-(early|late)")], member="a")
    own([consumer], 1)
    assert consumer.assigned() == {(early, 0)}
    late = bench.topic(name="raw-late")
    own([consumer], 2)
    assert consumer.assigned() == {(early, 0), (late, 0)}
    assert (other, 0) not in consumer.assigned()


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
    write(bench.log, topic, [b"x" * 999_000] * 3)
    assert [len(value or b"") for value in values(_read(bench, topic))] == [999_000] * 3
    with pytest.raises(ValueError, match="larger than a broker takes"):
        bench.log.producer().send(topic, b"x" * 1_000_000)


def check_read_ends_at_the_present_end(bench: Bench) -> None:
    topic = bench.topic()
    write(bench.log, topic, [b"%d" % number for number in range(5_000)])
    batches: list[Batch] = []
    assert bench.log.read(topic, 0, batches.append) == 5_000
    assert values(batches) == [b"%d" % number for number in range(5_000)]
    assert batches[-1].next_offset == 5_000


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


def check_writing_to_a_topic_that_is_missing_says_so(bench: Bench) -> None:
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


def check_a_checkpoint_is_restored_by_the_next_owner(bench: Bench) -> None:
    _state_topic(bench)
    first = bench.log.checkpoints(0)
    restored = first.take_over()
    assert (restored.marker, dict(restored.states)) == (None, {})
    first.save({"a": b"1", "b": b"1"}, marker(1, 2, offset=10))
    first.save({"b": b"2", "c": b"2"}, marker(2, 2, offset=20))
    first.save({"a": None}, marker(3, 1, offset=30))
    first.close()
    restored = bench.another().checkpoints(0).take_over()
    assert restored.marker == marker(3, 1, offset=30)
    assert dict(restored.states) == {"b": b"2", "c": b"2"}


def check_shards_are_checkpointed_apart(bench: Bench) -> None:
    _state_topic(bench, partitions=2)
    stores = [bench.log.checkpoints(shard) for shard in range(2)]
    for number, store in enumerate(stores):
        store.take_over()
        store.save({"key": b"%d" % number}, marker(1, 1, offset=number))
    for number in range(2):
        assert dict(bench.another().checkpoints(number).take_over().states) == {"key": b"%d" % number}


def check_a_former_owner_is_fenced_and_its_store_is_dead(bench: Bench) -> None:
    _state_topic(bench)
    former, owner = bench.another().checkpoints(0), bench.another().checkpoints(0)
    former.take_over()
    owner.take_over()
    with pytest.raises(FencedError):
        former.save({"key": b"former"}, marker(1, 1))
    with pytest.raises(UnavailableError):
        former.save({"key": b"former"}, marker(1, 1))
    with pytest.raises(UnavailableError):
        former.take_over()
    owner.save({"key": b"owner"}, marker(1, 1))
    assert dict(bench.another().checkpoints(0).take_over().states) == {"key": b"owner"}


def check_a_state_that_can_never_be_written_is_named_and_harms_nothing(bench: Bench) -> None:
    _state_topic(bench)
    with pytest.raises(UnavailableError, match="take-over"):
        bench.log.checkpoints(0).save({}, marker(1, 0))
    store = bench.log.checkpoints(0)
    store.take_over()
    with pytest.raises(ValueError, match="lammps"):
        store.save({"lammps": b"x" * 900_000}, marker(1, 1))
    with pytest.raises(ValueError, match="marker"):
        store.save({"__marker__": b"{}"}, marker(1, 1))
    with pytest.raises(ValueError, match="counts 7"):
        store.save({"lammps": b"{}"}, marker(1, 7))
    store.save({"lammps": b"x" * 899_000}, marker(1, 1))
    assert len(bench.another().checkpoints(0).take_over().states["lammps"]) == 899_000


def check_a_closed_store_refuses_everything(bench: Bench) -> None:
    _state_topic(bench)
    store = bench.log.checkpoints(0)
    store.take_over()
    store.close()
    store.close()
    with pytest.raises(UnavailableError):
        store.save({}, marker(1, 0))


def _state_topic(bench: Bench, partitions: int = 1) -> None:
    bench.log.create([TopicSettings(name=bench.state_topic, partitions=partitions, compacted=True)])


def _read(bench: Bench, topic: str) -> list[Batch]:
    batches: list[Batch] = []
    bench.log.read(topic, 0, batches.append)
    return batches


def _close(*clients: object) -> None:
    for client in clients:
        client.close()  # type: ignore[attr-defined] # every client has it


CHECKS = {name.removeprefix("check_"): check for name, check in globals().items() if name.startswith("check_")}
KINDS = {"memory": (), "faultless": (), "kafka": (pytest.mark.kafka,)}
CASES = [
    pytest.param(kind, check, id=f"{kind}:{name}", marks=marks)
    for kind, marks in KINDS.items()
    for name, check in CHECKS.items()
]


@pytest.fixture
def make_bench(request: pytest.FixtureRequest, fresh: Callable[[str], str]) -> Iterator[Callable[[str], Bench]]:
    made: list[Bench] = []

    def make(kind: str) -> Bench:
        if kind == "kafka":
            made.append(kafka_bench(request.getfixturevalue("kafka"), fresh))
        else:
            made.append(memory_bench(fresh, FaultRates() if kind == "faultless" else None))
        return made[-1]

    yield make
    for bench in made:
        bench.log.close()


@pytest.mark.parametrize(("kind", "check"), CASES)
def test_log(kind: str, check: Callable[[Bench], None], make_bench: Callable[[str], Bench]) -> None:
    started = time.monotonic()
    check(make_bench(kind))
    assert time.monotonic() - started < 60
