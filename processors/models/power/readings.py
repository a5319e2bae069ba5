"""Values of power sensors that can not be: missing, negative, nought while something runs, more than the host can draw."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class Readings(NamedTuple):
    """Power as far as it can be believed (...), nan elsewhere, and how many values were left out for which reason.

    >>> Readings(np.array([1.0]), 1, 0, 0, 0).left_out
    1
    """

    power_w: Floats
    missing: int
    negative: int
    zero: int
    excessive: int

    @property
    def left_out(self) -> int:
        """How many values were left out."""
        return self.missing + self.negative + self.zero + self.excessive


def believable(power_w: npt.ArrayLike, *, most_w: npt.ArrayLike = np.inf, may_be_zero: bool = False) -> Readings:
    """Return the values that can be; `most_w` is what is drawn at most, `may_be_zero` for a part that can be off.

    >>> believable([220.0, np.nan, -1.0, 0.0, 9e9], most_w=2000.0)
    Readings(power_w=array([220.,  nan,  nan,  nan,  nan]), missing=1, negative=1, zero=1, excessive=1)
    """
    power = np.asarray(power_w, np.float64)
    missing = np.isnan(power)
    negative = power < 0
    zero = (power == 0) & (not may_be_zero)
    excessive = (power > np.asarray(most_w, np.float64)) | (power == np.inf)
    good = ~(missing | negative | zero | excessive)
    counts = (int(each.sum()) for each in (missing, negative, zero, excessive))
    return Readings(np.where(good, power, np.nan), *counts)
