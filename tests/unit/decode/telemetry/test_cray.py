"""Cray EX telemetry: which sensors count for which host, and what is left out."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.decode.message import REASONS, DecodeOptions, TelemetryOptions
from agent.decode.telemetry.cray import cray_decoder
from processors.contracts.nodes import Node, Nodes
from processors.contracts.telemetry import DecodedBatch, SensorRule, Sensors, SeriesIndex
from tests.kit.cases import each
from tests.kit.effort import examples

RECEIVED_MS = 1_795_168_860_000
TIME = "2026-11-20T10:00:00.951742109Z"
TIME_MS = 1_795_168_800_951
NODES = Nodes(
    [
        Node("nid1", xname="x9c3s0b0n0"),
        Node("nid2", xname="x9c3s0b0n1"),
        Node("uan1", xname="x3000c0s17b0n0"),
        Node("t1", system="tuolumne", xname="x1c0s0b0n0"),
    ]
)
OPTIONS = TelemetryOptions(decode=DecodeOptions(default_system="exa"), nodes=NODES)


def sensor(value: Any = "473.0", **fields: Any) -> dict[str, Any]:
    place = {
        "ParentalContext": "Chassis",
        "PhysicalContext": "VoltageRegulator",
        "Index": 0,
        "PhysicalSubContext": "Input",
    }
    every = {"Timestamp": TIME, "Location": "x9c3s0b0n0", **place, "Value": value, **fields}
    return {name: field for name, field in every.items() if field is not ...}


def event(*sensors: Any, message: str = "CrayTelemetry.Power", **fields: Any) -> dict[str, Any]:
    return {"MessageId": message, "Oem": {"Sensors": sensors, "TelemetrySource": "nC"}, **fields}


def message(*events: Any) -> bytes:
    return json.dumps({"Context": "x9c3s0b0", "Events": events}, separators=(",", ":")).encode()


class Decoder:
    """One decoder and what it told, message by message."""

    def __init__(self, options: TelemetryOptions = OPTIONS) -> None:
        self.index = SeriesIndex(100)
        self._decode = cray_decoder(options)

    def batch(self, *values: bytes) -> DecodedBatch:
        return self._decode(values, [RECEIVED_MS] * len(values), self.index)

    def published(self, *values: bytes) -> list[tuple[str, float]]:
        samples = self.batch(*values).samples
        names = ["/".join(self.index[number]) for number in samples.series.tolist()]
        return list(zip(names, samples.value.tolist(), strict=True))


def left_out(batch: DecodedBatch) -> dict[str, int]:
    return {reason: count for _, other in batch.others for reason, count in other.ignored.items()}


def refused(batch: DecodedBatch) -> list[str]:
    return [error.reason for _, other in batch.others for error in other.rejects]


def test_what_goes_into_a_node_counts_and_what_comes_out_is_never_added_or_mixed_with_it() -> None:
    out, both = sensor("440", PhysicalSubContext="Output"), sensor("473")
    for order in ((out, both), (both, out)):
        decoder = Decoder()
        assert decoder.published(message(event(*order))) == [("exa/nid1/power_w>system", 473.0)]
        assert decoder.published(message(event(out))) == []  # also where it comes alone, later
    decoder = Decoder()
    assert decoder.published(message(event(out))) == [("exa/nid1/power_w>system", 440.0)]  # until the better one comes
    assert decoder.published(message(event(out)), message(event(both)), message(event(out))) == [
        ("exa/nid1/power_w>system", 440.0), ("exa/nid1/power_w>system", 473.0),
    ]  # fmt: skip


def test_of_two_equal_sensors_the_one_with_the_smaller_number_counts_whatever_comes_first() -> None:
    first, second = sensor("1"), sensor("2", Index=1)
    for order in ((first, second), (second, first)):
        assert Decoder().published(message(event(*order))) == [("exa/nid1/power_w>system", 1.0)]


def test_a_site_states_in_its_file_which_sensor_counts_and_in_which_unit() -> None:
    rules = [
        SensorRule("Power", "power_w>system", "kW", sub_context="Output"),
        SensorRule("Temperature", "inlet_temperature"),
        SensorRule("Power", "ignore", parental_context="CPU"),
    ]
    decoder = Decoder(TelemetryOptions(decode=OPTIONS.decode, nodes=NODES, sensors=Sensors(rules)))
    cpu = sensor("9", ParentalContext="CPU", ParentalIndex=0)
    power = message(event(sensor("473"), sensor("0.44", PhysicalSubContext="Output"), cpu))
    assert decoder.published(power, message(event(sensor("21.5"), message="CrayTelemetry.Temperature"))) == [
        ("exa/nid1/power_w>system", 440.0), ("exa/nid1/inlet_temperature", 21.5),
    ]  # fmt: skip


def test_sockets_are_parts_of_their_host() -> None:
    cpus = [sensor("100", ParentalContext="CPU", ParentalIndex=number) for number in (0, 1)]
    assert Decoder().published(message(event(*cpus))) == [
        ("exa/nid1/power_w>cpu:0", 100.0),
        ("exa/nid1/power_w>cpu:1", 100.0),
    ]


@each(
    ("fields", "reason"),
    [
        ({"Location": "x9c3"}, "shared"),
        ({"Location": "x9c3s0b0"}, "shared"),  # the controller of two nodes
        ({"Location": "x9c3r3b0"}, "shared"),
        ({"Location": "x3000m0p0"}, "shared"),
        ({"Location": "x9c3s1b0n0"}, "unknown-host"),
        ({"Location": "x1c0s0b0n0"}, "unknown-host"),  # of another system
        ({"ParentalContext": "ASIC"}, "unit"),
        ({"Value": ""}, "null"),
        ({"Value": "nan"}, "null"),
        ({"Value": None}, "null"),
        ({"Value": "1_0"}, "null"),
        ({"Value": "-8888"}, "negative"),
    ],
)
def test_what_cannot_count_is_left_out_by_reason_and_refuses_nothing(fields: dict[str, Any], reason: str) -> None:
    batch = Decoder().batch(message(event(sensor(**{"value": "1", **fields}))))
    assert (left_out(batch), refused(batch), len(batch.samples.series)) == ({reason: 1}, [], 0)


@pytest.mark.parametrize("name", ["CrayTelemetry.Current", "CrayTelemetry.Voltage", "CrayFabricTelemetry.Power2"])
def test_readings_of_other_quantities_are_counted_together(name: str) -> None:
    batch = Decoder().batch(message(event(sensor(), sensor(), message=name)))
    assert (left_out(batch), refused(batch)) == ({"metric": 2}, [])


@pytest.mark.parametrize(
    "time",
    [TIME, "2026-11-20T10:00:00.951Z", "2026-11-20T11:00:00.951742109+01:00", TIME_MS, str(TIME)],
)
def test_times_are_texts_or_milliseconds(time: Any) -> None:
    decoder = Decoder()
    warm = decoder.batch(message(event(sensor(Timestamp="2026-11-20T10:00:00Z"))))
    assert warm.samples.time_ms.tolist() == [1_795_168_800_000]
    for _ in range(2):
        assert decoder.batch(message(event(sensor(Timestamp=time)))).samples.time_ms.tolist() == [TIME_MS]


def test_a_reading_without_a_time_has_that_of_its_event() -> None:
    batch = Decoder().batch(message(event(sensor(Timestamp=...), EventTimestamp=TIME)))
    assert batch.samples.time_ms.tolist() == [TIME_MS]


@pytest.mark.parametrize(
    "time", ["yesterday", "2026-11-20T10:00:00.95x742109Z", "2026-11-20T10:00:00.951 2109Z", "", "1.5"]
)
def test_a_reading_without_a_readable_time_is_refused_and_costs_no_other(time: str) -> None:
    decoder = Decoder()
    decoder.batch(message(event(sensor())))
    batch = decoder.batch(message(event(sensor(Timestamp=time), sensor(Location="x9c3s0b0n1"))))
    assert (refused(batch), batch.samples.value.tolist()) == (["time"], [473.0])


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [({"Location": ...}, "missing-field"), ({"Location": 5}, "wrong-type"), ({"Value": True}, "wrong-type"), ({"Index": 1.5}, "wrong-type")],
)  # fmt: skip
def test_a_malformed_reading_is_refused_and_costs_no_other(wrong: dict[str, Any], reason: str) -> None:
    batch = Decoder().batch(message(event(sensor(**wrong), sensor(Location="x9c3s0b0n1"))))
    assert (refused(batch), batch.samples.value.tolist()) == ([reason], [473.0])


def test_nulls_and_wrapped_fields_are_read_in_nested_messages_as_well() -> None:
    odd = sensor(ParentalIndex=None, Index={"int": 0}, PhysicalContext={"string": "VoltageRegulator"}, Value=473)
    assert Decoder().published(message(event(odd))) == [("exa/nid1/power_w>system", 473.0)]


def test_a_message_that_names_its_cluster_is_of_that_system() -> None:
    flat = sensor(
        Location="x1c0s0b0n0", EventName="Power", cluster="tuolumne", Timestamp=..., timestamp=TIME_MS, Value=300.5
    )
    assert Decoder().published(json.dumps(flat).encode()) == [("tuolumne/t1/power_w>system", 300.5)]


def test_a_message_without_any_system_is_refused() -> None:
    batch = Decoder(TelemetryOptions(nodes=NODES)).batch(message(event(sensor())))
    assert refused(batch) == ["system"]


@pytest.mark.parametrize(
    ("path", "context", "state", "expected"),
    [
        ("/redfish/v1/Systems/Node1", "x9c3s0b0", "Off", ("nid2", "down")),
        ("/redfish/v1/Systems/Node0", "x9c3s0b0", "On", ("nid1", "up")),
        ("/redfish/v1/Systems/1", "x3000c0s17b0", "On", ("uan1", "up")),
        ("/redfish/v1/Systems/Self", "x9c3s0b0", "On", None),
        ("/redfish/v1/Systems/Node9", "x9c3s0b0", "Off", None),
        ("/redfish/v1/Chassis/Blade0", "x9c3s0b0", "Off", None),
        ("/redfish/v1/Systems/Node1", "x9c3s0b0", "PoweringOff", None),
    ],
)
def test_a_node_that_is_switched_is_a_state_of_its_host(
    path: str, context: str, state: str, expected: tuple[str, str] | None
) -> None:
    switched = {
        "EventTimestamp": TIME, "MessageId": "ResourceEvent.1.0.ResourcePowerStateChanged", "MessageArgs": [path, state],
    }  # fmt: skip
    batch = Decoder().batch(json.dumps({"Context": context, "Events": [switched]}).encode())
    reported = [(found.host, found.state, found.time_ms) for _, other in batch.others for found in other.events]
    assert reported == ([] if expected is None else [(*expected, TIME_MS)])
    assert left_out(batch) == ({"event": 1} if expected is None else {})


def test_a_key_that_is_named_twice_is_refused() -> None:
    value = message(event(sensor())).replace(b'"Value":', b'"Value":"1","Value":')
    assert refused(Decoder().batch(value)) == ["duplicate-key"]
    flat = json.dumps(sensor(MessageId="CrayTelemetry.Power")).encode()
    assert refused(Decoder().batch(flat.replace(b'"Value":', b'"Value": 1, "Value":'))) == ["duplicate-key"]


def test_events_with_too_many_readings_are_refused() -> None:
    options = TelemetryOptions(decode=DecodeOptions(default_system="exa", elements_max=20), nodes=NODES)
    assert refused(Decoder(options).batch(message(event(*[sensor()] * 30)))) == ["array-bomb"]
    assert refused(Decoder(options).batch(message(event(*[sensor(Index=None)] * 30)))) == ["array-bomb"]


@pytest.mark.parametrize(
    "value",
    [
        b'{"Events":[{"MessageId":"CrayTelemetry.Power","Oem":{"Sensors":[%s{}]}}]}' % (b"{}," * 29),
        b'{"Events":[%s{}]}' % (b"1," * 29),
        b'{"metrics":{"messages":[%s{"Events":[]}]}}' % (b"{}," * 29),
    ],
)
def test_many_parts_that_are_nothing_are_refused_together(value: bytes) -> None:
    options = TelemetryOptions(decode=DecodeOptions(default_system="exa", elements_max=20), nodes=NODES)
    assert refused(Decoder(options).batch(value)) == ["array-bomb"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["Power", "x9c3s0b0n0", "Off", TIME, "\x1b", "x" * 300]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["Events", "Oem", "Sensors", "MessageId", "Location", "Value", "Timestamp", "Index", "metrics", "messages", "x"]),
        inner,
        max_size=5,
    ),
    max_leaves=20,
)  # fmt: skip


@settings(max_examples=examples(200), deadline=None)
@given(plain=JSON, field=st.sampled_from([*sensor(), "Oem", "Sensors", "MessageId", "EventTimestamp"]), odd=JSON)
def test_whatever_a_field_holds_it_is_read_or_refused_with_a_reason_of_the_list(
    plain: Any, field: str, odd: Any
) -> None:
    nearly = message(event(sensor(**{field: odd}), **{field: odd} if field in {"Oem", "MessageId"} else {}))
    for value in (
        json.dumps(plain).encode(),
        nearly,
        json.dumps(sensor(**{"MessageId": "Power", field: odd})).encode(),
    ):
        batch = Decoder().batch(value)
        assert set(refused(batch)) <= set(REASONS)
