"""Whether a resource of a host shows activity."""

import pytest

from processors.contracts.hosts import HostWindow
from processors.hosts.activity import is_active

BUSY_NETWORK, QUIET_NETWORK = (1e12, 1e12 + 6e8), (1e12, 1e12 + 3e6)


@pytest.mark.parametrize(
    ("resource", "edges", "active"),
    [
        ("network_received_total>eth0", BUSY_NETWORK, True),
        ("network_received_total>eth0", QUIET_NETWORK, False),
        ("cpu_available", (0.97,), True),
        ("cpu_available", (0.99, 1.0), False),
        ("load1", (0.1, 0.3), False),
        ("memory_free", (1.0, 2e9), False),
        ("cpu_available", (), False),
    ],
)
def test_activity_is_judged_by_resource(resource: str, edges: tuple[float, ...], *, active: bool) -> None:
    shares = (1.0,) * max(len(edges) - 1, min(len(edges), 1))
    window = HostWindow(300_000, edges, shares, count=30, mean=0.0, low=0.0, high=0.0)
    assert is_active(resource, window) is active
