"""Accounting records of PBS: runs, their sizes and states, and what is no end of a run."""

import pytest

from agent.decode.formats import DECODERS, TELEMETRY
from agent.decode.message import DecodeOptions, TelemetryOptions
from agent.decode.pbs import is_pbs, pbs_decoder, state_of
from processors.contracts.events import Decoded, JobCompleted
from processors.contracts.telemetry import SeriesIndex
from tests.kit.cases import each

RECEIVED_MS = 1_772_449_200_000
HEAD = "03/02/2026 11:00:00;E;6.master;"
FIELDS = (
    'user=u1 group=g account="my project" jobname=my solver queue=batch ctime=1772440000 qtime=1772440100 start=1772445600 '
    "exec_host=i02n33/0*8+i02n32/0*8 Resource_List.nodect=2 Resource_List.walltime=04:00:00 end=1772449200 Exit_status=0 "
    "resources_used.walltime=01:00:00 run_count=1"
)


def decoded(*lines: str, system: str | None = "exa") -> Decoded:
    return pbs_decoder(DecodeOptions(default_system=system))("\n".join(lines).encode(), RECEIVED_MS)


def only(fields: str, head: str = HEAD) -> JobCompleted:
    (event,) = decoded(head + fields).events
    assert isinstance(event, JobCompleted)
    return event


def test_the_end_of_a_run_is_a_completed_job() -> None:
    run = only(FIELDS)
    assert (run.job_id, run.run_id, run.state, run.exit_code) == ("6", "exa/6@1772445600000", "COMPLETED", 0)
    assert (run.run_time_s, run.end_ms - run.start_ms) == (3600.0, 3_600_000)
    evidence = run.evidence
    assert evidence.sizes == {"nodes": 2.0, "cores": 16.0}
    assert evidence.hosts == ("i02n33,i02n32",)
    assert (evidence.job_name, evidence.user, evidence.account, evidence.partition) == (
        "my solver",
        "u1",
        "my project",
        "batch",
    )
    assert (evidence.time_limit_s, evidence.submit_ms) == (14400.0, 1772440100000)


@pytest.mark.parametrize("walltime", ["-1e999", "1e999", "-3600", "0", "soon"])
def test_a_used_time_that_no_run_has_gives_way_to_the_time_from_start_to_end(walltime: str) -> None:
    fields = FIELDS.replace("resources_used.walltime=01:00:00", f"resources_used.walltime={walltime}")
    assert only(fields).run_time_s == 3600.0


@pytest.mark.parametrize(
    ("placed", "nodes", "cores", "hosts"),
    [
        ("exec_host=n1/0*8+n2/0*8", 2, 16, "n1,n2"),
        ("exec_host=n1/0+n1/1+n2/0+n2/1", 2, 4, "n1,n2"),
        ("exec_host=n1/0-7+n2/0-3,6", 2, 13, "n1,n2"),
        ("exec_vnode=(n1:ncpus=8:ngpus=2)+(n2:ncpus=4)", 2, 12, "n1,n2"),
        ("exec_host=n1/0 Resource_List.ncpus=4", 1, 1, "n1"),
        ("Resource_List.nodect=3 Resource_List.ncpus=12", 3, 12, None),
    ],
)
def test_sizes_are_those_of_the_places_of_a_run(placed: str, nodes: int, cores: int, hosts: str | None) -> None:
    evidence = only(f"start=1772445600 end=1772449200 {placed}").evidence
    assert evidence.sizes == {"nodes": nodes, "cores": cores}
    assert evidence.hosts == (() if hosts is None else (hosts,))


def test_a_job_that_ran_again_has_a_run_for_each_start() -> None:
    again = (
        FIELDS.replace("1772445600", "1772440200")
        .replace("1772449200", "1772441000")
        .replace("run_count=1", "run_count=2")
    )
    runs = decoded(HEAD.replace(";E;", ";R;") + again, HEAD + FIELDS).events
    assert [(run.state, run.start_ms, run.run_time_s) for run in runs if isinstance(run, JobCompleted)] == [
        ("REQUEUED", 1772440200000, 800.0),
        ("COMPLETED", 1772445600000, 3600.0),
    ]


@each(
    ("status", "walltime", "state"),
    [
        ("0", "01:00:00", "COMPLETED"), ("1", "01:00:00", "FAILED"), ("271", "01:00:00", "CANCELLED"), ("265", "01:00:00", "CANCELLED"),
        ("143", "01:00:00", "CANCELLED"), ("139", "01:00:00", "FAILED"), ("-29", "01:00:00", "TIMEOUT"), ("-27", "01:00:00", "FAILED"),
        ("271", "00:30:00", "TIMEOUT"), ("-11", "00:59:00", "TIMEOUT"), ("0", "00:30:00", "COMPLETED"),
    ],
)  # fmt: skip
def test_the_exit_status_and_the_time_limit_give_the_final_state(status: str, walltime: str, state: str) -> None:
    limit = walltime if state == "TIMEOUT" and status != "-29" else "04:00:00"
    fields = FIELDS.replace("Exit_status=0", f"Exit_status={status}").replace("04:00:00", limit)
    run = only(fields)
    assert run.state == state
    assert run.exit_code == (int(status) if int(status) >= 0 else None)
    assert state_of(None, 1.0, None) == "COMPLETED"


def test_array_jobs_long_times_and_other_servers_are_read() -> None:
    run = only(
        FIELDS.replace("walltime=04:00:00", "walltime=120:00:00"), HEAD.replace("6.master", "12[3].pbs.example.org")
    )
    assert (run.job_id, run.evidence.time_limit_s) == ("12[3]", 432000.0)
    (event,) = decoded(HEAD + FIELDS, system=None).events
    assert event.system == "master"
    assert only(FIELDS.replace("walltime=01:00:00", "walltime=1800")).run_time_s == 1800.0


def test_other_records_are_counted() -> None:
    lines = [HEAD.replace(";E;", f";{kind};") + "queue=batch" for kind in ("Q", "S", "D", "A", "L", "YR")]
    assert decoded(*lines, HEAD + FIELDS).ignored == {"other-record": 6}
    never = HEAD + "user=u1 queue=batch end=1772449200 Exit_status=271"
    array = HEAD.replace("6.master", "12[].master") + FIELDS
    assert decoded(never, array).ignored == {"never-started": 2}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("JobID|State", "columns"), (HEAD + "start=1772445600", "missing-field"), (HEAD + "start=1772445600 end=1772445000", "out-of-range"),
        (HEAD + "start=1 end=2", "time"), (HEAD + "start=1872445600 end=1872445601", "future"),
    ],
)  # fmt: skip
def test_a_bad_line_costs_no_other_one(line: str, reason: str) -> None:
    found = decoded(line, HEAD + FIELDS)
    assert [error.reason for error in found.rejects] == [reason]
    assert len(found.events) == 1


def test_records_are_read_from_topics_of_any_format() -> None:
    value = (HEAD + FIELDS).encode()
    assert is_pbs(value)
    assert len(DECODERS["auto"](DecodeOptions(default_system="exa"))(value, RECEIVED_MS).events) == 1
    batch = TELEMETRY["auto"](TelemetryOptions(decode=DecodeOptions(default_system="exa")))(
        [value], [RECEIVED_MS], SeriesIndex(9)
    )
    assert [len(other.events) for _, other in batch.others] == [1]


def test_long_hostile_lines_are_read_in_linear_time() -> None:
    for unit in ("a", "a=", " a", " a= ", 'a="', "+n1/0*8", "n/0,", ' a="b', "a.b-", "  "):
        decoded(HEAD + "start=1772445600 end=1772449200 exec_host=" + unit * (500_000 // len(unit)))
