"""Run times under load: what a curve says, stretched by what the slowest host has left, or what an equation says.

    T = share_comp T(n) (max_p(1 / cpu_p) / usual_load)^follows  +  share_comm T(n) max_p(usual_bw / bw_p)^persistence

Source: Schopf, Berman, "Using stochastic information to predict application behavior on contended resources" (2001).
T(n) is a stochastic value, whose quantiles are those of the curve's band. The curve was learned from runs that met some
load themselves: it is divided by their usual one. The powers, 1 in the source, are how closely runs were seen to follow it.
What part of a run waits for the network is learned, too (`communication.py`): none until runs have shown it.

A job that runs has hosts of its own, and each of them counts with its own window. A job that is to run on some hosts of a
partition, or of a list that is longer than it needs, meets each as likely as any other: their windows are pooled. Where
there are too many hosts to look at each, those looked at are spread evenly over their order, the same ones each time.
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple

import msgspec
import numpy as np

from processors.contracts.errors import InvalidInputError
from processors.contracts.hosts import HostWindow, Windows
from processors.contracts.load import LoadSource
from processors.contracts.nodes import spread
from processors.facts import PublishedPoint
from processors.load.communication import Network
from processors.models.downey.bayes import BAND_DEVIATIONS
from processors.models.histogram.arithmetic import (
    AVAILABILITY_MIN,
    add,
    at_least,
    cumulative,
    mean,
    minimum_over,
    mixture,
    quantiles,
    scaled,
)
from processors.models.histogram.values import (
    INTERVALS,
    INTERVALS_MAX,
    Histogram,
    between,
    equal_edges,
    in_common,
    point,
)
from processors.models.numerics.arrays import Floats
from processors.models.numerics.scipy_functions import normal_share_below
from processors.models.structure.evaluate import LEVELS, evaluate
from processors.models.structure.form import Value
from processors.models.structure.parse import DEDICATED, Equation

LOOKED_AT_MAX: Final = 128
AGE_MAX_MS: Final = 900_000  # a window that ended longer before says nothing of the moment
KNOWN_MIN: Final = 0.5  # of the hosts looked at
TEXT_MAX: Final = 60
PLACES: Final = 16  # whose hosts are remembered: a job asks for its own several times in a row
BANDS: Final = 1024  # whose T(n) is remembered: runs of one application and size have the same until it is fitted anew
DEVIATIONS: Final = 2.6  # what T(n) covers on either side: 99 %
TAIL: Final = 0.005  # the quantiles that the range is told by,
REACH: Final = 1.15  # and by how much farther, in ln T, it goes: runs scatter wider than a normal distribution

View = Literal["own", "pool"]


class Place(NamedTuple):
    """Where a job runs or may run: `names` are the hosts looked at, `hosts` is how many it has.

    `view` tells whether these are a job's own hosts, or a pool of which it gets some; `each` whether all of its own are
    looked at. `first` is the host that leads it, where that is known.
    """

    system: str
    names: tuple[str, ...]
    hosts: float
    view: View
    each: bool
    text: str
    first: str | None = None


class Load(NamedTuple):
    """What windows say of one resource: `rows` (k, m) of histograms, and how many hosts each stands for, `counts` (k,).

    `missing`, `stale` and `thin` are counts of hosts among those looked at. `range_max` is the longest range of a window.
    """

    rows: Histogram
    counts: Floats
    missing: int
    stale: int
    thin: int
    range_max: float


class TooLittleError(Exception):
    """Too little is known for a figure; the text is a sentence that says what, `missing` how many hosts have no window."""

    def __init__(self, message: str, missing: int = 0) -> None:
        super().__init__(message)
        self.missing = missing


def of_hosts(system: str, texts: Sequence[str], count: float | None = None) -> Place:
    """Return the place of some host lists; a job that needs `count` of them gets any. TooLittleError for no hosts."""
    try:
        named, names = _looked_at(tuple(texts))
    except InvalidInputError as error:
        raise TooLittleError(str(error)) from error
    if not named:
        raise TooLittleError("No host is named.")
    needed = named if count is None else count
    if needed > named:
        raise TooLittleError(f"{needed:g} hosts are needed, {named} are named.")
    text = ",".join(texts)
    parts = text if len(text) <= TEXT_MAX else f"{named} hosts"
    if needed < named:
        return Place(system, names, needed, "pool", each=False, text=f"{needed:g} of {parts}")
    return Place(system, names, needed, "own", each=len(names) == named, text=parts, first=names[0])


@lru_cache(maxsize=PLACES)
def _looked_at(texts: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    """Return how many hosts some lists name, and those looked at; errors as those of `spread`."""
    return spread(texts, LOOKED_AT_MAX)


def of_partition(windows: Windows, system: str, partition: str, count: float) -> Place:
    """Return the place of a job that needs `count` hosts of a partition. TooLittleError where none of them is known."""
    known = windows.hosts_of(system, partition)
    if not known:
        raise TooLittleError(f"No host of partition {partition} is known.")
    step = max(len(known) / LOOKED_AT_MAX, 1.0)
    names = tuple(known[int(i * step)] for i in range(min(len(known), LOOKED_AT_MAX)))
    return Place(system, names, count, "pool", each=False, text=f"partition {partition}")


def load(windows: Windows, place: Place, resource: str, until_ms: int, source: LoadSource = "window") -> Load:
    """Return what the windows before a moment say of a resource; TooLittleError where too many are missing.

    Hosts of its own without a window are taken to be like the others. With the source `forecast` the histograms are those of
    what is expected next.
    """
    found = [_window(windows, place, name, resource, until_ms) for name in place.names]
    range_max = max((window.edges[-1] - window.edges[0] for window in found if window is not None), default=0.0)
    if source == "forecast":
        found = _expected(windows, place, resource, until_ms, found)
    retained = [window for window in found if window is not None]
    missing = len(found) - len(retained)
    if len(retained) < KNOWN_MIN * len(found):
        raise TooLittleError(f"{missing} of {len(found)} hosts have no window of {resource}.", missing)
    each = in_common([window.edges for window in retained], [_even(window.shares) for window in retained])
    rows, counts = _rows(found, each, place)
    stale, thin = sum(window.stale for window in retained), sum(window.thin for window in retained)
    return Load(rows, counts, missing, stale, thin, range_max)


def first_window(windows: Windows, place: Place, resource: str, until_ms: int) -> Histogram | None:
    """Return the window of the host that leads a job; None where it has none, or is not known."""
    window = _window(windows, place, place.first, resource, until_ms) if place.first else None
    return in_common([window.edges], [_even(window.shares)]).host(0) if window else None


def pooled(found: Load) -> Histogram:
    """Return the window of a host picked from all."""
    return mixture(found.rows, found.counts)


def _rows(found: Sequence[HostWindow | None], each: Histogram, place: Place) -> tuple[Histogram, Floats]:
    """Return a row for each host in their order, the pool in the place of a window that is missing; or the pool alone."""
    if place.each and None not in found:
        return each, np.ones(each.hosts)
    pool = mixture(each)
    if not place.each:
        return Histogram(pool.edges[None], pool.shares[None]), np.array([float(place.hosts)])
    edges = [pool.edges.tolist() if window is None else window.edges for window in found]
    shares = [pool.shares.tolist() if window is None else _even(window.shares) for window in found]
    return in_common(edges, shares), np.ones(len(found))


def _window(windows: Windows, place: Place, name: str, resource: str, until_ms: int) -> HostWindow | None:
    window = windows.window(place.system, name, resource, until_ms)
    recent = window is not None and until_ms - window.until_ms <= AGE_MAX_MS and bool(window.shares)
    return window if recent else None


def _expected(
    windows: Windows, place: Place, resource: str, until_ms: int, found: Sequence[HostWindow | None]
) -> list[HostWindow | None]:
    """Return windows with the histogram of what is expected next in the place of their own; None where that is not known."""
    forecasts = windows.forecasts(place.system, place.names, resource, until_ms)
    return [
        msgspec.structs.replace(window, edges=forecast.edges, shares=forecast.shares) if window and forecast else None
        for window, forecast in zip(found, forecasts, strict=True)
    ]


def _even(shares: Sequence[float]) -> list[float]:
    """Return shares that sum to one: windows are kept in few digits."""
    total = sum(shares)
    return [share / total for share in shares]


class Learned(NamedTuple):
    """What runs taught: the load that is usual, how closely they follow it and the network, and by which factor they scatter."""

    baseline_load: float = 1.0
    follows: float = 1.0
    width: float = 1.0
    network: Network | None = None


class LoadPrediction(NamedTuple):
    """A run time in seconds: five intervals, its mean, and its 5 %, 50 % and 95 % quantiles.

    `gap` is by how much arithmetic and draws differ, in parts of the range; None where nothing was drawn.
    """

    histogram: Histogram
    mean_s: float
    quantiles_s: tuple[float, float, float]
    gap: float | None = None


NOTHING_LEARNED: Final = Learned()


@lru_cache(maxsize=BANDS)
def quiet_run_time(band: PublishedPoint, intervals: int = INTERVALS, width: float = 1.0) -> Histogram:
    """Return T(n): a log-normal value on either side of the median, in intervals that are equal in ln T.

    `width` scales the deviation. Raises ValueError where the band does not hold its point.
    """
    if not 0 < band.low_s <= band.run_time_s <= band.high_s < math.inf:
        raise ValueError("A band holds its point.")
    deviations = np.linspace(-DEVIATIONS, DEVIATIONS, intervals + 1)
    below, above = (math.log(end / band.run_time_s) / BAND_DEVIATIONS for end in (band.low_s, band.high_s))
    edges = band.run_time_s * np.exp(width * abs(deviations) * np.where(deviations < 0, below, above))
    shares = np.diff(normal_share_below(deviations))
    found = Histogram(edges, shares / shares.sum())
    for each in (found.edges, found.shares):
        each.setflags(write=False)
    return found


def slowdown(found: Load, least: float = AVAILABILITY_MIN) -> Histogram:
    """Return max_p(1 / x_p), the factor by which the slowest host stretches what is computed, or sent; x is at least so much."""
    least_of_all = minimum_over(at_least(found.rows, least, INTERVALS_MAX), INTERVALS_MAX, found.counts)
    return Histogram(1.0 / least_of_all.edges[::-1], least_of_all.shares[::-1])


def waiting(bandwidth: Load) -> Histogram:
    """Return max_p(1 / bw_p) in s/B, a host without anything left having a hundredth of the best; TooLittleError for none."""
    best = float(bandwidth.rows.edges.max())
    if best <= 0:
        raise TooLittleError("The hosts have no bandwidth left.")
    return slowdown(bandwidth, AVAILABILITY_MIN * best)


def loaded_run_time(
    quiet: Histogram, slowed: Histogram, learned: Learned = NOTHING_LEARNED, waits: Histogram | None = None
) -> Histogram:
    """Return T by the default equation; `slowed` is that of `slowdown`, `waits` that of `waiting`.

    T(n) stands in both terms and is one value, so that it is multiplied by their sum. ValueError where it is too large for
    a number.
    """
    factor = Histogram((slowed.edges / learned.baseline_load) ** learned.follows, slowed.shares)
    network = learned.network
    if network is not None and waits is not None:
        waited = Histogram((network.bandwidth * waits.edges) ** network.persistence, waits.shares)
        factor = add(scaled(factor, 1 - network.share), scaled(waited, network.share), INTERVALS_MAX)
    return _product(quiet, factor)


def load_spread(run_time: Histogram, width: float) -> Histogram:
    """Return a run time whose distances from its median, in ln T, are scaled by a factor."""
    middle = float(quantiles(run_time, [0.5])[0])
    return Histogram(middle * (run_time.edges / middle) ** width, run_time.shares)


def summary(run_time: Histogram) -> LoadPrediction:
    """Return what is said of a run time: five intervals from below its quantile TAIL to above 1 - TAIL, for all of it."""
    low_s, *levels, high_s = (float(value) for value in quantiles(run_time, (TAIL, *LEVELS, 1 - TAIL)))
    middle = (levels[0], levels[1], levels[2])
    low_s, high_s = (middle[1] * (end / middle[1]) ** REACH for end in (low_s, high_s))
    if low_s >= high_s:
        return LoadPrediction(point(low_s), float(mean(run_time)), middle)
    edges = equal_edges(low_s, high_s, INTERVALS)
    histogram = between(edges, cumulative(run_time, edges[1:-1]), np.array(1.0))
    return LoadPrediction(histogram, float(mean(run_time)), middle)


def by_equation(model: Equation, values: Mapping[str, Value], quiet: Histogram | None) -> LoadPrediction:
    """Return what a structural model says; EquationError where a value is missing or not fit."""
    given = dict(values) if quiet is None else {**values, DEDICATED: quiet}
    found = evaluate(model, given)
    return LoadPrediction(found.histogram, float(mean(found.histogram)), found.quantiles_s, found.mc_gap)


def _product(x: Histogram, y: Histogram) -> Histogram:
    """Return x y for positive values, as a sum of logarithms: equal intervals of one of them would hold nearly all."""
    one, other = (Histogram(np.log(each.edges), each.shares) for each in (x, y))
    total = add(one, other, INTERVALS_MAX, sum_mode="exact")
    return Histogram(np.exp(total.edges), total.shares)
