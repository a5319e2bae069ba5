"""Metrics of OpenTelemetry: JSON and protobuf say the same, damage costs a message, and sums become what they are."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.decode.formats import TELEMETRY, recognised
from agent.decode.message import REASONS, DecodeOptions, TelemetryOptions
from agent.decode.telemetry.otlp_messages import read_json, read_protobuf
from processors.contracts.telemetry import DecodedBatch, MetricMapping, SeriesIndex, Telemetry
from tests.kit.cases import each
from tests.kit.effort import examples

CASES = Path(__file__).parents[3] / "cases" / "decode"
PROTOBUF = (CASES / "otlp-protobuf" / "input.bin").read_bytes()
TIME_MS = 1_795_168_800_000
OPTIONS = TelemetryOptions(decode=DecodeOptions(default_system="exa", elements_max=50))
GAUGE: dict[str, Any] = {"gauge": {}}
Value = float | str | None


def attributes(given: dict[str, str]) -> list[dict[str, Any]]:
    return [{"key": key.replace("_", "."), "value": {"stringValue": text}} for key, text in given.items()]


def point(value: Value, after_s: float = 0, begun_s: float | None = None, **given: str) -> dict[str, Any]:
    found = {
        "attributes": attributes(given),
        "timeUnixNano": str(int((TIME_MS + after_s * 1000) * 1e6)),
        "asDouble": value,
    }
    return found if begun_s is None else {**found, "startTimeUnixNano": int((TIME_MS + begun_s * 1000) * 1e6)}  # fmt: skip


def gauge(name: str, *points: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "gauge": {"dataPoints": points}}


def total(name: str, *points: dict[str, Any], temporality: int = 2, monotonic: bool = True) -> dict[str, Any]:
    return {
        "name": name,
        "sum": {"dataPoints": points, "aggregationTemporality": temporality, "isMonotonic": monotonic},
    }


def batch(*metrics: dict[str, Any], **resource: str) -> bytes:
    of = {"attributes": attributes(resource or {"host_name": "nid1"})}
    return json.dumps({"resourceMetrics": [{"resource": of, "scopeMetrics": [{"metrics": metrics}]}]}).encode()


class Decoder:
    """One decoder and what it told."""

    def __init__(self, options: TelemetryOptions = OPTIONS) -> None:
        self.index = SeriesIndex(100)
        self._decode = TELEMETRY["otlp"](options)

    def batch(self, *values: bytes) -> DecodedBatch:
        return self._decode(values, [TIME_MS + 3_600_000] * len(values), self.index)

    def samples(self, *values: bytes) -> list[tuple[str, int, float]]:
        columns = self.batch(*values).samples
        return [
            ("/".join(self.index[number][1:]), (time_ms - TIME_MS) // 1000, value)
            for number, time_ms, value in zip(
                columns.series.tolist(), columns.time_ms.tolist(), columns.value.tolist(), strict=True
            )
        ]

    def refusals(self, *values: bytes) -> list[tuple[str, str]]:
        return [(error.reason, str(error)) for _, other in self.batch(*values).others for error in other.rejects]

    def ignored(self, *values: bytes) -> dict[str, int]:
        return next(other.ignored for _, other in self.batch(*values).others if other.ignored)


def test_protobuf_and_json_give_equal_metrics() -> None:
    line = (CASES / "otlp-json" / "input.jsonl").read_bytes().splitlines()[1]
    assert read_protobuf(PROTOBUF, 50) == read_json(line, 200)


def test_protobuf_is_recognised_beside_text_that_begins_with_a_blank_line() -> None:
    assert recognised(PROTOBUF) == "otlp"
    for text in (b"\nsystem,host=a load1=1", b'\n{"name": "system", "fields": {}}', PROTOBUF[:-1], b"\n", b"\n\n\n"):
        assert recognised(text) != "otlp"


@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_damaged_protobuf_is_refused_with_a_reason_or_read_and_nothing_else_is_raised(data: st.DataObject) -> None:
    value = bytearray(PROTOBUF)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(value)))
        value[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    assert all(reason in REASONS for reason, _ in Decoder().refusals(bytes(value)))


@each("cut", range(1, len(PROTOBUF), 97))
def test_protobuf_that_was_cut_off_is_refused(cut: int) -> None:
    assert Decoder().refusals(PROTOBUF[:cut]) == [("encoding", "The message is not valid protobuf, or is truncated.")]


def test_the_idle_share_of_all_processors_comes_with_the_second_scrape() -> None:
    def scrape(after_s: int, *idle: float) -> bytes:
        return batch(
            total("system.cpu.time", *(point(s, after_s, cpu=f"cpu{n}", state="idle") for n, s in enumerate(idle)))
        )

    decoder = Decoder()
    assert decoder.samples(scrape(0, 100, 200)) == []
    assert decoder.samples(scrape(10, 110, 205)) == [("nid1/cpu_available", 10, 0.75)]


@pytest.mark.parametrize("state", ["state", "cpu_mode"])
def test_utilization_is_the_mean_of_all_processors(state: str) -> None:
    points = [point(share, 0, None, cpu=f"cpu{n}", **{state: "idle"}) for n, share in enumerate((0.5, 1.0))]
    other = point(0.5, 0, None, cpu="cpu0", **{state: "user"})
    assert Decoder().samples(batch(gauge("system.cpu.utilization", *points, other))) == [
        ("nid1/cpu_available", 0, 0.75)
    ]


def test_what_grew_since_the_point_before_becomes_a_rate() -> None:
    energy = total("hw.host.energy", point(24_000.0, 60, begun_s=0), temporality=1)
    idle = total(
        "system.cpu.time", *(point(s, 60, begun_s=0, cpu=str(s), state="idle") for s in (30.0, 60.0)), temporality=1
    )
    assert sorted(Decoder().samples(batch(energy, idle))) == [
        ("nid1/cpu_available", 60, 0.75), ("nid1/power_w>system", 60, 400.0),
    ]  # fmt: skip
    unknown = total("hw.host.energy", point(24_000.0, 60), temporality=1)
    assert Decoder().ignored(batch(unknown)) == {"null": 1}


def test_a_sum_that_may_fall_is_a_level_and_one_without_a_temporality_is_left_out() -> None:
    free = point(7.0, state="free")
    assert Decoder().samples(batch(total("system.memory.usage", free, monotonic=False))) == [("nid1/memory_free", 0, 7)]
    for temporality in (0, 1):
        value = batch(total("system.memory.usage", free, monotonic=False, temporality=temporality))
        assert Decoder().ignored(value) == {"metric": 1}


def test_power_is_of_the_part_that_the_point_names_and_of_none_other() -> None:
    types = ("cpu", "gpu", "memory", "fan", "power_supply")
    points = [point(100.0 + n, hw_id=str(n), hw_type=kind) for n, kind in enumerate(types)]
    assert Decoder().samples(batch(gauge("hw.power", *points, point(5.0, hw_id="9")))) == [
        ("nid1/power_w>cpu:0", 0, 100.0), ("nid1/power_w>gpu:1", 0, 101.0), ("nid1/power_w>memory:2", 0, 102.0),
    ]  # fmt: skip


def test_values_that_are_no_numbers_are_counted_and_times_that_are_none_refused() -> None:
    load = "system.cpu.load_average.1m"
    bad = point("NaN"), point(None), {**point(1.0), "flags": 1}, point("busy")
    assert Decoder().ignored(batch(gauge(load, *bad))) == {"null": 4}
    for time in ("9" * 20, "now", -1):
        points = gauge(load, {"timeUnixNano": time, "asInt": "1"}, point(2.0))
        assert [reason for reason, _ in Decoder().refusals(batch(points))] == ["time"]
        assert Decoder().samples(batch(points)) == [("nid1/load1", 0, 2.0)]


@pytest.mark.parametrize(
    ("resource", "host"),
    [
        ({"host_name": "nid7", "host_id": "4c4c"}, "nid7"),
        ({"host_id": "4c4c"}, "4c4c"),
        ({"service_name": "node", "server_address": "nid7", "server_port": "9100"}, "nid7"),
    ],
)
def test_the_host_is_what_the_resource_names(resource: dict[str, str], host: str) -> None:
    assert Decoder().samples(batch(gauge("node_load1", point(1.5)), **resource)) == [(f"{host}/load1", 0, 1.5)]


def test_a_point_without_a_host_or_in_the_future_costs_itself_alone() -> None:
    late = gauge("system.cpu.load_average.1m", point(2.5, 10 * 86_400), point(1.5))
    refused = Decoder().refusals(batch(late))
    assert [reason for reason, _ in refused] == ["future"]
    assert Decoder().samples(batch(late)) == [("nid1/load1", 0, 1.5)]
    nobody = batch(gauge("system.cpu.load_average.1m", point(1.5)), service_name="x")
    assert Decoder().refusals(nobody) == [("missing-field", "The record names no host.")]


def test_more_points_than_a_message_may_have_are_refused() -> None:
    value = batch(gauge("a", *(point(1.0) for _ in range(51))))
    assert Decoder().refusals(value) == [("array-bomb", "The message has more data points than 50.")]


def within(numbers: tuple[int, ...], data: bytes) -> bytes:
    """Return bytes within messages of protobuf, in the field of each number, the outermost first."""
    for number in reversed(numbers):
        low, high = len(data) & 0x7F | 0x80, len(data) >> 7
        data = bytes([number << 3 | 2, low, high]) + data
    return data


@pytest.mark.parametrize(
    "bomb",
    [
        b"\x0a\x00" * 1000,
        within((1, 2), b"\x12\x00" * 1000),
        within((1, 2, 2, 5), b"\x0a\x00" * 1000),
        within((1, 2, 2, 7), b"\x0a\x00" * 1000),
        b'{"resourceMetrics": [' + b"{}," * 1000 + b"{}]}",
        batch(gauge("a", *({} for _ in range(1000)))),
    ],
)
def test_a_bomb_is_refused_before_it_becomes_objects(bomb: bytes) -> None:
    assert Decoder().refusals(bomb) == [("array-bomb", "The message has more data points than are allowed.")]


def test_a_site_maps_metrics_of_its_own_by_name_and_attribute() -> None:
    mapping = MetricMapping(measurement="room.temperature", field="value", resource="room", instance="sensor")
    site = TelemetryOptions(decode=OPTIONS.decode, taken=Telemetry(metrics=(mapping,)))
    value = batch(gauge("room.temperature", point(21.5, sensor="door")))
    assert Decoder(site).samples(value) == [("nid1/room>door", 0, 21.5)]
