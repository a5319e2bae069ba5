"""Measurements of the hosts: windows, forecasts, profiles of runs, and views for readers."""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import msgspec
from pydantic import Field

from processors.contracts.settings import LONGEST_S, Settings


class Profile(msgspec.Struct, frozen=True, omit_defaults=True):
    """Means of the counters and of the power of a run over its own host-minutes: minutes of hosts on which no other job ran.

    `hosts` is the number of hosts of the run. Of its `expected` host-minutes, `minutes` are its own and were measured, and in
    `shared` another job ran on the host. Shared host-minutes count only for energy, and only if a rule divides the power of the
    host among its jobs: this was done for `split` host-minutes, and `split_j` is the energy of the run in them. `short` is True
    if the run contains no whole minute; parts of minutes are used then. `retrospective` is True if the start of the run was
    reported only after its end; other jobs on its hosts may then be unknown.

    `counters` and `nic` (network interfaces) are rates per second and host. `nic_busiest` has the rates of the busiest
    interface of all hosts in each minute: bytes sent per second, and waits to send per second. `power_w` is the mean power per
    host, and `energy_j` the energy of all hosts over the whole run, both by component. `measured` is the share of host-minutes
    with a sensor of the component, and `estimated` the share with power estimated from counters. The remaining host-minutes are
    assumed to have the mean power. `left_out` counts implausible readings by reason. `network` has the communication features
    of the run.

    >>> Profile(hosts=2, minutes=8, expected=10, power_w={"system": 400.0}, measured={"system": 0.8}).coverage
    0.8
    """

    hosts: int
    minutes: int = 0
    expected: int = 0
    shared: int = 0
    short: bool = False
    retrospective: bool = False
    counters: dict[str, float] = {}
    nic: dict[str, float] = {}
    nic_busiest: dict[str, float] = {}
    power_w: dict[str, float] = {}
    energy_j: dict[str, float] = {}
    measured: dict[str, float] = {}
    estimated: dict[str, float] = {}
    left_out: dict[str, int] = {}
    network: dict[str, float] = {}
    split: float = 0.0
    split_j: float = 0.0

    @property
    def coverage(self) -> float:
        """The share (0 to 1) of the expected host-minutes that were measured and had no other job."""
        return min(self.minutes / self.expected, 1.0) if self.expected else 0.0


class HostCause(NamedTuple):
    """An anomaly of a host, with its known begin and end; `power_only` is True if only the power of the host was anomalous."""

    host: str
    from_ms: int
    until_ms: int
    power_only: bool


class ExplainedRun(msgspec.Struct, frozen=True, array_like=True):
    """A slow run that an anomaly of a host explains: its application, observed over expected run time, and its end."""

    run_id: str
    application_id: str
    factor: float
    end_ms: int


class ExplainedRunList(msgspec.Struct, frozen=True):
    """The slow runs that one host explains: number of all runs, and the newest runs in order of their ends."""

    count: int = 0
    runs: tuple[ExplainedRun, ...] = ()


Variation = Literal["low", "medium", "high"]
COMBINED: Final = "*"  # stands for a resource name if a score covers all resources of a host together
SHARES: Final = frozenset({"cpu_available", "cpu_current"})  # resources with values from 0 to 1


HOST_ANOMALY_RATES: Final = ("1", "0.1", "0.03", "0.01", "0.003", "0.001")
"""Rates of alerts per host and day for which unusual days are counted; 1 counts all days."""


class HostSettings(Settings):
    """State and history of hosts.

    >>> HostSettings().quiet_s
    3600.0
    """

    series_max: int = Field(
        default=120_000,
        ge=0,
        le=2_000_000,
        description="maximum number of host resources in the state; further ones are counted and ignored",
    )
    quiet_s: float = Field(
        default=3600.0, ge=300, le=LONGEST_S, description="seconds without data after which a host is dropped"
    )
    publish_s: float = Field(
        default=0.0,
        ge=0,
        le=86_400,
        description="seconds between two messages about a host with its windows and forecasts, each about 1.2 ms of CPU and 4 kB for eight resources; 0: no messages, and the topic of hosts is not needed",
    )
    lines_h: float = Field(
        default=24.0,
        ge=0,
        le=168,
        description="hours of history per resource for the charts, at 72 bytes per hour and 360 more for the last one; 0: no charts",
    )


class ResourceBand(msgspec.Struct, frozen=True):
    """One resource over time: minimum or low quantile, mean, and maximum or high quantile; None for times without samples."""

    low: tuple[float | None, ...]
    mean: tuple[float | None, ...]
    high: tuple[float | None, ...]


class ResourceLine(msgspec.Struct, frozen=True):
    """Resources of a host over time: the first point begins at `start_ms`, and every point covers `step_s` seconds."""

    start_ms: int
    step_s: int
    resources: dict[str, ResourceBand] = {}


class HostLines(msgspec.Struct, frozen=True):
    """The measurements of a host over time, by resource. Cumulative resources, such as counters, are left out.

    `day` has a point for each complete five minutes of the last `hosts.lines_h` hours; `low` and `high` are the 5 % and 95 %
    quantiles of the samples. `hour` has a point for each minute of the last hour; `low` and `high` are the extremes.
    """

    system: str
    host: str
    as_of: str
    day: ResourceLine
    hour: ResourceLine


class HostWindow(msgspec.Struct, frozen=True):
    """Five minutes of one resource of a host: `edges` and `shares` of its histogram, and a summary of the last minute.

    `until_ms` is the end of the window. `edges` has one element more than `shares`; if all samples are equal, both have one
    element. `stale` is True if the last minute has no samples, `thin` if the window has fewer than five samples.

    >>> HostWindow(300_000, (0.8, 0.9), (1.0,), count=30, mean=0.85, low=0.8, high=0.9).stale
    False
    """

    until_ms: int
    edges: tuple[float, ...]
    shares: tuple[float, ...]
    count: int
    mean: float
    low: float
    high: float
    stale: bool = False
    thin: bool = False


def quantile(window: HostWindow, share: float) -> float | None:
    """Return the quantile of a window for a share from 0 to 1; None for a window without samples.

    Samples are assumed to be evenly spread within each interval of the histogram.

    >>> window = HostWindow(0, (0.0, 1.0, 2.0), (0.5, 0.5), count=4, mean=1.0, low=0.0, high=2.0)
    >>> quantile(window, 0.5), quantile(window, 0.75)
    (1.0, 1.5)
    """
    if not window.edges or not window.shares:
        return None
    if len(window.edges) <= len(window.shares):  # all samples are equal
        return window.edges[0]
    below = 0.0
    for mass, low, high in zip(window.shares, window.edges, window.edges[1:], strict=False):
        if mass > 0 and below + mass >= share:
            return low + (high - low) * max(share - below, 0.0) / mass
        below += mass
    return window.edges[-1]


class ForecastHistogram(NamedTuple):
    """The forecast of the next 10-second mean of a resource as a histogram: `edges` has one element more than `shares`.

    >>> ForecastHistogram((0.5, 0.8, 0.9), (0.5, 0.5)).shares
    (0.5, 0.5)
    """

    edges: tuple[float, ...]
    shares: tuple[float, ...]


class Hosts:
    """The data about hosts that the processing of jobs reads. They depend only on the journal up to the current position.

    This base class serves a process without data about hosts: all its results are empty.
    """

    # ruff: noqa: ARG002  the base class ignores all arguments

    def changes(self) -> int:
        """Return a version number that changes whenever a window or a forecast may have changed."""
        return 0

    def moment(self, until_ms: int) -> int:
        """Return a key for caches: it is equal for all times `until_ms` with the same windows and forecasts."""
        return 0

    def any_measured(self, resource: str | None = None) -> bool:
        """Return whether any host measures `resource` (None: anything). If not, there are no windows."""
        return False

    def window(self, system: str, host: str, resource: str, until_ms: int) -> HostWindow | None:
        """Return the newest window that ended at `until_ms` or earlier; None if it is no longer kept.

        If a host measures a resource only towards other hosts (`bandwidth>nid2`), the window merges the series of all these
        hosts.
        """
        return None

    def forecasts(
        self, system: str, hosts: Sequence[str], resource: str, until_ms: int
    ) -> Sequence[ForecastHistogram | None]:
        """Return the forecast of a resource for each host.

        A forecast is None if no past errors are known from which to compute it, or if the host has measurements after
        `until_ms`.
        """
        return [None] * len(hosts)

    def hosts_of(self, system: str, partition: str) -> Sequence[str]:
        """Return the hosts on which jobs of a partition ran recently, sorted by name."""
        return ()

    def profile(self, job: str, run_id: str) -> Profile | None:
        """Return the profile of an ended run, by its job key; None if no host of the run sent telemetry."""
        return None

    def profile_so_far(self, job: str, run_id: str) -> Profile | None:
        """Return the profile so far of a run in progress; None if no host of the run sent telemetry."""
        return None

    def cause(self, system: str, hosts: tuple[str, ...], start_ms: int, end_ms: int) -> HostCause | None:
        """Return the anomaly of one of the hosts (host lists) during a run; None if no host had an anomaly."""
        return None

    def active(self, system: str, hosts: tuple[str, ...], until_ms: int) -> bool | None:
        """Return whether any of the hosts (host lists) is busy; None if fewer than half of them measure their processors."""
        return None

    def neighbours(self, system: str, job_id: str, hosts: tuple[str, ...], end_ms: int) -> Sequence[str]:
        """Return the keys of the other running jobs that began on the hosts of a job (host lists) before `end_ms`."""
        return ()


class ResourceForecast(msgspec.Struct, frozen=True):
    """The forecast of the next 10-second mean of a resource: value, standard error (None after one value), and predictor.

    `q05` to `q95` are quantiles of the forecast, None before 20 errors are known. The quantiles come from the last hundred
    errors, each divided by the error that was expected at the time.

    >>> ResourceForecast(0.83, 0.02, "last").predictor
    'last'
    """

    value: float
    error: float | None
    predictor: str
    q05: float | None = None
    q25: float | None = None
    q50: float | None = None
    q75: float | None = None
    q95: float | None = None


class ResourceView(msgspec.Struct, frozen=True):
    """One resource of a host, for readers.

    `variation` classifies how widely the values of the window vary; None unless the resource is a share (0 to 1). `score` (0 to
    1) is the last anomaly score of the resource. `anomalous_since` is the time since which the resource is part of an open
    alert.
    """

    resource: str
    window: HostWindow
    variation: Variation | None = None
    forecast: ResourceForecast | None = None
    score: float | None = None
    anomalous_since: str | None = None


class HostFinding(msgspec.Struct, frozen=True):
    """The anomalies of a host: start of its deviation from its own past, and from its peers; None without a deviation.

    `jobs` is the number of jobs on the host while it differed from the other hosts of a job.
    """

    anomalous_since: str | None = None
    differs_since: str | None = None
    jobs: int = 0


class HostUse(msgspec.Struct, frozen=True):
    """The use of a host: `state` is the last reported state ("" for none), `job` the key of the job that started last on it."""

    system: str
    host: str
    state: str = ""
    job: str | None = None


class HostCounts(msgspec.Struct, frozen=True):
    """Numbers of hosts: all, abnormal, and new hosts that are still being learned, the last of them until `learned_until`."""

    known: int = 0
    abnormal: int = 0
    learning: int = 0
    learned_until: str = ""

    def __add__(self, other: "HostCounts") -> "HostCounts":
        numbers = (self.known + other.known, self.abnormal + other.abnormal, self.learning + other.learning)
        return HostCounts(*numbers, max(self.learned_until, other.learned_until))


class HostView(HostUse, frozen=True, kw_only=True):
    """One host with its resources, for readers.

    `finding` is the present anomaly, None for a normal host. `score` (0 to 1) is the last anomaly score of all resources
    together. `suspected_since` is the time since which the deviation of all resources together is at least twice its usual
    maximum. A suspicion is not enough for an alert, but shows which hosts to check first. `unusual_days` is the number of the
    last seven days with a minute that was too unusual for the rate of alerts; a single such minute raises no alert.
    `learned_until` is the end of the time without alerts of a new host, None after this time.
    """

    as_of: str
    resources: tuple[ResourceView, ...] = ()
    score: float | None = None
    finding: HostFinding | None = None
    suspected_since: str | None = None
    unusual_days: int = 0
    learned_until: str | None = None


def most_anomalous_first(view: HostView) -> tuple[bool, str, str]:
    """Return the sort key of a host for readers: anomalous hosts first, then system and name.

    >>> most_anomalous_first(HostView("exa", "nid1", as_of="2026-11-20T10:00:00Z"))
    (True, 'exa', 'nid1')
    """
    calm = view.finding is None and not any(resource.anomalous_since for resource in view.resources)
    return calm, view.system, view.host
