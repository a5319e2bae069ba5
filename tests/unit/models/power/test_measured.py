"""From what sensors and counters tell to watts and joules."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.energy import Step, energy, increments
from processors.models.power import believable, efficient
from tests.kit.rapl import RAPL_FINE_RANGE_J, RAPL_RANGE_J


def steps(*reported: float) -> list[tuple[float, str]]:
    found = increments(*([value] for value in reported))
    return [(float(found.amount[0]), Step(found.step[0]).name)]


def test_the_published_ranges_are_32_bits_of_the_units() -> None:
    assert pytest.approx(2**32 * 61.035e-6, rel=1e-5) == RAPL_RANGE_J
    assert pytest.approx(2**32 * 15.258e-6, rel=1e-5) == RAPL_FINE_RANGE_J


def test_a_package_of_a_hundred_watts_that_wraps_every_44_minutes_loses_no_energy() -> None:
    read_at_s = np.arange(0.0, 86_400.0, 60.0)
    counter = (100.0 * read_at_s) % RAPL_RANGE_J
    found = increments(counter[:-1], counter[1:], np.diff(read_at_s), RAPL_RANGE_J, 300.0)
    assert np.sum(found.amount) == pytest.approx(100.0 * read_at_s[-1])
    assert found.counts() == {"grew": 1407, "wrapped": 32, "reset": 0, "doubtful": 0, "unknown": 0}


def test_a_reset_is_no_wrap_and_makes_up_nothing() -> None:
    found = increments([10_000.0], [50.0], [60.0], RAPL_RANGE_J, 300.0)
    assert (np.isnan(found.amount[0]), Step(found.step[0])) == (True, Step.RESET)
    assert steps(10_000.0, 50.0, 60.0)[0][1] == "RESET"  # a counter that never wraps
    # without a known rate it is told by how far it would have gone round
    assert steps(RAPL_RANGE_J - 10.0, 5.0, 60.0, RAPL_RANGE_J) == [(pytest.approx(15.0), "WRAPPED")]
    assert steps(RAPL_RANGE_J / 4, 5.0, 60.0, RAPL_RANGE_J)[0][1] == "RESET"


def test_where_whole_ranges_may_be_missing_nothing_is_trusted() -> None:
    assert steps(100.0, 200.0, 3600.0, RAPL_RANGE_J, 300.0)[0][1] == "DOUBTFUL"
    assert steps(200.0, 100.0, 1500.0, RAPL_RANGE_J, 300.0)[0][1] == "WRAPPED"  # twice would be 349 W
    assert steps(200.0, 100.0, 3600.0, RAPL_RANGE_J, 300.0)[0][1] == "DOUBTFUL"
    assert steps(0.0, 1e6, 1.0, np.inf, 300.0)[0][1] == "DOUBTFUL"


@pytest.mark.parametrize(
    "reported",
    [(np.nan, 1.0, 1.0), (1.0, np.nan, 1.0), (-1.0, 1.0, 1.0), (1.0, 2.0, 0.0), (1.0, 2.0, -5.0), (1, np.inf, 1)],
)
def test_a_reading_that_is_missing_or_cannot_be_reports_nothing(reported: tuple[float, float, float]) -> None:
    assert steps(*reported)[0][1] == "UNKNOWN"


@settings(max_examples=200, deadline=None)
@given(
    st.floats(0.0, RAPL_RANGE_J * (1 - 1e-9)),
    st.floats(0.0, 300.0),
    st.floats(1.0, RAPL_RANGE_J / 301.0),
)
def test_a_counter_read_often_enough_always_reports_its_power(start: float, power_w: float, elapsed_s: float) -> None:
    now = (start + power_w * elapsed_s) % RAPL_RANGE_J
    found = increments([start], [now], [elapsed_s], RAPL_RANGE_J, 300.0)
    if found.step[0] != Step.DOUBTFUL:  # at the very edge of one range a second one cannot be excluded
        assert found.amount[0] == pytest.approx(power_w * elapsed_s, abs=1e-3)
    assert found.step[0] != Step.RESET


def test_values_that_cannot_be_are_left_out() -> None:
    found = believable(np.array([[200.0, np.nan, 0.0], [-5.0, 5e6, np.inf]]), most_w=5000.0)
    assert np.isfinite(found).sum() == 1
    assert found[0, 0] == 200.0


def test_gaps_are_reported_and_filled_with_the_mean_of_what_was_measured() -> None:
    time_s = np.arange(0.0, 3601.0, 60.0)
    power = np.full((3, 61), 250.0)
    power[1, 20:40] = np.nan
    power[2] = np.nan
    found = energy(time_s, power, 0.0, 3600.0, 120.0)
    assert found.energy_j[:2] == pytest.approx([900_000.0] * 2)
    assert np.isnan(found.energy_j[2])
    assert found.share == pytest.approx([1.0, 1.0 - 21 / 60, 0.0])
    assert found.gaps.tolist() == [0, 1, 0]


def test_a_line_is_integrated_exactly_and_ends_far_from_samples_are_gaps() -> None:
    time_s = np.array([100.0, 200.0, 250.0])
    found = energy(time_s, (100.0 + time_s)[None, :], 100.0, 250.0, 100.0)
    assert found.energy_j[0] == pytest.approx(100.0 * 150.0 + (250.0**2 - 100.0**2) / 2)
    late = energy(time_s, np.full((1, 3), 10.0), 0.0, 1000.0, 150.0)
    assert (late.share[0], late.gaps[0], late.energy_j[0]) == (pytest.approx(0.25), 1, pytest.approx(10_000.0))


def test_a_thousand_hosts_each_with_gaps_of_its_own_agree_with_one_at_a_time() -> None:
    rng = np.random.default_rng(1)
    time_s, power = np.arange(0.0, 1800.0, 60.0), 200.0 + 50 * rng.random((1000, 30))
    power[rng.random(power.shape) < 0.3] = np.nan
    joint = energy(time_s, power, 10.0, 1790.0, 150.0)
    for host in (0, 7, 999):
        alone = energy(time_s, power[host : host + 1], 10.0, 1790.0, 150.0)
        assert [each[host] for each in joint] == pytest.approx([each[0] for each in alone])


def test_a_sample_far_from_the_next_and_from_both_ends_measures_no_time() -> None:
    found = energy(np.arange(4) * 60.0, np.array([[np.nan, np.nan, 1.0, np.nan]]), -30.0, 240.0, 90.0)
    assert (found.share[0], found.gaps[0]) == (0.0, 2)
    assert np.isnan(found.energy_j[0])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.just(float("nan")), st.floats(1.0, 1000.0)), min_size=1, max_size=20))
def test_energy_lies_between_the_least_and_the_largest_power(samples: list[float]) -> None:
    power = np.array([samples])
    found = energy(np.arange(len(samples)) * 60.0, power, -30.0, 60.0 * len(samples), 90.0)
    if found.share[0] == 0.0:  # no sample, or each too far from the next and from both ends
        assert np.isnan(found.energy_j[0])
        assert len(samples) - np.isnan(power).sum() <= len(samples) / 2
        return
    mean_w = found.energy_j[0] / (60.0 * len(samples) + 30.0)
    assert np.nanmin(power) - 1e-9 <= mean_w <= np.nanmax(power) + 1e-9
    assert 0.0 < found.share[0] <= 1.0 + 1e-12


@pytest.mark.parametrize("time_s", [[0.0, 0.0], [1.0, 0.0]])
def test_times_that_do_not_rise_are_refused(time_s: list[float]) -> None:
    with pytest.raises(ValueError, match="rise"):
        energy(np.array(time_s), np.ones((1, 2)), 0.0, 10.0, 60.0)
    with pytest.raises(ValueError, match="end"):
        energy(np.array([0.0]), np.ones((1, 1)), 10.0, 10.0, 60.0)


def test_the_most_efficient_size_need_not_be_the_fastest() -> None:
    n = np.array([8.0, 1.0, 2.0, 4.0])
    found = efficient(n, np.array([20.0, 100.0, 52.0, 30.0]), 200.0 * n)
    assert (found.least_energy_n, found.least_energy_delay_n) == (1.0, 8.0)
    with pytest.raises(ValueError, match="positive"):
        efficient(n, np.zeros(4), n)
