"""Files of telemetry are recognised by what they hold and read in slices of lines."""

import gzip
import io
import json

import pytest

from agent.decode import files
from agent.decode.files import read_source
from agent.decode.message import DecodeOptions, FileRecord, FileTelemetry, TelemetryOptions
from agent.decode.opening import OpenSource
from processors.contracts.nodes import Node, Nodes
from processors.contracts.telemetry import SeriesIndex
from tests.kit.job_records import RECEIVED_MS, completed

EXTRACT = "1093555200 0.91 0.90 0.02 0.90 0.001 green.ufo.edu:8060 green.ufo.edu:8060 availableCpu"
LINES = {
    "json": '{"type": "load", "system": "exa", "host": "n1", "resource": "load1", "time": "2026-11-20T09:00:01Z", "value": 1.5}',
    "telegraf": '{"name": "system", "tags": {"host": "n1"}, "fields": {"load1": 1.5}, "timestamp": 1795168800}',
    "line-protocol": "system,host=n1 load1=1.5 1795168800000000000",
    "ldms": '{"timestamp": 1795168800.5, "producer": "n1", "component_id": 1, "MemFree": 7}',
    "collectd": '[{"values":[1.5],"dsnames":["shortterm"],"time":1795168800.5,"host":"n1","plugin":"load","type":"load"}]',
    "nws": EXTRACT,
    "cray": '{"Events": [{"MessageId": "CrayTelemetry.Power", "Oem": {"Sensors": [{"Timestamp": "2026-11-20T10:00:00Z", '
    '"Location": "x9c3s0b0n0", "PhysicalContext": "Chassis", "Value": "473.0"}]}}]}',
}
OPTIONS = TelemetryOptions(decode=DecodeOptions(default_system="exa"), nodes=Nodes([Node("n1", xname="x9c3s0b0n0")]))


def read(value: str | bytes, name: str = "load", options: TelemetryOptions = OPTIONS) -> list[FileRecord]:
    text = value.encode() if isinstance(value, str) else value
    source = OpenSource(io.BufferedReader(io.BytesIO(text)))
    return list(read_source(name, source, RECEIVED_MS, FileTelemetry(options, SeriesIndex(100))))


def samples(records: list[FileRecord]) -> int:
    return sum(len(record.samples.series) for record in records if record.samples is not None)


def refusals(records: list[FileRecord]) -> list[tuple[str, str]]:
    return [(record.place, record.error.reason) for record in records if record.error is not None]


@pytest.mark.parametrize("format_name", list(LINES))
@pytest.mark.parametrize("head", ["", "\n\n", "\ufeff"])
def test_a_file_is_read_as_what_its_first_line_is(format_name: str, head: str) -> None:
    records = read(head + f"{LINES[format_name]}\n" * 5)
    assert {record.format for record in records} == {format_name}
    assert (samples(records), refusals(records)) == (5, [])
    assert sum(record.records for record in records) == 5


@pytest.mark.parametrize("format_name", list(LINES))
def test_a_compressed_file_is_read_as_well(format_name: str) -> None:
    assert samples(read(gzip.compress(f"{LINES[format_name]}\n".encode() * 3))) == 3


@pytest.mark.parametrize("format_name", list(LINES))
def test_a_line_that_cannot_be_read_is_refused_with_its_place_and_costs_no_other(format_name: str) -> None:
    line = LINES[format_name]
    records = read(f"{line}\n{line}\n{{]\n{line}")
    assert [place for place, _ in refusals(records)] == ["load:3"]
    assert samples(records) == 3


@pytest.mark.parametrize("format_name", ["telegraf", "ldms"])
def test_a_torn_first_line_of_json_costs_itself_only(format_name: str) -> None:
    line = LINES[format_name]
    records = read("\n".join([line[:30], line, line]))
    assert [place for place, _ in refusals(records)] == ["load:1"]
    assert samples(records) == 2


@pytest.mark.parametrize("format_name", ["line-protocol", "nws"])
def test_comments_at_the_start_report_nothing(format_name: str) -> None:
    records = read(f"# what follows\n#\n{LINES[format_name]}\n# more\n{LINES[format_name]}\n")
    assert (samples(records), refusals(records)) == (2, [])


def test_json_printed_over_several_lines_is_read_as_well() -> None:
    for format_name in ("json", "telegraf", "ldms"):
        value = json.loads(LINES[format_name])
        for printed in (json.dumps(value, indent=2), json.dumps([value, value], indent=2)):
            assert samples(read(printed)) == printed.count("timestamp") + printed.count('"time"'), format_name


def test_slices_are_short_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [LINES["json"], completed(job_id=1).decode(), "{", LINES["json"], LINES["json"]] * 10
    whole = read("\n".join(lines))
    for slice_records, slice_bytes in ((1, 10**6), (7, 10**6), (1000, 300)):
        monkeypatch.setattr(files, "SLICE_RECORDS", slice_records)
        monkeypatch.setattr(files, "SLICE_BYTES", slice_bytes)
        cut = read("\n".join(lines))
        assert (samples(cut), refusals(cut)) == (samples(whole), refusals(whole)) == (30, refusals(whole))
        assert [r.place for r in cut if r.decoded.events] == [r.place for r in whole if r.decoded.events]


def test_events_stand_between_the_samples_before_and_after_them() -> None:
    records = read("\n".join([LINES["json"], LINES["json"], completed().decode(), LINES["json"]]))
    assert [(record.place, samples([record]), len(record.decoded.events)) for record in records] == [
        ("load:1", 2, 0), ("load:3", 0, 1), ("load:4", 1, 0),
    ]  # fmt: skip


def test_a_damaged_archive_of_samples_yields_what_was_read_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "SLICE_RECORDS", 1000)
    lines = b"".join(
        f"system,host=n{number * 7919 % 5} load1={number * 104729 % 997} 1795168{number:06d}\n".encode()
        for number in range(1500)
    )
    records = read(gzip.compress(lines)[:-400])
    assert [reason for _, reason in refusals(records)] == ["file"]
    assert 1000 < samples(records) < 1500


@pytest.mark.parametrize(
    ("name", "options", "host"),
    [
        ("results/green.ufo.edu.nws.gz", OPTIONS, "green.ufo.edu"),
        ("green", OPTIONS, "green"),
        ("green.txt", TelemetryOptions(decode=OPTIONS.decode, host="blue"), "blue"),
    ],
)
def test_an_extract_without_a_host_is_of_the_one_in_its_name_or_the_one_that_is_given(
    name: str, options: TelemetryOptions, host: str
) -> None:
    telemetry = FileTelemetry(options, SeriesIndex(9))
    text = b"time measurement resource\n1093555200 0.91 availableCpu\n"
    records = list(read_source(name, OpenSource(io.BytesIO(text)), RECEIVED_MS, telemetry))
    assert samples(records) == 1
    assert telemetry.index[0].host == host


@pytest.mark.parametrize(
    "lines",
    [
        ("system load1=1.5 1795168800", "system,host=n1 load1=1.5 1795168800"),
        ('{"timestamp": 1795168800.5, "component_id": 1, "MemFree": 7}', LINES["ldms"]),
        ('{"name": "system", "fields": {"load1": 1.5}, "timestamp": 1795168800}', LINES["telegraf"]),
    ],
)
def test_a_host_that_is_given_is_that_of_records_without_one_alone(lines: tuple[str, str]) -> None:
    options = TelemetryOptions(decode=OPTIONS.decode, host="n7")
    telemetry = FileTelemetry(options, SeriesIndex(9))
    text = "\n".join(lines).encode()
    assert samples(list(read_source("x", OpenSource(io.BytesIO(text)), 0, telemetry))) == 2
    assert [telemetry.index[number].host for number in range(2)] == ["n7", "n1"]


def test_names_that_are_too_many_are_counted() -> None:
    telemetry = FileTelemetry(OPTIONS, SeriesIndex(1))
    text = b"system,host=n1 load1=1.5 1795168800\nsystem,host=n2 load1=1.5 1795168800\n"
    records = list(read_source("x", OpenSource(io.BytesIO(text)), 0, telemetry))
    assert (samples(records), telemetry.index.refused) == (1, 1)
    assert records[-1].decoded.ignored == {"series": 1}


@pytest.mark.parametrize("text", ["# alone\n", "Dear all,\nno load=data today\n", "load is high\n"])
def test_a_text_that_is_nothing_known_is_refused_once(text: str) -> None:
    assert [reason for _, reason in refusals(read(text))] in (["unknown-format"], ["empty"])
