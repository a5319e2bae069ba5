"""What a person is reported a run that ended, and of one that goes on."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.advice import next_limit
from processors.contracts.outputs import VERDICTS, Model, PredictedAtStart, Reliability
from processors.contracts.service import RecentRun
from sinks.web.formatting import between, rounded
from sinks.web.views.jobs import expected_end, limit_chance, outcome, record, trust
from tests.kit.cases import each
from tests.kit.messages import job
from tests.kit.recent import predicted, recent_run

BAND = predicted(1700.0, low_s=1620.0, high_s=2040.0)


@pytest.mark.parametrize(
    ("run_time_s", "page"),
    [
        (1860.0, "The run took 31 min, 9.4 % longer than usual at 64 nodes; 9 of 10 such runs take 27 to 34 min."),
        (1640.0, "The run took 27 min, 3.5 % shorter than usual at 64 nodes; 9 of 10 such runs take 27 to 34 min."),
        (1710.0, "The run took 28 min, as long as usual at 64 nodes; 9 of 10 such runs take 27 to 34 min."),
        (2500.0, "The run took 42 min, 47 % longer than usual at 64 nodes. That is unusual: 9 of 10 such runs take 27 to 34 min."),
        (850.0, "The run took 14 min, 50 % shorter than usual at 64 nodes. That is unusual: 9 of 10 such runs take 27 to 34 min."),
        (5100.0, "The run took 1 h 25 min, 3 times as long as usual at 64 nodes. That is unusual: 9 of 10 such runs take 27 to 34 min."),
    ],
)  # fmt: skip
def test_a_run_is_compared_with_what_is_usual_at_its_size(run_time_s: float, page: str) -> None:
    assert outcome(recent_run(run_time_s=run_time_s, predicted=BAND), "nodes") == page


def test_beside_a_narrow_band_a_run_is_asked_to_the_second_and_a_small_difference_is_no_alarm() -> None:
    narrow = predicted(664.0, low_s=644.0, high_s=688.0)
    assert outcome(recent_run(run_time_s=639.0, predicted=narrow), "nodes") == (
        "The run took 10 min 39 s, 3.8 % shorter than usual at 64 nodes, slightly outside the usual range: "
        "9 of 10 such runs take 10 min 44 s to 11 min 28 s."
    )


def test_a_run_that_took_a_thousand_times_as_long_is_called_far_longer() -> None:
    assert "The run took 2 h, far longer than usual at 64 nodes." in outcome(
        recent_run(run_time_s=7200.0, predicted=predicted(1e-3)), "nodes"
    )


def test_one_node_is_not_called_nodes() -> None:
    assert "longer than usual at 1 node;" in outcome(recent_run(n=1.0), "nodes")


def test_a_run_is_compared_with_similar_runs_where_no_curve_reported() -> None:
    page = outcome(recent_run(predicted=predicted(source="similar_runs", verdict="uncertain")), "nodes")
    assert page.startswith("The run took 31 min, 9.4 % longer than similar runs; 9 of 10")


def test_a_run_is_compared_with_its_settings_where_features_reported() -> None:
    page = outcome(recent_run(predicted=predicted(source="features")), "nodes")
    assert "longer than usual with its settings at 64 nodes;" in page


def test_a_run_that_was_predicted_under_load_is_compared_with_that_and_not_with_what_is_usual() -> None:
    page = outcome(recent_run(predicted=predicted(source="under_load")), "nodes")
    assert page == (
        "The run took 31 min, 9.4 % longer than predicted at 64 nodes under the load of the hosts; "
        "9 of 10 runs under such load take 26 to 34 min."
    )


def test_a_band_of_another_coverage_is_reported_as_it_is() -> None:
    assert "8 of 10 such runs" in outcome(recent_run(predicted=predicted(coverage=0.8)), "nodes")
    assert "85 % of such runs" in outcome(recent_run(predicted=predicted(coverage=0.85)), "nodes")


@pytest.mark.parametrize("run_time_s", [0.0, 0.4, 9.0])
def test_runs_of_seconds_are_not_compared(run_time_s: float) -> None:
    page = outcome(recent_run(run_time_s=run_time_s, predicted=predicted(5.0)), "nodes")
    assert page.endswith("Runs this short are not compared, because start-up and shutdown dominate.")


def test_a_run_that_ended_at_once_though_it_usually_takes_long_is_compared() -> None:
    assert "That is unusual" in outcome(recent_run(run_time_s=2.0), "nodes")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"n": None}, "Its size is unknown or changed during the run"),
        ({"application_id": None}, "Its application could not be identified"),
        ({}, "It had no prediction to compare with"),
    ],
)
def test_where_nothing_was_reported_before_it_states_why_it_is_not_compared(changes: dict[str, Any], why: str) -> None:
    page = outcome(recent_run(predicted=None, **changes), "nodes")
    assert page.startswith(f"The run took 31 min. {why}")


@each(
    ("state", "page"),
    [
        ("FAILED", "The run failed after 12 min; 9 of 10 such runs take 27 to 34 min."),
        ("OUT_OF_MEMORY", "The run ran out of memory after 12 min; 9 of 10 such runs take 27 to 34 min."),
        ("NODE_FAIL", "A host of the run failed after 12 min; 9 of 10 such runs take 27 to 34 min."),
        ("CANCELLED", "The run was cancelled after 12 min; 9 of 10 such runs take 27 to 34 min."),
        ("PREEMPTED", "The run was preempted by another job after 12 min; 9 of 10 such runs take 27 to 34 min."),
        ("BOOT_FAIL", "The hosts of the run did not boot; it ended after 12 min; 9 of 10 such runs take 27 to 34 min."),
        ("REVOKED", "The run ended with state REVOKED after 12 min; 9 of 10 such runs take 27 to 34 min."),
        ("{state}", "The run ended with state {state} after 12 min; 9 of 10 such runs take 27 to 34 min."),
    ],
)
def test_a_run_that_did_not_complete_is_reported_to_have_ended_so_and_is_not_called_fast(state: str, page: str) -> None:
    assert outcome(recent_run(run_time_s=720.0, state=state, predicted=BAND), "nodes") == page


def test_a_run_that_failed_and_of_which_nothing_was_reported_has_a_short_message() -> None:
    assert (
        outcome(recent_run(run_time_s=720.0, state="FAILED", predicted=None), "nodes") == "The run failed after 12 min."
    )


@pytest.mark.parametrize(
    ("limit_s", "page"),
    [
        (
            1200.0,
            "The run was ended by its time limit of 20 min. The limit was too short: 9 of 10 such runs take 27 to 34 min.",
        ),
        (
            3600.0,
            "The run was ended by its time limit of 1 h, although 9 of 10 such runs take 27 to 34 min. Something slowed the run",
        ),
        (None, "The run was ended by its time limit after 31 min; 9 of 10 such runs take 27 to 34 min."),
    ],
)
def test_a_run_that_met_its_limit_is_shown_whether_the_limit_was_too_short(limit_s: float | None, page: str) -> None:
    assert outcome(recent_run(state="TIMEOUT", time_limit_s=limit_s, predicted=BAND), "nodes").startswith(page)


@each("verdict", VERDICTS)
def test_it_is_shown_how_far_to_trust_each_verdict(verdict: str) -> None:
    page = trust(verdict)
    assert page.endswith(".")
    assert page.startswith("Use the prediction with care.") is (verdict != "reliable")


def test_what_similar_runs_reported_is_never_called_reliable() -> None:
    assert trust("reliable", "similar_runs").startswith("Use the prediction with care.")


def test_it_is_shown_how_often_such_bands_held() -> None:
    runs = [recent_run(run_time_s=1750.0)] * 3 + [recent_run(run_time_s=4000.0), recent_run(state="FAILED")]
    assert record(runs) == "Of the last 4 predicted runs, 3 fell inside their bands."
    assert record(runs[:1]) == "The last predicted run fell inside its band."
    assert record([recent_run(predicted=None)]) == ""


times = st.floats(min_value=0.0, max_value=1e12)
bands = st.builds(
    PredictedAtStart,
    run_time_s=times,
    low_s=times,
    high_s=times,
    coverage=st.floats(0.01, 1.0),
    verdict=st.sampled_from(VERDICTS),
    source=st.sampled_from(["curve", "similar_runs", "features"]),
)


@given(
    st.builds(
        recent_run,
        run_time_s=times,
        predicted=st.none() | bands,
        state=st.sampled_from(["COMPLETED", "TIMEOUT", "FAILED", "", "ODD"]),
        n=st.none() | st.floats(1e-3, 1e9),
        time_limit_s=st.none() | times,
    )
)
def test_every_run_has_a_whole_message(run: RecentRun) -> None:
    page = outcome(run, "nodes")
    assert page.startswith(("The run ", "The hosts ", "A host "))
    assert page.endswith(".")
    assert not {"nan", "inf", "None"} & set(page.split())


@given(times, times)
def test_a_range_of_times_never_states_one_time_twice_unless_it_is_one(low_s: float, high_s: float) -> None:
    first, _, last = between(low_s, high_s).partition(" to ")
    assert last
    assert rounded(low_s)
    assert first != last or math.isclose(low_s, high_s, rel_tol=0.1)


@given(st.floats(min_value=0.0, max_value=1e8))
def test_a_time_limit_is_whole_minutes_and_never_below_what_is_needed(seconds: float) -> None:
    limit_s = next_limit(seconds)
    assert limit_s >= seconds
    assert limit_s % 60 == 0
    assert limit_s <= max(seconds * 1.25, seconds + 300)


def test_a_running_job_is_shown_when_it_should_end() -> None:
    assert expected_end(job()) == (
        "The job should end at about 10:31 UTC, 31 min after its start; 9 of 10 such jobs end between 10:28 and 10:34."
    )


def test_an_end_on_another_day_is_reported_with_its_day() -> None:
    late = job(end="2026-11-21T03:00:00Z", end_low="2026-11-20T23:00:00Z", end_high="2026-11-21T04:00:00Z")
    page = expected_end(late)
    assert "at about 2026-11-21 03:00 UTC" in page
    assert page.endswith("between 2026-11-20 23:00 and 2026-11-21 04:00.")


def test_an_end_that_nobody_knows_is_reported_as_unknown_and_why() -> None:
    unknown = job(known=False, end=None, run_time_s=None, reliability=Reliability("unknown"), model=Model("none", ()))
    assert expected_end(unknown) == "The end of the job cannot be predicted yet. No run of this application is known."


@pytest.mark.parametrize(
    ("chance", "page"),
    [
        (0.01, "The job will hardly reach its time limit of 2 h (chance 1 %)."),
        (0.2, "The job may reach its time limit of 2 h (chance 20 %)."),
        (0.8, "The job will probably be ended by its time limit of 2 h (chance 80 %). Let it save its work"),
        (None, "The chance that the job reaches its time limit of 2 h is unknown."),
    ],
)
def test_a_running_job_is_shown_whether_it_may_hit_its_limit(chance: float | None, page: str) -> None:
    assert limit_chance(job(probability_exceeds_limit=chance)).startswith(page)


def test_a_job_without_a_limit_is_shown_nothing_of_it() -> None:
    assert limit_chance(job(time_limit_s=None)) == ""


def test_a_running_session_is_shown_its_limit_without_an_alarm() -> None:
    page = limit_chance(job(probability_exceeds_limit=0.9, session=True))
    assert page == "The job is an interactive session: it ends when its user leaves, or at its time limit of 2 h."


@pytest.mark.parametrize(
    ("state", "page"),
    [
        ("TIMEOUT", "The run was ended by its time limit of 1 h, as usual for an interactive session."),
        ("COMPLETED", "The run took 31 min. Interactive sessions are not compared with other runs."),
    ],
)
def test_a_session_that_ended_is_blamed_for_nothing(state: str, page: str) -> None:
    session = recent_run(state=state, application_id=None, predicted=None, time_limit_s=3600.0, session=True)
    assert outcome(session, "nodes") == page
