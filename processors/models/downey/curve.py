"""Downey's model of speed-up, with average parallelism A and variance of parallelism sigma, and checked observations.

Source: A. Downey, "A model for speedup of parallel programs", UC Berkeley CSD-97-933 (1997). This module replaces Downey's two
regimes with five ranges of n by one formula: 1/S is a convex piecewise linear function of u = 1/n, and so the maximum of its
affine pieces. The second parameter is `curvature` (w in formulas): sigma/2 up to sigma = 1 and sigma/(1 + sigma) above, a
number in [0, 1). With w the first piece of both regimes is the same, Amdahl's law with the serial share w/A.
"""

import math
from operator import lt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from processors.models.numerics.arrays import Floats

SIGMA_MAX = 1e9  # beyond this sigma the model is Amdahl's law within 1e-9; finite, to keep infinity out of messages
_CURVATURE_MAX = 1 - 1 / (1 + SIGMA_MAX)


class AffinePieces(NamedTuple):
    """Intercepts and slopes of the three linear pieces of 1/S over u = 1/n <= 1; each field is an array (3, ...parameters)."""

    intercept: Floats
    slope: Floats


def curvature_of_sigma(sigma: ArrayLike) -> Floats:
    """Return the curvature for a variance of parallelism sigma: sigma/2 up to sigma = 1, sigma/(1 + sigma) above."""
    values = np.asarray(sigma, dtype=np.float64)
    return np.where(values <= 1, values / 2, 1 - 1 / (1 + values))


def sigma_of_curvature(curvature: ArrayLike) -> Floats:
    """Return the variance of parallelism for a curvature in [0, 1]; at most SIGMA_MAX."""
    values = np.minimum(np.asarray(curvature, dtype=np.float64), _CURVATURE_MAX)
    return np.where(values <= 0.5, 2 * values, values / (1 - values))


def affine_pieces(parallelism: ArrayLike, curvature: ArrayLike) -> AffinePieces:
    """Return the three linear pieces of 1/S(u): linear section, saturation, and the transition between them, which exists for sigma < 1.

    For sigma >= 1 the third piece never exceeds the first, so the maximum of all three is valid for every sigma.

    >>> pieces = affine_pieces(16.0, 0.25)
    >>> float((1 / (pieces.intercept + pieces.slope / 24)).min().round(6))
    14.912621
    """
    inverse = 1 / np.asarray(parallelism, dtype=np.float64)
    curvature = np.asarray(curvature, dtype=np.float64)
    inverse, curvature = np.broadcast_arrays(inverse, curvature)
    low = np.minimum(curvature, 0.5)
    share = curvature * inverse
    return AffinePieces(
        np.stack([share, inverse, (1 - low) * inverse]), np.stack([1 - share, 0 * share, low * (2 - inverse)])
    )


def inverse_speedup(u: ArrayLike, parallelism: ArrayLike, curvature: ArrayLike) -> Floats:
    """Return 1/S at u = 1/n; all arguments broadcast. Arguments are not checked, because fits call this function in inner loops.

    Below one processor (u > 1) the speed-up is the share of the processor, so 1/S = u.
    """
    u, curvature = np.asarray(u, dtype=np.float64), np.asarray(curvature, dtype=np.float64)
    inverse = 1 / np.asarray(parallelism, dtype=np.float64)
    low = np.minimum(curvature, 0.5)
    linear = u + curvature * (1 - u) * inverse
    between = 2 * low * u + (1 - low * (1 + u)) * inverse
    result: Floats = np.where(u > 1, u, np.maximum(np.maximum(linear, inverse), between))
    return result


class ParallelismProfile(NamedTuple):
    """The best curve at each A, fields of shape (m,): A, w, T1 in seconds, and the objective, the sum of weight (T/t - 1)^2."""

    parallelism: Floats
    curvature: Floats
    t1_s: Floats
    objective: Floats

    def predict(self, n: Floats) -> Floats:
        """Return the run times of m curves, shape (m, k), at common sizes `n` (k,) or at separate sizes `n` (m, k)."""
        inverse = inverse_speedup(1.0 / n, self.parallelism[:, None], self.curvature[:, None])
        return np.asarray(self.t1_s[:, None] * inverse)


def speedup(n: ArrayLike, parallelism: ArrayLike, sigma: ArrayLike) -> Floats:
    """Return S(n) = T(1)/T(n) for real n > 0; all arguments broadcast. For n < 1, S(n) = n.

    Raises ValueError unless n is positive and finite, parallelism finite and at least 1, sigma at least 0.

    >>> speedup([0.5, 1, 8, 24, 64], 16, 0.5).round(6).tolist()
    [0.5, 1.0, 7.211268, 14.912621, 16.0]
    """
    sizes = checked_sizes(n)
    average, variance = np.asarray(parallelism, dtype=np.float64), np.asarray(sigma, dtype=np.float64)
    if not (np.isfinite(average).all() and (average >= 1).all()):
        raise ValueError("The average parallelism must be finite and at least 1.")
    if not (variance >= 0).all():
        raise ValueError("The variance of parallelism must be at least 0.")
    ratio = 1 / inverse_speedup(1 / np.maximum(sizes, 1), average, curvature_of_sigma(variance))
    return np.where(sizes < 1, sizes, ratio)


def checked_sizes(n: ArrayLike) -> Floats:
    """Return sizes as an array of floats; ValueError unless each is positive and finite."""
    sizes = np.asarray(n, dtype=np.float64)
    if sizes.size and not (sizes.min() > 0 and sizes.max() < np.inf):
        raise ValueError("Sizes must be positive and finite.")
    return sizes


_TIME_MIN_S = np.finfo(np.float64).tiny
_TIME_MAX_S = np.finfo(np.float64).max
_WEIGHT_MAX = 1e100
_SIZE_MAX = 1e100


class Observations(NamedTuple):
    """Sizes, run times and weights, each of shape (k,), sorted, so that the order of the input does not change any bit of a result.

    `scale_s` is a power of two near the smallest time. Models work with `rate` = scale_s/run_time_s, which lies in (0, 2), so
    that models cannot overflow and do not depend on the unit of time.

    >>> data = observations([8, 4], [3000.0, 6000.0])
    >>> data.n.tolist(), data.scale_s
    ([4.0, 8.0], 2048.0)
    """

    n: Floats
    run_time_s: Floats
    weight: Floats
    rate: Floats
    scale_s: float


def seconds(scaled: ArrayLike, scale_s: ArrayLike) -> Floats:
    """Return times in units of `scale_s` as finite seconds; both arguments broadcast.

    >>> seconds([2.0, np.inf], 2048.0).tolist()
    [4096.0, 1.7976931348623157e+308]
    """
    with np.errstate(over="ignore", under="ignore"):
        return np.minimum(np.maximum(np.multiply(scaled, scale_s), _TIME_MIN_S), _TIME_MAX_S)


def observations(n: ArrayLike, run_time_s: ArrayLike, weight: ArrayLike | None = None) -> Observations:
    """Return checked observations; without `weight`, each observation has the weight 1.

    A size below one processor only shows T(1) = n t and becomes an observation of n = 1. Sizes above 1e100 become 1e100.
    Observations of weight 0 are dropped.
    Raises ValueError unless sizes and times are positive and finite, weights 0 or between 1e-100 and 1e100 and not all 0, and
    all of one length, at least 1.

    >>> observations([4, 0.5], [25.0, 200.0])[:3]
    (array([1., 4.]), array([100.,  25.]), array([1., 1.]))
    """
    sizes, times = np.asarray(n, dtype=np.float64), np.asarray(run_time_s, dtype=np.float64)
    weights = np.ones_like(times) if weight is None else np.asarray(weight, dtype=np.float64)
    if _are_plain(sizes, times, weights):
        return _observed(sizes, times, weights)
    checked_sizes(sizes)
    _check(sizes, times, weights)
    if sizes.min() < 1:
        times = np.where(sizes < 1, np.maximum(times * np.minimum(sizes, 1), _TIME_MIN_S), times)
        sizes = np.maximum(sizes, 1)
    sizes = np.minimum(sizes, _SIZE_MAX)
    if weights.min() == 0:
        sizes, times, weights = sizes[weights > 0], times[weights > 0], weights[weights > 0]
    if not (sizes[1:] > sizes[:-1]).all():
        order = np.lexsort((weights, times, sizes))
        sizes, times, weights = sizes[order], times[order], weights[order]
    return _observed(sizes, times, weights)


def _observed(n: Floats, run_time_s: Floats, weight: Floats) -> Observations:
    scale_s = math.ldexp(1.0, math.frexp(run_time_s.min())[1] - 1)
    rate = np.maximum(scale_s / run_time_s, _TIME_MIN_S)
    return Observations(n, run_time_s, weight, rate, scale_s)


def _are_plain(sizes: Floats, times: Floats, weights: Floats) -> bool:
    """Return whether all values are valid, sorted and within bounds. For a dozen numbers, lists are faster than arrays."""
    if sizes.ndim != 1 or sizes.size == 0 or sizes.shape != times.shape or sizes.shape != weights.shape:
        return False
    n: list[float] = sizes.tolist()
    return (
        n[0] >= 1.0
        and n[-1] <= _SIZE_MAX
        and all(map(lt, n, n[1:]))
        and all(0.0 < time_s < math.inf for time_s in times.tolist())
        and all(1.0 / _WEIGHT_MAX <= weight <= _WEIGHT_MAX for weight in weights.tolist())
    )


def _check(sizes: Floats, times: Floats, weights: Floats) -> None:
    if sizes.ndim != 1 or sizes.size == 0 or sizes.shape != times.shape or sizes.shape != weights.shape:
        raise ValueError("Sizes, run times and weights must be lists of one length, at least 1.")
    if not (times.min() > 0 and times.max() < np.inf):
        raise ValueError("Run times must be positive and finite.")
    if not (((weights >= 1 / _WEIGHT_MAX) & (weights <= _WEIGHT_MAX) | (weights == 0)).all() and weights.any()):
        raise ValueError("Weights must be 0 or lie between 1e-100 and 1e100, and not all be 0.")
