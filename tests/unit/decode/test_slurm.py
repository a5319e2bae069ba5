from typing import Any

import pytest

from agent.decode.message import DecodeOptions
from agent.decode.slurm import slurm_decoder
from processors.contracts.events import JobCompleted, JobStarted
from processors.contracts.names import parse_rfc3339
from processors.contracts.telemetry import Keep
from tests.kit.cases import each
from tests.kit.job_records import RECEIVED_MS, refusal, slurm_record

DECODE = slurm_decoder(DecodeOptions())
START_MS = parse_rfc3339("2026-08-20T09:12:44Z")


def only(value: bytes, **options: Any) -> Any:
    (event,) = slurm_decoder(DecodeOptions(**options))(value, RECEIVED_MS).events
    return event


def test_a_start_and_its_end_are_one_run() -> None:
    start, end = only(slurm_record("start")), only(slurm_record("finish"))
    assert isinstance(start, JobStarted)
    assert isinstance(end, JobCompleted)
    assert start.run_id == end.run_id == f"exa/8421337@{START_MS}"
    assert (start.start_ms, end.end_ms, end.run_time_s) == (START_MS, START_MS + 5_237_000, 5237.0)


def test_a_requeued_job_is_a_new_run() -> None:
    first = only(slurm_record())
    again = only(slurm_record(**{"@start": "2026-08-20T09:20:00"}))
    assert first.job_id == again.job_id
    assert first.run_id == f"exa/8421337@{START_MS}" != again.run_id


def test_a_run_has_one_identity_whether_or_not_its_source_knows_the_sluid() -> None:
    assert only(slurm_record()).run_id == only(slurm_record(sluid=...)).run_id


def test_sizes_are_known_in_every_unit() -> None:
    assert only(slurm_record()).evidence.sizes == {"nodes": 4.0, "cores": 512.0, "processes": 64.0, "gpus": 16.0}


def test_typed_gpus_are_added_up_where_no_total_is_given() -> None:
    record = slurm_record(tres_alloc="cpu=512,gres/gpu:a100=4,gres/gpu:h100=2")
    assert only(record).evidence.sizes["gpus"] == 6.0


def test_counts_that_slurm_does_not_have_are_left_out() -> None:
    record = slurm_record(
        total_nodes=None,
        total_cpus=None,
        ntasks=2**32 - 2,
        tres_alloc=...,
        tres_alloc_raw="1=18446744073709551614,4=4",
        time_limit=2**32 - 1,
        cpus_per_task=2**64 - 2,
    )
    evidence = only(record).evidence
    assert (evidence.sizes, evidence.time_limit_s) == ({"nodes": 4.0}, None)
    assert "cpus_per_task" not in evidence.attributes


def test_evidence_is_what_slurm_knows_of_the_job() -> None:
    evidence = only(
        slurm_record(container="/opt/oci/md", features="zen4", wc_key="", reservation_name="course")
    ).evidence
    assert (evidence.job_name, evidence.user, evidence.account) == ("gmx_prod_07", "alice", "phy123")
    assert (evidence.partition, evidence.qos, evidence.container) == ("batch", "normal", "/opt/oci/md")
    assert evidence.reservation == "course"
    assert (evidence.hosts, evidence.time_limit_s) == (("nid[001042-001045]",), 7200.0)
    assert evidence.submit_ms == parse_rfc3339("2026-08-20T08:42:34Z")
    assert evidence.attributes == {"ntasks_per_node": 16, "cpus_per_task": 8, "features": "zen4"}


def test_a_list_of_requested_partitions_names_no_partition() -> None:
    assert only(slurm_record(partition="batch,long")).evidence.partition is None


def test_private_fields_are_dropped_unless_asked_for() -> None:
    value = slurm_record(script="#!/bin/bash\nexport TOKEN=hunter2", comment="rhodo", work_dir="/scratch/alice")
    assert b"hunter2" not in repr(DECODE(value, RECEIVED_MS)).encode()
    evidence = only(value, keep=Keep(script=True, comment=True, paths=True)).evidence
    assert (evidence.comment, evidence.work_dir) == ("rhodo", "/scratch/alice")
    assert evidence.script == "#!/bin/bash\nexport TOKEN=hunter2"
    assert only(value, keep=Keep(comment=True)).evidence.script is None


def test_latin_1_in_a_field_that_is_not_read_does_not_cost_the_run() -> None:
    value = slurm_record(script="SCRIPT", admin_comment="COMMENT")
    assert only(value.replace(b"SCRIPT", b"caf\xe9")).job_id == "8421337"


@pytest.mark.parametrize("absent", ["Unknown", "None", "", None, ...])
def test_of_start_end_and_elapsed_two_are_enough(absent: Any) -> None:
    whole = only(slurm_record())
    assert only(slurm_record(**{"@start": absent})).start_ms == whole.start_ms
    assert only(slurm_record(**{"@end": absent})).end_ms == whole.end_ms
    assert refusal(DECODE, slurm_record(**{"@start": absent, "@end": absent})).reason == "missing-field"


def test_a_job_cancelled_while_pending_ran_no_time() -> None:
    times = {"@start": "2026-08-20T10:41:01", "@end": "2026-08-20T10:41:01"}
    event = only(
        slurm_record(
            state="CANCELLED",
            elapsed=0,
            nodes=None,
            total_cpus=0,
            total_nodes=0,
            tres_alloc=...,
            tres_alloc_raw=...,
            **times,
        )
    )
    assert (event.run_time_s, event.evidence.hosts, event.evidence.sizes) == (0.0, (), {"processes": 64.0})


@pytest.mark.parametrize("field", ["het_job_id", "pack_job_id"])
def test_a_part_of_a_heterogeneous_job_is_marked(field: str) -> None:
    part: dict[str, Any] = {field: 100}
    assert only(slurm_record(**part)).evidence.attributes["het_job_id"] == 100
    assert "het_job_id" not in only(slurm_record(**{**part, field: 0})).evidence.attributes


def test_a_resized_job_takes_no_longer_than_from_its_start_to_its_end() -> None:
    event = only(slurm_record(elapsed=36_000, state="RESIZING"))
    assert event.run_time_s == (event.end_ms - event.start_ms) / 1000


@pytest.mark.parametrize("state", ["CANCELLED", "DEADLINE"])
@pytest.mark.parametrize("start", ["Unknown", "None", "2026-08-21T10:41:01"])
@pytest.mark.parametrize(("elapsed", "nodes"), [(-86_400, "(null)"), (-1, ""), (..., None)])
def test_a_job_cancelled_before_its_planned_start_is_ignored(
    state: str, start: str, elapsed: Any, nodes: str | None
) -> None:
    times = {"@start": start, "@end": "2026-08-20T10:41:01"}
    value = slurm_record(state=state, elapsed=elapsed, nodes=nodes, total_cpus=0, total_nodes=0, **times)
    decoded = DECODE(value, RECEIVED_MS)
    assert (decoded.events, decoded.ignored) == ([], {"never-started": 1})


def test_a_run_shorter_than_a_second_is_taken() -> None:
    event = only(slurm_record(elapsed=0, **{"@end": "2026-08-20T09:12:44"}))
    assert (event.state, event.run_time_s) == ("COMPLETED", 0.0)


@pytest.mark.parametrize(("text", "code"), [("1:0", 1), ("0:0", 0), ("0:9", 137), (None, None), ("x", None)])
def test_exit_codes_are_those_of_a_shell(text: str | None, code: int | None) -> None:
    assert only(slurm_record(exit_code=text)).exit_code == code


@pytest.mark.parametrize("missing", [{"state": None}, {"@end": ..., "elapsed": ..., "exit_code": ...}])
def test_a_record_without_state_or_without_end_is_a_start(missing: dict[str, Any]) -> None:
    assert isinstance(only(slurm_record(**missing)), JobStarted)


def test_a_record_without_a_cluster_needs_a_default_system() -> None:
    assert refusal(DECODE, slurm_record(cluster=...)).reason == "system"
    assert only(slurm_record(cluster=...), default_system="site").system == "site"


def test_the_nul_byte_of_old_versions_is_no_part_of_the_record() -> None:
    assert only(slurm_record() + b"\0") == only(slurm_record())


def test_a_very_long_job_name_is_cut_and_does_not_cost_the_run() -> None:
    assert only(slurm_record(job_name="x" * 5000)).evidence.job_name == "x" * 256


@pytest.mark.parametrize("form", ["{}.0", '"{}"', '"{}.0"', "{}e0"])
def test_numbers_of_stream_processors_are_whole_again(form: str) -> None:
    record = slurm_record(jobid=..., elapsed=..., total_nodes=...).decode()[:-1]
    numbers = ", ".join(
        f'"{name}": {form.format(number)}' for name, number in (("jobid", 7), ("elapsed", 60), ("total_nodes", 2))
    )
    (event,) = DECODE(f"{record}, {numbers}}}".encode(), RECEIVED_MS).events
    assert isinstance(event, JobCompleted)
    assert (event.job_id, event.run_time_s, event.evidence.sizes["nodes"]) == ("7", 60.0, 2.0)


@each(
    ("change", "reason"),
    [
        ({"jobid": ...}, "missing-field"),
        ({"jobid": -1}, "out-of-range"),
        ({"jobid": "8421337x"}, "wrong-type"),
        ({"elapsed": 60.5}, "wrong-type"),
        ({"state": "RUNNING"}, "state"),
        ({"state": 3}, "wrong-type"),
        ({"elapsed": -5}, "out-of-range"),
        ({"elapsed": 10**400}, "out-of-range"),
        ({"elapsed": 2**64 - 2}, "out-of-range"),
        ({"@start": "20 August"}, "time"),
        ({"@start": "1970-01-01T00:00:00"}, "time"),
        ({"@end": "2026-08-20T09:00:00"}, "out-of-range"),
        ({"@end": "2027-08-20T09:00:00"}, "future"),
        ({"nodes": "nid1" + "x" * 300 + "\n"}, "text"),
        ({"nodes": "x" * 300_000}, "text"),
        ({"cluster": "exa\n"}, "text"),
    ],
)
def test_a_wrong_field_is_refused_with_its_reason(change: dict[str, Any], reason: str) -> None:
    assert refusal(DECODE, slurm_record(**change)).reason == reason


def test_a_start_needs_its_time() -> None:
    assert refusal(DECODE, slurm_record("start", **{"@start": "Unknown"})).reason == "missing-field"
