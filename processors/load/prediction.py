"""Run times under load: what a curve says, stretched by what the slowest host has left, or what an equation says.

    T = share_comp T(n) (max_p(1 / cpu_p) / usual_load)^follows  +  share_comm T(n) max_p(bw_ref / bw_p)

Source: Schopf, Berman, "Using stochastic information to predict application behavior on contended resources" (2001).
T(n) is a stochastic value, whose quantiles are those of the curve's band. The curve was learned from runs that met some
load themselves: it is divided by their usual one. The power, 1 in the source, is how closely runs were seen to follow it.
"""

import math
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec
import numpy as np
from scipy.special import ndtr

from processors.contracts.hosts import Windows
from processors.contracts.load import StructuralModel, UnderLoadSettings
from processors.facts import PublishedPoint
from processors.load.hosts import Load, Place, TooLittleError, first_window, load, pooled
from processors.models.downey.bayes import BAND_DEVIATIONS
from processors.models.histogram.arithmetic import (
    AVAILABILITY_MIN,
    add,
    at_least,
    cumulative,
    mean,
    minimum_over,
    quantiles,
    scaled,
)
from processors.models.histogram.values import INTERVALS, INTERVALS_MAX, Histogram, between, equal_edges, point
from processors.models.structure.evaluate import LEVELS, evaluate
from processors.models.structure.inputs import Alike, Value
from processors.models.structure.parse import DEDICATED, HOSTS, Model, parse

# Structural models of the configuration: which equation is an application's own, and where its values come from.


MASTER: Final = "master_"  # how names begin that the first host of a job measures, for all of its hosts
KEPT_MAX: Final = 10_000


class Structure(NamedTuple):
    """An equation that was read, and the settings that it came from."""

    model: Model
    settings: StructuralModel

    @property
    def needs_curve(self) -> bool:
        """Whether the equation contains T(n)."""
        return DEDICATED in self.model.names


class Structures:
    """The structural models, in their order; the first whose pattern is found is an application's own."""

    def __init__(self, settings: UnderLoadSettings) -> None:
        self._known = [(re.compile(model.application), model) for model in settings.models]
        self._read: dict[int, Structure] = {}
        self._index = lru_cache(KEPT_MAX)(self._found)

    def of(self, application: str) -> Structure | None:
        """Return the model of an application; None where it has none. EquationError for one that can not be read."""
        index = self._index(application) if self._known else None
        if index is None:
            return None
        if index not in self._read:
            settings = self._known[index][1]
            model = parse(settings.equation, (*settings.parameters, *settings.resources))
            self._read[index] = Structure(model, settings)
        return self._read[index]

    def _found(self, application: str) -> int | None:
        found = (index for index, (pattern, _) in enumerate(self._known) if pattern.search(application))
        return next(found, None)


class Measured(NamedTuple):
    """The values of an equation, and what the windows were like that they came from, by resource."""

    values: dict[str, Value]
    loads: dict[str, Load]


def measured(structure: Structure, windows: Windows, place: Place, n: float, until_ms: int) -> Measured:
    """Return the values of an equation but T(n): parameters, size, windows. TooLittleError where windows are missing."""
    settings = structure.settings
    values: dict[str, Value] = {"n": n, HOSTS: place.hosts, **settings.parameters}
    loads = {}
    for resource in _resources(structure):
        values[resource], found = _value(windows, place, resource, until_ms)
        if found is not None:
            loads[resource] = found
    return Measured(values, loads)


def _resources(structure: Structure) -> Iterator[str]:
    return (name for name in structure.settings.resources if name in structure.model.names)


def _value(windows: Windows, place: Place, resource: str, until_ms: int) -> tuple[Value, Load | None]:
    if not resource.startswith(MASTER):
        found = load(windows, place, resource, until_ms)
        return (found.rows if place.each else Alike(found.rows.host(0))), found
    plain = resource.removeprefix(MASTER)
    if place.first is None:  # any host of the partition may come to lead the job
        found = load(windows, place, plain, until_ms)
        return pooled(found), found
    for name in (resource, plain):
        window = first_window(windows, place, name, until_ms)
        if window is not None:
            return window, None
    raise TooLittleError(f"{place.first}, the first host, has no window of {plain}.")


# What runs teach of load: the one that is usual at a size, how closely run times follow it, and how far they scatter.
#
# A curve is measured under some load, and more hosts meet a higher one: the slowest of many is slower. Load of the minutes
# before a start says much of a short run where load stays alike, and nothing where it changes quickly, or where a job has its
# hosts for itself. What runs show decides; until they do, they are taken to follow it wholly.


FORGETTING: Final = 0.98  # about the newest fifty
USUAL_MIN: Final = 3  # runs whose load was known before it is called usual
SLOPE_PRIOR: Final = 0.05  # variance of ln n that says nothing of how load grows with the size
FOLLOW_PRIOR: Final = 0.1  # sum of squares of ln load that says nothing of how run times follow it
SPREAD_PRIOR: Final = 5.0  # runs that say nothing of how far they scatter
LN_MAX: Final = 1.5  # what is farther off counts as so far
WIDTH_MIN: Final = 0.2
WIDTH_MAX: Final = 1.25  # the band of the curve itself grows where runs leave it
OFF_MAX: Final = 2.5  # deviations; what is farther off counts as so far
NORMAL_MEAN: Final = math.sqrt(2 / math.pi)  # distance from the middle in deviations


class Usual(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Loads that runs met: how many, means of ln n and ln load, variance of ln n, covariance of both; newer ones weigh more."""

    runs: int = 0
    ln_n: float = 0.0
    ln_load: float = 0.0
    nn: float = 0.0
    nl: float = 0.0

    def met(self, n: float, load: float | None) -> "Usual":
        """Return it with one more load."""
        if load is None or not 0 < load < math.inf:
            return self
        runs = self.runs + 1
        weight = max(1 / runs, 1 - FORGETTING)
        off_n, off_load = math.log(n) - self.ln_n, math.log(load) - self.ln_load
        return Usual(
            runs,
            _digits(self.ln_n + weight * off_n),
            _digits(self.ln_load + weight * off_load),
            _digits((1 - weight) * (self.nn + weight * off_n * off_n)),
            _digits((1 - weight) * (self.nl + weight * off_n * off_load)),
        )

    def at(self, n: float) -> float | None:
        """Return the usual load at a size; None until enough runs told it."""
        if self.runs < USUAL_MIN:
            return None
        slope = min(max(self.nl / (self.nn + SLOPE_PRIOR), 0.0), 1.0)
        off_n = min(max(math.log(n) - self.ln_n, -LN_MAX), LN_MAX)
        return math.exp(max(self.ln_load + slope * off_n, 0.0))


class Followed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How runs followed the load: sums over runs, that fade, of x^2 and x y for x = ln(load / usual), y = ln(run / curve).

    `off` is the sum of distances |ln(run / told)| in the deviation that the equation alone would have told.
    """

    runs: float = 0.0
    xx: float = 0.0
    xy: float = 0.0
    off: float = 0.0

    def ran(self, x: float, y: float, distance: float) -> "Followed":
        """Return it with one more run."""
        x, y = (min(max(value, -LN_MAX), LN_MAX) for value in (x, y))
        sums = (self.runs, 1.0), (self.xx, x * x), (self.xy, x * y), (self.off, min(distance, OFF_MAX))
        return Followed(*(_digits(FORGETTING * old + new) for old, new in sums))

    def share(self, prior: float) -> float:
        """Return how closely run times follow the load, from 0 to 1; `prior` until runs say otherwise."""
        return min(max((self.xy + FOLLOW_PRIOR * prior) / (self.xx + FOLLOW_PRIOR), 0.0), 1.0)

    def width(self, prior: float) -> float:
        """Return the factor by which the spread of what is told has to be scaled; `prior` until runs say otherwise."""
        told = NORMAL_MEAN * (self.runs + SPREAD_PRIOR)
        return min(max((self.off + SPREAD_PRIOR * NORMAL_MEAN * prior) / told, WIDTH_MIN), WIDTH_MAX)


def _digits(value: float) -> float:
    return float(f"{value:.5g}")


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
    """
    if not 0 < band.low_s <= band.run_time_s <= band.high_s < math.inf:
        raise ValueError("A band holds its point.")
    deviations = np.linspace(-DEVIATIONS, DEVIATIONS, intervals + 1)
    below, above = (math.log(end / band.run_time_s) / BAND_DEVIATIONS for end in (band.low_s, band.high_s))
    edges = band.run_time_s * np.exp(width * abs(deviations) * np.where(deviations < 0, below, above))
    shares = np.diff(ndtr(deviations))
    return Histogram(edges, shares / shares.sum())


def slowdown(cpu: Load) -> Histogram:
    """Return max_p(1 / cpu_p), the factor by which the slowest host stretches what is computed."""
    least = minimum_over(at_least(cpu.rows, AVAILABILITY_MIN, INTERVALS_MAX), INTERVALS_MAX, cpu.counts)
    return Histogram(1.0 / least.edges[::-1], least.shares[::-1])


def loaded_run_time(
    quiet: Histogram,
    slowed: Histogram,
    learned: Learned = NOTHING_LEARNED,
    shares: Shares = ALL_COMPUTES,
    bandwidth: Load | None = None,
) -> Histogram:
    """Return T by the default equation; `slowed` is that of `slowdown`. ValueError where it is too large for a number."""
    followed = Histogram((slowed.edges / learned.usual_load) ** learned.follows, slowed.shares)
    factor = scaled(followed, shares.computes)
    if shares.communicates and bandwidth is not None:
        slowest = minimum_over(bandwidth.rows, INTERVALS_MAX, bandwidth.counts)
        waits = Histogram(shares.reference / slowest.edges[::-1], slowest.shares[::-1])
        factor = add(factor, scaled(waits, shares.communicates), INTERVALS_MAX)
    return _product(quiet, factor)


def load_spread(run_time: Histogram, width: float) -> Histogram:
    """Return a run time whose distances from its median, in ln T, are scaled by a factor."""
    middle = float(quantiles(run_time, [0.5])[0])
    return Histogram(middle * (run_time.edges / middle) ** width, run_time.shares)


def told(run_time: Histogram) -> Told:
    """Return what is said of a run time: five intervals from below its quantile TAIL to above 1 - TAIL, for all of it."""
    low_s, *levels, high_s = (float(value) for value in quantiles(run_time, (TAIL, *LEVELS, 1 - TAIL)))
    middle = (levels[0], levels[1], levels[2])
    low_s, high_s = (middle[1] * (end / middle[1]) ** REACH for end in (low_s, high_s))
    if low_s >= high_s:
        return Told(point(low_s), float(mean(run_time)), middle)
    edges = equal_edges(low_s, high_s, INTERVALS)
    histogram = between(edges, cumulative(run_time, edges[1:-1]), np.array(1.0))
    return Told(histogram, float(mean(run_time)), middle)


def by_equation(model: Model, values: Mapping[str, Value], quiet: Histogram | None) -> Told:
    """Return what a structural model says; EquationError where a value is missing or not fit."""
    given = dict(values) if quiet is None else {**values, DEDICATED: quiet}
    found = evaluate(model, given)
    return Told(found.histogram, float(mean(found.histogram)), found.quantiles_s, found.mc_gap)


def _product(x: Histogram, y: Histogram) -> Histogram:
    """Return x y for positive values, as a sum of logarithms: equal intervals of one of them would hold nearly all."""
    one, other = (Histogram(np.log(each.edges), each.shares) for each in (x, y))
    total = add(one, other, INTERVALS_MAX, sum_mode="exact")
    return Histogram(np.exp(total.edges), total.shares)
