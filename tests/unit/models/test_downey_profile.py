"""The best curve for each average parallelism: exact, compared with brute force over the other parameters."""

import numpy as np
import pytest

from processors.models.downey.curve import inverse_speedup, speedup
from processors.models.downey.fit import Limits, profile

CASES = [
    Limits(),
    Limits(w_bounds=(0.1, 0.8)),
    Limits(serial_share_max=0.01),
    Limits(t1_bounds=(900.0, 1000.0)),
    Limits(serial_share_max=0.05, t1_bounds=(1200.0, 1300.0), w_bounds=(0.3, 1.0)),
]


def least_by_brute_force(observed: np.ndarray, parallelism: float, limits: Limits) -> float:
    """Return the least objective over 10 001 curvatures; observed has the rows n, t and weight."""
    n, t, weight = observed
    top = float(limits.curvature_max(np.array([parallelism]))[0])
    w = np.linspace(min(limits.w_bounds[0], top), top, 10_001)
    rates = inverse_speedup(1 / n[:, None], parallelism, w) / t[:, None]
    a, b = weight @ rates, weight @ rates**2
    t1 = a / b if limits.t1_bounds is None else np.clip(a / b, *limits.t1_bounds)
    return float((weight.sum() - 2 * a * t1 + b * t1 * t1).min())


@pytest.mark.parametrize("limits", CASES, ids=str)
def test_no_curvature_and_no_serial_time_is_better(limits: Limits) -> None:
    generator = np.random.default_rng(11)
    for _ in range(12):
        k = int(generator.integers(1, 9))
        n = np.sort(generator.choice(np.arange(1, 65), k, replace=False)).astype(float)
        curve = np.exp(generator.uniform(0, 4)), abs(generator.normal(1, 1))
        t = 1000 / speedup(n, *curve) * np.exp(0.2 * generator.standard_normal(k))
        weight = generator.uniform(0.1, 1, k)
        parallelism = np.exp(generator.uniform(0, np.log(16 * n[-1]), 12))
        best = profile(n, t, parallelism, weight, limits)
        for i, a in enumerate(parallelism):
            assert best.objective[i] <= least_by_brute_force(np.stack([n, t, weight]), a, limits) + 1e-12
            residuals = best.t1_s[i] * inverse_speedup(1 / n, a, best.curvature[i]) / t - 1
            assert weight @ residuals**2 == pytest.approx(best.objective[i], abs=1e-12)
            top = limits.curvature_max(np.array([a]))[0]
            assert min(limits.w_bounds[0], top) - 1e-12 <= best.curvature[i] <= top + 1e-12


def test_in_the_linear_section_every_parallelism_fits_alike() -> None:
    n = np.array([1, 2, 4, 8])
    best = profile(n, 1000 / speedup(n, 64, 0.5), np.linspace(8, 250, 50))
    assert best.objective == pytest.approx(np.zeros(50), abs=1e-14)


def test_the_parallelism_must_be_a_list_of_at_least_one() -> None:
    for wrong in ([0.5], [np.nan], [np.inf], 3.0):
        with pytest.raises(ValueError, match="parallelism"):
            profile([1, 2], [2.0, 1.0], wrong)
