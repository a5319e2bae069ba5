"""ADEPT's curve fit for one target size: biased to the closest observations, in two steps, within the envelope.

Step 1 lets the curve pass through the observation closest to the target. Step 2 frees it by a few per cent.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from processors.models.downey.closed_forms import pair_solutions
from processors.models.downey.curve import inverse_speedup, sigma_of_curvature

Floats = NDArray[np.float64]


# Bounds that hold for every Downey curve whose observations deviate by at most a given share.
#
# T is convex and nondecreasing in u = 1/n, the speed-up is at most n and at most A, and Karp and Flatt's serial share
# does not fall with n. Each bound below follows from one of these facts and one or two observations, so none can miss.


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


STEP = 0.03  # by which step 2 may miss the closest observation
EXTENSION = 0.25  # by which step 2 may leave the parameters of step 1
NOISE_FLOOR = 0.03
SIGMA_MODE, SIGMA_SPREAD = 1.2, 1.1  # after Cirne and Berman's moldable jobs (IPDPS 2001)
PARALLELISM_FACTOR, PARALLELISM_SPREAD = 4.0, 2.0  # A is expected near four times the largest size, within e^2
CURVATURE_MAX = 0.999  # sigma of about 1000, which no observation tells from Amdahl's law
COARSE = 97
FINE = 17
ZOOMS = 10
MINIMA = 4


@dataclass(frozen=True, slots=True)
class TwoStepFit:
    """The curve for one target: `run_time_s` there, speed-up, parameters, and the relative error `rms` at the observations.

    `closest_n` is the observation that the curve was biased to.

    >>> TwoStepFit(64.0, 10.0, 4.0, 16.0, 0.5, 40.0, 32.0, 0.01).speedup
    4.0
    """

    target_n: float
    run_time_s: float
    speedup: float
    parallelism: float
    sigma: float
    t1_s: float
    closest_n: float
    rms: float


def prior_penalty(parallelism: Floats, sigma: Floats, largest_n: float) -> Floats:
    """Return what a curve costs that is unlike those of parallel applications; a pure number, 0 for the likeliest.

    The tail in sigma is heavy so that Amdahl's law, its limit, stays within reach.

    >>> float(prior_penalty(np.array(128.0), np.array(1.2), 32.0))
    0.0
    """
    in_sigma = np.log1p(((sigma - SIGMA_MODE) / SIGMA_SPREAD) ** 2)
    in_parallelism = (np.log(parallelism / (PARALLELISM_FACTOR * largest_n)) / PARALLELISM_SPREAD) ** 2
    return np.asarray(in_sigma + in_parallelism)


def target_weights(n: Floats, target: float) -> Floats:
    """Return how much each size counts for the target, shape (k,), the largest 1.

    >>> target_weights(np.array([4.0, 8.0, 16.0]), 16.0).round(4).tolist()
    [0.1111, 0.25, 1.0]
    """
    weights = 1.0 / (1.0 + np.abs(np.log2(n / target))) ** 2
    return np.asarray(weights / weights.max())


def closest(n: Floats, target: float) -> int:
    """Return the index of the size closest to the target in log n, of two the larger.

    >>> closest(np.array([4.0, 16.0]), 8.0)
    1
    """
    distance = np.abs(np.log2(n / target))
    return int(np.flatnonzero(distance <= distance.min() + 1e-12)[-1])


def fit_two_step(
    n: Floats, run_time_s: Floats, target: float, bounds: Envelope, *, noise: float = 0.0, trust: Floats | None = None
) -> TwoStepFit:
    """Return the fit for the target; `n` (sorted, distinct, at least three) and `run_time_s` have shape (k,).

    `bounds` is the envelope of the observations, `noise` the standard deviation of ln t, `trust` (k,) lowers the weight of
    single sizes (anomalous ones; those below 1 are no closest observation).
    Source: Deshmeh, Machina and Sodan 2010 (ADEPT); weights, prior and percentages are this project's.

    >>> from processors.models.downey.two_step import envelope
    >>> n, t = np.array([4.0, 8.0, 16.0, 32.0]), np.array([262.0, 139.0, 78.5, 63.0])
    >>> fit = fit_two_step(n, t, 64.0, envelope(n, t))
    >>> round(fit.run_time_s), round(fit.parallelism, 1), fit.closest_n
    (63, 15.8, 32.0)
    """
    weights = target_weights(n, target)
    if trust is not None:
        weights = weights * trust
        weights = weights / weights.max()
    trusted = np.arange(n.size) if trust is None or not (trust >= 1.0).any() else np.flatnonzero(trust >= 1.0)
    nearest = int(trusted[closest(n[trusted], target)])
    problem = _Problem(
        n, run_time_s, weights, bounds.capped(max(float(n[-1]), target)), nearest, max(NOISE_FLOOR, noise)
    )
    return _solve(problem, target)


@dataclass(frozen=True, slots=True)
class _Problem:
    """The observations, what each counts, the envelope, the index of the closest observation, and the noise."""

    n: Floats
    run_time_s: Floats
    weights: Floats
    bounds: Envelope
    nearest: int
    noise: float

    def serial_time(self, inverse: Floats, slack: float) -> Floats:
        """Return T(1) of each curve (..., k): through the closest observation, or within `slack` of it."""
        through = self.run_time_s[self.nearest] / inverse[..., self.nearest]
        if slack == 0.0:
            return np.asarray(through)
        relative = inverse / self.run_time_s
        free = (self.weights * relative).sum(axis=-1) / (self.weights * relative**2).sum(axis=-1)
        inside = np.clip(free, self.bounds.t1_low_s, self.bounds.t1_high_s)
        return np.asarray(
            np.clip(inside, through * (1.0 - slack), through * (1.0 + slack))
        )  # the observation before the envelope

    def cost(self, parallelism: Floats, curvature: Floats, slack: float) -> Floats:
        """Return weighted squared errors over noise, plus the prior, of each curve; `parallelism` (a,), `curvature` (a, m)."""
        sigma = sigma_of_curvature(curvature)
        inverse = inverse_speedup(1.0 / self.n, parallelism[:, None, None], curvature[..., None])
        errors = self.serial_time(inverse, slack)[..., None] * inverse / self.run_time_s - 1.0
        squares = (self.weights * errors**2).sum(axis=-1)
        return np.asarray(squares / self.noise**2 + prior_penalty(parallelism[:, None], sigma, float(self.n[-1])))


def _solve(problem: _Problem, target: float) -> TwoStepFit:
    bounds, n = problem.bounds, problem.n
    low, high = bounds.parallelism_low, bounds.parallelism_high
    seeds = np.concatenate([n, (n + 1.0) / 2.0])
    grid = np.concatenate([np.geomspace(low, high, COARSE), seeds[(seeds > low) & (seeds < high)]])
    first, curvature = _search(problem, np.sort(grid), (0.0, CURVATURE_MAX), 0.0)
    low, high = max(low, first / (1.0 + EXTENSION)), min(high, first * (1.0 + EXTENSION))
    near = (max(0.0, curvature - EXTENSION / 2.0), min(CURVATURE_MAX, curvature + EXTENSION / 2.0))
    parallelism, curvature = _search(problem, np.geomspace(low, high, COARSE // 2), near, STEP)
    return _result(problem, parallelism, curvature, target)


def _search(problem: _Problem, grid: Floats, curvature_range: tuple[float, float], slack: float) -> tuple[float, float]:
    """Return (A, curvature) of the lowest cost: a coarse grid, then zooms around its best local minima."""
    curvature = _candidates(problem, grid, curvature_range)
    cost = problem.cost(grid, curvature, slack)
    best_curvature = cost.argmin(axis=1)
    lowest = cost[np.arange(grid.size), best_curvature]
    padded = np.concatenate([[np.inf], lowest, [np.inf]])
    minima = np.flatnonzero((lowest <= padded[:-2]) & (lowest <= padded[2:]))
    minima = minima[np.argsort(lowest[minima], kind="stable")][:MINIMA]
    found = [
        _zoom(problem, _around(grid, int(i)), _around(curvature[i], int(best_curvature[i])), curvature_range, slack)
        for i in minima
    ]
    _, parallelism, best = min(found)
    return parallelism, best


def _candidates(problem: _Problem, grid: Floats, curvature_range: tuple[float, float]) -> Floats:
    """Return the values of curvature to try at each A, shape (a, m), sorted: an even lattice, and where a size starts to saturate."""
    low, high = _curvature_limits(problem, grid, curvature_range)
    lattice = low + (high - low) * np.linspace(0.0, 1.0, 2 * FINE + 1)
    beyond = problem.n[problem.n > 1.0]
    saturating = (beyond - grid[:, None]) / (beyond - 1.0)
    return np.sort(np.concatenate([lattice, np.clip(saturating, low, high)], axis=1), axis=1)


def _curvature_limits(problem: _Problem, grid: Floats, curvature_range: tuple[float, float]) -> tuple[float, Floats]:
    high = np.minimum(curvature_range[1], problem.bounds.serial_share_high * grid)
    return curvature_range[0], np.maximum(high, curvature_range[0])[:, None]


def _around(values: Floats, index: int, steps: int = 1) -> tuple[float, float]:
    return float(values[max(index - steps, 0)]), float(values[min(index + steps, values.size - 1)])


def _zoom(
    problem: _Problem,
    a_box: tuple[float, float],
    curvature_box: tuple[float, float],
    curvature_range: tuple[float, float],
    slack: float,
) -> tuple[float, float, float]:
    """Return (cost, A, curvature) of the lowest point that ever finer grids find inside the box."""
    best = (np.inf, a_box[0], curvature_box[0])
    for _ in range(ZOOMS):
        grid = np.geomspace(*a_box, FINE)
        low, high = _curvature_limits(problem, grid, curvature_range)
        curvature = np.clip(np.broadcast_to(np.linspace(*curvature_box, FINE), (FINE, FINE)), low, high)
        cost = problem.cost(grid, curvature, slack)
        row, column = divmod(int(cost.argmin()), FINE)
        best = min(best, (float(cost[row, column]), float(grid[row]), float(curvature[row, column])))
        # two steps wide: A and curvature trade off, so the lowest point may hide beside the best column
        a_box, curvature_box = _around(grid, row, 2), _around(curvature[row], column, 2)
    return best


def _result(problem: _Problem, parallelism: float, curvature: float, target: float) -> TwoStepFit:
    inverse = inverse_speedup(1.0 / problem.n, parallelism, curvature)
    t1_s = float(problem.serial_time(inverse, STEP))
    rms = float(np.sqrt(np.average((t1_s * inverse / problem.run_time_s - 1.0) ** 2, weights=problem.weights)))
    there = float(inverse_speedup(1.0 / target, parallelism, curvature))
    sigma = float(sigma_of_curvature(curvature))
    nearest = float(problem.n[problem.nearest])
    return TwoStepFit(target, t1_s * there, 1.0 / there, parallelism, sigma, t1_s, nearest, rms)
