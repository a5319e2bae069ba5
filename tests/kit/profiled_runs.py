"""Settled runs with profiles whose truth is known: power follows two counters, and a third shows who was disturbed."""

import numpy as np

from processors.contracts.hosts import Profile
from processors.power.model import ProfileFact, ProfileModels

CYCLES_PER_S = 2.5e9
BASE_W, IPC_W, MEMORY_W = 150.0, 80.0, 2000.0
START_MS = 1_795_168_800_000
SIZES = (1, 2, 4, 8)


def profiled_run(i: int, *, counters: int = 6, n: int | None = None, disturbed: bool = False) -> ProfileFact:
    """Return the i-th run: power = 150 + 80 ipc + 2000 misses per cycle W a host, within 1 %."""
    rng = np.random.default_rng(i)
    size = SIZES[i % len(SIZES)] if n is None else n
    ipc, misses = 1.0 + rng.random(), 0.01 + 0.02 * rng.random()
    stalled = 0.8 if disturbed else 0.2 + 0.01 * rng.random()
    power_w = (BASE_W + IPC_W * ipc + MEMORY_W * misses) * float(np.exp(0.01 * rng.normal()))
    rates = {"PAPI_TOT_INS": ipc, "PAPI_L3_TCM": misses, "PAPI_RES_STL": stalled}
    rates |= {f"other_{j:02}": float(rng.random()) for j in range(counters - len(rates))}
    reported = {name: rate * CYCLES_PER_S for name, rate in rates.items()} | {"PAPI_TOT_CYC": CYCLES_PER_S}
    run_time_s = 100.0 / size + 5.0 + 20.0 / ipc
    profile = Profile(
        hosts=size,
        minutes=10,
        expected=10,
        counters=reported,
        power_w={"system": power_w, "cpu": 0.6 * power_w, "memory": 20.0 + MEMORY_W * misses},
        measured={"system": 1.0, "cpu": 1.0, "memory": 1.0},
    )
    return ProfileFact(f"exa/{i}@{START_MS}", float(size), run_time_s, START_MS + i * 60_000, profile)


def profiles_learn(models: ProfileModels, fact: ProfileFact) -> None:
    """Learn a run and do what it makes due: a fit to all of its steps."""
    models.learn(fact)
    while models.tick():
        pass
