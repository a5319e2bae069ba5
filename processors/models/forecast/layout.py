"""What a row of a series holds: its latest values, what each predictor says, how wrong each was."""

from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

RECENT: Final = 101  # values kept of each series
MEANS: Final = (5, 10, 20, 30, 50)
MEDIANS: Final = (5, 11, 21, 31, 51)
TRIMMED: Final = (11, 31, 51)
GAINS: Final = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.75, 0.9)
ORDER: Final = 5  # of the autoregression

PREDICTORS: Final = (
    "last",
    "running_mean",
    *(f"mean_{window}" for window in MEANS),
    *(f"median_{window}" for window in MEDIANS),
    *(f"trimmed_mean_{window}" for window in TRIMMED),
    *(f"smoothing_{gain}" for gain in GAINS),
    "gradient",
    "adaptive_mean",
    "adaptive_median",
    "autoregression",
)
"""Names of the predictors, in the order of their columns."""


def _columns(*sizes: int) -> list[slice]:
    ends = np.cumsum(sizes).tolist()
    return [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]


LAST, RUNNING_MEAN, MEAN, MEDIAN, TRIMMED_MEAN, SMOOTHING, GRADIENT, ADAPTIVE_MEAN, ADAPTIVE_MEDIAN, AUTOREGRESSION = (
    _columns(1, 1, len(MEANS), len(MEDIANS), len(TRIMMED), len(GAINS), 1, 1, 1, 1)
)
"""Where each family of predictors stands among the predictions."""

_ALL: Final = len(PREDICTORS)
NEWEST_FIRST, PREDICTION, BESIDE, SQUARED, ABSOLUTE, COUNT, RUNNING, GAIN, LAST_ERROR, WINDOW, COEFFICIENT = _columns(
    RECENT, _ALL, 4, _ALL, _ALL, 1, 2, 1, 1, 2, ORDER
)
"""Columns of a row: values, predictions of the next one, what both adaptive windows would say one shorter and longer, means
of squared and absolute errors, count of values, mean of all in two parts, gain and last error of the gradient, both
windows, coefficients of the autoregression."""

WIDTH: Final = COEFFICIENT.stop
FIRST_GAIN: Final = 0.1
FIRST_WINDOW: Final = 10


def empty(series: int) -> Floats:
    """Return rows of series without a value, (series, WIDTH).

    >>> empty(2).shape == (2, WIDTH)
    True
    """
    rows = np.zeros((series, WIDTH), dtype=np.float32)
    rows[:, NEWEST_FIRST] = np.inf  # sorts behind all values
    rows[:, GAIN] = FIRST_GAIN
    rows[:, WINDOW] = FIRST_WINDOW
    rows[:, COEFFICIENT.start] = 1.0  # says the last value until it is fitted
    return rows
