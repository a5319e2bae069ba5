"""Run times of an input that was seldom or never run, from the other inputs of its application.

Each input is a point in the space of its sizes (atoms, steps, cells). `values` reads the curves of the other inputs at the
requested numbers of nodes, `regress` extrapolates to the sizes of the new input, and `expected` corrects the result by runs of
the new input itself.
"""

from collections.abc import Sequence
from itertools import product
from typing import Final, NamedTuple

import numpy as np

from processors.models.downey.bayes import BAND_DEVIATIONS
from processors.models.numerics.arrays import Floats
from processors.models.numerics.scipy_functions import normal_share_below

# d ln t / d ln n of an input that was run at one size only: between no gain (0) and perfect speed-up (-1)
SINGLE_SIZE_SLOPE: Final = -0.75
STEEPEST_BELOW, STEEPEST_BEYOND, FLATTEST_BEYOND = -1.1, -1.0, 0.5
DEVIATION_AWAY: Final = 0.25  # standard deviation of ln t per unit of ln n beyond the observed sizes


class Knot(NamedTuple):
    """A point of a curve: size n, ln of the run time in s, and the standard deviation of this ln."""

    n: float
    ln_run_time: float
    deviation: float


class Input(NamedTuple):
    """One input of an application: ln of its sizes (a,), such as atoms or cells, and the knots of its curve by ascending n.

    Inputs with the same `place` differ only in their sizes; inputs of another system or kind of problem have another `place`.
    """

    place: str
    ln_sizes: tuple[float, ...]
    knots: tuple[Knot, ...]


class Values(NamedTuple):
    """The curves of k inputs at m numbers of nodes, each field (k, m): ln of the run time in s, and its standard deviation.

    `away` is ln(n / n_run) for an input that was run at one n only, else 0; the regression learns a common slope over `away`.
    """

    ln_run_time: Floats
    deviation: Floats
    away: Floats


def values(inputs: Sequence[Input], n: Floats) -> Values:
    """Return the curves of the inputs at sizes (m,): smooth lines of ln t over ln n through the knots.

    Beyond the knots a line of limited slope continues, with a deviation that grows with the distance.

    >>> linear = Input("exa", (1.0,), (Knot(1.0, 2.0, 0.1), Knot(4.0, 1.0, 0.1)))
    >>> values([linear], np.array([2.0])).ln_run_time.round(3).tolist()
    [[1.5]]
    """
    read = [_read(each.knots, np.log(n)) for each in inputs]
    return Values(*(np.array(column) for column in zip(*read, strict=True)))


def _read(knots: tuple[Knot, ...], ln_n: Floats) -> tuple[Floats, Floats, Floats]:
    sizes, ln_t, deviation = (np.array(column, dtype=np.float64) for column in zip(*knots, strict=True))
    ln_knots = np.log(sizes)
    below, beyond = np.minimum(ln_n - ln_knots[0], 0.0), np.maximum(ln_n - ln_knots[-1], 0.0)
    first, last = SINGLE_SIZE_SLOPE, SINGLE_SIZE_SLOPE
    if ln_knots.size > 1:
        slopes = np.diff(ln_t) / np.diff(ln_knots)
        first = min(max(float(slopes[0]), STEEPEST_BELOW), 0.0)
        last = min(max(float(slopes[-1]), STEEPEST_BEYOND), FLATTEST_BEYOND)
    away = below + beyond
    ln_run_time = _between(ln_n, ln_knots, ln_t) + first * below + last * beyond
    deviations = np.hypot(np.interp(ln_n, ln_knots, deviation), DEVIATION_AWAY * np.abs(away))
    return ln_run_time, deviations, away if ln_knots.size == 1 else np.zeros_like(away)


def _between(ln_n: Floats, ln_knots: Floats, ln_t: Floats) -> Floats:
    """Return cubic Hermite pieces through the knots, with the slopes of parabolas through three neighbours."""
    if ln_knots.size < 3:
        return np.interp(ln_n, ln_knots, ln_t)
    slopes = np.gradient(ln_t, ln_knots)
    i = np.clip(np.searchsorted(ln_knots, ln_n, side="right") - 1, 0, ln_knots.size - 2)
    step = ln_knots[i + 1] - ln_knots[i]
    u = np.clip((ln_n - ln_knots[i]) / step, 0.0, 1.0)
    rise = ln_t[i + 1] - ln_t[i]
    bend = (1.0 - u) * (slopes[i] * step - rise) - u * (slopes[i + 1] * step - rise)
    return np.asarray(ln_t[i] + u * rise + u * (1.0 - u) * bend)


# Regression of ln t on ln of the sizes of the inputs, to predict an input that was never run.
# The model is the sum of a level, a power law in every size (Barnes et al., "A regression-based approach to scalability
# prediction", ICS 2008) and a smooth deviation from it, as one Gaussian process (Rasmussen and Williams, "Gaussian
# Processes for Machine Learning", 2006, chapter 2.7). Exponents shrink to one half, more strongly with fewer inputs. The
# roughness of the deviations is unknown: each point on a grid of roughness is weighted by its evidence, so that few inputs
# give the wide tails of Student's distribution.
# Each n has its own regression, because an exponent may differ between few nodes and many.

EXPONENT: Final = 0.5
EXPONENT_DEVIATION: Final = 1.0
PLACE_EXPONENT_DEVIATION: Final = 0.3  # standard deviation of exponents between places
LEVEL_DEVIATION: Final = 10.0
PLACE_DEVIATION: Final = 0.7  # standard deviation of levels between places, in ln t
SINGLE_SIZE_SLOPE_DEVIATION: Final = 0.3
ALONE: Final = (0.02, 0.06, 0.2, 0.6)  # tried standard deviations of single inputs, in ln t
SMOOTH: Final = (0.1, 0.3, 1.0)  # tried standard deviations that near inputs share, in ln t
REACH: Final = 1.5  # correlation length of near inputs, in standard deviations of ln size
SPREAD_MIN: Final = 0.3  # least standard deviation of ln size that defines nearness
RATIO_MAX: Final = 30.0  # limit of differences of ln sizes
GRID: Final = tuple(product(ALONE, SMOOTH))
COVERAGE: Final = 0.9
_JITTER = 1e-8
_HALVINGS = 40
_HALF_WIDTH_MAX = 50.0


class Mixture(NamedTuple):
    """Predictions of ln t at m numbers of nodes: mean and variance (g, m) for g assumed roughnesses, and their weights (g,), sum 1."""

    mean: Floats
    variance: Floats
    weight: Floats

    def centre(self) -> Floats:
        return self.weight @ self.mean

    def deviation(self) -> Floats:
        return np.sqrt(self.weight @ (self.variance + np.square(self.mean - self.centre())))

    def half_width(self, noise: float) -> Floats:
        """Return the half-width (m,), in ln t, of the band around the mean that contains 90 % of single runs.

        `noise` is the standard deviation of ln t of a single run.
        """
        centre, deviation = self.centre(), np.sqrt(self.variance + noise**2)
        low, high = np.zeros_like(centre), np.full_like(centre, _HALF_WIDTH_MAX)
        for _ in range(_HALVINGS):
            width = (low + high) / 2
            upper, lower = ((centre + end - self.mean) / deviation for end in (width, -width))
            covered = self.weight @ (normal_share_below(upper) - normal_share_below(lower)) >= COVERAGE
            low, high = np.where(covered, low, width), np.where(covered, width, high)
        return high


def regress(inputs: Sequence[Input], place: str, ln_sizes: Sequence[float], n: Floats) -> Mixture:
    """Return the prediction of ln t at the numbers of nodes `n` (m,), for an input with `ln_sizes`, from at least one other input.

    >>> inputs = [Input("exa", (x,), (Knot(8.0, 1.5 * x, 0.02),)) for x in (1.0, 2.0, 3.0, 4.0)]
    >>> regress(inputs, "exa", (5.0,), np.array([8.0])).centre().round(1).tolist()
    [7.5]
    """
    ordered = sorted(inputs)
    offset = np.array([each.ln_sizes for each in ordered]) - np.array(ln_sizes)
    offset = np.clip(offset, -RATIO_MAX, RATIO_MAX)
    kernel = _Kernel(offset, [each.place for each in ordered], place)
    read = values(ordered, n)
    by_exponent = EXPONENT * offset.sum(axis=1)[:, None]
    level = (read.ln_run_time - by_exponent).mean(axis=0)
    residual = read.ln_run_time - by_exponent - level
    mean, variance, ln_weight = _solved(kernel, read, residual)
    weight = np.exp(ln_weight - ln_weight.max())
    return Mixture(mean + level, variance, weight / weight.sum())


class _Kernel:
    """Covariances of ln t among k inputs, and between each of them and the new input.

    `offset` (k, a) are ln sizes relative to those of the new input.
    """

    def __init__(self, offset: Floats, places: list[str], place: str) -> None:
        spread = np.maximum(offset.std(axis=0), SPREAD_MIN)
        between = np.square((offset[:, None] - offset) / spread).sum(axis=2)
        self.joint = np.equal.outer(places, places).astype(np.float64)
        self.here = np.array([float(other == place) for other in places])
        self.near = self.joint * np.exp(-between / (2 * REACH**2))
        self.near_here = self.here * np.exp(-np.square(offset / spread).sum(axis=1) / (2 * REACH**2))
        exponents = EXPONENT_DEVIATION**2 + PLACE_EXPONENT_DEVIATION**2 * self.joint
        self.linear = LEVEL_DEVIATION**2 + PLACE_DEVIATION**2 * self.joint + offset @ offset.T * exponents
        self.linear_here = LEVEL_DEVIATION**2 + PLACE_DEVIATION**2 * self.here


def _solved(kernel: _Kernel, read: Values, residual: Floats) -> tuple[Floats, Floats, Floats]:
    """Return mean and variance of the residuals at the new input, (g, m), and ln of the evidence of each grid point, (g,).

    The evidence is averaged over the m numbers of nodes.
    """
    k, m = residual.shape
    distance = read.away.T
    slopes = SINGLE_SIZE_SLOPE_DEVIATION**2 * distance[:, :, None] * distance[:, None]
    of_knots = np.square(read.deviation.T)[:, :, None] * np.eye(k)
    alone, smooth = (np.square(column)[:, None, None] for column in np.array(GRID).T)
    alike = kernel.linear + smooth * kernel.near + (alone + _JITTER) * np.eye(k)
    covariance = alike[:, None] + (slopes + of_knots)
    with_input = kernel.linear_here + smooth[:, 0] * kernel.near_here
    right = np.empty((len(GRID), m, k, 2))
    right[..., 0], right[..., 1] = residual.T, with_input[:, None]
    solved = np.linalg.solve(covariance, right)
    prior = LEVEL_DEVIATION**2 + PLACE_DEVIATION**2 + smooth[:, 0] + alone[:, 0]
    mean, explained = np.moveaxis(np.einsum("gmkc,gk->gmc", solved, with_input), 2, 0)
    misfit = np.einsum("mk,gmk->gm", residual.T, solved[..., 0])
    evidence = -0.5 * (misfit + np.linalg.slogdet(covariance)[1]).mean(axis=1)
    return mean, np.maximum(prior - explained, alone[:, 0]), np.where(np.isfinite(evidence), evidence, -np.inf)


NOISE: Final = 0.02  # standard deviation of ln t of single runs
FORECAST_REACH: Final = 3.0  # correlation length in ln n of the errors of the regression
LAW_DEVIATION_MIN: Final = 0.15  # least deviation, a doubling away, of a law fitted to one or two sizes


class ExpectedLnTime(NamedTuple):
    """Expected ln of the run time in s at m sizes, and half the width of the 90 % band of single runs, (m,)."""

    ln_run_time: Floats
    half_width: Floats


def expected(
    inputs: Sequence[Input],
    place: str,
    ln_sizes: Sequence[float],
    n: Sequence[float] | Floats,
    own: Sequence[Knot] = (),
) -> ExpectedLnTime:
    """Return the prediction for an input from at least one other input, corrected by the knots `own` of its own runs.

    >>> inputs = [Input("exa", (x,), (Knot(8.0, 1.5 * x, 0.02),)) for x in (1.0, 2.0, 3.0, 4.0)]
    >>> expected(inputs, "exa", (5.0,), [8.0], own=[Knot(8.0, 8.0, 0.02)]).ln_run_time.round(1).tolist()
    [8.0]
    """
    targets = np.atleast_1d(np.asarray(n, dtype=np.float64))
    sizes = np.concatenate([targets, [knot.n for knot in own]])
    regression = regress(inputs, place, ln_sizes, sizes)
    if not own:
        return ExpectedLnTime(regression.centre(), regression.half_width(NOISE))
    centre, deviation, ln_n = regression.centre(), regression.deviation(), np.log(sizes)
    # the error of the regression is a random path over ln n, correlated at neighbouring sizes
    path = np.outer(deviation, deviation) * np.exp(-np.abs(ln_n[:, None] - ln_n) / FORECAST_REACH)
    m = targets.size
    errors = np.array([knot.ln_run_time for knot in own]) - centre[m:]
    noise = np.diag(np.square([max(knot.deviation, NOISE) for knot in own]))
    gain = np.linalg.solve(path[m:, m:] + noise, path[m:, :m]).T
    variance = np.maximum(np.square(deviation[:m]) - (gain * path[:m, m:]).sum(axis=1), 0.0)
    return ExpectedLnTime(centre[:m] + gain @ errors, BAND_DEVIATIONS * np.sqrt(variance + NOISE**2))


def pooled(
    others: ExpectedLnTime, law: ExpectedLnTime, n: Floats, observed: Sequence[float]
) -> tuple[ExpectedLnTime, Floats]:
    """Combine the prediction from other inputs with that of the input's own law; also return the weight (m,) of the former.

    The weights are inverse variances. The band widens if the predictions differ, and the band of the law with the distance from
    the sizes `observed` that it was fitted to.
    """
    doublings = np.abs(np.log2(n[:, None] / np.array(observed))).min(axis=1)
    least = BAND_DEVIATIONS * LAW_DEVIATION_MIN * np.minimum(doublings, 1.0)
    variances = [np.square(np.maximum(width, 1e-6)) for width in (others.half_width, np.maximum(law.half_width, least))]
    share = variances[1] / (variances[0] + variances[1])
    apart = others.ln_run_time - law.ln_run_time
    within = share * variances[0] + (1.0 - share) * variances[1]
    between = share * (1.0 - share) * np.square(BAND_DEVIATIONS * apart)
    return ExpectedLnTime(law.ln_run_time + share * apart, np.sqrt(within + between)), share
