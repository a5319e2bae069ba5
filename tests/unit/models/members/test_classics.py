"""Laws of the literature against numbers computed independently."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from processors.models import laws
from processors.models.battery import MEMBERS, SIZES_MIN

N = np.array([4.0, 8.0, 16.0, 32.0])
T = np.array([262.0, 139.0, 78.5, 63.0])
REQUESTED = np.array([12.0, 64.0])
BIG = np.array([16.0, 32.0, 64.0, 96.0, 128.0])


def basis(n: np.ndarray) -> np.ndarray:
    return np.stack([1.0 / n, np.ones_like(n), np.log2(n), 1.0 / np.sqrt(n), n])


@pytest.mark.parametrize(
    ("law", "terms", "times"),
    [
        ("amdahl", (867.448, 31.679, 0, 0, 0), (103.967, 45.233)),
        ("amdahl_log", (962.373, 0, 6.04276, 0, 0), (101.861, 51.294)),
        ("sup5", (996.969, 7.37892, 0, 0, 0.721809), (99.121, 69.152)),
    ],
)
def test_a_law_has_its_known_terms_and_predictions(
    law: str, terms: tuple[float, ...], times: tuple[float, float]
) -> None:
    found = laws.fit_family(N, T)[laws.MEMBERS.index(law)]
    assert found == pytest.approx(terms, rel=2e-5, abs=1e-9)
    assert found @ basis(REQUESTED) == pytest.approx(times, rel=1e-5)


def test_kazminas_law_has_its_known_fastest_size() -> None:
    assert laws.fastest_size(800.0, 5.0, 0.002) == pytest.approx(657.303, rel=1e-5)


def test_superlinear_data_leave_kazmina_the_parallel_term_alone() -> None:
    found = laws.fit_family(BIG, 1000 / BIG**1.05)[laws.MEMBERS.index("kazmina")]
    assert found == pytest.approx((818.526, 0.0, 0.0, 0.0, 0.0), rel=1e-5)
    assert laws.fastest_size(found[0], found[3], found[4]) is None


@pytest.mark.parametrize("terms", [(0.0, 0.0, 1.0), (1.0, 1.0, 0.0), (1e300, 0.0, 1e-300)])
def test_a_curve_without_a_minimum_has_no_fastest_size(terms: tuple[float, float, float]) -> None:
    assert laws.fastest_size(*terms) is None


def test_barnes_recovers_its_coefficients() -> None:
    assert laws.fit_barnes(N, 2 ** (3 - 0.9 * np.log2(N)), degree=1) == pytest.approx((3.0, -0.9))


def barnes_at(n: float, degree: int, t: NDArray[np.float64] = T) -> float:
    return float(2.0 ** laws.log2_run_time(laws.fit_barnes(N, t, degree=degree), math.log2(n), 2.0, 5.0))


def test_barnes_linear_and_quadratic_at_twice_the_largest_size() -> None:
    assert barnes_at(64.0, degree=1) == pytest.approx(34.485, rel=1e-4)
    assert barnes_at(64.0, degree=2) == pytest.approx(57.852, rel=1e-4)


def test_outside_the_sizes_the_slope_of_barnes_stays_within_bounds() -> None:
    assert barnes_at(2.0**21, degree=2) / barnes_at(2.0**20, degree=2) == pytest.approx(2**laws.SLOPE_MAX, rel=0.01)
    steep = 1000.0 / N**2
    assert barnes_at(128.0, 1, steep) / barnes_at(64.0, 1, steep) == pytest.approx(2**laws.SLOPE_MIN)


@settings(deadline=None)
@given(st.lists(st.floats(0.01, 100.0), min_size=2, max_size=12))
def test_terms_are_never_negative_and_predictions_positive(times: list[float]) -> None:
    found = laws.fit_family(2.0 ** np.arange(float(len(times))), np.array(times))
    assert found.min() >= 0
    assert (found @ basis(np.array([1.0, 3.0, 1e4])) >= 0).all()


@settings(deadline=None)
@given(st.floats(1e-6, 1e6))
def test_another_unit_of_time_scales_the_laws(factor: float) -> None:
    scaled = laws.fit_family(N, factor * T) @ basis(REQUESTED)
    assert scaled == pytest.approx(factor * (laws.fit_family(N, T) @ basis(REQUESTED)), rel=1e-9)


def test_every_law_states_how_many_sizes_it_needs() -> None:
    assert set(SIZES_MIN) == set(MEMBERS)
    assert all(count >= 1 for count in SIZES_MIN.values())
