"""Value lists of collectd in JSON as its Kafka plugin writes them: an array of value lists per message."""

from typing import Final

import msgspec

from agent.decode.message import TelemetryOptions, decode_json, invalid, refuse_duplicate_keys
from agent.decode.telemetry.columns import Columns, epoch_ms, in_slices
from agent.decode.telemetry.metric import Metric, percent, thousandths
from agent.decode.telemetry.plans import Plans, take
from processors.contracts.telemetry import DecodeSamples

COLLECTD: Final = (
    Metric("load/load/", "shortterm", "load1"),
    Metric("load/load/", "midterm", "load5"),
    Metric("load/load/", "longterm", "load15"),
    Metric("cpu/percent/idle", "value", "cpu_available", percent, only=(("plugin_instance", ""),)),
    Metric("memory/memory/free", "value", "memory_free"),
    Metric("df/df_complex/free", "value", "disk_free", instance="plugin_instance"),
    Metric("ping/ping/", "value", "latency", thousandths, instance="type_instance"),
    Metric("turbostat/power/", "value", "power_w", peer="cpu", part="plugin_instance"),
    Metric("turbostat/power/DRAM", "value", "power_w", peer="memory", part="plugin_instance"),
    Metric("gpu_nvidia/power/", "value", "power_w", peer="gpu", part="plugin_instance"),
)
"""Metrics by plugin/type/type_instance and data source name."""


class _ValueList(msgspec.Struct, gc=False):
    values: list[float | str | bool | None]
    dsnames: list[str]
    time: float
    host: str
    plugin: str
    type: str
    plugin_instance: str = ""
    type_instance: str = ""


_LISTS = msgspec.json.Decoder(list[msgspec.Raw])
_LIST = msgspec.json.Decoder(_ValueList)
_KEYS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def collectd_decoder(options: TelemetryOptions) -> DecodeSamples:
    """Return the decoder of value lists; counters are expected as rates, which is collectd's default.

    >>> from processors.contracts.telemetry import SeriesIndex
    >>> from agent.decode.message import DecodeOptions
    >>> decode = collectd_decoder(TelemetryOptions(decode=DecodeOptions(default_system="exa")))
    >>> message = b'[{"values":[0.5],"dsnames":["shortterm"],"time":1787217284.001,"host":"nid1","plugin":"load","type":"load"}]'
    >>> decode([message], [1787217284000], SeriesIndex(9)).samples.value.tolist()
    [0.5]
    """
    plans = Plans(COLLECTD, options)

    def decode_message(value: bytes, message: int, columns: Columns) -> None:
        def take_values(raw: msgspec.Raw) -> None:
            values = decode_json(_LIST, raw)
            # another count means white space, nested objects or a duplicate key
            if bytes(raw).count(b'":') != len(decode_json(_KEYS, raw)):
                refuse_duplicate_keys(bytes(raw))
            key = (values.host, values.plugin, values.plugin_instance, values.type, values.type_instance)
            plan = plans.of(columns.index).get(key)
            if plan is None:
                measurement = f"{values.plugin}/{values.type}/{values.type_instance}"
                tags = {"plugin_instance": values.plugin_instance, "type_instance": values.type_instance}
                plan = plans.add(key, measurement, values.host, tags)
            fields = dict(zip(values.dsnames, values.values, strict=False))
            if not len(fields) == len(values.dsnames) == len(values.values):
                raise invalid("columns", "The value list does not have one value for each name.")
            take(fields, plan, epoch_ms(values.time), message, columns)

        lists = decode_json(_LISTS, value)
        options.decode.check_count(len(lists), "elements", "array")
        columns.refuse_each(lists, take_values, "[{}]", message)

    return in_slices(decode_message, options)
