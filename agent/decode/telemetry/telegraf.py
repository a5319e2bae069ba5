"""Metrics of Telegraf in JSON: one object per message, or several under ``metrics``."""

from collections.abc import Sequence
from typing import Final

import msgspec

from agent.decode.message import JSON_ERRORS, TelemetryOptions, checked, invalid, json_error, refuse_duplicate_keys
from agent.decode.telemetry.columns import KEY_BYTES_MAX, Columns, Known, Stamps, in_slices
from agent.decode.telemetry.metric import TELEGRAF
from agent.decode.telemetry.plans import NOTHING, Plan, Planner, take
from processors.contracts.errors import InvalidInputError
from processors.contracts.telemetry import DecodeSamples

HOST_TAGS: Final = ("host", "hostname")
_WHITESPACE: Final = b" \t\r\n"
_Field = float | str | bool | None


class _Metric(msgspec.Struct, gc=False):
    name: str
    fields: dict[str, _Field]
    timestamp: float
    tags: dict[str, str] = {}


class _Batch(msgspec.Struct, gc=False):
    metrics: list[_Metric]


_METRIC = msgspec.json.Decoder(_Metric)
_BATCH = msgspec.json.Decoder(_Batch)


def host_of(tags: dict[str, str]) -> str | None:
    """Return the host that the tags name.

    >>> host_of({"cpu": "cpu-total", "host": "nid001042"})
    'nid001042'
    """
    return tags.get(HOST_TAGS[0]) or tags.get(HOST_TAGS[1])


def telegraf_decoder(options: TelemetryOptions) -> DecodeSamples:
    """Return the decoder of Telegraf's JSON, with times in s, ms, us or ns.

    >>> from processors.contracts.telemetry import SeriesIndex
    >>> from agent.decode.message import DecodeOptions
    >>> decode = telegraf_decoder(TelemetryOptions(decode=DecodeOptions(default_system="exa")))
    >>> message = b'{"name": "system", "tags": {"host": "nid1"}, "fields": {"load1": 3.5}, "timestamp": 1787217284}'
    >>> decode([message], [1787217284000], SeriesIndex(9)).samples.value.tolist()
    [3.5]
    """
    planner, known, stamps = Planner(TELEGRAF, options), Known[tuple[str, ...], Plan](), Stamps(options.taken.time_unit)

    def decode_message(value: bytes, message: int, columns: Columns) -> None:
        failures: list[InvalidInputError] = []
        plans = known.of(columns.index)
        for number, metric in enumerate(_metrics(value, options)):
            tags = metric.tags
            key = (metric.name, *tags, *tags.values())
            plan = plans.get(key)
            if plan is None:
                plan = planner.plan(metric.name, host_of(tags), tags)
                if plan is not NOTHING and sum(map(len, key)) <= KEY_BYTES_MAX:
                    plans[key] = plan
            try:
                take(metric.fields, plan, stamps.time_ms(metric.timestamp), message, columns)
            except InvalidInputError as error:
                failures.append(error.at(f"metrics[{number}]"))
        for failure in failures:
            columns.refuse(message, failure)

    return in_slices(decode_message, options)


def _metrics(value: bytes, options: TelemetryOptions) -> Sequence[_Metric]:
    try:
        metric = _METRIC.decode(value)
    except JSON_ERRORS:
        return _others(checked(value, options.decode), options)
    if _keys(value) != 4 + len(metric.fields) + len(metric.tags):  # more fields than are known, or one twice
        refuse_duplicate_keys(value)
    return (metric,)


def _others(value: bytes, options: TelemetryOptions) -> list[_Metric]:
    """Return the metrics of what is not simply one of them: of a batch, or of bytes with a zero at their end."""
    try:
        metrics, keys = (_BATCH.decode(value).metrics, 1) if b'"metrics"' in value else ([_METRIC.decode(value)], 0)
    except JSON_ERRORS as error:
        raise json_error(error) from None
    if len(metrics) > options.decode.elements_max:
        raise invalid("array-bomb", f"The message has more metrics than {options.decode.elements_max}.")
    if _keys(value) != keys + sum(4 + len(metric.fields) + len(metric.tags) for metric in metrics):
        refuse_duplicate_keys(value)
    return metrics


def _keys(value: bytes) -> int:
    """Count the keys, or more: none but a key has a quote and a colon at its end; see `read_native`."""
    return value.translate(None, _WHITESPACE).count(b'":')
