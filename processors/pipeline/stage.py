"""Stages: the steps that a kind of record goes through, and what they hand on to each other."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from processors.contracts.events import Evidence, JobCompleted, Tick
from processors.contracts.names import job_key
from processors.contracts.outputs import SlowedBy
from processors.facts import RunFact
from processors.jobs.deduplication import KnownRun
from processors.jobs.lifecycle import Job, Placement, merged_evidence
from processors.pipeline.state import ShardState
from processors.store import Processor

UNPLACED: Final = Placement(None, None, "none", 0.0)
NO_EVIDENCE: Final = Evidence()
STOP: Final = False  # what a stage returns to end the way of its record: a repeat, or one that is refused


class Stage(NamedTuple):
    """One step: what it does with the work, and the kinds of state that it may write.

    A step that fails refuses its record, with all that was to be sent because of it; an `optional` one costs its own result.
    """

    run: Callable[[Any], bool | None]
    writes: frozenset[type[Processor[Any, Any]]] = frozenset()
    optional: bool = False

    @property
    def name(self) -> str:
        """The name under which faults of the step are counted: its own."""
        return str(getattr(self.run, "__name__", "stage"))


class Line(NamedTuple):
    """The way of one kind of record: what its work starts from, and its stages in order."""

    begin: Callable[[Any], Any]
    stages: tuple[Stage, ...]


class Counted(Protocol):
    """State that counts what happens to it."""

    tally: Counter[tuple[str, str]]


class guard:  # noqa: N801  reads as the statement that it is
    """Runs a part of the work whose failure costs its own result alone: the fault is counted, and `recover` mends what is left.

    With `attempt` it is the one place of the fold where any exception is caught; `name` is the processor whose fault it is.
    """

    __slots__ = ("_name", "_recover", "_tally")

    def __init__(self, state: Counted, name: str, recover: Callable[[], object] | None = None) -> None:
        self._tally, self._name, self._recover = state.tally, name, recover

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> bool:
        if kind is None or not issubclass(kind, Exception):
            return False
        self._tally["fault", self._name] += 1
        if self._recover is not None:
            self._recover()
        return True


def attempt(state: Counted, name: str, do: Callable[..., object], *given: object) -> None:
    """Do one part of the work, as under a `guard`: what it raises costs what it would have found, and nothing else."""
    try:
        do(*given)
    except Exception:  # noqa: BLE001  it is done thrice for each record, and a guard takes as long as some of what it guards
        state.tally["fault", name] += 1


def stage(run: Callable[[Any], bool | None], *writes: type[Any], optional: bool = False) -> Stage:
    """Declare a step with the kinds of state that it may write."""
    return Stage(run, frozenset(writes), optional)


def run_stages(state: ShardState, stages: Sequence[Stage], work: object) -> None:
    """Take a record through its stages, until one of them stops it."""
    for each in stages:
        if not each.optional:
            if each.run(work) is STOP:
                return
            continue
        with guard(state, each.name):
            if each.run(work) is STOP:
                return


@dataclass(slots=True)
class JobWork:
    """A record about one job, and the job as it is known."""

    event: Any
    key: str
    job: Job


@dataclass(slots=True)
class CompletionWork(JobWork):
    """A completed run: what it was reported as before, what it is taken for now, and what its model learns of it.

    `evidence` is that of its start and its completion. `known` is what is remembered of an earlier report, `before` what the run was taken for then; both None for a first report.
    `ln_load` is what the load of its hosts explains of its run time, `slowed_by` the odd host that explains why it was slow.
    """

    event: JobCompleted
    evidence: Evidence = NO_EVIDENCE
    known: KnownRun | None = None
    before: Placement | None = None
    placement: Placement = UNPLACED
    fact: RunFact | None = None
    content: int = 0
    ln_load: float = 0.0
    slowed_by: SlowedBy | None = None

    @property
    def first(self) -> bool:
        """Whether this is the first report of the run."""
        return self.known is None


@dataclass(slots=True)
class TickWork:
    """A tick, and the time since the last one."""

    event: Tick
    since_ms: int = 0


def of_job(state: ShardState, event: Any) -> JobWork:
    """Begin the work on a record about a job."""
    key = job_key(event.system, event.job_id)
    return JobWork(event, key, state.jobs.open(key))


def of_completion(state: ShardState, event: JobCompleted) -> CompletionWork:
    """Begin the work on a completed run."""
    key = job_key(event.system, event.job_id)
    job = state.jobs.open(key)
    return CompletionWork(event, key, job, merged_evidence(job, event))
