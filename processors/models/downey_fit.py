"""Exact weighted fit of Downey's model: a global search over the average parallelism A, everything else in closed form.

Narrow valleys lie where the last sizes are saturated, so the search starts not only from a grid of A but from the values
at which a size changes its piece and from the exact optima of "the first m sizes follow Amdahl, the rest is saturated".
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from processors.models.downey import Floats, inverse_speedup, sigma_of_curvature, speedup
from processors.models.downey_profile import Limits, Profile, ProfileSolver
from processors.models.observations import Observations, observations

_UNIT_GRID = np.linspace(0, 1, 65)
_MINIMA = 4
_UNIT_ZOOM = np.linspace(0, 1, 33)
_TRIPLE = np.array([-1, 0, 1])
_NARROWING = (1 / 32, 0)  # of the step between the three points of a parabola; 0 evaluates the last vertex
_PARALLELISM_MAX = 1e300
_SAME = 1e-6  # relative distance below which two starts are one; twins would hide a valley's slope from each other
_FLAT = 4e-15  # objectives closer than this share of the sum of weights are equal: it is their rounding error


@dataclass(frozen=True, slots=True)
class DowneyFit:
    """A fitted curve T(n) = T1/S(n; A, sigma). `rms` is the weighted root mean square of T/t - 1 over the sizes.

    >>> DowneyFit(t1_s=1000.0, parallelism=16.0, sigma=0.5, rms=0.0, objective=0.0).predict([8.0]).round(4).tolist()
    [138.6719]
    """

    t1_s: float
    parallelism: float
    sigma: float
    rms: float
    objective: float

    def speedup(self, n: ArrayLike) -> Floats:
        """Return T(1)/T(n), shape of n; ValueError unless n is positive and finite."""
        return speedup(n, self.parallelism, self.sigma)

    def predict(self, n: ArrayLike) -> Floats:
        """Return run times in seconds, shape of n; ValueError unless n is positive and finite."""
        with np.errstate(over="ignore"):
            return np.minimum(self.t1_s / self.speedup(n), np.finfo(np.float64).max)


def fit_downey(
    n: ArrayLike,
    run_time_s: ArrayLike,
    weight: ArrayLike | None = None,
    *,
    parallelism_bounds: tuple[float, float] | None = None,
    serial_share_max: float | None = None,
    w_bounds: tuple[float, float] = (0.0, 1.0),
    t1_bounds: tuple[float, float] | None = None,
    seeds: Sequence[float] = (),
) -> DowneyFit:
    """Return the curve with the least weighted sum of squared relative errors (T(n)/t - 1)^2.

    A lies in `parallelism_bounds` (1 to 16 times the largest size by default: beyond, it is Amdahl's law anyway),
    w = curvature in `w_bounds` and at most serial_share_max * A, T1 in `t1_bounds` seconds. `seeds` are further values
    of A to look at. Where several A fit equally well (all sizes in the linear section) the smallest is returned.
    Raises ValueError on invalid observations or bounds.

    >>> fit = fit_downey([4, 8, 16, 32], [262.0, 139.0, 78.5, 63.0])
    >>> round(fit.parallelism, 2), round(fit.sigma, 2), round(fit.t1_s), round(fit.rms, 5)
    (15.8, 0.54, 996, 0.00125)
    """
    seen = observations(n, run_time_s, weight)
    bounds = parallelism_bounds or (1.0, min(16 * float(seen.n[-1]), _PARALLELISM_MAX))
    if not 1 <= bounds[0] <= bounds[1] < np.inf:
        raise ValueError("The bounds of the average parallelism must be ordered, at least 1 and finite.")
    solver = ProfileSolver(seen, Limits(w_bounds, serial_share_max, t1_bounds))
    start = solver.solve(_starts(seen, solver.sums, bounds, seeds))
    tolerance = _FLAT * float(seen.weight.sum())
    return _best(seen, _refined(solver, start, tolerance), tolerance)


def _starts(seen: Observations, sums: Floats, bounds: tuple[float, float], seeds: Sequence[float]) -> Floats:
    """Return where the search over A starts: sorted, within the bounds, bounds included."""
    low, high = bounds
    grid = low * np.exp(math.log(high / low) * _UNIT_GRID)
    given = [seed for seed in seeds if math.isfinite(seed)]
    values = np.concatenate([grid, seen.n, (seen.n + 1) / 2, _saturation_seeds(seen, sums), given])
    values = np.sort(np.minimum(np.maximum(values, low), high))
    return values[np.diff(values, prepend=0) > _SAME * values]


def _saturation_seeds(seen: Observations, sums: Floats) -> Floats:
    """Return T1/t for T1 of Amdahl fits of the first m sizes and t of each later size, and of their weighted mean."""
    later = np.arange(seen.n.size) >= np.arange(1, seen.n.size + 1)[:, None] - 1
    serial = _serial_times(sums)
    with np.errstate(over="ignore"):
        candidates = [np.outer(serial, seen.rate)[later], seen.n[0] * seen.rate / seen.rate[0]]
    rest1, rest2 = sums[2, -1] - sums[2, 1:-1], sums[6, -1] - sums[6, 1:-1]
    candidates.append(serial[:-1] * rest2 / np.maximum(rest1, 1e-200))
    return np.concatenate(candidates)


def _serial_times(sums: Floats) -> Floats:
    """Return T1 = a + b of the non-negative fit T = a/n + b to the first m sizes, m = 1..k, shape (k,)."""
    inverse, _, one, inverse2, _, _, one2, cross = sums[:, 1:]
    determinant = inverse2 * one2 - cross * cross
    a, b = inverse * one2 - one * cross, one * inverse2 - inverse * cross
    both = (a + b) / np.maximum(determinant, 1e-200)
    only_a, only_b = inverse / np.maximum(inverse2, 1e-200), one / np.maximum(one2, 1e-200)
    alone = np.where(b < 0, only_a, only_b)
    serial: Floats = np.where((a < 0) | (b < 0) | (determinant <= 1e-14 * inverse2 * one2), alone, both)
    return serial


def _refined(solver: ProfileSolver, start: Profile, tolerance: float) -> Profile:
    """Return the starts and what was found in the best local minima between their neighbours.

    A fine grid finds the valley's floor, then the vertices of ever narrower parabolas its lowest point.
    """
    ends = start.parallelism[[0, -1]]
    low, high = _brackets(start, tolerance)
    logs = low[:, None] + (high - low)[:, None] * _UNIT_ZOOM
    found = [start, solver.solve(np.clip(np.exp(logs).ravel(), *ends))]
    objective = found[-1].objective.reshape(logs.shape)
    best = np.minimum(np.maximum(_flat_argmin(objective, tolerance), 1), _UNIT_ZOOM.size - 2)
    around, step = best[:, None] + _TRIPLE, (high - low) * _UNIT_ZOOM[1]
    rows = np.arange(low.size)[:, None]
    centre, objective = logs[rows[:, 0], best], objective[rows, around]
    for narrowing in _NARROWING:
        centre = np.minimum(np.maximum(centre + step * _vertex(objective), low), high)
        step = narrowing * step
        points = np.exp(centre[:, None] + step[:, None] * _TRIPLE).ravel()
        found.append(solver.solve(np.clip(points, *ends)))
        objective = found[-1].objective.reshape(around.shape)
    return Profile(*(np.concatenate(columns) for columns in zip(*found, strict=True)))


def _vertex(objective: Floats) -> Floats:
    """Return where the parabolas through values at -1, 0 and 1, shape (m, 3), are least, at most 2 away."""
    before, at, after = objective.T
    bend = np.maximum(before - 2 * at + after, 1e-200)
    vertex: Floats = np.minimum(np.maximum((before - after) / (2 * bend), -2), 2)
    return vertex


def _brackets(start: Profile, tolerance: float) -> tuple[Floats, Floats]:
    """Return ln A of the neighbours of the best local minima, each of shape (at most _MINIMA,)."""
    objective = np.floor(start.objective / tolerance)  # noise must not pass for minima
    padded = np.concatenate([[np.inf], objective, [np.inf]])
    minima = np.flatnonzero((objective < padded[:-2]) & (objective <= padded[2:]))
    minima = minima[np.argsort(objective[minima], kind="stable")[:_MINIMA]]
    logs = np.log(start.parallelism)
    return logs[np.maximum(minima - 1, 0)], logs[np.minimum(minima + 1, logs.size - 1)]


def _flat_argmin(objective: Floats, tolerance: float) -> NDArray[np.intp]:
    """Return the first column of each row within the tolerance of the row's least value."""
    columns: NDArray[np.intp] = (objective <= objective.min(axis=1, keepdims=True) + tolerance).argmax(axis=1)
    return columns


def _best(seen: Observations, found: Profile, tolerance: float) -> DowneyFit:
    """Return the fit of the least objective, of the smallest A where several are equal.

    Among objectives that are equal as differences of sums the residuals themselves decide, which are far more exact.
    """
    flat = np.flatnonzero(found.objective <= found.objective.min() + tolerance)
    rates = inverse_speedup(1 / seen.n, found.parallelism[flat, None], found.curvature[flat, None]) * seen.rate
    residuals = found.t1_s[flat, None] * rates - 1
    objective = residuals * residuals @ seen.weight
    total = float(seen.weight.sum())
    best = np.flatnonzero(objective <= objective.min() * (1 + 1e-9) + 1e-30 * total)
    row = best[found.parallelism[flat[best]].argmin()]
    return DowneyFit(
        t1_s=seen.seconds(found.t1_s[flat[row]]),
        parallelism=float(found.parallelism[flat[row]]),
        sigma=float(sigma_of_curvature(found.curvature[flat[row]])),
        rms=math.sqrt(objective[row] / total),
        objective=float(objective[row]),
    )
