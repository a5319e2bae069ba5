"""Backtests of a centre whose hosts tell counters and power: what was said of power is scored against what was measured."""

from itertools import takewhile
from pathlib import Path

import msgspec
import pytest

from agent.app import compose
from agent.app.demo import START_MS
from agent.app.replay import Replay
from agent.cli.backtest import Past, backtest, candidates, read
from agent.config.tree import Config
from agent.reports.backtest.page import page, summary
from agent.reports.backtest.report import Report
from agent.simulation.load import HOUR_MS, SharedNodes

HOURS = 5
STRICT = {"profiles.coverage_min": "0.97"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A file of jobs and one of what their hosts told."""
    folder = tmp_path_factory.mktemp("centre")
    nodes, end_ms = SharedNodes(2, START_MS), START_MS + HOURS * HOUR_MS
    jobs = takewhile(lambda event: event.time_ms < end_ms, nodes.events())
    reported = takewhile(lambda each: each.time_ms < end_ms, nodes.meters().messages(nodes.events()))
    (folder / "jobs.jsonl").write_bytes(b"\n".join(event.value for event in jobs))
    (folder / "meters.jsonl").write_bytes(b"\n".join(each.events for each in reported))
    return folder / "jobs.jsonl", folder / "meters.jsonl"


@pytest.fixture(scope="module")
def past(files: tuple[Path, Path]) -> Past:
    return history(*files)


@pytest.fixture(scope="module")
def report(past: Past) -> Report:
    return backtest(past, candidates(Config(), [STRICT]), top=3)


def history(*paths: Path) -> Past:
    config = Config()
    return read(config, [str(path) for path in paths], compose.file_options(config, "UTC"))


@pytest.mark.slow
def test_power_reported_at_the_start_is_scored_against_what_was_measured(report: Report) -> None:
    found = report.variants[0].profiled
    assert found is not None
    (row,) = found.by_application
    assert row.name == "simulated/image-analysis//nodes"
    assert row.runs == found.total.runs > 60
    assert row.answered > 0.6
    assert row.mean_w is not None
    assert 400 < row.mean_w < 3_200
    assert row.figures.median_error is not None
    assert row.figures.median_error < 0.06
    assert row.figures.coverage_90 is not None
    assert 0.75 < row.figures.coverage_90 <= 1.0
    assert 0.7 < row.measured + row.estimated <= 1.0
    assert len(found.sample) == row.figures.scored


@pytest.mark.slow
def test_it_states_which_counters_explain_and_what_became_of_profiles(report: Report) -> None:
    found = report.variants[0].profiled
    assert found is not None
    models = {model.target: model for model in found.by_application[0].explained}
    assert {"run_time_s", "system_power_w"} <= set(models)
    assert models["system_power_w"].explained
    assert found.settled == found.learned + sum(found.left_out.values())
    assert found.profiles >= found.learned > 60
    assert sum(found.readings_left_out.values()) > 0, "minutes of zero watts"


@pytest.mark.slow
def test_a_stricter_coverage_learns_from_fewer_profiles(report: Report) -> None:
    usual, strict = (variant.profiled for variant in report.variants)
    assert usual is not None
    assert strict is not None
    assert strict.settled == usual.settled
    assert strict.learned < usual.learned
    assert strict.left_out["too little telemetry"] > usual.left_out.get("too little telemetry", 0)


@pytest.mark.slow
def test_page_terminal_and_file_hold_it(report: Report) -> None:
    shown = page(report)
    assert "Power and counters" in shown
    assert "effect of counters" in shown
    assert shown.count(" data-from=") >= 60, "a dot with its band for each run"
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report
    assert any(
        "power (of all hosts)" in str(column.header)
        for part in summary(report)
        for column in getattr(part, "columns", [])
    )
    assert report.history.host_minutes > 36 * 60 * (HOURS - 1)


@pytest.mark.slow
def test_the_summary_of_a_replay_counts_profiles_and_scores_power_as_well(files: tuple[Path, Path]) -> None:
    config = Config()
    replay = Replay(config)
    replay.run([str(path) for path in files], compose.file_options(config, "UTC"))
    power = replay.summary()["power"]
    replay.agent.close()
    assert power["profiles"] > 90
    assert (power["applications"], power["scored"]) == (1, 64)
    assert power["median_of_median_errors"] < 0.06
    assert 0.75 < power["coverage_90"] <= 1.0


def test_without_telemetry_nothing_is_reported_of_power(tmp_path: Path) -> None:
    nodes, jobs = SharedNodes(2, START_MS), tmp_path / "jobs.jsonl"
    events = takewhile(lambda event: event.time_ms < START_MS + HOUR_MS // 2, nodes.events())
    jobs.write_bytes(b"\n".join(event.value for event in events))
    found = backtest(history(jobs), candidates(Config(), []))
    assert found.variants[0].profiled is None
    assert "Power and counters" not in page(found)
