"""The demo: the whole agent on the memory log, fed by the simulated centre, faster than real time."""

import threading
from collections.abc import Iterator
from typing import Final

from agent.app.embedded import Embedded
from agent.clock import Clock
from agent.config.sources import Source
from agent.config.tree import Config
from agent.contracts.moments import rfc3339
from agent.simulation.centre import Centre, TimedEvent

START_MS: Final = 1_795_168_800_000
TOPIC: Final = "simulated.jobs"
STEP_S: Final = 0.05


class Demo:
    """One run of the demo; `speed` is simulated seconds per second.

    >>> from agent.clock import SystemClock
    >>> demo = Demo(seed=1, speed=3600.0, clock=SystemClock())
    >>> for elapsed_s in (2.0, 4.0):
    ...     demo.advance(elapsed_s)
    >>> len(demo.agent.service.predictions()) > 3
    True
    """

    def __init__(self, seed: int, speed: float, clock: Clock) -> None:
        self._speed = speed
        self._clock = clock
        config = Config(sources=(Source(topics=(TOPIC,), format="native"),))
        self.agent = Embedded(config, clock)
        self._collector = self.agent.collector()
        self._producer = self.agent.log.producer()
        self._centre = Centre(seed=seed, start_ms=START_MS)
        self._events: Iterator[TimedEvent] = self._centre.events()
        self._next = next(self._events)
        self.now_ms = START_MS
        self.error: Exception | None = None

    def truth(self, application_id: str, n: float) -> float | None:
        """Return the true run time now, which the agent does not know."""
        return self._centre.truth(application_id, n, self.now_ms)

    def headline(self) -> str:
        """Return one line about the time in the simulated centre."""
        return f"simulated centre, {rfc3339(self.now_ms)}, {self._speed:g} times real time"

    def run(self, stop: threading.Event) -> None:
        """Let the centre's time pass until `stop` is set; an error ends it and is kept."""
        began_s = self._clock.monotonic_s()
        try:
            while not self._clock.sleep(STEP_S, stop):
                self.advance(self._clock.monotonic_s() - began_s)
        except Exception as error:  # noqa: BLE001 - told by the command, which waits for this thread
            self.error = error
            stop.set()

    def advance(self, elapsed_s: float) -> None:
        """Bring the centre to where it is after so many real seconds."""
        self.now_ms = START_MS + round(elapsed_s * self._speed * 1000)
        while self._next.time_ms <= self.now_ms:
            self._producer.send(TOPIC, self._next.value, None, 0, self._next.time_ms)
            self._next = next(self._events)
        self._producer.flush(1.0)
        while self._collector.step(self.now_ms, 0.0) or self._collector.lag():
            pass
        self.agent.step()
