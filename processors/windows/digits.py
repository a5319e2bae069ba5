"""As many digits of a value as are known."""

from typing import Final

import numpy as np
import numpy.typing as npt

DIGITS: Final = 7  # of a value held in 32 bits
Floats = npt.NDArray[np.float64]


def significant(value: Floats) -> Floats:
    """Return the values rounded to seven significant digits, which is what 32 bits hold: 0.83, not 0.8299999833106995.

    >>> significant(np.array([np.float64(np.float32(0.83)), -123456789.0, 0.0, np.nan]))
    array([ 8.300000e-01, -1.234568e+08,  0.000000e+00,           nan])
    """
    magnitude = np.abs(value)
    exponent = np.floor(np.log10(magnitude, out=np.zeros_like(magnitude), where=magnitude > 0))
    places = np.clip(DIGITS - 1 - exponent, -300, 300)
    up, down = 10.0 ** np.maximum(places, 0), 10.0 ** np.maximum(-places, 0)
    rounded: Floats = np.rint(value * up / down) * down / up
    return rounded
