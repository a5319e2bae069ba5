"""Sizes worth allocating: efficiency, the knee, and the largest size that still makes sense."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from processors.models.downey import (
    Floats,
    affine_pieces,
    checked_sizes,
    curvature_of_sigma,
    saturation_n,
    speedup,
)


@dataclass(frozen=True, slots=True)
class UsefulSizes:
    """Advice about sizes: the knee among the allowed sizes, the largest n at an efficiency, the saturation, the maximum.

    >>> useful_sizes(16, 0.5, [8, 16, 32, 64])
    UsefulSizes(knee=16.0, efficient_max=32.0, saturation=31.0, maximum=31.0)
    """

    knee: float
    efficient_max: float
    saturation: float
    maximum: float


def efficiency(n: ArrayLike, parallelism: ArrayLike, sigma: ArrayLike) -> Floats:
    """Return S(n)/n; arguments broadcast. Raises ValueError as `speedup` does.

    >>> efficiency(32, 16, 0.5).tolist()
    0.5
    """
    return np.asarray(speedup(n, parallelism, sigma) / checked_sizes(n))


def largest_efficient_n(efficiency_min: float, parallelism: float, sigma: float) -> float:
    """Return the largest real n with S(n)/n of at least `efficiency_min`, in closed form.

    On each affine piece of 1/S, intercept + slope u <= u/E holds from one u = 1/n on; the largest of these decides.
    Infinite only where no piece limits n. Raises ValueError unless 0 < efficiency_min <= 1.

    >>> round(largest_efficient_n(0.7, 40, 1.5), 2)
    29.57
    """
    if not 0 < efficiency_min <= 1:
        raise ValueError("An efficiency lies above 0 and is at most 1.")
    pieces = affine_pieces(parallelism, curvature_of_sigma(sigma))
    margin = np.maximum(1 / efficiency_min - pieces.slope, 0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        u = np.nan_to_num(pieces.intercept / margin, nan=0.0)
        return float(1 / min(u.max(), 1.0))


def knee(allowed: ArrayLike, parallelism: float, sigma: float) -> float:
    """Return the allowed size with the greatest S(n)^2/n, speed-up times efficiency; the smaller one of equals.

    Source: Eager, Zahorjan, Lazowska, "Speedup versus efficiency in parallel systems" (1989).

    >>> knee([8, 16, 32, 64, 128], 40, 1.5)
    64.0
    """
    sizes = np.sort(np.atleast_1d(checked_sizes(allowed)))
    if sizes.size == 0:
        raise ValueError("The knee needs at least one allowed size.")
    ratio = speedup(sizes, parallelism, sigma)
    return float(sizes[np.argmax(ratio * (ratio / sizes))])


def maximum_useful_n(
    parallelism: float, sigma: float, efficiency_min: float = 0.5, fastest_n: float = math.inf
) -> float:
    """Return the maximum meaningful size: the smallest of saturation, the efficiency limit and the fastest size.

    `fastest_n` is where the run time that is really predicted is least, where that is known.

    >>> maximum_useful_n(16, 0.5)
    31.0
    """
    limit = largest_efficient_n(efficiency_min, parallelism, sigma)
    return min(float(saturation_n(parallelism, sigma)), limit, fastest_n)


def useful_sizes(
    parallelism: float,
    sigma: float,
    allowed: ArrayLike,
    efficiency_min: float = 0.5,
    fastest_n: float = math.inf,
) -> UsefulSizes:
    """Return all advice about sizes for one curve. Raises ValueError on invalid sizes, parameters or efficiency.

    >>> useful_sizes(40, 0.3, [32, 40, 64]).knee
    40.0
    """
    return UsefulSizes(
        knee(allowed, parallelism, sigma),
        largest_efficient_n(efficiency_min, parallelism, sigma),
        float(saturation_n(parallelism, sigma)),
        maximum_useful_n(parallelism, sigma, efficiency_min, fastest_n),
    )
