"""What happened of late, as readers see it: runs that settled, messages that could not be used, sources that speak."""

from collections.abc import Sequence
from typing import Protocol

import msgspec


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What was predicted of a run before it ended: its run time with the band, in seconds, and how far to trust it.

    `coverage` is what the band aims at, `source` where the figures came from: "curve", "similar_runs", "features" or
    "other_inputs".

    >>> Told(run_time_s=100.0, low_s=90.0, high_s=110.0, coverage=0.9, verdict="reliable", source="curve").holds(95.0)
    True
    """

    run_time_s: float
    low_s: float
    high_s: float
    coverage: float
    verdict: str
    source: str

    def holds(self, run_time_s: float) -> bool:
        """Tell whether a run time lies inside the band."""
        return self.low_s <= run_time_s <= self.high_s


class RecentRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that settled of late. `user` is as the journal has it: a pseudonym, unless names are configured to be plain.

    `told` is what was predicted of it, None where nothing was; power and energy are those of all its hosts together.

    >>> RecentRun(run_id="exa/1@0", system="exa", job_id="1", application_id=None, n=8.0, start_ms=0, end_ms=60_000,
    ...           run_time_s=60.0, state="COMPLETED").told is None
    True
    """

    run_id: str
    system: str
    job_id: str
    application_id: str | None
    n: float | None
    start_ms: int
    end_ms: int
    run_time_s: float
    state: str
    user: str | None = None
    time_limit_s: float | None = None
    told: Told | None = None
    power_w: float | None = None
    energy_j: float | None = None


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """A message that became a dead letter: when, why, and where it lies. Its bytes are not shown.

    >>> Letter(time_ms=0, reason="not-json", detail="", topic="slurm", partition=0, offset=7).offset
    7
    """

    time_ms: int
    reason: str
    detail: str
    topic: str
    partition: int
    offset: int


class SourceSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A raw topic whose events the learner has folded since it started: how many, and the newest event's time.

    >>> SourceSeen(topic="slurm", events=3, newest_ms=60_000).events
    3
    """

    topic: str
    events: int
    newest_ms: int


class RecentThings(Protocol):
    """Reads of what happened of late, all of them bounded, newest first; safe from any thread."""

    def runs(self, application_id: str) -> Sequence[RecentRun]:
        """Return the newest settled runs of an application."""

    def runs_of_job(self, system: str, job_id: str) -> Sequence[RecentRun]:
        """Return the settled runs of a job; a requeued one has several."""

    def letters(self) -> Sequence[Letter]:
        """Return the newest dead letters of the whole agent."""

    def sources(self) -> Sequence[SourceSeen]:
        """Return the sources, the one that spoke last first."""
