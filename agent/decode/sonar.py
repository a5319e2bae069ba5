"""Messages of Sonar (NordicHPC): finished Slurm jobs, and samples of nodes and of the programs that jobs run on them."""

from contextlib import suppress
from typing import Annotated, Final

import msgspec

from agent.decode.fields import (
    COUNT_MAX,
    SECONDS_MAX,
    TEXT_MAX,
    ExitCode,
    HostList,
    JobNumber,
    Text,
    identity_text,
    parse_time,
    refuse_control,
)
from agent.decode.message import (
    JSON_ERRORS,
    DecodeOptions,
    TelemetryOptions,
    decode_json,
    invalid,
    read_json,
    refusals,
    remember,
    shown,
    whole,
)
from agent.decode.sacct import add_row
from agent.decode.table import Row
from agent.decode.telemetry.columns import Columns, in_slices
from agent.decode.telemetry.metric import LOADS, Metric, kibibytes, share_by_load
from agent.decode.telemetry.plans import Plan, Plans, take
from processors.contracts import nodes as hostlist
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import Decode, Decoded, Evidence, Identity
from processors.contracts.telemetry import CPU_AVAILABLE, LOAD, POWER_W, DecodeSamples

JOB_TYPES: Final = ("job", "jobs")  # Sonar's source code writes "job", Sonar's reader expects "jobs"
_FIRST_LIMIT: Final = 2  # Sonar writes 0 for "not set", 1 for "unlimited", and adds 2 to every real limit


class _Accounting(msgspec.Struct):
    tres: str | None = msgspec.field(name="AllocTRES", default=None)
    elapsed: int | None = msgspec.field(name="ElapsedRaw", default=None)


class _SlurmJob(msgspec.Struct, kw_only=True):
    job_id: JobNumber
    job_state: str
    job_step: str = ""
    job_name: str | None = None
    user_name: str | None = None
    account: str | None = None
    partition: str | None = None
    nodes: list[HostList] = []
    start_time: str | None = None
    end_time: str | None = None
    submit_time: str | None = None
    time_limit: int = 0
    exit_code: ExitCode | None = None
    het_job_id: int | None = None
    array_job_id: int | None = None
    array_task_id: int | None = None
    requested_cpus: int = 0
    requested_node_count: int = 0
    sacct: _Accounting | None = None


class _Jobs(msgspec.Struct):
    cluster: str | None = None
    slurm_jobs: list[msgspec.Raw] = []


class _JobData(msgspec.Struct):
    type: str
    attributes: _Jobs


class _JobEnvelope(msgspec.Struct):
    data: _JobData


_JOB_ENVELOPE = msgspec.json.Decoder(_JobEnvelope)
_JOB = msgspec.json.Decoder(_SlurmJob)


def sonar_decoder(options: DecodeOptions) -> Decode:
    """Return the decoder of Sonar's job messages: finished jobs become events, job steps and unfinished jobs are counted.

    >>> decode = sonar_decoder(DecodeOptions())
    >>> job = b'{"job_id": 8, "job_state": "FAILED", "start_time": "2026-08-20T09:00:00Z", "end_time": "2026-08-20T10:00:00Z"}'
    >>> message = b'{"data": {"type": "job", "attributes": {"cluster": "saga", "slurm_jobs": [' + job + b"]}}}"
    >>> decode(message, 1795170700000).events[0].run_time_s
    3600.0
    """

    def decode_one(value: bytes, received_ms: int, decoded: Decoded) -> None:
        data = decode_json(_JOB_ENVELOPE, value).data
        if data.type not in JOB_TYPES:
            raise invalid(
                "unsupported-type", f"Messages of Sonar of type {shown(data.type)} are not read as job events."
            )
        jobs, cluster = data.attributes.slurm_jobs, data.attributes.cluster or ""
        options.check_count(len(jobs), "jobs")

        def add_job(raw: msgspec.Raw) -> None:
            add_row(_row(read_json(_JOB, raw), cluster), None, received_ms, options, decoded)

        decoded.rejects += refusals(jobs, add_job, "slurm_jobs[{}]")

    return whole(decode_one, options)


_TEXTS: Final = {
    "jobname": "job_name", "user": "user_name", "account": "account", "partition": "partition", "state": "job_state",
    "start": "start_time", "end": "end_time", "submit": "submit_time",
}  # fmt: skip
"""Table columns, each with the job field that holds its text."""


def _row(job: _SlurmJob, cluster: str) -> Row:
    """Return the job as a row of a `sacct` table."""
    hosts, limit_s, accounting = ",".join(job.nodes), job.time_limit - _FIRST_LIMIT, job.sacct or _Accounting()
    refuse_control(hosts, "host list")
    job_id = str(job.job_id)
    if job.job_step:
        job_id = f"{job_id}.{job.job_step}"
    elif job.het_job_id and 0 < job.het_job_id <= COUNT_MAX:
        job_id = f"{job.het_job_id}+"
    elif job.array_job_id and job.array_job_id <= COUNT_MAX:
        job_id = f"{job.array_job_id}_{job_id}"
    return {
        "jobidraw": str(job.job_id),
        "jobid": job_id,
        "arraytaskid": _count(job.array_task_id),
        "cluster": cluster,
        **{column: getattr(job, field) or "" for column, field in _TEXTS.items()},
        "elapsedraw": _elapsed(job, accounting.elapsed),
        "timelimit": f"0:0:{limit_s}" if 0 < limit_s <= SECONDS_MAX else "",
        "nodelist": hosts,
        "alloctres": accounting.tres or "",
        "reqnodes": str(hostlist.count(hosts)) if hosts else _count(job.requested_node_count),
        "reqcpus": _count(job.requested_cpus),
        "exitcode": _count(job.exit_code),
    }


def _count(number: int | None) -> str:
    return str(number) if number is not None and 0 <= number <= COUNT_MAX else ""


def _elapsed(job: _SlurmJob, elapsed_s: int | None) -> str:
    """Return the elapsed time in seconds as a text; empty if it is unknown or the job has no end, 0 if the job was never placed."""
    if not job.end_time:
        return ""
    if not job.start_time and not elapsed_s:
        return "" if job.nodes else "0"  # the job was cancelled while it was pending
    if elapsed_s is not None and not 0 <= elapsed_s <= SECONDS_MAX:
        raise invalid("out-of-range", "The elapsed time is negative or longer than thirty years.")
    return "" if elapsed_s is None else str(elapsed_s)


SONAR: Final = (
    *(Metric("sonar", load, load) for load in LOADS),
    Metric("sonar", "runnable_entities", "runnable"),
    Metric("sonar", "used_memory", "memory_used", kibibytes),
)
"""Metrics from the fields of a node in Sonar's samples; `load1` also gives cpu_available."""

MEASUREMENT: Final = "sonar"
SOURCE: Final = "sonar"
PROGRAMS_MAX: Final = 50_000  # maximum number of cached job programs; each program is reported once
GPUS_MAX: Final = 64

_Amount = Annotated[float, msgspec.Meta(ge=0)]


class _Gpu(msgspec.Struct, gc=False):
    index: Annotated[int, msgspec.Meta(ge=0, lt=GPUS_MAX)] = 0
    power: _Amount = 0.0


class _System(msgspec.Struct, gc=False):
    """Load averages and usage of a node. Sonar omits zeros; a nonzero `existing_entities` shows that load averages were sent."""

    load1: _Amount = 0.0
    load5: _Amount = 0.0
    load15: _Amount = 0.0
    runnable_entities: _Amount = 0.0
    existing_entities: _Amount = 0.0
    used_memory: _Amount = 0.0
    cpus: list[_Amount] = []
    gpus: list[_Gpu] = []


class _Process(msgspec.Struct, gc=False):
    cmd: str = ""
    cpu_time: _Amount = 0.0


class _Job(msgspec.Struct, gc=False):
    job: JobNumber = 0
    epoch: int = 0
    processes: list[_Process] = []


class _Sample(msgspec.Struct, gc=False):
    time: str
    node: Text
    cluster: Text = ""
    system: _System | None = None
    jobs: list[_Job] = []


class _Data(msgspec.Struct, gc=False):
    type: str
    attributes: msgspec.Raw = msgspec.Raw(b"null")


class _Envelope(msgspec.Struct, gc=False):
    data: _Data | None = None
    errors: msgspec.Raw = msgspec.Raw()


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_SAMPLE = msgspec.json.Decoder(_Sample)


def sonar_samples_decoder(options: TelemetryOptions) -> DecodeSamples:
    """Return the decoder of Sonar's messages: samples of nodes, the program of each job on them, and finished jobs.

    The program is the process with the most processor time; each program of a job is reported once. A load average also gives the
    available share of a processor. The number of processors comes from Sonar, the file of nodes, or the options.

    >>> from processors.contracts.telemetry import SeriesIndex
    >>> sample = b'"time": "2026-11-20T10:00:00Z", "cluster": "saga", "node": "c1", "system": {"load1": 3, "existing_entities": 9}'
    >>> message = b'{"meta": {}, "data": {"type": "sample", "attributes": {' + sample + b"}}}"
    >>> index = SeriesIndex(9)
    >>> batch = sonar_samples_decoder(TelemetryOptions())([message], [1795168800000], index)
    >>> [series.resource for series in index], batch.samples.value.tolist()
    (['load1', 'cpu_available>load'], [3.0, 0.25])
    """
    return in_slices(_Decoder(options).decode, options)


class _Decoder:
    def __init__(self, options: TelemetryOptions) -> None:
        self._options = options
        self._jobs = sonar_decoder(options.decode)
        self._plans = Plans(SONAR, options)
        self._reported: dict[tuple[str, int, str], None] = {}

    def decode(self, value: bytes, message: int, columns: Columns) -> None:
        data = _data(value)
        if data is None or data.type in JOB_TYPES:
            columns.other(message, self._jobs(value, columns.received_ms[message]))
        elif data.type != "sample":
            columns.ignore(data.type if data.type in ("sysinfo", "cluster") else "event")
        else:
            self._take(decode_json(_SAMPLE, data.attributes), message, columns)

    def _take(self, sample: _Sample, message: int, columns: Columns) -> None:
        self._options.decode.check_count(len(sample.jobs), "jobs")
        system = self._options.decode.system_of(identity_text(sample.cluster, "cluster"))
        if sample.system is not None:
            self._options.decode.check_count(len(sample.system.gpus), "GPUs")
            self._take_system(sample, sample.system, system, message, columns)
        programs = Decoded(events=[program for job in sample.jobs if (program := self._program(job, system))])
        if programs.events:
            columns.other(message, programs)

    def _take_system(self, sample: _Sample, reported: _System, system: str, message: int, columns: Columns) -> None:
        fields: dict[str, float] = {}
        if reported.existing_entities:
            fields = {name: getattr(reported, name) for name in (*LOADS, "runnable_entities")}
        if reported.used_memory:
            fields["used_memory"] = reported.used_memory
        fields |= {f"gpu:{gpu.index}": gpu.power for gpu in reported.gpus}
        gpus, cpus = tuple(gpu.index for gpu in reported.gpus), len(reported.cpus)
        key = system, sample.node, gpus, cpus
        plan = self._plans.of(columns.index).get(key) or self._plan(*key)
        take(fields, plan, parse_time(sample.time), message, columns)

    def _plan(self, system: str, node: str, gpus: tuple[int, ...], reported_cpus: int) -> Plan:
        listed = self._options.nodes.node(node, system)
        cpus = reported_cpus or (listed and listed.cores) or self._options.taken.host_cpus
        powers = [Metric(MEASUREMENT, f"gpu:{index}", POWER_W, peer=f"gpu:{index}") for index in gpus]
        also = (Metric(MEASUREMENT, "load1", CPU_AVAILABLE, share_by_load(cpus), peer=LOAD), *powers)
        key = system, node, gpus, reported_cpus
        return self._plans.add(key, MEASUREMENT, node, {}, also=also, system=system)

    def _program(self, job: _Job, system: str) -> Identity | None:
        """Return the program of a Slurm job unless it was reported before; processes with an `epoch` belong to no Slurm job."""
        program = max(job.processes, key=lambda process: process.cpu_time, default=None)
        if job.epoch or not job.job or program is None or not program.cpu_time:
            return None
        key = (system, job.job, program.cmd[:TEXT_MAX])
        if key in self._reported:
            return None
        remember(self._reported, key, None, PROGRAMS_MAX)
        with suppress(InvalidInputError):
            if executable := identity_text(program.cmd, "command"):
                evidence = Evidence(executable=executable)
                return Identity(system=system, job_id=str(job.job), source=SOURCE, evidence=evidence)
        return None


def _data(value: bytes) -> _Data | None:
    """Return the data of an envelope; None if the message is invalid, which the decoder of jobs then reports."""
    try:
        envelope = _ENVELOPE.decode(value)
    except JSON_ERRORS:
        return None
    if envelope.data is None and bytes(envelope.errors):
        return _Data("errors")
    return envelope.data
