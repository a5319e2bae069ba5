"""Two forecasts as one: whoever is right has the say, and the band holds what it promises."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.features.features import ForecastBlend, LnForecast
from tests.kit.effort import examples

NOISE = 0.05
RUNS = 600


def lived(
    first_off: float, second_off: float, *, shared: float = 0.0, seed: int = 1
) -> tuple[ForecastBlend, float, float, float]:
    """Let two forecasts with errors of these deviations be scored: the blend, the errors of both and of it late on."""
    chance = np.random.default_rng(seed)
    blend, errors = ForecastBlend(), np.zeros((RUNS, 3))
    covered = 0
    for i in range(RUNS):
        truth, common = 5.0 + chance.normal(), shared * chance.normal()
        reported = [truth + common + off * chance.normal() for off in (first_off, second_off)]
        first, second = (LnForecast(ln_t, 0.1) for ln_t in reported)
        prediction = blend.combined(first, second)
        covered += blend.band(prediction).holds(math.exp(truth))
        errors[i] = np.abs(np.array([*reported, prediction.ln_t]) - truth)
        blend.learn(first, second, truth)
    off_first, off_second, off_both = (float(each) for each in errors[RUNS // 4 :].mean(axis=0))
    assert covered / RUNS == pytest.approx(0.9, abs=0.04)
    return blend, off_first, off_second, off_both


def test_the_one_that_is_right_decides() -> None:
    blend, first, second, both = lived(0.5, NOISE)
    assert blend.share > 0.95
    assert both < 1.15 * second < first


def test_one_that_is_worse_has_none() -> None:
    blend, first, _, both = lived(NOISE, 0.5)
    assert blend.share < 0.05
    assert both < 1.05 * first


def test_two_that_are_wrong_in_different_ways_are_better_together() -> None:
    blend, first, second, both = lived(0.2, 0.2)
    assert 0.3 < blend.share < 0.7
    assert both < 0.85 * min(first, second)


def test_one_that_states_nearly_the_same_does_no_harm() -> None:
    _, first, _, both = lived(0.0, 0.02, shared=0.1)
    assert both < 1.02 * first


def test_nothing_is_trusted_of_the_second_before_runs_were_scored() -> None:
    blend = ForecastBlend()
    assert blend.combined(LnForecast(1.0, 0.1), LnForecast(9.0, 0.1)).ln_t == 1.0
    blend.learn(LnForecast(1.0, 0.1), LnForecast(2.0, 0.1), 2.0)
    assert 0.0 < blend.share <= 1 / 8


offs = st.floats(-40.0, 40.0)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.tuples(offs, offs, offs), max_size=60))
def test_whatever_comes_the_answer_lies_between_both_and_is_kept_to_the_bit(
    runs: list[tuple[float, float, float]],
) -> None:
    blend = ForecastBlend()
    for first, second, actual in runs:
        blend.learn(LnForecast(first, 0.1), LnForecast(second, 0.2), actual)
        assert 0.0 <= blend.share <= 1.0
        band = blend.band(blend.combined(LnForecast(3.0, 0.1), LnForecast(4.0, 0.1)))
        assert 0.0 < band.low <= band.value <= band.high < math.inf
        assert 3.0 - 1e-9 <= math.log(band.value) <= 4.0 + 1e-9
    assert ForecastBlend.build(blend.snapshot()) == blend
