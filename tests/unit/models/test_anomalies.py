import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.adept.patterns import find_anomalies, violations
from processors.models.downey.curve import speedup
from processors.models.numerics.arrays import Floats
from tests.kit.effort import examples

POWERS = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])


def curve(n: Floats, parallelism: float, sigma: float) -> Floats:
    return np.asarray(100.0 / speedup(n, parallelism, sigma))


def test_a_slow_size_is_named_with_what_was_expected_of_it() -> None:
    t = curve(POWERS, 40.0, 0.4)
    clean = t[3]
    t[3] *= 1.5
    found = find_anomalies(POWERS, t, 0.10)
    assert [(size.n, size.direction) for size in found.sizes] == [(8.0, "slow")]
    assert found.sizes[0].deviation == pytest.approx(0.5, abs=1e-3)
    assert found.sizes[0].expected_s == pytest.approx(clean, rel=1e-3)
    assert found.retained.tolist() == [True, True, True, False, True, True]
    assert found.violations == 0.0


def test_a_fast_size_is_named_too() -> None:
    n = 2.0 ** np.arange(8.0)
    t = curve(n, 200.0, 0.4)
    t[4] /= 1.6
    found = find_anomalies(n, t, 0.10)
    assert [(size.n, size.direction) for size in found.sizes] == [(16.0, "fast")]
    assert found.sizes[0].deviation == pytest.approx(1 / 1.6 - 1, abs=1e-3)


def test_four_sizes_with_a_slow_one() -> None:
    found = find_anomalies(POWERS[:4], np.array([100.0, 52.0, 40.0, 15.0]), 0.10)
    assert [(size.n, size.direction) for size in found.sizes] == [(4.0, "slow")]
    assert found.sizes[0].deviation == pytest.approx(0.469, abs=0.005)


def test_three_sizes_are_too_few_to_blame_one() -> None:
    assert find_anomalies(POWERS[:3], np.array([100.0, 90.0, 25.0]), 0.10).sizes == ()


def test_at_most_a_quarter_of_the_sizes_is_blamed() -> None:
    rng = np.random.default_rng(2)
    for _ in range(30):
        n = np.arange(1.0, 13.0)
        found = find_anomalies(n, np.exp(rng.normal(0.0, 1.0, 12)), 0.10)
        assert len(found.sizes) <= 3
        assert found.retained.sum() == 12 - len(found.sizes)


def test_a_saturated_last_size_is_no_anomaly() -> None:
    assert find_anomalies(POWERS, curve(POWERS, 10.0, 0.0), 0.10).sizes == ()


@pytest.mark.parametrize("noise", [0.01, 0.02, 0.03])
@pytest.mark.parametrize("spacing", ["powers", "arithmetic", "squares", "random"])
def test_noise_alone_raises_no_false_alarm(spacing: str, noise: float) -> None:
    rng = np.random.default_rng(11)
    false_alarms = 0
    for _ in range(60):
        k = int(rng.integers(4, 9))
        n = {
            "powers": 2.0 ** np.arange(k),
            "arithmetic": np.arange(4.0, 4.0 * k + 1.0, 4.0),
            "squares": np.arange(1.0, k + 1.0) ** 2,
            "random": np.sort(rng.choice(np.arange(1.0, 129.0), k, replace=False)),
        }[spacing]
        t = curve(n, np.exp(rng.uniform(2.0, 5.5)), abs(rng.normal(1.0, 0.8))) * np.exp(rng.normal(0.0, noise, k))
        false_alarms += bool(find_anomalies(n, t, 0.10).sizes)
    assert false_alarms == 0


@pytest.mark.parametrize(("factor", "least"), [(1.2, 0.80), (1.4, 0.93), (1.8, 0.93)])
def test_a_slow_interior_size_is_found(factor: float, least: float) -> None:
    rng = np.random.default_rng(4)
    hits = 0
    for _ in range(60):
        n = 2.0 ** np.arange(float(rng.integers(5, 8)))
        t = curve(n, np.exp(rng.uniform(2.0, 5.5)), abs(rng.normal(1.0, 0.8))) * np.exp(rng.normal(0.0, 0.01, n.size))
        slow = int(rng.integers(1, n.size - 1))
        t[slow] *= factor
        hits += [size.n for size in find_anomalies(n, t, 0.10).sizes] == [n[slow]]
    assert hits / 60 >= least


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(-100, 100))
def test_the_scale_of_the_times_does_not_matter(power: int) -> None:
    t = curve(POWERS, 40.0, 0.4)
    t[2] *= 1.4
    found, scaled = find_anomalies(POWERS, t, 0.10), find_anomalies(POWERS, t * 2.0**power, 0.10)
    assert [size.n for size in found.sizes] == [size.n for size in scaled.sizes]
    assert found.sizes[0].deviation == pytest.approx(scaled.sizes[0].deviation, rel=1e-9)


def test_two_sizes_have_no_violation() -> None:
    assert violations(np.array([1.0, 2.0]), np.array([1.0, 9.0]), 0.1) == 0.0
