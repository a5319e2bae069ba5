import numpy as np
import pytest

from processors.models.downey.curve import speedup
from processors.models.downey.fit import QuickFitter, fit_downey


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.15])
def test_the_error_is_close_to_that_of_the_exact_fit(noise: float) -> None:
    rng = np.random.default_rng(1)
    excess = []
    for _ in range(40):
        k = int(rng.integers(4, 13))
        n = np.sort(rng.choice(np.arange(1.0, 129.0), k, replace=False))
        t = (
            1000.0
            / speedup(n, np.exp(rng.uniform(1.0, 5.5)), abs(rng.normal(1.0, 0.8)))
            * np.exp(rng.normal(0, noise, k))
        )
        quick = QuickFitter(n, t).fit(np.ones((1, k), bool))
        excess.append(np.sqrt(quick.objective[0]) - fit_downey(n, t).rms)
    assert min(excess) > -1e-9
    assert np.percentile(excess, 90) < 0.001
    assert max(excess) < 0.015


def test_a_row_of_a_batch_is_the_fit_of_its_own_subset() -> None:
    n = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    t = np.asarray(1000.0 / speedup(n, 12.0, 0.5))
    t[2] *= 1.5
    without = np.arange(5) != 2
    fits = QuickFitter(n, t).fit(np.stack([np.ones(5, bool), without]))
    rms = np.sqrt(fits.objective)
    assert rms[0] > 0.05
    assert rms[1] < 0.002
    assert fits.predict(n[2:3])[1, 0] == pytest.approx(t[2] / 1.5, rel=0.01)


def test_times_far_apart_give_numbers() -> None:
    fits = QuickFitter(np.array([1.0, 2.0, 3.0]), np.array([1e30, 1.0, 1e30])).fit(np.ones((1, 3), bool))
    assert np.isfinite(fits.objective).all()
    assert np.isfinite(fits.t1_s).all()
