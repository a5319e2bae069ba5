"""The available share of a host's processors by its load average, which is only an estimate: what was measured of it goes first."""

from typing import ClassVar, Final

import numpy as np

from processors.contracts.telemetry import BY_LOAD, CPU_AVAILABLE
from processors.hosts.rows import NEVER_MS, RowTable

SILENT_MS: Final = 600_000  # so long after the last measured share an estimate counts again


class MeasuredProcessors(RowTable):
    """When the minute began in which the idle share of a host was measured last; a row is a host."""

    name: ClassVar[str] = "host_measured_processors"
    version: ClassVar[int] = 1

    def __init__(self) -> None:
        super().__init__(np.dtype([("measured_ms", "<i8")]), measured_ms=NEVER_MS)

    def note(self, host: int, resource: str, minute_ms: int) -> None:
        """Note what a host reported of a minute."""
        if resource == CPU_AVAILABLE:
            measured_ms = self.rows["measured_ms"]
            measured_ms[host] = max(measured_ms[host], minute_ms)

    def known(self, host: int, minute_ms: int) -> bool:
        """Return whether the share was measured about a minute, so that an estimate of it says nothing."""
        measured_ms = int(self.rows["measured_ms"][host])
        return measured_ms != NEVER_MS and minute_ms - measured_ms < SILENT_MS


def entered_as(resource: str) -> str:
    """Return the resource that something reported of a host is: of an estimate what it is an estimate of."""
    return CPU_AVAILABLE if resource == BY_LOAD else resource
