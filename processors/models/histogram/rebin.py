"""From many weighted intervals that overlap to a few equal ones, each spread evenly over its length."""

import numpy as np

from processors.models.histogram.values import Floats, Histogram, equal_edges, points_first


def rebinned(low: Floats, high: Floats, shares: Floats, intervals: int) -> Histogram:
    """Return the histogram of intervals [low, high] with their shares, each (..., k): equal intervals over all of them.

    The range is that of the intervals with a share. Each spreads its share evenly over its length; one without length
    puts it into the interval that holds it. Raises ValueError where the range is not finite.

    >>> one = np.array([0.0]), np.array([2.0]), np.array([1.0])
    >>> rebinned(*one, 2).shares.tolist()
    [0.5, 0.5]
    """
    first, last = span(low, high, shares)
    if np.array_equal(first, last):
        return Histogram(np.stack([first, last], axis=-1), np.ones((*first.shape, 1)))
    edges = equal_edges(first, last, intervals)
    held = shares > 0  # the others may be anywhere, even endless
    start, end = np.where(held, low, first[..., None]), np.where(held, high, last[..., None])
    cumulative = (below(edges[..., 1:-1], start, end) * shares[..., None, :]).sum(axis=-1)
    return between(edges, cumulative, shares.sum(axis=-1))


def span(low: Floats, high: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """Return the least and the largest value that has a share, each (...); ValueError where not finite.

    >>> least, largest = span(np.array([0.0, 1.0]), np.array([1.0, 2.0]), np.array([0.0, 1.0]))
    >>> float(least), float(largest)
    (1.0, 2.0)
    """
    held = shares > 0
    first = np.where(held, low, np.inf).min(axis=-1)
    last = np.where(held, high, -np.inf).max(axis=-1)
    if not (np.isfinite(first).all() and np.isfinite(last).all()):
        raise ValueError("The result is too large for a number.")
    return first, last


def below(at: Floats, low: Floats, high: Floats) -> Floats:
    """Return which part of each interval (..., k) lies below each value (..., q): (..., q, k).

    >>> below(np.array([1.0]), np.array([0.0, 1.0]), np.array([2.0, 1.0])).tolist()
    [[0.5, 0.0]]
    """
    value, start, end = at[..., :, None], low[..., None, :], high[..., None, :]
    width = end - start
    part = (value - start) / np.where(width > 0, width, 1.0)
    return np.where(width > 0, np.clip(part, 0.0, 1.0), (start < value).astype(np.float64))


def between(edges: Floats, cumulative: Floats, total: Floats) -> Histogram:
    """Return the histogram of what lies below its inner edges (..., m - 1); `total` (...) is all that there is.

    >>> between(np.array([0.0, 1.0, 2.0]), np.array([0.25]), np.array(1.0)).shares.tolist()
    [0.25, 0.75]
    """
    ends = np.zeros((*total.shape, 1))
    shares = np.maximum(np.diff(np.concatenate([ends, cumulative, total[..., None]], axis=-1), axis=-1), 0.0)
    return Histogram(edges, points_first(edges, shares / shares.sum(axis=-1, keepdims=True)))
