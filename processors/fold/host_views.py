"""Hosts as readers see them: bounded work, whenever somebody asks, and nothing is changed by it."""

import heapq
from collections.abc import Sequence
from typing import Final, Protocol

from agent.contracts.hosts import HostView, HostWindow, Outlook, ResourceView, Variation
from agent.contracts.moments import rfc3339
from processors.fold.host_desk import HostDesk
from processors.fold.host_jobs import HostJobs
from processors.models.histogram.moments import variation_class

HOSTS_MAX: Final = 1_000  # in one answer
RESOURCES_MAX: Final = 64  # of one host
SHARES: Final = frozenset({"cpu_available", "cpu_current"})  # resources that are between 0 and 1


class Findings(Protocol):
    """What is found odd about hosts and resources, by their rows."""

    def anomalous(self) -> Sequence[int]:
        """Return the rows of hosts that are part of an open alert."""

    def since_ms(self, host: int, resource: str) -> int | None:
        """Return since when a resource of a host is part of an open alert."""

    def score(self, row: int) -> float | None:
        """Return the last score of a resource, 0 to 1."""

    def host_score(self, host: int) -> float | None:
        """Return the last score of all resources of a host together, 0 to 1."""


class NoFindings:
    """Nothing is odd.

    >>> NoFindings().anomalous()
    ()
    """

    def anomalous(self) -> Sequence[int]:
        """Return no host."""
        return ()

    def since_ms(self, host: int, resource: str) -> int | None:
        """Return nothing."""
        del host, resource
        return None

    def score(self, row: int) -> float | None:
        """Return nothing."""
        del row
        return None

    def host_score(self, host: int) -> float | None:
        """Return nothing."""
        del host
        return None


class HostViews:
    """The hosts of one shard.

    >>> from agent.contracts.events import HostMinute, JournalRecord, ResourceMinute, Tick
    >>> from agent.app.compose import make_shard
    >>> from agent.config.tree import Config
    >>> shard = make_shard(Config())
    >>> cpu = ResourceMinute(6, 0.8, 0.7, 0.9, (0.8,) * 6, (0.8,), (1.0,), 30)
    >>> for event in (HostMinute("exa", "load/0", "nid1", 60_000, {"cpu_available": cpu}), Tick("", time_ms=130_000)):
    ...     _ = shard.fold(JournalRecord(event))
    >>> view = shard.host_view("exa", "nid1")
    >>> view.as_of, view.resources[0].variation, view.resources[0].outlook.value
    ('1970-01-01T00:02:10Z', 'low', 0.8)
    """

    def __init__(self, desk: HostDesk, jobs: HostJobs, findings: Findings | None = None) -> None:
        self._desk, self._jobs = desk, jobs
        self._findings: Findings = findings or NoFindings()

    def first(self, limit: int) -> list[tuple[str, str]]:
        """Return system and name of at most so many hosts: those with anomalies first, then by system and name."""
        return self.names(min(limit, HOSTS_MAX))

    def names(self, limit: int) -> list[tuple[str, str]]:
        """Return the same of as many hosts as are asked for: names are cheap beside views."""
        odd = set(self._findings.anomalous())
        hosts = ((row not in odd, key) for row, key in self._desk.roster.hosts.numbers)
        return [key for _, key in heapq.nsmallest(limit, hosts)]

    def host(self, system: str, host: str) -> HostView | None:
        """Return one host; None where it is not known."""
        row = self._desk.roster.host(system, host)
        return None if row is None else self._view(row)

    def _view(self, row: int) -> HostView:
        system, name = self._desk.roster.hosts.numbers.key(row) or ("", "")
        jobs = self._jobs.on(system, name)
        found = dict(list(self._desk.roster.resources(row).items())[:RESOURCES_MAX])
        outlooks = zip(found.items(), self._desk.forecasts.of(list(found.values())), strict=True)
        resources = [self._resource(row, *own, outlook) for own, outlook in outlooks]
        return HostView(
            system=system,
            host=name,
            as_of=rfc3339(self._desk.now_ms),
            state=self._jobs.state_of(system, name),
            job=jobs[0] if jobs else None,
            resources=tuple(view for view in resources if view is not None),
            score=self._findings.host_score(row),
        )

    def _resource(self, host: int, resource: str, row: int, outlook: Outlook | None) -> ResourceView | None:
        window = self._desk.windows.of(row, self._desk.now_ms)
        if window is None:
            return None
        since_ms = self._findings.since_ms(host, resource)
        return ResourceView(
            resource=resource,
            window=window,
            variation=_variation(resource, window),
            outlook=outlook,
            score=self._findings.score(row),
            anomalous_since=None if since_ms is None else rfc3339(since_ms),
        )


def _variation(resource: str, window: HostWindow) -> Variation | None:
    """Return the class of a window of shares."""
    if resource not in SHARES or window.edges[0] < 0 or window.edges[-1] > 1:
        return None
    return variation_class(window.edges[-1] - window.edges[0])
