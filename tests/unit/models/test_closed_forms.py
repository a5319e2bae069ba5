"""Closed forms: what one or two observed speed-ups say about the parameters."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from processors.models.downey.closed_forms import (
    HYPOTHESES,
    PairSolutions,
    karp_flatt,
    pair_solutions,
    parallelism_from_line,
    parallelism_from_point,
    sigma_from_point,
)
from processors.models.downey.curve import curvature_of_sigma, saturation_n, speedup

PAIRS = [
    ((16, 0.5), (8, 24), (7.211268, 14.912621), "L1L2"),
    ((16, 0.5), (20, 28), (14.065934, 15.582609), "L2L2"),
    ((16, 0.5), (8, 40), (7.211268, 16), "L1L3"),
    ((16, 0.5), (24, 40), (14.912621, 16), "L2L3"),
    ((40, 1.5), (16, 128), (13.061224, 40), "H1H2"),
]


def found(solutions: PairSolutions, hypothesis: str) -> list[tuple[float, float]]:
    """Return (A, sigma) of the accepted solutions of a hypothesis."""
    rows = [i for i, name in enumerate(HYPOTHESES) if name == hypothesis]
    pairs = [(float(solutions.parallelism[i]), float(solutions.sigma[i])) for i in rows]
    return [pair for pair in pairs if not np.isnan(pair[0])]


@pytest.mark.parametrize(("curve", "n", "rounded", "hypothesis"), PAIRS)
def test_a_pair_of_speedups_gives_the_parameters_back(
    curve: tuple[float, float], n: tuple[float, float], rounded: tuple[float, float], hypothesis: str
) -> None:
    exact = speedup(n, *curve)
    assert exact == pytest.approx(rounded, abs=5e-7)
    solutions = pair_solutions(n[0], exact[0], n[1], exact[1])
    assert any(pair == pytest.approx(curve, abs=1e-9) for pair in found(solutions, hypothesis))


@given(
    st.floats(1.5, 200), st.one_of(st.floats(0.01, 0.99), st.floats(1.01, 8)), st.floats(1.05, 500), st.floats(1.05, 4)
)
@settings(max_examples=500, deadline=None)
def test_whatever_the_curve_the_right_hypothesis_is_among_the_accepted(
    a: float, sigma: float, n_low: float, ratio: float
) -> None:
    n = np.array([n_low, n_low * ratio])
    ends = [a, 2 * a - 1] if sigma <= 1 else [float(saturation_n(a, sigma))]
    assume(all(abs(n_i / end - 1) > 0.01 for n_i in n for end in ends))
    place = [int(np.searchsorted(ends, n_i)) for n_i in n]
    solutions = pair_solutions(n[0], *speedup(n, a, sigma)[:1], n[1], *speedup(n, a, sigma)[1:])
    saturated = len(ends)
    if place[0] == saturated:
        assert solutions.parallelism[-1] == pytest.approx(a)
    elif place[1] == 0:
        share = curvature_of_sigma(sigma) / a
        assert solutions.parallelism[0] <= a * (1 + 1e-6)
        assert solutions.parallelism_max[0] == pytest.approx(1 / share, rel=1e-6)
    else:
        name = "".join(("H" if sigma > 1 else "L") + str(index + 1) for index in place)
        assert any(pair == pytest.approx((a, sigma), rel=1e-5) for pair in found(solutions, name))


@given(st.floats(2, 200), st.floats(0.05, 0.95), st.floats(1.1, 1000), st.floats(1.01, 10), st.floats(-0.2, 0.2))
@settings(max_examples=300, deadline=None)
def test_every_accepted_solution_passes_through_both_points(
    a: float, sigma: float, n_low: float, ratio: float, error: float
) -> None:
    n = np.array([n_low, n_low * ratio])
    s = np.maximum(speedup(n, a, sigma) * [1 + error, 1], 1.0)
    solutions = pair_solutions(n[0], s[0], n[1], s[1])
    for name, average, variance in zip(HYPOTHESES, solutions.parallelism, solutions.sigma, strict=True):
        if not np.isnan(average) and not np.isnan(variance):
            assert speedup(n, average, variance) == pytest.approx(s, rel=1e-6), name


def test_many_pairs_are_solved_at_once() -> None:
    s = speedup([8, 20, 28, 40], 16, 0.5)
    solutions = pair_solutions(8, s[0], [20, 28, 40], s[1:])
    assert solutions.parallelism.shape == (9, 3)
    assert solutions.parallelism[1, :2] == pytest.approx([16, 16])
    assert solutions.parallelism[3, 2] == pytest.approx(16)


def test_faster_than_perfect_is_no_curve() -> None:
    solutions = pair_solutions(2, 2.5, 4, 6.0)
    assert np.isnan(solutions.parallelism).all()


@pytest.mark.parametrize(
    ("piece", "n", "a", "sigma"), [("L1", 8, 16, 0.5), ("L2", 24, 16, 0.5), ("H1", 16, 40, 1.5), ("H1", 5, 12.5, 3)]
)
def test_a_single_point_gives_one_parameter_from_the_other(piece: str, n: float, a: float, sigma: float) -> None:
    s = float(speedup(n, a, sigma))
    assert sigma_from_point(piece, n, s, a) == pytest.approx(sigma, abs=1e-9)
    assert parallelism_from_point(piece, n, s, sigma) == pytest.approx(a, abs=1e-9)
    if piece == "L1":
        assert karp_flatt(n, s) == pytest.approx(sigma / 2 / a, abs=1e-12)


def test_a_saturated_point_is_the_parallelism() -> None:
    assert parallelism_from_point("L3", 40, 16.0, 0.5) == 16.0
    assert parallelism_from_point("H2", 400, 16.0, 2.5) == 16.0
    with pytest.raises(ValueError):
        parallelism_from_point("L4", 40, 16.0, 0.5)
    with pytest.raises(ValueError):
        sigma_from_point("L3", 40, 16.0, 16.0)


@given(st.floats(2, 100), st.floats(0.05, 0.95), st.floats(1e-3, 1e6))
@settings(max_examples=200, deadline=None)
def test_a_line_between_linear_section_and_saturation_gives_the_parameters(a: float, sigma: float, t1: float) -> None:
    n = np.array([a + (a - 1) * 0.2, a + (a - 1) * 0.8])
    t = t1 / speedup(n, a, sigma)
    slope = (t[0] - t[1]) / (1 / n[0] - 1 / n[1])
    line = parallelism_from_line(t[0] - slope / n[0], slope, t1)
    assert line == pytest.approx((a, sigma), rel=1e-6)
    pair = found(pair_solutions(n[0], t1 / t[0], n[1], t1 / t[1]), "L2L2")
    assert any(candidate == pytest.approx(line, rel=1e-6) for candidate in pair)


@pytest.mark.parametrize("line", [(-1.0, 5.0, 3.0), (1.0, -5.0, 3.0), (10.0, 10.0, 3.0), (0.0, 0.0, 0.0)])
def test_a_line_of_no_curve_is_refused(line: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="No curve"):
        parallelism_from_line(*line)
