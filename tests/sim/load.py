"""Measurements of a few hosts, by a seed: on time, late, too late, repeated, out of order, from hosts that come and go."""

import json
import random
from typing import Any

from agent.contracts.moments import rfc3339
from tests.sim.history import SYSTEM

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

    def _sample(self, now_ms: int) -> dict[str, Any]:
        at_ms = now_ms - self._dice.randrange(*self._dice.choice(DELAYS_MS))
        host = f"h{now_ms // LIFE_MS}-{self._dice.randrange(HOSTS)}"
        value = self._dice.choice((0.25, 0.5, round(self._dice.random(), 3)))
        sample = {"type": "load", "system": SYSTEM, "host": host, "resource": "cpu_available"}
        return {**sample, "time": rfc3339(at_ms), "value": value}
