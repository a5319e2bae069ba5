"""Mappings from metrics of producers to resources of hosts, and the built-in mappings."""

from collections.abc import Callable, Mapping
from math import nan
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from processors.contracts.telemetry import (
    COUNTER_DELTA,
    COUNTER_TOTAL,
    CPU_AVAILABLE,
    LOAD,
    PEER,
    POWER_W,
    PROFILED,
    SeriesIndex,
)

SLACK: Final = 0.01  # by which producers' rounding may take a fraction out of 0 to 1; it is cut to it
VALUE_MAX: Final = 1e18
COUNT_MAX: Final = 1e20  # above what counters of 64 bits hold


class Bounds(NamedTuple):
    """The minimum and maximum of a resource, and the slack by which values may exceed them.

    If `lenient`, a value outside is counted and left out, and its message is not refused.
    """

    low: float
    high: float
    slack: float = 0.0
    lenient: bool = False


FRACTION: Final = Bounds(0.0, 1.0, SLACK)
AMOUNT: Final = Bounds(0.0, VALUE_MAX)
ANY: Final = Bounds(-VALUE_MAX, VALUE_MAX)
READING: Final = Bounds(0.0, COUNT_MAX, lenient=True)

KNOWN: Final[dict[str, Bounds]] = {
    "cpu_available": FRACTION,
    "cpu_current": FRACTION,
    "cpu_iowait": FRACTION,
    "memory_free": AMOUNT,
    "memory_available": AMOUNT,
    "disk_free": AMOUNT,
    "bandwidth": AMOUNT,
    "latency": AMOUNT,
    "connect_time": AMOUNT,
    "load1": AMOUNT,
    "load5": AMOUNT,
    "load15": AMOUNT,
    "runnable": AMOUNT,
    POWER_W: READING,
    **dict.fromkeys(PROFILED, READING),
}


def bounds_of(resource: str) -> Bounds:
    """Return the bounds of a resource, with or without its peer; cumulative values are not below 0.

    >>> bounds_of("cpu_available").high, bounds_of("bandwidth>group3").low, bounds_of("inlet_temperature").low
    (1.0, 0.0, -1e+18)
    """
    name = resource.partition(PEER)[0]
    return KNOWN.get(name, AMOUNT if name.endswith("_total") else ANY)


class BoundsTable:
    """The bounds of all series of an index, extended for new series: one row for each distinct kind of bounds.

    >>> from processors.contracts.telemetry import Series
    >>> index = SeriesIndex(10)
    >>> _ = index.number(Series("exa", "nid1", "cpu_available"))
    >>> BoundsTable().of(index, np.zeros(3, np.int32)).tolist()
    [[0.0], [1.0], [0.01], [0.0]]
    """

    def __init__(self) -> None:
        self._index: SeriesIndex | None = None
        self._kind: npt.NDArray[np.uint8] = np.empty(0, np.uint8)  # of each series
        self._kinds: dict[Bounds, int] = {}
        self._table: npt.NDArray[np.float64] = np.empty((4, 0))  # of each kind

    def of(self, index: SeriesIndex, series: npt.NDArray[np.int32]) -> npt.NDArray[np.float64]:
        """Return low, high, slack, and 1 for lenient, of some series (m,): (4, m), or (4, 1) if all have the same bounds."""
        if index is not self._index:
            self._index, self._kind = index, np.empty(0, np.uint8)
        known = len(self._kind)
        if known < len(index):
            new = [self._number(bounds_of(index[number].resource)) for number in range(known, len(index))]
            self._kind = np.concatenate((self._kind, np.array(new, np.uint8)))
        kind = self._kind[series]
        if len(kind) and (kind == kind[0]).all():
            return self._table[:, kind[:1]]
        return np.take(self._table, kind, axis=1)

    def _number(self, bounds: Bounds) -> int:
        if bounds not in self._kinds:
            self._kinds[bounds] = len(self._kinds)
            self._table = np.array(list(self._kinds), np.float64).T
        return self._kinds[bounds]


REST: Final = "*"

Convert = Callable[[float], float]
"""From the producer's unit to that of the resource."""


class Metric(msgspec.Struct, frozen=True):
    """Field `field` of the records called `measurement` is the resource `resource`.

    Only records whose tags have the values in `only` count. The value of the tag `instance` distinguishes several instances (a
    mount point, the other end of a path) and becomes the peer in the name of the series. `convert` converts the unit; None if the
    producer's unit is that of the resource. A resource that ends in ``_total`` is cumulative: its values pass unchanged, and windows
    compute rates.

    `peer` names the other end itself. A field that ends in ``*`` stands for all fields with this prefix, and ``*`` in the peer for the
    rest of the name. `part` is the tag that names the part of the host, which follows a colon (``*``: the rest
    of the field's name); records without it do not count. `counter` replaces it if the record itself concerns a counter.

    >>> Metric("cpu", "usage_idle", "cpu_available", percent, only=(("cpu", "cpu-total"),)).convert(25.0)
    0.25
    >>> Metric("ldms", "power.cpu_watts", "power_w", peer="cpu", part="socket").peer_of("power.cpu_watts", {"socket": "1"})
    'cpu:1'
    """

    measurement: str
    field: str
    resource: str
    convert: Convert | None = None
    only: tuple[tuple[str, str], ...] = ()
    instance: str | None = None
    peer: str | None = None
    part: str | None = None
    counter: str | None = None

    @property
    def beginning(self) -> str | None:
        """The common prefix of the field names; None for a single field."""
        return self.field[:-1] if self.field.endswith(REST) else None

    def fits(self, tags: Mapping[str, str]) -> bool:
        """Return whether records with these tags count."""
        return self.part in {None, REST, *tags} and all(tags.get(tag) == value for tag, value in self.only)

    def of(self, field: str) -> bool:
        return field == self.field if self.beginning is None else field.startswith(self.beginning)

    def peer_of(self, field: str, tags: Mapping[str, str]) -> str | None:
        """Return the peer in the series name of a field; None if the series has none."""
        rest = "" if self.beginning is None else field[len(self.beginning) :]
        peer = self.peer.replace(REST, rest) if self.peer is not None else tags.get(self.instance or "") or None
        part = rest if self.part == REST else self.counter or tags.get(self.part or "", "")
        return f"{peer}:{part}" if part and peer else peer


def percent(value: float) -> float:
    return value / 100.0


def kibibytes(value: float) -> float:
    """Convert KiB, which Linux calls kB, to bytes.

    >>> kibibytes(2.0)
    2048.0
    """
    return value * 1024.0


def mebibytes(value: float) -> float:
    return value * 1048576.0


def milliseconds(value: float) -> float:
    return value / 1000.0


def megabits(value: float) -> float:
    """Convert Mbit/s to B/s.

    >>> megabits(8.0)
    1000000.0
    """
    return value * 125_000.0


def nanojoules(value: float) -> float:
    return value * 1e-9


def millijoules(value: float) -> float:
    return value / 1000.0


def watts(value: float) -> float:
    """Return a power in W; NaN for -1, which a producer sends if it has no sensor.

    >>> watts(221.5), watts(-1.0)
    (221.5, nan)
    """
    return nan if value == -1.0 else value


def share_by_load(cpus: int) -> Convert:
    """Return the conversion from a load average to the share of a processor that a new process would get.

    The `load` running processes and the new one share the processors equally: cpus / (load + 1), at most
    1. With one processor this is the estimate of the CPU sensor of the NWS (Wolski, Spring, Hayes 1999).

    >>> share_by_load(1)(1.0), share_by_load(128)(63.97)
    (0.5, 1.0)
    """

    def convert(load: float) -> float:
        return min(1.0, cpus / (load + 1.0)) if load >= 0 else load  # a load below 0 is refused as any such value

    return convert


_ALL_OF_A_HOST: Final = tuple((tag, "-") for tag in ("core", "cpu", "package", "die"))

TELEGRAF: Final = (
    Metric("cpu", "usage_idle", "cpu_available", percent, only=(("cpu", "cpu-total"),)),
    Metric("cpu", "usage_iowait", "cpu_iowait", percent, only=(("cpu", "cpu-total"),)),
    Metric("system", "load1", "load1"),
    Metric("system", "load5", "load5"),
    Metric("system", "load15", "load15"),
    Metric("mem", "free", "memory_free"),
    Metric("mem", "available", "memory_available"),
    Metric("disk", "free", "disk_free", instance="path"),
    Metric("ping", "average_response_ms", "latency", milliseconds, instance="url"),
    Metric("net_response", "response_time", "connect_time", instance="server"),
    Metric("net", "bytes_recv", "network_received_total", instance="interface"),
    Metric("net", "bytes_sent", "network_sent_total", instance="interface"),
    Metric("powerstat_package", "current_power_consumption_watts", "power_w", peer="cpu", part="package_id"),
    Metric("powerstat_package", "current_dram_power_consumption_watts", "power_w", peer="memory", part="package_id"),
    Metric("pmu_metric", "scaled", "counter_total", instance="event", part="cpu"),
    Metric("infiniband", "port_*", "nic_total", instance="device", part="*"),
    Metric("turbostat", "package_power", "power_w", peer="cpu", only=_ALL_OF_A_HOST),
    Metric("turbostat", "ram_power", "power_w", peer="memory", only=_ALL_OF_A_HOST),
    Metric("nvidia_smi", "power_draw", "power_w", peer="gpu", part="index"),
    # ClusterCockpit, whose collector writes line protocol as well
    Metric("cpu_load", "value", "load1", only=(("type", "node"),)),
)
"""Plugins of Telegraf, by their default names; memory and disks in bytes, as they are there.

What `infiniband` counts of an adapter is taken as LDMS has it of Slingshot's. What a counter of `intel_pmu` reads was counted since it was opened, on one processor of the host.
"""

COLLECTD: Final = (
    Metric("load/load/", "shortterm", "load1"),
    Metric("load/load/", "midterm", "load5"),
    Metric("load/load/", "longterm", "load15"),
    Metric("cpu/percent/idle", "value", "cpu_available", percent, only=(("plugin_instance", ""),)),
    Metric("memory/memory/free", "value", "memory_free"),
    Metric("df/df_complex/free", "value", "disk_free", instance="plugin_instance"),
    Metric("ping/ping/", "value", "latency", milliseconds, instance="type_instance"),
    Metric("turbostat/power/", "value", "power_w", peer="cpu", part="plugin_instance"),
    Metric("turbostat/power/DRAM", "value", "power_w", peer="memory", part="plugin_instance"),
    Metric("gpu_nvidia/power/", "value", "power_w", peer="gpu", part="plugin_instance"),
)
"""By plugin/type/type_instance and the name of the data source."""

SAMPLER: Final = "\0sampler"  # no column has such a name
LOADAVG_INTEGER: Final = "loadavgi"  # the schema of a `loadavg` with `force_integer`, which stores 100 times the load
CRAY_POWER: Final = "cray_power_sampler"
PAPI: Final = "papi_sampler"
PROCSTAT: Final = "procstat2"
SOCKET: Final = "power.socket_ID"
CPU_NAME: Final = "cpu_list.name"
CPU_TICKS: Final = tuple(
    f"cpu_list.{column}" for column in ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
)
"""What a processor's time adds up of; what guests have is in `user` and `nice`."""

IDLE_SHARE: Final = "cpu_list.idle (share)"  # no column has such a name

REMOTE: Final = "remote"
IBNET: Final = {
    "PortXmitData": "xmit_data",
    "PortRcvData": "rcv_data",
    "PortXmitPkts": "xmit_packets",
    "PortRcvPkts": "rcv_packets",
    "PortXmitWait": "xmit_wait",
}
"""Counters of a port by their names in libibmad, which LDMS's `ibnet` has, and those of Linux for the same."""
IB_RATE: Final = "ib.port_{}.rate#"
"""How the names of columns begin in which `sysclassib` has rates of these counters, beside the counters."""

LOADS: Final = {"load1min": "load1", "load5min": "load5", "load15min": "load15"}
LDMS: Final = (
    *(Metric("ldms", column, load, percent, only=((SAMPLER, LOADAVG_INTEGER),)) for column, load in LOADS.items()),
    *(Metric("ldms", column, load) for column, load in LOADS.items()),
    Metric("ldms", "runnable", "runnable"),
    Metric("ldms", "MemFree", "memory_free", kibibytes),
    Metric("ldms", "MemAvailable", "memory_available", kibibytes),
    *(
        Metric("ldms", column, f"cpu_{column.removeprefix('cpu_list.')}_ticks_total", only=((CPU_NAME, "cpu"),))
        for column in CPU_TICKS
    ),
    Metric("ldms", IDLE_SHARE, "cpu_available", only=((SAMPLER, PROCSTAT),)),
    Metric("ldms", "procs_running", "runnable", only=((CPU_NAME, "cpu"),)),
    Metric("ldms", "power.node_watts", "power_w", watts, peer="system", only=((SOCKET, "0"),)),
    Metric("ldms", "power.cpu_watts", "power_w", watts, peer="cpu", part=SOCKET),
    Metric("ldms", "power.mem_watts", "power_w", watts, peer="memory", part=SOCKET),
    Metric("ldms", "power.gpu_watts", "power_w", watts, peer="gpu", part=SOCKET),
    Metric("ldms", "power_usage", "power_w", peer="gpu", part="gpu_id"),
    Metric("ldms", "power", "power_w", peer="system", only=((SAMPLER, CRAY_POWER),)),
    Metric("ldms", "energy", "energy_total", peer="system", only=((SAMPLER, CRAY_POWER),)),
    Metric("ldms", "power(W)", "power_w", peer="system"),
    Metric("ldms", "energy(J)", "energy_total", peer="system"),
    Metric("ldms", "rapl:::PACKAGE_ENERGY:PACKAGE*", "energy_total", nanojoules, peer="cpu", part="*"),
    Metric("ldms", "rapl:::DRAM_ENERGY:PACKAGE*", "energy_total", nanojoules, peer="memory", part="*"),
    Metric("ldms", "nics.*", "nic_total", instance="nics.name", part="*"),
    *(Metric("ldms", column, "nic_total", instance=REMOTE, counter=name) for column, name in IBNET.items()),
    *(Metric("ldms", f"ib.port_{name}#*", "nic_total", peer=REST, counter=name) for name in IBNET.values()),
)
"""Columns of rows, by their names alone, for a row does not say its schema; `load1min` gives cpu_available as well, and so does
what share of the ticks of `procstat2` was idle.

A row of `ibnet` is of one port (`remote` is its number in the fabric), the columns of `sysclassib` have adapter and port in their names. Of variorum's rows, one for each socket, the first reports the whole host; of procstat2's the one that adds up all processors.
"""


def share_by_loads(cpus: int) -> tuple[Metric, ...]:
    """Return the metrics of LDMS that give the available share from load averages, see `share_by_load`.

    >>> [metric.convert(100.0) for metric in share_by_loads(1)]
    [0.5, 0.009900990099009901]
    """
    share = share_by_load(cpus)
    return (
        Metric(
            "ldms",
            "load1min",
            CPU_AVAILABLE,
            lambda load: share(percent(load)),
            ((SAMPLER, LOADAVG_INTEGER),),
            peer=LOAD,
        ),
        Metric("ldms", "load1min", CPU_AVAILABLE, share, peer=LOAD),
    )


def counters_of(names: tuple[str, ...], *, cumulative: bool) -> tuple[Metric, ...]:
    """Return the metrics of counters in rows of LDMS by their names or name prefixes: ``PAPI_*``.

    Counts of `papi_sampler` for a job grow from the job's start. Counts of a whole host cover the previous interval.

    >>> [metric.resource for metric in counters_of(("PAPI_*",), cumulative=False)]
    ['counter_total', 'counter_delta']
    """
    of_host = COUNTER_TOTAL if cumulative else COUNTER_DELTA
    return tuple(
        Metric("ldms", name, resource, peer=name, only=((SAMPLER, sampler),))
        for name in names
        for resource, sampler in ((COUNTER_TOTAL, PAPI), (of_host, ""))
    )


NWS: Final = (
    Metric("nws", "availableCpu", "cpu_available"),
    Metric("nws", "currentCpu", "cpu_current"),
    Metric("nws", "freeMemory", "memory_free", mebibytes),
    Metric("nws", "freeDisk", "disk_free", mebibytes),
    Metric("nws", "bandwidthTcp", "bandwidth", megabits, instance="destination"),
    Metric("nws", "latencyTcp", "latency", milliseconds, instance="destination"),
    Metric("nws", "connectTimeTcp", "connect_time", milliseconds, instance="destination"),
)
"""Resources of the Network Weather Service; those between hosts carry the other one."""

SONAR: Final = (
    Metric("sonar", "load1", "load1"),
    Metric("sonar", "load5", "load5"),
    Metric("sonar", "load15", "load15"),
    Metric("sonar", "runnable_entities", "runnable"),
    Metric("sonar", "used_memory", "memory_used", kibibytes),
)
"""Fields of a node in Sonar's samples; `load1` gives cpu_available as well."""

PROCESSOR_SECONDS: Final = {"node_cpu_seconds_total": "mode", "system.cpu.time": "state"}
"""Metrics of the time of each processor, with the label that says what it was spent on: idle time gives the available share."""

PROMETHEUS: Final = (
    Metric("node_load1", "value", "load1"),
    Metric("node_load5", "value", "load5"),
    Metric("node_load15", "value", "load15"),
    Metric("node_procs_running", "value", "runnable"),
    Metric("node_cpu_seconds_total", "value", "cpu_available", only=(("mode", "idle"),)),
    Metric("node_memory_MemFree_bytes", "value", "memory_free"),
    Metric("node_memory_MemAvailable_bytes", "value", "memory_available"),
    Metric("node_filesystem_free_bytes", "value", "disk_free", instance="mountpoint"),
    Metric("node_network_receive_bytes_total", "value", "network_received_total", instance="device"),
    Metric("node_network_transmit_bytes_total", "value", "network_sent_total", instance="device"),
    *(
        Metric(f"node_infiniband_port_{name}_total", "value", "nic_total", instance="device", counter=counter)
        for name, counter in (
            ("data_transmitted_bytes", "xmit_bytes"),
            ("packets_transmitted", "xmit_packets"),
            ("transmit_wait", "xmit_wait"),
        )
    ),
    Metric("node_rapl_package_joules_total", "value", "energy_total", peer="cpu", part="index"),
    Metric("node_rapl_dram_joules_total", "value", "energy_total", peer="memory", part="index"),
    Metric("ipmi_dcmi_power_consumption_watts", "value", "power_w", peer="system"),
    Metric("DCGM_FI_DEV_POWER_USAGE", "value", "power_w", peer="gpu", part="gpu"),
    Metric("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "value", "energy_total", millijoules, peer="gpu", part="gpu"),
    Metric("kepler_node_cpu_joules_total", "value", "energy_total", peer="cpu", only=(("zone", "package"),)),
    Metric("kepler_node_cpu_joules_total", "value", "energy_total", peer="memory", only=(("zone", "dram"),)),
    Metric("kepler_node_cpu_watts", "value", "power_w", peer="cpu", only=(("zone", "package"),)),
    Metric("kepler_node_cpu_watts", "value", "power_w", peer="memory", only=(("zone", "dram"),)),
)
"""Metrics of node_exporter, ipmi_exporter, dcgm-exporter and Kepler, by their names."""

_EXAMON_OF_PROMETHEUS: Final = tuple(
    msgspec.structs.replace(metric, measurement="prometheus_pub", field=metric.measurement)
    for metric in PROMETHEUS
    if metric.measurement not in PROCESSOR_SECONDS
)
EXAMON: Final = (
    Metric("ganglia_pub", "load_one", "load1"),
    Metric("ganglia_pub", "load_five", "load5"),
    Metric("ganglia_pub", "load_fifteen", "load15"),
    Metric("ganglia_pub", "cpu_idle", "cpu_available", percent),
    Metric("ganglia_pub", "proc_run", "runnable"),
    Metric("ganglia_pub", "mem_free", "memory_free", kibibytes),
    Metric("ipmi_pub", "total_power", "power_w", peer="system"),
    *(
        Metric("ipmi_pub", f"p{socket}{of}_power", "power_w", peer=f"{part}:{socket}")
        for of, part in (("", "cpu"), ("_mem", "memory"))
        for socket in range(4)
    ),
    *(Metric("nvml_pub", field, "power_w", peer="gpu", part="gpu") for field in ("power.draw", "power_draw")),
    *_EXAMON_OF_PROMETHEUS,
)
"""Metrics of ExaMon's plugins by plugin and name, as the reference of Marconi 100 has them; in topics of MQTT a dot is an underscore."""

PROCESSOR_SHARES: Final = frozenset({"system.cpu.utilization", "system.cpu.time (delta)"})
"""Metrics of the share of each processor's time that was spent on something: the mean of a host's counts."""

_IDLE: Final = (("state", "idle"),), (("cpu.mode", "idle"),)  # as the hostmetrics receiver has it, and the conventions
_HARDWARE: Final = ("cpu", "gpu", "memory")

OTLP: Final = (
    Metric("system.cpu.load_average.1m", "value", "load1"),
    Metric("system.cpu.load_average.5m", "value", "load5"),
    Metric("system.cpu.load_average.15m", "value", "load15"),
    *(
        Metric(name, "value", "cpu_available", only=idle)
        for name in ("system.cpu.time", "system.cpu.time (delta)", "system.cpu.utilization")
        for idle in _IDLE
    ),
    Metric("system.processes.count", "value", "runnable", only=(("status", "running"),)),
    Metric("system.memory.usage", "value", "memory_free", only=(("state", "free"),)),
    Metric("system.memory.usage", "value", "memory_free", only=(("system.memory.state", "free"),)),
    Metric("system.linux.memory.available", "value", "memory_available"),
    Metric("system.filesystem.usage", "value", "disk_free", only=(("state", "free"),), instance="mountpoint"),
    Metric("system.network.io", "value", "network_received_total", only=(("direction", "receive"),), instance="device"),
    Metric("system.network.io", "value", "network_sent_total", only=(("direction", "transmit"),), instance="device"),
    Metric("hw.host.power", "value", "power_w", peer="system"),
    Metric("hw.host.energy", "value", "energy_total", peer="system"),
    Metric("hw.host.energy (delta)", "value", "power_w", peer="system"),
    *(
        Metric(name, "value", resource, peer=of, part="hw.id", only=(("hw.type", of),))
        for name, resource in (
            ("hw.power", "power_w"),
            ("hw.energy", "energy_total"),
            ("hw.energy (delta)", "power_w"),
        )
        for of in _HARDWARE
    ),
)
"""Metrics of the hostmetrics receiver, and of OpenTelemetry's conventions for hardware; a supply or a fan is none of the parts whose power adds up."""
