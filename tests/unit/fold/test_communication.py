"""What the network did for a job: held until its run settles, kept with it, learned, and asked of a placement."""

import math
from typing import Any

import msgspec
import numpy as np
import pytest

from processors.contracts.events import Evidence, JobProfile, Network, PredictionRequested
from processors.contracts.hosts import Profile
from processors.contracts.outputs import Answer
from processors.models.features.communication import features
from processors.models.numerics.statistics import six_digits
from tests.kit import torus
from tests.kit.scenario import SYSTEM, Scenario, completed

APPLICATION = f"{SYSTEM}/halo//nodes"
RUNS = 84


def network(centre: Scenario, job_id: str, **reported: Any) -> None:
    centre.fold(Network(SYSTEM, job_id, centre.now_ms, **reported))


def requested(centre: Scenario, reported: dict[str, float]) -> Answer:
    evidence = Evidence(application="halo")
    return centre.shard.answer(PredictionRequested(SYSTEM, "r", (64.0,), evidence, "nodes", features=reported))


def profile_of(centre: Scenario, job_id: str) -> Profile | None:
    run = next(run for run in centre.messages("runs") if run["run_id"].startswith(f"{SYSTEM}/{job_id}@"))
    return None if run["profile"] is None else msgspec.convert(run["profile"], Profile)


@pytest.fixture(scope="module")
def mapped() -> tuple[Scenario, list[dict[str, float]], list[float]]:
    """A centre that ran mappings onto a torus, whose time depends on where processes are: its last 28 were asked for."""
    centre, reported, times_s = Scenario().at("00:00"), list[dict[str, float]](), list[float]()
    for i, node in enumerate(torus.mappings(RUNS, seed=1)):
        run = torus.run(node)
        reported.append(features(*run.traffic))
        times_s.append(100.0 * run.run_time_s)
        centre.at_ms(centre.now_ms + 900_000)
        centre.ran(f"j{i}", "halo", 64, times_s[-1])
        network(centre, f"j{i}", features=reported[-1])
    centre.at_ms(centre.now_ms + 3_600_000)
    return centre, reported, times_s


def test_a_placement_that_decides_the_run_time_makes_answers_sharp(
    mapped: tuple[Scenario, list[dict[str, float]], list[float]],
) -> None:
    centre, reported, times_s = mapped
    spread = float(np.std(np.log(times_s)))
    answers = [requested(centre, each) for each in reported]
    off = [math.log(answer.points[0].run_time_s / time_s) for answer, time_s in zip(answers, times_s, strict=True)]
    assert spread > 0.1
    assert float(np.mean(np.abs(off))) < 0.3 * spread
    assert answers[0].model is not None
    assert {member.name: member.weight for member in answers[0].model.members}["communication"] > 0.8


def test_a_request_without_features_is_answered_as_before(
    mapped: tuple[Scenario, list[dict[str, float]], list[float]],
) -> None:
    centre, reported, _ = mapped
    without = requested(centre, {})
    assert without.model is not None
    assert "communication" not in {member.name for member in without.model.members}
    assert requested(centre, {"max_fifo": reported[0]["max_fifo"]}).points == without.points, "too little for any set"


def test_a_prediction_reports_which_set_of_features_is_trusted_and_how_well_it_orders_runs(
    mapped: tuple[Scenario, list[dict[str, float]], list[float]],
) -> None:
    centre, _, _ = mapped
    prediction = next(each for each in centre.topic("predictions")[APPLICATION]["features"])
    assert prediction["features"] == "communication"
    assert prediction["model"] in {"H1", "H2", "H3", "H4", "H5", "H6"}
    assert prediction["rcc_symmetric"] > 0.85
    assert abs(prediction["rcc"] - prediction["rcc_symmetric"]) < 0.05
    assert prediction["r_squared"] > 0.7
    assert sum(prediction["importances"].values()) == pytest.approx(1.0, abs=1e-3)
    assert prediction["combined_error"] < 0.5 * prediction["curve_error"]


def test_features_settle_with_their_run_and_are_part_of_its_profile() -> None:
    centre = Scenario().at("10:00")
    centre.starts("1", "halo", nodes=4)
    network(centre, "1", features={"max_bytes": 5.0})
    centre.at("10:20").ends("1")
    network(centre, "1", links=((10.0, 30.0), (0.0, 3.0), (1.0, 6.0)))
    centre.at("10:40")
    profile = profile_of(centre, "1")
    assert profile is not None
    assert profile.network["max_bytes"] == 30.0
    assert profile.network["avg_delay"] == 0.25


def test_features_may_come_before_anything_else_is_known_of_a_job() -> None:
    centre = Scenario().at("10:10")
    centre.fold(Network(SYSTEM, "1", centre.now_ms - 60_000, {"max_fifo": 7.0}))
    centre.ran("1", "halo", 4, 300.0)
    centre.at("10:30")
    assert profile_of(centre, "1") == Profile(hosts=0, network={"max_fifo": 7.0})


def test_features_of_no_run_are_counted_and_forgotten() -> None:
    centre = Scenario().at("10:00")
    centre.ran("1", "halo", 4, 300.0)
    centre.at("10:30")
    network(centre, "1", features={"max_fifo": 7.0})
    network(centre, "never", features={"max_fifo": 7.0})
    centre.at("2d 10:30")
    assert profile_of(centre, "1") is None
    assert centre.tally["refused:network_of_no_run"] == 2
    assert not list(centre.shard.state.jobs.keys())


def test_arrays_that_do_not_fit_are_refused() -> None:
    centre = Scenario().at("10:00")
    network(centre, "1", links=((10.0,), (), ()))
    assert centre.tally["refused:implausible"] == 1


def test_each_run_of_a_job_that_is_requeued_has_features_of_its_own() -> None:
    centre = Scenario().at("10:00")
    centre.starts("1", "halo", nodes=4)
    network(centre, "1", features={"max_fifo": 1.0})
    centre.at("10:10").ends("1", state="PREEMPTED")
    centre.at("10:11").starts("1", "halo", nodes=4)
    network(centre, "1", features={"max_fifo": 2.0})
    centre.at("10:20").ends("1")
    centre.at("10:40")
    reported = [run["profile"]["network"] for run in centre.messages("runs")]
    assert reported == [{"max_fifo": 1.0}, {"max_fifo": 2.0}]


def test_what_is_held_of_a_job_is_bounded() -> None:
    centre = Scenario().at("10:00")
    centre.starts("1", "halo", nodes=4)
    for i in range(300):
        centre.at_ms(centre.now_ms + 10_000)
        network(centre, "1", features={f"feature_{k}": float(i) for k in range(100)})
    assert len(centre.state()[f"job/{SYSTEM}/1"] or b"") < 8_000
    centre.ends("1")
    centre.at("12:00")
    profile = profile_of(centre, "1")
    assert profile is not None
    assert set(profile.network.values()) == {299.0}


def test_a_rebuild_learns_from_profiles_what_events_reported(
    mapped: tuple[Scenario, list[dict[str, float]], list[float]],
) -> None:
    reported = [{name: six_digits(value) for name, value in each.items()} for each in mapped[1]]
    times_s, states = mapped[2], []
    for anew in (False, True):
        centre = Scenario().at("00:00")
        for i, (each, time_s) in enumerate(zip(reported[:16], times_s, strict=False)):
            centre.at_ms(centre.now_ms + 900_000)
            event = completed(f"j{i}", centre.now_ms - round(time_s * 1000), time_s, application="halo", nodes=64)
            centre.fold(event)
            rebuilt = JobProfile(SYSTEM, f"j{i}", event.run_id, Profile(hosts=0, network=each))
            centre.fold(rebuilt if anew else Network(SYSTEM, f"j{i}", centre.now_ms, each))
        centre.at_ms(centre.now_ms + 900_000)
        states.append(centre.state()[f"feature_times/{APPLICATION}"])
    assert states[0] == states[1]


def test_a_restart_between_features_and_settlement_loses_nothing() -> None:
    centres = [Scenario().at("10:00") for _ in range(2)]
    for centre in centres:
        centre.starts("1", "halo", nodes=4)
        network(centre, "1", features={"max_fifo": 1.0})
        centre.at("10:10").ends("1")
    centres[1].restart()
    for centre in centres:
        centre.at("10:30")
    assert centres[0].sent == centres[1].sent
