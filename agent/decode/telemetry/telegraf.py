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

_WHITESPACE: Final = b" \t\r\n"
_Tag = str | float | bool | None
_Key = tuple[_Tag, ...]
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
    """Return the decoder of Telegraf's JSON, with times in s, ms, us or ns, or as texts.

    >>> from processors.contracts.telemetry import SeriesIndex
    >>> from agent.decode.message import DecodeOptions
    >>> decode = telegraf_decoder(TelemetryOptions(decode=DecodeOptions(default_system="exa")))
    >>> message = b'{"name": "system", "tags": {"host": "nid1"}, "fields": {"load1": 3.5}, "timestamp": 1787217284}'
    >>> decode([message], [1787217284000], SeriesIndex(9)).samples.value.tolist()
    [3.5]
    """
    planner, known, stamps = Planner(TELEGRAF, options), Known[_Key, Plan](), Stamps(options.taken.time_unit)

    def decode_message(value: bytes, message: int, columns: Columns) -> None:
        metric = _metric_of(value)
        if metric is not None:
            take_metric(metric, message, columns)
            return
        failures: list[InvalidInputError] = []
        for number, element in enumerate(_others(checked(value, options.decode), options)):
            try:
                take_metric(_decoded(element), message, columns)
            except InvalidInputError as error:
                failures.append(error.at(f"metrics[{number}]"))
        for failure in failures:
            columns.refuse(message, failure)

    def take_metric(metric: _Metric, message: int, columns: Columns) -> None:
        plans = known.of(columns.index)
        key = (metric.name, *metric.tags, *metric.tags.values())
        plan = plans.get(key)
        if plan is None:
            tags = {tag: f"{text:g}" if isinstance(text, float) else str(text) for tag, text in metric.tags.items()}
            plan = planner.plan(metric.name, options.host_in(tags), tags)
            if plan is not NOTHING and sum(map(len, map(str, key))) <= KEY_BYTES_MAX:
                plans[key] = plan
        take(metric.fields, plan, stamps.time_ms(metric.timestamp), message, columns)

    return in_slices(decode_message, options)


def _metric_of(value: bytes) -> _Metric | None:
    """Return the metric of a message with one metric, which is the usual case; None for a batch, or a message that ends in a zero byte."""
    try:
        metric = _METRIC.decode(value)
    except JSON_ERRORS:
        return None
    _refuse_others(value, metric)
    return metric


def _others(value: bytes, options: TelemetryOptions) -> Sequence[bytes]:
    """Return the metrics of a batch as JSON each, so that a bad one does not affect the others."""
    if b'"metrics"' not in value:
        return (value,)
    try:
        metrics = _BATCH.decode(value).metrics
    except JSON_ERRORS as error:
        raise json_error(error) from None
    if len(metrics) > options.decode.elements_max:
        raise invalid("array-bomb", f"The message has more metrics than {options.decode.elements_max}.")
    return [bytes(metric) for metric in metrics]


def _decoded(value: bytes) -> _Metric:
    try:
        metric = _METRIC.decode(value)
    except JSON_ERRORS as error:
        raise json_error(error) from None
    _refuse_others(value, metric)
    return metric


def _refuse_others(value: bytes, metric: _Metric) -> None:
    if _keys(value) != 4 + len(metric.fields) + len(metric.tags):  # more fields than are known, or one twice
        refuse_duplicate_keys(value)


def _keys(value: bytes) -> int:
    """Return an upper bound for the number of keys, by the quotes followed by a colon; see `read_native`."""
    return value.translate(None, _WHITESPACE).count(b'":')
