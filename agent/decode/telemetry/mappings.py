"""What the metrics of known producers are as resources of hosts."""

from typing import Final

from agent.decode.telemetry.metric import Metric, kibibytes, mebibytes, megabits, milliseconds, percent

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
    # ClusterCockpit, whose collector writes line protocol as well
    Metric("cpu_load", "value", "load1", only=(("type", "node"),)),
)
"""Plugins of Telegraf, by their default names; memory and disks in bytes, as they are there."""

COLLECTD: Final = (
    Metric("load/load/", "shortterm", "load1"),
    Metric("load/load/", "midterm", "load5"),
    Metric("load/load/", "longterm", "load15"),
    Metric("cpu/percent/idle", "value", "cpu_available", percent, only=(("plugin_instance", ""),)),
    Metric("memory/memory/free", "value", "memory_free"),
    Metric("df/df_complex/free", "value", "disk_free", instance="plugin_instance"),
    Metric("ping/ping/", "value", "latency", milliseconds, instance="type_instance"),
)
"""By plugin/type/type_instance and the name of the data source."""

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
)
"""Columns of rows, by their names alone, for a row does not say its schema; `load1min` gives cpu_available as well."""

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
