"""Exact weighted fit of Downey's model: a global search over the average parallelism A, everything else in closed form.

If the last sizes are saturated, the objective has narrow valleys. The search therefore starts from a grid of A, from the
values of A at which a size changes its piece, and from the exact optima of "the first m sizes follow Amdahl, the other
sizes are saturated".
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from processors.models.downey.curve import (
    Observations,
    ParallelismProfile,
    affine_pieces,
    inverse_speedup,
    observations,
    seconds,
    sigma_of_curvature,
    speedup,
)
from processors.models.numerics.arrays import Floats

# The best Downey curve for each given average parallelism A, by variable projection: exact and without a loop.
# If A and the piece of 1/S of each size are fixed, T(n) = T1 g0(n) + T1 w g1(n) is linear in (T1, T1 w).
# Relative least squares is then a 2x2 problem per *segment*, a range of w in which no size changes its piece: one segment
# for sigma <= 1 (the pieces depend on A alone) and k + 1 segments for sigma >= 1 (the p smallest sizes are not saturated).
# The problem of a segment is convex: its optimum is the free optimum clipped to the segment. All sums over sizes come from
# prefix sums, so each A costs O(k), and one call solves all A.
# Source of the method: Golub and Pereyra, variable projection (1973).

_TINY = 1e-200


class _Forms(NamedTuple):
    """Sums that give the objective of each segment as a function of T1 and f: total - 2 T1 a + T1^2 b.

    Here a = a0 + f a1 and b = b00 + 2 f b01 + f^2 b11. The serial share f = w/A replaces w, because the sums of the linear section
    then do not depend on A.
    """

    a0: Floats
    a1: Floats
    b00: Floats
    b01: Floats
    b11: Floats


def profiles(n: Floats, run_time_s: Floats, parallelism: Floats, curve: NDArray[np.intp]) -> ParallelismProfile:
    """Return the best fits for c curves with k sizes each: one fit for each A in `parallelism` (m,).

    `curve` (m,) is the index of the curve that each A belongs to. `n` (c, k) are distinct sizes from one on, ascending,
    `run_time_s` (c, k) their times; arguments are not checked.
    """
    scale_s = np.ldexp(1.0, np.frexp(run_time_s.min(axis=1))[1] - 1)[:, None]
    rate = np.maximum(scale_s / run_time_s, np.finfo(np.float64).tiny)
    best = ProfileSolver(n, rate, np.ones_like(n)).solve(parallelism, curve)
    return best._replace(t1_s=seconds(best.t1_s, scale_s[curve, 0]))


class ProfileSolver:
    """Finds the best Downey curve at given A for each of c curves with k sizes; T1 is in units of the scale of each curve.

    `n`, `rate` and `weight` are as in `Observations`, (c, k). `sums` are prefix sums over sizes, shape (8, c, k + 1), of
    weight * (u r, (1-u) r, r, u^2 r^2, u (1-u) r^2, (1-u)^2 r^2, r^2, u r^2) with u = 1/n and the rate r. The objective is a
    difference of these sums, exact within about 1e-15 of the sum of weights.
    """

    def __init__(self, n: Floats, rate: Floats, weight: Floats) -> None:
        u = 1 / n
        v, first = 1 - u, weight * rate
        second = first * rate
        self._n = n
        self._total = weight.sum(axis=1)
        self.sums = np.zeros((8, n.shape[0], n.shape[1] + 1))
        terms = [first * u, first * v, first, second * u * u, second * u * v, second * v * v, second, second * u]
        np.cumsum(terms, axis=2, out=self.sums[..., 1:])
        self._inverse_gap = 1 / np.maximum(n - 1, _TINY)
        self._middle = self.sums[[0, 2, 3, 6, 7]]
        self._columns = self.sums[[0, 1, 3, 4, 5, 2, 6]]
        self._columns[5:] = self.sums[[2, 6], :, -1:] - self._columns[5:]

    def solve(self, parallelism: Floats, curve: NDArray[np.intp] | None = None) -> ParallelismProfile:
        """Return the best curve at each A in `parallelism` (m,); `curve` (m,) is the index of the curve for each A, by default 0."""
        index = np.zeros(parallelism.size, np.intp) if curve is None else curve
        q = 1 / parallelism[:, None]
        low, high = self._segments(q, index)
        forms = self._forms(parallelism, q, index)
        share = _best_share(forms, low, high)
        a, b = forms.a0 + share * forms.a1, forms.b00 + share * (2 * forms.b01 + share * forms.b11)
        t1 = a / b
        gain = np.where(low <= high, t1 * (2 * a - t1 * b), -np.inf)
        best = gain.argmax(axis=1) + np.arange(0, gain.size, gain.shape[1])
        objective = np.maximum(self._total[index] - gain.ravel()[best], 0)
        return ParallelismProfile(parallelism, share.ravel()[best] * parallelism, t1.ravel()[best], objective)

    def _segments(self, q: Floats, curve: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """Return the lower and the upper limit of the serial share f = w/A in each segment, both (m, k + 2) for k sizes.

        Segments p = 0..k are for sigma >= 1: in segment p, the p smallest sizes are not saturated and the other sizes are. The last
        segment is for sigma <= 1. A size n is saturated if f <= q - (1 - q)/(n - 1), where `q` is 1/A.
        """
        low, high = np.empty((2, q.size, self._n.shape[1] + 2))
        saturation = q - (1 - q) * self._inverse_gap[curve]
        half = 0.5 * q
        np.maximum(saturation, half, out=low[:, 1:-1])
        np.minimum(saturation, q, out=high[:, :-2])
        low[:, :1], low[:, -1:], high[:, -2:-1], high[:, -1:] = half, 0.0, q, half
        return low, high

    def _forms(self, parallelism: Floats, q: Floats, curve: NDArray[np.intp]) -> _Forms:
        """Return the sums of each segment, shape (m, k + 2)."""
        sizes = self._n[curve]
        linear = (sizes <= parallelism[:, None]).sum(axis=1)
        picked = np.empty((7, parallelism.size, self._n.shape[1] + 2))
        np.take(self._columns, curve, axis=1, out=picked[:, :, :-1])
        picked[:, :, -1] = self._columns[:, curve, linear]
        picked[0] += q * picked[5]
        picked[2] += q * q * picked[6]
        forms = _Forms(*picked[:5])
        # the part of sizes between A and 2A - 1 with sigma <= 1: T = T1 (1/A + f ((2A - 1) u - 1))
        span = 2 * parallelism - 1
        full = (sizes <= span[:, None]).sum(axis=1)
        u1, one1, uu2, one2, u2 = self._middle[:, curve, full] - self._middle[:, curve, linear]
        forms.a1[:, -1] += span * u1 - one1
        forms.b01[:, -1] += (span * u2 - one2) / parallelism
        forms.b11[:, -1] += span * (span * uu2 - 2 * u2) + one2
        return forms


def _best_share(forms: _Forms, low: Floats, high: Floats) -> Floats:
    """Return the best f of each segment, clipped to the limits `low` and `high` of the segment.

    If the free optimum has T1 <= 0, no finite f is best; the sign of T1 f then selects the nearer limit.
    """
    t1_f = forms.a1 * forms.b00 - forms.a0 * forms.b01
    t1 = forms.a0 * forms.b11 - forms.a1 * forms.b01
    return np.maximum(np.minimum(t1_f / np.maximum(t1, _TINY), high), low)


# Approximate Downey fits of many subsets of the same sizes at once, for the search for patterns: exact fits are too slow.
# One grid over (A, curvature) serves all subsets; each subset then zooms in around its best cell. On random sizes and noise
# the relative error `rms` was within 0.0001 of that of the exact fit in 90 % of the cases, and always within 0.01.

PARALLELISM_STEPS = 48
PARALLELISM_REACH = 16.0  # times the largest size; beyond, the curve is Amdahl's
CURVATURES = np.append(np.linspace(0.0, 0.95, 20), 0.99)
ZOOM = np.linspace(-1.0, 1.0, 7)
ZOOMS = 6
SHRINK = 0.45


class QuickFitter:
    """Fits curves to many subsets of `k` sizes; `n` (sorted, distinct, at least 1) and `run_time_s` have shape (k,).

    >>> fitter = QuickFitter(np.array([1.0, 2.0, 4.0, 8.0]), np.array([8.0, 4.0, 2.0, 2.0]))
    >>> fitter.fit(np.array([[True, True, True, False], [True, True, True, True]])).objective.round(2).tolist()
    [0.0, 0.0]
    """

    def __init__(self, n: Floats, run_time_s: Floats) -> None:
        self._u = 1.0 / n
        self._rate = float(run_time_s.min()) / run_time_s
        self._scale = float(run_time_s.min())
        self._largest = PARALLELISM_REACH * float(n[-1])
        kinks = np.concatenate([n, (n + 1.0) / 2.0, float((n * self._rate.min() / self._rate).min()) * self._rate])
        grid = np.append(np.geomspace(1.0, self._largest, PARALLELISM_STEPS), np.clip(kinks, 1.0, self._largest))
        parallelism, curvature = np.meshgrid(grid, CURVATURES, indexing="ij")
        self._parallelism, self._curvature = parallelism.ravel(), curvature.ravel()
        self._shape = self._relative(self._parallelism, self._curvature)
        self._squares = self._shape**2

    def _relative(self, parallelism: Floats, curvature: Floats) -> Floats:
        """Return the run time of curves with T1 = 1 divided by the observed run time, at each size; shape (..., k)."""
        pieces = affine_pieces(parallelism, curvature)
        linear, flat, between = pieces.intercept[..., None]
        relative = pieces.slope[0][..., None] * self._u
        relative += linear
        np.maximum(relative, flat, out=relative)
        third = pieces.slope[2][..., None] * self._u
        third += between
        np.maximum(relative, third, out=relative)
        return np.asarray(np.multiply(relative, self._rate, out=relative))

    def fit(self, subsets: NDArray[np.bool_]) -> ParallelismProfile:
        """Return the fit of each subset, a row of `subsets` (m, k); each row needs at least one size.

        The sizes of a subset have equal weights of sum 1, so the objective is the mean square of the relative errors.
        """
        weights = subsets.astype(float)
        a, b = self._shape @ weights.T, self._squares @ weights.T
        best = (a * a / np.maximum(b, _TINY)).argmax(axis=0)
        parallelism, curvature = self._parallelism[best], self._curvature[best]
        step, width = np.log(self._largest) / PARALLELISM_STEPS, CURVATURES[1]
        for _ in range(ZOOMS):
            parallelism, curvature = self._zoomed(weights, parallelism, curvature, (step, width))
            step, width = step * SHRINK, width * SHRINK
        shape = self._relative(parallelism, curvature)
        a, b = (weights * shape).sum(axis=1), (weights * shape**2).sum(axis=1)
        t1 = a / np.maximum(b, _TINY)
        errors = (weights * (t1[:, None] * shape - 1.0) ** 2).sum(axis=1) / weights.sum(axis=1)
        return ParallelismProfile(parallelism, curvature, t1 * self._scale, errors)

    def _zoomed(
        self, weights: Floats, parallelism: Floats, curvature: Floats, steps: tuple[float, float]
    ) -> tuple[Floats, Floats]:
        """Return A and curvature of the best curve of each subset on a small grid around the current ones.

        `steps` are the half-widths of the grid in ln A and in curvature.
        """
        around = parallelism[:, None] * np.exp(ZOOM * steps[0])
        neighbours = curvature[:, None] + ZOOM * steps[1]
        a_grid = np.repeat(np.clip(around, 1.0, self._largest), ZOOM.size, axis=1)
        w_grid = np.tile(np.clip(neighbours, 0.0, CURVATURES[-1]), ZOOM.size)
        shape = self._relative(a_grid, w_grid)
        a = (shape @ weights[:, :, None])[..., 0]
        b = (shape**2 @ weights[:, :, None])[..., 0]
        best = (a * a / np.maximum(b, _TINY)).argmax(axis=1)
        rows = np.arange(best.size)
        return a_grid[rows, best], w_grid[rows, best]


_UNIT_GRID = np.linspace(0, 1, 65)
_MINIMA = 4
_UNIT_ZOOM = np.linspace(0, 1, 33)
_TRIPLE = np.array([-1, 0, 1])
_NARROWING = (1 / 32, 0)  # distance of a parabola's points, as a share of the step; 0 evaluates the last vertex
_PARALLELISM_MAX = 1e300
_SAME = 1e-6  # closer starts merge (relative distance), because twins would hide the slope of a valley
_FLAT = 4e-15  # objectives are equal if they differ by less than this share of the sum of weights (rounding)


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

    def predict(self, n: ArrayLike) -> Floats:
        """Return run times in seconds, shape of n; ValueError unless n is positive and finite."""
        with np.errstate(over="ignore"):
            return np.minimum(self.t1_s / speedup(n, self.parallelism, self.sigma), np.finfo(np.float64).max)


def fit_downey(n: ArrayLike, run_time_s: ArrayLike, weight: ArrayLike | None = None) -> DowneyFit:
    """Return the curve with the least weighted sum of squared relative errors (T(n)/t - 1)^2.

    A lies between 1 and 16 times the largest size, because larger A give Amdahl's law. If several A fit equally well (all
    sizes in the linear section), the smallest A wins. Raises ValueError on invalid observations.

    >>> fit = fit_downey([4, 8, 16, 32], [262.0, 139.0, 78.5, 63.0])
    >>> round(fit.parallelism, 2), round(fit.sigma, 2), round(fit.t1_s), round(fit.rms, 5)
    (15.8, 0.54, 996, 0.00125)
    """
    data = observations(n, run_time_s, weight)
    solver = ProfileSolver(data.n[None], data.rate[None], data.weight[None])
    start = solver.solve(_starts(data, solver.sums[:, 0]))
    tolerance = _FLAT * float(data.weight.sum())
    return _best(data, _refined(solver, start, tolerance), tolerance)


def _starts(data: Observations, sums: Floats) -> Floats:
    """Return the start values of A for the search, sorted, with both ends of the range."""
    high = min(16 * float(data.n[-1]), _PARALLELISM_MAX)
    grid = np.exp(math.log(high) * _UNIT_GRID)
    values = np.concatenate([grid, data.n, (data.n + 1) / 2, _saturation_seeds(data, sums)])
    values = np.sort(np.minimum(np.maximum(values, 1.0), high))
    return values[np.diff(values, prepend=0) > _SAME * values]


def _saturation_seeds(data: Observations, sums: Floats) -> Floats:
    """Return start values of A, T1/t, for curves that follow Amdahl's law up to m sizes and are saturated from there on.

    T1 is that of the fit to the first m sizes; t is the time of each later size, and their weighted mean.
    """
    later = np.arange(data.n.size) >= np.arange(1, data.n.size + 1)[:, None] - 1
    serial = _serial_times(sums)
    with np.errstate(over="ignore"):
        candidates = [np.outer(serial, data.rate)[later], data.n[0] * data.rate / data.rate[0]]
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


def _refined(solver: ProfileSolver, start: ParallelismProfile, tolerance: float) -> ParallelismProfile:
    """Return the profile `start` with the points that were searched around its best local minima.

    A fine grid between the neighbours of each minimum is followed by vertices of parabolas with ever smaller steps.
    """
    ends = start.parallelism[[0, -1]]
    low, high = _brackets(start, tolerance)
    logs = low[:, None] + (high - low)[:, None] * _UNIT_ZOOM
    searched = [start, solver.solve(np.clip(np.exp(logs).ravel(), *ends))]
    objective = searched[-1].objective.reshape(logs.shape)
    lowest = (objective <= objective.min(axis=1, keepdims=True) + tolerance).argmax(axis=1)  # the first of equal minima
    best = np.minimum(np.maximum(lowest, 1), _UNIT_ZOOM.size - 2)
    around, step = best[:, None] + _TRIPLE, (high - low) * _UNIT_ZOOM[1]
    rows = np.arange(low.size)[:, None]
    centre, objective = logs[rows[:, 0], best], objective[rows, around]
    for narrowing in _NARROWING:
        centre = np.minimum(np.maximum(centre + step * _vertex(objective), low), high)
        step = narrowing * step
        points = np.exp(centre[:, None] + step[:, None] * _TRIPLE).ravel()
        searched.append(solver.solve(np.clip(points, *ends)))
        objective = searched[-1].objective.reshape(around.shape)
    return ParallelismProfile(*(np.concatenate(columns) for columns in zip(*searched, strict=True)))


def _vertex(objective: Floats) -> Floats:
    """Return the vertices of the parabolas through values at -1, 0 and 1, shape (m, 3), clipped to [-2, 2]."""
    before, centre, after = objective.T
    bend = np.maximum(before - 2 * centre + after, 1e-200)
    vertex: Floats = np.minimum(np.maximum((before - after) / (2 * bend), -2), 2)
    return vertex


def _brackets(start: ParallelismProfile, tolerance: float) -> tuple[Floats, Floats]:
    """Return ln A of the lower and of the upper neighbours of the best local minima, two arrays of at most _MINIMA values."""
    objective = np.floor(start.objective / tolerance)  # rounding errors must not count as minima
    padded = np.concatenate([[np.inf], objective, [np.inf]])
    minima = np.flatnonzero((objective < padded[:-2]) & (objective <= padded[2:]))
    minima = minima[np.argsort(objective[minima], kind="stable")[:_MINIMA]]
    logs = np.log(start.parallelism)
    return logs[np.maximum(minima - 1, 0)], logs[np.minimum(minima + 1, logs.size - 1)]


def _best(data: Observations, fits: ParallelismProfile, tolerance: float) -> DowneyFit:
    """Return the fit with the least objective; among equal ones the fit with the smallest A.

    Objectives within `tolerance` are computed again from the residuals, which is far more exact than a difference of sums.
    """
    flat = np.flatnonzero(fits.objective <= fits.objective.min() + tolerance)
    rates = inverse_speedup(1 / data.n, fits.parallelism[flat, None], fits.curvature[flat, None]) * data.rate
    residuals = fits.t1_s[flat, None] * rates - 1
    objective = residuals * residuals @ data.weight
    weight = float(data.weight.sum())
    best = np.flatnonzero(objective <= objective.min() * (1 + 1e-9) + 1e-30 * weight)
    row = best[fits.parallelism[flat[best]].argmin()]
    return DowneyFit(
        t1_s=float(seconds(fits.t1_s[flat[row]], data.scale_s)),
        parallelism=float(fits.parallelism[flat[row]]),
        sigma=float(sigma_of_curvature(fits.curvature[flat[row]])),
        rms=math.sqrt(objective[row] / weight),
        objective=float(objective[row]),
    )
