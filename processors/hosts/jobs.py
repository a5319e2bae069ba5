"""What hosts were given to do, and what was said of them: jobs on hosts, hosts of partitions, states of hosts."""

from typing import ClassVar, Final

import msgspec

from processors.contracts.events import HostState, JobCompleted, JobStarted

RUN_MAX_MS: Final = 30 * 86_400_000  # a job of which no end was told is forgotten after this
ENDED_KEEP_MS: Final = 3_600_000  # so that its start, should it come late, does not begin it again
STATE_KEEP_MS: Final = 30 * 86_400_000
PARTITION_HOSTS_MAX: Final = 20_000
PARTITION_TEXT_MAX: Final = 600_000  # characters of all names together; below a broker's limit on records


class HostJobState(msgspec.Struct, omit_defaults=True):
    """Stored form: when the newest run began, the host lists as they were sent, and when it ended."""

    start_ms: int = -1
    hosts: tuple[str, ...] = ()
    ended_ms: int | None = None


class HostJob:
    """The hosts on which a job runs, by its newest run."""

    name: ClassVar[str] = "host_job"
    version: ClassVar[int] = 1

    def __init__(self, state: HostJobState) -> None:
        self._start_ms, self._hosts, self._ended_ms = state.start_ms, state.hosts, state.ended_ms

    @classmethod
    def build(cls, state: HostJobState | None = None) -> "HostJob":
        """Return the job of a stored state, or one of which nothing is known."""
        return cls(state or HostJobState())

    @property
    def hosts(self) -> tuple[str, ...]:
        """The host lists of the newest run."""
        return self._hosts

    @property
    def start_ms(self) -> int:
        """When the newest run began."""
        return self._start_ms

    @property
    def running(self) -> bool:
        """Whether the newest run has not ended, as far as is known."""
        return self._start_ms >= 0 and self._ended_ms is None

    def score(self, fact: JobStarted | JobCompleted) -> bool:
        """Tell whether the fact would change anything."""
        if isinstance(fact, JobStarted):
            return fact.start_ms > self._start_ms
        return fact.start_ms > self._start_ms or (fact.start_ms == self._start_ms and fact.end_ms != self._ended_ms)

    def learn(self, fact: JobStarted | JobCompleted) -> None:
        """Take the start or the end of a run in; what is older than the newest run changes nothing."""
        if not self.score(fact):
            return
        if fact.start_ms > self._start_ms:
            self._start_ms, self._ended_ms = fact.start_ms, None
            self._hosts = fact.evidence.hosts if isinstance(fact, JobStarted) else ()
        if isinstance(fact, JobCompleted):
            self._ended_ms, self._hosts = fact.end_ms, ()

    def due_ms(self) -> int | None:
        """Return when it may be forgotten."""
        return self._start_ms + RUN_MAX_MS if self._ended_ms is None else self._ended_ms + ENDED_KEEP_MS

    def snapshot(self) -> HostJobState:
        """Return the stored form."""
        return HostJobState(self._start_ms, self._hosts, self._ended_ms)


class PartitionHostsState(msgspec.Struct):
    """Stored form: names of hosts, those first on which a job began the longest time ago."""

    hosts: list[str] = []


class PartitionHosts:
    """The hosts on which jobs of a partition ran of late."""

    name: ClassVar[str] = "host_partition"
    version: ClassVar[int] = 1

    def __init__(self, state: PartitionHostsState) -> None:
        self._hosts = dict.fromkeys(state.hosts)
        self._characters = sum(map(len, self._hosts))
        self._sorted: tuple[str, ...] | None = None

    @classmethod
    def build(cls, state: PartitionHostsState | None = None) -> "PartitionHosts":
        """Return the partition of a stored state, or one without hosts."""
        return cls(state or PartitionHostsState())

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts in order of their names."""
        if self._sorted is None:
            self._sorted = tuple(sorted(self._hosts))
        return self._sorted

    def score(self, fact: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of the hosts that are not known."""
        return tuple(host for host in fact if host not in self._hosts)

    def learn(self, fact: tuple[str, ...]) -> None:
        """Note that a job began on these hosts; those are forgotten first on which none began for the longest time."""
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

    def due_ms(self) -> int | None:
        """Return None: a partition waits for jobs."""
        return None

    def snapshot(self) -> PartitionHostsState:
        """Return the stored form."""
        return PartitionHostsState(list(self._hosts))


class HostConditionState(msgspec.Struct):
    """Stored form: what was said last, and when."""

    state: str = ""
    time_ms: int = -1


class HostCondition:
    """What was said last of a host: up, drain, down, fail, maintenance or reboot."""

    name: ClassVar[str] = "host_state"
    version: ClassVar[int] = 1

    def __init__(self, state: HostConditionState) -> None:
        self._state, self._time_ms = state.state, state.time_ms

    @classmethod
    def build(cls, state: HostConditionState | None = None) -> "HostCondition":
        """Return the host of a stored state, or one of which nothing was said."""
        return cls(state or HostConditionState())

    def score(self, fact: object) -> str:
        """Return what was said last."""
        del fact
        return self._state

    def learn(self, fact: HostState) -> None:
        """Take in what is said; what is older than what was said last changes nothing."""
        if fact.time_ms >= self._time_ms:
            self._state, self._time_ms = fact.state, fact.time_ms

    def due_ms(self) -> int | None:
        """Return when it may be forgotten."""
        return self._time_ms + STATE_KEEP_MS

    def snapshot(self) -> HostConditionState:
        """Return the stored form."""
        return HostConditionState(self._state, self._time_ms)
