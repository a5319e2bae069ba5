"""Bands of run times, whose logarithms are taken for normal, and the loss by which a quantile is judged."""

import math
from statistics import NormalDist
from typing import Final

_NORMAL: Final = NormalDist()
Z95: Final = _NORMAL.inv_cdf(0.95)  # half the width of a band that holds 90 %, in standard deviations


def quantile_of_band(median_s: float, high_s: float, level: float) -> float:
    """Return what the share `level` of the runs keeps below, where half keep below the median and 95 % below `high_s`.

    >>> round(quantile_of_band(100.0, 200.0, 0.9), 1), round(quantile_of_band(100.0, 200.0, 0.95), 1)
    (171.6, 200.0)
    """
    return median_s * math.pow(high_s / median_s, _NORMAL.inv_cdf(level) / Z95)


def pinball(observed: float, quantile: float, level: float) -> float:
    """Return the pinball loss of a quantile, in the unit of both numbers (Koenker and Bassett, 1978).

    >>> pinball(130.0, 100.0, 0.5), round(pinball(90.0, 100.0, 0.9), 9)
    (15.0, 1.0)
    """
    past = observed - quantile
    return max(level * past, (level - 1.0) * past)
