"""Jobs in LDMS: rows of `slurm_sampler2` and `linux_proc_sampler`, and messages of `slurm_notifier`.

Source: `slurm_sampler2.c`, `linux_proc_sampler.c` and `slurm_notifier.c` of ovis-hpc/ldms.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec

from agent.decode.fields import PATH_MAX, TEXT_MAX, free_text, sizes_of
from agent.decode.message import JSON_ERRORS, DecodeOptions, json_error
from agent.decode.telemetry.columns import Columns
from processors.contracts.events import Decoded, Evidence, Identity

Kind = Literal["job", "process"]
"""What a row is about: a job of the host, or one of its processes."""

JOB_SOURCE: Final = "ldms"
PROCESS_SOURCE: Final = "ldms-process"
JOB_LIST: Final = "job_list."  # before the columns of a row of the set as it is
TAG: Final = "job_tag"
JOBS_MAX: Final = 100_000  # of which it is remembered what was told
JOB_COLUMNS: Final = ("job_id", "job_name", TAG, "user", "node_count", "job_size")
PROCESS_COLUMNS: Final = ("exe", "task_rank", "is_thread")
TICKS: Final = ("stat_utime", "stat_stime")
STEP: Final = "slurm_step_data"
_NOTICE: Final = re.compile(rb'\s*\{\s*"schema"\s*:\s*"slurm_(?:job|step|task)_data"')


def is_notice(value: bytes) -> bool:
    """Return whether a message is from `slurm_notifier`, by its first bytes.

    >>> is_notice(b'{"schema":"slurm_step_data","event":"step_init"')
    True
    """
    return _NOTICE.match(value) is not None


def kind_of(names: tuple[str, ...]) -> Kind | None:
    """Return the kind of job row that has these columns; None for measurements of a host.

    >>> kind_of(("timestamp", "job_list.job_id", "job_list.job_name")), kind_of(("timestamp", "load1min"))
    ('job', None)
    """
    if "job_name" in names or f"{JOB_LIST}job_name" in names:
        return "job"
    return "process" if all(name in names for name in PROCESS_COLUMNS) else None


class Jobs:
    """The jobs of rows. Rows repeat with every sample, so a job is reported only when something new is known.

    >>> from processors.contracts.telemetry import SeriesIndex
    >>> jobs, columns = Jobs(DecodeOptions(default_system="exa")), Columns([0], SeriesIndex(9))
    >>> row = {"job_id": 812.0, "app_id": 0.0, "job_name": "gmx", "user": "alice", "node_count": 4.0, "job_size": 64.0}
    >>> jobs.take("job", row, 0, columns)
    >>> evidence = columns.others[0][1].events[0].evidence
    >>> evidence.job_name, evidence.sizes
    ('gmx', {'nodes': 4.0, 'processes': 64.0})
    """

    def __init__(self, options: DecodeOptions) -> None:
        self._options = options
        self._reported: dict[tuple[str, str], Evidence] = {}
        self._ticks: dict[str, float] = {}

    def take(self, kind: Kind, row: Mapping[str, Any], message: int, columns: Columns) -> None:
        """Add a row. A row without a job or without news is counted. Raise InvalidInputError if the row does not fit its kind."""
        prefix = JOB_LIST if kind == "job" and f"{JOB_LIST}job_name" in row else ""
        job_id = _number(row.get(f"{prefix}job_id"))
        if not job_id:
            columns.ignore("no-job")
        elif kind == "process":
            self._take_process(str(int(job_id)), row, message, columns)
        else:
            named = {name: row.get(f"{prefix}{name}") for name in JOB_COLUMNS}
            sizes = {"nodes": _number(named["node_count"]), "processes": _number(named["job_size"])}
            self._take_job(str(int(job_id)), named, sizes, message, columns)

    def take_notice(self, value: bytes, message: int, columns: Columns) -> None:
        """Add a message of `slurm_notifier`: the start of a step names the job; other messages are counted."""
        try:
            event = _EVENT.decode(value)
        except JSON_ERRORS as error:
            raise json_error(error) from None
        if event.schema != STEP or event.event != "step_init" or not event.data.job_id:
            columns.ignore("event")
            return
        data, tags = event.data, event.data.subscriber_data
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
            columns.ignore("no-step")  # a job has neither before its first step
        else:
            self._report(JOB_SOURCE, job_id, evidence, message, columns)

    def _take_process(self, job_id: str, row: Mapping[str, Any], message: int, columns: Columns) -> None:
        executable = _text(row["exe"], PATH_MAX)
        if executable is None:
            columns.ignore("no-program")
            return
        ticks = sum(_number(row.get(name)) or 0.0 for name in TICKS)
        known = self._reported.get((PROCESS_SOURCE, job_id))
        if known is not None and (known.executable == executable or ticks <= self._ticks.get(job_id, 0.0)):
            if known.executable == executable:
                self._ticks[job_id] = max(ticks, self._ticks.get(job_id, 0.0))
            columns.ignore("repeat" if known.executable == executable else "smaller-process")
            return
        if len(self._ticks) >= JOBS_MAX and job_id not in self._ticks:
            del self._ticks[next(iter(self._ticks))]
        self._ticks[job_id] = ticks
        self._report(PROCESS_SOURCE, job_id, Evidence(executable=executable), message, columns)

    def _report(self, source: str, job_id: str, evidence: Evidence, message: int, columns: Columns) -> None:
        if self._reported.get((source, job_id)) == evidence:
            columns.ignore("repeat")
            return
        system = self._options.system_of(None)
        if len(self._reported) >= JOBS_MAX and (source, job_id) not in self._reported:  # the oldest, which is long over
            del self._reported[next(iter(self._reported))]
        self._reported[source, job_id] = evidence
        identity = Identity(system=system, job_id=job_id, source=source, evidence=evidence)
        columns.other(message, Decoded(events=[identity]))


def _largest(known: dict[str, float], sizes: dict[str, float]) -> dict[str, float]:
    """Return the sizes of the largest step: a step may use a part of its job."""
    return {
        unit: max(known.get(unit, 0.0), sizes.get(unit, 0.0))
        for unit in ("nodes", "processes")
        if unit in known | sizes
    }


def _number(value: object) -> float | None:
    """Return an integer above 0; None otherwise, because LDMS writes 0 for unknown values."""
    return value if isinstance(value, float) and value.is_integer() and 0.0 < value < 2.0**63 else None


def _text(value: object, length_max: int = TEXT_MAX) -> str | None:
    return free_text(value, length_max) if isinstance(value, str) else None


class _Data(msgspec.Struct, gc=False):
    job_id: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0
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
