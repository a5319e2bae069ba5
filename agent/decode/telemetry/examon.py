"""Samples of ExaMon, forwarded from MQTT to Kafka by a bridge; the MQTT topic or the message names the metric.

Sources: `examon/transport/mqtt.py` of ExamonHPC/examon-common, with the three forms ``csv``, ``json`` and ``bulk``, and the data model of
ExamonHPC/examon 0.5.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from agent.decode.message import TelemetryOptions, decode_json, invalid, shown
from agent.decode.telemetry.columns import KEY_BYTES_MAX, KNOWN_MAX, Columns, Stamps, epoch_ms, in_slices
from agent.decode.telemetry.metric import Metric, kibibytes, percent
from agent.decode.telemetry.plans import Plans, take
from agent.decode.telemetry.prometheus import PROCESSOR_SECONDS, PROMETHEUS
from processors.contracts.telemetry import DecodeSamples

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
"""Metrics by plugin and name, as in the reference of Marconi 100; an MQTT topic has underscores in place of dots."""

DATA: Final = "data"  # the MQTT channel with numbers
FIRST: Final = ("org", "cluster")  # the first names in an MQTT topic with alternating names and values
# the meaning of the values in an MQTT topic without names, in order, before the metric
PLAIN: Final = ("org", "cluster", "plugin", "node")
TOPIC_BYTES_MAX: Final = 1_024

_LINE: Final = re.compile(rb"(\S{1,1024}) +(\S.*)", re.DOTALL)
_NUMBER: Final = re.compile(rb"[+-]?[0-9]{1,400}(?:\.[0-9]{0,400})?(?:[eE][+-]?[0-9]{1,4})?")
_SECONDS: Final = re.compile(rb"[0-9]{1,20}(?:\.[0-9]{1,9})?")
_NO_NUMBER: Final = frozenset({b"nan", b"inf", b"-inf", b"None", b""})


class _Metric(msgspec.Struct, gc=False):
    """A value with its tags, in the forms ``json`` and ``bulk``; the time is in ms."""

    name: str
    value: float | str | bool | None
    timestamp: float
    tags: dict[str, str | float]


class _Short(msgspec.Struct, gc=False):
    """One value without tags."""

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
    """Return a message with its Kafka key in front if the key may be an MQTT topic; the decoder reads both from one text."""
    if not value or not key or len(key) > TOPIC_BYTES_MAX or b"/" not in key:
        return value
    return key.replace(b" ", b"_") + b" " + value


def tags_of(topic: str) -> tuple[str, dict[str, str]]:
    """Return the metric and the tags in an MQTT topic. Raise InvalidInputError (``missing-field``) if the topic has no metric.

    A topic either alternates names and values, or has only the values of organisation, cluster, plugin and node. A prefix is skipped.
    """
    parts = topic.split("/")
    for begin in range(len(parts) - 3):
        if (parts[begin], parts[begin + 2]) == FIRST and (len(parts) - begin) % 2:
            return parts[-1], dict(zip(parts[begin:-1:2], parts[begin + 1 :: 2], strict=True))
    if len(parts) > len(PLAIN):
        *values, metric = parts[-len(PLAIN) - 1 :]
        return metric, dict(zip(PLAIN, values, strict=True))
    raise invalid("missing-field", f"The topic {shown(topic)} names no cluster, node and metric as those of ExaMon do.")


def _read_tags(topic: bytes) -> tuple[str, dict[str, str]]:
    try:
        return tags_of(topic.decode())
    except UnicodeDecodeError:
        raise invalid("encoding", "The MQTT topic is not UTF-8.") from None


# cached because each topic brings many samples
_known_tags: Final = lru_cache(maxsize=KNOWN_MAX)(_read_tags)


def _tags(topic: bytes) -> tuple[str, dict[str, str]]:
    return _known_tags(topic) if len(topic) <= KEY_BYTES_MAX else _read_tags(topic)


def examon_decoder(options: TelemetryOptions) -> DecodeSamples:
    """Return the decoder of ExaMon's samples: texts of MQTT topic, space and ``value;seconds``, or JSON with a topic or tags.

    The system is that of the source, else the cluster; the host is the node. Messages of channels other than ``data`` are
    counted.

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
        self._plans = Plans(EXAMON, options)
        self._stamps = Stamps(options.taken.time_unit)

    def decode(self, value: bytes, message: int, columns: Columns) -> None:
        columns.refuse_each(self._samples(value), lambda part: self._take(part, message, columns), "[{}]", message)

    def _samples(self, value: bytes) -> Sequence[_Sample | msgspec.Raw]:
        if value[:1] in b"{[":
            return self._of_json(value, None)
        line = _LINE.fullmatch(value.strip())
        if line is None:
            places = "neither in the record key, nor in front of the payload, nor in the payload"
            raise invalid("missing-field", f"The message has no MQTT topic: {places}.")
        return self._of_payload(line[1], line[2])

    def _of_payload(self, topic: bytes, payload: bytes) -> Sequence[_Sample | msgspec.Raw]:
        if payload[:1] in b"{[":
            return self._of_json(payload, topic)
        text, sign, seconds = payload.partition(b";")
        if not sign or not _SECONDS.fullmatch(seconds):
            raise invalid("wrong-type", "The payload is not a value and a time in seconds, separated by a semicolon.")
        return (_Sample(*_tags(topic), _value(text), epoch_ms(float(seconds))),)

    def _of_json(self, value: bytes, topic: bytes | None) -> Sequence[_Sample | msgspec.Raw]:
        """Return the samples of a JSON message; those of an array stay JSON, so that a bad sample does not affect the others."""
        if value[:1] == b"[":
            metrics = decode_json(_BULK, value)
            self._options.decode.check_count(len(metrics), "metrics")
            return metrics
        if b'"tags"' in value:
            return (self._of_metric(value),)
        if b'"payload"' in value:
            outer = decode_json(_ENVELOPE, value)
            inner = bytes(outer.payload)
            if inner.startswith(b'"'):
                inner = decode_json(_TEXT, inner).encode()
            if b'"payload"' in inner:
                raise invalid("nesting", "The message of the bridge contains another message of a bridge.")
            return self._of_payload(outer.topic.encode(), inner.strip())
        short = decode_json(_SHORT, value)
        return (_Sample(*_tags(topic or b""), short.value, self._stamps.time_ms(short.timestamp)),)

    def _of_metric(self, value: bytes | msgspec.Raw) -> _Sample:
        metric = decode_json(_METRIC, value)
        tags = {name: text if isinstance(text, str) else f"{text:g}" for name, text in metric.tags.items()}
        return _Sample(metric.name, tags, metric.value, self._stamps.time_ms(metric.timestamp))

    def _take(self, part: _Sample | msgspec.Raw, message: int, columns: Columns) -> None:
        sample = self._of_metric(part) if isinstance(part, msgspec.Raw) else part
        tags, metric = sample.tags, sample.metric
        if tags.get("chnl", DATA) != DATA or isinstance(sample.value, str | bool):
            columns.ignore("event")
            return
        if sample.value is None:
            columns.ignore("null")
            return
        key = metric, *tags, *tags.values()
        plan = self._plans.of(columns.index).get(key)
        if plan is None:
            system = None if self._options.decode.default_system else tags.get("cluster")
            plan = self._plans.add(key, tags.get("plugin", ""), tags.get("node"), tags, system=system)
        take({metric: sample.value}, plan, sample.time_ms, message, columns)


def _value(text: bytes) -> float | str | None:
    """Return the payload as a number; None for NaN; the text itself if the payload is not a number."""
    if _NUMBER.fullmatch(text):
        return float(text)
    return None if text in _NO_NUMBER else text.decode(errors="replace")
