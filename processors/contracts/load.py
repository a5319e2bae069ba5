"""Predictions of run times under the current load of the hosts: settings and messages."""

from typing import Annotated, Literal

import msgspec
from pydantic import Field

from processors.contracts.hosts import Variation
from processors.contracts.settings import Settings

ResourceName = Annotated[str, Field(min_length=1, max_length=64)]
LoadSource = Literal["window", "forecast"]
RESOURCES = ("cpu_available", "memory_free", "bandwidth", "latency")


class StructuralModel(Settings):
    """An equation for the run time of an application that uses measurements of its hosts.

    >>> StructuralModel(application="^sor$", equation="work_s / cpu_available", parameters={"work_s": 60.0}).resources[0]
    'cpu_available'
    """

    application: str = Field(
        min_length=1, max_length=256, description="regular expression that must be found in the name of the application"
    )
    equation: str = Field(
        max_length=4000,
        description="lines of the form name = expression; the last one is the run time in seconds. Expressions may use + - * /, max, min, "
        "max_over(hosts, ...), min_over(hosts, ...), hosts, n, T(n), parameters and resources",
    )
    parameters: dict[str, float] = Field(
        default_factory=dict, max_length=64, description="constants of the equation, such as benchmark results"
    )
    resources: tuple[ResourceName, ...] = Field(
        default=RESOURCES,
        max_length=32,
        description="host resources that the equation uses (shares, B, B/s, s); a name with the prefix master_ takes the "
        "value of the first host of the job for all hosts",
    )


class UnderLoadSettings(Settings):
    """Predictions of run times under the current load of the hosts.

    >>> UnderLoadSettings().models, UnderLoadSettings().bandwidth
    ((), 'bandwidth')
    """

    models: tuple[StructuralModel, ...] = Field(
        default=(),
        max_length=1000,
        description="structural models; the first one that matches an application replaces its curve in predictions under load",
    )
    bandwidth: ResourceName | None = Field(
        default="bandwidth",
        description="host resource with the free network bandwidth in B/s; values towards several hosts (`bandwidth>HOST`) are "
        "added. Each application learns which part of its run time depends on it, and uses it if that improves predictions; null: "
        "not used",
    )


class LoadHistogram(msgspec.Struct, frozen=True):
    """A histogram of the run time in seconds: the edges of five equal intervals, and their probabilities.

    A run time without uncertainty has only two edges.
    """

    edges_s: tuple[float, ...]
    probabilities: tuple[float, ...]


class LoadQuality(msgspec.Struct, frozen=True, kw_only=True):
    """The accuracy of past histograms on runs that have ended since. Newer runs count more.

    `of` is "application" if the scored runs are those of the application, "centre" while the application has too few. `scored`
    is the number of runs, and `in_range` the share of runs between the first and the last edge. `hits` is the share of runs in
    each of the five intervals, and `expected` the predicted probability of each interval.
    `crps_ratio` is the continuous ranked probability score (CRPS) of the histograms divided by that of the plain bands, for the
    same runs: below 1 the load of the hosts improves predictions. `forecast_ratio` is the CRPS with forecasts of the load divided
    by that with windows, for the same runs: below 1 forecasts are used. `pit` is the share of runs in each tenth of the
    predicted distribution; the ideal is one tenth each.
    """

    of: Literal["application", "centre"]
    scored: int
    in_range: float
    hits: tuple[float, ...]
    expected: tuple[float, ...]
    crps_ratio: float | None
    pit: tuple[float, ...]
    forecast_ratio: float | None = None


class UnderLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The run time at size `n` under the load of the hosts at `as_of`; `reason` explains why a prediction is missing.

    `hosts` describes the hosts in words, and `hosts_count` is the number of hosts of a job of this size. Of the `looked_at` windows,
    `missing` do not exist, `stale` have no samples in their last minute, and `thin` have few samples. `variation` classifies the most
    variable processor window. `load` is the factor by which the present load stretches the run time on idle hosts. `baseline_load` is the
    same factor for the runs that the curve was learned from; the curve is divided by it, so that their load does not count twice. `follows`
    (0 to 1) is how closely past runs followed the load. `width` is the factor that scales the spread to the spread of past runs. `equation`
    is "default" or the pattern of the structural model in use. `monte_carlo_gap` is the difference between its arithmetic and random draws,
    as a share of the range. `better` is True if past histograms were better than the plain bands. `source` is the source of the load: the
    five-minute windows, or the forecasts if these have predicted better. `bandwidth` is the available bandwidth in B/s (median) of the host
    with the least. `baseline_bandwidth` is the usual bandwidth of the runs that the curve was learned from. Both are None without
    measurements. `communication_share` is the share of the run time that depends on bandwidth, learned from runs. The share stays 0 until
    it improves predictions.
    """

    as_of: str
    hosts: str
    hosts_count: float
    n: float
    looked_at: int = 0
    missing: int = 0
    stale: int = 0
    thin: int = 0
    reason: str | None = None
    histogram: LoadHistogram | None = None
    mean_s: float | None = None
    q05_s: float | None = None
    q50_s: float | None = None
    q95_s: float | None = None
    variation: Variation | None = None
    load: float | None = None
    baseline_load: float = 1.0
    follows: float = 1.0
    width: float = 1.0
    equation: str = "default"
    monte_carlo_gap: float | None = None
    quality: LoadQuality | None = None
    better: bool = False
    source: LoadSource = "window"
    communication_share: float = 0.0
    bandwidth: float | None = None
    baseline_bandwidth: float | None = None
