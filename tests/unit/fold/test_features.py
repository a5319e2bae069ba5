"""Run times that follow from attributes of jobs: what answers say of them, beside the curve."""

import math
from collections.abc import Mapping
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from processors.contracts.events import Evidence, PredictionRequested
from processors.contracts.outputs import Answer
from tests.kit.scenario import SYSTEM, Scenario

ATTRIBUTES = ("atoms", "solver", "place")
FACTORS = {"sweep": 1.0, "cg": 3.0, "amg": 1.7}
SIZES = (1.0, 2.0, 4.0, 8.0)
NOISE = 0.05
APPLICATION = f"{SYSTEM}/lammps//nodes"
Chance = np.random.Generator


def drawn(chance: Chance) -> tuple[float, dict[str, Any]]:
    """A size, and attributes of a job."""
    atoms, solver = float(chance.choice([1000, 2000, 8000])), str(chance.choice(list(FACTORS)))
    return float(chance.choice(SIZES)), {"atoms": atoms, "solver": solver, "place": float(chance.random())}


def requested(centre: Scenario, attributes: Mapping[str, Any], *n: float) -> Answer:
    evidence = Evidence(application="lammps", attributes=dict(attributes))
    return centre.shard.answer(PredictionRequested(SYSTEM, "r", n, evidence, "nodes"))


def predicted(answer: Answer) -> tuple[float, float, float]:
    point = answer.points[0]
    return point.run_time_s, point.low_s, point.high_s


def lived(centre: Scenario, count: int, *, follows: bool, seed: int = 1) -> dict[str, tuple[float, float]]:
    """Let runs come, and ask for each before it ends: mean |ln error| and coverage of the last half, without and with."""
    chance = np.random.default_rng(seed)
    errors: dict[str, list[float]] = {"curve": [], "combination": []}
    covered: dict[str, list[bool]] = {"curve": [], "combination": []}
    for i in range(count):
        n, attributes = drawn(chance)
        factor = FACTORS[attributes["solver"]] if follows else 1.0
        run_time_s = (600.0 / n + 10.0) * factor * math.exp(NOISE * chance.normal())
        centre.at_ms(centre.now_ms + 600_000)
        if i >= count // 2:
            for name, given in (("curve", {}), ("combination", attributes)):
                time_s, low_s, high_s = predicted(requested(centre, given, n))
                errors[name].append(abs(math.log(run_time_s / time_s)))
                covered[name].append(low_s <= run_time_s <= high_s)
        centre.ran(f"j{i}", "lammps", n, run_time_s, attributes=attributes)
    return {name: (fmean(errors[name]), fmean(covered[name])) for name in errors}


@pytest.fixture(scope="module")
def followed() -> tuple[Scenario, dict[str, tuple[float, float]]]:
    centre = Scenario(features={"attributes": ATTRIBUTES}).at("00:00")
    return centre, lived(centre, 160, follows=True)


def test_attributes_that_decide_the_run_time_make_answers_sharp(
    followed: tuple[Scenario, dict[str, tuple[float, float]]],
) -> None:
    centre, found = followed
    assert found["curve"][0] > 0.3
    assert found["combination"][0] < 1.5 * NOISE
    assert 0.8 <= found["combination"][1] <= 1.0
    slow, quick = (
        requested(centre, {"solver": solver, "atoms": 2000, "place": 0.5}, 4.0).points[0] for solver in ("cg", "sweep")
    )
    assert slow.run_time_s / quick.run_time_s == pytest.approx(3.0, rel=0.1)
    assert slow.speedup == pytest.approx(610.0 / 160.0, rel=0.15)


def test_an_answer_names_what_it_comes_from_with_weights_and_errors(
    followed: tuple[Scenario, dict[str, tuple[float, float]]],
) -> None:
    answer = requested(followed[0], {"solver": "cg", "atoms": 2000, "place": 0.5}, 4.0)
    assert answer.model is not None
    assert "Features of the run contribute: attributes" in answer.detail
    by_name = {member.name: member for member in answer.model.members}
    assert by_name["attributes"].weight > 0.9
    assert sum(member.weight for member in answer.model.members) == pytest.approx(1.0, abs=1e-4)
    assert by_name["attributes"].errors[0].error < 2 * NOISE
    assert answer.model.errors[0].scored > 60


def test_a_request_that_does_not_report_the_attributes_is_answered_by_the_curve(
    followed: tuple[Scenario, dict[str, tuple[float, float]]],
) -> None:
    centre, _ = followed
    without = requested(centre, {}, 4.0)
    some = requested(centre, {"solver": "cg"}, 4.0)
    assert predicted(some) == predicted(without)
    assert "It does not tell atoms, place: such features do not count." in some.detail
    assert without.model is not None
    assert without.model.name != "features"


def test_a_word_that_was_never_run_is_answered_all_the_same(
    followed: tuple[Scenario, dict[str, tuple[float, float]]],
) -> None:
    point = requested(followed[0], {"solver": "new", "atoms": 2000, "place": 0.5}, 4.0).points[0]
    assert 100 < point.run_time_s < 1000
    assert point.low_s < point.run_time_s < point.high_s


def test_beyond_the_sizes_that_were_run_the_curve_states_how_times_go_on(
    followed: tuple[Scenario, dict[str, tuple[float, float]]],
) -> None:
    centre, _ = followed
    attributes = {"solver": "cg", "atoms": 2000, "place": 0.5}
    curve, features = (requested(centre, given, 8.0, 16.0).points for given in ({}, attributes))
    ratios = [points[1].run_time_s / points[0].run_time_s for points in (curve, features)]
    assert ratios[1] == pytest.approx(ratios[0], rel=0.05)


def test_attributes_that_report_nothing_do_no_harm() -> None:
    found = lived(Scenario(features={"attributes": ATTRIBUTES}).at("00:00"), 100, follows=False)
    assert found["combination"][0] < 1.05 * found["curve"][0]
    assert found["combination"][1] >= 0.8


def test_without_configured_attributes_nothing_changes() -> None:
    centres = [Scenario(features=given).at("00:00") for given in ({}, {"attributes": ("unknown",)})]
    assert lived(centres[0], 40, follows=True) == lived(centres[1], 40, follows=True)
    first, second = (centre.state() for centre in centres)
    assert first == second
    assert centres[0].sent == centres[1].sent
    assert not any(key.startswith("feature_times") for key in first)


def test_an_agent_that_is_restored_in_the_middle_of_a_fit_predicts_the_same() -> None:
    centres = [Scenario(features={"attributes": ATTRIBUTES}).at("00:00") for _ in range(2)]
    for part in range(6):
        for centre in centres:
            lived(centre, 9, follows=True, seed=part)
            centre.at_ms(centre.now_ms + 200_000)  # the last run settled a moment ago
        centres[1].restart()
        assert centres[1].state() == centres[0].state()
    assert centres[1].sent == centres[0].sent
    asks = [requested(centre, {"solver": "cg", "atoms": 2000, "place": 0.5}, 4.0) for centre in centres]
    assert asks[0] == asks[1]


def test_a_started_job_that_reports_its_attributes_is_forecast_by_them(
    followed: tuple[Scenario, dict[str, tuple[float, float]]],
) -> None:
    centre, _ = followed
    for job, solver in (("slow", "cg"), ("quick", "sweep")):
        centre.starts(job, "lammps", nodes=4, attributes={"solver": solver, "atoms": 2000, "place": 0.5})
    slow, quick = (centre.topic("job_predictions")[f"{SYSTEM}/{job}"] for job in ("slow", "quick"))
    assert slow["run_time_s"] / quick["run_time_s"] == pytest.approx(3.0, rel=0.1)
    assert slow["model"]["name"] == "features"
    assert slow["reliability"]["verdict"] == "reliable"
    centre.at_ms(centre.now_ms + 700_000)
    later = centre.topic("job_predictions")[f"{SYSTEM}/quick"]
    assert later["run_time_s"] > 650, "it runs longer than was foretold, and still goes by its attributes"


def test_more_runs_than_there_is_memory_for_leave_and_are_counted() -> None:
    centre = Scenario(features={"attributes": ATTRIBUTES, "bytes_max": 2**16}).at("00:00")
    lived(centre, 130, follows=True)
    assert centre.tally["bound:feature_bytes_max"] > 0
    roomy = Scenario(features={"attributes": ATTRIBUTES}).at("00:00")
    lived(roomy, 130, follows=True)
    assert roomy.tally["bound:feature_bytes_max"] == 0
    bounded, whole = (each.state()[f"feature_times/{APPLICATION}"] for each in (centre, roomy))
    assert bounded is not None
    assert whole is not None
    assert len(bounded) < len(whole)
