"""Simulate EASY backfilling of a job log: the start time of each job if the scheduler used the given run time estimates.

Jobs start in order of submission. If the first job of the queue does not fit, it gets a reservation: the time at which
enough nodes become free if the running jobs end as expected. Other jobs may start earlier if they do not delay that job.
A job always runs for its real run time; if it exceeds its estimate, the estimate is raised.

Source: Lifka, "The ANL/IBM SP scheduling system" (1995); Mu'alem, Feitelson, "Utilization, predictability, workloads, and
user runtime estimates in scheduling the IBM SP2 with backfilling" (2001). The correction of estimates and the
shortest-first order of backfilling follow Tsafrir, Etsion, Feitelson, "Backfilling using system-generated predictions rather
than user runtime estimates" (2007).
"""

import heapq
from bisect import insort
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, Literal, NamedTuple, Protocol

from processors.contracts.events import JobCompleted

Order = Literal["first_come", "shortest_first"]
LONGER_S: Final = 60.0  # a job that goes on beyond its expected end is expected to go on for so long at least
_END, _SUBMIT, _OVERRUN = range(3)  # order at one time: nodes that became free are known to what comes then


class QueuedJob(NamedTuple):
    """A job of the log: `run_time_s` is its real run time, `limit_s` the limit its user requested, at least `run_time_s`."""

    submit_s: float
    nodes: float
    run_time_s: float
    limit_s: float
    event: JobCompleted


class Estimates(Protocol):
    """Estimates run times of jobs. Its methods receive only what a scheduler would know at the time of the call."""

    def submitted(self, job: QueuedJob, now_s: float) -> float:
        """Return the estimated run time of a job in s; the estimate must not read `job.run_time_s`."""

    def overrun(self, job: QueuedJob, ran_s: float, times: int) -> float:
        """Return a new estimate of the total run time of a job that reached its estimate at `ran_s`, after `times` earlier overruns."""

    def ended(self, job: QueuedJob, start_s: float, end_s: float) -> None:
        """Learn the run time of a job that has ended."""


class Start(NamedTuple):
    """The start time of a job, and its run time estimate at that time."""

    job: QueuedJob
    start_s: float
    expected_s: float


class _Running(NamedTuple):
    """A running job and its nodes; sorts by the expected end."""

    expected_end_s: float
    number: int
    nodes: float


class Machine:
    """A simulated machine under EASY backfilling, for one job log."""

    def __init__(self, nodes: float, order: Order) -> None:
        self._free = nodes
        self._order = order
        self._queue: list[int] = []
        self._running: list[_Running] = []
        self._jobs: Sequence[QueuedJob] = ()
        self._expected_s: list[float] = []
        self._start_s: list[float] = []
        self._events: list[tuple[float, int, int]] = []  # time, kind, number of the job
        self._corrected: dict[int, int] = {}

    def run(self, jobs: Sequence[QueuedJob], estimates: Estimates) -> Iterator[Start]:
        """Yield the start of each job; `jobs` must be in order of submission and no wider than the machine."""
        self._jobs, self._start_s = jobs, [0.0] * len(jobs)
        self._expected_s = [0.0] * len(jobs)
        self._events = [(job.submit_s, _SUBMIT, number) for number, job in enumerate(jobs)]  # sorted: a heap
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
            self._running = [one for one in self._running if one.number != number]
            self._corrected.pop(number, None)
            self._free += job.nodes
            estimates.ended(job, self._start_s[number], now_s)
        else:
            self._put_off(number, now_s, estimates)

    def _put_off(self, number: int, now_s: float, estimates: Estimates) -> None:
        """Raise the estimate of a job that exceeds its expected end, up to its limit."""
        known = next((one for one in self._running if one.number == number), None)
        if known is None:
            return
        job, start_s, times = self._jobs[number], self._start_s[number], self._corrected.get(number, 0)
        self._corrected[number] = times + 1
        expected_s = max(estimates.overrun(job, now_s - start_s, times), now_s - start_s + LONGER_S)
        end_s = start_s + min(expected_s, job.limit_s)
        self._running.remove(known)
        self._expect(number, end_s)

    def _expect(self, number: int, end_s: float) -> None:
        insort(self._running, _Running(end_s, number, self._jobs[number].nodes))
        if end_s < self._start_s[number] + self._jobs[number].run_time_s:
            heapq.heappush(self._events, (end_s, _OVERRUN, number))

    def _schedule(self, now_s: float) -> Iterator[int]:
        """Yield the numbers of the jobs that start now: the head of the queue as long as it fits, then backfilled jobs."""
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
            behind.sort(key=self._expected_s.__getitem__)  # stable: of two alike the one that came first
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
        """Return when `nodes` nodes are expected to be free, and how many free nodes remain then."""
        free = accumulate((one.nodes for one in self._running), initial=self._free)
        next(free)
        for one, by_then in zip(self._running, free, strict=True):
            if by_then >= nodes:
                return one.expected_end_s, by_then - nodes
        raise ValueError("A job needs more nodes than the machine has.")

    def _start(self, number: int, now_s: float) -> int:
        job = self._jobs[number]
        self._free -= job.nodes
        self._start_s[number] = now_s
        self._expect(number, now_s + self._expected_s[number])
        heapq.heappush(self._events, (now_s + job.run_time_s, _END, number))
        return number


class Requested:
    """Estimates equal to the requested limits, which no job exceeds."""

    def submitted(self, job: QueuedJob, now_s: float) -> float:  # noqa: ARG002
        return job.limit_s

    def overrun(self, job: QueuedJob, ran_s: float, times: int) -> float:  # noqa: ARG002
        return job.limit_s

    def ended(self, job: QueuedJob, start_s: float, end_s: float) -> None:
        """Do nothing, because limits need no learning."""


class Perfect(Requested):
    """Estimates equal to the real run times, which no scheduler can know."""

    def submitted(self, job: QueuedJob, now_s: float) -> float:  # noqa: ARG002
        """Return the real run time of the job."""
        return job.run_time_s
