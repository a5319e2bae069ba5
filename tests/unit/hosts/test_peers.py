"""Hosts against their peers, minute by minute."""

from typing import Any, ClassVar

import numpy as np
import pytest

from processors.contracts.alerts import PeerDifference
from processors.hosts.peers import Difference, PeerComparison
from processors.hosts.windows import MinuteBatch

MINUTE_MS = 60_000
HOSTS = 20
ROWS = np.arange(HOSTS)


def minute(
    deviating: PeerComparison, number: int, values: np.ndarray, names: str = "cpu_available", group: object = None
) -> None:
    deviating.grow(HOSTS)
    deviating.take(MinuteBatch(ROWS, ROWS, np.full(HOSTS, number * MINUTE_MS), np.repeat(values[:, None], 6, axis=1)))
    groups = np.zeros(HOSTS, int) if group is None else np.asarray(group)
    deviating.judge((number + 1) * MINUTE_MS, [names] * HOSTS, ROWS, groups)


def cpu(**slow: float) -> np.ndarray:
    values = 0.9 + 0.01 * np.sin(ROWS)
    for host, value in slow.items():
        values[int(host[1:])] = value
    return values


KNOWN_MINUTES = 2
CLEAR_MINUTES = 4


ANY_NUMBER = 1e9  # of false alerts a day: how long spells usually last does not matter then


class Quick(PeerDifference):
    """Settings with which a difference ends soon."""

    clear_s: ClassVar[float] = CLEAR_MINUTES * 60.0


def new(**settings: Any) -> PeerComparison:
    given = {"resources": "^cpu", "for_s": KNOWN_MINUTES * 60.0, "false_per_day": ANY_NUMBER} | settings
    return PeerComparison(Quick(**given))


def slow_for(deviating: PeerComparison, minutes: range) -> None:
    for number in minutes:
        minute(deviating, number, cpu(h3=0.3))


def test_it_is_unlike_since_the_first_minute_once_that_was_so_for_long_enough() -> None:
    deviating = new()
    slow_for(deviating, range(1))
    assert deviating.difference(3) is None
    slow_for(deviating, range(1, 3))
    found = deviating.difference(3)
    assert found is not None
    assert found == Difference(MINUTE_MS, 0.3, found.usual)
    assert found.usual == pytest.approx(0.9, abs=0.01)
    assert np.flatnonzero(deviating.differing_now(3 * MINUTE_MS)).tolist() == [3]


def test_a_short_difference_is_forgotten_at_once() -> None:
    deviating = new()
    slow_for(deviating, range(1))
    minute(deviating, 1, cpu())
    slow_for(deviating, range(2, 3))
    assert deviating.difference(3) is None


def test_what_is_known_outlives_the_job_and_ends_with_minutes_in_which_the_host_was_compared_and_alike() -> None:
    deviating = new()
    slow_for(deviating, range(3))
    for number in range(3, 200):
        minute(deviating, number, cpu(), group=np.full(HOSTS, -1))
    assert deviating.difference(3) is not None, "nobody compared it"
    for number in range(200, 200 + CLEAR_MINUTES - 1):
        minute(deviating, number, cpu())
    assert deviating.difference(3) is not None
    assert not deviating.differing_now((199 + CLEAR_MINUTES) * MINUTE_MS).any()
    minute(deviating, 199 + CLEAR_MINUTES, cpu())
    assert deviating.difference(3) is None


def test_a_minute_of_difference_lets_the_minutes_of_likeness_count_anew() -> None:
    deviating = new()
    slow_for(deviating, range(3))
    for number in range(3, 20):
        minute(deviating, number, cpu(h3=0.3) if number % CLEAR_MINUTES == 0 else cpu())
    assert deviating.difference(3) is not None


def bursts(deviating: PeerComparison, minutes: range) -> None:
    """Let the first four hosts have half an hour of load every three hours, one after the other; the other sixteen are calm."""
    for number in minutes:
        place, since = divmod(number % 180, 45)
        minute(deviating, number, cpu(**{f"h{place}": 0.3}) if since < 30 else cpu())


def known_after(deviating: PeerComparison, host: int, minutes: range) -> int | None:
    """Return after how many minutes of difference a host is known to be unlike its peers."""
    for number in minutes:
        minute(deviating, number, cpu(**{f"h{host}": 0.3}))
        if deviating.difference(host) is not None:
            return number - minutes.start + 1
    return None


DAY = 1440


def test_hosts_that_have_spells_of_load_are_like_the_others_in_the_end() -> None:
    deviating = PeerComparison(PeerDifference(resources="^cpu"))
    for number in range(2 * DAY):
        bursts(deviating, range(number, number + 1))
        assert not deviating.rows["known"].any()


def test_one_that_stays_unlike_for_longer_than_such_spells_last_is_known() -> None:
    deviating = PeerComparison(PeerDifference(resources="^cpu"))
    bursts(deviating, range(DAY))
    assert known_after(deviating, 0, range(DAY, 2 * DAY)) in range(120, 480)


def test_a_host_that_never_had_such_spells_is_known_sooner_than_one_that_has() -> None:
    calm, bursty = PeerComparison(PeerDifference(resources="^cpu")), PeerComparison(PeerDifference(resources="^cpu"))
    for each in (calm, bursty):
        bursts(each, range(DAY))
    calm_minutes, bursty_minutes = (
        known_after(calm, 9, range(DAY, 2 * DAY)),
        known_after(bursty, 0, range(DAY, 2 * DAY)),
    )
    assert calm_minutes is not None
    assert bursty_minutes is not None
    assert calm_minutes < bursty_minutes


def test_where_no_host_has_spells_one_is_known_within_hours_on_the_first_day_and_within_minutes_in_a_month() -> None:
    young, old = PeerComparison(PeerDifference(resources="^cpu")), PeerComparison(PeerDifference(resources="^cpu"))
    minute(old, 0, cpu())
    old.rows["compared_for_ms"][:HOSTS] = 14 * DAY * MINUTE_MS
    assert known_after(young, 9, range(DAY)) in range(60, 240)
    assert known_after(old, 9, range(1, DAY)) in range(5, 15)


def test_between_alike_and_different_nothing_changes() -> None:
    deviating = new()
    slow_for(deviating, range(3))
    for number in range(3, 30):
        minute(deviating, number, cpu(h3=0.8))
    assert deviating.difference(3) is not None


def test_what_could_not_be_compared_for_too_long_is_not_known_any_more() -> None:
    deviating = new(keep_firing_s=3600.0)
    slow_for(deviating, range(3))
    for number in range(3, 63):
        minute(deviating, number, cpu(), group=np.full(HOSTS, -1))
    assert deviating.difference(3) is not None
    minute(deviating, 63, cpu(), group=np.full(HOSTS, -1))
    assert deviating.difference(3) is None


def test_groups_of_two_kinds_are_shown_nothing_of() -> None:
    deviating = new()
    minute(deviating, 0, cpu(h3=0.3, h4=0.3, h5=0.3))
    assert not (deviating.rows["since_ms"] >= 0).any()


def test_other_resources_other_groups_and_old_minutes_are_not_compared() -> None:
    deviating = new()
    minute(deviating, 0, cpu(h3=0.3), names="memory_free")
    assert not (deviating.rows["since_ms"] >= 0).any()
    minute(deviating, 1, cpu(h3=0.3), group=np.where(ROWS == 3, -1, 0))
    assert not (deviating.rows["since_ms"] >= 0).any()
    deviating.judge(9 * MINUTE_MS, ["cpu_available"] * HOSTS, ROWS, np.zeros(HOSTS, int))
    assert not (deviating.rows["since_ms"] >= 0).any()


def test_a_small_difference_is_none_however_alike_the_others_are() -> None:
    deviating = new()
    minute(deviating, 0, np.where(ROWS == 3, 0.8, 0.9))
    assert not (deviating.rows["since_ms"] >= 0).any()
