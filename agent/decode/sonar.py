"""Job records of Sonar (NordicHPC), which polls Slurm's accounting: an envelope with many jobs and their steps."""

from typing import Annotated, Final

import msgspec

from agent.decode.fields import (
    COUNT_MAX,
    HOSTS_MAX,
    SECONDS_MAX,
    check_bounds,
    free_text,
    gpus,
    identity_text,
    parse_time,
    parse_tres,
    refuse_control,
    run_identity,
    sizes_of,
)
from agent.decode.message import JSON_ERRORS, DecodeOne, DecodeOptions, invalid, json_error, read_json, shown, whole
from agent.decode.sacct import UNFINISHED, final_state
from agent.decode.slurm import one_partition
from processors.contracts import nodes as hostlist
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import PART_OF, STATES, Attribute, Decode, Decoded, Evidence, JobCompleted

JOB_TYPES: Final = ("job", "jobs")  # what its source writes, and what its own reader expects
_FIRST_LIMIT: Final = 2  # Sonar writes 0 for "not set", 1 for "unlimited" and adds 2 to every real limit
_HostList = Annotated[str, msgspec.Meta(max_length=HOSTS_MAX)]


class _Accounting(msgspec.Struct):
    tres: str | None = msgspec.field(name="AllocTRES", default=None)
    elapsed: int | None = msgspec.field(name="ElapsedRaw", default=None)


class _Job(msgspec.Struct, kw_only=True):
    job_id: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    job_state: str
    job_step: str = ""
    job_name: str | None = None
    user_name: str | None = None
    account: str | None = None
    partition: str | None = None
    nodes: list[_HostList] = []
    start_time: str | None = None
    end_time: str | None = None
    submit_time: str | None = None
    time_limit: int = 0
    exit_code: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31)] | None = None
    het_job_id: int | None = None
    array_job_id: int | None = None
    array_task_id: int | None = None
    requested_cpus: int = 0
    requested_node_count: int = 0
    sacct: _Accounting | None = None


class _Attributes(msgspec.Struct):
    cluster: str | None = None
    slurm_jobs: list[msgspec.Raw] = []


class _Data(msgspec.Struct):
    type: str
    attributes: _Attributes


class _Envelope(msgspec.Struct):
    data: _Data


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_JOB = msgspec.json.Decoder(_Job)


def sonar_decoder(options: DecodeOptions) -> Decode:
    """Return the decoder of Sonar's job messages: finished jobs become events, steps and unfinished jobs are counted.

    >>> decode = sonar_decoder(DecodeOptions())
    >>> job = b'{"job_id": 8, "job_state": "FAILED", "start_time": "2026-08-20T09:00:00Z", "end_time": "2026-08-20T10:00:00Z"}'
    >>> message = b'{"data": {"type": "job", "attributes": {"cluster": "saga", "slurm_jobs": [' + job + b"]}}}"
    >>> decode(message, 1795170700000).events[0].run_time_s
    3600.0
    """
    return whole(sonar_object(options), options)


def sonar_object(options: DecodeOptions) -> DecodeOne:
    """Return the decoder of one envelope; a bad job in it does not affect the others.

    >>> decoded = Decoded()
    >>> sonar_object(DecodeOptions())(b'{"data": {"type": "job", "attributes": {"slurm_jobs": [{}]}}}', 0, decoded)
    >>> decoded.rejects[0].reason
    'missing-field'
    """

    def decode_one(value: bytes, received_ms: int, decoded: Decoded) -> None:
        try:
            data = _ENVELOPE.decode(value).data
        except JSON_ERRORS as error:
            raise json_error(error) from None
        if data.type not in JOB_TYPES:
            raise invalid(
                "unsupported-type", f"Messages of Sonar of type {shown(data.type)} are not read as job events."
            )
        if len(data.attributes.slurm_jobs) > options.elements_max:
            raise invalid("array-bomb", f"The message has more jobs than {options.elements_max}.")
        for number, job in enumerate(data.attributes.slurm_jobs):
            try:
                _add(job, data.attributes.cluster, received_ms, options, decoded)
            except InvalidInputError as error:
                decoded.rejects.append(error.at(f"slurm_jobs[{number}]"))

    return decode_one


def _add(raw: msgspec.Raw, cluster: str | None, received_ms: int, options: DecodeOptions, decoded: Decoded) -> None:
    job = read_json(_JOB, raw)
    state = final_state(job.job_state)
    ignored = "step" if job.job_step else UNFINISHED.get(state)
    if ignored is not None:
        decoded.ignored[ignored] = decoded.ignored.get(ignored, 0) + 1
        return
    if state not in STATES:
        raise invalid("state", f"The state {shown(state)} is not a final state of Slurm.")
    system = options.system_of(identity_text(cluster, "cluster"))
    decoded.events.append(_completed(job, system, state, received_ms, options))


def _completed(job: _Job, system: str, state: str, received_ms: int, options: DecodeOptions) -> JobCompleted:
    start_ms, end_ms, run_time_s = _times(job)
    check_bounds(start_ms, end_ms, received_ms, options)
    return JobCompleted(
        system=system,
        job_id=str(job.job_id),
        run_id=run_identity(system, str(job.job_id), start_ms),
        start_ms=start_ms,
        end_ms=end_ms,
        run_time_s=run_time_s,
        state=state,
        evidence=_evidence(job),
        exit_code=job.exit_code,
    )


def _times(job: _Job) -> tuple[int, int, float]:
    start_ms = parse_time(job.start_time) if job.start_time else None
    end_ms = parse_time(job.end_time) if job.end_time else None
    elapsed_s = job.sacct.elapsed if job.sacct else None
    if end_ms is None or (start_ms is None and not elapsed_s and job.nodes):
        raise invalid("missing-field", "A finished job has no end, or ran and has no start.")
    if start_ms is None:  # cancelled while it was pending
        start_ms = end_ms - (elapsed_s or 0) * 1000
    if elapsed_s is not None and not 0 <= elapsed_s <= SECONDS_MAX:
        raise invalid("out-of-range", "The elapsed time is negative or longer than thirty years.")
    if end_ms < start_ms:
        raise invalid("out-of-range", "The end is before the start.")
    span_s = (end_ms - start_ms) / 1000
    return start_ms, end_ms, span_s if elapsed_s is None else min(float(elapsed_s), span_s)


def _evidence(job: _Job) -> Evidence:
    for hosts in job.nodes:
        refuse_control(hosts, "host list")
    limit_s = job.time_limit - _FIRST_LIMIT
    attributes: dict[str, Attribute] = {}
    if job.array_task_id is not None and 0 <= job.array_task_id <= COUNT_MAX:
        attributes["array_task_id"] = job.array_task_id
    if job.het_job_id and 0 < job.het_job_id <= COUNT_MAX:
        attributes[PART_OF] = job.het_job_id
    return Evidence(
        sizes=_sizes(job),
        job_name=free_text(job.job_name),
        user=free_text(job.user_name),
        account=free_text(job.account),
        partition=one_partition(job.partition),
        hosts=tuple(job.nodes),
        time_limit_s=float(limit_s) if 0 < limit_s <= SECONDS_MAX else None,
        submit_ms=parse_time(job.submit_time) if job.submit_time else None,
        array_job_id=str(job.array_job_id) if job.array_job_id and job.array_job_id <= COUNT_MAX else None,
        attributes=attributes,
    )


def _sizes(job: _Job) -> dict[str, float]:
    allocated = parse_tres(job.sacct.tres if job.sacct else None)
    hosts = sum(hostlist.count(hosts) for hosts in job.nodes)
    return sizes_of(
        {
            "nodes": allocated.get("node") or hosts or job.requested_node_count,
            "cores": allocated.get("cpu") or job.requested_cpus,
            "gpus": gpus(allocated),
        }
    )
