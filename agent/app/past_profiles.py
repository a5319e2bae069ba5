"""Profiles of past runs: what archives tell of hosts and jobs, folded here, so that a backfill can tell it of the runs."""

from collections import deque
from collections.abc import Iterator

import msgspec

from agent.app import compose
from agent.app.feed import Feed
from agent.app.streams import TimedEvent
from agent.config.tree import Config
from agent.contracts.events import HostMinute, JobCompleted, JobEvent, JobProfile, JobStarted, Origin, Tick
from agent.contracts.names import job_key
from agent.contracts.telemetry import is_power, is_profiled


class PastProfiles:
    """Takes starts and ends of runs and minutes of hosts in the order of time; tells profiles when runs settle.

    >>> from agent.contracts.events import Evidence, ResourceMinute
    >>> past = PastProfiles(Config())
    >>> minute = HostMinute("exa", "load/0", "nid1", 0, {"power_w>system": ResourceMinute(6, 400.0, 400.0, 400.0)})
    >>> run = JobCompleted("exa", "1", "exa/1@0", 0, 60_000, 60.0, "COMPLETED", Evidence(hosts=("nid1",)))
    >>> told = [JobStarted("exa", "1", "exa/1@0", 0, Evidence(hosts=("nid1",))), minute, run]
    >>> [*(each for event in told for each in past.take(TimedEvent(60_000, event, "a:1")))]
    []
    >>> [each.profile.power_w for each in past.end()]
    [{'system': 400.0}]
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._hosts = [compose.make_shard(config).hosts for _ in range(config.topics.journal_partitions)]
        self._settle_ms = round(config.jobs.settle_max_s * 1000)
        self._feed = Feed(self)
        self._settling: deque[JobCompleted] = deque()
        self._told: list[JobProfile] = []

    def take(self, timed: TimedEvent) -> Iterator[JobProfile]:
        """Take an event; yield the profiles of runs that settled before it."""
        if isinstance(timed.event, HostMinute | JobStarted | JobCompleted):
            self._feed.take(timed)
            yield from self._new()

    def end(self) -> Iterator[JobProfile]:
        """Yield the profiles of the runs that have not settled yet."""
        self._feed.finish(2 * self._settle_ms)
        yield from self._new()

    def write(self, event: JobEvent | HostMinute, origin: Origin) -> None:
        """Let the hosts of its system hear of an event, as far as it is about profiles."""
        del origin
        partition = self._config.journal_partition(event.system)
        if partition is None:
            return
        if isinstance(event, HostMinute):
            resources = {name: told for name, told in event.resources.items() if is_profiled(name) or is_power(name)}
            event = msgspec.structs.replace(event, resources=resources)
        elif isinstance(event, JobCompleted):
            self._settling.append(event)
        self._hosts[partition].take(event)

    def tick(self, time_ms: int) -> None:
        """Let time pass; runs that ended long enough ago settle."""
        for hosts in self._hosts:
            hosts.take(Tick("", time_ms=time_ms))
            hosts.sent()
        while self._settling and self._settling[0].end_ms + self._settle_ms <= time_ms:
            self._settle(self._settling.popleft())

    def _settle(self, event: JobCompleted) -> None:
        partition = self._config.journal_partition(event.system) or 0
        found = self._hosts[partition].profile(job_key(event.system, event.job_id), event.run_id)
        if found is not None:
            self._told.append(JobProfile(event.system, event.job_id, event.run_id, found))

    def _new(self) -> list[JobProfile]:
        told, self._told = self._told, []
        return told
