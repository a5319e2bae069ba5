"""Bayesian average over Downey curves: run times with a realistic uncertainty even from a single observed size.

A plain least squares fit cannot be extrapolated: in the linear section of the curve the average parallelism A is arbitrary.
Here all curves of a grid over (ln A, sigma) vote, weighted by their fit and by a prior after Cirne and Berman, "A model for
moldable supercomputer jobs" (IPDPS 2001): sigma about 1.2, A about four times the largest observed size. T1 takes the best
value in each cell.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from processors.models.downey.curve import affine_pieces, checked_sizes, curvature_of_sigma, observations
from processors.models.numerics.arrays import Floats, Interval, read_only
from processors.models.numerics.statistics import mixture_quantiles

LEVELS = (0.05, 0.5, 0.95)
_PARALLELISM_STEPS = 96
_SIGMAS = np.concatenate([np.arange(20) * 0.05, 1 + 19 * (np.arange(24) / 23) ** 2])
_SIGMA_MEAN, _SIGMA_DEVIATION = 1.2, 1.1
_LN_PARALLELISM_DEVIATION = 2.0
_NEGLIGIBLE = 1e-9  # cells below this share of the largest mass are dropped: in all below 4e-6
_TINY = 1e-250
_LN_PARALLELISM_MAX = 700.0
_LN_MAX = math.log(np.finfo(np.float64).max)
_LN_MIN = math.log(np.finfo(np.float64).tiny)


class Grid(NamedTuple):
    """The cells of the grid over (ln A, sigma), by ascending sigma; each field has shape (4224,).

    With `share` = w/A, `inverse` = 1/A and u = 1/n, 1/S is the largest of share + (1 - share) u, inverse and between + slope u.
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
        # one product of matrices gives both lines of all cells; broadcasting takes two to three times as long
        bent = int(self.sigma.searchsorted(1.0))  # the third piece can be the largest only in the first `bent` cells
        lines = np.concatenate([self.share, self.between[:bent], 1 - self.share, self.slope[:bent]]).reshape(2, -1)
        both = np.stack([np.ones_like(n), 1 / n], axis=1) @ lines
        result: Floats = both[:, : self.share.size]
        between = both[:, self.share.size :]
        np.maximum(result, self.inverse, out=result)
        np.maximum(result[:, :bent], between, out=result[:, :bent])
        return result


class PosteriorPrediction(NamedTuple):
    """Predicted run times at m sizes: exp of the mean of ln T in s, standard deviation of ln T, and quantiles (m, levels) in s.

    `sd_ln` is the uncertainty of the curve without the noise of a single run; the quantiles include that noise.
    """

    mean_s: Floats
    sd_ln: Floats
    quantiles_s: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """The posterior over curves: cells with considerable mass, their mass (sum 1), ln of T1 in s, and the noise of ln t.

    >>> belief = posterior([4, 8, 16, 32], [262.0, 139.0, 78.5, 63.0])
    >>> belief.predict([12.0]).mean_s.round(2).tolist()
    [98.41]
    """

    cells: Grid
    mass: Floats
    ln_t1_s: Floats
    noise: float

    def ln_run_times(self, n: ArrayLike) -> Floats:
        """Return ln T of each cell at the m sizes `n`, shape (m, cells); ValueError unless the sizes are positive and finite."""
        sizes = np.atleast_1d(checked_sizes(n))
        ln_times = self._ln_inverse_speedups(sizes)
        ln_times += self.ln_t1_s
        ln_times -= np.log(np.minimum(sizes, 1))[:, None]
        return ln_times

    def mean_ln_run_times(self, n: ArrayLike) -> Floats:
        """Return the mean of ln T over the cells at the m sizes `n`, shape (m,); ValueError as for `ln_run_times`."""
        sizes = np.atleast_1d(checked_sizes(n))
        mean = self._ln_inverse_speedups(sizes) @ self.mass + self.ln_t1_s @ self.mass
        return np.asarray(mean - np.log(np.minimum(sizes, 1)))

    def _ln_inverse_speedups(self, sizes: Floats) -> Floats:
        inverse = self.cells.inverse_speedups(np.maximum(sizes, 1))
        return np.log(inverse, out=inverse)

    def predict(self, n: ArrayLike, levels: tuple[float, ...] = LEVELS) -> PosteriorPrediction:
        """Return the prediction at the m sizes `n`, integers or not; ValueError unless the sizes are positive and finite.

        The quantiles describe a single run: the mixture of all cells, convolved with normal noise of ln t.
        """
        ln_times = self.ln_run_times(n)
        mean = ln_times @ self.mass
        quantiles = mixture_quantiles(ln_times, self.mass, self.noise, levels)
        deviations = np.subtract(ln_times, mean[:, None], out=ln_times)
        sd = np.sqrt(np.square(deviations, out=deviations) @ self.mass)
        return PosteriorPrediction(_seconds(mean), sd, _seconds(quantiles))


def posterior(n: ArrayLike, run_time_s: ArrayLike, weight: ArrayLike | None = None, noise: float = 0.03) -> Posterior:
    """Return the posterior over Downey curves given k >= 1 observations; `noise` is the standard deviation of ln t.

    If even the best cell misses the observations by more than `noise`, the root mean square of its misfit replaces the noise.
    Raises ValueError on invalid observations or a noise that is not positive and finite.

    >>> posterior([8.0], [100.0]).predict([16.0]).mean_s.round(1).tolist()
    [62.5]
    """
    if not 0 < noise < math.inf:
        raise ValueError("The noise must be positive and finite.")
    data = observations(n, run_time_s, weight)
    table = _table(float(data.n[-1]))
    grid = Grid(*table)
    weights = data.weight * (data.n.size / data.weight.sum())
    rates = _inverse_speedups(tuple(data.n.tolist())) * data.rate[:, None]
    a = weights @ rates
    b = np.maximum(weights @ np.square(rates, out=rates), _TINY)
    t1 = a / b
    objective = np.maximum(weights.sum() - a * t1, 0)
    least = float(objective.min())
    variance = max(noise**2, least / max(data.n.size - 2, 1))
    ln_mass = grid.ln_prior - (objective - least) / (2 * variance)
    retained = np.flatnonzero(ln_mass > ln_mass.max() + math.log(_NEGLIGIBLE))
    mass = np.exp(ln_mass[retained] - ln_mass.max())
    ln_t1_s = np.log(t1[retained]) + math.log(data.scale_s)
    cells = Grid(*table.take(retained, axis=1))
    return Posterior(cells, mass / mass.sum(), ln_t1_s, math.sqrt(variance))


@lru_cache(maxsize=16)
def _inverse_speedups(n: tuple[float, ...]) -> Floats:
    """Return 1/S of all cells at the sizes of an application, ascending.

    The result is cached because many applications run at the same sizes.
    """
    return read_only(Grid(*_table(n[-1])).inverse_speedups(np.array(n)))


@lru_cache(maxsize=32)
def _table(n_max: float) -> Floats:
    """Return the fields of a grid as one array (7, 4224), so that one call can select cells of all fields."""
    lines = np.linspace(0, min(math.log(n_max) + math.log(64), _LN_PARALLELISM_MAX), _PARALLELISM_STEPS)
    sigma, ln_parallelism = (axis.ravel() for axis in np.meshgrid(_SIGMAS, lines, indexing="ij"))
    from_mean = (sigma - _SIGMA_MEAN) / _SIGMA_DEVIATION
    from_centre = (ln_parallelism - math.log(4) - math.log(n_max)) / _LN_PARALLELISM_DEVIATION
    width = np.repeat(np.log(np.gradient(_SIGMAS)), _PARALLELISM_STEPS)
    pieces = affine_pieces(np.exp(ln_parallelism), curvature_of_sigma(sigma))
    ln_prior = width - (from_mean**2 + from_centre**2) / 2
    return read_only(np.stack([ln_parallelism, sigma, ln_prior, *pieces.intercept, pieces.slope[2]]))


def _seconds(ln_time: Floats) -> Floats:
    return np.exp(np.minimum(np.maximum(ln_time, _LN_MIN), _LN_MAX))


# The production curve of one set of sizes: the Bayes average of Downey curves, anchored at the observations.
# Real applications deviate from every law by more than their noise, and later runs of a size deviate like earlier runs. The
# prediction is therefore the average plus the deviation of the observations from the average, interpolated in ln n.

CURVE_LEVELS = (0.05, 0.95)
NOISE_MIN = 1e-3  # standard deviation of ln t if the caller gives no noise: clocks and medians are not more precise
MISFIT = 0.02  # relative error of the model that the weights of the observations assume
# The band: quantiles of the mixture, widened by a factor, plus a share of ln(n*/n_max) that grows with the distance in
# log2. Chosen so that 90 % of the runs of CASTEP, OpenSBLI and VASP on British systems, MAESTRO and two Spark jobs fall
# inside (beyond four times the largest size there were 54 points only). On 16 other applications the bands then held 94 %
# of the runs inside the range, 96 % up to twice, 94 % up to four times and 99 % beyond; the mixture's own quantiles held
# 92, 86, 80 and 83 %.
RANGE_FACTOR = 1.2
BAND_DEVIATIONS = 1.645  # a normal distribution holds 90 % within this many standard deviations
DISTANCE_LOG2 = np.array([1.0, 2.0, 3.0])
DISTANCE_SHARE = np.array([0.27, 0.46, 0.70])


@dataclass(frozen=True, slots=True, eq=False)
class AnchoredCurve:
    """The posterior over Downey curves, corrected by the deviations of the observed sizes `n` (k,) that later runs will repeat.

    `anchor` (k,) are these corrections in ln t. `offset` is added to ln t of every prediction. `unexplained` is a further standard
    deviation of ln t in the band: the error of sizes that a pattern explains only in hindsight.

    >>> curve = anchored_curve(np.array([4.0, 8.0, 16.0]), np.array([262.0, 139.0, 78.5]), np.ones(3), 0.03)
    >>> np.exp(curve.predict(np.array([8.0])).middle).round(0).tolist()
    [139.0]
    """

    posterior: Posterior
    n: Floats
    anchor: Floats
    offset: float = 0.0
    unexplained: float = 0.0

    def predict(self, targets: Floats) -> Interval:
        """Return ln of the run time in s with its band at each of `targets`, which have shape (m,) and are positive and finite.

        Beyond the observed sizes, the correction of the nearest size is used.
        """
        average = self.posterior.predict(targets, CURVE_LEVELS)
        ln_targets, ln_n = np.log(targets), np.log(self.n)
        mean, ends = np.log(average.mean_s), np.log(average.quantiles_s)
        distance = np.maximum(np.maximum(ln_targets - ln_n[-1], ln_n[0] - ln_targets), 0.0)
        extra = distance * np.interp(distance / np.log(2.0), DISTANCE_LOG2, DISTANCE_SHARE)
        least, hindsight = 0.5 * self.posterior.noise, BAND_DEVIATIONS * self.unexplained
        below = RANGE_FACTOR * np.hypot(np.maximum(mean - ends[:, 0], least), hindsight) + extra
        above = RANGE_FACTOR * np.hypot(np.maximum(ends[:, 1] - mean, least), hindsight) + extra
        middle = mean + np.interp(ln_targets, ln_n, self.anchor) + self.offset
        return Interval(middle, middle - below, middle + above)

    def ln_run_time(self, targets: Floats) -> Floats:
        """Return ln of the run time at each target, shape (m,), at a third of the cost of `predict`."""
        mean = self.posterior.mean_ln_run_times(targets)
        return np.asarray(mean + np.interp(np.log(targets), np.log(self.n), self.anchor) + self.offset)

    def sd_ln(self, targets: Floats) -> Floats:
        """Return the standard deviation of ln T at each target, without the noise of a run, shape (m,)."""
        return self.posterior.predict(targets, ()).sd_ln


def anchored_curve(
    n: Floats, run_time_s: Floats, weight: Floats, noise: float, *, unexplained: float = 0.0
) -> AnchoredCurve:
    """Return the curve of `k` >= 1 sizes; `n` (sorted, distinct), `run_time_s` and `weight` have shape (k,).

    `noise` is the standard deviation of ln t; a weight says how certain the run time of a size is.

    >>> curve = anchored_curve(np.array([8.0]), np.array([100.0]), np.ones(1), 0.03)
    >>> np.exp(curve.predict(np.array([16.0])).middle).round(1).tolist()
    [62.5]
    """
    spread = max(noise, NOISE_MIN)
    belief = posterior(n, run_time_s, weight, spread)
    deviation = np.log(run_time_s) - belief.mean_ln_run_times(n)
    return AnchoredCurve(belief, n, _lasting(deviation, weight, spread), unexplained=unexplained)


def parallel_curve(
    curve: AnchoredCurve, n: Floats, run_time_s: Floats, weight: Floats, *, noise: float, slowdown: float
) -> AnchoredCurve:
    """Return a curve with the shape of `curve`, slower by the share `slowdown`, for the sizes that an application does not favour.

    Arguments as for `anchored_curve`; the posterior is that of `curve`.

    >>> fast = anchored_curve(np.array([4.0, 8.0, 16.0]), np.array([262.0, 139.0, 78.5]), np.ones(3), 0.03)
    >>> slow = parallel_curve(fast, np.array([12.0]), np.array([130.0]), np.ones(1), noise=0.03, slowdown=0.3)
    >>> round(slow.offset, 3)
    0.262
    """
    belief, offset = curve.posterior, float(np.log1p(slowdown))
    deviation = np.log(run_time_s) - belief.mean_ln_run_times(n) - offset
    return AnchoredCurve(belief, n, _lasting(deviation, weight, max(noise, NOISE_MIN)), offset, curve.unexplained)


def _lasting(deviation: Floats, weight: Floats, noise: float) -> Floats:
    """Return the part of each deviation (k,) from the mean curve that later runs will repeat.

    It is the deviation times misfit / (misfit + variance of the median by noise), where misfit is the mean squared deviation.
    """
    misfit = float(np.mean(deviation**2))
    of_median = (MISFIT**2 + noise**2) / np.maximum(weight, 1e-9) - MISFIT**2  # inverts the formula for the weights
    return np.asarray(deviation * misfit / (misfit + np.maximum(of_median, (0.1 * NOISE_MIN) ** 2)))
