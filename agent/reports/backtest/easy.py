"""EASY backfilling of a log of jobs: when each would have started, had the scheduler believed these run times.

Jobs start in the order in which they came. Where the first of the queue does not fit, it gets a reservation: the moment by
which enough nodes are free if the running jobs end when they are expected to. Others go first where they do not delay it.
A job runs as long as it did, whatever was expected; one that goes on beyond what was expected is expected to take longer.

Source: Lifka, "The ANL/IBM SP scheduling system" (1995); Mu'alem, Feitelson, "Utilization, predictability, workloads, and
user runtime estimates in scheduling the IBM SP2 with backfilling" (2001); that expectations are corrected, and gaps filled with
the shortest first, from Tsafrir, Etsion, Feitelson, "Backfilling using system-generated predictions rather than user runtime
estimates" (2007).
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
    """A job of the log: `run_time_s` is how long it ran, `limit_s` what its user asked for, never less than that."""

    submit_s: float
    nodes: float
    run_time_s: float
    limit_s: float
    event: JobCompleted


class Estimates(Protocol):
    """Says how long jobs will run. It hears of each only what a scheduler would know at that time."""

    def submitted(self, job: QueuedJob, now_s: float) -> float:
        """Return how long a job is expected to run, in seconds; `job.run_time_s` is none of its business."""

    def overrun(self, job: QueuedJob, ran_s: float, times: int) -> float:
        """Return how long a job is expected to run in all that has run for `ran_s`, as long as expected; `times` before."""

    def ended(self, job: QueuedJob, start_s: float, end_s: float) -> None:
        """Learn how long a job ran."""


class Start(NamedTuple):
    """When a job started, and how long it had been expected to run."""

    job: QueuedJob
    start_s: float
    expected_s: float


class _Running(NamedTuple):
    """A job that holds nodes; sorted by when it is expected to end."""

    expected_end_s: float
    number: int
    nodes: float


class Machine:
    """A machine under EASY backfilling, for one log."""

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
        """Yield the jobs as they start; they are in the order in which they were submitted, none wider than the machine."""
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
        """Expect a job that goes on beyond its expected end to go on for longer, but not beyond its limit."""
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
        """Yield the jobs that start now: the first of the queue as long as they fit, then what fills the gaps."""
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
        """Return when so many nodes are expected to be free, and how many will be left over then."""
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
    """What users asked for, beyond which no job runs."""

    def submitted(self, job: QueuedJob, now_s: float) -> float:  # noqa: ARG002
        """Return the job's limit."""
        return job.limit_s

    def overrun(self, job: QueuedJob, ran_s: float, times: int) -> float:  # noqa: ARG002
        """Return the job's limit."""
        return job.limit_s

    def ended(self, job: QueuedJob, start_s: float, end_s: float) -> None:
        """Learn nothing."""


class Perfect(Requested):
    """What nobody knows beforehand: the run times themselves."""

    def submitted(self, job: QueuedJob, now_s: float) -> float:  # noqa: ARG002
        """Return how long the job will run."""
        return job.run_time_s
