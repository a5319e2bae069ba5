"""`scalewatch backtest`: what a person types, sees, and finds in the folder."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agent.cli import main
from processors.alerts.policy import fingerprint

SWF = str(Path(__file__).parents[2] / "cases" / "decode" / "swf-kth" / "input.swf")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["backtest", *arguments], catch_exceptions=False, env={"COLUMNS": "120"})


def test_a_log_gives_a_page_figures_and_a_short_table(tmp_path: Path) -> None:
    shown = run(SWF, "--out", str(tmp_path / "results"), "--set", "alerts.open_max=5")
    assert shown.exit_code == 0, shown.output
    assert "22 runs from 1996-09-30 12:10" in shown.stdout
    assert "what if 1: alerts.open_max=5" in shown.stdout
    assert shown.stdout.splitlines()[-1] == f"see {tmp_path}/results/report.html"
    found = json.loads((tmp_path / "results" / "report.json").read_text())
    assert found["schema"] == "scalewatch.backtest/1"
    assert [variant["settings"] for variant in found["variants"]] == [{}, {"alerts.open_max": "5"}]
    pair = found["variants"][0]["comparisons"][0]  # a baseline is shown on the runs of which something was said
    figures = pair["baseline_prediction"] if pair["prediction"]["scored"] else pair["alone"]
    (requested,) = [line for line in shown.stdout.splitlines() if line.startswith("requested time")]
    assert requested.split()[2] == str(figures["scored"])
    assert figures["scored"] > 5
    assert (tmp_path / "results" / "report.html").read_text().startswith("<!doctype html>")


def test_a_quiet_run_reports_nothing(tmp_path: Path) -> None:
    shown = run(SWF, "--out", str(tmp_path), "--quiet", "--top", "2", "-c", str(config(tmp_path)))
    assert (shown.exit_code, shown.output) == (0, "")
    found = json.loads((tmp_path / "report.json").read_text())["variants"][0]
    assert len(found["by_application"]) == 2 < found["applications"]


def config(folder: Path) -> Path:
    path = folder / "agent.yaml"
    path.write_text("identify: {fallback: [user]}\n")
    return path


def test_files_without_a_run_end_with_code_1_and_a_page_that_reports_it(tmp_path: Path) -> None:
    (tmp_path / "jobs.txt").write_text("nothing\n")
    shown = run(str(tmp_path / "jobs.txt"), "--out", str(tmp_path))
    assert shown.exit_code == 1
    assert "0 runs" in shown.stdout
    assert "No completed run" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "output"),
    [
        (
            ("--set", "alerts.opn_max=5"),
            2,
            "scalewatch: --set: alerts.opn_max: is not a key of alerts; did you mean open_max?",
        ),
        (
            ("--set", "topics.prefix=x"),
            2,
            "only keys of the sections alerts, run_time, jobs, identify, profiles can be set.",
        ),
        (("--set", "alerts"), 2, "is not KEY=VALUE"),
        (("--since", "yesterday"), 2, "'yesterday' is not a time. Write the time as 2026-01-31"),
        (("--top", "0"), 2, "1<=x<=1000"),
        (("no-such-file",), 2, "The file no-such-file cannot be read"),
    ],
)
def test_what_is_wrong_is_one_message(tmp_path: Path, arguments: tuple[str, ...], code: int, output: str) -> None:
    shown = run(SWF, *arguments, "--out", str(tmp_path / "results"))
    assert shown.exit_code == code
    assert output in shown.stderr
    assert not (tmp_path / "results").exists()


def test_a_scheduler_is_played_with_limits_predictions_and_real_run_times(tmp_path: Path) -> None:
    shown = run(SWF, "--out", str(tmp_path), "--scheduler", "--machine-size", "100")
    assert shown.exit_code == 0, shown.output
    assert "EASY on 100 cores" in shown.stdout
    rows = [line.strip() for line in shown.stdout.splitlines()]
    for source in ("users' limits", "user's last two jobs", "Scalewatch", "perfect knowledge"):
        assert [row for row in rows if row.startswith(f"{source}  ")]
        assert [row for row in rows if row.startswith(f"{source}, shortest first")]
    found = json.loads((tmp_path / "report.json").read_text())["scheduling"]
    assert (found["unit"], found["size"], found["size_given"], found["jobs"]) == ("cores", 100.0, True, 22)
    by = {(row["source"], row["order"]): row for row in found["waits"]}
    assert len(by) == 8
    assert by["perfect", "first_come"]["too_short"] == 0
    assert by["predicted", "first_come"]["utilisation"] == pytest.approx(
        by["perfect", "first_come"]["utilisation"], rel=0.5
    )
    text = (tmp_path / "report.html").read_text()
    assert "Value to a scheduler" in text
    assert 'id="waits"' in text


def test_jobs_without_limits_are_no_log_for_a_scheduler(tmp_path: Path) -> None:
    job = {"type": "job.completed", "system": "exa", "job_id": "1", "application": "lammps", "n": 4, "unit": "nodes",
           "start": "2026-11-01T00:00:00Z", "run_time_s": 60.0, "state": "COMPLETED"}  # fmt: skip
    (tmp_path / "jobs.jsonl").write_text(json.dumps(job) + "\n")
    shown = run(str(tmp_path / "jobs.jsonl"), "--out", str(tmp_path / "results"), "--scheduler")
    assert shown.exit_code == 2
    assert "No job of the files has a size and a time limit" in shown.stderr
    assert not (tmp_path / "results").exists()


def test_the_help_covers_every_option() -> None:
    shown = run("--help").output
    for option in (
        "--out",
        "--set",
        "--since",
        "--until",
        "--top",
        "--scheduler",
        "--machine-size",
        "--config",
        "--timezone",
        "--quiet",
    ):
        assert option in shown
    assert "scalewatch backtest jobs.txt --out results" in shown


def test_labels_give_the_share_of_the_alerts_that_was_real_in_the_report_and_on_the_screen(tmp_path: Path) -> None:
    labels = {"application": "nektar", "system": "exa", "input": "", "unit": "nodes", "direction": "slow"}
    key = fingerprint("StrangeRun", labels)
    judged = tmp_path / "labels.jsonl"
    judged.write_text(json.dumps({"fingerprint": key, "time": "2026-11-20T14:00:00Z", "real": False}) + "\n")
    events = Path(__file__).parents[2] / "cases/fold/a-size-becomes-slow/events.jsonl"
    arguments = ["backtest", str(events), "--out", str(tmp_path / "out"), "--labels", str(judged)]
    shown = CliRunner().invoke(main, arguments, env={"COLUMNS": "120"})
    assert shown.exit_code == 0, shown.output
    assert ["StrangeRun", "1", "0", "0", "%"] in [line.split() for line in shown.output.splitlines()]
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["variants"][0]["precision"] == [{"alertname": "StrangeRun", "judged": 1, "real": 0}]
    assert "Alerts judged by labels" in (tmp_path / "out" / "report.html").read_text()
