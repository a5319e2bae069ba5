"""The idle share of a host's processors, from the cumulative idle time of each processor."""

from typing import Final, NamedTuple

HOSTS_MAX: Final = 65_536
CPUS_MAX: Final = 4_096  # maximum processors per host
ENTRIES_MAX: Final = 1_000_000  # maximum processors of all hosts together
GAP_MAX_MS: Final = 600_000  # a mean over a longer gap tells little


class Share(NamedTuple):
    """The idle share (0 to 1) of a host's processors between two scrapes."""

    time_ms: int
    value: float


class _Host:
    """The last reading of each processor of a host, and the sum of the idle shares in the current scrape."""

    __slots__ = ("count", "newest", "time_ms", "total")

    def __init__(self, time_ms: int) -> None:
        self.newest: dict[str, tuple[int, float, float]] = {}
        self.time_ms, self.total, self.count = time_ms, 0.0, 0

    def finish(self, next_ms: int) -> Share | None:
        """Return the idle share of the current scrape, and begin the scrape with the time `next_ms`."""
        share = Share(self.time_ms, self.total / self.count) if self.count else None
        self.time_ms, self.total, self.count = next_ms, 0.0, 0
        return share

    def add(self, cpu: str, time_ms: int, idle: float, whole: float) -> bool:
        """Add the idle time and the total time (`whole`) of a processor; return whether this is the processor's first reading."""
        known = self.newest.get(cpu)
        if known is None:
            if len(self.newest) < CPUS_MAX:
                self.newest[cpu] = time_ms, idle, whole
            return True
        before_ms, idle_before, whole_before = known
        if time_ms <= before_ms:  # a repeated or late reading
            return False
        self.newest[cpu] = time_ms, idle, whole
        grown = whole - whole_before
        if time_ms == self.time_ms and time_ms - before_ms <= GAP_MAX_MS and idle >= idle_before and grown > 0.0:
            # `idle` below the previous value means that the counter was reset
            self.total += min(1.0, (idle - idle_before) / grown)
            self.count += 1
        return False


class IdleShares:
    """Computes the mean idle share of each host, one value per scrape.

    All readings of a scrape have the same time, but may come in several messages. So the share of a scrape is known only when
    the first reading of the next scrape comes, or when `finish` is called. A processor has a share from its second reading on.
    If too many hosts or processors are known, all state is discarded to bound the memory.

    >>> shares = IdleShares()
    >>> readings = [("0", 0, 5.0), ("1", 0, 7.0), ("0", 10_000, 10.0), ("1", 10_000, 17.0), ("0", 20_000, 20.0)]
    >>> [shares.note("nid1", cpu, time_ms, idle_s) for cpu, time_ms, idle_s in readings][-1]
    Share(time_ms=10000, value=0.75)
    """

    def __init__(self) -> None:
        self._hosts: dict[str, _Host] = {}
        self._entries = 0

    def note(self, host: str, cpu: str, time_ms: int, idle: float, whole: float | None = None) -> Share | None:
        """Add the reading of a processor; return the share of the previous scrape if this reading begins a new scrape.

        `whole` is the total time of the processor in the unit of `idle`. If `whole` is None, `idle` is in seconds, and the total is wall time.
        """
        readings = self._hosts.get(host)
        # the host is new, or its clock was wrong and was set back
        if readings is None or time_ms < readings.time_ms - GAP_MAX_MS:
            if len(self._hosts) >= HOSTS_MAX or self._entries >= ENTRIES_MAX:
                self._hosts.clear()
                self._entries = 0
            readings = self._hosts[host] = _Host(time_ms)
        share = readings.finish(time_ms) if time_ms > readings.time_ms else None
        self._entries += readings.add(cpu, time_ms, idle, time_ms / 1000.0 if whole is None else whole)
        return share

    def finish(self, host: str) -> Share | None:
        """Return the share of a host's current scrape; call this method only after all readings of the scrape were added."""
        readings = self._hosts.get(host)
        return None if readings is None else readings.finish(readings.time_ms)

    def knows(self, host: str) -> bool:
        return host in self._hosts
