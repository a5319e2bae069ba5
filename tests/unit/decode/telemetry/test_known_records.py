"""Records like the one before take a short way: it yields what the long way yields, bit by bit, whatever comes."""

import json
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.decode.formats import TELEMETRY
from agent.decode.message import DecodeOptions, TelemetryOptions
from processors.contracts.telemetry import DecodeSamples, MetricMapping, Series, SeriesIndex, Telemetry
from tests.kit.effort import examples

RECEIVED_MS = 1_795_168_860_000
SECOND = 1_795_168_800
NAMES = ("a", "b", "c0", "c1")
OPTIONS = TelemetryOptions(
    decode=DecodeOptions(default_system="exa", elements_max=20),
    taken=Telemetry(
        metrics=tuple(
            MetricMapping(
                measurement=kind,
                field=name,
                resource={"c0": "cpu_available", "c1": "memory_free"}.get(name, name),
                unit="percent" if name == "c0" else None,
            )
            for kind in ("wide", "ldms")
            for name in NAMES
        )
    ),
)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False).map(repr) | st.integers(-(10**25), 10**25).map(str)
ODD = (
    "0", "-0", "-0.0", "-0e1", "00", "01", "+1", ".5", "5.", "1e999", "-1e999", "1e-400", "1i", "7u", "-3i", "-0i", "1.5i", "1e3i", "i",
    "1ii", "nan", "NaN", "inf", "-inf", "Infinity", "", "-", "t", "true", "null", '"x"', '"', "\\", "1_0", "\t1", "1\t", "1\n", "\r1", "1 ",
    "=1", "1=2", ",", "1,b=2", "[1]", "{}", "%s", "\u0661", "\x00", "9" * 400, "4.9e-324", "2.2250738585072011e-308", "100.5", "-0.5",
)  # fmt: skip
TEXTS = NUMBERS | st.sampled_from(ODD)
FIELD_NAMES = st.sampled_from([*NAMES, *NAMES, *NAMES, "d", "a b", "a=", "a,", 'a"', "a\\u0061", "", "é"])
FIELDS = st.lists(st.tuples(FIELD_NAMES, TEXTS), min_size=1, max_size=5) | st.tuples(TEXTS, TEXTS, TEXTS, TEXTS).map(
    lambda texts: [*zip(NAMES, texts, strict=True)]
)
HOSTS = st.sampled_from(["nid1", "nid1", "nid1", "nid2", "", "x" * 300, "n\x1bd"])
STAMPS = st.sampled_from([str(SECOND), f"{SECOND}000000000", str(SECOND + 10**6), "5", "-1", "1" * 30, "x", "", "1_0"])
Fields = list[tuple[str, str]]


def line(fields: Fields, host: str, stamp: str) -> bytes:
    """Return a line as a producer that escapes nothing writes it."""
    return f"wide,host={host} {','.join(f'{name}={text}' for name, text in fields)} {stamp}".encode()


def _object(pairs: list[tuple[str, str]]) -> str:
    return "{" + ",".join(f'"{name}":{text}' for name, text in pairs) + "}"


def telegraf(fields: Fields, host: str, stamp: str) -> bytes:
    """Return a metric whose values are written as they stand."""
    parts = [
        ("fields", _object(fields)),
        ("name", '"wide"'),
        ("tags", json.dumps({"host": host})),
        ("timestamp", stamp or "0"),
    ]
    return _object(parts).encode()


def ldms(fields: Fields, host: str, stamp: str) -> bytes:
    """Return a row whose values are written as they stand."""
    return _object([("timestamp", stamp or "0"), ("producer", json.dumps(host)), *fields]).encode()


def native(fields: Fields, host: str, stamp: str) -> bytes:
    """Return an array of loads whose values are written as they stand."""
    time = json.dumps("2026-11-20T10:00:00Z" if stamp == str(SECOND) else stamp)
    loads = [
        _object([
            ("type", '"load"'), ("system", '"exa"'), ("host", json.dumps(host)), ("resource", f'"{name}"'), ("time", time), ("value", text),
        ])
        for name, text in fields
    ]  # fmt: skip
    return f"[{','.join(loads)}]".encode()


MAKERS = {"line-protocol": line, "telegraf": telegraf, "ldms": ldms, "native": native}
GOOD: Fields = [(name, "0.5") for name in NAMES]


def decoded(decode: DecodeSamples, values: list[bytes], index: SeriesIndex) -> list[tuple[object, ...]]:
    """Return what each message gave: samples to the bit, in whatever order; refusals, and what was left out of all."""
    batch = decode(values, [RECEIVED_MS] * len(values), index)
    samples: list[list[tuple[Series, int, str]]] = [[] for _ in values]
    columns = (batch.sample_message, batch.samples.series, batch.samples.time_ms, batch.samples.value)
    for message, number, time_ms, value in zip(*(column.tolist() for column in columns), strict=True):
        samples[message].append((index[number], time_ms, float(value).hex()))
    refusals: list[list[str]] = [[] for _ in values]
    ignored = Counter[str]()
    for message, other in batch.others:
        refusals[message] += [f"{error.reason} {error}" for error in other.rejects]
        ignored.update(other.ignored)
        ignored["unknown"] += other.unknown_fields
    return [*zip([sorted(each) for each in samples], refusals, strict=True), tuple(sorted(ignored.items()))]


def fresh(format_name: str, value: bytes) -> list[tuple[object, ...]]:
    """Return what a decoder makes of its first message."""
    return decoded(TELEMETRY[format_name](OPTIONS), [value], SeriesIndex(100))


@pytest.mark.parametrize("format_name", MAKERS)
@settings(max_examples=examples(300), deadline=None)
@given(fields=FIELDS, host=HOSTS, stamp=STAMPS)
@example(
    fields=[(name, text) for name, text in zip(NAMES, ("-0", "1i", "2u", "3"), strict=True)],
    host="nid1",
    stamp=str(SECOND),
)
def test_a_known_record_yields_what_a_first_one_yields(format_name: str, fields: Fields, host: str, stamp: str) -> None:
    make, index, decode = MAKERS[format_name], SeriesIndex(100), TELEMETRY[format_name](OPTIONS)
    good, value = make(GOOD, "nid1", str(SECOND)), make(fields, host, stamp)
    for names in (GOOD, [(name, "1") for name, _ in fields]):  # so that these names are known as well
        decoded(decode, [make(names, "nid1", str(SECOND))] * 2, index)
    expected, own = fresh(format_name, value), fresh(format_name, good)
    assert decoded(decode, [value], index) == expected
    found = decoded(decode, [good, value, good], index)
    assert found[:3] == [own[0], expected[0], own[0]]


def test_lines_of_changing_width_keep_their_times() -> None:
    index, decode = SeriesIndex(100), TELEMETRY["line-protocol"](OPTIONS)
    values = [
        line(fields, "nid1", str(SECOND + at))
        for at, fields in enumerate([GOOD[:1], GOOD, GOOD[:1], GOOD[:2], [("d", "1")], GOOD[:1]])
    ]
    for _ in range(3):
        batch = decode(values, [RECEIVED_MS] * len(values), index)
        assert batch.sample_message.tolist() == [0, 1, 1, 1, 1, 2, 3, 3, 5]
        assert ((batch.samples.time_ms // 1000 - SECOND) == batch.sample_message).all()


def test_a_record_whose_counters_all_find_no_room_moves_no_other_in_time() -> None:
    index, decode = SeriesIndex(2), TELEMETRY["native"](OPTIONS)
    known, refused = (
        json.dumps({
            "type": "counters", "system": "exa", "host": host, "time": f"2026-11-20T10:00:0{second}Z", "counters": {"a": 1.0, "b": 2.0},
        }).encode()
        for host, second in (("nid1", 5), ("nid2", 0))
    )  # fmt: skip
    decode([known], [RECEIVED_MS], index)
    batch = decode([refused, known], [RECEIVED_MS] * 2, index)
    assert batch.sample_message.tolist() == [1, 1]
    assert {*batch.samples.time_ms.tolist()} == {(SECOND + 5) * 1000}
