"""A mean and a median over a window that grows or shrinks by one, toward what would have been nearer to the last value."""

import numpy as np
import numpy.typing as npt

from processors.models.forecast.layout import Floats
from processors.models.forecast.windows import Counts, means, middle

WINDOW_MIN, WINDOW_MAX = 2, 100
_AROUND = np.array([-1, 0, 1])


def moved(window: Floats, shorter: Floats, same: Floats, longer: Floats, value: Floats) -> Floats:
    """Return the windows for the next value, all (series, k), from what each width said about this one.

    >>> one = np.ones((1, 1), dtype=np.float32)
    >>> moved(10 * one, 3 * one, 2 * one, one, one).tolist(), moved(10 * one, one, one, 2 * one, one).tolist()
    ([[11.0]], [[10.0]])
    """
    below, at, above = abs(shorter - value), abs(same - value), abs(longer - value)
    step = np.where((below < at) & (below <= above), -1, np.where(above < at, 1, 0))
    return np.asarray(np.clip(window + step, WINDOW_MIN, WINDOW_MAX), dtype=np.float32)


def around_mean(running: npt.NDArray[np.float64], count: Counts, window: Counts) -> npt.NDArray[np.float64]:
    """Return the means of windows one shorter, as told, one longer, (series, 3), from running sums (series, values).

    >>> around_mean(np.array([[4.0, 6.0, 12.0]]), np.array([[3]]), np.array([[2]])).tolist()
    [[4.0, 3.0, 4.0]]
    """
    return means(running, count, window + _AROUND)


def around_median(recent: Floats, count: Counts, window: Counts) -> Floats:
    """Return the medians of windows one shorter, as told, one longer, (series, 3).

    `recent` (series, values) is newest first, with `count` (series, 1) values. One sort serves all three: taking the
    oldest value out or one more in shifts the order statistics by one place at most.

    >>> around_median(np.array([[5.0, 1.0, 2.0, 9.0]], dtype=np.float32), np.array([[4]]), np.array([[3]])).tolist()
    [[3.0, 2.0, 3.5]]
    """
    size = np.minimum(window, count)
    rising = np.sort(np.where(np.arange(recent.shape[1]) < size, recent, np.float32(np.inf)), axis=1)
    at = middle(rising, size)
    shorter = np.where(
        (size > 1) & (window <= count), _without(rising, size, np.take_along_axis(recent, size - 1, axis=1)), at
    )
    older = np.take_along_axis(recent, np.minimum(size, recent.shape[1] - 1), axis=1)
    longer = np.where(size < np.minimum(count, window + 1), _with(rising, size, older), at)
    return np.concatenate([shorter, at, longer], axis=1)


def _without(rising: Floats, size: Counts, value: Floats) -> Floats:
    """Return the median without one of the values."""
    at = np.maximum(np.concatenate([(size - 2) // 2, (size - 1) // 2], axis=1), 0)
    here = np.take_along_axis(rising, at, axis=1)
    after = np.take_along_axis(rising, np.minimum(at + 1, size - 1), axis=1)
    return np.asarray(np.where(here < value, here, after).mean(axis=1, keepdims=True))


def _with(rising: Floats, size: Counts, value: Floats) -> Floats:
    """Return the median with one value more."""
    at = np.concatenate([size // 2, (size + 1) // 2], axis=1)
    before = np.take_along_axis(rising, np.maximum(at - 1, 0), axis=1)
    here = np.take_along_axis(rising, np.minimum(at, rising.shape[1] - 1), axis=1)
    found = np.minimum(np.where(at > 0, np.maximum(value, before), value), here)
    return np.asarray(found.mean(axis=1, keepdims=True))
