"""Nonnegative least squares: the optimum, proved by its conditions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.laws import nnls


def problems(seed: int, terms: int, batch: int = 50) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    basis = rng.normal(size=(batch, terms + 3, terms)) * 10.0 ** rng.uniform(-6, 6, size=(batch, 1, terms))
    target = rng.normal(size=(batch, terms + 3, 1))
    across = np.swapaxes(basis, -1, -2)
    return across @ basis, (across @ target)[..., 0]


def kkt_violation(gram: np.ndarray, projection: np.ndarray, coefficients: np.ndarray) -> float:
    """Return by how much a solution misses the conditions of Karush, Kuhn and Tucker, relative to the columns' lengths."""
    length = np.sqrt(np.maximum(np.einsum("...ii->...i", gram), 1e-300))
    gradient = ((gram @ coefficients[..., None])[..., 0] - projection) / length
    missed = np.where(coefficients > 0, np.abs(gradient), np.maximum(-gradient, 0.0))
    return float(max(missed.max(), (-coefficients).max(), 0.0))


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 5))
def test_every_solution_meets_the_conditions_of_an_optimum(seed: int, terms: int) -> None:
    gram, projection = problems(seed, terms)
    solution = nnls(gram, projection)
    assert (solution >= 0).all()
    assert kkt_violation(gram, projection, solution) < 1e-9


@settings(deadline=None)
@given(st.integers(0, 10_000))
def test_no_other_point_is_better(seed: int) -> None:
    gram, projection = problems(seed, 3, batch=1)
    found = nnls(gram, projection)
    rng = np.random.default_rng(seed)
    others = found[0] * rng.uniform(0, 2, (200, 3)) + rng.exponential(1e-3, (200, 3))
    objective = np.einsum("mi,ij,mj->m", others, gram[0], others) - 2 * others @ projection[0]
    least = found[0] @ gram[0] @ found[0] - 2 * found[0] @ projection[0]
    assert objective.min() >= least - 1e-9 * abs(least)


def test_a_batch_gives_the_same_as_one_by_one() -> None:
    gram, projection = problems(7, 4)
    joint = nnls(gram, projection)
    alone = [nnls(g, p) for g, p in zip(gram, projection, strict=True)]
    assert np.allclose(joint, alone, rtol=1e-12)


def test_where_no_term_helps_all_are_zero() -> None:
    solution = nnls(np.eye(2), np.array([-1.0, -2.0]))
    assert solution.tolist() == [0.0, 0.0]


def test_a_term_that_is_zero_everywhere_gets_no_share() -> None:
    assert nnls(np.diag([1.0, 0.0]), np.array([3.0, 0.0])).tolist() == pytest.approx([3.0, 0.0])


def test_terms_that_state_the_same_are_solved_too() -> None:
    same = np.ones((2, 2))
    assert nnls(same, np.ones(2)).sum() == pytest.approx(1.0)


def test_a_violation_is_seen() -> None:
    assert kkt_violation(np.eye(2), np.array([1.0, 1.0]), np.array([1.0, 0.0])) == pytest.approx(1.0)


def test_more_terms_than_can_be_enumerated_are_refused() -> None:
    with pytest.raises(ValueError, match="At most 5"):
        nnls(np.eye(6), np.ones(6))
