"""Many hosts at once: their windows in one, and the largest of many values without a chain of roundings."""

import numpy as np
import numpy.typing as npt

from processors.models.histogram.arithmetic import scaled
from processors.models.histogram.rebin import below, between, rebinned
from processors.models.histogram.values import INTERVALS, Floats, Histogram, check_intervals, equal_edges

TAIL = 0.01  # what the first interval of a maximum may hold from below it
_PARTS, _ROUNDS = 32, 4  # together a millionth of the range


def mixture(x: Histogram, weights: npt.ArrayLike | None = None, intervals: int = INTERVALS) -> Histogram:
    """Return the value on a host picked from all, (hosts, m) to one: the pooled windows of a partition.

    `weights` (hosts,) say how likely each is picked; all alike without. Raises ValueError without hosts or where
    weights are negative or sum to nothing.

    >>> two = Histogram(np.array([[0.0, 1.0], [1.0, 2.0]]), np.ones((2, 1)))
    >>> mixture(two, weights=[3.0, 1.0], intervals=2).shares.tolist()
    [0.75, 0.25]
    """
    check_intervals(intervals)
    count = x.hosts[0] if x.hosts else 0
    weight = np.ones(count) if weights is None else np.asarray(weights, dtype=np.float64)
    if not count or weight.shape != (count,) or not (weight >= 0).all() or not 0 < weight.sum() < np.inf:
        raise ValueError("A pool needs hosts, and weights that are not negative, one for each.")
    shares = x.shares * (weight / weight.sum())[:, None]
    return rebinned(x.low.ravel(), x.high.ravel(), shares.ravel(), intervals)


def maximum_of(x: Histogram, n: float, intervals: int = INTERVALS) -> Histogram:
    """Return the largest of n independent values that are distributed like x: F^n, for any real n of at least 1.

    The intervals start where F^n reaches TAIL, if the first of them would hold less than that: the largest of a thousand
    values has all its probability near the end of the range, and five intervals should show it.

    >>> even = Histogram(np.array([0.0, 1.0]), np.ones(1))
    >>> maximum_of(even, 2.0, intervals=4).shares.tolist()
    [0.0625, 0.1875, 0.3125, 0.4375]
    """
    check_intervals(intervals)
    if not 1 <= n < np.inf:
        raise ValueError("A maximum is over at least one value.")
    return _largest(Histogram(x.edges[None], x.shares[None]), np.array([n]), intervals)


def maximum_over(x: Histogram, intervals: int = INTERVALS, counts: npt.ArrayLike | None = None) -> Histogram:
    """Return the largest over hosts that differ, (hosts, m) to one: the product of their cumulative probabilities.

    `counts` (hosts,) say how many hosts each of them stands for; one each without. Intervals as in `maximum_of`. Raises
    ValueError without hosts, or where one stands for no host.

    >>> two = Histogram(np.array([[0.0, 1.0], [0.5, 0.5]]), np.ones((2, 1)))
    >>> maximum_over(two, intervals=2).edges.tolist(), maximum_over(two, intervals=2).shares.tolist()
    ([0.5, 0.75, 1.0], [0.75, 0.25])
    """
    check_intervals(intervals)
    each = np.ones(x.hosts) if counts is None else np.asarray(counts, dtype=np.float64)
    if not x.hosts or not x.hosts[0] or each.shape != x.hosts or not ((each > 0) & (each < np.inf)).all():
        raise ValueError("A maximum is over at least one value.")
    return _largest(x, each, intervals)


def minimum_over(x: Histogram, intervals: int = INTERVALS, counts: npt.ArrayLike | None = None) -> Histogram:
    """Return the smallest over hosts that differ; as `maximum_over`.

    >>> minimum_over(Histogram(np.array([[0.0, 1.0], [0.5, 0.5]]), np.ones((2, 1))), intervals=1).edges.tolist()
    [0.0, 0.5]
    """
    return scaled(maximum_over(scaled(x, -1.0), intervals, counts), -1.0)


def minimum_of(x: Histogram, n: float, intervals: int = INTERVALS) -> Histogram:
    """Return the smallest of n independent values that are distributed like x; as `maximum_of`.

    >>> minimum_of(Histogram(np.array([0.0, 1.0]), np.ones(1)), 2.0, intervals=2).shares.tolist()
    [0.75, 0.25]
    """
    return scaled(maximum_of(scaled(x, -1.0), n, intervals), -1.0)


def _largest(x: Histogram, n: Floats, intervals: int) -> Histogram:
    """Return the largest of n (hosts,) values of each host; (hosts, m) to one."""
    held = np.where(x.shares > 0, x.low, np.inf).min(axis=-1)
    low, high = float(held.max()), float(np.where(x.shares > 0, x.high, -np.inf).max())
    if low >= high:
        return Histogram(np.array([high, high]), np.ones(1))
    edges = equal_edges(low, high, intervals)
    if _below_all(x, n, edges[1:2])[0] < TAIL:
        edges = equal_edges(_tail(x, n, low, high), high, intervals)
    inner = edges[1:-1]
    return between(edges, _below_all(x, n, inner), np.array(1.0))


def _below_all(x: Histogram, n: Floats, at: Floats) -> Floats:
    """Return the probability (q,) that the largest lies below each value: points at the value itself do not."""
    each = (below(at, x.low, x.high) * x.shares[..., None, :]).sum(axis=-1)
    return np.asarray((np.clip(each, 0.0, 1.0) ** n[:, None]).prod(axis=0))


def _tail(x: Histogram, n: Floats, low: float, high: float) -> float:
    """Return a value just below which the largest lies with no more than the probability TAIL."""
    for _ in range(_ROUNDS):
        at = np.linspace(low, high, _PARTS + 1)
        index = int((_below_all(x, n, at[1:-1]) < TAIL).sum())
        low, high = float(at[index]), float(at[index + 1])
    return low
