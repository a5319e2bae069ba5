"""Settled runs whose truth is known: what counters report a run that others disturb, and power that no counter explains.

A disturbance by the share d is of memory and network: the same work takes 1 + d times as long. Cycles go on, so everything
that belongs to the work falls per cycle by 1 + d, stalled cycles fill the rest, and misses of the shared cache rise.
"""

import numpy as np

from processors.contracts.hosts import Profile
from processors.power.model import ProfileFact

CYCLES_PER_S = 2.5e9
START_MS = 1_795_168_800_000
SIZES = (4, 8, 16, 32)
WORK = {
    "PAPI_TOT_INS": 1.4, "PAPI_L1_DCM": 0.03, "PAPI_BR_INS": 0.18, "PAPI_FP_OPS": 0.6, "PAPI_LD_INS": 0.4,
    "PAPI_SR_INS": 0.15, "PAPI_VEC_DP": 0.2, "PAPI_TLB_DM": 0.0004,
}  # fmt: skip
STALLS, SHARED_MISSES = 0.25, 0.004
WATTS = {"PAPI_TOT_INS": 70.0, "PAPI_VEC_DP": 150.0, "PAPI_L3_TCM": 6000.0}
BASE_W = 150.0


def contended_run(
    i: int, *, disturbed: float = 0.0, watts: float = 1.0, scatter: float = 0.03, heavy: bool = False
) -> ProfileFact:
    """Return the i-th run; its counters scatter by `scatter` of ln, `watts` multiplies its power without any counter.

    With `heavy` tails some runs are far from the others without any reason: all that scatters has three degrees of freedom.
    """
    rng = np.random.default_rng(i)
    n = SIZES[i % len(SIZES)]

    def off(size: float = scatter) -> float:
        return float(np.exp(size * (rng.standard_t(3) if heavy else rng.standard_normal())))

    work = off()  # what a run does in a cycle, all of it together
    comm = (n / SIZES[0]) ** -0.08
    per_cycle = {name: rate * work * comm * off() / (1.0 + disturbed) for name, rate in WORK.items()}
    per_cycle["PAPI_RES_STL"] = min((STALLS * off() + disturbed) / (1.0 + disturbed), 1.0)
    per_cycle["PAPI_L3_TCM"] = SHARED_MISSES * off() * (1.0 + disturbed)
    power_w = BASE_W + sum(WATTS[name] * per_cycle[name] for name in WATTS)
    power_w *= off(0.01) * watts
    counters = {name: rate * CYCLES_PER_S for name, rate in per_cycle.items()} | {
        "PAPI_TOT_CYC": CYCLES_PER_S * off(0.005)
    }
    profile = Profile(
        hosts=n,
        minutes=10 * n,
        expected=10 * n,
        counters=counters,
        power_w={"system": power_w, "cpu": 0.6 * power_w * off(0.01)},
        measured={"system": 1.0, "cpu": 1.0},
    )
    run_time_s = (2000.0 / n + 30.0) * (1.0 + disturbed) * off(0.02)
    return ProfileFact(f"exa/{i}@{START_MS}", float(n), run_time_s, START_MS + i * 900_000, profile)
