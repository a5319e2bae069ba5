"""Hosts that belong together: racks, for alerts that take the place of many; and peers, which do the same work."""

import re
from typing import Final, Protocol
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from processors.fold.host_desk import HostDesk
from processors.host_rules import Rack

NO_GROUP: Final = -1


class Placed(Protocol):
    """Which jobs run on which hosts, and what was said of hosts."""

    def on(self, system: str, host: str) -> tuple[str, ...]:
        """Return the keys of the jobs that run on a host."""

    def of(self, job: str) -> tuple[str, ...]:
        """Return the hosts on which a job runs."""

    def running(self) -> tuple[str, ...]:
        """Return the keys of the jobs whose hosts are known."""

    def state_of(self, system: str, host: str) -> str:
        """Return what was said last of a host, "" where nothing was."""


class HostGroups:
    """Groups of the hosts of one shard, by their rows.

    >>> from agent.app.compose import make_shard
    >>> from agent.config.tree import Config
    >>> hosts = make_shard(Config()).hosts
    >>> rows = [hosts.desk.roster.enter("exa", name, "cpu_available", 0)[1] for name in ("x1000c0s0b0n0", "nid7")]
    >>> [rack.name for rack in HostGroups(hosts.desk, hosts.jobs).racks(np.array(rows))]
    ['x1000', '']
    """

    def __init__(self, desk: HostDesk, placed: Placed) -> None:
        self._desk, self._placed = desk, placed
        self._pattern = re.compile(desk.settings.alerts.rack_anomaly.pattern)

    def racks(self, rows: npt.NDArray[np.intp]) -> dict[Rack, list[int]]:
        """Return the racks of these hosts, with their rows."""
        found: dict[Rack, list[int]] = {}
        partitions: dict[tuple[str, str], str] | None = None
        for row in rows.tolist():
            key = self._desk.roster.hosts.numbers.key(row)
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
        numbers, partitions = self._desk.roster.hosts.numbers, self._partitions()
        for job in self._placed.running():
            system, own = unquote(job.partition("/")[0]), len(jobs) if self._ran(job, start_s) else NO_GROUP
            for name in self._placed.of(job):
                row = numbers.row((system, name))
                if row is not None:
                    group[row] = NO_GROUP if busy[row] else own
                    busy[row] = True
            jobs.append(job)
        idle: dict[tuple[str, str], int] = {}
        for row, key in numbers:
            if not busy[row] and key in partitions:
                group[row] = idle.setdefault((key[0], partitions[key]), len(jobs) + len(idle))
        return group, jobs + [""] * len(idle)

    def state(self, row: int) -> str:
        """Return what was said last of a host if it is out of service, "" of one that is in service."""
        key = self._desk.roster.hosts.numbers.key(row)
        said = self._placed.state_of(*key) if key else ""
        return "" if said == "up" else said

    def _ran(self, job: str, start_s: float) -> bool:
        found = self._desk.jobs.get(job)
        return found is not None and self._desk.now_ms - found.start_ms >= start_s * 1000

    def _partitions(self) -> dict[tuple[str, str], str]:
        """Return the partition of each host on which jobs of one ran; the first by name where there are several."""
        found: dict[tuple[str, str], str] = {}
        for key in sorted(self._desk.partitions.keys()):
            system, _, name = key.partition("/")
            hosts = self._desk.partitions.open(key).hosts
            for host in hosts:
                found.setdefault((unquote(system), host), unquote(name))
        return found
