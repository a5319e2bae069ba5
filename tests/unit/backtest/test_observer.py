"""What counts as said of a run, and what it is scored against."""

from typing import Any

import pytest

from agent.reports.backtest.observer import Observer, variant
from agent.reports.backtest.report import Variant
from agent.reports.backtest.scores import LastTwo
from processors.contracts.events import Evidence, JobCompleted, JobStarted
from processors.contracts.names import rfc3339
from processors.contracts.outputs import JobPrediction
from tests.kit.messages import job, prediction
from tests.kit.scenario import completed, moment_ms

TEN_MS = moment_ms("10:00")


def start_of(event: JobCompleted) -> JobStarted:
    return JobStarted(
        event.system, job_id=event.job_id, run_id=event.run_id, start_ms=event.start_ms, evidence=event.evidence
    )


def job_prediction(job_id: str, start_ms: int, run_time_s: float | None, **changes: Any) -> JobPrediction:
    known = run_time_s is not None
    band = {"run_time_s": run_time_s, "low_s": run_time_s / 2, "high_s": run_time_s * 2} if run_time_s else {}
    nothing = {"run_time_s": None, "low_s": None, "high_s": None}
    return job(job_id, **{"system": "exa", "start": rfc3339(start_ms), "known": known, **nothing, **band, **changes})


def watched(event: JobCompleted, *reported: tuple[int, JobPrediction], since_ms: int = 0) -> Variant:
    """Return the report of one run; each message comes so many seconds after its start."""
    observer = Observer([since_ms, TEN_MS * 2])
    observer.started(start_of(event))
    for after_s, message in reported:
        observer.take([message], event.start_ms + after_s * 1000)
    observer.ended(event)
    return result_of(observer)


def result_of(observer: Observer) -> Variant:
    return variant("configured", {}, observer, 12)


def test_what_is_reported_at_the_start_is_scored_at_the_end() -> None:
    row = watched(completed("1", TEN_MS, 100.0), (0, job_prediction("1", TEN_MS, 80.0))).total
    assert (row.runs, row.answered, row.figures.mae_s, row.figures.coverage_90) == (1, 1.0, 20.0, 1.0)


def test_a_run_of_which_nothing_was_reported_counts_as_not_answered() -> None:
    row = watched(completed("1", TEN_MS, 100.0), (0, job_prediction("1", TEN_MS, None))).total
    assert (row.runs, row.answered, row.figures.scored) == (1, 0.0, 0)


def test_a_revision_during_the_run_does_not_replace_what_was_reported() -> None:
    result = watched(
        completed("1", TEN_MS, 100.0), (0, job_prediction("1", TEN_MS, 80.0)), (30, job_prediction("1", TEN_MS, 99.0))
    )
    assert result.total.figures.mae_s == 20.0


@pytest.mark.parametrize(("after_s", "answered"), [(5, 1.0), (61, 0.0)])
def test_evidence_shortly_after_the_start_still_counts(after_s: int, answered: float) -> None:
    reported = [(0, job_prediction("1", TEN_MS, None)), (after_s, job_prediction("1", TEN_MS, 80.0))]
    assert watched(completed("1", TEN_MS, 100.0), *reported).total.answered == answered


def test_what_is_reported_of_another_run_of_the_job_is_not_scored() -> None:
    observer = watched(completed("1", TEN_MS, 100.0), (0, job_prediction("1", TEN_MS - 1000, 80.0)))
    assert observer.total.answered == 0


def test_a_repeated_completion_counts_once() -> None:
    event = completed("1", TEN_MS, 100.0)
    observer = Observer([0, TEN_MS * 2])
    observer.started(start_of(event))
    observer.ended(event)
    observer.ended(event)
    assert result_of(observer).total.runs == 1


def test_runs_that_did_not_complete_are_scored_apart() -> None:
    result = watched(completed("1", TEN_MS, 100.0, "TIMEOUT"), (0, job_prediction("1", TEN_MS, 80.0)))
    assert result.total.runs == 0
    assert [(row.name, row.figures.scored) for row in result.by_state] == [("TIMEOUT", 1)]


def test_a_run_from_before_is_learned_and_not_scored() -> None:
    event = completed("1", TEN_MS, 100.0, user="mary")
    observer = Observer([TEN_MS + 1, TEN_MS * 2])
    observer.started(start_of(event))
    observer.ended(event)
    assert result_of(observer).total.runs == 0
    observer.started(start_of(completed("2", TEN_MS + 200_000, 40.0, user="mary")))
    observer.ended(completed("2", TEN_MS + 200_000, 40.0, user="mary"))
    (last_two,) = result_of(observer).comparisons
    assert (last_two.baseline, last_two.alone.mae_s) == ("last_two", 60.0)


@pytest.mark.parametrize(
    ("n", "horizon"), [(4, "inside"), (16, "up_to_2x"), (2, "up_to_2x"), (32, "up_to_4x"), (64, "beyond_4x")]
)
def test_the_horizon_is_that_of_the_curve_published_at_the_start(n: float, horizon: str) -> None:
    observer = Observer([0, TEN_MS * 2])
    event = completed("1", TEN_MS, 100.0)
    key = {"application": "lammps", "input": "", "unit": "nodes"}
    observer.take([prediction("lammps", system="exa", input="", unit="nodes", sizes=(4.0, 8.0))], TEN_MS)
    observer.started(start_of(event))
    observer.take([job_prediction("1", TEN_MS, 80.0, n=n, **key)], TEN_MS)
    observer.take([prediction("lammps", system="exa", input="", unit="nodes", sizes=(1.0, 99.0))], TEN_MS + 1)
    observer.ended(event)
    assert [row.name for row in result_of(observer).by_horizon] == [horizon]


def test_what_is_reported_without_a_curve_has_a_row_of_its_own() -> None:
    result = watched(completed("1", TEN_MS, 100.0), (0, job_prediction("1", TEN_MS, 80.0)))
    assert [row.name for row in result.by_horizon] == ["no_curve"]


def test_the_chance_to_exceed_the_limit_meets_what_happened() -> None:
    observer = Observer([0, TEN_MS * 2])
    for number, run_time_s in enumerate([50.0, 100.0, 100.5, 20.0]):
        start_ms = TEN_MS + number * 200_000
        event = completed(str(number), start_ms, run_time_s, "TIMEOUT" if run_time_s >= 100 else "COMPLETED")
        observer.started(start_of(event))
        reported = job_prediction(
            str(number), start_ms, 80.0, time_limit_s=100.0, probability_exceeds_limit=0.25 + number / 100
        )
        observer.take([reported], start_ms)
        observer.ended(event)
    (found,) = result_of(observer).limit
    assert (found.observed, found.runs) == (0.5, 4)
    assert found.predicted == pytest.approx(0.265)
    assert found.low < 0.5 < found.high


def test_a_cancelled_run_reports_nothing_of_its_limit() -> None:
    reported = job_prediction("1", TEN_MS, 80.0, time_limit_s=100.0, probability_exceeds_limit=0.25)
    assert watched(completed("1", TEN_MS, 9.0, "CANCELLED"), (0, reported)).limit == ()


@pytest.mark.parametrize("high_s", [float("nan"), float("inf"), None])
def test_a_number_that_is_none_is_not_taken_for_an_answer(high_s: float | None) -> None:
    reported = job_prediction("1", TEN_MS, 80.0, high_s=high_s)
    assert watched(completed("1", TEN_MS, 100.0), (0, reported)).total.answered == 0


def test_the_last_two_jobs_are_those_of_the_user_and_at_most_the_request() -> None:
    last, evidence = LastTwo(), Evidence(user="mary", time_limit_s=100.0)
    for run_time_s in (1000.0, 60.0, 90.0):
        last.learn("exa", evidence, run_time_s)
    assert last.expected_s("exa", evidence) == 75.0
    assert last.expected_s("exa", Evidence(user="mary", time_limit_s=70.0)) == 70.0
    assert last.expected_s("other", evidence) == 100.0
    assert last.expected_s("exa", Evidence(user="john")) is None
    assert last.expected_s("exa", Evidence(time_limit_s=5.0)) is None
