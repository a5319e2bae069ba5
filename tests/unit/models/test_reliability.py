import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.adept.verdict import FitEvidence, ObservedCurve, disagreement, gather_many, judge
from processors.models.downey.curve import speedup
from processors.models.downey.fit import fit_downey
from processors.models.numerics.arrays import Floats
from tests.kit.effort import examples


def gather(n: Floats, run_time_s: Floats, noise: float = 0.0) -> FitEvidence:
    return gather_many([ObservedCurve(n, run_time_s, noise)])[0]


def downey(n: Floats, parallelism: float, sigma: float) -> Floats:
    return np.asarray(1000.0 / speedup(n, parallelism, sigma))


def test_sizes_that_all_lie_in_the_linear_section() -> None:
    n = np.array([1.0, 2.0, 4.0, 8.0])
    assert judge(gather(n, downey(n, 64.0, 0.5))) == ("linear",)


def test_a_curve_that_has_lost_most_of_its_speed_up_is_not_linear() -> None:
    n = np.array([1.0, 2.0, 4.0, 8.0])
    assert judge(gather(n, 100.0 / n + 40.0)) == ()


def test_sizes_that_show_where_the_curve_saturates() -> None:
    n = np.array([4.0, 8.0, 16.0, 32.0, 64.0])
    assert judge(gather(n, downey(n, 16.0, 0.5))) == ()


def test_two_curves_that_fit_and_differ_beyond_the_sizes() -> None:
    evidence = gather(np.array([2.0, 6.0, 16.0, 24.0]), np.array([51.246, 19.594, 9.225, 7.762]))
    assert judge(evidence) == ("runner_up",)
    assert evidence.acceptable.parallelism[[0, -1]] == pytest.approx([12.5, 28.4], abs=0.05)
    assert disagreement(evidence) == pytest.approx(0.357, abs=0.001)


def test_a_wide_gap_between_the_sizes_leaves_the_curve_open() -> None:
    assert judge(gather(np.array([1.0, 4.0, 128.0]), np.array([101.267, 24.874, 1.817]))) == ("runner_up",)


def test_times_that_no_curve_fits() -> None:
    evidence = gather(np.array([1.0, 2.0, 4.0, 8.0, 16.0]), np.array([100.0, 80.0, 20.0, 35.0, 9.0]))
    assert judge(evidence) == ("high_error", "superlinear", "linear")
    assert evidence.rms == pytest.approx(0.340, abs=5e-4)


def test_the_largest_size_is_slower_than_a_smaller_one() -> None:
    evidence = gather(2.0 ** np.arange(6.0), np.array([100.0, 52.0, 28.0, 17.0, 15.0, 19.0]))
    assert judge(evidence) == (), "that is advice, and no doubt of the prediction"


def test_superlinear_speedup_is_named_with_its_sizes() -> None:
    evidence = gather(np.array([1.0, 2.0, 4.0, 8.0]), np.array([100.0, 44.0, 20.0, 9.8]))
    assert judge(evidence)[0] == "superlinear"
    assert evidence.superlinear == (1.0, 8.0)


def test_fewer_than_three_sizes_are_not_enough() -> None:
    assert judge(gather(np.array([4.0]), np.array([10.0]))) == ("insufficient",)
    assert judge(gather(np.array([4.0, 8.0]), np.array([10.0, 6.0]))) == ("insufficient",)


def test_noise_widens_what_counts_as_a_fit() -> None:
    n, t = np.array([4.0, 8.0, 16.0, 32.0, 64.0]), downey(np.array([4.0, 8.0, 16.0, 32.0, 64.0]), 16.0, 0.5)
    assert gather(n, t, noise=0.2).acceptable.parallelism.size > gather(n, t).acceptable.parallelism.size


def test_the_verdict_separates_good_from_bad_extrapolations() -> None:
    rng = np.random.default_rng(6)
    errors: dict[str, list[float]] = {"reliable": [], "linear": [], "runner_up": []}
    for _ in range(150):
        n = 2.0 ** np.arange(rng.integers(3, 6)) * rng.choice([1.0, 2.0, 4.0])
        parallelism, sigma = np.exp(rng.uniform(np.log(4.0), np.log(128.0))), abs(rng.normal(1.0, 0.8))
        t = downey(n, parallelism, sigma) * np.exp(rng.normal(0.0, 0.01, n.size))
        reasons = judge(gather(n, t, noise=0.01))
        error = fit_downey(n, t).predict([2.0 * n[-1]])[0] / downey(2.0 * n[-1:], parallelism, sigma)[0] - 1.0
        errors.setdefault(reasons[0] if reasons else "reliable", []).append(abs(float(error)))
    assert len(errors["reliable"]) >= 20
    assert np.mean(errors["reliable"]) < 0.03
    assert np.mean(errors["linear"]) > 4.0 * np.mean(errors["reliable"])


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.floats(1e-30, 1e30), min_size=1, max_size=12), st.integers(-60, 60))
def test_any_times_give_a_verdict_that_does_not_depend_on_their_scale(times: list[float], power: int) -> None:
    n, t = np.arange(1.0, len(times) + 1.0), np.array(times)
    assert judge(gather(n, t)) == judge(gather(n, t * 2.0**power))
