"""The life of a job, in whatever order and however little of it is told."""

import msgspec
import pytest

from tests.kit.cases import each
from tests.kit.scenario import Scenario

JOB = "exa/1"


def started_at_ten(**fields: object) -> Scenario:
    centre = Scenario()
    centre.at("10:00").starts("1", "lammps", nodes=4, **fields)
    return centre


def test_a_job_that_starts_is_reported_at_once_and_leaves_when_it_ends() -> None:
    centre = started_at_ten(time_limit_s=7200.0)
    (prediction,) = centre.messages("job_predictions")
    assert (prediction["job_id"], prediction["application"], prediction["n"], prediction["known"]) == (
        "1",
        "lammps",
        4.0,
        False,
    )
    assert (prediction["start"], prediction["time_limit_s"]) == ("2026-11-20T10:00:00Z", 7200.0)
    centre.at("10:30").ends("1")
    assert centre.tombstones("job_predictions") == [JOB]


def test_a_job_prediction_carries_the_nodes_and_the_partition_of_its_job() -> None:
    centre = started_at_ten(partition="batch")
    centre.starts("2", "lammps", nodes=None, sizes={"cores": 256.0}, hosts=("r1n[01-03]",))
    centre.starts("3", "lammps", nodes=None, sizes={"cores": 256.0})
    sent = [(each["nodes"], each["partition"]) for each in centre.messages("job_predictions")]
    assert sent == [(4, "batch"), (3, None), (None, None)]


def test_a_run_settles_three_minutes_after_its_end_and_its_job_is_forgotten() -> None:
    centre = started_at_ten()
    centre.at("10:30").ends("1")
    assert centre.at("10:32:50").messages("runs") == []
    (run,) = centre.at("10:33").messages("runs")
    assert (run["run_id"], run["application_id"], run["n"]) == ("exa/1@1795168800000", "exa/lammps//nodes", 4.0)
    assert (run["run_time_s"], run["state"], run["time"]) == (1800.0, "COMPLETED", "2026-11-20T10:33:00Z")
    assert len(centre.shard.state.jobs) == 0


def test_a_settled_run_carries_what_only_its_start_reported() -> None:
    centre = started_at_ten(module="lammps/2024")
    centre.report_from("xalt", "1", executable="/opt/lmp")
    centre.at("10:30").ends("1", application=None, module=None, sizes={}, nodes=None)
    (run,) = centre.at("10:33").messages("runs")
    assert [(reported["source"], reported["evidence"]) for reported in run["identities"]] == [
        ("xalt", {"executable": "/opt/lmp"}),
        ("job.started", {"sizes": {"nodes": 4.0}, "application": "lammps", "module": "lammps/2024"}),
    ]


def test_a_start_that_comes_after_the_end_changes_nothing() -> None:
    for moment in ("10:30:30", "10:45", "3d 10:00"):
        centre = started_at_ten()
        start = centre.events[-1]
        late = Scenario()
        event = centre.at("10:30").ends("1")
        late.at("10:30").fold(event)
        late.at(moment)
        before, sent = late.state(), len(late.sent)
        late.fold(start)
        assert (late.state(), len(late.sent)) == (before, sent)


def test_a_site_that_only_reports_ends_gets_predictions_and_no_jobs() -> None:
    centre = Scenario()
    centre.at("08:00").scales("lammps", 1, 2, 4, 8)
    centre.at("08:10")
    assert list(centre.topic("predictions")) == ["exa/lammps//nodes"]
    assert [sent for sent in centre.sent if sent.kind == "job_predictions"] == []
    assert len(centre.messages("runs")) == 4
    assert len(centre.shard.state.jobs) == 0


def test_a_job_whose_end_never_comes_is_forgotten_after_thirty_days_with_a_tombstone() -> None:
    centre = started_at_ten()
    for day in range(1, 31):
        centre.at(f"{day}d 09:00")
    assert list(centre.topic("job_predictions")) == [JOB]
    centre.at("30d 10:00")
    assert centre.tombstones("job_predictions") == [JOB]
    assert len(centre.shard.state.jobs) == 0
    assert centre.tally["bound:open_job_max_s"] == 1


def test_the_end_of_the_first_run_of_a_requeued_job_leaves_the_prediction_of_the_second() -> None:
    centre = started_at_ten()
    first = centre.events[-1]
    centre.at("10:20").starts("1", "lammps", nodes=4)
    late = Scenario()
    late.at("10:00").fold(first)
    end = late.at("10:19").ran("1", "lammps", 4, 1140.0, state="NODE_FAIL")
    centre.at("10:21").fold(end)
    assert centre.tombstones("job_predictions") == []
    assert centre.topic("job_predictions")[JOB]["start"] == "2026-11-20T10:20:00Z"
    centre.at("10:50").ends("1")
    assert centre.tombstones("job_predictions") == [JOB]
    assert centre.runs_of("lammps") == [("1", 4.0, 1800.0)]
    assert sorted(run["state"] for run in centre.at("11:00").messages("runs")) == ["COMPLETED", "NODE_FAIL"]


def test_the_start_of_a_run_that_a_later_one_has_followed_is_no_news() -> None:
    centre = started_at_ten()
    first = centre.events[-1]
    centre.at("10:20").starts("1", "lammps", nodes=4)
    before = centre.state()
    centre.at("10:20").fold(first)
    assert centre.state() == before


def test_an_end_that_puts_the_start_a_second_earlier_still_ends_the_job() -> None:
    centre = Scenario()
    centre.at("10:00").starts("1", "lammps", nodes=4)
    centre.at("10:30").ran("1", "lammps", 4, 1801.0)
    assert centre.tombstones("job_predictions") == [JOB]


def test_tasks_of_an_array_are_jobs_of_their_own_and_runs_of_one_application() -> None:
    centre = Scenario()
    for task in range(3):
        centre.at("10:00").starts(f"77_{task}", None, nodes=2, job_name="sweep", array_job_id="77")
    assert sorted(centre.topic("job_predictions")) == ["exa/77_0", "exa/77_1", "exa/77_2"]
    centre.at("10:10").ends("77_1")
    assert sorted(centre.topic("job_predictions")) == ["exa/77_0", "exa/77_2"]
    centre.at("10:11").ends("77_0")
    assert [job for job, _, _ in centre.runs_of("sweep")] == ["77_0", "77_1"]


def test_a_job_that_changed_its_size_trains_nothing() -> None:
    centre = started_at_ten()
    centre.at("10:10").ends("1", state="RESIZING")
    centre.at("10:12").starts("1", "lammps", nodes=8)
    centre.at("10:30").ends("1")
    assert centre.runs_of("lammps") == []
    assert centre.tally["refused:not_one_size"] == 1
    assert {run["state"] for run in centre.at("10:40").messages("runs")} == {"RESIZING", "COMPLETED"}


def test_the_parts_of_a_heterogeneous_job_are_runs_that_train_nothing() -> None:
    centre = Scenario()
    for part, nodes in ((0, 8), (1, 2)):
        centre.at("10:30").ran(f"{100 + part}", "coupled", nodes, 1800.0, attributes={"het_job_id": 100})
    assert centre.runs_of("coupled") == []
    assert centre.tally["refused:not_one_size"] == 2
    assert [run["n"] for run in centre.at("10:50").messages("runs")] == [None, None]


@pytest.mark.parametrize("moment", ["10:20", "12:00", "9d 10:00"])
def test_the_last_record_of_a_resized_job_has_the_start_of_the_first_and_trains_nothing(moment: str) -> None:
    centre = started_at_ten()
    centre.at("10:10").ends("1", state="RESIZING")
    centre.at(moment).ends("1", nodes=8)
    assert centre.runs_of("lammps") == []
    centre.at("12d 10:00")
    assert [run["state"] for run in centre.topic("runs").values()] == ["COMPLETED"]
    assert centre.topic("job_predictions") == {}


def test_so_it_is_where_no_start_was_reported_and_when_the_last_record_is_repeated_a_month_later() -> None:
    centre, reported = Scenario(), Scenario()
    last = reported.at("9d 10:00").ran("1", "lammps", 8, 9 * 86_400.0)
    centre.at("10:00").fold(
        msgspec.structs.replace(last, state="RESIZING", end_ms=last.start_ms + 600_000, run_time_s=600.0)
    )
    for moment in ("9d 10:00", "50d 10:00"):
        centre.at(moment).fold(last)
        assert centre.runs_of("lammps") == []
    assert centre.tally["event:repeated"] == 1


def test_a_job_that_was_cancelled_while_it_waited_trains_and_counts_nothing() -> None:
    centre = Scenario()
    centre.at("10:00").ran("1", "lammps", 4, 0.0, state="CANCELLED")
    centre.at("10:10")
    assert (centre.runs_of("lammps"), len(centre.shard.state.failures), len(centre.messages("runs"))) == ([], 0, 1)


@each(
    "state",
    ["CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY", "REQUEUED", "REVOKED"],
)  # fmt: skip
def test_a_run_that_did_not_complete_never_trains(state: str) -> None:
    centre = started_at_ten()
    centre.at("10:30").ends("1", state=state)
    centre.at("11:00")
    assert (centre.runs_of("lammps"), centre.topic("predictions")) == ([], {})
    assert [run["state"] for run in centre.messages("runs")] == [state]


def test_runs_of_one_job_id_that_all_end_at_once_stay_few_and_all_settle() -> None:
    centre = Scenario()
    centre.at("10:00")
    for i in range(100):
        centre.ran("1", "lammps", 4, 10.0 + i)
        job = centre.shard.state.jobs.get(JOB)
        assert job is not None
        assert len(job.ended) <= 16
    centre.at("10:10")
    assert len(centre.messages("runs")) == 100


def test_a_run_is_reported_anew_when_its_report_is_corrected_after_it_settled() -> None:
    centre = started_at_ten()
    event = centre.at("10:30").ends("1")
    centre.at("11:00").fold(msgspec.structs.replace(event, run_time_s=1700.0))
    centre.at("11:01")
    first, second = centre.messages("runs")
    assert (first["run_time_s"], second["run_time_s"], first["run_id"]) == (1800.0, 1700.0, second["run_id"])
    assert first["id"] != second["id"]
