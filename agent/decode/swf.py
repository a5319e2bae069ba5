"""The Standard Workload Format of the Parallel Workloads Archive: 18 numbers per job, and comments that include the start date.

Source: Chapin et al., "Benchmarks and Standards for the Evaluation of Parallel Job Schedulers", 1999. -1 means unknown.
"""

import itertools
import math
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from agent.decode.fields import COUNT_MAX, SECONDS_MAX, completed_job, identity_text, number_in
from agent.decode.message import DecodeOne, DecodeOptions, TelemetryOptions, checked, decoded_lines, invalid, shown
from agent.decode.opening import RecordFile, TextFile
from agent.decode.table import line_text
from agent.decode.telemetry.columns import each_line
from processors.contracts.events import Decode, Decoded, Evidence, JobCompleted

COLUMNS: Final = 18
HEADER_LINES_MAX: Final = 10_000
UNDATED: Final = "The log has no date, for its comment UnixStartTime is missing or 0; its second 0 is taken to be 2000-01-01T00:00:00Z."
ASSUMED_START_S: Final = 946_684_800  # 2000-01-01T00:00:00Z
ABSOLUTE_S: Final = 631_152_000  # no log spans 20 years, so a submit time above 20 years counts from 1970
SUBMIT_MAX_S: Final = 1e11
COLUMNS_MAX: Final = 28  # simulators append columns; logs of the Grid Workloads Archive have 29
STATES_OF_STATUS: Final = {1: "COMPLETED", 0: "FAILED", 5: "CANCELLED", -1: "COMPLETED"}
"""The final state for each status in the log; -1 means unknown, and a job with a run time then counts as completed."""


_CELL: Final = rb"-?[0-9.]++(?:[eE][+-]?[0-9]++)?"
_FORM: Final = rb"\s*+%b(?:\s++%b){%d}(?:\s++[^\s;]++){0,%d}\s*+(?:;.*)?"
_NUMBERS = re.compile(_FORM % (_CELL, _CELL, COLUMNS - 1, COLUMNS_MAX - COLUMNS), re.DOTALL)
_NAMED = re.compile(r"[;\s]*([A-Za-z]{1,32})\s*[:=]\s*(.*)", re.DOTALL)


class SwfHeader(NamedTuple):
    """The header of a log: the Unix time of its second 0, and the system. `dated` is false if the header states no time."""

    unix_start_time_s: int
    system: str
    dated: bool = True


def read_header(comments: Iterable[str], options: DecodeOptions) -> SwfHeader:
    """Return the header in the comment lines. The date is assumed if UnixStartTime is missing or 0.

    The system is the option `default_system`, else the comment Computer, else Installation, else ``swf``.
    """
    fields: dict[str, str] = {}
    for comment in comments:
        named = _NAMED.match(comment)
        if named is not None and named[1] in ("UnixStartTime", "Computer", "Installation"):
            fields.setdefault(named[1], named[2].strip())
    start = number_in(next(iter(fields.get("UnixStartTime", "").split()), "")) or 0.0  # words may follow the number
    start = start / 1000 if start >= SUBMIT_MAX_S else start  # the comment is in ms
    start_s = int(start) if 0 < start < SUBMIT_MAX_S else 0
    system = options.default_system or fields.get("Computer") or fields.get("Installation")
    return SwfHeader(start_s or ASSUMED_START_S, identity_text(system, "system") or "swf", dated=start_s > 0)


def swf_lines(header: SwfHeader, options: DecodeOptions) -> DecodeOne:
    """Return the decoder of the lines after the header.

    Jobs that did not run ("no-run-time") and parts of a swapped-out job ("partial") are counted and skipped.
    """

    def decode_one(value: bytes, received_ms: int, decoded: Decoded) -> None:
        text = line_text(value, options).partition(";")[0].strip()
        if not text or text.startswith("#"):
            return
        row = _row(text)
        run_time_s, status = row[3], int(row[10])
        ignored = "no-run-time" if run_time_s <= 0 else "partial" if status in (2, 3, 4) else None
        if ignored is None:
            decoded.events.append(_job(row, header, received_ms, options))
        else:
            decoded.ignore(ignored)

    return decode_one


def swf_decoder(options: DecodeOptions) -> Decode:
    """Return the decoder of messages that hold a whole log with its comments.

    A log without a date is refused (``missing-field``), because a message cannot report that its date was assumed.

    >>> job = b"; UnixStartTime: 843480031" + bytes([10]) + b"1 0 60 9 56 -1 -1 56 90 -1 1 1 1 -1 -1 -1 -1 -1"
    >>> swf_decoder(DecodeOptions())(job, 900000000000).events[0].system
    'swf'
    """

    def decode(value: bytes, received_ms: int) -> Decoded:
        lines = [line for line in checked(value, options).split(b"\n") if line.strip()]
        rows = [line for line in lines if not line.lstrip().startswith((b";", b"#"))]
        comments = [line_text(line, options) for line in lines if line.lstrip().startswith(b";")]
        options.check_count(len(lines) - len(comments), "jobs", "log")
        header = read_header(comments, options)
        if not header.dated and not _is_absolute(rows[:1]):
            raise invalid("missing-field", "The log has no comment UnixStartTime, so its jobs have no date.")
        return decoded_lines(zip(lines, itertools.count(1)), swf_lines(header, options), received_ms)

    return decode


def is_workload_log(line: bytes) -> bool:
    """Return whether a file with this first line is a log in Standard Workload Format."""
    return line.lstrip().startswith(b";") or _NUMBERS.fullmatch(line) is not None


def swf_file(text: TextFile, options: TelemetryOptions) -> RecordFile:
    """Return the jobs of an open log; the file gets a remark if neither the header nor the submit times give a date."""
    comments: list[str] = []
    lines = text.lines
    for line, number in lines:
        if not line.lstrip().startswith(b";") or len(comments) == HEADER_LINES_MAX:
            lines = itertools.chain([(line, number)], lines)
            break
        comments.append(line[:1000].decode(errors="replace"))
    header = read_header(comments, options.decode)
    ahead = list(itertools.islice(lines, 1))
    dated = header.dated or _is_absolute(line for line, _ in ahead)
    records = itertools.chain(ahead, lines)
    return RecordFile("swf", each_line(swf_lines(header, options.decode)), records, None if dated else UNDATED)


def _is_absolute(rows: Iterable[bytes]) -> bool:
    """Return whether the first job's submit time counts from 1970, so that the log needs no date in its header."""
    cells = next(iter(rows), b"").split(None, 2)
    return len(cells) > 1 and (number_in(cells[1].decode(errors="replace")) or 0.0) >= ABSOLUTE_S


def _row(text: str) -> list[float]:
    cells = text.split()
    if not COLUMNS <= len(cells) <= COLUMNS_MAX:
        raise invalid("columns", f"The row has {len(cells)} numbers for {COLUMNS} columns.")
    row: list[float] = []
    for cell in cells[:COLUMNS]:
        number = number_in(cell)
        if number is None:
            raise invalid("wrong-type", f"{shown(cell)} is no number.")
        row.append(number)
    # limits of the columns with large numbers: seconds since 1970, and memory in kB
    large = {1: SUBMIT_MAX_S, 6: math.inf, 9: math.inf}
    if any(abs(number) > large.get(index, COUNT_MAX) for index, number in enumerate(row)):
        raise invalid("out-of-range", "A number of the row is beyond any job.")
    return row


def _job(row: list[float], header: SwfHeader, received_ms: int, options: DecodeOptions) -> JobCompleted:
    number, submitted, waited, run_time_s, processors, status = *row[:5], int(row[10])
    if status not in STATES_OF_STATUS or number < 0 or submitted < 0 or run_time_s > SECONDS_MAX:
        raise invalid("out-of-range", "The row has a status, job number, submit or run time that no job has.")
    submit_s = submitted if submitted >= ABSOLUTE_S else header.unix_start_time_s + submitted
    start_ms = round((submit_s + max(waited, 0.0)) * 1000)
    cores = processors if processors > 0 else row[7]
    evidence = Evidence(
        sizes={"cores": cores} if cores > 0 else {},
        application=_named("app", row[13]),
        user=_named("user", row[11]),
        account=_named("group", row[12]),
        partition=_named("queue", row[14]),
        time_limit_s=row[8] if row[8] > 0 else None,
        submit_ms=round(submit_s * 1000),
    )
    times = start_ms, start_ms + round(run_time_s * 1000), run_time_s
    state = STATES_OF_STATUS[status]
    return completed_job(header.system, str(int(number)), times, state, evidence, received_ms, options)


def _named(prefix: str, number: float) -> str | None:
    return f"{prefix}{int(number)}" if number >= 0 else None
