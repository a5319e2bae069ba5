"""One row of Slurm's accounting (`sacct`), as column name to text, to the event of a finished job."""

from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Final

from agent.contracts import hostlist
from agent.contracts.events import STATES, Attribute, Evidence, JobCompleted
from agent.decode.checks import COUNT_MAX, PATH_MAX, SECONDS_MAX, own_text, refuse_control, run_identity
from agent.decode.durations import parse_duration, parse_limit
from agent.decode.options import DecodeOptions
from agent.decode.reasons import invalid, shown
from agent.decode.slurm import NO_TIME, exit_code, one_partition
from agent.decode.times import check_bounds, moment_ms
from agent.decode.tres import gpus, parse_tres

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
    words = text.split(maxsplit=1)
    return words[0].rstrip("+").upper() if words else ""


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
    job_id = own_text(row.get("jobidraw") or row.get("jobid"), "job id")
    system = own_text(row.get("cluster"), "cluster") or options.default_system
    if not job_id or not system:
        raise invalid("missing-field", "A row needs a job id, and a cluster or a default system.")
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
        failed_host=own_text(row.get("failednode"), "failed node"),
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
        "features": own_text(row.get("constraints"), "constraints"),
        "wc_key": own_text(row.get("wckey"), "workload key"),
    }
    return Evidence(
        sizes=_sizes(row, hosts),
        job_name=own_text(row.get("jobname"), "job name"),
        user=own_text(row.get("user"), "user"),
        account=own_text(row.get("account"), "account"),
        partition=one_partition(row.get("partition")),
        qos=own_text(row.get("qos"), "quality of service"),
        container=own_text(row.get("container"), "container", PATH_MAX),
        work_dir=own_text(row.get("workdir"), "working directory", PATH_MAX) if options.keep_paths else None,
        comment=own_text(row.get("comment"), "comment", PATH_MAX) if options.keep_comment else None,
        hosts=() if hosts in hostlist.NO_HOSTS else (hosts,),
        time_limit_s=minutes * 60 if minutes else parse_limit(row.get("timelimit", "")),
        submit_ms=_time(row.get("submit"), zone),
        array_job_id=own_text(array_job_id, "job id") if task else None,
        attributes={name: value for name, value in attributes.items() if value is not None},
    )


def _sizes(row: Row, hosts: str) -> dict[str, float]:
    allocated = parse_tres(row.get("alloctres"))
    nodes = _first(row, "allocnodes", "nnodes") or allocated.get("node") or float(hostlist.count(hosts))
    counts = {
        "nodes": nodes or _first(row, "reqnodes"),
        "cores": _first(row, "alloccpus", "ncpus") or allocated.get("cpu") or _first(row, "reqcpus"),
        "processes": _first(row, "ntasks"),
        "gpus": gpus(allocated),
    }
    return {unit: count for unit, count in counts.items() if count and count <= COUNT_MAX}


def _first(row: Row, *columns: str) -> float | None:
    return next((count for count in (_count(row.get(column, "")) for column in columns) if count), None)


def _count(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdigit() and len(text) < 16 else None
