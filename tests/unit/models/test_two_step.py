import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.downey.curve import speedup
from processors.models.downey.two_step import (
    Floats,
    TwoStepFit,
    closest,
    curve_bounds,
    envelope,
    fit_two_step,
    target_weights,
)

SIZES, TIMES = np.array([4.0, 8.0, 16.0, 32.0]), np.array([262.0, 139.0, 78.5, 63.0])


def fit(n: Floats, t: Floats, target: float) -> TwoStepFit:
    return fit_two_step(n, t, target, envelope(n, t))


@pytest.mark.parametrize(
    ("target", "run_time_s", "closest_n"), [(12.0, 98.48, 16.0), (24.0, 67.66, 32.0), (64.0, 63.01, 32.0)]
)
def test_the_reference_predictions(target: float, run_time_s: float, closest_n: float) -> None:
    found = fit(SIZES, TIMES, target)
    assert found.run_time_s == pytest.approx(run_time_s, rel=0.01)
    assert found.closest_n == closest_n
    assert found.parallelism == pytest.approx(15.8, rel=0.01)
    assert found.sigma == pytest.approx(0.54, rel=0.03)


def test_the_reference_speedups() -> None:
    assert fit(SIZES, TIMES, 24.0).speedup == pytest.approx(14.70, rel=0.01)
    assert fit(SIZES, TIMES, 64.0).speedup == pytest.approx(15.79, rel=0.01)


def test_of_two_equally_close_sizes_the_larger_is_the_closest() -> None:
    assert closest(np.array([4.0, 16.0]), 8.0) == 1


def test_the_closest_size_weighs_most() -> None:
    weights = target_weights(SIZES, 20.0)
    assert weights.max() == 1.0
    assert weights.argmax() == 2


@pytest.mark.parametrize("seed", range(6))
def test_at_an_observed_size_the_prediction_is_the_observation_within_three_per_cent(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = np.sort(rng.choice(np.arange(1.0, 65.0), 5, replace=False))
    t = 1000.0 / speedup(n, np.exp(rng.uniform(1.0, 5.0)), abs(rng.normal(1.0, 0.8))) * np.exp(rng.normal(0.0, 0.1, 5))
    for size, observed in zip(n, t, strict=True):
        assert fit(n, t, float(size)).run_time_s == pytest.approx(observed, rel=0.03 + 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_predictions_of_a_clean_curve_lie_within_the_bounds_of_the_family(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = np.sort(rng.choice(np.arange(1.0, 65.0), 5, replace=False))
    t = np.asarray(1000.0 / speedup(n, np.exp(rng.uniform(1.0, 5.0)), abs(rng.normal(1.0, 0.8))))
    targets = np.array([1.5, 10.0, 50.0, 130.0, 260.0])
    low, high = curve_bounds(n, t, targets)
    for target, at_least, at_most in zip(targets, low, high, strict=True):
        assert at_least <= fit(n, t, float(target)).run_time_s <= at_most


def test_the_prediction_moves_continuously_with_a_time() -> None:
    predictions = []
    for factor in np.linspace(0.99, 1.01, 9):
        t = TIMES.copy()
        t[2] *= factor
        predictions.append(fit(SIZES, t, 24.0).run_time_s)
    assert np.abs(np.diff(np.log(predictions))).max() < 0.01


@settings(max_examples=15, deadline=None)
@given(st.floats(1e-9, 1e9))
def test_the_scale_of_the_times_scales_the_prediction_and_nothing_else(scale: float) -> None:
    found, scaled = fit(SIZES, TIMES, 64.0), fit(SIZES, TIMES * scale, 64.0)
    assert scaled.run_time_s == pytest.approx(found.run_time_s * scale, rel=1e-6)
    assert (scaled.parallelism, scaled.sigma) == pytest.approx((found.parallelism, found.sigma), rel=1e-4)


def test_an_untrusted_size_is_not_what_the_curve_passes_through() -> None:
    t = np.array([262.0, 139.0, 150.0, 63.0])
    trust = np.array([1.0, 1.0, 0.1, 1.0])
    found = fit_two_step(SIZES, t, 16.0, envelope(SIZES[[0, 1, 3]], t[[0, 1, 3]]), trust=trust)
    assert found.closest_n == 32.0
    assert found.run_time_s < 100.0


def test_more_noise_gives_the_prior_more_say() -> None:
    quiet = fit_two_step(SIZES, TIMES, 64.0, envelope(SIZES, TIMES), noise=0.0)
    noisy = fit_two_step(SIZES, TIMES, 64.0, envelope(SIZES, TIMES, 0.3), noise=0.3)
    assert noisy.parallelism > 1.3 * quiet.parallelism


def test_a_size_below_one_processor_gets_its_share() -> None:
    n, t = np.array([1.0, 2.0, 4.0]), np.array([100.0, 51.0, 26.0])
    assert fit(n, t, 0.5).run_time_s == pytest.approx(200.0, rel=0.04)
