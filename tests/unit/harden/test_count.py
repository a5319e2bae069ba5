"""The slow lane's independent count notices what is lost, doubled, invented or changed."""

import json

from tests.harden.count import Run, by_key, compared, expected_models, learned, settled_run
from tests.harden.load import Load
from tests.harden.soak import Measured
from tests.harden.topics import Record

A, B = Run("lammps", 4.0, 60.0), Run("lammps", 8.0, 31.0)


def state(key: str, total: int | None) -> Record:
    value = None if total is None else json.dumps({"version": 1, "data": {"total": total}}).encode()
    return Record(0, 0, key.encode(), value)


def test_what_never_came_out_is_lost_and_what_nobody_produced_is_unknown() -> None:
    found = compared({"a": A, "b": B}, {"a": [b"1"], "c": [b"2"]}, {"a": A})
    assert (found.lost, found.unknown, found.different, found.wrong) == (["b"], ["c"], [], [])


def test_a_repeat_of_equal_bytes_is_counted_and_another_content_is_a_double() -> None:
    found = compared({"a": A, "b": B}, {"a": [b"1", b"1", b"1"], "b": [b"1", b"2"]}, {})
    assert (found.repeats, found.different) == (2, ["b"])


def test_a_run_that_settled_as_something_else_is_wrong() -> None:
    evidence = {"application": "lammps", "sizes": {"nodes": 4.0}}
    message = {"event": {"evidence": evidence, "run_time_s": 60.0}}
    assert settled_run(message) == A
    assert compared({"a": B}, {"a": [b"1"]}, {"a": settled_run(message)}).wrong == ["a"]


def test_the_newest_state_of_a_model_counts_and_a_tombstone_removes_it() -> None:
    states = [
        state("run_time/exa/lammps//nodes", 1), state("run_time/exa/lammps//nodes", 2), state("job/exa/7", 9),
        state("run_time/exa/old//nodes", 5), state("run_time/exa/old//nodes", None),
    ]  # fmt: skip
    assert learned(states) == {"exa/lammps//nodes": 2} == expected_models([("exa", A), ("exa", B)])


def test_records_are_put_by_key_in_their_order() -> None:
    records = [Record(0, 0, b"a", b"1"), Record(1, 0, b"b", b"2"), Record(0, 1, b"a", None)]
    assert by_key(records) == {"a": [b"1", None], "b": [b"2"]}


def test_every_host_reports_every_ten_seconds_and_each_started_job_ends_once() -> None:
    load = Load(hosts=20, seed=1, began_s=1_795_168_800.0)
    figures = [message for second in range(101) for message in load.figures(load.began_s + second)]
    jobs = [json.loads(message) for second in range(1_001) for message in load.jobs(load.began_s + second)]
    assert len(figures) == 20 * 10
    assert load.samples == 20 * 10 * 10
    completed = [job["job_id"] for job in jobs if job["type"] == "job.completed"]
    assert sorted(completed) == sorted(load.completed)
    assert 600 < len(completed) < load.started == sum(job["type"] == "job.started" for job in jobs)


def test_growth_is_that_after_the_warm_up() -> None:
    minutes = range(20)
    measured = Measured(1)
    measured.at_s = [minute * 60.0 for minute in minutes]
    measured.resident_mb = [100.0 + 50.0 * (minute > 5) + minute / 60 for minute in minutes]
    measured.used_s = [minute * 3.0 for minute in minutes]
    assert abs(measured.slope_mb_per_h(600.0) - 1.0) < 1e-6
    assert measured.slope_mb_per_h(0.0) > 50.0
    assert abs(measured.cpu_percent(600.0) - 5.0) < 1e-9
