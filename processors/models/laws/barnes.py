"""Barnes' regression: log2 T is linear in log2 of the inputs, and linear or quadratic in log2 of the size.

B. Barnes et al., "A regression-based approach to scalability prediction" (ICS 2008). It is the one law here that knows
about input sizes. A line misses saturation and a parabola turns up or down by itself: outside the observed sizes the
slope is therefore held within what real codes do.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from processors.models.laws import Ability

Floats = NDArray[np.float64]

ABILITIES: Final = (
    Ability("barnes_linear", sizes_min=3, extrapolates=True),
    Ability("barnes_quadratic", sizes_min=4, extrapolates=True),
)
SLOPE_MIN, SLOPE_MAX = -1.1, 0.5
STEPS = 33  # of the trapezoid rule along a clipped slope
SLOPES_ALIKE = 1e-9


class BarnesLaw(NamedTuple):
    """log2 T = sum of beta log2 x + gamma_0 + gamma_1 q + gamma_2 q^2, q = log2 n; observed sizes span [low, high] in q.

    >>> BarnesLaw((), (3.0, -1.0), 0.0, 4.0).predict(np.array([4.0])).tolist()
    [2.0]
    """

    beta: tuple[float, ...]
    gamma: tuple[float, ...]
    low: float
    high: float

    def predict(self, n: Floats, inputs: Floats | None = None) -> Floats:
        """Return T in seconds at sizes (m,) and inputs (m, p), each positive.

        >>> BarnesLaw((2.0,), (3.0, -0.9), 1.0, 4.0).predict(np.array([64.0]), np.array([[16.0]])).round(5).tolist()
        [48.50293]
        """
        q = np.log2(n)
        nearest = np.clip(q, self.low, self.high)
        value = np.polynomial.polynomial.polyval(nearest, self.gamma) + self._beyond(nearest, q)
        if inputs is not None and self.beta:
            value = value + np.log2(inputs) @ np.array(self.beta)
        return np.asarray(np.exp2(value))

    def _beyond(self, start: Floats, end: Floats) -> Floats:
        """Return the integral of the clipped slope from the nearest observed size to the target."""
        slope = np.polynomial.polynomial.polyder(np.array(self.gamma))
        along = start + (end - start) * np.linspace(0.0, 1.0, STEPS)[:, None]
        clipped = np.clip(np.polynomial.polynomial.polyval(along, slope), SLOPE_MIN, SLOPE_MAX)
        return np.asarray(np.trapezoid(clipped, dx=1.0 / (STEPS - 1), axis=0) * (end - start))


def fit_barnes(n: Floats, run_time_s: Floats, inputs: Floats | None = None, *, degree: int = 1) -> BarnesLaw:
    """Return the law by least squares of log2 T; `n` and `run_time_s` have shape (m,), `inputs` (m, p).

    Where rows are too few or too alike the smallest coefficients that fit best are taken.
    Raises ValueError for a degree other than 1 and 2.

    >>> n, t = np.array([4.0, 8.0, 16.0, 32.0]), np.array([262.0, 139.0, 78.5, 63.0])
    >>> [fit_barnes(n, t, degree=degree).predict(np.array([64.0])).round(3).item() for degree in (1, 2)]
    [34.485, 57.852]
    """
    if degree not in {1, 2}:
        raise ValueError("The degree is 1 or 2.")
    q = np.log2(n)
    known = np.zeros((n.size, 0)) if inputs is None else np.log2(inputs)
    columns = np.column_stack([known, *(q**power for power in range(degree + 1))])
    found = np.linalg.lstsq(columns, np.log2(run_time_s), rcond=None)[0].tolist()
    p = known.shape[1]
    return BarnesLaw(tuple(found[:p]), tuple(found[p:]), float(q.min()), float(q.max()))


def log2_run_time(gamma: tuple[float, ...], q: float, low: float, high: float) -> float:
    """Return log2 of T at one q = log2 n without inputs, in plain floats; the clipped slope is integrated exactly.

    >>> law = BarnesLaw((), (8.0, -1.0, 0.1), 0.0, 4.0)
    >>> round(log2_run_time(law.gamma, 8.0, 0.0, 4.0), 3), round(float(np.log2(law.predict(np.array([256.0])))[0]), 3)
    (6.375, 6.375)
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
    held = _clipped(slope)
    return held * slope - held * held / 2.0
