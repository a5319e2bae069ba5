"""Runs that a host explains: slow ones on a host that was odd. They raise no alert of their own and are listed under its."""

from typing import ClassVar, Final

import msgspec

from processors.contracts.hosts import Explained, ExplainedRun

RUNS_MAX: Final = 32
KEEP_MS: Final = 30 * 86_400_000


class ExplainedRunsState(msgspec.Struct, omit_defaults=True):
    """Stored form: how many there were in all, and the newest."""

    count: int = 0
    runs: list[ExplainedRun] = []


class ExplainedRuns:
    """The runs that one host explains."""

    name: ClassVar[str] = "explained_runs"
    version: ClassVar[int] = 1

    def __init__(self, state: ExplainedRunsState) -> None:
        self._state = state

    @classmethod
    def build(cls, state: ExplainedRunsState | None = None) -> "ExplainedRuns":
        """Return the runs of a stored state, or none."""
        return cls(msgspec.structs.replace(state) if state else ExplainedRunsState())

    @property
    def explained(self) -> Explained:
        """How many there were, and the newest."""
        return Explained(self._state.count, tuple(self._state.runs))

    def score(self, fact: ExplainedRun) -> bool:
        """Return whether the run is new."""
        return all(run.run_id != fact.run_id for run in self._state.runs)

    def learn(self, fact: ExplainedRun) -> None:
        """Take a run in; a repeat changes nothing."""
        if self.score(fact):
            self._state.runs = [*self._state.runs, fact][-RUNS_MAX:]
            self._state.count += 1

    def due_ms(self) -> int | None:
        """Return when they may be forgotten."""
        return max((run.end_ms for run in self._state.runs), default=0) + KEEP_MS

    def snapshot(self) -> ExplainedRunsState:
        """Return the stored form."""
        return msgspec.structs.replace(self._state)
