"""Tails of forecasts: the empirical quantiles of a series' own latest errors, each in parts of what was expected then.

    quantile(p) = forecast + expected error x quantile p of the last 100 of (value - forecast) / expected error

What is expected follows the errors of the moment, so the quantiles do, and their form is the series' own: nothing is taken
to be normal. It is a conformal prediction whose scores are normalised errors.

Source: Lei, G'Sell, Rinaldo, Tibshirani, Wasserman, "Distribution-free predictive inference for regression" (2018).

An error is kept in one byte. Codes rise with errors, evenly near zero and as their logarithm far from it, so that they are
sorted as they are; a quantile is off by a fiftieth of itself at most.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int8]

RETAINED: Final = 100  # errors of a series
KNOWN_MIN: Final = 20  # fewer say nothing of the twentieth part
SCALED_MAX: Final = 10.0  # what is farther off counts as so far: one leap out of rest is no measure of the next
NONE: Final = -128  # the code of no error; sorts before all
_EVEN: Final = 0.1  # up to about here codes are evenly spaced
_CODE_MAX: Final = 127
_STEP: Final = float(np.arcsinh(SCALED_MAX / _EVEN)) / _CODE_MAX
_DECODED: Final = (_EVEN * np.sinh(np.arange(NONE, _CODE_MAX + 1) * _STEP)).astype(np.float32)


def coded(scaled: Floats) -> Codes:
    """Return scaled errors, none of them NaN, as codes of one byte.

    >>> coded(np.array([-np.inf, -10.0, 0.0, 0.01, 1.0], dtype=np.float32)).tolist()
    [-127, -127, 0, 2, 72]
    """
    held = np.clip(scaled, -SCALED_MAX, SCALED_MAX)
    return np.asarray(np.rint(np.arcsinh(held / _EVEN) / _STEP), dtype=np.int8)


def quantiles(codes: Codes, levels: npt.NDArray[np.float64]) -> Floats:
    """Return the quantiles (series, levels) of scaled errors from codes (series, RETAINED), NONE where there is none yet.

    Between two errors a quantile is interpolated. NaN where fewer than KNOWN_MIN are known.

    >>> codes = np.full((1, RETAINED), NONE, dtype=np.int8)
    >>> codes[0, :21] = coded(np.linspace(-1, 1, 21, dtype=np.float32))
    >>> quantiles(codes, np.array([0.0, 0.5, 0.75])).round(1).tolist()
    [[-1.0, 0.0, 0.5]]
    """
    rising = np.sort(codes, axis=1)
    count = (codes != NONE).sum(axis=1, keepdims=True)
    at = RETAINED - count + levels * np.maximum(count - 1, 0)
    below = np.minimum(np.floor(at).astype(np.intp), RETAINED - 1)
    low, high = (
        _DECODED[np.take_along_axis(rising, place, axis=1).astype(np.intp) - NONE]
        for place in (below, np.minimum(below + 1, RETAINED - 1))
    )
    found = low + (high - low) * (at - below).astype(np.float32)
    return np.where(count >= KNOWN_MIN, found, np.float32(np.nan))
