"""Failures that only a host explains: more than the applications that ran on it fail elsewhere.

An application that begins to fail does so on every host, and a job of many hosts fails on all of them at once. So each run
comes with the probability that its application fails without this host, and with the host's share of the blame. What counts is the sum of
the shares of the failed runs, against the number of failures that the applications let expect, which has a Poisson-binomial distribution.
"""

from collections.abc import Collection, Sequence
from typing import ClassVar, Final, Self

import msgspec
import numpy as np

from processors.contracts.alerts import AlertSettings
from processors.store import Untimed, digest64

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
