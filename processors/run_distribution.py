"""How long a job will hold its nodes, where no curve is known: the past runs of its user, name, class and centre.

A history is kept for each of these groups; `expected` puts them together. All runs that held their nodes are learned,
also failed ones and those that met their time limit, for a scheduler waits for them as well.
"""

import math
from collections.abc import Mapping
from typing import ClassVar, Final, Literal

import msgspec

from processors.digest import digest64, hexdigest
from processors.facts import RunFact, Scored
from processors.models.run_distribution import (
    CENTRE,
    CLASS,
    NAME,
    OVERRUN_S,
    RUNS_MAX,
    USER,
    Group,
    Job,
    Levels,
    PastRuns,
    RunTimeDistribution,
    class_of,
    distribution,
)

GroupKind = Literal["user", "name", "class", "centre"]
GROUPS: Final[dict[GroupKind, Group]] = {"user": USER, "name": NAME, "class": CLASS, "centre": CENTRE}
NEAR_LIMIT: Final = 0.95
_NAME_BITS: Final = 53  # a name's number has to be exact as a float


class ComingJob(msgspec.Struct, frozen=True):
    """What is known of a job before it runs; None for what nobody told."""

    n: float
    name: str | None = None
    user: str | None = None
    time_limit_s: float | None = None


class EndedJob(msgspec.Struct, frozen=True):
    """A run that is over."""

    run_id: str
    job: ComingJob
    run_time_s: float


class PastRun(msgspec.Struct, frozen=True, array_like=True):
    """A run as stored: digest of its id, seconds, size, number of its name, time limit in seconds."""

    run: int
    run_time_s: float
    n: float
    name: int
    time_limit_s: float | None


class RunHistoryState(msgspec.Struct, omit_defaults=True):
    """Stored form: the newest runs, newest first, and the levels of the band."""

    runs: list[PastRun] = []
    levels: tuple[float, float, float] = Levels().told


class RunHistory:
    """The newest runs of one group of jobs. The history of the centre also keeps the levels of the band.

    >>> history = RunHistory.build()
    >>> history.learn(EndedJob("a", ComingJob(n=4, user="u1"), run_time_s=100.0))
    >>> history.learn(EndedJob("a", ComingJob(n=4, user="u1"), run_time_s=100.0))  # a repeat
    >>> history.score(ComingJob(n=4)).run_times_s()
    [100.0]
    """

    name: ClassVar[str] = "run_history"
    version: ClassVar[int] = 1

    def __init__(self, state: RunHistoryState) -> None:
        self._runs = list(state.runs)
        self._held = {run.run for run in state.runs}
        self._levels = Levels(*state.levels)
        self._past = PastRuns()
        for run in reversed(self._runs):
            self._past.add(Job(run.n, run.name, run.time_limit_s), run.run_time_s)

    @classmethod
    def build(cls, state: RunHistoryState | None = None) -> "RunHistory":
        """Return the history of a stored state, or an empty one."""
        return cls(state or RunHistoryState())

    @property
    def levels(self) -> tuple[float, float, float]:
        """The levels that .05, .9 and .95 of the runs keep below."""
        return self._levels.told

    def score(self, fact: ComingJob) -> PastRuns:  # noqa: ARG002  # how much each run counts is decided in `expected`
        """Return what is known for a job of this group."""
        return self._past

    def learn(self, fact: EndedJob) -> None:
        """Take a run in; one that is held under the same id is replaced. ValueError where its numbers can not be true."""
        job = model_job(fact.job)
        entry = PastRun(digest64(fact.run_id), fact.run_time_s, job.n, job.name, job.time_limit_s)
        if entry.run in self._held:
            self._correct(entry, job)
            return
        self._past.add(job, fact.run_time_s)
        self._runs.insert(0, entry)
        self._held.add(entry.run)
        if len(self._runs) > RUNS_MAX:
            self._held.remove(self._runs.pop().run)

    def note(self, run_time_s: float, told: "Expected") -> None:
        """Remember whether a run kept to the band that was told before it; each run once."""
        self._levels.note(run_time_s, (told.low_s, told.upper_s, told.high_s))

    def due_ms(self) -> int | None:
        """Return None: a history changes by runs only."""
        return None

    def snapshot(self) -> RunHistoryState:
        """Return the stored form."""
        return RunHistoryState(list(self._runs), self._levels.told)

    def _correct(self, entry: PastRun, job: Job) -> None:
        index = next(i for i, run in enumerate(self._runs) if run.run == entry.run)
        self._past.replace(index, job, entry.run_time_s)
        self._runs[index] = entry


class Expected(msgspec.Struct, frozen=True):
    """What is expected of a job, in seconds: the median and the ends of a band that holds 90 % of the runs.

    90 % of the runs are shorter than `upper_s`. About `alike` runs like it are known, `law` is the distribution as it
    comes from them alone.
    """

    run_time_s: float
    low_s: float
    upper_s: float
    high_s: float
    alike: float
    law: RunTimeDistribution


def group_keys(system: str, job: ComingJob) -> dict[GroupKind, str]:
    """Return the keys of the histories that a job belongs to, the most alike first. Names are digested.

    >>> list(group_keys("archer2", ComingJob(n=4, user="u1")))
    ['user', 'class', 'centre']
    """
    parts: dict[GroupKind, str | None] = {"user": job.user, "name": job.name, "class": _class_name(job), "centre": ""}
    return {kind: f"{kind}/{hexdigest(system, part)}" for kind, part in parts.items() if part is not None}


def expected(job: ComingJob, histories: Mapping[GroupKind, RunHistory]) -> Expected:
    """Return the distribution of a job's run time; works without any history. ValueError for an impossible size.

    >>> history = RunHistory.build()
    >>> for i in range(20): history.learn(EndedJob(f"{i}", ComingJob(n=4), run_time_s=90.0 + i))
    >>> told = expected(ComingJob(n=4), {"user": history})
    >>> 95 < told.run_time_s < 105, 80 < told.low_s < 100 < told.high_s
    (True, True)
    """
    past = [(GROUPS[kind], history.score(job)) for kind, history in histories.items()]
    law = distribution(past, model_job(job))
    levels = histories["centre"].levels if "centre" in histories else Levels().told
    run_time_s, low_s, upper_s, high_s = law.quantiles((0.5, *levels))
    limit_s = job.time_limit_s
    if limit_s is not None and high_s > NEAR_LIMIT * limit_s:  # a run that gets so far may also meet its limit
        high_s = max(high_s, limit_s + OVERRUN_S)
    return Expected(run_time_s, low_s, upper_s, max(high_s, upper_s), law.alike, law)


def scored(run: RunFact, told: Expected) -> Scored:
    """Return how a run compares with what was told of it, in the form that drift is found from.

    >>> history = RunHistory.build()
    >>> for i in range(20): history.learn(EndedJob(f"{i}", ComingJob(n=4), run_time_s=90.0 + i))
    >>> told = expected(ComingJob(n=4), {"user": history})
    >>> scored(RunFact("r", n=4, run_time_s=100.0, start_ms=0, end_ms=1, seen_ms=1), told).inside
    True
    """
    ln_width = math.log(told.high_s) - math.log(told.low_s)
    return Scored(
        run=run,
        expected_s=told.run_time_s,
        low_s=told.low_s,
        high_s=told.high_s,
        ln_ratio=math.log(run.run_time_s) - math.log(told.run_time_s),
        half_width=max(ln_width / 2, 1e-6),
        inside=told.low_s <= run.run_time_s <= told.high_s,
        horizon="inside",
        observations=int(told.alike),
    )


def model_job(job: ComingJob) -> Job:
    """Return a job as the model wants it: its name as a number, 0 for none.

    >>> model_job(ComingJob(n=4)).name
    0
    """
    name = 0 if job.name is None else digest64(job.name) >> (64 - _NAME_BITS)
    return Job(float(job.n), name, job.time_limit_s)


def _class_name(job: ComingJob) -> str:
    limit, size = class_of(model_job(job))
    return f"{limit},{size}"
