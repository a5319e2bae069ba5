"""This machine's own load beside a simulated centre: a small agent of its own, in which time passes as it does here.

The centre's time runs hundreds of times faster. A clock for both would either stretch a second of this machine over
minutes or slow the centre down; so this machine is a system with a journal and a learner of its own.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
import psutil

from agent.app.embedded import Embedded
from agent.clock import Clock
from agent.config.sources import Source
from agent.config.tree import Config
from agent.contracts.moments import rfc3339
from agent.contracts.service import Service

SYSTEM: Final = "local"
HOST: Final = "this machine"
TOPIC: Final = "local.load"
EVERY_S: Final = 2.0
RETENTION_MS: Final = 1_800_000
Measure = Callable[[], Mapping[str, float]]
_ENCODER: Final = msgspec.json.Encoder()


def measured() -> Mapping[str, float]:
    """Return what this machine measures now: the processor since the last call, free memory and disk in bytes."""
    return {
        "cpu_available": min(max(1.0 - psutil.cpu_percent(None) / 100, 0.0), 1.0),
        "memory_free": float(psutil.virtual_memory().available),
        "disk_free": float(psutil.disk_usage("/").free),
    }


class ThisMachine:
    """Measures this machine every few seconds, and keeps windows, forecasts and anomalies of it as of any host.

    Samples go the way of all: through a topic and the collector. `measure` is asked at each of them.

    >>> from agent.clock import SystemClock
    >>> machine = ThisMachine(SystemClock())
    >>> machine.step(), machine.step()  # the second comes too soon
    (True, False)
    """

    def __init__(self, clock: Clock, measure: Measure = measured) -> None:
        self._clock, self._measure = clock, measure
        config = Config(sources=(Source(topics=(TOPIC,), format="native"),))
        self._agent = Embedded(config, clock, raw_retention_ms=RETENTION_MS)
        self._collector = self._agent.collector()
        self._producer = self._agent.log.producer()
        self._due_s = clock.monotonic_s()
        measure()  # the load of a processor is that since the last look

    @property
    def service(self) -> Service:
        """What readers see."""
        return self._agent.service

    def step(self) -> bool:
        """Measure if it is time to; return whether it was."""
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
        """Free everything."""
        self._agent.close()

    def _message(self, now_ms: int) -> bytes:
        head = {"type": "load", "system": SYSTEM, "host": HOST, "time": rfc3339(now_ms)}
        return _ENCODER.encode([{**head, "resource": name, "value": value} for name, value in self._measure().items()])
