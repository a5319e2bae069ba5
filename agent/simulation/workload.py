"""The jobs and the machine of the simulation; jobs get whole nodes, first come, first served."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log2
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from agent.simulation.truth import (
    Law,
    amdahl_log,
    downey,
    favours_powers_of_two,
    halo_exchange,
    kazmina,
    slow_at,
    stepped_above,
    universal_scalability,
)
from processors.contracts.names import ApplicationKey

Floats = npt.NDArray[np.float64]
COUNTERS: Final = ("PAPI_TOT_CYC", "PAPI_TOT_INS", "PAPI_L3_TCM", "memory_bytes")
FULL_CYCLES: Final = 64 * 2.4e9  # processor cycles per second of a host
LINE_BYTES: Final = 64.0
_OF_A_NEIGHBOUR: Final = 1.8  # factor on the cache misses of a run that shares its cache with another job


@dataclass(frozen=True, slots=True)
class Activity:
    """The use of a host by an application: instructions per cycle, last-level cache misses per thousand instructions, memory traffic.

    `streamed` is the memory traffic in bytes per cycle that causes no cache misses. With each doubling of the size, the share
    `waits` of the instructions is lost to waiting for other processes, and twice this share of `streamed`, because each host
    has less data.
    """

    ipc: float
    misses: float
    streamed: float
    waits: float = 0.03

    def per_cycle(self, n: float, luck: float = 1.0, slowed: float = 1.0) -> Floats:
        """Return the rates of COUNTERS per cycle, shape (4,), of a run at size `n`.

        The total work of a run does not depend on `luck` or `slowed`, which only stretch its run time.
        """
        lost = max(1.0 - self.waits * log2(n), 0.1)
        instructions = self.ipc * lost / (luck * slowed)
        misses = instructions * self.misses / 1000 * (_OF_A_NEIGHBOUR if slowed > 1 else 1.0)
        return np.array([1.0, instructions, misses, LINE_BYTES * misses + self.streamed * lost**2 / (luck * slowed)])


ORDINARY: Final = Activity(ipc=1.4, misses=2.0, streamed=0.4)
OTHERS: Final = Activity(ipc=0.8, misses=1.0, streamed=0.05).per_cycle(1.0)
"""Counter rates, per cycle, of the other work on a host."""


@dataclass(frozen=True, slots=True)
class SimulatedApplication:
    """An application: its scaling law, the sizes of its runs, and the disturbances of its runs.

    `interval_s` is the mean time between submissions, `regression` the factor on all run times in the second half,
    `failure_rate` has the shares of failing runs in the first and second half. `activity` describes its use of a host. Every
    `requeue_every`-th run is requeued, every `short_limit_every`-th has a short limit, every `disturbed_every`-th is slowed
    down by a neighbour; 0 means none. `array_tasks` is the size of its job arrays, 0 without arrays. `named_by` is the job
    field with the name of the application, `project` the account of its jobs.
    """

    name: str
    law: Law
    sizes: tuple[int, ...]
    note: str = ""
    input: str = ""
    interval_s: float = 800.0
    regression: float = 1.0
    failure_rate: tuple[float, float] = (0.01, 0.01)
    activity: Activity = ORDINARY
    requeue_every: int = 0
    short_limit_every: int = 0
    disturbed_every: int = 0
    array_tasks: int = 0
    named_by: Literal["application", "executable"] = "application"
    project: str = "commons"
    attributes: dict[str, str | int] = field(default_factory=dict)

    def key(self, system: str) -> ApplicationKey:
        """Return the key under which the agent will identify the application."""
        return ApplicationKey(self.name, system, self.input, "nodes")

    def run_time_s(self, n: float, *, second_half: bool) -> float:
        """Return the true run time in seconds at size `n`, without noise."""
        return self.law(n) * (self.regression if second_half else 1.0)


DOZEN: Final = (
    SimulatedApplication(
        "lattice-qcd", downey(24_000.0, 90.0, 0.4), (8, 16, 32, 64, 128), "scales well, then saturates",
        project="particles", activity=Activity(1.9, 4.0, 0.9, 0.02),
    ),
    SimulatedApplication(
        "ocean-model", amdahl_log(60.0, 12_000.0, 15.0), (4, 8, 16, 32, 64), "jobs are requeued after a failed node",
        requeue_every=15, named_by="executable",
        project="climate", activity=Activity(0.9, 6.0, 0.8, 0.03),
    ),
    SimulatedApplication(
        "molecules", kazmina(1.5, 9_000.0, 300.0), (2, 4, 8, 16, 32, 64), "an input of its own", input="membrane",
        project="materials", activity=Activity(2.4, 0.4, 0.1, 0.03),
    ),
    SimulatedApplication(
        "turbulence", universal_scalability(16_000.0, 0.01, 2e-4), (4, 8, 16, 32, 64, 128),
        "slower again at the largest size",
        project="flows", activity=Activity(1.3, 5.0, 0.7, 0.04),
    ),
    SimulatedApplication(
        "weather-ensemble", halo_exchange(6_000.0, 3_000.0, 8.0), (4, 8, 16, 32), "comes as array jobs", input="europe",
        interval_s=3_000.0, array_tasks=5, attributes={"members": 5},
        project="climate", activity=Activity(1.1, 4.0, 0.6, 0.03),
    ),
    SimulatedApplication(
        "crash-test", downey(12_000.0, 14.0, 0.8), (2, 4, 8, 16, 32), "30 % slower from half-way on", regression=1.3,
        project="engineering", activity=Activity(1.6, 1.5, 0.3, 0.05),
    ),
    SimulatedApplication(
        "climate-coupler", slow_at(amdahl_log(40.0, 10_000.0, 5.0), 16.0, 1.5), (2, 4, 8, 16, 32, 64),
        "50 % too slow at 16 nodes",
        project="climate", activity=Activity(1.0, 3.0, 0.5, 0.04),
    ),
    SimulatedApplication(
        "genome-assembly", stepped_above(downey(14_000.0, 150.0, 0.5), 16.0, 1.4), (2, 4, 8, 16, 24, 32, 48, 64),
        "40 % slower above 16 nodes", interval_s=700.0,
        project="life-sciences", activity=Activity(0.7, 8.0, 0.2, 0.02),
    ),
    SimulatedApplication(
        "spectral-solver", favours_powers_of_two(downey(15_000.0, 200.0, 0.3), 1.25),
        (4, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64), "25 % slower at sizes that are no power of two", interval_s=550.0,
        project="flows", activity=Activity(1.5, 3.0, 0.8, 0.04),
    ),
    SimulatedApplication(
        "reactor-core", halo_exchange(9_000.0, 800.0, 5.0), (8, 16), "seen at two sizes only",
        project="engineering", activity=Activity(1.2, 2.0, 0.4, 0.03),
    ),
    SimulatedApplication(
        "galaxy-merger", kazmina(2.0, 8_000.0, 500.0), (4, 8, 16, 32, 64), "fails more often from half-way on",
        failure_rate=(0.03, 0.4), interval_s=600.0, named_by="executable",
        project="astronomy", activity=Activity(1.7, 2.5, 0.3, 0.03),
    ),
    SimulatedApplication(
        "battery-design", downey(6_000.0, 12.0, 0.3), (1, 2, 4, 8, 16, 32), "now and then a time limit too short",
        short_limit_every=12, interval_s=700.0,
        project="materials", activity=Activity(2.0, 1.0, 0.2, 0.05),
    ),
)  # fmt: skip

NOISE = 0.02  # standard deviation of ln(run time) between repeated runs
LIMIT_STEP_S = 300.0
SLOWED = 1.6  # factor on the run time of a run that shares its hosts with another job


@dataclass(frozen=True, slots=True)
class SimulatedJob:
    """A job in the queue. `luck` and `slowed` are factors on its run time; `slowed` is above 1 only if another job shares its hosts.

    `fate` is a uniform random number from 0 to 1; the job fails if it is below the failure rate.
    """

    job_id: str
    application: SimulatedApplication
    n: int
    submit_ms: int
    time_limit_s: float
    luck: float
    fate: float
    fails_after: float
    node_fails: bool = False
    slowed: float = 1.0
    array_job_id: str | None = None


def hostlist(nodes: Sequence[int]) -> str:
    """Return the names of nodes in Slurm's compressed form; `nodes` must ascend."""
    spans: list[tuple[int, int]] = []
    for node in nodes:
        if spans and node == spans[-1][1] + 1:
            spans[-1] = spans[-1][0], node
        else:
            spans.append((node, node))
    parts = [f"{first:06d}" if first == last else f"{first:06d}-{last:06d}" for first, last in spans]
    return f"nid{parts[0]}" if len(nodes) == 1 else f"nid[{','.join(parts)}]"


def outcome(job: SimulatedJob, true_run_time_s: float, failure_rate: float) -> tuple[float, str]:
    """Return the run time in seconds and the final state of a job that starts now.

    `true_run_time_s` is the run time by the law at the job's size, `failure_rate` the current share of failing runs.
    """
    run_time_s, state = true_run_time_s * job.luck, "COMPLETED"
    if job.node_fails or job.fate < failure_rate:
        run_time_s, state = job.fails_after * run_time_s, "NODE_FAIL" if job.node_fails else "FAILED"
    if run_time_s > job.time_limit_s:
        return job.time_limit_s, "TIMEOUT"
    return run_time_s, state


class Submissions:
    """An endless stream of job submissions of one application: random arrivals, all sizes equally likely."""

    def __init__(self, application: SimulatedApplication, random: np.random.Generator) -> None:
        self.application = application
        self._random = random
        self._sizes: list[int] = []
        self._made = 0

    def wait_ms(self) -> int:
        return 1 + int(self._random.exponential(self.application.interval_s) * 1000)

    def next_size(self) -> int:
        if not self._sizes:
            self._sizes = [int(n) for n in self._random.permutation(self.application.sizes)]
        return self._sizes.pop()

    def jobs(self, first_id: int, now_ms: int, expected_s: float, n: int) -> list[SimulatedJob]:
        """Return the jobs of one submission: one job, or the tasks of an array. `expected_s` is the run time that the user expects."""
        tasks = max(self.application.array_tasks, 1)
        array_job_id = str(first_id) if tasks > 1 else None
        return [self._job(str(first_id + task), now_ms, expected_s, n, array_job_id) for task in range(tasks)]

    def _job(self, job_id: str, now_ms: int, expected_s: float, n: int, array_job_id: str | None) -> SimulatedJob:
        self._made += 1
        application, random = self.application, self._random
        limit_s = LIMIT_STEP_S * np.ceil(expected_s * random.uniform(1.5, 3.0) / LIMIT_STEP_S)
        if _each(application.short_limit_every, self._made):
            limit_s = np.floor(0.8 * expected_s)
        return SimulatedJob(
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
