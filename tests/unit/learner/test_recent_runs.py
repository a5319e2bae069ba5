"""Runs that settled recently, as readers ask for them."""

from typing import Any

import msgspec
import pytest

from agent.learner.view import SHOWN_MAX, RecentRuns, View, recent_run
from processors.contracts.outputs import Emission, PredictedAtStart, SlowedBy
from tests.kit.scenario import Scenario

REPORTED = PredictedAtStart(
    run_time_s=100.0, low_s=90.0, high_s=110.0, coverage=0.9, verdict="reliable", source="curve"
)


def settled(number: int, **changes: Any) -> tuple[str, bytes]:
    """Return key and value of a record of the topic runs: run `number` ended at its own second."""
    event = {"system": "exa", "job_id": f"{number}", "start_ms": 0, "end_ms": number * 1000, "evidence": {}}
    values = {
        "run_id": f"exa/{number}@0",
        "application_id": "exa/lammps//nodes",
        "n": 4.0,
        "run_time_s": float(number),
        "state": "COMPLETED",
        "event": event,
    }
    content = values | changes
    return str(content["run_id"]), msgspec.json.encode(content)


def test_runs_of_the_fold_are_shown_with_who_ran_them_and_what_was_reported() -> None:
    centre = Scenario()
    centre.at("08:00").scales("lammps", *((1, 2, 4, 8) * 3))
    centre.at("10:00").starts("1", "lammps", nodes=4, user="u-1")
    centre.at("10:05").ends("1", user=None, time_limit_s=600.0)
    centre.at("10:20")
    view = View()
    for emission in centre.sent:
        view.apply(emission)
    run = view.runs.of_job("exa", "1")[0]
    assert (run.application_id, run.n, run.run_time_s, run.state) == ("exa/lammps//nodes", 4.0, 300.0, "COMPLETED")
    assert (run.user, run.time_limit_s, run.end_ms - run.start_ms) == ("u-1", 600.0, 300_000)
    assert run.predicted is not None
    assert run.predicted.source == "curve"
    assert view.runs.of_application("exa/lammps//nodes")[0] == run
    assert len(view.runs.of_application("exa/lammps//nodes")) == 13


def test_a_run_shows_where_it_ran_for_whom_and_which_host_explains_it() -> None:
    start = {"hosts": ["nid[1-4]"], "account": "p1", "partition": "gpu"}
    event = {"system": "exa", "job_id": "7", "start_ms": 0, "end_ms": 7000, "evidence": {"partition": "standard"}}
    profile = {"hosts": 4, "minutes": 6, "expected": 10, "shared": 3, "counters": {"FLOPS": 2.0}}
    _, value = settled(
        7,
        event=event,
        identities=[{"source": "job.started", "evidence": start}],
        profile=profile,
        slowed_by={"host": "nid2", "factor": 1.5},
    )
    run = recent_run(value)
    assert run is not None
    assert (run.partition, run.account, run.hosts, run.nodes) == ("standard", "p1", ("nid[1-4]",), 4)
    assert (run.slowed_by, run.shared, run.counters) == (SlowedBy("nid2", 1.5), 0.3, {"FLOPS": 2.0})


def test_runs_of_all_applications_are_shown_the_one_that_ended_last_first() -> None:
    runs = RecentRuns()
    for number in (3, 1, 2):
        runs.take(*settled(number, application_id=f"exa/app{number}//nodes"))
    assert [run.job_id for run in runs.newest()] == ["3", "2", "1"]
    runs.take("exa/3@0", None)
    runs.take(*settled(9))
    assert [run.job_id for run in runs.newest()] == ["9", "2", "1"]


def test_the_newest_are_shown_first_and_no_more_than_a_page_can_hold() -> None:
    runs = RecentRuns()
    for number in range(SHOWN_MAX + 50):
        runs.take(*settled((number * 7) % (SHOWN_MAX + 50)))
    shown = runs.of_application("exa/lammps//nodes")
    assert [run.end_ms // 1000 for run in shown] == list(range(SHOWN_MAX + 49, 49, -1))


def test_the_oldest_leave_when_there_are_too_many_and_leave_nothing_behind() -> None:
    runs = RecentRuns(retained_max=10)
    for number in range(25):
        runs.take(*settled(number, application_id=f"exa/a{number}//nodes"))
    assert len(runs) == 10
    assert runs.of_application("exa/a14//nodes") == runs.of_job("exa", "14") == []
    assert runs.of_application("exa/a15//nodes") == runs.of_job("exa", "15") != []


def test_a_corrected_run_replaces_the_former_and_moves_to_its_application() -> None:
    runs = RecentRuns()
    runs.take(*settled(1, predicted=REPORTED))
    runs.take(*settled(1, application_id="exa/vasp//nodes", run_time_s=7.0))
    assert runs.of_application("exa/lammps//nodes") == []
    assert [(run.run_time_s, run.predicted) for run in runs.of_application("exa/vasp//nodes")] == [(7.0, REPORTED)]
    assert len(runs.of_job("exa", "1")) == 1
    runs.take("exa/1@0", None)
    assert (len(runs), runs.of_job("exa", "1")) == (0, [])


def test_a_requeued_job_shows_all_of_its_runs() -> None:
    runs = RecentRuns()
    for start_ms in (0, 5_000):
        event: dict[str, Any] = {
            "system": "exa",
            "job_id": "1",
            "start_ms": start_ms,
            "end_ms": start_ms + 9,
            "evidence": {},
        }
        runs.take(*settled(1, run_id=f"exa/1@{start_ms}", event=event))
    assert [run.start_ms for run in runs.of_job("exa", "1")] == [5_000, 0]


def test_power_is_that_of_all_hosts() -> None:
    profile = {"hosts": 4, "power_w": {"system": 400.0, "cpu": 100.0}, "energy_j": {"system": 96_000.0, "cpu": 9.0}}
    run = recent_run(settled(60, profile=profile)[1])
    assert run is not None
    assert (run.power_w, run.energy_j) == (1600.0, 96_000.0)


@pytest.mark.parametrize("value", [b"", b"null", b"[]", b"{}", b"\xff", b'{"run_id": 7}'])
def test_what_is_no_run_changes_nothing(value: bytes) -> None:
    runs = RecentRuns()
    runs.take("exa/1@0", value)
    assert len(runs) == 0


def test_a_view_that_is_read_anew_shows_the_runs_of_the_topic_and_no_others() -> None:
    view, fresh = View(), View()
    view.apply(Emission("runs", *settled(1)))
    for number in (9, 8):
        fresh.apply(Emission("runs", *settled(number)))
    view.adopt(fresh)
    assert [run.job_id for run in view.runs.of_application("exa/lammps//nodes")] == ["9", "8"]


def test_runs_that_nobody_reads_stay_within_the_bound() -> None:
    runs = RecentRuns(retained_max=4)
    for number in range(3):
        runs.take(*settled(number))
    assert len(runs) == 3
    for number in range(3, 20):
        runs.take(*settled(number))
    assert [run.job_id for run in runs.newest()] == ["19", "18", "17", "16"]
    runs.take(*settled(20))
    assert [run.job_id for run in runs.newest()] == ["20", "19", "18", "17"]


def test_a_session_is_marked_and_compared_with_nothing() -> None:
    plain = msgspec.to_builtins(REPORTED)
    run = recent_run(settled(1, application_id=None, identified_by="session", predicted=plain)[1])
    other = recent_run(settled(1, application_id=None, identified_by="none", predicted=plain)[1])
    assert run is not None
    assert other is not None
    assert (run.session, run.predicted) == (True, None)
    assert (other.session, other.predicted) == (False, REPORTED)
