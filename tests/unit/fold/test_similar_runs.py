"""Jobs whose run times no curve tells: what similar runs of the same user, name, class and centre say of them."""

import math
from itertools import cycle, islice
from typing import Any

import pytest

from tests.kit.scenario import Scenario

SPREAD_S = (100.0, 900.0, 150.0, 2000.0, 400.0, 120.0, 1200.0, 250.0)


def ran(
    centre: Scenario, count: int, run_time_s: float | None = None, *, prefix: str = "r", n: float = 4, **fields: Any
) -> None:
    """Report runs a minute apart: of a fixed time, or of widely varying ones."""
    for i, spread_s in enumerate(islice(cycle(SPREAD_S), count)):
        centre.at_ms(centre.now_ms + 60_000)
        centre.ran(f"{prefix}{i}", fields.get("application"), n, run_time_s or spread_s, **without_name(fields))


def without_name(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name != "application"}


def started(centre: Scenario, job_id: str = "1", **fields: Any) -> dict[str, Any]:
    centre.starts(job_id, fields.pop("application", None), nodes=fields.pop("nodes", 4), **fields)
    return centre.topic("job_predictions")[f"exa/{job_id}"]


@pytest.fixture
def centre() -> Scenario:
    return Scenario().at("08:00")


def test_a_job_that_nothing_names_is_reported_by_the_past_of_its_user(centre: Scenario) -> None:
    for i in range(20):
        ran(centre, 1, 300.0 + i, prefix=f"a{i}-", user="u-anna")
        ran(centre, 1, 5000.0 + i, prefix=f"b{i}-", user="u-bob")
    reported = {user: started(centre, user, user=user) for user in ("u-anna", "u-bob")}
    assert [prediction["known"] for prediction in reported.values()] == [True, True]
    assert reported["u-anna"]["run_time_s"] == pytest.approx(310, rel=0.05)
    assert reported["u-bob"]["run_time_s"] == pytest.approx(5010, rel=0.05)
    assert reported["u-anna"]["application"] is None
    assert (reported["u-anna"]["model"]["name"], reported["u-anna"]["coverage"]) == ("similar_runs", 0.9)
    shares = {member["name"]: member["weight"] for member in reported["u-anna"]["model"]["members"]}
    assert list(shares) == ["user", "class", "centre"]
    assert shares["user"] > 0.8
    assert reported["u-anna"]["reliability"]["verdict"] == "uncertain"
    assert reported["u-anna"]["reliability"]["reasons"] == ["no_curve"]
    assert reported["u-anna"]["reliability"]["advice"][0].startswith("No scaling curve is known")


def test_ten_jobs_that_crash_at_once_leave_the_run_time_as_it_was(centre: Scenario) -> None:
    """Ten failed jobs had turned 1,900 s into "1 s, band 1 to 1"."""
    ran(centre, 12, 1900.0, application="cfd", user="u-anna")
    assert started(centre, "1", application="cfd", user="u-anna")["run_time_s"] == pytest.approx(1900, rel=0.02)
    ran(centre, 10, 1.0, prefix="f", application="cfd", user="u-anna", state="FAILED")
    after = started(centre, "2", application="cfd", user="u-anna")
    assert after["run_time_s"] == pytest.approx(1900, rel=0.02)
    assert after["low_s"] > 1700
    assert after["high_s"] < 2100


@pytest.mark.parametrize("state", ["FAILED", "CANCELLED", "OUT_OF_MEMORY", "NODE_FAIL", "TIMEOUT"])
def test_a_run_that_does_not_complete_teaches_no_run_time_to_its_user_name_or_class(
    centre: Scenario, state: str
) -> None:
    for i in range(12):  # between each two crashes a quarter of an hour, so that none is part of a burst
        ran(centre, 1, 1900.0, prefix=f"c{i}", user="u-anna")
        centre.at_ms(centre.now_ms + 900_000)
        ran(centre, 1, 20.0, prefix=f"f{i}", user="u-anna", state=state)
    for user in ("u-anna", "u-new"):
        prediction = started(centre, user, user=user)
        assert prediction["run_time_s"] == pytest.approx(1900, rel=0.02)
        assert prediction["low_s"] > 20 or user == "u-new"


def test_a_job_is_reported_how_often_runs_like_it_fail(centre: Scenario) -> None:
    for i in range(16):
        for user, state in (("u-anna", "COMPLETED"), ("u-bob", ("COMPLETED", "FAILED")[i % 2])):
            centre.at_ms(centre.now_ms + 900_000)
            ran(centre, 1, 300.0, prefix=f"{user}{i}", user=user, state=state)
    ran(centre, 30, 1.0, prefix="burst", user="u-anna", state="FAILED")
    fails = {user: started(centre, user, user=user)["probability_fails"] for user in ("u-anna", "u-bob")}
    assert 0 < fails["u-anna"] < 0.2, "its burst counts once"
    assert 0.3 < fails["u-bob"] < 0.6


def test_a_job_that_meets_its_limit_would_have_run_longer(centre: Scenario) -> None:
    for i in range(8):
        centre.at_ms(centre.now_ms + 3_600_000)
        ran(centre, 1, 3600.0, prefix=f"t{i}", user="u-anna", time_limit_s=3600.0, state="TIMEOUT")
    same = started(centre, "1", user="u-anna", time_limit_s=3600.0)
    assert same["run_time_s"] == pytest.approx(3600, rel=0.04)
    assert same["probability_exceeds_limit"] > 0.5
    longer = started(centre, "2", user="u-anna", time_limit_s=7200.0)
    assert 3600 < longer["run_time_s"] < 7200 < longer["high_s"]


def test_a_burst_of_crashes_counts_once_and_an_array_too(centre: Scenario) -> None:
    ran(centre, 8, 300.0, user="u-anna")
    before = {key: each["count"] for key, each in similar_runs(centre).items()}
    ran(centre, 60, 2.0, prefix="f", user="u-anna", state="FAILED")
    for i in range(40):
        centre.ran(f"array{i}", None, 4, 3600.0, user="u-anna", time_limit_s=3600.0, state="TIMEOUT")
    after = {key: each["count"] for key, each in similar_runs(centre).items()}
    assert sum(after.values()) - sum(before.values()) == 6, "a crash and a limit for user, class and centre"


def test_a_centre_where_nothing_completes_knows_no_run_time(centre: Scenario) -> None:
    for i in range(20):
        centre.at_ms(centre.now_ms + 1_800_000)
        ran(centre, 1, 600.0, prefix=f"f{i}", user="u-anna", state="FAILED")
    assert not started(centre, user="u-anna")["known"]


def test_nothing_is_reported_before_the_centre_has_seen_a_few_runs(centre: Scenario) -> None:
    ran(centre, 7, user="u-anna")
    prediction = started(centre, "1", user="u-anna")
    assert (prediction["known"], prediction["model"], prediction["reliability"]["verdict"]) == (False, None, "unknown")
    ran(centre, 1, user="u-anna", prefix="x")
    assert started(centre, "2", user="u-anna")["known"]


def test_a_user_of_whom_little_is_known_hears_that_it_is_little(centre: Scenario) -> None:
    ran(centre, 20, user="u-anna")
    prediction = started(centre, user="u-new")
    assert prediction["known"]
    assert prediction["reliability"]["verdict"] == "insufficient"
    assert prediction["reliability"]["reasons"] == ["few_alike", "no_curve"]


def test_the_chance_to_meet_the_limit_is_the_share_of_runs_that_long(centre: Scenario) -> None:
    ran(centre, 40, user="u-anna", time_limit_s=1000.0)
    prediction = started(centre, user="u-anna", time_limit_s=1000.0)
    assert prediction["probability_exceeds_limit"] == pytest.approx(0.25, abs=0.07)  # two of eight took longer
    assert prediction["high_s"] > 1000


def test_a_name_that_runs_at_one_size_with_widely_varying_times_is_reported_as_that_spread(centre: Scenario) -> None:
    ran(centre, 32, application="blast", user="u-anna")
    prediction = started(centre, application="blast", user="u-anna")
    assert (prediction["application"], prediction["model"]["name"]) == ("blast", "similar_runs")
    assert prediction["low_s"] <= 120
    assert 150 < prediction["run_time_s"] < 900
    assert prediction["high_s"] >= 1200
    answer = centre.asks("r1", 4, application="blast", user="u-anna")
    (point,) = answer["points"]
    assert (answer["known"], answer["observations"], answer["model"]["name"]) == (True, 32, "similar_runs")
    assert point["source"] == "similar_runs"
    assert point["low_s"] <= 120
    assert point["high_s"] >= 1200
    assert point["reliability"]["verdict"] == "uncertain"


def test_a_curve_that_runs_keep_to_is_not_given_up(centre: Scenario) -> None:
    for i in range(6):
        centre.at_ms(centre.now_ms + 60_000).scales("lammps", 1, 2, 4, 8, 16, prefix=f"s{i}", user="u-anna")
    prediction = started(centre, application="lammps", user="u-anna")
    assert (prediction["model"]["name"], prediction["reliability"]["verdict"]) != ("similar_runs", "uncertain")
    assert prediction["run_time_s"] == pytest.approx(271, rel=0.03)
    assert centre.at_ms(centre.now_ms + 60_000).topic("predictions")["exa/lammps//nodes"]["model"]["name"] != (
        "similar_runs"
    )


def users_alternate(centre: Scenario) -> None:
    """Two users run one name at four sizes: the user decides how long it takes, the size does not matter."""
    for i in range(60):
        centre.at_ms(centre.now_ms + 120_000)
        user, run_time_s = (("u-anna", 100.0), ("u-bob", 4000.0))[i % 2]
        centre.ran(f"j{i}", "workflow", 2.0 ** (i // 2 % 4), run_time_s * (1 + 0.01 * (i % 5)), user=user)


def test_an_application_whose_times_do_not_follow_its_size_reports_it_wherever_it_is_reported(centre: Scenario) -> None:
    users_alternate(centre)
    prediction = centre.at_ms(centre.now_ms + 1_200_000).topic("predictions")["exa/workflow//nodes"]
    assert prediction["model"]["name"] == "similar_runs"
    assert prediction["reliability"]["verdict"] == "uncertain"
    assert "not_by_size" in prediction["reliability"]["reasons"]
    assert set(prediction["useful_n"].values()) == {None}
    assert all(point["low_s"] < 150 and point["high_s"] > 3000 for point in prediction["curve"][:4])
    assert {(point["speedup"], point["efficiency"]) for point in prediction["curve"]} == {(None, None)}
    for user, run_time_s in (("u-anna", 102.0), ("u-bob", 4080.0)):
        job = started(centre, user, application="workflow", user=user)
        assert job["run_time_s"] == pytest.approx(run_time_s, rel=0.05)
        assert "not_by_size" in job["reliability"]["reasons"]
        answer = centre.asks(user, 4, 16, application="workflow", user=user)
        assert [point["run_time_s"] for point in answer["points"]] == [pytest.approx(run_time_s, rel=0.05)] * 2
        assert [point["speedup"] for point in answer["points"]] == [None, None]
        assert answer["model"]["name"] == "similar_runs"


def test_a_request_of_an_unknown_application_is_answered_by_its_user_and_limit(centre: Scenario) -> None:
    ran(centre, 20, 300.0, user="u-anna", time_limit_s=600.0)
    answer = centre.asks("r1", 4, 8, application="new", user="u-anna", time_limit_s=600.0)
    assert answer["detail"] == "No run of new on exa is known. It is predicted from similar runs."
    assert (answer["known"], answer["observations"], answer["application"]) == (True, 0, "new")
    assert [point["n"] for point in answer["points"]] == [4.0, 8.0]
    for point in answer["points"]:
        assert point["run_time_s"] == pytest.approx(300, rel=0.05)
        assert 0 < point["low_s"] <= point["run_time_s"] <= point["high_s"] < math.inf
    nameless = centre.asks("r2", 4, job_name="bash", user="u-anna")
    assert nameless["known"]
    assert nameless["detail"].startswith("The request could not be identified")


def test_a_request_that_reports_nothing_of_the_job_gets_no_numbers_of_strangers(centre: Scenario) -> None:
    ran(centre, 20, 300.0, user="u-anna")
    for request_id, user in (("r1", None), ("r2", "u-new")):
        answer = centre.asks(request_id, 4, application="new", user=user)
        assert (answer["known"], answer["points"]) == (False, [])


def test_a_job_that_runs_longer_than_most_is_reported_a_later_end_and_not_every_minute(centre: Scenario) -> None:
    ran(centre, 40, user="u-anna")
    first = started(centre, user="u-anna")
    centre.at_ms(centre.now_ms + 1_000_000)
    reported = [prediction for prediction in centre.messages("job_predictions") if prediction["job_id"] == "1"]
    assert reported[-1]["run_time_s"] > max(first["run_time_s"], 900)
    assert [prediction["end"] for prediction in reported] == sorted(prediction["end"] for prediction in reported)
    assert 4 < len(reported) < 14


def test_users_are_kept_and_reported_as_digests_alone_but_for_whose_job_it_is(centre: Scenario) -> None:
    ran(centre, 20, user="anna.meier", time_limit_s=600.0)
    centre.starts("1", None, nodes=4, user="anna.meier")
    centre.asks("r1", 4, application="new", user="anna.meier")
    retained = {
        key: value for key, value in centre.state().items() if key.startswith(("similar_runs/", "model_comparison/"))
    }
    assert len(retained) == 3
    assert "anna" not in "".join(f"{key}{value!r}" for key, value in retained.items())
    reported = [
        prediction for kind in ("job_predictions", "answers", "predictions") for prediction in centre.messages(kind)
    ]
    assert {prediction.pop("user") for prediction in reported if "user" in prediction} == {"anna.meier"}, (
        "as the journal writes it"
    )
    assert not any("anna" in repr(prediction) for prediction in reported)


def test_a_run_that_is_reported_twice_counts_once(centre: Scenario) -> None:
    ran(centre, 10, user="u-anna")
    event = centre.ran("again", None, 4, 777.0, user="u-anna")
    before = similar_runs(centre)
    centre.at_ms(centre.now_ms + 60_000).fold(event)
    assert similar_runs(centre) == before


def test_a_run_that_turns_out_to_be_another_application_moves_to_its_history(centre: Scenario) -> None:
    centre.ran("1", None, 4, 777.0, job_name="mystery", user="u-anna")
    centre.report_from("xalt", "1", executable="/opt/lammps/lmp")
    other = Scenario().at("08:00")
    other.report_from("xalt", "1", executable="/opt/lammps/lmp")
    other.ran("1", None, 4, 777.0, job_name="mystery", user="u-anna")
    assert {key: value for key, value in similar_runs(centre).items() if value["count"]} == similar_runs(other)


def similar_runs(centre: Scenario) -> dict[str, Any]:
    store = centre.shard.state.similar_runs
    return {
        key: {"count": history.past.count, "runs": history.snapshot().runs}
        for key in sorted(store.keys())
        if (history := store.get(key)) is not None
    }


def test_similar_runs_over_the_bound_go_the_longest_unused_first_and_are_counted() -> None:
    centre = Scenario(run_time={"similar_runs_max": 5}).at("08:00")
    for i in range(10):
        ran(centre, 1, 300.0, prefix=f"a{i}-", user=f"u-{i}")
    centre.at_ms(centre.now_ms + 60_000)
    retained = similar_runs(centre)
    assert len(retained) == 5
    assert sum(key.startswith("user/") for key in retained) == 3
    assert centre.tally["bound:similar_runs_max"] == 7


def test_of_runs_that_end_between_two_ticks_all_are_learned_and_some_are_scored(centre: Scenario) -> None:
    users_alternate(centre)
    centre.at_ms(centre.now_ms + 1_200_000)

    def scored() -> float:
        return sum(
            record.runs
            for record in centre.shard.state.model_comparisons.open("exa/workflow//nodes").snapshot().records
        )

    before = scored()
    for i in range(40):
        centre.ran(f"more{i}", "workflow", 4, 100.0, user="u-new")
    assert scored() < before + 2.5
    assert 40 in {
        centre.shard.state.similar_runs.open(key).past.count for key in similar_runs(centre) if key.startswith("user/")
    }


def test_an_application_that_is_forgotten_takes_its_history_and_score_along() -> None:
    centre = Scenario(run_time={"applications_max": 1}).at("08:00")
    for name in ("lammps", "gromacs"):
        for i in range(2):
            centre.at_ms(centre.now_ms + 60_000).scales(name, 1, 2, 4, prefix=f"{name}{i}")
    assert list(centre.shard.state.model_comparisons.keys()) == ["exa/gromacs//nodes"]
    assert sum(key.startswith("name/") for key in similar_runs(centre)) == 1


def test_a_restart_in_between_changes_nothing_that_is_reported(centre: Scenario) -> None:
    twin = Scenario().at("08:00")
    for each in (centre, twin):
        users_alternate(each)
        if each is centre:
            each.restart()
        ran(each, 12, user="u-anna", prefix="later")
        started(each, user="u-anna", application="workflow", time_limit_s=3600.0)
        each.at_ms(each.now_ms + 600_000)
    assert centre.topic("job_predictions") == twin.topic("job_predictions")
    assert centre.state() == twin.state()
