"""Arithmetic of independent stochastic values: interval arithmetic of each pair of intervals, then equal intervals again.

Source: Schopf, Berman (2001). A pair of intervals gives the interval of all results that it can have, with the product of
the two shares; spreading that evenly makes sums and products wider than they are (the sum of two uniform values is a
triangle). `sum_mode="exact"` spreads sums as they are. What errs is on the safe side for a band; a Monte-Carlo check
tells how much. Operands that share a source are not independent: X - X is not 0 here.
"""

from collections.abc import Callable
from typing import Literal

import numpy as np

from processors.models.histogram.rebin import between, rebinned, span
from processors.models.histogram.values import INTERVALS, Floats, Histogram, check_intervals, equal_edges

AVAILABILITY_MIN = 0.01  # a share of a processor that is measured as 0 would make any run endless
SumMode = Literal["interval", "exact"]
_Bounds = Callable[[Floats, Floats, Floats, Floats], tuple[Floats, Floats]]


def add(x: Histogram, y: Histogram, intervals: int = INTERVALS, sum_mode: SumMode = "interval") -> Histogram:
    """Return x + y; ValueError where a result is too large for a number.

    >>> d = Histogram(np.array([1.0, 3.0, 5.0]), np.array([0.3, 0.7]))
    >>> e = Histogram(np.array([2.0, 4.0, 7.0]), np.array([0.4, 0.6]))
    >>> add(d, e).shares.round(4).tolist()
    [0.054, 0.2236, 0.3204, 0.2508, 0.1512]
    """
    if sum_mode == "exact":
        return _exact_sum(x, y, intervals)
    return _pairwise(lambda a, b, c, d: (a + c, b + d), x, y, intervals)


def subtract(x: Histogram, y: Histogram, intervals: int = INTERVALS, sum_mode: SumMode = "interval") -> Histogram:
    """Return x - y; errors as `add`.

    >>> one = Histogram(np.array([0.0, 1.0]), np.array([1.0]))
    >>> subtract(one, one, intervals=2).edges.tolist()
    [-1.0, 0.0, 1.0]
    """
    return add(x, scaled(y, -1.0), intervals, sum_mode)


def multiply(x: Histogram, y: Histogram, intervals: int = INTERVALS) -> Histogram:
    """Return x y; errors as `add`.

    >>> multiply(Histogram(np.array([-1.0, 2.0]), np.ones(1)), Histogram(np.array([1.0, 3.0]), np.ones(1)), 3).edges.tolist()
    [-3.0, 0.0, 3.0, 6.0]
    """
    return _pairwise(_product, x, y, intervals)


def divide(x: Histogram, y: Histogram, intervals: int = INTERVALS) -> Histogram:
    """Return x / y; ValueError where 0 lies within the divisor, other errors as `add`.

    >>> ten, cpu = Histogram(np.array([10.0, 10.0]), np.ones(1)), Histogram(np.array([0.8, 1.0]), np.ones(1))
    >>> divide(ten, cpu).edges.tolist()
    [10.0, 10.5, 11.0, 11.5, 12.0, 12.5]
    """
    _check_divisor(y)
    return _pairwise(_quotient, x, y, intervals)


def maximum(x: Histogram, y: Histogram, intervals: int = INTERVALS) -> Histogram:
    """Return the larger of x and y.

    >>> maximum(Histogram(np.array([1.0, 3.0]), np.ones(1)), Histogram(np.array([2.0, 2.0]), np.ones(1)), 1).edges.tolist()
    [2.0, 3.0]
    """
    return _pairwise(lambda a, b, c, d: (np.maximum(a, c), np.maximum(b, d)), x, y, intervals)


def minimum(x: Histogram, y: Histogram, intervals: int = INTERVALS) -> Histogram:
    """Return the smaller of x and y.

    >>> minimum(Histogram(np.array([1.0, 3.0]), np.ones(1)), Histogram(np.array([2.0, 2.0]), np.ones(1)), 1).edges.tolist()
    [1.0, 2.0]
    """
    return _pairwise(lambda a, b, c, d: (np.minimum(a, c), np.minimum(b, d)), x, y, intervals)


def scaled(x: Histogram, factor: float | Floats) -> Histogram:
    """Return factor x, exactly: the intervals are scaled, the shares stay. A factor may be one per host, (...).

    >>> scaled(Histogram(np.array([1.0, 2.0, 4.0]), np.array([0.25, 0.75])), -2.0).edges.tolist()
    [-8.0, -4.0, -2.0]
    """
    by = np.asarray(factor, dtype=np.float64)[..., None]
    with np.errstate(over="ignore"):
        edges = x.edges * by
    shares = np.broadcast_to(x.shares, (*edges.shape[:-1], x.intervals))
    _check_finite(edges)
    turned, flipped = edges[..., ::-1], shares[..., ::-1]
    return Histogram(np.where(by < 0, turned, edges), np.where(by < 0, flipped, shares))


def shifted(x: Histogram, by: float | Floats) -> Histogram:
    """Return x + by, exactly; `by` may be one per host, (...).

    >>> shifted(Histogram(np.array([1.0, 2.0]), np.ones(1)), 3.0).edges.tolist()
    [4.0, 5.0]
    """
    with np.errstate(over="ignore"):
        edges = x.edges + np.asarray(by, dtype=np.float64)[..., None]
    _check_finite(edges)
    return Histogram(edges, np.broadcast_to(x.shares, (*edges.shape[:-1], x.intervals)))


def at_least(x: Histogram, least: float, intervals: int = INTERVALS) -> Histogram:
    """Return the larger of x and a number; x itself where nothing of it lies below.

    >>> at_least(Histogram(np.array([0.0, 1.0]), np.ones(1)), 0.01).edges[0].tolist()
    0.01
    """
    if (x.edges[..., 0] >= least).all():
        return x
    return rebinned(np.maximum(x.low, least), np.maximum(x.high, least), x.shares, intervals)


def power(x: Histogram, exponent: int, intervals: int = INTERVALS) -> Histogram:
    """Return x to a whole power, the same x each time; ValueError where it is negative and 0 lies within x.

    >>> power(Histogram(np.array([-1.0, 2.0]), np.ones(1)), 2, 1).edges.tolist()
    [0.0, 4.0]
    """
    if exponent == 1:
        return x
    if exponent < 0:
        _check_divisor(x)
    low, high = _positive_power(x.low, x.high, abs(exponent))
    if exponent < 0:
        with np.errstate(divide="ignore"):  # intervals without a share may touch 0
            low, high = 1.0 / high, 1.0 / low
    return rebinned(low, high, x.shares, intervals)


def may_be_zero(x: Histogram) -> bool:
    """Say whether 0 lies within an interval that has a share, its ends included, on any host.

    >>> may_be_zero(Histogram(np.array([-1.0, 1.0]), np.ones(1)))
    True
    """
    return bool(((x.shares > 0) & (x.low <= 0) & (x.high >= 0)).any())


def _check_divisor(x: Histogram) -> None:
    if may_be_zero(x):
        raise ValueError("A divisor may be 0.")


def _positive_power(low: Floats, high: Floats, exponent: int) -> tuple[Floats, Floats]:
    with np.errstate(over="ignore"):
        at_low, at_high = low**exponent, high**exponent
    if exponent % 2:
        return at_low, at_high
    least = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(at_low, at_high))
    return least, np.maximum(at_low, at_high)


def _check_finite(edges: Floats) -> None:
    if not np.isfinite(edges).all():
        raise ValueError("The result is too large for a number.")


def _product(a: Floats, b: Floats, c: Floats, d: Floats) -> tuple[Floats, Floats]:
    corners = (a * c, a * d, b * c, b * d)
    return np.minimum.reduce(corners), np.maximum.reduce(corners)


def _quotient(a: Floats, b: Floats, c: Floats, d: Floats) -> tuple[Floats, Floats]:
    corners = (a / c, a / d, b / c, b / d)
    return np.minimum.reduce(corners), np.maximum.reduce(corners)


def _pairwise(bounds: _Bounds, x: Histogram, y: Histogram, intervals: int) -> Histogram:
    check_intervals(intervals)
    return rebinned(*_pairs(bounds, x, y), intervals)


def _pairs(bounds: _Bounds, x: Histogram, y: Histogram) -> tuple[Floats, Floats, Floats]:
    """Return low, high and share of all pairs of intervals, each (..., m_x m_y)."""
    a, b, p = (part[..., :, None] for part in (x.low, x.high, x.shares))
    c, d, q = (part[..., None, :] for part in (y.low, y.high, y.shares))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # where a share is 0 anything may come out
        low, high = bounds(a, b, c, d)
    share = p * q
    flat = (*share.shape[:-2], -1)
    return low.reshape(flat), high.reshape(flat), share.reshape(flat)


def _exact_sum(x: Histogram, y: Histogram, intervals: int) -> Histogram:
    check_intervals(intervals)
    low, high, share = _pairs(lambda a, b, c, d: (a + c, b + d), x, y)
    first, last = span(low, high, share)
    if np.array_equal(first, last):
        return rebinned(low, high, share, intervals)
    edges = equal_edges(first, last, intervals)
    widths = _pairs(lambda a, b, c, d: (np.minimum(b - a, d - c), np.maximum(b - a, d - c)), x, y)
    part = _trapezoid(edges[..., 1:-1, None] - low[..., None, :], *(width[..., None, :] for width in widths[:2]))
    return between(edges, (part * share[..., None, :]).sum(axis=-1), share.sum(axis=-1))


def _trapezoid(above: Floats, narrow: Floats, wide: Floats) -> Floats:
    """Return how much of the sum of two uniform values lies within `above` of its lower end; widths narrow <= wide.

    Its density rises over `narrow`, stays over the rest of `wide`, and falls over `narrow`.
    """
    by_two = 2 * np.where(narrow > 0, narrow, 1.0) * np.where(wide > 0, wide, 1.0)
    rising = above**2 / by_two
    falling = 1 - (narrow + wide - above) ** 2 / by_two
    level = np.where(wide > 0, (above - narrow / 2) / np.where(wide > 0, wide, 1.0), above > 0)
    part = np.where(above < narrow, rising, np.where(above <= wide, level, np.where(narrow > 0, falling, 1.0)))
    return np.where(above <= 0, 0.0, np.where(above >= narrow + wide, 1.0, part))
