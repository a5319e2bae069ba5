"""Bayesian average over Downey curves: run times with honest uncertainty from one size on.

A plain least squares fit cannot be extrapolated: in its linear section the average parallelism A is arbitrary. Here all
curves of a grid over (ln A, sigma) vote, weighted by their fit and by a prior after Cirne and Berman, "A model for
moldable supercomputer jobs" (IPDPS 2001): sigma about 1.2, A about four times the largest size seen. T1 is taken at its
best value in each cell.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from processors.models.downey import Floats, affine_pieces, checked_sizes, curvature_of_sigma
from processors.models.mixture import mixture_quantiles
from processors.models.observations import observations

LEVELS = (0.05, 0.5, 0.95)
_PARALLELISM_STEPS = 96
_SIGMAS = np.concatenate([np.arange(20) * 0.05, 1 + 19 * (np.arange(24) / 23) ** 2])
_SIGMA_MEAN, _SIGMA_DEVIATION = 1.2, 1.1
_LN_PARALLELISM_DEVIATION = 2.0
_NEGLIGIBLE = 1e-9  # cells below this share of the largest are left out; together they weigh below 4e-6
_TINY = 1e-250
_LN_PARALLELISM_MAX = 700.0
_LN_MAX = math.log(np.finfo(np.float64).max)
_LN_MIN = math.log(np.finfo(np.float64).tiny)


class Grid(NamedTuple):
    """The cells of (ln A, sigma), each field of shape (4224,).

    `share` = w/A, `inverse` = 1/A, `between` and `slope` make up 1/S: max(u + share (1 - u), inverse, between + slope u).

    >>> cells = grid_of(32.0)
    >>> cells.inverse_speedups(np.array([1.0, 8.0])).shape
    (2, 4224)
    """

    ln_parallelism: Floats
    sigma: Floats
    ln_prior: Floats
    share: Floats
    inverse: Floats
    between: Floats
    slope: Floats

    def inverse_speedups(self, n: Floats) -> Floats:
        """Return 1/S of each cell at sizes of shape (m,), at least 1; shape (m, cells)."""
        # both lines of all cells in one product of matrices: broadcasting takes two to three times as long
        lines = np.concatenate([self.share, self.between, 1 - self.share, self.slope]).reshape(2, -1)
        both = np.stack([np.ones_like(n), 1 / n], axis=1) @ lines
        result, between = both[:, : self.share.size], both[:, self.share.size :]
        np.maximum(result, self.inverse, out=result)
        return np.asarray(np.maximum(result, between, out=result))


class Prediction(NamedTuple):
    """Run times at m targets: exp of the mean of ln T, standard deviation of ln T, and quantiles with noise (m, levels).

    `sd_ln` is the uncertainty about the curve, without the noise of a single run.
    """

    mean_s: Floats
    sd_ln: Floats
    quantiles_s: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """What the observations leave possible: the cells that matter, their mass (sum 1), ln of T1 in s, noise of ln t.

    >>> belief = posterior([4, 8, 16, 32], [262.0, 139.0, 78.5, 63.0])
    >>> belief.predict([12.0]).mean_s.round(2).tolist()
    [98.41]
    """

    cells: Grid
    mass: Floats
    ln_t1_s: Floats
    noise: float

    def ln_run_times(self, n: ArrayLike) -> Floats:
        """Return ln T of each cell at each of m sizes, shape (m, cells).

        Raises ValueError unless sizes are positive and finite.
        """
        sizes = np.atleast_1d(checked_sizes(n))
        ln_times = self._ln_inverse_speedups(sizes)
        ln_times += self.ln_t1_s
        ln_times -= np.log(np.minimum(sizes, 1))[:, None]
        return ln_times

    def mean_ln_run_times(self, n: ArrayLike) -> Floats:
        """Return the mean of ln T over the cells at each of m sizes, shape (m,); ValueError as for `ln_run_times`.

        >>> posterior([4, 8, 16, 32], [262.0, 139.0, 78.5, 63.0]).mean_ln_run_times([12.0]).round(2).tolist()
        [4.59]
        """
        sizes = np.atleast_1d(checked_sizes(n))
        mean = self._ln_inverse_speedups(sizes) @ self.mass + self.ln_t1_s @ self.mass
        return np.asarray(mean - np.log(np.minimum(sizes, 1)))

    def _ln_inverse_speedups(self, sizes: Floats) -> Floats:
        inverse = self.cells.inverse_speedups(np.maximum(sizes, 1))
        return np.log(inverse, out=inverse)

    def predict(self, n: ArrayLike, levels: tuple[float, ...] = LEVELS) -> Prediction:
        """Return the prediction at m sizes, whole or not; ValueError unless they are positive and finite.

        Quantiles are those of a single run: the mixture of all cells convolved with normal noise of ln t.
        """
        ln_times = self.ln_run_times(n)
        mean = ln_times @ self.mass
        quantiles = mixture_quantiles(ln_times, self.mass, self.noise, levels)
        deviations = np.subtract(ln_times, mean[:, None], out=ln_times)
        sd = np.sqrt(np.square(deviations, out=deviations) @ self.mass)
        return Prediction(_seconds(mean), sd, _seconds(quantiles))


def posterior(n: ArrayLike, run_time_s: ArrayLike, weight: ArrayLike | None = None, noise: float = 0.03) -> Posterior:
    """Return the posterior over Downey curves given k >= 1 observations; `noise` is the standard deviation of ln t.

    Noise grows to the misfit of the best cell where that is larger.
    Raises ValueError on invalid observations or a noise that is not positive and finite.

    >>> posterior([8.0], [100.0]).predict([16.0]).mean_s.round(1).tolist()
    [62.5]
    """
    if not 0 < noise < math.inf:
        raise ValueError("The noise must be positive and finite.")
    seen = observations(n, run_time_s, weight)
    grid = grid_of(float(seen.n[-1]))
    om = seen.weight * (seen.n.size / seen.weight.sum())
    rates = grid.inverse_speedups(seen.n)
    rates *= seen.rate[:, None]
    a = om @ rates
    b = np.maximum(om @ np.square(rates, out=rates), _TINY)
    t1 = a / b
    objective = np.maximum(om.sum() - a * t1, 0)
    least = float(objective.min())
    variance = max(noise**2, least / max(seen.n.size - 2, 1))
    ln_mass = grid.ln_prior - (objective - least) / (2 * variance)
    kept = np.flatnonzero(ln_mass > ln_mass.max() + math.log(_NEGLIGIBLE))
    mass = np.exp(ln_mass[kept] - ln_mass.max())
    ln_t1_s = np.log(t1[kept]) + math.log(seen.scale_s)
    cells = Grid(*_table(float(seen.n[-1])).take(kept, axis=1))
    return Posterior(cells, mass / mass.sum(), ln_t1_s, math.sqrt(variance))


def grid_of(n_max: float) -> Grid:
    """Return the cells and their prior mass for a largest observed size.

    >>> grid_of(32.0).sigma.size
    4224
    """
    return Grid(*_table(n_max))


@lru_cache(maxsize=32)
def _table(n_max: float) -> Floats:
    """Return the fields of a grid as one array, so that cells can be picked at once."""
    lines = np.linspace(0, min(math.log(n_max) + math.log(64), _LN_PARALLELISM_MAX), _PARALLELISM_STEPS)
    ln_parallelism, sigma = (axis.ravel() for axis in np.meshgrid(lines, _SIGMAS, indexing="ij"))
    from_mean = (sigma - _SIGMA_MEAN) / _SIGMA_DEVIATION
    from_centre = (ln_parallelism - math.log(4) - math.log(n_max)) / _LN_PARALLELISM_DEVIATION
    width = np.tile(np.log(np.gradient(_SIGMAS)), _PARALLELISM_STEPS)
    pieces = affine_pieces(np.exp(ln_parallelism), curvature_of_sigma(sigma))
    ln_prior = width - (from_mean**2 + from_centre**2) / 2
    table = np.stack([ln_parallelism, sigma, ln_prior, *pieces.intercept, pieces.slope[2]])
    table.flags.writeable = False
    return table


def _seconds(ln_time: Floats) -> Floats:
    return np.exp(np.minimum(np.maximum(ln_time, _LN_MIN), _LN_MAX))
