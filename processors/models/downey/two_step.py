"""ADEPT's curve for twice the largest size: biased to the closest observations, in two steps, within the envelope.

In step 1 the curve passes through the largest size; step 2 lets it deviate by a few per cent. The candidates are the curves
of the Bayes average, because a search per target would take milliseconds.
Source: Deshmeh, Machina and Sodan 2010 (ADEPT); weights, prior and percentages are this project's.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from processors.models.downey.bayes import Grid, Posterior
from processors.models.downey.curve import curvature_of_sigma
from processors.models.numerics.arrays import Floats

CANDIDATES_MAX: Final = 256
TARGET: Final = 2.0  # target size in multiples of the largest size
STEP = 0.03  # share by which step 2 may miss the closest observation
EXTENSION = 0.25  # share by which the parameters of step 2 may differ from those of step 1
NOISE_FLOOR = 0.03
SIGMA_MODE, SIGMA_SPREAD = 1.2, 1.1  # after Cirne and Berman's moldable jobs (IPDPS 2001)
PARALLELISM_FACTOR, PARALLELISM_SPREAD = 4.0, 2.0  # A is expected near four times the largest size, within a factor e^2

# Bounds for every Downey curve whose observations deviate by at most a given share.
# T is convex and nondecreasing in u = 1/n, the speed-up is at most n and at most A, and Karp and Flatt's serial share
# does not fall with n. Each bound below follows strictly from one of these facts and one or two observations.

DEVIATION = 0.05  # value of ADEPT
LARGEST = 1e300


@dataclass(frozen=True, slots=True)
class ParameterBounds:
    """Bounds of serial time, average parallelism A and serial share f = w / A.

    `t1_low_s` <= T(1) <= `t1_high_s`, `parallelism_low` <= A <= `parallelism_high` (inf: unbounded), f <= `serial_share_high`.
    """

    t1_low_s: float
    t1_high_s: float
    parallelism_low: float
    parallelism_high: float
    serial_share_high: float


def envelope(n: Floats, run_time_s: Floats, deviation: float = DEVIATION) -> ParameterBounds:
    """Return bounds on the parameters of all Downey curves within `deviation` of every observation.

    `n` (sorted, distinct, >= 1) and `run_time_s` have shape (k,). `deviation` limits |t / T - 1| and lies below 1. If no curve comes
    so close, the lower bound of T(1) is reduced to the upper bound, and the upper bound of A raised to the lower. The bounds follow
    from the convexity of 1/S in 1/n (Downey 1997); the idea of an envelope is ADEPT's.

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
    return ParameterBounds(
        t1_low, t1_high, min(parallelism_low, LARGEST), max(parallelism_high, parallelism_low), share
    )


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
    # for a dozen sizes, Python numbers are faster than arrays
    pairs = combinations(zip(u.tolist(), low.tolist(), high.tolist(), strict=True), 2)
    bounds = [
        low_j - max(high_i - low_j, 0.0) / (u_i - u_j) * u_j for (u_i, _, high_i), (u_j, low_j, _) in pairs if u_i > u_j
    ]
    return max(bounds, default=0.0)


def _serial_share(n: Floats, t1_low: float, high: Floats) -> float:
    beyond = n > 1.0
    if not beyond.any():
        return 1.0
    share = (high[beyond] * n[beyond] / t1_low - 1.0) / (n[beyond] - 1.0)
    return float(np.clip(share.min(), 0.0, 1.0))


def curve_bounds(n: Floats, run_time_s: Floats, targets: Floats, deviation: float = DEVIATION) -> tuple[Floats, Floats]:
    """Return the lowest and highest T(n*) of the whole model family, in seconds, each of the shape (m,) of `targets`.

    `n` (sorted, distinct) and `run_time_s` have shape (k,). A chord bounds a convex function from above, its extension from
    below; T falls with n, and n T(n) does not. A lower bound above the upper bound means that no Downey curve fits the data.
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
    """Return lower bounds from extended chords and upper bounds from chords, the best of each around every target, in seconds."""
    i, j = _pairs(u.size)  # u[i] > u[j]
    width, to_i, to_j = u[i] - u[j], u[i] - target, target - u[j]
    chord = np.where((to_i > 0) & (to_j > 0), (to_j * high[i] + to_i * high[j]) / width, np.inf)
    beyond_j = np.where(to_j < 0, low[j] + np.maximum(high[i] - low[j], 0.0) / width * to_j, -np.inf)
    beyond_i = np.where(to_i < 0, low[i] - (low[i] - high[j]) / width * to_i, -np.inf)
    return np.maximum(beyond_j, beyond_i).max(axis=1), chord.min(axis=1)


@lru_cache(maxsize=64)
def _pairs(count: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the indices (i, j) of all pairs i < j."""
    i, j = np.triu_indices(count, 1)
    return i, j


def prior_penalty(parallelism: Floats, sigma: Floats, largest_n: float) -> Floats:
    """Return -2 ln of the prior of each curve, up to a constant: 0 for the likeliest A and sigma.

    The prior falls slowly with sigma, so that Amdahl's law, the limit of large sigma, remains possible.
    """
    in_sigma = np.log1p(((sigma - SIGMA_MODE) / SIGMA_SPREAD) ** 2)
    in_parallelism = (np.log(parallelism / (PARALLELISM_FACTOR * largest_n)) / PARALLELISM_SPREAD) ** 2
    return np.asarray(in_sigma + in_parallelism)


def target_weights(n: Floats, target: float) -> Floats:
    """Return the weights of the sizes `n` (k,) in a fit that predicts `target`: 1 for the nearest size in log2 n, less for others."""
    weights = 1.0 / (1.0 + np.abs(np.log2(n / target))) ** 2
    return np.asarray(weights / weights.max())


def fit_adept(
    n: Floats, run_time_s: Floats, belief: Posterior, bounds: ParameterBounds, noise: float
) -> tuple[float, float, float]:
    """Return A, sigma and T(1) in seconds of ADEPT's curve, which is fitted to predict twice the largest size.

    `n` (ascending, distinct, at least 1) and `run_time_s` have shape (k,). The candidates are the cells of `belief`, the posterior
    of the same sizes; T(1) stays within `bounds`, their envelope. `noise` is the standard deviation of ln t.
    """
    cells = _candidates(belief)
    inverse = cells.inverse_speedups(n)
    parallelism, curvature = np.exp(cells.ln_parallelism), curvature_of_sigma(cells.sigma)
    weights = target_weights(n, TARGET * float(n[-1]))
    variance = max(NOISE_FLOOR, noise) ** 2
    prior = prior_penalty(parallelism, cells.sigma, float(n[-1]))
    relative = inverse / run_time_s[:, None]
    through = run_time_s[-1] / inverse[-1]
    first = int((weights @ (through * relative - 1.0) ** 2 / variance + prior).argmin())
    near = (np.abs(cells.ln_parallelism - cells.ln_parallelism[first]) <= np.log1p(EXTENSION)) & (
        np.abs(curvature - curvature[first]) <= EXTENSION / 2.0
    )
    free = (weights @ relative) / (weights @ relative**2)
    inside = np.clip(free, bounds.t1_low_s, bounds.t1_high_s)
    t1_s = np.clip(inside, through * (1.0 - STEP), through * (1.0 + STEP))
    cost = weights @ (t1_s * relative - 1.0) ** 2 / variance + prior
    best = int(np.where(near, cost, np.inf).argmin())
    return float(parallelism[best]), float(cells.sigma[best]), float(t1_s[best])


def _candidates(belief: Posterior) -> Grid:
    if belief.mass.size <= CANDIDATES_MAX:
        return belief.cells
    retained = np.sort(np.argpartition(belief.mass, -CANDIDATES_MAX)[-CANDIDATES_MAX:])
    return Grid(*(field[retained] for field in belief.cells))
