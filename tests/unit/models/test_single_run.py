"""Strange single runs: p-values that keep their promise, and the rule."""

import numpy as np
import pytest

from processors.models.drift import (
    FARTHEST,
    P_MAX,
    SCORES_MAX,
    agreeing,
    far,
    farthest_after,
    farthest_p,
    rare,
)


def conformal_p(scores: list[float], score: float) -> float:
    return (1 + sum(each >= score for each in scores)) / (len(scores) + 1)


@pytest.mark.parametrize("spread", [0.1, 3.0])
def test_of_like_runs_one_in_a_hundred_has_a_conformal_p_below_a_hundredth_whatever_their_law(spread: float) -> None:
    generator = np.random.default_rng(7)
    scores = np.exp(generator.normal(0, spread, 12_000)).tolist()
    p = np.array([conformal_p(scores[i - SCORES_MAX : i], scores[i]) for i in range(SCORES_MAX, len(scores))])
    assert np.mean(p <= 0.01) == pytest.approx(0.01, abs=0.003)
    assert np.mean(p <= 0.5) == pytest.approx(0.5, abs=0.02)


def test_equal_scores_are_as_far_off_as_the_run_itself() -> None:
    assert conformal_p([2.0, 2.0, 2.0], 2.0) == 1


def test_of_a_window_only_the_farthest_scores_are_kept_and_they_report_the_same() -> None:
    generator = np.random.default_rng(8)
    farthest: list[tuple[int, float]] = []
    scores: list[float] = []
    longest = 0
    for index, score in enumerate(np.abs(generator.standard_t(3, 2000)).tolist()):
        whole = conformal_p(scores[-SCORES_MAX:], score)
        reported = farthest_p(farthest, index, score)
        assert (
            reported == pytest.approx(whole)
            if whole * (min(index, SCORES_MAX) + 1) < FARTHEST + 0.5
            else reported <= whole
        )
        assert rare(reported, index) == rare(whole, index)
        farthest = farthest_after(farthest, [(index, score)])
        scores.append(score)
        longest = max(longest, len(farthest))
    assert longest < 45


def test_however_scores_come_no_more_than_a_window_of_them_is_kept() -> None:
    farthest: list[tuple[int, float]] = []
    for index in range(1000):
        farthest = farthest_after(farthest, [(index, 1000.0 - index)])
    assert len(farthest) == SCORES_MAX


def test_scores_that_come_together_leave_what_they_leave_one_by_one() -> None:
    generator = np.random.default_rng(3)
    batched: list[tuple[int, float]] = []
    alone: list[tuple[int, float]] = []
    number = 0
    for count in generator.integers(1, 40, size=60).tolist():
        newest = [(number + i, round(float(generator.exponential()), 1)) for i in range(count)]
        batched = farthest_after(batched, newest)
        for one in newest:
            alone = farthest_after(alone, [one])
        number += count
        assert batched == alone


def test_before_two_hundred_runs_a_run_is_rare_that_at_most_one_reached() -> None:
    assert rare(conformal_p([1.0] * 20, 2.0), 20)
    assert rare(conformal_p([1.0] * 20 + [3.0], 2.0), 21)
    assert not rare(conformal_p([1.0] * 20 + [3.0, 3.0], 2.0), 22)
    assert not rare(conformal_p([1.0] * 198 + [3.0, 3.0], 2.0), 200)


@pytest.mark.parametrize(
    ("ln_ratio", "noise", "found"), [(0.11, 0.01, True), (-0.11, 0.01, True), (0.09, 0.01, False), (0.25, 0.1, False)]
)
def test_an_outlier_is_far_off_in_time_and_against_the_usual_scatter(
    ln_ratio: float, noise: float, *, found: bool
) -> None:
    assert far(ln_ratio, noise) is found


def test_of_like_runs_about_one_in_a_hundred_is_rare() -> None:
    generator = np.random.default_rng(9)
    farthest: list[tuple[int, float]] = []
    found = 0
    for index, score in enumerate(generator.exponential(1.0, 10_000).tolist()):
        found += rare(farthest_p(farthest, index, score), index)
        farthest = farthest_after(farthest, [(index, score)])
    assert 70 < found < 130
    assert P_MAX == 0.01


def test_an_outlier_is_trusted_once_others_at_its_size_agree() -> None:
    assert not agreeing(1, [0, 1])
    assert not agreeing(1, [1, 1, 0, 0, 0, 0, 1])
    assert agreeing(1, [0, 1, 0, 1, 1])
    assert not agreeing(1, [-1, -1, 1, -1, 0])
