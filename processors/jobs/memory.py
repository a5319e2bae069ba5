"""The memory of ended runs and answered requests: detection of repeats, failure rates, and slow runs explained by a faulty host.

The oldest buckets of counted runs are dropped. A run that started before all remembered runs cannot be told from a
repeat. The agent refuses such a run, so that no run is counted twice. A remembered run takes 20 bytes.

The failure rate of an application has a posterior under a Beta(1/2, 1/2) prior (Jeffreys). The test asks how probably
the recent rate is above the larger of the application's past rate and the usual rate of the centre. A host is judged by
the probability that its applications would fail as many runs on other hosts.
"""

import struct
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import ClassVar, Final, NamedTuple

import msgspec
import numpy as np

from processors.contracts.alerts import AlertSettings
from processors.contracts.hosts import ExplainedRun, ExplainedRunList
from processors.facts import Outcome
from processors.models.numerics.scipy_functions import beta_share_below
from processors.store import PlainProcessor, Untimed, digest64
from processors.windows.settings import MINUTE_MS

# beyond this number of past runs, the counts of runs and failures are halved, so that the past fades
PAST_RUNS_MAX = 2000
BROKEN: Final = 0.25  # assumed share of runs that fail on a broken host, for dividing the blame between hosts
ROUNDING: Final = 1e-3  # shares are stored with four digits


class FailureJudgement(msgspec.Struct, frozen=True):
    """The result of testing whether the recent runs failed more often than expected.

    `causes` is the number of different applications among the failed runs, `expected_rate` the expected share of failed runs.
    `credibility` is the probability that the true rate is above the expected rate; `credible` is True if that suffices for an
    alert.
    """

    recent_runs: int
    recent_failures: int
    causes: int
    expected_rate: float
    credibility: float
    credible: bool


class _Recent(NamedTuple):
    failed: bool
    of: int  # the digest of the application
    expected: float = 0.0
    share: float = 1.0


class _RecentOutcomes(Untimed):
    """The newest outcomes of runs, oldest first.

    The caller sets `quiet`, which is not stored: if True, no alert about the rate is open, so it is tested only if `suspicious`.
    """

    def __init__(self, settings: AlertSettings.FailureRate, recent: Iterable[tuple[int, _Recent]]) -> None:
        self._settings = settings
        self._recent = dict(recent)
        self._failures = sum(outcome.failed for outcome in self._recent.values())
        self.quiet = False

    def suspicious(self) -> bool:
        """Return whether at least `failures_min` of the recent runs failed; the rate is not tested with fewer failures."""
        return self._failures >= self._settings.failures_min

    def learn(self, fact: Outcome) -> None:
        """Add an outcome; if the run is still among the recent runs, the new outcome replaces the earlier outcome."""
        self._put(digest64(fact.run_id), fact)
        while len(self._recent) > self._settings.recent_runs:
            self._forget_oldest()

    def correct(self, run_id: str, fact: Outcome | None) -> None:
        """Replace the outcome of a run, or remove the outcome if `fact` is None; do nothing if the run is not a recent run."""
        run = digest64(run_id)
        if run not in self._recent:
            return
        if fact is not None:
            self._put(run, fact)
        else:
            self._failures -= self._recent.pop(run).failed

    def _put(self, run: int, fact: Outcome) -> None:
        before = self._recent.get(run)
        self._failures += fact.failed - (before.failed if before else False)
        self._recent[run] = _Recent(fact.failed, digest64(fact.of), round(fact.expected, 4), round(fact.share, 4))

    def _forget_oldest(self) -> _Recent:
        oldest = self._recent.pop(next(iter(self._recent)))
        self._failures -= oldest.failed
        return oldest

    def _judgement(
        self, failures: int, causes: int, expected_rate: float, credibility: float, watched: int
    ) -> FailureJudgement:
        """Return the judgement of a rate that is one of `watched` tested rates.

        Each test must be the more certain the more rates are tested, so that all tests together raise no more false alerts than a
        single test would (Bonferroni).
        """
        doubt = (1.0 - self._settings.credibility) / max(watched, 1)
        credible = self.suspicious() and credibility >= 1.0 - doubt
        return FailureJudgement(len(self._recent), failures, causes, expected_rate, credibility, credible)


class FailureState(msgspec.Struct, omit_defaults=True):
    """Stored form of `FailureRate`; `past_runs` and `past_failures` count the runs before `recent`.

    An entry of `recent` is a run (digest), whether it failed, and its application (digest).
    """

    recent: list[tuple[int, bool, int]] = []
    past_runs: float = 0.0
    past_failures: float = 0.0


class FailureRate(_RecentOutcomes):
    """Outcomes of the runs of one application, or of all runs of a centre."""

    name: ClassVar[str] = "failures"
    version: ClassVar[int] = 1

    def __init__(self, settings: AlertSettings.FailureRate, state: FailureState) -> None:
        super().__init__(settings, ((run, _Recent(failed, of)) for run, failed, of in state.recent))
        self._past_runs, self._past_failures = state.past_runs, state.past_failures

    def rate(self) -> float:
        """Return the posterior mean of the rate over all remembered runs."""
        return (self._past_failures + self._failures + 0.5) / (self._past_runs + len(self._recent) + 1.0)

    def expected(self, without: Collection[int] = ()) -> float:
        """Return the probability that the next run fails: the recent rate or the rate of all runs, whichever is larger.

        The runs `without` (digests) do not count: if a host caused their failures, these failures must not raise the rate that is
        expected on this host. A run that occurs twice in `without`, because of a correction, is left out once.
        """
        excluded = [self._recent[run].failed for run in {*without} if run in self._recent]
        runs, failures = len(self._recent) - len(excluded), self._failures - sum(excluded)
        recent = (failures + 0.5) / (runs + 1.0)
        return max(recent, (self._past_failures + failures + 0.5) / (self._past_runs + runs + 1.0))

    def score(self, fact: float, watched: int = 1) -> FailureJudgement:
        """Compare the recent failure rate with the larger of two rates: the application's past rate, and the usual rate `fact`.

        `watched` is the number of failure rates that are tested.
        """
        runs, failures = len(self._recent), self._failures
        past = (self._past_failures + 0.5) / (self._past_runs + 1.0) if self._past_runs else 0.0
        reference = min(max(past, fact, 1e-3), 1.0 - 1e-9)
        credibility = 1.0 - beta_share_below(failures + 0.5, runs - failures + 0.5, reference)
        causes = len({outcome.of for outcome in self._recent.values() if outcome.failed})
        return self._judgement(failures, causes, past, credibility, watched)

    def snapshot(self) -> FailureState:
        recent = [(run, outcome.failed, outcome.of) for run, outcome in self._recent.items()]
        return FailureState(recent, self._past_runs, self._past_failures)

    def _forget_oldest(self) -> _Recent:
        oldest = super()._forget_oldest()
        self._past_runs += 1.0
        self._past_failures += oldest.failed
        if self._past_runs > PAST_RUNS_MAX:
            self._past_runs, self._past_failures = self._past_runs / 2.0, self._past_failures / 2.0
        return oldest


class HostFailureState(msgspec.Struct, omit_defaults=True):
    """Stored form of `HostFailureRate`.

    An entry of `recent` is a run (digest), whether it failed, its application (digest), the probability that it would
    also have failed on another host, and this host's share of the blame.
    """

    recent: list[tuple[int, bool, int, float, float]] = []


class HostFailureRate(_RecentOutcomes):
    """Outcomes of the runs on one host, each with the probability that the run would also have failed on another host."""

    name: ClassVar[str] = "host_failures"
    version: ClassVar[int] = 2

    def __init__(self, settings: AlertSettings.FailureRate, state: HostFailureState) -> None:
        super().__init__(settings, ((outcome[0], _Recent(*outcome[1:])) for outcome in state.recent))

    @property
    def runs(self) -> Collection[int]:
        """The digests of the newest runs."""
        return self._recent.keys()

    @property
    def failing(self) -> set[int]:
        """The digests of the applications with a failed run."""
        return {outcome.of for outcome in self._recent.values() if outcome.failed}

    def suspicious(self) -> bool:
        """Return whether the host's shares of the blame add up to at least `failures_min` failures; it is not tested with fewer."""
        return super().suspicious() and self._blamed() >= self._settings.failures_min

    def odds(self) -> float:
        """Return the likelihood ratio of the outcomes: probability on a broken host divided by probability on a sound host."""
        odds = 1.0
        for failed, _, expected, _ in self._recent.values():
            odds *= (expected + (1.0 - expected) * BROKEN) / max(expected, ROUNDING) if failed else 1.0 - BROKEN
        return odds

    def score(self, fact: int) -> FailureJudgement:
        """Test whether more runs failed on this host than expected; `fact` is the number of tested hosts.

        The host's shares of the blame are summed and rounded down to whole failures.
        """
        failures = self._blamed()
        expected = [outcome.expected for outcome in self._recent.values()]
        causes = len({outcome.of for outcome in self._recent.values() if outcome.failed and outcome.share > 0.5})
        expected_rate = sum(expected) / max(len(expected), 1)
        return self._judgement(failures, causes, expected_rate, 1.0 - at_least(failures, expected), fact)

    def expect(self, application: int, probability: float) -> None:
        """Raise the probability that an application's runs on this host fail anyway to `probability`, if it was lower before.

        The application may have begun to fail on all hosts with these runs.
        """
        for run, outcome in self._recent.items():
            if outcome.of == application and outcome.expected < probability:
                self._recent[run] = outcome._replace(expected=probability)

    def snapshot(self) -> HostFailureState:
        return HostFailureState([(run, *outcome) for run, outcome in self._recent.items()])

    def _blamed(self) -> int:
        return int(sum(outcome.share for outcome in self._recent.values() if outcome.failed) + ROUNDING)


def at_least(count: int, probabilities: Sequence[float]) -> float:
    """Return the probability that at least `count` of several independent events happen (Poisson-binomial distribution).

    `probabilities` are the probabilities of the single events.
    """
    chances = np.ones(1)
    for probability in probabilities:
        chances = np.convolve(chances, (1.0 - probability, probability))
    return min(float(chances[count:].sum()), 1.0)


EXPLAINED_MAX: Final = 32
EXPLAINED_KEEP_MS: Final = 30 * 86_400_000


class ExplainedRuns(PlainProcessor, omit_defaults=True):
    """The newest slow runs that the fault of one host explains, and the number of all runs explained so far."""

    name: ClassVar[str] = "explained_runs"
    version: ClassVar[int] = 1

    count: int = 0
    runs: list[ExplainedRun] = msgspec.field(default_factory=list)

    @property
    def explained(self) -> ExplainedRunList:
        return ExplainedRunList(self.count, tuple(self.runs))

    def score(self, fact: ExplainedRun) -> bool:
        """Return whether the run is new."""
        return all(run.run_id != fact.run_id for run in self.runs)

    def learn(self, fact: ExplainedRun) -> None:
        if self.score(fact):
            self.runs = [*self.runs, fact][-EXPLAINED_MAX:]
            self.count += 1

    def due_ms(self) -> int | None:
        return max((run.end_ms for run in self.runs), default=0) + EXPLAINED_KEEP_MS


REQUESTS_KEEP_MS = 10 * MINUTE_MS
REQUESTS_MAX = 30_000  # requests in one minute; keeps the stored form well below a broker's record size limit


class AnsweredRequestsState(msgspec.Struct):
    """Stored form of `AnsweredRequests`: digests of the requests answered in one minute, and the time at which to forget them."""

    requests: list[int] = []
    keep_until_ms: int = 0


class AnsweredRequests:
    """The requests that were answered within one minute."""

    name: ClassVar[str] = "answered_requests"
    version: ClassVar[int] = 1

    def __init__(self, state: AnsweredRequestsState) -> None:
        self._requests = dict.fromkeys(state.requests)
        self._keep_until_ms = state.keep_until_ms

    def score(self, fact: str) -> bool:
        """Return whether the request with the id `fact` was answered."""
        return digest64(fact) in self._requests

    def learn(self, fact: tuple[str, int]) -> None:
        """Record the id and the time of an answered request; if there are too many requests, the oldest request is forgotten."""
        identity, now_ms = fact
        request = digest64(identity)
        if request not in self._requests and len(self._requests) >= REQUESTS_MAX:
            del self._requests[next(iter(self._requests))]
        self._requests[request] = None
        self._keep_until_ms = now_ms - now_ms % MINUTE_MS + MINUTE_MS + REQUESTS_KEEP_MS

    def due_ms(self) -> int | None:
        return self._keep_until_ms

    def snapshot(self) -> AnsweredRequestsState:
        return AnsweredRequestsState(list(self._requests), self._keep_until_ms)


@lru_cache(maxsize=1)  # all requests of a minute look at the same keys
def minutes_back(minute: int) -> tuple[str, ...]:
    """Return the keys of a minute since the epoch and of the remembered minutes before it, newest first."""
    return tuple(str(minute - back) for back in range(REQUESTS_KEEP_MS // MINUTE_MS + 1))


BUCKET_MS = 15 * 60_000
BUCKET_RUNS_MAX = 30_000  # keeps a stored bucket well below a broker's record size limit
_ENTRY = struct.Struct("<QQL")


class KnownRun(msgspec.Struct, frozen=True, gc=False):
    """A remembered run: the digest of its application (0 for no application) and of its content."""

    application: int
    content: int

    @property
    def trained(self) -> bool:
        """Whether a model has learned the run."""
        return bool(self.content & 1)

    def matches(self, content: int) -> bool:
        """Return whether a report has the remembered content, whether or not a model learned it."""
        return self.content | 1 == content | 1


class RunDeduplicationState(msgspec.Struct):
    """Stored form of a bucket: packed entries (run, application, content), sorted by run."""

    runs: bytes = b""


class RunDeduplication(Untimed):
    """A bucket of remembered runs that started in the same quarter of an hour, by which a repeated report of a run is recognised."""

    name: ClassVar[str] = "run_deduplication"
    version: ClassVar[int] = 1

    def __init__(self, state: RunDeduplicationState) -> None:
        self._runs = {run: KnownRun(*known) for run, *known in _ENTRY.iter_unpack(state.runs)}

    def __len__(self) -> int:
        return len(self._runs)

    def score(self, fact: str) -> KnownRun | None:
        """Return the entry of the run with the id `fact`; None for a new run."""
        return self._runs.get(digest64(fact))

    def learn(self, fact: tuple[str, KnownRun]) -> None:
        run_id, known_run = fact
        self._runs[digest64(run_id)] = known_run

    def full(self) -> bool:
        """Return whether the next run must go to a following bucket."""
        return len(self._runs) >= BUCKET_RUNS_MAX

    def snapshot(self) -> RunDeduplicationState:
        entries = (_ENTRY.pack(run, known.application, known.content) for run, known in sorted(self._runs.items()))
        return RunDeduplicationState(b"".join(entries))


@lru_cache(maxsize=64)  # each run asks several times in a row
def bucket(run_id: str, start_ms: int) -> str:
    """Return the bucket key of a run: the quarter of an hour in which it started, and a number from 0 to 3 by its id.

    Keys sort by time.
    """
    return f"{start_ms // BUCKET_MS:010d}.{digest64(run_id) & 3}"


class LowWater(PlainProcessor, omit_defaults=True):
    """The key of the earliest bucket that is still remembered, and the number of all remembered runs.

    A run of an earlier bucket may or may not be a repeat, because that bucket was forgotten.
    """

    name: ClassVar[str] = "low_water"
    version: ClassVar[int] = 1

    bucket: str = ""
    runs: int = 0

    def count(self, runs: int) -> None:
        """Add to the number of remembered runs; a negative number counts runs that were forgotten."""
        self.runs = max(self.runs + runs, 0)

    def score(self, fact: str) -> bool:
        """Return whether the bucket with the key `fact` was forgotten."""
        return fact < self.bucket

    def learn(self, fact: str) -> None:
        """Set the key of the earliest remembered bucket."""
        self.bucket = max(self.bucket, fact)


def content_digest(n: float | None, run_time_s: float, state: str, end_ms: int, *, trained: bool) -> int:
    """Return a 32-bit digest of a report of a run; its lowest bit says whether a model learned the run."""
    size = None if n is None else float(n)
    digest = digest64(repr(size), repr(float(run_time_s)), state, str(end_ms)) & 0xFFFFFFFE
    return digest | trained
