"""Telemetry in the collector: decoders turn batches of messages into columns of samples, without a Python object per sample."""

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Final, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from pydantic import Field

from processors.contracts.events import Decoded
from processors.contracts.settings import Settings

PEER: str = ">"
"""Separator before the peer in a resource name: ``bandwidth>group3``. The peer is another host, a component or a counter."""

JOB: Final = "#"
"""Separator before the job id in a resource name, if the producer knows the job: ``counter_delta>PAPI_TOT_INS#812``."""

CUMULATIVE: Final = "_total"
POWER: Final = "_w"
"""Suffixes of resource names: ``_total`` for a cumulative resource, ``_w`` for a power in watts."""

POWER_W: Final = "power_w"
COMPONENTS: Final = ("system", "cpu", "memory", "gpu")
"""Components with power in W: ``power_w>cpu`` is the sum over the sockets of a host, ``power_w>cpu:0`` one socket."""

COUNTER_DELTA: Final = "counter_delta"
COUNTER_TOTAL: Final = "counter_total"
ENERGY_TOTAL: Final = "energy_total"
NIC_TOTAL: Final = "nic_total"
COUNTER_RATE: Final = "counter_rate"
COUNTER_LEVEL: Final = "counter_level"
PROFILED: Final = frozenset({COUNTER_DELTA, COUNTER_TOTAL, ENERGY_TOTAL, NIC_TOTAL, COUNTER_RATE, COUNTER_LEVEL})
"""Resources that only profiles of runs use. These resources have no windows, no forecasts and no detectors.

- ``counter_delta>PAPI_TOT_CYC``: increase of a counter since its previous sample; the sample has the time of the middle of the
  interval, if the interval is known
- ``counter_total>PAPI_TOT_CYC``: cumulative value of a counter
- ``energy_total>cpu:0``: cumulative energy in joules
- ``nic_total>cxi0:ixe_rx_ptl_msgs``: cumulative counter of a network interface
- ``counter_rate>flops_any``: rate per second that the producer computed. A profile has the mean over the minutes of a run, and
  the sum over the parts of a host (``counter_rate>flops_any:0``).
- ``counter_level>ipc``: ratio, frequency or amount. A profile has the mean over minutes and parts, so the cores of a host may
  share a series.

A part of a host follows a colon.
"""


class Named(NamedTuple):
    """The parts of a resource name. In ``counter_delta>PAPI_TOT_INS#812``, the peer is the counter and the job is 812."""

    resource: str
    peer: str = ""
    job_id: str = ""


def named(name: str) -> Named:
    """Split the name of a resource into its parts.

    >>> named("counter_delta>PAPI_TOT_INS#812"), named("load1")
    (Named(resource='counter_delta', peer='PAPI_TOT_INS', job_id='812'), Named(resource='load1', peer='', job_id=''))
    """
    rest, _, job_id = name.partition(JOB)
    resource, _, peer = rest.partition(PEER)
    return Named(resource, peer, job_id)


def is_profiled(name: str) -> bool:
    """Return whether only profiles of runs use the resource `name`. This is also true of every resource that belongs to one job.

    >>> is_profiled("counter_delta>cycles"), is_profiled("power_w>system"), is_profiled("power_w>system#812")
    (True, False, True)
    """
    return JOB in name or name.partition(PEER)[0] in PROFILED


def is_cumulative(resource: str) -> bool:
    """Return whether a resource is cumulative, judged by its name: it grows until it wraps or is reset.

    >>> is_cumulative("network_received_total>eth0"), is_cumulative("load1")
    (True, False)
    """
    return named(resource).resource.endswith(CUMULATIVE)


def is_power(resource: str) -> bool:
    """Return whether a resource is a power in watts, judged by its name.

    >>> is_power("power_w>cpu"), is_power("load1")
    (True, False)
    """
    return named(resource).resource.endswith(POWER)


CPU_AVAILABLE: Final = "cpu_available"
LOAD: Final = "load"
BY_LOAD: Final = f"{CPU_AVAILABLE}{PEER}{LOAD}"
"""CPU_AVAILABLE as estimated from a load average; used if CPU_AVAILABLE is not measured."""

TAKEN: Final = frozenset(
    {
        CPU_AVAILABLE,
        "cpu_current",
        "memory_free",
        "memory_available",
        "disk_free",
        "bandwidth",
        "latency",
        "connect_time",
        "load1",
        POWER_W,
        *PROFILED,
    }
)
"""Resources that are accepted by default, without their peers. Each resource of a host needs its own window."""


class Series(NamedTuple):
    """The identity of a time series: system, host and resource."""

    system: str
    host: str
    resource: str


class SeriesIndex:
    """Numbers time series in order of first use. The names come from outside, so at most `series_max` series get a number.

    >>> index = SeriesIndex(series_max=1)
    >>> index.number(Series("exa", "nid1", "cpu_available")), index.number(Series("exa", "nid2", "cpu_available"))
    (0, None)
    """

    def __init__(self, series_max: int) -> None:
        self.series_max = series_max
        self._numbers: dict[Series, int] = {}
        self._series: list[Series] = []
        self.refused = 0

    def __len__(self) -> int:
        return len(self._series)

    def __getitem__(self, number: int) -> Series:
        return self._series[number]

    def named(self, numbers: Iterable[int]) -> list[Series]:
        every = self._series
        return [every[number] for number in numbers]

    def number(self, series: Series) -> int | None:
        """Return the number of a series. A new series gets the next number, or None if the index is full."""
        number = self._numbers.get(series)
        if number is not None:
            return number
        if len(self._series) >= self.series_max:
            self.refused += 1
            return None
        self._numbers[series] = len(self._series)
        self._series.append(series)
        return self._numbers[series]


class Samples(msgspec.Struct, frozen=True):
    """Columns (m,) of m samples: number of the series, event time in ms, value in the unit of the resource.

    >>> Samples(np.zeros(2, np.int32), np.arange(2), np.ones(2)).take(slice(1, 2)).time_ms
    array([1])
    """

    series: npt.NDArray[np.int32]
    time_ms: npt.NDArray[np.int64]
    value: npt.NDArray[np.float64]

    def take(self, which: npt.NDArray[np.bool_ | np.intp] | slice) -> "Samples":
        return Samples(self.series[which], self.time_ms[which], self.value[which])


class DecodedBatch(msgspec.Struct):
    """The result of decoding a slice of messages: samples, and all other results by index of the message.

    `sample_message` (m,) is the index of the message of each sample.
    """

    samples: Samples
    sample_message: npt.NDArray[np.int32]
    others: list[tuple[int, Decoded]] = []

    def others_by_message(self) -> dict[int, Decoded]:
        """Return all results except samples, merged into one `Decoded` per message."""
        by_message: dict[int, Decoded] = {}
        for message, part in self.others:
            by_message.setdefault(message, Decoded()).add(part)
        return by_message


DecodeSamples = Callable[[Sequence[bytes | None], Sequence[int], SeriesIndex], DecodedBatch]
"""A decoder of telemetry, called with the values and the receipt times (ms) of a slice of messages, and the index of series.

A decoder never raises on an invalid message; the error is in `others`.
"""

IGNORED: Final = "ignore"
NONE: Final = "-"
INDEX: Final = "{index}"
PARENT: Final = "{parent}"
SENSOR_TEXTS: Final = ("parental_context", "physical_context", "sub_context", "device_context", "source")

FACTORS: Final[dict[str, tuple[str, float]]] = {
    "W": ("power", 1.0),
    "mW": ("power", 1e-3),
    "kW": ("power", 1e3),
    "J": ("energy", 1.0),
    "mJ": ("energy", 1e-3),
    "kJ": ("energy", 1e3),
    "MJ": ("energy", 1e6),
    "Wh": ("energy", 3.6e3),
    "kWh": ("energy", 3.6e6),
    "1": ("", 1.0),
}
"""Physical quantity of each unit, and the factor to W or J; the unit ``1`` leaves a value unchanged."""


def quantity_of(resource: str) -> str:
    """Return the physical quantity that the unit of a resource must measure: ``power``, ``energy``, or empty for any.

    >>> quantity_of("power_w>cpu:0"), quantity_of("energy_total>system"), quantity_of("inlet_temperature")
    ('power', 'energy', '')
    """
    return {POWER_W: "power", ENERGY_TOTAL: "energy"}.get(resource.partition(PEER)[0], "")


class Sensor(NamedTuple):
    """The identity of a sensor: the name of its message (``CrayTelemetry.Power``), and its location in terms of Redfish.

    Missing texts are empty, and missing numbers are -1.
    """

    message: str
    location: str
    parental_context: str = ""
    parental_index: int = -1
    physical_context: str = ""
    number: int = -1
    sub_context: str = ""
    device_context: str = ""
    sub_index: int = -1
    source: str = ""


class SensorRule(msgspec.Struct, frozen=True):
    """A rule that maps the sensors with matching fields to the resource `resource`, in `unit`.

    An empty text or None matches everything, and ``-`` matches only an empty field. `message` may be given without the part before
    the last dot, and `location` may contain ``*`` and ``?``. In `resource`, ``{index}`` is replaced by the number of the sensor and
    ``{parent}`` by the number of its parent; without a number, the colon before the braces is dropped too. Sensors with the
    resource ``ignore`` are left out.

    >>> rule = SensorRule("Power", "power_w>cpu:{parent}", "W", parental_context="CPU")
    >>> sensor = Sensor("CrayTelemetry.Power", "x9000c3s0b0n0", "CPU", 1, "VoltageRegulator")
    >>> rule.matches(sensor), rule.named(sensor)
    (True, 'power_w>cpu:1')
    """

    message: str
    resource: str
    unit: str = "1"
    parental_context: str = ""
    physical_context: str = ""
    sub_context: str = ""
    device_context: str = ""
    index: int | None = None
    location: str = ""
    source: str = ""

    def matches(self, sensor: Sensor) -> bool:
        wanted = ((getattr(self, name), getattr(sensor, name)) for name in SENSOR_TEXTS)
        return (
            self.is_of(sensor.message)
            and all(not text or found == ("" if text == NONE else text) for text, found in wanted)
            and (self.index is None or self.index == sensor.number)
            and (not self.location or fnmatchcase(sensor.location.lower(), self.location.lower()))
        )

    def is_of(self, message: str) -> bool:
        """Return whether the rule applies to messages with this name."""
        return self.message in (message, message.rpartition(".")[2])

    def named(self, sensor: Sensor) -> str:
        name = self.resource
        for part, number in ((INDEX, sensor.number), (PARENT, sensor.parental_index)):
            name = name.replace(f":{part}", f":{number}" if number >= 0 else "").replace(part, str(max(number, 0)))
        return name

    @property
    def factor(self) -> float:
        """The factor from the unit of the sensor to the unit of the resource."""
        return FACTORS[self.unit][1]


class Sensors:
    """The sensor rules, in order of priority. If several sensors measure one resource of a host, that with the earliest rule is used.

    >>> sensors = Sensors([SensorRule("Power", "power_w>system", "kW", sub_context="Input")])
    >>> sensors.find(Sensor("Power", "x1", sub_context="Input")).rank, sensors.find(Sensor("Power", "x1"))
    (0, None)
    """

    def __init__(self, rules: Iterable[SensorRule] = ()) -> None:
        self.rules = tuple(rules)

    def __add__(self, others: "Sensors") -> "Sensors":
        return Sensors(self.rules + others.rules)

    def find(self, sensor: Sensor) -> "Found | None":
        """Return the first rule that matches a sensor, with its rank; None if no rule matches."""
        return next((Found(rank, rule) for rank, rule in enumerate(self.rules) if rule.matches(sensor)), None)

    def concerns(self, message: str) -> bool:
        """Return whether any rule applies to messages with this name."""
        return any(rule.is_of(message) for rule in self.rules)


class Found(NamedTuple):
    """A matching rule and its rank among all rules; rank 0 comes first."""

    rank: int
    rule: SensorRule


NO_SENSORS: Final = Sensors()

ResourceName = Annotated[str, Field(pattern=r"^[!-\"$-=?-~]{1,128}$")]  # > separates a peer, # a job
TimeUnit = Literal["auto", "s", "ms", "us", "ns"]


class Keep(Settings):
    """Job fields that are dropped on decoding unless enabled here.

    >>> Keep(script=True).comment
    False
    """

    script: bool = Field(default=False, description="whether to keep the batch script, for identification rules")
    comment: bool = Field(default=False, description="whether to keep the comment of the job")
    paths: bool = Field(default=False, description="whether to keep the working directory of the job")


class MetricMapping(Settings):
    """Mapping of a producer's metric to a host resource; takes precedence over the built-in mappings.

    >>> MetricMapping(measurement="cpu", field="busy", resource="cpu_busy", unit="percent").only
    {}
    """

    measurement: str = Field(
        min_length=1,
        max_length=256,
        description="name of the measurement: Telegraf plugin, collectd plugin/type/type_instance, ldms for LDMS rows, metric name of "
        "Prometheus or OpenTelemetry",
    )
    field: str = Field(
        min_length=1,
        max_length=256,
        description="name of the field; value for Prometheus and OpenTelemetry; a trailing * matches any ending",
    )
    resource: ResourceName = Field(
        description="name of the resource; a name ending in _total is a cumulative counter, one ending in _w is a power in watts "
        "that is integrated to energy per minute"
    )
    unit: Literal["percent", "KiB", "MiB", "ms", "Mbit/s"] | None = Field(
        default=None, description="unit of the producer, if it differs from the resource's unit (shares, B, s, B/s)"
    )
    only: dict[str, str] = Field(default_factory=dict, description="required value by tag; other records are ignored")
    instance: str | None = Field(
        default=None, max_length=256, description="tag that distinguishes several instances, such as a mount point"
    )
    peer: str | None = Field(
        default=None,
        min_length=1,
        max_length=256,
        pattern=r"^[^#]*$",
        description="component or counter: system, cpu, memory or gpu for power_w, the counter name for counter_total; * inserts the "
        "part of the field name that its * matched",
    )
    part: str | None = Field(
        default=None,
        max_length=256,
        description="tag with the part of the host, such as a socket; appended to peer after a colon",
    )


HOST_LABELS: Final = (
    "node",
    "nodename",
    "kubernetes_node",
    "node_name",
    "k8s.node.name",
    "k8s_node_name",
    "host.name",
    "host_name",
    "host",
    "hostname",
    "Hostname",
    "instance",
    "server.address",
    "net.host.name",
    "host.id",
)
"""Labels with the host name, by priority. In Kubernetes, `host` and `Hostname` may be a pod and `instance` an address.

The labels before them name the node in this case.
"""


class Telemetry(Settings):
    """Selection of host measurements; samples in the native format are all accepted.

    >>> Telemetry(short_hosts=True).time_unit
    'auto'
    """

    resources: tuple[ResourceName, ...] = Field(
        default=tuple(sorted(TAKEN)),
        description="resources to accept; others are counted and ignored. power_w is power of any component; counter_delta and "
        "counter_total are counters; counter_rate and counter_level are values per second; energy_total is in joules; nic_total are "
        "counters of network interfaces",
    )
    counters: tuple[Annotated[str, Field(pattern=r"^[!-\"$-~]{1,128}$")], ...] = Field(
        default=("PAPI_*",),
        max_length=100,
        description="LDMS columns that are processor counters; a trailing * matches any ending",
    )
    counters_cumulative: bool = Field(
        default=False,
        description="whether LDMS counters of whole hosts are cumulative; otherwise each row holds the increase since the previous row",
    )
    metrics: tuple[MetricMapping, ...] = Field(
        default=(), max_length=1000, description="mappings of metrics without a built-in mapping; always accepted"
    )
    host_cpus: int = Field(
        default=1,
        ge=1,
        le=65_536,
        description="processors per host, to turn a load average into a share if the producer does not report them",
    )
    short_hosts: bool = Field(
        default=False, description="whether to cut the domain off host names, so that they match the host lists of jobs"
    )
    host_labels: tuple[Annotated[str, Field(min_length=1, max_length=128)], ...] = Field(
        default=HOST_LABELS,
        min_length=1,
        max_length=100,
        description="labels, tags or attributes with the host name in Prometheus, Telegraf and OTLP, by priority; names with the prefix "
        "exported_ come first. Hosts in the file of nodes win over other names, and names over addresses",
    )
    time_unit: TimeUnit = Field(
        default="auto", description="unit of timestamps in line protocol; auto derives it from their magnitude"
    )
