"""Predictions under the current load of the hosts: settings and messages."""

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
    """Run times in seconds: the edges of five equal intervals, and their probabilities; two edges where it is certain."""

    edges_s: tuple[float, ...]
    probabilities: tuple[float, ...]


class LoadQuality(msgspec.Struct, frozen=True, kw_only=True):
    """How histograms have done as predictions of runs that ended since: newer runs count more.

    `of` tells whose runs: the application's, or the centre's while it has too few. `in_range` is the share of runs
    between the first and the last edge. `hits` are the shares of runs in each of the five intervals, `expected` the
    probabilities that had been told for them. `crps_ratio` is the continuous ranked probability score of the histograms
    over that of the plain bands of the same runs: below 1 the load of the hosts told something. `pit` are the shares of
    runs by the tenth of the told probability that they reached; a tenth each is ideal. `forecast_ratio` is that score by
    forecasts of the load over that by windows, of the same runs: below 1 forecasts answer.
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
    """The run time at size `n` under the load of the hosts at `as_of`; where too little is known, `reason` says what.

    `hosts` names the hosts in words, `hosts_count` is how many a job of that size has; `looked_at` windows were asked
    for, `missing` of these there were none, `stale` ones had no sample in their last minute, `thin` ones few samples.
    `variation` is the class of the most changing processor window. `load` is the factor by which the load of the moment
    stretches the run time of a quiet machine, `baseline_load` that of the runs which the curve was learned from: the curve
    is divided by it, so that a curve measured under load does not count it twice. `follows` is how closely runs have
    followed the load, from 0 to 1, and `width` by which factor the spread was scaled to be that of the runs. `equation` is "default" or the pattern
    of the structural model that answers; `monte_carlo_gap` by how much its arithmetic differs from draws, in parts of
    the range. `better` tells whether histograms have beaten the plain band so far. `source` tells what the load of the hosts
    was taken from: their five-minute windows, or the forecasts of what they measure next where these have predicted better.
    `bandwidth` is what the host has left that has least of it, in B/s (median), `baseline_bandwidth` what the runs which the
    curve was learned from usually had; None where nothing is measured. `communication_share` is the part of the run time that
    waits for it, as runs have shown: it is 0, and bandwidth counts for nothing, until predictions with it were better.
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
