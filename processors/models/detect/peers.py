"""A host unlike its peers: the slow node of a job, the straggler of a partition."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

PEERS_MIN: Final = 4  # hosts in a group, of which one can be told apart
NORMAL: Final = 1.4826  # a normal distribution's deviation in median absolute deviations
FLOOR: Final = 0.01  # of the median: hosts that differ by less are alike


class Peers(NamedTuple):
    """Each value (m,) against its group: robust deviations above the median, that median, and how many are in the group.

    >>> Peers(np.zeros(1), np.ones(1), np.ones(1, np.intp)).usual
    array([1.])
    """

    deviations: NDArray[np.float64]
    usual: NDArray[np.float64]
    peers: NDArray[np.intp]


def unlike_peers(value: NDArray[np.float64], group: NDArray[np.int64]) -> Peers:
    """Return how far each value (m,) is from its group (m,).

    The deviation is that of the median absolute deviation (Hampel 1974), at least a hundredth of the median. Zero for
    what is not finite, and in groups of fewer than four finite values; what is not finite has no median and no group.

    >>> unlike_peers(np.array([1.0, 1.1, 0.9, 1.0, 4.0, 7.0]), np.array([0, 0, 0, 0, 0, 1])).deviations.round(1).tolist()
    [0.0, 0.7, -0.7, 0.0, 20.2, 0.0]
    """
    found = Peers(np.zeros(value.size), np.full(value.size, np.nan), np.zeros(value.size, np.intp))
    use = np.flatnonzero(np.isfinite(value))
    if use.size == 0:
        return found
    _, of, count = np.unique(group[use], return_inverse=True, return_counts=True)
    finite = value[use]
    median = _medians(finite, of, count)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        off = finite - median[of]
        deviation = np.maximum(NORMAL * _medians(np.abs(off), of, count), FLOOR * np.abs(median))[of]
        robust_z = np.where(deviation > 0.0, off / deviation, np.where(off == 0.0, 0.0, np.copysign(np.inf, off)))
    found.deviations[use] = np.where((count[of] >= PEERS_MIN) & ~np.isnan(robust_z), robust_z, 0.0)
    found.usual[use], found.peers[use] = median[of], count[of]
    return found


def _medians(value: NDArray[np.float64], of: NDArray[np.intp], count: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the median of each group; `of` numbers the groups from 0, `count` is how many values each has."""
    ordered = value[np.lexsort((value, of))]
    first = np.cumsum(count) - count
    lower, upper = ordered[first + (count - 1) // 2], ordered[first + count // 2]
    return np.asarray(0.5 * lower + 0.5 * upper, np.float64)
