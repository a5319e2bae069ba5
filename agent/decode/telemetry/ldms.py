"""Rows of LDMS in JSON from its Kafka stores, either in the layout of the metric sets, or in columns that a site has chosen.

Rows of `slurm_sampler2` and `linux_proc_sampler`, and messages of `slurm_notifier`, name the programs of jobs.
Source: `slurm_sampler2.c`, `linux_proc_sampler.c` and `slurm_notifier.c` of ovis-hpc/ldms.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from math import nan
from typing import Any, Final, Literal

import msgspec

from agent.decode.fields import PATH_MAX, TEXT_MAX, JobNumber, check_bounds, free_text, number_in, sizes_of
from agent.decode.message import (
    JSON_ERRORS,
    DecodeOptions,
    TelemetryOptions,
    check_keys,
    decode_json,
    invalid,
    remember,
)
from agent.decode.telemetry.columns import Columns, epoch_ms, in_slices, without_nan
from agent.decode.telemetry.metric import REST, Metric, kibibytes, percent, share_by_load
from agent.decode.telemetry.plans import Plan, Plans, mapped, take, take_row
from agent.decode.telemetry.processor_time import IdleShares, Share
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import Decoded, Evidence, Identity
from processors.contracts.telemetry import COUNTER_DELTA, COUNTER_TOTAL, CPU_AVAILABLE, LOAD, DecodeSamples

MEASUREMENT: Final = "ldms"


def _watts(value: float) -> float:
    """Return a power in W; NaN for -1, which producers without a sensor send."""
    return nan if value == -1.0 else value


def _nanojoules(value: float) -> float:
    return value * 1e-9


SAMPLER: Final = "\0sampler"  # not a column of LDMS, so it cannot clash with one
LOADAVG_INTEGER: Final = "loadavgi"  # the schema of `loadavg` with `force_integer`, which multiplies loads by 100
CRAY_POWER: Final = "cray_power_sampler"
PAPI: Final = "papi_sampler"
PROCSTAT: Final = "procstat2"
SOCKET: Final = "power.socket_ID"
CPU_NAME: Final = "cpu_list.name"
CPU_TICKS: Final = tuple(
    f"cpu_list.{column}" for column in ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
)
"""The states of a processor, by time spent in each; `user` and `nice` include the time of guests."""

IDLE_SHARE: Final = "cpu_list.idle (share)"  # not a column of LDMS, so it cannot clash with one

REMOTE: Final = "remote"
IBNET: Final = {
    "PortXmitData": "xmit_data",
    "PortRcvData": "rcv_data",
    "PortXmitPkts": "xmit_packets",
    "PortRcvPkts": "rcv_packets",
    "PortXmitWait": "xmit_wait",
}
"""Counters of a port: the names in libibmad, which LDMS's `ibnet` uses, with the names in Linux."""
IB_RATE: Final = "ib.port_{}.rate#"
"""Prefix of the columns in which `sysclassib` writes the rates of these counters, next to the counters themselves."""

LOADS_BY_COLUMN: Final = {"load1min": "load1", "load5min": "load5", "load15min": "load15"}
LDMS: Final = (
    *(
        Metric("ldms", column, load, percent, only=((SAMPLER, LOADAVG_INTEGER),))
        for column, load in LOADS_BY_COLUMN.items()
    ),
    *(Metric("ldms", column, load) for column, load in LOADS_BY_COLUMN.items()),
    Metric("ldms", "runnable", "runnable"),
    Metric("ldms", "MemFree", "memory_free", kibibytes),
    Metric("ldms", "MemAvailable", "memory_available", kibibytes),
    *(
        Metric("ldms", column, f"cpu_{column.removeprefix('cpu_list.')}_ticks_total", only=((CPU_NAME, "cpu"),))
        for column in CPU_TICKS
    ),
    Metric("ldms", IDLE_SHARE, "cpu_available", only=((SAMPLER, PROCSTAT),)),
    Metric("ldms", "procs_running", "runnable", only=((CPU_NAME, "cpu"),)),
    Metric("ldms", "power.node_watts", "power_w", _watts, peer="system", only=((SOCKET, "0"),)),
    Metric("ldms", "power.cpu_watts", "power_w", _watts, peer="cpu", part=SOCKET),
    Metric("ldms", "power.mem_watts", "power_w", _watts, peer="memory", part=SOCKET),
    Metric("ldms", "power.gpu_watts", "power_w", _watts, peer="gpu", part=SOCKET),
    Metric("ldms", "power_usage", "power_w", peer="gpu", part="gpu_id"),
    Metric("ldms", "power", "power_w", peer="system", only=((SAMPLER, CRAY_POWER),)),
    Metric("ldms", "energy", "energy_total", peer="system", only=((SAMPLER, CRAY_POWER),)),
    Metric("ldms", "power(W)", "power_w", peer="system"),
    Metric("ldms", "energy(J)", "energy_total", peer="system"),
    Metric("ldms", "rapl:::PACKAGE_ENERGY:PACKAGE*", "energy_total", _nanojoules, peer="cpu", part="*"),
    Metric("ldms", "rapl:::DRAM_ENERGY:PACKAGE*", "energy_total", _nanojoules, peer="memory", part="*"),
    Metric("ldms", "nics.*", "nic_total", instance="nics.name", part="*"),
    *(Metric("ldms", column, "nic_total", instance=REMOTE, counter=name) for column, name in IBNET.items()),
    *(Metric("ldms", f"ib.port_{name}#*", "nic_total", peer=REST, counter=name) for name in IBNET.values()),
)
"""Metrics by column name, because a row does not name its schema. `load1min` also gives cpu_available, and so does the idle share
of the ticks of `procstat2`.

A row of `ibnet` concerns one port, and `remote` is the number of the port in the fabric; columns of `sysclassib` have adapter and
port in their names. Variorum writes a row for each socket, and the first of these rows reports the whole host. For procstat2, the
row that sums all processors is used.
"""


def share_by_loads(cpus: int) -> tuple[Metric, ...]:
    """Return the LDMS mappings that derive the available share of `cpus` processors from load averages, see `share_by_load`."""
    share, of_hundredths = share_by_load(cpus), ((SAMPLER, LOADAVG_INTEGER),)
    return (
        Metric("ldms", "load1min", CPU_AVAILABLE, lambda load: share(percent(load)), of_hundredths, peer=LOAD),
        Metric("ldms", "load1min", CPU_AVAILABLE, share, peer=LOAD),
    )


def counters_of(names: tuple[str, ...], *, cumulative: bool) -> tuple[Metric, ...]:
    """Return the mappings of the counters `names`, which may be prefixes (``PAPI_*``).

    Counters that `papi_sampler` counts for a job are cumulative from the job's start. Counters of a whole host are increments
    per interval, unless `cumulative` is set.
    """
    of_host = COUNTER_TOTAL if cumulative else COUNTER_DELTA
    return tuple(
        Metric("ldms", name, resource, peer=name, only=((SAMPLER, sampler),))
        for name in names
        for resource, sampler in ((COUNTER_TOTAL, PAPI), (of_host, ""))
    )


Kind = Literal["job", "process"]
"""The subject of a row: a job of the host, or a process of a job."""

JOB_SOURCE: Final = "ldms"
PROCESS_SOURCE: Final = "ldms-process"
JOB_LIST: Final = "job_list."  # prefix of the columns in the layout of the metric set
TAG: Final = "job_tag"
JOBS_MAX: Final = 100_000  # maximum number of jobs whose reported evidence is cached
JOB_COLUMNS: Final = ("job_id", "job_name", TAG, "user", "node_count", "job_size")
PROCESS_COLUMNS: Final = ("exe", "task_rank", "is_thread")
TICKS: Final = ("stat_utime", "stat_stime")
STEP: Final = "slurm_step_data"
_NOTICE: Final = re.compile(rb'\s*\{\s*"schema"\s*:\s*"slurm_(?:job|step|task)_data"')


def kind_of(names: tuple[str, ...]) -> Kind | None:
    """Return whether rows with these columns describe a job or a process of a job; None for measurements of a host."""
    if "job_name" in names or f"{JOB_LIST}job_name" in names:
        return "job"
    return "process" if all(name in names for name in PROCESS_COLUMNS) else None


class LdmsJobs:
    """The jobs in LDMS rows. Rows repeat with every sample, so a job is reported only if a row has new information."""

    def __init__(self, options: DecodeOptions) -> None:
        self._options = options
        self._reported: dict[tuple[str, str], Evidence] = {}
        self._ticks: dict[str, float] = {}

    def take(self, kind: Kind, row: Mapping[str, Any], message: int, columns: Columns) -> None:
        """Add a row about a job or process; a row without a job id or without new information is only counted.

        Raise InvalidInputError if a column has a wrong type.
        """
        prefix = JOB_LIST if kind == "job" and f"{JOB_LIST}job_name" in row else ""
        job_id = _job_id(row.get(f"{prefix}job_id"))
        if job_id is None:
            columns.ignore("no-job")
        elif kind == "process":
            self._take_process(job_id, row, message, columns)
        else:
            named = {name: row.get(f"{prefix}{name}") for name in JOB_COLUMNS}
            sizes = {"nodes": _number(named["node_count"]), "processes": _number(named["job_size"])}
            self._take_job(job_id, named, sizes, message, columns)

    def take_notice(self, value: bytes, message: int, columns: Columns) -> None:
        """Add a message of `slurm_notifier`: the start of a job step names the job; other messages are only counted."""
        event = decode_json(_EVENT, value)
        data, tags = event.data, event.data.subscriber_data
        if event.schema != STEP or event.event != "step_init" or not data.job_id:
            columns.ignore("event")
            return
        tag = tags.get(TAG) if isinstance(tags, dict) else None
        named = {"job_name": data.job_name, "user": data.job_user, TAG: tag}
        sizes = {"nodes": data.nnodes, "processes": data.total_tasks}
        self._take_job(str(data.job_id), named, sizes, message, columns)

    def _take_job(
        self,
        job_id: str,
        named: Mapping[str, object],
        sizes: Mapping[str, float | None],
        message: int,
        columns: Columns,
    ) -> None:
        known = self._reported.get((JOB_SOURCE, job_id), Evidence())
        tag = _text(named[TAG])
        evidence = Evidence(
            sizes=_largest(known.sizes, sizes_of(sizes)),
            job_name=_text(named["job_name"]) or known.job_name,
            user=_text(named["user"]) or known.user,
            attributes={TAG: tag} if tag else known.attributes,
        )
        if evidence.job_name is None and evidence.user is None:
            columns.ignore("no-step")  # before its first step a job has neither
        else:
            self._report(JOB_SOURCE, job_id, evidence, message, columns)

    def _take_process(self, job_id: str, row: Mapping[str, Any], message: int, columns: Columns) -> None:
        executable = _text(row["exe"], PATH_MAX)
        if executable is None:
            columns.ignore("no-program")
            return
        ticks, most_ticks = sum(_number(row.get(name)) or 0.0 for name in TICKS), self._ticks.get(job_id, 0.0)
        reported = self._reported.get((PROCESS_SOURCE, job_id))
        repeats = reported is not None and reported.executable == executable
        if reported is not None and not repeats and ticks <= most_ticks:
            columns.ignore("smaller-process")
            return
        remember(self._ticks, job_id, max(ticks, most_ticks) if repeats else ticks, JOBS_MAX)
        self._report(PROCESS_SOURCE, job_id, Evidence(executable=executable), message, columns)

    def _report(self, source: str, job_id: str, evidence: Evidence, message: int, columns: Columns) -> None:
        if self._reported.get((source, job_id)) == evidence:
            columns.ignore("repeat")
            return
        system = self._options.system_of(None)
        remember(self._reported, (source, job_id), evidence, JOBS_MAX)
        identity = Identity(system=system, job_id=job_id, source=source, evidence=evidence)
        columns.other(message, Decoded(events=[identity]))


def _largest(known: dict[str, float], sizes: dict[str, float]) -> dict[str, float]:
    """Return the larger size for each unit, because a job step may use only a part of the nodes of its job."""
    return {
        unit: max(known.get(unit, 0.0), sizes.get(unit, 0.0))
        for unit in ("nodes", "processes")
        if unit in known | sizes
    }


def _number(value: object) -> float | None:
    """Return an integer above 0; None for other values, because LDMS writes 0 for unknown."""
    return value if isinstance(value, float) and value.is_integer() and 0.0 < value < 2.0**63 else None


def _job_id(value: object) -> str | None:
    number = _number(value)
    return None if number is None else str(int(number))


def _text(value: object, length_max: int = TEXT_MAX) -> str | None:
    return free_text(value, length_max) if isinstance(value, str) else None


class _Data(msgspec.Struct, gc=False):
    job_id: JobNumber = 0
    job_name: str | None = None
    job_user: str | None = None
    nnodes: int = 0
    total_tasks: int = 0
    subscriber_data: Any = None


class _Event(msgspec.Struct, gc=False):
    schema: str
    event: str
    data: _Data


_EVENT = msgspec.json.Decoder(_Event)


HOST_COLUMNS: Final = ("producer", "hostname", "host")
PARTS: Final = (SOCKET, "gpu_id")  # columns with the number of the socket or GPU that a row is about
NO_METRIC: Final = frozenset((*HOST_COLUMNS, *PARTS, "timestamp", "component_id", "job_id", "app_id", "instance"))
INSTANCES: Final = (".name", "_name")  # suffixes of columns that name the instance a row is about
NO_JOB: Final = "idle"
IDLE: Final = "cpu_list.idle"
ALL: Final = "cpu"  # name in the row with the sum over all processors
TASKS: Final = "task_pids"  # a column that occurs only in rows of papi_sampler
CRAY_COLUMNS: Final = frozenset({"energy", "power"})
FORMS_MAX: Final = 256
FORM_BYTES_MAX: Final = 65_536  # maximum length of a row whose form is cached
# load averages stored as integers; doubles would have a fraction
_INTEGER_LOAD: Final = re.compile(rb'"load(?:1|5|15)min"\s*:\s*[0-9]+\s*[,}]')
_Column = float | str | bool | list[float | str | bool | None] | None
_ROW = msgspec.json.Decoder(dict[str, _Column])


def ldms_decoder(options: TelemetryOptions) -> DecodeSamples:
    """Return the decoder of rows; the host is the producer, or the host of the component id in the options.

    Arrays of values for processors or tasks are summed. A row of `papi_sampler` concerns a job, and is skipped if it names no
    job. A load average gives the available share of a processor as well, cpus / (load + 1), see `share_by_load`. The processor
    ticks of `procstat2` give the idle share. Rows about jobs and their processes identify the program of a job.

    >>> from processors.contracts.telemetry import SeriesIndex
    >>> from agent.decode.message import DecodeOptions
    >>> options = TelemetryOptions(decode=DecodeOptions(default_system="exa"), hosts={1042: "nid001042"})
    >>> row = b'{"timestamp":1787217284.001733,"component_id":1042,"job_id":0,"load1min":3.0}'
    >>> index = SeriesIndex(9)
    >>> ldms_decoder(options)([row], [1787217284000], index).samples.value.tolist(), index[1].resource
    ([3.0, 0.25], 'cpu_available>load')
    """
    return in_slices(_Decoder(options).decode, options)


class _Decoder:
    def __init__(self, options: TelemetryOptions) -> None:
        counters = counters_of(options.taken.counters, cumulative=options.taken.counters_cumulative)
        self._options = options
        self._plans = Plans((*LDMS, *counters, *share_by_loads(options.taken.host_cpus)), options)
        self._known_form = lru_cache(FORMS_MAX)(_Form)
        self._jobs = LdmsJobs(options.decode)
        # idle shares from the row with the sum over all processors, and from the rows of single processors
        self._whole, self._single = IdleShares(), IdleShares()

    def decode(self, value: bytes, message: int, columns: Columns) -> None:
        try:
            row = _row(value)
        except InvalidInputError:
            if not _NOTICE.match(value):
                raise
            self._jobs.take_notice(value, message, columns)
            return
        form = self._known_form(tuple(row)) if len(value) <= FORM_BYTES_MAX else _Form(tuple(row))
        if form.job is not None:
            self._jobs.take(form.job, row, message, columns)
            return
        stamp = number_in(row.get("timestamp"))
        if stamp is None:
            raise invalid("time", "The row has no numeric timestamp.")
        time_ms, host = epoch_ms(stamp), _host(row, self._options)
        if form.ticks:
            self._take_share(row, host, time_ms, message, columns)
        # all other samplers only report the last job that started on the host
        job_id = _job_id(row.get("job_id")) if form.tasks else None
        tags = _tags(row, form, job_id)
        if form.loads and len(_INTEGER_LOAD.findall(value)) == form.loads:
            tags[SAMPLER] = LOADAVG_INTEGER
        plan = self._plan(host, tags, job_id, columns)
        every = list(row.values())
        values = [every[at] for at in form.places]
        if take_row(form.metrics, values, plan, time_ms, message, columns):
            return
        summed = [column if type(column) is not list else _sum(column) for column in values]
        take(dict(zip(form.metrics, summed, strict=True)), plan, time_ms, message, columns)

    def _plan(self, host: str, tags: dict[str, str], job_id: str | None, columns: Columns) -> Plan:
        key = host, job_id or "", *tags, *tags.values()
        plan = self._plans.of(columns.index).get(key)
        return plan or self._plans.add(key, MEASUREMENT, host, tags, job_id=job_id)

    def _take_share(self, row: "dict[str, _Column]", host: str, time_ms: int, message: int, columns: Columns) -> None:
        name, ticks = row[CPU_NAME], [row[column] for column in CPU_TICKS]
        if not isinstance(name, str) or {*map(type, ticks)} != {float}:
            return
        # checked before the time is cached
        check_bounds(time_ms, time_ms, columns.received_ms[message], self._options.decode)
        idle, total = row[IDLE], sum(ticks)  # type: ignore[arg-type]  # all are floats
        share: Share | None = None
        if name == ALL:
            self._whole.note(host, name, time_ms, idle, total)  # type: ignore[arg-type]  # it is a float
            share = self._whole.finish(host)
        elif not self._whole.knows(host):
            share = self._single.note(host, name, time_ms, idle, total)  # type: ignore[arg-type]  # it is a float
        if share is not None:
            plan = self._plan(host, {SAMPLER: PROCSTAT}, None, columns)
            take({IDLE_SHARE: share.value}, plan, share.time_ms, message, columns)


class _Form:
    """The meaning of a row's columns: columns with metrics, and columns that identify the row."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.places = tuple(at for at, name in enumerate(names) if name not in NO_METRIC)  # of the columns with metrics
        self.metrics = tuple(names[at] for at in self.places)
        self.instances = tuple(name for name in names if name == REMOTE or name.endswith(INSTANCES))
        self.tasks = TASKS in names
        self.cray = CRAY_COLUMNS.issubset(names)
        self.loads = sum(name in LOADS_BY_COLUMN for name in names)  # number of load averages
        self.ticks = CPU_NAME in names and all(column in names for column in CPU_TICKS)
        self.job = kind_of(names)


def _tags(row: dict[str, _Column], form: _Form, job_id: str | None) -> dict[str, str]:
    """Return the names and numbers of parts, and the sampler; rows with equal tags share a plan."""
    tags = {name: text for name in form.instances if isinstance(text := row[name], str)}
    for name in PARTS:
        if isinstance(number := row.get(name), float) and number.is_integer():
            tags[name] = str(int(number))
    if form.tasks:
        tags[SAMPLER] = NO_JOB if job_id is None else PAPI
    else:
        tags[SAMPLER] = CRAY_POWER if form.cray else ""
    return tags


def _sum(column: list[float | str | bool | None]) -> float | None:
    """Return the sum of an array of numbers; None if a number is missing."""
    return sum(column) if column and {*map(type, column)} == {float} else None  # type: ignore[arg-type]  # all are floats


def _row(value: bytes) -> dict[str, _Column]:
    try:
        row = _ROW.decode(value)
    except JSON_ERRORS:
        row = decode_json(_ROW, without_nan(value) or value)  # LDMS prints nan for a missing number
    check_keys(value, len(row))
    return row


def _host(row: dict[str, _Column], options: TelemetryOptions) -> str:
    for column in HOST_COLUMNS:
        host = row.get(column)
        if isinstance(host, str) and host:
            return host
    component = row.get("component_id")
    found = options.hosts.get(int(component)) if isinstance(component, float) and component.is_integer() else None
    found = found or options.host
    if found is None:
        options.missed.note("hosts", f"component_id {component}".removesuffix(".0"))
        raise invalid("host", "The row names no producer, and its component id is not in the file of nodes.")
    return found


_NOT_IN_AVRO: Final = re.compile(r"[^A-Za-z0-9-]")


def avro_name(name: str) -> str:
    """Return the Avro name of a column; Avro allows only letters, digits and underscores."""
    return _NOT_IN_AVRO.sub("_", name)


def ldms_names(options: TelemetryOptions) -> Callable[[str], str]:
    """Return the function from Avro names to LDMS names of metrics, parts of a host and job fields.

    >>> name_of = ldms_names(TelemetryOptions())
    >>> name_of("power_node_watts"), name_of("nics_tx_bytes"), name_of("MemFree")
    ('power.node_watts', 'nics.tx_bytes', 'MemFree')
    """
    whole: dict[str, str] = {}
    beginnings = {avro_name(IB_RATE.format(name)): IB_RATE.format(name) for name in IBNET.values()}
    # without these prefixes, the rate of an adapter would be taken for a counter of an adapter with another name
    configured = [mapped(mapping) for mapping in options.taken.metrics if mapping.measurement == MEASUREMENT]
    for metric in (*LDMS, *configured, *(Metric(MEASUREMENT, counter, "") for counter in options.taken.counters)):
        texts = [metric.instance, metric.part, *(tag for tag, _ in metric.only)]
        if metric.beginning is None:
            texts.append(metric.field)
        elif metric.beginning:
            beginnings.setdefault(avro_name(metric.beginning), metric.beginning)
        whole |= {avro_name(text): whole.get(avro_name(text), text) for text in texts if text}
    whole |= {avro_name(JOB_LIST + column): JOB_LIST + column for column in JOB_COLUMNS}

    def name_of(name: str) -> str:
        if name in whole:
            return whole[name]
        beginning = max(filter(name.startswith, beginnings), key=len, default="")
        return beginnings[beginning] + name[len(beginning) :] if beginning else name

    return name_of
