"""Counters as rates: per cycle, so that a run at another clock or of another length is comparable; or per second."""

from collections.abc import Mapping
from typing import Final

CYCLES: Final = ("PAPI_TOT_CYC", "cycles", "cpu_cycles", "cpu-cycles", "CPU_CLK_UNHALTED_CORE")
DURATION: Final = "seconds"


def per_cycle(counters: Mapping[str, float], names: tuple[str, ...] = CYCLES) -> dict[str, float]:
    """Return each counter per cycle; empty where none of the names of cycles has a positive number.

    Counters are totals over the same time. What is negative is no count and left out, the cycles themselves too.

    >>> per_cycle({"PAPI_TOT_CYC": 1e9, "PAPI_TOT_INS": 1.5e9, "PAPI_L2_DCM": -1.0})
    {'PAPI_TOT_INS': 1.5}
    """
    cycles = next((name for name in names if counters.get(name, 0.0) > 0.0), None)
    if cycles is None:
        return {}
    return _divided({name: value for name, value in counters.items() if name != cycles}, counters[cycles])


def per_second(counters: Mapping[str, float], duration_s: float) -> dict[str, float]:
    """Return each counter per second, the cycles as well; empty for a duration that is not positive.

    >>> per_second({"PAPI_TOT_CYC": 1e9}, 0.5), per_second({"a": 1.0}, 0.0)
    ({'PAPI_TOT_CYC': 2000000000.0}, {})
    """
    return _divided(counters, duration_s) if duration_s > 0.0 else {}


def _divided(counters: Mapping[str, float], by: float) -> dict[str, float]:
    found = {name: value / by for name, value in counters.items() if value >= 0.0}
    return {name: rate for name, rate in found.items() if rate < float("inf")}
