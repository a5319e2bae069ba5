"""What a histogram says: moments, cumulative probability, quantiles, where an actual value lies, how much it varies."""

from typing import Literal

import numpy as np
import numpy.typing as npt

from processors.models.histogram.rebin import below
from processors.models.histogram.values import Floats, Histogram

VariationClass = Literal["low", "medium", "high"]
LOW_VARIATION, MEDIUM_VARIATION = 0.25, 0.5


def mean(x: Histogram) -> Floats:
    """Return the mean, (...).

    >>> float(mean(Histogram(np.array([1.0, 3.0, 5.0]), np.array([0.3, 0.7])))).__round__(9)
    3.4
    """
    return np.asarray((x.shares * (x.low + x.high)).sum(axis=-1) / 2)


def variance(x: Histogram) -> Floats:
    """Return the variance, (...): between the middles of the intervals and within them.

    >>> float(variance(Histogram(np.array([1.0, 3.0, 5.0]), np.array([0.3, 0.7])))).__round__(5)
    1.17333
    """
    middle = (x.low + x.high) / 2
    off = middle - mean(x)[..., None]
    return np.asarray((x.shares * (off**2 + (x.high - x.low) ** 2 / 12)).sum(axis=-1))


def cumulative(x: Histogram, at: npt.ArrayLike) -> Floats:
    """Return the probability (..., q) of values up to and with each of `at` (q,) or (..., q).

    >>> cumulative(Histogram(np.array([1.0, 3.0, 5.0]), np.array([0.3, 0.7])), [2.0, 5.0]).tolist()
    [0.15, 1.0]
    """
    values = np.asarray(at, dtype=np.float64)
    inside = (below(values, x.low, x.high) * x.shares[..., None, :]).sum(axis=-1)
    return np.asarray(np.where(values >= x.edges[..., -1:], 1.0, np.clip(inside, 0.0, 1.0)))


def quantiles(x: Histogram, levels: npt.ArrayLike) -> Floats:
    """Return the values (..., q) at levels (q,) or (..., q) from 0 to 1: the least that so much lies below.

    Raises ValueError at other levels.

    >>> quantiles(Histogram(np.array([1.0, 3.0, 5.0]), np.array([0.5, 0.5])), [0.25, 0.5, 1.0]).tolist()
    [2.0, 3.0, 5.0]
    """
    wanted = np.asarray(levels, dtype=np.float64)
    if not ((wanted >= 0) & (wanted <= 1)).all():
        raise ValueError("A quantile needs a level between 0 and 1.")
    filled = x.shares.cumsum(axis=-1)
    filled /= filled[..., -1:]
    index = (wanted[..., :, None] > filled[..., None, :-1]).sum(axis=-1)
    start, width, share = (_picked(part, index) for part in (x.low, x.high - x.low, x.shares))
    before = _picked(filled, index) - share
    part = np.clip((wanted - before) / np.where(share > 0, share, 1.0), 0.0, 1.0)
    return np.asarray(np.minimum(start + part * width, x.edges[..., -1:]))


def in_range(x: Histogram, actual: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Say whether actual values, (...), lie between the first and the last edge.

    >>> bool(in_range(Histogram(np.array([1.0, 3.0]), np.ones(1)), 3.0))
    True
    """
    value = np.asarray(actual, dtype=np.float64)
    return np.asarray((value >= x.edges[..., 0]) & (value <= x.edges[..., -1]))


def interval_index(x: Histogram, actual: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return in which interval an actual value lies, (...): 0 to m - 1, -1 below all, m above all.

    Intervals hold their lower edge, the last its upper one too, as where samples are counted.

    >>> window = Histogram(np.array([0.0, 1.0, 2.0]), np.array([0.5, 0.5]))
    >>> [int(interval_index(window, value)) for value in (-1.0, 0.0, 1.0, 2.0, 3.0)]
    [-1, 0, 1, 1, 2]
    """
    value = np.asarray(actual, dtype=np.float64)[..., None]
    index = (value >= x.edges[..., 1:-1]).sum(axis=-1)
    index = np.where(value[..., 0] < x.edges[..., 0], -1, index)
    return np.asarray(np.where(value[..., 0] > x.edges[..., -1], x.intervals, index), dtype=np.int64)


def variation(x: Histogram) -> Floats:
    """Return the length of the range, (...), in the unit of the value.

    >>> float(variation(Histogram(np.array([1.0, 3.0]), np.ones(1))))
    2.0
    """
    return np.asarray(x.edges[..., -1] - x.edges[..., 0])


def variation_class(length: float) -> VariationClass:
    """Return the class of Schopf and Berman for the range of an availability from 0 to 1.

    >>> [variation_class(length) for length in (0.25, 0.5, 0.51)]
    ['low', 'medium', 'high']
    """
    if length <= LOW_VARIATION:
        return "low"
    return "medium" if length <= MEDIUM_VARIATION else "high"


def _picked(part: Floats, index: npt.NDArray[np.intp]) -> Floats:
    leading = np.broadcast_shapes(part.shape[:-1], index.shape[:-1])
    wide = np.broadcast_to(part, (*leading, part.shape[-1]))
    return np.take_along_axis(wide, np.broadcast_to(index, (*leading, index.shape[-1])), axis=-1)
