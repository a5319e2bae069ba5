"""From a run's profile to what models take: rates of counters by name, and what came of the run.

A name tells what a value is: `counter:X` is X per cycle, `rate:X` is X per second and host where no cycles were counted
(and the cycles themselves), `nic:X` is X of the network interfaces per second and host, `ln_n` is ln of the size. So values
of one kind are comparable, whichever producer told them.
"""

import math
from typing import Final

from agent.contracts.profiles import Profile
from agent.contracts.telemetry import COMPONENTS
from processors.models.counters.rates import CYCLES, per_cycle

RUN_TIME: Final = "run_time_s"
POWER: Final = "power_w"  # of all hosts together
POWER_TARGETS: Final = {f"{component}_power_w": component for component in COMPONENTS}  # mean of a host
TARGETS: Final = (RUN_TIME, *POWER_TARGETS)
COUNTERS_MAX: Final = 64
NICS_MAX: Final = 24
COUNTER: Final = "counter:"
RATE: Final = "rate:"
NIC: Final = "nic:"
LN_N: Final = "ln_n"
COLUMNS: Final = dict.fromkeys(TARGETS, (COUNTER, RATE, NIC, LN_N))  # that explain a target
ESTIMATED_WEIGHT: Final = 0.1  # of power that was estimated, against that which was measured


def values_of(n: float, profile: Profile) -> dict[str, float]:
    """Return what models explain a run by; of too many counters the first in the order of their names.

    >>> values_of(1.0, Profile(hosts=1, counters={"PAPI_TOT_CYC": 2e9, "PAPI_TOT_INS": 3e9}))
    {'counter:PAPI_TOT_INS': 1.5, 'rate:PAPI_TOT_CYC': 2000000000.0, 'ln_n': 0.0}
    >>> values_of(1.0, Profile(hosts=1, counters={"PAPI_TOT_INS": 3e9}))
    {'rate:PAPI_TOT_INS': 3000000000.0, 'ln_n': 0.0}
    """
    counted = {name: profile.counters[name] for name in sorted(profile.counters)[:COUNTERS_MAX]}
    rates = per_cycle(counted)
    seconds = {name: rate for name, rate in counted.items() if (name in CYCLES if rates else rate >= 0)}
    found = {COUNTER + name: rate for name, rate in rates.items()}
    found |= {RATE + name: rate for name, rate in seconds.items()}
    found |= {NIC + name: profile.nic[name] for name in sorted(profile.nic)[:NICS_MAX]}
    return found | {LN_N: math.log(n)}


def targets_of(run_time_s: float, profile: Profile) -> dict[str, float]:
    """Return what came of a run: its time in s, the power of a host by component and that of all hosts together, in W.

    What can not be a power is left out.

    >>> targets_of(60.0, Profile(hosts=2, power_w={"system": 400.0, "cpu": 150.0}))
    {'run_time_s': 60.0, 'system_power_w': 400.0, 'cpu_power_w': 150.0, 'power_w': 800.0}
    """
    power_w = {component: value for component, value in profile.power_w.items() if 0.0 < value < math.inf}
    found = {RUN_TIME: run_time_s}
    found |= {target: power_w[component] for target, component in POWER_TARGETS.items() if component in power_w}
    if "system" in power_w:
        found[POWER] = power_w["system"] * profile.hosts
    return found


def target_weights(profile: Profile) -> dict[str, float]:
    """Return how much targets count against a run as a whole, where that is less than 1: power may be estimated.

    >>> target_weights(Profile(hosts=2, power_w={"system": 400.0, "cpu": 90.0}, estimated={"system": 1.0}))
    {'system_power_w': 0.1, 'power_w': 0.1}
    """
    found = {}
    for target, component in (*POWER_TARGETS.items(), (POWER, "system")):
        share = min(max(profile.estimated.get(component, 0.0), 0.0), 1.0)
        if share > 0.0 and component in profile.power_w:
            found[target] = round(1.0 - (1.0 - ESTIMATED_WEIGHT) * share, 6)
    return found
