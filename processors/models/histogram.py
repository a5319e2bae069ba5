"""Stochastic values: a measured resource as a histogram of a few intervals, and arithmetic with such histograms.

Source: Schopf, Berman, "Using stochastic information to predict application behavior on contended resources" (2001), and
Schopf's "Performance prediction and scheduling for parallel applications on multi-user clusters" (PhD, 1998). A changing load
has no single value. A histogram of five equal intervals over the samples of the last five minutes tells how probable each part
of the range is, and a run time computed from histograms is a histogram again.

A pair of intervals gives the interval of all possible results, with the product of the two shares. This product is spread
evenly over the interval. Sums and products thus become too wide (the sum of two uniform values has a triangular density). Too
wide is the safe side for a band, and Monte Carlo draws measure the error. `exact_sum` does not have this error.
Operands are taken as independent, so X - X is not 0. Every array may have leading axes, with one histogram per host.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt

from processors.models.numerics.arrays import Floats

INTERVALS = 5  # Schopf found no better predictions with more intervals
INTERVALS_MAX = 25
MASS_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """A stochastic value (a random variable): the probabilities `shares` (..., m) of the intervals between `edges` (..., m + 1).

    Leading axes hold one histogram per host. The probability is uniform within an interval. A constant has equal edges. Edges
    never fall and shares sum to 1; `given` checks both for external input.
    """

    edges: Floats
    shares: Floats

    @property
    def intervals(self) -> int:
        return int(self.shares.shape[-1])

    @property
    def hosts(self) -> tuple[int, ...]:
        """The shape of the leading axes; () for a single histogram."""
        return self.shares.shape[:-1]

    @property
    def low(self) -> Floats:
        return self.edges[..., :-1]

    @property
    def high(self) -> Floats:
        return self.edges[..., 1:]

    def host(self, index: int) -> "Histogram":
        return Histogram(self.edges[index], self.shares[index])


def given(edges: npt.ArrayLike, shares: npt.ArrayLike) -> Histogram:
    """Return the histogram of external edges (..., m + 1) and shares (..., m). One edge and one share stand for a constant.

    Raise ValueError if the shapes do not fit, a number is not finite, edges fall, or shares are negative or do not sum to 1.
    """
    at, mass = np.asarray(edges, dtype=np.float64), np.asarray(shares, dtype=np.float64)
    if at.ndim and at.shape[-1] == 1:
        at = np.repeat(at, 2, axis=-1)
    if not mass.ndim or at.shape != (*mass.shape[:-1], mass.shape[-1] + 1) or not mass.size:
        raise ValueError("A histogram has one edge more than shares.")
    if not (np.isfinite(at).all() and np.isfinite(mass).all()):
        raise ValueError("Edges and shares of a histogram must be finite.")
    if (at[..., 1:] < at[..., :-1]).any():
        raise ValueError("Edges of a histogram must not fall.")
    total = mass.sum(axis=-1, keepdims=True)
    if (mass < 0).any() or (abs(total - 1) > MASS_TOLERANCE).any():
        raise ValueError("Shares of a histogram must not be negative and must sum to 1.")
    return Histogram(at, mass / total)


def point(value: npt.ArrayLike) -> Histogram:
    """Return the histogram of a constant, or of a constant per host. Raise ValueError unless all values are finite."""
    certain = np.asarray(value, dtype=np.float64)
    if not np.isfinite(certain).all():
        raise ValueError("A certain value is finite.")
    return Histogram(np.stack([certain, certain], axis=-1), np.ones((*certain.shape, 1)))


def equal_edges(low: npt.ArrayLike, high: npt.ArrayLike, intervals: int) -> Floats:
    """Return the edges (..., m + 1) of equal intervals; the first edge is exactly `low`, the last exactly `high`."""
    first, last = np.asarray(low, dtype=np.float64)[..., None], np.asarray(high, dtype=np.float64)[..., None]
    edges = first + (last - first) * np.arange(intervals + 1) / intervals
    np.minimum(edges, last, out=edges)
    edges[..., -1:] = last
    return edges


def from_samples(samples: npt.ArrayLike, intervals: int = INTERVALS) -> Histogram:
    """Return the histogram of samples (..., k), with equal intervals from the least to the largest sample.

    An interval includes its lower edge; the last interval also includes its upper edge. NaN stands for a missing sample, because
    hosts may have different numbers of samples. If all samples are equal, all edges are equal. Raise ValueError without samples
    or for an infinite sample.

    >>> window = from_samples([0.2, 0.26, 0.31, 0.33, 0.35, 0.52, 0.55, 0.61, 0.68, 0.7])
    >>> window.shares.tolist()
    [0.2, 0.3, 0.0, 0.2, 0.3]
    >>> from_samples([3.0, 3.0, 3.0]).edges.tolist()
    [3.0, 3.0]
    """
    values = np.asarray(samples, dtype=np.float64)
    missing = np.isnan(values)
    if not values.ndim or not values.shape[-1] or missing.all(axis=-1).any():
        raise ValueError("A histogram needs at least one sample.")
    if np.isinf(values).any():
        raise ValueError("Samples are finite.")
    low, high = np.nanmin(values, axis=-1), np.nanmax(values, axis=-1)
    if np.array_equal(low, high):
        return point(low)
    edges = equal_edges(low, high, intervals)
    below = (values[..., None, :] < edges[..., 1:-1, None]).sum(axis=-1)
    count = (~missing).sum(axis=-1)[..., None]
    filled = np.concatenate([np.zeros_like(count), below, count], axis=-1)
    return Histogram(edges, points_first(edges, np.diff(filled, axis=-1) / count))


def in_common(edges: Sequence[Sequence[float]], shares: Sequence[Sequence[float]]) -> Histogram:
    """Return one histogram per host from reported windows; a window that is a constant has one edge.

    Raise ValueError if a window is empty, or if two windows that are not constants have different numbers of intervals.

    >>> windows = in_common([(0.0, 1.0, 2.0), (3.0,)], [(0.5, 0.5), (1.0,)])
    >>> windows.edges.tolist(), windows.shares.tolist()
    ([[0.0, 1.0, 2.0], [3.0, 3.0, 3.0]], [[0.5, 0.5], [1.0, 0.0]])
    """
    size = max((len(row) for row in shares), default=1)
    if not all(edges) or not all(len(row) in (1, size) for row in shares):
        raise ValueError(
            "No window of a host may be empty, and all windows that are not constant need the same number of intervals."
        )
    wide = [(*row, *(row[-1],) * (size + 1 - len(row))) for row in edges]
    return given(wide, [(*row, *(0.0,) * (size - len(row))) for row in shares])


def even(shares: Sequence[float]) -> list[float]:
    """Return the shares scaled to the sum 1, from which stored shares deviate because they are rounded."""
    total = sum(shares)
    return [share / total for share in shares]


def points_first(edges: Floats, shares: Floats) -> Floats:
    """Return the shares, for a constant all in its first interval, so that equal constants have equal shares."""
    certain = edges[..., :1] == edges[..., -1:]
    first = np.zeros(shares.shape[-1])
    first[0] = 1.0
    return np.where(certain, first, shares)


def rebinned(low: Floats, high: Floats, shares: Floats, intervals: int) -> Histogram:
    """Return the histogram, in equal intervals, of probabilities `shares` over intervals from `low` to `high`, each (..., k).

    The result covers all intervals with a share. Each share is spread evenly over its interval; the share of an interval of zero
    width goes to the new interval that contains the value. Raise ValueError if the range is not finite.

    >>> one = np.array([0.0]), np.array([2.0]), np.array([1.0])
    >>> rebinned(*one, 2).shares.tolist()
    [0.5, 0.5]
    """
    first, last = span(low, high, shares)
    if np.array_equal(first, last):
        return Histogram(np.stack([first, last], axis=-1), np.ones((*first.shape, 1)))
    edges = equal_edges(first, last, intervals)
    retained = shares > 0  # intervals without a share may be infinite
    start, end = np.where(retained, low, first[..., None]), np.where(retained, high, last[..., None])
    cumulative = (below(edges[..., 1:-1], start, end) * shares[..., None, :]).sum(axis=-1)
    return between(edges, cumulative, shares.sum(axis=-1))


def span(low: Floats, high: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """Return the ends, each (...), of the range of all intervals with a share above 0. Raise ValueError unless both are finite."""
    retained = shares > 0
    first = np.where(retained, low, np.inf).min(axis=-1)
    last = np.where(retained, high, -np.inf).max(axis=-1)
    if not (np.isfinite(first).all() and np.isfinite(last).all()):
        raise ValueError("The result is too large for a number.")
    return first, last


def below(at: Floats, low: Floats, high: Floats) -> Floats:
    """Return the part, 0 to 1, of each interval from `low` to `high` (..., k) that lies below each value `at` (..., q); (..., q, k)."""
    value, start, end = at[..., :, None], low[..., None, :], high[..., None, :]
    width = end - start
    wide = width > 0
    if wide.all():
        part = (value - start) / width
        return part.clip(0.0, 1.0, out=part)
    part = (value - start) / np.where(wide, width, 1.0)
    return np.where(wide, np.clip(part, 0.0, 1.0), (start < value).astype(np.float64))


def between(edges: Floats, cumulative: Floats, total: Floats) -> Histogram:
    """Return the histogram with the given `edges` from the probability below each inner edge, `cumulative` (..., m - 1).

    `total` (...) is the probability below the last edge; shares are scaled to the sum 1.
    """
    filled = np.concatenate([np.zeros((*total.shape, 1)), cumulative, total[..., None]], axis=-1)
    shares = np.maximum(filled[..., 1:] - filled[..., :-1], 0.0)
    return Histogram(edges, points_first(edges, shares / shares.sum(axis=-1, keepdims=True)))


VariationClass = Literal["low", "medium", "high"]
LOW_VARIATION, MEDIUM_VARIATION = 0.25, 0.5


def mean(x: Histogram) -> Floats:
    return np.asarray((x.shares * (x.low + x.high)).sum(axis=-1) / 2)


def cumulative(x: Histogram, at: npt.ArrayLike) -> Floats:
    """Return the distribution function (..., q) at the values `at` (q,) or (..., q)."""
    values = np.asarray(at, dtype=np.float64)
    inside = (below(values, x.low, x.high) * x.shares[..., None, :]).sum(axis=-1)
    return np.asarray(np.where(values >= x.edges[..., -1:], 1.0, np.clip(inside, 0.0, 1.0)))


def quantiles(x: Histogram, levels: npt.ArrayLike) -> Floats:
    """Return the quantiles (..., q) at levels (q,) or (..., q). Raise ValueError for a level outside 0 to 1."""
    level = np.asarray(levels, dtype=np.float64)
    if not ((level >= 0) & (level <= 1)).all():
        raise ValueError("A quantile needs a level between 0 and 1.")
    filled = x.shares.cumsum(axis=-1)
    filled /= filled[..., -1:]
    index = (level[..., :, None] > filled[..., None, :-1]).sum(axis=-1)
    start, width, share = (_picked(part, index) for part in (x.low, x.high - x.low, x.shares))
    before = _picked(filled, index) - share
    part = np.clip((level - before) / np.where(share > 0, share, 1.0), 0.0, 1.0)
    return np.asarray(np.minimum(start + part * width, x.edges[..., -1:]))


def interval_index(x: Histogram, actual: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return the index (...) of the interval that contains each actual value: -1 below all m intervals, m above all.

    An interval includes its lower edge; the last interval also includes its upper edge.
    """
    value = np.asarray(actual, dtype=np.float64)[..., None]
    index = (value >= x.edges[..., 1:-1]).sum(axis=-1)
    index = np.where(value[..., 0] < x.edges[..., 0], -1, index)
    return np.asarray(np.where(value[..., 0] > x.edges[..., -1], x.intervals, index), dtype=np.int64)


def variation(x: Histogram) -> Floats:
    """Return the width (...) of the range of a stochastic value, in the unit of the value."""
    return np.asarray(x.edges[..., -1] - x.edges[..., 0])


def variation_class(length: float) -> VariationClass:
    """Return Schopf and Berman's class for an availability (0 to 1) whose range has the width `length`: low, medium or high."""
    if length <= LOW_VARIATION:
        return "low"
    return "medium" if length <= MEDIUM_VARIATION else "high"


def _picked(part: Floats, index: npt.NDArray[np.intp]) -> Floats:
    if part.ndim == index.ndim == 1:  # for a single histogram
        return part[index]
    leading = np.broadcast_shapes(part.shape[:-1], index.shape[:-1])
    wide = np.broadcast_to(part, (*leading, part.shape[-1]))
    return np.take_along_axis(wide, np.broadcast_to(index, (*leading, index.shape[-1])), axis=-1)


def crps(x: Histogram, actual: npt.ArrayLike) -> Floats:
    """Return the continuous ranked probability score (...) of actual values (...), in the unit of the values; 0 is perfect.

    The score is the integral of (F(v) - [v >= actual])^2 over v, in closed form for each interval (Gneiting, Raftery, "Strictly
    proper scoring rules", 2007). For a constant, the score is the distance between the constant and the actual value.

    >>> float(crps(Histogram(np.array([0.0, 1.0]), np.ones(1)), 0.5)).__round__(6)
    0.083333
    >>> float(crps(Histogram(np.array([3.0, 3.0]), np.ones(1)), 5.0))
    2.0
    """
    value = np.asarray(actual, dtype=np.float64)[..., None]
    split = np.clip(value, x.low, x.high)
    width = x.high - x.low
    start = x.shares.cumsum(axis=-1) - x.shares
    middle = start + x.shares * (split - x.low) / np.where(width > 0, width, 1.0)
    end = start + x.shares
    inside = (split - x.low) * _mean_square(start, middle) + (x.high - split) * _mean_square(1 - middle, 1 - end)
    outside = np.maximum(x.edges[..., 0] - value[..., 0], 0) + np.maximum(value[..., 0] - x.edges[..., -1], 0)
    return np.asarray(inside.sum(axis=-1) + outside)


def pit(x: Histogram, actual: npt.ArrayLike) -> Floats:
    """Return the probability integral transform (...): the probability of values below the actual value.

    Probability at the actual value itself counts half. If forecasts are correct, the transforms are uniform from 0 to 1.

    >>> float(pit(Histogram(np.array([0.0, 4.0]), np.ones(1)), 1.0)), float(pit(Histogram(np.full(2, 3.0), np.ones(1)), 3))
    (0.25, 0.5)
    """
    value = np.asarray(actual, dtype=np.float64)[..., None]
    under = (below(value, x.low, x.high) * x.shares[..., None, :]).sum(axis=-1)
    return np.asarray((np.clip(under, 0.0, 1.0) + cumulative(x, value))[..., 0] / 2)


def _mean_square(a: Floats, b: Floats) -> Floats:
    return np.asarray((a * a + a * b + b * b) / 3)


AVAILABILITY_MIN = 0.01  # with an availability of 0, every run would be endless
_Bounds = Callable[[Floats, Floats, Floats, Floats], tuple[Floats, Floats]]


def add(x: Histogram, y: Histogram, intervals: int = INTERVALS) -> Histogram:
    """Return x + y for independent x and y. Raise ValueError if a result is too large for a float.

    >>> d = Histogram(np.array([1.0, 3.0, 5.0]), np.array([0.3, 0.7]))
    >>> e = Histogram(np.array([2.0, 4.0, 7.0]), np.array([0.4, 0.6]))
    >>> add(d, e).shares.round(4).tolist()
    [0.054, 0.2236, 0.3204, 0.2508, 0.1512]
    """
    return _pairwise(lambda a, b, c, d: (a + c, b + d), x, y, intervals)


def multiply(x: Histogram, y: Histogram, intervals: int = INTERVALS) -> Histogram:
    """Return x y for independent x and y. Raise ValueError if a result is too large for a float.

    >>> multiply(Histogram(np.array([-1.0, 2.0]), np.ones(1)), Histogram(np.array([1.0, 3.0]), np.ones(1)), 3).edges.tolist()
    [-3.0, 0.0, 3.0, 6.0]
    """
    return _pairwise(partial(_extremes, np.multiply), x, y, intervals)


def divide(x: Histogram, y: Histogram, intervals: int = INTERVALS) -> Histogram:
    """Return x / y for independent x and y. Raise ValueError if y may be 0 or a result is too large for a float.

    >>> ten, cpu = Histogram(np.array([10.0, 10.0]), np.ones(1)), Histogram(np.array([0.8, 1.0]), np.ones(1))
    >>> divide(ten, cpu).edges.tolist()
    [10.0, 10.5, 11.0, 11.5, 12.0, 12.5]
    """
    _check_divisor(y)
    return _pairwise(partial(_extremes, np.divide), x, y, intervals)


def maximum(x: Histogram, y: Histogram, intervals: int = INTERVALS) -> Histogram:
    """Return the histogram of the larger of two independent values."""
    return _pairwise(lambda a, b, c, d: (np.maximum(a, c), np.maximum(b, d)), x, y, intervals)


def minimum(x: Histogram, y: Histogram, intervals: int = INTERVALS) -> Histogram:
    """Return the histogram of the smaller of two independent values."""
    return _pairwise(lambda a, b, c, d: (np.minimum(a, c), np.minimum(b, d)), x, y, intervals)


def scaled(x: Histogram, factor: float | Floats) -> Histogram:
    """Return `factor` times x. The result is exact, because only the edges change. The factor is a number or (...) by host.

    >>> scaled(Histogram(np.array([1.0, 2.0, 4.0]), np.array([0.25, 0.75])), -2.0).edges.tolist()
    [-8.0, -4.0, -2.0]
    """
    factors = np.asarray(factor, dtype=np.float64)
    x, negative = _with_edges(x, np.multiply, factors), factors[..., None] < 0
    edges, shares = (np.where(negative, part[..., ::-1], part) for part in (x.edges, x.shares))
    return Histogram(edges, shares)


def shifted(x: Histogram, offset: float | Floats) -> Histogram:
    """Return x + offset. The result is exact. The offset is a number or (...) by host."""
    return _with_edges(x, np.add, np.asarray(offset, dtype=np.float64))


def _with_edges(x: Histogram, combine: np.ufunc, by_host: Floats) -> Histogram:
    with np.errstate(over="ignore"):
        edges = combine(x.edges, by_host[..., None])
    if not np.isfinite(edges).all():
        raise ValueError("The result is too large for a number.")
    return Histogram(edges, np.broadcast_to(x.shares, (*edges.shape[:-1], x.intervals)))


def at_least(x: Histogram, least: float, intervals: int = INTERVALS) -> Histogram:
    """Return the histogram of max(x, `least`)."""
    if (x.edges[..., 0] >= least).all():
        return x
    return rebinned(np.maximum(x.low, least), np.maximum(x.high, least), x.shares, intervals)


def power(x: Histogram, exponent: int, intervals: int = INTERVALS) -> Histogram:
    """Return x to the power of an integer. Raise ValueError if the exponent is negative and x may be 0.

    >>> power(Histogram(np.array([-1.0, 2.0]), np.ones(1)), 2, 1).edges.tolist()
    [0.0, 4.0]
    """
    if exponent == 1:
        return x
    if exponent < 0:
        _check_divisor(x)
    low, high = _positive_power(x.low, x.high, abs(exponent))
    if exponent < 0:
        with np.errstate(divide="ignore"):  # intervals without probability may touch 0
            low, high = 1.0 / high, 1.0 / low
    return rebinned(low, high, x.shares, intervals)


def may_be_zero(x: Histogram) -> bool:
    """Return whether on any host an interval with a share contains 0 or ends at 0."""
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


def _extremes(combine: np.ufunc, a: Floats, b: Floats, c: Floats, d: Floats) -> tuple[Floats, Floats]:
    """Return the least and the largest result of `combine` for one value from a to b and another from c to d."""
    corners = (combine(a, c), combine(a, d), combine(b, c), combine(b, d))
    return np.minimum.reduce(corners), np.maximum.reduce(corners)


def _pairwise(bounds: _Bounds, x: Histogram, y: Histogram, intervals: int) -> Histogram:
    return rebinned(*_pairs(bounds, x, y), intervals)


def _pairs(bounds: _Bounds, x: Histogram, y: Histogram) -> tuple[Floats, Floats, Floats]:
    """Return low, high and share of all pairs of intervals, each (..., m_x m_y)."""
    a, b, p = (part[..., :, None] for part in (x.low, x.high, x.shares))
    c, d, q = (part[..., None, :] for part in (y.low, y.high, y.shares))
    with np.errstate(all="ignore"):  # intervals without a share may be infinite
        low, high = bounds(a, b, c, d)
    share = p * q
    flat = (*share.shape[:-2], -1)
    return low.reshape(flat), high.reshape(flat), share.reshape(flat)


def exact_sum(x: Histogram, y: Histogram, intervals: int = INTERVALS) -> Histogram:
    """Return x + y for independent x and y, without the widening of `add`."""
    low, high, share = _pairs(lambda a, b, c, d: (a + c, b + d), x, y)
    first, last = span(low, high, share)
    if np.array_equal(first, last):
        return rebinned(low, high, share, intervals)
    edges = equal_edges(first, last, intervals)
    widths = _pairs(lambda a, b, c, d: (np.minimum(b - a, d - c), np.maximum(b - a, d - c)), x, y)
    part = _trapezoid(edges[..., 1:-1, None] - low[..., None, :], *(width[..., None, :] for width in widths[:2]))
    return between(edges, (part * share[..., None, :]).sum(axis=-1), share.sum(axis=-1))


def _trapezoid(above: Floats, narrow: Floats, wide: Floats) -> Floats:
    """Return the probability that the sum of two uniform values exceeds its least value by at most `above`.

    The widths of the two uniform distributions are `narrow` <= `wide`. The density of the sum rises over `narrow`, is constant over
    the rest of `wide`, and falls over `narrow`.
    """
    over = above >= narrow + wide
    begun = ~(above <= 0)
    part = (begun & over).astype(np.float64)
    at = np.nonzero(begun & ~over)  # few pairs; most lie wholly below or above a value
    part[at] = _within(above[at], *(np.broadcast_to(width, above.shape)[at] for width in (narrow, wide)))
    return part


def _within(above: Floats, narrow: Floats, wide: Floats) -> Floats:
    """Return the probability of `_trapezoid`, (k,), for values strictly between the ends of the range of the sum."""
    by_two = 2 * np.where(narrow > 0, narrow, 1.0) * np.where(wide > 0, wide, 1.0)
    rising = above**2 / by_two
    falling = 1 - (narrow + wide - above) ** 2 / by_two
    level = np.where(wide > 0, (above - narrow / 2) / np.where(wide > 0, wide, 1.0), above > 0)
    return np.where(above < narrow, rising, np.where(above <= wide, level, np.where(narrow > 0, falling, 1.0)))


TAIL = 0.01  # probability below the first interval that a maximum may add to this interval
_PARTS, _ROUNDS = 32, 4  # the search for a tail quantile is accurate to a millionth of the range


def mixture(x: Histogram, weights: npt.ArrayLike | None = None, intervals: int = INTERVALS) -> Histogram:
    """Return the histogram of the value on a random host, from histograms (hosts, m): the pooled windows of a partition.

    `weights` (hosts,) are the relative probabilities of the hosts, by default equal. Raise ValueError without hosts or if
    weights are negative or all 0.

    >>> two = Histogram(np.array([[0.0, 1.0], [1.0, 2.0]]), np.ones((2, 1)))
    >>> mixture(two, weights=[3.0, 1.0], intervals=2).shares.tolist()
    [0.75, 0.25]
    """
    count = x.hosts[0] if x.hosts else 0
    weight = np.ones(count) if weights is None else np.asarray(weights, dtype=np.float64)
    if not count or weight.shape != (count,) or not (weight >= 0).all() or not 0 < weight.sum() < np.inf:
        raise ValueError("A pool needs hosts, and weights that are not negative, one for each.")
    shares = x.shares * (weight / weight.sum())[:, None]
    return rebinned(x.low.ravel(), x.high.ravel(), shares.ravel(), intervals)


def maximum_over(x: Histogram, intervals: int = INTERVALS, counts: npt.ArrayLike | None = None) -> Histogram:
    """Return the histogram of the largest value over independent hosts: the product of their distribution functions.

    `x` has one histogram per host, (hosts, m), or a single histogram (m,) for every host. Each histogram stands for `counts` equal
    hosts, by default 1; counts need not be integers. If the first interval would hold less than TAIL, the intervals start at the
    TAIL quantile instead, because the maximum over a thousand hosts lies close to the upper end, where wide intervals say little.
    Raise ValueError without hosts, or if a count is not positive.

    >>> two = Histogram(np.array([[0.0, 1.0], [0.5, 0.5]]), np.ones((2, 1)))
    >>> maximum_over(two, intervals=2).edges.tolist(), maximum_over(two, intervals=2).shares.tolist()
    ([0.5, 0.75, 1.0], [0.75, 0.25])
    >>> maximum_over(Histogram(np.array([0.0, 1.0]), np.ones(1)), intervals=4, counts=2.0).shares.tolist()
    [0.0625, 0.1875, 0.3125, 0.4375]
    """
    n = np.ones(x.hosts) if counts is None else np.asarray(counts, dtype=np.float64)
    if not x.hosts:
        x, n = Histogram(x.edges[None], x.shares[None]), n.reshape(1)
    if not x.hosts[0] or n.shape != x.hosts or not ((n > 0) & (n < np.inf)).all():
        raise ValueError("A maximum is over at least one value.")
    first, last = span(x.low, x.high, x.shares)
    low, high = float(first.max()), float(last.max())
    if low >= high:
        return Histogram(np.array([high, high]), np.ones(1))
    edges = equal_edges(low, high, intervals)
    if _below_all(x, n, edges[1:2])[0] < TAIL:
        edges = equal_edges(_tail(x, n, low, high), high, intervals)
    return between(edges, _below_all(x, n, edges[1:-1]), np.array(1.0))


def minimum_over(x: Histogram, intervals: int = INTERVALS, counts: npt.ArrayLike | None = None) -> Histogram:
    """Return the histogram of the smallest value over independent hosts; arguments and errors as in `maximum_over`."""
    return scaled(maximum_over(scaled(x, -1.0), intervals, counts), -1.0)


def _below_all(x: Histogram, n: Floats, at: Floats) -> Floats:
    """Return the probability (q,) that all hosts have values below each of `at` (q,); histogram i of `x` stands for `n[i]` hosts."""
    by_host = (below(at, x.low, x.high) * x.shares[..., None, :]).sum(axis=-1)
    return np.asarray((by_host.clip(0.0, 1.0, out=by_host) ** n[:, None]).prod(axis=0))


def _tail(x: Histogram, n: Floats, low: float, high: float) -> float:
    """Return a value below which the values of all hosts lie with a probability of at most TAIL."""
    for _ in range(_ROUNDS):
        at = np.linspace(low, high, _PARTS + 1)
        index = int((_below_all(x, n, at[1:-1]) < TAIL).sum())
        low, high = float(at[index]), float(at[index + 1])
    return low
