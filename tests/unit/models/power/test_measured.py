"""From what sensors and counters tell to watts and joules."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.power import Step, increments
from tests.kit.effort import examples
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
    assert np.bincount(found.step).tolist() == [1407, 32]  # grew and wrapped


def test_a_reset_is_no_wrap_and_makes_up_nothing() -> None:
    found = increments([10_000.0], [50.0], [60.0], RAPL_RANGE_J, 300.0)
    assert (np.isnan(found.amount[0]), Step(found.step[0])) == (True, Step.RESET)
    assert steps(10_000.0, 50.0, 60.0)[0][1] == "RESET"  # a counter that never wraps
    # without a known rate it is told by how far it would have gone round
    ((amount_j, step),) = steps(RAPL_RANGE_J - 10.0, 5.0, 60.0, RAPL_RANGE_J)
    assert amount_j == pytest.approx(15.0)
    assert step == "WRAPPED"
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


@settings(max_examples=examples(200), deadline=None)
@given(
    st.floats(0.0, RAPL_RANGE_J * (1 - 1e-9)),
    st.floats(0.0, 300.0 * (1 - 1e-9)),  # so rounding exceeds no bound
    st.floats(1.0, RAPL_RANGE_J / 301.0),
)
def test_a_counter_read_often_enough_always_reports_its_power(start: float, power_w: float, elapsed_s: float) -> None:
    now = (start + power_w * elapsed_s) % RAPL_RANGE_J
    found = increments([start], [now], [elapsed_s], RAPL_RANGE_J, 300.0)
    if found.step[0] != Step.DOUBTFUL:  # at the very edge of one range a second one cannot be excluded
        assert found.amount[0] == pytest.approx(power_w * elapsed_s, abs=1e-3)
    assert found.step[0] != Step.RESET
