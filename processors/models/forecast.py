"""Forecasts of the next value of many series at once, after the Network Weather Service.

Source: Wolski, "Dynamically forecasting network performance using the Network Weather Service" (1998); Wolski, Spring, Hayes,
"The Network Weather Service" (1999). Thirty simple predictors run side by side, and at each moment the predictor with the least
errors so far gives the forecast. The Network Weather Service adds up errors; here old errors fade, so that a series that
changes its behaviour soon gets another predictor.

A series is a row of one array. Each row depends, to the bit, on the values of its own series alone, not on other rows.

`Forecasters` runs all predictors and chooses between them.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

RECENT: Final = 101  # newest values stored for each series
MEANS: Final = (5, 10, 20, 30, 50)
MEDIANS: Final = (5, 11, 21, 31, 51)
TRIMMED: Final = (11, 31, 51)
GAINS: Final = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.75, 0.9)
ORDER: Final = 5  # order of the autoregression

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
"""Slices of each family of predictors in the array of predictions."""

_ALL: Final = len(PREDICTORS)
NEWEST_FIRST, PREDICTION, REFERENCE, SQUARED, ABSOLUTE, COUNT, RUNNING, GAIN, LAST_ERROR, WINDOW, COEFFICIENT = (
    _columns(RECENT, _ALL, 4, _ALL, _ALL, 1, 2, 1, 1, 2, ORDER)
)
"""Columns of a row: values, newest first; predictions of the next value; predictions by both adaptive windows, one shorter or
longer; means of squared and absolute errors; number of values; mean of all values in two parts; gain and last error of the
gradient; both windows; coefficients of the autoregression.
"""

WIDTH: Final = COEFFICIENT.stop
FIRST_GAIN: Final = 0.1
FIRST_WINDOW: Final = 10


def empty(series: int) -> Floats:
    """Return the rows (series, WIDTH) of series that have no values yet."""
    rows = np.zeros((series, WIDTH), dtype=np.float32)
    rows[:, NEWEST_FIRST] = np.inf  # a missing value sorts behind all values
    rows[:, GAIN] = FIRST_GAIN
    rows[:, WINDOW] = FIRST_WINDOW
    rows[:, COEFFICIENT.start] = 1.0  # until the first fit, the autoregression predicts the last value
    return rows


# Autoregression of many series at once, by the recursion of Levinson and Durbin.

EVERY = 100  # values between two fits
_RIDGE = 1e-6  # share of the variance, so that a periodic series has a solution


def fitted(recent: Floats) -> Floats:
    """Return the coefficients (series, ORDER) of an autoregression for each row of at least EVERY values, newest first.

    The biased autocovariance makes every autoregression stable. A constant series gets the coefficients 0, which predict its mean.
    Source: Durbin, "The fitting of time-series models" (1960).

    >>> wave = np.sin(np.arange(101) * 0.5, dtype=np.float32)[None]
    >>> bool(abs(predicted(wave[:, 1:], fitted(wave), wave.mean(axis=1, keepdims=True)) - wave[:, :1]) < 0.1)
    True
    """
    off = recent - recent.mean(axis=1, keepdims=True, dtype=np.float64)
    size = off.shape[1]
    covariance = [(off[:, lag:] * off[:, : size - lag]).sum(axis=1) for lag in range(ORDER + 1)]
    return _levinson(np.stack(covariance, axis=1)).astype(np.float32)


def predicted(recent: Floats, coefficients: Floats, mean: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the predicted next value (series, 1) from at least ORDER newest values, their `mean` (series, 1) and the coefficients.

    >>> predicted(np.ones((1, 5), dtype=np.float32), np.full((1, 5), 0.1, dtype=np.float32), np.zeros((1, 1))).round(3)
    array([[0.5]])
    """
    off = recent[:, :ORDER] - mean
    return np.asarray(mean + (np.where(np.isfinite(off), off, 0.0) * coefficients).sum(axis=1, keepdims=True))


def _levinson(covariance: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the solutions (series, p) of the Toeplitz systems of autocovariances (series, p + 1)."""
    order = covariance.shape[1] - 1
    found = np.zeros((len(covariance), order))
    error = covariance[:, 0] * (1 + _RIDGE)
    for k in range(order):
        left = covariance[:, k + 1] - (found[:, :k] * covariance[:, k:0:-1]).sum(axis=1)
        reflection = np.divide(left, error, out=np.zeros_like(left), where=error > 0)
        found[:, :k] -= reflection[:, None] * found[:, :k][:, ::-1]
        found[:, k] = reflection
        error = error * (1 - reflection**2)
    return found


TRIM = 0.3  # share of the values left out at each end
Counts = npt.NDArray[np.intp]


def means(running: npt.NDArray[np.float64], count: Counts, windows: Counts) -> npt.NDArray[np.float64]:
    """Return the mean of the newest values over each window, (series, windows).

    `running` are the sums from `sums`; `windows` are sizes, (windows,) or (series, windows). A window holds at most the `count`
    (series, 1) values that exist.

    >>> means(np.array([[3.0, 4.0, 10.0]]), np.array([[3]]), np.array([1, 2, 9])).round(3).tolist()
    [[3.0, 2.0, 3.333]]
    """
    size = np.minimum(windows, count)
    return np.asarray(np.take_along_axis(running, size - 1, axis=1) / size)


def ordered(recent: Floats, count: Counts) -> tuple[Floats, Floats]:
    """Return the medians over the windows in MEDIANS, (series, 5), and the trimmed means over those in TRIMMED, (series, 3).

    `recent` (series, values) is newest first, infinite if missing; `count` (series, 1) is the number of values.

    >>> median, trimmed = ordered(np.array([[9.0, 1.0, 2.0, *[np.inf] * 60]], dtype=np.float32), np.array([[3]]))
    >>> median.tolist(), trimmed.tolist()
    ([[2.0, 2.0, 2.0, 2.0, 2.0]], [[4.0, 4.0, 4.0]])
    """
    found, trimmed = [], []
    for window in MEDIANS:
        rising = np.sort(recent[:, :window], axis=1)
        size = np.minimum(count, window)
        found.append(middle(rising, size))
        if window in TRIMMED:
            trimmed.append(_trimmed(rising, size))
    return np.concatenate(found, axis=1), np.concatenate(trimmed, axis=1)


def middle(rising: Floats, size: Counts) -> Floats:
    """Return the median (series, 1) of the first `size` (series, 1) of the ascending values `rising` (series, values).

    >>> middle(np.array([[1.0, 2.0, 9.0]], dtype=np.float32), np.array([[2]])).tolist()
    [[1.5]]
    """
    row = np.arange(len(rising))[:, None]
    return np.asarray((rising[row, (size - 1) // 2] + rising[row, size // 2]) / rising.dtype.type(2))


def _trimmed(rising: Floats, size: Counts) -> Floats:
    left_out = (TRIM * size).astype(np.intp)
    place = np.arange(rising.shape[1], dtype=np.uint8) - left_out.astype(np.uint8)  # wraps below zero
    total = np.where(place < (size - 2 * left_out).astype(np.uint8), rising, np.float32(0)).sum(axis=1, keepdims=True)
    return np.asarray(total / (size - 2 * left_out).astype(np.float32))


WINDOW_MIN, WINDOW_MAX = 2, 100
_AROUND = np.array([-1, 0, 1])


def moved(window: Floats, shorter: Floats, same: Floats, longer: Floats, value: Floats) -> Floats:
    """Return the window sizes (series, k) after they moved by at most 1 towards the size that predicted `value` best.

    `shorter`, `same` and `longer` (series, k) are the predictions with the window one smaller, unchanged and one larger.

    >>> one = np.ones((1, 1), dtype=np.float32)
    >>> moved(10 * one, 3 * one, 2 * one, one, one).tolist(), moved(10 * one, one, one, 2 * one, one).tolist()
    ([[11.0]], [[10.0]])
    """
    below, at, above = abs(shorter - value), abs(same - value), abs(longer - value)
    step = np.where((below < at) & (below <= above), -1, np.where(above < at, 1, 0))
    return np.asarray(np.clip(window + step, WINDOW_MIN, WINDOW_MAX), dtype=np.float32)


def around_median(recent: Floats, count: Counts, window: Counts) -> Floats:
    """Return the medians over `window` - 1, `window` and `window` + 1 values, (series, 3).

    `recent` (series, values) is newest first, with `count` (series, 1) values. One sort serves all three windows, because
    adding or removing one value shifts the order statistics by at most one place.

    >>> around_median(np.array([[5.0, 1.0, 2.0, 9.0]], dtype=np.float32), np.array([[4]]), np.array([[3]])).tolist()
    [[3.0, 2.0, 3.5]]
    """
    size = np.minimum(window, count)
    held = np.arange(recent.shape[1], dtype=np.uint8) < size.astype(np.uint8)
    rising = np.sort(np.where(held, recent, np.float32(np.inf)), axis=1)
    at = middle(rising, size)
    shorter = np.where(
        (size > 1) & (window <= count), _median_without(rising, size, np.take_along_axis(recent, size - 1, axis=1)), at
    )
    older = np.take_along_axis(recent, np.minimum(size, recent.shape[1] - 1), axis=1)
    longer = np.where(size < np.minimum(count, window + 1), _median_with(rising, size, older), at)
    return np.concatenate([shorter, at, longer], axis=1)


def _median_without(rising: Floats, size: Counts, value: Floats) -> Floats:
    """Return the median of the first `size` values of `rising` after one `value` among them was removed."""
    at = np.maximum(np.concatenate([(size - 2) // 2, (size - 1) // 2], axis=1), 0)
    here = np.take_along_axis(rising, at, axis=1)
    after = np.take_along_axis(rising, np.minimum(at + 1, size - 1), axis=1)
    return np.asarray(np.where(here < value, here, after).mean(axis=1, keepdims=True))


def _median_with(rising: Floats, size: Counts, value: Floats) -> Floats:
    """Return the median of the first `size` values of `rising` after `value` was added."""
    at = np.concatenate([size // 2, (size + 1) // 2], axis=1)
    before = np.take_along_axis(rising, np.maximum(at - 1, 0), axis=1)
    here = np.take_along_axis(rising, np.minimum(at, rising.shape[1] - 1), axis=1)
    found = np.minimum(np.where(at > 0, np.maximum(value, before), value), here)
    return np.asarray(found.mean(axis=1, keepdims=True))


DISCOUNT = 0.99  # each newer error multiplies the weight of an error by this factor
GRADIENT_STEP = 0.1
GAIN_MIN, GAIN_MAX = 0.01, 1.0
VALUE_MAX = 1e17  # squares overflow single precision at 3e38; no measurement is this large
COUNT_MAX = 1_000_000  # a multiple of EVERY; from this count on, the running mean forgets
BLOCK = 512  # rows processed at a time, so that they stay in the processor cache
_MEANS = np.array(MEANS)
_GAINS = np.array(GAINS, dtype=np.float32)


class SeriesForecast(NamedTuple):
    """Forecasts of series, (k,): the next value, its expected error and the chosen predictor.

    Values are NaN and predictors -1 for series without values; errors are NaN before the second value.
    """

    value: Floats
    error: Floats
    predictor: npt.NDArray[np.intp]


class Forecasters:
    """The predictors of many series.

    >>> forecasters = Forecasters(2)
    >>> for value in (4.0, 5.0, 4.0, 5.0):
    ...     missed = forecasters.observe(np.arange(2), np.array([value, np.nan]))
    >>> forecast, _ = forecasters.forecast(np.arange(2))
    >>> forecast.value.tolist(), forecast.predictor.tolist()
    ([4.5, nan], [1, -1])
    >>> f"{missed[0]:.2f} {missed[1]}"
    '1.82 nan'
    """

    def __init__(self, series: int) -> None:
        self._rows = empty(series)

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self, first: int, last: int) -> Floats:
        return self._rows[first:last].copy()

    def stored(self, first: int, last: int) -> bytes:
        return self._rows[first:last].astype("<f4", copy=False).tobytes()

    def put(self, first: int, rows: Floats) -> None:
        self._rows[first : first + len(rows)] = rows

    def grow(self, series: int) -> None:
        more = series - len(self._rows)
        if more > 0:
            self._rows = np.concatenate([self._rows, empty(more)])

    def clear(self, series: npt.NDArray[np.intp]) -> None:
        self._rows[series] = empty(len(series))

    def observe(self, series: npt.NDArray[np.intp], values: npt.ArrayLike) -> Floats:
        """Learn one value (k,) of each of `series` (k,), which are distinct; return the scaled errors (k,) of the last forecasts.

        A scaled error is (value - forecast) / expected absolute error, for the forecast by least absolute errors: infinite if the
        expected error is 0, NaN if unknown. A series whose value is NaN, infinite or beyond VALUE_MAX is unchanged.
        """
        value = np.asarray(values, dtype=np.float64)
        scaled = np.full(value.shape, np.nan, dtype=np.float32)
        there = np.flatnonzero(abs(value) <= VALUE_MAX)
        # equal blocks, because a block of six rows costs half as much as a block of 512
        for at in np.array_split(there, max(1, round(len(there) / BLOCK))) if there.size else ():
            block = self._rows[series[at]]
            scaled[at] = _observe(block, value[at, None].astype(np.float32))
            self._rows[series[at]] = block
        return scaled

    def forecast(self, series: npt.NDArray[np.intp]) -> tuple[SeriesForecast, SeriesForecast]:
        """Return the forecasts (k,) of some series, by the predictors with the least squared and with the least absolute errors.

        The expected error is a standard error in the first case and a mean absolute error in the second.
        """
        rows = self._rows[series]
        count, prediction = rows[:, COUNT][:, 0], rows[:, PREDICTION]
        return _chosen(prediction, np.sqrt(rows[:, SQUARED]), count), _chosen(prediction, rows[:, ABSOLUTE], count)

    def range(self, series: npt.NDArray[np.intp]) -> tuple[Floats, Floats]:
        """Return the least and the largest (k,) of the stored values of `series` (k,); inf and -inf for a series without values."""
        recent = self._rows[series][:, NEWEST_FIRST]
        return recent.min(axis=1), np.where(np.isfinite(recent), recent, -np.inf).max(axis=1)


def _chosen(prediction: Floats, error: Floats, count: Floats) -> SeriesForecast:
    best = error.argmin(axis=1)
    value, least = (np.take_along_axis(each, best[:, None], axis=1)[:, 0] for each in (prediction, error))
    nan = np.float32(np.nan)
    known = count > 0
    return SeriesForecast(np.where(known, value, nan), np.where(count > 1, least, nan), np.where(known, best, -1))


def _observe(block: Floats, value: Floats) -> Floats:
    """Score the predictions by the next value (rows, 1), learn the value, predict the next; return scaled errors (rows,)."""
    first, scaled = block[:, COUNT] == 0, _scaled_error(block, value[:, 0])
    _score(block, value)
    _adapt(block, value, first)
    block[:, 1:RECENT] = block[:, : RECENT - 1].copy()
    block[:, :1] = value
    count = block[:, COUNT]
    block[:, COUNT] = np.where(count >= COUNT_MAX, count - EVERY, count) + 1
    _predict(block)
    return scaled


def _scaled_error(block: Floats, value: Floats) -> Floats:
    point, expected, _ = _chosen(block[:, PREDICTION], block[:, ABSOLUTE], block[:, COUNT][:, 0])
    error = value - point
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return np.where(error == 0, expected * 0, error / expected)


def _score(block: Floats, value: Floats) -> None:
    """Update the discounted means of errors with `value`; rows without earlier values are not scored."""
    count = block[:, COUNT].astype(np.float64)
    weight = np.where(count > 0, (1 - DISCOUNT) / np.maximum(1 - DISCOUNT**count, 1e-9), 0).astype(np.float32)
    error = abs(value - block[:, PREDICTION])
    block[:, ABSOLUTE] += weight * (error - block[:, ABSOLUTE])
    error *= error
    block[:, SQUARED] += weight * (error - block[:, SQUARED])


def _adapt(block: Floats, value: Floats, first: npt.NDArray[np.bool_]) -> None:
    """Update the predictions and parameters that depend on the last error: adaptive windows, smoothing, gradient, running mean."""
    prediction, previous = block[:, PREDICTION], block[:, REFERENCE]
    same = prediction[:, ADAPTIVE_MEAN.start : ADAPTIVE_MEDIAN.stop]
    window = block[:, WINDOW]
    block[:, WINDOW] = np.where(first, window, moved(window, previous[:, :2], same, previous[:, 2:], value))

    smooth = prediction[:, SMOOTHING]
    prediction[:, SMOOTHING] = np.where(first, value, smooth + _GAINS * (value - smooth))

    level, before = prediction[:, GRADIENT], block[:, LAST_ERROR]
    error = np.where(first, np.float32(0), value - level)
    both = error * error + before * before
    slope = np.divide(error * before, both, out=np.zeros_like(both), where=both > 0)
    gain = np.clip(block[:, GAIN] + np.float32(GRADIENT_STEP) * slope, GAIN_MIN, GAIN_MAX)
    prediction[:, GRADIENT] = np.where(first, value, level + gain * error)
    block[:, GAIN], block[:, LAST_ERROR] = gain, error

    count = block[:, COUNT]
    mean = block[:, RUNNING].sum(axis=1, keepdims=True, dtype=np.float64)
    mean += (value - mean) / (count.astype(np.float64) + 1)
    high = mean.astype(np.float32)
    block[:, RUNNING] = np.concatenate([high, mean - high], axis=1)
    prediction[:, RUNNING_MEAN] = high


def _predict(block: Floats) -> None:
    """Store the predictions that are computed from the newest values; refit the autoregression every EVERY values."""
    recent, prediction, previous = block[:, :RECENT], block[:, PREDICTION], block[:, REFERENCE]
    total = block[:, COUNT].astype(np.intp)
    count = np.minimum(total, RECENT)
    due = np.flatnonzero(total % EVERY == 0)
    if len(due):
        block[due, COEFFICIENT] = fitted(recent[due][:, :EVERY])

    running = np.cumsum(recent, axis=1, dtype=np.float64)  # sums of the newest 1, 2, ... values
    prediction[:, LAST] = recent[:, :1]
    prediction[:, MEAN] = means(running, count, _MEANS)
    prediction[:, MEDIAN], prediction[:, TRIMMED_MEAN] = ordered(recent, count)
    window = block[:, WINDOW].astype(np.intp)
    mean, median = means(running, count, window[:, :1] + _AROUND), around_median(recent, count, window[:, 1:])
    prediction[:, ADAPTIVE_MEAN], prediction[:, ADAPTIVE_MEDIAN] = mean[:, 1:2], median[:, 1:2]
    previous[:, 0::2], previous[:, 1::2] = mean[:, 0::2], median[:, 0::2]
    level = np.take_along_axis(running, count - 1, axis=1) / count
    prediction[:, AUTOREGRESSION] = predicted(recent, block[:, COEFFICIENT], level)


Codes = npt.NDArray[np.int8]

RETAINED: Final = 100  # errors stored per series
KNOWN_MIN: Final = 20  # least number of errors for a meaningful 5 % quantile
SCALED_MAX: Final = 10.0  # larger errors are clipped, because one jump after rest does not predict the next
NONE: Final = -128  # the code of a missing error, which sorts before all other codes
_EVEN: Final = 0.1  # codes are evenly spaced up to about this error, and wider apart beyond
_CODE_MAX: Final = 127
_STEP: Final = float(np.arcsinh(SCALED_MAX / _EVEN)) / _CODE_MAX
_DECODED: Final = (_EVEN * np.sinh(np.arange(NONE, _CODE_MAX + 1) * _STEP)).astype(np.float32)


def coded(scaled: Floats) -> Codes:
    """Return the one-byte codes of scaled errors; NaN is not allowed.

    >>> coded(np.array([-np.inf, -10.0, 0.0, 0.01, 1.0], dtype=np.float32)).tolist()
    [-127, -127, 0, 2, 72]
    """
    held = np.clip(scaled, -SCALED_MAX, SCALED_MAX)
    return np.asarray(np.rint(np.arcsinh(held / _EVEN) / _STEP), dtype=np.int8)


def quantiles(codes: Codes, levels: npt.NDArray[np.float64]) -> Floats:
    """Return quantiles (series, levels) of scaled errors, interpolated, from their codes (series, RETAINED); NONE marks a missing code.

    Series with fewer than KNOWN_MIN errors get NaN.

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
