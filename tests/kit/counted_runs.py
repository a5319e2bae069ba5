"""Runs whose time follows a counter at a given size, with their truth: linear stories, and ones where no counter matters.

Each run has a size and the rates of nine counters per cycle. One follows the size and nothing else, five are chance. `STORIES` say what
the run time is of; it scatters by NOISE about that.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from processors.contracts.hosts import Profile

CYCLES_PER_S: Final = 2.4e9
NOISE: Final = 0.02
SIZES: Final = (2.0, 4.0, 8.0, 16.0)
MISSES, TLB, FOLLOWER, CYCLES = "PAPI_L2_DCM", "PAPI_TLB_DM", "PAPI_FUL_ICY", "PAPI_TOT_CYC"
CHANCE: Final = ("PAPI_BR_MSP", "PAPI_BR_INS", "PAPI_FP_OPS", "PAPI_LD_INS", "PAPI_L1_ICM", "PAPI_VEC_DP")
Rates = Mapping[str, float]
Truth = Callable[[float, Rates], float]


def level_s(n: float) -> float:
    """Return what a size takes by itself."""
    return 600.0 / math.pow(n, 0.9) + 12.0


STORIES: Final[dict[str, Truth]] = {
    "a time of its own": lambda n, rates: level_s(n) + 4000.0 * rates[MISSES],
    "a share of the time": lambda n, rates: level_s(n) * (0.5 + 25.0 * rates[MISSES]),
    "a power": lambda n, rates: level_s(n) * (rates[MISSES] / 0.02) ** 0.7,
    "two counters": lambda n, rates: level_s(n) * (0.4 + 20.0 * rates[MISSES] + 100.0 * rates[TLB]),
    "less on more nodes": lambda n, rates: level_s(n) + 9000.0 * rates[MISSES] / n**0.5,
    "none": lambda n, rates: level_s(n),
}
FOLLOWED: Final = tuple(name for name in STORIES if name != "none")


@dataclass(frozen=True)
class CountedRun:
    """A run of a story: its size, counters per cycle, and run time in s."""

    n: float
    rates: Rates
    run_time_s: float

    @property
    def profile(self) -> Profile:
        """The profile of the run, as its hosts would have told it."""
        counters = {name: rate * CYCLES_PER_S for name, rate in self.rates.items()} | {CYCLES: CYCLES_PER_S}
        return Profile(hosts=int(self.n), minutes=10, expected=10, counters=counters)


def counted_runs(story: str, count: int, seed: int) -> list[CountedRun]:
    """Return so many runs of a story."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(count):
        n = float(rng.choice(SIZES))
        rates = {MISSES: 0.008 + 0.024 * rng.random(), TLB: 0.0005 + 0.002 * rng.random()}
        rates[FOLLOWER] = 0.1 * n**0.5 * float(np.exp(0.1 * rng.normal()))
        rates |= {name: 0.05 + 0.2 * float(rng.random()) for name in CHANCE}
        time_s = STORIES[story](n, rates) * float(np.exp(NOISE * rng.normal()))
        found.append(CountedRun(n, rates, time_s))
    return found
