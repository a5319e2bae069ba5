"""Meters of simulated hosts: what runs on them is counted to the second, and told once a minute as native events.

Counters and energy are integrals over what truly ran, so a run's own are exact whenever it starts and ends. Sensors of
power tell its mean over half a minute; now and then one tells 0 for a minute, or nothing at all.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from agent.contracts.moments import rfc3339
from agent.simulation.activity import COUNTERS, FULL_CYCLES, OTHERS, Floats
from agent.simulation.centre import SYSTEM, TimedEvent
from agent.simulation.watts import COMPONENTS, ENERGY_RANGE_J, Watts
from agent.simulation.workload import Job

STEP_MS: Final = 10_000
MINUTE_MS: Final = 60_000
HALF_MS: Final = 30_000
DUMB_EVERY: Final = 211  # one of so many minutes of a host its sensor tells 0
SILENT_EVERY: Final = 307  # and its sampler nothing
_SYSTEM: Final = COMPONENTS.index("system")


@dataclass(slots=True)
class Metered:
    """A run as it truly was: its hosts, seconds, counts of COUNTERS and energy of COMPONENTS, of all hosts together.

    >>> Metered(None, (1, 2), 0).energy_j.tolist()
    [0.0, 0.0, 0.0]
    """

    job: Job
    nodes: tuple[int, ...]
    start_ms: int
    end_ms: int = 0
    counts: Floats = field(default_factory=lambda: np.zeros(len(COUNTERS)))
    energy_j: Floats = field(default_factory=lambda: np.zeros(len(COMPONENTS)))

    @property
    def seconds(self) -> float:
        """How long it ran."""
        return (self.end_ms - self.start_ms) / 1000

    @property
    def power_w(self) -> Floats:
        """Mean power of all its hosts together by component, (3,)."""
        return self.energy_j / self.seconds


class Meters:
    """Walks through what happens on hosts, `names` of them, and tells what they measure.

    `available` gives the share of each host's processor that is left for jobs (hosts,), at multiples of ten seconds.
    `is_told` chooses the jobs on whose hosts is measured; without it all hosts are, always. What ran is handed to `on_ended`.

    >>> from itertools import islice
    >>> from agent.simulation.shared import SharedNodes
    >>> meters = SharedNodes(1, 1795168800000).meters()
    >>> len(list(islice(meters.messages(), 3)))
    3
    """

    def __init__(
        self,
        names: tuple[str, ...],
        watts: Watts,
        start_ms: int,
        *,
        available: Callable[[int], Floats],
        is_told: Callable[[Job], bool] | None = None,
        on_ended: Callable[[Metered], None] = lambda _: None,
        system: str = SYSTEM,
    ) -> None:
        self._names, self._watts, self._system = names, watts, system
        self._available, self._is_told, self._on_ended = available, is_told, on_ended
        self._now_ms = start_ms
        self._share: Floats = available(start_ms)
        self._running: dict[str, Metered] = {}
        self._rates = np.zeros((len(names), len(COUNTERS)))
        self._told = np.full(len(names), is_told is None)
        self._counts = np.zeros((len(names), len(COUNTERS)))  # since the start of the minute
        self._energy_j = np.zeros((len(names), len(COMPONENTS)))  # since the start of the half minute
        self._counter_j = np.zeros((len(names), len(COMPONENTS)))  # of energy counters, which never start anew here
        self._halves: list[Floats] = []
        self._rate()

    def messages(self, events: Iterator[TimedEvent]) -> Iterator[tuple[int, bytes]]:
        """Yield time and message at the end of each minute, without end: an array of native events, if there are any."""
        due = next(events)
        while True:
            step_ms = self._now_ms - self._now_ms % STEP_MS + STEP_MS
            while due.time_ms <= step_ms:
                self._pass(due.time_ms)
                self._take(due)
                due = next(events)
            self._pass(step_ms)
            if step_ms % HALF_MS == 0:
                self._halves.append(self._energy_j / (HALF_MS / 1000))
                self._energy_j = np.zeros_like(self._energy_j)
            if step_ms % MINUTE_MS == 0:
                yield step_ms, self._minute(step_ms)
            self._share = self._available(step_ms)
            self._rate()

    def _take(self, event: TimedEvent) -> None:
        """Start or end a run."""
        if event.job is None:
            return
        if event.event["type"] == "job.started":
            self._running[event.job.job_id] = Metered(event.job, event.nodes, event.time_ms)
            if self._is_told is not None and self._is_told(event.job):
                self._told[list(event.nodes)] = True
        else:
            run = self._running.pop(event.job.job_id)
            run.end_ms = event.time_ms
            self._on_ended(run)
        self._rate()

    def _rate(self) -> None:
        """Work out how fast everything is counted now."""
        self._rates = np.outer(1.0 - self._share, OTHERS * FULL_CYCLES)
        for run in self._running.values():
            nodes, job = list(run.nodes), run.job
            pace = float(self._share[nodes].min())
            per_cycle = job.application.activity.per_cycle(job.n, job.luck, job.slowed)
            self._rates[nodes] += pace * FULL_CYCLES * per_cycle

    def _pass(self, until_ms: int) -> None:
        """Count until a time."""
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

    def _minute(self, end_ms: int) -> bytes:
        """Return what is told of the minute that ends now, and begin the next."""
        minute = end_ms // MINUTE_MS
        told = [host for host in np.flatnonzero(self._told).tolist() if (minute + 17 * host) % SILENT_EVERY]
        events = [event for host in told for event in self._events(host, minute, end_ms)]
        self._counts = np.zeros_like(self._counts)
        self._halves = []
        if self._is_told is not None:
            self._told[:] = False
            for run in self._running.values():
                if self._is_told(run.job):
                    self._told[list(run.nodes)] = True
        return f"[{','.join(events)}]".encode()

    def _events(self, host: int, minute: int, end_ms: int) -> Iterator[str]:
        head = f'"system":"{self._system}","host":"{self._names[host]}"'
        at = f'"time":"{rfc3339(end_ms)}"'
        counts = ",".join(
            f'"{name}":{count:.7g}' for name, count in zip(COUNTERS, self._counts[host].tolist(), strict=True)
        )
        yield f'{{"type":"counters",{head},{at},"interval_s":60,"counters":{{{counts}}}}}'
        if not self._watts.has_sensor[host]:
            return
        for half, power in enumerate(self._halves):
            middle = f'"time":"{rfc3339(end_ms - MINUTE_MS + HALF_MS // 2 + half * HALF_MS)}"'
            watts = float(power[host, _SYSTEM]) if (minute + 29 * host) % DUMB_EVERY else 0.0
            yield f'{{"type":"power",{head},{middle},"component":"system","power_w":{watts:.1f}}}'
