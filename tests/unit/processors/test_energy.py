"""Energy of runs: its band holds what it promises, and sizes of least energy are only those that can be relied on."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.contracts.outputs import CurvePoint, Range, Reliability, UsefulSizes
from processors.models.numerics.conformal import PredictedBand
from processors.models.numerics.statistics import Z95
from processors.power.by_size import (
    BAND_MAX,
    changed,
    energy,
    powered,
    published_powers,
    relied_on,
    with_least_energy,
)
from tests.kit.messages import judged

positive = st.floats(1e-3, 1e9)
widths = st.floats(0.0, 3.0)


def point(n: float, run_time_s: float, half_width: float = 0.1, **changes: Any) -> CurvePoint:
    values: dict[str, Any] = {
        "coverage": 0.9, "coverage_measured": None, "speedup": 1.0, "efficiency": 1.0, "extrapolation": 1.0,
        "source": "observed", "reliability": Reliability("reliable"),
    }  # fmt: skip
    ends = run_time_s * math.exp(-half_width), run_time_s * math.exp(half_width)
    return CurvePoint(n=n, run_time_s=run_time_s, low_s=ends[0], high_s=ends[1], **(values | changes))


def power(power_w: float, half_width: float = 0.05) -> PredictedBand:
    return PredictedBand(power_w, power_w * math.exp(-half_width), power_w * math.exp(half_width))


def predicted(n: float, run_time_s: float, power_w: float, **changes: Any) -> CurvePoint:
    return powered(point(n, run_time_s, **changes), power(power_w))


def test_nine_of_ten_runs_whose_time_and_power_are_off_by_themselves_lie_in_the_band_of_energy() -> None:
    rng = np.random.default_rng(5)
    time_off, power_off = (width / Z95 * rng.standard_normal(20_000) for width in (0.2, 0.1))
    found = energy(point(8.0, 100.0, 0.2), power(3000.0, 0.1))
    drawn = 100.0 * 3000.0 * np.exp(time_off + power_off)
    assert np.mean((drawn >= found.low) & (drawn <= found.high)) == pytest.approx(0.9, abs=0.01)


@given(positive, positive, widths, widths)
def test_the_band_of_energy_is_as_wide_as_each_of_the_two_and_no_wider_than_both(
    run_time_s: float, power_w: float, of_time: float, of_power: float
) -> None:
    found = energy(point(1.0, run_time_s, of_time), power(power_w, of_power))
    assert found.value == pytest.approx(run_time_s * power_w, rel=1e-9)
    for end in (found.low, found.high):
        width = abs(math.log(end / found.value))
        assert max(of_time, of_power) - 1e-6 <= width <= of_time + of_power + 1e-6


@given(st.floats(1e-300, 1e300), st.floats(1e-300, 1e300))
def test_what_is_reported_energy_is_always_a_number(run_time_s: float, power_w: float) -> None:
    found = energy(point(1.0, run_time_s, 0.0), power(power_w, 0.0))
    assert 0 < found.low <= found.value <= found.high < math.inf


def test_the_size_of_least_energy_is_never_one_that_was_extrapolated_and_is_uncertain() -> None:
    curve = [
        predicted(1.0, 100.0, 400.0),
        predicted(2.0, 52.0, 800.0),
        predicted(4.0, 20.0, 1600.0, source="extrapolated"),
    ]
    assert with_least_energy(UsefulSizes(), relied_on(judged(curve, Range(1.0, 2.0)))).least_energy == 1.0
    assert with_least_energy(UsefulSizes(), relied_on(judged(curve, Range(1.0, 4.0)))).least_energy == 4.0


def test_energy_with_a_band_that_reports_nothing_is_no_ground_for_advice() -> None:
    wide = math.log(BAND_MAX)
    curve = [predicted(1.0, 100.0, 400.0), predicted(2.0, 52.0, 800.0), predicted(4.0, 20.0, 1600.0, half_width=wide)]
    found = with_least_energy(UsefulSizes(knee=2.0), relied_on(curve))
    assert (found.least_energy, found.least_energy_delay, found.knee) == (1.0, 2.0, 2.0)


def test_one_size_alone_is_no_choice() -> None:
    assert with_least_energy(UsefulSizes(), [predicted(1.0, 100.0, 400.0)]).least_energy is None


def test_power_counts_as_changed_when_it_moved_by_a_twentieth_or_became_known() -> None:
    published = published_powers([predicted(1.0, 100.0, 400.0), point(2.0, 52.0)])
    assert published == (400.0, None)
    assert not changed(published, [power(410.0), None])
    assert changed(published, [power(430.0), None])
    assert changed(published, [power(400.0), power(800.0)])
    assert changed((), [power(400.0)])
    assert not changed((), [None, None])
