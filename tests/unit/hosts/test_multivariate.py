"""All resources of hosts together: by minutes that come from several sources, for hosts with different resources."""

import numpy as np
import pytest
from numpy.typing import NDArray

from processors.hosts.detectors import MultivariateDetector
from processors.hosts.windows import MinuteBatch
from processors.models.detect.multivariate import RESOURCES_MAX, CombinedSettings

MINUTE_MS, DAY_MINUTES = 60_000, 1440
SETTINGS = CombinedSettings(warm_up_h=2.0, learn_h=4.0, days_min=1)
LOADS = np.array([100.0, -1.0, 1e6])


def new(hosts: int = 2, series: int = 64) -> MultivariateDetector:
    joint = MultivariateDetector(SETTINGS)
    joint.grow(hosts)
    joint.places.grow(series)
    return joint


def batch(rows: list[int], host: int, minute: int, means: NDArray[np.float64]) -> MinuteBatch:
    at = np.array(rows)
    return MinuteBatch(at, np.full(at.size, host), np.full(at.size, minute * MINUTE_MS), means)


def means(minute: int, *, broken: bool = False) -> NDArray[np.float64]:
    """One load moves three resources; where it is broken, the second moves four times as far against it."""
    rng = np.random.default_rng(minute)
    load = np.sin(minute / 3.0) + 0.3 * rng.normal() + np.zeros(6)
    signs = np.array([1.0, -4.0 if broken else 1.0, 1.0])
    found: NDArray[np.float64] = (LOADS * signs)[:, None] * load + 0.03 * LOADS[:, None] * rng.normal(size=(3, 6))
    return found


def run(joint: MultivariateDetector, minutes: range, broken_from: int = 10**6) -> None:
    for minute in minutes:
        joint.take(batch([0, 1, 2], 0, minute, means(minute, broken=minute >= broken_from)))
    joint.tick(minutes.stop * MINUTE_MS + 2 * MINUTE_MS)


def test_a_host_whose_resource_contradicts_the_others_is_high_for_as_long_and_the_resource_is_reported() -> None:
    joint = new()
    run(joint, range(1520), broken_from=1500)
    found = joint.contradiction(0)
    assert found is not None
    assert found.row == 1
    assert found.since_ms // MINUTE_MS == pytest.approx(1502, abs=3)
    assert int(joint.hosts.rows["recent"][0]).bit_count() == 1520 - found.since_ms // MINUTE_MS
    assert joint.lasting.tolist() == [0]
    assert (found.ratio > 1.5, found.far) == (True, ())
    quiet = new()
    run(quiet, range(1520))
    assert quiet.contradiction(0) is None


def test_the_days_of_the_last_week_with_a_high_minute_are_counted() -> None:
    joint = new()
    run(joint, range(1520), broken_from=1500)
    assert joint.unusual_days([0, 1]).tolist() == [1, 0]
    run(joint, range(1520 + 6 * DAY_MINUTES, 1521 + 6 * DAY_MINUTES))
    assert joint.unusual_days([0, 1]).tolist() == [1, 0]
    run(joint, range(1520 + 7 * DAY_MINUTES, 1521 + 7 * DAY_MINUTES))
    assert joint.unusual_days([0, 1]).tolist() == [0, 0]


def test_a_host_is_suspected_while_its_resources_are_twice_as_unusual_as_they_get_and_ten_minutes_longer() -> None:
    joint = new()
    run(joint, range(320), broken_from=300)
    since_ms = joint.suspected_since_ms(0, 320 * MINUTE_MS)
    assert since_ms is not None
    assert since_ms // MINUTE_MS == pytest.approx(303, abs=3)
    assert joint.suspected_since_ms(0, 340 * MINUTE_MS) is None
    quiet = new()
    run(quiet, range(320))
    assert quiet.suspected_since_ms(0, 320 * MINUTE_MS) is None


def test_many_resources_that_are_far_from_their_means_at_once_are_reported_however_well_they_go_together() -> None:
    joint, rng = new(), np.random.default_rng(5)
    for minute in range(320):
        own = rng.normal(size=(8, 6)) + np.where((minute >= 318) & (np.arange(8) < 7), 9.0, 0.0)[:, None]
        joint.take(batch(list(range(8)), 0, minute, own))
    joint.tick(330 * MINUTE_MS)
    found = joint.contradiction(0)
    assert found is not None
    assert (found.far, found.since_ms // MINUTE_MS) == (tuple(range(7)), 318)


def test_it_does_not_matter_in_how_many_batches_the_resources_of_a_host_come() -> None:
    whole, parts = new(), new()
    run(whole, range(60))
    for minute in range(60):
        one = means(minute)
        parts.take(batch([0, 1], 0, minute, one[:2]))
        parts.take(batch([2], 0, minute, one[2:]))
        parts.tick((minute + 1) * MINUTE_MS)
    parts.tick(62 * MINUTE_MS)
    assert parts.stored(0, 2) == whole.stored(0, 2)


def test_a_minute_is_scored_when_the_next_comes_or_when_it_ended_a_minute_ago_and_what_is_later_is_passed_over() -> (
    None
):
    joint = new()
    joint.take(batch([0, 1, 2], 0, 5, means(5)))
    joint.tick(7 * MINUTE_MS - 1)
    assert joint.hosts.rows["scored_ms"][0] == -1
    joint.tick(7 * MINUTE_MS)
    assert joint.hosts.rows["scored_ms"][0] == 5 * MINUTE_MS
    before = joint.stored(0, 2)
    joint.take(batch([0], 0, 5, means(9)[:1]))
    assert joint.stored(0, 2) == before


def test_the_resources_of_a_host_move_to_a_larger_group_and_a_place_is_used_again() -> None:
    joint = new()
    joint.take(batch([0, 1], 0, 0, means(0)[:2]))
    joint.take(batch([2], 0, 0, means(0)[2:]))
    assert joint.hosts.rows["places"].tolist() == [3, 0]
    joint.places.clear(np.array([1]))
    joint.take(batch([7], 0, 1, means(1)[:1]))
    assert joint.hosts.rows["places"].tolist() == [3, 0]
    assert joint.places.rows["place"][[0, 7, 2]].tolist() == [0, 1, 2]


def test_more_resources_than_can_be_scored_together_are_left_out() -> None:
    joint = new()
    rows = list(range(RESOURCES_MAX + 3))
    joint.take(batch(rows, 0, 0, np.ones((len(rows), 6))))
    joint.take(batch(rows, 0, 1, np.ones((len(rows), 6))))
    assert joint.hosts.rows["places"][0] == RESOURCES_MAX
    assert joint.places.rows["place"][RESOURCES_MAX : RESOURCES_MAX + 3].tolist() == [-1] * 3


def test_hosts_that_are_restored_go_on_as_if_nothing_had_happened() -> None:
    one, twin = new(), new()
    run(one, range(1470))
    one.take(batch([10, 11], 1, 1470, means(1470)[:2]))
    twin.restore(0, 2, one.stored(0, 2))
    twin.places.restore(0, 64, one.places.stored(0, 64))
    for each in (one, twin):
        run(each, range(1471, 1510), broken_from=1500)
    assert twin.stored(0, 2) == one.stored(0, 2)
    assert twin.contradiction(0) == one.contradiction(0) is not None


def test_a_host_of_one_resource_has_no_score() -> None:
    joint = new()
    for minute in range(60):
        joint.take(batch([0], 0, minute, means(minute)[:1]))
    joint.tick(70 * MINUTE_MS)
    assert (joint.hosts.rows["score"][0], joint.contradiction(0)) == (0.0, None)


def test_hosts_of_unequal_numbers_of_resources_are_stored_each_as_it_is() -> None:
    joint = new(hosts=3)
    for number in range(30):
        joint.take(batch([0, 1, 2], 0, number, means(number)))
        joint.take(batch([3, 4], 1, number, means(number)[:2]))
        joint.take(batch([5, 6, 7], 2, number, means(number)))
    twin = new(hosts=3)
    twin.restore(0, 3, joint.stored(0, 3))
    assert twin.stored(0, 3) == joint.stored(0, 3)
    assert twin.stored(1, 2) == joint.stored(1, 2)
    for each in (joint, twin):
        each.tick(60 * MINUTE_MS)
    assert twin.stored(0, 3) == joint.stored(0, 3)
