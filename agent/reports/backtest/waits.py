"""The value of run time predictions to a scheduler: the wait times of the jobs of a log under simulated EASY backfilling.

The simulation runs several times, each time with another source of run time estimates: the requested limits, the mean of each
user's last two jobs, the predictions of Scalewatch, and the real run times. Only the scheduler's estimates differ.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Final, NamedTuple

import msgspec

from agent.reports.backtest.easy import Estimates, Machine, Order, Perfect, QueuedJob, Requested, Start
from agent.reports.backtest.scores import LastTwo
from processors.contracts.errors import ConfigError
from processors.contracts.events import UNITS, JobCompleted
from processors.contracts.names import rfc3339

REQUESTED: Final = "requested"
LAST_TWO: Final = "last_two"
PREDICTED: Final = "predicted"
PERFECT: Final = "perfect"
ORDERS: Final[tuple[Order, ...]] = ("first_come", "shortest_first")
SOURCES: Final = (REQUESTED, LAST_TWO, PREDICTED, PERFECT)
PLAYS: Final = len(ORDERS) * len(SOURCES)
PERIODS: Final = 24
JOBS_OF_PERIOD: Final = 200
CORRECTIONS_S: Final = tuple(60.0 * minutes for minutes in (1, 5, 15, 30, 60, 120, 300, 600, 1200, 3000, 6000))
SHORT_S: Final = 10.0  # a shorter job counts as long as this in its slowdown: else a job of a second decides the mean

OnProgress = Callable[[int], None]


class Waits(msgspec.Struct, frozen=True, kw_only=True):
    """The wait times of the jobs of a log with one source of run time estimates.

    `order` is the order of backfilling: by submission, or shortest job first. The bounded slowdown of a job is
    (wait + run time) / run time, with a run time of at least SHORT_S, and at least 1. `too_short` is the share of jobs
    that ran longer than estimated.
    """

    source: str
    order: Order
    wait_mean_s: float
    wait_median_s: float
    wait_p95_s: float
    bounded_slowdown: float
    utilisation: float
    too_short: float


class WaitPeriod(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs submitted in one period: their mean wait in seconds by source, backfilled in order of submission."""

    start: str
    end: str
    jobs: int
    wait_mean_s: dict[str, float]


class Scheduling(msgspec.Struct, frozen=True, kw_only=True):
    """The wait times of a log with each source of run time estimates, on a machine of `size` in `unit`.

    `offered` is the offered load: the share of the machine that the jobs would fill from the first submission to the last.
    `left_out` counts jobs excluded from the simulation, by reason. `scored` of the `jobs` were scored: the others were submitted
    before the scored time.
    """

    unit: str
    size: float
    size_given: bool
    jobs: int
    scored: int
    offered: float
    left_out: dict[str, int]
    waits: tuple[Waits, ...]
    periods: tuple[WaitPeriod, ...]


class Queue(NamedTuple):
    """The jobs of a log in order of submission, and the size of their machine."""

    jobs: tuple[QueuedJob, ...]
    unit: str
    size: float
    size_given: bool
    left_out: dict[str, int]


class LastTwoJobs:
    """Estimates by the mean run time of the last two jobs of each user; the requested limit for a user's first job.

    A job that exceeds its estimate gets CORRECTIONS_S more, indexed by the number of earlier overruns, after Tsafrir, Etsion and
    Feitelson (2007).
    """

    def __init__(self) -> None:
        self._known = LastTwo()

    def submitted(self, job: QueuedJob, now_s: float) -> float:  # noqa: ARG002
        """Return the estimated run time of a job in s."""
        return self._known.baseline(job.event.system, job.event.evidence).last_two or job.limit_s

    def overrun(self, job: QueuedJob, ran_s: float, times: int) -> float:  # noqa: ARG002
        """Return the raised estimate of a job that exceeded its estimate, in s."""
        return ran_s + CORRECTIONS_S[min(times, len(CORRECTIONS_S) - 1)]

    def ended(self, job: QueuedJob, start_s: float, end_s: float) -> None:
        """Learn the run time of a job that has ended."""
        self._known.learn(job.event.system, job.event.evidence, end_s - start_s)


def queue_of(completed: Iterable[JobCompleted], size: float | None) -> Queue:
    """Return the jobs of a log for a machine of `size`; the default size is the peak use in the log.

    Raise ConfigError if no job has a time limit, or if the log covers several systems, because each has its own machine.
    """
    ran = [event for event in completed if event.run_time_s > 0]
    systems = sorted({event.system for event in ran})
    if len(systems) > 1:
        raise ConfigError(
            f"The log is of several systems ({', '.join(systems[:5])}); give one at a time to --scheduler."
        )
    unit = max(UNITS, key=lambda name: sum(name in event.evidence.sizes for event in ran))
    left_out: dict[str, int] = {}
    jobs = []
    used = size if size is not None else _used_at_once(ran, unit)
    for event in ran:
        reason = _unfit(event, unit, used)
        if reason is None:
            jobs.append(_queued(event, unit))
        else:
            left_out[reason] = left_out.get(reason, 0) + 1
    if not jobs:
        raise ConfigError("No job of the files tells its size and time limit, so no scheduler can be played with them.")
    jobs.sort(key=lambda job: (job.submit_s, job.event.job_id))
    return Queue(tuple(jobs), unit, used, size is not None, left_out)


def scheduling(
    queue: Queue,
    predicted: Callable[[], Estimates],
    since_ms: int | None = None,
    on_progress: OnProgress = lambda _: None,
) -> Scheduling:
    """Return the wait times with each source of estimates; jobs submitted before `since_ms` are simulated but not scored.

    `predicted` creates fresh Scalewatch estimates for each simulation, because the learned state depends on when jobs end.
    """
    sources: dict[str, Callable[[], Estimates]] = {
        REQUESTED: Requested, LAST_TWO: LastTwoJobs, PREDICTED: predicted, PERFECT: Perfect,
    }  # fmt: skip
    since_s = since_ms / 1000 if since_ms is not None else queue.jobs[0].submit_s
    waits: list[Waits] = []
    by_source: dict[str, list[Start]] = {}
    for order in ORDERS:
        for source, make in sources.items():
            on_progress(len(waits) * len(queue.jobs))
            starts = list(Machine(queue.size, order).run(queue.jobs, make()))
            scored = [start for start in starts if start.job.submit_s >= since_s]
            if not scored:
                raise ConfigError("No job was submitted in the time that is scored.")
            waits.append(_waits(source, order, scored, starts, queue.size))
            if order == ORDERS[0]:
                by_source[source] = scored
    jobs = queue.jobs
    offered = (
        sum(job.nodes * job.run_time_s for job in jobs) / queue.size / max(jobs[-1].submit_s - jobs[0].submit_s, 1.0)
    )
    return Scheduling(
        unit=queue.unit, size=queue.size, size_given=queue.size_given, jobs=len(jobs), scored=len(by_source[PERFECT]),
        offered=offered, left_out=dict(sorted(queue.left_out.items())), waits=tuple(waits), periods=_periods(by_source),
    )  # fmt: skip


def _unfit(event: JobCompleted, unit: str, size: float) -> str | None:
    """Return the reason to exclude a job from the simulation; None to include it."""
    nodes, limit_s = event.evidence.sizes.get(unit), event.evidence.time_limit_s
    if not nodes or nodes <= 0:
        return "no-size"
    if nodes > size:
        return "larger-than-the-machine"
    return None if limit_s is not None and limit_s > 0 else "no-limit"


def _queued(event: JobCompleted, unit: str) -> QueuedJob:
    evidence = event.evidence
    submit_ms = event.start_ms if evidence.submit_ms is None else min(evidence.submit_ms, event.start_ms)
    limit_s = max(evidence.time_limit_s or 0.0, event.run_time_s)
    return QueuedJob(submit_ms / 1000, evidence.sizes[unit], event.run_time_s, limit_s, event)


def _used_at_once(ran: Sequence[JobCompleted], unit: str) -> float:
    """Return the peak use of the machine by the jobs of the log."""
    changes: list[tuple[int, float]] = []
    for event in ran:
        nodes = event.evidence.sizes.get(unit, 0.0)
        changes += [(event.start_ms, nodes), (event.start_ms + round(event.run_time_s * 1000), -nodes)]
    held = most = 0.0
    for _, nodes in sorted(changes):
        held += nodes
        most = max(most, held)
    return most


def _waits(source: str, order: Order, scored: Sequence[Start], starts: Sequence[Start], size: float) -> Waits:
    found = sorted(start.start_s - start.job.submit_s for start in scored)
    ends = [start.start_s + start.job.run_time_s for start in starts]
    worked = sum(start.job.nodes * start.job.run_time_s for start in starts)
    return Waits(
        source=source,
        order=order,
        wait_mean_s=fmean(found),
        wait_median_s=found[len(found) // 2],
        wait_p95_s=found[min(int(0.95 * len(found)), len(found) - 1)],
        bounded_slowdown=fmean(_bounded_slowdown(start) for start in scored),
        utilisation=worked / size / max(max(ends) - starts[0].job.submit_s, 1.0),
        too_short=sum(start.expected_s < start.job.run_time_s for start in scored) / len(scored),
    )


def _bounded_slowdown(start: Start) -> float:
    run_time_s = start.job.run_time_s
    return max((start.start_s - start.job.submit_s + run_time_s) / max(run_time_s, SHORT_S), 1.0)


def _periods(by_source: dict[str, list[Start]]) -> tuple[WaitPeriod, ...]:
    """Return the mean waits over time, in periods with equal numbers of jobs that are the same for each source."""
    submitted = sorted(start.job.submit_s for start in by_source[PERFECT])
    count = max(1, min(PERIODS, len(submitted) // JOBS_OF_PERIOD))
    edges = [submitted[len(submitted) * place // count] for place in range(count)]
    edges = [*dict.fromkeys(edges), submitted[-1] + 1.0]
    found = []
    for low_s, high_s in pairwise(edges):
        waits = {
            source: [start.start_s - start.job.submit_s for start in starts if low_s <= start.job.submit_s < high_s]
            for source, starts in by_source.items()
        }
        found.append(
            WaitPeriod(
                start=rfc3339(round(low_s * 1000)), end=rfc3339(round(high_s * 1000)), jobs=len(waits[PERFECT]),
                wait_mean_s={source: fmean(each) for source, each in waits.items()},
            )
        )  # fmt: skip
    return tuple(found)
