"""Runs that settled recently on the page of an application: dots, tables, and how right it was over time."""

import math
import re

from starlette.applications import Starlette

from processors.contracts.outputs import PredictedAtStart, UsefulSizes
from processors.contracts.service import RecentRun, SourceStatus
from sinks.web.access import Reader
from sinks.web.views.agent import source_rows
from sinks.web.views.application import ROLLING_MIN, history, run_rows, scaling_chart, scored, uprights
from tests.kit.get import get
from tests.kit.messages import alert, prediction
from tests.kit.pages import parsed, read
from tests.kit.service import FixedService

ID = "archer2/lammps/rhodo/nodes"
PAGE = f"/applications/{ID}"
EXPECTED = PredictedAtStart(
    run_time_s=100.0, low_s=90.0, high_s=110.0, coverage=0.9, verdict="reliable", source="curve"
)
OPERATOR = Reader(operator=True)


def run(number: int, run_time_s: float = 100.0, **changes: object) -> RecentRun:
    values: dict[str, object] = {
        "run_id": f"archer2/{number}@0", "system": "archer2", "job_id": str(number), "application_id": ID, "n": 16.0,
        "start_ms": 0, "end_ms": number * 60_000, "run_time_s": run_time_s, "state": "COMPLETED", "predicted": EXPECTED,
    }  # fmt: skip
    return RecentRun(**(values | changes))  # type: ignore[arg-type]  # plausible values of each field


def test_a_run_is_reported_against_its_band() -> None:
    rows = run_rows([run(1), run(2, 130.0), run(3, 50.0), run(4, state="FAILED"), run(5, predicted=None)], OPERATOR)
    assert [(row["kind"], row["verdict"]) for row in rows] == [
        ("run", "inside"), ("outside", "longer than"), ("outside", "shorter than"), ("", "failed"), ("run", "not predicted"),
    ]  # fmt: skip
    assert rows[1]["text"] == "job 2: 2 min 10 s at 16, longer than 1 min 30 s to 1 min 50 s"


def test_whoever_may_not_know_whose_a_run_was_sees_a_dot_without_a_name(app: Starlette, service: FixedService) -> None:
    service.held_runs = [run(4711, user="u-1")]
    (row,) = run_rows(service.held_runs, Reader(user="u-2"))
    assert (row["is_hidden"], row["kind"]) == (True, "run")
    assert "4711" not in row["text"]
    assert "job 4711" in read(app, PAGE)


def test_every_run_is_a_dot_of_the_chart_and_a_row_of_its_table(app: Starlette, service: FixedService) -> None:
    service.held_runs = [run(1), run(2, 130.0), run(3, state="TIMEOUT")]
    text = read(app, PAGE)
    parsed(text)
    assert len(re.findall(r'<tr data-kind="outside" data-words', text)) == 1
    assert len(re.findall(r'<tr data-kind="(?:run|outside)" data-words', text)) == 2
    assert "timeout" in text


def test_error_and_coverage_roll_over_the_newest_runs() -> None:
    rows = scored([run(number, 100.0 * math.exp(0.1)) for number in range(1, 8)])
    assert [row["rolling_error"] is None for row in rows] == [True] * (ROLLING_MIN - 1) + [False] * (8 - ROLLING_MIN)
    assert math.isclose(rows[-1]["error"], math.exp(0.1) - 1)
    assert rows[-1]["rolling_inside"] == 0.0
    assert scored([run(1, 50.0)])[0]["error"] == 1.0  # half as long is as far off as twice as long


def test_runs_that_failed_or_had_no_prediction_do_not_count_as_errors() -> None:
    assert scored([run(1, state="FAILED"), run(2, predicted=None), run(3, 0.0)]) == []
    assert history("lammps", [run(1, predicted=None)]) is None


def test_where_nothing_is_known_a_message_states_from_when_on(app: Starlette, service: FixedService) -> None:
    service.held_jobs = []
    text = read(app, PAGE)
    for shown in (
        "No run has ended since the agent started.",
        "Quality over time appears here after the first predicted run has ended",
        "The power of lammps is unknown.",
        "The effect of load is unknown.",
        "No counter or feature explains the run times yet",
        "No running jobs.",
    ):
        assert shown in text, shown


def test_the_chart_has_ticks_in_words_and_the_sizes_worth_asking_for(app: Starlette) -> None:
    text = read(app, PAGE)
    assert 'data-upright="96.0" data-label="knee 96"' in text
    assert 'data-upright="192.0" data-label="useful up to 192"' in text
    chart = scaling_chart(prediction())
    assert [parts for _, parts in chart.x.ticks] == ["1", "2", "4", "8", "16", "32", "64", "128", "256"]
    assert "1 min" in [parts for _, parts in chart.y.ticks]


def test_a_knee_that_is_the_largest_useful_size_is_one_line() -> None:
    assert [mark.label for mark in uprights(UsefulSizes(max=64.0, knee=64.0))] == ["knee, useful up to 64"]
    assert uprights(UsefulSizes()) == []


def test_a_size_that_stands_out_is_a_row_behind_the_chart(app: Starlette, service: FixedService) -> None:
    assert '<tr data-kind="anomaly"><th scope="row" class="number" data-x="16.0">16</th>' in read(app, PAGE)
    service.held_alerts = [alert(status="resolved")]
    assert 'data-kind="anomaly"' not in read(app, PAGE)


def test_an_old_source_stands_out(app: Starlette, service: FixedService) -> None:
    service.held_sources = [
        SourceStatus(topic="slurm", events=7, newest_ms=1_800_000_000_000),
        SourceStatus(topic="power", events=1, newest_ms=1_800_000_000_000 - 3_600_000),
    ]
    rows = source_rows(service.sources())
    assert [(row.topic, row.is_silent) for row in rows] == [("power", True), ("slurm", False)]
    text = read(app, "/")
    assert '<span class="pill warning">1 h behind</span>' in text
    assert "<strong>1</strong> silent source" in text


def test_without_sources_the_overview_states_why(app: Starlette) -> None:
    assert "No events processed since the agent started. A topic appears here with its first event" in read(app, "/")


def test_the_overview_counts_what_needs_attention(app: Starlette) -> None:
    text = get(app, "/").text
    for shown in (
        "<strong>1</strong> open alert<",
        "<strong>2</strong> applications<",
        "<strong>1</strong> running job<",
    ):
        assert shown in text, shown
