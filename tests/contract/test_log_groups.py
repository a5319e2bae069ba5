"""The contract of the log, checked on every kind of it: groups. The id of a test is `kind:check`."""

from collections.abc import Callable

import pytest

from processors.contracts.errors import RebalancingError
from processors.contracts.log import Consumer, Poll, Position
from tests.kit.logs import Bench, cases, collect, own, poll_until, values, write


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
    seen: list[bytes | None] = []

    def note(_: int, poll: Poll) -> None:
        seen.extend(values(poll.batches))
        write(bench.log, topic, [b"new"])  # at every poll: nobody tells when the end was looked up

    poll_until([consumer], lambda: bool(seen), note)
    assert set(seen) == {b"new"}


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
    ((_, retained),) = first.assigned()
    write(bench.log, topic, [b"after"], retained)
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
    with pytest.raises(RebalancingError):
        consumer.commit({(topic, 0): Position(offset=0)})
    polls: list[Poll] = []
    poll_until([consumer], lambda: any(poll.assignment.gained for poll in polls), lambda _, poll: polls.append(poll))
    assert [lost for poll in polls for lost in poll.assignment.lost] == [(topic, 0)]
    consumer.commit({(topic, 0): Position(offset=0)})


def check_a_pattern_finds_topics_also_those_made_later(bench: Bench) -> None:
    early, other = bench.topic(name="raw-early"), bench.topic(name="other-raw")
    consumer = bench.log.consumer(bench.fresh("group"), ["^" + bench.fresh("raw-(early|late)")], member="a")
    own([consumer], 1)
    assert consumer.assigned() == {(early, 0)}
    late = bench.topic(name="raw-late")
    own([consumer], 2)
    assert consumer.assigned() == {(early, 0), (late, 0)}
    assert (other, 0) not in consumer.assigned()


def _close(*clients: Consumer) -> None:
    for client in clients:
        client.close()


@pytest.mark.parametrize(("kind", "check"), cases(globals()))
def test_log(kind: str, check: Callable[[Bench], None], make_bench: Callable[[str], Bench]) -> None:
    check(make_bench(kind))
