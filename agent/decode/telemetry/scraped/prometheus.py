"""Samples of Prometheus in JSON, as prometheus-kafka-adapter writes the samples of remote write: one per message."""

from typing import Final

import msgspec

from agent.decode.fields import check_bounds, number_in
from agent.decode.message import JSON_ERRORS, TelemetryOptions, checked, invalid, json_error, refuse_duplicate_keys
from agent.decode.telemetry.columns import KEY_BYTES_MAX, Columns, Known, Stamps, in_slices
from agent.decode.telemetry.metric import PROCESSOR_SECONDS, PROMETHEUS
from agent.decode.telemetry.plans import NOTHING, Plan, Planner, take
from agent.decode.telemetry.processor_time import IdleShares
from processors.contracts.telemetry import DecodeSamples

FIELD: Final = "value"
CPU: Final = "cpu"
_NO_NUMBER: Final = frozenset({"NaN", "+Inf", "-Inf", "Inf"})
_WHITESPACE: Final = b" \t\r\n"


class _Sample(msgspec.Struct, gc=False):
    labels: dict[str, str]
    name: str
    timestamp: str | float
    value: str | float


_SAMPLE = msgspec.json.Decoder(_Sample)


def prometheus_decoder(options: TelemetryOptions) -> DecodeSamples:
    """Return the decoder of Prometheus samples: node_exporter, ipmi_exporter, dcgm-exporter, Kepler.

    The host comes from the labels, see `TelemetryOptions.host_in`, without a port. Two scrapes of the cumulative idle time of the processors
    give the available share. A NaN, as a series has at its end, is counted.

    >>> from processors.contracts.telemetry import SeriesIndex
    >>> from agent.decode.message import DecodeOptions
    >>> decode = prometheus_decoder(TelemetryOptions(decode=DecodeOptions(default_system="exa")))
    >>> message = b'{"labels":{"instance":"nid1:9100"},"name":"node_load1","timestamp":"2026-08-20T09:14:44Z","value":"3.5"}'
    >>> decode([message], [1787217284000], SeriesIndex(9)).samples.value.tolist()
    [3.5]
    """
    return in_slices(_Decoder(options).decode, options)


class _Decoder:
    def __init__(self, options: TelemetryOptions) -> None:
        self._options = options
        self._planner = Planner(PROMETHEUS, options)
        self._plans = Known[tuple[str, ...], Plan]()
        self._stamps = Stamps("auto")
        self._shares = IdleShares()
        self._seconds = PROCESSOR_SECONDS.keys() - {mapping.measurement for mapping in options.taken.metrics}

    def decode(self, value: bytes, message: int, columns: Columns) -> None:
        sample = _sample(checked(value, self._options.decode))
        of_processor = sample.name in self._seconds
        labels = sample.labels
        if of_processor:  # all of a host share a plan
            labels = {label: text for label, text in labels.items() if label != CPU}
        plan = self._plan(sample.name, labels, columns)
        if plan is NOTHING:
            columns.ignore("metric")
            return
        number = number_in(sample.value)
        if number is None and sample.value not in _NO_NUMBER:
            raise invalid("wrong-type", "The value of the sample is not a number.")
        if number is None:
            columns.ignore("null")
            return
        time_ms = self._stamps.time_ms(sample.timestamp)
        if not of_processor:
            take({FIELD: number}, plan, time_ms, message, columns)
            return
        check_bounds(time_ms, time_ms, columns.received_ms[message], self._options.decode)  # before it is remembered
        if plan.host is None:
            raise invalid("missing-field", "The record names no host.")
        share = self._shares.note(plan.host, sample.labels.get(CPU, ""), time_ms, number)
        if share is not None:
            take({FIELD: share.value}, plan, share.time_ms, message, columns)

    def _plan(self, name: str, labels: dict[str, str], columns: Columns) -> Plan:
        plans, key = self._plans.of(columns.index), (name, *labels, *labels.values())
        plan = plans.get(key)
        if plan is None:
            plan = self._planner.plan(name, self._options.host_in(labels), labels)
            if plan is not NOTHING and sum(map(len, key)) <= KEY_BYTES_MAX:
                plans[key] = plan
        return plan


def _sample(value: bytes) -> _Sample:
    try:
        sample = _SAMPLE.decode(value)
    except JSON_ERRORS as error:
        raise json_error(error) from None
    if value.translate(None, _WHITESPACE).count(b'":') != 4 + len(sample.labels):
        refuse_duplicate_keys(value)
    return sample
