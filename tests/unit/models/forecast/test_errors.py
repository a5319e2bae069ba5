"""The tails of a forecast: what is kept of errors, and the quantiles that come out of it."""

import numpy as np
import pytest

from processors.models.forecast import KNOWN_MIN, NONE, RETAINED, SCALED_MAX, Forecasters, coded, quantiles

LEVELS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])


def codes_of(scaled: np.ndarray) -> np.ndarray:
    codes = np.full((1, RETAINED), NONE, dtype=np.int8)
    codes[0, : len(scaled)] = coded(scaled.astype(np.float32))
    return codes


@pytest.mark.parametrize("count", [KNOWN_MIN, 57, RETAINED])
def test_quantiles_are_those_of_the_errors_but_for_a_fiftieth(count: int) -> None:
    scaled = np.random.default_rng(count).exponential(1.5, count) - 1.0
    found = quantiles(codes_of(scaled), LEVELS)[0]
    assert found == pytest.approx(np.quantile(scaled, LEVELS), rel=0.021, abs=0.003)


def test_the_order_of_errors_does_not_matter() -> None:
    scaled = np.random.default_rng(2).normal(0, 1, RETAINED)
    assert (quantiles(codes_of(scaled), LEVELS) == quantiles(codes_of(scaled[::-1]), LEVELS)).all()


def test_too_few_errors_have_no_quantiles() -> None:
    assert np.isnan(quantiles(codes_of(np.zeros(KNOWN_MIN - 1)), LEVELS)).all()
    assert (quantiles(codes_of(np.zeros(KNOWN_MIN)), LEVELS) == 0).all()


def test_an_error_where_none_was_expected_counts_as_the_largest() -> None:
    still = Forecasters(1)
    missed = [float(still.observe(np.arange(1), [value])[0]) for value in (1.0, 1.0, 1.0, 2.0)]
    assert np.isnan(missed[:2]).all(), "nothing is known of errors before the second value"
    assert missed[2:] == [0.0, np.inf]
    assert quantiles(codes_of(np.full(RETAINED, np.inf)), LEVELS) == pytest.approx(SCALED_MAX)


def test_a_missing_value_has_no_error_and_changes_nothing() -> None:
    one, other = Forecasters(1), Forecasters(1)
    for value in np.random.default_rng(1).random(30):
        first = one.observe(np.arange(1), [value])
        assert np.isnan(one.observe(np.arange(1), [np.nan]))
        assert np.array_equal(first, other.observe(np.arange(1), [value]), equal_nan=True)
