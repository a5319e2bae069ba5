"""Sizes worth allocating."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.useful import (
    efficiency,
    knee,
    largest_efficient_n,
    maximum_useful_n,
    useful_sizes,
)

MULTIPLES_OF_FOUR = np.arange(4, 257, 4)


@pytest.mark.parametrize(("curve", "expected"), [((16, 0.5), 16), ((40, 1.5), 64), ((40, 0.3), 40)])
def test_the_known_knees_among_multiples_of_four(curve: tuple[float, float], expected: float) -> None:
    assert knee(MULTIPLES_OF_FOUR, *curve) == expected


def test_the_knee_is_the_best_of_what_is_allowed() -> None:
    sizes = np.arange(1, 200)
    products = [float(efficiency(n, 40, 1.5) ** 2 * n) for n in sizes]
    assert knee(sizes, 40, 1.5) == sizes[int(np.argmax(products))] == 66
    assert knee([128, 7], 40, 1.5) == 128
    assert knee([3, 1, 2], 1, 0.5) == 1


@pytest.mark.parametrize(
    ("curve", "efficiency_min", "expected"),
    [((16, 0.5), 0.5, 32), ((16, 0.5), 0.7, 20), ((40, 1.5), 0.7, 29), ((40, 0.3), 0.7, 53)],
)
def test_the_known_largest_efficient_sizes(curve: tuple[float, float], efficiency_min: float, expected: int) -> None:
    limit = largest_efficient_n(efficiency_min, *curve)
    assert int(limit + 1e-9) == expected
    assert efficiency([expected, expected + 1], *curve) == pytest.approx([efficiency_min] * 2, abs=0.02)
    assert efficiency(expected, *curve) >= efficiency_min - 1e-12 > efficiency(expected + 1, *curve)


def test_the_limit_in_the_linear_section_is_that_of_amdahls_law() -> None:
    assert largest_efficient_n(0.7, 40, 1.5) == pytest.approx(29.57, abs=0.005)
    assert largest_efficient_n(0.7, 40, 1.5) == pytest.approx(1 + (1 / 0.7 - 1) / 0.015)


@given(st.floats(0, 7).map(np.exp), st.one_of(st.floats(0, 1), st.floats(1, 30)), st.floats(0.01, 0.999))
@settings(max_examples=300, deadline=None)
def test_efficiency_is_just_met_at_its_limit(a: float, sigma: float, efficiency_min: float) -> None:
    limit = largest_efficient_n(efficiency_min, a, sigma)
    assert limit >= 1
    assert efficiency(limit, a, sigma) == pytest.approx(efficiency_min, rel=1e-9)


def test_full_efficiency_lasts_to_the_parallelism_without_variance_and_not_beyond_one_with_it() -> None:
    assert largest_efficient_n(1, 16, 0) == pytest.approx(16)
    assert largest_efficient_n(1, 16, 0.5) == pytest.approx(1)


def test_the_maximum_is_the_tightest_of_its_limits() -> None:
    assert maximum_useful_n(16, 0.5) == pytest.approx(31)
    assert maximum_useful_n(16, 0.5, efficiency_min=0.7) == pytest.approx((16 / 0.7 - 7.75) / 0.75)
    assert maximum_useful_n(16, 0.5, fastest_n=12) == 12
    advice = useful_sizes(16, 0.5, MULTIPLES_OF_FOUR)
    assert (advice.knee, advice.efficient_max, advice.saturation, advice.maximum) == pytest.approx((16, 32, 31, 31))


@pytest.mark.parametrize("efficiency_min", [0.0, -0.1, 1.1, float("nan")])
def test_an_efficiency_is_a_share(efficiency_min: float) -> None:
    with pytest.raises(ValueError, match="efficiency"):
        largest_efficient_n(efficiency_min, 16, 0.5)


def test_a_knee_needs_a_size_to_choose() -> None:
    with pytest.raises(ValueError, match="at least one"):
        knee([], 16, 0.5)
