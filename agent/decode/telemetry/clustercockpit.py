"""Metrics of ClusterCockpit, in line protocol and archives: the resource of each metric, and its unit."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from agent.decode.telemetry.metric import Convert, Metric
from processors.contracts.telemetry import COUNTER_LEVEL, COUNTER_RATE, POWER_W

FIELD: Final = "value"
NODE: Final = "node"
ACCELERATOR: Final = "accelerator"
PARTS: Final = ("socket", "memoryDomain", "die", "llc")  # a few of a host: each is a resource, and they add up
CORES: Final = ("core", "hwthread", "cpu")  # many of a host: they share one, which is that of an average one
SCOPES: Final = (NODE, *PARTS, ACCELERATOR, *CORES)
"""Where a metric was taken, the coarsest first."""

_POWERS: Final = {
    "node_power": "system",
    "node_total_power": "system",
    "total_power": "system",
    "ipmi_power": "system",
    "rapl_psys_average_power": "system",
    "cpu_power": "cpu",
    "rapl_power": "cpu",
    "rapl_average_power": "cpu",
    "mem_power": "memory",
    "dram_power": "memory",
    "rapl_dram_average_power": "memory",
    "acc_power": "gpu",
    "nv_power_usage": "gpu",
    "rocm_power_usage": "gpu",
}
_PACKAGE: Final = re.compile(r"rapl_(?:package|pkg)(?:-[0-9]{1,4})?_average_power")
_RATE: Final = re.compile(r"flops_(?:any|sp|dp|hp)|\w{1,64}_(?:bw|iops|rate|pkts)")
_LEVEL: Final = re.compile(
    r"ipc|cpi|clock|cpu_(?:load|user|util|system|idle|iowait)|vectorization_ratio|mem_used|acc_(?:utilization|mem_used|mem_util)"
)
_MEGA: Final = re.compile(r"flops_(?:any|sp|dp|hp)|mem_bw|clock")  # as the groups of LIKWID tell them
_PART: Final = re.compile(r"[0-9A-Za-z_.:-]{1,64}")
_PREFIXES: Final = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
                    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}  # fmt: skip
_UNIT: Final = re.compile(
    r"(n|u|m|k|Ki|K|Mi|M|Gi|G|Ti|T|P|E)?(?:[Bb]ytes?(?:/s|/sec)?|B(?:/s)?|[Ff]lops?(?:/s)?|F(?:/s)?|Hz|W(?:att)?)"
)


class Place(NamedTuple):
    """The resource of a metric, and the suffix of the series name: ``power_w``, ``cpu:0``.

    >>> Place("counter_rate", "flops_any").peer
    'flops_any'
    """

    resource: str
    peer: str


def place_of(metric: str, scope: str, part: str) -> Place | None:
    """Return the resource of a metric measured at a scope on this part of a host; None if the agent does not use the metric.

    Powers belong to a component, or to one socket of it. Rates of parts add up. For ratios and amounts, and for metrics of cores,
    the mean matters: all parts of the host share the resource.

    >>> place_of("cpu_power", "socket", "1"), place_of("ipc", "hwthread", "7")
    (Place(resource='power_w', peer='cpu:1'), Place(resource='counter_level', peer='ipc'))
    >>> place_of("flops_any", "node", "0"), place_of("flops_any", "core", "7")
    (Place(resource='counter_rate', peer='flops_any'), Place(resource='counter_level', peer='flops_any_per_core'))
    """
    if scope not in SCOPES:
        return None
    component = _POWERS.get(metric) or ("cpu" if _PACKAGE.fullmatch(metric) else None)
    if component is not None:
        return None if scope in CORES else Place(POWER_W, component if scope == NODE else f"{component}:{part}")
    if _LEVEL.fullmatch(metric):
        return Place(COUNTER_LEVEL, metric)
    if not _RATE.fullmatch(metric):
        return None
    if scope in CORES:
        return Place(COUNTER_LEVEL, f"{metric}_per_{scope}")
    return Place(COUNTER_RATE, metric if scope == NODE else f"{metric}:{part}")


def factor_of(metric: str, unit: str | None) -> float:
    """Return the factor that converts values to bytes, operations, Hz or W; without a unit, the metric decides.

    >>> factor_of("mem_bw", "GB/s"), factor_of("flops_any", None), factor_of("mem_used", None), factor_of("ipc", "IPC")
    (1000000000.0, 1000000.0, 1.0, 1.0)
    """
    if unit:
        found = _UNIT.fullmatch(unit)
        return 1.0 if found is None else _PREFIXES[found[1] or ""]
    return 1e6 if _MEGA.fullmatch(metric) else 1.0


def unit_name(prefix: str | None, base: str | None) -> str:
    """Return the unit from its two parts, as archives store it; a unit without a known meaning stays unchanged.

    >>> unit_name("G", "B/s"), unit_name(None, "load")
    ('GB/s', 'load')
    """
    return f"{prefix or ''}{base or ''}" or "1"


def metric_of(measurement: str, tags: Mapping[str, str]) -> tuple[Metric, str] | None:
    """Return the metric of lines with these tags, and the peer in the series name; None for other lines.

    >>> metric_of("mem_bw", {"hostname": "e1208", "type": "socket", "type-id": "0"})[1]
    'mem_bw:0'
    """
    scope = tags.get("type", "")
    part = tags.get("type-id", "0")
    place = place_of(measurement, scope, part) if "hostname" in tags and _PART.fullmatch(part) else None
    if place is None or "stype" in tags:  # of a file system, a user's slice: of what no resource is known
        return None
    factor = factor_of(measurement, tags.get("unit"))
    return Metric(measurement, FIELD, place.resource, _times(factor), instance=PEER_TAG), place.peer


PEER_TAG: Final = "\0peer"  # no line has such a tag


@lru_cache(maxsize=64)  # as many as there are prefixes
def _times(factor: float) -> Convert | None:
    return None if factor == 1.0 else lambda value: value * factor
