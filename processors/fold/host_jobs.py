"""Which jobs run on which hosts, on which hosts a partition's jobs ran, and what was said of hosts; all bounded."""

from typing import Any, Final
from urllib.parse import unquote

from msgspec import structs

from agent.contracts.errors import InvalidInputError
from agent.contracts.events import Evidence, HostState, JobCompleted, JobStarted
from agent.contracts.hostlist import expand
from agent.contracts.names import escaped, job_key
from processors.fold.host_desk import HostDesk
from processors.hosts.jobs import HostJob
from processors.shelf import Shelf

JOB_HOSTS_MAX: Final = 16_384  # of one job; where a larger one runs is not known
HELD_HOSTS_MAX: Final = 400_000  # of all running jobs
TEXT_MAX: Final = 300_000  # characters of a job's host lists
HOST_CHARACTERS_MAX: Final = 255
JOBS_MAX: Final = 50_000
PARTITIONS_MAX: Final = 2_000
STATES_MAX: Final = 50_000
FORGOTTEN_PER_TICK: Final = 1_000


class HostJobs:
    """Jobs on hosts. What is looked up here follows from the stored states.

    >>> from agent.contracts.events import Evidence
    >>> from agent.app.compose import make_shard
    >>> from agent.config.tree import Config
    >>> jobs = make_shard(Config()).hosts.jobs
    >>> jobs.started(JobStarted("exa", "1", "exa/1@0", 0, Evidence(hosts=("nid[1-2]",), partition="fat")))
    >>> jobs.on("exa", "nid1"), jobs.of("exa/1"), jobs.hosts_of("exa", "fat")
    (('exa/1',), ('nid1', 'nid2'), ('nid1', 'nid2'))
    """

    def __init__(self, desk: HostDesk) -> None:
        self._desk = desk
        self._on: dict[tuple[str, str], dict[str, int]] = {}
        self._hosts: dict[str, tuple[str, ...]] = {}
        self._held = 0
        self._last: tuple[tuple[str, ...], tuple[str, ...]] = (), ()  # what was expanded last: several ask for it

    def on(self, system: str, host: str) -> tuple[str, ...]:
        """Return the keys of the jobs that run on a host, the one that began last first."""
        found = self._on.get((system, host), {})
        return tuple(sorted(found, key=lambda job: (-found[job], job)))

    def of(self, job: str) -> tuple[str, ...]:
        """Return the hosts on which a job runs, given by its key; none where it does not run or that is not known."""
        return self._hosts.get(job, ())

    def running(self) -> tuple[str, ...]:
        """Return the keys of the jobs whose hosts are known, in their order."""
        return tuple(sorted(self._hosts))

    def hosts_of(self, system: str, name: str) -> tuple[str, ...]:
        """Return the hosts on which jobs of a partition ran of late, in order of their names."""
        found = self._desk.partitions.get(_partition_key(system, name))
        return () if found is None else found.hosts

    def state_of(self, system: str, host: str) -> str:
        """Return what was said last of a host, "" where nothing was."""
        found = self._desk.conditions.get(job_key(system, host))
        return "" if found is None else found.score(None)

    def started(self, event: JobStarted) -> None:
        """Take the start of a run in."""
        key, job = self._open(event)
        if not job.score(event):
            return
        hosts = self.expanded(event.evidence.hosts)
        self._used(event, hosts)
        self._leave(key)
        if not hosts or self._held + len(hosts) > HELD_HOSTS_MAX:
            self._desk.tally["bound", "job_hosts_max"] += bool(hosts)
            hosts, event = (), structs.replace(event, evidence=Evidence())
        job.learn(event)
        self._changed(key, job)
        self._enter(key, job.start_ms, hosts)

    def completed(self, event: JobCompleted) -> None:
        """Take the end of a run in; where its start was not told, it tells the hosts of its partition."""
        key, job = self._open(event)
        if not job.score(event):
            return
        if job.start_ms < event.start_ms and event.run_time_s > 0:
            self._used(event, self.expanded(event.evidence.hosts))
        job.learn(event)
        self._changed(key, job)
        self._leave(key)

    def told(self, event: HostState) -> None:
        """Take in what was said of a host."""
        key = job_key(event.system, event.host)
        host = self._desk.conditions.open(key)
        host.learn(event)
        self._desk.conditions.changed(key, host, self._desk.now_ms)
        self._desk.tally["bound", "host_states_max"] += len(_evicted(self._desk.conditions, STATES_MAX))

    def tick(self) -> None:
        """Forget what is long over."""
        now_ms = self._desk.now_ms
        for key in self._desk.jobs.due(now_ms, FORGOTTEN_PER_TICK):
            self._leave(key)
            self._desk.jobs.remove(key)
        for key in self._desk.conditions.due(now_ms, FORGOTTEN_PER_TICK):
            self._desk.conditions.remove(key)

    def restored(self) -> None:
        """Work out again which job runs where, from the states that were put back."""
        for key in self._desk.jobs.keys():  # noqa: SIM118  no mapping
            job = self._desk.jobs.open(key)
            if job.running:
                self._enter(key, job.start_ms, self.expanded(job.hosts))

    def expanded(self, lists: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of host lists, each once; none where they are too many."""
        if lists != self._last[0]:
            self._last = lists, self._expanded(lists)
        return self._last[1]

    def _open(self, event: JobStarted | JobCompleted) -> tuple[str, HostJob]:
        key = job_key(event.system, event.job_id)
        return key, self._desk.jobs.open(key)

    def _expanded(self, lists: tuple[str, ...]) -> tuple[str, ...]:
        found: dict[str, None] = {}
        hosts_max = JOB_HOSTS_MAX if sum(map(len, lists)) <= TEXT_MAX else 0
        try:
            for text in lists:
                found.update(dict.fromkeys(expand(text, hosts_max - len(found))))
        except InvalidInputError:
            self._desk.tally["bound", "job_hosts_max"] += 1
            return ()
        return tuple(host for host in found if len(host) <= HOST_CHARACTERS_MAX)

    def _changed(self, key: str, job: HostJob) -> None:
        self._desk.jobs.changed(key, job, self._desk.now_ms)
        for gone in _evicted(self._desk.jobs, JOBS_MAX):
            self._desk.tally["bound", "host_jobs_max"] += 1
            self._leave(gone)

    def _used(self, event: JobStarted | JobCompleted, hosts: tuple[str, ...]) -> None:
        """Note that a job of a partition began on these hosts."""
        name = event.evidence.partition
        if not name or not hosts:
            return
        key = _partition_key(event.system, name)
        partition = self._desk.partitions.open(key)
        partition.learn(hosts)
        self._desk.partitions.changed(key, partition, self._desk.now_ms)
        self._desk.tally["bound", "host_partitions_max"] += len(_evicted(self._desk.partitions, PARTITIONS_MAX))

    def _enter(self, key: str, start_ms: int, hosts: tuple[str, ...]) -> None:
        if hosts:
            self._hosts[key] = hosts
            self._held += len(hosts)
        system = unquote(key.partition("/")[0])
        for host in hosts:
            self._on.setdefault((system, host), {})[key] = start_ms

    def _leave(self, key: str) -> None:
        hosts = self._hosts.pop(key, ())
        self._held -= len(hosts)
        system = unquote(key.partition("/")[0])
        for host in hosts:
            found = self._on.get((system, host), {})
            found.pop(key, None)
            if not found:
                self._on.pop((system, host), None)


def _evicted(shelf: Shelf[Any], keys_max: int) -> list[str]:
    """Remove the longest unused where there are too many, a twentieth at once, and return their keys."""
    if len(shelf) <= keys_max:
        return []
    gone = shelf.longest_unused(len(shelf) - keys_max + keys_max // 20)
    for key in gone:
        shelf.remove(key)
    return gone


def _partition_key(system: str, name: str) -> str:
    return f"{escaped(system)}/{escaped(name)}"
