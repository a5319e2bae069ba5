"""All predictors over many series: each new value scores them and teaches them, the one with the least error answers."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from processors.models.forecast import layout
from processors.models.forecast.adaptive import around_mean, around_median, moved
from processors.models.forecast.autoregression import EVERY, fitted, predicted
from processors.models.forecast.layout import RECENT, WIDTH, Floats
from processors.models.forecast.windows import means, ordered, sums

DISCOUNT = 0.99  # of an error's weight with each further one
GRADIENT_STEP = 0.1
GAIN_MIN, GAIN_MAX = 0.01, 1.0
VALUE_MAX = 1e17  # squares of single precision end at 3e38; nothing that is measured is so large
COUNT_MAX = 1_000_000  # a multiple of EVERY; then the mean of all begins to forget
BLOCK = 512  # rows at a time, so that they stay in the cache
_MEANS = np.array(layout.MEANS)
_GAINS = np.array(layout.GAINS, dtype=np.float32)


class Forecast(NamedTuple):
    """Of each series: the next value, its standard error and the predictor, by least squared and least absolute errors.

    Values are NaN and predictors -1 of series without a value; errors are NaN before the second.
    """

    value: Floats
    error: Floats
    predictor: npt.NDArray[np.intp]
    absolute_value: Floats
    absolute_error: Floats
    absolute_predictor: npt.NDArray[np.intp]


class Forecasters:
    """The predictors of many series.

    >>> forecasters = Forecasters(2)
    >>> for value in (4.0, 5.0, 4.0, 5.0):
    ...     forecasters.observe(np.arange(2), np.array([value, np.nan]))
    >>> forecast = forecasters.forecast(np.arange(2))
    >>> forecast.value.tolist(), forecast.predictor.tolist()
    ([4.5, nan], [1, -1])
    """

    def __init__(self, series: int, rows: Floats | None = None) -> None:
        """Start with `series` empty series, or with rows (series, WIDTH) as `rows` gave them; ValueError else."""
        if rows is not None and rows.shape != (series, WIDTH):
            raise ValueError(f"Rows of {series} series have {WIDTH} columns each.")
        self._rows = layout.empty(series) if rows is None else np.array(rows, dtype=np.float32)

    def __len__(self) -> int:
        """Return how many series there are."""
        return len(self._rows)

    def rows(self, first: int, last: int) -> Floats:
        """Return a copy of the state of some series, (last - first, WIDTH)."""
        return self._rows[first:last].copy()

    def stored(self, first: int, last: int) -> bytes:
        """Return the same as plain little-endian bytes."""
        return self._rows[first:last].astype("<f4", copy=False).tobytes()

    def put(self, first: int, rows: Floats) -> None:
        """Put the state of some series, (k, WIDTH), in the place of those from `first` on."""
        self._rows[first : first + len(rows)] = rows

    def grow(self, series: int) -> None:
        """Have at least so many series; new ones are empty."""
        more = series - len(self._rows)
        if more > 0:
            self._rows = np.concatenate([self._rows, layout.empty(more)])

    def clear(self, series: npt.NDArray[np.intp]) -> None:
        """Forget all of some series, (k,)."""
        self._rows[series] = layout.empty(len(series))

    def observe(self, series: npt.NDArray[np.intp], values: npt.ArrayLike) -> None:
        """Take in one value (k,) of each of the series (k,), each named once.

        A series whose value is NaN, infinite or beyond VALUE_MAX stays as it is.
        """
        value = np.asarray(values, dtype=np.float64)
        there = np.flatnonzero(abs(value) <= VALUE_MAX)
        for start in range(0, len(there), BLOCK):
            at = there[start : start + BLOCK]
            block = self._rows[series[at]]
            _observe(block, value[at, None].astype(np.float32))
            self._rows[series[at]] = block

    def forecast(self, series: npt.NDArray[np.intp]) -> Forecast:
        """Return what is expected next of some series, (k,)."""
        rows = self._rows[series]
        count, prediction = rows[:, layout.COUNT][:, 0], rows[:, layout.PREDICTION]
        squared, absolute = rows[:, layout.SQUARED], rows[:, layout.ABSOLUTE]
        by_square = _chosen(prediction, np.sqrt(squared), count)
        return Forecast(*by_square, *_chosen(prediction, absolute, count))


def _chosen(prediction: Floats, error: Floats, count: Floats) -> tuple[Floats, Floats, npt.NDArray[np.intp]]:
    best = error.argmin(axis=1)
    value, least = (np.take_along_axis(each, best[:, None], axis=1)[:, 0] for each in (prediction, error))
    nan = np.float32(np.nan)
    return np.where(count > 0, value, nan), np.where(count > 1, least, nan), np.where(count > 0, best, -1)


def _observe(block: Floats, value: Floats) -> None:
    """Score the predictions of rows by the next value (rows, 1), learn it, and predict the one after."""
    first = block[:, layout.COUNT] == 0
    _score(block, value)
    _adapt(block, value, first)
    block[:, 1:RECENT] = block[:, : RECENT - 1].copy()
    block[:, :1] = value
    count = block[:, layout.COUNT]
    block[:, layout.COUNT] = np.where(count >= COUNT_MAX, count - EVERY, count) + 1
    _predict(block)


def _score(block: Floats, value: Floats) -> None:
    """Move the discounted means of errors; a row without a value has nothing to score."""
    count = block[:, layout.COUNT].astype(np.float64)
    weight = np.where(count > 0, (1 - DISCOUNT) / np.maximum(1 - DISCOUNT**count, 1e-9), 0).astype(np.float32)
    error = abs(value - block[:, layout.PREDICTION])
    block[:, layout.ABSOLUTE] += weight * (error - block[:, layout.ABSOLUTE])
    error *= error
    block[:, layout.SQUARED] += weight * (error - block[:, layout.SQUARED])


def _adapt(block: Floats, value: Floats, first: npt.NDArray[np.bool_]) -> None:
    """Teach the predictors that learn from the errors of their last words."""
    prediction, beside = block[:, layout.PREDICTION], block[:, layout.BESIDE]
    same = prediction[:, layout.ADAPTIVE_MEAN.start : layout.ADAPTIVE_MEDIAN.stop]
    window = block[:, layout.WINDOW]
    block[:, layout.WINDOW] = np.where(first, window, moved(window, beside[:, :2], same, beside[:, 2:], value))

    smooth = prediction[:, layout.SMOOTHING]
    prediction[:, layout.SMOOTHING] = np.where(first, value, smooth + _GAINS * (value - smooth))

    level, before = prediction[:, layout.GRADIENT], block[:, layout.LAST_ERROR]
    error = np.where(first, np.float32(0), value - level)
    both = error * error + before * before
    slope = np.divide(error * before, both, out=np.zeros_like(both), where=both > 0)
    gain = np.clip(block[:, layout.GAIN] + np.float32(GRADIENT_STEP) * slope, GAIN_MIN, GAIN_MAX)
    prediction[:, layout.GRADIENT] = np.where(first, value, level + gain * error)
    block[:, layout.GAIN], block[:, layout.LAST_ERROR] = gain, error

    count = block[:, layout.COUNT]
    mean = block[:, layout.RUNNING].sum(axis=1, keepdims=True, dtype=np.float64)
    mean += (value - mean) / (count.astype(np.float64) + 1)
    high = mean.astype(np.float32)
    block[:, layout.RUNNING] = np.concatenate([high, mean - high], axis=1)
    prediction[:, layout.RUNNING_MEAN] = high


def _predict(block: Floats) -> None:
    """Write what the predictors that look at latest values say."""
    recent, prediction, beside = block[:, :RECENT], block[:, layout.PREDICTION], block[:, layout.BESIDE]
    total = block[:, layout.COUNT].astype(np.intp)
    count = np.minimum(total, RECENT)
    due = np.flatnonzero(total % EVERY == 0)
    if len(due):
        block[due, layout.COEFFICIENT] = fitted(recent[due][:, :EVERY])

    running = sums(recent)
    prediction[:, layout.LAST] = recent[:, :1]
    prediction[:, layout.MEAN] = means(running, count, _MEANS)
    prediction[:, layout.MEDIAN], prediction[:, layout.TRIMMED_MEAN] = ordered(recent, count)
    window = block[:, layout.WINDOW].astype(np.intp)
    mean, median = around_mean(running, count, window[:, :1]), around_median(recent, count, window[:, 1:])
    prediction[:, layout.ADAPTIVE_MEAN], prediction[:, layout.ADAPTIVE_MEDIAN] = mean[:, 1:2], median[:, 1:2]
    beside[:, 0::2], beside[:, 1::2] = mean[:, 0::2], median[:, 0::2]
    level = np.take_along_axis(running, count - 1, axis=1) / count
    prediction[:, layout.AUTOREGRESSION] = predicted(recent, block[:, layout.COEFFICIENT], level)
