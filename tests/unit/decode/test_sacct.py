from datetime import UTC

import pytest

from agent.decode.message import DecodeOptions
from agent.decode.sacct import finished_job, pairs_row, sacct_decoder
from agent.decode.table import JobTable
from processors.contracts.errors import ConfigError, InvalidInputError
from processors.contracts.events import Decoded, JobCompleted
from processors.contracts.names import parse_rfc3339
from processors.contracts.telemetry import Keep
from tests.kit.cases import each
from tests.kit.job_records import RECEIVED_MS, refusal

HEADER = "JobIDRaw|JobID|JobName|State|Start|End|ElapsedRaw|NNodes"
JOB = "812|812|lammps|COMPLETED|2026-08-20T10:00:00|2026-08-20T11:00:00|3600|4"


def decode(*lines: str, **options: object) -> Decoded:
    return sacct_decoder(DecodeOptions(default_system="exa", **options))("\n".join(lines).encode(), RECEIVED_MS)  # type: ignore[arg-type]


def job(row: dict[str, str]) -> JobCompleted:
    return finished_job(row, UTC, RECEIVED_MS, DecodeOptions(default_system="exa"))


def test_a_finished_job_becomes_an_event() -> None:
    (event,) = decode(HEADER, JOB).events
    assert isinstance(event, JobCompleted)
    assert (event.job_id, event.run_time_s, event.evidence.sizes) == ("812", 3600.0, {"nodes": 4.0})


def test_the_reservation_of_a_job_is_known() -> None:
    (event,) = decode(f"{HEADER}|Reservation", f"{JOB}|course").events
    assert event.evidence.reservation == "course"


@pytest.mark.parametrize("delimiter", ["|", "^", ";", "\t", "@@", ","])
@pytest.mark.parametrize("end", ["", "delimiter"])
def test_any_delimiter_is_understood_also_at_the_end_of_lines(delimiter: str, end: str) -> None:
    tail = delimiter if end else ""
    lines = [line.replace("|", delimiter) + tail for line in (HEADER, JOB)]
    assert decode(*lines).events == decode(HEADER, JOB).events


@pytest.mark.parametrize("name", ["a|b", "|", "a||b|"])
def test_a_job_name_may_hold_the_delimiter(name: str) -> None:
    (event,) = decode(HEADER, JOB.replace("lammps", name)).events
    assert event.evidence.job_name == name


def test_a_row_with_far_too_many_cells_for_two_free_texts_is_refused() -> None:
    decoded = decode(f"{HEADER}|Comment", JOB.replace("lammps", "a|" * 1_000) + "|c")
    assert [error.reason for error in decoded.rejects] == ["columns"]


@pytest.mark.parametrize(
    ("line", "ignored"),
    [
        (JOB.replace("812|812|", "812.batch|812.batch|"), "step"),
        (JOB.replace("812|812|", "812.extern|812.extern|"), "step"),
        (JOB.replace("COMPLETED", "RUNNING"), "running"),
        (JOB.replace("COMPLETED", "SUSPENDED"), "running"),
        (JOB.replace("COMPLETED", "PENDING"), "pending"),
        ("812|812|x|CANCELLED by 7|None|Unknown|0|0", "never-started"),
    ],
)
def test_what_is_no_finished_job_is_counted_and_left_out(line: str, ignored: str) -> None:
    decoded = decode(HEADER, line)
    assert (decoded.events, decoded.rejects, decoded.ignored) == ([], [], {ignored: 1})


@pytest.mark.parametrize(
    ("text", "state"), [("CANCELLED by 1001", "CANCELLED"), ("CANCELLED+", "CANCELLED"), ("node_fail", "NODE_FAIL")]
)
def test_states_are_those_of_the_contract(text: str, state: str) -> None:
    (event,) = decode(HEADER, JOB.replace("COMPLETED", text)).events
    assert event.state == state


def test_an_array_task_has_its_own_id_and_knows_its_array() -> None:
    (event,) = decode(HEADER, JOB.replace("812|812|", "819|812_7|")).events
    assert (event.job_id, event.evidence.array_job_id) == ("819", "812")


def test_a_job_cancelled_while_pending_ran_no_time() -> None:
    (event,) = decode(HEADER, "812|812|x|CANCELLED by 7|None|2026-08-20T11:00:00|0|0").events
    assert (event.run_time_s, event.start_ms) == (0.0, event.end_ms)


@pytest.mark.parametrize(
    ("zone", "start"),
    [("UTC", "10:00"), ("Europe/Oslo", "08:00"), ("-07:00", "17:00"), ("+0530", "04:30")],
)
def test_local_times_are_in_the_zone_of_the_options(zone: str, start: str) -> None:
    (event,) = decode(HEADER, JOB, timezone=zone).events
    assert event.start_ms == parse_rfc3339(f"2026-08-20T{start}:00Z")


@pytest.mark.parametrize("zone", ["Oslo", "../etc/passwd", "", "+25:00", "x" * 1000, "\0"])
def test_a_zone_that_is_none_is_a_wrong_configuration(zone: str) -> None:
    with pytest.raises(ConfigError, match="time zone"):
        decode(HEADER, JOB, timezone=zone)


def test_the_hour_that_autumn_repeats_does_not_end_a_job_before_its_start() -> None:
    line = "812|812|x|COMPLETED|2026-10-25T02:50:00|2026-10-25T02:10:00|1200|4"
    (event,) = decode(HEADER, line, timezone="Europe/Oslo").events
    assert event.end_ms - event.start_ms == 1_200_000


def test_times_may_carry_their_zone_or_be_seconds_since_the_epoch() -> None:
    row = {"jobid": "1", "state": "FAILED", "elapsedraw": "60"}
    assert job({**row, "start": "1787220000"}).start_ms == 1_787_220_000_000
    assert job({**row, "start": "2026-08-20T12:00:00+02:00"}).start_ms == 1_787_220_000_000


@pytest.mark.parametrize(
    ("columns", "sizes"),
    [
        ({"allocnodes": "4", "alloccpus": "512"}, {"nodes": 4.0, "cores": 512.0}),
        ({"nodelist": "nid[1-3],x7", "reqcpus": "16"}, {"nodes": 4.0, "cores": 16.0}),
        ({"alloctres": "cpu=8,gres/gpu:a100=2,node=1"}, {"nodes": 1.0, "cores": 8.0, "gpus": 2.0}),
        ({"nnodes": "0", "nodelist": "None assigned"}, {}),
    ],
)
def test_sizes_come_from_the_columns_there_are(columns: dict[str, str], sizes: dict[str, float]) -> None:
    row = {"jobid": "1", "state": "FAILED", "start": "2026-08-20T10:00:00", "elapsed": "00:01:00", **columns}
    assert job(row).evidence.sizes == sizes


@pytest.mark.parametrize(
    ("columns", "limit_s"),
    [
        ({"timelimitraw": "90"}, 5400.0),
        ({"timelimit": "1-00:00:00"}, 86400.0),
        ({"timelimit": "UNLIMITED"}, None),
        ({}, None),
    ],
)
def test_time_limits_are_seconds(columns: dict[str, str], limit_s: float | None) -> None:
    row = {"jobid": "1", "state": "FAILED", "start": "2026-08-20T10:00:00", "elapsed": "00:01:00", **columns}
    assert job(row).evidence.time_limit_s == limit_s


@each(
    ("line", "reason"),
    [
        (JOB.replace("COMPLETED", "DONE"), "state"),
        (JOB.replace("3600", "-1"), "out-of-range"),
        (JOB.replace("3600", "9" * 12), "out-of-range"),
        (JOB.replace("2026-08-20T10:00:00", "1970-01-01T00:00:00"), "time"),
        (JOB.replace("2026-08-20T10:00:00", "0001-01-01T00:00:00"), "time"),
        (JOB.replace("2026-08-20T10:00:00", "soon"), "time"),
        (JOB.replace("2026-08-20T11:00:00", "2027-08-20T11:00:00"), "future"),
        (JOB.replace("|3600|", "||").replace("T11:00", "T09:00"), "out-of-range"),
        (JOB.replace("|3600|", "||").replace("2026-08-20T11:00:00", "Unknown"), "missing-field"),
        (JOB.replace("812|812", "|"), "missing-field"),
        ("812|812", "columns"),
    ],
)
def test_a_row_that_cannot_be_used_is_refused_and_its_neighbours_are_taken(line: str, reason: str) -> None:
    decoded = decode(HEADER, line, JOB)
    assert [error.reason for error in decoded.rejects] == [reason]
    assert len(decoded.events) == 1


@pytest.mark.parametrize("missing", ["State", "JobID", "NNodes", "Start"])
def test_a_table_without_a_needed_column_is_refused_naming_it(missing: str) -> None:
    columns = [name for name in ("JobID", "State", "Start", "Elapsed", "NNodes", "JobIDText") if name != missing]
    with pytest.raises(InvalidInputError, match=missing.lower()):
        JobTable(tuple(columns), "|")


@pytest.mark.parametrize("header", ["JobID", "812|jobid", "JobID|State|Start|End|NNodes|" + "x|" * 300 + "y"])
def test_a_header_that_is_none_is_refused(header: str) -> None:
    with pytest.raises(InvalidInputError):
        JobTable.of_header(header)


def test_quoted_cells_may_hold_the_comma_between_cells() -> None:
    lines = [line.replace("|", ",") for line in (HEADER, JOB.replace("lammps", '"a,b"'))]
    assert decode(*lines).events[0].evidence.job_name == "a,b"


def test_a_table_without_a_header_states_how_to_print_one() -> None:
    error = refusal(sacct_decoder(DecodeOptions()), JOB.encode())
    assert error.reason == "columns"
    assert str(error).startswith("The table has no header line; print it without --noheader, or put one before it")


def test_a_table_is_bounded_like_a_batch() -> None:
    value = "\n".join([HEADER, *[JOB] * 4]).encode()
    assert refusal(sacct_decoder(DecodeOptions(elements_max=3)), value).reason == "array-bomb"


@pytest.mark.parametrize("line", ["v=1,State", 'v=1,"' + "x" * 200_000 + '=1"', "v=1,\0=2"])
def test_a_line_that_is_no_list_of_pairs_is_refused(line: str) -> None:
    with pytest.raises(InvalidInputError):
        finished_job(pairs_row(line), UTC, RECEIVED_MS, DecodeOptions())


def test_private_columns_are_dropped_unless_asked_for() -> None:
    row = {"jobid": "1", "state": "FAILED", "start": "2026-08-20T10:00:00", "elapsed": "00:01:00"}
    private = {**row, "workdir": "/home/alice", "comment": "rhodo"}
    assert job(private) == job(row)
    requested = DecodeOptions(default_system="exa", keep=Keep(paths=True, comment=True))
    evidence = finished_job(private, UTC, RECEIVED_MS, requested).evidence
    assert (evidence.work_dir, evidence.comment) == ("/home/alice", "rhodo")
