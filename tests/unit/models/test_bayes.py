"""The Bayesian average: the known predictions, honest from one size on, independent of order and unit."""

import warnings
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.downey.bayes import Posterior, posterior
from processors.models.downey.curve import speedup
from tests.kit.cases import each
from tests.kit.effort import examples

FOUR = ([4, 8, 16, 32], [262, 139, 78.5, 63])
LINEAR = ([1, 2, 4, 8], [1000, 501.9531, 252.9297, 128.4180])
KNOWN = [
    (FOUR, 12, 98.409, 0.01578, (93.11, 98.47, 103.93)),
    (FOUR, 24, 67.294, 0.01548, (64.09, 67.42, 70.86)),
    (FOUR, 64, 62.590, 0.03254, (58.24, 62.81, 66.99)),
    (([8], [100]), 16, 62.495, 0.23594, (49.36, 56.44, 100.0)),
    (([4, 16], [100, 30]), 64, 13.076, 0.22727, (9.88, 12.46, 21.89)),
    (([1, 4], [100, 27]), 16, 8.580, 0.22282, (6.71, 8.24, 13.07)),
    (LINEAR, 6, 170.191, 0.00764, (163.00, 169.90, 178.36)),
    (LINEAR, 16, 67.137, 0.06515, (62.00, 66.48, 73.93)),
    (LINEAR, 32, 36.783, 0.17377, (31.68, 35.26, 47.61)),
]
Rows = tuple[list[float], list[float], list[float]]
Observed = tuple[list[float], list[float]]
observed = st.integers(1, 8).flatmap(
    lambda k: st.tuples(
        st.lists(st.integers(1, 512), min_size=k, max_size=k, unique=True),
        st.lists(st.floats(0.5, 2000), min_size=k, max_size=k),
        st.lists(st.floats(0.1, 1), min_size=k, max_size=k),
    )
)
TARGETS = [0.5, 1, 3, 8, 1000]


def same_bits(left: Posterior, right: Posterior) -> bool:
    return all(
        np.array_equal(a, b) for a, b in zip(left.predict(TARGETS), right.predict(TARGETS), strict=True)
    ) and np.array_equal(left.mass, right.mass)


@each(("rows", "target", "mean_s", "sd_ln", "quantiles_s"), KNOWN)
def test_the_known_predictions_are_met(
    *, rows: Observed, target: float, mean_s: float, sd_ln: float, quantiles_s: tuple[float, ...]
) -> None:
    prediction = posterior(*rows, noise=0.03).predict([target])
    assert prediction.mean_s[0] == pytest.approx(mean_s, rel=0.002)
    assert prediction.sd_ln[0] == pytest.approx(sd_ln, rel=0.002)
    assert prediction.quantiles_s[0] == pytest.approx(quantiles_s, rel=0.002)


@given(observed, st.randoms(use_true_random=False))
@settings(max_examples=examples(60), deadline=None)
def test_the_order_of_the_observations_does_not_change_a_bit(rows: Rows, random: Random) -> None:
    order = list(range(len(rows[0])))
    random.shuffle(order)
    n, t, weight = ([column[i] for i in order] for column in rows)
    assert same_bits(posterior(n, t, weight), posterior(*rows))


@given(observed, st.floats(1e-6, 1e6))
@settings(max_examples=examples(60), deadline=None)
def test_the_unit_of_time_scales_predictions(rows: Rows, factor: float) -> None:
    n, t, weight = rows
    plain, scaled = posterior(n, t, weight), posterior(n, np.multiply(t, factor), weight)
    assert scaled.predict(TARGETS, ()).mean_s == pytest.approx(plain.predict(TARGETS, ()).mean_s * factor, rel=1e-6)
    assert scaled.predict(TARGETS, ()).sd_ln == pytest.approx(plain.predict(TARGETS, ()).sd_ln, rel=1e-5, abs=1e-7)


def test_only_ratios_of_weights_count() -> None:
    assert same_bits(posterior(*FOUR, weight=[4.0] * 4), posterior(*FOUR))


def test_no_prediction_rises_with_the_size_and_a_share_of_a_processor_takes_its_time() -> None:
    prediction = posterior(*FOUR).predict([0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 1e6])
    assert (np.diff(prediction.mean_s) <= 1e-9).all()
    assert prediction.mean_s[:3] == pytest.approx(prediction.mean_s[2] * np.array([4, 2, 1]))


def test_uncertainty_grows_away_from_what_was_seen_and_shrinks_with_more_sizes() -> None:
    near, far, further = posterior(*LINEAR).predict([8, 16, 64], ()).sd_ln
    assert near < far < further
    assert posterior([8], [128.4]).predict([64.0]).sd_ln[0] > further


def test_the_band_holds_the_truth_of_curves_drawn_from_the_prior() -> None:
    generator = np.random.default_rng(5)
    inside = []
    for _ in range(150):
        n = np.array([2, 4, 8, 16.0])
        curve = np.exp(generator.normal(np.log(64), 1.5)).clip(1), abs(generator.normal(1.2, 1.1))
        noise = np.exp(0.03 * generator.standard_normal(5))
        t = 1000 / speedup([2, 4, 8, 16, 32], *curve) * noise
        low, _, high = posterior(n, t[:4]).predict([32.0]).quantiles_s[0]
        inside.append(low <= t[4] <= high)
    assert 0.84 <= np.mean(inside) <= 0.98


def test_a_misfit_widens_the_band() -> None:
    clean = posterior([1, 2, 4, 8, 16], 100 / speedup([1, 2, 4, 8, 16], 20, 0.5))
    rough = posterior([1, 2, 4, 8, 16], [100, 80, 20, 35, 9])
    assert clean.noise == pytest.approx(0.03)
    assert rough.noise > 0.2


@pytest.mark.parametrize("noise", [0.0, -1.0, float("nan"), float("inf")])
def test_noise_must_be_positive(noise: float) -> None:
    with pytest.raises(ValueError, match="noise"):
        posterior([1], [1.0], noise=noise)


@pytest.mark.parametrize("target", [0.0, -1.0, float("nan"), float("inf")])
def test_a_target_must_be_a_size(target: float) -> None:
    with pytest.raises(ValueError, match="Sizes"):
        posterior([1], [1.0]).predict([target])


extreme = st.sampled_from([5e-324, 1e-300, 1e-8, 0.3, 1.0, 7.5, 1e9, 1e300, 1.7e308])


@given(st.lists(st.tuples(extreme, extreme), min_size=1, max_size=6), st.sampled_from([1e-9, 0.03, 10.0]))
@settings(max_examples=examples(100), deadline=None)
def test_extreme_numbers_give_finite_predictions_without_a_warning(
    rows: list[tuple[float, float]], noise: float
) -> None:
    n, t = zip(*rows, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        prediction = posterior(n, t, noise=noise).predict([5e-324, 1.0, 3.0, 1.7e308])
    assert all(np.isfinite(values).all() for values in prediction)


def test_identical_times_predict_themselves_between_the_sizes() -> None:
    assert posterior([1, 2, 4, 8], [50.0] * 4).predict([3.0, 6.0]).mean_s == pytest.approx([50, 50], rel=0.02)
