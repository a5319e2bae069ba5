"""Commands that are given telemetry: it is taken, or left out with a sentence."""

import json
import math
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agent.cli import main
from processors.contracts.names import rfc3339
from tests.kit.scenario import moment_ms

NINE_MS = moment_ms("09:00")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), catch_exceptions=False, env={"COLUMNS": "120"})


def load(second: float, value: float, host: str = "nid1", resource: str = "cpu_available") -> str:
    fields = {"type": "load", "system": "exa", "host": host, "resource": resource, "value": value}
    return json.dumps({**fields, "time": rfc3339(NINE_MS + round(second * 1000))})


def completed(job: int, n: int) -> str:
    fields = {
        "type": "job.completed", "system": "exa", "job_id": str(job), "application": "lammps", "n": n, "unit": "nodes",
        "end": rfc3339(NINE_MS + job * 60_000), "run_time_s": 3200 / n + 100,
    }  # fmt: skip
    return json.dumps(fields)


@pytest.fixture
def telemetry(tmp_path: Path) -> str:
    """Ten minutes of two resources of a host, every ten seconds, and a value never seen before at 500 s."""
    path = tmp_path / "load.jsonl"
    lines = []
    for second in range(0, 600, 10):
        busy = 0.5 + 0.4 * math.sin(second / 40)
        lines.append(load(second, 0.01 if second == 500 else round(1 - 0.8 * busy, 6)))
        lines.append(load(second, round(1e9 * busy), resource="memory_free"))
    path.write_text("\n".join(lines))
    return str(path)


@pytest.fixture
def jobs(tmp_path: Path) -> str:
    path = tmp_path / "jobs.jsonl"
    path.write_text("\n".join(completed(job, 2 ** (job % 5)) for job in range(20)))
    return str(path)


def test_a_replay_takes_jobs_and_telemetry_together(jobs: str, telemetry: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shown = run("replay", jobs, telemetry, "--out", str(out))
    assert (shown.exit_code, shown.stdout) == (0, "")
    assert shown.stderr == (
        f"20 events, 120 samples of 1 host, 0 refused, 1 application with a prediction; see {out}/summary.json\n"
    )
    summary = json.loads((out / "summary.json").read_text())
    counts = {"taken": 120, "late": 0, "ahead": 0, "not_finite": 0, "minutes": 10}
    assert summary["telemetry"] == {**counts, "series": 2, "hosts": 1}
    assert summary["records"] == 140
    assert (out / "deadletters.jsonl").read_bytes() == b""


def test_samples_that_came_too_late_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "load.jsonl"
    path.write_text("\n".join([load(0, 0.5), load(600, 0.5), load(10, 0.5), load(620, 0.5)]))
    shown = run("replay", str(path), "--out", str(tmp_path / "out"))
    assert shown.stderr.startswith("0 events, 3 samples of 1 host (1 left out), 0 refused")


def test_each_sample_and_each_host_has_a_score(telemetry: str, tmp_path: Path) -> None:
    scores = tmp_path / "scores.jsonl"
    shown = run("replay", telemetry, "--out", str(tmp_path / "out"), "--scores", str(scores))
    assert shown.exit_code == 0
    lines = [json.loads(line) for line in scores.read_text().splitlines()]
    assert [len([line for line in lines if line["resource"] == name]) for name in ("cpu_available", "memory_free", "*")] == [
        60, 60, 60,
    ]  # fmt: skip
    assert all(list(line) == ["host", "resource", "time", "score", "fired"] for line in lines)
    fired = [(line["resource"], line["time"]) for line in lines if line["fired"]]
    assert ("cpu_available", rfc3339(NINE_MS + 500_000)) in fired
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["telemetry"]["scores"] == 180


def test_resources_of_a_host_in_several_files_are_scored_together(telemetry: str, tmp_path: Path) -> None:
    lines = Path(telemetry).read_text().splitlines()
    parts = []
    for name in ("cpu_available", "memory_free"):
        parts.append(tmp_path / f"{name}.jsonl")
        parts[-1].write_text("\n".join(line for line in lines if name in line))
    whole, apart = tmp_path / "whole.jsonl", tmp_path / "apart.jsonl"
    run("replay", telemetry, "--out", str(tmp_path / "out"), "--scores", str(whole))
    run("replay", *map(str, parts), "--out", str(tmp_path / "out"), "--scores", str(apart))
    assert apart.read_text() == whole.read_text()


@pytest.mark.parametrize("ahead_s", [600, 10**8])
def test_a_host_whose_clock_is_wrong_costs_the_others_no_score(telemetry: str, tmp_path: Path, ahead_s: int) -> None:
    lines = Path(telemetry).read_text().splitlines()
    outlier = [load(second + ahead_s, 0.5, host="wrong") for second in range(0, 600, 10)]
    mixed = tmp_path / "mixed.jsonl"
    triples = zip(lines[::2], lines[1::2], outlier, strict=True)
    mixed.write_text("\n".join(line for triple in triples for line in triple))
    whole, found = tmp_path / "whole.jsonl", tmp_path / "found.jsonl"
    run("replay", telemetry, "--out", str(tmp_path / "out"), "--scores", str(whole))
    shown = run("replay", str(mixed), "--out", str(tmp_path / "out"), "--scores", str(found))
    assert shown.exit_code == 0
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["telemetry"]["ahead"] > 50
    retained = [line for line in found.read_text().splitlines(keepends=True) if '"wrong"' not in line]
    assert "".join(retained) == whole.read_text()


@pytest.mark.parametrize("scores", ["no/such/folder/scores.jsonl", "."])
def test_scores_that_cannot_be_written_are_a_message(telemetry: str, tmp_path: Path, scores: str) -> None:
    shown = run("replay", telemetry, "--out", str(tmp_path / "out"), "--scores", str(tmp_path / scores))
    assert shown.exit_code == 2
    assert "scores" in shown.stderr


def test_an_extract_that_names_no_host_is_of_the_one_that_is_given(tmp_path: Path) -> None:
    path, scores = tmp_path / "extract.txt", tmp_path / "scores.jsonl"
    path.write_text("time measurement resource\n1093555200 0.91 availableCpu\n")
    for given, host in (((), "extract"), (("--host", "green.ufo.edu"), "green.ufo.edu")):
        shown = run("replay", str(path), "--out", str(tmp_path / "out"), "--scores", str(scores), *given)
        assert shown.exit_code == 0
        assert json.loads(scores.read_text())["host"] == host


def test_a_replay_of_nothing_but_damaged_telemetry_fails(tmp_path: Path) -> None:
    path = tmp_path / "load.lp"
    path.write_text("system,host=a load1=1.5 1\nsystem,host=a load1=1.5 2\n")
    shown = run("replay", str(path), "--out", str(tmp_path / "out"))
    assert shown.exit_code == 1
    assert "2 refused" in shown.stderr


def test_identify_leaves_samples_out_and_reports_it(jobs: str, telemetry: str) -> None:
    shown = run("identify", jobs, telemetry)
    assert shown.exit_code == 0
    assert shown.stdout.startswith("20 jobs, 20 identified, 1 application.")
    assert shown.stderr == "scalewatch: 120 samples of telemetry left out; they describe no job.\n"


def test_a_prediction_from_files_is_the_same_with_telemetry_beside_the_jobs(
    jobs: str, telemetry: str, tmp_path: Path
) -> None:
    both = tmp_path / "both.jsonl"
    both.write_text(Path(jobs).read_text() + "\n" + Path(telemetry).read_text())
    alone, reference = (run("predict", path, "lammps", "--n", "64") for path in (jobs, str(both)))
    assert (alone.exit_code, reference.exit_code) == (0, 0)
    assert reference.stdout == alone.stdout


def test_a_backtest_leaves_out_minutes_of_hosts_that_are_part_of_no_profile_and_counts_them(
    jobs: str, telemetry: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shown = run("backtest", jobs, telemetry, "--out", str(out))
    assert shown.exit_code == 0
    assert json.loads((out / "report.json").read_text())["history"]["ignored"] == {"host-minute": 10}
