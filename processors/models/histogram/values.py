"""Histograms of stochastic values, built from samples, from reported windows, or from one number."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from processors.models.numerics.arrays import Floats

INTERVALS = 5  # more intervals gave Schopf no better predictions
INTERVALS_MAX = 25
MASS_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """A stochastic value: `shares` (..., m) of probability in the intervals between `edges` (..., m + 1).

    Leading axes hold one histogram per host. Values are spread evenly within an interval; a certain value has equal edges. Edges
    never fall and shares sum to 1; `given` checks this for external input.

    >>> Histogram(np.array([0.0, 1.0, 2.0]), np.array([0.25, 0.75])).intervals
    2
    """

    edges: Floats
    shares: Floats

    @property
    def intervals(self) -> int:
        return int(self.shares.shape[-1])

    @property
    def hosts(self) -> tuple[int, ...]:
        """The leading axes; () for a single histogram."""
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
    """Return the histogram of external edges (..., m + 1) and shares (..., m); one edge and one share are a certain value.

    Raises ValueError if the shapes do not fit, a number is not finite, edges fall, or shares are negative or do not sum to 1.

    >>> given([3.0], [1.0]).edges.tolist(), given([0, 1, 2], [0.5, 0.5]).intervals
    ([3.0, 3.0], 2)
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
    """Return a certain value, or one per host; ValueError unless finite."""
    certain = np.asarray(value, dtype=np.float64)
    if not np.isfinite(certain).all():
        raise ValueError("A certain value is finite.")
    return Histogram(np.stack([certain, certain], axis=-1), np.ones((*certain.shape, 1)))


def equal_edges(low: npt.ArrayLike, high: npt.ArrayLike, intervals: int) -> Floats:
    """Return the edges (..., m + 1) of equal intervals; the ends are exactly `low` and `high`.

    >>> equal_edges(0.2, 0.7, 5).round(3).tolist()
    [0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
    """
    first, last = np.asarray(low, dtype=np.float64)[..., None], np.asarray(high, dtype=np.float64)[..., None]
    edges = first + (last - first) * np.arange(intervals + 1) / intervals
    np.minimum(edges, last, out=edges)
    edges[..., -1:] = last
    return edges


def from_samples(samples: npt.ArrayLike, intervals: int = INTERVALS) -> Histogram:
    """Return the histogram of samples (..., k), with equal intervals from the least to the largest sample.

    An interval includes its lower edge, the last one also its upper edge. NaN stands for a missing sample, so that hosts may
    have different numbers of samples. If all samples are equal, so are the edges. Raises ValueError without samples, with
    infinite ones, or unless `intervals` is 1 to 25.

    >>> window = from_samples([0.2, 0.26, 0.31, 0.33, 0.35, 0.52, 0.55, 0.61, 0.68, 0.7])
    >>> window.shares.tolist()
    [0.2, 0.3, 0.0, 0.2, 0.3]
    >>> from_samples([3.0, 3.0, 3.0]).edges.tolist()
    [3.0, 3.0]
    """
    values = np.asarray(samples, dtype=np.float64)
    check_intervals(intervals)
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
    """Return one histogram per host from reported windows, some of which may be certain values with one edge.

    Raises ValueError if a window is empty, or if two windows that are not certain values have different numbers of intervals.

    >>> windows = in_common([(0.0, 1.0, 2.0), (3.0,)], [(0.5, 0.5), (1.0,)])
    >>> windows.edges.tolist(), windows.shares.tolist()
    ([[0.0, 1.0, 2.0], [3.0, 3.0, 3.0]], [[0.5, 0.5], [1.0, 0.0]])
    """
    size = max((len(row) for row in shares), default=1)
    if not all(edges) or not all(len(row) in (1, size) for row in shares):
        raise ValueError("Windows of hosts have something in them, and as many intervals as each other.")
    wide = [(*row, *(row[-1],) * (size + 1 - len(row))) for row in edges]
    filled = [(*row, *(0.0,) * (size - len(row))) for row in shares]
    return given(wide, filled)


def even(shares: Sequence[float]) -> list[float]:
    """Return shares scaled to sum to 1, because windows are stored in few digits."""
    total = sum(shares)
    return [share / total for share in shares]


def check_intervals(intervals: int) -> None:
    """Raise ValueError unless the number of intervals is an integer from 1 to INTERVALS_MAX."""
    if not 1 <= intervals <= INTERVALS_MAX or math.trunc(intervals) != intervals:
        raise ValueError(f"A histogram has 1 to {INTERVALS_MAX} intervals, not {intervals}.")


def points_first(edges: Floats, shares: Floats) -> Floats:
    """Return the shares with those of certain values moved to the first interval, so that each value has one form.

    >>> points_first(np.array([3.0, 3.0, 3.0]), np.array([0.0, 1.0])).tolist()
    [1.0, 0.0]
    """
    certain = edges[..., :1] == edges[..., -1:]
    first = np.zeros(shares.shape[-1])
    first[0] = 1.0
    return np.where(certain, first, shares)


def rebinned(low: Floats, high: Floats, shares: Floats, intervals: int) -> Histogram:
    """Return the histogram of weighted intervals [low, high], each (..., k), with equal intervals over their whole range.

    The range covers the intervals with a share. Each share is spread evenly over its interval; a share at a single value goes
    to the interval that contains it. Raises ValueError if the range is not finite.

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
    """Return the least and the largest value with a share, each (...); ValueError if not finite."""
    retained = shares > 0
    first = np.where(retained, low, np.inf).min(axis=-1)
    last = np.where(retained, high, -np.inf).max(axis=-1)
    if not (np.isfinite(first).all() and np.isfinite(last).all()):
        raise ValueError("The result is too large for a number.")
    return first, last


def below(at: Floats, low: Floats, high: Floats) -> Floats:
    """Return the part of each interval (..., k) below each value (..., q): (..., q, k).

    >>> below(np.array([1.0]), np.array([0.0, 1.0]), np.array([2.0, 1.0])).tolist()
    [[0.5, 0.0]]
    """
    value, start, end = at[..., :, None], low[..., None, :], high[..., None, :]
    width = end - start
    wide = width > 0
    if wide.all():
        part = (value - start) / width
        return part.clip(0.0, 1.0, out=part)
    part = (value - start) / np.where(wide, width, 1.0)
    return np.where(wide, np.clip(part, 0.0, 1.0), (start < value).astype(np.float64))


def between(edges: Floats, cumulative: Floats, total: Floats) -> Histogram:
    """Return the histogram from the cumulative shares at its inner edges (..., m - 1) and their `total` (...).

    >>> between(np.array([0.0, 1.0, 2.0]), np.array([0.25]), np.array(1.0)).shares.tolist()
    [0.25, 0.75]
    """
    ends = np.zeros((*total.shape, 1))
    filled = np.concatenate([ends, cumulative, total[..., None]], axis=-1)
    shares = np.maximum(filled[..., 1:] - filled[..., :-1], 0.0)
    return Histogram(edges, points_first(edges, shares / shares.sum(axis=-1, keepdims=True)))
