"""Figures of errors: those of a perfect forecaster, and those of random predictions."""

import math
from statistics import fmean, median_low

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.reports.backtest.scores import Figures, at_level, figures, figures_of_numbers, interval
from processors.facts import Band
from processors.models.numerics.statistics import pinball

TIMES = st.floats(0.01, 1e7)


def of(pairs: list[tuple[float, Band]]) -> Figures:
    return figures([observed_s for observed_s, _ in pairs], [band for _, band in pairs])


@given(st.lists(TIMES, min_size=1, max_size=40))
def test_a_perfect_forecaster_makes_no_error(times: list[float]) -> None:
    result = of([(time_s, Band(time_s, time_s, time_s)) for time_s in times])
    assert (result.median_error, result.mean_error, result.mae_s, result.bias) == (0, 0, 0, 0)
    assert (result.pinball_50_s, result.accuracy, result.coverage_90) == (0, 1, 1)
    assert result.pinball_90_s == pytest.approx(0, abs=1e-6)
    assert (result.ln_width, result.median_ln_width, result.below, result.above) == (0, 0, 0, 0)


def known(figure: float | None) -> float:
    assert figure is not None
    return figure


@given(st.lists(st.tuples(TIMES, TIMES), min_size=1, max_size=60))
def test_figures_are_those_of_all_numbers(pairs: list[tuple[float, float]]) -> None:
    result = of(
        [(observed_s, Band(predicted_s, predicted_s / 2, predicted_s * 2)) for observed_s, predicted_s in pairs]
    )
    errors = [abs(predicted_s / observed_s - 1) for observed_s, predicted_s in pairs]
    assert result.scored == len(pairs)
    assert result.mean_error == pytest.approx(fmean(errors))
    assert result.median_error == pytest.approx(median_low(errors))
    assert result.mae_s == pytest.approx(fmean(abs(observed_s - predicted_s) for observed_s, predicted_s in pairs))
    assert result.bias == pytest.approx(fmean(math.log(observed_s / predicted_s) for observed_s, predicted_s in pairs))
    assert result.pinball_50_s == pytest.approx(known(result.mae_s) / 2)
    assert result.median_ln_width == pytest.approx(math.log(4))
    inside = fmean(predicted_s / 2 <= observed_s <= predicted_s * 2 for observed_s, predicted_s in pairs)
    assert result.coverage_90 == pytest.approx(inside)
    assert known(result.below) + known(result.above) + known(result.coverage_90) == pytest.approx(1)
    assert 0 <= known(result.coverage_low) <= known(result.coverage_90) <= known(result.coverage_high) <= 1


def test_the_interval_holds_the_true_share_nineteen_times_of_twenty() -> None:
    chance = np.random.default_rng(7)
    retained = []
    for share, trials in ((0.9, 40), (0.9, 400), (0.5, 60), (0.97, 200)):
        ends = [interval(int(hits), trials) for hits in chance.binomial(trials, share, 2000)]
        retained.append(fmean(low <= share <= high for low, high in ends))
    assert min(retained) > 0.92
    assert fmean(retained) == pytest.approx(0.95, abs=0.015)


def test_the_true_quantile_has_the_least_pinball_loss() -> None:
    observed = np.random.default_rng(3).lognormal(size=20_000)
    losses = {q: fmean(pinball(float(value), q, 0.9) for value in observed) for q in (2.0, math.exp(1.2816), 6.0)}
    assert min(losses, key=losses.__getitem__) == math.exp(1.2816)


def test_the_ninth_decile_follows_from_a_log_normal_band() -> None:
    band = Band(100.0, 100 * math.exp(-1.6448536), 100 * math.exp(1.6448536))
    assert at_level([band], 0.8)[2, 0] == pytest.approx(100 * math.exp(1.2815516))


def test_a_baseline_that_is_one_number_has_no_band() -> None:
    result = figures_of_numbers([50.0], [100.0])
    assert (result.mae_s, result.coverage_90, result.ln_width) == (50, None, None)
    assert result.pinball_90_s == pytest.approx(5)


def test_nothing_scored_is_nothing_reported() -> None:
    assert figures([], []) == figures_of_numbers([], []) == Figures(scored=0)


def test_numbers_at_the_ends_of_what_a_machine_counts_are_taken() -> None:
    result = of([(1e-300, Band(1e300, 0.0, 1e300)), (1e300, Band(1e-300, 1e-300, 1e300))])
    assert result.scored == 2
    assert result.coverage_90 == 1
