"""The stages of a record: processing steps for each kind of record, and the work item that these steps share.

A stage that sends messages is a generator, which yields each message as soon as the matching state has changed. If an optional
stage fails halfway, the messages of its finished part are still sent.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from processors.alerts.policy import About
from processors.contracts.events import Attribute, Evidence, JobCompleted, Tick
from processors.contracts.hosts import HostCause
from processors.contracts.names import job_key
from processors.contracts.outputs import PredictedAtStart, SlowedBy
from processors.facts import RunFact
from processors.jobs.lifecycle import Job, Placement
from processors.pipeline.state import Outgoing, ProcessorStores, ShardState
from processors.store import Processor, Store

MayStop = Literal[False] | None
STOP: Final = False  # a stage returns STOP to end the processing of a record, such as a repeat

Run = Callable[[Any], Iterable[Outgoing] | MayStop]


class Stage(NamedTuple):
    """One processing step: a function of the work item, and the kinds of state that the function may write.

    If a stage raises, the record is refused and no message is sent; if an `optional` stage raises, only the remaining result of
    that stage is lost. A stage with stores in `waits_for` runs only if one of them has a due key or too many keys.
    """

    run: Run
    writes: frozenset[type[Processor[Any, Any]]] = frozenset()
    optional: bool = False
    waits_for: tuple[Store[Any], ...] = ()

    @property
    def name(self) -> str:
        """The name of the function, under which the faults of the stage are counted."""
        return str(getattr(self.run, "__name__", "stage"))


class Line(NamedTuple):
    """The stages of one kind of record: `begin` creates the work item of an event, and the stages run in order."""

    begin: Callable[[Any], Any]
    stages: tuple[Stage, ...]


class guard:  # noqa: N801  used like a statement, as `suppress` is
    """Context manager that catches every exception of its block: the fault is counted under `name`, and `recover` cleans up.

    In the fold, only `guard` and `attempt` catch all exceptions.
    """

    __slots__ = ("_name", "_recover", "_tally")

    def __init__(self, state: ProcessorStores, name: str, recover: Callable[[], object] | None = None) -> None:
        self._tally, self._name, self._recover = state.tally, name, recover

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> bool:
        if kind is None or not issubclass(kind, Exception):
            return False
        self._tally["fault", self._name] += 1
        if self._recover is not None:
            self._recover()
        return True


def attempt(state: ProcessorStores, name: str, do: Callable[..., object], *arguments: object) -> None:
    """Call `do` inside a `guard`."""
    try:
        do(*arguments)
    except Exception:  # noqa: BLE001  called three times a record; a `guard` would cost as much as some of the calls
        state.tally["fault", name] += 1


def stage(run: Run, *writes: type[Any]) -> Stage:
    """Return the stage that runs a function; `writes` are the kinds of state that the function may write."""
    return Stage(run, frozenset(writes))


def tick_stage(run: Run, waits_for: tuple[Store[Any], ...], *writes: type[Any]) -> Stage:
    """Return the optional stage that runs a function at ticks, if any of the stores is due or overfull."""
    return Stage(run, frozenset(writes), optional=True, waits_for=waits_for)


def run_stages(state: ShardState, line: Line, event: object) -> list[Outgoing]:
    """Pass an event through the stages of its line until a stage returns STOP; return the messages of all stages."""
    work, messages = line.begin(event), list[Outgoing]()
    for step in line.stages:
        stores = step.waits_for
        if stores and not any(store.next_due_ms <= state.now_ms or store.overfull for store in stores):
            continue
        try:
            result = step.run(work)
            if result is STOP:
                break
            if result is not None:
                messages.extend(result)  # if the stage raises, the messages that it yielded before are kept
        except Exception:
            if not step.optional:
                raise
            state.tally["fault", step.name] += 1
    return messages


@dataclass(slots=True)
class JobWork:
    """The work item of a record about one job.

    `emptied` lists the applications that lost their last run because of this record.
    """

    event: Any
    key: str
    job: Job
    emptied: list[str] = field(default_factory=list)


ReportKind = Literal["first", "repeat", "correction", "moved", "too_old"]


class RunReport(NamedTuple):
    """One report of a completed run, with all data that the stages need about the run.

    `kind` is "first" for a new run, "repeat" for a report without news, "correction" for a later report with other figures, "moved"
    if evidence that arrived after the end names another application or size, and "too_old" if the run starts before all remembered
    runs and may therefore be a repeat.

    `evidence` merges the evidence of start and completion. `fact` is None if no model can learn from the run. `content` is the
    digest by which a repeat is recognised. `former` is the placement according to the previous report; `learned_by` is the id of
    the application whose model has learned the run, None if none has.

    `attributes` distinguish builds and versions. Three fields are set only for first reports: `ln_load` is the part of ln(run time)
    that the load of the hosts explains, `cause` is the fault of a host during the run, and `predicted` is the prediction that users
    saw during the run.
    """

    kind: ReportKind
    event: JobCompleted
    evidence: Evidence
    placement: Placement
    fact: RunFact | None = None
    content: int = 0
    former: Placement | None = None
    learned_by: str | None = None
    attributes: Mapping[str, Attribute] = {}
    ln_load: float = 0.0
    cause: HostCause | None = None
    predicted: PredictedAtStart | None = None

    @property
    def about(self) -> About:
        """The evidence and run time of the run, for its alerts."""
        return About(self.evidence, self.event.run_time_s)

    @property
    def stays(self) -> bool:
        """Whether a model can learn the run, and it is the model that learned the previous report."""
        return self.fact is not None and self.placement.application_id == self.learned_by


@dataclass(slots=True)
class CompletionWork(JobWork):
    """The work item of a report of a completed run.

    `held` becomes False if the model of the former application has merged the run; then no other model may learn it.
    `slowed_by` is the faulty host that explains why the run was slow.
    """

    event: JobCompleted
    report: RunReport = field(kw_only=True)
    held: bool = True
    slowed_by: SlowedBy | None = None


@dataclass(slots=True)
class TickWork:
    """The work item of a tick; `since_ms` is the time since the previous tick."""

    event: Tick
    since_ms: int = 0


def of_job(state: ShardState, event: Any) -> JobWork:
    """Return the work item of a record about a job."""
    key = job_key(event.system, event.job_id)
    return JobWork(event, key, state.jobs.open(key))
