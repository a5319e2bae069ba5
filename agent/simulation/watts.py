"""Power of simulated hosts: idle, and so much for each event that is counted; who has which sensors; what is amiss."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from agent.simulation.activity import Floats

COMPONENTS: Final = ("system", "cpu", "memory")
IDLE_W: Final = np.array([110.0, 62.0, 11.0])  # of what is neither processor nor memory, of processors, of memory
PER_EVENT_J: Final = np.array(  # of processors and memory for each of COUNTERS
    [[0.55e-9, 0.40e-9, 1.5e-9, 0.0], [0.0, 0.0, 0.0, 0.26e-9]]
)
LOSSES: Final = 1.06  # of the power supply: a host draws so many times what its parts use
SPREAD: Final = 0.015  # deviation of ln power between hosts of one make
WITHOUT_EVERY: Final = 6  # one of so many hosts has no sensor of power at all
ENERGY_RANGE_J: Final = (262_143.328_850, 65_532.610_987)  # where counters of processors and memory start anew


@dataclass(frozen=True, slots=True)
class Excess:
    """A host that draws `factor` times the power that its counters explain, from `start_ms` on.

    >>> Excess(host=3, start_ms=0, factor=1.4).factor
    1.4
    """

    host: int
    start_ms: int
    factor: float


class Watts:
    """What hosts draw: an exact function of what they count.

    `make` (hosts,) multiplies the power of each host, `has_sensor` tells who can measure it.

    >>> watts = Watts(1, hosts=12)
    >>> int(watts.has_sensor.sum()), watts.energy_j(np.zeros((12, 4)), 1.0, 0).shape
    (10, (12, 3))
    """

    def __init__(self, seed: int, hosts: int, excess: Excess | None = None) -> None:
        random = np.random.default_rng([seed, 8])
        self.make: Floats = np.exp(SPREAD * random.normal(size=hosts))
        self.has_sensor: npt.NDArray[np.bool_] = np.arange(hosts) % WITHOUT_EVERY != WITHOUT_EVERY - 1
        self.excess = excess

    def energy_j(self, counts: Floats, seconds: float, time_ms: int) -> Floats:
        """Return the energy of COMPONENTS, (hosts, 3), while COUNTERS grew by `counts` (hosts, 4) in so many seconds."""
        parts = self.make[:, None] * (IDLE_W[1:] * seconds + counts @ PER_EVENT_J.T)
        system = LOSSES * (self.make * IDLE_W[0] * seconds + parts.sum(axis=1))
        if self.excess is not None and time_ms >= self.excess.start_ms:
            system[self.excess.host] *= self.excess.factor
        return np.column_stack([system, parts])

    def power_w(self, per_second: Floats) -> Floats:
        """Return the power (3,) of a host of the usual make whose COUNTERS grow by so much a second, (4,).

        >>> Watts(1, 1).power_w(np.zeros(4)).round(1).tolist()
        [194.0, 62.0, 11.0]
        """
        parts = IDLE_W[1:] + PER_EVENT_J @ per_second
        return np.array([LOSSES * (IDLE_W[0] + parts.sum()), *parts])
