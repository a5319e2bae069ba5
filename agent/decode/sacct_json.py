"""Jobs in JSON from `sacct --json`, `squeue --json`, `scontrol show jobs --json` and slurmrestd: an object with an array `jobs`.

Versions of Slurm differ: a number is plain or an object with `set`, `infinite` and `number`; a state is a text or a
list; jobs from the controller and jobs from accounting have different keys. Times are seconds since the epoch.
"""

from collections.abc import Mapping
from datetime import UTC
from typing import Any, Final

import msgspec

from agent.decode.message import DecodeOptions, invalid, read_json, refusals, refuse_bomb, whole
from agent.decode.sacct import UNFINISHED, add_row
from agent.decode.table import Row
from processors.contracts.events import Decode, Decoded

NO_NUMBER: Final = 2**32 - 3  # Slurm uses numbers from here on for "infinite" and "not set"


_KEYS: Final = (
    "job_id cluster name user user_name account partition qos wckey reservation resv_name container "
    "constraints features comment working_directory current_working_directory nodes allocation_nodes "
    "node_count cpus tasks tres tres_alloc_str state job_state time start_time end_time submit_time "
    "time_limit exit_code failed_node het het_job_id het_job_offset array array_job_id array_task_id"
)
# fields of any type; job steps, which make up most of a dump, are not decoded
_Job: Any = msgspec.defstruct("_Job", [(key, Any, None) for key in _KEYS.split()], gc=False)


class _Dump(msgspec.Struct):
    jobs: list[msgspec.Raw] | None = None


_WORDS: Final = {
    **{column: (column,) for column in ("cluster", "account", "partition", "qos", "container")},
    "jobname": ("name",),
    "user": ("user", "user_name"),
    "reservation": ("reservation", "resv_name"),
    "constraints": ("constraints", "features"),
    "workdir": ("working_directory", "current_working_directory"),
    "failednode": ("failed_node",),
    "nodelist": ("nodes",),
}
"""Table columns, each with the job keys that hold its text; the first non-empty text counts."""


_JOB: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_Job)
_DUMP = msgspec.json.Decoder(_Dump)


def sacct_json_decoder(options: DecodeOptions) -> Decode:
    """Return the decoder of job dumps, or of one job cut from a dump: finished jobs become events, unfinished jobs are counted.

    >>> job = b'{"job_id": 8, "name": "a", "state": {"current": ["FAILED"]}, "time": {"start": 1795168800, "elapsed": 60}}'
    >>> sacct_json_decoder(DecodeOptions(default_system="exa"))(b'{"jobs": [' + job + b"]}", 1795170700000).events[0].run_time_s
    60.0
    """

    def decode_one(value: bytes, received_ms: int, decoded: Decoded) -> None:
        def add_job(job: bytes | msgspec.Raw) -> None:
            add_row(_row(read_json(_JOB, job)), UTC, received_ms, options, decoded)

        refuse_bomb(value, options)
        jobs = read_json(_DUMP, value).jobs
        if jobs is None:
            add_job(value)
        else:
            decoded.rejects += refusals(jobs, add_job, "jobs[{}]")

    return whole(decode_one, options)


def _row(job: Any) -> Row:
    """Return the job as a row of a `sacct` table."""
    job_id = _number(job.job_id)
    if job_id is None:
        raise invalid("missing-field", "The job has no job_id.")
    time = _object(job.time)
    start = _text_of(time.get("start"), job.start_time)
    return {
        "jobidraw": str(job_id),
        "jobid": _job_id(job) or str(job_id),
        **{column: _first_word(job, keys) for column, keys in _WORDS.items()},
        "wckey": _word(job.wckey, "wckey"),
        "comment": _word(job.comment, "job"),
        "state": _state(_object(job.state).get("current") or job.state or job.job_state),
        "start": start,
        "end": _text_of(time.get("end"), job.end_time),
        "submit": _text_of(time.get("submission"), job.submit_time),
        "elapsedraw": _text_of(time.get("elapsed")) or ("" if start else "0"),
        "timelimitraw": _text_of(time.get("limit"), job.time_limit),
        "nnodes": _text_of(job.allocation_nodes, job.node_count),
        "ncpus": _text_of(job.cpus),
        "ntasks": _text_of(job.tasks),
        "alloctres": _resources(job),
        "exitcode": _exit_code(job.exit_code),
    }


def _job_id(job: Any) -> str | None:
    """Return the id of a part of a heterogeneous job or of a task of a job array; None for any other job."""
    het, array = _object(job.het), _object(job.array)
    if part_of := _first(het.get("job_id"), job.het_job_id):
        return f"{part_of}+{_first(het.get('job_offset'), job.het_job_offset) or 0}"
    task_of, task = _first(array.get("job_id"), job.array_job_id), _first(array.get("task_id"), job.array_task_id)
    return f"{task_of}_{task}" if task_of and task is not None else None


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: object) -> int | None:
    if isinstance(value, dict):
        value = None if value.get("infinite") or value.get("set") is False else value.get("number")
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not -NO_NUMBER < value < NO_NUMBER:
        return None
    return int(value)


def _first(*values: object) -> int | None:
    return next((number for number in map(_number, values) if number is not None), None)


def _text_of(*values: object) -> str:
    """Return the first number other than 0 as text, or an empty text; Slurm writes 0 for an unknown number."""
    number = next((number for number in map(_number, values) if number), None)
    return "" if number is None else str(number)


def _first_word(job: Any, keys: tuple[str, ...]) -> str:
    return next(filter(None, (_word(getattr(job, key)) for key in keys)), "")


def _word(value: object, key: str = "name") -> str:
    value = value.get(key) if isinstance(value, dict) else value
    return value if isinstance(value, str) else ""


def _state(value: object) -> str:
    """Return the state of a job. If Slurm lists several states and one of them is a state of unfinished jobs, return that one."""
    states = [state for state in (value if isinstance(value, list) else [value]) if isinstance(state, str)]
    return next((state for state in states if state.upper() in UNFINISHED), states[0] if states else "")


def _resources(job: Any) -> str:
    allocated = _object(job.tres).get("allocated")
    if not isinstance(allocated, list):
        return _word(job.tres_alloc_str)
    amounts = []
    for item in map(_object, allocated):
        count = _number(item.get("count"))
        if count is not None and count > 0:
            name = "/".join(filter(None, (_word(item.get("type")), _word(item.get("name")))))
            amounts.append(f"{name}={count}")
    return ",".join(amounts)


def _exit_code(value: object) -> str:
    parts = _object(value)
    signal = _object(parts.get("signal"))
    code = _number(parts.get("return_code", value))
    return "" if code is None else f"{code}:{_first(signal.get('id'), signal.get('signal_id')) or 0}"
