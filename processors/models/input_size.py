"""Run times of an input that was never run, or hardly, from the other inputs of its application.

Each input is a point in the space of its sizes (atoms, steps, cells). `curves` reads what was run of the others at the
wanted size in nodes, `regression` goes from there to the sizes of the input in question, and `forecast` puts it
together with what was run of the input itself.
"""

import math
from collections.abc import Sequence
from itertools import product
from typing import Final, NamedTuple

import numpy as np

from processors.models.downey.bayes import BAND_DEVIATIONS
from processors.models.numerics.arrays import Floats
from processors.models.numerics.scipy_functions import normal_share_below

SINGLE_SIZE_SLOPE: Final = (
    -0.75
)  # d ln t / d ln n where an input was run at one size: between no gain and a perfect one
STEEPEST_BELOW, STEEPEST_BEYOND, FLATTEST_BEYOND = -1.1, -1.0, 0.5
DEVIATION_AWAY: Final = 0.25  # of ln t, for each unit of ln n away from what was run


class Knot(NamedTuple):
    """A point of a curve: size n, ln of the run time in s, and the standard deviation of that.

    >>> Knot(8.0, 4.6, 0.02).n
    8.0
    """

    n: float
    ln_run_time: float
    deviation: float


class Input(NamedTuple):
    """One input: ln of its sizes (a,), its knots by rising n, and its place.

    Inputs of one place differ in their sizes alone; another place is another system, say, or another kind of problem.

    >>> Input("exa", (10.4,), (Knot(8.0, 4.6, 0.02),)).place
    'exa'
    """

    place: str
    ln_sizes: tuple[float, ...]
    knots: tuple[Knot, ...]


class Values(NamedTuple):
    """Curves of k inputs at m sizes, each field (k, m): ln run time, its deviation, and how far n is from a lone run.

    `away` is ln(n/n_run) where an input was run at one size only, else 0: the regression learns the slope from it.
    """

    ln_run_time: Floats
    deviation: Floats
    away: Floats


def values(inputs: Sequence[Input], n: Floats) -> Values:
    """Return what the curves of the inputs say at sizes (m,): smooth lines of ln t over ln n through the knots.

    Beyond them a straight line goes on, within bounds, and is trusted the less the farther it goes.

    >>> one = Input("exa", (1.0,), (Knot(1.0, 2.0, 0.1), Knot(4.0, 1.0, 0.1)))
    >>> values([one], np.array([2.0])).ln_run_time.round(3).tolist()
    [[1.5]]
    """
    read = [_read(each.knots, np.log(n)) for each in inputs]
    return Values(*(np.array(column) for column in zip(*read, strict=True)))


def _read(knots: tuple[Knot, ...], ln_n: Floats) -> tuple[Floats, Floats, Floats]:
    sizes, ln_t, deviation = (np.array(column, dtype=np.float64) for column in zip(*knots, strict=True))
    at = np.log(sizes)
    below, beyond = np.minimum(ln_n - at[0], 0.0), np.maximum(ln_n - at[-1], 0.0)
    first, last = SINGLE_SIZE_SLOPE, SINGLE_SIZE_SLOPE
    if at.size > 1:
        slopes = np.diff(ln_t) / np.diff(at)
        first = min(max(float(slopes[0]), STEEPEST_BELOW), 0.0)
        last = min(max(float(slopes[-1]), STEEPEST_BEYOND), FLATTEST_BEYOND)
    away = below + beyond
    found = _between(ln_n, at, ln_t) + first * below + last * beyond
    trusted = np.hypot(np.interp(ln_n, at, deviation), DEVIATION_AWAY * np.abs(away))
    return found, trusted, away if at.size == 1 else np.zeros_like(away)


def _between(ln_n: Floats, at: Floats, ln_t: Floats) -> Floats:
    """Return cubic Hermite pieces through the knots, whose slopes are those of the parabolas through three neighbours."""
    if at.size < 3:
        return np.interp(ln_n, at, ln_t)
    slopes = np.gradient(ln_t, at)
    i = np.clip(np.searchsorted(at, ln_n, side="right") - 1, 0, at.size - 2)
    step = at[i + 1] - at[i]
    u = np.clip((ln_n - at[i]) / step, 0.0, 1.0)
    rise = ln_t[i + 1] - ln_t[i]
    bend = (1.0 - u) * (slopes[i] * step - rise) - u * (slopes[i + 1] * step - rise)
    return np.asarray(ln_t[i] + u * rise + u * (1.0 - u) * bend)


# From the inputs that were run to one that was not: regression of ln t on ln of the input's sizes.
# The sum of a level, a power law in every size (Barnes et al., "A regression-based approach to scalability prediction",
# ICS 2008) and a smooth deviation from it, as one Gaussian process (Rasmussen and Williams, "Gaussian Processes for
# Machine Learning", 2006, chapter 2.7). Power laws are drawn to an exponent of one half, the more so the fewer inputs
# there are. How rough the deviations are is not known beforehand: each combination on a grid of roughness has a say, by
# how well it explains the inputs, so that few inputs give the wide tails of Student's law.
# It is done anew for every n: an exponent may differ between few nodes and many.

EXPONENT: Final = 0.5
EXPONENT_DEVIATION: Final = 1.0
PLACE_EXPONENT_DEVIATION: Final = 0.3  # of the exponents of one place from those of another
LEVEL_DEVIATION: Final = 10.0
PLACE_DEVIATION: Final = 0.7  # of the level of one place from that of another, in ln t
SINGLE_SIZE_SLOPE_DEVIATION: Final = 0.3
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
            covered = self.weight @ (normal_share_below(upper) - normal_share_below(lower)) >= COVERAGE
            low, high = np.where(covered, low, width), np.where(covered, width, high)
        return high


def regress(inputs: Sequence[Input], place: str, ln_sizes: Sequence[float], n: Floats) -> Mixture:
    """Return ln t of an input with the given sizes at n (m,), from at least one other input; their order does not matter.

    >>> from processors.models.input_size import Knot
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
        self.joint = np.equal.outer(places, places).astype(np.float64)
        self.here = np.array([float(other == place) for other in places])
        self.near = self.joint * np.exp(-between / (2 * REACH**2))
        self.near_here = self.here * np.exp(-np.square(offset / spread).sum(axis=1) / (2 * REACH**2))
        exponents = EXPONENT_DEVIATION**2 + PLACE_EXPONENT_DEVIATION**2 * self.joint
        self.linear = LEVEL_DEVIATION**2 + PLACE_DEVIATION**2 * self.joint + offset @ offset.T * exponents
        self.linear_here = LEVEL_DEVIATION**2 + PLACE_DEVIATION**2 * self.here


def _solved(kernel: _Kernel, read: Values, residual: Floats) -> tuple[Floats, Floats, Floats]:
    """Return mean and variance by each point of the grid (g, m), and the mean of its ln evidence over the m sizes (g,)."""
    k, m = residual.shape
    away = read.away.T
    slopes = SINGLE_SIZE_SLOPE_DEVIATION**2 * away[:, :, None] * away[:, None]
    own = np.square(read.deviation.T)[:, :, None] * np.eye(k)
    alone, smooth = (np.square(column)[:, None, None] for column in np.array(GRID).T)
    alike = kernel.linear + smooth * kernel.near + (alone + _JITTER) * np.eye(k)
    covariance = alike[:, None] + (slopes + own)
    here = kernel.linear_here + smooth[:, 0] * kernel.near_here
    wanted = np.empty((len(GRID), m, k, 2))
    wanted[..., 0], wanted[..., 1] = residual.T, here[:, None]
    solved = np.linalg.solve(covariance, wanted)
    prior = LEVEL_DEVIATION**2 + PLACE_DEVIATION**2 + smooth[:, 0] + alone[:, 0]
    mean, given = np.moveaxis(np.einsum("gmkc,gk->gmc", solved, here), 2, 0)
    misfit = np.einsum("mk,gmk->gm", residual.T, solved[..., 0])
    evidence = -0.5 * (misfit + np.linalg.slogdet(covariance)[1]).mean(axis=1)
    return mean, np.maximum(prior - given, alone[:, 0]), np.where(np.isfinite(evidence), evidence, -np.inf)


NOISE: Final = 0.02  # standard deviation of ln t of single runs
FORECAST_REACH: Final = 3.0  # in ln n: what the regression misses at one size it misses near by too
LAW_DEVIATION_MIN: Final = 0.15  # of what one or two sizes say a doubling away from them


class ExpectedLnTime(NamedTuple):
    """Expected ln of the run time in s at m sizes, and half the width of the band that holds 90 % of single runs, (m,).

    >>> ExpectedLnTime(np.zeros(1), np.ones(1)).half_width.tolist()
    [1.0]
    """

    ln_run_time: Floats
    half_width: Floats


def expected(
    inputs: Sequence[Input],
    place: str,
    ln_sizes: Sequence[float],
    n: Sequence[float] | Floats,
    own: Sequence[Knot] = (),
) -> ExpectedLnTime:
    """Return what the other inputs of an application say of an input, corrected by its own runs at the knots `own`.

    `inputs` are at least one; sizes are positive and finite.

    >>> inputs = [Input("exa", (x,), (Knot(8.0, 1.5 * x, 0.02),)) for x in (1.0, 2.0, 3.0, 4.0)]
    >>> expected(inputs, "exa", (5.0,), [8.0], own=[Knot(8.0, 8.0, 0.02)]).ln_run_time.round(1).tolist()
    [8.0]
    """
    wanted = np.atleast_1d(np.asarray(n, dtype=np.float64))
    sizes = np.concatenate([wanted, [knot.n for knot in own]])
    found = regress(inputs, place, ln_sizes, sizes)
    if not own:
        return ExpectedLnTime(found.centre(), found.half_width(NOISE))
    centre, deviation, ln_n = found.centre(), found.deviation(), np.log(sizes)
    # what it misses is one path over ln n whose neighbours are alike
    path = np.outer(deviation, deviation) * np.exp(-np.abs(ln_n[:, None] - ln_n) / FORECAST_REACH)
    m = wanted.size
    missed = np.array([knot.ln_run_time for knot in own]) - centre[m:]
    noise = np.diag(np.square([max(knot.deviation, NOISE) for knot in own]))
    gain = np.linalg.solve(path[m:, m:] + noise, path[m:, :m]).T
    variance = np.maximum(np.square(deviation[:m]) - (gain * path[:m, m:]).sum(axis=1), 0.0)
    return ExpectedLnTime(centre[:m] + gain @ missed, BAND_DEVIATIONS * np.sqrt(variance + NOISE**2))


def pooled(
    others: ExpectedLnTime, law: ExpectedLnTime, n: Floats, observed: Sequence[float]
) -> tuple[ExpectedLnTime, Floats]:
    """Return what the other inputs and the input's own law of scaling say together, and the share of the others, (m,).

    Each counts by the inverse of its variance; where they differ, the band is wider. `observed` are the sizes of the law.

    >>> one, two = ExpectedLnTime(np.zeros(1), np.ones(1)), ExpectedLnTime(np.ones(1), np.ones(1))
    >>> both, share = pooled(one, two, np.array([8.0]), [4.0])
    >>> both.ln_run_time.tolist(), share.tolist()
    ([0.5], [0.5])
    """
    doublings = np.abs(np.log2(n[:, None] / np.array(observed))).min(axis=1)
    least = BAND_DEVIATIONS * LAW_DEVIATION_MIN * np.minimum(doublings, 1.0)
    variances = [np.square(np.maximum(width, 1e-6)) for width in (others.half_width, np.maximum(law.half_width, least))]
    share = variances[1] / (variances[0] + variances[1])
    apart = others.ln_run_time - law.ln_run_time
    within = share * variances[0] + (1.0 - share) * variances[1]
    between = share * (1.0 - share) * np.square(BAND_DEVIATIONS * apart)
    return ExpectedLnTime(law.ln_run_time + share * apart, np.sqrt(within + between)), share


def ln_sizes(sizes: Sequence[float]) -> tuple[float, ...]:
    """Return the logarithms of the sizes of an input, which are above 0.

    >>> ln_sizes([1.0, 1.0])
    (0.0, 0.0)
    """
    return tuple(math.log(size) for size in sizes)
