"""Means, medians and trimmed means of the latest values of each series."""

import numpy as np
import numpy.typing as npt

from processors.models.forecast.layout import MEDIANS, TRIMMED, Floats

TRIM = 0.3  # of the values left out at each end
Counts = npt.NDArray[np.intp]


def sums(recent: Floats) -> npt.NDArray[np.float64]:
    """Return the sums of the latest 1, 2, ... values, (series, values).

    >>> sums(np.array([[3.0, 1.0, np.inf]], dtype=np.float32)).tolist()
    [[3.0, 4.0, inf]]
    """
    return np.cumsum(recent, axis=1, dtype=np.float64)


def means(running: npt.NDArray[np.float64], count: Counts, windows: Counts) -> npt.NDArray[np.float64]:
    """Return the mean of each window, (series, windows), from the running sums; `windows` is (windows,) or per series.

    >>> means(np.array([[3.0, 4.0, 10.0]]), np.array([[3]]), np.array([1, 2, 9])).round(3).tolist()
    [[3.0, 2.0, 3.333]]
    """
    size = np.minimum(windows, count)
    return np.asarray(np.take_along_axis(running, size - 1, axis=1) / size)


def ordered(recent: Floats, count: Counts) -> tuple[Floats, Floats]:
    """Return the medians of MEDIANS (series, 5) and the trimmed means of TRIMMED (series, 3).

    `recent` (series, values) is newest first, infinite where there is none yet; `count` (series, 1) is how many are.

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
    """Return the median (series, 1) of the first `size` (series, 1) of rising values (series, values).

    >>> middle(np.array([[1.0, 2.0, 9.0]], dtype=np.float32), np.array([[2]])).tolist()
    [[1.5]]
    """
    ends = np.concatenate([(size - 1) // 2, size // 2], axis=1)
    return np.asarray(np.take_along_axis(rising, ends, axis=1).mean(axis=1, keepdims=True))


def _trimmed(rising: Floats, size: Counts) -> Floats:
    left_out = (TRIM * size).astype(np.intp)
    at = np.arange(rising.shape[1])
    kept = (at >= left_out) & (at < size - left_out)
    total = np.where(kept, rising, np.float32(0)).sum(axis=1, keepdims=True)
    return np.asarray(total / (size - 2 * left_out).astype(np.float32))
