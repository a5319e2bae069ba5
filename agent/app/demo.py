"""The demo: the whole agent in memory on a simulated centre, which first replays its past and then runs live."""

import heapq
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Final, TypeVar

import msgspec
import psutil

from agent.app.embedded import Embedded
from agent.clock import Clock
from agent.collector.sources import newest_first
from agent.config.tree import Config, Source
from agent.simulation.centre import SYSTEM
from agent.simulation.load import LivingCentre
from processors.contracts.alerts import AlertSettings, HostAnomaly, RackAnomaly
from processors.contracts.hosts import HostCounts, HostUse, HostView
from processors.contracts.names import rfc3339
from processors.contracts.outputs import Alert
from processors.contracts.service import DeadLetterView, Forwarding, Service, SourceStatus, Views
from processors.contracts.telemetry import MetricMapping, Telemetry

LOCAL_SYSTEM: Final = "local"
HOST: Final = "this machine"
TOPIC: Final = "local.load"
EVERY_S: Final = 2.0
RETENTION_MS: Final = 1_800_000
Measure = Callable[[], Mapping[str, float]]
View = TypeVar("View")
_ENCODER: Final = msgspec.json.Encoder()
START_MS: Final = 1_795_168_800_000
JOBS: Final = "simulated.jobs"
LOAD: Final = "simulated.load"
ENERGY_TOPIC: Final = "simulated.energy"
TOPICS: Final[dict[str, str]] = {"jobs": JOBS, "load": LOAD, "energy": ENERGY_TOPIC}
STEP_S: Final = 0.05
LIVE_STEP_S: Final = 0.5
HOUR_S: Final = 3_600.0
# when the live phase begins, one host has drawn more power for four hours, one was slow for three hours, and a rack stalls
PAST_S: Final = 8.25 * HOUR_S
# before the live phase, one application becomes slower, and another one begins to fail more often
CHANGED_BEFORE_S: Final = 2 * HOUR_S
CHANGED_AFTER_S: Final = 10 * HOUR_S  # in fast motion, time from the start to these changes
BEHIND_MS: Final = 60_000  # a lag shorter than this counts as live
SPEED_OVER_S: Final = 10.0
SPEED_RETAINED: Final = 0.9  # share of the requested speed that counts as reached
# the agent gets messages in batches of this duration, so that load samples and job events arrive in order
QUANTUM_MS: Final = 60_000
ALERTS: Final = AlertSettings(  # the demo must learn in five hours; a host has three resources besides constant power
    host_anomaly=HostAnomaly(learn_s=17_100.0, resources_min=3),
    rack_anomaly=RackAnomaly(pattern=r"^(r\d+)n\d+$"),
)
RAPL: Final = Telemetry(  # energy counters come in line protocol, as Telegraf writes them
    metrics=(MetricMapping(measurement="rapl", field="joules", resource="energy_total", instance="component"),)
)
SOURCES: Final = (
    Source(topics=(JOBS, LOAD), format="native"),
    Source(topics=(ENERGY_TOPIC,), format="line-protocol", system=SYSTEM, telemetry=RAPL),
)
NEVER: Final = threading.Event()  # an event that is never set


def measured() -> Mapping[str, float]:
    """Return measurements of this machine: idle share of the CPU since the last call, free memory in bytes, free disk in bytes."""
    return {
        "cpu_available": min(max(1.0 - psutil.cpu_percent(None) / 100, 0.0), 1.0),
        "memory_free": float(psutil.virtual_memory().available),
        "disk_free": float(psutil.disk_usage("/").free),
    }


class ThisMachine:
    """Measures this machine every few seconds, and computes windows, forecasts and anomalies for it as for any other host.

    Samples pass through a topic and the collector. Each sample calls `measure`. While the simulated centre replays its past, its
    clock is behind the real one, so this machine is a separate system with its own journal and learner.
    """

    def __init__(self, clock: Clock, measure: Measure = measured) -> None:
        self._clock, self._measure = clock, measure
        config = Config(sources=(Source(topics=(TOPIC,), format="native"),))
        self._agent = Embedded(config, clock, raw_retention_ms=RETENTION_MS)
        self.service: Service = self._agent.service
        self._collector = self._agent.collector()
        self._producer = self._agent.log.producer()
        self._due_s = clock.monotonic_s()
        measure()  # the CPU load is measured since the last call

    def step(self) -> bool:
        """Take a sample if a sample is due; return whether a sample was taken."""
        now_s, now_ms = self._clock.monotonic_s(), self._clock.now_ms()
        if now_s < self._due_s:
            return False
        self._due_s = now_s + EVERY_S
        self._producer.send(TOPIC, self._message(now_ms), None, 0, now_ms)
        self._producer.flush(1.0)
        self._collector.step(now_ms, 0.0)
        self._agent.step()
        return True

    def close(self) -> None:
        self._agent.close()

    def _message(self, now_ms: int) -> bytes:
        head = {"type": "load", "system": LOCAL_SYSTEM, "host": HOST, "time": rfc3339(now_ms)}
        return _ENCODER.encode([{**head, "resource": name, "value": value} for name, value in self._measure().items()])


class CombinedService(Forwarding):
    """Combines services of several systems: hosts, alerts, sources and dead letters come from all services, the rest from `first`."""

    def __init__(self, first: Service, others: Mapping[str, Service]) -> None:
        super().__init__(first)
        self._by_system, self._others, self._all = others, tuple(others.values()), (first, *others.values())

    def alerts(self) -> Sequence[Alert]:
        """Return the open alerts of all services, followed by their resolved alerts, newest first."""
        alerts = chain.from_iterable(service.alerts() for service in self._all)
        return sorted(alerts, key=lambda alert: alert.status == "resolved")

    def hosts(self, limit: int) -> Sequence[HostView]:
        return self._first_of(limit, lambda service, count: service.hosts(count))

    def host_counts(self) -> HostCounts:
        return sum((service.host_counts() for service in self._all), HostCounts())

    def host_names(self, limit: int) -> Sequence[tuple[str, str]]:
        return self._first_of(limit, lambda service, count: service.host_names(count))

    def host_uses(self, limit: int) -> Sequence[HostUse]:
        return self._first_of(limit, lambda service, count: service.host_uses(count))

    def reading(self, system: str) -> Views:
        return self._by_system.get(system, self._service).reading(system)

    def dead_letters(self) -> Sequence[DeadLetterView]:
        letters = chain.from_iterable(service.dead_letters() for service in self._all)
        return sorted(letters, key=attrgetter("time_ms"), reverse=True)

    def sources(self) -> Sequence[SourceStatus]:
        return newest_first(chain.from_iterable(service.sources() for service in self._all))

    def _first_of(self, limit: int, views: Callable[[Service, int], Sequence[View]]) -> Sequence[View]:
        collected: list[View] = []
        for service in (*self._others, self._service):
            if len(collected) < limit:
                collected += views(service, limit - len(collected))
        return collected


class MeasuredSpeed:
    """Measures the simulated seconds per real second over the last SPEED_OVER_S seconds."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, int]] = deque()

    def note(self, monotonic_s: float, now_ms: int) -> None:
        self._marks.append((monotonic_s, now_ms))
        while monotonic_s - self._marks[0][0] > SPEED_OVER_S and len(self._marks) > 2:
            self._marks.popleft()

    def measured(self) -> float | None:
        """Return the simulated seconds per real second; None during the first second."""
        if not self._marks:
            return None
        (first_s, first_ms), (last_s, last_ms) = self._marks[0], self._marks[-1]
        return (last_ms - first_ms) / 1000 / (last_s - first_s) if last_s - first_s >= 1.0 else None


class Demo:
    """One run of the demo: the simulated centre replays hours of work as fast as possible, then continues live.

    With a `speed`, in simulated seconds per second, the simulation starts at START_MS and runs at this speed. The demo then
    does not measure this machine, because the simulated time differs from the real time.
    """

    def __init__(self, seed: int, speed: float | None, clock: Clock, measure: Measure = measured) -> None:
        self._speed = speed
        self._clock = clock
        began_ms = clock.now_ms() - round(PAST_S * 1000)
        self.start_ms = START_MS if speed is not None else began_ms - began_ms % QUANTUM_MS
        config = Config(sources=SOURCES, alerts=ALERTS)
        self.agent = Embedded(config, clock, raw_retention_ms=RETENTION_MS)
        self.machine = ThisMachine(clock, measure)
        others = {LOCAL_SYSTEM: self.machine.service} if speed is None else {}
        self.service: Service = CombinedService(self.agent.service, others)
        self._collector = self.agent.collector()
        self._producer = self.agent.log.producer()
        changed_s = PAST_S - CHANGED_BEFORE_S if speed is None else CHANGED_AFTER_S
        changed_ms = self.start_ms + round(changed_s * 1000)
        self._living = LivingCentre(seed, self.start_ms, self.start_ms, changed_ms=changed_ms)
        self.centre, self.shared = self._living.whole, self._living.shared
        messages = self._living.jobs(self.start_ms), self._living.measured(self.start_ms)
        self._messages = heapq.merge(*messages, key=attrgetter("time_ms"))
        self._next = next(self._messages)
        self._reached = MeasuredSpeed()
        self.now_ms = self.start_ms
        self.error: Exception | None = None
        self._collector.step(self.start_ms, 0.0)  # a collector joins its group within its first step

    def truth(self, application_id: str, n: float) -> float | None:
        """Return the true run time in s at the present simulated time, on shared nodes under the usual load; None if it is unknown."""
        return self._living.truth(application_id, n, self.now_ms)

    def headline(self) -> str:
        """Return a line with the simulated time and the simulation speed."""
        now, reached = rfc3339(self.now_ms), self._reached.measured()
        if self._speed is not None:
            short = reached is not None and reached < SPEED_RETAINED * self._speed
            slow = f"; this machine cannot keep up with {self._speed:g}" if short else ""
            return f"simulated centre, {now}, {(reached or 0.0) if short else self._speed:.4g} times real time{slow}"
        if self.is_live:
            return f"simulated centre, {now}, as it happens"
        left = f"the last {(self._clock.now_ms() - self.now_ms) / 1000 / HOUR_S:.1f} hours are still to come"
        return f"simulated centre, {now}, {left}" + (
            f", at {reached:.0f} times real time" if reached is not None else ""
        )

    @property
    def is_live(self) -> bool:
        """Whether the replay of the past has ended."""
        return self._speed is None and self._clock.now_ms() - self.now_ms < BEHIND_MS

    def run(self, stop: threading.Event) -> None:
        """Advance the centre until `stop` is set; an error ends the demo and is stored in `error`."""
        began_s = self._clock.monotonic_s()
        try:
            while not self._clock.sleep(LIVE_STEP_S if self.is_live else STEP_S, stop):
                self.step(self._clock.monotonic_s() - began_s, stop)
        except Exception as error:  # noqa: BLE001 - reported by the command, which waits for this thread
            self.error = error
            stop.set()

    def step(self, elapsed_s: float = 0.0, stop: threading.Event = NEVER) -> None:
        """Advance the simulated centre to the present; once live, also measure this machine."""
        if self.is_live:
            self.machine.step()
        self.advance(elapsed_s, stop)

    def advance(self, elapsed_s: float, stop: threading.Event = NEVER) -> None:
        """Advance the centre by `elapsed_s` real seconds, in steps of one minute so that the loop soon notices that `stop` is set."""
        while self.now_ms < (until_ms := self._until_ms(elapsed_s)) and not stop.is_set():
            self._pass_time(min(self.now_ms - self.now_ms % QUANTUM_MS + QUANTUM_MS, until_ms))
            self._reached.note(self._clock.monotonic_s(), self.now_ms)

    def _until_ms(self, elapsed_s: float) -> int:
        return self._clock.now_ms() if self._speed is None else self.start_ms + round(elapsed_s * self._speed * 1000)

    def close(self) -> None:
        self.machine.close()
        self.agent.close()

    def _pass_time(self, until_ms: int) -> None:
        while self._next.time_ms <= until_ms:
            self._producer.send(TOPICS[self._next.kind], self._next.value, None, 0, self._next.time_ms)
            self._next = next(self._messages)
        self._producer.flush(1.0)
        # the messages of all topics must be written before the tick that advances time
        for now_ms in (self.now_ms, until_ms):
            while self._collector.step(now_ms, 0.0):
                pass
        self.agent.step()
        self.now_ms = until_ms
