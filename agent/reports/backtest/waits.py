"""The value of run time predictions to a scheduler: the waits of the jobs of a log under EASY backfilling.

The log is simulated several times, each time with other expected run times: the requested times, the mean of each user's last two
jobs, Scalewatch's predictions, and the real run times. Jobs start in the order of arrival. If the first job of the queue does not
fit, it gets a reservation for the moment by which enough nodes are expected to be free; other jobs start earlier if they do not
delay it. A job runs as long as in the log; when it exceeds its expected run time, the expectation is extended.

Source: Lifka, "The ANL/IBM SP scheduling system" (1995); Mu'alem, Feitelson, "Utilization, predictability, workloads, and
user runtime estimates in scheduling the IBM SP2 with backfilling" (2001); extended expectations and filling gaps with the shortest
job first are from Tsafrir, Etsion, Feitelson, "Backfilling using system-generated predictions rather than user runtime
estimates" (2007).
"""

import heapq
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from statistics import fmean
from typing import Final, Literal, NamedTuple, Protocol

import msgspec

from agent.reports.backtest.scores import LastTwo, even_edges
from processors.contracts.errors import ConfigError
from processors.contracts.events import UNITS, JobCompleted
from processors.contracts.names import rfc3339

Order = Literal["first_come", "shortest_first"]
LONGER_S: Final = 60.0  # minimum extension of the expected run time of a job that exceeds it
_END, _SUBMIT, _OVERRUN = range(3)  # order at equal times: ends first, because they free nodes


class QueuedJob(NamedTuple):
    """A job of the log: `run_time_s` is its real run time; `limit_s` is the requested time, at least the run time."""

    submit_s: float
    nodes: float
    run_time_s: float
    limit_s: float
    event: JobCompleted


class Estimates(Protocol):
    """A source of expected run times, which learns only what a scheduler would know at the current time."""

    def submitted(self, job: QueuedJob, now_s: float) -> float:
        """Return the expected run time of a submitted job in seconds; implementations must not use `job.run_time_s`."""

    def overrun(self, job: QueuedJob, ran_s: float, times: int) -> float:
        """Return the new expected run time in s of a job that has outlasted the old one, `ran_s`; `times` counts earlier extensions."""

    def ended(self, job: QueuedJob, start_s: float, end_s: float) -> None:
        """Learn the run time of an ended job."""


class Start(NamedTuple):
    """The start of a job, and its expected run time at that moment."""

    job: QueuedJob
    start_s: float
    expected_s: float


class _Running(NamedTuple):
    """A running job; running jobs are sorted by expected end."""

    expected_end_s: float
    number: int
    nodes: float


class EasyMachine:
    """A simulated machine under EASY backfilling, for one log."""

    def __init__(self, nodes: float, order: Order) -> None:
        self._free = nodes
        self._order = order
        self._queue: list[int] = []
        self._running: list[_Running] = []
        self._jobs: Sequence[QueuedJob] = ()
        self._expected_s: list[float] = []
        self._start_s: list[float] = []
        self._events: list[tuple[float, int, int]] = []  # time in s, kind, number of the job
        self._corrected: dict[int, int] = {}

    def run(self, jobs: Sequence[QueuedJob], estimates: Estimates) -> Iterator[Start]:
        """Yield the jobs as they start; `jobs` are in order of submission, and no job is larger than the machine."""
        self._jobs, self._start_s = jobs, [0.0] * len(jobs)
        self._expected_s = [0.0] * len(jobs)
        self._events = [(job.submit_s, _SUBMIT, number) for number, job in enumerate(jobs)]  # a sorted list is a heap
        while self._events:
            now_s = self._events[0][0]
            while self._events and self._events[0][0] == now_s:
                _, kind, number = heapq.heappop(self._events)
                self._take(kind, number, now_s, estimates)
            for number in self._schedule(now_s):
                yield Start(jobs[number], now_s, self._expected_s[number])

    def _take(self, kind: int, number: int, now_s: float, estimates: Estimates) -> None:
        job = self._jobs[number]
        if kind == _SUBMIT:
            self._expected_s[number] = min(max(estimates.submitted(job, now_s), 1.0), job.limit_s)
            self._queue.append(number)
        elif kind == _END:
            self._running = [running for running in self._running if running.number != number]
            self._corrected.pop(number, None)
            self._free += job.nodes
            estimates.ended(job, self._start_s[number], now_s)
        else:
            self._put_off(number, now_s, estimates)

    def _put_off(self, number: int, now_s: float, estimates: Estimates) -> None:
        """Extend the expected run time of a job that runs longer than expected, but not beyond its requested time."""
        running = next((running for running in self._running if running.number == number), None)
        if running is None:
            return
        job, start_s, times = self._jobs[number], self._start_s[number], self._corrected.get(number, 0)
        self._corrected[number] = times + 1
        expected_s = max(estimates.overrun(job, now_s - start_s, times), now_s - start_s + LONGER_S)
        end_s = start_s + min(expected_s, job.limit_s)
        self._running.remove(running)
        self._expect(number, end_s)

    def _expect(self, number: int, end_s: float) -> None:
        insort(self._running, _Running(end_s, number, self._jobs[number].nodes))
        if end_s < self._start_s[number] + self._jobs[number].run_time_s:
            heapq.heappush(self._events, (end_s, _OVERRUN, number))

    def _schedule(self, now_s: float) -> Iterator[int]:
        """Yield the jobs that start now: jobs at the head of the queue while they fit, then later jobs that fill gaps."""
        started = 0
        for number in self._queue:
            if self._jobs[number].nodes > self._free:
                break
            started += 1
            yield self._start(number, now_s)
        del self._queue[:started]
        if len(self._queue) > 1 and self._free > 0:
            yield from self._backfill(now_s)

    def _backfill(self, now_s: float) -> Iterator[int]:
        reserved_s, spare = self._reservation(self._jobs[self._queue[0]].nodes)
        behind = self._queue[1:]
        if self._order == "shortest_first":
            behind.sort(key=self._expected_s.__getitem__)  # the sort is stable, so equal jobs keep their order
        gone = set()
        for number in behind:
            nodes = self._jobs[number].nodes
            ends_before = now_s + self._expected_s[number] <= reserved_s
            if nodes > self._free or not (ends_before or nodes <= spare):
                continue
            spare -= 0.0 if ends_before else nodes
            gone.add(number)
            yield self._start(number, now_s)
            if self._free <= 0:
                break
        if gone:
            self._queue = [number for number in self._queue if number not in gone]

    def _reservation(self, nodes: float) -> tuple[float, float]:
        """Return the time in s when `nodes` nodes are expected to be free, and the number of nodes left over at that time."""
        free = accumulate((running.nodes for running in self._running), initial=self._free)
        next(free)
        for running, by_then in zip(self._running, free, strict=True):
            if by_then >= nodes:
                return running.expected_end_s, by_then - nodes
        raise ValueError("A job needs more nodes than the machine has.")

    def _start(self, number: int, now_s: float) -> int:
        job = self._jobs[number]
        self._free -= job.nodes
        self._start_s[number] = now_s
        self._expect(number, now_s + self._expected_s[number])
        heapq.heappush(self._events, (now_s + job.run_time_s, _END, number))
        return number


class RequestedTimes:
    """The requested times as expected run times; no job runs longer than it requested."""

    def submitted(self, job: QueuedJob, now_s: float) -> float:  # noqa: ARG002
        return job.limit_s

    def overrun(self, job: QueuedJob, ran_s: float, times: int) -> float:  # noqa: ARG002
        return job.limit_s

    def ended(self, job: QueuedJob, start_s: float, end_s: float) -> None:
        """Learn nothing, because requested times do not depend on earlier jobs."""


class Perfect(RequestedTimes):
    """The real run times as expected run times, which no scheduler knows in advance."""

    def submitted(self, job: QueuedJob, now_s: float) -> float:  # noqa: ARG002
        return job.run_time_s


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
SHORT_S: Final = 10.0  # shorter run times count as 10 s, or else very short jobs would dominate the mean slowdown

OnProgress = Callable[[int], None]


class Waits(msgspec.Struct, frozen=True, kw_only=True):
    """The waits of the jobs of a log, scheduled with the expected run times of one source.

    `order` is the order in which waiting jobs are backfilled. The bounded slowdown of a job is (wait + run time) / run time, at
    least 1, and its run time counts as at least SHORT_S. `too_short` is the share of jobs that ran longer than expected.
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
    """Jobs submitted in one period, and their mean waits in s by source of expected run times, if backfilled in order of arrival."""

    start: str
    end: str
    jobs: int
    wait_mean_s: dict[str, float]


class Scheduling(msgspec.Struct, frozen=True, kw_only=True):
    """The waits of a log with each source of expected run times, on a machine of `size` in `unit`.

    `offered` is the load: the work of all jobs divided by the machine's capacity from the first submission to the last.
    `left_out` counts jobs that were not simulated, by reason. Only `scored` of the simulated `jobs` count in the waits; the
    others were submitted before the scored period.
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
    """The jobs of a log in order of submission, and the machine that runs them."""

    jobs: tuple[QueuedJob, ...]
    unit: str
    size: float
    size_given: bool
    left_out: dict[str, int]


class LastTwoJobs:
    """The mean of each user's last two jobs, or the requested time for a user's first job, as expected run times.

    A job that exceeds its expected run time gets CORRECTIONS_S more, in this order, after Tsafrir, Etsion and Feitelson (2007).
    """

    def __init__(self) -> None:
        self._last_two = LastTwo()

    def submitted(self, job: QueuedJob, now_s: float) -> float:  # noqa: ARG002
        return self._last_two.expected_s(job.event.system, job.event.evidence) or job.limit_s

    def overrun(self, job: QueuedJob, ran_s: float, times: int) -> float:  # noqa: ARG002
        return ran_s + CORRECTIONS_S[min(times, len(CORRECTIONS_S) - 1)]

    def ended(self, job: QueuedJob, start_s: float, end_s: float) -> None:
        self._last_two.learn(job.event.system, job.event.evidence, end_s - start_s)


def queue_of(completed: Iterable[JobCompleted], size: float | None) -> Queue:
    """Return the jobs of a log for a machine of `size`; without `size`, the machine is as large as the log's maximum use.

    Raise ConfigError if no job has a limit, or if the log covers several systems, because they are not one machine.
    """
    ran = [event for event in completed if event.run_time_s > 0]
    systems = sorted({event.system for event in ran})
    if len(systems) > 1:
        raise ConfigError(
            f"The log covers several systems ({', '.join(systems[:5])}). Use --scheduler with one system at a time."
        )
    unit = max(UNITS, key=lambda name: sum(name in event.evidence.sizes for event in ran))
    left_out = Counter[str]()
    jobs = []
    used = size if size is not None else _used_at_once(ran, unit)
    for event in ran:
        reason = _unfit(event, unit, used)
        if reason is None:
            jobs.append(_queued(event, unit))
        else:
            left_out[reason] += 1
    if not jobs:
        raise ConfigError("No job of the files has a size and a time limit, so no scheduler can be simulated.")
    jobs.sort(key=lambda job: (job.submit_s, job.event.job_id))
    return Queue(tuple(jobs), unit, used, size is not None, left_out)


def scheduling(
    queue: Queue,
    predicted: Callable[[], Estimates],
    since_ms: int | None = None,
    on_progress: OnProgress = lambda _: None,
) -> Scheduling:
    """Return the waits with each source of expected run times; jobs submitted before `since_ms` are simulated, not scored.

    `predicted` creates Scalewatch's estimates anew for each simulation, because learning depends on when jobs end.
    """
    sources: dict[str, Callable[[], Estimates]] = {
        REQUESTED: RequestedTimes, LAST_TWO: LastTwoJobs, PREDICTED: predicted, PERFECT: Perfect,
    }  # fmt: skip
    since_s = since_ms / 1000 if since_ms is not None else queue.jobs[0].submit_s
    waits: list[Waits] = []
    by_source: dict[str, list[Start]] = {}
    for order in ORDERS:
        for source, make in sources.items():
            on_progress(len(waits) * len(queue.jobs))
            starts = list(EasyMachine(queue.size, order).run(queue.jobs, make()))
            scored = [start for start in starts if start.job.submit_s >= since_s]
            if not scored:
                raise ConfigError("No job was submitted in the scored time.")
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
    """Return the reason why a job is not simulated; None if it is simulated."""
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
    """Return the largest total size of jobs that ran at the same time."""
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
    waits = sorted(start.start_s - start.job.submit_s for start in scored)
    ends = [start.start_s + start.job.run_time_s for start in starts]
    worked = sum(start.job.nodes * start.job.run_time_s for start in starts)
    return Waits(
        source=source,
        order=order,
        wait_mean_s=fmean(waits),
        wait_median_s=waits[len(waits) // 2],
        wait_p95_s=waits[min(int(0.95 * len(waits)), len(waits) - 1)],
        bounded_slowdown=fmean(_bounded_slowdown(start) for start in scored),
        utilisation=worked / size / max(max(ends) - starts[0].job.submit_s, 1.0),
        too_short=sum(start.expected_s < start.job.run_time_s for start in scored) / len(scored),
    )


def _bounded_slowdown(start: Start) -> float:
    run_time_s = start.job.run_time_s
    return max((start.start_s - start.job.submit_s + run_time_s) / max(run_time_s, SHORT_S), 1.0)


def _periods(by_source: dict[str, list[Start]]) -> tuple[WaitPeriod, ...]:
    """Return the mean waits over time, in periods with equal numbers of jobs."""
    submitted = sorted(start.job.submit_s for start in by_source[PERFECT])
    edges = [*dict.fromkeys(even_edges(submitted, PERIODS, JOBS_OF_PERIOD)), submitted[-1] + 1.0]
    periods = []
    for low_s, high_s in pairwise(edges):
        waits = {
            source: [start.start_s - start.job.submit_s for start in starts if low_s <= start.job.submit_s < high_s]
            for source, starts in by_source.items()
        }
        periods.append(
            WaitPeriod(
                start=rfc3339(round(low_s * 1000)), end=rfc3339(round(high_s * 1000)), jobs=len(waits[PERFECT]),
                wait_mean_s={source: fmean(of_source) for source, of_source in waits.items()},
            )
        )  # fmt: skip
    return tuple(periods)
