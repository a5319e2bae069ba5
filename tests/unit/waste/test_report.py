"""A week with known waste: what is found, what is not, and what is left open."""

import json
from datetime import UTC
from typing import Any

import jsonschema
import msgspec
import pytest

from agent.app.compose import encode
from agent.describe.describe import schema
from agent.reports.waste import Total, Waste, WasteBounds, WeekReport, report
from agent.reports.week import WeekRuns, week_named
from processors.contracts.outputs import Emission, PredictedAtStart, Prediction, Range, SlowedBy
from tests.kit.week_runs import curve, run_time_s, settled, slowing_curve

AT_START = PredictedAtStart(
    run_time_s=100.0, low_s=90.0, high_s=110.0, coverage=0.9, verdict="reliable", source="curve"
)


def week(
    *runs: Emission, known: Prediction | None = None, user: str | None = None, bounds: WasteBounds | None = None
) -> WeekReport:
    whole = week_named("2026-W47", UTC)
    collected = WeekRuns(whole, user)
    collected.write([encode(known or curve()), *runs])
    return report(whole, collected, bounds or WasteBounds(), "1.0")


def waste(*runs: Emission, **given: Any) -> dict[str, Waste]:
    return {found.kind: found for user in week(*runs, **given).users for found in user.waste}


def total(*runs: Emission, **given: Any) -> Total:
    (found,) = week(*runs, **given).totals
    return found


def test_what_a_run_used_beyond_the_useful_size_is_lost() -> None:
    found = waste(settled("1", 128.0))["beyond_useful"]
    needed = 64 * run_time_s(64) / 3600
    assert found.lost.value == pytest.approx(128 * run_time_s(128) / 3600 - needed)
    assert found.lost.high - found.lost.low == pytest.approx(0.1 * needed)
    assert found.advice == (
        (
            "Request 64 nodes instead of 128 for lammps rhodo: a run then takes 15 to 16 min instead of 10 to 11 min, "
            "and 15.5 to 17.1 node-hours instead of 22 to 24."
        ),
    )
    assert [example.job_id for example in found.examples] == ["1"]


def test_runs_on_a_useful_size_waste_nothing() -> None:
    found = week(settled("1", 64.0), settled("2", 8.0))
    assert [user.waste for user in found.users] == [()]
    assert found.totals[0].lost.value == found.totals[0].not_judged == 0.0


def test_a_lower_bound_of_efficiency_takes_more_for_useful() -> None:
    assert waste(settled("1", 128.0), bounds=WasteBounds(efficiency_min=0.4)) == {}


def test_a_size_that_costs_no_more_than_the_band_of_the_smaller_one_is_no_waste() -> None:
    points = tuple(msgspec.structs.replace(point, high_s=point.run_time_s * 1.5) for point in curve().curve)
    found = week(settled("1", 128.0), known=curve(curve=points))
    assert found.users[0].waste == ()
    assert found.totals[0].not_judged == 0.0


def test_a_run_that_took_far_longer_than_its_size_does_is_held_to_the_size_alone() -> None:
    usual, slow = (waste(settled("1", 128.0, time_s))["beyond_useful"] for time_s in (run_time_s(128), 3000.0))
    assert slow.lost.value == pytest.approx(usual.lost.value + 0.05 * 128 * run_time_s(128) / 3600)


def test_runs_on_more_than_the_fastest_size_are_their_own_kind() -> None:
    found = waste(settled("1", 128.0, 1000.0), known=slowing_curve())
    assert set(found) == {"slows_down"}
    assert (
        found["slows_down"]
        .advice[0]
        .startswith("lammps rhodo gets slower beyond 64 nodes. Request 64 nodes instead of 128: ")
    )


@pytest.mark.parametrize(
    "known",
    [
        curve(reliable_n=Range(1.0, 32.0)),
        curve(reliable_n=None),
        curve(application="nektar"),
        curve(reliable_n=Range(128.0, 256.0)),
    ],
)
def test_what_cannot_be_relied_on_is_not_judged_and_reported_as_a_share(known: Prediction) -> None:
    found = week(settled("1", 128.0), known=known)
    assert found.users[0].waste == ()
    assert found.totals[0].not_judged_share == 1.0


def test_the_share_that_is_not_judged_is_of_what_was_used() -> None:
    judged, open_ = settled("1", 64.0, 3600.0), settled("2", 64.0, 1200.0, application_id=None)
    found = total(judged, open_)
    assert found.used == pytest.approx(64 + 64 / 3)
    assert found.not_judged_share == pytest.approx(0.25)


def test_a_limit_ten_times_too_long_is_named_with_the_limit_that_had_held() -> None:
    found = waste(settled("1", 64.0, time_limit_s=86_400.0))["long_limit"]
    assert found.lost.value == pytest.approx(64 * (86_400 - 1200) / 3600)
    assert found.advice == (
        "Request 20 min instead of 1 d for lammps rhodo on 64 nodes: runs take 15 to 16 min, and jobs with short limits start sooner.",
    )


@pytest.mark.parametrize("limit_s", [1200.0, 9.9 * 1.05 * run_time_s(64), None])
def test_a_limit_less_than_ten_times_the_upper_end_of_the_band_is_none(limit_s: float | None) -> None:
    assert waste(settled("1", 64.0, time_limit_s=limit_s)) == {}


def test_a_run_that_needed_its_long_limit_is_spared() -> None:
    assert waste(settled("1", 64.0, 9000.0, time_limit_s=86_400.0)) == {}


def test_without_a_curve_the_prediction_at_the_start_judges_limits_where_it_was_reliable() -> None:
    def found(**changes: Any) -> dict[str, Waste]:
        at_start = msgspec.structs.replace(AT_START, **changes)
        return waste(settled("1", 4.0, 100.0, predicted=at_start), known=curve(application="nektar"))

    assert set(found()) == {"long_limit"}
    assert found(verdict="uncertain") == found(source="similar_runs") == {}


def test_failed_runs_are_lost_whole_and_a_habit_of_failing_gets_a_small_trial() -> None:
    fails = [settled(f"f{i}", 16.0, 600.0, state="FAILED") for i in range(3)]
    found = waste(*fails, settled("1"), settled("2"))["failed"]
    assert found.runs == 3
    assert (found.lost.value, found.lost.low) == pytest.approx((8.0, 8.0))
    assert found.advice == (
        "3 of 5 runs of lammps rhodo failed, half of them within 10 min: test changes on 16 nodes with a limit of 10 min first.",
    )


def test_a_run_in_a_hundred_that_fails_is_no_habit() -> None:
    found = waste(settled("f", state="FAILED"), *(settled(str(i)) for i in range(20)))["failed"]
    assert found.advice[0].startswith("1 of 21 runs of lammps rhodo failed. These are few")


def test_runs_without_memory_are_advised_of_memory() -> None:
    found = waste(settled("1", state="OUT_OF_MEMORY"))["failed"]
    assert "1 for lack of memory: request more memory, or more nodes." in found.advice[0]


@pytest.mark.parametrize(
    ("limit_s", "start"),
    [
        (600.0, "Request 20 min instead of 10 min for lammps rhodo on 64 nodes: runs that complete take 15 to 16 min."),
        (7200.0, "Runs of lammps rhodo on 64 nodes take 15 to 16 min, so a limit of 2 h is enough"),
    ],
)
def test_a_timed_out_run_is_advised_of_the_limit_that_holds(limit_s: float, start: str) -> None:
    found = waste(settled("1", 64.0, limit_s, state="TIMEOUT", time_limit_s=limit_s))["timed_out"]
    assert found.advice[0].startswith(start)
    assert found.lost.value == pytest.approx(64 * limit_s / 3600)


def test_a_timed_out_run_of_which_nothing_is_known_gets_no_invented_limit() -> None:
    found = waste(settled("1", 64.0, 600.0, state="TIMEOUT", time_limit_s=600.0), known=curve(application="nektar"))[
        "timed_out"
    ]
    assert found.advice[0].startswith("No prediction of lammps rhodo on 64 nodes is reliable")


def test_what_hosts_cost_is_listed_to_the_credit_of_the_user() -> None:
    slowed = settled("1", 128.0, 2 * run_time_s(128), slowed_by=SlowedBy("nid7", 2.0))
    ended = settled("2", 16.0, 900.0, state="NODE_FAIL")
    found = waste(slowed, ended)
    assert set(found) == {"odd_host"}
    assert found["odd_host"].lost.value == pytest.approx(128 * run_time_s(128) / 3600 + 4.0)
    assert "ran on an abnormal host (nid7)" in found["odd_host"].advice[0]
    both = total(slowed, ended)
    assert both.lost.value == 0.0
    assert both.spared.value == found["odd_host"].lost.value


def test_cancelled_runs_are_used_and_not_judged() -> None:
    assert total(settled("1", state="CANCELLED")).not_judged_share == 1.0


def test_runs_of_other_weeks_and_other_users_do_not_count() -> None:
    found = week(
        settled("1"), settled("2", end="2026-11-15T12:00:00Z"), settled("3", end="2026-11-23T00:00:00Z"), settled("4", user="joe"),
        user="mary",
    )  # fmt: skip
    assert (found.runs, [user.user for user in found.users]) == (1, ["mary"])


def test_a_run_that_is_reported_again_counts_once_as_it_was_reported_last() -> None:
    found = week(settled("1", state="FAILED"), settled("1"))
    assert (found.runs, found.users[0].waste) == (1, ())


def test_users_come_in_the_order_of_what_they_lost() -> None:
    runs = [settled("1", user="ann"), settled("2", 128.0, user="joe"), settled("3", state="FAILED", user=None)]
    assert [user.user for user in week(*runs).users] == [None, "joe", "ann"]


def test_units_are_never_added_up() -> None:
    cores = settled("2", 64.0, application_id="archer2/nektar//cores")
    assert [each.unit for each in week(settled("1", 128.0), cores).totals] == ["nodes", "cores"]


def test_three_cases_and_three_examples_are_enough() -> None:
    found = waste(
        *(settled(f"{n}-{i}", n, 60.0, state="TIMEOUT") for n in (1.0, 2.0, 4.0, 8.0, 16.0) for i in range(2))
    )["timed_out"]
    assert (found.runs, len(found.advice), found.more, len(found.examples)) == (10, 3, 2, 3)
    assert {example.n for example in found.examples} == {16.0, 8.0}


def test_the_json_follows_its_schema() -> None:
    found = week(settled("1", 128.0), settled("2", state="FAILED", user=None))
    jsonschema.validate(json.loads(msgspec.json.encode(found)), schema("scalewatch.week/1"))


def test_sessions_are_shown_apart_and_never_lost_however_they_end() -> None:
    session = {"application_id": None, "identified_by": "session"}
    runs = [
        settled(state, 1.0, 3600.0, state=state, **session) for state in ("TIMEOUT", "COMPLETED", "FAILED", "CANCELLED")
    ]
    found = week(settled("9", 4.0, 3600.0, state="TIMEOUT"), *runs)
    (all_,) = found.totals
    assert (all_.sessions.runs, all_.sessions.used, all_.sessions.share, all_.used) == (4, 4.0, 0.5, 8.0)
    assert (all_.lost.value, all_.not_judged) == (4.0, 0.0)
    assert {(waste.kind, waste.runs) for user in found.users for waste in user.waste} == {("timed_out", 1)}
