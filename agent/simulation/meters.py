"""Meters of simulated hosts, which measure the running jobs with a resolution of a second and report once a minute.

Counters and energy are integrals over the simulated work, so the values of a run are exact for any start and end. Power
sensors report the mean power over half a minute. Occasionally a sensor reports 0 for a minute or an invalid value, or a host
reports nothing. Energy of processors and memory is reported as wrapping counters in line protocol, the rest as native events.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from agent.simulation.centre import SYSTEM, Centre, TimedEvent
from agent.simulation.workload import COUNTERS, FULL_CYCLES, OTHERS, Floats, SimulatedJob, hostlist
from processors.contracts.names import rfc3339

COMPONENTS: Final = ("system", "cpu", "memory")
# idle power in W of three components: the rest of the host, the processors, and the memory
IDLE_W: Final = np.array([110.0, 62.0, 11.0])
PER_EVENT_J: Final = np.array(  # energy in J of processors and of memory per event, for each of COUNTERS
    [[0.55e-9, 0.40e-9, 1.5e-9, 0.0], [0.0, 0.0, 0.0, 0.26e-9]]
)
LOSSES: Final = 1.06  # ratio of a host's power to the sum over its parts, because of losses in the power supply
SPREAD: Final = 0.015  # standard deviation of ln(power) between hosts of the same type
HUNGRY: Final = 1.5  # ratio of the actual power of the hungry host to the power explained by its counters
WITHOUT_EVERY: Final = 6  # every sixth host has no power sensor
# energy at which the counters of processors and memory wrap around
ENERGY_RANGE_J: Final = (262_143.328_850, 65_532.610_987)


class Watts:
    """The power of hosts as an exact function of their counters.

    `make` (hosts,) is a factor on the power of each host, `has_sensor` (hosts,) marks the hosts with a power sensor. After
    `hungry_ms`, the host with the number `hungry_host` draws more power than its counters explain.
    """

    def __init__(self, seed: int, hosts: int, hungry_host: int = 0, hungry_ms: float = math.inf) -> None:
        random = np.random.default_rng([seed, 8])
        self.make: Floats = np.exp(SPREAD * random.normal(size=hosts))
        self.has_sensor: npt.NDArray[np.bool_] = np.arange(hosts) % WITHOUT_EVERY != WITHOUT_EVERY - 1
        self._hungry_host, self._hungry_ms = hungry_host, hungry_ms

    def energy_j(self, counts: Floats, seconds: float, time_ms: int) -> Floats:
        """Return the energy in J by component, shape (hosts, 3), used in `seconds`; `counts` (hosts, 4) is the increase of the counters."""
        parts = self.make[:, None] * (IDLE_W[1:] * seconds + counts @ PER_EVENT_J.T)
        system = LOSSES * (self.make * IDLE_W[0] * seconds + parts.sum(axis=1))
        if time_ms >= self._hungry_ms:
            system[self._hungry_host] *= HUNGRY
        return np.column_stack([system, parts])


STEP_MS: Final = 10_000
MINUTE_MS: Final = 60_000
HALF_MS: Final = 30_000
FAULT_EVERY: Final = 211  # period in minutes in which a power sensor reports 0 once and an invalid value once
ENERGY: Final = "rapl"  # measurement name of the energy counters
_FAULTY_VALUES: Final = {0: "0.0", 1: "null"}
SILENT_EVERY: Final = 307  # period in minutes in which a host reports nothing once
_SYSTEM, _CPU, _MEMORY = (COMPONENTS.index(name) for name in ("system", "cpu", "memory"))


class MinuteReport(NamedTuple):
    """The report of all hosts at the end of a minute: native events in an array, and lines of energy counters."""

    time_ms: int
    events: bytes
    lines: bytes


@dataclass(slots=True)
class Metered:
    """The true values of a run: its hosts, run time, counts of COUNTERS and energy of COMPONENTS, summed over all hosts."""

    job: SimulatedJob
    nodes: tuple[int, ...]
    start_ms: int
    end_ms: int = 0
    counts: Floats = field(default_factory=lambda: np.zeros(len(COUNTERS)))
    energy_j: Floats = field(default_factory=lambda: np.zeros(len(COMPONENTS)))

    @property
    def seconds(self) -> float:
        return (self.end_ms - self.start_ms) / 1000

    @property
    def power_w(self) -> Floats:
        """Mean power in W by component, summed over all hosts, shape (3,)."""
        return self.energy_j / self.seconds


class Meters:
    """Simulates the counters, power and energy of the hosts `names`, and yields their measurements.

    `available` returns the share of each host's processor that is left for jobs, shape (hosts,), at multiples of ten seconds.
    If `is_reported` is None, all hosts report every minute. Otherwise, only the hosts of jobs for which it is true report, and
    they name the job. `on_ended` receives the true values of each ended run.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        watts: Watts,
        start_ms: int,
        *,
        available: Callable[[int], Floats],
        is_reported: Callable[[SimulatedJob], bool] | None = None,
        on_ended: Callable[[Metered], None] = lambda _: None,
        system: str = SYSTEM,
    ) -> None:
        self._names, self._watts, self._system = names, watts, system
        self._available, self._is_reported, self._on_ended = available, is_reported, on_ended
        self._now_ms = start_ms
        self._share: Floats = available(start_ms)
        self._running: dict[str, Metered] = {}
        self._rates = np.zeros((len(names), len(COUNTERS)))
        self._counts = np.zeros((len(names), len(COUNTERS)))  # counts since the start of the minute
        self._energy_j = np.zeros((len(names), len(COMPONENTS)))  # energy since the start of the half minute
        self._counter_j = np.zeros((len(names), len(COMPONENTS)))
        self._read_j = self._counter_j  # values of the energy counters at their last reading
        self._halves: list[Floats] = []
        self._rate()

    def messages(self, events: Iterator[TimedEvent]) -> Iterator[MinuteReport]:
        """Yield the report of each minute, endlessly; `events` are the job events of the hosts."""
        due = next(events)
        while True:
            step_ms = self._now_ms - self._now_ms % STEP_MS + STEP_MS
            while due.time_ms <= step_ms:
                self._pass(due.time_ms)
                self._take(due)
                due = next(events)
            self._pass(step_ms)
            self._read(step_ms)
            if step_ms % MINUTE_MS == 0:
                yield self._minute(step_ms)
            share = self._available(step_ms)
            if share is not self._share:
                self._share = share
                self._rate()

    def _read(self, now_ms: int) -> None:
        if now_ms % HALF_MS == 0:
            self._halves.append(self._energy_j / (HALF_MS / 1000))
            self._energy_j = np.zeros_like(self._energy_j)
        if (now_ms + STEP_MS) % MINUTE_MS == 0:
            self._read_j = self._counter_j.copy()

    def _take(self, event: TimedEvent) -> None:
        if event.job is None:
            return
        if event.event["type"] == "job.started":
            self._running[event.job.job_id] = Metered(event.job, event.nodes, event.time_ms)
        else:
            run = self._running.pop(event.job.job_id)
            run.end_ms = event.time_ms
            self._on_ended(run)
        self._rate()

    def _rate(self) -> None:
        self._rates = np.outer(1.0 - self._share, OTHERS * FULL_CYCLES)
        for run in self._running.values():
            nodes, job = list(run.nodes), run.job
            speed = float(self._share[nodes].min())
            per_cycle = job.application.activity.per_cycle(job.n, job.luck, job.slowed)
            self._rates[nodes] += speed * FULL_CYCLES * per_cycle

    def _pass(self, until_ms: int) -> None:
        """Increase counters and energy, of hosts and of running jobs, up to the time `until_ms`."""
        seconds = (until_ms - self._now_ms) / 1000
        if seconds <= 0:
            return
        counts = seconds * self._rates
        energy_j = self._watts.energy_j(counts, seconds, self._now_ms)
        self._counts += counts
        self._energy_j += energy_j
        self._counter_j += energy_j
        for run in self._running.values():
            nodes = list(run.nodes)
            run.counts += counts[nodes].sum(axis=0)
            run.energy_j += energy_j[nodes].sum(axis=0)
        self._now_ms = until_ms

    def _minute(self, end_ms: int) -> MinuteReport:
        """Return the report of the minute that ends at `end_ms`, and start the next minute."""
        minute = end_ms // MINUTE_MS
        reported = [(host, job) for host, job in self._reporting(end_ms) if (minute + 17 * host) % SILENT_EVERY]
        events = [event for host, job in reported for event in self._events(host, job, end_ms)]
        lines = [line for host, job in reported if not job for line in self._lines(host, end_ms)]
        self._counts = np.zeros_like(self._counts)
        self._halves = []
        return MinuteReport(end_ms, f"[{','.join(events)}]".encode(), "\n".join(lines).encode())

    def _reporting(self, end_ms: int) -> list[tuple[int, str]]:
        """Return the hosts that report the last minute, each with its job; the job is "" if the report names no job."""
        if self._is_reported is None:
            return [(host, "") for host in range(len(self._names))]
        whole = [
            run for run in self._running.values() if run.start_ms <= end_ms - MINUTE_MS and self._is_reported(run.job)
        ]
        return [(host, run.job.job_id) for run in whole for host in run.nodes]

    def _events(self, host: int, job: str, end_ms: int) -> Iterator[str]:
        head = f'"system":"{self._system}","host":"{self._names[host]}"' + (f',"job_id":"{job}"' if job else "")
        counts = ",".join(
            f'"{name}":{count:.7g}' for name, count in zip(COUNTERS, self._counts[host].tolist(), strict=True)
        )
        end = rfc3339(end_ms)
        yield f'{{"type":"counters",{head},"time":"{end}","interval_s":60,"counters":{{{counts}}}}}'
        if not self._watts.has_sensor[host]:
            return
        fault = (end_ms // MINUTE_MS + 29 * host) % FAULT_EVERY
        for half, power in enumerate(self._halves):
            middle = rfc3339(end_ms - MINUTE_MS + HALF_MS // 2 + half * HALF_MS)
            watts = _FAULTY_VALUES.get(fault) or f"{power[host, _SYSTEM]:.1f}"
            yield f'{{"type":"power",{head},"time":"{middle}","component":"system","power_w":{watts}}}'

    def _lines(self, host: int, end_ms: int) -> Iterator[str]:
        """Yield the energy counters of a host in line protocol: two processors, and memory."""
        if not self._watts.has_sensor[host]:
            return
        half_j, memory_j = self._read_j[host, _CPU] / 2, self._read_j[host, _MEMORY]
        time_ns = (end_ms - STEP_MS) * 1_000_000
        for name, read_j in (("cpu:0", half_j), ("cpu:1", half_j), ("memory", memory_j)):
            wrapped = read_j % ENERGY_RANGE_J[name == "memory"]
            yield f"{ENERGY},host={self._names[host]},component={name} joules={wrapped:.3f} {time_ns}"


APPLICATIONS: Final = ("battery-design", "molecules")  # applications small enough for the demo to process
ALONE: Final = 0.998  # share of a processor available to a job on an exclusive host


def job_meters(
    centre: Centre, on_ended: Callable[[Metered], None] = lambda _: None, *, start_ms: int | None = None
) -> Meters:
    """Return the meters for counters and power of the jobs of APPLICATIONS, reported with the job id.

    They begin with the centre, or at `start_ms`, and pass the true values of each run to `on_ended`.
    """
    nodes, share = centre.nodes, np.full(centre.nodes, ALONE)
    return Meters(
        tuple(hostlist([node]) for node in range(nodes)), Watts(centre.seed, nodes), centre.start_ms if start_ms is None else start_ms,
        available=lambda _: share, is_reported=lambda job: job.application.name in APPLICATIONS, on_ended=on_ended,
        system=centre.system,
    )  # fmt: skip
