import numpy as np
import pytest

from processors.models.adept.study import MeaningfulSizes, last_efficient_size, meaningful_sizes
from processors.models.downey.curve import speedup
from processors.models.numerics.arrays import Floats

POWERS = 2.0 ** np.arange(9.0)
GRID = np.geomspace(1.0, 256.0, 257)


def of_downey(parallelism: float, sigma: float, allowed: Floats = POWERS) -> MeaningfulSizes:
    return meaningful_sizes(GRID, speedup(GRID, parallelism, sigma), allowed, speedup(allowed, parallelism, sigma))


@pytest.mark.parametrize(
    ("parallelism", "sigma", "knee", "half"),
    [(16.0, 0.5, 16.0, 32.0), (40.0, 1.5, 64.0, 67.0), (40.0, 0.3, 32.0, 80.0)],
)
def test_the_knee_and_half_efficiency_of_downey_curves(
    parallelism: float, sigma: float, knee: float, half: float
) -> None:
    found = of_downey(parallelism, sigma)
    assert found.knee == knee
    assert found.at_half_efficiency == pytest.approx(half, rel=0.01)
    assert found.at_half_efficiency is not None
    efficiency, beyond = (speedup(n, parallelism, sigma) / n for n in (found.at_half_efficiency + np.arange(2.0)))
    assert beyond < 0.5 <= efficiency * 1.001


def test_sizes_worth_asking_for_are_whole_units() -> None:
    found = of_downey(40.0, 0.9)
    for n in (found.at_half_efficiency, found.max):
        assert n is not None
        assert n == int(n)


def test_shares_of_a_unit_stay_shares() -> None:
    n = np.geomspace(0.1, 3.0, 50)
    found = meaningful_sizes(n, np.minimum(n, 0.3), n, np.minimum(n, 0.3)).max
    assert found == pytest.approx(0.3, rel=0.1)


@pytest.mark.parametrize(("parallelism", "sigma", "last"), [(16.0, 0.5, 20.143), (40.0, 1.5, 29.57), (40.0, 0.3, 53.3)])
def test_the_last_size_at_seven_tenths_of_the_ideal_efficiency(parallelism: float, sigma: float, last: float) -> None:
    assert last_efficient_size(GRID, speedup(GRID, parallelism, sigma), 0.7) == pytest.approx(last, rel=0.005)


def test_the_knee_is_an_allowed_size() -> None:
    assert of_downey(40.0, 0.3, np.array([32.0, 40.0, 64.0])).knee == 40.0


def test_beyond_saturation_no_size_is_meaningful() -> None:
    assert of_downey(16.0, 0.5).max == pytest.approx(30.0, abs=1.5)


def test_a_slowdown_ends_the_meaningful_sizes() -> None:
    fastest = np.where(GRID <= 20.0, GRID, 400.0 / GRID)
    assert meaningful_sizes(GRID, fastest, POWERS, np.minimum(POWERS, 20.0)).max == pytest.approx(20.0, rel=0.03)


def test_a_curve_that_scales_to_its_end_shows_none_of_them() -> None:
    assert meaningful_sizes(GRID, GRID, POWERS, POWERS) == MeaningfulSizes(None, None, None)


def test_without_allowed_sizes_there_is_no_knee() -> None:
    assert meaningful_sizes(GRID, np.minimum(GRID, 8.0), np.zeros(0), np.zeros(0)).knee is None
