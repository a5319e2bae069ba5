"""Load of the simulated centre's shared nodes, which can be computed for any time: calm and bursty hosts, and two disturbances.

One host slows down permanently, as if a program had been left running on it. Later a whole rack stalls for a while, as if the
rack's file system were overloaded.
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp
from operator import attrgetter
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from agent.simulation.centre import SYSTEM, Centre, SimulationPass, TimedEvent, job_facts, run_of
from agent.simulation.meters import MINUTE_MS, STEP_MS, Metered, Meters, Watts, job_meters
from agent.simulation.truth import amdahl_log
from agent.simulation.workload import Activity, Floats, SimulatedApplication, SimulatedJob, Submissions, outcome
from processors.contracts.names import rfc3339

RESOURCES: Final = ("cpu_available", "memory_free", "bandwidth")
HOUR_MS: Final = 3_600_000
STEPS: Final = HOUR_MS // STEP_MS  # steps per hour, the unit in which load is generated
RETAINED_HOURS: Final = 8
BUSY_S: Final = 2_100.0  # mean time in s for which a bursty host stays busy
IDLE_S: Final = 7_500.0  # mean time in s for which a bursty host stays idle
RESTLESS: Final = 0.12  # standard deviation of the load between samples of a busy host
MEMORY_B: Final = 256e9
BANDWIDTH_B_S: Final = 12.5e9
_MEMORY_STEPS: Final = 6.0  # number of steps in which the noise of the load decays to 1 / e


@dataclass(frozen=True, slots=True)
class Host:
    """A shared node: its rack, its load pattern, and the shares of processors and memory that are free without disturbances."""

    name: str
    rack: int
    temper: Literal["calm", "bursty"]
    idle: float
    busy: float
    memory: float


@dataclass(frozen=True, slots=True)
class Disturbance:
    """A disturbance of hosts from `start_ms` to `end_ms`, given by the remaining share of each resource in RESOURCES."""

    hosts: tuple[int, ...]
    start_ms: int
    end_ms: int
    left: tuple[float, float, float]


def shared_hosts(seed: int) -> tuple[Host, ...]:
    """Return the shared nodes, three racks of a dozen each; every fourth node is bursty."""
    random = np.random.default_rng([seed, 1])
    return tuple(
        Host(
            name=f"r{rack}n{place:02d}",
            rack=rack,
            temper="bursty" if place % 4 == 0 else "calm",
            idle=float(random.uniform(0.78, 0.96)),
            busy=float(random.uniform(0.55, 0.65)),
            memory=float(random.uniform(0.5, 0.8)),
        )
        for rack in range(1, 4)
        for place in range(1, 13)
    )


class Loads:
    """The load of the hosts every ten seconds from `start_ms` on; the same seed gives the same values.

    Time only advances: hours are generated in sequence, and only the last RETAINED_HOURS hours are kept.
    """

    def __init__(self, seed: int, start_ms: int, hosts: tuple[Host, ...], faults: tuple[Disturbance, ...] = ()) -> None:
        self.hosts, self.faults = hosts, faults
        self._start_ms = start_ms
        self._random = np.random.default_rng([seed, 2])
        self._hours: dict[int, Floats] = {}
        self._next = 0
        self._is_bursty = np.array([host.temper == "bursty" for host in hosts])
        self._is_busy = self._is_bursty & (self._random.uniform(size=len(hosts)) < BUSY_S / (BUSY_S + IDLE_S))
        self._drift = np.zeros((2, len(hosts)))

    def at(self, time_ms: int) -> Floats:
        """Return the values at the last step at or before `time_ms`, shape (hosts, resources).

        Raise ValueError if the hour of `time_ms` is no longer kept.
        """
        step = (time_ms - self._start_ms) // STEP_MS
        values: Floats = self._hour(step // STEPS)[step % STEPS]
        return values

    def end_ms(self, start_ms: int, hosts: tuple[int, ...], work_s: float, longest_s: float) -> int:
        """Return the end of work that takes `work_s` on idle hosts, at the pace of the slowest host, at most `longest_s` after the start.

        All hosts wait for the slowest host at every step, as in a program that communicates after each step.
        """
        left_s, step = work_s, (start_ms - self._start_ms) // STEP_MS
        from_ms, last_ms = start_ms, start_ms + round(longest_s * 1000)
        while left_s > 0 and from_ms < last_ms:
            paces = self._hour(step // STEPS)[step % STEPS :, list(hosts), 0].min(axis=-1)
            ends_ms = self._start_ms + (step + 1 + np.arange(len(paces))) * STEP_MS
            done_s = np.cumsum(paces * np.diff(ends_ms, prepend=from_ms) / 1000)
            if done_s[-1] >= left_s:
                place = int(np.searchsorted(done_s, left_s))
                return min(int(ends_ms[place]) - int((done_s[place] - left_s) / paces[place] * 1000), last_ms)
            left_s, step, from_ms = left_s - float(done_s[-1]), step + len(paces), int(ends_ms[-1])
        return last_ms

    def _hour(self, hour: int) -> Floats:
        while self._next <= hour:
            self._hours[self._next] = self._made(self._next)
            self._hours.pop(self._next - RETAINED_HOURS, None)
            self._next += 1
        if hour not in self._hours:
            raise ValueError(f"Hour {hour} of the load is no longer kept.")
        return self._hours[hour]

    def _made(self, hour: int) -> Floats:
        values = np.empty((STEPS, len(self.hosts), len(RESOURCES)))
        busy = self._bursts()
        noise, memory_noise = self._noise()
        jumps = RESTLESS * busy * self._random.normal(size=busy.shape)
        idle_cpu, busy_cpu, memory = np.array([(host.idle, host.busy, host.memory) for host in self.hosts]).T
        values[..., 0] = np.where(busy, busy_cpu, idle_cpu) + noise + jumps
        values[..., 1] = MEMORY_B * (memory * np.where(busy, 0.7, 1.0) + 0.2 * memory_noise)
        values[..., 2] = BANDWIDTH_B_S * (0.9 + 0.05 * self._random.normal(size=busy.shape))
        start_ms = self._start_ms + hour * HOUR_MS
        for fault in self.faults:
            first = max(0, -(-(fault.start_ms - start_ms) // STEP_MS))
            last = min(STEPS, -(-(fault.end_ms - start_ms) // STEP_MS))
            if first < last:
                values[first:last, list(fault.hosts)] *= np.array(fault.left)
        np.clip(values[..., 0], 0.02, 1.0, out=values[..., 0])
        return np.maximum(values, 0.0)

    def _bursts(self) -> npt.NDArray[np.bool_]:
        """Return whether each host is busy at each step; the durations of both states are exponentially distributed."""
        changes = self._random.uniform(size=(STEPS, len(self.hosts)))
        busy = np.empty(changes.shape, np.bool_)
        step_s = STEP_MS / 1000
        for step in range(STEPS):
            leaves = changes[step] < np.where(self._is_busy, step_s / BUSY_S, step_s / IDLE_S)
            self._is_busy = self._is_busy ^ (leaves & self._is_bursty)
            busy[step] = self._is_busy
        return busy

    def _noise(self) -> Floats:
        """Return autocorrelated noise of processor and memory, shape (2, steps, hosts), that fades within a minute; bursty hosts have more."""
        keep = exp(-1 / _MEMORY_STEPS)
        size = np.where(self._is_bursty, 0.03, 0.012) * (1 - keep**2) ** 0.5
        fresh = self._random.normal(size=(2, STEPS, len(self.hosts))) * size
        noise = np.empty(fresh.shape)
        for step in range(STEPS):
            self._drift = keep * self._drift + fresh[:, step]
            noise[:, step] = self._drift
        return noise


PARTITION: Final = "shared"
FIRST_ID: Final = 500_000  # first job id on the shared nodes; job ids on the whole nodes start at 1000
TYPICAL_SPEED: Final = 0.75
DRAWS: Final = 200
FOREVER_MS: Final = 10**15
ANALYSIS: Final = SimulatedApplication(
    "image-analysis", amdahl_log(20.0, 1_600.0, 10.0), (1, 2, 4, 8), "runs on shared nodes, at the pace of their load",
    interval_s=150.0, project="life-sciences", activity=Activity(1.6, 3.0, 0.4, 0.04), disturbed_every=45,
)  # fmt: skip


class SharedNodes:
    """Three dozen shared hosts that measure their load, and the jobs of one application on them.

    After `slow_ms` one calm host is slow permanently; from `rack_ms` on a rack stalls for twenty minutes. After `hungry_ms` one
    host draws more power than its counters explain.
    """

    application = ANALYSIS

    def __init__(self, seed: int, start_ms: int, *, system: str = SYSTEM) -> None:
        self.system = system
        self.hosts = shared_hosts(seed)
        self.slow_host, self.hungry_host = (self._calm_host(rack) for rack in (2, 1))
        self.slow_ms, self.rack_ms = start_ms + 5 * HOUR_MS, start_ms + 8 * HOUR_MS
        rack = tuple(place for place, host in enumerate(self.hosts) if host.rack == 3)
        self._faults = (
            Disturbance((self.slow_host,), self.slow_ms, FOREVER_MS, (0.65, 0.6, 0.5)),
            Disturbance(rack, self.rack_ms, self.rack_ms + HOUR_MS // 3, (0.6, 0.7, 0.15)),
        )
        self.hungry_ms = start_ms + 4 * HOUR_MS
        self._seed, self._start_ms = seed, start_ms

    def _calm_host(self, rack: int) -> int:
        return next(place for place, host in enumerate(self.hosts) if host.rack == rack and host.temper == "calm")

    def loads(self) -> Loads:
        """Return the load generator, which starts with the simulation."""
        return Loads(self._seed, self._start_ms, self.hosts, self._faults)

    def samples(self, start_ms: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield time and message every ten seconds, endlessly: an array of native `load` samples of all hosts."""
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
        """Yield an endless stream of job.started and job.completed events in order of time; each call restarts the simulation."""
        return _SharedHosts(self, self._seed, self._start_ms).events()

    def meters(self, on_ended: Callable[[Metered], None] = lambda _: None, *, start_ms: int | None = None) -> Meters:
        """Return the meters for counters, power and energy of the hosts, which pass the true values of each run to `on_ended`."""
        loads, watts = self.loads(), Watts(self._seed, len(self.hosts), self.hungry_host, self.hungry_ms)
        return Meters(
            tuple(host.name for host in self.hosts), watts,
            self._start_ms if start_ms is None else start_ms,
            available=lambda time_ms: loads.at(time_ms)[:, 0], on_ended=on_ended, system=self.system,
        )  # fmt: skip

    def truth(self, application_id: str, n: float) -> float | None:
        """Return the median run time in seconds under the usual load; None for an unknown application or size."""
        return self._typical.get(n) if application_id == self.application.key(self.system).id else None

    @cached_property
    def _typical(self) -> dict[float, float]:
        """The typical run time in seconds by size: the median over hosts and times before the first disturbance."""
        loads, random = Loads(self._seed, 0, self.hosts), np.random.default_rng([self._seed, 4])
        moments = np.sort(random.integers(0, 24 * HOUR_MS, DRAWS))
        times_by_size: dict[float, list[float]] = {float(n): [] for n in self.application.sizes}
        for moment in moments.tolist():
            for n, times in times_by_size.items():
                hosts = tuple(random.permutation(len(self.hosts))[: int(n)].tolist())
                times.append((loads.end_ms(moment, hosts, self.application.law(n), 7_200.0) - moment) / 1000)
        return {n: float(np.median(times)) for n, times in times_by_size.items()}


class _SharedHosts(SimulationPass):
    """One pass of the shared hosts: jobs get random free hosts, and run at a pace that depends on the hosts' load."""

    def __init__(self, nodes: SharedNodes, seed: int, start_ms: int) -> None:
        self._nodes, self._loads = nodes, nodes.loads()
        self._random = np.random.default_rng([seed, 3])
        super().__init__([Submissions(nodes.application, self._random)], start_ms, len(nodes.hosts), FIRST_ID)

    def expected_s(self, application: SimulatedApplication, n: int, now_ms: int) -> float:  # noqa: ARG002 - the law never changes
        return application.law(n) / TYPICAL_SPEED

    def chosen(self, free: Sequence[int], n: int) -> tuple[int, ...]:
        return tuple(free[place] for place in sorted(self._random.permutation(len(free))[:n].tolist()))

    def run(self, job: SimulatedJob, nodes: tuple[int, ...], now_ms: int) -> tuple[TimedEvent, TimedEvent]:
        work_s = job.application.law(job.n) * job.slowed
        true_s = (self._loads.end_ms(now_ms, nodes, work_s, 2 * job.time_limit_s) - now_ms) / 1000
        names = [self._nodes.hosts[host].name for host in nodes]
        more = {"user": "user3", "partition": PARTITION, "exclusive": False}
        facts = job_facts(job, self._nodes.system, now_ms, names, more)
        return run_of(job, facts, now_ms, nodes, outcome(job, true_s, job.application.failure_rate[0]))


# time before the opening when one application becomes slower and another one starts to fail
CHANGED_BEFORE_MS: Final = 2 * HOUR_MS
Kind = Literal["jobs", "load", "energy"]
_TIME: Final = attrgetter("time_ms")


class TimedMessage(NamedTuple):
    """A message and its time in ms since the epoch: a native event, or energy in line protocol."""

    time_ms: int
    kind: Kind
    value: bytes


class LivingCentre:
    """A centre with a whole-node partition, in use since `began_ms`, and with shared nodes that run and report from `opened_ms` on.

    At `changed_ms` one application becomes slower and another one starts to fail more often; by default this happens two hours
    before `opened_ms`. The same seed and times give the same job events, from whatever time on they are read.
    """

    def __init__(
        self, seed: int, began_ms: int, opened_ms: int, system: str = SYSTEM, *, changed_ms: int | None = None
    ) -> None:
        self.seed, self.began_ms, self.opened_ms = seed, began_ms, opened_ms
        changed_ms = max(opened_ms - CHANGED_BEFORE_MS, began_ms) if changed_ms is None else changed_ms
        self.whole = Centre(seed, began_ms, horizon_s=(changed_ms - began_ms) / 500, system=system)
        self.shared = SharedNodes(seed, opened_ms, system=system)

    def truth(self, application_id: str, n: float, time_ms: int) -> float | None:
        """Return the true run time in seconds at `time_ms`; on shared nodes, the run time under the usual load."""
        return self.whole.truth(application_id, n, time_ms) or self.shared.truth(application_id, n)

    def jobs(self, from_ms: int) -> Iterator[TimedMessage]:
        """Yield an endless stream of job messages from `from_ms` on."""
        events = heapq.merge(self.whole.events(), self.shared.events(), key=_TIME)
        return (TimedMessage(event.time_ms, "jobs", event.value) for event in events if event.time_ms >= from_ms)

    def measured(self, from_ms: int) -> Iterator[TimedMessage]:
        """Yield an endless stream of host measurements from `from_ms` on, which must be a full minute.

        Raise ValueError if `from_ms` is before the opening of the shared nodes.
        """
        if from_ms % MINUTE_MS or from_ms < self.opened_ms:
            raise ValueError(f"{from_ms} is no full minute since {self.opened_ms}.")
        load = (TimedMessage(time_ms, "load", value) for time_ms, value in self.shared.samples(from_ms))
        shared = _metered(self.shared.meters(start_ms=from_ms), running(self.shared.events(), from_ms))
        whole = _metered(job_meters(self.whole, start_ms=from_ms), running(self.whole.events(), from_ms))
        return heapq.merge(load, shared, whole, key=_TIME)


def running(events: Iterator[TimedEvent], from_ms: int) -> Iterator[TimedEvent]:
    """Yield the start events of the jobs that run at `from_ms`, then all later events, endlessly."""
    begun: dict[str, TimedEvent] = {}
    for event in events:
        if event.time_ms > from_ms:
            yield from begun.values()
            yield event
            break
        job_id = event.event["job_id"]
        if event.event["type"] == "job.started":
            begun[job_id] = event
        else:
            del begun[job_id]
    yield from events


def _metered(meters: Meters, events: Iterator[TimedEvent]) -> Iterator[TimedMessage]:
    for reported in meters.messages(events):
        yield TimedMessage(reported.time_ms, "load", reported.events)
        if reported.lines:
            yield TimedMessage(reported.time_ms, "energy", reported.lines)
