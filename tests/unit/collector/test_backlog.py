"""How far a collector is behind its topics."""

from agent.collector.sources import GRACE_S, Backlog, PartitionProgress

NOW_MS = 1_795_168_800_000
HOUR_MS = 3_600_000
PLACE = ("slurm", 0)


def test_an_hour_of_messages_that_wait_is_an_hour_behind_until_they_are_read() -> None:
    backlog = Backlog()
    old = PartitionProgress(40, NOW_MS - HOUR_MS)
    assert backlog.lag_s({PLACE: old}, {PLACE: 900}, 0.0, NOW_MS) == 0.0
    assert backlog.lag_s({PLACE: old}, {PLACE: 900}, GRACE_S, NOW_MS) == 3600.0
    assert backlog.lag_s({PLACE: PartitionProgress(900, NOW_MS)}, {PLACE: 900}, GRACE_S + 1, NOW_MS) == 0.0


def test_a_producer_with_a_wrong_clock_makes_nobody_late_who_keeps_up() -> None:
    backlog = Backlog()
    for second in range(100):
        wrong = PartitionProgress(10 * second, NOW_MS - HOUR_MS)
        assert backlog.lag_s({PLACE: wrong}, {PLACE: 10 * (second - 1)}, float(second), NOW_MS) == 0.0


def test_without_times_it_is_as_far_behind_as_it_has_been_late() -> None:
    backlog = Backlog()
    for second in (0.0, 300.0):
        lag_s = backlog.lag_s({PLACE: PartitionProgress(40, 0)}, {PLACE: 900}, second, NOW_MS)
    assert lag_s == 300.0


def test_where_a_poll_brings_nothing_nothing_waits() -> None:
    backlog = Backlog()
    backlog.lag_s(
        {PLACE: PartitionProgress(899, 0)}, {PLACE: 900}, 0.0, NOW_MS
    )  # the last offset is the mark of a transaction
    backlog.idle(300.0)
    assert backlog.lag_s({PLACE: PartitionProgress(899, 0)}, {PLACE: 900}, 301.0, NOW_MS) == 0.0
