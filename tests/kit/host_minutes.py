"""Minutes of hosts, as collectors tell them.

>>> minute("nid1", 3, cpu=(0.5,)).minute_ms
180000
"""

import numpy as np

from processors.contracts.events import HostMinute, ResourceMinute

SYSTEM = "exa"
MINUTE_MS = 60_000
Means = tuple[float | None, ...]


def minute(host: str, number: int, source: str = "load/0", **resources: Means) -> HostMinute:
    """Return a host's minute, told by its 10-second means."""
    found = {name: resource_minute(means) for name, means in resources.items()}
    return HostMinute(SYSTEM, source=source, host=host, minute_ms=number * MINUTE_MS, resources=found)


def resource_minute(means: Means) -> ResourceMinute:
    """Return a resource's minute with five samples for each mean, the window being this minute alone."""
    values = [mean for mean in means if mean is not None]
    low, high, mean = min(values, default=0.0), max(values, default=0.0), sum(values) / max(len(values), 1)
    edges = tuple(float(f"{edge:.7g}") for edge in np.linspace(low, high, 6)) if high > low else (low,)
    shares = (0.2,) * 5 if high > low else (1.0,)
    return ResourceMinute(5 * len(values), mean, low, high, means, edges, shares, 5 * len(values))


def means(number: int, host: int = 0) -> Means:
    """Return six means between 0 and 1, by minute and host."""
    return tuple(np.random.default_rng([number, host]).random(6).tolist())
