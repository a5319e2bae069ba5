"""Run times under load: what a curve says, stretched by what the slowest host has left, or what an equation says.

    T = share_comp T(n) (max_p(1 / cpu_p) / usual_load)^follows  +  share_comm T(n) max_p(usual_bw / bw_p)^persistence

Source: Schopf, Berman, "Using stochastic information to predict application behavior on contended resources" (2001).
T(n) is a stochastic value, whose quantiles are those of the curve's band. The curve was learned from runs that met some
load themselves: it is divided by their usual one. The powers, 1 in the source, are how closely runs were seen to follow it.
What part of a run waits for the network is learned, too (`records.py`): none until runs have shown it.

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
from processors.contracts.hosts import Hosts, HostWindow
from processors.contracts.load import LoadSource
from processors.contracts.nodes import spread
from processors.facts import PublishedPoint
from processors.load.records import NetworkEffect
from processors.models.downey.bayes import BAND_DEVIATIONS
from processors.models.histogram import (
    AVAILABILITY_MIN,
    INTERVALS,
    INTERVALS_MAX,
    Histogram,
    add,
    at_least,
    between,
    cumulative,
    equal_edges,
    even,
    in_common,
    mean,
    minimum_over,
    mixture,
    point,
    quantiles,
    scaled,
)
from processors.models.numerics.arrays import Floats
from processors.models.numerics.scipy_functions import normal_share_below
from processors.models.structure.evaluate import LEVELS, evaluate
from processors.models.structure.form import Value
from processors.models.structure.parse import DEDICATED, Equation

LOOKED_AT_MAX: Final = 128
AGE_MAX_MS: Final = 900_000  # older windows are not used
KNOWN_MIN: Final = 0.5  # of the hosts looked at
TEXT_MAX: Final = 60
PLACES: Final = 16  # cached, because a job asks for its hosts several times in a row
BANDS: Final = 1024  # cached T(n): runs of one application and size share it until the next fit
DEVIATIONS: Final = 2.6  # range of T(n) on either side: 99 %
TAIL: Final = 0.005  # the quantiles that the range is told by,
REACH: Final = 1.15  # and by how much farther, in ln T, it goes: runs scatter wider than a normal distribution

View = Literal["own", "pool"]


class LoadPlace(NamedTuple):
    """The hosts on which a job runs or may run: `names` are the hosts to look at, `hosts` is the number that the job has.

    `view` tells whether these are the job's own hosts or a pool that provides some; `each` whether all of its own hosts are looked at.
    `first` is the leading host, if known.
    """

    system: str
    names: tuple[str, ...]
    hosts: float
    view: View
    each: bool
    text: str
    first: str | None = None


class WindowLoad(NamedTuple):
    """Windows of one resource: `rows` (k, m) of histograms, each standing for `counts` (k,) hosts.

    `missing`, `stale` and `thin` count hosts among those looked at. `range_max` is the longest range of a window.
    """

    rows: Histogram
    counts: Floats
    missing: int
    stale: int
    thin: int
    range_max: float


class TooLittleError(Exception):
    """Too little is known to predict; the text says what is missing, `missing` is the number of hosts without a window."""

    def __init__(self, message: str, missing: int = 0) -> None:
        super().__init__(message)
        self.missing = missing


def of_hosts(system: str, texts: Sequence[str], count: float | None = None) -> LoadPlace:
    """Return the place of some host lists, from which a job gets `count` hosts. TooLittleError for no hosts."""
    try:
        hosts, names = _looked_at(tuple(texts))
    except InvalidInputError as error:
        raise TooLittleError(str(error)) from error
    if not hosts:
        raise TooLittleError("No host is named.")
    needed = hosts if count is None else count
    if needed > hosts:
        raise TooLittleError(f"{needed:g} hosts are needed, {hosts} are named.")
    text = ",".join(texts)
    parts = text if len(text) <= TEXT_MAX else f"{hosts} hosts"
    if needed < hosts:
        return LoadPlace(system, names, needed, "pool", each=False, text=f"{needed:g} of {parts}")
    return LoadPlace(system, names, needed, "own", each=len(names) == hosts, text=parts, first=names[0])


@lru_cache(maxsize=PLACES)
def _looked_at(texts: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    """Return the number of hosts in some lists, and the hosts to look at; errors as those of `spread`."""
    return spread(texts, LOOKED_AT_MAX)


def of_partition(windows: Hosts, system: str, partition: str, count: float) -> LoadPlace:
    """Return the place of a job that gets `count` hosts of a partition. TooLittleError if no host is known."""
    hosts = windows.hosts_of(system, partition)
    if not hosts:
        raise TooLittleError(f"No host of partition {partition} is known.")
    step = max(len(hosts) / LOOKED_AT_MAX, 1.0)
    names = tuple(hosts[int(i * step)] for i in range(min(len(hosts), LOOKED_AT_MAX)))
    return LoadPlace(system, names, count, "pool", each=False, text=f"partition {partition}")


def load(windows: Hosts, place: LoadPlace, resource: str, until_ms: int, source: LoadSource = "window") -> WindowLoad:
    """Return the windows of a resource before a moment; TooLittleError if too many are missing.

    Own hosts without a window count like the others. With the source `forecast` the histograms are forecasts.
    """
    host_windows = [_window(windows, place, name, resource, until_ms) for name in place.names]
    range_max = max((window.edges[-1] - window.edges[0] for window in host_windows if window is not None), default=0.0)
    if source == "forecast":
        host_windows = _expected(windows, place, resource, until_ms, host_windows)
    retained = [window for window in host_windows if window is not None]
    missing = len(host_windows) - len(retained)
    if len(retained) < KNOWN_MIN * len(host_windows):
        raise TooLittleError(f"{missing} of {len(host_windows)} hosts have no window of {resource}.", missing)
    histograms = in_common([window.edges for window in retained], [even(window.shares) for window in retained])
    rows, counts = _rows(host_windows, histograms, place)
    stale, thin = sum(window.stale for window in retained), sum(window.thin for window in retained)
    return WindowLoad(rows, counts, missing, stale, thin, range_max)


def first_window(windows: Hosts, place: LoadPlace, resource: str, until_ms: int) -> Histogram | None:
    """Return the window of the job's leading host; None if it has none, or is unknown."""
    window = _window(windows, place, place.first, resource, until_ms) if place.first else None
    return in_common([window.edges], [even(window.shares)]).host(0) if window else None


def pooled(load: WindowLoad) -> Histogram:
    return mixture(load.rows, load.counts)


def _rows(
    host_windows: Sequence[HostWindow | None], histograms: Histogram, place: LoadPlace
) -> tuple[Histogram, Floats]:
    """Return a row for each host in order, with the pool for missing windows; or the pool alone."""
    if place.each and None not in host_windows:
        return histograms, np.ones(histograms.hosts)
    pool = mixture(histograms)
    if not place.each:
        return Histogram(pool.edges[None], pool.shares[None]), np.array([float(place.hosts)])
    edges = [pool.edges.tolist() if window is None else window.edges for window in host_windows]
    shares = [pool.shares.tolist() if window is None else even(window.shares) for window in host_windows]
    return in_common(edges, shares), np.ones(len(host_windows))


def _window(windows: Hosts, place: LoadPlace, name: str, resource: str, until_ms: int) -> HostWindow | None:
    window = windows.window(place.system, name, resource, until_ms)
    recent = window is not None and until_ms - window.until_ms <= AGE_MAX_MS and bool(window.shares)
    return window if recent else None


def _expected(
    windows: Hosts, place: LoadPlace, resource: str, until_ms: int, host_windows: Sequence[HostWindow | None]
) -> list[HostWindow | None]:
    """Return windows whose histograms are forecasts; None without a forecast."""
    forecasts = windows.forecasts(place.system, place.names, resource, until_ms)
    return [
        msgspec.structs.replace(window, edges=forecast.edges, shares=forecast.shares) if window and forecast else None
        for window, forecast in zip(host_windows, forecasts, strict=True)
    ]


class LearnedLoad(NamedTuple):
    """What runs taught: the usual load, how closely they follow load and network, and the factor of their scatter."""

    baseline_load: float = 1.0
    follows: float = 1.0
    width: float = 1.0
    network: NetworkEffect | None = None


class LoadPrediction(NamedTuple):
    """A run time in seconds: five intervals, its mean, and its 5 %, 50 % and 95 % quantiles.

    `gap` is the difference between arithmetic and draws, as a share of the range; None without draws.
    """

    histogram: Histogram
    mean_s: float
    quantiles_s: tuple[float, float, float]
    gap: float | None = None


NOTHING_LEARNED: Final = LearnedLoad()


@lru_cache(maxsize=BANDS)
def quiet_run_time(band: PublishedPoint, intervals: int = INTERVALS, width: float = 1.0) -> Histogram:
    """Return T(n): a log-normal value on either side of the median, in intervals that are equal in ln T.

    `width` scales the deviation. ValueError if the band does not hold its point.
    """
    if not 0 < band.low_s <= band.run_time_s <= band.high_s < math.inf:
        raise ValueError("A band holds its point.")
    deviations = np.linspace(-DEVIATIONS, DEVIATIONS, intervals + 1)
    below, above = (math.log(end / band.run_time_s) / BAND_DEVIATIONS for end in (band.low_s, band.high_s))
    edges = band.run_time_s * np.exp(width * abs(deviations) * np.where(deviations < 0, below, above))
    shares = np.diff(normal_share_below(deviations))
    histogram = Histogram(edges, shares / shares.sum())
    for each in (histogram.edges, histogram.shares):
        each.setflags(write=False)
    return histogram


def slowdown(load: WindowLoad, least: float = AVAILABILITY_MIN) -> Histogram:
    """Return max_p(1 / x_p), the factor by which the slowest host stretches computation or transfer; x is at least `least`."""
    least_of_all = minimum_over(at_least(load.rows, least, INTERVALS_MAX), INTERVALS_MAX, load.counts)
    return Histogram(1.0 / least_of_all.edges[::-1], least_of_all.shares[::-1])


def waiting(bandwidth: WindowLoad) -> Histogram:
    """Return max_p(1 / bw_p) in s/B, an exhausted host having a hundredth of the best; TooLittleError if all are exhausted."""
    best = float(bandwidth.rows.edges.max())
    if best <= 0:
        raise TooLittleError("The hosts have no bandwidth left.")
    return slowdown(bandwidth, AVAILABILITY_MIN * best)


def loaded_run_time(
    quiet: Histogram, slowed: Histogram, learned: LearnedLoad = NOTHING_LEARNED, waits: Histogram | None = None
) -> Histogram:
    """Return T by the default equation; `slowed` comes from `slowdown`, `waits` from `waiting`.

    Both terms contain the same random T(n), which is therefore multiplied by their sum. ValueError if the result is too large.
    """
    factor = Histogram((slowed.edges / learned.baseline_load) ** learned.follows, slowed.shares)
    network = learned.network
    if network is not None and waits is not None:
        waited = Histogram((network.bandwidth * waits.edges) ** network.persistence, waits.shares)
        factor = add(scaled(factor, 1 - network.share), scaled(waited, network.share), INTERVALS_MAX)
    return _product(quiet, factor)


def load_spread(run_time: Histogram, width: float) -> Histogram:
    """Return a run time whose distances from its median, in ln T, are scaled by `width`."""
    middle = float(quantiles(run_time, [0.5])[0])
    return Histogram(middle * (run_time.edges / middle) ** width, run_time.shares)


def summary(run_time: Histogram) -> LoadPrediction:
    """Return the summary of a run time: five intervals from below its quantile TAIL to above 1 - TAIL, with all of its shares."""
    low_s, *levels, high_s = (float(value) for value in quantiles(run_time, (TAIL, *LEVELS, 1 - TAIL)))
    middle = (levels[0], levels[1], levels[2])
    low_s, high_s = (middle[1] * (end / middle[1]) ** REACH for end in (low_s, high_s))
    if low_s >= high_s:
        return LoadPrediction(point(low_s), float(mean(run_time)), middle)
    edges = equal_edges(low_s, high_s, INTERVALS)
    histogram = between(edges, cumulative(run_time, edges[1:-1]), np.array(1.0))
    return LoadPrediction(histogram, float(mean(run_time)), middle)


def by_equation(model: Equation, values: Mapping[str, Value], quiet: Histogram | None) -> LoadPrediction:
    """Return the run time by a structural model; EquationError if a value is missing or unfit."""
    all_values = dict(values) if quiet is None else {**values, DEDICATED: quiet}
    evaluated = evaluate(model, all_values)
    return LoadPrediction(
        evaluated.histogram, float(mean(evaluated.histogram)), evaluated.quantiles_s, evaluated.mc_gap
    )


def _product(x: Histogram, y: Histogram) -> Histogram:
    """Return x y for positive values as a sum of logarithms, because equal intervals of x or y would hold nearly all."""
    ln_x, ln_y = (Histogram(np.log(each.edges), each.shares) for each in (x, y))
    total = add(ln_x, ln_y, INTERVALS_MAX, sum_mode="exact")
    return Histogram(np.exp(total.edges), total.shares)
