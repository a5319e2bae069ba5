"""Downey's model: his table of values, the continuity of his pieces, and the properties everything else relies on."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.downey.curve import (
    affine_pieces,
    curvature_of_sigma,
    inverse_speedup,
    sigma_of_curvature,
    speedup,
)
from tests.kit.cases import each
from tests.kit.effort import examples

SIZES = [0.5, 1, 2, 2.5, 8, 16, 24, 31, 64, 128]
TABLE = {
    (16, 0): [0.5, 1, 2, 2.5, 8, 16, 16, 16, 16, 16],
    (16, 0.5): [0.5, 1, 1.969231, 2.442748, 7.211268, 12.962025, 14.912621, 16, 16, 16],
    (16, 1): [0.5, 1, 1.939394, 2.388060, 6.564103, 10.893617, 13.963636, 16, 16, 16],
    (16, 2): [0.5, 1, 1.92, 2.352941, 6.193548, 9.846154, 12.255319, 13.777778, 16, 16],
    (40, 0.3): [0.5, 1, 1.992528, 2.486016, 7.795371, 15.147929, 22.094361, 27.865169, 38.641509, 40],
    (40, 1.5): [0.5, 1, 1.970443, 2.444988, 7.239819, 13.061224, 17.843866, 21.379310, 32.904884, 40],
    (2.5, 0.7): [0.5, 1, 1.754386, 2.066116, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5],
    (1, 0): [0.5, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    (1, 3): [0.5, 1, 1, 1, 1, 1, 1, 1, 1, 1],
}

parallelisms = st.floats(0, 9).map(np.exp)
sigmas = st.one_of(st.floats(0, 1), st.floats(1, 50))
sizes = st.floats(0, 10).map(np.exp)


def pieces_of_downey(n: float, a: float, sigma: float) -> float:
    """Return S(n) by the ranges of the paper, an independent way to the same number."""
    if sigma <= 1:
        if n <= a:
            return a * n / (a + sigma / 2 * (n - 1))
        if n <= 2 * a - 1:
            return a * n / (sigma * (a - 0.5) + n * (1 - sigma / 2))
        return a
    if n <= a + a * sigma - sigma:
        return n * a * (sigma + 1) / (sigma * (n + a - 1) + a)
    return a


@each(("parameters", "expected"), TABLE.items())
def test_the_table_of_speedups_is_met(parameters: tuple[float, float], expected: list[float]) -> None:
    assert speedup(SIZES, *parameters) == pytest.approx(expected, abs=5e-7)


def test_both_sides_of_every_boundary_agree() -> None:
    assert speedup(8, 8, 0.5) == pytest.approx(6.564102564, abs=5e-10)
    assert speedup([15, 15 - 1e-9], 8, 0.5) == pytest.approx(8, abs=1e-8)
    assert speedup([22, 22 - 1e-9], 8, 2) == pytest.approx(8, abs=1e-8)
    assert speedup(5.0, 8, [1 - 1e-12, 1, 1 + 1e-12]) == pytest.approx(np.full(3, speedup(5.0, 8, 1)), rel=1e-11)


@given(parallelisms, sigmas, sizes)
@settings(max_examples=examples(500), deadline=None)
def test_the_unified_form_equals_the_ranges_of_the_paper(a: float, sigma: float, n: float) -> None:
    assert speedup(n, a, sigma) == pytest.approx(pieces_of_downey(n, a, sigma), rel=1e-13)


def test_the_unified_form_equals_the_ranges_of_the_paper_to_the_last_bits_on_many_draws() -> None:
    generator = np.random.default_rng(1)
    a, sigma, n = np.exp(generator.uniform(0, 8, 5000)), generator.uniform(0, 4, 5000), generator.uniform(1, 3000, 5000)
    expected = [pieces_of_downey(*row) for row in zip(n, a, sigma, strict=True)]
    assert np.abs(speedup(n, a, sigma) / expected - 1).max() < 2e-15


@given(parallelisms, sigmas)
@settings(max_examples=examples(300), deadline=None)
def test_speedup_starts_at_one_never_falls_and_stays_below_both_n_and_the_parallelism(a: float, sigma: float) -> None:
    n = np.geomspace(1, 1e6, 400)
    ratio = speedup(n, a, sigma)
    assert ratio[0] == pytest.approx(1, abs=1e-15)
    assert (np.diff(ratio) >= -1e-12 * ratio[1:]).all()
    assert (ratio <= np.minimum(n, a) * (1 + 1e-14)).all()
    slopes = np.diff(ratio) / np.diff(n)
    assert (np.diff(slopes) <= 1e-9 * (1 + slopes[:-1])).all(), "the speed-up is concave in n"


@given(parallelisms, sigmas)
@settings(max_examples=examples(300), deadline=None)
def test_run_time_is_convex_in_the_inverse_size_and_in_logarithms(a: float, sigma: float) -> None:
    u = np.linspace(1e-4, 1, 300)
    slopes = np.diff(inverse_speedup(u, a, curvature_of_sigma(sigma))) / np.diff(u)
    assert (slopes >= -1e-12).all()
    assert (np.diff(slopes) >= -1e-9).all()
    elasticity = np.diff(np.log(inverse_speedup(1 / np.geomspace(1, 1e4, 300), a, curvature_of_sigma(sigma))))
    assert (np.diff(elasticity) >= -1e-11).all()


@given(parallelisms, sigmas)
@settings(max_examples=examples(200), deadline=None)
def test_the_serial_fraction_never_falls_and_is_constant_in_the_linear_section(a: float, sigma: float) -> None:
    n = np.geomspace(1.5, 1e4, 200)
    ratio = speedup(n, a, sigma)
    fraction = (n / ratio - 1) / (n - 1)
    assert (np.diff(fraction) >= -1e-10).all()
    linear = n <= (a if sigma <= 1 else a + (a - 1) * sigma)
    assert fraction[linear] == pytest.approx(np.full(linear.sum(), curvature_of_sigma(sigma) / a), abs=1e-12)


@given(st.floats(1, 100), st.floats(0.001, 1), st.floats(1, 3))
@settings(max_examples=examples(200), deadline=None)
def test_the_linear_section_does_not_distinguish_parallelisms(a: float, sigma: float, factor: float) -> None:
    share = float(curvature_of_sigma(sigma) / a)
    other = min(a * factor, 0.999 / share)
    if other < a:
        return
    n = np.linspace(1, a, 20)
    twin = inverse_speedup(1 / n, other, share * other)
    assert inverse_speedup(1 / n, a, share * a) == pytest.approx(twin, rel=1e-12)


def test_without_variance_the_speedup_is_perfect_until_it_stops() -> None:
    n = np.array([1, 3.5, 9, 10, 11, 100])
    assert speedup(n, 10, 0) == pytest.approx(np.minimum(n, 10))


def test_with_endless_variance_the_model_is_amdahls_law() -> None:
    n = np.array([1, 2, 64, 1e6])
    amdahl = 1 / (0.02 + 0.98 / n)
    assert speedup(n, 50, 1e12) == pytest.approx(amdahl, rel=1e-9)
    assert speedup(n, 50, np.inf) == pytest.approx(amdahl, rel=1e-9)


@given(st.floats(0, 1), parallelisms)
@settings(deadline=None)
def test_curvature_and_sigma_are_one_parameter(curvature: float, a: float) -> None:
    sigma = sigma_of_curvature(curvature)
    assert np.isfinite(sigma)
    assert curvature_of_sigma(sigma) == pytest.approx(curvature, abs=2e-9)
    pieces = affine_pieces(a, curvature)
    u = 1 / 7
    assert (pieces.intercept + pieces.slope * u).max() == pytest.approx(inverse_speedup(u, a, curvature), rel=1e-13)


@each(
    ("n", "a", "sigma"),
    [(0, 2, 1), (-1, 2, 1), (np.nan, 2, 1), (np.inf, 2, 1), (4, 0.5, 1), (4, np.nan, 1), (4, 2, -1), (4, 2, np.nan)],
)
def test_nonsense_is_refused_with_a_message(n: float, a: float, sigma: float) -> None:
    with pytest.raises(ValueError, match=r"^[A-Z].*\.$"):
        speedup(n, a, sigma)


def test_extreme_numbers_pass_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in (1e-300, 1e-308, 1.0, 1e300, 1.7e308):
            for a in (1.0, 1e300, 1.7e308):
                for sigma in (0.0, 0.3, 1.0, 1e308):
                    assert speedup(n, a, sigma) > 0
