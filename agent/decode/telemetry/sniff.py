"""Recognise the format of a message of telemetry by what it holds, for topics and files of any."""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from agent.decode.message import JSON_ERRORS, TelemetryFactory, TelemetryOptions
from agent.decode.opening import any_decoder
from agent.decode.telemetry.collectd import collectd_decoder
from agent.decode.telemetry.columns import joined
from agent.decode.telemetry.cray import cray_decoder
from agent.decode.telemetry.examon import examon_decoder
from agent.decode.telemetry.ldms import ldms_decoder
from agent.decode.telemetry.ldms_jobs import is_notice
from agent.decode.telemetry.line_protocol import line_protocol_decoder
from agent.decode.telemetry.native import load_decoder
from agent.decode.telemetry.nws import nws_decoder
from agent.decode.telemetry.scraped.otlp import otlp_decoder
from agent.decode.telemetry.scraped.prometheus import prometheus_decoder
from agent.decode.telemetry.scraped.protobuf import is_row_of
from agent.decode.telemetry.sonar import sonar_samples_decoder
from agent.decode.telemetry.telegraf import telegraf_decoder
from processors.contracts.telemetry import DecodedBatch, DecodeSamples, SeriesIndex

FORMATS: Final[dict[str, TelemetryFactory]] = {
    "native": load_decoder,
    "telegraf": telegraf_decoder,
    "line-protocol": line_protocol_decoder,
    "ldms": ldms_decoder,
    "collectd": collectd_decoder,
    "nws": nws_decoder,
    "cray": cray_decoder,
    "sonar": sonar_samples_decoder,
    "prometheus": prometheus_decoder,
    "otlp": otlp_decoder,
    "examon": examon_decoder,
}
_EXTRACT = re.compile(rb"\s*(?:#|[0-9]+(?:\.[0-9]+)?\s+[0-9.eE+-]+\s|time\s+measurement\b)", re.IGNORECASE)
_LINE = re.compile(rb"[^\s,={}\[\]\"][^\n]*[^\\] [^\s=]+=[^\n]", re.DOTALL)  # a measurement, and a field after a space
_TOPIC = re.compile(rb"[^\s\"{}\[\]]{0,256}\borg/[^\s/]+/cluster/\S+ +\S")  # of MQTT, as ExaMon names it, and a payload
_TEXTS: Final = (("examon", _TOPIC), ("nws", _EXTRACT), ("line-protocol", _LINE))
_HEAD: Final = 4096  # bytes of a message that tell its format


class _Probe(msgspec.Struct):
    type: msgspec.Raw = msgspec.Raw()
    events: msgspec.Raw = msgspec.field(name="Events", default_factory=msgspec.Raw)
    location: msgspec.Raw = msgspec.field(name="Location", default_factory=msgspec.Raw)
    fields: msgspec.Raw = msgspec.Raw()
    metrics: msgspec.Raw = msgspec.Raw()
    meta: msgspec.Raw = msgspec.Raw()
    data: msgspec.Raw = msgspec.Raw()
    errors: msgspec.Raw = msgspec.Raw()
    component_id: msgspec.Raw = msgspec.Raw()
    producer: msgspec.Raw = msgspec.Raw()
    timestamp: msgspec.Raw = msgspec.Raw()
    labels: msgspec.Raw = msgspec.Raw()
    value: msgspec.Raw = msgspec.Raw()
    tags: msgspec.Raw = msgspec.Raw()
    topic: msgspec.Raw = msgspec.Raw()
    payload: msgspec.Raw = msgspec.Raw()
    resource_metrics: msgspec.Raw = msgspec.field(name="resourceMetrics", default_factory=msgspec.Raw)


_PROBE = msgspec.json.Decoder(_Probe)


def sniff_telemetry(value: bytes) -> str:
    """Return the name of the format of a message; what is none of telemetry is ``native``, whose decoder says why not.

    >>> sniff_telemetry(b"system,host=nid1 load1=3.5"), sniff_telemetry(b'{"timestamp": 1.5, "component_id": 7}')
    ('line-protocol', 'ldms')
    """
    if is_row_of(1, value):  # protobuf: to begin with, a line feed
        return "otlp"
    head = value[:_HEAD].lstrip()
    if head[:1] == b"[":
        return "collectd" if b'"dsnames"' in head and b'"plugin"' in head else "native"
    if head[:1] == b"{":
        return _sniff_object(value)
    if head[:1] in (b"", b"\0"):
        return "native"
    return next((name for name, pattern in _TEXTS if pattern.match(head)), "native")


def _sniff_object(value: bytes) -> str:
    try:
        probe = _PROBE.decode(value.rstrip(b"\0"))
    except JSON_ERRORS:
        return "native"
    marks = (  # of which the first that is there decides
        ("native", bytes(probe.type)),
        ("sonar", bytes(probe.meta) and (bytes(probe.data) or bytes(probe.errors))),
        ("cray", bytes(probe.events) or bytes(probe.location) or bytes(probe.metrics)[:1] == b"{"),
        ("otlp", bytes(probe.resource_metrics)),
        ("telegraf", bytes(probe.metrics) or bytes(probe.fields)),
        ("prometheus", bytes(probe.labels)[:1] == b"{" and bytes(probe.value)),
        ("examon", bytes(probe.tags)[:1] == b"{" and bytes(probe.value) and bytes(probe.timestamp)),
        ("examon", bytes(probe.topic)[:1] == b'"' and bytes(probe.payload)),
        ("ldms", bytes(probe.timestamp) and (bytes(probe.component_id) or bytes(probe.producer) or is_notice(value))),
    )
    return next((name for name, found in marks if found), "native")


def any_telemetry_decoder(options: TelemetryOptions) -> DecodeSamples:
    """Return the decoder of messages of any format, also mixed; samples are in the order of the messages.

    Events of jobs may be native ones, or records of Slurm and Sonar.

    >>> from agent.decode.message import DecodeOptions
    >>> decode = any_telemetry_decoder(TelemetryOptions(decode=DecodeOptions(default_system="exa")))
    >>> decode([b"system,host=nid1 load1=3.5 1787217284"], [1787217284000], SeriesIndex(9)).samples.value.tolist()
    [3.5]
    """
    decoders = {name: factory(options) for name, factory in FORMATS.items()}
    decoders["native"] = load_decoder(options, any_decoder(options.decode))

    def decode(values: Sequence[bytes | None], received_ms: Sequence[int], index: SeriesIndex) -> DecodedBatch:
        places: dict[str, list[int]] = {}
        for message, value in enumerate(values):
            places.setdefault(sniff_telemetry(value or b""), []).append(message)
        batches = [
            (at, decoders[name]([values[i] for i in at], [received_ms[i] for i in at], index))
            for name, at in places.items()
        ]
        return joined(batches)

    return decode
