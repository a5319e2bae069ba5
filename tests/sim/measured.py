"""What hosts measured, as it stands in the journal: with repeats, late samples, hosts that fall silent or are drained."""

import random
from collections.abc import Iterator

from processors.contracts.events import HostMinute, HostState, ResourceMinute
from tests.sim.history import HOSTS, MINUTE_MS, START_MS, SYSTEM

SOURCES = ("load/0", "load/1")


def measured(dice: random.Random, now_ms: int) -> Iterator[HostMinute | HostState]:
    """Yield what a few hosts reported one of the last minutes; some of them tell it twice, or tell other things later."""
    minute_ms = now_ms - now_ms % MINUTE_MS - dice.choice((1, 1, 1, 2)) * MINUTE_MS
    for host in HOSTS:
        if dice.random() < 0.6:
            resources = {name: _resource(dice) for name in ("cpu_available", "memory_free") if dice.random() < 0.8}
            resources |= _profiled(dice, minute_ms)
            reported = HostMinute(SYSTEM, dice.choice(SOURCES), host, minute_ms, resources)
            yield from (reported,) * dice.choice((1, 1, 2))
    if dice.random() < 0.1:
        yield HostState(SYSTEM, dice.choice(HOSTS), dice.choice(("drain", "up", "down")), minute_ms)


def _profiled(dice: random.Random, minute_ms: int) -> dict[str, ResourceMinute]:
    """Return a counter by what it grew, one by its value, an energy counter that wraps, and power; some are none."""
    grew, watts = float(dice.randrange(1, 10**9)), dice.choice((0.0, 300.0 + dice.randrange(200)))
    seconds = (minute_ms - START_MS) // 1000 + dice.randrange(50)
    joules = round(150.0 * seconds % 4_000.0, 3)
    found = {
        "counter_delta>cycles": ResourceMinute(1, grew, grew, grew),
        "counter_total>misses": ResourceMinute(1, 1e6 * seconds, 1e6 * seconds, 1e6 * seconds, last=1e6 * seconds),
        "energy_total>cpu:0": ResourceMinute(1, joules, joules, joules, last=joules),
        "power_w>system": ResourceMinute(
            2, watts, watts, watts, (watts,) * 6, (watts,), (1.0,), 2, energy_j=60.0 * watts
        ),
    }
    return {name: value for name, value in found.items() if dice.random() < 0.7}


def _resource(dice: random.Random) -> ResourceMinute:
    means = tuple(round(dice.random(), 3) if dice.random() < 0.9 else None for _ in range(6))
    low, high = 0.001 * dice.randrange(500), 0.5 + 0.001 * dice.randrange(500)
    edges = tuple(low + (high - low) * k / 5 for k in range(6))
    return ResourceMinute(6, 0.5, low, high, means, edges, (0.2, 0.3, 0.1, 0.2, 0.2), dice.randrange(1, 31))
