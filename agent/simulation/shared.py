"""Shared nodes of the simulated centre: a small partition whose jobs take as long as the load of their hosts lets them."""

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Final

import numpy as np

from agent.contracts.moments import rfc3339
from agent.simulation.activity import Activity
from agent.simulation.applications import Application
from agent.simulation.centre import SYSTEM, TimedEvent
from agent.simulation.load import HOUR_MS, RESOURCES, STEP_MS, Loads, Trouble, shared_hosts
from agent.simulation.meters import Metered, Meters
from agent.simulation.truth import AmdahlLog
from agent.simulation.watts import Excess, Watts
from agent.simulation.workload import Job, Submissions, outcome

PARTITION: Final = "shared"
FIRST_ID: Final = 500_000  # of jobs: those of the whole nodes count from a thousand
TYPICAL_PACE: Final = 0.75
DRAWS: Final = 200
FOREVER_MS: Final = 10**15
HUNGRY: Final = 1.5  # times the power that the counters of a host explain
ANALYSIS: Final = Application(
    "image-analysis", AmdahlLog(20.0, 1_600.0, 10.0), (1, 2, 4, 8), "runs on shared nodes, at the pace of their load",
    interval_s=150.0, activity=Activity(1.6, 3.0, 0.4, 0.04), disturbed_every=45,
)  # fmt: skip


class SharedNodes:
    """Three dozen hosts that measure their load, and the jobs of one application on them.

    After `slow_ms` one calm host is slow for good; from `rack_ms` on a rack is held up for twenty minutes. After `hungry_ms` one host
    draws more than its counters explain.

    >>> nodes = SharedNodes(seed=1, start_ms=1795168800000)
    >>> next(nodes.events()).event["partition"], len(nodes.hosts)
    ('shared', 36)
    """

    def __init__(self, seed: int, start_ms: int, *, system: str = SYSTEM, application: Application = ANALYSIS) -> None:
        self.system, self.application = system, application
        self.hosts = shared_hosts(seed)
        self.slow_host = next(
            place for place, host in enumerate(self.hosts) if host.rack == 2 and host.temper == "calm"
        )
        self.slow_ms, self.rack_ms = start_ms + 5 * HOUR_MS, start_ms + 8 * HOUR_MS
        rack = tuple(place for place, host in enumerate(self.hosts) if host.rack == 3)
        self._troubles = (
            Trouble((self.slow_host,), self.slow_ms, FOREVER_MS, (0.65, 0.6, 0.5)),
            Trouble(rack, self.rack_ms, self.rack_ms + HOUR_MS // 3, (0.6, 0.7, 0.15)),
        )
        self.hungry_host = next(
            place for place, host in enumerate(self.hosts) if host.rack == 1 and host.temper == "calm"
        )
        self.hungry_ms = start_ms + 4 * HOUR_MS
        self._seed, self._start_ms = seed, start_ms

    def loads(self) -> Loads:
        """Return the load from the beginning on."""
        return Loads(self._seed, self._start_ms, self.hosts, self._troubles)

    def samples(self, start_ms: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield time and message every ten seconds, without end: an array of native `load` samples of all hosts."""
        loads, time_ms = self.loads(), self._start_ms if start_ms is None else start_ms
        heads = [
            f'{{"type":"load","system":"{self.system}","host":"{host.name}","resource":"{resource}","value":'
            for host in self.hosts
            for resource in RESOURCES
        ]
        while True:
            tail = f',"time":"{rfc3339(time_ms)}"}}'
            values = loads.at(time_ms).ravel().tolist()
            rows = [f"{head}{value:.6g}{tail}" for head, value in zip(heads, values, strict=True)]
            yield time_ms, f"[{','.join(rows)}]".encode()
            time_ms += STEP_MS

    def events(self) -> Iterator[TimedEvent]:
        """Yield job.started and job.completed without end, in the order of time; each call begins anew."""
        return _Shift(self, self._seed, self._start_ms).events()

    def meters(self, on_ended: Callable[[Metered], None] = lambda _: None, *, start_ms: int | None = None) -> Meters:
        """Return the meters of the hosts, of counters, power and energy; hand the truth of each run to `on_ended`."""
        loads, excess = self.loads(), Excess(self.hungry_host, self.hungry_ms, HUNGRY)
        return Meters(
            tuple(host.name for host in self.hosts), Watts(self._seed, len(self.hosts), excess),
            self._start_ms if start_ms is None else start_ms,
            available=lambda time_ms: loads.at(time_ms)[:, 0], on_ended=on_ended, system=self.system,
        )  # fmt: skip

    def truth(self, application_id: str, n: float) -> float | None:
        """Return the median run time in seconds under the usual load; None for an unknown application or size."""
        known = application_id == self.application.key(self.system).id
        return self._typical.get(n) if known else None

    @cached_property
    def _typical(self) -> dict[float, float]:
        """The usual run time of each size: the median over hosts and moments before anything is amiss."""
        loads, random = Loads(self._seed, 0, self.hosts), np.random.default_rng([self._seed, 4])
        moments = np.sort(random.integers(0, 24 * HOUR_MS, DRAWS))
        found: dict[float, list[float]] = {float(n): [] for n in self.application.sizes}
        for moment in moments.tolist():
            for n, times in found.items():
                hosts = tuple(random.permutation(len(self.hosts))[: int(n)].tolist())
                times.append((loads.end_ms(moment, hosts, self.application.law.run_time_s(n), 7_200.0) - moment) / 1000)
        return {n: float(np.median(times)) for n, times in found.items()}


class _Shift:
    """One walk through time: which hosts are free, which jobs wait and which run."""

    def __init__(self, nodes: SharedNodes, seed: int, start_ms: int) -> None:
        self._nodes, self._loads = nodes, nodes.loads()
        self._random = np.random.default_rng([seed, 3])
        self._stream = Submissions(nodes.application, self._random)
        self._free = list(range(len(nodes.hosts)))
        self._queue: deque[Job] = deque()
        self._running: list[tuple[int, str, TimedEvent]] = []
        self._next_ms = start_ms + self._stream.wait_ms()
        self._last_id = FIRST_ID

    def events(self) -> Iterator[TimedEvent]:
        while True:
            if self._running and self._running[0][0] <= self._next_ms:
                now_ms, _, ended = heapq.heappop(self._running)
                self._free = sorted((*self._free, *ended.nodes))
                yield ended
            else:
                now_ms = self._next_ms
                self._submit(now_ms)
            while self._queue and self._queue[0].n <= len(self._free):
                yield self._start(self._queue.popleft(), now_ms)

    def _submit(self, now_ms: int) -> None:
        n = self._stream.next_size()
        expected_s = self._nodes.application.law.run_time_s(n) / TYPICAL_PACE
        jobs = self._stream.jobs(self._last_id + 1, now_ms, expected_s, n)
        self._last_id += len(jobs)
        self._queue.extend(jobs)
        self._next_ms = now_ms + self._stream.wait_ms()

    def _start(self, job: Job, now_ms: int) -> TimedEvent:
        chosen = sorted(self._random.permutation(len(self._free))[: job.n].tolist())
        hosts = tuple(self._free[place] for place in chosen)
        self._free = [host for host in self._free if host not in hosts]
        work_s = job.application.law.run_time_s(job.n) * job.slowed
        true_s = (self._loads.end_ms(now_ms, hosts, work_s, 2 * job.time_limit_s) - now_ms) / 1000
        run_time_s, state = outcome(job, true_s, job.application.failure_rate[0])
        end_ms = now_ms + max(round(run_time_s * 1000), 1)
        facts = self._facts(job, now_ms, hosts)
        ended = TimedEvent(end_ms, _completed(facts, now_ms, end_ms, state), job, hosts)
        heapq.heappush(self._running, (end_ms, job.job_id, ended))
        return TimedEvent(now_ms, {"type": "job.started", **facts}, job, hosts)

    def _facts(self, job: Job, now_ms: int, hosts: tuple[int, ...]) -> dict[str, Any]:
        return {
            "system": self._nodes.system,
            "job_id": job.job_id,
            "job_name": f"{job.application.name}-{job.n}",
            "application": job.application.name,
            "n": job.n,
            "unit": "nodes",
            "start": rfc3339(now_ms),
            "submit": rfc3339(job.submit_ms),
            "time_limit_s": job.time_limit_s,
            "hosts": [self._nodes.hosts[host].name for host in hosts],
            "user": "user3",
            "partition": PARTITION,
            "exclusive": False,
        }


def _completed(facts: dict[str, Any], start_ms: int, end_ms: int, state: str) -> dict[str, Any]:
    return {
        "type": "job.completed",
        **facts,
        "end": rfc3339(end_ms),
        "run_time_s": (end_ms - start_ms) / 1000,
        "state": state,
        "exit_code": 0 if state == "COMPLETED" else 1,
    }
