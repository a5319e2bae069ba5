"""What hosts measured, as it stands in the journal: with repeats, late samples, hosts that fall silent or are drained."""

import random
from collections.abc import Iterator

from agent.contracts.events import HostMinute, HostState, ResourceMinute
from tests.sim.history import MINUTE_MS, SYSTEM

HOSTS = ("n1", "n2", "n3", "n4")
SOURCES = ("load/0", "load/1")


def measured(dice: random.Random, now_ms: int) -> Iterator[HostMinute | HostState]:
    """Yield what a few hosts told of one of the last minutes; some of them tell it twice, or tell other things later."""
    minute_ms = now_ms - now_ms % MINUTE_MS - dice.choice((1, 1, 1, 2)) * MINUTE_MS
    for host in HOSTS:
        if dice.random() < 0.25:
            resources = {name: _resource(dice) for name in ("cpu_available", "memory_free") if dice.random() < 0.8}
            told = HostMinute(SYSTEM, dice.choice(SOURCES), host, minute_ms, resources)
            yield from (told,) * dice.choice((1, 1, 2))
    if dice.random() < 0.1:
        yield HostState(SYSTEM, dice.choice(HOSTS), dice.choice(("drain", "up", "down")), minute_ms)


def _resource(dice: random.Random) -> ResourceMinute:
    means = tuple(round(dice.random(), 3) if dice.random() < 0.9 else None for _ in range(6))
    low, high = 0.001 * dice.randrange(500), 0.5 + 0.001 * dice.randrange(500)
    edges = tuple(low + (high - low) * k / 5 for k in range(6))
    return ResourceMinute(6, 0.5, low, high, means, edges, (0.2, 0.3, 0.1, 0.2, 0.2), dice.randrange(1, 31))
