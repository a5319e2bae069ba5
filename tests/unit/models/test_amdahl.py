import numpy as np
import pytest
from scipy.optimize import nnls

from processors.models.laws import least_squares_amdahl


def test_the_published_fit_of_four_sizes() -> None:
    n, t = np.array([4.0, 8.0, 16.0, 32.0]), np.array([262.0, 139.0, 78.5, 63.0])
    fits = least_squares_amdahl(n, t, np.ones((1, 4)))
    assert (fits.parallel_s[0], fits.serial_s[0]) == pytest.approx((867.448, 31.679), abs=5e-4)
    assert [fits.predict(np.array([size]))[0] for size in (12.0, 64.0)] == pytest.approx([103.967, 45.233], rel=1e-5)


def test_the_closed_form_is_the_nonnegative_least_squares_of_any_subset() -> None:
    rng = np.random.default_rng(3)
    for _ in range(300):
        k = int(rng.integers(3, 10))
        n = np.sort(rng.choice(np.arange(1.0, 100.0), k, replace=False))
        t = np.exp(rng.normal(0.0, 2.0, k))
        weights = (rng.uniform(size=(5, k)) < 0.7).astype(float)
        weights[:, :2] = 1.0
        fits = least_squares_amdahl(n, t, weights)
        for row, weight in enumerate(weights):
            rows = weight > 0
            solution, distance = nnls(np.column_stack([1.0 / (n * t), 1.0 / t])[rows], np.ones(rows.sum()))
            assert fits.squares[row] == pytest.approx(distance**2, abs=1e-9)
            assert (fits.parallel_s[row], fits.serial_s[row]) == pytest.approx(tuple(solution), rel=1e-5, abs=1e-9)
