"""How far forecasts reach: four distances beyond the largest size whose records are kept apart, and used for each other.

Errors grow with the distance in another way for each application, but records far out are few: what is known of one
distance counts at another one the less, the further log2 of the two are apart.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from processors.models.numerics.arrays import Floats

DISTANCES: Final = np.array([0.5, 1.0, 2.0, 3.5])  # doublings, the centres of what is kept apart
_EDGES: Final = np.array([0.75, 1.5, 2.75])
_REACH: Final = 1.5  # in log2 of the distance
_LEAST: Final = 1e-3  # doublings


def place(distance: Floats) -> NDArray[np.intp]:
    """Return which of DISTANCES the records of distances (m,) in doublings belong to.

    >>> place(np.array([0.1, 1.0, 9.0])).tolist()
    [0, 1, 3]
    """
    return np.searchsorted(_EDGES, distance)


def nearness(distance: Floats) -> Floats:
    """Return what the records of each of DISTANCES weigh at distances (m,) in doublings, shape (m, 4).

    >>> nearness(np.array([1.0])).round(2).tolist()
    [[0.51, 1.0, 0.51, 0.3]]
    """
    return np.asarray(np.exp(-np.abs(np.log2(np.maximum(distance, _LEAST))[:, None] - np.log2(DISTANCES)) / _REACH))
