"""From the inputs that were run to one that was not: regression of ln t on ln of the input's sizes.

The sum of a level, a power law in every size (Barnes et al., "A regression-based approach to scalability prediction",
ICS 2008) and a smooth deviation from it, as one Gaussian process (Rasmussen and Williams, "Gaussian Processes for
Machine Learning", 2006, chapter 2.7). Power laws are drawn to an exponent of one half, the more so the fewer inputs
there are. How rough the deviations are is not known beforehand: each combination on a grid of roughness has a say, by
how well it explains the inputs, so that few inputs give the wide tails of Student's law.

It is done anew for every n: an exponent may differ between few nodes and many.
"""

from collections.abc import Sequence
from itertools import product
from typing import Final, NamedTuple

import numpy as np
from scipy.special import ndtr

from processors.models.input_size.curves import Floats, Input, Values, values

EXPONENT: Final = 0.5
EXPONENT_DEVIATION: Final = 1.0
PLACE_EXPONENT_DEVIATION: Final = 0.3  # of the exponents of one place from those of another
LEVEL_DEVIATION: Final = 10.0
PLACE_DEVIATION: Final = 0.7  # of the level of one place from that of another, in ln t
LONE_SLOPE_DEVIATION: Final = 0.3
ALONE: Final = (0.02, 0.06, 0.2, 0.6)  # what inputs deviate each for itself, in ln t
SMOOTH: Final = (0.1, 0.3, 1.0)  # what near inputs deviate together
REACH: Final = 1.5  # how far is near, in deviations of ln size among the inputs
SPREAD_MIN: Final = 0.3  # of ln size, below which inputs do not tell what is near
RATIO_MAX: Final = 30.0  # of ln sizes
GRID: Final = tuple(product(ALONE, SMOOTH))
COVERAGE: Final = 0.9
_JITTER = 1e-8
_HALVINGS = 40
_HALF_WIDTH_MAX = 50.0


class Mixture(NamedTuple):
    """What each of g points of the grid says at m sizes: mean and variance of ln t (g, m), and its weight (g,), sum 1."""

    mean: Floats
    variance: Floats
    weight: Floats

    def centre(self) -> Floats:
        """Return the mean of ln t, (m,)."""
        return self.weight @ self.mean

    def deviation(self) -> Floats:
        """Return the standard deviation of ln t, (m,)."""
        return np.sqrt(self.weight @ (self.variance + np.square(self.mean - self.centre())))

    def half_width(self, noise: float) -> Floats:
        """Return half the width of the band about the centre that holds 90 % of single runs, (m,); noise is theirs.

        >>> one = Mixture(np.array([[0.0]]), np.array([[1.0]]), np.array([1.0]))
        >>> one.half_width(0.0).round(3).tolist()
        [1.645]
        """
        centre, deviation = self.centre(), np.sqrt(self.variance + noise**2)
        low, high = np.zeros_like(centre), np.full_like(centre, _HALF_WIDTH_MAX)
        for _ in range(_HALVINGS):
            width = (low + high) / 2
            upper, lower = ((centre + end - self.mean) / deviation for end in (width, -width))
            held = self.weight @ (ndtr(upper) - ndtr(lower)) >= COVERAGE
            low, high = np.where(held, low, width), np.where(held, width, high)
        return high


def regress(inputs: Sequence[Input], place: str, ln_sizes: Sequence[float], n: Floats) -> Mixture:
    """Return ln t of an input with the given sizes at n (m,), from at least one other input; their order does not matter.

    >>> from processors.models.input_size.curves import Knot
    >>> inputs = [Input("exa", (x,), (Knot(8.0, 1.5 * x, 0.02),)) for x in (1.0, 2.0, 3.0, 4.0)]
    >>> regress(inputs, "exa", (5.0,), np.array([8.0])).centre().round(1).tolist()
    [7.5]
    """
    known = sorted(inputs)
    offset = np.array([each.ln_sizes for each in known]) - np.array(ln_sizes)
    offset = np.clip(offset, -RATIO_MAX, RATIO_MAX)
    kernel = _Kernel(offset, [each.place for each in known], place)
    read = values(known, n)
    expected = EXPONENT * offset.sum(axis=1)[:, None]
    level = (read.ln_run_time - expected).mean(axis=0)
    residual = read.ln_run_time - expected - level
    mean, variance, ln_weight = _solved(kernel, read, residual)
    weight = np.exp(ln_weight - ln_weight.max())
    return Mixture(mean + level, variance, weight / weight.sum())


class _Kernel:
    """Covariances among k inputs and with the one in question, whose sizes are the origin."""

    def __init__(self, offset: Floats, places: list[str], place: str) -> None:
        spread = np.maximum(offset.std(axis=0), SPREAD_MIN)
        between = np.square((offset[:, None] - offset) / spread).sum(axis=2)
        self.together = np.equal.outer(places, places).astype(np.float64)
        self.here = np.array([float(other == place) for other in places])
        self.near = self.together * np.exp(-between / (2 * REACH**2))
        self.near_here = self.here * np.exp(-np.square(offset / spread).sum(axis=1) / (2 * REACH**2))
        exponents = EXPONENT_DEVIATION**2 + PLACE_EXPONENT_DEVIATION**2 * self.together
        self.linear = LEVEL_DEVIATION**2 + PLACE_DEVIATION**2 * self.together + offset @ offset.T * exponents
        self.linear_here = LEVEL_DEVIATION**2 + PLACE_DEVIATION**2 * self.here


def _solved(kernel: _Kernel, read: Values, residual: Floats) -> tuple[Floats, Floats, Floats]:
    """Return mean and variance by each point of the grid (g, m), and the mean of its ln evidence over the m sizes (g,)."""
    k, m = residual.shape
    away = read.away.T
    slopes = LONE_SLOPE_DEVIATION**2 * away[:, :, None] * away[:, None]
    own = np.square(read.deviation.T)[:, :, None] * np.eye(k)
    alone, smooth = (np.square(column)[:, None, None] for column in np.array(GRID).T)
    alike = kernel.linear + smooth * kernel.near + (alone + _JITTER) * np.eye(k)
    covariance = alike[:, None] + (slopes + own)
    here = kernel.linear_here + smooth[:, 0] * kernel.near_here
    wanted = np.empty((len(GRID), m, k, 2))
    wanted[..., 0], wanted[..., 1] = residual.T, here[:, None]
    solved = np.linalg.solve(covariance, wanted)
    prior = LEVEL_DEVIATION**2 + PLACE_DEVIATION**2 + smooth[:, 0] + alone[:, 0]
    mean, told = np.moveaxis(np.einsum("gmkc,gk->gmc", solved, here), 2, 0)
    misfit = np.einsum("mk,gmk->gm", residual.T, solved[..., 0])
    evidence = -0.5 * (misfit + np.linalg.slogdet(covariance)[1]).mean(axis=1)
    return mean, np.maximum(prior - told, alone[:, 0]), np.where(np.isfinite(evidence), evidence, -np.inf)
