"""A journal that says something twice says it once; the order of completions does not matter to a model."""

from itertools import permutations

import pytest

from processors.contracts.settings import IdentifySettings, Rule
from tests.kit.scenario import Scenario

SIZES = (1, 2, 4, 8, 16)


def a_day(*, twice: bool) -> Scenario:
    """A centre's morning, each event at once or, every one of them, twice in a row."""
    centre = Scenario()
    if twice:
        fold_once = centre.fold
        centre.fold = lambda event: fold_once(event) + fold_once(event)  # type: ignore[method-assign] # every event
    centre.at("08:00").scales("lammps", *SIZES, *SIZES, hosts=("nid[1-4]",))
    centre.at("08:10").starts("1", "lammps", nodes=4, time_limit_s=600.0)
    centre.report_from("xalt", "1", executable="/opt/lmp")
    centre.at("08:12").ran("2", "lammps", 4, 900.0)
    centre.ran("3", "lammps", 4, 100.0, state="FAILED", hosts=("nid7",))
    centre.at("08:15").ends("1")
    centre.asks("r1", 2, 64, application="lammps")
    centre.at("08:16").starts("4", "gromacs", nodes=2)
    centre.at("10:00").ends("4", state="NODE_FAIL")
    centre.at("11:00")
    return centre


def test_every_event_reported_twice_gives_the_same_messages_and_the_same_state_to_the_byte() -> None:
    once, twice = a_day(twice=False), a_day(twice=True)
    assert len(once.sent) > 20
    assert twice.sent == once.sent
    assert twice.state() == once.state()
    assert twice.tally["event:repeated"] == len(once.events)


@pytest.mark.parametrize("moment", ["08:10:30", "08:14", "09:00", "2d 10:00"])
def test_a_run_that_is_reported_again_later_changes_nothing(moment: str) -> None:
    centre = Scenario()
    centre.at("08:00").scales("lammps", *SIZES)
    report = centre.at("08:10").ran("1", "lammps", 4, 280.0)
    centre.at(moment)
    before, sent = centre.state(), len(centre.sent)
    centre.fold(report)
    assert (centre.state(), len(centre.sent)) == (before, sent)


@pytest.mark.parametrize("moment", ["08:10:30", "08:14", "2d 10:00"])
def test_a_repeat_is_one_although_the_start_that_named_and_sized_the_job_is_forgotten(moment: str) -> None:
    centre = Scenario()
    centre.at("08:00").starts("1", "lammps", nodes=4)
    report = centre.at("08:10").ends("1", application=None, sizes={}, nodes=None)
    assert centre.runs_of("lammps") == [("1", 4.0, 600.0)]
    centre.at(moment).fold(report)
    assert centre.runs_of("lammps") == [("1", 4.0, 600.0)]
    assert centre.tally["event:repeated"] == 1


@pytest.mark.parametrize("moment", ["08:10:30", "08:14", "2d 10:00"])
def test_a_repeat_is_one_although_the_evidence_that_named_the_job_is_forgotten(moment: str) -> None:
    by_module = IdentifySettings(rules=(Rule(match={"module": "^(?P<application>\\w+)"}, unit="cores"),))
    centre = Scenario(identify=by_module)
    centre.at("08:00").report_from("xalt", "1", module="lammps/2024")
    report = centre.at("08:10").ran("1", None, 4, 600.0, job_name="run7", sizes={"cores": 64.0})
    centre.at(moment).fold(report)
    model = centre.model("lammps", unit="cores")
    assert model is not None
    assert model.observations == 1
    assert centre.tally["event:repeated"] == 1


def test_a_second_source_that_does_not_name_the_run_takes_nothing_away() -> None:
    centre = Scenario()
    centre.at("08:10").ran("1", "lammps", 4, 600.0)
    centre.at("08:10:30").ran("1", None, 4, 600.0)
    assert centre.runs_of("lammps") == [("1", 4.0, 600.0)]


def test_a_second_source_that_only_knows_a_job_name_does_not_move_the_run() -> None:
    centre = Scenario()
    first = centre.at("08:10").ran("1", "lammps", 4, 600.0)
    poorer = type(first)(
        first.system, first.job_id, first.run_id, first.start_ms, first.end_ms, 601.0, first.state,
        type(first.evidence)(sizes={"nodes": 4.0}, job_name="gmx_prod"),
    )  # fmt: skip
    centre.fold(poorer)
    assert centre.runs_of("lammps") == [("1", 4.0, 601.0)], "its numbers are the last that were told, its name the best"
    assert centre.model("gmx_prod") is None


def test_any_order_of_the_completions_gives_the_same_predictions_to_the_bit() -> None:
    reported = set()
    for order in list(permutations(range(5)))[::13]:
        centre = Scenario()
        centre.at("08:00")
        for i in order:
            centre.ran(str(i), "lammps", SIZES[i], 1000.0 / SIZES[i] + 20.0 + 0.1 * i)
            centre.ran(f"{i}b", "lammps", SIZES[i], 1000.0 / SIZES[i] + 21.0 + 0.1 * i)
        centre.at("08:00:20")
        (prediction,) = [sent.value for sent in centre.sent if sent.kind == "predictions"]
        reported.add(prediction)
    assert len(reported) == 1


def test_a_tick_of_the_past_moves_nothing() -> None:
    centre = Scenario()
    centre.at("08:00").starts("1", "lammps", nodes=4)
    tick = centre.events[0]
    centre.at("08:05")
    before = centre.state()
    assert centre.fold(tick) == []
    assert (centre.state(), centre.tally["event:repeated"]) == (before, 1)
