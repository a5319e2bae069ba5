"""Native messages of power and of counters."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.decode.message import REASONS, DecodeOptions, TelemetryOptions
from agent.decode.telemetry.native import load_decoder
from processors.contracts.telemetry import DecodedBatch, SeriesIndex
from tests.kit.cases import each

TIME_MS = 1_795_168_800_000
HEAD = {"system": "exa", "host": "nid1", "time": "2026-11-20T10:00:00Z"}


def message(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **{name: value for name, value in (HEAD | fields).items() if value is not ...}}


def power(**fields: Any) -> dict[str, Any]:
    return message("power", **({"component": "system", "power_w": 412.0} | fields))


def counters(**fields: Any) -> dict[str, Any]:
    return message("counters", **({"interval_s": 60.0, "counters": {"PAPI_TOT_CYC": 1.2e11}} | fields))


def predicted(*values: object, index: SeriesIndex | None = None) -> tuple[list[tuple[str, float, float]], DecodedBatch]:
    """Decode twice, as known and unknown series take different ways; return (resource, seconds after 10:00, value)."""
    index = SeriesIndex(2_000) if index is None else index
    decode = load_decoder(TelemetryOptions(decode=DecodeOptions(elements_max=50)))
    raw = [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values]
    batches = [decode(raw, [TIME_MS + 5_000] * len(raw), index) for _ in range(2)]
    found = [
        [
            (index[number].resource, (time_ms - TIME_MS) / 1000, value)
            for number, time_ms, value in zip(
                batch.samples.series.tolist(), batch.samples.time_ms.tolist(), batch.samples.value.tolist(), strict=True
            )
        ]
        for batch in batches
    ]
    assert found[0] == found[1]
    assert str(batches[0].others) == str(batches[1].others)
    return found[0], batches[0]


def refused(value: object) -> list[str]:
    samples, batch = predicted(value)
    assert samples == []
    return [error.reason for _, other in batch.others for error in other.rejects]


def ignored(batch: DecodedBatch) -> dict[str, int]:
    assert all(not other.rejects for _, other in batch.others)
    return {what: count for _, other in batch.others for what, count in other.ignored.items()}


@pytest.mark.parametrize("component", ["system", "cpu", "memory", "gpu", "cpu:0", "gpu:gcd-3"])
def test_power_is_a_resource_of_its_component(component: str) -> None:
    assert predicted(power(component=component))[0] == [(f"power_w>{component}", 0.0, 412.0)]


def test_power_of_a_job_reports_it() -> None:
    assert predicted(power(job_id=812))[0] == predicted(power(job_id="812"))[0] == [("power_w>system#812", 0.0, 412.0)]


def test_what_a_counter_grew_by_counts_in_the_middle_of_its_interval() -> None:
    named = {"PAPI_TOT_CYC": 1.2e11, "PAPI_TOT_INS": 1.9e11}
    assert predicted(counters(counters=named))[0] == [
        ("counter_delta>PAPI_TOT_CYC", -30.0, 1.2e11),
        ("counter_delta>PAPI_TOT_INS", -30.0, 1.9e11),
    ]
    assert predicted(counters(interval_s=...))[0] == [("counter_delta>PAPI_TOT_CYC", 0.0, 1.2e11)]


def test_a_cumulative_counter_counts_at_its_time() -> None:
    for interval in (60.0, ...):
        found, _ = predicted(counters(cumulative=True, interval_s=interval, job_id="812"))
        assert found == [("counter_total>PAPI_TOT_CYC#812", 0.0, 1.2e11)]


def test_records_may_name_other_counters_each_time() -> None:
    values = [counters(counters=named) for named in ({"a": 1, "b": 2}, {"b": 3, "a": 4}, {"a": 5})]
    assert [(name[-1], value) for name, _, value in predicted(*values)[0]] == [
        ("a", 1.0), ("b", 2.0), ("b", 3.0), ("a", 4.0), ("a", 5.0),
    ]  # fmt: skip


def test_arrays_may_mix_all_kinds_of_samples() -> None:
    load = message("load", resource="load1", value=3.5)
    found, batch = predicted([load, power(), counters(), power(component="cpu:1")])
    assert [name for name, _, _ in found] == ["load1", "power_w>system", "counter_delta>PAPI_TOT_CYC", "power_w>cpu:1"]
    assert batch.sample_message.tolist() == [0] * 4
    assert predicted([power(), power(power_w="much"), power(power_w=9)])[0] == [
        ("power_w>system", 0.0, value) for value in (412.0, 9.0)
    ]


@pytest.mark.parametrize(
    ("values", "left_out"),
    [
        ([power(power_w=None)], {"null": 1}),
        ([power(power_w=-1)], {"negative": 1}),
        ([power(power_w=1e30)], {"too_large": 1}),
        ([counters(counters={"a": None, "b": -5, "c": None})], {"null": 2, "negative": 1}),
        ([json.dumps(counters(counters={"a": float("nan"), "b": float("-inf")})).encode()], {"null": 2}),
        ([json.dumps(power(power_w=float("nan"))).encode()], {"null": 1}),
    ],
)
def test_what_is_no_reading_is_counted_and_left_out(values: list[object], left_out: dict[str, int]) -> None:
    good = counters(counters={"good": 7.0})
    found, batch = predicted(good, *values, good)
    assert [name for name, _, _ in found] == ["counter_delta>good"] * 2
    assert ignored(batch) == left_out


def test_a_counter_that_is_no_number_costs_no_other_of_its_record() -> None:
    found, batch = predicted(counters(counters={"a": 1.0, "NaN": None, "c": 3.0}))
    assert [value for _, _, value in found] == [1.0, 3.0]
    assert ignored(batch) == {"null": 1}


def test_an_integer_of_64_bits_is_a_number() -> None:
    assert predicted(counters(counters={"a": 2**64 - 1}))[0] == [("counter_delta>a", -30.0, float(2**64))]


def test_signs_that_mean_something_in_names_do_not_break_them() -> None:
    found, _ = predicted(counters(counters={"a#b": 1.0, "c>d": 2.0}, job_id="8#1"))
    assert [name for name, _, _ in found] == ["counter_delta>a%23b#8#1", "counter_delta>c>d#8#1"]


@each(
    ("value", "reason"),
    [
        (power(component="fan"), "text"),
        (power(component="cpu:"), "text"),
        (power(component="cpu:0#1"), "text"),
        (power(power_w="412"), "wrong-type"),
        (power(time="soon"), "time"),
        (power(time="1980-01-01T00:00:00Z"), "time"),
        (counters(counters=...), "missing-field"),
        (counters(counters={f"c{i}": 1.0 for i in range(257)}), "out-of-range"),
        (counters(counters={"": 1.0}), "text"),
        (counters(counters={"a\n": 1.0}), "text"),
        (counters(counters={"a" * 257: 1.0}), "text"),
        (counters(interval_s=0), "out-of-range"),
        (counters(interval_s=-60), "out-of-range"),
        (counters(interval_s=1e9), "out-of-range"),
        (counters(job_id=""), "text"),
        (counters(cumulative="yes"), "wrong-type"),
        (b'{"type": "power", "host": "nid1", "host": "nid2"}', "missing-field"),
        (json.dumps(counters()).encode()[:-2] + b', "PAPI_TOT_CYC": 1.0}}', "duplicate-key"),
        (json.dumps(power()).encode()[:-1] + b', "power_w": 1.0}', "duplicate-key"),
        (b'{"type": "power", "power_w": NaN', "not-json"),
        (b'{"type": "power", "x": "' + b'\\"' * 100_000, "not-json"),
    ],
)
def test_a_bad_record_is_refused_with_its_reason(value: object, reason: str) -> None:
    assert refused(value) == [reason]


def test_unknown_fields_are_counted_and_left_out() -> None:
    found, batch = predicted(counters(node="x", rank=7))
    assert len(found) == 1
    assert batch.others[0][1].unknown_fields == 2


def test_counters_beyond_the_bound_of_series_are_counted_and_left_out() -> None:
    found, batch = predicted(counters(counters={"a": 1, "b": 2, "c": 3}), index=SeriesIndex(2))
    assert [value for _, _, value in found] == [1.0, 2.0]
    assert ignored(batch) == {"series": 1}


ODD = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.floats(), max_size=3),
    st.dictionaries(st.text(max_size=9), st.one_of(st.none(), st.integers(), st.floats(), st.text(max_size=3)), max_size=4),
)  # fmt: skip
FIELDS = ["system", "host", "time", "counters", "interval_s", "job_id", "cumulative", "component", "power_w", "x"]


@given(st.sampled_from([power(), counters()]), st.dictionaries(st.sampled_from(FIELDS), ODD, max_size=4))
def test_whatever_a_record_holds_it_is_taken_counted_or_refused(record: dict[str, Any], odd: dict[str, Any]) -> None:
    good = counters(counters={"good": 7.0})
    found, batch = predicted(good, record | odd, good)
    assert [name for name, _, _ in found if name == "counter_delta>good"] == ["counter_delta>good"] * 2
    assert all(error.reason in REASONS for _, other in batch.others for error in other.rejects)
