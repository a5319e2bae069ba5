"""The Standard Workload Format of the Parallel Workloads Archive: 18 numbers a job, and comments that give the date.

Source: Chapin et al., "Benchmarks and Standards for the Evaluation of Parallel Job Schedulers", 1999. -1 means unknown.
"""

import itertools
import math
import re
from collections.abc import Iterable
from typing import Final

import msgspec

from agent.decode.fields import COUNT_MAX, SECONDS_MAX, check_bounds, identity_text, number_in, run_identity
from agent.decode.message import DecodeOne, DecodeOptions, TelemetryOptions, checked, invalid, shown
from agent.decode.opening import RecordFile, TextFile
from agent.decode.table import line_text
from agent.decode.telemetry.columns import each_line
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import Decode, Decoded, Evidence, JobCompleted

COLUMNS: Final = 18
HEADER_LINES_MAX: Final = 10_000
UNDATED: Final = "The log has no date, for its comment UnixStartTime is missing or 0; its second 0 is taken to be 2000-01-01T00:00:00Z."
ASSUMED_START_S: Final = 946_684_800  # 2000-01-01T00:00:00Z
ABSOLUTE_S: Final = 631_152_000  # 1990: no log is 20 years long, so a submission beyond it counts from 1970
SUBMIT_MAX_S: Final = 1e11
COLUMNS_MAX: Final = 28  # simulators append columns; 29 make a log of the Grid Workloads Archive
STATES_OF_STATUS: Final = {1: "COMPLETED", 0: "FAILED", 5: "CANCELLED", -1: "COMPLETED"}
"""-1: the log does not tell; then a job that has a run time counts as completed."""


_CELL: Final = rb"-?[0-9.]++(?:[eE][+-]?[0-9]++)?"
_NUMBERS = re.compile(
    rb"\s*+"
    + _CELL
    + rb"(?:\s++"
    + _CELL
    + rb"){%d}(?:\s++[^\s;]++){0,%d}\s*+(?:;.*)?" % (COLUMNS - 1, COLUMNS_MAX - COLUMNS),
    re.DOTALL,
)
_NAMED = re.compile(r"[;\s]*([A-Za-z]{1,32})\s*[:=]\s*(.*)", re.DOTALL)


class SwfHeader(msgspec.Struct, frozen=True):
    """The comments before the jobs: the time of second 0 and the system; `dated` is whether the comments give the time."""

    unix_start_time_s: int
    system: str
    dated: bool = True


def read_header(comments: Iterable[str], options: DecodeOptions) -> SwfHeader:
    """Return the header of the comment lines. A date is assumed if UnixStartTime is missing or 0.

    The system is the option `default_system`, else the comment Computer, else Installation, else ``swf``.

    >>> read_header(["; Computer: IBM SP2", "; UnixStartTime: 843480031"], DecodeOptions()).system
    'IBM SP2'
    """
    fields: dict[str, str] = {}
    for comment in comments:
        named = _NAMED.match(comment)
        if named is not None and named[1] in ("UnixStartTime", "Computer", "Installation"):
            fields.setdefault(named[1], named[2].strip())
    start = number_in(next(iter(fields.get("UnixStartTime", "").split()), "")) or 0.0  # words may follow the number
    start = start / 1000 if start >= SUBMIT_MAX_S else start  # in ms
    start_s = int(start) if 0 < start < SUBMIT_MAX_S else 0
    system = options.default_system or fields.get("Computer") or fields.get("Installation")
    return SwfHeader(start_s or ASSUMED_START_S, identity_text(system, "system") or "swf", dated=start_s > 0)


def swf_lines(header: SwfHeader, options: DecodeOptions) -> DecodeOne:
    """Return the decoder of the lines below the header.

    Jobs that did not run ("no-run-time") and parts of a job that was swapped out ("partial") are counted and left out.

    >>> decoded = Decoded()
    >>> decode_one = swf_lines(SwfHeader(unix_start_time_s=843480031, system="kth"), DecodeOptions())
    >>> decode_one(b"1 0 60 97225 56 -1 -1 56 210000 -1 1 1 1 -1 -1 -1 -1 -1", 900000000000, decoded)
    >>> decoded.events[0].run_time_s, decoded.events[0].evidence.sizes
    (97225.0, {'cores': 56.0})
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
            decoded.ignored[ignored] = decoded.ignored.get(ignored, 0) + 1

    return decode_one


def swf_decoder(options: DecodeOptions) -> Decode:
    """Return the decoder of a message that is a whole log with its comments.

    A log without a date is refused (``missing-field``), because a message has no place to report the assumed date.

    >>> job = b"; UnixStartTime: 843480031" + bytes([10]) + b"1 0 60 9 56 -1 -1 56 90 -1 1 1 1 -1 -1 -1 -1 -1"
    >>> swf_decoder(DecodeOptions())(job, 900000000000).events[0].system
    'swf'
    """

    def decode(value: bytes, received_ms: int) -> Decoded:
        lines = [line for line in checked(value, options).split(b"\n") if line.strip()]
        comments = [line_text(line, options) for line in lines if line.lstrip().startswith(b";")]
        if len(lines) - len(comments) > options.elements_max:
            raise invalid("array-bomb", f"The log has more jobs than {options.elements_max}.")
        header = read_header(comments, options)
        if not header.dated and not _is_absolute(line for line in lines if not line.lstrip().startswith((b";", b"#"))):
            raise invalid("missing-field", "The log has no comment UnixStartTime, so its jobs have no date.")
        decode_one = swf_lines(header, options)
        decoded = Decoded()
        for number, line in enumerate(lines, 1):
            try:
                decode_one(line, received_ms, decoded)
            except InvalidInputError as error:
                decoded.rejects.append(error.at(f"line {number}"))
        return decoded

    return decode


def is_workload_log(line: bytes) -> bool:
    """Return whether a file with this first line is a workload log.

    >>> is_workload_log(b"; UnixStartTime: 843480031"), is_workload_log(b"1 0 60")
    (True, False)
    """
    return line.lstrip().startswith(b";") or _NUMBERS.fullmatch(line) is not None


def swf_file(text: TextFile, options: TelemetryOptions) -> RecordFile:
    """Return the jobs of an open log, with a remark if the log has no date.

    >>> swf_file(TextFile("kth.swf", b"; Computer: SP2", iter([(b"; Computer: SP2", 1)])), TelemetryOptions()).remark == UNDATED
    True
    """
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
    """Return whether the submit time of the first job is in seconds since 1970, so that the log needs no date."""
    cells = next(iter(rows), b"").split(None, 2)
    return len(cells) > 1 and (number_in(cells[1].decode(errors="replace")) or 0.0) >= ABSOLUTE_S


def _row(text: str) -> list[float]:
    cells = text.split()
    if not COLUMNS <= len(cells) <= COLUMNS_MAX:
        raise invalid("columns", f"The row has {len(cells)} numbers for {COLUMNS} columns.")
    row = [_number(cell) for cell in cells[:COLUMNS]]
    large = {1: SUBMIT_MAX_S, 6: math.inf, 9: math.inf}  # seconds since 1970, and memory in kB
    if any(abs(number) > large.get(index, COUNT_MAX) for index, number in enumerate(row)):
        raise invalid("out-of-range", "A number of the row is beyond any job.")
    return row


def _number(cell: str) -> float:
    number = number_in(cell)
    if number is None or not math.isfinite(number):
        raise invalid("wrong-type", f"{shown(cell)} is no number.")
    return number


def _job(row: list[float], header: SwfHeader, received_ms: int, options: DecodeOptions) -> JobCompleted:
    job_id, status = str(int(row[0])), int(row[10])
    if status not in STATES_OF_STATUS or row[0] < 0 or row[1] < 0 or row[3] > SECONDS_MAX:
        raise invalid("out-of-range", "The row has a status, job number, submit or run time that no job has.")
    submit_s = row[1] if row[1] >= ABSOLUTE_S else header.unix_start_time_s + row[1]
    start_ms = round((submit_s + max(row[2], 0.0)) * 1000)
    end_ms = start_ms + round(row[3] * 1000)
    check_bounds(start_ms, end_ms, received_ms, options)
    return JobCompleted(
        system=header.system,
        job_id=job_id,
        run_id=run_identity(header.system, job_id, start_ms),
        start_ms=start_ms,
        end_ms=end_ms,
        run_time_s=row[3],
        state=STATES_OF_STATUS[status],
        evidence=_evidence(row, submit_s),
    )


def _evidence(row: list[float], submit_s: float) -> Evidence:
    cores = row[4] if row[4] > 0 else row[7]
    return Evidence(
        sizes={"cores": cores} if cores > 0 else {},
        application=_named("app", row[13]),
        user=_named("user", row[11]),
        account=_named("group", row[12]),
        partition=_named("queue", row[14]),
        time_limit_s=row[8] if row[8] > 0 else None,
        submit_ms=round(submit_s * 1000),
    )


def _named(prefix: str, number: float) -> str | None:
    return f"{prefix}{int(number)}" if number >= 0 else None
