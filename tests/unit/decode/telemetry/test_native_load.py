import json
from typing import Any

import pytest

from agent.decode.message import DecodeOptions, TelemetryOptions
from agent.decode.telemetry.native import load_decoder
from processors.contracts.events import HostState, JobCompleted
from processors.contracts.telemetry import DecodedBatch, SeriesIndex
from tests.kit.cases import each
from tests.kit.job_records import completed

TIME_MS = 1_795_168_800_000
RECEIVED_MS = TIME_MS + 5_000


def load(**changes: Any) -> bytes:
    fields = {
        "type": "load",
        "system": "exa",
        "host": "nid1",
        "resource": "cpu_available",
        "time": "2026-11-20T10:00:00Z",
        "value": 0.83,
    } | changes
    return json.dumps({name: value for name, value in fields.items() if value is not ...}).encode()


def decode(*values: bytes | None, index: SeriesIndex | None = None) -> DecodedBatch:
    decoder = load_decoder(TelemetryOptions(decode=DecodeOptions(elements_max=50)))
    return decoder(values, [RECEIVED_MS] * len(values), SeriesIndex(100) if index is None else index)


def reasons(batch: DecodedBatch) -> list[tuple[int, str]]:
    return [(at, error.reason) for at, other in batch.others for error in other.rejects]


def test_samples_of_one_host_and_resource_are_one_series() -> None:
    index = SeriesIndex(9)
    batch = decode(load(), load(time="2026-11-20T10:00:00.250Z"), load(peer="g3", resource="bandwidth"), index=index)
    assert batch.samples.series.tolist() == [0, 0, 1]
    assert batch.samples.time_ms.tolist() == [TIME_MS, TIME_MS + 250, TIME_MS]
    assert index[1].resource == "bandwidth>g3"
    assert batch.others == []


def test_an_array_is_a_batch_of_which_each_element_stands_for_itself() -> None:
    value = b"[" + b",".join([load(), load(value="x"), load(value=0.5)]) + b"]"
    batch = decode(value)
    assert batch.samples.value.tolist() == [0.83, 0.5]
    assert reasons(batch) == [(0, "wrong-type")]


@pytest.mark.parametrize("count", [1, 3])
def test_events_of_jobs_may_be_mixed_with_samples(count: int) -> None:
    value = completed() if count == 1 else b"[" + b",".join([completed()] * count) + b"]"
    batch = decode(load(), value, load())
    assert batch.sample_message.tolist() == [0, 2]
    assert [type(event) for _, other in batch.others for event in other.events] == [JobCompleted] * count


def test_a_host_state_is_an_event() -> None:
    message = {"type": "host.state", "system": "exa", "host": "nid1", "state": "drain", "time": "2026-11-20T10:00:00Z"}
    batch = decode(json.dumps(message).encode(), json.dumps(message | {"state": "tired"}).encode())
    assert batch.others[0][1].events == [HostState("exa", "nid1", "drain", TIME_MS)]
    assert reasons(batch) == [(1, "state")]


@each(
    ("value", "reason"),
    [
        (None, "empty"),
        (b"", "empty"),
        (b"\0", "empty"),
        (b"{", "not-json"),
        (b"7", "not-an-object"),
        (load(type=...), "missing-field"),
        (load(type="weather"), "unknown-type"),
        (load(type="counters"), "missing-field"),
        (load(host=...), "missing-field"),
        (load(host=""), "text"),
        (load(host="a" * 300), "text"),
        (load(host="a\0b"), "text"),
        (load(resource="a>b", peer="c"), "text"),
        (load(value=float("nan")), "wrong-type"),
        (load(value=-1), "out-of-range"),
        (load(value=1.2), "out-of-range"),
        (load(resource="heat", value=1e300), "out-of-range"),
        (load().replace(b"0.83", b"1e999"), "out-of-range"),
        (load(time="1970-01-01T00:00:00Z"), "time"),
        (load(time="2099-01-01T00:00:00Z"), "future"),
        (load(time="yesterday"), "time"),
        (load()[:-1] + b', "value": 0.9}', "duplicate-key"),
        (load()[:-1] + b', "value" : 0.9}', "duplicate-key"),
        (b"[" * 100_000, "nesting"),
        (b"[" + b",".join([load()] * 51) + b"]", "array-bomb"),
        (b"\xef\xbb\xbf" + load(), "encoding"),
        (load().replace(b"nid1", b"\xff"), "encoding"),
    ],
)
def test_a_bad_message_is_refused_with_its_reason_and_costs_its_neighbours_nothing(
    value: bytes | None, reason: str
) -> None:
    batch = decode(load(), value, load())
    assert batch.sample_message.tolist() == [0, 2]
    assert reasons(batch) == [(1, reason)]


def test_a_rounded_fraction_is_cut_to_its_range() -> None:
    assert decode(load(value=1.004)).samples.value.tolist() == [1.0]


def test_unknown_fields_are_left_out_and_counted() -> None:
    batch = decode(load(unit="%", note="x"))
    assert batch.samples.value.tolist() == [0.83]
    assert batch.others[0][1].unknown_fields == 2


def test_a_zero_byte_at_the_end_is_no_matter() -> None:
    assert decode(load() + b"\0").samples.value.tolist() == [0.83]


def test_series_beyond_the_bound_are_counted_and_left_out() -> None:
    index = SeriesIndex(1)
    batch = decode(load(), load(host="nid2"), load(host="nid3"), index=index)
    assert batch.samples.series.tolist() == [0]
    assert [other.ignored for _, other in batch.others] == [{"series": 2}]
    assert index.refused == 2


def test_a_decoder_serves_a_second_index_from_its_start() -> None:
    decoder = load_decoder(TelemetryOptions())
    for _ in range(2):
        index = SeriesIndex(9)
        assert decoder([load()], [RECEIVED_MS], index).samples.series.tolist() == [0]
        assert len(index) == 1


CUTS = {
    "whole": [load(), load(value=0.5, peer="g3", resource="bandwidth"), load()],
    "two in one, and one in two": [load() + b"," + load(), load()[:40], load()[40:]],
    "brackets of their own": [load() + b"],[" + load(), load()[:40], load()[40:]],
    "cut within a text": [load() + b"],\n[" + load(), load(host="a]"), load()[:50], load()[50:]],
    "a list over two": [load()[:-1] + b', "x": [[1', b"2]]" + load()[-1:], load() + b"],\n[" + load()],
    "an array": [b"[" + load() + b"]", load()],
    "nothing": [load(), None, b"", load()],
    "no type": [load(), load().replace(b'"type"', b'"kind"'), load()],
    "another type": [load(), load(component="cpu", power_w=9.0, type="power"), load()],
    "a field more": [load(), load(note="x"), load()],
    "too long": [load(), load() + b" " * 5_000_000, load()],
    "an event": [load(), completed(), load()],
}


@each("values", CUTS.values())
def test_a_slice_yields_what_its_messages_yield_one_by_one(values: list[bytes | None]) -> None:
    known = [load(), load(peer="g3", resource="bandwidth"), load(host="a]")]
    indexes, whole = (SeriesIndex(100), SeriesIndex(100)), load_decoder(TelemetryOptions())
    whole(known, [RECEIVED_MS] * len(known), indexes[0])
    load_decoder(TelemetryOptions())(known, [RECEIVED_MS] * len(known), indexes[1])
    found = whole(values, [RECEIVED_MS] * len(values), indexes[0])
    one_by_one = [load_decoder(TelemetryOptions())([value], [RECEIVED_MS], indexes[1]) for value in values]
    assert found.samples.value.tolist() == [x for batch in one_by_one for x in batch.samples.value.tolist()]
    assert found.samples.series.tolist() == [x for batch in one_by_one for x in batch.samples.series.tolist()]
    assert found.sample_message.tolist() == [at for at, batch in enumerate(one_by_one) for _ in batch.sample_message]
    assert reasons(found) == [(at, reason) for at, batch in enumerate(one_by_one) for _, reason in reasons(batch)]
