"""The activity of a host in the last five minutes, from its processors, GPUs and network interfaces."""

import re
from typing import Final

from processors.contracts.hosts import HostWindow, quantile
from processors.contracts.telemetry import is_cumulative

# the least activity by resource: share of the processors or of a GPU, processes, watts of one GPU, bytes in five minutes
ACTIVE_MIN: Final = {
    r"cpu_available$": 0.02, r"load1$": 0.5, r"gpu_.*util": 0.02, r"power_w>gpu:": 120.0, r"network_.*_total": 3e8,
}  # fmt: skip


def is_active(resource: str, window: HostWindow) -> bool:
    """Return whether a resource shows activity; the median of the window counts, because health checks make short peaks."""
    least = next((least for pattern, least in ACTIVE_MIN.items() if re.match(pattern, resource)), None)
    if least is None or not window.edges:
        return False
    value = window.edges[-1] - window.edges[0] if is_cumulative(resource) else quantile(window, 0.5) or 0.0
    return (1.0 - value if resource.startswith("cpu_available") else value) > least
