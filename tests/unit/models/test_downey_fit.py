"""The exact fit: it recovers clean curves, finds the global optimum, and depends on nothing it should not."""

import warnings
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.downey.curve import inverse_speedup, speedup
from processors.models.downey.fit import DowneyFit, fit_downey
from processors.models.numerics.arrays import Floats
from tests.kit.cases import each
from tests.kit.effort import examples

Rows = tuple[list[float], list[float], list[float]]

RECOVERED = [
    (16, 0.5, [1, 4, 8, 16, 24, 32]),
    (16, 0.5, [4, 8, 16, 24, 32]),
    (40, 1.5, [1, 4, 16, 32, 64, 100]),
    (40, 1.5, [4, 16, 32, 64, 100]),
    (10, 0, [1, 2, 4, 8, 16, 32]),
    (12, 0.8, [2, 6, 10, 14, 18]),
]
observed = st.integers(1, 12).flatmap(
    lambda k: st.tuples(
        st.lists(st.integers(1, 512), min_size=k, max_size=k, unique=True),
        st.lists(st.floats(0.5, 2000), min_size=k, max_size=k),
        st.lists(st.floats(0.1, 1), min_size=k, max_size=k),
    )
)


def noisy_curve(generator: np.random.Generator, noise: float) -> tuple[Floats, Floats]:
    k = int(generator.integers(3, 9))
    n = np.sort(generator.choice(np.arange(1, 129), k, replace=False)).astype(float)
    a, sigma = np.exp(generator.uniform(0, np.log(300))), abs(generator.normal(1, 1))
    return n, 1000 / speedup(n, a, sigma) * np.exp(noise * generator.standard_normal(k))


def best_by_brute_force(n: Floats, t: Floats) -> float:
    """Return the least rms on a dense grid of (A, w), refined around its best points by plain shrinking grids."""

    def rms(a: Floats, w: Floats) -> Floats:
        rates = inverse_speedup(1 / n, a[:, None, None], w[None, :, None]) / t
        t1 = rates.sum(axis=2) / (rates**2).sum(axis=2)
        return np.asarray(np.sqrt(((t1[..., None] * rates - 1) ** 2).mean(axis=2)))

    log_a, w = np.linspace(0, np.log(16 * n.max()), 241), np.linspace(0, 1, 161)
    table = rms(np.exp(log_a), w)
    best = float(table.min())
    for flat in np.argsort(table, axis=None)[:3]:
        i, j = np.unravel_index(flat, table.shape)
        centre_a, centre_w, step_a, step_w = log_a[i], w[j], log_a[1], w[1]
        for _ in range(9):
            around_a = np.clip(centre_a + step_a * np.linspace(-1, 1, 13), 0, log_a[-1])
            around_w = np.clip(centre_w + step_w * np.linspace(-1, 1, 13), 0, 1)
            local = rms(np.exp(around_a), around_w)
            i, j = np.unravel_index(local.argmin(), local.shape)
            centre_a, centre_w, step_a, step_w = around_a[i], around_w[j], step_a / 3, step_w / 3
            best = min(best, float(local.min()))
    return best


@pytest.mark.parametrize(("a", "sigma", "n"), RECOVERED)
def test_a_clean_curve_is_recovered_with_or_without_the_time_of_one(a: float, sigma: float, n: list[float]) -> None:
    fit = fit_downey(n, 1000 / speedup(n, a, sigma))
    assert fit.rms < 1e-6
    assert (fit.parallelism, fit.sigma) == pytest.approx((a, sigma), abs=1e-4)
    assert fit.t1_s == pytest.approx(1000, rel=1e-6)


def test_noisy_times_give_the_known_parameters() -> None:
    fit = fit_downey([4, 8, 16, 32], [262, 139, 78.5, 63])
    assert fit.parallelism == pytest.approx(15.801, rel=0.01)
    assert fit.sigma == pytest.approx(0.537, rel=0.01)
    assert fit.t1_s == pytest.approx(995.7, rel=0.01)
    assert fit.rms == pytest.approx(0.00125, rel=0.01)
    assert fit.objective == pytest.approx(4 * fit.rms**2)


def test_the_fit_is_the_global_optimum_on_nearly_all_noisy_curves() -> None:
    generator = np.random.default_rng(7)
    excess = []
    for noise in [0.0, 0.01, 0.03, 0.1] * 15:
        n, t = noisy_curve(generator, noise)
        excess.append(fit_downey(n, t).rms - best_by_brute_force(n, t))
    assert np.mean(np.array(excess) < 1e-8) >= 0.95
    assert np.mean(np.array(excess) < 1e-4) >= 0.99
    assert max(excess) < 0.003


@pytest.mark.parametrize(
    ("n", "t", "rms"),
    [
        ([12, 24, 54], [11.62, 7.66, 6.78], 0),
        ([14, 15, 19, 31], [8.76, 8.66, 8.66, 8.61], 0.0011028),
        ([2, 9, 28, 43, 59], [58.75, 49.52, 49.34, 49.41, 49.34], 0.00051756),
    ],
)
def test_the_narrow_valleys_of_saturated_sizes_are_found(n: list[float], t: list[float], rms: float) -> None:
    assert fit_downey(n, t).rms == pytest.approx(rms, abs=1e-6)


@given(observed, st.randoms(use_true_random=False))
@settings(max_examples=examples(150), deadline=None)
def test_the_order_of_the_observations_does_not_change_a_bit(rows: Rows, random: Random) -> None:
    order = list(range(len(rows[0])))
    random.shuffle(order)
    n, t, weight = ([column[i] for i in order] for column in rows)
    assert fit_downey(n, t, weight) == fit_downey(*rows)


@given(observed, st.integers(-60, 60))
@settings(max_examples=examples(100), deadline=None)
def test_a_binary_unit_of_time_scales_the_serial_time_and_nothing_else_to_the_bit(rows: Rows, exponent: int) -> None:
    n, t, weight = rows
    fit, scaled = fit_downey(n, t, weight), fit_downey(n, np.ldexp(t, exponent), weight)
    assert scaled.t1_s == np.ldexp(fit.t1_s, exponent)
    assert (scaled.parallelism, scaled.sigma, scaled.rms) == (fit.parallelism, fit.sigma, fit.rms)


@pytest.mark.parametrize("factor", [1e-6, 1 / 3600, 7.7, 1e6])
@pytest.mark.parametrize("noise", [0, 0.02])
def test_any_unit_of_time_leaves_the_parameters(factor: float, noise: float) -> None:
    n = np.array([1, 2, 4, 8, 16, 32.0])
    t = 1000 / speedup(n, 20, 0.7) * np.exp(noise * np.random.default_rng(3).standard_normal(6))
    fit, scaled = fit_downey(n, t), fit_downey(n, t * factor)
    assert scaled.t1_s == pytest.approx(fit.t1_s * factor, rel=1e-9)
    assert (scaled.parallelism, scaled.sigma) == pytest.approx((fit.parallelism, fit.sigma), rel=1e-6)


def test_sizes_in_the_linear_section_give_the_smallest_parallelism_that_fits_in_any_unit_of_time() -> None:
    n = np.array([1, 2, 4, 8])
    t = 1000 / speedup(n, 64, 0.5)
    fits = [fit_downey(n, t * factor) for factor in (1, 3, 1 / 7, 1e5)]
    assert [fit.rms for fit in fits] == pytest.approx([0] * 4, abs=1e-7)
    assert [fit.parallelism for fit in fits] == pytest.approx([fits[0].parallelism] * 4, rel=1e-3)
    assert fits[0].parallelism < 10


def test_a_size_seen_twice_is_two_observations() -> None:
    assert fit_downey([1, 4, 4], [100, 30, 34]).predict(4.0) == pytest.approx(31.9, abs=0.4)


def test_a_share_of_a_processor_reports_the_serial_time() -> None:
    assert fit_downey([0.25, 4], [400.0, 25.0]).t1_s == pytest.approx(100)
    assert fit_downey([1, 4], [100.0, 25.0]).predict([0.5, 1]) == pytest.approx([200, 100])


def test_weight_decides_which_size_is_trusted() -> None:
    n, t = [1, 2, 4, 8], [100, 52, 45, 15]
    doubtful = fit_downey(n, t, [1, 1, 1e-6, 1])
    assert doubtful.predict(8.0) == pytest.approx(15, rel=0.02)
    without = fit_downey([1, 2, 8], [100, 52, 15])
    assert fit_downey(n, t, [1, 1, 0, 1]) == without


def test_one_size_is_met_exactly() -> None:
    fit = fit_downey([8], [100.0])
    assert fit.predict([8.0]) == pytest.approx([100])
    assert fit.rms == pytest.approx(0, abs=1e-12)


def test_identical_times_mean_no_speedup_at_all() -> None:
    fit = fit_downey([1, 2, 4, 8], [50.0] * 4)
    assert fit.predict([1, 3, 100]) == pytest.approx([50] * 3)


@each(
    ("n", "t", "weight"),
    [
        ([], [], None),
        ([1, 2], [1.0], None),
        ([0, 1], [1.0, 1.0], None),
        ([-2, 1], [1.0, 1.0], None),
        ([1, 2], [1.0, float("nan")], None),
        ([1, 2], [1.0, float("inf")], None),
        ([1, 2], [1.0, 0.0], None),
        ([float("nan"), 2], [1.0, 1.0], None),
        ([1, 2], [1.0, 1.0], [0, 0]),
        ([1, 2], [1.0, 1.0], [-1, 1]),
        ([1, 2], [1.0, 1.0], [float("nan"), 1]),
        ([1, 2], [1.0, 1.0], [1]),
    ],
)
def test_nonsense_is_refused_with_a_message(n: list[float], t: list[float], weight: list[float] | None) -> None:
    with pytest.raises(ValueError, match=r"^[A-Z].*\.$"):
        fit_downey(n, t, weight)


extreme = st.sampled_from([5e-324, 1e-300, 1e-8, 0.3, 1.0, 2.0, 7.5, 1e9, 1e300, 1.7e308])


@given(st.lists(st.tuples(extreme, extreme), min_size=1, max_size=12))
@settings(max_examples=examples(300), deadline=None)
def test_extreme_numbers_give_a_finite_fit_without_a_warning(rows: Rows) -> None:
    n, t = zip(*rows, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = fit_downey(n, t)
        predicted = fit.predict([1e-300, 1e-3, 1.0, 1e300])
    assert np.isfinite([fit.t1_s, fit.parallelism, fit.sigma, fit.rms, *predicted]).all()


def test_a_fit_knows_its_speedup() -> None:
    fit = DowneyFit(t1_s=1000.0, parallelism=16.0, sigma=0.5, rms=0.0, objective=0.0)
    assert fit.t1_s / fit.predict([8, 24]) == pytest.approx([7.211268, 14.912621], abs=1e-6)
    assert fit.predict(31) == pytest.approx(1000 / 16)
