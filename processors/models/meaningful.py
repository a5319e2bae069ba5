"""Sizes worth allocating, read off a predicted curve: the knee, the last efficient size, the largest meaningful one."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

EFFICIENCY_MIN = 0.5
NO_GAIN = 0.01  # a run time this close to the shortest one is no reason to allocate more


class MeaningfulSizes(NamedTuple):
    """Each None where the curve does not show it within its range.

    `knee` is where speed-up times efficiency is greatest, `at_half_efficiency` the last size with an efficiency of 0.5,
    `max` the smaller of that and of the size from which the run time falls no more. From one unit on they are whole.

    >>> MeaningfulSizes(knee=16.0, at_half_efficiency=32.0, max=31.0).max
    31.0
    """

    knee: float | None
    at_half_efficiency: float | None
    max: float | None


def last_efficient_size(n: Floats, speedup: Floats, efficiency_min: float = EFFICIENCY_MIN) -> float | None:
    """Return the last size of a curve with at least this efficiency, interpolated; None where the curve ends before.

    >>> n = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    >>> last_efficient_size(n, np.minimum(n, 4.0))
    8.0
    """
    return _crossing(np.log(n), np.log(speedup / n) - np.log(efficiency_min))


def meaningful_sizes(n: Floats, speedup: Floats, allowed: Floats, speedup_allowed: Floats) -> MeaningfulSizes:
    """Return what a curve of `m` sizes shows; `n` (rising) and `speedup` have shape (m,).

    The knee is one of the `allowed` sizes (a,), rising; it and the speed-up there decide nothing else.
    Source of the knee: Eager, Zahorjan, Lazowska, "Speedup versus efficiency in parallel systems" (1989).

    >>> n = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    >>> meaningful_sizes(n, np.minimum(n, 4.0), n, np.minimum(n, 4.0))
    MeaningfulSizes(knee=4.0, at_half_efficiency=8.0, max=4.0)
    """
    half = _whole(last_efficient_size(n, speedup), np.floor)
    worth = speedup_allowed**2 / allowed if allowed.size else allowed
    best = int(worth.argmax()) if worth.size else 0
    knee = float(allowed[best]) if best < worth.size - 1 else None
    flat = _whole(_flat_from(n, speedup), np.ceil)
    known = [size for size in (half, flat) if size is not None]
    return MeaningfulSizes(knee, half, min(known, default=None))


def _whole(n: float | None, rounding: np.ufunc) -> float | None:
    """Return a whole size: nobody can be given a part of a node; sizes below one are shares and stay."""
    return n if n is None or n < 1.0 else float(rounding(round(n, 4)))


def _crossing(ln_n: Floats, excess: Floats) -> float | None:
    """Return the size from which the excess stays negative, interpolated; None where the curve ends before."""
    positive = np.flatnonzero(excess >= 0.0)
    last = int(positive[-1]) if positive.size else 0
    if not positive.size or last == ln_n.size - 1:
        return None
    share = excess[last] / (excess[last] - excess[last + 1])
    return float(round(np.exp(ln_n[last] + share * (ln_n[last + 1] - ln_n[last])), 6))


def _flat_from(n: Floats, speedup: Floats) -> float | None:
    """Return the first size whose run time is as good as the shortest one; None where it still falls at the end."""
    first = int(np.flatnonzero(speedup >= speedup.max() * (1.0 - NO_GAIN))[0])
    return None if first >= n.size - 2 else float(round(n[first], 6))
