"""Bounds that hold for every Downey curve whose observations deviate by at most a given share.

T is convex and nondecreasing in u = 1/n, the speed-up is at most n and at most A, and Karp and Flatt's serial share
does not fall with n. Each bound below follows from one of these facts and one or two observations, so none can miss.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from processors.models.closed_forms import pair_solutions

Floats = NDArray[np.float64]

DEVIATION = 0.05  # of ADEPT
PARALLELISM_CAP = 32.0  # times the largest size; beyond it a curve cannot be told from Amdahl's law
LARGEST = 1e300
PAIR = 2


@dataclass(frozen=True, slots=True)
class Envelope:
    """Bounds of serial time, average parallelism A and serial share f = w / A.

    `t1_low_s` <= T(1) <= `t1_high_s`, `parallelism_low` <= A <= `parallelism_high` (inf: unbounded), f <= `serial_share_high`.

    >>> Envelope(95.0, 105.0, 4.0, 40.0, 0.02).capped(1.0).parallelism_high
    32.0
    """

    t1_low_s: float
    t1_high_s: float
    parallelism_low: float
    parallelism_high: float
    serial_share_high: float

    def capped(self, largest_n: float) -> "Envelope":
        """Return the envelope with A at most 32 times the largest size, so that a search over A ends.

        >>> Envelope(95.0, 105.0, 4.0, float("inf"), 0.02).capped(8.0).parallelism_high
        256.0
        """
        high = max(min(self.parallelism_high, PARALLELISM_CAP * largest_n), self.parallelism_low)
        return Envelope(self.t1_low_s, self.t1_high_s, self.parallelism_low, high, self.serial_share_high)


def envelope(n: Floats, run_time_s: Floats, deviation: float = DEVIATION) -> Envelope:
    """Return the bounds that `k` observations give; `n` (sorted, distinct, >= 1) and `run_time_s` have shape (k,).

    `deviation` is the largest relative deviation |t / T - 1| of an observation, below 1.
    Where the data contradict the model (lower above upper bound) the upper bound of T(1) is kept.
    Derived from the convexity of Downey's speed-up (Downey 1997) in 1/n; the idea of the envelope is ADEPT's.

    >>> bounds = envelope(np.array([1.0, 2.0, 4.0, 8.0]), np.array([1000.0, 501.953, 252.930, 128.418]))
    >>> round(bounds.t1_low_s, 3), round(bounds.t1_high_s, 3), round(bounds.parallelism_low, 4), bounds.parallelism_high
    (952.381, 1052.632, 7.0454, inf)
    """
    with np.errstate(all="ignore"):
        low, high, u = run_time_s / (1.0 + deviation), run_time_s / (1.0 - deviation), 1.0 / n
        t1_low, t1_high = _serial_time(n, run_time_s, low, high, deviation)
        parallelism_low = max(1.0, t1_low / float(high.min()))
        at_no_serial_work = _limit_of_large_n(u, low, high)
        parallelism_high = t1_high / at_no_serial_work if at_no_serial_work > 0 else np.inf
        share = _serial_share(n, t1_low, high)
    return Envelope(t1_low, t1_high, min(parallelism_low, LARGEST), max(parallelism_high, parallelism_low), share)


def _serial_time(n: Floats, run_time_s: Floats, low: Floats, high: Floats, deviation: float) -> tuple[float, float]:
    if n[0] == 1.0:
        upper = float((n * high).min())
        return min(float(low[0]), upper), upper
    at_one = curve_bounds(n, run_time_s, np.ones(1), deviation)
    lower, upper = (float(bound[0]) for bound in at_one)
    return min(lower, upper), upper


def _limit_of_large_n(u: Floats, low: Floats, high: Floats) -> float:
    if u.size == 1:
        return 0.0
    i, j = _pairs(u.size)
    slope = np.maximum(high[i] - low[j], 0.0) / (u[i] - u[j])
    return float((low[j] - slope * u[j]).max())


def _serial_share(n: Floats, t1_low: float, high: Floats) -> float:
    beyond = n > 1.0
    if not beyond.any():
        return 1.0
    share = (high[beyond] * n[beyond] / t1_low - 1.0) / (n[beyond] - 1.0)
    return float(np.clip(share.min(), 0.0, 1.0))


def pair_parallelism(
    n: Floats, run_time_s: Floats, bounds: Envelope, deviation: float = DEVIATION
) -> tuple[float, float] | None:
    """Return the least and the greatest A that pairs of observations imply in closed form, None where none does.

    Each pair is solved with both times as observed and at both ends of their `deviation`, for T(1) at both `bounds` and
    between (or as observed). What lies outside `bounds` is left out. Not guaranteed to hold the true A.
    Source of the idea: ADEPT (Deshmeh, Machina, Sodan 2010).

    >>> n, t = np.array([1.0, 4.0, 8.0, 16.0, 24.0, 32.0]), np.array([1000.0, 262.695, 138.672, 77.148, 67.057, 62.5])
    >>> [round(limit, 1) for limit in pair_parallelism(n, t, envelope(n, t, 0.02), 0.02)]
    [15.4, 18.8]
    """
    with np.errstate(all="ignore"):
        ends = run_time_s * (1.0 + deviation * np.array([[-1.0], [0.0], [1.0]]))
        middle = run_time_s[0] if n[0] == 1.0 else np.sqrt(bounds.t1_low_s) * np.sqrt(bounds.t1_high_s)
        serial = np.array([bounds.t1_low_s, middle, bounds.t1_high_s])
        speedup = serial[:, None, None] / ends  # (T1, corner, size)
        parallel = np.flatnonzero(n > 1.0)
        if parallel.size < PAIR:
            return None
        i, j = (parallel[index] for index in _pairs(parallel.size))
        found = pair_solutions(n[i], speedup[:, :, None][..., i], n[j], speedup[:, None][..., j], deviation)
    limits = np.concatenate([found.parallelism.ravel(), found.parallelism_max.ravel()])
    limits = limits[(limits >= bounds.parallelism_low) & (limits <= bounds.parallelism_high) & np.isfinite(limits)]
    return (float(limits.min()), float(limits.max())) if limits.size else None


def curve_bounds(n: Floats, run_time_s: Floats, targets: Floats, deviation: float = DEVIATION) -> tuple[Floats, Floats]:
    """Return the lowest and highest T(n*) of the whole model family, in seconds, each of the shape (m,) of `targets`.

    `n` (sorted, distinct) and `run_time_s` have shape (k,). Chords bound a convex function from above, their
    extensions from below; T falls with n, and n T(n) does not. Lower above upper: no Downey curve fits the data.

    >>> n, t = np.array([1.0, 2.0, 4.0, 8.0]), np.array([1000.0, 501.953, 252.930, 128.418])
    >>> [bound.round(2).tolist() for bound in curve_bounds(n, t, np.array([64.0]))]
    [[15.29], [135.18]]
    """
    with np.errstate(all="ignore"):
        low, high = run_time_s / (1.0 + deviation), run_time_s / (1.0 - deviation)
        u, target = 1.0 / n, targets[:, None]
        upper = np.where(n <= target, high, high * n / target).min(axis=1)
        lower = np.where(n >= target, low, low * n / target).max(axis=1)
        if n.size > 1:
            below, above = _chords(u, low, high, 1.0 / target)
            lower, upper = np.maximum(lower, below), np.minimum(upper, above)
    return lower, upper


def _chords(u: Floats, low: Floats, high: Floats, target: Floats) -> tuple[Floats, Floats]:
    """Return the best lower bound of the extended chords and the best upper bound of the chords around each target."""
    i, j = _pairs(u.size)  # u[i] > u[j]
    width, to_i, to_j = u[i] - u[j], u[i] - target, target - u[j]
    chord = np.where((to_i > 0) & (to_j > 0), (to_j * high[i] + to_i * high[j]) / width, np.inf)
    beyond_j = np.where(to_j < 0, low[j] + np.maximum(high[i] - low[j], 0.0) / width * to_j, -np.inf)
    beyond_i = np.where(to_i < 0, low[i] - (low[i] - high[j]) / width * to_i, -np.inf)
    return np.maximum(beyond_j, beyond_i).max(axis=1), chord.min(axis=1)


def _pairs(count: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the indices (i, j) of all pairs i < j."""
    i, j = np.triu_indices(count, 1)
    return i, j
