"""Stages: the steps that a kind of record goes through, and what they hand on to each other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from processors.contracts.events import JobCompleted, Tick
from processors.contracts.names import job_key
from processors.facts import RunFact
from processors.jobs.deduplication import SeenRun
from processors.jobs.lifecycle import Job, Placement
from processors.pipeline.state import ShardState
from processors.store import Processor

UNPLACED: Final = Placement(None, None, "none", 0.0)
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
        """The name of the step, for the count of its faults."""
        return str(getattr(self.run, "__name__", "stage"))


class Line(NamedTuple):
    """The way of one kind of record: what its work starts from, and its stages in order."""

    begin: Callable[[Any], Any]
    stages: tuple[Stage, ...]


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
        with state.guard(each.name):
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

    `known` is what is remembered of an earlier report, `before` what the run was taken for then; both None for a first report.
    """

    event: JobCompleted
    known: SeenRun | None = None
    before: Placement | None = None
    placement: Placement = UNPLACED
    fact: RunFact | None = None
    content: int = 0

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
    return CompletionWork(event, key, state.jobs.open(key))
