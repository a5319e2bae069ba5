"""Text of `sacct --parsable2` or `--parsable`, with any `--format` that has the columns it takes; and key=value lines.

Job rows of finished jobs become events. Steps and unfinished jobs are counted and left out. Times are local and carry
no zone, unless the file says so: the option `timezone` names it, UTC otherwise.
"""

import csv
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, tzinfo
from typing import Final

from agent.decode.fields import (
    PATH_MAX,
    SECONDS_MAX,
    check_bounds,
    free_text,
    gpus,
    identity_text,
    moment_ms,
    parse_duration,
    parse_limit,
    parse_tres,
    refuse_control,
    run_identity,
    sizes_of,
    zone_of,
)
from agent.decode.message import DecodeOne, DecodeOptions, TelemetryOptions, checked, invalid, shown
from agent.decode.opening import RecordFile, TextFile
from agent.decode.slurm import NO_TIME, exit_code, one_partition
from agent.decode.telemetry.columns import each_line
from processors.contracts import nodes as hostlist
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import STATES, Attribute, Decode, Decoded, Evidence, JobCompleted

Row = Mapping[str, str]
"""Texts by column name in lower case; a column that is absent and one that is blank say the same."""

UNFINISHED: Final = {  # states of jobs without an end, and the name they are counted under
    "PENDING": "pending",
    "RUNNING": "running",
    "SUSPENDED": "running",
    "COMPLETING": "running",
    "STOPPED": "running",
    "STAGE_OUT": "running",
    "SIGNALING": "running",
    "CONFIGURING": "pending",
    "REQUEUE_HOLD": "pending",
    "REQUEUE_FED": "pending",
    "RESV_DEL_HOLD": "pending",
    "SPECIAL_EXIT": "pending",
}


def ignored_row(row: Row) -> str | None:
    """Return why a row is of no use ("step", "pending", "running", "never-started"), or None where it is a finished job.

    >>> ignored_row({"jobid": "812.batch", "state": "COMPLETED"}), ignored_row({"jobid": "812", "state": "RUNNING"})
    ('step', 'running')
    """
    if "." in (row.get("jobid") or row.get("jobidraw") or ""):
        return "step"
    state = final_state(row.get("state", ""))
    if state == "CANCELLED" and row.get("start", "") in NO_TIME and row.get("end", "") in NO_TIME:
        return "never-started"
    return UNFINISHED.get(state)


def final_state(text: str) -> str:
    """Return the state without what `sacct` adds to it.

    >>> final_state("CANCELLED by 1001"), final_state("CANCELLED+")
    ('CANCELLED', 'CANCELLED')
    """
    fields = text.split(maxsplit=1)
    return fields[0].rstrip("+").upper() if fields else ""


def finished_job(row: Row, zone: tzinfo, received_ms: int, options: DecodeOptions) -> JobCompleted:
    """Return the event of a finished job; times without a zone are in `zone`.

    >>> row = {"jobid": "812", "state": "COMPLETED", "start": "2026-11-20T10:00:00", "elapsedraw": "60", "nnodes": "4"}
    >>> job = finished_job(row, UTC, 1795170700000, DecodeOptions(default_system="exa"))
    >>> job.run_time_s, job.evidence.sizes
    (60.0, {'nodes': 4.0})
    """
    state = final_state(row.get("state", ""))
    if state not in STATES:
        raise invalid("state", f"The state {shown(state)} is none of the final states of Slurm.")
    job_id = identity_text(row.get("jobidraw") or row.get("jobid"), "job id")
    if not job_id:
        raise invalid("missing-field", "The row has no job id.")
    system = options.system_of(identity_text(row.get("cluster"), "cluster"))
    start_ms, end_ms, run_time_s = _times(row, zone)
    check_bounds(start_ms, end_ms, received_ms, options)
    return JobCompleted(
        system=system,
        job_id=job_id,
        run_id=run_identity(system, job_id, start_ms),
        start_ms=start_ms,
        end_ms=end_ms,
        run_time_s=run_time_s,
        state=state,
        evidence=_evidence(row, zone, options),
        exit_code=exit_code(row.get("exitcode")),
        failed_host=identity_text(row.get("failednode"), "failed node"),
        energy_j=_energy_j(row),
    )


def _times(row: Row, zone: tzinfo) -> tuple[int, int, float]:
    start_ms, end_ms, elapsed_s = _time(row.get("start"), zone), _time(row.get("end"), zone), _elapsed_s(row)
    if elapsed_s is None and start_ms is not None and end_ms is not None:
        elapsed_s = (end_ms - start_ms) / 1000
    if elapsed_s is None or (start_ms is None and end_ms is None):
        raise invalid("missing-field", "A row needs two of start, end and elapsed time.")
    if elapsed_s < 0:
        raise invalid("out-of-range", "The end is before the start.")
    elapsed_ms = round(elapsed_s * 1000)
    if start_ms is None:
        start_ms = (end_ms or 0) - elapsed_ms
    if end_ms is None or end_ms < start_ms:  # the clock goes back in autumn: local times may
        end_ms = start_ms + elapsed_ms
    return start_ms, end_ms, elapsed_s


def _elapsed_s(row: Row) -> float | None:
    raw = row.get("elapsedraw", "")
    if raw:
        seconds = _count(raw)
        if seconds is None or seconds > SECONDS_MAX:
            raise invalid("out-of-range", f"{shown(raw)} is no elapsed time in seconds.")
        return seconds
    elapsed = row.get("elapsed", "")
    return parse_duration(elapsed) if elapsed else None


def _time(text: str | None, zone: tzinfo) -> int | None:
    if text is None or text in NO_TIME:
        return None
    if text.isascii() and text.isdigit() and len(text) < 12:  # SLURM_TIME_FORMAT=%s
        return moment_ms(datetime.fromtimestamp(int(text), UTC))
    try:
        moment = datetime.fromisoformat(text)
        return moment_ms(moment if moment.tzinfo else moment.replace(tzinfo=zone))
    except (ValueError, OverflowError):
        raise invalid("time", f"{shown(text)} is not a time.") from None


def _evidence(row: Row, zone: tzinfo, options: DecodeOptions) -> Evidence:
    minutes = _count(row.get("timelimitraw", ""))
    hosts = row.get("nodelist", "").strip()
    refuse_control(hosts, "host list")
    array_job_id, _, task = row.get("jobid", "").partition("_")
    attributes: dict[str, Attribute | None] = {
        "features": free_text(row.get("constraints")),
        "wc_key": free_text(row.get("wckey")),
    }
    return Evidence(
        sizes=_sizes(row, hosts),
        job_name=free_text(row.get("jobname")),
        user=free_text(row.get("user")),
        account=free_text(row.get("account")),
        partition=one_partition(row.get("partition")),
        qos=free_text(row.get("qos")),
        reservation=free_text(row.get("reservation")),
        container=free_text(row.get("container"), PATH_MAX),
        work_dir=free_text(row.get("workdir"), PATH_MAX) if options.keep.paths else None,
        comment=free_text(row.get("comment"), PATH_MAX) if options.keep.comment else None,
        hosts=() if hosts in hostlist.NO_HOSTS else (hosts,),
        time_limit_s=minutes * 60 if minutes else parse_limit(row.get("timelimit", "")),
        submit_ms=_time(row.get("submit"), zone),
        array_job_id=identity_text(array_job_id, "job id") if task else None,
        attributes={name: value for name, value in attributes.items() if value is not None},
    )


def _energy_j(row: Row) -> float | None:
    """Return what Slurm's meter counted; it writes 0 where it has none, and 2^64 - 2 and its like where it does not know."""
    raw = row.get("consumedenergyraw", "")
    found = parse_tres(f"energy={raw}" if raw else row.get("alloctres"), "energy")
    return found.get("energy") or None


def _sizes(row: Row, hosts: str) -> dict[str, float]:
    allocated = parse_tres(row.get("alloctres"))
    nodes = _first(row, "allocnodes", "nnodes") or allocated.get("node") or float(hostlist.count(hosts))
    return sizes_of(
        {
            "nodes": nodes or _first(row, "reqnodes"),
            "cores": _first(row, "alloccpus", "ncpus") or allocated.get("cpu") or _first(row, "reqcpus"),
            "processes": _first(row, "ntasks"),
            "gpus": gpus(allocated),
        }
    )


def _first(row: Row, *columns: str) -> float | None:
    return next((count for count in (_count(row.get(column, "")) for column in columns) if count), None)


def _count(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


NEEDED: Final = (  # of each group one column
    ("jobidraw", "jobid"),
    ("state",),
    ("elapsedraw", "elapsed", "end"),
    ("start", "end"),
    ("allocnodes", "nnodes", "nodelist", "alloccpus", "ncpus", "reqcpus", "alloctres"),
)
FREE_TEXT: Final = ("jobname", "comment", "workdir", "admincomment", "systemcomment", "submitline", "constraints")
COLUMNS_MAX: Final = 200
PAIRS: Final = re.compile(r'"?[A-Za-z]+=[^|]*?,"?[A-Za-z]+=')
SONAR_COLUMNS: Final = (
    *("JobIDRaw", "JobID", "User", "Account", "State", "Start", "End", "AveCPU", "AveDiskRead", "AveDiskWrite"),
    *("AveRSS", "AveVMSize", "ElapsedRaw", "ExitCode", "Layout", "MaxRSS", "MaxVMSize", "MinCPU", "ReqCPUS", "ReqMem"),
    *("ReqNodes", "Reservation", "Submit", "Suspended", "SystemCPU", "TimelimitRaw", "UserCPU", "NodeList"),
    *("Partition", "AllocTRES", "Priority", "JobName"),
)

_RESOURCE = re.compile(r"[a-z][\w/:]*=[\w.]+(?:,|$)")  # as in AllocTRES
_DELIMITERS: Final = "|,;\t"
_HEADER = re.compile(r"([A-Za-z]+)([^A-Za-z0-9]*)")


class SacctTable:
    """The columns of a table and what parts them; cuts a line into a row.

    A job name may hold the delimiter. Where it is the only column of free text it takes what the line has too much.

    >>> table = SacctTable.of_header("JobID|JobName|State|Elapsed|End|NNodes")
    >>> table.row("812|a|b|COMPLETED|00:01:00|2026-11-20T10:00:00|4")["jobname"]
    'a|b'
    """

    def __init__(self, columns: tuple[str, ...], delimiter: str) -> None:
        self.columns = tuple(column.strip().partition("%")[0].lower() for column in columns)
        self.delimiter = delimiter
        missing = [group for group in NEEDED if not set(group) & set(self.columns)]
        if missing:
            raise invalid("columns", f"The table has no column {' or '.join(missing[0])}.")
        if len(self.columns) > COLUMNS_MAX:
            raise invalid("columns", f"The table has more than {COLUMNS_MAX} columns.")
        free = [index for index, column in enumerate(self.columns) if column in FREE_TEXT]
        self._free = free[0] if len(free) == 1 else None
        self._ends_with_delimiter = False  # as --parsable, unlike --parsable2, ends each line

    @classmethod
    def of_header(cls, line: str) -> "SacctTable":
        """Return the table of a header line; what follows its first name is the delimiter."""
        first = _HEADER.match(line)
        if first is None or not first[2]:
            raise invalid("columns", f"{shown(line)} is no header line of sacct.")
        delimiter = first[2]
        if delimiter.isspace() and delimiter != "\t":
            raise invalid("columns", "This table of sacct is cut to the width of a screen; print it with --parsable2.")
        table = cls(tuple(line.removesuffix(delimiter).split(delimiter)), delimiter)
        table._ends_with_delimiter = line.endswith(delimiter)
        return table

    def row(self, line: str) -> Row:
        """Return the row of a line; InvalidInputError (``columns``) where it does not fit the columns."""
        cells = self._cells(line.removesuffix(self.delimiter) if self._ends_with_delimiter else line)
        if len(cells) > len(self.columns) and self.delimiter == ",":
            cells = rejoined(cells)
        surplus = len(cells) - len(self.columns)
        if surplus > 0 and self._free is not None:
            end = self._free + surplus + 1
            cells[self._free : end] = [self.delimiter.join(cells[self._free : end])]
        if len(cells) != len(self.columns):
            what = "; a comma may part a cell, print it with --parsable2" if self.delimiter == "," else ""
            raise invalid("columns", f"The row has {len(cells)} cells for {len(self.columns)} columns{what}.")
        return dict(zip(self.columns, cells, strict=True))

    def _cells(self, line: str) -> list[str]:
        if self.delimiter == "," and '"' in line:
            return quoted_cells(line)
        return line.split(self.delimiter)


def rejoined(cells: Iterable[str]) -> list[str]:
    """Return cells of which a comma has parted none: lists of hosts in brackets, and counts of resources, are whole again.

    >>> rejoined(["812", "r1n[01", "04-07]", "cpu=8", "node=2"])
    ['812', 'r1n[01,04-07]', 'cpu=8,node=2']
    """
    whole: list[str] = []
    for cell in cells:
        last = whole[-1] if whole else ""
        if last.count("[") > last.count("]") or (_RESOURCE.match(last) and _RESOURCE.match(cell)):
            whole[-1] = f"{last},{cell}"
        else:
            whole.append(cell)
    return whole


def quoted_cells(line: str) -> list[str]:
    """Return the cells of a line with commas between them, of which some are quoted.

    >>> quoted_cells('JobID=812,"AllocTRES=cpu=4,node=1"')
    ['JobID=812', 'AllocTRES=cpu=4,node=1']
    """
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        raise invalid("columns", "The row is no line of comma-separated values.") from None


def pairs_row(line: str) -> Row:
    """Return the row of a line of ``Key=Value`` cells.

    >>> pairs_row("v=0.1.0,JobID=812,State=COMPLETED")["state"]
    'COMPLETED'
    """
    row = {}
    for cell in quoted_cells(line):
        name, separator, value = cell.partition("=")
        if not separator:
            raise invalid("columns", f"The cell {shown(cell)} is no Key=Value.")
        row[name.lower()] = value
    return row


def sacct_lines(read_row: Callable[[str], Row], options: DecodeOptions) -> DecodeOne:
    """Return the decoder of single lines below the header: `SacctTable.row`, or `pairs_row`.

    >>> decoded = Decoded()
    >>> sacct_lines(pairs_row, DecodeOptions())(b"JobID=812.batch,State=COMPLETED", 0, decoded)
    >>> decoded.ignored
    {'step': 1}
    """
    zone: tzinfo = zone_of(options.timezone)

    def decode_one(value: bytes, received_ms: int, decoded: Decoded) -> None:
        row = read_row(line_text(value, options))
        reason = ignored_row(row)
        if reason is None:
            decoded.events.append(finished_job(row, zone, received_ms, options))
        else:
            decoded.ignored[reason] = decoded.ignored.get(reason, 0) + 1

    return decode_one


def line_text(value: bytes, options: DecodeOptions) -> str:
    """Return a line as text without its end, or raise InvalidInputError.

    >>> line_text(b"812|COMPLETED" + bytes([13, 10]), DecodeOptions())
    '812|COMPLETED'
    """
    try:
        return checked(value, options).decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise invalid("encoding", "The line holds text that is not UTF-8.") from None


def table_of(first_line: str) -> tuple[SacctTable, bool]:
    """Return the table that a first line opens, and whether that line is a header.

    Without a header, only the layout that Sonar asks `sacct` for is known.

    >>> table_of("JobIDRaw|State|Start|End|NCPUS")[1]
    True
    """
    if "jobid" in first_line[:80].lower():
        return SacctTable.of_header(first_line), True
    cells = first_line.split("|")
    if len(cells) >= len(SONAR_COLUMNS) and cells[0].partition(".")[0].isdigit() and cells[0] == cells[1]:
        return SacctTable(SONAR_COLUMNS, "|"), False
    if max(first_line.count(delimiter) for delimiter in _DELIMITERS) < 2:
        raise invalid("unknown-format", "This is neither JSON, nor a table of sacct, nor a workload log.")
    raise invalid(
        "columns",
        "The table has no header line; print it without --noheader, or put one before it, such as JobID|State|Start|End|NNodes.",
    )


def sacct_decoder(options: DecodeOptions) -> Decode:
    """Return the decoder of a message that is a whole table, or key=value lines.

    >>> decode = sacct_decoder(DecodeOptions(default_system="exa"))
    >>> text = b"JobID|State|Start|Elapsed|NCPUS" + bytes([10]) + b"812|COMPLETED|2026-11-20T10:00:00|00:01:00|8"
    >>> decode(text, 1795170700000).events[0].evidence.sizes
    {'cores': 8.0}
    """

    def decode(value: bytes, received_ms: int) -> Decoded:
        lines = [line for line in checked(value, options).split(b"\n") if line.strip()]
        if len(lines) > options.elements_max:
            raise invalid("array-bomb", f"The table has more rows than {options.elements_max}.")
        decode_one, below = sacct_opened(line_text(lines[0], options), options)
        decoded = Decoded()
        for number, line in enumerate(lines[1:] if below else lines, 2 if below else 1):
            try:
                decode_one(line, received_ms, decoded)
            except InvalidInputError as error:
                decoded.rejects.append(error.at(f"line {number}"))
        return decoded

    return decode


def sacct_opened(first_line: str, options: DecodeOptions) -> tuple[DecodeOne, bool]:
    """Return the decoder of lines that a first line asks for, and whether that line is a header and no row.

    >>> sacct_opened("v=0.1.0,JobID=812,State=COMPLETED", DecodeOptions())[1]
    False
    """
    if PAIRS.match(first_line):
        return sacct_lines(pairs_row, options), False
    table, header = table_of(first_line)
    return sacct_lines(table.row, options), header


def sacct_file(text: TextFile, options: TelemetryOptions) -> RecordFile:
    """Return the rows of an open table; InvalidInputError if its columns are not known.

    >>> header = b"JobID|State|Start|Elapsed|NNodes"
    >>> sacct_file(TextFile("jobs.txt", header, iter([(header, 1)])), TelemetryOptions()).format
    'sacct'
    """
    decode_one, header = sacct_opened(line_text(text.first, options.decode), options.decode)
    if header:
        next(text.lines)
    return RecordFile("sacct", each_line(decode_one), text.lines)
