"""Run times under load: what a curve says, stretched by what the slowest host has left, or what an equation says.

    T = share_comp T(n) (max_p(1 / cpu_p) / usual_load)^follows  +  share_comm T(n) max_p(bw_ref / bw_p)

Source: Schopf, Berman, "Using stochastic information to predict application behavior on contended resources" (2001).
T(n) is a stochastic value, whose quantiles are those of the curve's band. The curve was learned from runs that met some
load themselves: it is divided by their usual one. The power, 1 in the source, is how closely runs were seen to follow it.
"""

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
from scipy.special import ndtr

from processors.curve import PublishedPoint
from processors.models.curve import BAND_DEVIATIONS
from processors.models.histogram.arithmetic import AVAILABILITY_MIN, add, at_least, scaled
from processors.models.histogram.moments import cumulative, mean, quantiles
from processors.models.histogram.pool import minimum_over
from processors.models.histogram.rebin import between
from processors.models.histogram.values import INTERVALS, INTERVALS_MAX, Histogram, equal_edges, point
from processors.models.structure.evaluate import LEVELS, evaluate
from processors.models.structure.inputs import Value
from processors.models.structure.syntax import DEDICATED, Model
from processors.under_load_hosts import Load

DEVIATIONS: Final = 2.6  # what T(n) covers on either side: 99 %
TAIL: Final = 0.005  # the quantiles that the range is told by,
REACH: Final = 1.15  # and by how much farther, in ln T, it goes: runs scatter wider than a normal distribution


class Shares(NamedTuple):
    """What part of a run computes, and what part waits for the network at `reference` (B/s)."""

    computes: float = 1.0
    communicates: float = 0.0
    reference: float = 1.0


class Learned(NamedTuple):
    """What runs taught: the load that is usual, how closely they follow it, and by which factor they scatter."""

    usual_load: float = 1.0
    follows: float = 1.0
    width: float = 1.0


class Told(NamedTuple):
    """A run time in seconds: five intervals, its mean, and its 5 %, 50 % and 95 % quantiles.

    `gap` is by how much arithmetic and draws differ, in parts of the range; None where nothing was drawn.
    """

    histogram: Histogram
    mean_s: float
    quantiles_s: tuple[float, float, float]
    gap: float | None = None


ALL_COMPUTES: Final = Shares()
NOTHING_LEARNED: Final = Learned()


def quiet_run_time(band: PublishedPoint, intervals: int = INTERVALS, width: float = 1.0) -> Histogram:
    """Return T(n): a log-normal value on either side of the median, in intervals that are equal in ln T.

    `width` scales the deviation. Raises ValueError where the band does not hold its point.

    >>> from processors.models.histogram.moments import quantiles
    >>> quantiles(quiet_run_time(PublishedPoint(4, 100.0, 80.0, 150.0), 25), [0.05, 0.5, 0.95]).round(-1).tolist()
    [80.0, 100.0, 150.0]
    """
    if not 0 < band.low_s <= band.run_time_s <= band.high_s < math.inf:
        raise ValueError("A band holds its point.")
    deviations = np.linspace(-DEVIATIONS, DEVIATIONS, intervals + 1)
    below, above = (math.log(end / band.run_time_s) / BAND_DEVIATIONS for end in (band.low_s, band.high_s))
    edges = band.run_time_s * np.exp(width * abs(deviations) * np.where(deviations < 0, below, above))
    shares = np.diff(ndtr(deviations))
    return Histogram(edges, shares / shares.sum())


def slowdown(cpu: Load) -> Histogram:
    """Return max_p(1 / cpu_p), the factor by which the slowest host stretches what is computed.

    >>> cpu = Load(Histogram(np.array([[0.5, 1.0]]), np.ones((1, 1))), np.array([64.0]), 0, 0, 0, 0.5)
    >>> slowdown(cpu).edges[-1].tolist()
    2.0
    """
    least = minimum_over(at_least(cpu.rows, AVAILABILITY_MIN, INTERVALS_MAX), INTERVALS_MAX, cpu.counts)
    return Histogram(1.0 / least.edges[::-1], least.shares[::-1])


def loaded_run_time(
    quiet: Histogram,
    slowed: Histogram,
    learned: Learned = NOTHING_LEARNED,
    shares: Shares = ALL_COMPUTES,
    bandwidth: Load | None = None,
) -> Histogram:
    """Return T by the default equation; `slowed` is that of `slowdown`. ValueError where it is too large for a number.

    >>> quiet, slowed = (Histogram(np.array(edges), np.ones(1)) for edges in ([90.0, 110.0], [1.0, 2.0]))
    >>> loaded_run_time(quiet, slowed, Learned(usual_load=2.0)).edges[[0, -1]].round(6).tolist()
    [45.0, 110.0]
    """
    followed = Histogram((slowed.edges / learned.usual_load) ** learned.follows, slowed.shares)
    factor = scaled(followed, shares.computes)
    if shares.communicates and bandwidth is not None:
        slowest = minimum_over(bandwidth.rows, INTERVALS_MAX, bandwidth.counts)
        waits = Histogram(shares.reference / slowest.edges[::-1], slowest.shares[::-1])
        factor = add(factor, scaled(waits, shares.communicates), INTERVALS_MAX)
    return _product(quiet, factor)


def spread(run_time: Histogram, width: float) -> Histogram:
    """Return a run time whose distances from its median, in ln T, are scaled by a factor.

    >>> spread(Histogram(np.array([100.0, 200.0, 400.0]), np.array([0.5, 0.5])), 0.5).edges.round(1).tolist()
    [141.4, 200.0, 282.8]
    """
    middle = float(quantiles(run_time, [0.5])[0])
    return Histogram(middle * (run_time.edges / middle) ** width, run_time.shares)


def told(run_time: Histogram) -> Told:
    """Return what is said of a run time: five intervals from below its quantile TAIL to above 1 - TAIL, for all of it.

    >>> told(Histogram(np.array([90.0, 110.0]), np.ones(1))).histogram.shares.round(3).tolist()
    [0.163, 0.228, 0.228, 0.228, 0.154]
    """
    low_s, *levels, high_s = (float(value) for value in quantiles(run_time, (TAIL, *LEVELS, 1 - TAIL)))
    middle = (levels[0], levels[1], levels[2])
    low_s, high_s = (middle[1] * (end / middle[1]) ** REACH for end in (low_s, high_s))
    if low_s >= high_s:
        return Told(point(low_s), float(mean(run_time)), middle)
    edges = equal_edges(low_s, high_s, INTERVALS)
    histogram = between(edges, cumulative(run_time, edges[1:-1]), np.array(1.0))
    return Told(histogram, float(mean(run_time)), middle)


def by_equation(model: Model, values: Mapping[str, Value], quiet: Histogram | None) -> Told:
    """Return what a structural model says; EquationError where a value is missing or not fit.

    >>> from processors.models.structure.parse import parse
    >>> by_equation(parse("2 * T(n)"), {}, Histogram(np.array([10.0, 20.0]), np.ones(1))).quantiles_s
    (21.0, 30.0, 39.0)
    """
    given = dict(values) if quiet is None else {**values, DEDICATED: quiet}
    found = evaluate(model, given)
    return Told(found.histogram, float(mean(found.histogram)), found.quantiles_s, found.mc_gap)


def _product(x: Histogram, y: Histogram) -> Histogram:
    """Return x y for positive values, as a sum of logarithms: equal intervals of one of them would hold nearly all."""
    one, other = (Histogram(np.log(each.edges), each.shares) for each in (x, y))
    total = add(one, other, INTERVALS_MAX, sum_mode="exact")
    return Histogram(np.exp(total.edges), total.shares)
