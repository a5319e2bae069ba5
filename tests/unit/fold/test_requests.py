"""Every request gets one answer, also where nothing is known."""

import math

import msgspec
import pytest

from processors.contracts.events import PredictionRequested
from processors.contracts.outputs import VERDICTS
from tests.kit.scenario import SYSTEM, Scenario, evidence


@pytest.fixture
def centre() -> Scenario:
    made = Scenario()
    made.at("08:00").scales("lammps", *(1, 2, 4, 8, 16) * 4)
    return made.at("10:00")


def test_an_answer_has_a_point_with_band_and_verdict_for_each_size(centre: Scenario) -> None:
    answer = centre.asks("r1", 4, 64, application="lammps")
    assert (answer["known"], answer["observations"], answer["identified_by"]) == (True, 20, "application")
    assert answer["detail"] == "20 runs at 5 sizes are known."
    assert [point["n"] for point in answer["points"]] == [4.0, 64.0]
    for point in answer["points"]:
        assert 0 < point["low_s"] < point["run_time_s"] < point["high_s"]
        assert point["reliability"]["verdict"]
    assert abs(answer["points"][0]["run_time_s"] / 271 - 1) < 0.03
    assert [point["source"] for point in answer["points"]] == ["observed", "extrapolated"]
    assert centre.sent[-1].key == f"{SYSTEM}/r1" or centre.sent[-1].key == "r1"


def test_a_request_of_an_unknown_application_is_answered_with_what_can_be_reported(centre: Scenario) -> None:
    answer = centre.asks("r1", 4, application="nektar")
    assert (answer["known"], answer["points"], answer["model"]) == (False, [], None)
    assert answer["detail"] == "No run of nektar on exa is known."


def test_a_request_with_an_unknown_input_is_shown_which_are_known(centre: Scenario) -> None:
    answer = centre.asks("r1", 4, application="lammps", input="rhodo")
    assert not answer["known"]
    assert answer["detail"] == "No run of lammps with input rhodo in nodes is known. Known inputs: no input in nodes."


def test_a_request_in_another_unit_is_shown_which_are_known(centre: Scenario) -> None:
    answer = centre.asks("r1", 4, application="lammps", unit="cores")
    assert "in cores is known. Known inputs: no input in nodes" in answer["detail"]


def test_raw_fields_of_a_job_are_identified_as_the_job_would_be(centre: Scenario) -> None:
    answer = centre.asks("r1", 4, executable="/opt/bin/lammps", job_name="run7", nodes=4)
    assert (answer["known"], answer["application"], answer["identified_by"]) == (True, "lammps", "executable")
    assert answer["confidence"] == 0.9


def test_a_request_that_names_no_program_states_why_it_has_no_answer(centre: Scenario) -> None:
    answer = centre.asks("r1", 4, job_name="bash")
    assert (answer["known"], answer["application"]) == (False, None)
    assert answer["detail"] == "The request could not be identified: the job name 'bash' names no program."


@pytest.mark.parametrize("moment", ["10:00:10", "10:09:30"])
def test_a_request_that_is_repeated_is_answered_once(centre: Scenario, moment: str) -> None:
    centre.asks("r1", 4, application="lammps")
    centre.restart()
    centre.at(moment)
    before = centre.state()
    centre.asks("r1", 4, application="lammps")
    assert len(centre.messages("answers")) == 1
    assert centre.state() == before


def test_two_requests_are_two_answers(centre: Scenario) -> None:
    centre.asks("r1", 4, application="lammps")
    centre.asks("r2", 4, application="lammps")
    first, second = centre.messages("answers")
    assert (first["points"], first["id"] != second["id"]) == (second["points"], True)


def test_an_answer_counts_the_runs_that_ended_since_the_last_one(centre: Scenario) -> None:
    centre.at("10:20")
    first = centre.asks("r1", 1, 4, 64, application="lammps")
    centre.scales("lammps", 4, 4)
    second = centre.asks("r2", 1, 4, 64, application="lammps")
    centre.restart()
    third = centre.asks("r3", 1, 4, 64, application="lammps")
    assert second["quality"]["scored"] == first["quality"]["scored"] + 2
    assert second["model"]["errors"] != first["model"]["errors"]
    own = ("id", "request_id")
    assert {name: second[name] for name in second if name not in own} == {
        name: third[name] for name in third if name not in own
    }


def test_requests_of_long_ago_are_forgotten(centre: Scenario) -> None:
    centre.asks("r1", 4, application="lammps")
    centre.at("10:12")
    assert len(centre.shard.state.answered_requests) == 0


def test_sixty_four_sizes_are_answered_and_what_is_left_out_is_reported(centre: Scenario) -> None:
    answer = centre.asks("r1", *range(1, 101), application="lammps")
    assert [point["n"] for point in answer["points"]] == [float(n) for n in range(1, 65)]
    assert "36 of the sizes asked for are left out" in answer["detail"]


def test_a_size_that_is_asked_twice_is_answered_once_and_sizes_are_in_order(centre: Scenario) -> None:
    assert [point["n"] for point in centre.asks("r1", 8, 2, 8, application="lammps")["points"]] == [2.0, 8.0]


@pytest.mark.parametrize("n", [0.5, 1e-3, 1e6, 1e9])
def test_small_and_huge_sizes_are_answered_in_numbers_of_this_world(centre: Scenario, n: float) -> None:
    (point,) = centre.asks("r1", n, application="lammps")["points"]
    numbers = [point[name] for name in ("run_time_s", "low_s", "high_s", "extrapolation")]
    assert all(isinstance(number, float) and 0 < number < math.inf for number in numbers)
    assert point["reliability"]["verdict"] in VERDICTS


@pytest.mark.parametrize("n", [0.0, -4.0, 1e-300, 1e308, math.inf, math.nan])
def test_sizes_that_no_machine_has_are_left_out_and_reported(centre: Scenario, n: float) -> None:
    request = PredictionRequested(SYSTEM, "r1", (n, 4.0), evidence("lammps"))
    answer = centre.shard.answer(request)
    assert [point.n for point in answer.points] == [4.0]
    assert "1 of the sizes asked for are left out" in answer.detail


def test_a_question_outside_of_the_journal_changes_nothing(centre: Scenario) -> None:
    before = centre.state()
    for name in ("lammps", "nektar"):
        centre.shard.answer(PredictionRequested(SYSTEM, "r1", (4.0,), evidence(name)))
    assert centre.state() == before
    assert centre.asks("r1", 4, application="lammps")["known"]


def test_an_application_on_probation_is_answered_from_the_run_there_is() -> None:
    centre = Scenario()
    centre.at("08:00").ran("1", "lammps", 4, 100.0)
    assert centre.at("08:10").topic("predictions") == {}
    answer = centre.asks("r1", 4, application="lammps")
    assert answer["known"]
    assert answer["points"][0]["reliability"]["verdict"] == "insufficient"
    assert msgspec.json.encode(answer)
