"""State of the hosts at run time: windows of their measurements, for models and for readers."""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import msgspec
from pydantic import Field

from processors.contracts.settings import LONGEST_S, Settings


class Profile(msgspec.Struct, frozen=True, omit_defaults=True):
    """Means over the host-minutes that were a run's own: whole minutes of hosts on which nothing else ran.

    `hosts` is how many the run had, `minutes` the host-minutes that count, of `expected` ones; `shared` of them had another
    job and say nothing of this one, but for what of the host's power is split by a rule: `split_j`, in all, of `split` of these
    host-minutes. `short` tells that no whole minute lay within the run, so that parts of minutes were
    taken. `retrospective` tells that the run's start was not known: that it was alone is then only not disproved.

    `counters` are rates per second and host, `nic` those of network interfaces, and `nic_busiest` what in each minute that of them did
    which did most of all on all hosts, per second: bytes that it sent, and waits to send. `power_w` is mean power per host by
    component, `energy_j` that of all hosts over the whole run; `measured` is the share of host-minutes with a sensor of the
    component: what is missing was estimated from counters, where it could be, and else taken to be like the rest.
    `estimated` is the share that was. `left_out` counts readings that were not believed, by reason. `network` are the
    features of the run's communication.

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
        """The share of the host-minutes that were seen and were the run's own (0 to 1)."""
        return min(self.minutes / self.expected, 1.0) if self.expected else 0.0


class HostCause(NamedTuple):
    """What was wrong with a host at a time: from when until when as far as is known; `power_only` where nothing else was."""

    host: str
    from_ms: int
    until_ms: int
    power_only: bool


class ExplainedRun(msgspec.Struct, frozen=True, array_like=True):
    """A slow run that a host explains: its application, how many times as long as expected it took, and when it ended."""

    run_id: str
    application_id: str
    factor: float
    end_ms: int


class ExplainedRunList(msgspec.Struct, frozen=True):
    """The runs that one host explains: how many there were in all, and the newest, the oldest of these first."""

    count: int = 0
    runs: tuple[ExplainedRun, ...] = ()


Variation = Literal["low", "medium", "high"]
COMBINED: Final = "*"  # in the place of a resource: all of a host together
SHARES: Final = frozenset({"cpu_available", "cpu_current"})  # resources that are between 0 and 1


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
    """One resource over time as three columns; None where nothing was measured."""

    low: tuple[float | None, ...]
    mean: tuple[float | None, ...]
    high: tuple[float | None, ...]


class ResourceLine(msgspec.Struct, frozen=True):
    """Resources of a host over time: the first point begins at `start_ms`, each lasts `step_s`."""

    start_ms: int
    step_s: int
    resources: dict[str, ResourceBand] = {}


class HostLines(msgspec.Struct, frozen=True):
    """What a host measured over time, by resource; what only grows, such as a counter, is left out.

    `day` has a band for each five minutes that ended, low and high are the 5 % and 95 % quantiles of the samples; it goes back
    as far as `hosts.lines_h` says. `hour` has the minutes of the last hour with the least and the largest sample.
    """

    system: str
    host: str
    as_of: str
    day: ResourceLine
    hour: ResourceLine


class HostWindow(msgspec.Struct, frozen=True):
    """Five minutes of one resource of a host: `edges` and `shares` of its histogram, and the last minute in figures.

    `until_ms` is the end of the window. `edges` has one more element than `shares`, or one each where all samples are
    alike. `stale` tells that nothing came in the last minute, `thin` that fewer than five samples are in the window.

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
    if len(window.edges) <= len(window.shares):  # all samples are alike
        return window.edges[0]
    below = 0.0
    for mass, low, high in zip(window.shares, window.edges, window.edges[1:], strict=False):
        if mass > 0 and below + mass >= share:
            return low + (high - low) * max(share - below, 0.0) / mass
        below += mass
    return window.edges[-1]


class ForecastHistogram(NamedTuple):
    """The next 10-second mean of a resource of a host as a histogram: `edges` has one element more than `shares`.

    >>> ForecastHistogram((0.5, 0.8, 0.9), (0.5, 0.5)).shares
    (0.5, 0.5)
    """

    edges: tuple[float, ...]
    shares: tuple[float, ...]


class Hosts:
    """The questions of the fold of jobs about hosts. Answers follow from the journal up to its present place alone.

    This base class answers for a process that knows no host.
    """

    # ruff: noqa: ARG002  the answers are empty, whatever the question

    def changes(self) -> int:
        """Return a number that changes whenever a window or a forecast may have changed."""
        return 0

    def moment(self, until_ms: int) -> int:
        """Return a canonical time: all times with the same windows and forecasts have the same one."""
        return 0

    def any_measured(self, resource: str | None = None) -> bool:
        """Return whether any host measures the resource (None: any resource); if not, no window exists."""
        return False

    def window(self, system: str, host: str, resource: str, until_ms: int) -> HostWindow | None:
        """Return the newest window that ended at `until_ms` or before; None if it was dropped (few are kept).

        If a host measures a resource only towards other hosts (`bandwidth>nid2`), the window merges all of these series.
        """
        return None

    def forecasts(
        self, system: str, hosts: Sequence[str], resource: str, until_ms: int
    ) -> Sequence[ForecastHistogram | None]:
        """Return the forecast of a resource for each host.

        A forecast is None if its errors are not known yet, or if the host already has measurements after `until_ms`.
        """
        return [None] * len(hosts)

    def hosts_of(self, system: str, partition: str) -> Sequence[str]:
        """Return the hosts on which jobs of a partition ran recently, in order of their names."""
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


class ResourceForecast(msgspec.Struct, frozen=True):
    """The next 10-second mean of a resource: value, standard error (None after one value), and which predictor says so.

    `q05` to `q95` are its quantiles, by the latest hundred errors of its forecasts as a part of the error that was expected
    each time; None until twenty are known.

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

    `variation` is the class of the window's range where the resource is a share (0 to 1), None for others. `score` is that
    of the last anomaly rule (0 to 1), `anomalous_since` the time since which it is part of an open alert.
    """

    resource: str
    window: HostWindow
    variation: Variation | None = None
    forecast: ResourceForecast | None = None
    score: float | None = None
    anomalous_since: str | None = None


class HostFinding(msgspec.Struct, frozen=True):
    """What is wrong with a host now: since when it is outside its own past, and differs from its peers (None: it does not).

    `jobs` counts those that met it while it was compared with the other hosts of a job.
    """

    anomalous_since: str | None = None
    differs_since: str | None = None
    jobs: int = 0


class HostView(msgspec.Struct, frozen=True):
    """One host, for readers: `state` as it was told last ("" for none), `job` the key of a job known to run on it.

    `finding` is what is wrong with it, None while nothing is.
    `score` is the last of all resources together (0 to 1), `suspected_since` the time since which these have been twice as
    unlike their past as they usually get: too little for an alert, enough to look there first.
    """

    system: str
    host: str
    as_of: str
    state: str = ""
    job: str | None = None
    resources: tuple[ResourceView, ...] = ()
    score: float | None = None
    finding: HostFinding | None = None
    suspected_since: str | None = None


class HostUse(msgspec.Struct, frozen=True):
    """What a host is used for: `state` as it was told last ("" for none), `job` the key of the job that began last on it."""

    system: str
    host: str
    state: str = ""
    job: str | None = None


def most_anomalous_first(view: HostView) -> tuple[bool, str, str]:
    """Return the sort key of a host for readers: anomalous hosts first, then system and name.

    >>> most_anomalous_first(HostView("exa", "nid1", "2026-11-20T10:00:00Z"))
    (True, 'exa', 'nid1')
    """
    calm = view.finding is None and not any(resource.anomalous_since for resource in view.resources)
    return calm, view.system, view.host
