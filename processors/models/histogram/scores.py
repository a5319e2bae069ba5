"""How good a histogram was as a forecast of a value that is now known."""

import numpy as np
import numpy.typing as npt

from processors.models.histogram.moments import cumulative
from processors.models.histogram.rebin import below
from processors.models.histogram.values import Floats, Histogram


def crps(x: Histogram, actual: npt.ArrayLike) -> Floats:
    """Return the continuous ranked probability score (...) of actual values (...), in their unit; 0 is perfect.

    The integral of (F(v) - [v >= actual])^2 over v, in closed form for each interval (Gneiting, Raftery, "Strictly
    proper scoring rules", 2007). That of a certain value is its distance.

    >>> float(crps(Histogram(np.array([0.0, 1.0]), np.ones(1)), 0.5)).__round__(6)
    0.083333
    >>> float(crps(Histogram(np.array([3.0, 3.0]), np.ones(1)), 5.0))
    2.0
    """
    value = np.asarray(actual, dtype=np.float64)[..., None]
    split = np.clip(value, x.low, x.high)
    width = x.high - x.low
    start = x.shares.cumsum(axis=-1) - x.shares
    middle = start + x.shares * (split - x.low) / np.where(width > 0, width, 1.0)
    end = start + x.shares
    inside = (split - x.low) * _mean_square(start, middle) + (x.high - split) * _mean_square(1 - middle, 1 - end)
    outside = np.maximum(x.edges[..., 0] - value[..., 0], 0) + np.maximum(value[..., 0] - x.edges[..., -1], 0)
    return np.asarray(inside.sum(axis=-1) + outside)


def pit(x: Histogram, actual: npt.ArrayLike) -> Floats:
    """Return the probability integral transform (...): the probability of values below the actual one.

    Half of what lies on the value itself counts. Where forecasts are right these are even from 0 to 1.

    >>> float(pit(Histogram(np.array([0.0, 4.0]), np.ones(1)), 1.0)), float(pit(Histogram(np.full(2, 3.0), np.ones(1)), 3))
    (0.25, 0.5)
    """
    value = np.asarray(actual, dtype=np.float64)[..., None]
    under = (below(value, x.low, x.high) * x.shares[..., None, :]).sum(axis=-1)
    return np.asarray((np.clip(under, 0.0, 1.0) + cumulative(x, value))[..., 0] / 2)


def _mean_square(a: Floats, b: Floats) -> Floats:
    return np.asarray((a * a + a * b + b * b) / 3)
