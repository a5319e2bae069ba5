"""Archives of ClusterCockpit through the agent: minutes of hosts beside the jobs that ran there."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agent.app.files import ReportedEvent, TelemetryFiles, in_order
from agent.cli import main
from agent.decode.message import FileTelemetry, TelemetryOptions
from processors.contracts.events import HostMinute, JobCompleted, JobStarted
from processors.contracts.telemetry import SeriesIndex
from processors.windows.settings import WindowSettings
from tests.kit.archives import START_S, job, metric

FAR_FUTURE_MS = 4_000_000_000_000


def predicted(*folders: Path) -> list[ReportedEvent]:
    files = TelemetryFiles(
        FileTelemetry(TelemetryOptions(), SeriesIndex(100)), [str(folder) for folder in folders], WindowSettings()
    )
    return [item for item in in_order(files.read(FAR_FUTURE_MS), files) if isinstance(item, ReportedEvent)]


def minutes(events: list[ReportedEvent]) -> list[HostMinute]:
    return [timed.event for timed in events if isinstance(timed.event, HostMinute)]


def power(host: str, count: int) -> dict[str, object]:
    return {"cpu_power": metric({host: [200.0 + minute for minute in range(count)]})}


def test_each_minute_of_a_host_is_reported_with_what_was_measured_in_it(tmp_path: Path) -> None:
    job(tmp_path, minutes=10, metrics=power("e1", 11))
    found = minutes(predicted(tmp_path))
    assert [(each.minute_ms // 1000 - START_S) // 60 for each in found] == list(range(11))
    assert [each.resources["power_w>cpu"].mean for each in found] == [200.0 + minute for minute in range(11)]
    assert {(each.system, each.host) for each in found} == {("emmy", "e1")}


def test_all_minutes_of_a_job_are_reported_before_the_next_one_begins_hours_later(tmp_path: Path) -> None:
    for number in range(4):
        job(tmp_path, number, start_s=START_S + 7 * 3600 * number, minutes=4, metrics=power("e1", 5))
    events = predicted(tmp_path)
    starts = [at for at, timed in enumerate(events) if isinstance(timed.event, JobStarted)]
    assert [
        len(minutes(events[first:stop])) for first, stop in zip(starts, [*starts[1:], len(events)], strict=True)
    ] == [5] * 4
    times = [timed.time_ms or 0 for timed in events if not isinstance(timed.event, HostMinute)]
    assert times == sorted(times)


def test_an_archive_is_merged_with_others(tmp_path: Path) -> None:
    job(tmp_path / "a", 1, minutes=4, metrics=power("e1", 5))
    job(tmp_path / "b", 2, start_s=START_S + 60, minutes=2, hosts=("e2",), metrics=power("e2", 3))
    events = predicted(tmp_path / "a", tmp_path / "b")
    ends = [timed.event.job_id for timed in events if isinstance(timed.event, JobCompleted)]
    assert ends == ["2", "1"]
    assert {each.host for each in minutes(events)} == {"e1", "e2"}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), catch_exceptions=False, env={"COLUMNS": "120"})


def test_a_replay_of_an_archive_settles_its_runs(tmp_path: Path) -> None:
    for number in range(3):
        job(tmp_path / "archive", number, start_s=START_S + 900 * number, metrics=power("e1", 11))
    result = run("replay", str(tmp_path / "archive"), "--out", str(tmp_path / "out"))
    assert result.exit_code == 0
    assert result.stderr.startswith("6 events, 33 samples of 1 host, 0 refused, 1 application with a prediction")
    summary = json.loads((tmp_path / "out" / "summary.json").read_bytes())
    assert summary["telemetry"]["late"] == 0
    assert summary["telemetry"]["minutes"] >= 33
    runs = [json.loads(line)["value"] for line in (tmp_path / "out" / "runs.jsonl").read_text().splitlines()]
    assert {(each["n"], each["run_time_s"], each["application_id"]) for each in runs} == {
        (2.0, 600.0, runs[0]["application_id"])
    }


def test_a_folder_without_jobs_is_reported_as_none(tmp_path: Path) -> None:
    result = run("replay", str(tmp_path), "--out", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert "holds no job of ClusterCockpit" in result.stderr


def test_a_backtest_of_an_archive_scores_the_power_of_its_jobs(tmp_path: Path) -> None:
    for number in range(12):
        values = [200.0 + 5 * (number % 3) + minute % 2 for minute in range(11)]
        metrics = {"node_power": metric(dict.fromkeys(("e1", "e2"), values))}
        job(tmp_path / "archive", number, start_s=START_S + 7200 * number, metrics=metrics)
    result = run("backtest", str(tmp_path / "archive"), "--out", str(tmp_path / "out"), "--quiet")
    assert result.exit_code == 0
    report = json.loads((tmp_path / "out" / "report.json").read_bytes())
    profiled = report["variants"][0]["profiled"]
    assert (profiled["settled"], profiled["profiles"], profiled["learned"]) == (12, 12, 12)
    assert profiled["total"]["mean_w"] == pytest.approx(2 * 205.5, rel=0.02)
