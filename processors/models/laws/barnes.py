"""Barnes' regression: log2 T is linear or quadratic in log2 of the size.

B. Barnes et al., "A regression-based approach to scalability prediction" (ICS 2008), without the inputs. A line misses
saturation and a parabola turns up or down by itself: outside the observed sizes the slope is therefore held within what
real codes do.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SLOPE_MIN, SLOPE_MAX = -1.1, 0.5
SLOPES_ALIKE = 1e-9


def fit_barnes(n: Floats, run_time_s: Floats, *, degree: int) -> tuple[float, ...]:
    """Return gamma_0, gamma_1 and with degree 2 gamma_2 of log2 T = gamma_0 + gamma_1 q + gamma_2 q^2, q = log2 n.

    Least squares of log2 T; `n` and `run_time_s` have shape (m,). Where sizes are too few or too alike the smallest
    coefficients that fit best are taken. Raises ValueError for a degree other than 1 and 2.

    >>> n, t = np.array([4.0, 8.0, 16.0, 32.0]), np.array([262.0, 139.0, 78.5, 63.0])
    >>> [round(float(2 ** log2_run_time(fit_barnes(n, t, degree=degree), 6.0, 2.0, 5.0)), 3) for degree in (1, 2)]
    [34.485, 57.852]
    """
    if degree not in {1, 2}:
        raise ValueError("The degree is 1 or 2.")
    q = np.log2(n)
    columns = np.column_stack([q**power for power in range(degree + 1)])
    return tuple(np.linalg.lstsq(columns, np.log2(run_time_s), rcond=None)[0].tolist())


def log2_run_time(gamma: tuple[float, ...], q: float, low: float, high: float) -> float:
    """Return log2 of T at one q = log2 n, observed sizes spanning [low, high] in q; beyond, the clipped slope is integrated.

    >>> round(log2_run_time((8.0, -1.0, 0.1), 8.0, 0.0, 4.0), 3)
    6.375
    """
    level, slope, *bend = gamma
    double = 2.0 * bend[0] if bend else 0.0
    nearest = min(max(q, low), high)
    inside = level + (slope + double / 2.0 * nearest) * nearest
    if nearest == q:
        return inside
    first, last = slope + double * nearest, slope + double * q
    if abs(last - first) < SLOPES_ALIKE:
        return inside + _clipped(first) * (q - nearest)
    return inside + (_integral(last) - _integral(first)) / (last - first) * (q - nearest)


def _clipped(slope: float) -> float:
    return min(max(slope, SLOPE_MIN), SLOPE_MAX)


def _integral(slope: float) -> float:
    """Return the integral of the clipped slope over the slope."""
    clipped = _clipped(slope)
    return clipped * slope - clipped * clipped / 2.0
