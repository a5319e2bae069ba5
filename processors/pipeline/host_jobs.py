"""Which jobs run on which hosts, on which hosts a partition's jobs ran, and what was said of hosts; all bounded.

From it follows which hosts belong together.
"""

import re
from typing import Any, Final
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
from msgspec import structs

from processors.alerts.hosts import Rack
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import Evidence, HostState, JobCompleted, JobStarted
from processors.contracts.names import escaped, job_key
from processors.contracts.nodes import expand
from processors.hosts.jobs import HostJob
from processors.pipeline.host_state import HostShardState
from processors.store import Shelf

JOB_HOSTS_MAX: Final = 16_384  # of one job; where a larger one runs is not known
HELD_HOSTS_MAX: Final = 400_000  # of all running jobs
TEXT_MAX: Final = 300_000  # characters of a job's host lists
HOST_CHARACTERS_MAX: Final = 255
JOBS_MAX: Final = 50_000
PARTITIONS_MAX: Final = 2_000
STATES_MAX: Final = 50_000
FORGOTTEN_PER_TICK: Final = 1_000
NO_GROUP: Final = -1


class HostJobs:
    """Jobs on hosts. What is looked up here follows from the stored states."""

    def __init__(self, state: HostShardState) -> None:
        self._state = state
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
        found = self._state.partitions.get(_partition_key(system, name))
        return () if found is None else found.hosts

    def state_of(self, system: str, host: str) -> str:
        """Return what was said last of a host, "" where nothing was."""
        found = self._state.conditions.get(job_key(system, host))
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
            self._state.tally["bound", "job_hosts_max"] += bool(hosts)
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
        host = self._state.conditions.open(key)
        host.learn(event)
        self._state.conditions.changed(key, host, self._state.now_ms)
        self._state.tally["bound", "host_states_max"] += len(_evicted(self._state.conditions, STATES_MAX))

    def tick(self) -> None:
        """Forget what is long over."""
        now_ms = self._state.now_ms
        for key in self._state.jobs.due(now_ms, FORGOTTEN_PER_TICK):
            self._leave(key)
            self._state.jobs.remove(key)
        for key in self._state.conditions.due(now_ms, FORGOTTEN_PER_TICK):
            self._state.conditions.remove(key)

    def restored(self) -> None:
        """Work out again which job runs where, from the states that were put back."""
        for key in self._state.jobs.keys():  # noqa: SIM118  no mapping
            job = self._state.jobs.open(key)
            if job.running:
                self._enter(key, job.start_ms, self.expanded(job.hosts))

    def expanded(self, lists: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of host lists, each once; none where they are too many."""
        if lists != self._last[0]:
            self._last = lists, self._expanded(lists)
        return self._last[1]

    def _open(self, event: JobStarted | JobCompleted) -> tuple[str, HostJob]:
        key = job_key(event.system, event.job_id)
        return key, self._state.jobs.open(key)

    def _expanded(self, lists: tuple[str, ...]) -> tuple[str, ...]:
        found: dict[str, None] = {}
        hosts_max = JOB_HOSTS_MAX if sum(map(len, lists)) <= TEXT_MAX else 0
        try:
            for text in lists:
                found.update(dict.fromkeys(expand(text, hosts_max - len(found))))
        except InvalidInputError:
            self._state.tally["bound", "job_hosts_max"] += 1
            return ()
        return tuple(host for host in found if len(host) <= HOST_CHARACTERS_MAX)

    def _changed(self, key: str, job: HostJob) -> None:
        self._state.jobs.changed(key, job, self._state.now_ms)
        for gone in _evicted(self._state.jobs, JOBS_MAX):
            self._state.tally["bound", "host_jobs_max"] += 1
            self._leave(gone)

    def _used(self, event: JobStarted | JobCompleted, hosts: tuple[str, ...]) -> None:
        """Note that a job of a partition began on these hosts."""
        name = event.evidence.partition
        if not name or not hosts:
            return
        key = _partition_key(event.system, name)
        partition = self._state.partitions.open(key)
        partition.learn(hosts)
        self._state.partitions.changed(key, partition, self._state.now_ms)
        self._state.tally["bound", "host_partitions_max"] += len(_evicted(self._state.partitions, PARTITIONS_MAX))

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


class HostGroups:
    """Hosts that belong together, by their rows: racks, for alerts that take the place of many, and peers, which do the same work."""

    def __init__(self, state: HostShardState, jobs: HostJobs) -> None:
        self._state, self._jobs = state, jobs
        self._pattern = re.compile(state.settings.alerts.rack_anomaly.pattern)

    def racks(self, rows: npt.NDArray[np.intp]) -> dict[Rack, list[int]]:
        """Return the racks of these hosts, with their rows."""
        found: dict[Rack, list[int]] = {}
        partitions: dict[tuple[str, str], str] | None = None
        for row in rows.tolist():
            key = self._state.index.hosts.ids.key(row)
            if key is None:
                continue
            match = self._pattern.search(key[1])
            if match is not None and match[1]:
                rack = Rack(key[0], "rack", match[1])
            else:
                partitions = self._partitions() if partitions is None else partitions
                name = partitions.get(key, "")
                rack = Rack(key[0], "partition" if name else "system", name)
            found.setdefault(rack, []).append(row)
        return found

    def peers(self, hosts: int, start_s: float) -> tuple[npt.NDArray[np.int64], list[str]]:
        """Return the group of each host (hosts,), less than 0 for none, and the job of each group, "" for idle hosts.

        A host with two jobs has no peers, nor have those of a job that began less than `start_s` ago.
        """
        group, jobs = np.full(hosts, NO_GROUP, np.int64), list[str]()
        busy = np.zeros(hosts, np.bool_)
        ids, partitions = self._state.index.hosts.ids, self._partitions()
        for job in self._jobs.running():
            system, own = unquote(job.partition("/")[0]), len(jobs) if self._ran(job, start_s) else NO_GROUP
            for name in self._jobs.of(job):
                row = ids.rows.get((system, name))
                if row is not None:
                    group[row] = NO_GROUP if busy[row] else own
                    busy[row] = True
            jobs.append(job)
        idle: dict[tuple[str, str], int] = {}
        for row, key in ids:
            if not busy[row] and key in partitions:
                group[row] = idle.setdefault((key[0], partitions[key]), len(jobs) + len(idle))
        return group, jobs + [""] * len(idle)

    def out_of_service(self) -> dict[int, str]:
        """Return the rows of hosts that are out of service, with what was said of them last."""
        if not len(self._state.conditions):
            return {}
        said = {row: self._jobs.state_of(*key) for row, key in self._state.index.hosts.ids}
        return {row: state for row, state in said.items() if state not in ("", "up")}

    def _ran(self, job: str, start_s: float) -> bool:
        found = self._state.jobs.get(job)
        return found is not None and self._state.now_ms - found.start_ms >= start_s * 1000

    def _partitions(self) -> dict[tuple[str, str], str]:
        """Return the partition of each host on which jobs of one ran; the first by name where there are several."""
        found: dict[tuple[str, str], str] = {}
        for key in sorted(self._state.partitions.keys()):
            system, _, name = key.partition("/")
            hosts = self._state.partitions.open(key).hosts
            for host in hosts:
                found.setdefault((unquote(system), host), unquote(name))
        return found


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
