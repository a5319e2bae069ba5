"""ADEPT's fit for one target by an exhaustive search: what the product's quick two steps are compared with."""

from dataclasses import dataclass

import numpy as np

from processors.models.downey.curve import inverse_speedup, sigma_of_curvature
from processors.models.downey.two_step import (
    EXTENSION,
    NOISE_FLOOR,
    STEP,
    ParameterBounds,
    envelope,
    prior_penalty,
    target_weights,
)
from processors.models.numerics.arrays import Floats

CURVATURE_MAX = 0.999  # sigma of about 1000, which no observation tells from Amdahl's law
PARALLELISM_CAP = 32.0  # times the largest size; beyond it a curve cannot be told from Amdahl's law
COARSE = 97
FINE = 17
ZOOMS = 10
MINIMA = 4


def exact_two_steps(n: Floats, run_time_s: Floats, target: float) -> float:
    """Return the run time in seconds at the target; `n` (sorted, distinct, at least three) and `run_time_s` have shape (k,)."""
    bounds = envelope(n, run_time_s)
    nearest = int(np.abs(np.log2(n / target))[::-1].argmin())
    problem = _Problem(n, run_time_s, target_weights(n, target), bounds, n.size - 1 - nearest, NOISE_FLOOR)
    low = bounds.parallelism_low
    high = max(min(bounds.parallelism_high, PARALLELISM_CAP * max(float(n[-1]), target)), low)
    seeds = np.concatenate([n, (n + 1.0) / 2.0])
    grid = np.concatenate([np.geomspace(low, high, COARSE), seeds[(seeds > low) & (seeds < high)]])
    first, curvature = _search(problem, np.sort(grid), (0.0, CURVATURE_MAX), 0.0)
    low, high = max(low, first / (1.0 + EXTENSION)), min(high, first * (1.0 + EXTENSION))
    near = (max(0.0, curvature - EXTENSION / 2.0), min(CURVATURE_MAX, curvature + EXTENSION / 2.0))
    parallelism, curvature = _search(problem, np.geomspace(low, high, COARSE // 2), near, STEP)
    t1_s = float(problem.serial_time(inverse_speedup(1.0 / n, parallelism, curvature), STEP))
    return t1_s * float(inverse_speedup(1.0 / target, parallelism, curvature))


@dataclass(frozen=True, slots=True)
class _Problem:
    """The observations, what each counts, the envelope, the index of the closest observation, and the noise."""

    n: Floats
    run_time_s: Floats
    weights: Floats
    bounds: ParameterBounds
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
