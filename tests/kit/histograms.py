"""Figures of histograms that only tests ask for."""

import numpy as np

from processors.models.histogram import Histogram, mean
from processors.models.numerics.arrays import Floats


def variance(x: Histogram) -> Floats:
    """Return the variance, (...): between the middles of the intervals and within them."""
    off = (x.low + x.high) / 2 - mean(x)[..., None]
    return np.asarray((x.shares * (off**2 + (x.high - x.low) ** 2 / 12)).sum(axis=-1))
