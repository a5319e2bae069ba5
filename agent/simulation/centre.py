"""The simulated centre: native events in order of time, and the true run times behind the events."""

import heapq
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from agent.simulation.workload import DOZEN, SimulatedApplication, SimulatedJob, Submissions, hostlist, outcome
from processors.contracts.names import rfc3339

SYSTEM: Final = "simulated"
REQUEUE_MS: Final = 60_000
_ENCODER: Final = msgspec.json.Encoder()


class TimedEvent(NamedTuple):
    """A native event, its time in ms since the epoch, and the simulated job and node numbers, which the event itself lacks."""

    time_ms: int
    event: dict[str, Any]
    job: SimulatedJob | None = None
    nodes: tuple[int, ...] = ()

    @property
    def value(self) -> bytes:
        return _ENCODER.encode(self.event)


_Happening = Callable[[int], Iterable[TimedEvent]]


class Centre:
    """A machine with `nodes` nodes and a dozen applications, starting at `start_ms`.

    After half of `horizon_s`, one application becomes slower and another application starts to fail more often. The same seed
    gives the same events.
    """

    def __init__(
        self, seed: int, start_ms: int, *, nodes: int = 512, horizon_s: float = 72_000.0, system: str = SYSTEM
    ) -> None:
        self.system, self.applications = system, DOZEN
        self.halfway_ms = start_ms + int(horizon_s * 500)
        self.seed, self.start_ms, self.nodes = seed, start_ms, nodes
        self._by_id = {application.key(system).id: application for application in DOZEN}

    def truth(self, application_id: str, n: float, time_ms: int | None = None) -> float | None:
        """Return the true run time in s at `time_ms` (default: before the application becomes slower); None for an unknown application."""
        application = self._by_id.get(application_id)
        if application is None or n < 1:
            return None
        return application.run_time_s(n, second_half=time_ms is not None and time_ms >= self.halfway_ms)

    def events(self) -> Iterator[TimedEvent]:
        """Yield an endless stream of job.started and job.completed events in order of time; each call restarts the simulation."""
        return _WholeNodes(self).events()


class SimulationPass(ABC):
    """One pass of the simulation: the free nodes, the waiting jobs and the pending events; `last_id` is the id before the first job."""

    def __init__(self, streams: Sequence[Submissions], start_ms: int, nodes: int, last_id: int) -> None:
        self._free = list(range(nodes))  # in ascending order
        self._queue: deque[SimulatedJob] = deque()
        self._agenda: list[tuple[int, int, _Happening]] = []
        self._entries = 0
        self._last_id = last_id
        for stream in streams:
            self._put(start_ms + stream.wait_ms(), partial(self._submit, stream))

    def events(self) -> Iterator[TimedEvent]:
        while True:
            now_ms, _, happening = heapq.heappop(self._agenda)
            yield from happening(now_ms)
            while self._queue and self._queue[0].n <= len(self._free):
                job = self._queue.popleft()
                nodes = self.chosen(self._free, job.n)
                self._free = sorted(set(self._free).difference(nodes))
                started, ended = self.run(job, nodes, now_ms)
                self._put(ended.time_ms, partial(self._end, job, ended))
                yield started

    @abstractmethod
    def expected_s(self, application: SimulatedApplication, n: int, now_ms: int) -> float:
        """Return the run time in s that a user expects for a job."""

    @abstractmethod
    def chosen(self, free: Sequence[int], n: int) -> tuple[int, ...]:
        """Return `n` of the free nodes in ascending order."""

    @abstractmethod
    def run(self, job: SimulatedJob, nodes: tuple[int, ...], now_ms: int) -> tuple[TimedEvent, TimedEvent]:
        """Return the start and end events of a job that starts now on `nodes`."""

    def _put(self, time_ms: int, happening: _Happening) -> None:
        # breaks ties in order of insertion, so that the heap never compares the pending events themselves
        self._entries += 1
        heapq.heappush(self._agenda, (time_ms, self._entries, happening))

    def _submit(self, stream: Submissions, now_ms: int) -> Sequence[TimedEvent]:
        n = stream.next_size()
        jobs = stream.jobs(self._last_id + 1, now_ms, self.expected_s(stream.application, n, now_ms), n)
        self._last_id += len(jobs)
        self._queue.extend(jobs)
        self._put(now_ms + stream.wait_ms(), partial(self._submit, stream))
        return ()

    def _end(self, job: SimulatedJob, ended: TimedEvent, now_ms: int) -> Sequence[TimedEvent]:
        self._free = sorted((*self._free, *ended.nodes))
        if ended.event["state"] == "NODE_FAIL":
            ended.event["failed_host"] = hostlist(ended.nodes[:1])
            self._put(now_ms + REQUEUE_MS, partial(self._requeue, replace(job, node_fails=False)))
        return (ended,)

    def _requeue(self, job: SimulatedJob, _now_ms: int) -> Sequence[TimedEvent]:
        self._queue.appendleft(job)
        return ()


class _WholeNodes(SimulationPass):
    """One pass of a centre in which jobs get the free nodes with the lowest numbers."""

    def __init__(self, centre: Centre) -> None:
        sources = np.random.SeedSequence(centre.seed).spawn(len(centre.applications))
        randoms = [np.random.default_rng(source) for source in sources]
        super().__init__(
            list(map(Submissions, centre.applications, randoms)), centre.start_ms, centre.nodes, last_id=1000
        )
        self._centre = centre

    def expected_s(self, application: SimulatedApplication, n: int, now_ms: int) -> float:
        return application.run_time_s(n, second_half=now_ms >= self._centre.halfway_ms)

    def chosen(self, free: Sequence[int], n: int) -> tuple[int, ...]:
        return tuple(free[:n])

    def run(self, job: SimulatedJob, nodes: tuple[int, ...], now_ms: int) -> tuple[TimedEvent, TimedEvent]:
        application = job.application
        more = {
            "user": f"user{1 + len(application.name) % 5}",
            "partition": "standard",
            "exclusive": True,
            "input": application.input,
            "array_job_id": job.array_job_id,
            "attributes": application.attributes,
        }
        facts = job_facts(job, self._centre.system, now_ms, [hostlist(nodes)], more)
        true_s = self.expected_s(application, job.n, now_ms) * job.slowed
        failure_rate = application.failure_rate[now_ms >= self._centre.halfway_ms]
        return run_of(job, facts, now_ms, nodes, outcome(job, true_s, failure_rate))


def job_facts(job: SimulatedJob, system: str, start_ms: int, hosts: list[str], more: dict[str, Any]) -> dict[str, Any]:
    """Return the fields common to the start and end events of a job; empty values in `more` are omitted."""
    application = job.application
    name = application.name
    return {
        "system": system,
        "job_id": job.job_id,
        "job_name": f"{name}-{job.n}",
        application.named_by: name if application.named_by == "application" else f"/apps/{name}/bin/{name}",
        "n": job.n,
        "unit": "nodes",
        "start": rfc3339(start_ms),
        "submit": rfc3339(job.submit_ms),
        "time_limit_s": job.time_limit_s,
        "hosts": hosts,
        "account": application.project,
        **{field: value for field, value in more.items() if value not in ("", None, {})},
    }


def run_of(
    job: SimulatedJob, facts: dict[str, Any], start_ms: int, nodes: tuple[int, ...], ending: tuple[float, str]
) -> tuple[TimedEvent, TimedEvent]:
    """Return the start and end events of a job; `ending` is its run time in s and its final state."""
    run_time_s, state = ending
    run_time_ms = max(round(run_time_s * 1000), 1)
    end_ms = start_ms + run_time_ms
    completion = {
        "type": "job.completed",
        **facts,
        "end": rfc3339(end_ms),
        "run_time_s": run_time_ms / 1000,
        "state": state,
        "exit_code": 0 if state == "COMPLETED" else 1,
    }
    started = TimedEvent(start_ms, {"type": "job.started", **facts}, job, nodes)
    return started, TimedEvent(end_ms, completion, job, nodes)
