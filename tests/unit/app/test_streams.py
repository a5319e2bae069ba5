"""Files become one stream: events of jobs and minutes of hosts in the order of time."""

import json
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.app import files as streams
from agent.app.files import Item, ReportedEvent, TelemetryFiles, TimedSamples, in_order
from agent.decode.files import read_file
from agent.decode.message import DecodeOptions, FileRecord, FileTelemetry, TelemetryOptions
from processors.contracts.errors import ConfigError
from processors.contracts.events import HostMinute, JobCompleted, PredictionRequested
from processors.contracts.names import rfc3339
from processors.contracts.telemetry import SeriesIndex
from processors.windows.settings import WindowSettings
from tests.kit.scenario import SYSTEM, moment_ms

NINE_MS = moment_ms("09:00")
FAR_FUTURE_MS = 4_000_000_000_000
SACCT = """JobID|JobName|State|Start|End|Elapsed|AllocNodes|Cluster
3|c|COMPLETED|2026-11-20T09:02:00|2026-11-20T09:03:00|00:01:00|4|exa
1|a|COMPLETED|2026-11-20T09:00:00|2026-11-20T09:04:00|00:04:00|4|exa
2|b|COMPLETED|2026-11-20T09:01:00|2026-11-20T09:02:00|00:01:00|4|exa
"""


def completed(job: str, second: int) -> str:
    fields = {
        "type": "job.completed", "system": SYSTEM, "job_id": job, "application": "a", "n": 1, "unit": "nodes",
        "end": rfc3339(NINE_MS + second * 1000), "run_time_s": 60,
    }  # fmt: skip
    return json.dumps(fields)


def load(second: float, value: float = 0.5, host: str = "nid1") -> str:
    fields = {"type": "load", "system": SYSTEM, "host": host, "resource": "cpu_available", "value": value}
    return json.dumps({**fields, "time": rfc3339(NINE_MS + round(second * 1000))})


def requested(request: str) -> str:
    fields: dict[str, Any] = {"type": "prediction.requested", "system": SYSTEM, "request_id": request}
    return json.dumps({**fields, "application": "a", "n": [4], "unit": "nodes"})


def read(folder: Path, *texts: str | Sequence[str], samples: bool = False) -> tuple[list[Item], TelemetryFiles]:
    paths = []
    for number, text in enumerate(texts):
        path = folder / f"file{number}"
        path.write_text(text if isinstance(text, str) else "\n".join(text) + "\n")
        paths.append(str(path))
    telemetry = FileTelemetry(TelemetryOptions(decode=DecodeOptions(default_system=SYSTEM)), SeriesIndex(100))
    files = TelemetryFiles(telemetry, paths, WindowSettings(), samples=samples)
    return list(in_order(files.read(FAR_FUTURE_MS), files)), files


def jobs(items: list[Item]) -> list[str]:
    return [
        item.event.job_id for item in items if isinstance(item, ReportedEvent) and isinstance(item.event, JobCompleted)
    ]


def predicted(items: list[Item]) -> list[str]:
    """Jobs and requests by their ids, minutes of hosts by the second of their end."""
    names = []
    for item in items:
        if isinstance(item, ReportedEvent):
            event = item.event
            if isinstance(event, HostMinute):
                names.append(f"{event.host}@{((item.time_ms or 0) - NINE_MS) // 1000}")
            elif isinstance(event, JobCompleted):
                names.append(event.job_id)
            elif isinstance(event, PredictionRequested):
                names.append(event.request_id)
    return names


def test_a_table_of_jobs_is_put_in_the_order_of_their_ends(tmp_path: Path) -> None:
    assert jobs(read(tmp_path, SACCT)[0]) == ["2", "3", "1"]


def test_tables_of_several_files_become_one_order(tmp_path: Path) -> None:
    head, *rows = SACCT.splitlines()
    assert jobs(read(tmp_path, *(f"{head}\n{row}\n" for row in rows))[0]) == ["2", "3", "1"]


def test_a_stream_keeps_its_order_and_what_was_refused_comes_along(tmp_path: Path) -> None:
    items, _ = read(tmp_path, [completed("9", 60), "not an event", completed("8", 0)])
    assert jobs(items) == ["9", "8"]
    assert [type(item) for item in items] == [ReportedEvent, FileRecord, ReportedEvent]
    assert [error.reason for error in streams.refused(items[1])] == ["not-json"]  # type: ignore[arg-type] # by the line above


def test_more_jobs_than_can_be_sorted_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "JOBS_MAX", 2)
    with pytest.raises(ConfigError, match=r"^The files list more than 2 jobs; split them\.$"):
        read(tmp_path, SACCT)


def test_tables_of_many_files_are_open_one_at_a_time(tmp_path: Path) -> None:
    head, *rows = SACCT.splitlines()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft = len(list(Path("/proc/self/fd").iterdir())) + 20
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    try:
        assert len(jobs(read(tmp_path, *(f"{head}\n{rows[0]}\n" for _ in range(60)))[0])) == 60
        with pytest.raises(ConfigError, match="Too many open files"):
            read(tmp_path, *([completed(str(number), number)] for number in range(60)))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_files_are_merged_by_time_whatever_they_hold(tmp_path: Path) -> None:
    minutes = [load(second) for second in range(0, 240, 10)]
    items, _ = read(tmp_path, [completed("s1", 90), completed("s2", 150)], minutes, SACCT)
    assert predicted(items) == ["nid1@60", "s1", "nid1@120", "2", "s2", "nid1@180", "3", "nid1@240", "1"]


def test_job_events_and_samples_of_one_file_are_reported_in_its_order(tmp_path: Path) -> None:
    lines = [load(0), completed("a", 30), load(40), load(75), completed("b", 80), load(140)]
    assert predicted(read(tmp_path, lines)[0]) == ["a", "nid1@60", "b", "nid1@120", "nid1@180"]


def test_the_last_minutes_are_reported_at_the_end_of_a_file(tmp_path: Path) -> None:
    items, files = read(tmp_path, [load(0), load(65)])
    assert predicted(items) == ["nid1@60", "nid1@120"]
    assert (files.counts()["taken"], files.counts()["minutes"]) == (2, 2)


def test_a_question_is_asked_where_it_stands_among_events_with_times(tmp_path: Path) -> None:
    items, _ = read(
        tmp_path, [completed("a", 0), completed("d", 90)], [requested("r1"), completed("c", 60), requested("r2")]
    )
    assert predicted(items) == ["a", "r1", "c", "r2", "d"]


@pytest.mark.parametrize("first", [True, False])
def test_a_file_without_any_time_keeps_its_place_before_or_after_the_others(tmp_path: Path, first: bool) -> None:  # noqa: FBT001
    texts = [[requested("r1"), requested("r2")], [completed("a", 0), completed("b", 90)]]
    items, _ = read(tmp_path, *(texts if first else reversed(texts)))
    order = ["r1", "r2", "a", "b"]
    assert predicted(items) == (order if first else [*order[2:], *order[:2]])


def test_a_file_that_steps_back_in_time_goes_on_and_its_old_samples_are_counted(tmp_path: Path) -> None:
    lines = [load(second) for second in (0, 10, 600, 620, 20, 30, 640, 660, 680)]
    items, files = read(tmp_path, lines)
    assert (files.counts()["taken"], files.counts()["late"], files.counts()["ahead"]) == (7, 2, 0)
    assert predicted(items)[-1] == "nid1@720"


def test_a_sample_of_the_far_future_is_left_out_and_those_after_it_count(tmp_path: Path) -> None:
    lines = [load(second) for second in (0, 10, 10**9, 20, 30, 70)]
    items, files = read(tmp_path, lines)
    assert (files.counts()["taken"], files.counts()["late"], files.counts()["ahead"]) == (5, 0, 1)
    assert predicted(items) == ["nid1@60", "nid1@120"]


def test_samples_come_in_intervals_so_that_files_can_be_scored_together(tmp_path: Path) -> None:
    first, second = ([load(moment, host=host) for moment in range(0, 60, 5)] for host in ("a", "b"))
    items, _ = read(tmp_path, first, second, samples=True)
    times = [item.time_ms - NINE_MS for item in items if isinstance(item, TimedSamples)]
    assert times == [at for at in range(0, 60_000, 10_000) for _ in range(2)]


def test_a_host_in_many_files_is_one_host(tmp_path: Path) -> None:
    items, files = read(tmp_path, *([load(second), load(second + 5)] for second in range(0, 60, 10)), samples=True)
    assert (len(files.series()), files.counts()["taken"]) == (1, 12)
    assert {number for item in items if isinstance(item, TimedSamples) for number in item.samples.series.tolist()} == {
        0
    }


def test_samples_for_whose_series_there_is_no_room_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "load"
    path.write_text("\n".join([load(0), load(1, host="nid2"), load(2)]))
    files = TelemetryFiles(
        FileTelemetry(TelemetryOptions(), SeriesIndex(1)), [str(path)], WindowSettings(), samples=True
    )
    items = list(in_order(files.read(FAR_FUTURE_MS), files))
    assert sum(len(item.samples.series) for item in items if isinstance(item, TimedSamples)) == 2


def test_without_windows_samples_stay_in_their_records(tmp_path: Path) -> None:
    path = tmp_path / "load"
    path.write_text(f"{load(0)}\n{load(1)}\n")
    telemetry = FileTelemetry(TelemetryOptions(), SeriesIndex(9))
    (record,) = in_order([read_file(str(path), FAR_FUTURE_MS, telemetry)])
    assert isinstance(record, FileRecord)
    assert record.samples is not None
    assert (record.records, record.samples.value.tolist()) == (2, [0.5, 0.5])
