"""Jobs in JSON as versions of sacct, squeue and slurmrestd print them."""

import io
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from agent.decode.files import default_telemetry, read_source
from agent.decode.formats import DECODERS
from agent.decode.message import DecodeOptions, FileRecord
from agent.decode.opening import CHUNK_BYTES, OpenSource, cut_jobs, jobs_begin
from processors.contracts.events import JobCompleted
from tests.kit.job_records import RECEIVED_MS, refusal

START_S = 1_772_445_600


def number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


UNSET = {"set": False, "infinite": False, "number": 0}
V42: dict[str, Any] = {
    "account": "p1",
    "allocation_nodes": 2,
    "array": {"job_id": 0, "task_id": UNSET, "task": ""},
    "cluster": "exa",
    "time": {
        "elapsed": 3600, "end": START_S + 3600, "start": START_S, "submission": START_S - 100, "suspended": 0, "limit": number(120),
    },
    "exit_code": {"status": ["ERROR"], "return_code": number(1), "signal": {"id": UNSET, "name": ""}},
    "het": {"job_id": 0, "job_offset": UNSET},
    "job_id": 812,
    "name": "lammps",
    "nodes": "n[1-2]",
    "partition": "batch",
    "qos": "normal",
    "required": {"CPUs": 64},
    "state": {"current": ["FAILED"], "reason": "None"},
    "steps": [{"tres": {"requested": {}}, "jobs": [1]}],
    "tres": {"allocated": [
        {"type": "cpu", "name": "", "id": 1, "count": 64},
        {"type": "energy", "name": "", "id": 3, "count": -2},
        {"type": "node", "name": "", "id": 4, "count": 2},
        {"type": "gres", "name": "gpu", "id": 1001, "count": 8},
    ], "requested": []},
    "user": "u1",
    "wckey": {"wckey": "", "flags": []},
}  # fmt: skip
V38 = {
    **V42,
    "time": {**V42["time"], "limit": 120},
    "exit_code": {"status": "ERROR", "return_code": 1, "signal": {"signal_id": 0, "name": None}},
    "state": {"current": "FAILED", "reason": "None"},
    "array": {"job_id": 0, "task_id": None},
    "het": {"job_id": 0, "job_offset": 0},
}
CONTROLLER = {
    "account": "p1", "cluster": "exa", "job_id": 812, "name": "lammps", "nodes": "n[1-2]", "partition": "batch", "qos": "normal",
    "job_state": ["FAILED"], "start_time": number(START_S), "end_time": number(START_S + 3600), "submit_time": number(START_S - 100),
    "time_limit": number(120), "node_count": number(2), "cpus": number(64), "user_name": "u1", "het_job_id": number(0),
    "tres_alloc_str": "cpu=64,mem=4G,node=2,gres/gpu=8", "exit_code": {"status": ["ERROR"], "return_code": number(1), "signal": {"id": UNSET}},
}  # fmt: skip
OLD_CONTROLLER = {
    **CONTROLLER, "job_state": "FAILED", "start_time": START_S, "end_time": START_S + 3600, "submit_time": START_S - 100,
    "time_limit": 120, "node_count": 2, "cpus": 64, "het_job_id": 0, "exit_code": 1,
}  # fmt: skip
SHAPES = {"v42": V42, "v38": V38, "controller": CONTROLLER, "old-controller": OLD_CONTROLLER}
META = {"plugin": {"data_parser": "data_parser/v0.0.42"}, "slurm": {"release": "24.11.5", "cluster": "exa"}}


def dump(*jobs: dict[str, Any], meta_first: bool = False, indent: int | None = None) -> bytes:
    rest = {"meta": META, "errors": [], "warnings": []}
    value = {**rest, "jobs": jobs} if meta_first else {"jobs": jobs, **rest}
    return json.dumps(value, indent=indent).encode()


def read(data: bytes) -> list[FileRecord]:
    return list(read_source("jobs.json", OpenSource(io.BytesIO(data)), RECEIVED_MS, default_telemetry(DecodeOptions())))


def runs(data: bytes) -> list[JobCompleted]:
    records = read(data)
    assert [record.error for record in records if record.error] == []
    return [event for record in records for event in record.decoded.events if isinstance(event, JobCompleted)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("meta_first", [False, True])
@pytest.mark.parametrize("indent", [None, 1, 4])
def test_a_job_is_read_in_the_shape_of_each_version(shape: str, indent: int | None, *, meta_first: bool) -> None:
    (run,) = runs(dump(SHAPES[shape], meta_first=meta_first, indent=indent))
    assert (run.system, run.job_id, run.state, run.run_time_s, run.exit_code) == ("exa", "812", "FAILED", 3600.0, 1)
    assert run.start_ms == START_S * 1000
    assert run.evidence.sizes == {"nodes": 2.0, "cores": 64.0, "gpus": 8.0}
    evidence = run.evidence
    assert (evidence.user, evidence.job_name, evidence.time_limit_s, evidence.hosts) == (
        "u1",
        "lammps",
        7200.0,
        ("n[1-2]",),
    )
    assert evidence.submit_ms == (START_S - 100) * 1000


@pytest.mark.parametrize("name", ["auto", "sacct-json"])
def test_a_message_is_read_as_a_file_is(name: str) -> None:
    decoded = DECODERS[name](DecodeOptions())(dump(V42, {**V42, "job_id": None}, V38), RECEIVED_MS)
    assert decoded.events == runs(dump(V42)) * 2
    assert [(error.place, str(error)) for error in decoded.rejects] == [("jobs[1]", "The job has no job_id.")]


@pytest.mark.parametrize(
    ("change", "ignored"),
    [
        ({"state": {"current": ["RUNNING"]}}, "running"),
        ({"state": {"current": ["COMPLETED", "COMPLETING"]}}, "running"),
        ({"state": {"current": "PENDING"}}, "pending"),
        ({"state": {"current": ["CANCELLED"]}, "time": {"start": 0, "end": 0, "elapsed": 0}}, "never-started"),
        ({"state": {"current": ["CANCELLED"]}, "time": {"start": START_S + 9, "end": START_S, "elapsed": 0}}, "never-started"),
    ],
)  # fmt: skip
def test_a_job_that_did_not_run_to_its_end_is_counted(change: dict[str, Any], ignored: str) -> None:
    (record,) = read(dump({**V42, **change}))
    assert (record.decoded.events, record.decoded.ignored) == ([], {ignored: 1})


def test_parts_and_tasks_are_known() -> None:
    part = {**V42, "job_id": 813, "het": {"job_id": 812, "job_offset": number(1)}}
    task = {**V42, "job_id": 820, "array": {"job_id": 815, "task_id": number(3)}}
    first, second = runs(dump(part, task))
    assert (first.job_id, first.evidence.attributes) == ("813", {"het_job_id": "812"})
    assert (second.job_id, second.evidence.array_job_id) == ("820", "815")


def test_text_typed_by_users_costs_no_job() -> None:
    data = dump({**V42, "name": "NAME"}, V42).replace(b"NAME", b'm\xfcller\n"jobs": ['.replace(b'"', b'\\"'))
    assert [run.evidence.job_name for run in runs(data)] == ['m\ufffdller "jobs": [', "lammps"]


@pytest.mark.parametrize("between", [b"", b"\n", b",\n"])
def test_several_dumps_stand_in_one_file(between: bytes) -> None:
    assert [run.job_id for run in runs(between.join([dump(V42), dump(V38, meta_first=True), dump(V42, indent=2)]))] == [
        "812"
    ] * 3


def test_lines_of_standard_error_before_a_dump_are_passed_over() -> None:
    assert [run.job_id for run in runs(b"sacct: error: retrying\nsacct: warning: slow\n" + dump(V42, indent=1))] == [
        "812"
    ]


def test_a_dump_that_was_cut_off_gives_its_whole_jobs_and_one_refusal() -> None:
    records = read(dump(V42, V42)[:-400])
    assert [len(record.decoded.events) for record in records] == [1, 0]
    assert records[1].error is not None


def test_a_large_dump_is_read_in_constant_memory() -> None:
    job = json.dumps(V42).encode() + b","

    def chunks() -> Iterator[bytes]:
        for _ in range(200):
            yield job * (CHUNK_BYTES // len(job))

    tracemalloc.start()
    count = sum(1 for _ in cut_jobs(b"", chunks(), 1_000_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 200 * (CHUNK_BYTES // len(job))
    assert peak < 20 * CHUNK_BYTES


@pytest.mark.parametrize(
    "head", [b'{"a": {"jobs": [', b'{"x": "\\"jobs\\": ["', b'[{"jobs": [', b'{"jobs": {"a": [', b'{"jobs"', b""]
)
def test_only_an_array_of_the_object_itself_is_one_of_jobs(head: bytes) -> None:
    assert jobs_begin(head) is None


def test_a_message_of_very_many_numbers_in_place_of_jobs_is_refused() -> None:
    assert refusal(DECODERS["auto"](DecodeOptions()), b'{"jobs": [' + b"1," * 1_000_000 + b"1]}").reason == "array-bomb"
