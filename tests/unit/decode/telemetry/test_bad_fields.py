"""One bad field costs that field: what stands beside it is taken, and the bad one is counted or refused alone."""

import json
from typing import Any

import pytest

from agent.decode.formats import TELEMETRY
from agent.decode.message import DecodeOptions, TelemetryOptions
from processors.contracts.telemetry import DecodedBatch, SeriesIndex
from tests.kit.cases import each

TIME_S = 1_795_168_800
OPTIONS = TelemetryOptions(decode=DecodeOptions(default_system="exa"))


def decoded(format_name: str, *messages: Any) -> tuple[list[str], DecodedBatch]:
    """Return the samples of messages as texts, and the whole batch."""
    index = SeriesIndex(99)
    values = [message if isinstance(message, bytes) else json.dumps(message).encode() for message in messages]
    batch = TELEMETRY[format_name](OPTIONS)(values, [TIME_S * 1000] * len(values), index)
    columns = (batch.samples.series.tolist(), batch.samples.value.tolist())
    return [f"{index[number].resource} {value:g}" for number, value in zip(*columns, strict=True)], batch


def left_out(batch: DecodedBatch) -> dict[str, int]:
    return {what: count for _, other in batch.others for what, count in other.ignored.items() if what != "metric"}


def refused(batch: DecodedBatch) -> list[str]:
    return [error.reason for _, other in batch.others for error in other.rejects]


def telegraf(fields: Any, timestamp: Any = TIME_S) -> dict[str, Any]:
    return {"name": "system", "tags": {"host": "n1"}, "fields": fields, "timestamp": timestamp}


def test_a_text_in_place_of_a_number_costs_no_other_field() -> None:
    fields = {"load1": 1.5, "load5": "n/a", "load15": "2.5", "extra": {"a": [1]}}
    taken, batch = decoded(
        "telegraf", telegraf({**fields, "load5": True}), telegraf(fields), {"metrics": [telegraf(fields)]}
    )
    assert taken == ["load1 1.5"] * 3  # load5 and load15 are not asked for
    assert refused(batch) == []
    mapped = {"producer": "n1", "timestamp": TIME_S + 0.5, "load1min": "n/a", "MemFree": "2", "runnable": 7}
    taken, batch = decoded("ldms", mapped)
    assert (taken, refused(batch)) == (["memory_free 2048"], [])
    assert left_out(batch) == {"no-number": 1}


@pytest.mark.parametrize("value", ["n/a", True, None])
def test_what_is_no_number_is_counted(value: Any) -> None:
    taken, batch = decoded("telegraf", telegraf({"load1": value}))
    assert (taken, refused(batch), left_out(batch)) == ([], [], {"null" if value is None else "no-number": 1})


def test_a_bad_metric_costs_no_other_one_of_its_batch() -> None:
    good = telegraf({"load1": 2})
    metrics = [{**good, "fields": 7}, {**good, "name": None}, {**good, "timestamp": "now"}, good, 7]
    taken, batch = decoded("telegraf", {"metrics": metrics})
    assert (taken, refused(batch)) == (["load1 2"], ["wrong-type", "wrong-type", "time", "not-an-object"])


def test_a_bad_value_list_of_collectd_costs_no_other_one() -> None:
    good = {"values": [0.5, "x", None], "dsnames": ["shortterm", "midterm", "longterm"], "time": TIME_S, "host": "n1",
            "plugin": "load", "type": "load"}  # fmt: skip
    taken, batch = decoded("collectd", [{**good, "time": "now"}, {**good, "values": 7}, good])
    assert (taken, refused(batch)) == (["load1 0.5"], ["wrong-type", "wrong-type"])


def test_a_bad_sample_of_examon_costs_no_other_one() -> None:
    good = {
        "name": "load_one",
        "value": 1.5,
        "timestamp": TIME_S * 1000,
        "tags": {"plugin": "ganglia_pub", "node": "n1"},
    }
    taken, batch = decoded("examon", [{**good, "value": []}, good, {**good, "tags": 7}])
    assert (taken, refused(batch)) == (["load1 1.5"], ["wrong-type", "wrong-type"])


def test_a_bad_counter_or_load_costs_no_other_one() -> None:
    counters = {"type": "counters", "system": "exa", "host": "n1", "time": "2026-11-20T10:00:00Z", "cumulative": True}
    load = {"type": "load", "system": "exa", "host": "n1", "time": "2026-11-20T10:00:00Z", "resource": "runnable"}
    record = {**counters, "counters": {"a": 1, "b": "x", "c": [2], "d": "7"}}
    for message in (record, [record]):
        taken, batch = decoded("native", message)
        assert (taken, refused(batch)) == (["counter_total>a 1", "counter_total>d 7"], [])
        assert left_out(batch) == {"no-number": 2, "null": 2}
    taken, batch = decoded("native", [{**load, "value": value} for value in (1, "x", float("nan"), 2)])
    assert (taken, refused(batch)) == (["runnable 1", "runnable 2"], ["wrong-type"] * 2)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ('"load1min": 150, "load5min": 200, "load15min": 0', 1.5),
        ('"load1min":150', 1.5),
        ('"load1min": 150.0, "load5min": 200.0', 150),
        ('"load1min": 150, "load5min": 200.5', 150),
    ],
)
def test_integer_loads_of_ldms_are_hundredths(row: str, expected: float) -> None:
    taken, _ = decoded("ldms", f'{{"timestamp": {TIME_S}.5, "producer": "n1", {row}}}'.encode())
    assert taken == [f"load1 {expected:g}", f"cpu_available>load {1 / (1 + expected):g}"]


@each(
    "stamp",
    [
        "2026-11-20T10:00:00Z", "2026-11-20T11:00:00.000000000+01:00", "2026-11-20 10:00:00", "2026-11-20 10:00:00 +0000 UTC",
        "Fri Nov 20 10:00:00 2026", "Fri Nov 20 10:00:00 UTC 2026", "Fri Nov 20 10:00:00 +0000 2026", "20 Nov 26 10:00 UTC",
        "20 Nov 26 11:00 +0100", "Friday, 20-Nov-26 10:00:00 UTC", "Fri, 20 Nov 2026 10:00:00 UTC", "Fri, 20 Nov 2026 10:00:00 +0000",
        TIME_S, float(TIME_S), str(TIME_S), TIME_S * 1000, f"{TIME_S}000", f"{TIME_S}000000", f"{TIME_S}000000000", "1.7951688e9",
    ],
)  # fmt: skip
def test_times_of_telegraf_may_be_texts_in_its_named_layouts(stamp: str | float) -> None:
    _, batch = decoded("telegraf", telegraf({"load1": 1}, stamp))
    assert batch.samples.time_ms.tolist() == [TIME_S * 1000]


@each("stamp", ["", "now", "10:00AM", "Nov 20 10:00:00", "x" * 1000, "1" * 1000, "nan", "1970-01-01T00:00:00Z"])
def test_a_text_without_a_year_is_no_time(stamp: str) -> None:
    _, batch = decoded("telegraf", telegraf({"load1": 1}, stamp))
    assert refused(batch) == ["time"]
