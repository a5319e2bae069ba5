"""What applications make of the hardware of a host: the truth of its counters, which follows from application and size."""

from dataclasses import dataclass
from math import log2
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
COUNTERS: Final = ("PAPI_TOT_CYC", "PAPI_TOT_INS", "PAPI_L3_TCM", "memory_bytes")
FULL_CYCLES: Final = 64 * 2.4e9  # of a host in a second
LINE_BYTES: Final = 64.0
_OF_A_NEIGHBOUR: Final = 1.8  # times the misses of a run whose cache a neighbour uses as well


@dataclass(frozen=True, slots=True)
class Activity:
    """How an application uses a host: instructions per cycle, misses of the last cache per thousand of them, traffic.

    `streamed` are bytes of memory traffic per cycle besides those of the misses. With each doubling of the size the
    share `waits` of the instructions is lost to waiting for others, and of the traffic twice as much: the part of a host is smaller.

    >>> Activity(ipc=1.5, misses=2.0, streamed=0.3, waits=0.1).per_cycle(2.0).round(3).tolist()
    [1.0, 1.35, 0.003, 0.416]
    """

    ipc: float
    misses: float
    streamed: float
    waits: float = 0.03

    def per_cycle(self, n: float, luck: float = 1.0, slowed: float = 1.0) -> Floats:
        """Return COUNTERS per cycle of a run at a size, (4,).

        A run that takes `luck` times as long does the same work, and so does one that a neighbour slowed down.
        """
        lost = max(1.0 - self.waits * log2(n), 0.1)
        instructions = self.ipc * lost / (luck * slowed)
        misses = instructions * self.misses / 1000 * (_OF_A_NEIGHBOUR if slowed > 1 else 1.0)
        return np.array([1.0, instructions, misses, LINE_BYTES * misses + self.streamed * lost**2 / (luck * slowed)])


ORDINARY: Final = Activity(ipc=1.4, misses=2.0, streamed=0.4)
OTHERS: Final = Activity(ipc=0.8, misses=1.0, streamed=0.05).per_cycle(1.0)
"""Counters per cycle of what else runs on a host."""
