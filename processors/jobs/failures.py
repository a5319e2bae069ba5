"""Failure rates: is an application failing credibly more than it used to, and than is usual.

A rate is judged by its posterior under a Beta(1/2, 1/2) prior (Jeffreys): the alarm asks how probable it is that the
recent rate lies above a reference, the larger of the own past rate and the centre's usual one.
"""

from collections.abc import Collection, Sequence
from typing import ClassVar, Final, Self

import msgspec
import numpy as np

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


BROKEN: Final = 0.25  # of the runs on a host that breaks some fail because of it; what blame is shared by
ROUNDING: Final = 1e-3  # shares are stored with four digits


class HostOutcome(msgspec.Struct, frozen=True):
    """How a run of an application on a host ended.

    `expected` is the probability that it fails without this host, `share` the part of the blame that is the host's where it failed.
    """

    run_id: str
    failed: bool
    application_id: str = ""
    expected: float = 0.0
    share: float = 1.0


class HostFailureState(msgspec.Struct, omit_defaults=True):
    """Stored form: the newest outcomes (run digest, failed, digest of the application, what was expected, share)."""

    recent: list[tuple[int, bool, int, float, float]] = []


class HostFailureJudgement(msgspec.Struct, frozen=True):
    """How many runs failed by the host, of how many; `expected` would have failed without it.

    `causes` are the applications that the host made fail, `credibility` is the probability that fewer fail by themselves.
    """

    recent_runs: int
    recent_failures: int
    causes: int
    expected: float
    credibility: float
    credible: bool


class HostFailureRate(Untimed):
    """Outcomes on one host.

    `quiet` is for its user to note, and not stored: that the host raises no alert, so that it need not be judged again
    before it is suspicious.
    """

    name: ClassVar[str] = "host_failures"
    version: ClassVar[int] = 2

    def __init__(self, settings: AlertSettings.FailureRate, state: HostFailureState) -> None:
        self._settings = settings
        self._recent = {run: (failed, of, expected, share) for run, failed, of, expected, share in state.recent}
        self._failures = sum(failed for failed, _, _, _ in self._recent.values())
        self.quiet = False

    @classmethod
    def build(cls, settings: AlertSettings.FailureRate, state: HostFailureState | None = None) -> Self:
        """Return the outcomes of a stored state, or none."""
        return cls(settings, state or HostFailureState())

    @property
    def runs(self) -> Collection[int]:
        """The digests of the newest runs."""
        return self._recent.keys()

    @property
    def failing(self) -> set[int]:
        """The digests of the applications of which a run failed."""
        return {of for failed, of, _, _ in self._recent.values() if failed}

    def suspicious(self) -> bool:
        """Return whether so many runs failed by the host that it is worth judging."""
        return self._failures >= self._settings.failures_min and self._blamed() >= self._settings.failures_min

    def odds(self) -> float:
        """Return how much more probable the outcomes are where the host breaks some of its runs than where it breaks none."""
        odds = 1.0
        for failed, _, expected, _ in self._recent.values():
            odds *= (expected + (1.0 - expected) * BROKEN) / max(expected, ROUNDING) if failed else 1.0 - BROKEN
        return odds

    def score(self, fact: int) -> HostFailureJudgement:
        """Judge the outcomes, of so many hosts in all.

        Where many hosts are judged, each has to be so much surer that all together raise no more false alarms than one
        would (Bonferroni). A part of a failure is none.
        """
        failures = self._blamed()
        expected = [expected for _, _, expected, _ in self._recent.values()]
        credibility = 1.0 - at_least(failures, expected)
        doubt = (1.0 - self._settings.credibility) / max(fact, 1)
        credible = self.suspicious() and credibility >= 1.0 - doubt
        causes = len({of for failed, of, _, share in self._recent.values() if failed and share > 0.5})
        return HostFailureJudgement(len(self._recent), failures, causes, sum(expected), credibility, credible)

    def learn(self, fact: HostOutcome) -> None:
        """Take an outcome in; a corrected one replaces the former where it is still among the recent."""
        self._put(digest64(fact.run_id), fact)
        while len(self._recent) > self._settings.recent_runs:
            self._take_out(next(iter(self._recent)))

    def correct(self, run_id: str, fact: HostOutcome) -> None:
        """Replace the outcome of a run; nothing where it is no longer among the recent."""
        if (run := digest64(run_id)) in self._recent:
            self._put(run, fact)

    def expect(self, application: int, probability: float) -> None:
        """Expect more failures of an application, by its digest: what fails now may have begun with these runs."""
        for run, (failed, of, expected, share) in self._recent.items():
            if of == application and expected < probability:
                self._recent[run] = (failed, of, probability, share)

    def snapshot(self) -> HostFailureState:
        """Return the stored form."""
        return HostFailureState([(run, *outcome) for run, outcome in self._recent.items()])

    def _blamed(self) -> int:
        return int(sum(share for failed, _, _, share in self._recent.values() if failed) + ROUNDING)

    def _put(self, run: int, fact: HostOutcome) -> None:
        before = self._recent.get(run)
        self._failures += fact.failed - (before[0] if before else False)
        self._recent[run] = (fact.failed, digest64(fact.application_id), round(fact.expected, 4), round(fact.share, 4))

    def _take_out(self, run: int) -> None:
        self._failures -= self._recent.pop(run)[0]


def at_least(count: int, probabilities: Sequence[float]) -> float:
    """Return how probable it is that at least so many of independent events happen (Poisson-binomial distribution)."""
    chances = np.ones(1)
    for probability in probabilities:
        chances = np.convolve(chances, (1.0 - probability, probability))
    return min(float(chances[count:].sum()), 1.0)


def shares(odds: Sequence[float]) -> list[float]:
    """Return the part of the blame for a failed run of each of its hosts: one of them broke it, as probably as their odds say."""
    total = sum(odds)
    return [each / total for each in odds]
