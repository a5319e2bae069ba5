"""Samples of ExaMon: with their keys, without, and what none of its topics names."""

import json

import pytest

from agent.app.compose import source_decoders
from agent.config.load import loads
from agent.decode.message import DecodeOptions, TelemetryOptions
from agent.decode.telemetry.examon import TOPIC_BYTES_MAX, examon_decoder, tags_of, with_key
from processors.contracts.errors import InvalidInputError
from processors.contracts.telemetry import DecodedBatch, MetricMapping, SeriesIndex, Telemetry
from tests.kit.cases import each

TIME_MS = 1_795_168_800_000
TOPIC = b"org/cineca/cluster/marconi100/node/r206n17/plugin/ganglia_pub/chnl/data/load_one"
PAYLOAD = b"3.5;1795168800.000"
OPTIONS = TelemetryOptions()


def decoded(*values: bytes, options: TelemetryOptions = OPTIONS) -> tuple[list[str], DecodedBatch]:
    index = SeriesIndex(99)
    batch = examon_decoder(options)(values, [TIME_MS] * len(values), index)
    return ["/".join(index[number]) for number in batch.samples.series.tolist()], batch


def refusals(*values: bytes) -> list[str]:
    return [error.reason for _, other in decoded(*values)[1].others for error in other.rejects]


def test_a_key_that_may_be_a_topic_stands_before_its_message_and_no_other() -> None:
    assert with_key(PAYLOAD, TOPIC) == TOPIC + b" " + PAYLOAD
    for key in (None, b"", b"client-7", b"a/" * TOPIC_BYTES_MAX):
        assert with_key(PAYLOAD, key) == PAYLOAD
    assert with_key(None, TOPIC) is None
    assert refusals(with_key(PAYLOAD, b"client-7") or b"") == ["missing-field"]


def test_of_the_formats_of_sources_examon_alone_reads_keys() -> None:
    config = loads("sources: [{topics: [a], format: examon}, {topics: [b], format: auto}]\n")
    with_keys, without = (source_decoders(config, source) for source in config.sources)
    assert with_keys.keyed is with_key
    assert without.keyed is None


def test_the_system_is_that_of_the_source_where_it_has_one() -> None:
    message = TOPIC + b" " + PAYLOAD
    assert decoded(message)[0] == ["marconi100/r206n17/load1"]
    options = TelemetryOptions(decode=DecodeOptions(default_system="m100"))
    assert decoded(message, options=options)[0] == ["m100/r206n17/load1"]


def test_a_site_maps_the_metrics_of_its_plugins_by_plugin_and_name() -> None:
    own = MetricMapping(measurement="pmu_pub", field="instr", resource="counter_total", instance="core")
    options = TelemetryOptions(taken=Telemetry(metrics=(own,)))
    topic = b"org/cineca/cluster/galileo/node/n1/plugin/pmu_pub/chnl/data/core/3/instr"
    assert decoded(topic + b" 9e9;1795168800.0", options=options)[0] == ["galileo/n1/counter_total>3"]


@pytest.mark.parametrize("topic", ["site/x", "load_one", "org/a/cluster", "/", "org/a/b/c"])
def test_a_topic_of_another_form_names_nothing(topic: str) -> None:
    with pytest.raises(InvalidInputError, match="names no cluster"):
        tags_of(topic)


@each(
    ("payload", "reason"),
    [
        (b"3.5", "wrong-type"),
        (b"3.5;now", "wrong-type"),
        (b"3.5;1e400", "wrong-type"),
        (b"3.5;99999999999", "time"),
        (b"3.5;1895168800", "future"),
        (b'{"v": 3.5}', "missing-field"),
        (b'{"v": [], "ts": 1795168800000}', "wrong-type"),
        (b'{"topic": "a/b/c/d/e", "payload": {"topic": "a/b/c/d/e", "payload": "3.5;1795168800"}}', "nesting"),
        (b'{"payload": "3.5;1795168800"}', "missing-field"),
        (b"{", "not-json"),
    ],
)
def test_a_payload_that_is_none_is_refused(payload: bytes, reason: str) -> None:
    assert refusals(TOPIC + b" " + payload) == [reason]


def test_one_bad_metric_of_several_costs_itself_alone() -> None:
    tags = {"cluster": "red", "node": "cn01", "plugin": "ganglia_pub"}
    metrics = [{"name": "load_one", "value": 1.5, "timestamp": time_ms, "tags": tags} for time_ms in (TIME_MS, TIME_MS)]
    del metrics[1]["tags"]["node"]  # type: ignore[attr-defined]  # of both: they share it
    series, batch = decoded(json.dumps([metrics[0], {**metrics[0], "tags": {**tags, "node": "cn02"}}]).encode())
    assert series == ["red/cn02/load1"]
    assert [error.reason for _, other in batch.others for error in other.rejects] == ["missing-field"]
    assert refusals(json.dumps([{**metrics[0], "value": None}] * 10_001).encode()) == ["array-bomb"]
