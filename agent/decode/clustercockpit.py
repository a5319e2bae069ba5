"""Jobs of ClusterCockpit: the metadata of its job archive, and the events in its messages."""

import re
from typing import Annotated, Final, Literal

import msgspec

from agent.decode.fields import (
    COUNT_MAX,
    HOSTS_MAX,
    SCRIPT_MAX,
    SECONDS_MAX,
    Count,
    Seconds,
    check_bounds,
    free_text,
    identity_text,
    run_identity,
    sizes_of,
)
from agent.decode.message import JSON_ERRORS, DecodeOptions, invalid, json_error, shown
from agent.decode.slurm import one_partition
from processors.contracts.events import STATES, SUCCESS, Attribute, Decoded, Evidence, JobCompleted, JobStarted
from processors.contracts.names import LATEST_MS

FORMAT: Final = "clustercockpit"
UNFINISHED: Final = frozenset({"running", "pending", "suspended"})
_STATES: Final = {"STOPPED": "CANCELLED", "CANCELED": "CANCELLED"}  # by hand, whoever did
_EXCLUSIVE: Final = {"none": True, "single_user": False, "multi_user": False}
_ESCAPED: Final = re.compile(rb"\\([\"\\])")
_EVENT: Final = re.compile(
    rb"(?:(start|stop)_job|job(?:,(?!function=)(?:[^\\, ]|\\.)++)*+,function=(start|stop)_job)(?:,(?:[^ \\]|\\.)*+)? "
    rb'event=(?:"((?:[^"\\]|\\.)*+)"|(\{.*\}))(?: -?[0-9]{1,20})?',
    re.DOTALL,
)

Edge = Literal["start", "stop"]
_Moment = Annotated[float, msgspec.Meta(ge=0, le=LATEST_MS / 1000)]


class _Host(msgspec.Struct):
    hostname: str


class _Notes(msgspec.Struct, rename="camel"):
    job_name: str | None = None
    job_script: str | None = None


class Job(msgspec.Struct, rename="camel"):
    """The fields of a ClusterCockpit job that the agent uses; times in seconds since the epoch.

    >>> decoded_job(b'{"jobId": 69, "cluster": "ccfront", "startTime": 1738842000}').start_ms
    1738842000000
    """

    job_id: int | str
    cluster: str | None = None
    sub_cluster: str | None = None
    user: str | None = None
    project: str | None = None
    partition: str | None = None
    array_job_id: int | None = None
    num_nodes: Count | None = None
    num_hwthreads: Seconds | None = None  # 0 where it is not known
    num_acc: Seconds | None = None
    exclusive: int | None = None
    shared: str | None = None
    walltime: float | None = None
    job_state: str | None = None
    resources: list[_Host] = []
    start_time: _Moment | None = None
    stop_time: _Moment | None = None
    duration: Seconds | None = None
    meta_data: _Notes | None = None

    @property
    def start_ms(self) -> int:
        """Return the start of the job. Raise InvalidInputError (``missing-field``) without one, because it identifies the run."""
        if self.start_time is None:
            raise invalid("missing-field", "The job has no startTime, which identifies the run.")
        return round(self.start_time * 1000)

    @property
    def end_ms(self) -> int:
        """Return the end of the job. Raise InvalidInputError if it is missing or before the start."""
        if self.duration:
            return self.start_ms + round(self.duration * 1000)
        if self.stop_time is None and self.duration is None:
            raise invalid("missing-field", "The ended job has neither duration nor stopTime.")
        end_ms = self.start_ms if self.stop_time is None else round(self.stop_time * 1000)
        if not self.start_ms <= end_ms <= self.start_ms + SECONDS_MAX * 1000:
            raise invalid("out-of-range", "The end is before the start, or thirty years later.")
        return end_ms

    @property
    def unfinished(self) -> bool:
        return self.job_state in UNFINISHED


_JOB: Final = msgspec.json.Decoder(Job)


def decoded_job(value: bytes) -> Job:
    """Decode a job from JSON. Raise InvalidInputError if the JSON is no job.

    >>> decoded_job(b'{"jobId": 69, "duration": "long"}')
    Traceback (most recent call last):
    processors.contracts.errors.InvalidInputError: Expected `float | null`, got `str` - at `$.duration`.
    """
    try:
        return _JOB.decode(value)
    except JSON_ERRORS as error:
        raise json_error(error) from None


def job_event(line: bytes) -> tuple[Edge, Job] | None:
    r"""Return whether a job starts or stops, and the job, from a line of line protocol; None for other lines.

    The JSON document of the event may be a quoted string, as the protocol requires, or unquoted. Two spellings of the event exist.

    >>> job_event(b'start_job event="{\\"jobId\\": 69}" 1740027951')[1].job_id
    69
    >>> job_event(b'job,hostname=m2,function=stop_job event={"jobId": 69} 1740027951')[0]
    'stop'
    """
    found = _EVENT.fullmatch(line)
    if found is None:
        return None
    verb, function, text, document = found.groups()
    edge: Edge = "start" if b"start" in (verb, function) else "stop"
    return edge, decoded_job(document if text is None else _ESCAPED.sub(rb"\1", text))


def add_event(edge: Edge, job: Job, received_ms: int, options: DecodeOptions, decoded: Decoded) -> None:
    """Add the start or end of a job to `decoded`. Raise InvalidInputError if the event does not identify its run.

    >>> decoded = Decoded()
    >>> add_event("start", Job(69, "ccfront", start_time=1738842000), 0, DecodeOptions(), decoded)
    >>> decoded.events[0].run_id
    'ccfront/69@1738842000000'
    """
    if edge == "start":
        decoded.events.append(started(job, received_ms, options))
    else:
        decoded.events.append(completed(job, received_ms, options))


def started(job: Job, received_ms: int, options: DecodeOptions) -> JobStarted:
    """Return the start event of a job. Raise InvalidInputError if the start or the cluster is missing.

    >>> started(Job(69, "ccfront", start_time=1738842000, num_nodes=4), 0, DecodeOptions()).evidence.sizes
    {'nodes': 4.0}
    """
    system, job_id, start_ms = options.system_of(identity_text(job.cluster, "cluster")), _job_id(job), job.start_ms
    check_bounds(start_ms, start_ms, received_ms, options)
    run_id = run_identity(system, job_id, start_ms)
    return JobStarted(system, job_id=job_id, run_id=run_id, start_ms=start_ms, evidence=_evidence(job, options))


def completed(job: Job, received_ms: int, options: DecodeOptions) -> JobCompleted:
    """Return the end event of a job. Raise InvalidInputError if start, end or cluster is missing, or the state is unknown.

    >>> job = Job(69, "ccfront", start_time=1738842000, stop_time=1738842306, job_state="completed")
    >>> completed(job, 0, DecodeOptions()).run_time_s
    306.0
    """
    system, job_id = options.system_of(identity_text(job.cluster, "cluster")), _job_id(job)
    start_ms, end_ms = job.start_ms, job.end_ms
    check_bounds(start_ms, end_ms, received_ms, options)
    state = _state(job)
    if state == SUCCESS and end_ms == start_ms:
        raise invalid("out-of-range", "A completed run takes more than 0 s.")
    return JobCompleted(
        system,
        job_id=job_id,
        run_id=run_identity(system, job_id, start_ms),
        start_ms=start_ms,
        end_ms=end_ms,
        run_time_s=(end_ms - start_ms) / 1000,
        state=state,
        evidence=_evidence(job, options),
    )


def _job_id(job: Job) -> str:
    job_id = identity_text(str(job.job_id), "job id")
    if job_id is None:
        raise invalid("missing-field", "The job has no jobId.")
    return job_id


def _state(job: Job) -> str:
    reported = (job.job_state or "").upper()
    state = _STATES.get(reported, reported)
    if state not in STATES:
        raise invalid("state", f"The state {shown(reported)} is not a final state of ClusterCockpit.")
    return state


def _evidence(job: Job, options: DecodeOptions) -> Evidence:
    notes = job.meta_data or _Notes()
    script = notes.job_script if options.keep.script else None
    attributes: dict[str, Attribute] = {}
    sub_cluster = identity_text(job.sub_cluster, "subCluster")
    if sub_cluster is not None:
        attributes["sub_cluster"] = sub_cluster
    return Evidence(
        sizes=_sizes(job),
        job_name=free_text(notes.job_name),
        user=free_text(job.user),
        account=free_text(job.project),
        partition=one_partition(job.partition),
        script=None if not script else script[:SCRIPT_MAX],
        hosts=_hosts(job),
        time_limit_s=_limit_s(job),
        exclusive=_EXCLUSIVE.get(job.shared or "") if job.exclusive is None else job.exclusive == 1,
        array_job_id=str(job.array_job_id) if job.array_job_id and job.array_job_id <= COUNT_MAX else None,
        attributes=attributes,
    )


def _sizes(job: Job) -> dict[str, float]:
    return sizes_of({"nodes": job.num_nodes or len(job.resources), "threads": job.num_hwthreads, "gpus": job.num_acc})


def _hosts(job: Job) -> tuple[str, ...]:
    names = tuple(host.hostname for host in job.resources if host.hostname)
    if sum(map(len, names)) > HOSTS_MAX:
        raise invalid("hosts", f"The hosts of the job have more than {HOSTS_MAX} characters.")
    for name in names:
        identity_text(name, "host")
    return names


def _limit_s(job: Job) -> float | None:
    """Return the wall time limit if it is plausible in seconds: some sites write hours."""
    limit_s = job.walltime
    if limit_s is None or not 0 < limit_s <= SECONDS_MAX or limit_s < (job.duration or 0.0):
        return None
    return float(limit_s)
