"""Tables of `sacct --parsable2` or `--parsable` with any `--format` that has the required columns, and lines of key=value pairs.

Rows of finished jobs become events. Job steps and unfinished jobs are counted and skipped. Times are local and have no zone:
the option `timezone` names the zone, by default UTC.
"""

import re
from datetime import UTC, datetime, tzinfo
from itertools import chain, product
from typing import Final

from agent.decode.fields import (
    PATH_MAX,
    SECONDS_MAX,
    Times,
    completed_job,
    filled_times,
    free_text,
    gpus,
    host_list,
    identity_text,
    known_state,
    moment_ms,
    parse_duration,
    parse_limit,
    parse_tres,
    present,
    sizes_of,
    zone_of,
)
from agent.decode.message import DecodeOne, DecodeOptions, TelemetryOptions, checked, decoded_lines, invalid, shown
from agent.decode.opening import Numbered, RecordFile, TextFile
from agent.decode.slurm import NO_TIME, exit_code, one_partition
from agent.decode.table import JobTable, Row, header_of, line_text, opened_table, quoted_cells, whole_rows
from agent.decode.telemetry.columns import each_line
from processors.contracts import nodes as hostlist
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import PART_OF, STATES, SUCCESS, Decode, Decoded, Evidence, JobCompleted

_PENDING: Final = ("PENDING", "CONFIGURING", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT")
_RUNNING: Final = ("RUNNING", "SUSPENDED", "COMPLETING", "STOPPED", "STAGE_OUT", "SIGNALING")
UNFINISHED: Final = dict.fromkeys(_PENDING, "pending") | dict.fromkeys(_RUNNING, "running")
"""States of unfinished jobs, each with the name under which these jobs are counted."""

_BY_NUMBER: Final = (
    *("PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED"),
    *("BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"),
)
STATE_NAMES: Final = {
    **{str(number): state for number, state in enumerate(_BY_NUMBER)},
    "COMPLETE": "COMPLETED",
    "CANCELED": "CANCELLED",
}
"""Other spellings of states: the numbers in Slurm's database, and the spellings in public logs."""
HOUR_MS: Final = 3_600_000


def ignored_row(row: Row) -> str | None:
    """Return the reason for ignoring a row ("step", "pending", "running", "never-started"); None for a finished job."""
    if "." in (row.get("jobid") or row.get("jobidraw") or ""):
        return "step"
    state = final_state(row.get("state", ""))
    if state in STATES and state != SUCCESS and _never_started(row):
        return "never-started"
    return UNFINISHED.get(state)


def _never_started(row: Row) -> bool:
    """Return whether a job ended before its planned start, or has neither start nor end."""
    start, end, elapsed = row.get("start", ""), row.get("end", ""), row.get("elapsedraw") or row.get("elapsed") or ""
    if start in NO_TIME:
        return end in NO_TIME or elapsed.startswith("-")
    idle = elapsed.startswith("-") or not elapsed.strip("0:")
    return end not in NO_TIME and end < start and len(end) == len(start) and idle


def final_state(text: str) -> str:
    """Return the state without the suffixes that `sacct` adds.

    >>> final_state("CANCELLED by 1001"), final_state("CANCELLED+"), final_state("3")
    ('CANCELLED', 'CANCELLED', 'COMPLETED')
    """
    fields = text.split(maxsplit=1)
    state = fields[0].rstrip("+").upper() if fields else ""
    return STATE_NAMES.get(state, state)


def finished_job(row: Row, zone: tzinfo | None, received_ms: int, options: DecodeOptions) -> JobCompleted:
    """Return the event of a finished job; times without a zone are in `zone`. If `zone` is None, all times are exact.

    >>> row = {"jobid": "812", "state": "COMPLETED", "start": "2026-11-20T10:00:00", "elapsedraw": "60", "nnodes": "4"}
    >>> job = finished_job(row, UTC, 1795170700000, DecodeOptions(default_system="exa"))
    >>> job.run_time_s, job.evidence.sizes
    (60.0, {'nodes': 4.0})
    """
    state = known_state(final_state(row.get("state", "")))
    job_id = identity_text(row.get("jobidraw") or row.get("jobid"), "job id")
    if not job_id:
        raise invalid("missing-field", "The row has no job id.")
    system = options.system_of(identity_text(row.get("cluster"), "cluster"))
    times, evidence, code = _times(row, zone), _evidence(row, zone, options), exit_code(row.get("exitcode"))
    failed_host, energy_j = identity_text(row.get("failednode"), "failed node"), _energy_j(row)
    return completed_job(system, job_id, times, state, evidence, received_ms, options, code, failed_host, energy_j)


def _times(row: Row, zone: tzinfo | None) -> Times:
    starts, ends, reported_s = _times_of(row.get("start"), zone), _times_of(row.get("end"), zone), _elapsed_s(row)
    times = filled_times(*_meant(starts, ends, reported_s, _suspended_s(row)), reported_s)
    if times is None:
        raise invalid("missing-field", "A row needs two of start, end and elapsed time.")
    start_ms, end_ms, elapsed_s = times
    if elapsed_s < 0:
        raise invalid("out-of-range", "The end is before the start.")
    elapsed_ms = round(elapsed_s * 1000)
    # an hour of the run may be hidden when the clock is set back; a larger difference means that the job was resized
    hidden = end_ms < start_ms or 0 < elapsed_ms - (end_ms - start_ms) <= HOUR_MS
    if hidden and zone is not None:
        end_ms = start_ms + elapsed_ms
    return start_ms, end_ms, min(elapsed_s, (end_ms - start_ms) / 1000)


def _meant(
    starts: tuple[int | None, ...], ends: tuple[int | None, ...], elapsed_s: float | None, suspended_s: float
) -> tuple[int | None, int | None]:
    """Return the start and the end whose difference is closest to the elapsed time; `starts` and `ends` are the possible times in ms.

    Without an elapsed time, return a start and an end that are in order.
    """

    def distance(times: tuple[int | None, int | None]) -> float:
        span_ms = (times[1] or 0) - (times[0] or 0)
        return float(span_ms < 0) if elapsed_s is None else abs(span_ms - (elapsed_s + suspended_s) * 1000)

    if starts == (None,) or ends == (None,):
        return starts[0], ends[0]
    return min(product(starts, ends), key=distance)


def _elapsed_s(row: Row) -> float | None:
    raw = row.get("elapsedraw", "")
    if raw and ":" not in raw:
        seconds = _count(raw.partition(".")[0])
        if seconds is None or seconds > SECONDS_MAX:
            raise invalid("out-of-range", f"{shown(raw)} is no elapsed time in seconds.")
        return seconds
    elapsed = raw or row.get("elapsed", "")
    return parse_duration(elapsed) if elapsed else None


def _suspended_s(row: Row) -> float:
    suspended = row.get("suspended")
    try:
        return parse_duration(suspended) if suspended else 0.0
    except InvalidInputError:
        return 0.0


def _times_of(text: str | None, zone: tzinfo | None) -> tuple[int | None, ...]:
    """Return the possible times of `text`: two times in the hour that repeats when the clock is set back, otherwise one time."""
    if text is None or text in NO_TIME:
        return (None,)
    seconds = text.partition(".")[0]
    if seconds.isascii() and seconds.isdigit() and len(seconds) < 12:  # epoch seconds, because of SLURM_TIME_FORMAT=%s
        return (moment_ms(datetime.fromtimestamp(int(seconds), UTC)),)
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None or zone in (UTC, None):
            return (moment_ms(moment),)
        return tuple(dict.fromkeys(moment_ms(moment.replace(tzinfo=zone, fold=fold)) for fold in (0, 1)))
    except (ValueError, OverflowError):
        raise invalid("time", f"{shown(text)} is not a time.") from None


def _evidence(row: Row, zone: tzinfo | None, options: DecodeOptions) -> Evidence:
    minutes = _count(row.get("timelimitraw", ""))
    hosts = row.get("nodelist") or row.get("nodes", "")
    hosts = "" if _size(hosts) is not None else hosts.strip()
    named_hosts = host_list(hosts)
    array_job_id, _, task = row.get("jobid", "").partition("_")
    part_of, is_part, _ = row.get("jobid", "").partition("+")
    task_id = _count(row.get("arraytaskid", ""))
    attributes = {
        PART_OF: identity_text(part_of, "job id") if is_part else None,
        "array_task_id": None if task_id is None else int(task_id),
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
        hosts=named_hosts,
        time_limit_s=minutes * 60 if minutes else parse_limit(row.get("timelimit", "")),
        submit_ms=_times_of(row.get("submit"), zone)[0],
        array_job_id=identity_text(array_job_id, "job id") if task else None,
        attributes=present(attributes),
    )


def _energy_j(row: Row) -> float | None:
    """Return the energy in J that Slurm measured; None for 0 (no meter) and for values near 2^64 (unknown)."""
    raw = row.get("consumedenergyraw", "")
    found = parse_tres(f"energy={raw}" if raw else row.get("alloctres"), "energy")
    return found.get("energy") or None


def _sizes(row: Row, hosts: str) -> dict[str, float]:
    allocated = parse_tres(row.get("alloctres"))
    nodes = _first(row, "allocnodes", "nnodes", "nodes") or allocated.get("node") or float(hostlist.count(hosts))
    return sizes_of(
        {
            "nodes": nodes or _first(row, "reqnodes"),
            "cores": _first(row, "alloccpus", "ncpus") or allocated.get("cpu") or _first(row, "reqcpus"),
            "processes": _first(row, "ntasks"),
            "gpus": gpus(allocated) or _first(row, "ngpus"),
        }
    )


def _first(row: Row, *columns: str) -> float | None:
    return next((size for size in (_size(row.get(column, "")) for column in columns) if size), None)


def _size(text: str) -> float | None:
    """Return a count in the notation of `sacct`: 1K means 1024, and 1.50K means 1536."""
    if text.isdigit() or not text[:1].isdigit():  # the common cases first: plain numbers and host lists
        return _count(text)
    amount = next(iter(parse_tres(f"size={text.strip().upper()}").values()), None)
    return None if amount is None else float(round(amount))


def _count(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def pairs_row(line: str) -> Row:
    """Return the row of a line with ``Key=Value`` cells."""
    row = {}
    for cell in quoted_cells(line):
        name, separator, value = cell.partition("=")
        if not separator:
            raise invalid("columns", f"The cell {shown(cell)} is not Key=Value.")
        row[name.lower()] = value
    return row


PAIRS: Final = re.compile(r'"?[A-Za-z]+=[^|]*?,"?[A-Za-z]+=')


def add_row(row: Row, zone: tzinfo | None, received_ms: int, options: DecodeOptions, decoded: Decoded) -> None:
    """Add the event of a row, or count the reason why the row yields no event."""
    reason = ignored_row(row)
    if reason is None:
        decoded.events.append(finished_job(row, zone, received_ms, options))
    else:
        decoded.ignore(reason)


def _rows(first: bytes, lines: Numbered, options: DecodeOptions) -> tuple[DecodeOne, Numbered]:
    """Return the decoder of table rows or Key=Value lines, and all rows; `first` is the first line and decides between the two forms.

    The rows may include the header lines of further tables.
    """
    zone: tzinfo = zone_of(options.timezone)
    table: JobTable | None = None
    if not PAIRS.match(first.decode(errors="replace")):
        table, row = opened_table(lines, options)
        lines = whole_rows(chain(row, lines), table, options)

    def decode_one(value: bytes, received_ms: int, decoded: Decoded) -> None:
        nonlocal table
        header = None if table is None else header_of(value, options)
        if header is not None:
            table = header
            return
        text = line_text(value, options)
        add_row(pairs_row(text) if table is None else table.row(text), zone, received_ms, options, decoded)

    return decode_one, lines


def sacct_decoder(options: DecodeOptions) -> Decode:
    """Return the decoder of messages that hold a whole table, or lines of key=value pairs.

    >>> decode = sacct_decoder(DecodeOptions(default_system="exa"))
    >>> text = b"JobID|State|Start|Elapsed|NCPUS" + bytes([10]) + b"812|COMPLETED|2026-11-20T10:00:00|00:01:00|8"
    >>> decode(text, 1795170700000).events[0].evidence.sizes
    {'cores': 8.0}
    """

    def decode(value: bytes, received_ms: int) -> Decoded:
        numbered = enumerate(checked(value, options).split(b"\n"), 1)
        lines = [(line + b"\n", number) for number, line in numbered if line.strip()]
        options.check_count(len(lines), "rows", "table")
        decode_one, rows = _rows(lines[0][0], iter(lines), options)
        return decoded_lines(rows, decode_one, received_ms)

    return decode


def sacct_file(text: TextFile, options: TelemetryOptions) -> RecordFile:
    """Return the rows of an open table. Raise InvalidInputError if the columns are unknown."""
    decode_one, rows = _rows(text.first, text.lines, options.decode)
    return RecordFile("sacct", each_line(decode_one), rows)
