"""Jobs of ClusterCockpit: the metadata of its job archive, and the events in its messages."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Final, NamedTuple

import msgspec

from agent.decode.fields import (
    COUNT_MAX,
    HOSTS_MAX,
    SCRIPT_MAX,
    SECONDS_MAX,
    Count,
    Seconds,
    completed_job,
    free_text,
    identity_text,
    known_state,
    present,
    sizes_of,
    started_job,
)
from agent.decode.message import DecodeOptions, decode_json, invalid
from agent.decode.slurm import one_partition
from agent.decode.telemetry.metric import FIELD, Convert, Metric
from processors.contracts.events import SUCCESS, Evidence, JobCompleted, JobEvent, JobStarted
from processors.contracts.names import LATEST_MS
from processors.contracts.telemetry import COUNTER_LEVEL, COUNTER_RATE, POWER_W

FORMAT: Final = "clustercockpit"
UNFINISHED: Final = frozenset({"running", "pending", "suspended"})
_STATES: Final = {"STOPPED": "CANCELLED", "CANCELED": "CANCELLED"}  # states of jobs that a person stopped
_EXCLUSIVE: Final = {"none": True, "single_user": False, "multi_user": False}
_ESCAPED: Final = re.compile(rb"\\([\"\\])")
_EVENT: Final = re.compile(
    rb"(?:(start|stop)_job|job(?:,(?!function=)(?:[^\\, ]|\\.)++)*+,function=(start|stop)_job)(?:,(?:[^ \\]|\\.)*+)? "
    rb'event=(?:"((?:[^"\\]|\\.)*+)"|(\{.*\}))(?: -?[0-9]{1,20})?',
    re.DOTALL,
)

_Moment = Annotated[float, msgspec.Meta(ge=0, le=LATEST_MS / 1000)]


class _Host(msgspec.Struct):
    hostname: str


class _Notes(msgspec.Struct, rename="camel"):
    job_name: str | None = None
    job_script: str | None = None


class ArchivedJob(msgspec.Struct, rename="camel"):
    """The fields of a ClusterCockpit job that the agent uses; times in seconds since the epoch."""

    job_id: int | str
    cluster: str | None = None
    sub_cluster: str | None = None
    user: str | None = None
    project: str | None = None
    partition: str | None = None
    array_job_id: int | None = None
    num_nodes: Count | None = None
    num_hwthreads: Seconds | None = None  # 0 if unknown
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
        """Return the job's start in ms. Raise InvalidInputError (``missing-field``) if it is missing, because it identifies the run."""
        if self.start_time is None:
            raise invalid("missing-field", "The job has no startTime, which identifies the run.")
        return round(self.start_time * 1000)

    @property
    def end_ms(self) -> int:
        """Return the job's end in ms. Raise InvalidInputError if the end is missing or before the start."""
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


JOB: Final = msgspec.json.Decoder(ArchivedJob)


def job_event(line: bytes, received_ms: int, options: DecodeOptions) -> JobEvent | None:
    """Return the event of a job's start or end from a message in line protocol; None for other lines.

    The JSON document in the line may be a quoted string, as the protocol requires, or unquoted. Both known spellings of the
    event name are accepted. Raise InvalidInputError if the system, job id or start time is missing.
    """
    parts = _EVENT.fullmatch(line)
    if parts is None:
        return None
    verb, function, text, document = parts.groups()
    job = decode_json(JOB, document if text is None else _ESCAPED.sub(rb"\1", text))
    return (started if b"start" in (verb, function) else completed)(job, received_ms, options)


def started(job: ArchivedJob, received_ms: int, options: DecodeOptions) -> JobStarted:
    """Return the start event of a job. Raise InvalidInputError if the start or the cluster is missing."""
    return started_job(*_run(job, options), job.start_ms, _evidence(job, options), received_ms, options)


def completed(job: ArchivedJob, received_ms: int, options: DecodeOptions) -> JobCompleted:
    """Return the end event of a job. Raise InvalidInputError if start, end or cluster is missing, or the state is unknown."""
    state = (job.job_state or "").upper()
    times = job.start_ms, job.end_ms, (job.end_ms - job.start_ms) / 1000
    state = known_state(_STATES.get(state, state))
    if state == SUCCESS and times[2] == 0:
        raise invalid("out-of-range", "A completed run takes more than 0 s.")
    return completed_job(*_run(job, options), times, state, _evidence(job, options), received_ms, options)


def _run(job: ArchivedJob, options: DecodeOptions) -> tuple[str, str]:
    """Return the system and the run id of a job."""
    system, job_id = options.system_of(identity_text(job.cluster, "cluster")), identity_text(str(job.job_id), "job id")
    if job_id is None:
        raise invalid("missing-field", "The job has no jobId.")
    return system, job_id


def _evidence(job: ArchivedJob, options: DecodeOptions) -> Evidence:
    notes = job.meta_data or _Notes()
    script = notes.job_script if options.keep.script else None
    gpus, nodes = job.num_acc, job.num_nodes or len(job.resources)
    return Evidence(
        sizes=sizes_of({"nodes": nodes, "threads": job.num_hwthreads, "gpus": gpus}),
        job_name=free_text(notes.job_name),
        user=free_text(job.user),
        account=free_text(job.project),
        partition=one_partition(job.partition),
        script=None if not script else script[:SCRIPT_MAX],
        hosts=_hosts(job),
        time_limit_s=_limit_s(job),
        exclusive=_EXCLUSIVE.get(job.shared or "") if job.exclusive is None else job.exclusive == 1,
        array_job_id=str(job.array_job_id) if job.array_job_id and job.array_job_id <= COUNT_MAX else None,
        attributes=present({"sub_cluster": identity_text(job.sub_cluster, "subCluster")}),
    )


def _hosts(job: ArchivedJob) -> tuple[str, ...]:
    names = tuple(host.hostname for host in job.resources if host.hostname)
    if sum(map(len, names)) > HOSTS_MAX:
        raise invalid("hosts", f"The hosts of the job have more than {HOSTS_MAX} characters.")
    for name in names:
        identity_text(name, "host")
    return names


def _limit_s(job: ArchivedJob) -> float | None:
    """Return the wall time limit in seconds; None for implausible values, because some sites write hours."""
    limit_s = job.walltime
    if limit_s is None or not 0 < limit_s <= SECONDS_MAX or limit_s < (job.duration or 0.0):
        return None
    return float(limit_s)


NODE: Final = "node"
# scopes with few parts per host: each part has its own resource, and the values of all parts are summed
PARTS: Final = ("socket", "memoryDomain", "die", "llc")
# scopes with many parts per host: all cores share one resource, whose value is their mean
CORES: Final = ("core", "hwthread", "cpu")
SCOPES: Final = (NODE, *PARTS, "accelerator", *CORES)
"""The scopes of metrics, from coarse to fine."""

_POWERS: Final = {
    metric: component
    for component, metrics in {
        "system": "node_power node_total_power total_power ipmi_power rapl_psys_average_power",
        "cpu": "cpu_power rapl_power rapl_average_power",
        "memory": "mem_power dram_power rapl_dram_average_power",
        "gpu": "acc_power nv_power_usage rocm_power_usage",
    }.items()
    for metric in metrics.split()
}
_PACKAGE: Final = re.compile(r"rapl_(?:package|pkg)(?:-[0-9]{1,4})?_average_power")
_RATE: Final = re.compile(r"flops_(?:any|sp|dp|hp)|\w{1,64}_(?:bw|iops|rate|pkts)")
_LEVEL: Final = re.compile(
    r"ipc|cpi|clock|cpu_(?:load|user|util|system|idle|iowait)|vectorization_ratio|mem_used|acc_(?:utilization|mem_used|mem_util)"
)
# metrics that LIKWID's performance groups report in units of 10^6
_MEGA: Final = re.compile(r"flops_(?:any|sp|dp|hp)|mem_bw|clock")
_PART: Final = re.compile(r"[0-9A-Za-z_.:-]{1,64}")
_PREFIXES: Final = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
                    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}  # fmt: skip
_UNIT: Final = re.compile(
    r"(n|u|m|k|Ki|K|Mi|M|Gi|G|Ti|T|P|E)?(?:[Bb]ytes?(?:/s|/sec)?|B(?:/s)?|[Ff]lops?(?:/s)?|F(?:/s)?|Hz|W(?:att)?)"
)


class Place(NamedTuple):
    """The resource and the peer that together name the series of a metric, for example ``power_w`` and ``cpu:0``."""

    resource: str
    peer: str


def place_of(metric: str, scope: str, part: str) -> Place | None:
    """Return the resource and peer for a metric measured at `scope` on `part` of a host; None if the metric is not used.

    Power gets a peer for each component, or for each of its sockets. Rates get a peer for each part, to be summed later.
    Ratios, amounts and all metrics of cores get one peer for the host; its value is the mean over the parts.

    >>> place_of("cpu_power", "socket", "1"), place_of("ipc", "hwthread", "7")
    (Place(resource='power_w', peer='cpu:1'), Place(resource='counter_level', peer='ipc'))
    >>> place_of("flops_any", "node", "0"), place_of("flops_any", "core", "7")
    (Place(resource='counter_rate', peer='flops_any'), Place(resource='counter_level', peer='flops_any_per_core'))
    """
    if scope not in SCOPES:
        return None
    component = _POWERS.get(metric) or ("cpu" if _PACKAGE.fullmatch(metric) else None)
    if component is not None:
        return None if scope in CORES else Place(POWER_W, component if scope == NODE else f"{component}:{part}")
    if _LEVEL.fullmatch(metric):
        return Place(COUNTER_LEVEL, metric)
    if not _RATE.fullmatch(metric):
        return None
    if scope in CORES:
        return Place(COUNTER_LEVEL, f"{metric}_per_{scope}")
    return Place(COUNTER_RATE, metric if scope == NODE else f"{metric}:{part}")


def factor_of(metric: str, unit: str | None) -> float:
    """Return the factor that converts values to bytes, operations, Hz or W; if `unit` is None, the metric name decides.

    >>> factor_of("mem_bw", "GB/s"), factor_of("flops_any", None), factor_of("mem_used", None), factor_of("ipc", "IPC")
    (1000000000.0, 1000000.0, 1.0, 1.0)
    """
    if unit:
        found = _UNIT.fullmatch(unit)
        return 1.0 if found is None else _PREFIXES[found[1] or ""]
    return 1e6 if _MEGA.fullmatch(metric) else 1.0


def metric_of(measurement: str, tags: Mapping[str, str]) -> Metric | None:
    """Return the mapping for line-protocol lines with this measurement and these tags.

    Return None if ClusterCockpit did not write the lines, or if the agent does not use the metric.
    """
    part = tags.get("type-id", "0")
    place = place_of(measurement, tags.get("type", ""), part) if "hostname" in tags and _PART.fullmatch(part) else None
    if place is None or "stype" in tags:  # the line measures a file system or a user slice, not a part of the host
        return None
    convert = _times(factor_of(measurement, tags.get("unit")))
    return Metric(measurement, FIELD, place.resource, convert, peer=place.peer)


@lru_cache(maxsize=64)  # each unit prefix has one factor
def _times(factor: float) -> Convert | None:
    return None if factor == 1.0 else lambda value: value * factor
