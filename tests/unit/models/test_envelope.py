import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.models.downey.curve import speedup
from processors.models.downey.two_step import curve_bounds, envelope
from processors.models.numerics.arrays import Floats

CURVES = {
    "serial time known, 2 %": (16.0, 0.5, [1, 4, 8, 16, 24, 32], 0.02),
    "serial time unknown, 2 %": (16.0, 0.5, [4, 8, 16, 24, 32], 0.02),
    "serial time known, 5 %": (16.0, 0.5, [1, 4, 8, 16, 24, 32], 0.05),
    "linear section": (64.0, 0.5, [1, 2, 4, 8], 0.05),
}
EXPECTED = {
    "serial time known, 2 %": (980.392, 1020.408, 15.3725, 23.2831, 0.018984),
    "serial time unknown, 2 %": (968.043, 1068.240, 15.1789, 24.3745, 0.020076),
    "serial time known, 5 %": (952.381, 1052.632, 14.4762, 27.8189, 0.024287),
    "linear section": (952.381, 1052.632, 7.0454, np.inf, 0.019355),
}
EXPECTED_CURVE = {
    "serial time known, 2 %": [(93.836, 99.649), (52.550, 63.776)],
    "serial time unknown, 2 %": [(92.250, 99.649), (52.550, 63.776)],
    "serial time known, 5 %": [(88.232, 102.796), (48.681, 65.790)],
    "linear section": [(81.535, 135.177), (15.288, 135.177)],
}


def observed(name: str) -> tuple[Floats, Floats, float]:
    parallelism, sigma, sizes, deviation = CURVES[name]
    n = np.array(sizes, float)
    return n, np.asarray(1000.0 / speedup(n, parallelism, sigma)), deviation


@pytest.mark.parametrize("name", CURVES)
def test_the_bounds_of_the_parameters(name: str) -> None:
    bounds = envelope(*observed(name))
    found = (
        bounds.t1_low_s,
        bounds.t1_high_s,
        bounds.parallelism_low,
        bounds.parallelism_high,
        bounds.serial_share_high,
    )
    assert found == pytest.approx(EXPECTED[name], rel=1e-4)


@pytest.mark.parametrize("name", CURVES)
def test_the_bounds_of_the_curve(name: str) -> None:
    n, t, deviation = observed(name)
    low, high = curve_bounds(n, t, np.array([12.0, 64.0]), deviation)
    assert list(zip(low.tolist(), high.tolist(), strict=True)) == [
        pytest.approx(pair, rel=1e-4) for pair in EXPECTED_CURVE[name]
    ]


def test_no_curve_escapes_its_envelope() -> None:
    rng = np.random.default_rng(8)
    for _ in range(5000):
        k, deviation = int(rng.integers(1, 13)), rng.uniform(0.005, 0.15)
        n = np.sort(rng.choice(np.arange(1.0, 200.0), k, replace=False))
        parallelism, sigma, t1 = (
            np.exp(rng.uniform(0.0, 6.0)),
            abs(rng.normal(1.0, 1.0)),
            np.exp(rng.uniform(-5.0, 5.0)),
        )
        t = t1 / speedup(n, parallelism, sigma) * (1.0 + rng.uniform(-deviation, deviation, k))
        bounds, slack = envelope(n, t, deviation), 1.0 + 1e-9
        w = sigma / 2 if sigma <= 1 else sigma / (1 + sigma)
        assert bounds.t1_low_s <= t1 * slack
        assert t1 <= bounds.t1_high_s * slack
        assert bounds.parallelism_low <= parallelism * slack
        assert parallelism <= bounds.parallelism_high * slack
        assert w / parallelism <= bounds.serial_share_high * slack + 1e-12
        targets = np.exp(rng.uniform(0.0, np.log(1000.0), 4))
        low, high = curve_bounds(n, t, targets, deviation)
        truth = t1 / speedup(targets, parallelism, sigma)
        assert (low <= truth * slack).all()
        assert (truth <= high * slack).all()


def test_a_share_of_one_processor_is_bounded_too() -> None:
    n = np.array([0.25, 0.5, 2.0, 8.0])
    t = np.asarray(1000.0 / speedup(n, 16.0, 0.5))
    bounds = envelope(n, t, 0.02)
    assert bounds.t1_low_s <= 1000.0 <= bounds.t1_high_s
    assert bounds.parallelism_low <= 16.0 <= bounds.parallelism_high


def test_superlinear_data_leave_one_serial_time() -> None:
    bounds = envelope(np.array([1.0, 2.0, 4.0]), np.array([100.0, 30.0, 5.0]))
    assert bounds.t1_low_s == bounds.t1_high_s


@given(st.lists(st.floats(1e-280, 1e280), min_size=1, max_size=12))
def test_any_times_give_bounds_without_a_warning(times: list[float]) -> None:
    n = np.arange(1.0, len(times) + 1.0)
    bounds = envelope(n, np.array(times))
    assert bounds.t1_low_s <= bounds.t1_high_s
    assert 1.0 <= bounds.parallelism_low <= bounds.parallelism_high
    assert 0.0 <= bounds.serial_share_high <= 1.0
    low, high = curve_bounds(n, np.array(times), np.array([0.5, 3.0, 100.0]))
    assert not np.isnan(low).any()
    assert not np.isnan(high).any()
