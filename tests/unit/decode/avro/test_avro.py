"""Messages in Avro: what their JSON is, and that no schema and no message costs more than its bytes."""

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.decode.avro import (
    READERS_MAX,
    READERS_PER_BATCH,
    REPEATED_BYTES_MAX,
    AvroMessages,
    Schemas,
    plain_schema,
    wire_messages,
)
from agent.decode.files import read_source
from agent.decode.guard import guarded_samples, opening_slices
from agent.decode.message import REASONS, DecodeOptions, FileTelemetry, TelemetryOptions
from agent.decode.opening import OpenSource
from agent.decode.telemetry.ldms import ldms_decoder, ldms_names
from processors.contracts.errors import InvalidInputError
from processors.contracts.telemetry import SeriesIndex, Telemetry
from tests.kit.cases import each
from tests.kit.effort import examples
from tests.kit.schema_registry import LOADAVG, framed, row

TIME_MS = 1_787_217_284_001
OPTIONS = TelemetryOptions(decode=DecodeOptions(default_system="exa"))


def record(*fields: Any, name: str = "row") -> dict[str, Any]:
    """Return a schema of a record with these fields: types alone are called a, b, c."""
    named = [{"name": chr(97 + at), "type": each} for at, each in enumerate(fields)]
    return {"type": "record", "name": name, "fields": named}


def opened(schema: dict[str, Any], value: dict[str, Any] | bytes) -> Any:
    """Return what the JSON of a record or of bytes holds."""
    message = framed(7, schema, value) if isinstance(value, dict) else b"\0\0\0\0\x07" + value
    return json.loads(AvroMessages(Schemas({7: json.dumps(schema).encode()})).opened(message))


def refusal(schema: dict[str, Any], value: bytes = b"") -> tuple[str, str]:
    """Return why a message is refused."""
    with pytest.raises(InvalidInputError) as error:
        opened(schema, value)
    assert error.value.reason in REASONS
    return error.value.reason, str(error.value)


def logical(kind: str, name: str) -> dict[str, str]:
    return {"type": kind, "logicalType": name}


def test_a_record_is_json_with_every_kind_of_value() -> None:
    enum = {"type": "enum", "name": "unit", "symbols": ["nodes", "cores"]}
    schema = record(
        "int", ["null", "string"], {"type": "array", "items": "double"}, {"type": "map", "values": "long"}, enum
    )
    value = {"a": -3, "b": None, "c": [1.5, float("nan")], "d": {"x": 2**62}, "e": "cores"}
    assert opened(schema, value) == {"a": -3, "b": None, "c": [1.5, None], "d": {"x": 2**62}, "e": "cores"}


def test_times_are_texts_and_the_time_stamp_of_a_row_is_in_seconds() -> None:
    millis, micros = logical("long", "timestamp-millis"), logical("long", "timestamp-micros")
    schema = record(["null", millis], micros, {"type": "array", "items": millis}, {"type": "map", "values": millis})
    schema["fields"].append({"name": "timestamp", "type": micros})
    value = {"a": TIME_MS, "b": TIME_MS * 1000, "c": [TIME_MS], "d": {"x": TIME_MS}, "timestamp": TIME_MS * 1000 + 733}
    text = "2026-08-20T09:14:44.001Z"
    shown = {"a": text, "b": text, "c": [text], "d": {"x": text}, "timestamp": 1787217284.001733}
    plain = {name: number for name, number in value.items() if name != "d"} | {"d": {"x": TIME_MS}}
    stripped = json.loads(json.dumps(schema).replace("logicalType", "about"))
    assert opened(schema, framed(7, stripped, plain)[5:]) == shown
    assert opened(stripped, plain) == plain, "without a logical type a number is a number"


def test_a_time_that_no_calendar_has_stays_a_number() -> None:
    assert opened(record(logical("long", "timestamp-millis")), b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01") == {
        "a": 2**63 - 1
    }


def test_numbers_of_ldms_without_sign_are_as_large_as_they_were() -> None:
    unsigned, lost = logical("long", "unsigned-long"), logical("long", "unsigned-int")
    schema = record(unsigned, {"type": "array", "items": unsigned}, lost, {"type": "array", "items": lost})
    value = {"a": -1, "b": [-2, 5], "c": 0, "d": [0, 7]}
    assert opened(schema, value) == {"a": 2**64 - 1, "b": [2**64 - 2, 5], "c": None, "d": [0, 7]}


def test_a_type_is_found_by_its_name_and_namespace() -> None:
    first = {"type": "fixed", "name": "hash", "namespace": "org.a", "size": 2}
    second = {"type": "record", "name": "org.b.pair", "fields": [{"name": "x", "type": "int"}]}
    schema = record(first, "org.a.hash", second, "org.b.pair")
    value = {"a": b"ab", "b": b"cd", "c": {"x": 1}, "d": {"x": 2}}
    assert opened(schema, value) == {"a": "YWI=", "b": "Y2Q=", "c": {"x": 1}, "d": {"x": 2}}


def doubled(count: int) -> dict[str, Any]:
    """Return a schema in which each type holds the one before it twice."""
    inner: Any = {"type": "record", "name": "t0", "fields": []}
    for at in range(1, count):
        fields = [{"name": "x", "type": inner}, {"name": "y", "type": f"t{at - 1}"}]
        inner = {"type": "record", "name": f"t{at}", "fields": fields}
    return record(inner)


def deep(count: int) -> Any:
    found: Any = "int"
    for _ in range(count):
        found = {"type": "array", "items": found}
    return found


@each(
    ("schema", "message"),
    [
        (record(["null", "row"]), "The Avro schema has the type 'row' within itself, which is not read."),
        (record("other"), "The Avro schema names the type 'other', which is not in it."),
        (doubled(20), "The Avro schema has more than 10000 types."),
        (record(deep(40)), "The Avro schema is nested deeper than 32 types."),
        (
            record({"type": "array", "items": "null"}),
            "The Avro schema has an array whose items take no bytes, so that a message could hold any number of them.",
        ),
        (
            record({"type": "array", "items": record("null", name="nothing")}),
            "The Avro schema has an array whose items take no bytes, so that a message could hold any number of them.",
        ),
        (record([]), "The Avro schema has a union of nothing."),
        (record(7), "The Avro schema has a type that is neither a name, nor an object, nor a list."),
        (record({"type": "enum", "name": "e", "symbols": []}), "The Avro schema has an enum without symbols."),
        (record({"type": "fixed", "name": "f", "size": -1}), "The Avro schema has a fixed type whose size is not of 0 to 65536."),
        ({"type": "record", "name": "r"}, "The Avro schema has a type without fields."),
        (
            {"type": "record", "name": "r", "fields": [{"name": "a" * 300, "type": "int"}]},
            "The Avro schema has a name that is no text of 1 to 256 characters.",
        ),
        (
            {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}] * 2},
            "The Avro schema has the field 'a' twice.",
        ),
        ({"type": "array", "items": "int"}, "The Avro schema is of no record."),
    ],
)  # fmt: skip
def test_a_schema_that_is_not_read_is_refused_and_stated_why(schema: dict[str, Any], message: str) -> None:
    assert refusal(schema) == ("schema", message)


def test_a_text_that_is_no_schema_is_refused() -> None:
    for text in (b"", b"{", b'"int"', b"[" * 100_000, b" " * 1024 * 1025):
        with pytest.raises(InvalidInputError, match=r"^The Avro schema ") as error:
            plain_schema(text)
        assert error.value.reason == "schema"


@each(
    ("fields", "value", "reason"),
    [
        (["double"], b"\1\2", "avro"),
        (["string"], b"\x03", "avro"),  # a length below 0
        (["string"], b"\x80\x80\x80\x80\x80\x40ab", "avro"),  # a length of a terabyte
        (["string"], b"\2\xff", "encoding"),
        ([["null", "int"]], b"\x06", "avro"),
        ([{"type": "enum", "name": "e", "symbols": ["A"]}], b"\x06", "avro"),
        (
            [{"type": "array", "items": "int"}],
            b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f" + b"\2" * 9,
            "avro",
        ),  # 2^62 items
        ([{"type": "array", "items": "int"}], b"\xff" * 40, "avro"),
        ([{"type": "map", "values": "null"}], b"\xfe\xff\xff\xff\xff\x0f\2a\2b", "avro"),
        (["int"], b"\2\2", "avro"),
        (["int"], b"", "avro"),
    ],
)
def test_bytes_that_do_not_fit_the_schema_are_refused(fields: list[Any], value: bytes, reason: str) -> None:
    assert refusal(record(*fields), value)[0] == reason


def test_a_message_whose_every_byte_could_be_a_value_has_a_limit() -> None:
    assert refusal(record({"type": "array", "items": "int"}), b"\2" * REPEATED_BYTES_MAX)[0] == "too-large"
    long = "x" * REPEATED_BYTES_MAX
    assert opened(record("string"), {"a": long}) == {"a": long}


def test_only_messages_that_begin_with_a_zero_byte_are_opened() -> None:
    messages = AvroMessages(Schemas({}))
    for value in (b"", b"\0\0\0", b'{"jobid": 1}', b"load,host=a x=1 1"):
        assert messages.opened(value) == value
    assert messages.ready([None, b"", b"{}"]) == 3


class Counted(Schemas):
    """Schemas that are known after they were asked for once; `requests` are those."""

    def __init__(self) -> None:
        super().__init__({})
        self.requests: list[int] = []

    def text(self, number: int) -> bytes:
        self.requests.append(number)
        return json.dumps(LOADAVG).encode()


def test_a_schema_is_looked_up_once_and_many_schemas_are_bounded() -> None:
    schemas = Counted()
    messages = AvroMessages(schemas)
    values = [row(TIME_MS, "nid1", 3.0, number) for number in range(3 * READERS_MAX)]
    assert messages.ready(values) == READERS_PER_BATCH
    assert messages.ready(values[:READERS_PER_BATCH]) == READERS_PER_BATCH
    assert len(schemas.requests) == READERS_PER_BATCH
    for first in range(0, len(values), READERS_PER_BATCH):
        assert messages.ready(values[first : first + READERS_PER_BATCH]) == READERS_PER_BATCH
        assert len(messages._readers) <= READERS_MAX


def test_a_name_that_avro_has_bent_is_the_one_that_ldms_gave() -> None:
    site = TelemetryOptions(taken=Telemetry(counters=("rapl:::X", "PAPI-*")))
    name_of = ldms_names(site)
    assert [name_of(name) for name in ("power_node_watts", "rapl___X", "PAPI-_A", "cpu_list_name", "power_W_")] == [
        "power.node_watts", "rapl:::X", "PAPI-_A", "cpu_list.name", "power(W)",
    ]  # fmt: skip


def test_rates_that_ldms_has_beside_counters_of_a_port_are_no_counters_in_avro_either() -> None:
    name_of = ldms_names(OPTIONS)
    assert name_of("ib_port_xmit_data_mlx5_0_1") == "ib.port_xmit_data#mlx5_0_1"
    assert name_of("ib_port_xmit_data_rate_mlx5_0_1") == "ib.port_xmit_data.rate#mlx5_0_1"


def decode(*values: bytes | None) -> list[Any]:
    schema = json.dumps(LOADAVG).encode()
    messages = AvroMessages(Schemas({37: schema}), ldms_names(OPTIONS))
    batch = opening_slices(guarded_samples(lambda: ldms_decoder(OPTIONS)), messages.opened)(
        values, [TIME_MS] * len(values), SeriesIndex(9)
    )
    refused = [(at, error.reason) for at, other in batch.others for error in other.rejects]
    return [batch.samples.value.tolist(), batch.sample_message.tolist(), refused]


def test_a_bad_message_never_costs_its_neighbours() -> None:
    good = row(TIME_MS, "nid1", 3.0)
    found = decode(good, good[:9], None, row(TIME_MS, "nid2", 7.0, 38), row(TIME_MS, "nid2", 7.0))
    assert found == [[3.0, 0.25, 7.0, 0.125], [0, 0, 4, 4], [(1, "avro"), (2, "empty"), (3, "schema")]]


@given(st.data())
@settings(max_examples=examples(300), deadline=None)
def test_damaged_messages_are_refused_or_read_and_nothing_else(data: st.DataObject) -> None:
    value = bytearray(row(TIME_MS, "nid1", 3.0))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(5, len(value) - 1))
        value[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=6))
        value = value or bytearray(row(TIME_MS, "nid1", 3.0))
        if len(value) < 7:
            break
    _, _, refused = decode(bytes(value))
    assert all(reason in REASONS for _, reason in refused)


NAMES = st.sampled_from(["row", "a", "org.b", "int", ""])
TYPES: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(["null", "boolean", "int", "long", "float", "double", "bytes", "string", "row", "a", 7, None]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda values: {"type": "map", "values": values}, inner),
        st.builds(lambda kind: {"type": kind, "logicalType": "timestamp-millis"}, inner),
        st.builds(lambda size, name: {"type": "fixed", "name": name, "size": size}, st.integers(-1, 9), NAMES),
        st.builds(
            lambda name, types: {
                "type": "record",
                "name": name,
                "fields": [{"name": f"f{at}", "type": each} for at, each in enumerate(types)],
            },
            NAMES,
            st.lists(inner, max_size=3),
        ),
    ),
    max_leaves=8,
)


@given(st.lists(TYPES, max_size=4), st.binary(max_size=40))
@settings(max_examples=examples(400), deadline=None)
def test_any_schema_and_any_bytes_end_in_json_or_a_refusal(types: list[Any], value: bytes) -> None:
    reasons = set[str]()
    try:
        assert isinstance(opened(record(*types), value), dict)
    except InvalidInputError as error:
        reasons.add(error.reason)
    assert reasons <= {"schema", "avro", "encoding"}, "and nothing is a defect"


def test_what_fastavro_writes_is_read_back() -> None:
    stream = io.BytesIO()
    schema = record("string", {"type": "array", "items": record("int", ["null", "float"], name="inner")})
    value = {"a": "nid1", "b": [{"a": 1, "b": None}, {"a": 2, "b": 0.5}]}
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    assert opened(schema, stream.getvalue()) == value


def test_a_file_is_one_message_or_each_after_its_length() -> None:
    one = row(TIME_MS, "nid1", 3.0)
    several = b"".join(len(value).to_bytes(4, "big") + value for value in (one, one))
    null = (2**32 - 1).to_bytes(4, "big")
    assert wire_messages(one) == [one]
    assert wire_messages(several) == wire_messages(null + several) == [one, one]
    assert wire_messages(several + b"\0") == [several + b"\0"], "what does not end with a message is one"
    assert wire_messages(bytes(40)) == [bytes(40)], "and so is what holds none"


def test_a_file_that_is_too_large_to_be_one_of_messages_is_refused() -> None:
    class Endless(io.RawIOBase):
        def readinto(self, buffer: Any) -> int:
            buffer[:] = bytes(len(buffer))
            return len(buffer)

        def readable(self) -> bool:
            return True

    telemetry = FileTelemetry(OPTIONS, SeriesIndex(9))
    (found,) = read_source("in", OpenSource(io.BufferedReader(Endless())), TIME_MS, telemetry)
    assert str(found.error) == "A file of messages in Avro may have 67108864 bytes."
