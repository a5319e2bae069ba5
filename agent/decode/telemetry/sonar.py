"""Samples of Sonar (NordicHPC): load, memory and GPU power of a node, and the programs of its jobs."""

from typing import Annotated, Final

import msgspec

from agent.decode.fields import TEXT_MAX, identity_text, parse_time
from agent.decode.message import JSON_ERRORS, TelemetryOptions, checked, invalid, json_error
from agent.decode.sonar import JOB_TYPES, sonar_decoder
from agent.decode.telemetry.columns import KEY_BYTES_MAX, Columns, Known, in_slices
from agent.decode.telemetry.metric import SONAR, Metric, share_by_load
from agent.decode.telemetry.plans import Plan, Planner, take
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import Decoded, Evidence, Identity
from processors.contracts.telemetry import CPU_AVAILABLE, LOAD, POWER_W, DecodeSamples

MEASUREMENT: Final = "sonar"
SOURCE: Final = "sonar"
PROGRAMS_MAX: Final = 50_000  # jobs and programs that are remembered as told
GPUS_MAX: Final = 64

_Name = Annotated[str, msgspec.Meta(max_length=TEXT_MAX)]
_Amount = Annotated[float, msgspec.Meta(ge=0)]
_Key = tuple[str, str, tuple[int, ...], int]


class _Gpu(msgspec.Struct, gc=False):
    index: Annotated[int, msgspec.Meta(ge=0, lt=GPUS_MAX)] = 0
    power: _Amount = 0.0


class _System(msgspec.Struct, gc=False):
    """Load averages of a node. Sonar omits zeros; `existing_entities` accompanies load averages and is never 0."""

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
    job: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0
    epoch: int = 0
    processes: list[_Process] = []


class _Sample(msgspec.Struct, gc=False):
    time: str
    node: _Name
    cluster: _Name = ""
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
    """Return the decoder of Sonar's messages: samples of nodes, the program of each job on them, and jobs that ended.

    The program is the process with the most processor time; each program of a job is reported once. A load average also gives the
    available share of a processor, by the number of processors from Sonar, the file of nodes, or the options.

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
        self._planner = Planner(SONAR, options)
        self._plans = Known[_Key, Plan]()
        self._reported: dict[tuple[str, int, str], None] = {}

    def decode(self, value: bytes, message: int, columns: Columns) -> None:
        value = checked(value, self._options.decode)
        data = _data(value)
        if data is None or data.type in JOB_TYPES:
            columns.other(message, self._jobs(value, columns.received_ms[message]))
        elif data.type != "sample":
            columns.ignore(data.type if data.type in ("sysinfo", "cluster") else "event")
        else:
            self._take(data.attributes, message, columns)

    def _take(self, raw: msgspec.Raw, message: int, columns: Columns) -> None:
        try:
            sample = _SAMPLE.decode(raw)
        except JSON_ERRORS as error:
            raise json_error(error) from None
        elements_max = self._options.decode.elements_max
        if len(sample.jobs) > elements_max:
            raise invalid("array-bomb", f"The message has more jobs than {elements_max}.")
        if sample.system is not None and len(sample.system.gpus) > elements_max:
            raise invalid("array-bomb", f"The message has more GPUs than {elements_max}.")
        system = self._options.decode.system_of(identity_text(sample.cluster, "cluster"))
        if sample.system is not None:
            self._take_system(sample, sample.system, system, message, columns)
        programs = Decoded(events=[*self._programs(sample.jobs, system)])
        if programs.events:
            columns.other(message, programs)

    def _take_system(self, sample: _Sample, reported: _System, system: str, message: int, columns: Columns) -> None:
        fields: dict[str, float] = {}
        if reported.existing_entities:
            fields = {name: getattr(reported, name) for name in ("load1", "load5", "load15", "runnable_entities")}
        if reported.used_memory:
            fields["used_memory"] = reported.used_memory
        fields |= {f"gpu:{gpu.index}": gpu.power for gpu in reported.gpus}
        key = (system, sample.node, tuple(gpu.index for gpu in reported.gpus), len(reported.cpus))
        plans = self._plans.of(columns.index)
        plan = plans.get(key)
        if plan is None:
            plan = self._plan(key)
            if len(system) + len(sample.node) <= KEY_BYTES_MAX:
                plans[key] = plan
        take(fields, plan, parse_time(sample.time), message, columns)

    def _plan(self, key: _Key) -> Plan:
        system, node, gpus, cpus = key
        listed = self._options.nodes.node(node, system)
        cpus = cpus or (listed and listed.cores) or self._options.taken.host_cpus
        powers = [Metric(MEASUREMENT, f"gpu:{index}", POWER_W, instance=f"gpu:{index}") for index in gpus]
        also = (Metric(MEASUREMENT, "load1", CPU_AVAILABLE, share_by_load(cpus), peer=LOAD), *powers)
        tags = {f"gpu:{index}": f"gpu:{index}" for index in gpus}
        return self._planner.plan(MEASUREMENT, node, tags, also=also, system=system)

    def _programs(self, jobs: list[_Job], system: str) -> list[Identity]:
        """Return the newly seen programs of Slurm's jobs; processes of an epoch belong to no job."""
        found = []
        for job in jobs:
            program = max(job.processes, key=lambda process: process.cpu_time, default=None)
            if job.epoch or not job.job or program is None or not program.cpu_time:
                continue
            identity = self._program(system, job.job, program.cmd)
            if identity is not None:
                found.append(identity)
        return found

    def _program(self, system: str, job: int, command: str) -> Identity | None:
        key = (system, job, command[:TEXT_MAX])
        if key in self._reported:
            return None
        try:
            executable = identity_text(command, "command")
        except InvalidInputError:
            executable = None
        if len(self._reported) >= PROGRAMS_MAX:  # the oldest, whose job is long over
            del self._reported[next(iter(self._reported))]
        self._reported[key] = None
        if executable is None:
            return None
        return Identity(system=system, job_id=str(job), source=SOURCE, evidence=Evidence(executable=executable))


def _data(value: bytes) -> _Data | None:
    """Return the data of an envelope; None if the decoder for jobs has to report its error."""
    try:
        envelope = _ENVELOPE.decode(value)
    except JSON_ERRORS:
        return None
    if envelope.data is None and bytes(envelope.errors):
        return _Data("errors")
    return envelope.data
