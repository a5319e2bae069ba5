"""The run time of a job without a known curve, predicted from past runs of its user, name, class and centre.

Each group has a history, and `expected` combines the histories. A completed run shows its run time. A run that failed, was
cancelled or met its limit shows only that its run time would have been longer. A burst of such incomplete runs counts once: ten
jobs that crashed after a second had changed a predicted run time of 1,900 s to 1 s.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar, Final, Literal, NamedTuple

import msgspec
import numpy as np

from processors.contracts.outputs import Member, Model, Reliability
from processors.facts import QUANTILES, Band, Measured, Remaining, RunFact, Scored, measured, outlasted
from processors.models.numerics.statistics import pinball, six_digits
from processors.models.similar_runs import (
    CENTRE,
    CLASS,
    HIGH,
    LOW,
    NAME,
    NAMES_MAX,
    OVERRUN_S,
    RUNS_MAX,
    USER,
    BandLevels,
    ModelJob,
    PastRuns,
    RunTimeDistribution,
    SimilarityGroup,
    class_of,
    distribution,
    failing_share,
    quantiles_s,
    row_of,
)
from processors.store import PlainProcessor, RateLimit, Untimed, counted, digest64, due, hexdigest

# Does the run time of an application follow its size? The losses of the curve and of the distribution of past runs decide.
# Before a run is learned, both predictions of it are scored by the pinball losses of the median and of both ends of the
# band, in seconds. Without the lower end a band from 376 s to 5,219 s scored as well as one from 4,900 s. Losses are kept
# by size, rounded to powers of two, and fade slowly. All sizes have the same weight in the comparison, so that a size that is
# run all day does not decide for the other sizes.

SIZES_MAX: Final = 8
COMPARED_RUNS_MIN: Final = 12.0  # fewest scored runs for a conclusion about all sizes
SIZE_RUNS_MIN: Final = 8.0  # with this many scored runs of a size, only these runs decide for the size
WEIGHT_MAX: Final = 4.0  # maximum weight of a size, in runs
BETTER: Final = 0.95  # below this ratio of losses, the distribution replaces the curve
WORSE: Final = 1.0  # above this ratio, the curve replaces the distribution
FORGETTING: Final = 0.97
COMPARED_PER_TICK: Final = 2  # most scored runs of an application per tick, after the first COMPARED_RUNS_MIN runs
_NOTHING_S: Final = 1e-6


class ScorePair(msgspec.Struct, frozen=True):
    """One run at size `n`: the loss of the prediction by the curve and the loss by the distribution, in seconds.

    `now_ms` is the time of the last tick.
    """

    n: float
    curve_s: float
    similar_runs_s: float
    now_ms: int = 0


class LossRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The losses of both predictions at one size, as sums in s over `runs` runs, where newer runs weigh more.

    `step` is log2 of the size, rounded. `chosen` is True if the distribution is used for this size because of these losses.
    """

    step: int
    runs: float
    curve_s: float
    similar_runs_s: float
    chosen: bool = False

    @property
    def ln_ratio(self) -> float:
        """Ln of the loss of the distribution over the loss of the curve."""
        return math.log((self.similar_runs_s + _NOTHING_S) / (self.curve_s + _NOTHING_S))


class ModelComparison(PlainProcessor, omit_defaults=True):
    """Compares for one application how well the curve and the distribution of similar runs predict, by their losses.

    `records` has one record per size, the last used at the end. If `chosen` is True, the distribution is used at every size
    without enough scored runs of its own, because the run times do not follow the size.
    """

    name: ClassVar[str] = "model_comparison"
    version: ClassVar[int] = 1

    records: tuple[LossRecord, ...] = ()
    chosen: bool = False
    rate_limit: RateLimit = (0, 0)

    @property
    def _known(self) -> bool:
        """Whether enough runs were scored for a decision about all sizes."""
        return sum([record.runs for record in self.records]) >= COMPARED_RUNS_MIN

    def score(self, fact: float | None) -> bool | None:
        """Return whether the distribution is used for a size; None if too few runs were scored to decide.

        If SIZE_RUNS_MIN runs of the size were scored, only these runs decide, because predictions of other sizes may be bad for other reasons.
        """
        own = self._record(_step(fact)) if fact is not None else None
        if own is not None and own.runs >= SIZE_RUNS_MIN:
            return _better(own.ln_ratio, own.chosen or self.chosen)
        return self.chosen if self._known and len(self.records) > 1 else None

    def wants(self, now_ms: int) -> bool:
        """Return whether to score one more run before the next tick; `now_ms` is the time of the last tick."""
        return due(self.rate_limit, now_ms, COMPARED_PER_TICK) or not self._known

    def learn(self, fact: ScorePair) -> None:
        """Learn the losses of a run. The caller passes each run only once."""
        self.rate_limit = counted(self.rate_limit, fact.now_ms)
        step = _step(fact.n)
        old = self._record(step) or LossRecord(step, 0.0, 0.0, 0.0)
        other_records = [record for record in self.records if record.step != step]
        self.records = (*other_records[-(SIZES_MAX - 1) :], _added(old, fact))
        if self._known and len(self.records) > 1:  # one size cannot show that run times do not follow the size
            self.chosen = _better(self._ln_ratio(), self.chosen)

    def _record(self, step: int) -> LossRecord | None:
        return next((record for record in self.records if record.step == step), None)

    def _ln_ratio(self) -> float:
        weights = [min(record.runs, WEIGHT_MAX) for record in self.records]
        return sum(w * record.ln_ratio for w, record in zip(weights, self.records, strict=True)) / sum(weights)


def loss_s(run_time_s: float, band: Band) -> float:
    """Return the sum of the pinball losses at .05, .5 and .95 of a band for an observed run time, in seconds.

    The loss is limited to the run time, because one absurd band of a curve from three runs decided the next thirty runs.
    """
    ends_s = pinball(run_time_s, band.low_s, LOW) + pinball(run_time_s, band.high_s, HIGH)
    return round(min(pinball(run_time_s, band.run_time_s, 0.5) + ends_s, run_time_s), 6)


def _better(ln_ratio: float, chosen: bool) -> bool:  # noqa: FBT001  # private, and each call passes a named value
    """Return whether to use the distribution: it must be better by a margin to replace the curve, and stays until it is worse."""
    return ln_ratio < math.log(WORSE if chosen else BETTER)


def _step(n: float) -> int:
    return round(math.log2(n))


def _added(old: LossRecord, score_pair: ScorePair) -> LossRecord:
    curve_s, similar_runs_s = FORGETTING * old.curve_s + score_pair.curve_s, FORGETTING * old.similar_runs_s
    record = LossRecord(
        old.step,
        round(FORGETTING * old.runs + 1.0, 2),
        float(f"{curve_s:.5g}"),
        float(f"{similar_runs_s + score_pair.similar_runs_s:.5g}"),
    )
    return msgspec.structs.replace(record, chosen=_better(record.ln_ratio, old.chosen))


GroupKind = Literal["user", "name", "class", "centre"]
GROUPS: Final[dict[GroupKind, SimilarityGroup]] = {"user": USER, "name": NAME, "class": CLASS, "centre": CENTRE}
RETAINED_MAX: Final[dict[GroupKind, int]] = {"user": RUNS_MAX, "name": 28, "class": RUNS_MAX, "centre": RUNS_MAX}
NEAR_LIMIT: Final = 0.95
SCORED_PER_TICK: Final = 100  # most scored runs of a centre per tick; more runs would not add information
_FORGETTING: Final = 0.995  # decay of the share of runs inside the band: a memory of about 200 runs
_ID_BYTES: Final = 4
BURST_MS: Final = 600_000  # failed runs of one job that start within this time count once
BURSTS_MAX: Final = 16
_REMEMBERED: Final = 4096  # cached jobs: the same jobs run repeatedly, and all their groups need the keys


class ComingJob(msgspec.Struct, frozen=True):
    """A future job; unknown attributes are None."""

    n: float
    name: str | None = None
    user: str | None = None
    time_limit_s: float | None = None


class EndedJob:
    """An ended run: `run_time_s` is the time for which it held its nodes, and `completed` is False if it did not finish its work.

    `short` and `row` are the short id and the row that all its groups store. Raise ValueError on impossible numbers.
    """

    __slots__ = ("completed", "job", "row", "run_time_s", "short", "start_ms")

    def __init__(
        self, run_id: str, job: ComingJob, run_time_s: float, *, completed: bool = True, start_ms: int = 0
    ) -> None:
        self.job, self.run_time_s, self.completed, self.start_ms = job, run_time_s, completed, start_ms
        self.short = _short(run_id)
        self.row = row_of(model_job(job), run_time_s, completed=completed)


class SimilarRunsState(msgspec.Struct, omit_defaults=True):
    """Stored form of `SimilarRuns`: the runs, newest first, as digests of 4 bytes of their ids and as packed rows.

    `levels` are the levels of the ends of the band. `band` has two sums in which newer runs weigh more: the scored runs, and
    those inside the band. `rate_limit` has the time of the last tick and the number of runs scored since. `bursts` has digests of
    jobs whose last run did not complete, and the start of that run.
    """

    ids: bytes = b""
    runs: bytes = b""
    levels: tuple[float, float, float] = BandLevels()
    band: tuple[float, float] = (0.0, 0.0)
    rate_limit: RateLimit = (0, 0)
    bursts: tuple[tuple[int, int], ...] = ()


class SimilarRuns(Untimed):
    """The newest runs of one group of jobs. The history of the centre also keeps `levels`, the calibrated levels of the band."""

    name: ClassVar[str] = "similar_runs"
    version: ClassVar[int] = 1

    def __init__(self, state: SimilarRunsState | None = None) -> None:
        stored = state or SimilarRunsState()
        self._ids = list(np.frombuffer(stored.ids, dtype="<u4").tolist())
        self.past = PastRuns(stored.runs)
        self.levels = BandLevels(*stored.levels)
        self._scored, self._inside = stored.band
        self._rate_limit = stored.rate_limit
        self._bursts = dict(stored.bursts)

    @property
    def measured(self) -> Measured | None:
        """The share of recent runs inside their predicted band, and the number of these runs; None for too few runs."""
        return measured(self._inside / self._scored if self._scored else None, self._scored)

    def score(self, fact: ComingJob) -> PastRuns:  # noqa: ARG002  # `expected` uses the job for the weight of each run
        return self.past

    def learn(self, fact: EndedJob, retained_max: int = RUNS_MAX) -> None:
        """Add a run, or replace the run with the same id. Raise ValueError on impossible numbers."""
        if fact.short in self._ids:
            self.correct(fact)
            return
        if not fact.completed and self._of_burst(fact):
            return
        self.past.put(fact.row, retained_max)
        self._ids.insert(0, fact.short)
        del self._ids[retained_max:]

    def correct(self, fact: EndedJob) -> bool:
        """Replace the run with the same id; return False if no run has this id. Raise ValueError on impossible numbers."""
        if fact.short not in self._ids:
            return False
        index = self._ids.index(fact.short)
        if self.past.completed(index) and self._of_burst(fact):
            return self._forget(fact.short)
        if fact.completed and self._bursts.get(_job_digest(fact.job)) == fact.start_ms:
            del self._bursts[_job_digest(fact.job)]
        self.past.replace(index, fact.row)
        return True

    def forget(self, run_id: str) -> bool:
        return self._forget(_short(run_id))

    def _forget(self, short: int) -> bool:
        if short not in self._ids:
            return False
        self.past.remove(self._ids.index(short))
        self._ids.remove(short)
        return True

    def wants(self, now_ms: int) -> bool:
        """Return whether to score one more run before the next tick; `now_ms` is the time of the last tick."""
        return due(self._rate_limit, now_ms, SCORED_PER_TICK)

    def note(self, run_time_s: float, prediction: "ExpectedBand", now_ms: int = 0) -> None:
        """Learn whether a run was inside its predicted band. The caller passes each run only once."""
        self._rate_limit = counted(self._rate_limit, now_ms)
        self.levels = self.levels.after(run_time_s, (prediction.low_s, prediction.upper_s, prediction.high_s))
        inside = prediction.low_s <= run_time_s <= prediction.high_s
        self._scored = round(_FORGETTING * self._scored + 1.0, 6)
        self._inside = round(_FORGETTING * self._inside + inside, 6)

    def snapshot(self) -> SimilarRunsState:
        return SimilarRunsState(
            np.array(self._ids, dtype="<u4").tobytes(),
            self.past.packed(),
            self.levels,
            (self._scored, self._inside),
            self._rate_limit,
            tuple(self._bursts.items()),
        )

    def _of_burst(self, fact: EndedJob) -> bool:
        """Return whether a run failed shortly after another run of its job. Job arrays and repeated attempts of a user cause such bursts."""
        if fact.completed:
            return False
        key = _job_digest(fact.job)
        before_ms = self._bursts.pop(key, None)
        self._bursts[key] = max(fact.start_ms, before_ms if before_ms is not None else fact.start_ms)
        while len(self._bursts) > BURSTS_MAX:
            del self._bursts[next(iter(self._bursts))]
        return before_ms is not None and abs(fact.start_ms - before_ms) <= BURST_MS


class ExpectedBand(msgspec.Struct, frozen=True):
    """The expected run time of a job in seconds: the median, and the ends of a band that contains 90 % of the runs.

    90 % of the runs are shorter than `upper_s`.
    """

    run_time_s: float
    low_s: float
    upper_s: float
    high_s: float


class ExpectedRunTime(ExpectedBand, frozen=True):
    """The expected run time with its distribution, which doubles the cost of computing.

    `law` is the distribution of similar runs before calibration; `ends` are the levels in `law` at which the calibrated low end,
    median and high end lie.
    """

    law: RunTimeDistribution
    ends: tuple[float, float, float]


def name_key(system: str, name: str) -> str:
    return f"name/{hexdigest(system, name)}"


@lru_cache(maxsize=_REMEMBERED)
def group_keys(system: str, job: ComingJob) -> Mapping[GroupKind, str]:
    """Return the keys of the histories for a job, the most similar group first. The keys contain digests of the names."""
    limit, size = class_of(model_job(job))
    parts: dict[GroupKind, str | None] = {"user": job.user, "name": job.name, "class": f"{limit},{size}", "centre": ""}
    return {kind: f"{kind}/{hexdigest(system, part)}" for kind, part in parts.items() if part is not None}


def expected(job: ComingJob, similar_runs: Mapping[GroupKind, SimilarRuns]) -> ExpectedRunTime:
    """Return the expected run time of a job, even without any history. Raise ValueError for an impossible size."""
    law, (low, upper, high) = distribution(_past(job, similar_runs), model_job(job)), _levels(similar_runs)
    return ExpectedRunTime(*_band(job, law.quantiles((0.5, low, upper, high))), law, (low, 0.5, high))


def expected_band(job: ComingJob, similar_runs: Mapping[GroupKind, SimilarRuns]) -> ExpectedBand:
    """Return only the run times of `expected`, for scoring."""
    low, upper, high = _levels(similar_runs)
    times_s = quantiles_s(_past(job, similar_runs), model_job(job), (0.5, low, upper, high))
    return ExpectedBand(*_band(job, times_s))


def _band(job: ComingJob, times_s: Sequence[float]) -> tuple[float, float, float, float]:
    run_time_s, low_s, upper_s, high_s = times_s
    limit_s = job.time_limit_s
    if limit_s is not None and high_s > NEAR_LIMIT * limit_s:  # a run that lasts this long may also meet its limit
        high_s = max(high_s, limit_s + OVERRUN_S)
    return run_time_s, low_s, upper_s, max(high_s, upper_s)


def _levels(similar_runs: Mapping[GroupKind, SimilarRuns]) -> tuple[float, float, float]:
    return similar_runs["centre"].levels if "centre" in similar_runs else BandLevels()


def failing(job: ComingJob, similar_runs: Mapping[GroupKind, SimilarRuns]) -> float | None:
    """Return the probability that a job does not complete; None if too few runs are known."""
    return failing_share(_past(job, similar_runs), model_job(job)) if _enough_known(similar_runs) else None


def _past(job: ComingJob, similar_runs: Mapping[GroupKind, SimilarRuns]) -> Iterator[tuple[SimilarityGroup, PastRuns]]:
    return ((GROUPS[kind], history.score(job)) for kind, history in similar_runs.items())


def _enough_known(similar_runs: Mapping[GroupKind, SimilarRuns]) -> bool:
    """Return whether enough runs of the centre have a known run time for a prediction."""
    return "centre" in similar_runs and similar_runs["centre"].past.tell(CENTRE_RUNS_MIN)


def scored(run: RunFact, prediction: ExpectedRunTime) -> Scored:
    """Return the comparison of a run with its prediction, as input for drift detection."""
    ln_width = math.log(prediction.high_s) - math.log(prediction.low_s)
    return Scored(
        run=run,
        expected_s=prediction.run_time_s,
        low_s=prediction.low_s,
        high_s=prediction.high_s,
        ln_ratio=math.log(run.run_time_s) - math.log(prediction.run_time_s),
        half_width=max(ln_width / 2, 1e-6),
        inside=prediction.low_s <= run.run_time_s <= prediction.high_s,
        horizon="inside",
        observations=int(prediction.law.alike),
    )


@lru_cache(maxsize=_REMEMBERED)
def model_job(job: ComingJob) -> ModelJob:
    """Return the job in the form of the model, where the name is a number and 0 means no name."""
    name = 0 if job.name is None else digest64(job.name) % NAMES_MAX
    return ModelJob(float(job.n), name, job.time_limit_s)


def _job_digest(job: ComingJob) -> int:
    return digest64(job.name or "", job.user or "", repr(job.n), repr(job.time_limit_s)) >> 32


def _short(run_id: str) -> int:
    return digest64(run_id) % 256**_ID_BYTES


MODEL_NAME: Final = "similar_runs"
CENTRE_RUNS_MIN: Final = 8  # fewest known run times of the centre for a prediction
# weight in recent runs of the same user, name, size and limit; runs of one name alone reach at most 5.6
ALIKE_MIN: Final = 3.0
OTHER_ENDS_MIN: Final = 0.5  # gave the best Brier scores at half, three quarters and nine tenths of the limit
NO_CURVE: Final = "no_curve"
NOT_BY_SIZE: Final = "not_by_size"
FEW_ALIKE: Final = "few_alike"
BETTER_AT_SIZE: Final = "better_at_size"
REASON_TEXT: Final = {
    NO_CURVE: "No scaling curve is known: the prediction comes from similar runs, whose run times vary.",
    NOT_BY_SIZE: "The run times do not depend on the size: the band is the spread of past runs, and another size changes little.",
    BETTER_AT_SIZE: "Past runs have predicted this size better than the curve: the band is their spread.",
    FEW_ALIKE: "Few runs are similar: name the application, or wait for more runs.",
}


class SimilarRunsPrediction(NamedTuple):
    """The prediction for a job; `measured` is the share of recent runs inside their predicted bands."""

    expected: ExpectedRunTime
    model: Model
    measured: Measured | None


def predict(job: ComingJob, similar_runs: Mapping[GroupKind, SimilarRuns]) -> SimilarRunsPrediction | None:
    """Return the prediction for a job; None if fewer than CENTRE_RUNS_MIN runs of the centre have a known run time."""
    if not _enough_known(similar_runs):
        return None
    expected_run_time = expected(job, similar_runs)
    retained = [kind for kind, history in similar_runs.items() if history.past.count]
    members = tuple(
        Member(kind, six_digits(share), {"runs": float(similar_runs[kind].past.count)})
        for kind, share in zip(retained, expected_run_time.law.shares, strict=False)  # the last share is the prior's
    )
    return SimilarRunsPrediction(expected_run_time, Model(MODEL_NAME, members), similar_runs["centre"].measured)


def reliability(alike: float, why: str) -> Reliability:
    """Return the verdict on a prediction from similar runs. The verdict is never `reliable`, because similar runs do not explain run times."""
    reasons = (why,) if alike >= ALIKE_MIN else (FEW_ALIKE, why)
    verdict = "uncertain" if alike >= ALIKE_MIN else "insufficient"
    return Reliability(verdict, reasons, tuple(REASON_TEXT[reason] for reason in reasons))


def conditioned(prediction: ExpectedRunTime, band: Band, elapsed_s: float, limit_s: float | None) -> Remaining:
    """Return the prediction given that the job still runs after `elapsed_s`; `band` is the band of the whole run."""
    law = prediction.law
    passed = law.below(elapsed_s)
    exceeds = _exceeds(prediction, passed, elapsed_s, limit_s)
    shares = [float(np.interp(level, (LOW, 0.5, HIGH), prediction.ends)) for level in QUANTILES]
    if elapsed_s <= law.quantile(0.0):  # no part of the distribution is cut off yet
        return Remaining.of(band, exceeds, (law.quantile(shares[1]), law.quantile(shares[3])))
    if elapsed_s >= law.quantile(1.0):  # longer than any known run
        return outlasted(elapsed_s, exceeds)
    low, lower, middle, upper, high = (
        max(law.quantile(passed + share * (1.0 - passed)), elapsed_s) for share in shares
    )
    if limit_s is not None and prediction.high_s > limit_s:
        high = max(high, limit_s + OVERRUN_S)
    return Remaining.of(Band(middle, min(low, middle), max(high, middle)), exceeds, (lower, upper))


def _exceeds(prediction: ExpectedRunTime, passed: float, elapsed_s: float, limit_s: float | None) -> float | None:
    """Return the probability that a job reaches its time limit, given that it outlived the share `passed` of similar runs.

    None without a limit. However long the job has run, an end before the limit stays at least half as probable as reaching it,
    because many runs end a little before their limit.
    """
    reaching = prediction.law.reaching
    if limit_s is None or reaching is None:
        return None
    if elapsed_s >= limit_s:
        return 1.0
    return max(reaching, reaching / max(1.0 - passed, (1.0 + OTHER_ENDS_MIN) * reaching))
