"""Run times that follow counters at a given size: what answers and forecasts say where counters are reported, or measured so far."""

from typing import Any

import pytest

from processors.contracts.events import Evidence, HostMinute, JobStarted, PredictionRequested
from processors.contracts.names import run_id
from processors.contracts.outputs import Answer
from tests.kit.counted_centre import Answered, requested, story_of
from tests.kit.counted_runs import CYCLES, CYCLES_PER_S, FOLLOWER, MISSES, NOISE, STORIES, CountedRun, counted_runs
from tests.kit.profiled_hosts import grew
from tests.kit.scenario import SYSTEM, Scenario

KEY = f"{SYSTEM}/lammps//nodes"
STORY = "a share of the time"
SEED = 41
Centre = tuple[Scenario, dict[bool, Answered]]


def lived(story: str) -> Centre:
    centre = Scenario().at("00:00")
    return centre, story_of(centre, story, SEED)


@pytest.fixture(scope="module")
def followed() -> Centre:
    return lived(STORY)


def run_with(misses: float, n: float = 4.0) -> CountedRun:
    usual = counted_runs(STORY, 1, 77)[0]
    rates = dict(usual.rates) | {MISSES: misses}
    return CountedRun(n, rates, STORIES[STORY](n, rates))


def band_of(answer: Answer) -> tuple[float, float, float]:
    point = answer.points[0]
    return point.run_time_s, point.low_s, point.high_s


def test_a_request_that_reports_counters_is_answered_sharply(followed: Centre) -> None:
    with_counters, without = followed[1][True], followed[1][False]
    assert without.error > 12.0
    assert with_counters.error < 3.0
    assert 0.8 <= with_counters.coverage <= 1.0


def test_a_time_that_a_counter_adds_at_each_size_is_found_too() -> None:
    found = lived("a time of its own")[1]
    assert found[False].error > 10.0
    assert found[True].error < 3.0


def test_where_no_counter_matters_answers_stay_as_they_were() -> None:
    found = lived("none")[1]
    assert found[True].error <= 1.05 * found[False].error
    assert found[True].coverage >= 0.85


def test_an_answer_names_the_counters_share_with_their_error(followed: Centre) -> None:
    answer = requested(followed[0], run_with(0.03), counters=True)
    assert answer.points[0].run_time_s == pytest.approx(run_with(0.03).run_time_s, rel=0.04)
    assert answer.points[0].source == "features"
    assert "Features of the run contribute: counters" in answer.detail
    assert answer.model is not None
    by_name = {member.name: member for member in answer.model.members}
    assert by_name["counters"].weight > 0.9
    assert by_name["counters"].errors[0].error < 2 * NOISE


def test_counters_may_be_reported_per_second_with_their_cycles(followed: Centre) -> None:
    run = run_with(0.025)
    per_second = {name: rate * CYCLES_PER_S for name, rate in run.rates.items()} | {CYCLES: CYCLES_PER_S}
    evidence = Evidence(application="lammps")
    answer = followed[0].shard.answer(PredictionRequested(SYSTEM, "r", (run.n,), evidence, "nodes", per_second))
    assert band_of(answer) == band_of(requested(followed[0], run, counters=True))


def test_a_request_without_the_counter_that_counts_is_answered_by_the_curve(followed: Centre) -> None:
    centre, _ = followed
    run = run_with(0.03)
    other = CountedRun(run.n, {FOLLOWER: 0.2}, run.run_time_s)
    without, some = requested(centre, run, counters=False), requested(centre, other, counters=True)
    assert band_of(some) == band_of(without)
    assert f"It does not tell {MISSES}: such features do not count." in some.detail


def test_beyond_the_sizes_that_were_run_the_curve_states_how_times_go_on(followed: Centre) -> None:
    run = run_with(0.03)
    ratios = [
        band_of(requested(followed[0], run, counters=counters, n=64.0))[0]
        / band_of(requested(followed[0], run, counters=counters, n=16.0))[0]
        for counters in (True, False)
    ]
    assert ratios[0] == pytest.approx(ratios[1], rel=0.05)


def test_a_published_prediction_shows_what_counters_explain(followed: Centre) -> None:
    centre, _ = followed
    times = centre.shard.state.feature_times.get(KEY)
    profiles = centre.shard.state.profile_models.get(KEY)
    assert times is not None
    assert profiles is not None
    assert max(profiles.followed(), key=profiles.followed().__getitem__) == MISSES
    published: dict[str, Any] = centre.topic("predictions")[KEY]
    (shown,) = [each for each in published["features"] if each["features"] == "counters"]
    assert shown["model"] == "given_size"
    assert shown["weight"] > 0.9
    assert shown["combined_error"] < 0.5 * shown["curve_error"]
    assert shown["importances"][MISSES] > 0.9


def test_an_agent_that_is_restored_answers_the_same(followed: Centre) -> None:
    centre, _ = followed
    before = requested(centre, run_with(0.03), counters=True)
    centre.restart()
    assert requested(centre, run_with(0.03), counters=True) == before


def test_a_running_job_is_expected_by_what_its_hosts_have_counted_so_far() -> None:
    centre = Scenario(jobs={"settle_max_s": 60.0, "revise_s": 30.0}).at("00:00")
    story_of(centre, STORY, SEED, scored=1)
    run = run_with(0.031, n=2.0)  # 1.27 times as long as usual
    usual_s, wanted_s = (band_of(requested(centre, run, counters=counters))[0] for counters in (False, True))
    assert wanted_s > 1.15 * usual_s
    hosts, start_ms = ("nid0", "nid1"), centre.now_ms
    evidence = Evidence(application="lammps", sizes={"nodes": run.n}, hosts=hosts)
    centre.fold(JobStarted(SYSTEM, "job", run_id(SYSTEM, "job", start_ms), start_ms, evidence))
    expected = [centre.messages("job_predictions")[-1]]
    for minute in range(4):
        centre.at_ms(start_ms + (minute + 1) * 60_000 + 10_000)
        expected.append(centre.messages("job_predictions")[-1])
        for host in hosts:
            centre.fold(measured(run, host, start_ms + minute * 60_000))
    assert [each["source"] for each in expected] == ["curve"] * 4 + ["features"]
    assert expected[0]["run_time_s"] == pytest.approx(usual_s, rel=0.01)
    assert expected[-1]["run_time_s"] == pytest.approx(wanted_s, rel=0.02)
    assert expected[-1]["high_s"] - expected[-1]["low_s"] < 0.3 * (expected[0]["high_s"] - expected[0]["low_s"])


def measured(run: CountedRun, host: str, minute_ms: int) -> HostMinute:
    counts = {f"counter_delta>{name}": grew(rate * CYCLES_PER_S * 60.0) for name, rate in run.rates.items()}
    cycles = {f"counter_delta>{CYCLES}": grew(CYCLES_PER_S * 60.0)}
    return HostMinute(SYSTEM, "load/0", host, minute_ms, counts | cycles)
