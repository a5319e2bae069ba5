import gzip
import io
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.decode.files import default_telemetry, read_files, read_source
from agent.decode.message import DecodeOptions, FileRecord
from agent.decode.opening import JsonCutter, OpenSource, cut_json
from processors.contracts.errors import ConfigError
from tests.kit.job_records import RECEIVED_MS, completed, slurm_record

OPTIONS = DecodeOptions(default_system="exa")


def read(value: bytes, options: DecodeOptions = OPTIONS) -> list[FileRecord]:
    return list(read_source("jobs", OpenSource(io.BytesIO(value)), RECEIVED_MS, default_telemetry(options)))


def outcome(records: Iterable[FileRecord]) -> list[tuple[str, str]]:
    """Per record its place, and the job or the reason."""
    return [
        (record.place, record.error.reason if record.error else record.decoded.events[0].job_id) for record in records
    ]


def test_lines_of_json_come_with_their_numbers() -> None:
    value = b"\n".join([completed(job_id=1), b"", slurm_record(), b"{broken}", completed(job_id=2)])
    assert outcome(read(value)) == [("jobs:1", "1"), ("jobs:3", "8421337"), ("jobs:4", "not-json"), ("jobs:5", "2")]


def test_a_file_keeps_its_raw_records_for_a_dead_letter() -> None:
    assert read(b"{broken}\n" + completed())[0].value == b"{broken}\n"


@pytest.mark.parametrize("indent", [None, 1])
def test_an_array_and_its_elements_are_one_record_each(indent: int | None) -> None:
    jobs = [json.loads(completed(job_id=number)) for number in range(3)]
    records = read(json.dumps(jobs, indent=indent).encode())
    assert [reason for _, reason in outcome(records)] == ["0", "1", "2"]


def test_a_torn_first_line_costs_itself_only() -> None:
    value = b"\n".join([completed(job_id=1)[:50], completed(job_id=2), completed(job_id=3)])
    assert outcome(read(value)) == [("jobs:1", "not-json"), ("jobs:2", "2"), ("jobs:3", "3")]


def test_a_byte_order_mark_of_a_file_is_no_part_of_its_first_record() -> None:
    assert outcome(read(b"\xef\xbb\xbf" + completed(job_id=1))) == [("jobs:1", "1")]


def test_a_line_that_is_too_long_costs_itself_only() -> None:
    options = DecodeOptions(max_message_bytes=1000)
    records = read(b"\n".join([completed(job_id=1), b"x" * 5000, completed(job_id=2)]), options)
    assert outcome(records) == [("jobs:1", "1"), ("jobs:2", "too-large"), ("jobs:3", "2")]
    assert max(len(record.value) for record in records) <= 1001


def test_an_element_that_is_too_long_costs_itself_only() -> None:
    options = DecodeOptions(max_message_bytes=1000)
    value = b"[" + b",".join([completed(job_id=1), completed(application="x" * 5000), completed(job_id=2)]) + b"]"
    assert [reason for _, reason in outcome(read(value, options))] == ["1", "too-large", "2"]


def test_files_are_read_plain_compressed_and_from_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.jsonl").write_bytes(completed(job_id=1))
    (tmp_path / "b.anything").write_bytes(
        gzip.compress(completed(job_id=2)) + gzip.compress(b"\n" + completed(job_id=3))
    )
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(completed(job_id=4)))))
    paths = [str(tmp_path / "a.jsonl"), str(tmp_path / "b.anything"), "-"]
    assert outcome(read_files(paths, RECEIVED_MS, OPTIONS)) == [
        (f"{paths[0]}:1", "1"),
        (f"{paths[1]}:1", "2"),
        (f"{paths[1]}:2", "3"),
        ("-:1", "4"),
    ]


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_damaged_archive_ends_with_an_error_where_reading_failed(tmp_path: Path, damage: str) -> None:
    lines = b"\n".join(completed(job_id=number, application=f"app{number * 7919}") for number in range(200))
    archive = bytearray(gzip.compress(lines))
    if damage == "cut":
        del archive[-20:]
    else:
        archive[len(archive) // 2] ^= 0xFF
    (tmp_path / "jobs.gz").write_bytes(bytes(archive))
    records = list(read_files([str(tmp_path / "jobs.gz")], RECEIVED_MS, OPTIONS))
    assert records[-1].error is not None
    assert "file" in [record.error.reason for record in records if record.error]


def test_damage_within_an_array_is_an_error_too(tmp_path: Path) -> None:
    elements = b"[" + b",".join(completed(application=f"app{number * 7919}") for number in range(2000)) + b"]"
    (tmp_path / "jobs.gz").write_bytes(gzip.compress(elements)[:-2000])
    options = DecodeOptions(max_message_bytes=1000)
    records = list(read_files([str(tmp_path / "jobs.gz")], RECEIVED_MS, options))
    assert len(records) > 100
    assert [record.error.reason for record in records if record.error] == ["file"]


@pytest.mark.parametrize(
    ("name", "why"), [("missing.jsonl", "cannot be read"), (".", "holds no job of ClusterCockpit")]
)
def test_a_file_that_cannot_be_opened_is_an_error_of_the_command_line(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        list(read_files([str(tmp_path / name)], RECEIVED_MS, OPTIONS))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "empty"),
        (b"\n \n", "empty"),
        (b"Dear all,\nno data today.\n", "unknown-format"),
        (b"a|b|c\n1|2|3\n", "columns"),
        (b"JobID|State\n1|COMPLETED\n", "columns"),
        (b"\x89PNG\r\n\x1a\n\x00", "unknown-format"),
    ],
)
def test_a_file_of_no_known_format_is_refused_once(value: bytes, reason: str) -> None:
    assert [(record.place, record.error and record.error.reason) for record in read(value)] == [("jobs:1", reason)]


def test_a_workload_log_is_read_from_its_first_job_on() -> None:
    job = b"1 0 5 60 4 -1 -1 4 90 -1 1 1 1 -1 -1 -1 -1 -1\n"
    records = read(b"; UnixStartTime: 843480031\n;\n\n; Note: x\n" + job + job)
    assert outcome(records) == [("jobs:5", "1"), ("jobs:6", "1")]


def test_reading_needs_no_more_memory_than_a_record() -> None:
    class Endless(io.RawIOBase):
        """Gives the same line for ever."""

        def readline(self, size: int | None = -1, /) -> bytes:
            return completed() + b"\n"

    records = read_source("jobs", OpenSource(Endless()), RECEIVED_MS, default_telemetry(OPTIONS))  # type: ignore[arg-type]  # all that is asked of a file
    assert [next(records).place for _ in range(3)] == ["jobs:1", "jobs:2", "jobs:3"]


TEXTS = st.text(alphabet='a"\\{}[],:\n é', max_size=8)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(
    st.lists(st.dictionaries(TEXTS, JSON_VALUES, max_size=3), max_size=5),
    st.sampled_from([{}, {"indent": 1}, {"ensure_ascii": False}]),
    st.sampled_from([("", "\n", ""), ("[", ",\n", "]"), ("[\n", ",", "\n]\n")]),
    st.integers(1, 7),
)
def test_values_are_cut_where_they_end_however_they_arrive(
    objects: list[object], style: dict[str, Any], frame: tuple[str, str, str], step: int
) -> None:
    begin, between, end = frame
    text = (begin + between.join(json.dumps(value, **style) for value in objects) + end).encode()
    chunks = [text[start : start + step] for start in range(0, len(text), step)]
    assert [json.loads(value) for value, _ in cut_json(chunks, 10_000)] == objects


def test_each_value_knows_its_line() -> None:
    text = b'[\n{"a":\n "x\\"]\\\\"},\n\n {}\n]\n{}'
    assert [line for _, line in cut_json([text], 100)] == [2, 5, 7]
    assert [line for _, line in cut_json([b'[\n7,\n\n"x"', b"\n]"], 100)] == [2, 4]


@given(st.lists(st.binary(max_size=20), max_size=8))
def test_any_bytes_are_cut_into_bounded_values(chunks: list[bytes]) -> None:
    cutter = JsonCutter(bytes_max=10)
    values = [value for chunk in chunks for value, _ in cutter.feed(chunk)] + [value for value, _ in cutter.close()]
    assert all(0 < len(value) <= 11 for value in values)
