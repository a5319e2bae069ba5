"""Measurements of a few hosts, by a seed: on time, late, too late, repeated, out of order, from hosts that come and go."""

import json
import random
from typing import Any

from processors.contracts.names import rfc3339
from tests.sim.history import HOSTS as JOB_HOSTS
from tests.sim.history import START_MS, SYSTEM

HOSTS = 2  # at a time, of each partition
LIFE_MS = 240_000  # of a host's name
DELAYS_MS = ((0, 5_000), (0, 5_000), (0, 5_000), (5_000, 100_000), (100_000, 400_000))


class Hosts:
    """Makes messages of samples that are measured about now; `bad` counts those that have to be refused."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._sent: list[dict[str, Any]] = []
        self.bad = 0

    def message(self, now_ms: int) -> bytes:
        """Return the next message."""
        samples = [self._sample(now_ms) for _ in range(self._dice.randrange(1, 5))]
        if self._sent and self._dice.random() < 0.2:
            samples.append(self._dice.choice(self._sent))
        self._sent = [*self._sent[-20:], *samples]
        if self._dice.random() < 0.05:
            samples.append({**samples[0], "value": 7.0})
            self.bad += 1
        return json.dumps(samples if len(samples) > 1 else samples[0]).encode()

    def profiled(self, now_ms: int) -> bytes:
        """Return a message of what hosts that jobs run on tell for profiles."""
        return json.dumps([self._profiled(now_ms) for _ in range(self._dice.randrange(1, 8))]).encode()

    def _sample(self, now_ms: int) -> dict[str, Any]:
        at_ms = now_ms - self._dice.randrange(*self._dice.choice(DELAYS_MS))
        host = f"h{now_ms // LIFE_MS}-{self._dice.randrange(HOSTS)}"
        value = self._dice.choice((0.25, 0.5, round(self._dice.random(), 3)))
        sample = {"type": "load", "system": SYSTEM, "host": host, "resource": "cpu_available"}
        return {**sample, "time": rfc3339(at_ms), "value": value}

    def _profiled(self, now_ms: int) -> dict[str, Any]:
        """Return what a host that jobs run on tells for their profiles: counters, or power."""
        at_ms = now_ms - self._dice.randrange(*self._dice.choice(DELAYS_MS))
        reported = {"system": SYSTEM, "host": self._dice.choice(JOB_HOSTS), "time": rfc3339(at_ms)}
        kind = self._dice.choice(("power", "delta", "total"))
        if kind == "power":
            watts = self._dice.choice((0.0, None, 300.0 + self._dice.randrange(200)))
            return {**reported, "type": "power", "component": "system", "power_w": watts}
        if kind == "delta":
            counters = {"cycles": self._dice.randrange(10**9)}
            return {**reported, "type": "counters", "interval_s": 20, "counters": counters}
        misses = (at_ms - START_MS) // 10 % 30_000 + 1_000_000
        return {**reported, "type": "counters", "cumulative": True, "counters": {"misses": misses}}
