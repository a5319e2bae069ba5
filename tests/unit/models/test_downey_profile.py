"""The best curve for each average parallelism: exact, compared with brute force over the other parameters."""

import numpy as np
import pytest

from processors.models.downey.curve import ParallelismProfile, inverse_speedup, observations, speedup
from processors.models.downey.fit import ProfileSolver
from processors.models.numerics.arrays import Floats


def profile(n: Floats, t: Floats, parallelism: Floats, weight: Floats | None = None) -> ParallelismProfile:
    data = observations(n, t, weight)
    best = ProfileSolver(data.n[None], data.rate[None], data.weight[None]).solve(parallelism)
    return best._replace(t1_s=best.t1_s * data.scale_s)


def least_by_brute_force(observed: np.ndarray, parallelism: float) -> float:
    """Return the least objective over 10 001 curvatures; observed has the rows n, t and weight."""
    n, t, weight = observed
    w = np.linspace(0.0, 1.0, 10_001)
    rates = inverse_speedup(1 / n[:, None], parallelism, w) / t[:, None]
    a, b = weight @ rates, weight @ rates**2
    t1 = a / b
    return float((weight.sum() - 2 * a * t1 + b * t1 * t1).min())


def test_no_curvature_and_no_serial_time_is_better() -> None:
    generator = np.random.default_rng(11)
    for _ in range(12):
        k = int(generator.integers(1, 9))
        n = np.sort(generator.choice(np.arange(1, 65), k, replace=False)).astype(float)
        curve = np.exp(generator.uniform(0, 4)), abs(generator.normal(1, 1))
        t = 1000 / speedup(n, *curve) * np.exp(0.2 * generator.standard_normal(k))
        weight = generator.uniform(0.1, 1, k)
        parallelism = np.exp(generator.uniform(0, np.log(16 * n[-1]), 12))
        best = profile(n, t, parallelism, weight)
        for i, a in enumerate(parallelism):
            assert best.objective[i] <= least_by_brute_force(np.stack([n, t, weight]), a) + 1e-12
            residuals = best.t1_s[i] * inverse_speedup(1 / n, a, best.curvature[i]) / t - 1
            assert weight @ residuals**2 == pytest.approx(best.objective[i], abs=1e-12)
            assert -1e-12 <= best.curvature[i] <= 1.0 + 1e-12


def test_in_the_linear_section_every_parallelism_fits_alike() -> None:
    n = np.array([1.0, 2.0, 4.0, 8.0])
    best = profile(n, 1000 / speedup(n, 64, 0.5), np.linspace(8, 250, 50))
    assert best.objective == pytest.approx(np.zeros(50), abs=1e-14)
