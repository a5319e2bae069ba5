"""Rows of LDMS in JSON, as its Kafka stores write them: in the layout of the metric sets, or in columns that a site has chosen."""

import re
from typing import Any, Final, NamedTuple

import msgspec

from agent.decode.fields import check_bounds, number_in
from agent.decode.message import JSON_ERRORS, TelemetryOptions, checked, invalid, json_error, refuse_duplicate_keys
from agent.decode.telemetry.columns import KEY_BYTES_MAX, Columns, Known, epoch_ms, in_slices, without_nan
from agent.decode.telemetry.ldms_jobs import Jobs, Kind, is_notice, kind_of
from agent.decode.telemetry.metric import (
    CPU_NAME,
    CPU_TICKS,
    CRAY_POWER,
    IDLE_SHARE,
    LDMS,
    LOADAVG_INTEGER,
    LOADS,
    PAPI,
    PROCSTAT,
    REMOTE,
    SAMPLER,
    SOCKET,
    counters_of,
    share_by_loads,
)
from agent.decode.telemetry.plans import NOTHING, Plan, Planner, take, take_row
from agent.decode.telemetry.processor_time import IdleShares, Share
from processors.contracts.errors import InvalidInputError
from processors.contracts.telemetry import DecodeSamples

MEASUREMENT: Final = "ldms"
HOST_COLUMNS: Final = ("producer", "hostname", "host")
PARTS: Final = (SOCKET, "gpu_id")  # columns with the number of the part of the host that a row is about
NO_METRIC: Final = frozenset((*HOST_COLUMNS, *PARTS, "timestamp", "component_id", "job_id", "app_id", "instance"))
INSTANCES: Final = (".name", "_name")  # endings of columns that say which of several a row is about
NO_JOB: Final = "idle"
IDLE: Final = "cpu_list.idle"
ALL: Final = "cpu"  # in the name of the row that adds up all processors
TASKS: Final = "task_pids"  # which rows of papi_sampler alone have
CRAY_COLUMNS: Final = frozenset({"energy", "power"})
FORMS_MAX: Final = 256
FORM_BYTES_MAX: Final = 16_384  # of names that are worth keeping
_WHITESPACE: Final = b" \t\r\n"
_INTEGER_LOAD: Final = re.compile(rb'"load(?:1|5|15)min"\s*:\s*[0-9]+\s*[,}]')  # doubles are written with a fraction
_Column = float | str | bool | list[float | str | bool | None] | None
_ROW = msgspec.json.Decoder(dict[str, _Column])


def ldms_decoder(options: TelemetryOptions) -> DecodeSamples:
    """Return the decoder of rows; the host is their producer, or the host of their component id in the options.

    Values of processors or tasks in an array add up. A row of `papi_sampler` concerns a job, and is left out without one.
    A load average also gives the available share of a processor: cpus / (load + 1), see `share_by_load`; so do the ticks of
    `procstat2`, which give the idle share of the time. Rows about jobs and their processes identify the program of a job.

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
        self._planner = Planner((*LDMS, *counters, *share_by_loads(options.taken.host_cpus)), options)
        self._known = Known[tuple[str, ...], Plan]()
        self._forms: dict[tuple[str, ...], _Form] = {}
        self._jobs = Jobs(options.decode)
        self._shares = _Shares()

    def decode(self, value: bytes, message: int, columns: Columns) -> None:
        value = checked(value, self._options.decode)
        try:
            row = _row(value)
        except InvalidInputError:
            if not is_notice(value):
                raise
            self._jobs.take_notice(value, message, columns)
            return
        form = self._form(tuple(row))
        if form.job is not None:
            self._jobs.take(form.job, row, message, columns)
            return
        time_ms = _time_ms(row)
        host = _host(row, self._options)
        if form.ticks:
            self._take_share(row, host, time_ms, message, columns)
        job_id = _job(row) if form.tasks else None
        tags = _tags(row, form)
        if form.loads and len(_INTEGER_LOAD.findall(value)) == form.loads:
            tags[SAMPLER] = LOADAVG_INTEGER
        plan = self._plan(host, tags, job_id, columns)
        values = form.values(list(row.values()))
        if take_row(form.metrics, values, plan, time_ms, message, columns):
            return
        summed = [column if type(column) is not list else _sum(column) for column in values]
        take(dict(zip(form.metrics, summed, strict=True)), plan, time_ms, message, columns)

    def _form(self, names: tuple[str, ...]) -> "_Form":
        form = self._forms.get(names)
        if form is None:
            form = _form(names)
            if sum(map(len, names)) <= FORM_BYTES_MAX:
                if len(self._forms) >= FORMS_MAX:
                    self._forms.clear()
                self._forms[names] = form
        return form

    def _plan(self, host: str, tags: dict[str, str], job_id: str | None, columns: Columns) -> Plan:
        plans, key = self._known.of(columns.index), (host, job_id or "", *tags, *tags.values())
        plan = plans.get(key)
        if plan is None:
            plan = self._planner.plan(MEASUREMENT, host, tags, job_id=job_id)
            if plan is not NOTHING and sum(map(len, key)) <= KEY_BYTES_MAX:
                plans[key] = plan
        return plan

    def _take_share(self, row: "dict[str, _Column]", host: str, time_ms: int, message: int, columns: Columns) -> None:
        name, ticks = row[CPU_NAME], [row[column] for column in CPU_TICKS]
        if not isinstance(name, str) or {*map(type, ticks)} != {float}:
            return
        check_bounds(time_ms, time_ms, columns.received_ms[message], self._options.decode)  # before it is remembered
        share = self._shares.note(host, name, time_ms, row[IDLE], sum(ticks))  # type: ignore[arg-type]  # floats all
        if share is not None:
            plan = self._plan(host, {SAMPLER: PROCSTAT}, None, columns)
            take({IDLE_SHARE: share.value}, plan, share.time_ms, message, columns)


class _Shares:
    """Idle shares of hosts: from the row that sums all processors, else the mean over the rows of the processors."""

    def __init__(self) -> None:
        self._whole, self._each = IdleShares(), IdleShares()

    def note(self, host: str, name: str, time_ms: int, idle: float, ticks: float) -> Share | None:
        if name == ALL:
            self._whole.note(host, name, time_ms, idle, ticks)
            return self._whole.finish(host)
        return None if self._whole.knows(host) else self._each.note(host, name, time_ms, idle, ticks)


class _Form(NamedTuple):
    """The roles of a row's columns: those that hold metrics, and those that identify the row."""

    metrics: tuple[str, ...]
    places: tuple[int, ...]  # of the metrics among the columns
    instances: tuple[str, ...]
    tasks: bool
    cray: bool
    ticks: bool  # of a processor
    loads: int  # number of load averages
    job: Kind | None

    def values(self, every: list[Any]) -> list[Any]:
        """Return the values of the metrics, in their order."""
        return [every[at] for at in self.places]


def _form(names: tuple[str, ...]) -> _Form:
    places = tuple(at for at, name in enumerate(names) if name not in NO_METRIC)
    return _Form(
        metrics=tuple(names[at] for at in places),
        places=places,
        instances=tuple(name for name in names if name == REMOTE or name.endswith(INSTANCES)),
        tasks=TASKS in names,
        cray=CRAY_COLUMNS.issubset(names),
        loads=sum(name in LOADS for name in names),
        ticks=CPU_NAME in names and all(column in names for column in CPU_TICKS),
        job=kind_of(names),
    )


def _tags(row: dict[str, _Column], form: _Form) -> dict[str, str]:
    """Return the tags that decide which records share a plan: names and numbers of parts, and the sampler."""
    tags = {name: text for name in form.instances if isinstance(text := row[name], str)}
    for name in PARTS:
        if isinstance(number := row.get(name), float) and number.is_integer():
            tags[name] = str(int(number))
    if form.tasks:
        tags[SAMPLER] = NO_JOB if _job(row) is None else PAPI
    else:
        tags[SAMPLER] = CRAY_POWER if form.cray else ""
    return tags


def _job(row: dict[str, _Column]) -> str | None:
    """Return the job that a row measures. Other samplers report only the job that started last on the host, which does not count."""
    job_id = row.get("job_id")
    return (
        str(int(job_id)) if TASKS in row and isinstance(job_id, float) and job_id.is_integer() and job_id > 0 else None
    )


def _sum(column: list[float | str | bool | None]) -> float | None:
    """Return the sum of an array of numbers; None if one is missing."""
    return sum(column) if column and {*map(type, column)} == {float} else None  # type: ignore[arg-type]  # floats all


def _row(value: bytes) -> dict[str, _Column]:
    try:
        row = _decoded(value)
    except JSON_ERRORS as error:
        raise json_error(error) from None
    if value.translate(None, _WHITESPACE).count(b'":') != len(row):
        refuse_duplicate_keys(value)
    return row


def _decoded(value: bytes) -> dict[str, _Column]:
    try:
        return _ROW.decode(value)
    except JSON_ERRORS:
        repaired = without_nan(value)  # as LDMS prints what is no number
        if repaired is None:
            raise
        return _ROW.decode(repaired)


def _time_ms(row: dict[str, _Column]) -> int:
    stamp = number_in(row.get("timestamp"))
    if stamp is None:
        raise invalid("time", "The row has no numeric timestamp.")
    return epoch_ms(stamp)


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
