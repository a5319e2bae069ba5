"""Evidence from other sources names a job before and after its end, and moves its run exactly."""

import msgspec
import pytest

from processors.contracts.service import HITS, hits
from processors.contracts.settings import SESSION
from tests.kit.scenario import Scenario


def test_evidence_before_the_end_decides_where_a_run_is_learned() -> None:
    centre = Scenario()
    centre.at("10:00").starts("1", None, nodes=4, job_name="run7")
    centre.report_from("xalt", "1", executable="/opt/lammps/lmp")
    centre.at("10:30").ends("1")
    assert centre.runs_of("lmp") == [("1", 4.0, 1800.0)]
    assert centre.model("run#") is None
    (run,) = centre.at("10:40").messages("runs")
    assert (run["identified_by"], run["confidence"]) == ("executable from xalt", 0.9)


def test_evidence_before_the_start_is_kept_for_the_job() -> None:
    centre = Scenario()
    centre.at("10:00").report_from("prolog", "1", executable="/opt/lmp")
    centre.at("14:00").starts("1", None, nodes=4, job_name="run7")
    assert centre.topic("job_predictions")["exa/1"]["application"] == "lmp"


@pytest.mark.parametrize("moment", ["10:30:10", "10:32:50"])
def test_evidence_after_the_end_moves_the_run_as_if_it_had_come_before(moment: str) -> None:
    late, early = Scenario(), Scenario()
    for centre in (late, early):
        centre.at("10:00")
        if centre is early:
            centre.report_from("xalt", "1", executable="/opt/lammps/lmp")
        for job in "23":
            centre.ran(job, None, 4, 1500.0, job_name="run7")
        centre.starts("1", None, nodes=4, job_name="run7")
        centre.at("10:30").ends("1", nodes=None, sizes={})
        centre.at(moment)
        if centre is late:
            centre.report_from("xalt", "1", executable="/opt/lammps/lmp")
        centre.at("3d 10:00").at("3d 11:00")
    assert late.runs_of("lmp") == early.runs_of("lmp") == [("1", 4.0, 1800.0)]
    assert late.runs_of("run#") == early.runs_of("run#") == [("2", 4.0, 1500.0), ("3", 4.0, 1500.0)]
    assert {key: recent(late, key) for key in late.shard.state.failures.keys()} == {  # noqa: SIM118 - no mapping
        key: recent(early, key)
        for key in early.shard.state.failures.keys()  # noqa: SIM118 - no mapping
    }
    assert late.messages("runs") == early.messages("runs")
    prediction, other = (centre.topic("predictions")["exa/run#//nodes"]["observations"] for centre in (late, early))
    assert prediction == other == 2


def recent(centre: Scenario, key: str) -> list[tuple[int, bool, int]]:
    rate = centre.shard.state.failures.get(key)
    return rate.snapshot().recent if rate else []


def test_a_failed_run_that_moves_takes_its_failure_along() -> None:
    centre = Scenario()
    centre.at("10:00").ran("1", None, 4, 60.0, job_name="run7", state="FAILED")
    centre.report_from("xalt", "1", executable="/opt/lmp")
    assert recent(centre, "application/exa/run#//nodes") == []
    assert [failed for _, failed, _ in recent(centre, "application/exa/lmp//nodes")] == [True]
    assert [failed for _, failed, _ in recent(centre, "centre/exa")] == [True]


def test_evidence_after_settlement_does_not_move_the_run() -> None:
    centre = Scenario()
    centre.at("10:00").ran("1", "lammps", 4, 60.0)
    centre.at("10:10").report_from("xalt", "1", executable="/opt/other")
    assert centre.runs_of("lammps") == [("1", 4.0, 60.0)]
    assert centre.model("other") is None


def test_evidence_that_reports_nothing_new_is_a_repeat() -> None:
    centre = Scenario()
    centre.at("10:00").report_from("xalt", "1", executable="/opt/lmp")
    before = centre.state()
    centre.report_from("xalt", "1", executable="/opt/lmp")
    assert (centre.state(), centre.tally["event:repeated"]) == (before, 1)


def test_no_more_than_eight_sources_are_kept_for_a_job() -> None:
    centre = Scenario()
    centre.at("10:00")
    for i in range(20):
        centre.report_from(f"source{i}", "1", module=f"m{i}")
    job = centre.shard.state.jobs.get("exa/1")
    assert job is not None
    assert len(job.identities) == 8
    centre.report_from("source0", "1", module="changed")
    assert job.identities[0].evidence.module == "changed"


def test_jobs_that_nothing_names_are_reported_settled_and_never_given_a_model() -> None:
    centre = Scenario()
    centre.at("10:00").starts("1", None, nodes=4, job_name="python")
    prediction = centre.topic("job_predictions")["exa/1"]
    assert (prediction["application"], prediction["known"], prediction["reliability"]["verdict"]) == (
        None,
        False,
        "unknown",
    )
    centre.at("10:30").ends("1")
    (run,) = centre.at("10:40").messages("runs")
    assert (run["application_id"], run["identified_by"], run["confidence"]) == (None, "none", 0.0)
    assert len(centre.shard.state.models) == len(centre.shard.state.failures) == 0


def test_other_evidence_gives_the_running_job_a_new_prediction_with_an_id_of_its_own() -> None:
    centre = Scenario()
    centre.at("10:00").starts("1", None, nodes=4, job_name="run7")
    centre.report_from("xalt", "1", executable="/opt/lmp")
    first, second = centre.messages("job_predictions")
    assert (first["application"], second["application"]) == ("run#", "lmp")
    assert first["time"] == second["time"]
    assert first["id"] != second["id"]


def test_evidence_of_a_size_moves_the_run_to_it() -> None:
    centre = Scenario()
    event = centre.at("10:00").ran("1", "lammps", None, 60.0)
    assert centre.runs_of("lammps") == []
    centre.report_from("prolog", "1", nodes=4)
    assert centre.runs_of("lammps") == [("1", 4.0, 60.0)]
    centre.fold(msgspec.structs.replace(event))
    assert centre.runs_of("lammps") == [("1", 4.0, 60.0)]


def test_a_session_that_will_meet_its_limit_is_marked_and_never_given_a_model() -> None:
    centre = Scenario()
    for number in range(20):
        centre.at_ms(centre.now_ms + 3_600_000 if centre.now_ms else 1_795_132_800_000)
        centre.starts(str(number), None, nodes=1, job_name="jupyter", user="u1", time_limit_s=1800.0)
        prediction = centre.topic("job_predictions")[f"exa/{number}"]
        assert (prediction["application"], prediction["session"]) == (None, True)
        centre.at_ms(centre.now_ms + 1_800_000)
        centre.ends(str(number), "TIMEOUT")
    chance = prediction["probability_exceeds_limit"]
    assert chance > HITS
    assert not hits(chance, session=prediction["session"])
    (run,) = (
        message
        for message in centre.at_ms(centre.now_ms + 600_000).messages("runs")
        if message["run_id"].startswith("exa/7@")
    )
    assert (run["application_id"], run["identified_by"]) == (None, SESSION)
    assert len(centre.shard.state.models) == len(centre.shard.state.failures) == 0
