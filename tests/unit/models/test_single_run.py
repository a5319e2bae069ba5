"""Strange single runs: p-values that keep their promise, and the rule."""

import numpy as np
import pytest

from processors.models.single_run import (
    P_MAX,
    SCORES_MAX,
    STRANGE_WEIGHT,
    conformal_p,
    learning_weight,
    normal_p,
    strange,
    two_sided,
)


def test_a_run_in_the_middle_is_as_usual_as_can_be_and_one_at_the_end_is_not() -> None:
    assert two_sided(0.5) == 1
    assert two_sided(0.001) == pytest.approx(two_sided(0.999)) == pytest.approx(0.002)
    assert normal_p(0.0) == 1
    assert normal_p(-3.0) == normal_p(3.0) == pytest.approx(0.0027, abs=1e-4)


@pytest.mark.parametrize("below", [-0.1, 1.1, float("nan")])
def test_a_probability_lies_between_nothing_and_one(below: float) -> None:
    with pytest.raises(ValueError, match="probability"):
        two_sided(below)


@pytest.mark.parametrize("spread", [0.1, 3.0])
def test_of_like_runs_one_in_a_hundred_has_a_conformal_p_below_a_hundredth_whatever_their_law(spread: float) -> None:
    generator = np.random.default_rng(7)
    scores = np.exp(generator.normal(0, spread, 12_000)).tolist()
    p = np.array([conformal_p(scores[i - SCORES_MAX : i], scores[i]) for i in range(SCORES_MAX, len(scores))])
    assert np.mean(p <= 0.01) == pytest.approx(0.01, abs=0.003)
    assert np.mean(p <= 0.5) == pytest.approx(0.5, abs=0.02)


def test_equal_scores_are_as_far_off_as_the_run_itself() -> None:
    assert conformal_p([2.0, 2.0, 2.0], 2.0) == 1


def test_before_a_hundred_runs_nothing_is_strange() -> None:
    assert not strange(conformal_p([1.0] * 98, 99.0), 5.0, 0.01)
    assert strange(conformal_p([1.0] * 101, 99.0), 5.0, 0.01)


@pytest.mark.parametrize(
    ("p", "ln_ratio", "noise", "found"),
    [
        (0.005, 0.11, 0.01, True),
        (0.005, -0.11, 0.01, True),
        (0.005, 0.09, 0.01, False),
        (0.005, 0.25, 0.1, False),
        (P_MAX, 1.0, 0.01, False),
    ],
)
def test_a_strange_run_is_both_rare_and_far_off(p: float, ln_ratio: float, noise: float, *, found: bool) -> None:
    assert strange(p, ln_ratio, noise) is found


def test_a_strange_run_teaches_little_unless_others_agree() -> None:
    assert learning_weight([False, True]) == STRANGE_WEIGHT
    assert learning_weight([True, True, False, False, False, False, True]) == STRANGE_WEIGHT
    assert learning_weight([False, True, False, True, True]) == 1
    assert learning_weight([False] * 5) == 1
