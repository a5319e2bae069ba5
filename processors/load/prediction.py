"""Run times under load: a curve's run time, stretched according to the free share of the slowest host, or the result of an equation.

    T = share_comp T(n) (max_p(1 / cpu_p) / usual_load)^follows  +  share_comm T(n) max_p(usual_bw / bw_p)^persistence

Source: Schopf, Berman, "Using stochastic information to predict application behavior on contended resources" (2001). T(n) is a
random value with the quantiles of the curve's band. The curve was learned from runs under some load, so the load is divided by
the usual load of those runs. The exponents are 1 in the source; in this module, the exponents express how closely past runs
followed the load. The part of a run that waits for the network is learned as well (`records.py`); this part is 0 until runs
have shown it.

A running job has its own hosts, and each host counts with its own window. A future job may get any host of a partition,
or of a list that is longer than needed, with equal probability, so the windows of these hosts are pooled. If there are
too many hosts to read all windows, a fixed sample is read, spread evenly over the sorted hosts.
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
    exact_sum,
    in_common,
    mean,
    minimum_over,
    mixture,
    point,
    quantiles,
    scaled,
)
from processors.models.numerics.arrays import Floats, read_only
from processors.models.numerics.scipy_functions import normal_share_below
from processors.models.structure.evaluate import LEVELS, evaluate
from processors.models.structure.form import Value
from processors.models.structure.parse import DEDICATED, Equation

LOOKED_AT_MAX: Final = 128
AGE_MAX_MS: Final = 900_000  # maximum age of a window that is used
KNOWN_MIN: Final = 0.5  # least share of the sampled hosts with a window
TEXT_MAX: Final = 60
PLACES: Final = 16  # cached, because a job asks for its hosts several times in a row
BANDS: Final = 1024  # cached T(n): runs of one application and size share it until the next fit
DEVIATIONS: Final = 2.6  # range of T(n) on either side of the median, in standard deviations: 99 %
TAIL: Final = 0.005  # a summary ranges from quantile TAIL to quantile 1 - TAIL
_spread: Final = lru_cache(maxsize=PLACES)(spread)
REACH: Final = 1.15  # factor on the range in ln T, because run times scatter more widely than a normal distribution

View = Literal["own", "pool"]


class LoadPlace(NamedTuple):
    """The hosts on which a job runs or may run. `names` are the hosts that are sampled, `hosts` is the number of hosts of the job.

    `view` is "own" for the job's own hosts, "pool" if the job gets some hosts of a larger set. `each` is True if `names` contains
    every host of the job. `first` is the first host of the job, None if unknown.
    """

    system: str
    names: tuple[str, ...]
    hosts: float
    view: View
    each: bool
    text: str
    first: str | None = None


class WindowLoad(NamedTuple):
    """Windows of one resource as k histograms `rows`; each histogram stands for `counts` (k,) hosts.

    `missing`, `stale` and `thin` are the numbers of sampled hosts without a window, with an old window, and with few samples.
    `range_max` is the largest difference between the ends of a window.
    """

    rows: Histogram
    counts: Floats
    missing: int
    stale: int
    thin: int
    range_max: float


class TooLittleError(Exception):
    """Too little is known for a prediction. `missing` is the number of hosts without a window."""

    def __init__(self, message: str, missing: int = 0) -> None:
        super().__init__(message)
        self.missing = missing


def of_hosts(system: str, texts: Sequence[str], count: float | None = None) -> LoadPlace:
    """Return the place of a job that gets `count` of the hosts in host lists, or all of them if `count` is None.

    Raise TooLittleError if the lists are empty, invalid or name too few hosts.
    """
    try:
        hosts, names = _spread(tuple(texts), LOOKED_AT_MAX)
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


def of_partition(windows: Hosts, system: str, partition: str, count: float) -> LoadPlace:
    """Return the place of a job that gets `count` hosts of a partition. Raise TooLittleError if no host is known."""
    hosts = windows.hosts_of(system, partition)
    if not hosts:
        raise TooLittleError(f"No host of partition {partition} is known.")
    step = max(len(hosts) / LOOKED_AT_MAX, 1.0)
    names = tuple(hosts[int(i * step)] for i in range(min(len(hosts), LOOKED_AT_MAX)))
    return LoadPlace(system, names, count, "pool", each=False, text=f"partition {partition}")


def load(windows: Hosts, place: LoadPlace, resource: str, until_ms: int, source: LoadSource = "window") -> WindowLoad:
    """Return the windows of a resource before `until_ms`. Raise TooLittleError if more than half of the hosts have no window.

    A host of the job without a window gets the pooled histogram of the other hosts. If `source` is "forecast", the histograms are
    forecasts.
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
    """Return the window of the job's first host; None if the host is unknown or has no window."""
    window = _window(windows, place, place.first, resource, until_ms) if place.first else None
    return in_common([window.edges], [even(window.shares)]).host(0) if window else None


def _rows(
    host_windows: Sequence[HostWindow | None], histograms: Histogram, place: LoadPlace
) -> tuple[Histogram, Floats]:
    """Return the histograms of a place, and the number of hosts for which each stands.

    If all hosts of the job are known, each has its own histogram (the pooled one if its window is missing); otherwise a single
    pooled histogram stands for all.
    """
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
    """Return the host windows with their histograms replaced by forecasts; None for hosts without a forecast."""
    forecasts = windows.forecasts(place.system, place.names, resource, until_ms)
    return [
        msgspec.structs.replace(window, edges=forecast.edges, shares=forecast.shares) if window and forecast else None
        for window, forecast in zip(host_windows, forecasts, strict=True)
    ]


class LearnedLoad(NamedTuple):
    """Parameters learned from past runs.

    `baseline_load` is the usual load. `follows` tells how closely run times follow the load, from 0 to 1. `width` is a factor for
    the spread of predictions. `network` is None if the network is not used.
    """

    baseline_load: float = 1.0
    follows: float = 1.0
    width: float = 1.0
    network: NetworkEffect | None = None


class LoadPrediction(NamedTuple):
    """A run time in seconds: a histogram with at most five intervals, its mean, and its 5 %, 50 % and 95 % quantiles.

    `gap` is the difference between histogram arithmetic and Monte Carlo draws, divided by the range; None without draws.
    """

    histogram: Histogram
    mean_s: float
    quantiles_s: tuple[float, float, float]
    gap: float | None = None


@lru_cache(maxsize=BANDS)
def quiet_run_time(band: PublishedPoint, intervals: int = INTERVALS) -> Histogram:
    """Return T(n), the run time of `band` as a histogram: log-normal with one deviation below and another above the median.

    The intervals are equal in ln T. Raise ValueError if the band does not contain its median.
    """
    if not 0 < band.low_s <= band.run_time_s <= band.high_s < math.inf:
        raise ValueError("A band holds its point.")
    deviations = np.linspace(-DEVIATIONS, DEVIATIONS, intervals + 1)
    below, above = (math.log(end / band.run_time_s) / BAND_DEVIATIONS for end in (band.low_s, band.high_s))
    edges = band.run_time_s * np.exp(abs(deviations) * np.where(deviations < 0, below, above))
    shares = np.diff(normal_share_below(deviations))
    return Histogram(read_only(edges), read_only(shares / shares.sum()))


def slowdown(load: WindowLoad, least: float = AVAILABILITY_MIN) -> Histogram:
    """Return max_p(1 / x_p) over the hosts p: the factor by which the slowest host lengthens a run.

    x is the free share of a host (or its bandwidth); smaller values than `least` count as `least`.
    """
    least_of_all = minimum_over(at_least(load.rows, least, INTERVALS_MAX), INTERVALS_MAX, load.counts)
    return Histogram(1.0 / least_of_all.edges[::-1], least_of_all.shares[::-1])


def waiting(bandwidth: WindowLoad) -> Histogram:
    """Return max_p(1 / bw_p) in s/B over the hosts p. A host counts with at least AVAILABILITY_MIN of the best bandwidth.

    Raise TooLittleError if no host has bandwidth left.
    """
    best = float(bandwidth.rows.edges.max())
    if best <= 0:
        raise TooLittleError("The hosts have no bandwidth left.")
    return slowdown(bandwidth, AVAILABILITY_MIN * best)


def loaded_run_time(
    quiet: Histogram, slowed: Histogram, learned: LearnedLoad, waits: Histogram | None = None
) -> Histogram:
    """Return the run time under load by the default equation; `slowed` comes from `slowdown`, `waits` from `waiting`.

    Computing and communication both scale with the same random T(n), so T(n) is multiplied by the sum of their factors. Raise
    ValueError if the result is too large.
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
    """Return a run time as a histogram with five equal intervals, with its mean and its quantiles.

    The range is that from quantile TAIL to 1 - TAIL, widened by REACH in ln T; run times outside count in the first or last
    interval.
    """
    low_s, *levels, high_s = (float(value) for value in quantiles(run_time, (TAIL, *LEVELS, 1 - TAIL)))
    middle = (levels[0], levels[1], levels[2])
    low_s, high_s = (middle[1] * (end / middle[1]) ** REACH for end in (low_s, high_s))
    if low_s >= high_s:
        return LoadPrediction(point(low_s), float(mean(run_time)), middle)
    edges = equal_edges(low_s, high_s, INTERVALS)
    histogram = between(edges, cumulative(run_time, edges[1:-1]), np.array(1.0))
    return LoadPrediction(histogram, float(mean(run_time)), middle)


def by_equation(model: Equation, values: Mapping[str, Value], quiet: Histogram | None) -> LoadPrediction:
    """Return the run time that the equation of a structural model gives; `quiet` is T(n), None if the equation does not use it.

    Raise EquationError if a value is missing or invalid.
    """
    evaluated = evaluate(model, values if quiet is None else {**values, DEDICATED: quiet})
    return LoadPrediction(
        evaluated.histogram, float(mean(evaluated.histogram)), evaluated.quantiles_s, evaluated.mc_gap
    )


def _product(x: Histogram, y: Histogram) -> Histogram:
    """Return the product of two positive random values.

    It is the sum of their logarithms: with equal intervals of the product itself, one interval would hold nearly all probability.
    """
    ln_x, ln_y = (Histogram(np.log(each.edges), each.shares) for each in (x, y))
    total = exact_sum(ln_x, ln_y, INTERVALS_MAX)
    return Histogram(np.exp(total.edges), total.shares)
