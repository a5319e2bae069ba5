"""The demo: the whole agent on the memory log, fed by the simulated centre, faster than real time."""

import heapq
import threading
from collections.abc import Iterator
from typing import Final

from agent.app.embedded import Embedded
from agent.app.this_machine import Measure, ThisMachine, measured
from agent.app.together import Together
from agent.clock import Clock
from agent.config.sources import MetricMapping, Source, Telemetry
from agent.config.tree import Config
from agent.contracts.host_alert_settings import HostAnomaly, RackAnomaly
from agent.contracts.moments import rfc3339
from agent.contracts.service import Service
from agent.contracts.settings import AlertSettings
from agent.simulation.centre import SYSTEM, Centre, TimedEvent
from agent.simulation.measured import MeasuredJobs
from agent.simulation.meters import Meters
from agent.simulation.shared import SharedNodes

START_MS: Final = 1_795_168_800_000
JOBS: Final = "simulated.jobs"
LOAD: Final = "simulated.load"
ENERGY: Final = "simulated.energy"
STEP_S: Final = 0.05
QUANTUM_MS: Final = 60_000  # what is told goes to the agent in such pieces, so that load and jobs come in their order
RETENTION_MS: Final = 1_800_000  # of what was read long ago; telemetry would fill the memory
ALERTS: Final = AlertSettings(  # nearly five hours are long here; three resources besides power, which stays the same
    host_anomaly=HostAnomaly(learn_s=17_100.0, resources_min=3), rack_anomaly=RackAnomaly(pattern=r"^(r\d+)n\d+$")
)
RAPL: Final = Telemetry(  # energy counters come in line protocol, as Telegraf would write them
    metrics=(MetricMapping(measurement="rapl", field="joules", resource="energy_total", instance="component"),)
)
SOURCES: Final = (
    Source(topics=(JOBS, LOAD), format="native"),
    Source(topics=(ENERGY,), format="line-protocol", system=SYSTEM, telemetry=RAPL),
)
Message = tuple[int, str, bytes]  # time, topic, value


class Demo:
    """One run of the demo; `speed` is simulated seconds per second. This machine is measured in its own time.

    >>> from agent.clock import SystemClock
    >>> demo = Demo(seed=1, speed=3600.0, clock=SystemClock())
    >>> for elapsed_s in (0.5, 1.0):
    ...     demo.advance(elapsed_s)
    >>> len(demo.service.predictions()) > 3
    True
    """

    def __init__(self, seed: int, speed: float, clock: Clock, measure: Measure = measured) -> None:
        self._speed = speed
        self._clock = clock
        config = Config(sources=SOURCES, alerts=ALERTS)
        self.agent = Embedded(config, clock, raw_retention_ms=RETENTION_MS)
        self.machine = ThisMachine(clock, measure)
        self.service: Service = Together(self.agent.service, self.machine.service)
        self._collector = self.agent.collector()
        self._producer = self.agent.log.producer()
        self._centre = Centre(seed=seed, start_ms=START_MS)
        self._shared = SharedNodes(seed=seed, start_ms=START_MS)
        self._measured = MeasuredJobs(self._centre)
        self._messages = self._told()
        self._next = next(self._messages)
        self.now_ms = START_MS
        self.error: Exception | None = None
        self._collector.step(START_MS, 0.0)  # joins the group

    def truth(self, application_id: str, n: float) -> float | None:
        """Return the true run time now, which the agent does not know; on shared nodes that under the usual load."""
        return self._centre.truth(application_id, n, self.now_ms) or self._shared.truth(application_id, n)

    def true_power_w(self, application_id: str, n: float) -> float | None:
        """Return the true mean power of all hosts of a usual run, in W; None where it is not measured."""
        return self._measured.power_w(application_id, n)

    def headline(self) -> str:
        """Return one line about the time in the simulated centre."""
        return f"simulated centre, {rfc3339(self.now_ms)}, {self._speed:g} times real time"

    def run(self, stop: threading.Event) -> None:
        """Let the centre's time pass until `stop` is set; an error ends it and is kept."""
        began_s = self._clock.monotonic_s()
        try:
            while not self._clock.sleep(STEP_S, stop):
                self.machine.step()
                self.advance(self._clock.monotonic_s() - began_s)
        except Exception as error:  # noqa: BLE001 - told by the command, which waits for this thread
            self.error = error
            stop.set()

    def advance(self, elapsed_s: float) -> None:
        """Bring the centre to where it is after so many real seconds."""
        until_ms = START_MS + round(elapsed_s * self._speed * 1000)
        while self.now_ms < until_ms:
            self._pass_time(min(self.now_ms - self.now_ms % QUANTUM_MS + QUANTUM_MS, until_ms))

    def close(self) -> None:
        """Free everything."""
        self.machine.close()
        self.agent.close()

    def _pass_time(self, until_ms: int) -> None:
        while self._next[0] <= until_ms:
            time_ms, topic, value = self._next
            self._producer.send(topic, value, None, 0, time_ms)
            self._next = next(self._messages)
        self._producer.flush(1.0)
        for now_ms in (self.now_ms, until_ms):  # what all topics tell comes before the tick that lets time pass
            while self._collector.step(now_ms, 0.0):
                pass
        self.agent.step()
        self.now_ms = until_ms

    def _told(self) -> Iterator[Message]:
        """Yield what the centre tells in the order of time."""
        jobs = (
            ((event.time_ms, JOBS, event.value) for event in part.events()) for part in (self._centre, self._shared)
        )
        load = ((time_ms, LOAD, value) for time_ms, value in self._shared.samples())
        shared = _metered(self._shared.meters(), self._shared.events())
        measured = _metered(self._measured.meters(), self._centre.events())
        return heapq.merge(*jobs, load, shared, measured, key=lambda message: message[0])


def _metered(meters: Meters, events: Iterator[TimedEvent]) -> Iterator[Message]:
    """Yield what meters tell of hosts on which this happens."""
    for told in meters.messages(events):
        yield told.time_ms, LOAD, told.events
        if told.lines:
            yield told.time_ms, ENERGY, told.lines
