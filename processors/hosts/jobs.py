"""Jobs on hosts, hosts of partitions, and reported states of hosts; the size of each store is bounded."""

from collections import Counter
from functools import lru_cache
from typing import Any, ClassVar, Final, Protocol
from urllib.parse import unquote

import msgspec

from processors.contracts.errors import InvalidInputError
from processors.contracts.events import Evidence, HostState, JobCompleted, JobStarted
from processors.contracts.names import escaped, job_key
from processors.contracts.nodes import expand
from processors.contracts.service import Neighbour
from processors.hosts.rows import discard
from processors.store import PlainProcessor, Store, Untimed

RUN_MAX_MS: Final = 30 * 86_400_000  # a job without a reported end is forgotten after this time
ENDED_KEEP_MS: Final = 3_600_000  # ended jobs are kept so that a late start does not start the job again
STATE_KEEP_MS: Final = 30 * 86_400_000
PARTITION_HOSTS_MAX: Final = 20_000
PARTITION_TEXT_MAX: Final = 600_000  # most characters of a partition's host names; below a broker's limit on records
JOB_HOSTS_MAX: Final = 16_384  # most hosts of one job; the hosts of larger jobs are not stored
RETAINED_HOSTS_MAX: Final = 400_000  # most hosts of all running jobs together
TEXT_MAX: Final = 300_000  # most characters of a job's host lists
HOST_CHARACTERS_MAX: Final = 255
JOBS_MAX: Final = 50_000
PARTITIONS_MAX: Final = 2_000
STATES_MAX: Final = 50_000
NEIGHBOURS_MAX: Final = 100  # most neighbours shown for a job
FORGOTTEN_PER_TICK: Final = 1_000


class HostJob(PlainProcessor, omit_defaults=True):
    """The newest run of a job: its start, its end if known, and its host lists in the form of the producer."""

    name: ClassVar[str] = "host_job"
    version: ClassVar[int] = 1

    start_ms: int = -1
    hosts: tuple[str, ...] = ()
    ended_ms: int | None = None

    @property
    def running(self) -> bool:
        """Whether the end of the newest run is not known yet."""
        return self.start_ms >= 0 and self.ended_ms is None

    def score(self, fact: JobStarted | JobCompleted) -> bool:
        """Return whether `learn(fact)` would change the state."""
        if isinstance(fact, JobStarted):
            return fact.start_ms > self.start_ms
        return fact.start_ms > self.start_ms or (fact.start_ms == self.start_ms and fact.end_ms != self.ended_ms)

    def learn(self, fact: JobStarted | JobCompleted) -> None:
        """Learn the start or the end of a run; a fact about a run older than the newest run changes nothing."""
        if not self.score(fact):
            return
        if fact.start_ms > self.start_ms:
            self.start_ms, self.ended_ms = fact.start_ms, None
            self.hosts = fact.evidence.hosts if isinstance(fact, JobStarted) else ()
        if isinstance(fact, JobCompleted):
            self.ended_ms, self.hosts = fact.end_ms, ()

    def due_ms(self) -> int | None:
        return self.start_ms + RUN_MAX_MS if self.ended_ms is None else self.ended_ms + ENDED_KEEP_MS


class PartitionHostsState(msgspec.Struct):
    """Stored form of `PartitionHosts`: host names, least recently used first."""

    hosts: list[str] = []


class PartitionHosts(Untimed):
    """The hosts on which jobs of a partition ran recently."""

    name: ClassVar[str] = "host_partition"
    version: ClassVar[int] = 1

    def __init__(self, state: PartitionHostsState) -> None:
        self._hosts = dict.fromkeys(state.hosts)
        self._characters = sum(map(len, self._hosts))
        self._sorted: tuple[str, ...] | None = None

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts sorted by name."""
        if self._sorted is None:
            self._sorted = tuple(sorted(self._hosts))
        return self._sorted

    def score(self, fact: tuple[str, ...]) -> tuple[str, ...]:
        """Return the hosts in `fact` that the partition does not have yet."""
        return tuple(host for host in fact if host not in self._hosts)

    def learn(self, fact: tuple[str, ...]) -> None:
        """Record that a job began on the hosts `fact`; if there are too many hosts, forget the least recently used hosts."""
        for host in fact:
            if host in self._hosts:
                del self._hosts[host]
            else:
                self._characters += len(host)
                self._sorted = None
            self._hosts[host] = None
        while len(self._hosts) > PARTITION_HOSTS_MAX or self._characters > PARTITION_TEXT_MAX:
            oldest = next(iter(self._hosts))
            del self._hosts[oldest]
            self._characters -= len(oldest)
            self._sorted = None

    def snapshot(self) -> PartitionHostsState:
        return PartitionHostsState(list(self._hosts))


class HostCondition(PlainProcessor):
    """The last reported state of a host: up, drain, down, fail, maintenance or reboot."""

    name: ClassVar[str] = "host_state"
    version: ClassVar[int] = 1

    state: str = ""
    time_ms: int = -1

    def score(self, fact: object) -> str:
        """Return the last reported state."""
        del fact
        return self.state

    def learn(self, fact: HostState) -> None:
        """Learn a report of a state; a report older than the last report changes nothing."""
        if fact.time_ms >= self.time_ms:
            self.state, self.time_ms = fact.state, fact.time_ms

    def due_ms(self) -> int | None:
        return self.time_ms + STATE_KEEP_MS


class JobsState(Protocol):
    """The part of the host state that `HostJobs` reads and writes."""

    now_ms: int
    tally: Counter[tuple[str, str]]
    jobs: Store[HostJob]
    partitions: Store[PartitionHosts]
    conditions: Store[HostCondition]


class HostJobs:
    """The jobs on hosts, with indexes that are rebuilt from the stored states."""

    def __init__(self, state: JobsState) -> None:
        self._state = state
        self._on: dict[tuple[str, str], dict[str, int]] = {}
        self._hosts: dict[str, tuple[str, ...]] = {}
        self._retained = 0
        self.expanded = lru_cache(maxsize=4)(self._expanded)  # several callers expand the same lists in a row

    def on(self, system: str, host: str) -> tuple[str, ...]:
        """Return the keys of the jobs that run on a host, newest first."""
        start_ms_by_job = self._on.get((system, host), {})
        return tuple(sorted(start_ms_by_job, key=lambda job: (-start_ms_by_job[job], job)))

    def of(self, job: str) -> tuple[str, ...]:
        """Return the hosts on which a job runs, given its key; empty if the job does not run or its hosts are unknown."""
        return self._hosts.get(job, ())

    def neighbours_of(self, job: str, hosts: tuple[str, ...] = ()) -> list[Neighbour]:
        """Return the other running jobs on the hosts of a job, most hosts in common first.

        `job` is the key of the job. `hosts` are the hosts of a job that has ended.
        """
        system, hosts = unquote(job.partition("/")[0]), hosts or self.of(job)
        on = Counter(other for host in hosts for other in self._on.get((system, host), {}) if other != job)
        neighbours = sorted(on.items(), key=lambda one: (-one[1], one[0]))[:NEIGHBOURS_MAX]
        starts = {other: start_ms for host in hosts for other, start_ms in self._on.get((system, host), {}).items()}
        return [Neighbour(unquote(other.partition("/")[2]), count, starts[other]) for other, count in neighbours]

    def running(self) -> tuple[str, ...]:
        """Return the keys of the jobs with known hosts, sorted."""
        return tuple(sorted(self._hosts))

    def hosts_of(self, system: str, name: str) -> tuple[str, ...]:
        """Return the hosts on which jobs of a partition ran recently, sorted by name."""
        partition = self._state.partitions.get(_partition_key(system, name))
        return () if partition is None else partition.hosts

    def state_of(self, system: str, host: str) -> str:
        """Return the last reported state of a host, "" without a report."""
        condition = self._state.conditions.get(job_key(system, host))
        return "" if condition is None else condition.score(None)

    def started(self, event: JobStarted) -> None:
        key, job = self._open(event)
        if not job.score(event):
            return
        hosts = self.expanded(event.evidence.hosts)
        self._used(event, hosts)
        self._leave(key)
        if not hosts or self._retained + len(hosts) > RETAINED_HOSTS_MAX:
            self._state.tally["bound", "job_hosts_max"] += bool(hosts)
            hosts, event = (), msgspec.structs.replace(event, evidence=Evidence())
        job.learn(event)
        self._changed(key, job)
        self._enter(key, job.start_ms, hosts)

    def has_ended(self, event: JobStarted) -> bool:
        """Return whether the run whose start `event` reports already ended within the last hour."""
        job = self._state.jobs.get(job_key(event.system, event.job_id))
        return job is not None and job.start_ms == event.start_ms and job.ended_ms is not None

    def completed(self, event: JobCompleted) -> None:
        """Learn the end of a run; if its start was not reported, add its hosts to the partition now."""
        key, job = self._open(event)
        if not job.score(event):
            return
        if job.start_ms < event.start_ms and event.run_time_s > 0:
            self._used(event, self.expanded(event.evidence.hosts))
        job.learn(event)
        self._changed(key, job)
        self._leave(key)

    def take_state(self, event: HostState) -> None:
        self._state.conditions.learn(job_key(event.system, event.host), event, self._state.now_ms)
        self._state.tally["bound", "host_states_max"] += len(_evicted(self._state.conditions, STATES_MAX))

    def tick(self) -> None:
        """Forget expired jobs and host states."""
        now_ms = self._state.now_ms
        for key in self._state.jobs.due(now_ms, FORGOTTEN_PER_TICK):
            self._leave(key)
            self._state.jobs.remove(key)
        self._state.conditions.forget_due(now_ms, FORGOTTEN_PER_TICK)

    def restored(self) -> None:
        """Rebuild the indexes of jobs on hosts from restored states."""
        for key in self._state.jobs.keys():  # noqa: SIM118  no mapping
            job = self._state.jobs.open(key)
            if job.running:
                self._enter(key, job.start_ms, self.expanded(job.hosts))

    def _open(self, event: JobStarted | JobCompleted) -> tuple[str, HostJob]:
        key = job_key(event.system, event.job_id)
        return key, self._state.jobs.open(key)

    def _expanded(self, lists: tuple[str, ...]) -> tuple[str, ...]:
        """Return the host names in `lists` without repeats; empty if there are too many names."""
        hosts: dict[str, None] = {}
        hosts_max = JOB_HOSTS_MAX if sum(map(len, lists)) <= TEXT_MAX else 0
        try:
            for text in lists:
                hosts.update(dict.fromkeys(expand(text, hosts_max - len(hosts))))
        except InvalidInputError:
            self._state.tally["bound", "job_hosts_max"] += 1
            return ()
        return tuple(host for host in hosts if len(host) <= HOST_CHARACTERS_MAX)

    def _changed(self, key: str, job: HostJob) -> None:
        self._state.jobs.changed(key, job, self._state.now_ms)
        for gone in _evicted(self._state.jobs, JOBS_MAX):
            self._state.tally["bound", "host_jobs_max"] += 1
            self._leave(gone)

    def _used(self, event: JobStarted | JobCompleted, hosts: tuple[str, ...]) -> None:
        """Record that a job of a partition began on `hosts`."""
        name = event.evidence.partition
        if not name or not hosts:
            return
        self._state.partitions.learn(_partition_key(event.system, name), hosts, self._state.now_ms)
        self._state.tally["bound", "host_partitions_max"] += len(_evicted(self._state.partitions, PARTITIONS_MAX))

    def _enter(self, key: str, start_ms: int, hosts: tuple[str, ...]) -> None:
        if not hosts:
            return
        self._hosts[key] = hosts
        self._retained += len(hosts)
        system = unquote(key.partition("/")[0])
        for host in hosts:
            self._on.setdefault((system, host), {})[key] = start_ms

    def _leave(self, key: str) -> None:
        hosts = self._hosts.pop(key, ())
        if not hosts:
            return
        self._retained -= len(hosts)
        system = unquote(key.partition("/")[0])
        for host in hosts:
            discard(self._on, (system, host), key)


def _evicted(store: Store[Any], keys_max: int) -> list[str]:
    """Remove the least recently used keys if `store` has more than `keys_max`, and return them.

    One eviction makes room for a twentieth of `keys_max`, so that evictions are rare.
    """
    if len(store) <= keys_max:
        return []
    gone = store.excess(keys_max - keys_max // 20)
    for key in gone:
        store.remove(key)
    return gone


def _partition_key(system: str, name: str) -> str:
    return f"{escaped(system)}/{escaped(name)}"
