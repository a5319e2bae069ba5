"""The life of one alert: when it fires, for how long it stays, and when it may fire again."""

import msgspec
from msgspec.structs import replace

from processors.alerts.lifecycle import AlertLife, Condition
from processors.alerts.rules import PEER_DIFFERENCE

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


def run_is_slow(time_ms: int) -> Condition:
    """A condition of one moment, that fires at most every four hours and keeps firing for one."""
    return Condition(
        name="StrangeRun", labels={}, holds=True, momentary=True, time_ms=time_ms, keep_firing_ms=HOUR_MS, not_again_ms=4 * HOUR_MS
    )  # fmt: skip


def host_is_slow(time_ms: int, *, holds: bool = True, for_ms: int = 0) -> Condition:
    """A condition that lasts until the contrary is said."""
    return Condition(
        name="PeerDifference", labels={}, holds=holds, time_ms=time_ms, for_ms=for_ms, not_again_ms=4 * HOUR_MS
    )


def lived(life: AlertLife, until_ms: int, *conditions: Condition) -> list[tuple[str, int]]:
    """Let time pass in ticks of a minute, with conditions at their times; return what changed, and at which minute."""
    found, waiting = [], sorted(conditions, key=lambda one: one.time_ms)
    for now_ms in range(0, until_ms, MINUTE_MS):
        while waiting and waiting[0].time_ms <= now_ms:
            found += life.take(waiting.pop(0))
        found += life.tick(now_ms)
    return [(change.status, change.time_ms // MINUTE_MS) for change in found]


def test_what_comes_again_soon_does_not_fire_again() -> None:
    changes = lived(AlertLife(), 8 * HOUR_MS, *(run_is_slow(at * HOUR_MS) for at in (0, 2)))
    assert changes == [("firing", 0), ("resolved", 60)]


def test_what_comes_again_later_fires_again() -> None:
    changes = lived(AlertLife(), 8 * HOUR_MS, *(run_is_slow(at * HOUR_MS) for at in (0, 5)))
    assert changes == [("firing", 0), ("resolved", 60), ("firing", 300), ("resolved", 360)]


def test_what_would_still_keep_it_firing_when_it_may_fire_again_fires_then() -> None:
    changes = lived(AlertLife(), 8 * HOUR_MS, run_is_slow(0), run_is_slow(4 * HOUR_MS - 30 * MINUTE_MS))
    assert changes == [("firing", 0), ("resolved", 60), ("firing", 240), ("resolved", 270)]


def test_what_lasts_waits_until_it_may_fire_again() -> None:
    alike = host_is_slow(HOUR_MS, holds=False)
    changes = lived(AlertLife(), 8 * HOUR_MS, host_is_slow(0), alike, host_is_slow(2 * HOUR_MS))
    assert changes == [("firing", 0), ("resolved", 60), ("pending", 120), ("firing", 240)]


def test_what_is_over_before_it_may_fire_again_was_pending_only() -> None:
    spells = [host_is_slow(at * HOUR_MS, holds=holds) for at, holds in ((0, True), (1, False), (2, True), (3, False))]
    changes = lived(AlertLife(), 8 * HOUR_MS, *spells)
    assert changes == [("firing", 0), ("resolved", 60), ("pending", 120), ("resolved", 180)]


def test_one_that_is_withheld_while_it_fires_is_reported_so_and_again_when_it_is_sent() -> None:
    life = AlertLife()
    life.take(host_is_slow(0))
    (withheld,) = life.take(msgspec.structs.replace(host_is_slow(MINUTE_MS), withheld_by="maintenance"))
    assert (withheld.status, withheld.condition.withheld_by) == ("firing", "maintenance")
    assert life.take(msgspec.structs.replace(host_is_slow(2 * MINUTE_MS), withheld_by="maintenance")) == []
    (sent,) = life.take(host_is_slow(3 * MINUTE_MS))
    assert (sent.status, sent.condition.withheld_by, sent.starts_ms) == ("firing", "", 0)


def test_nothing_of_an_alert_is_kept_once_it_may_fire_again() -> None:
    life = AlertLife()
    lived(life, 2 * HOUR_MS, run_is_slow(0))
    assert (life.open, life.over, life.due_ms()) == (False, False, 4 * HOUR_MS)
    life.tick(4 * HOUR_MS)
    assert (life.over, life.due_ms()) == (True, None)


def test_a_restart_in_between_changes_nothing() -> None:
    life = AlertLife()
    lived(life, 2 * HOUR_MS, run_is_slow(0))
    again = AlertLife.snapshot(life.snapshot())
    assert again.take(run_is_slow(2 * HOUR_MS)) == []
    assert again.tick(3 * HOUR_MS) == []


def test_what_ended_an_alert_that_had_fired_is_known_at_its_end() -> None:
    assert ended_by(host_is_slow(HOUR_MS, holds=False)) == "itself"
    assert ended_by(PEER_DIFFERENCE.over({}, HOUR_MS, by="out_of_service")) == "out_of_service"
    assert ended_by(PEER_DIFFERENCE.ended({}, "It is part of more.", HOUR_MS, by="superseded")) == "superseded"
    assert ended_by(PEER_DIFFERENCE.over({}, HOUR_MS, forgotten=True)) == "forgotten"


def test_what_was_to_end_it_is_forgotten_where_it_goes_on() -> None:
    drained = PEER_DIFFERENCE.over({}, HOUR_MS, by="out_of_service")
    life = AlertLife()
    for condition in (host_is_slow(0), drained, host_is_slow(HOUR_MS + 1), host_is_slow(2 * HOUR_MS, holds=False)):
        life.take(condition)
    assert [change.ended_by for change in life.tick(3 * HOUR_MS)] == ["itself"]


def test_what_nothing_more_is_heard_of_is_forgotten() -> None:
    life = AlertLife()
    life.take(replace(host_is_slow(0), expires_after_ms=HOUR_MS))
    assert [change.ended_by for change in life.tick(2 * HOUR_MS)] == ["forgotten"]


def test_one_that_never_fired_counts_as_no_end() -> None:
    life = AlertLife()
    life.take(host_is_slow(0, for_ms=HOUR_MS))
    life.take(host_is_slow(1, holds=False))
    assert [(change.status, change.ended_by) for change in life.tick(2)] == [("resolved", None)]


def ended_by(condition: Condition) -> str | None:
    life = AlertLife()
    life.take(host_is_slow(0))
    life.take(condition)
    (change,) = life.tick(2 * HOUR_MS)
    return change.ended_by
