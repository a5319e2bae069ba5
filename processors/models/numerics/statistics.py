"""Quantiles and bands of run times with normal logarithms, rounding to significant digits, the pinball loss, and rank correlation."""

import math
from collections.abc import Iterable
from statistics import NormalDist
from typing import Final

import numpy as np

from processors.models.numerics.arrays import Floats

_BINS = 2048
_SECTIONS = 8
_ROUNDS = 5
_INNER = np.arange(1, _SECTIONS) / _SECTIONS
_NODES, _NODE_MASS = np.polynomial.hermite_e.hermegauss(7)
_NODE_MASS = _NODE_MASS / math.sqrt(2 * math.pi)
_REACH = float(_NODES[-1])


def mixture_quantiles(values: Floats, mass: Floats, noise: float, levels: tuple[float, ...]) -> Floats:
    """Return quantiles (m, levels) of m mixtures of points `values` (m, c) plus normal noise; `mass` (c,) has the sum 1.

    `noise` is the standard deviation of the noise, which is integrated by the seven-point Gauss-Hermite rule. The points are counted
    in bins, so the error is at most the range of the values over 2048; sorting the points would cost ten times as much. `levels`
    lie between 0 and 1.

    >>> mixture_quantiles(np.array([[0.0, 1.0]]), np.array([0.5, 0.5]), 0.001, (0.4, 0.6)).round(1).tolist()
    [[0.0, 1.0]]
    """
    level = np.asarray(levels, dtype=np.float64)
    low = values.min(axis=1)
    span = np.maximum(values.max(axis=1) - low, 1e-9)
    cumulative = _cumulative(values, mass, low, span)
    at = np.broadcast_to((low - _REACH * noise)[:, None], (low.size, level.size))
    width = (span + 2 * _REACH * noise)[:, None]
    for _ in range(_ROUNDS):
        points = at[:, :, None] + width[:, :, None] * _INNER
        below = _distribution(cumulative, points, low, span, noise) < level[:, None]
        at = at + width * (below.sum(axis=2) / _SECTIONS)
        width = width / _SECTIONS
    result: Floats = at + width / 2
    return result


def _cumulative(values: Floats, mass: Floats, low: Floats, span: Floats) -> Floats:
    """Return the mass (m, bins + 1) below each edge of the bins."""
    count = low.size
    bins = ((values - low[:, None]) * (_BINS / span)[:, None]).astype(np.intp)
    np.minimum(bins, _BINS - 1, out=bins)
    bins += np.arange(0, count * _BINS, _BINS)[:, None]
    retained = np.bincount(bins.ravel(), np.broadcast_to(mass, values.shape).ravel(), count * _BINS)
    cumulative = np.zeros((count, _BINS + 1))
    np.cumsum(retained.reshape(count, _BINS), axis=1, out=cumulative[:, 1:])
    return cumulative


def _distribution(cumulative: Floats, points: Floats, low: Floats, span: Floats, noise: float) -> Floats:
    """Return the distribution function of values plus noise at `points` (m, levels, p), same shape.

    `cumulative` is the mass below each bin edge, `low` and `span` (m,) are the range of the bins.
    """
    places = (points - low[:, None, None]) * (_BINS / span)[:, None, None]
    places = places[..., None] - (noise * _NODES) * (_BINS / span)[:, None, None, None]
    np.minimum(np.maximum(places, 0, out=places), _BINS * (1 - 1e-15), out=places)
    bins = places.astype(np.intp)
    places -= bins
    bins += np.arange(0, cumulative.size, _BINS + 1)[:, None, None, None]
    flat = cumulative.ravel()
    below = flat[bins]
    result: Floats = (below + places * (flat[bins + 1] - below)) @ _NODE_MASS
    return result


# a prepared format is twice as fast as inserting the digits each time
_IN_DIGITS: Final = tuple(f"%.{digits}g" for digits in range(18))
_IN_SIX: Final = _IN_DIGITS[6]


def six_digits(value: float) -> float:
    """Round a number to six significant digits; numbers that are not finite stay as they are.

    >>> six_digits(1234.56789), six_digits(float("inf"))
    (1234.57, inf)
    """
    return float(_IN_SIX % value)


def rounded(*values: float) -> tuple[float, ...]:
    """Round numbers to six significant digits."""
    return tuple([float(_IN_SIX % value) for value in values])


def rounded_rows(rows: Iterable[Iterable[float]]) -> tuple[tuple[float, ...], ...]:
    """Round rows of numbers to six significant digits."""
    return tuple(rounded(*row) for row in rows)


def to_digits(value: float, digits: int) -> float:
    """Round a number to `digits` significant digits; numbers that are not finite stay as they are."""
    return float(_IN_DIGITS[digits] % value)


def all_to_digits(values: Iterable[float], digits: int) -> tuple[float, ...]:
    """Round numbers to `digits` significant digits."""
    in_digits = _IN_DIGITS[digits]
    return tuple([float(in_digits % value) for value in values])


BAND_DIGITS_MIN: Final = 3
BAND_DIGITS_MAX: Final = 6
# least digits up to the largest size that was run: three added a fifth to the median error there
DIGITS_INSIDE: Final = 5


def band_digits(value: float, low: float, high: float, least: int = BAND_DIGITS_MIN) -> int:
    """Return the number of significant digits (`least` to six) that resolves about a hundredth of the width of the band.

    >>> band_digits(3724.18, 3102.0, 4498.0), band_digits(3724.18, 3720.0, 3729.0)
    (3, 5)
    """
    if value == 0 or high <= low:
        return BAND_DIGITS_MAX
    return min(max(2 - math.floor(math.log10((high - low) / abs(value))), least), BAND_DIGITS_MAX)


def rounded_band(value: float, low: float, high: float, least: int = BAND_DIGITS_MIN) -> tuple[float, float, float]:
    """Round a value and its band to the digits that the band supports, at least `least`.

    >>> rounded_band(3724.18, 3102.0, 4498.0)
    (3720.0, 3100.0, 4500.0)
    """
    in_digits = _IN_DIGITS[band_digits(value, low, high, least)]
    return float(in_digits % value), float(in_digits % low), float(in_digits % high)


_NORMAL: Final = NormalDist()
Z95: Final = _NORMAL.inv_cdf(0.95)  # half-width of a 90 % band, in standard deviations


def share_below(value_s: float, median_s: float, low_s: float, high_s: float) -> float:
    """Return the share of runs below `value_s`, from a median and a 90 % band (probability integral transform, Dawid 1984).

    On either side of the median, the logarithm is assumed to be normal. At the median the result is 0.5.

    >>> [round(share_below(value_s, 100.0, 50.0, 150.0), 3) for value_s in (50.0, 80.0, 100.0, 150.0)]
    [0.05, 0.298, 0.5, 0.95]
    """
    ln_ratio = math.log(value_s / median_s)
    half_width = math.log(high_s / median_s) if ln_ratio > 0 else math.log(median_s / low_s)
    if half_width <= 0:
        return 0.5 if ln_ratio == 0 else float(ln_ratio > 0)
    return _NORMAL.cdf(ln_ratio / half_width * Z95)


def pinball(observed: float, quantile: float, level: float) -> float:
    """Return the pinball loss of a predicted quantile, in the unit of the numbers (Koenker and Bassett, 1978).

    >>> pinball(130.0, 100.0, 0.5), round(pinball(90.0, 100.0, 0.9), 9)
    (15.0, 1.0)
    """
    past = observed - quantile
    return max(level * past, (level - 1.0) * past)


# Rank correlation (C. Spearman, "The proof and measurement of association between two things", 1904).


def ranks(columns: Floats) -> Floats:
    """Return the ranks of the rows in each column (k, p), from 1; equal values share their mean rank."""
    order = columns.argsort(axis=0)
    ordered = np.take_along_axis(columns, order, axis=0)
    row = np.arange(1.0, len(columns) + 1)[:, None]
    begins = np.ones(columns.shape, bool)
    begins[1:] = ordered[1:] != ordered[:-1]
    ends = np.ones(columns.shape, bool)
    ends[:-1] = begins[1:]
    first = np.maximum.accumulate(np.where(begins, row, 0.0), axis=0)
    last = np.minimum.accumulate(np.where(ends, row, np.inf)[::-1], axis=0)[::-1]
    ranked = np.empty(columns.shape)
    np.put_along_axis(ranked, order, (first + last) / 2, axis=0)
    return ranked


def spearman(columns: Floats, target: Floats, weight: Floats | None = None) -> Floats:
    """Return the rank correlation, weighted by `weight` (k,), of each column (k, p) with the target (k,); 0 if either is constant.

    >>> spearman(np.array([[1.0], [2.0], [2.0], [3.0]]), np.arange(4.0)).round(6).tolist()
    [0.948683]
    """
    heavy = np.ones(len(target)) if weight is None else weight
    share = heavy / heavy.sum()
    x, y = ranks(columns), ranks(target[:, None])[:, 0]
    x, y = x - share @ x, y - share @ y
    product = np.sqrt((share @ x**2) * (share @ y**2))
    rho = np.zeros(columns.shape[1])
    np.divide(share @ (x * y[:, None]), product, out=rho, where=product > 1e-12)
    return rho
