"""Messages in envelopes are read as they are without: CloudEvents in both modes of the binding, and wrappers of other programs."""

import io
import json
from base64 import b64encode
from typing import Any

import pytest

from agent.decode.files import default_telemetry, read_source
from agent.decode.formats import DECODERS, TELEMETRY
from agent.decode.guard import guarded, guarded_samples, opened
from agent.decode.message import DecodeOptions, TelemetryOptions
from agent.decode.opening import OpenSource
from processors.contracts.errors import InvalidInputError
from processors.contracts.nodes import Node, Nodes
from processors.contracts.telemetry import SeriesIndex
from tests.kit.cases import each
from tests.kit.job_records import RECEIVED_MS, completed, slurm_record
from tests.kit.sample_records import GOOD

OPTIONS = TelemetryOptions(
    decode=DecodeOptions(default_system="exa"), hosts={1: "nid1"}, nodes=Nodes([Node("nid1", xname="x9c3s0b0n0")])
)
FINISHED = b'{"jobid":8421337,"state":"COMPLETED"}'
"""The value of the example of the Kafka binding in binary mode: its headers, ce_specversion and the like, are for others."""


def enveloped(value: bytes, version: str = "1.0", **fields: Any) -> bytes:
    """Return a message in an envelope: JSON as it is, another one as a text."""
    data = json.loads(value) if value[:1] in b"[{" else value.decode()
    attributes = {"type": "org.example.hpc", "source": "/clusters/exa", "id": "7", "time": "2026-08-20T10:40:01Z"}
    return json.dumps({"specversion": version, **attributes, "data": data, **fields}).encode()


def outcome(format_name: str, *values: bytes | None) -> tuple[list[Any], list[Any]]:
    """Return the samples and what is beside them, of messages of telemetry."""
    index = SeriesIndex(100)
    decode = guarded_samples(lambda: TELEMETRY[format_name](OPTIONS))
    batch = decode(values, [RECEIVED_MS] * len(values), index)
    columns = (getattr(batch.samples, name).tolist() for name in ("series", "time_ms", "value"))
    rejects = [
        (at, error.reason, other.events) for at, other in batch.others for error in [*other.rejects, None] if error
    ]
    samples = [(index[number], *rest) for number, *rest in zip(*columns, batch.sample_message.tolist(), strict=True)]
    return samples, rejects


@each("format_name", list(GOOD))
def test_a_sample_of_any_format_is_read_within_an_envelope_as_without(format_name: str) -> None:
    message = GOOD[format_name]
    base64 = json.dumps({"specversion": "1.0", "data_base64": b64encode(message).decode()}).encode()
    plain = outcome(format_name, message, message, message)
    assert len(plain[0]) >= 3
    for name in (format_name, "auto"):
        assert outcome(name, enveloped(message), message, base64) == plain


@pytest.mark.parametrize("message", [completed(), slurm_record(), b"[" + completed() + b"]"])
def test_a_job_is_read_within_an_envelope_as_without(message: bytes) -> None:
    decode = guarded(DECODERS["auto"](OPTIONS.decode))
    assert decode(enveloped(message), RECEIVED_MS).events == decode(message, RECEIVED_MS).events != []


def test_a_value_in_binary_mode_is_read_as_the_same_message_in_structured_mode() -> None:
    decode = guarded(DECODERS["slurm"](OPTIONS.decode))
    with pytest.raises(InvalidInputError) as binary:
        decode(FINISHED, RECEIVED_MS)
    with pytest.raises(InvalidInputError) as structured:
        decode(enveloped(FINISHED), RECEIVED_MS)
    assert str(binary.value) == str(structured.value) == "The record of a start has no @start."


@each(
    ("bad", "reason"),
    [
        (enveloped(GOOD["native"], version="0.3"), "unsupported-type"),
        (enveloped(GOOD["native"], version="1"), "unsupported-type"),
        (b'{"specversion": "1.0"}', "missing-field"),
        (b'{"specversion": "1.0", "data": null}', "missing-field"),
        (b'{"specversion": 1.0, "data": {}}', "wrong-type"),
        (b'{"specversion": "1.0", "data_base64": "%"}', "wrong-type"),
        (b'{"specversion": "1.0", "data_base64": "\xc3\xa9"}', "wrong-type"),
        (b'{"specversion": "1.0", "data": 1, "data_base64": ""}', "wrong-type"),
        (b'{"specversion": "1.0", "data_base64": ""}', "empty"),
        (enveloped(enveloped(GOOD["native"])), "nesting"),
    ],
)
def test_an_envelope_that_cannot_be_opened_is_refused_and_costs_no_neighbour(bad: bytes, reason: str) -> None:
    samples, rejects = outcome("native", GOOD["native"], bad, None, enveloped(GOOD["native"]))
    assert [sample[-1] for sample in samples] == [0, 3]
    assert [(at, found) for at, found, _ in rejects] == [(1, reason), (2, "empty")]
    with pytest.raises(InvalidInputError) as refused:
        guarded(DECODERS["auto"](OPTIONS.decode))(bad, RECEIVED_MS)
    assert refused.value.reason == reason


def test_a_message_that_only_speaks_of_envelopes_is_none() -> None:
    speaks = GOOD["native"].replace(b'"system":"exa"', b'"system":"exa","note":"\\"specversion\\""')
    assert outcome("native", speaks)[0] == outcome("native", GOOD["native"])[0]


JOB = slurm_record()


def hit(message: bytes, **fields: Any) -> dict[str, Any]:
    return {"_index": "slurm", "_id": "x", "_score": 1, "_source": json.loads(message), **fields}


def logged(message: bytes, **fields: Any) -> dict[str, Any]:
    return {"@timestamp": "2026-03-02T12:00:01Z", "host": {"name": "ctl"}, "message": message.decode(), **fields}


def connected(message: bytes, payload: Any = None) -> dict[str, Any]:
    return {"schema": {"type": "struct", "optional": False}, "payload": payload or json.loads(message)}


WRAPPED = [
    hit(JOB),
    {"took": 3, "timed_out": False, "hits": {"total": {"value": 1}, "hits": [hit(JOB)]}},
    [hit(JOB)],
    connected(JOB),
    connected(JOB, JOB.decode()),
    {**connected(JOB), "schema": None},
    logged(JOB),
    {"message": JOB.decode()},
    {"log": JOB.decode() + "\n", "stream": "stdout", "time": "2026-03-02T12:00:00Z"},
    {"version": "1.1", "host": "ctl", "short_message": JOB.decode()},
    connected(JOB, {"before": None, "after": json.loads(JOB), "op": "c"}),
    hit(json.dumps(logged(JOB)).encode()),
    json.loads(enveloped(json.dumps(hit(JOB)).encode())),
]


@each("wrapped", WRAPPED)
def test_a_job_in_a_wrapper_is_read_on_topics_and_in_files(wrapped: Any) -> None:
    decode = guarded(DECODERS["slurm"](OPTIONS.decode))
    events = decode(JOB, RECEIVED_MS).events
    assert len(events) == 1
    value = json.dumps(wrapped).encode()
    assert decode(value, RECEIVED_MS).events == events
    for text in (value, json.dumps(wrapped, indent=2).encode(), value + b"\n" + value):
        records = list(read_source("in", OpenSource(io.BytesIO(text)), RECEIVED_MS, default_telemetry(OPTIONS.decode)))
        assert not any(record.error for record in records)
        assert {event.identity for record in records for event in record.decoded.events} == {events[0].identity}


def test_measurements_in_wrappers_are_read_beside_others() -> None:
    for name in ("telegraf", "prometheus", "ldms", "native"):
        message = GOOD[name]
        plain = outcome(name, message, message, message)
        wrapped = [json.dumps(wrap(message)).encode() for wrap in (hit, connected)]
        assert outcome(name, wrapped[0], message, wrapped[1]) == plain
    line = GOOD["line-protocol"]
    assert outcome("line-protocol", json.dumps(logged(line)).encode())[0] == outcome("line-protocol", line)[0]


@each(
    "message",
    [
        {"type": "load", "message": "{}"},
        {"jobid": 812, "message": JOB.decode()},
        {"message": "disk full"},
        {"log": {"offset": 7}, "jobid": 812},
        {"topic": "org/e4/cluster/red", "payload": "1;2"},
        {"hits": 7},
        {"_source": None},
        {"schema": "slurm_step", "payload": 7},
    ],
)
def test_a_message_with_a_key_of_an_envelope_need_not_be_one(message: Any) -> None:
    value = json.dumps(message).encode()
    assert opened(value) == value


def test_envelopes_are_opened_a_bounded_number_of_times() -> None:
    value = JOB
    for _ in range(50):
        value = json.dumps({"message": value.decode()}).encode()[:2_000_000]
        if len(value) > 500_000:
            break
    with pytest.raises(InvalidInputError) as refused:
        opened(value)
    assert refused.value.reason == "nesting"
    many = {"hits": {"hits": [hit(b"{}")] * 10_001}}
    with pytest.raises(InvalidInputError) as refused:
        opened(json.dumps(many).encode())
    assert refused.value.reason == "array-bomb"
    for unit in (b'{"message":', b'"payload",', b'[{"_source":{', b'"hits":'):
        opened(unit * (500_000 // len(unit)))
