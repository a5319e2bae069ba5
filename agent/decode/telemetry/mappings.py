"""What the metrics of known producers are as resources of hosts."""

from typing import Final

from agent.decode.telemetry.metric import (
    Metric,
    kibibytes,
    mebibytes,
    megabits,
    milliseconds,
    nanojoules,
    percent,
    watts,
)
from processors.contracts.telemetry import COUNTER_DELTA, COUNTER_TOTAL

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
    Metric("turbostat", "package_power", "power_w", peer="cpu", only=_ALL_OF_A_HOST),
    Metric("turbostat", "ram_power", "power_w", peer="memory", only=_ALL_OF_A_HOST),
    Metric("nvidia_smi", "power_draw", "power_w", peer="gpu", part="index"),
    # ClusterCockpit, whose collector writes line protocol as well
    Metric("cpu_load", "value", "load1", only=(("type", "node"),)),
)
"""Plugins of Telegraf, by their default names; memory and disks in bytes, as they are there.

What a counter of `intel_pmu` reads was counted since it was opened, on one processor of the host.
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
CRAY_POWER: Final = "cray_power_sampler"
PAPI: Final = "papi_sampler"
SOCKET: Final = "power.socket_ID"

LDMS: Final = (
    Metric("ldms", "load1min", "load1"),
    Metric("ldms", "load5min", "load5"),
    Metric("ldms", "load15min", "load15"),
    Metric("ldms", "runnable", "runnable"),
    Metric("ldms", "MemFree", "memory_free", kibibytes),
    Metric("ldms", "MemAvailable", "memory_available", kibibytes),
    *(
        Metric("ldms", f"cpu_list.{column}", f"cpu_{column}_ticks_total", only=(("cpu_list.name", "cpu"),))
        for column in ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    ),
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
)
"""Columns of rows, by their names alone, for a row does not say its schema; `load1min` gives cpu_available as well.

Of variorum's rows, one for each socket, the first tells of the whole host; of procstat2's the one that adds up all processors.
"""


def counters_of(names: tuple[str, ...], *, cumulative: bool) -> tuple[Metric, ...]:
    """Return the metrics of counters in rows of LDMS by their names, or by how they begin: ``PAPI_*``.

    What `papi_sampler` counts for a job grows from its start. What counts for a whole host is that of the interval before.

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
