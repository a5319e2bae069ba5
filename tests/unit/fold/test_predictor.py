"""What will this job take? A prediction, an answer and the end of a running job give the same numbers, whatever answers."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from processors.contracts.settings import IdentifySettings
from processors.models.numerics.statistics import band_digits, rounded_band, to_digits
from tests.kit.scenario import Scenario

NUMBERS = ("run_time_s", "low_s", "high_s", "coverage", "coverage_measured")
SOLVERS = {"cg": 3.0, "amg": 1.7, "sweep": 1.0}


class Way(NamedTuple):
    """One way of answering: what is known, what is asked about, and where the numbers then come from."""

    learned: Callable[[], Scenario]
    application: str | None
    n: float
    fields: dict[str, Any]
    source: str
    published: bool  # whether the size stands on a published curve, and nothing but the size is asked about


def quiet() -> Scenario:
    centre = Scenario().at("06:00")
    chance = np.random.default_rng(1)
    for i in range(30):
        n = (1, 2, 4, 8, 16, 32, 64)[i % 7]
        centre.at_ms(centre.now_ms + 60_000)
        centre.ran(f"h{i}", "lammps", n, (3600.0 / n + 40.0) * float(np.exp(0.01 * chance.normal())))
    return centre.at("10:00")


def of_one_size() -> Scenario:
    centre = Scenario().at("06:00")
    for i in range(8):  # so few that nobody knows yet whether the curve would do better
        centre.at_ms(centre.now_ms + 60_000)
        centre.ran(f"h{i}", "lammps", 4, 300.0 + 10 * i)
    return centre.at("10:00")


def not_by_size() -> Scenario:
    centre = Scenario().at("02:00")
    for i in range(60):
        centre.at_ms(centre.now_ms + 120_000)
        centre.ran(f"w{i}", "lammps", (1, 2, 4, 8)[i % 4], (100.0, 4000.0)[(i // 4 + i) % 2] + i)
    return centre.at("12:00")


def of_many_inputs() -> Scenario:
    centre = Scenario(identify=IdentifySettings(input_sizes=("atoms",))).at("08:00")
    for atoms in (1000, 2000, 4000, 8000):
        for n in (1, 2, 4, 8):
            for i in range(2):
                seconds = 100.0 * (atoms / 1000) ** 1.5 * (1 / n + 0.02) * (1 + 0.01 * i)
                centre.ran(f"{atoms}-{n}-{i}", "lammps", n, seconds, attributes={"atoms": atoms})
    return centre.at("10:00")


def of_solvers() -> Scenario:
    centre = Scenario(features={"attributes": ("solver",)}).at("00:00")
    for i in range(80):
        n, solver = (1, 2, 4, 8)[i % 4], list(SOLVERS)[i % 3]
        centre.at_ms(centre.now_ms + 600_000)
        centre.ran(f"j{i}", "lammps", n, (600.0 / n + 10.0) * SOLVERS[solver], attributes={"solver": solver})
    return centre.at_ms(centre.now_ms + 3_600_000)


def of_a_user() -> Scenario:
    centre = Scenario().at("06:00")
    for i in range(20):
        centre.at_ms(centre.now_ms + 60_000)
        centre.ran(f"u{i}", None, 4, 300.0 + i, user="u-anna")
    return centre.at("10:00")


WAYS = {
    "a size that was run": Way(quiet, "lammps", 32, {}, "observed", published=True),
    "a size between two that were run": Way(quiet, "lammps", 48, {}, "interpolated", published=False),
    "a size beyond those that were run": Way(quiet, "lammps", 128, {}, "extrapolated", published=True),
    "a size beyond the published curve": Way(quiet, "lammps", 1024, {}, "extrapolated", published=False),
    "the one size that was run": Way(of_one_size, "lammps", 4, {}, "similar_runs", published=True),
    "another size than the one that was run": Way(of_one_size, "lammps", 8, {}, "extrapolated", published=True),
    "times that do not follow the size": Way(not_by_size, "lammps", 4, {}, "similar_runs", published=True),
    "an input that was never run": Way(
        of_many_inputs, "lammps", 4, {"attributes": {"atoms": 16000}}, "transfer", published=False
    ),
    "attributes that decide": Way(of_solvers, "lammps", 4, {"attributes": {"solver": "cg"}}, "features", published=False),
    "nothing but the user": Way(of_a_user, None, 4, {"user": "u-anna", "job_name": "bash"}, "similar_runs", published=False),
}  # fmt: skip


@pytest.mark.parametrize("name", WAYS)
def test_a_prediction_an_answer_and_a_running_job_give_the_same_numbers(name: str) -> None:
    way = WAYS[name]
    centre = way.learned()
    answer = centre.asks("r1", way.n, application=way.application, **way.fields)
    centre.starts("1", way.application, nodes=way.n, **way.fields)
    job = centre.topic("job_predictions")["exa/1"]
    [point] = answer["points"]
    assert point["source"] == way.source
    digits = band_digits(point["run_time_s"], point["low_s"], point["high_s"])
    times = {key: to_digits(point[key], digits) for key in ("run_time_s", "low_s", "high_s")}
    assert {key: job[key] for key in NUMBERS} == {key: point[key] for key in NUMBERS} | times
    assert job["reliability"] == point["reliability"]
    if way.published:
        [prediction] = centre.topic("predictions").values()
        [on_curve] = [each for each in prediction["curve"] if each["n"] == way.n]
        compared = (*NUMBERS, "speedup", "efficiency", "extrapolation")
        assert {key: on_curve[key] for key in compared} == {key: point[key] for key in compared}
        assert prediction["useful_n"] == (answer["useful_n"] or dict.fromkeys(prediction["useful_n"]))


def test_speed_up_is_the_predicted_time_of_one_over_that_of_the_size() -> None:
    points = quiet().asks("r1", 1, 2, 16, 48, 200, application="lammps")["points"]
    one_s = points[0]["run_time_s"]
    for point in points:
        assert point["speedup"] == pytest.approx(one_s / point["run_time_s"], rel=1e-2)
        assert point["efficiency"] == pytest.approx(point["speedup"] / point["n"], rel=1e-3)


def test_numbers_leave_in_the_digits_that_their_band_supports_and_in_five_up_to_the_largest_size() -> None:
    for point in quiet().asks("r1", 1, 16, 48, 200, application="lammps")["points"]:
        run_time_s, low_s, high_s = point["run_time_s"], point["low_s"], point["high_s"]
        least = 5 if point["extrapolation"] <= 1.0 else 3
        assert (run_time_s, low_s, high_s) == rounded_band(run_time_s, low_s, high_s, least)
        assert point["efficiency"] == to_digits(point["efficiency"], 4)


def test_between_two_sizes_that_were_run_the_band_is_that_of_a_size_that_was_not() -> None:
    points = {point["n"]: point for point in quiet().asks("r1", 32, 45, 48, 64, application="lammps")["points"]}
    width = {n: point["high_s"] / point["low_s"] for n, point in points.items()}
    assert width[48] > 0.9 * width[45]
    assert width[48] > width[32]


def test_a_job_that_has_run_on_keeps_what_was_predicted_of_the_whole_as_long_as_it_can_be_true() -> None:
    centre = quiet()
    centre.starts("1", "lammps", nodes=32)
    first = centre.topic("job_predictions")["exa/1"]
    centre.at_ms(centre.now_ms + 60_000)
    assert len([each for each in centre.messages("job_predictions") if each["job_id"] == "1"]) == 1
    centre.at_ms(centre.now_ms + 3_600_000)
    later = centre.topic("job_predictions")["exa/1"]
    assert later["run_time_s"] > first["high_s"]
