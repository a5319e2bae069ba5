"""Fluctuation of a run-time curve: the metric R of ADEPT and a rule that holds for any spacing of the sizes.

Both look at three neighbouring sizes and ask whether the middle one is out of line.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

TOLERANCE = 0.10  # of ADEPT; it must exceed the noise, so three times the noise replaces it where that is more
NOISE_FACTOR = 3.0
R_LIMIT = 1e300  # R of times that differ by more than floats can tell


def tolerance(noise: float) -> float:
    """Return the relative deviation that counts as a fluctuation, from the standard deviation of ln t.

    >>> tolerance(0.03), tolerance(0.05)
    (0.1, 0.15000000000000002)
    """
    return max(TOLERANCE, NOISE_FACTOR * noise)


def fluctuation(n: Floats, run_time_s: Floats) -> Floats:
    """Return R of each interval between neighbouring sizes, shape (k-1,); R is a pure number.

    `n` (sorted, distinct) and `run_time_s` have shape (k,). Perfect speed-up gives 2 - n_i / n_(i+1).
    A slow point makes the R before it small and the R after it large.
    Source: the metric of ADEPT (Deshmeh, Machina, Sodan 2010). Its distance term is exact for geometric spacing only.

    >>> fluctuation(np.array([1.0, 2.0, 4.0, 8.0]), np.array([100.0, 52.0, 40.0, 15.0])).round(6).tolist()
    [1.442308, 0.975, 2.0]
    """
    ratio = n[:-1] / n[1:]
    with np.errstate(over="ignore", under="ignore"):
        r = (run_time_s[:-1] / run_time_s[1:]) * ratio * (2.0 - ratio)
    return np.clip(r, 1.0 / R_LIMIT, R_LIMIT)


def rise_of_r(n: Floats, run_time_s: Floats) -> Floats:
    """Return ln(R_(i+1) / R_i) of each three neighbouring sizes, shape (k-2,).

    Above ln(1 + tolerance) the three points are candidates. Sound for geometric spacing only.

    >>> rise_of_r(np.array([1.0, 2.0, 4.0]), np.array([4.0, 2.0, 1.0])).tolist()
    [0.0]
    """
    return np.diff(np.log(fluctuation(n, run_time_s)))


def excess_over_chord(n: Floats, run_time_s: Floats) -> Floats:
    """Return by how much ln t of each middle size lies above the chord of its neighbours in log-log, shape (k-2,).

    ln T is convex in ln n for every Downey curve, so a noise-free one gives no positive value whatever the spacing.

    >>> excess_over_chord(np.array([4.0, 5.0, 10.0]), np.array([25.0, 20.0, 10.0])).round(12).tolist()
    [-0.0]
    """
    x, y = np.log(n), np.log(run_time_s)
    share = (x[1:-1] - x[:-2]) / (x[2:] - x[:-2])
    return np.asarray(y[1:-1] - y[:-2] - share * (y[2:] - y[:-2]))


def violation(excess: Floats, tolerance: float) -> Floats:
    """Return how far each excess is above ln(1 + tolerance), zero where it is not.

    >>> violation(np.array([0.0, 0.5]), 0.1).round(4).tolist()
    [0.0, 0.4047]
    """
    return np.asarray(np.maximum(excess - np.log1p(tolerance), 0.0))
