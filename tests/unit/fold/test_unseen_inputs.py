"""An input that was never run is predicted from the other inputs of its application, once its sizes are configured."""

import math
from typing import Any

import msgspec
import pytest

from processors.contracts.settings import IdentifySettings, Rule
from processors.inputs import INPUTS_MAX
from tests.kit.scenario import Scenario

SIZED = IdentifySettings(input_sizes=("atoms",))
NODES = (1, 2, 4, 8)


def truth_s(atoms: float, n: float) -> float:
    return 100.0 * math.pow(atoms / 1000, 1.5) * (1 / n + 0.02)


def runs(centre: Scenario, atoms: float, *nodes: float, prefix: str = "", **fields: Any) -> None:
    reported = {"attributes": {"atoms": atoms}} | fields
    for n in nodes:
        for i in range(2):
            seconds = truth_s(atoms, n) * (1 + 0.01 * i)
            centre.ran(f"{prefix}{atoms}-{n}-{i}", "lammps", n, seconds, **reported)


def learned(identify: IdentifySettings = SIZED) -> Scenario:
    centre = Scenario(identify=identify)
    centre.at("08:00")
    for atoms in (1000, 2000, 4000, 8000):
        runs(centre, atoms, *NODES)
    return centre.at("10:00")


def test_a_request_for_an_unseen_input_is_answered_from_the_other_inputs() -> None:
    answer = learned().asks("r1", 4, 16, application="lammps", attributes={"atoms": 16000})
    assert (answer["known"], answer["input"], answer["observations"]) == (True, "atoms=16000", 0)
    assert answer["model"]["name"] == "input_size"
    for point in answer["points"]:
        truth = truth_s(16000, point["n"])
        assert abs(math.log(point["run_time_s"] / truth)) < 0.2
        assert point["low_s"] < truth < point["high_s"]
        assert point["high_s"] / point["low_s"] < 10
        assert (point["source"], point["reliability"]["verdict"]) == ("transfer", "uncertain")
        assert point["reliability"]["reasons"] == ["unseen_input"]
        assert "atoms=8000, atoms=4000, atoms=2000 and 1 more" in point["reliability"]["advice"][0]
    assert [point["extrapolation"] for point in answer["points"]] == [0.5, 2.0]
    assert "No run of lammps with input atoms=16000 is known" in answer["detail"]


def test_the_sizes_may_be_reported_by_the_name_of_the_input() -> None:
    answer = learned().asks("r1", 4, application="lammps", input="atoms=3000")
    assert answer["known"]
    assert abs(math.log(answer["points"][0]["run_time_s"] / truth_s(3000, 4))) < 0.1


def test_without_configured_sizes_inputs_are_not_mixed() -> None:
    centre = learned(IdentifySettings(input_attributes=("atoms",)))
    answer = centre.asks("r1", 4, application="lammps", attributes={"atoms": 16000})
    assert not answer["known"]
    assert answer["detail"].startswith(
        "No run of lammps with input atoms=16000 in nodes is known. Known inputs: atoms=1000"
    )
    assert len(centre.shard.state.inputs) == 0


@pytest.mark.parametrize(
    "requested", [{"attributes": {"cells": 5}}, {"attributes": {"atoms": "many"}}, {"attributes": {"atoms": 0}}, {}]
)
def test_a_request_without_the_sizes_is_shown_which_inputs_are_known(requested: dict[str, Any]) -> None:
    answer = learned().asks("r1", 4, application="lammps", **requested)
    assert not answer["known"]
    assert "Known inputs: atoms=1000 in nodes" in answer["detail"]


def test_runs_in_another_unit_report_nothing() -> None:
    centre = learned()
    answer = centre.asks("r1", 4, unit="cores", application="lammps", attributes={"atoms": 3000})
    assert not answer["known"]


def test_a_job_of_an_unseen_input_is_shown_its_end_and_is_revised_while_it_runs() -> None:
    centre = learned()
    centre.starts("1", "lammps", nodes=4, attributes={"atoms": 3000}, time_limit_s=3600.0)
    prediction = centre.topic("job_predictions")["exa/1"]
    assert prediction["known"]
    assert prediction["low_s"] < truth_s(3000, 4) < prediction["high_s"]
    assert (prediction["reliability"]["verdict"], prediction["reliability"]["reasons"]) == (
        "uncertain",
        ["unseen_input"],
    )
    centre.restart()
    centre.at("10:10")
    later = centre.topic("job_predictions")["exa/1"]
    assert later["known"]
    assert later["run_time_s"] >= 550
    assert later["reliability"]["reasons"] == ["unseen_input"]


def test_a_job_that_reports_no_size_of_its_input_gets_no_forecast_from_other_inputs() -> None:
    centre = learned()
    centre.starts("1", "lammps", nodes=4)
    assert centre.topic("job_predictions")["exa/1"]["model"]["name"] == "similar_runs"


def test_an_input_that_ran_at_one_size_leans_on_the_others() -> None:
    alone = Scenario()
    alone.at("08:00").ran("1", "lammps", 4, truth_s(3000, 4))
    alone.ran("2", "lammps", 4, truth_s(3000, 4))
    study = alone.at("10:00").asks("r", 1, application="lammps")["points"][0]
    centre = learned()
    runs(centre, 3000, 4)
    answer = centre.at("12:00").asks("r1", 1, 4, application="lammps", attributes={"atoms": 3000})
    point, seen = answer["points"]
    truth = truth_s(3000, 1)
    assert abs(math.log(point["run_time_s"] / truth)) < min(0.1, abs(math.log(study["run_time_s"] / truth)))
    assert point["low_s"] < truth < point["high_s"]
    assert point["high_s"] / point["low_s"] < study["high_s"] / study["low_s"]
    assert abs(math.log(seen["run_time_s"] / truth_s(3000, 4))) < 0.02
    assert "relies on the inputs atoms=" in point["reliability"]["advice"][-1]
    weights = {member["name"]: member["weight"] for member in answer["model"]["members"]}
    assert 0.2 < weights["input_size"] < 1
    assert abs(sum(weights.values()) - 1) < 1e-4


def test_inputs_that_ran_once_each_report_the_next_one() -> None:
    centre = Scenario(identify=SIZED)
    centre.at("08:00")
    for i, atoms in enumerate((1000, 1500, 2500, 3500, 5000, 7000, 9000, 12000)):
        n = NODES[i % 4]
        centre.ran(f"{atoms}", "lammps", n, truth_s(atoms, n), attributes={"atoms": atoms})
    point = centre.at("08:30").asks("r", 4, application="lammps", attributes={"atoms": 4000})["points"][0]
    assert abs(math.log(point["run_time_s"] / truth_s(4000, 4))) < 0.3
    assert point["low_s"] < truth_s(4000, 4) < point["high_s"]


def test_a_rule_may_read_the_size_from_the_name_of_a_job() -> None:
    rule = Rule(match={"job_name": r"^lmp_(?P<atoms>\d+)"}, application="lammps", input="{atoms}")
    centre = Scenario(identify=IdentifySettings(rules=(rule,), input_sizes=("atoms",)))
    centre.at("08:00")
    for atoms in (1000, 2000, 4000):
        for n in NODES:
            centre.ran(f"{atoms}-{n}", None, n, truth_s(atoms, n), job_name=f"lmp_{atoms}")
    answer = centre.at("10:00").asks("r1", 4, job_name="lmp_3000")
    assert answer["known"]
    point = answer["points"][0]
    assert point["low_s"] < truth_s(3000, 4) < point["high_s"]


def test_inputs_of_another_kind_widen_the_band() -> None:
    centre = Scenario(identify=IdentifySettings(input_attributes=("solver",), input_sizes=("atoms",)))
    centre.at("08:00")
    for atoms in (1000, 2000, 4000, 8000):
        runs(centre, atoms, *NODES, attributes={"atoms": atoms, "solver": "cg"})
    centre.at("10:00")
    same, other = (
        centre.asks(solver, 4, application="lammps", attributes={"atoms": 3000, "solver": solver})["points"][0]
        for solver in ("cg", "lu")
    )
    assert other["high_s"] / other["low_s"] > 3 * same["high_s"] / same["low_s"]


def test_inputs_are_bounded_and_leave_with_their_applications() -> None:
    centre = Scenario(identify=SIZED, run_time={"applications_max": 3})
    centre.at("08:00")
    for i in range(INPUTS_MAX + 6):
        centre.ran(f"{i}", "lammps", 4, 60.0 + i, attributes={"atoms": 1000 * (i + 1)})
    (inputs,) = (centre.shard.state.inputs.get(key) for key in centre.shard.state.inputs.keys())  # noqa: SIM118  no mapping
    assert inputs is not None
    assert len(inputs.records) == INPUTS_MAX
    assert centre.tally["bound:inputs_max"] == 6
    centre.at("08:10")
    assert len(inputs.records) <= 3
    centre.scales("nektar", 1, 2, 4)
    centre.scales("gromacs", 1, 2, 4)
    centre.scales("cp2k", 1, 2, 4)
    centre.at("08:20")
    assert len(centre.shard.state.inputs) == 0


def test_eight_inputs_take_little_room() -> None:
    centre = Scenario(identify=IdentifySettings(input_sizes=("atoms", "steps")))
    centre.at("08:00")
    for i in range(8):
        runs(centre, 1000 * 2**i, 1, 2, 4, 8, 16, 32, attributes={"atoms": 1000 * 2**i, "steps": 500})
    centre.at("12:00")
    (stored,) = (value for key, value in centre.state().items() if key.startswith("inputs/"))
    assert stored is not None
    assert 700 < len(stored) < 1400


def test_a_corrected_run_corrects_what_its_input_reports() -> None:
    centre = Scenario(identify=SIZED)
    centre.at("08:00")
    wrong = 10.0
    for atoms in (1000, 4000):
        centre.ran(f"{atoms}", "lammps", 4, truth_s(atoms, 4), attributes={"atoms": atoms})
    start = centre.ran("x", "lammps", 4, truth_s(2000, 4) * wrong, attributes={"atoms": 2000})
    before = centre.asks("r1", 4, application="lammps", input="atoms=2500")["points"][0]["run_time_s"]
    seconds = truth_s(2000, 4)
    corrected = msgspec.structs.replace(start, run_time_s=seconds, end_ms=start.start_ms + round(seconds * 1000))
    centre.fold(corrected)
    after = centre.asks("r2", 4, application="lammps", input="atoms=2500")["points"][0]["run_time_s"]
    assert abs(math.log(after / truth_s(2500, 4))) < 0.2 < abs(math.log(before / truth_s(2500, 4)))
