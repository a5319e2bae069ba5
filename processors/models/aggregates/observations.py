"""Checked observations of one application: what a fit of run times by size takes."""

import math
from operator import lt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from processors.models.downey.curve import checked_sizes
from processors.models.numerics.arrays import Floats

_TIME_MIN_S = np.finfo(np.float64).tiny
_TIME_MAX_S = np.finfo(np.float64).max
_WEIGHT_MAX = 1e100
_SIZE_MAX = 1e100


class Observations(NamedTuple):
    """Sizes, run times and weights, each of shape (k,), sorted; whatever the order they came in, the bits are the same.

    `scale_s` is a power of two near the smallest time: models work with `rate` = scale_s/run_time_s, which lies in
    (0, 2), and therefore neither overflow nor depend on the unit of time.

    >>> seen = observations([8, 4], [3000.0, 6000.0])
    >>> seen.n.tolist(), seen.scale_s, seen.seconds(2.0)
    ([4.0, 8.0], 2048.0, 4096.0)
    """

    n: Floats
    run_time_s: Floats
    weight: Floats
    rate: Floats
    scale_s: float

    def seconds(self, scaled: float) -> float:
        """Return a time in the models' unit as seconds, kept finite."""
        return min(max(float(scaled) * self.scale_s, _TIME_MIN_S), _TIME_MAX_S)


def observations(n: ArrayLike, run_time_s: ArrayLike, weight: ArrayLike | None = None) -> Observations:
    """Return checked observations; without weights each weighs 1.

    Sizes below one processor say no more than T(1) = n t, so they become observations of n = 1; sizes above 1e100
    become 1e100. What weighs 0 is left out.
    Raises ValueError unless sizes and times are positive and finite, weights 0 or between 1e-100 and 1e100 and not all
    0, and all of one length, at least 1.

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
    """Return whether observations are valid and as models take them; of a dozen numbers lists tell it sooner than arrays."""
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
