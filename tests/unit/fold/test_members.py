"""Who is right on an application, as messages tell it."""

import math
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from processors.models.battery import REFERENCE
from processors.models.combination.evidence import ENSEMBLE
from tests.kit.scenario import SYSTEM, Scenario

APPLICATION = f"{SYSTEM}/app//nodes"
Truth = Callable[[float], float]


def universal(n: float) -> float:
    return 1000.0 / n * (1 + 0.02 * (n - 1) + 0.0006 * n * (n - 1))


def amdahl_log(n: float) -> float:
    return 1000.0 / n + 8.0 + 6.0 * math.log2(n)


def growing(truth: Truth, *, restarts: bool = False) -> Scenario:
    """Let an application run at four sizes, and then each day at twice the largest one."""
    centre = Scenario()
    centre.at("08:00")
    for i, n in enumerate((1, 2, 4, 8, 1, 2, 4, 8)):
        centre.ran(f"first-{i}", "app", n, truth(n) * (1.005 if i < 4 else 0.995))
    for day, n in enumerate((16, 32, 64, 128), start=1):
        centre.at(f"{day}d 10:00")
        if restarts:
            centre.restart()
        for i in range(2):
            centre.ran(f"{n}-{i}", "app", n, truth(n) * (1.005 if i else 0.995))
    return centre.at("6d 10:00")


def predicted(centre: Scenario) -> dict[str, Any]:
    return centre.topic("predictions")[APPLICATION]


def errors(prediction: dict[str, Any], horizon: str) -> dict[str, float]:
    """Return the errors of the laws at a horizon, the least first."""
    found = {
        member["name"]: part["error"]
        for member in prediction["model"]["members"]
        for part in member["errors"]
        if part["horizon"] == horizon
    }
    return dict(sorted(found.items(), key=lambda item: item[1]))


def test_an_application_that_scales_universally_shows_usl_as_the_one_that_is_right() -> None:
    prediction = predicted(growing(universal))
    by_error = errors(prediction, "up_to_2x")
    assert next(iter(by_error)) == "usl"
    assert by_error["usl"] < 0.1 < by_error["amdahl"]
    usl = next(member for member in prediction["model"]["members"] if member["name"] == "usl")
    assert usl["parameters"] == pytest.approx(
        {"t1_s": 1000.0, "sigma": 0.02, "kappa": 0.0006, "best_n": math.sqrt(0.98 / 0.0006)}, rel=0.1
    )


def test_an_application_with_logarithmic_communication_shows_that_law_as_the_one_that_is_right() -> None:
    by_error = errors(predicted(growing(amdahl_log)), "up_to_2x")
    assert next(iter(by_error)) == "amdahl_log"
    assert by_error["amdahl_log"] < 0.05


def test_every_law_states_what_it_is_for() -> None:
    members = {member["name"]: member for member in predicted(growing(universal))["model"]["members"]}
    assert set(members) == {*ENSEMBLE, *REFERENCE}
    assert {name for name, member in members.items() if member["role"] == "part"} == set(ENSEMBLE)
    assert sum(member["weight"] for member in members.values()) == pytest.approx(1.0, abs=1e-4)
    assert {name for name, member in members.items() if member["answers"] != "all sizes"} == {"adept"}
    assert all(member["parameters"] for member in members.values())


def test_laws_that_need_more_sizes_report_it() -> None:
    centre = Scenario()
    centre.at("08:00").scales("app", 1, 2)
    centre.at("10:00")
    members = {member["name"]: member for member in predicted(centre)["model"]["members"]}
    silent = {name: member["sizes_min"] for name, member in members.items() if member["answers"] == "nothing"}
    assert silent == {"barnes_linear": 3, "barnes_quadratic": 4, "adept": 3}


def test_the_prediction_itself_is_measured_as_its_members_are() -> None:
    prediction = predicted(growing(universal))
    assert [(part["horizon"], part["scored"]) for part in prediction["model"]["errors"]] == [("up_to_2x", 8)]
    assert [part["horizon"] for part in prediction["quality"]["horizons"]] == ["up_to_2x"]
    assert prediction["quality"]["horizons"][0]["median_error"] == pytest.approx(
        prediction["model"]["errors"][0]["error"], rel=0.5
    )


def test_far_beyond_the_published_curve_the_laws_are_judged_all_the_same() -> None:
    centre = Scenario()
    centre.at("08:00").scales("app", 4, 8, 16)
    centre.at("10:00").ran("big", "app", 128, 40.0)
    prediction = predicted(centre.at("2d 10:00"))
    assert errors(prediction, "beyond_4x")
    assert not prediction["model"]["errors"]
    assert prediction["quality"]["scored"] == 0, "no band was published there"


def test_a_run_below_the_known_sizes_judges_the_laws_alone() -> None:
    centre = Scenario()
    centre.at("08:00").scales("app", 4, 8, 16)
    centre.at("10:00").ran("small", "app", 2, 500.0)
    prediction = predicted(centre.at("2d 10:00"))
    assert errors(prediction, "up_to_2x")
    assert prediction["model"]["errors"] == []


def test_a_corrected_or_repeated_report_judges_no_law_again() -> None:
    centre = Scenario()
    centre.at("08:00").scales("app", 1, 2, 4, 8)
    event = centre.at("10:00").ran("1", "app", 16, 90.0)
    before = centre.state()[f"members/{APPLICATION}"]
    centre.fold(event)
    centre.fold(msgspec.structs.replace(event, run_time_s=95.0))
    assert centre.state()[f"members/{APPLICATION}"] == before


def test_a_restart_changes_nothing() -> None:
    plain, restarted = growing(universal), growing(universal, restarts=True)
    assert predicted(plain)["model"] == predicted(restarted)["model"]
    assert plain.state()[f"members/{APPLICATION}"] == restarted.state()[f"members/{APPLICATION}"]


def test_an_answer_reports_the_same_of_the_laws() -> None:
    centre = growing(universal)
    answer = centre.asks("q", 256.0, application="app")
    assert answer["model"] == predicted(centre)["model"]


def test_measured_coverage_is_part_of_predictions_answers_and_jobs_with_its_count() -> None:
    centre = Scenario()
    for i in range(40):
        n = 2.0 ** (i % 4)
        centre.at(f"{8 + i // 6:02}:{i % 6}5").ran(f"{i}", "app", n, (1000.0 / n + 20.0) * (1.0 + 0.004 * (i % 5)))
    centre.at("2d 10:00")
    own = next(point for point in predicted(centre)["curve"] if point["n"] == 4.0)
    assert own["coverage_runs"] >= 20
    assert 0.85 < own["coverage_measured"] < 1.0
    answer = centre.asks("q", 4.0, 6.0, application="app")["points"]
    centre.starts("job", "app", 4)
    for other in (answer[0], centre.messages("job_predictions")[-1]):
        assert (other["coverage_measured"], other["coverage_runs"]) == (own["coverage_measured"], own["coverage_runs"])
    assert (answer[1]["coverage_measured"], answer[1]["coverage_runs"]) == (None, None), "no run was between sizes"


def test_a_favoured_class_of_sizes_leaves_the_classic_laws_beside_downey() -> None:
    centre = Scenario()
    centre.at("08:00")
    for i, n in enumerate((1, 2, 4, 8, 16, 32, 64, 3, 6, 12, 24, 48)):
        slow = 1.0 if n & (n - 1) == 0 else 1.6
        centre.ran(f"a{i}", "app", n, (1000.0 / n + 20.0) * slow)
    prediction = predicted(centre.at("10:00"))
    assert prediction["model"]["name"] == "adept"
    parts = {member["name"]: member["role"] for member in prediction["model"]["members"]}
    assert parts == {name: "part" if name == "downey" else "reference" for name in REFERENCE}


def test_the_laws_leave_with_their_application() -> None:
    centre = Scenario()
    centre.at("08:00")
    first = [centre.ran(str(i), "app", 2**i, 1000.0 / 2**i) for i in range(3)]
    centre.at("10:00")
    assert f"members/{APPLICATION}" in centre.state()
    for event in first:
        centre.fold(
            type(event)(**{name: getattr(event, name) for name in event.__struct_fields__} | {"state": "FAILED"})
        )
    centre.at("12:00")
    assert f"members/{APPLICATION}" not in centre.state()


def test_the_state_of_an_application_of_eight_sizes_stays_small() -> None:
    centre = Scenario()
    centre.at("08:00").scales("app", *(2**k for k in range(8)), prefix="a")
    centre.at("1d 08:00").scales("app", *(2**k for k in range(10)), prefix="b")
    centre.at("2d 08:00").scales("app", *(2**k for k in range(10)), prefix="c")
    assert len(centre.state()[f"members/{APPLICATION}"] or b"") < 1200


def test_kazminas_own_law_is_found_in_the_fastest_of_disturbed_runs() -> None:
    centre = Scenario().at("08:00")
    sizes = (16, 32, 64, 96, 128)
    for j, disturbed in enumerate((1.3, 1.02, 1.0, 1.05, 1.11)):
        for i, q in enumerate(sizes):
            # which of the repeats is the undisturbed one differs from size to size
            slower = (1.3, 1.02, 1.0, 1.05, 1.11)[(i + j) % 5] if i % 2 else disturbed
            centre.ran(f"{j}-{q}", "app", q, 1000.0 * (0.002 * q + 800.0 / q + 5.0 / math.sqrt(q)) * slower)
    centre.at("1d 08:00")
    members = {each["name"]: each for each in centre.messages("predictions")[-1]["model"]["members"]}
    found = members["kazmina"]["parameters"]
    assert found["growth_s"] == pytest.approx(2.0, rel=1e-3)
    assert found["parallel_s"] == pytest.approx(800_000.0, rel=1e-5)
    assert found["root_s"] == pytest.approx(5_000.0, rel=1e-3)
    assert found["best_n"] == pytest.approx(657.3, rel=1e-3)
    assert members["amdahl"]["parameters"]["parallel_s"] > 820_000.0, "the others are fitted to what is typical"
