import json
from typing import Any

import pytest

from agent.decode.message import DecodeOptions
from agent.decode.sonar import sonar_decoder
from processors.contracts.events import Decoded
from tests.kit.cases import each
from tests.kit.job_records import RECEIVED_MS, refusal

JOB: dict[str, Any] = {
    "job_id": 812,
    "job_name": "gmx",
    "job_state": "COMPLETED",
    "user_name": "alice",
    "time_limit": 7202,
    "partition": "batch",
    "nodes": ["c1-[10-13]"],
    "start_time": "2026-08-20T09:12:44Z",
    "end_time": "2026-08-20T10:40:01Z",
    "sacct": {"AllocTRES": "cpu=512,node=4,gres/gpu=16", "ElapsedRaw": 5237},
}


def envelope(*jobs: Any, kind: str = "job", cluster: str | None = "saga") -> bytes:
    attributes = {"cluster": cluster, "slurm_jobs": jobs}
    return json.dumps({"meta": {"producer": "sonar"}, "data": {"type": kind, "attributes": attributes}}).encode()


def decode(*changes: dict[str, Any], **options: Any) -> Decoded:
    jobs = [{key: value for key, value in {**JOB, **change}.items() if value is not ...} for change in changes]
    return sonar_decoder(DecodeOptions(**options))(envelope(*jobs), RECEIVED_MS)


def test_a_finished_job_becomes_an_event() -> None:
    (event,) = decode({}).events
    assert (event.system, event.job_id, event.run_time_s) == ("saga", "812", 5237.0)
    assert event.evidence.sizes == {"nodes": 4.0, "cores": 512.0, "gpus": 16.0}
    assert (event.evidence.time_limit_s, event.evidence.hosts) == (7200.0, ("c1-[10-13]",))


@pytest.mark.parametrize("limit", [0, 1, -5, 10**30])
def test_no_limit_and_impossible_limits_are_none(limit: int) -> None:
    assert decode({"time_limit": limit}).events[0].evidence.time_limit_s is None


@pytest.mark.parametrize("field", ["requested_cpus", "requested_node_count", "array_job_id", "array_task_id"])
def test_a_number_of_hundreds_of_digits_is_left_out_and_the_job_counts(field: str) -> None:
    (event,) = decode({field: 10**400, "sacct": ..., "nodes": []}).events
    assert (event.run_time_s, event.evidence.sizes, event.evidence.attributes) == (5237.0, {}, {})


def test_without_accounting_hosts_and_times_report_size_and_run_time() -> None:
    (event,) = decode({"sacct": ..., "requested_cpus": 96}).events
    assert (event.run_time_s, event.evidence.sizes) == (5237.0, {"nodes": 4.0, "cores": 96.0})


def test_steps_and_unfinished_jobs_are_counted_and_left_out() -> None:
    decoded = decode({"job_step": "batch"}, {"job_state": "RUNNING"}, {"job_state": "PENDING"})
    assert (decoded.events, decoded.ignored) == ([], {"step": 1, "running": 1, "pending": 1})


def test_a_job_cancelled_while_pending_ran_no_time() -> None:
    change = {"job_state": "CANCELLED by 7", "start_time": ..., "nodes": ..., "sacct": ...}
    (event,) = decode(change).events
    assert (event.state, event.run_time_s, event.start_ms) == ("CANCELLED", 0.0, event.end_ms)


@each(
    ("change", "reason"),
    [
        ({"job_id": ...}, "missing-field"),
        ({"job_id": "812"}, "wrong-type"),
        ({"job_state": "DONE"}, "state"),
        ({"end_time": ...}, "missing-field"),
        ({"start_time": ..., "sacct": ...}, "missing-field"),
        ({"end_time": "2026-08-20T09:00:00Z"}, "out-of-range"),
        ({"end_time": "soon"}, "time"),
        ({"end_time": "2027-01-01T00:00:00Z"}, "future"),
        ({"sacct": {"ElapsedRaw": -1}}, "out-of-range"),
        ({"sacct": {"ElapsedRaw": 10**30}, "start_time": ...}, "out-of-range"),
        ({"nodes": ["nid[1-"]}, "hosts"),
        ({"nodes": ["nid1\n"]}, "text"),
    ],
)
def test_a_job_that_cannot_be_used_is_refused_and_its_neighbours_are_taken(change: dict[str, Any], reason: str) -> None:
    decoded = decode({}, change, {"job_id": 813})
    assert [error.reason for error in decoded.rejects] == [reason]
    assert [event.job_id for event in decoded.events] == ["812", "813"]


def test_other_messages_of_sonar_are_refused_as_unsupported() -> None:
    assert refusal(sonar_decoder(DecodeOptions()), envelope(kind="sample")).reason == "unsupported-type"


def test_a_message_is_bounded_like_a_batch() -> None:
    assert refusal(sonar_decoder(DecodeOptions(elements_max=1)), envelope(JOB, JOB)).reason == "array-bomb"


def test_a_message_without_a_cluster_needs_a_default_system() -> None:
    value = envelope(JOB, cluster=None)
    assert sonar_decoder(DecodeOptions())(value, RECEIVED_MS).rejects[0].reason == "system"
    assert sonar_decoder(DecodeOptions(default_system="saga"))(value, RECEIVED_MS).events[0].system == "saga"


def test_an_array_task_knows_its_array() -> None:
    (event,) = decode({"array_job_id": 800, "array_task_id": 7}).events
    assert (event.evidence.array_job_id, event.evidence.attributes) == ("800", {"array_task_id": 7})
