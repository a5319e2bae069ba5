"""What a person is reported a run that ended, and of one that goes on."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.contracts.outputs import VERDICTS, Model, PredictedAtStart, RecentRun, Reliability
from sinks.web.formatting import between, next_limit, rounded
from sinks.web.views.job_messages import expected_end, limit_chance, outcome, record, trust
from tests.kit.messages import job
from tests.kit.recent import predicted, recent_run

BAND = predicted(1700.0, low_s=1620.0, high_s=2040.0)


@pytest.mark.parametrize(
    ("run_time_s", "page"),
    [
        (1860.0, "It took 31 min, 9.4 % longer than usual at 64 nodes; 9 of 10 runs like it take 27 to 34 min."),
        (1640.0, "It took 27 min, 3.5 % shorter than usual at 64 nodes; 9 of 10 runs like it take 27 to 34 min."),
        (1710.0, "It took 28 min, as long as usual at 64 nodes; 9 of 10 runs like it take 27 to 34 min."),
        (2500.0, "It took 42 min, 47 % longer than usual at 64 nodes. That is out of the ordinary: 9 of 10 runs like it take 27 to 34 min."),
        (850.0, "It took 14 min, 50 % shorter than usual at 64 nodes. That is out of the ordinary: 9 of 10 runs like it take 27 to 34 min."),
        (5100.0, "It took 1 h 25 min, 3 times as long as usual at 64 nodes. That is out of the ordinary: 9 of 10 runs like it take 27 to 34 min."),
    ],
)  # fmt: skip
def test_a_run_is_compared_with_what_is_usual_at_its_size(run_time_s: float, page: str) -> None:
    assert outcome(recent_run(run_time_s=run_time_s, predicted=BAND), "nodes") == page


def test_beside_a_narrow_band_a_run_is_asked_to_the_second_and_a_small_difference_is_no_alarm() -> None:
    narrow = predicted(664.0, low_s=644.0, high_s=688.0)
    assert outcome(recent_run(run_time_s=639.0, predicted=narrow), "nodes") == (
        "It took 10 min 39 s, 3.8 % shorter than usual at 64 nodes, a little outside of the ordinary: "
        "9 of 10 runs like it take 10 min 44 s to 11 min 28 s."
    )


def test_a_run_that_took_a_thousand_times_as_long_is_called_far_longer() -> None:
    assert "It took 2 h, far longer than usual at 64 nodes." in outcome(
        recent_run(run_time_s=7200.0, predicted=predicted(1e-3)), "nodes"
    )


def test_one_node_is_not_called_nodes() -> None:
    assert "longer than usual at 1 node;" in outcome(recent_run(n=1.0), "nodes")


def test_a_run_is_compared_with_similar_runs_where_no_curve_reported() -> None:
    page = outcome(recent_run(predicted=predicted(source="similar_runs", verdict="uncertain")), "nodes")
    assert page.startswith("It took 31 min, 9.4 % longer than similar runs do; 9 of 10")


def test_a_run_is_compared_with_its_settings_where_features_reported() -> None:
    page = outcome(recent_run(predicted=predicted(source="features")), "nodes")
    assert "longer than usual at its settings and 64 nodes;" in page


def test_a_run_that_was_predicted_under_load_is_compared_with_that_and_not_with_what_is_usual() -> None:
    page = outcome(recent_run(predicted=predicted(source="under_load")), "nodes")
    assert page == (
        "It took 31 min, 9.4 % longer than expected at 64 nodes under the load of its hosts; "
        "9 of 10 runs under such a load take 26 to 34 min."
    )


def test_a_band_of_another_coverage_is_reported_as_it_is() -> None:
    assert "8 of 10 runs like it" in outcome(recent_run(predicted=predicted(coverage=0.8)), "nodes")
    assert "85 % of runs like it" in outcome(recent_run(predicted=predicted(coverage=0.85)), "nodes")


@pytest.mark.parametrize("run_time_s", [0.0, 0.4, 9.0])
def test_runs_of_seconds_are_not_compared(run_time_s: float) -> None:
    page = outcome(recent_run(run_time_s=run_time_s, predicted=predicted(5.0)), "nodes")
    assert page.endswith("Runs this short are not compared: starting and ending take as long.")


def test_a_run_that_ended_at_once_though_it_usually_takes_long_is_compared() -> None:
    assert "out of the ordinary" in outcome(recent_run(run_time_s=2.0), "nodes")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"n": None}, "Its size was not reported, or changed while it ran"),
        ({"application_id": None}, "Its application could not be identified"),
        ({}, "It had not been predicted before it ended"),
    ],
)
def test_where_nothing_was_reported_before_it_states_why_it_is_not_compared(changes: dict[str, Any], why: str) -> None:
    page = outcome(recent_run(predicted=None, **changes), "nodes")
    assert page.startswith(f"It took 31 min. {why}")


@pytest.mark.parametrize(
    ("state", "page"),
    [
        ("FAILED", "It failed after 12 min; 9 of 10 runs like it take 27 to 34 min."),
        ("OUT_OF_MEMORY", "It ran out of memory after 12 min; 9 of 10 runs like it take 27 to 34 min."),
        ("NODE_FAIL", "One of its hosts failed after 12 min; 9 of 10 runs like it take 27 to 34 min."),
        ("CANCELLED", "It was cancelled after 12 min; 9 of 10 runs like it take 27 to 34 min."),
        ("PREEMPTED", "It had to make room for another job after 12 min; 9 of 10 runs like it take 27 to 34 min."),
        ("BOOT_FAIL", "Its hosts did not start; it ended after 12 min; 9 of 10 runs like it take 27 to 34 min."),
        ("REVOKED", "It ended as REVOKED after 12 min; 9 of 10 runs like it take 27 to 34 min."),
        ("{state}", "It ended as {state} after 12 min; 9 of 10 runs like it take 27 to 34 min."),
    ],
)
def test_a_run_that_did_not_complete_is_reported_to_have_ended_so_and_is_not_called_fast(state: str, page: str) -> None:
    assert outcome(recent_run(run_time_s=720.0, state=state, predicted=BAND), "nodes") == page


def test_a_run_that_failed_and_of_which_nothing_was_reported_has_a_short_message() -> None:
    assert outcome(recent_run(run_time_s=720.0, state="FAILED", predicted=None), "nodes") == "It failed after 12 min."


@pytest.mark.parametrize(
    ("limit_s", "page"),
    [
        (1200.0, "Its time limit of 20 min ended it; that was too short, for 9 of 10 runs like it take 27 to 34 min."),
        (3600.0, "Its time limit of 1 h ended it, though 9 of 10 runs like it take 27 to 34 min: something held it up"),
        (None, "Its time limit ended it after 31 min; 9 of 10 runs like it take 27 to 34 min."),
    ],
)
def test_a_run_that_met_its_limit_is_shown_whether_the_limit_was_too_short(limit_s: float | None, page: str) -> None:
    assert outcome(recent_run(state="TIMEOUT", time_limit_s=limit_s, predicted=BAND), "nodes").startswith(page)


@pytest.mark.parametrize("verdict", VERDICTS)
def test_it_is_shown_how_far_to_trust_each_verdict(verdict: str) -> None:
    page = trust(verdict)
    assert page.endswith(".")
    assert page.startswith("Take this with care.") is (verdict != "reliable")


def test_what_similar_runs_reported_is_never_called_reliable() -> None:
    assert trust("reliable", "similar_runs").startswith("Take this with care.")


def test_it_is_shown_how_often_such_bands_held() -> None:
    runs = [recent_run(run_time_s=1750.0)] * 3 + [recent_run(run_time_s=4000.0), recent_run(state="FAILED")]
    assert record(runs) == "Of the last 4 runs that were predicted, 3 fell inside their bands."
    assert record(runs[:1]) == "Of the last run that was predicted, 1 fell inside its band."
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
    assert page.startswith(("It ", "Its "))
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
        "It should end about 10:31 UTC, 31 min after its start; 9 of 10 such jobs end between 10:28 and 10:34."
    )


def test_an_end_on_another_day_is_reported_with_its_day() -> None:
    late = job(end="2026-11-21T03:00:00Z", end_low="2026-11-20T23:00:00Z", end_high="2026-11-21T04:00:00Z")
    page = expected_end(late)
    assert "about 2026-11-21 03:00 UTC" in page
    assert page.endswith("between 2026-11-20 23:00 and 2026-11-21 04:00.")


def test_an_end_that_nobody_knows_is_reported_as_unknown_and_why() -> None:
    unknown = job(known=False, end=None, run_time_s=None, reliability=Reliability("unknown"), model=Model("none", ()))
    assert expected_end(unknown) == "Its end cannot be predicted yet. Nothing is known of this application."


@pytest.mark.parametrize(
    ("chance", "page"),
    [
        (0.01, "It will hardly reach its time limit of 2 h: the chance is 1 %."),
        (0.2, "It may reach its time limit of 2 h: the chance is 20 %."),
        (0.8, "Its time limit of 2 h will probably end it, with a chance of 80 %: let it save its work"),
        (None, "The chance that it reaches its time limit of 2 h is not known."),
    ],
)
def test_a_running_job_is_shown_whether_it_may_hit_its_limit(chance: float | None, page: str) -> None:
    assert limit_chance(job(probability_exceeds_limit=chance)).startswith(page)


def test_a_job_without_a_limit_is_shown_nothing_of_it() -> None:
    assert limit_chance(job(time_limit_s=None)) == ""


def test_a_running_session_is_shown_its_limit_without_an_alarm() -> None:
    page = limit_chance(job(probability_exceeds_limit=0.9, session=True))
    assert page == "It is an interactive session: it ends when its user leaves, or at its time limit of 2 h."


@pytest.mark.parametrize(
    ("state", "page"),
    [
        ("TIMEOUT", "Its time limit of 1 h ended it, as is usual for an interactive session."),
        ("COMPLETED", "It took 31 min. It was an interactive session, so it is not compared with other runs."),
    ],
)
def test_a_session_that_ended_is_blamed_for_nothing(state: str, page: str) -> None:
    session = recent_run(state=state, application_id=None, predicted=None, time_limit_s=3600.0, session=True)
    assert outcome(session, "nodes") == page
