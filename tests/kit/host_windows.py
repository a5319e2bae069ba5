"""Windows of hosts as models ask for them, made of samples that a test gives."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from processors.contracts.hosts import ForecastHistogram, Hosts, HostWindow
from processors.models.histogram import from_samples

RETAINED_MAX = 3  # windows of a series
SAMPLES = 30  # in five minutes
MINUTE_MS = 60_000


class KnownWindows(Hosts):
    """The newest windows of each series, and the hosts of partitions.

    >>> windows = KnownWindows()
    >>> windows.report("nid1", [0.5, 0.6], until_ms=300_000)
    >>> windows.window("exa", "nid1", "cpu_available", 400_000).edges
    (0.5, 0.52, 0.54, 0.56, 0.58, 0.6)
    """

    def __init__(self, partitions: dict[str, Sequence[str]] | None = None) -> None:
        self.partitions = partitions or {}
        self.requested = self._changes = 0
        self.expected: dict[tuple[str, str], ForecastHistogram | None] = {}
        self._retained: dict[tuple[str, str], list[HostWindow]] = defaultdict(list)

    def report(
        self,
        host: str,
        samples: Sequence[float],
        until_ms: int,
        resource: str = "cpu_available",
        *,
        stale: bool = False,
    ) -> None:
        """Keep the window of a host's resource that ended at a time; it holds these samples."""
        found = from_samples(samples)
        edges = found.edges[:1] if found.intervals == 1 else found.edges
        window = HostWindow(
            until_ms,
            tuple(round(float(edge), 9) for edge in edges),
            tuple(float(share) for share in found.shares),
            len(samples),
            float(np.mean(samples)),
            min(samples),
            max(samples),
            stale,
            thin=len(samples) < 5,
        )
        self.put(host, window, resource)

    def put(self, host: str, window: HostWindow, resource: str = "cpu_available") -> None:
        """Keep a window as it is."""
        self._changes += 1
        self._retained[host, resource] = [*self._retained[host, resource], window][-RETAINED_MAX:]

    def changes(self) -> int:
        """Return how often anything was reported."""
        return self._changes

    def moment(self, until_ms: int) -> int:
        """Return the moment itself: windows of tests end whenever they like."""
        return until_ms

    def any_measured(self, resource: str | None = None) -> bool:
        return bool(self._retained) if resource is None else any(name == resource for _, name in self._retained)

    def window(self, system: str, host: str, resource: str, until_ms: int) -> HostWindow | None:
        """Return the newest window that ended by then."""
        self.requested += system == "exa"
        return next((w for w in reversed(self._retained.get((host, resource), [])) if w.until_ms <= until_ms), None)

    def expect(self, host: str, forecast: ForecastHistogram | None, resource: str = "cpu_available") -> None:
        """Keep what is expected next of a host's resource."""
        self._changes += 1
        self.expected[host, resource] = forecast

    def forecasts(
        self, system: str, hosts: Sequence[str], resource: str, until_ms: int
    ) -> Sequence[ForecastHistogram | None]:
        """Return what is expected next of each host, whatever the time."""
        del until_ms
        return [self.expected.get((host, resource)) if system == "exa" else None for host in hosts]

    def hosts_of(self, system: str, partition: str) -> Sequence[str]:
        """Return the hosts of a partition."""
        return self.partitions.get(partition, ()) if system == "exa" else ()
