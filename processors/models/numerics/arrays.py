"""Types of arrays that models share."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Interval(NamedTuple):
    """Predictions of m values with the ends of the band that holds 90 % of single runs; arrays of shape (m,).

    The function that returns it says whether the values are seconds or ln of seconds.
    """

    middle: Floats
    low: Floats
    high: Floats


class RowPredictions(NamedTuple):
    """Predictions for m rows: the value (m,), and the standard deviation of its ln (m,); of the value if it is an ln itself."""

    value: Floats
    deviation: Floats
