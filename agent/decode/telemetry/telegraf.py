"""Metrics of Telegraf in JSON: one object per message, or several objects under ``metrics``."""

from typing import Final

import msgspec

from agent.decode.message import JSON_ERRORS, TelemetryOptions, check_keys, decode_json, json_error
from agent.decode.telemetry.columns import Columns, Stamps, in_slices
from agent.decode.telemetry.metric import LOADS, Metric, percent, thousandths
from agent.decode.telemetry.plans import Plans, take
from processors.contracts.telemetry import DecodeSamples

_ALL_OF_A_HOST: Final = tuple((tag, "-") for tag in ("core", "cpu", "package", "die"))

TELEGRAF: Final = (
    Metric("cpu", "usage_idle", "cpu_available", percent, only=(("cpu", "cpu-total"),)),
    Metric("cpu", "usage_iowait", "cpu_iowait", percent, only=(("cpu", "cpu-total"),)),
    *(Metric("system", load, load) for load in LOADS),
    Metric("mem", "free", "memory_free"),
    Metric("mem", "available", "memory_available"),
    Metric("disk", "free", "disk_free", instance="path"),
    Metric("ping", "average_response_ms", "latency", thousandths, instance="url"),
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
    # metrics of ClusterCockpit, whose collector also writes line protocol
    Metric("cpu_load", "value", "load1", only=(("type", "node"),)),
)
"""Metrics of Telegraf's plugins by their default names; memory and disks in bytes, as Telegraf writes them.

Counters of `infiniband` become the same resource as the Slingshot counters of LDMS. A counter of `intel_pmu` counts from its
opening, on one processor of the host.
"""

_Tag = str | float | bool | None
_Field = float | str | bool | list[msgspec.Raw] | dict[str, msgspec.Raw] | None


class _Metric(msgspec.Struct, gc=False):
    name: str
    fields: dict[str, _Field]
    timestamp: float | str
    tags: dict[str, _Tag] = {}


class _Batch(msgspec.Struct, gc=False):
    metrics: list[msgspec.Raw]


_METRIC = msgspec.json.Decoder(_Metric)
_BATCH = msgspec.json.Decoder(_Batch)


def telegraf_decoder(options: TelemetryOptions) -> DecodeSamples:
    """Return the decoder of Telegraf's JSON; times may be in s, ms, us or ns, or strings.

    >>> from processors.contracts.telemetry import SeriesIndex
    >>> from agent.decode.message import DecodeOptions
    >>> decode = telegraf_decoder(TelemetryOptions(decode=DecodeOptions(default_system="exa")))
    >>> message = b'{"name": "system", "tags": {"host": "nid1"}, "fields": {"load1": 3.5}, "timestamp": 1787217284}'
    >>> decode([message], [1787217284000], SeriesIndex(9)).samples.value.tolist()
    [3.5]
    """
    plans, stamps = Plans(TELEGRAF, options), Stamps(options.taken.time_unit)

    def decode_message(value: bytes, message: int, columns: Columns) -> None:
        try:
            metric = _METRIC.decode(value)
        except JSON_ERRORS as error:
            if b'"metrics"' not in value:
                raise json_error(error) from None
            batch = decode_json(_BATCH, value).metrics
            options.decode.check_count(len(batch), "metrics")
            columns.refuse_each(batch, lambda part: take_part(bytes(part), message, columns), "metrics[{}]", message)
        else:
            take_metric(metric, value, message, columns)

    def take_part(value: bytes, message: int, columns: Columns) -> None:
        take_metric(decode_json(_METRIC, value), value, message, columns)

    def take_metric(metric: _Metric, value: bytes, message: int, columns: Columns) -> None:
        check_keys(value, 4 + len(metric.fields) + len(metric.tags))
        key = metric.name, *metric.tags, *metric.tags.values()
        plan = plans.of(columns.index).get(key)
        if plan is None:
            tags = {tag: f"{text:g}" if isinstance(text, float) else str(text) for tag, text in metric.tags.items()}
            plan = plans.add(key, metric.name, options.host_in(tags), tags)
        take(metric.fields, plan, stamps.time_ms(metric.timestamp), message, columns)

    return in_slices(decode_message, options)
