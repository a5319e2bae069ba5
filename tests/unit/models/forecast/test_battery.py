"""Thirty predictors over many series: each as its definition says, and the choice nearly as good as the best of them."""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models import forecast as layout
from processors.models.forecast import BLOCK, COUNT_MAX, DISCOUNT, EVERY, PREDICTORS, RECENT, Forecasters
from tests.kit.effort import examples

Values = npt.NDArray[np.float64]
ONE = np.arange(1)


def predicted(forecasters: Forecasters, series: int = 0) -> dict[str, float]:
    """Return what every predictor says next of a series."""
    row = forecasters.rows(series, series + 1)[0, layout.PREDICTION]
    return dict(zip(PREDICTORS, row.tolist(), strict=True))


def fed(values: Values) -> Forecasters:
    forecasters = Forecasters(1)
    for value in values:
        forecasters.observe(ONE, [value])
    return forecasters


def trimmed(values: Values) -> float:
    left_out = int(0.3 * len(values))
    return float(np.sort(values)[left_out : len(values) - left_out].mean())


def smoothed(values: Values, gain: float) -> float:
    level = values[0]
    for value in values[1:]:
        level += gain * (value - level)
    return float(level)


def adaptive(values: Values, middle: Callable[[Values], np.floating]) -> float:
    """Return what the adaptive predictor says, computed from all values by its definition."""
    window = 10
    for i in range(1, len(values)):
        prediction = [middle(values[max(i - size, 0, i - RECENT) : i]) for size in (window - 1, window, window + 1)]
        shorter, same, longer = (abs(np.float32(each) - np.float32(values[i])) for each in prediction)
        window += -1 if shorter < same and shorter <= longer else 1 if longer < same else 0
        window = min(max(window, 2), 100)
    return float(middle(values[-window:]))


@pytest.mark.parametrize("count", [1, 2, 3, 10, 57, 101, 250])
def test_each_predictor_states_what_its_definition_states(count: int) -> None:
    values = np.random.default_rng(count).random(count).astype(np.float32).astype(np.float64)
    expected = {
        "last": values[-1],
        "running_mean": values.mean(),
        **{f"mean_{window}": values[-window:].mean() for window in layout.MEANS},
        **{f"median_{window}": np.median(values[-window:]) for window in layout.MEDIANS},
        **{f"trimmed_mean_{window}": trimmed(values[-window:]) for window in layout.TRIMMED},
        **{f"smoothing_{gain}": smoothed(values, gain) for gain in layout.GAINS},
        "adaptive_mean": adaptive(values, np.mean),
        "adaptive_median": adaptive(values, np.median),
    }
    prediction = predicted(fed(values))
    assert {name: prediction[name] for name in expected} == pytest.approx(expected, rel=2e-6)


def test_the_gradient_smooths_more_quickly_after_a_step_than_it_did_in_noise() -> None:
    noise = fed(np.random.default_rng(1).normal(0, 1, 300))
    slow = noise.rows(0, 1)[0, layout.GAIN][0]
    for value in np.arange(10.0):
        noise.observe(ONE, [10 * value])
    assert slow < 0.25 < noise.rows(0, 1)[0, layout.GAIN][0]


def test_the_autoregression_finds_the_coefficients_of_its_process() -> None:
    draw, values = np.random.default_rng(3), [0.0, 0.0]
    for _ in range(898):
        values.append(1.2 * values[-1] - 0.6 * values[-2] + float(draw.normal()))
    coefficients = fed(np.array(values)).rows(0, 1)[0, layout.COEFFICIENT]
    assert coefficients == pytest.approx([1.2, -0.6, 0, 0, 0], abs=0.3)


def white(draw: np.random.Generator) -> Values:
    return draw.normal(0.5, 0.1, 2000)


def walk(draw: np.random.Generator) -> Values:
    return draw.normal(0, 1, 2000).cumsum()


def spiky(draw: np.random.Generator) -> Values:
    return np.where(draw.random(2000) < 0.05, 5.0, draw.normal(1.0, 0.1, 2000))


def regimes(draw: np.random.Generator) -> Values:
    return np.repeat(draw.uniform(0, 1, 20), 100) + draw.normal(0, 0.05, 2000)


KINDS = (white, walk, spiky, regimes)
SEEDS = 8


@pytest.fixture(scope="module")
def replayed() -> tuple[Values, Values, Forecasters]:
    """Return summed squared errors of the choice (series,) and of each predictor (series, predictors), and the end."""
    values = np.stack([kind(np.random.default_rng(seed)) for kind in KINDS for seed in range(SEEDS)])
    count = len(values)
    forecasters, series = Forecasters(count), np.arange(count)
    chosen, singles = np.zeros(count), np.zeros((count, len(PREDICTORS)))
    forecasters.observe(series, values[:, 0])
    for now in values.T[1:]:
        chosen += (forecasters.forecast(series)[0].value - now) ** 2
        singles += (forecasters.rows(0, count)[:, layout.PREDICTION] - now[:, None]) ** 2
        forecasters.observe(series, now)
    return chosen, singles, forecasters


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=[kind.__name__ for kind in KINDS])
def test_the_choice_is_within_3_percent_of_the_best_single_predictor(
    kind: int, replayed: tuple[Values, Values, Forecasters]
) -> None:
    chosen, singles, _ = replayed
    ratio = np.sqrt(chosen / singles.min(axis=1)).reshape(len(KINDS), SEEDS)[kind]
    assert ratio.mean() < 1.03


def test_white_noise_is_reported_by_its_mean_and_a_random_walk_by_its_last_value(
    replayed: tuple[Values, Values, Forecasters],
) -> None:
    _, singles, forecasters = replayed
    best = [PREDICTORS[row] for row in singles.argmin(axis=1)]
    assert best[:SEEDS] == ["running_mean"] * SEEDS
    assert best[SEEDS : 2 * SEEDS].count("last") >= SEEDS - 2
    noise, _ = forecasters.forecast(ONE)
    assert noise.value[0] == pytest.approx(0.5, abs=0.02)
    assert noise.error[0] == pytest.approx(0.1, rel=0.2)


def test_the_error_is_the_discounted_one_of_the_predictor_that_answers() -> None:
    values = [1.0, 2.0, 4.0]
    squared = fed(np.array(values)).rows(0, 1)[0, layout.SQUARED]
    assert squared[0] == pytest.approx((DISCOUNT * 1 + 4) / (DISCOUNT + 1), rel=1e-6)


def test_least_absolute_errors_may_choose_another_predictor() -> None:
    squared, absolute = fed(np.where(np.arange(300) % 9 == 0, 9.0, 1.0)).forecast(ONE)
    assert absolute.value[0] == 1.0
    assert absolute.error[0] < squared.error[0]


@pytest.mark.parametrize("missing", [math.nan, math.inf, -math.inf, 1e300])
def test_a_value_that_is_missing_leaves_a_series_as_it_is(missing: float) -> None:
    forecasters = fed(np.arange(7.0))
    before = forecasters.rows(0, 1)
    forecasters.observe(ONE, [missing])
    assert forecasters.rows(0, 1).tobytes() == before.tobytes()


def test_a_series_does_not_depend_on_those_beside_it() -> None:
    count = BLOCK + 3
    values = np.random.default_rng(0).normal(0, 1, (130, count))
    values[np.random.default_rng(1).random(values.shape) < 0.2] = np.nan
    joint, alone = Forecasters(count), Forecasters(1)
    for row in values:
        joint.observe(np.arange(count), row)
        alone.observe(ONE, row[-1:])
    assert joint.rows(count - 1, count).tobytes() == alone.rows(0, 1).tobytes()


def test_from_its_rows_it_goes_on_as_if_nothing_had_been() -> None:
    values = np.random.default_rng(2).random(300)
    whole, first = fed(values), fed(values[:150])
    second = Forecasters(1)
    second.put(0, first.rows(0, 1))
    for value in values[150:]:
        second.observe(ONE, [value])
    assert second.rows(0, 1).tobytes() == whole.rows(0, 1).tobytes()


def test_a_cleared_series_knows_nothing_and_others_keep_what_they_know() -> None:
    forecasters = Forecasters(1)
    forecasters.grow(2)
    forecasters.observe(np.arange(2), [1.0, 2.0])
    forecasters.clear(ONE)
    forecast, _ = forecasters.forecast(np.arange(2))
    assert forecast.predictor.tolist() == [-1, 0]
    assert forecast.value[1] == 2.0
    assert np.isnan(forecast.value[0])
    assert len(forecasters) == 2


def test_free_memory_in_bytes_keeps_its_precision() -> None:
    values = 256e9 + np.random.default_rng(1).normal(0, 1e6, 400)
    forecast, _ = fed(values).forecast(ONE)
    assert forecast.value[0] == pytest.approx(256e9, abs=5e5)
    assert forecast.error[0] == pytest.approx(1e6, rel=0.15)


def test_a_series_of_a_million_values_goes_on_learning() -> None:
    old = fed(np.random.default_rng(1).random(200)).rows(0, 1)
    old[:, layout.COUNT] = COUNT_MAX - 50
    forecasters = Forecasters(1)
    forecasters.put(0, old)
    for value in np.sin(np.arange(350) / 2):
        forecasters.observe(ONE, [value])
    row = forecasters.rows(0, 1)[0]
    assert COUNT_MAX - EVERY < row[layout.COUNT][0] <= COUNT_MAX
    assert row[layout.SQUARED][layout.AUTOREGRESSION][0] < 0.05, "the autoregression was fitted again"


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.floats(-1e17, 1e17), min_size=1, max_size=130))
def test_forecasts_of_any_values_are_finite_and_within_reach_of_them(values: list[float]) -> None:
    forecast, absolute = fed(np.array(values)).forecast(ONE)
    assert np.isfinite(forecast.value).all()
    assert len(values) == 1 or np.isfinite(forecast.error).all()
    largest = max(abs(value) for value in values)
    assert abs(absolute.value[0]) <= 50 * largest + 1e-30
