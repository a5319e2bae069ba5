"""Hosts whose counters and power are told, jobs on them, and what the fold knows of a run in the end.

>>> minute("nid1", 3, {"power_w>system": level(400.0)}).minute_ms
180000
"""

from collections.abc import Iterable

from agent.app.compose import make_shard
from agent.config.tree import Config
from processors.contracts.events import (
    Evidence,
    HostMinute,
    JobCompleted,
    JobStarted,
    JournalEvent,
    ResourceMinute,
    Tick,
)
from processors.contracts.hosts import Profile
from processors.contracts.names import run_id
from processors.pipeline.hosts import HostShard

SYSTEM = "exa"
MINUTE_MS = 60_000
FIRST_MS = 1_795_168_800_000  # a whole hour
Resources = dict[str, ResourceMinute]


def at(minutes: float) -> int:
    """Return a time so many minutes after the first."""
    return FIRST_MS + round(minutes * MINUTE_MS)


def level(value: float, low: float | None = None, high: float | None = None, count: int = 6) -> ResourceMinute:
    """Return a minute of a power, a rate or a level."""
    low, high = value if low is None else low, value if high is None else high
    return ResourceMinute(count, value, low, high, energy_j=value * 60.0)


def grew(amount: float, count: int = 6) -> ResourceMinute:
    """Return a minute in which a counter grew by so much in all its samples together."""
    return ResourceMinute(count, amount / count, amount / count, amount / count)


def total(value: float) -> ResourceMinute:
    """Return a minute of a counter that shows so much at its end."""
    return ResourceMinute(6, value, value, value, last=value)


def minute(host: str, number: float, resources: Resources, source: str = "load/0", revision: int = 0) -> HostMinute:
    """Return a host's minute, by its number since the first."""
    return HostMinute(SYSTEM, source, host, at(number), resources, revision)


def started(job: str, start: float, *hosts: str, system: str = SYSTEM) -> JobStarted:
    """Return the start of a job on hosts, in minutes."""
    return JobStarted(system, job, run_id(system, job, at(start)), at(start), Evidence(hosts=hosts))


def ended(job: str, start: float, end: float, *hosts: str, system: str = SYSTEM) -> JobCompleted:
    """Return the end of a job, in minutes."""
    run = run_id(system, job, at(start))
    run_time_s = (end - start) * 60.0
    return JobCompleted(system, job, run, at(start), at(end), run_time_s, "COMPLETED", Evidence(hosts=hosts))


def tick(minutes: float) -> Tick:
    """Return a tick so many minutes after the first."""
    return Tick("", time_ms=at(minutes))


def folded(
    *events: JournalEvent, hosts: HostShard | None = None, machine: dict[str, float] | None = None, **profiles: float
) -> HostShard:
    """Return the fold of hosts after some events; `machine` is what the nodes of the system are."""
    run_time = {"machines": {SYSTEM: machine}} if machine else {}
    hosts = hosts or make_shard(Config.model_validate({"profiles": profiles, "run_time": run_time})).hosts
    for event in events:
        hosts.take(event)
    return hosts


def in_time(events: Iterable[JournalEvent], until: float) -> list[JournalEvent]:
    """Return events in the order in which they are told, with a tick every half minute up to some minutes after the first."""
    reported = sorted(((_reported_ms(event), event) for event in events), key=lambda pair: pair[0])
    ticks = [(at(half / 2), tick(half / 2)) for half in range(round(until * 2) + 1)]
    return [event for _, event in sorted([*reported, *ticks], key=lambda pair: pair[0])]


def profile(hosts: HostShard, job: str, start: float) -> Profile | None:
    """Return the profile of a run."""
    return hosts.profile(f"{SYSTEM}/{job}", run_id(SYSTEM, job, at(start)))


def of_run(hosts: HostShard, job: str = "1", start: float = 0.0) -> Profile:
    """Return the profile of a run that has one."""
    found = profile(hosts, job, start)
    assert found is not None
    return found


def _reported_ms(event: JournalEvent) -> int:
    if isinstance(event, HostMinute):
        return event.minute_ms + MINUTE_MS + 10_000 + event.revision * 60_000
    if isinstance(event, JobCompleted):
        return event.end_ms + 1_000
    return event.start_ms + 1_000 if isinstance(event, JobStarted) else FIRST_MS
