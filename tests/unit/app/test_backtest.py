"""Backtests of small histories whose results are known."""

import json
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from agent.app import compose
from agent.cli.backtest import Candidate, Past, backtest, candidates, read
from agent.config.load import loads
from agent.config.tree import Config
from agent.reports.backtest.report import Report, Variant
from processors.contracts.errors import ConfigError
from tests.kit.scenario import SYSTEM

SIZES = (1, 2, 4, 8, 16)
HOUR_S = 3600
SWF = Path(__file__).parents[2] / "cases" / "decode" / "swf-kth" / "input.swf"


def run_time_s(n: float) -> float:
    return 100.0 + 1600.0 / n


def job(number: int, **changes: Any) -> dict[str, Any]:
    """Return a run that starts `number` hours into the history: a job of mary's that scales exactly."""
    n = SIZES[number % len(SIZES)]
    day, hour = divmod(number, 24)
    return {
        "type": "job.completed", "system": SYSTEM, "job_id": str(number), "application": "lammps", "n": n,
        "unit": "nodes", "start": f"2026-11-{1 + day:02d}T{hour:02d}:00:00Z", "run_time_s": run_time_s(n),
        "state": "COMPLETED", "user": "mary", "time_limit_s": 3000.0,
    } | changes  # fmt: skip


def past(folder: Path, *jobs: dict[str, Any], config: Config | None = None, **limits: Any) -> Past:
    path = folder / "jobs.jsonl"
    path.write_text("\n".join(map(json.dumps, jobs)))
    config = config or Config()
    return read(config, [str(path)], compose.file_options(config, "UTC"), **limits)


def scored(found: Past, *sets: dict[str, str], config: Config | None = None, **limits: Any) -> Report:
    return backtest(found, candidates(config or Config(), sets), **limits)


def only(found: Past, **limits: Any) -> Variant:
    return scored(found, **limits).variants[0]


def test_a_law_without_noise_is_predicted_without_error_from_its_second_round_on(tmp_path: Path) -> None:
    found = only(past(tmp_path, *map(job, range(40))), since_ms=None)
    (application,) = found.by_application
    assert (found.total.runs, application.application, application.row.runs) == (40, "lammps", 40)
    assert found.total.answered > 0.8
    assert {row.name for row in found.by_horizon} >= {"inside"}
    inside = next(row for row in found.by_horizon if row.name == "inside")
    assert inside.figures.median_error == pytest.approx(0, abs=0.01)
    assert inside.figures.coverage_90 == 1
    assert sorted({(run.n, run.run_time_s) for run in application.observed}) == [(n, run_time_s(n)) for n in SIZES]


def test_baselines_are_those_that_a_reader_can_work_out(tmp_path: Path) -> None:
    runs = [job(number) for number in range(20)]
    found = only(past(tmp_path, *runs))
    by_request, by_last_two = found.comparisons
    times = [run["run_time_s"] for run in runs]
    assert by_request.alone.mae_s == pytest.approx(fmean(3000.0 - time_s for time_s in times))
    expected = [3000.0, times[0], *(fmean(pair) for pair in pairwise(times[:-1]))]
    errors = [abs(prediction - time_s) for prediction, time_s in zip(expected, times, strict=True)]
    assert by_last_two.alone.mae_s == pytest.approx(fmean(errors))
    assert by_last_two.prediction.scored == by_last_two.baseline_prediction.scored == round(by_last_two.share * 20)
    assert by_last_two.prediction.mae_s is not None
    assert by_last_two.baseline_prediction.mae_s is not None
    assert by_last_two.prediction.mae_s < by_last_two.baseline_prediction.mae_s


def test_nothing_that_is_reported_knows_what_comes_after(tmp_path: Path) -> None:
    calm = [job(number, run_time_s=run_time_s(SIZES[number % 5]) * (1 + number % 3 / 10)) for number in range(30)]
    outlier = [*calm[:29], calm[29] | {"run_time_s": 9000.0}]
    found, other = (only(past(tmp_path, *jobs)).total.figures for jobs in (calm, outlier))
    assert found.scored == other.scored
    difference_s = (other.mae_s or 0) * other.scored - (found.mae_s or 0) * found.scored
    assert 8000 < difference_s < 9000  # the error of the last run alone


def test_a_job_that_runs_beside_others_is_predicted_from_those_that_had_ended(tmp_path: Path) -> None:
    joint = [job(number, start="2026-11-01T00:00:00Z", n=4, run_time_s=500.0) for number in range(10)]
    later = [job(number, start="2026-11-01T01:00:00Z", n=4, run_time_s=500.0) for number in range(10, 15)]
    found = only(past(tmp_path, *later, *joint))
    assert (found.total.runs, found.total.figures.scored) == (15, 5)


def test_runs_that_end_now_raise_alerts_and_settings_decide_how_many(tmp_path: Path) -> None:
    jobs = [job(number) for number in range(40)]
    jobs += [job(number, run_time_s=run_time_s(SIZES[number % 5]) * 1.8) for number in (40, 47)]
    history = past(tmp_path, *jobs)
    off = {"alerts.strange_run.enabled": "false"}
    high = {"alerts.strange_run.factor_min": "3", "alerts.slow_size.enabled": "false"}
    report = scored(history, off, high)
    counts = [{alert.name: alert for alert in found.alerts} for found in report.variants]
    assert [found.name for found in report.variants[1:]] == [
        "alerts.strange_run.enabled=false",
        "alerts.strange_run.factor_min=3, alerts.slow_size.enabled=false",
    ]
    outlier = counts[0]["StrangeRun"]
    assert outlier.fired >= 1
    assert outlier.per_1000_runs == pytest.approx(1000 * outlier.fired / 42)
    assert "lammps" in outlier.examples[0]
    assert not {"StrangeRun"} & (set(counts[1]) | set(counts[2]))
    assert report.variants[0].total == report.variants[1].total


def test_a_variant_is_what_its_settings_give_alone(tmp_path: Path) -> None:
    history = past(tmp_path, *map(job, range(25)))
    settings = {"run_time.publish_after_runs": "10"}
    reference = scored(history, settings).variants[1]
    ((_, alone),) = [(each.name, each.config) for each in candidates(Config(), [settings])[1:]]
    assert backtest(history, [Candidate(reference.name, settings, alone)]).variants[0] == reference
    assert reference.total != scored(history).variants[0].total


def test_the_same_setting_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="is given twice"):
        candidates(Config(), [{"alerts.open_max": "5"}, {"alerts.open_max": "5"}])


def test_earlier_runs_are_learned_and_later_ones_left_out(tmp_path: Path) -> None:
    jobs = [job(number) for number in range(40)]
    start_ms, end_ms = (1_793_491_200_000 + hours * HOUR_S * 1000 for hours in (20, 30))  # of 2026-11-01
    report = scored(past(tmp_path, *jobs, until_ms=end_ms), since_ms=start_ms)
    assert (report.history.first, report.history.scored_since) == ("2026-11-01T00:00:00Z", "2026-11-01T20:00:00Z")
    assert report.variants[0].total.runs == 10
    assert report.variants[0].total.answered == 1
    assert sum(period.row.runs for period in report.variants[0].periods) == 10


def test_what_is_refused_is_reported(tmp_path: Path) -> None:
    config = loads(f"systems: {{{SYSTEM}: {{partition: 1}}}}\ntopics: {{journal_partitions: 2}}")
    history = past(tmp_path, job(1), job(2, system="other"), job(3, n=-1), config=config)
    report = scored(history, config=config)
    assert (report.history.runs, report.history.refused) == (1, 2)
    assert report.history.refused_by_reason["unknown-system"] == 1
    assert report.variants[0].total.runs == 1


def test_no_job_at_all_is_a_report_of_nothing(tmp_path: Path) -> None:
    report = scored(past(tmp_path))
    assert (report.history.runs, report.variants[0].total.runs, report.variants[0].periods) == (0, 0, ())


def test_a_workload_log_is_compared_with_requests(tmp_path: Path) -> None:
    del tmp_path
    config = loads("identify: {fallback: [user]}")
    history = read(config, [str(SWF)], compose.file_options(config, "UTC"))
    report = backtest(history, candidates(config, []))
    assert report.history.runs == report.variants[0].total.runs + sum(
        row.runs for row in report.variants[0].by_state if row.name != "COMPLETED"
    )
    assert report.variants[0].comparisons[0].alone.scored == report.variants[0].total.runs > 10


def test_progress_ends_with_all_events_of_all_variants(tmp_path: Path) -> None:
    reported: list[int] = []
    history = past(tmp_path, *map(job, range(5)))
    scored(history, {"alerts.open_max": "5"}, on_progress=reported.append)
    assert reported == sorted(reported)
    assert reported[-1] == 2 * len(history.moments) == 20
