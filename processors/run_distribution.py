"""How long a job will hold its nodes, where no curve is known: the past runs of its user, name, class and centre.

A history is kept for each of these groups; `expected` puts them together. All runs that held their nodes are learned,
also failed ones and those that met their time limit, for a scheduler waits for them as well.
"""

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import ClassVar, Final, Literal

import msgspec
import numpy as np

from processors.digest import digest64, hexdigest
from processors.facts import RunFact, Scored
from processors.models.past_runs import NAMES_MAX, RUNS_MAX, Job, PastRuns, class_of
from processors.models.run_distribution import (
    CENTRE,
    CLASS,
    NAME,
    OVERRUN_S,
    USER,
    Group,
    Levels,
    RunTimeDistribution,
    distribution,
)
from processors.pace import Pace, counted, due

GroupKind = Literal["user", "name", "class", "centre"]
GROUPS: Final[dict[GroupKind, Group]] = {"user": USER, "name": NAME, "class": CLASS, "centre": CENTRE}
KEPT_MAX: Final[dict[GroupKind, int]] = {"user": RUNS_MAX, "name": 28, "class": RUNS_MAX, "centre": RUNS_MAX}
NEAR_LIMIT: Final = 0.95
SCORED_MIN: Final = 20.0
SCORED_PER_TICK: Final = 100  # runs of a centre that its band is scored by; more would not tell more
_FORGETTING: Final = 0.995  # of the share of runs inside the band: about the newest 200
_ID_BYTES: Final = 4
_REMEMBERED: Final = 4096  # jobs: the same are run again and again, and asked about by all their groups


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


class RunHistoryState(msgspec.Struct, omit_defaults=True):
    """Stored form, newest run first: digests of run ids, 4 bytes each, and the packed runs.

    `levels` are those of the band, `band` how many runs it was scored by and how many it held, the old ones forgotten,
    `pace` the last tick and how many were scored since.
    """

    ids: bytes = b""
    runs: bytes = b""
    levels: tuple[float, float, float] = Levels().told
    band: tuple[float, float] = (0.0, 0.0)
    pace: Pace = (0, 0)


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
        self._ids = list(np.frombuffer(state.ids, dtype="<u4").tolist())
        self._past = PastRuns(state.runs)
        self._levels = Levels(*state.levels)
        self._scored, self._inside = state.band
        self._pace = state.pace

    @classmethod
    def build(cls, state: RunHistoryState | None = None) -> "RunHistory":
        """Return the history of a stored state, or an empty one."""
        return cls(state or RunHistoryState())

    @property
    def count(self) -> int:
        """How many runs are held."""
        return self._past.count

    @property
    def levels(self) -> tuple[float, float, float]:
        """The levels that .05, .9 and .95 of the runs keep below."""
        return self._levels.told

    @property
    def coverage(self) -> float | None:
        """The share of late of runs that kept to the band told before; None before SCORED_MIN were scored."""
        return self._inside / self._scored if self._scored >= SCORED_MIN else None

    def score(self, fact: ComingJob) -> PastRuns:  # noqa: ARG002  # how much each run counts is decided in `expected`
        """Return what is known for a job of this group."""
        return self._past

    def learn(self, fact: EndedJob, kept_max: int = RUNS_MAX) -> None:
        """Take a run in; one that is held under the same id is replaced. ValueError where its numbers can not be true."""
        if self.correct(fact):
            return
        self._past.add(model_job(fact.job), fact.run_time_s, kept_max)
        self._ids.insert(0, _short(fact.run_id))
        del self._ids[kept_max:]

    def correct(self, fact: EndedJob) -> bool:
        """Replace a run that is held under the same id; False where it is not. Errors as `learn`."""
        short = _short(fact.run_id)
        if short not in self._ids:
            return False
        self._past.replace(self._ids.index(short), model_job(fact.job), fact.run_time_s)
        return True

    def forget(self, run_id: str) -> bool:
        """Take a run away; False where it is not held."""
        short = _short(run_id)
        if short not in self._ids:
            return False
        self._past.remove(self._ids.index(short))
        self._ids.remove(short)
        return True

    def wants(self, now_ms: int) -> bool:
        """Tell whether one more run is to be scored; `now_ms` is the time of the last tick."""
        return due(self._pace, now_ms, SCORED_PER_TICK)

    def note(self, run_time_s: float, told: "Expected", now_ms: int = 0) -> None:
        """Remember whether a run kept to the band that was told before it; each run once."""
        self._pace = counted(self._pace, now_ms)
        self._levels.note(run_time_s, (told.low_s, told.upper_s, told.high_s))
        inside = told.low_s <= run_time_s <= told.high_s
        self._scored = round(_FORGETTING * self._scored + 1.0, 6)
        self._inside = round(_FORGETTING * self._inside + inside, 6)

    def due_ms(self) -> int | None:
        """Return None: a history changes by runs only."""
        return None

    def snapshot(self) -> RunHistoryState:
        """Return the stored form."""
        ids = np.array(self._ids, dtype="<u4").tobytes()
        return RunHistoryState(ids, self._past.packed(), self._levels.told, (self._scored, self._inside), self._pace)


class Expected(msgspec.Struct, frozen=True):
    """What is expected of a job, in seconds: the median and the ends of a band that holds 90 % of the runs.

    90 % of the runs are shorter than `upper_s`. About `alike` runs like it are known, `law` is the distribution as it
    comes from them alone, and `ends` are the levels of the low end, the median and the high end there.
    """

    run_time_s: float
    low_s: float
    upper_s: float
    high_s: float
    alike: float
    law: RunTimeDistribution
    ends: tuple[float, float, float]


def name_key(system: str, name: str) -> str:
    """Return the key of the history of a name.

    >>> name_key("exa", "lammps") in group_keys("exa", ComingJob(n=4, name="lammps")).values()
    True
    """
    return f"name/{hexdigest(system, name)}"


@lru_cache(maxsize=_REMEMBERED)
def group_keys(system: str, job: ComingJob) -> Mapping[GroupKind, str]:
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
    low, upper, high = levels
    run_time_s, low_s, upper_s, high_s = law.quantiles((0.5, low, upper, high))
    limit_s = job.time_limit_s
    if limit_s is not None and high_s > NEAR_LIMIT * limit_s:  # a run that gets so far may also meet its limit
        high_s = max(high_s, limit_s + OVERRUN_S)
    return Expected(run_time_s, low_s, upper_s, max(high_s, upper_s), law.alike, law, (low, 0.5, high))


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


@lru_cache(maxsize=_REMEMBERED)
def model_job(job: ComingJob) -> Job:
    """Return a job as the model wants it: its name as a number, 0 for none.

    >>> model_job(ComingJob(n=4)).name
    0
    """
    name = 0 if job.name is None else digest64(job.name) % NAMES_MAX
    return Job(float(job.n), name, job.time_limit_s)


def _short(run_id: str) -> int:
    return digest64(run_id) % 256**_ID_BYTES


def _class_name(job: ComingJob) -> str:
    limit, size = class_of(model_job(job))
    return f"{limit},{size}"
