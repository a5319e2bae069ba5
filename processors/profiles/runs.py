"""A run on its hosts, as profiles need it: when it was there, and on which."""

from typing import ClassVar, Final

import msgspec

from agent.contracts.events import JobCompleted, JobStarted

RUN_MAX_MS: Final = 30 * 86_400_000  # a run of which no end was told is forgotten after this


class ProfileRunState(msgspec.Struct, omit_defaults=True):
    """Stored form: the job, host lists as they were sent, times, and the row of its sums.

    `spoiled` tells that its end was told so late that minutes after it were taken to be the run's.
    """

    system: str = ""
    job_id: str = ""
    hosts: tuple[str, ...] = ()
    start_ms: int = -1
    end_ms: int | None = None
    run_time_s: float = 0.0
    started: bool = False
    replaced: bool = False
    spoiled: bool = False
    keep_until_ms: int | None = None
    row: int = -1


class ProfileRun:
    """One run of a job on its hosts.

    >>> from agent.contracts.events import Evidence
    >>> run = ProfileRun.build()
    >>> run.learn(JobStarted("exa", "1", "exa/1@0", 0, Evidence(hosts=("nid[1-2]",))))
    >>> run.learn(JobCompleted("exa", "1", "exa/1@0", 0, 60_000, 60.0, "COMPLETED", Evidence()))
    >>> run.state.hosts, run.state.end_ms, run.state.started
    (('nid[1-2]',), 60000, True)
    """

    name: ClassVar[str] = "profile_run"
    version: ClassVar[int] = 1

    def __init__(self, state: ProfileRunState) -> None:
        self.state = msgspec.structs.replace(state)

    @classmethod
    def build(cls, state: ProfileRunState | None = None) -> "ProfileRun":
        """Return the run of a stored state, or one of which nothing is known."""
        return cls(state or ProfileRunState())

    def score(self, fact: JobStarted | JobCompleted) -> bool:
        """Tell whether the fact would change anything."""
        twin = ProfileRun(self.state)
        twin.learn(fact)
        return twin.state != self.state

    def learn(self, fact: JobStarted | JobCompleted) -> None:
        """Take its start or its end in; what is told of hosts last counts."""
        state = self.state
        state.system, state.job_id, state.start_ms = fact.system, fact.job_id, fact.start_ms
        if isinstance(fact, JobStarted):
            state.started = True
            state.hosts = state.hosts or fact.evidence.hosts
            return
        state.end_ms, state.run_time_s, state.replaced = fact.end_ms, fact.run_time_s, False
        state.hosts = fact.evidence.hosts or state.hosts

    def replace_at(self, end_ms: int) -> None:
        """Let it end when a later run of its job began: its own end was not told."""
        self.state.end_ms, self.state.replaced = end_ms, True
        self.state.run_time_s = (end_ms - self.state.start_ms) / 1000

    def due_ms(self) -> int | None:
        """Return when it may be forgotten."""
        state = self.state
        return state.start_ms + RUN_MAX_MS if state.keep_until_ms is None else state.keep_until_ms

    def snapshot(self) -> ProfileRunState:
        """Return the stored form."""
        return msgspec.structs.replace(self.state)
