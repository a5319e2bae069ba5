"""Job records of Slurm's plugin jobcomp/kafka (and of jobcomp/elasticsearch, which has the same body), versions 23.02 to 26.11.

A record reports the end of a run or, from 25.05 on and if configured, its start. Times are UTC without a zone. A requeued
job keeps its id and gets a new start, so it becomes a new run. The `sluid` of 26.05 is not used: accounting and older versions
lack it, and a run reported by two sources must have one identity.
"""

from typing import Final

import msgspec

from agent.decode.fields import (
    GPU,
    PATH_MAX,
    SCRIPT_MAX,
    SECONDS_MAX,
    HostList,
    JobNumber,
    Times,
    completed_job,
    filled_times,
    free_text,
    gpus,
    host_list,
    identity_text,
    known_state,
    parse_time,
    parse_tres,
    present,
    sizes_of,
    started_job,
)
from agent.decode.message import DecodeOptions, decode_json, invalid, whole
from processors.contracts.events import PART_OF, SUCCESS, Decode, Decoded, Evidence, JobCompleted, JobStarted
from processors.contracts.nodes import NO_HOSTS

NO_TIME: Final = ("", "Unknown", "None")  # texts that Slurm writes for an unknown time
_NO_VALUE: Final = 2**32 - 3


class _Record(msgspec.Struct, kw_only=True, gc=False):
    jobid: JobNumber
    cluster: str | None = None
    state: str | None = None
    start: str | None = msgspec.field(name="@start", default=None)
    end: str | None = msgspec.field(name="@end", default=None)
    submit: str | None = msgspec.field(name="@submit", default=None)
    elapsed: int | None = None
    exit_code: str | None = None
    failed_node: str | None = None
    nodes: HostList | None = None
    total_nodes: int | None = None
    total_cpus: int | None = None
    ntasks: int | None = None
    tres_alloc: str | None = None
    tres_alloc_raw: str | None = None
    job_name: str | None = None
    username: str | None = None
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    container: str | None = None
    time_limit: int | None = None
    het_job_id: int | None = None
    pack_job_id: int | None = None
    array_job_id: int | None = None
    array_task_id: int | None = None
    ntasks_per_node: int | None = None
    cpus_per_task: int | None = None
    features: str | None = None
    reservation_name: str | None = None
    wc_key: str | None = None


class _Private(msgspec.Struct):
    script: str | None = None
    comment: str | None = None
    work_dir: str | None = None


_RECORD = msgspec.json.Decoder(_Record, strict=False)  # strict=False because stream processors write 7 as 7.0 or "7"
_PRIVATE = msgspec.json.Decoder(_Private)


def slurm_decoder(options: DecodeOptions) -> Decode:
    """Return the decoder of Slurm's job records.

    A record reports the start of a run if it has no state, or if end, elapsed time and exit code are missing.

    >>> decode = slurm_decoder(DecodeOptions(default_system="exa"))
    >>> record = b'{"jobid": 7, "@start": "2026-08-20T09:12:44", "state": null, "total_nodes": 4, "nodes": "nid[1-4]"}'
    >>> decode(record, 1787217164000).events[0].evidence.sizes
    {'nodes': 4.0}
    """
    private = options.keep.script or options.keep.comment or options.keep.paths

    def decode_one(value: bytes, received_ms: int, decoded: Decoded) -> None:
        record = decode_json(_RECORD, value)
        unasked = decode_json(_PRIVATE, value) if private else _Private()
        if _never_started(record):
            decoded.ignore("never-started")
            return
        evidence = _evidence(record, unasked, options)
        system, job_id = options.system_of(identity_text(record.cluster, "cluster")), str(record.jobid)
        ended = record.end is not None or record.elapsed is not None or record.exit_code is not None
        event: JobStarted | JobCompleted
        if record.state is None or not ended:
            event = started_job(system, job_id, _start(record), evidence, received_ms, options)
        else:
            state, failed_host = known_state(record.state), identity_text(record.failed_node, "failed node")
            times, code = _times(record), exit_code(record.exit_code)
            event = completed_job(system, job_id, times, state, evidence, received_ms, options, code, failed_host)
        decoded.events.append(event)

    return whole(decode_one, options)


def _start(record: _Record) -> int:
    start_ms = _time(record.start)
    if start_ms is None:
        raise invalid("missing-field", "The record of a start has no @start.")
    return start_ms


def _never_started(record: _Record) -> bool:
    """Return whether a job was cancelled before its planned start.

    Slurm records the planned start as the start of such a job, so that its elapsed time is negative.
    """
    placed = record.total_nodes or (record.nodes or "") not in NO_HOSTS
    start, end = record.start or "", record.end or ""
    planned = end not in NO_TIME and (start in NO_TIME or (start > end and len(start) == len(end)))
    return record.state not in (None, SUCCESS) and not placed and planned and (record.elapsed or -1) < 0


def _times(record: _Record) -> Times:
    start_ms, end_ms, elapsed_s = _time(record.start), _time(record.end), record.elapsed
    if elapsed_s is not None and not 0 <= elapsed_s <= SECONDS_MAX:
        raise invalid("out-of-range", "The elapsed time is negative or longer than thirty years.")
    times = filled_times(start_ms, end_ms, elapsed_s)
    if times is None:
        raise invalid("missing-field", "The record needs two of @start, @end and elapsed.")
    # after a resize, @start is the time of the resize, but `elapsed` still counts from the first start
    return times[0], times[1], min(times[2], (times[1] - times[0]) / 1000)


def _time(text: str | None) -> int | None:
    return None if text is None or text in NO_TIME else parse_time(text)


def exit_code(text: str | None) -> int | None:
    """Return the exit code in ``code:signal``; for a run ended by a signal, return 128 plus the signal as shells do."""
    code, _, signal = (text or "").partition(":")
    if not (code.isascii() and code.isdigit() and len(code) < 10):
        return None
    if code == "0" and signal.isascii() and signal.isdigit() and len(signal) < 4:
        return 128 + int(signal) if int(signal) else 0
    return int(code)


def _evidence(record: _Record, unasked: _Private, options: DecodeOptions) -> Evidence:
    limit_s = record.time_limit
    return Evidence(
        sizes=_sizes(record),
        job_name=free_text(record.job_name),
        user=free_text(record.username),
        account=free_text(record.account),
        partition=one_partition(record.partition),
        qos=free_text(record.qos),
        reservation=free_text(record.reservation_name),
        container=free_text(record.container, PATH_MAX),
        work_dir=free_text(unasked.work_dir, PATH_MAX) if options.keep.paths else None,
        script=(unasked.script or "")[:SCRIPT_MAX] or None if options.keep.script else None,
        comment=free_text(unasked.comment, PATH_MAX) if options.keep.comment else None,
        hosts=host_list(record.nodes),
        time_limit_s=float(limit_s) if limit_s is not None and 0 < limit_s <= SECONDS_MAX else None,
        submit_ms=_time(record.submit),
        array_job_id=None if _number(record.array_job_id) is None else str(record.array_job_id),
        attributes=present(
            {
                "array_task_id": _number(record.array_task_id),
                "ntasks_per_node": _number(record.ntasks_per_node),
                "cpus_per_task": _number(record.cpus_per_task),
                PART_OF: _number(record.het_job_id or record.pack_job_id) or None,
                "features": free_text(record.features),
                "wc_key": free_text(record.wc_key),
            }
        ),
    )


def _sizes(record: _Record) -> dict[str, float]:
    # prefer the readable form, because GPU ids in the raw form differ between sites
    if record.tres_alloc is None:
        allocated = parse_tres(record.tres_alloc_raw)
    # skip resources that are also in other fields of the record, because parsing them is the slowest step of most records
    else:
        allocated = parse_tres(record.tres_alloc, GPU if record.total_nodes and record.total_cpus else "")
    return sizes_of(
        {
            "nodes": record.total_nodes or allocated.get("node"),
            "cores": record.total_cpus or allocated.get("cpu"),
            "processes": record.ntasks,
            "gpus": gpus(allocated),
        }
    )


def _number(value: int | None) -> int | None:
    # in Slurm, 2^32 - 2 and 2^64 - 2 mean "no value", and 2^32 - 1 and 2^64 - 1 "infinite"
    return value if value is not None and 0 <= value < _NO_VALUE else None


def one_partition(text: str | None) -> str | None:
    """Return the partition of a job; None for a list, because Slurm before 24.11 lists all partitions that the job requested."""
    return None if text and "," in text else free_text(text)
