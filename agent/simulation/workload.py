"""Jobs and the machine they run on: first come, first served, whole nodes."""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agent.simulation.applications import Application

NOISE = 0.02  # standard deviation of ln run time between repeats
LIMIT_STEP_S = 300.0
SLOWED = 1.6  # times the run time of a run that is alone on its hosts


@dataclass(frozen=True, slots=True)
class Job:
    """A job in the queue. `luck` multiplies its run time, `fate` is a uniform number that decides on failures.

    `slowed` multiplies its run time as well: 1 but for a job with a neighbour on its hosts.
    """

    job_id: str
    application: Application
    n: int
    submit_ms: int
    time_limit_s: float
    luck: float
    fate: float
    fails_after: float
    node_fails: bool = False
    slowed: float = 1.0
    array_job_id: str | None = None


@dataclass(frozen=True, slots=True)
class Running:
    """A job on its nodes."""

    job: Job
    start_ms: int
    nodes: tuple[int, ...]
    run_time_ms: int
    state: str

    @property
    def end_ms(self) -> int:
        """When it ends."""
        return self.start_ms + self.run_time_ms


def hostlist(nodes: Sequence[int], prefix: str = "nid") -> str:
    """Return the names of nodes in Slurm's short form; `nodes` ascend.

    >>> hostlist([1, 2, 3, 7]), hostlist([5])
    ('nid[000001-000003,000007]', 'nid000005')
    """
    spans: list[tuple[int, int]] = []
    for node in nodes:
        if spans and node == spans[-1][1] + 1:
            spans[-1] = spans[-1][0], node
        else:
            spans.append((node, node))
    parts = [f"{first:06d}" if first == last else f"{first:06d}-{last:06d}" for first, last in spans]
    return f"{prefix}{parts[0]}" if len(nodes) == 1 else f"{prefix}[{','.join(parts)}]"


class Machine:
    """Free nodes and the queue before them.

    >>> machine = Machine(4)
    >>> machine.take(3), machine.take(2)
    ((0, 1, 2), None)
    """

    def __init__(self, nodes: int) -> None:
        self._free = list(range(nodes))
        self.queue: deque[Job] = deque()

    def take(self, n: int) -> tuple[int, ...] | None:
        """Return `n` free nodes, the lowest first, None where there are not so many."""
        if n > len(self._free):
            return None
        return tuple(heapq.heappop(self._free) for _ in range(n))

    def give_back(self, nodes: Sequence[int]) -> None:
        """Take nodes back as free."""
        for node in nodes:
            heapq.heappush(self._free, node)


def outcome(job: Job, true_run_time_s: float, failure_rate: float) -> tuple[float, str]:
    """Return the run time in seconds and the final state of a job that starts now.

    `true_run_time_s` is the law's run time at its size, `failure_rate` the share of failing runs at this time.

    >>> job = Job("1", Application("a", None, (2,)), 2, 0, 3600.0, luck=2.0, fate=0.5, fails_after=0.25)
    >>> outcome(job, 100.0, 0.1), outcome(job, 100.0, 0.6)
    ((200.0, 'COMPLETED'), (50.0, 'FAILED'))
    """
    run_time_s, state = true_run_time_s * job.luck, "COMPLETED"
    if job.node_fails or job.fate < failure_rate:
        run_time_s, state = job.fails_after * run_time_s, "NODE_FAIL" if job.node_fails else "FAILED"
    if run_time_s > job.time_limit_s:
        return job.time_limit_s, "TIMEOUT"
    return run_time_s, state


class Submissions:
    """The endless stream of one application's jobs: random arrivals, every size equally often.

    >>> stream = Submissions(Application("a", None, (2, 4), interval_s=100.0), np.random.default_rng(1))
    >>> sorted(stream.next_size() for _ in range(4))
    [2, 2, 4, 4]
    """

    def __init__(self, application: Application, random: np.random.Generator) -> None:
        self.application = application
        self._random = random
        self._sizes: list[int] = []
        self._made = 0

    def wait_ms(self) -> int:
        """Return the time to the next submission."""
        return 1 + int(self._random.exponential(self.application.interval_s) * 1000)

    def next_size(self) -> int:
        """Return the size of the next job."""
        if not self._sizes:
            self._sizes = [int(n) for n in self._random.permutation(self.application.sizes)]
        return self._sizes.pop()

    def jobs(self, first_id: int, now_ms: int, expected_s: float, n: int) -> list[Job]:
        """Return the jobs of one submission: one, or the tasks of an array. `expected_s` is what the user expects."""
        tasks = max(self.application.array_tasks, 1)
        array_job_id = str(first_id) if tasks > 1 else None
        return [self._job(str(first_id + task), now_ms, expected_s, n, array_job_id) for task in range(tasks)]

    def _job(self, job_id: str, now_ms: int, expected_s: float, n: int, array_job_id: str | None) -> Job:
        self._made += 1
        application, random = self.application, self._random
        limit_s = LIMIT_STEP_S * np.ceil(expected_s * random.uniform(1.5, 3.0) / LIMIT_STEP_S)
        if _each(application.short_limit_every, self._made):
            limit_s = np.floor(0.8 * expected_s)
        return Job(
            job_id=job_id,
            application=application,
            n=n,
            submit_ms=now_ms,
            time_limit_s=float(limit_s),
            luck=float(np.exp(random.normal(0.0, NOISE))),
            fate=float(random.uniform()),
            fails_after=float(random.uniform(0.05, 0.95)),
            node_fails=_each(application.requeue_every, self._made),
            slowed=SLOWED if _each(application.disturbed_every, self._made) else 1.0,
            array_job_id=array_job_id,
        )


def _each(every: int, count: int) -> bool:
    return every > 0 and count % every == 0
