"""Failure rates: is an application failing credibly more than it used to, and than is usual.

A rate is judged by its posterior under a Beta(1/2, 1/2) prior (Jeffreys): the alarm asks how probable it is that the
recent rate lies above a reference, the larger of the own past rate and the centre's usual one.
"""

from collections.abc import Collection
from typing import ClassVar, Final, Self

import msgspec

from processors.contracts.alerts import AlertSettings
from processors.contracts.hosts import Explained, ExplainedRun
from processors.facts import Outcome
from processors.models.numerics.scipy_functions import beta_share_below
from processors.store import Untimed, digest64

PAST_RUNS_MAX = 2000  # the past fades: beyond this both counts are halved


class FailureState(msgspec.Struct, omit_defaults=True):
    """Stored form: the newest outcomes (run digest, failed, digest of its cause) and counts of those before."""

    recent: list[tuple[int, bool, int]] = []
    past_runs: float = 0.0
    past_failures: float = 0.0


class FailureJudgement(msgspec.Struct, frozen=True):
    """How the recent outcomes compare; `credibility` is the probability that the rate is above the reference."""

    recent_runs: int
    recent_failures: int
    causes: int
    past_rate: float
    credibility: float
    credible: bool


class FailureRate(Untimed):
    """Outcomes of one application, or of all of a centre.

    `quiet` is for its user to note, and not stored: that the rate raises no alert, so that it need not be judged again
    before it is suspicious.
    """

    name: ClassVar[str] = "failures"
    version: ClassVar[int] = 1

    def __init__(self, settings: AlertSettings.FailureRate, state: FailureState) -> None:
        self._settings = settings
        self._recent = {run: (failed, cause) for run, failed, cause in state.recent}  # the oldest first
        self._failures = sum(failed for failed, _ in self._recent.values())
        self._past_runs, self._past_failures = state.past_runs, state.past_failures
        self.quiet = False

    @classmethod
    def build(cls, settings: AlertSettings.FailureRate, state: FailureState | None = None) -> Self:
        """Return the rate of a stored state, or an empty one."""
        return cls(settings, state or FailureState())

    def rate(self) -> float:
        """Return the posterior mean of the rate over everything remembered."""
        return (self._past_failures + self._failures + 0.5) / (self._past_runs + len(self._recent) + 1.0)

    def expected(self, without: Collection[int] = ()) -> float:
        """Return how probably the next run fails, as the recent runs or all of them say, whichever is more.

        What the runs `without`, by their digests, say is left out: so a host is no excuse for itself. One that is named twice,
        as a corrected run is, is left out once: it had made runs fewer than none.
        """
        known = [self._recent[run][0] for run in {*without} if run in self._recent]
        runs, failures = len(self._recent) - len(known), self._failures - sum(known)
        recent = (failures + 0.5) / (runs + 1.0)
        return max(recent, (self._past_failures + failures + 0.5) / (self._past_runs + runs + 1.0))

    def suspicious(self) -> bool:
        """Return whether so many of the recent runs failed that the rate is worth judging."""
        return self._failures >= self._settings.failures_min

    def score(self, fact: float, watched: int = 1) -> FailureJudgement:
        """Compare the recent outcomes with the own past and with the usual rate, which is given.

        Where many rates are watched, each has to be so much surer that all together raise no more false alarms than one
        would (Bonferroni).
        """
        runs, failures = len(self._recent), self._failures
        past = (self._past_failures + 0.5) / (self._past_runs + 1.0) if self._past_runs else 0.0
        reference = min(max(past, fact, 1e-3), 1.0 - 1e-9)
        credibility = 1.0 - beta_share_below(failures + 0.5, runs - failures + 0.5, reference)
        doubt = (1.0 - self._settings.credibility) / max(watched, 1)
        credible = self.suspicious() and credibility >= 1.0 - doubt
        causes = len({cause for failed, cause in self._recent.values() if failed})
        return FailureJudgement(runs, failures, causes, past, credibility, credible)

    def learn(self, fact: Outcome) -> None:
        """Take an outcome in; a corrected one replaces the former where it is still among the recent."""
        self._put(digest64(fact.run_id), fact)
        while len(self._recent) > self._settings.recent_runs:
            self._forget_oldest()

    def correct(self, run_id: str, fact: Outcome | None) -> None:
        """Replace the outcome of a run, or take it away (None); nothing where it is no longer among the recent."""
        run = digest64(run_id)
        if run not in self._recent:
            return
        if fact is not None:
            self._put(run, fact)
        else:
            self._failures -= self._recent.pop(run)[0]

    def snapshot(self) -> FailureState:
        """Return the stored form."""
        recent = [(run, failed, cause) for run, (failed, cause) in self._recent.items()]
        return FailureState(recent, self._past_runs, self._past_failures)

    def _put(self, run: int, fact: Outcome) -> None:
        before = self._recent.get(run)
        self._failures += fact.failed - (before[0] if before else False)
        self._recent[run] = (fact.failed, digest64(fact.of))

    def _forget_oldest(self) -> None:
        failed, _ = self._recent.pop(next(iter(self._recent)))
        self._failures -= failed
        self._past_runs += 1.0
        self._past_failures += failed
        if self._past_runs > PAST_RUNS_MAX:
            self._past_runs, self._past_failures = self._past_runs / 2.0, self._past_failures / 2.0


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
