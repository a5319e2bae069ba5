"""ADEPT's curve fit for one target size: biased to the closest observations, in two steps, within the envelope.

Step 1 lets the curve pass through the observation closest to the target. Step 2 frees it by a few per cent.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from processors.models.downey import inverse_speedup, sigma_of_curvature
from processors.models.envelope import Envelope

Floats = NDArray[np.float64]

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

    >>> from processors.models.envelope import envelope
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
