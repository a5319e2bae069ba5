"""Accounting of schedulers that is not read is named, and what is read is not taken for it."""

import io

import pytest

from agent.decode.files import OTHER_LOGS, default_telemetry, read_source, recognise, refuse_other_logs
from agent.decode.formats import FORMATS
from agent.decode.message import DecodeOptions, TelemetryOptions
from agent.decode.opening import OpenSource
from processors.contracts.errors import InvalidInputError
from tests.kit.cases import each

GRID_ENGINE = (
    "q1:host1:g:u1:solver:22947:sge:0:1772440000:1772445600:1772449200:0:0:3600:60.05:0.08:104188.0:0:0:0:0:28001:0:0:0.0"
    ":24:0:0:0:41:549:NONE:dep:mpi:16:0:60.13:7.33:0.00:-pe mpi 16:0.0:NONE:189153280.0:0:0"
)
GWF = "1 0 10 3600 16 -1 -1 16 7200 -1 1 U1 G1 App1 Q0 P0 S1 S2 -1 -1 -1 -1 -1 -1 -1 -1 V1 PR1 -1"


@each(
    ("text", "name"),
    [
        ('"JOB_FINISH" "10.1" 1772449200 404717 22025 33882739 128 1772440000 0 0 1772445600 "u1" "regular"', "LSF"),
        ('"EVENT_ADRSV_FINISH" "9.12" 1772449200 1772445600', "LSF"),
        (GRID_ENGINE, "Grid Engine"),
        (f"# Version: 8.6\n#\n{GRID_ENGINE}".replace("\\\n", "\n"), "Grid Engine"),
        ("=" * 62 + "\nqname        all.q", "Grid Engine"),
        (GWF, "GWF"),
        ("# UnixStartTime: 1134432000\n" + GWF, "GWF"),
        ("03/02/2026 10:00:00;0008;PBS_Server;Job;6.master;Job Queued", "PBS"),
        ("Job Id: 6.master\n    Job_Name = solver", "PBS"),
    ],
)
def test_the_log_of_another_scheduler_is_named(text: str, name: str) -> None:
    (record,) = read_source("log", OpenSource(io.BytesIO(text.encode())), 0, default_telemetry(DecodeOptions()))
    assert record.error is not None
    assert name in str(record.error)
    assert "not read" in str(record.error)


def test_nothing_that_is_read_is_taken_for_such_a_log() -> None:
    for name, form in FORMATS.items():
        if form.sample:
            refuse_other_logs(form.sample.splitlines()[-1])
            assert recognise(io.BytesIO(form.sample), TelemetryOptions()).format in (name, "json", "collectd"), name


def test_long_lines_are_looked_at_in_linear_time() -> None:
    for unit in (b":", b"a:", b'"', b"1 ", b"=", b" ", b"1"):
        for _, begins in OTHER_LOGS:
            begins.match(unit * (1_000_000 // len(unit)))
    with pytest.raises(InvalidInputError):
        refuse_other_logs(GRID_ENGINE.encode())
