"""Amdahl's law T(n) = a / n + b with a, b >= 0, fitted to many subsets of the sizes at once."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class AmdahlFits(NamedTuple):
    """One law per subset: `parallel_s` (a), `serial_s` (b) and `squares`, the sum of squared relative errors; shape (m,).

    >>> AmdahlFits(np.array([100.0]), np.array([1.0]), np.array([0.0])).predict(np.array([10.0])).tolist()
    [11.0]
    """

    parallel_s: Floats
    serial_s: Floats
    squares: Floats

    def predict(self, n: Floats) -> Floats:
        """Return T in seconds at one size per law, shape (m,).

        >>> AmdahlFits(np.array([8.0, 8.0]), np.array([1.0, 1.0]), np.zeros(2)).predict(np.array([4.0, 8.0])).tolist()
        [3.0, 2.0]
        """
        return self.parallel_s / n + self.serial_s


def fit_amdahl(n: Floats, run_time_s: Floats, weights: Floats) -> AmdahlFits:
    """Return the least squares of relative errors with a, b >= 0; `weights` has shape (m, k), zero leaves a size out.

    Of two unknowns the best nonnegative pair is the free optimum or lies on one axis, so it has a closed form.

    >>> n = np.array([1.0, 2.0, 4.0, 8.0])
    >>> fits = fit_amdahl(n, 100.0 / n + 5.0, np.ones((1, 4)))
    >>> fits.parallel_s.round(6).tolist(), fits.serial_s.round(6).tolist()
    ([100.0], [5.0])
    """
    unit, reference = float(n[0]), float(run_time_s[0])
    share, constant = unit / n * (reference / run_time_s), reference / run_time_s
    aa, ab, bb = weights @ (share * share), weights @ (share * constant), weights @ (constant * constant)
    a, b = weights @ share, weights @ constant
    determinant = aa * bb - ab * ab
    with np.errstate(all="ignore"):
        free_a, free_b = (a * bb - b * ab) / determinant, (b * aa - a * ab) / determinant
        usable = (determinant > 1e-14 * aa * bb) & (free_a >= 0) & (free_b >= 0)
        only_a, only_b = a / aa, b / bb
    # what an axis explains is a^2 / aa or b^2 / bb
    on_a = ~usable & (a * only_a >= b * only_b)
    coefficient_a = np.where(usable, free_a, np.where(on_a, only_a, 0.0))
    coefficient_b = np.where(usable, free_b, np.where(on_a, 0.0, only_b))
    residuals = coefficient_a[:, None] * share + coefficient_b[:, None] * constant - 1.0
    return AmdahlFits(coefficient_a * unit * reference, coefficient_b * reference, (weights * residuals**2).sum(axis=1))
