"""Samples of ExaMon, passed on by a bridge from MQTT to Kafka: the MQTT topic or the message names the metric.

Sources: `examon/transport/mqtt.py` of ExamonHPC/examon-common, with the three forms ``csv``, ``json`` and ``bulk``, and the data model of
ExamonHPC/examon 0.5.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from agent.decode.message import JSON_ERRORS, TelemetryOptions, checked, invalid, json_error, shown
from agent.decode.telemetry.columns import KEY_BYTES_MAX, Columns, Known, Stamps, epoch_ms, in_slices
from agent.decode.telemetry.metric import EXAMON
from agent.decode.telemetry.plans import NOTHING, Plan, Planner, take
from processors.contracts.errors import InvalidInputError
from processors.contracts.telemetry import DecodeSamples

DATA: Final = "data"  # the channel of numbers
FIRST: Final = ("org", "cluster")  # the names with which a topic of names and values begins
PLAIN: Final = ("org", "cluster", "plugin", "node")  # what a topic of values alone tells, before the metric
TOPIC_BYTES_MAX: Final = 1_024

_LINE: Final = re.compile(rb"(\S{1,1024}) +(\S.*)", re.DOTALL)
_NUMBER: Final = re.compile(rb"[+-]?[0-9]{1,400}(?:\.[0-9]{0,400})?(?:[eE][+-]?[0-9]{1,4})?")
_SECONDS: Final = re.compile(rb"[0-9]{1,20}(?:\.[0-9]{1,9})?")
_NO_NUMBER: Final = frozenset({b"nan", b"inf", b"-inf", b"None", b""})


class _Metric(msgspec.Struct, gc=False):
    """One value with its tags, in the forms ``json`` and ``bulk``; the time in ms."""

    name: str
    value: float | str | bool | None
    timestamp: float
    tags: dict[str, str | float]


class _Short(msgspec.Struct, gc=False):
    """One value without its tags."""

    value: float | str | bool | None = msgspec.field(name="v")
    timestamp: float = msgspec.field(name="ts")


class _Envelope(msgspec.Struct, gc=False):
    """An MQTT message inside the message of a bridge."""

    topic: str
    payload: msgspec.Raw


class _Sample(msgspec.Struct, gc=False):
    metric: str
    tags: Mapping[str, str]
    value: object
    time_ms: int


_METRIC = msgspec.json.Decoder(_Metric)
_BULK = msgspec.json.Decoder(list[msgspec.Raw])
_SHORT = msgspec.json.Decoder(_Short)
_ENVELOPE = msgspec.json.Decoder(_Envelope)
_TEXT = msgspec.json.Decoder(str)


def with_key(value: bytes | None, key: bytes | None) -> bytes | None:
    """Return a message with its key in front if the key may be an MQTT topic; the decoder takes both as one text.

    >>> with_key(b"58.0;1716480000.123", b"org/e4/cluster/red/node/cn01/plugin/ipmi_pub/chnl/data/total_power")
    b'org/e4/cluster/red/node/cn01/plugin/ipmi_pub/chnl/data/total_power 58.0;1716480000.123'
    """
    if not value or not key or len(key) > TOPIC_BYTES_MAX or b"/" not in key:
        return value
    return key.replace(b" ", b"_") + b" " + value


def tags_of(topic: str) -> tuple[str, dict[str, str]]:
    """Return the metric and the tags of an MQTT topic. Raise InvalidInputError (``missing-field``) if it has none.

    A topic alternates names and values, or holds only the values of organisation, cluster, plugin and node; a prefix is skipped.

    >>> tags_of("org/e4/cluster/red/node/cn01/core/3/instr")[1]["core"], tags_of("e4/red/ipmi_pub/cn01/total_power")[0]
    ('3', 'total_power')
    """
    parts = topic.split("/")
    for begin in range(len(parts) - 3):
        if (parts[begin], parts[begin + 2]) == FIRST and (len(parts) - begin) % 2:
            return parts[-1], dict(zip(parts[begin:-1:2], parts[begin + 1 :: 2], strict=True))
    if len(parts) > len(PLAIN):
        *values, metric = parts[-len(PLAIN) - 1 :]
        return metric, dict(zip(PLAIN, values, strict=True))
    raise invalid("missing-field", f"The topic {shown(topic)} names no cluster, node and metric as those of ExaMon do.")


def examon_decoder(options: TelemetryOptions) -> DecodeSamples:
    """Return the decoder of ExaMon's samples: `value;seconds` behind its topic and a space, or JSON with topic or tags.

    The system is that of the source, else the cluster; the host is the node. Channels other than ``data`` are counted.

    >>> from processors.contracts.telemetry import SeriesIndex
    >>> index = SeriesIndex(9)
    >>> message = b"org/e4/cluster/red/node/cn01/plugin/ganglia_pub/chnl/data/load_one 3.5;1787217284.001"
    >>> batch = examon_decoder(TelemetryOptions())([message], [1787217284000], index)
    >>> index[0], batch.samples.time_ms.tolist()
    (Series(system='red', host='cn01', resource='load1'), [1787217284001])
    """
    return in_slices(_Decoder(options).decode, options)


class _Decoder:
    def __init__(self, options: TelemetryOptions) -> None:
        self._options = options
        self._planner = Planner(EXAMON, options)
        self._plans = Known[tuple[str, ...], Plan]()
        self._topics: Known[bytes, tuple[str, dict[str, str]]] = Known()
        self._stamps = Stamps(options.taken.time_unit)

    def decode(self, value: bytes, message: int, columns: Columns) -> None:
        failures: list[InvalidInputError] = []
        for number, sample in enumerate(self._samples(checked(value, self._options.decode), columns)):
            try:
                self._take(
                    self._of_metric(bytes(sample)) if isinstance(sample, msgspec.Raw) else sample, message, columns
                )
            except InvalidInputError as error:
                failures.append(error.at(f"[{number}]"))
        for failure in failures:
            columns.refuse(message, failure)

    def _samples(self, value: bytes, columns: Columns) -> Iterator[_Sample | msgspec.Raw]:
        if value[:1] in b"{[":
            return self._of_json(value, None, columns)
        line = _LINE.fullmatch(value.strip())
        if line is None:
            raise invalid("missing-field", "The message has no MQTT topic: not as its key, before it, or in it.")
        return self._of_payload(line[1], line[2], columns)

    def _of_payload(self, topic: bytes, payload: bytes, columns: Columns) -> Iterator[_Sample | msgspec.Raw]:
        if payload[:1] in b"{[":
            yield from self._of_json(payload, topic, columns)
            return
        text, sign, seconds = payload.partition(b";")
        if not sign or not _SECONDS.fullmatch(seconds):
            raise invalid("wrong-type", "The payload is not a value and a time in seconds, separated by a semicolon.")
        metric, tags = self._tags(topic, columns)
        yield _Sample(metric, tags, _value(text), epoch_ms(float(seconds)))

    def _of_json(self, value: bytes, topic: bytes | None, columns: Columns) -> Iterator[_Sample | msgspec.Raw]:
        """Yield the sample of a message, or several samples as JSON each, so that a bad one does not affect the others."""
        try:
            if value[:1] == b"[":
                metrics = _BULK.decode(value)
                if len(metrics) > self._options.decode.elements_max:
                    raise invalid(
                        "array-bomb", f"The message has more metrics than {self._options.decode.elements_max}."
                    )
                yield from metrics
            elif b'"tags"' in value:
                yield self._of_metric(value)
            elif b'"payload"' in value:
                outer = _ENVELOPE.decode(value)
                inner = bytes(outer.payload)
                if inner.startswith(b'"'):
                    inner = _TEXT.decode(inner).encode()
                if b'"payload"' in inner:
                    raise invalid("nesting", "The message of the bridge contains another message of a bridge.")
                yield from self._of_payload(outer.topic.encode(), inner.strip(), columns)
            else:
                short = _SHORT.decode(value)
                metric, tags = self._tags(topic or b"", columns)
                yield _Sample(metric, tags, short.value, self._stamps.time_ms(short.timestamp))
        except JSON_ERRORS as error:
            raise json_error(error) from None

    def _of_metric(self, value: bytes) -> _Sample:
        try:
            metric = _METRIC.decode(value)
        except JSON_ERRORS as error:
            raise json_error(error) from None
        tags = {name: text if isinstance(text, str) else f"{text:g}" for name, text in metric.tags.items()}
        return _Sample(metric.name, tags, metric.value, self._stamps.time_ms(metric.timestamp))

    def _tags(self, topic: bytes, columns: Columns) -> tuple[str, dict[str, str]]:
        known = self._topics.of(columns.index)
        found = known.get(topic)
        if found is None:
            try:
                found = tags_of(topic.decode())
            except UnicodeDecodeError:
                raise invalid("encoding", "The MQTT topic is not UTF-8.") from None
            if len(topic) <= KEY_BYTES_MAX:
                known[topic] = found
        return found

    def _take(self, sample: _Sample, message: int, columns: Columns) -> None:
        tags = sample.tags
        if tags.get("chnl", DATA) != DATA or isinstance(sample.value, str | bool):
            columns.ignore("event")
        elif sample.value is None:
            columns.ignore("null")
        else:
            take(
                {sample.metric: sample.value},
                self._plan(tags, sample.metric, columns),
                sample.time_ms,
                message,
                columns,
            )

    def _plan(self, tags: Mapping[str, str], metric: str, columns: Columns) -> Plan:
        plans, key = self._plans.of(columns.index), (metric, *tags, *tags.values())
        plan = plans.get(key)
        if plan is None:
            system = None if self._options.decode.default_system else tags.get("cluster")
            plan = self._planner.plan(tags.get("plugin", ""), tags.get("node"), tags, system=system)
            if plan is not NOTHING and sum(map(len, key)) <= KEY_BYTES_MAX:
                plans[key] = plan
        return plan


def _value(text: bytes) -> float | str | None:
    """Return the number of a payload; None for NaN, and the text itself for other payloads."""
    if _NUMBER.fullmatch(text):
        return float(text)
    return None if text in _NO_NUMBER else text.decode(errors="replace")
