"""Downey fits of many subsets of the same sizes at once: what a search for patterns asks, where one exact fit each is too slow.

One grid over (A, curvature) serves all subsets, then each zooms in around its own best cell. On random sizes and noise
the relative error `rms` came out within 0.0001 of the exact fit's in 90 % of the cases, within 0.01 in all.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from processors.models.downey import affine_pieces, inverse_speedup

Floats = NDArray[np.float64]

PARALLELISM_STEPS = 48
PARALLELISM_REACH = 16.0  # times the largest size; beyond, the curve is Amdahl's
CURVATURES = np.append(np.linspace(0.0, 0.95, 20), 0.99)
ZOOM = np.linspace(-1.0, 1.0, 7)
ZOOMS = 6
SHRINK = 0.45
TINY = 1e-200


class QuickFits(NamedTuple):
    """One curve per subset: T1 in the unit of the times, A, curvature, relative error `rms`; shape (m,).

    >>> QuickFits(np.ones(1), np.array([4.0]), np.zeros(1), np.zeros(1)).predict(np.array([2.0, 8.0])).tolist()
    [[0.5, 0.25]]
    """

    t1_s: Floats
    parallelism: Floats
    curvature: Floats
    rms: Floats

    def predict(self, n: Floats) -> Floats:
        """Return the run times of all curves at all sizes, shape (m, sizes).

        >>> QuickFits(np.ones(1), np.array([4.0]), np.zeros(1), np.zeros(1)).predict(np.array([1.0])).tolist()
        [[1.0]]
        """
        inverse = inverse_speedup(1.0 / n, self.parallelism[:, None], self.curvature[:, None])
        return np.asarray(self.t1_s[:, None] * inverse)


class QuickFitter:
    """Fits of subsets of `k` sizes; `n` (sorted, distinct, at least 1) and `run_time_s` have shape (k,).

    >>> fitter = QuickFitter(np.array([1.0, 2.0, 4.0, 8.0]), np.array([8.0, 4.0, 2.0, 2.0]))
    >>> fitter.fit(np.array([[True, True, True, False], [True, True, True, True]])).rms.round(2).tolist()
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
        """Return T/T1 over t of each curve at each size, shape (..., k)."""
        pieces = affine_pieces(parallelism, curvature)
        linear, flat, between = pieces.intercept[..., None]
        relative = pieces.slope[0][..., None] * self._u
        relative += linear
        np.maximum(relative, flat, out=relative)
        third = pieces.slope[2][..., None] * self._u
        third += between
        np.maximum(relative, third, out=relative)
        return np.asarray(np.multiply(relative, self._rate, out=relative))

    def fit(self, subsets: NDArray[np.bool_]) -> QuickFits:
        """Return the fit of each subset, a row of `subsets` (m, k); each needs at least one size."""
        weights = subsets.astype(float)
        a, b = self._shape @ weights.T, self._squares @ weights.T
        best = (a * a / np.maximum(b, TINY)).argmax(axis=0)
        parallelism, curvature = self._parallelism[best], self._curvature[best]
        step, width = np.log(self._largest) / PARALLELISM_STEPS, CURVATURES[1]
        for _ in range(ZOOMS):
            parallelism, curvature = self._zoomed(weights, parallelism, curvature, (step, width))
            step, width = step * SHRINK, width * SHRINK
        shape = self._relative(parallelism, curvature)
        a, b = (weights * shape).sum(axis=1), (weights * shape**2).sum(axis=1)
        t1 = a / np.maximum(b, TINY)
        errors = (weights * (t1[:, None] * shape - 1.0) ** 2).sum(axis=1) / weights.sum(axis=1)
        return QuickFits(t1 * self._scale, parallelism, curvature, np.sqrt(errors))

    def _zoomed(
        self, weights: Floats, parallelism: Floats, curvature: Floats, steps: tuple[float, float]
    ) -> tuple[Floats, Floats]:
        """Return the best curve of each subset on a small grid around the given one."""
        around = parallelism[:, None] * np.exp(ZOOM * steps[0])
        beside = curvature[:, None] + ZOOM * steps[1]
        a_grid = np.repeat(np.clip(around, 1.0, self._largest), ZOOM.size, axis=1)
        w_grid = np.tile(np.clip(beside, 0.0, CURVATURES[-1]), ZOOM.size)
        shape = self._relative(a_grid, w_grid)
        a = (shape @ weights[:, :, None])[..., 0]
        b = (shape**2 @ weights[:, :, None])[..., 0]
        best = (a * a / np.maximum(b, TINY)).argmax(axis=1)
        rows = np.arange(best.size)
        return a_grid[rows, best], w_grid[rows, best]
