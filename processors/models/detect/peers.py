"""A host unlike its peers: the slow node of a job, the straggler of a partition."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

PEERS_MIN: Final = 4  # hosts in a group, of which one can be told apart
NORMAL: Final = 1.4826  # a normal distribution's deviation in median absolute deviations
FLOOR: Final = 0.01  # of the median: hosts that differ by less are alike


def unlike_peers(value: NDArray[np.float64], group: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return how many robust deviations each value (m,) is above the median of its group (m,).

    The deviation is that of the median absolute deviation (Hampel 1974), at least a hundredth of the median. Zero for
    what is not finite, and in groups of fewer than four finite values.

    >>> unlike_peers(np.array([1.0, 1.1, 0.9, 1.0, 4.0, 7.0]), np.array([0, 0, 0, 0, 0, 1])).round(1).tolist()
    [0.0, 0.7, -0.7, 0.0, 20.2, 0.0]
    """
    result = np.zeros(value.size)
    use = np.flatnonzero(np.isfinite(value))
    if use.size == 0:
        return result
    _, of, count = np.unique(group[use], return_inverse=True, return_counts=True)
    finite = value[use]
    median = _medians(finite, of, count)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        off = finite - median[of]
        deviation = np.maximum(NORMAL * _medians(np.abs(off), of, count), FLOOR * np.abs(median))[of]
        robust_z = np.where(deviation > 0.0, off / deviation, np.where(off == 0.0, 0.0, np.copysign(np.inf, off)))
    result[use] = np.where((count[of] >= PEERS_MIN) & ~np.isnan(robust_z), robust_z, 0.0)
    return result


def _medians(value: NDArray[np.float64], of: NDArray[np.intp], count: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the median of each group; `of` numbers the groups from 0, `count` is how many values each has."""
    ordered = value[np.lexsort((value, of))]
    first = np.cumsum(count) - count
    lower, upper = ordered[first + (count - 1) // 2], ordered[first + count // 2]
    return np.asarray(0.5 * lower + 0.5 * upper, np.float64)
