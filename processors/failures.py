"""Failure rates: is something (an application, a host) failing credibly more than it used to, and than is usual.

A rate is judged by its posterior under a Beta(1/2, 1/2) prior (Jeffreys): the alarm asks how probable it is that the
recent rate lies above a reference, the larger of the own past rate and the centre's usual one.
"""

from typing import ClassVar, Self

import msgspec
from scipy.special import betainc

from agent.contracts.settings import AlertSettings
from processors.digest import digest64
from processors.facts import Outcome

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


class FailureRate:
    """Outcomes of one application or one host.

    >>> rate = FailureRate.build(AlertSettings().failure_rate)
    >>> for i in range(40):
    ...     rate.learn(Outcome(f"r{i}", failed=i >= 34, of=str(i)))
    >>> judgement = rate.score(0.05)
    >>> judgement.recent_failures, judgement.credible
    (6, True)
    """

    name: ClassVar[str] = "failures"
    version: ClassVar[int] = 1

    def __init__(self, settings: AlertSettings.FailureRate, state: FailureState) -> None:
        self._settings = settings
        self._state = state

    @classmethod
    def build(cls, settings: AlertSettings.FailureRate, state: FailureState | None = None) -> Self:
        """Return the rate of a stored state, or an empty one."""
        return cls(settings, msgspec.structs.replace(state) if state else FailureState())

    def rate(self) -> float:
        """Return the posterior mean of the rate over everything remembered."""
        failures = self._state.past_failures + sum(failed for _, failed, _ in self._state.recent)
        return (failures + 0.5) / (self._state.past_runs + len(self._state.recent) + 1.0)

    def score(self, fact: float, watched: int = 1) -> FailureJudgement:
        """Compare the recent outcomes with the own past and with the usual rate, which is given.

        Where many rates are watched, each has to be so much surer that all together raise no more false alarms than one
        would (Bonferroni).
        """
        state, settings = self._state, self._settings
        runs, failures = len(state.recent), sum(failed for _, failed, _ in state.recent)
        past = (state.past_failures + 0.5) / (state.past_runs + 1.0) if state.past_runs else 0.0
        reference = min(max(past, fact, 1e-3), 1.0 - 1e-9)
        credibility = 1.0 - float(betainc(failures + 0.5, runs - failures + 0.5, reference))
        doubt = (1.0 - settings.credibility) / max(watched, 1)
        credible = failures >= settings.failures_min and credibility >= 1.0 - doubt
        causes = len({cause for _, failed, cause in state.recent if failed})
        return FailureJudgement(runs, failures, causes, past, credibility, credible)

    def learn(self, fact: Outcome) -> None:
        """Take an outcome in; a corrected one replaces the former where it is still among the recent."""
        entry = (digest64(fact.run_id), fact.failed, digest64(fact.of))
        recent = [entry if entry[0] == known[0] else known for known in self._state.recent]
        if entry not in recent:
            recent.append(entry)
        self._state.recent = recent
        while len(self._state.recent) > self._settings.recent_runs:
            self._forget_oldest()

    def correct(self, run_id: str, fact: Outcome | None) -> None:
        """Replace the outcome of a run, or take it away (None); nothing where it is no longer among the recent."""
        digest = digest64(run_id)
        entries = [] if fact is None else [(digest, fact.failed, digest64(fact.of))]
        self._state.recent = [
            entry for known in self._state.recent for entry in (entries if known[0] == digest else [known])
        ]

    def holds(self, run_id: str) -> bool:
        """Tell whether the outcome of a run is among the recent."""
        digest = digest64(run_id)
        return any(run == digest for run, _, _ in self._state.recent)

    def due_ms(self) -> int | None:
        """Return None: a rate changes by outcomes only."""
        return None

    def snapshot(self) -> FailureState:
        """Return the stored form."""
        return msgspec.structs.replace(self._state, recent=list(self._state.recent))

    def _forget_oldest(self) -> None:
        state = self._state
        _, failed, _ = state.recent[0]
        state.recent = state.recent[1:]
        state.past_runs += 1.0
        state.past_failures += failed
        if state.past_runs > PAST_RUNS_MAX:
            state.past_runs, state.past_failures = state.past_runs / 2.0, state.past_failures / 2.0


class HostFailureRate(FailureRate):
    """Outcomes on one host; kept apart from those of applications, for it has a bound of its own.

    >>> HostFailureRate.build(AlertSettings().failure_rate).name
    'host_failures'
    """

    name: ClassVar[str] = "host_failures"
