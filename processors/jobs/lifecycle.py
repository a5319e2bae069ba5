"""The life cycle of one job: started, running, completed, settled; with the evidence of its application, and its last forecast.

A job may have several runs, because a requeue starts a new run under the same id. A run settles some time after its end, so
that late evidence still counts.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final

import msgspec

from processors.contracts.events import Attribute, Evidence, Identity, JobCompleted, JobStarted, Network
from processors.contracts.hosts import Profile
from processors.contracts.names import LATEST_MS, rfc3339
from processors.contracts.outputs import Model, PredictedAtStart, Reliability, RunTimeQuantile, SlowedBy
from processors.contracts.settings import EVIDENCE_FIELDS
from processors.facts import QUANTILES, REMEMBERED, Band, CurvePrediction, PublishedCurve, Remaining
from processors.features.times import NAME as FEATURES
from processors.inputs import NAME as INPUTS
from processors.load.runs import StartLoad
from processors.models.features.communication import features
from processors.models.numerics.statistics import (
    BAND_DIGITS_MIN,
    DIGITS_INSIDE,
    all_to_digits,
    band_digits,
    rounded_band,
    six_digits,
)
from processors.run_time.quality import COVERAGE
from processors.similar_runs import MODEL_NAME as SIMILAR_RUNS
from processors.store import PlainProcessor

CURVE: Final = "curve"
OTHER_INPUTS: Final = "other_inputs"
UNDER_LOAD: Final = "under_load"


class FromInputs(msgspec.Struct, frozen=True, array_like=True):
    """The run-time band of an input, predicted from runs of other inputs of the application.

    `extrapolation` tells how far the sizes of the input lie beyond those of the other inputs.
    """

    band: Band
    extrapolation: float
    reliability: Reliability


class Forecast(msgspec.Struct, frozen=True, omit_defaults=True):
    """The last forecast that was published about a running job. `band` is the run time, None if unknown.

    `from_inputs` is set if the application had no curve for this input. `source` names the source of `band`, as in a published job
    prediction. `fails` is the probability that the job does not complete, as estimated at its start. `session` is True for an
    interactive session.
    """

    application_id: str | None
    n: float | None
    band: Band | None = None
    from_inputs: FromInputs | None = None
    source: str | None = None
    fails: float | None = None
    session: bool = False


class StartPrediction(msgspec.Struct, frozen=True):
    """The prediction of a run, and the time of its publication; it counts only if it was published before the run ended."""

    time_ms: int
    predicted: PredictedAtStart


def source_of(model: Model | None) -> str:
    """Return the name of the prediction's source, as in `PredictedAtStart`, given its model."""
    name = model.name if model is not None else CURVE
    return OTHER_INPUTS if name == INPUTS else name if name in (SIMILAR_RUNS, FEATURES) else CURVE


def predicted_by_curve(curve: PublishedCurve | None, n: float | None, end_ms: int) -> PredictedAtStart | None:
    """Return the prediction of a curve for a run; None if the curve has no point at `n`, or was published after the run ended."""
    point = curve.at(n) if curve is not None and n is not None and curve.time_ms <= end_ms else None
    if curve is None or point is None:
        return None
    source = SIMILAR_RUNS if point.source == SIMILAR_RUNS else CURVE
    digits_min = DIGITS_INSIDE if point.n <= curve.n_max else BAND_DIGITS_MIN
    return predicted_at_start(point.band, curve.judged(point).verdict, source, digits_min)


@lru_cache(maxsize=REMEMBERED)
def predicted_at_start(band: Band, verdict: str, source: str, digits_min: int = BAND_DIGITS_MIN) -> PredictedAtStart:
    """Return the prediction of a run in the form that is kept until the run settles.

    The times in s are rounded to the digits that the width of the band supports, at least `digits_min`.
    """
    run_time_s, low_s, high_s = rounded_band(band.run_time_s, band.low_s, band.high_s, digits_min)
    return PredictedAtStart(
        run_time_s=run_time_s, low_s=low_s, high_s=high_s, coverage=COVERAGE, verdict=verdict, source=source
    )


def reported_end(started: JobStarted, end: Remaining, now_ms: int) -> tuple[RunTimeQuantile, ...]:
    """Return the run time in s and the end of a running job at each of QUANTILES, for a message.

    No end is before `now_ms` or after the time limit of the job, unless the job has already exceeded its limit. A run time has only
    the significant digits that the width of the band supports.
    """
    times_s = _in_known_digits(end)
    limit_s = started.evidence.time_limit_s
    stopped_ms = None if limit_s is None else started.start_ms + limit_s * 1000
    step_ms = 1000 if times_s[-1] - times_s[0] >= 1.0 else 1  # a band of at least 1 s does not support milliseconds
    ends = (_end(started.start_ms, time_s, now_ms, stopped_ms, step_ms) for time_s in times_s)
    return tuple(map(RunTimeQuantile, QUANTILES, times_s, ends))


# cached, because jobs of one application and size that have just started have the same remaining time
@lru_cache(maxsize=REMEMBERED)
def _in_known_digits(end: Remaining) -> tuple[float, ...]:
    """Return the run time in s at each of QUANTILES, rounded to the significant digits that the width of the band supports."""
    digits = band_digits(end.band.run_time_s, end.band.low_s, end.band.high_s)
    return all_to_digits(end.quantiles_s, digits)


def _end(start_ms: int, run_time_s: float, now_ms: int, stopped_ms: float | None, step_ms: int) -> str | None:
    """Return the end of a job as text, rounded down to `step_ms` and not before `now_ms`; None beyond the last date of the calendar.

    `run_time_s` is the predicted run time, `stopped_ms` the time at which the time limit stops the job, None without a limit.
    """
    end_ms = start_ms + run_time_s * 1000
    # a job that already exceeds its limit was not stopped by the limit
    if stopped_ms is not None and stopped_ms >= now_ms:
        end_ms = min(end_ms, stopped_ms)
    return rfc3339(max(int(end_ms // step_ms) * step_ms, now_ms)) if end_ms <= LATEST_MS else None


NEEDED: Final = frozenset((*EVIDENCE_FIELDS, "input", "sizes", "attributes", "hosts"))
_NOTHING: tuple[None, dict[str, Any], tuple[()]] = (None, {}, ())


def lacking(own: Evidence, start: Evidence) -> dict[str, Any]:
    """Return the fields of `start` that are empty in `own`, by name."""
    fields = zip(own.__struct_fields__, msgspec.structs.astuple(own), msgspec.structs.astuple(start), strict=True)
    return {name: value for name, known, value in fields if known in _NOTHING and value not in _NOTHING}


def beyond(own: Evidence, start: Evidence | None) -> Evidence | None:
    """Return the part of `start` that is empty in `own` and still needed, see NEEDED; None if nothing is left.

    The needed fields identify the application, the size or the hosts of a job.
    """
    if start is None or own == start:
        return None
    rest = {name: value for name, value in lacking(own, start).items() if name in NEEDED}
    return Evidence(**rest) if rest else None


REPORTED_MAX: Final = 4  # network reports of a job; beyond that the two oldest are merged


class NetworkFeatures(msgspec.Struct, frozen=True, array_like=True):
    """Features of the communication of a job, and the time of the report."""

    time_ms: int
    features: dict[str, float]


def features_of(event: Network, mapped: dict[str, float], names_max: int) -> dict[str, float]:
    """Return the communication features of a report, at most `names_max`, first by name.

    They come from three sources: `mapped` (from the placement of ranks), the reported arrays of links and messages, and the
    reported features. If several sources have a feature, the last one counts. Raise ValueError if the shapes of the arrays do not
    match.
    """
    values = mapped | features(event.links, event.messages, event.fifo_messages) | event.features
    retained = sorted((name, six_digits(value)) for name, value in values.items() if abs(value) < float("inf"))
    return dict(retained[:names_max])


def joined(before: Sequence[NetworkFeatures], new: NetworkFeatures) -> tuple[NetworkFeatures, ...]:
    """Return the network reports of a job including `new`, sorted by time; `new` replaces a report of the same time."""
    retained = sorted([*(each for each in before if each.time_ms != new.time_ms), new], key=lambda each: each.time_ms)
    if len(retained) > REPORTED_MAX:
        retained[:2] = [NetworkFeatures(retained[1].time_ms, retained[0].features | retained[1].features)]
    return tuple(retained)


def parted(
    reports: Sequence[NetworkFeatures], start_ms: int, until_ms: int
) -> tuple[dict[str, float], tuple[NetworkFeatures, ...]]:
    """Return the features that a job reported between `start_ms` and `until_ms`, and all reports from other times.

    If several reports contain a feature, the latest report counts.
    """
    features: dict[str, float] = {}
    for each in reports:
        if start_ms <= each.time_ms <= until_ms:
            features |= each.features
    return features, tuple(each for each in reports if not start_ms <= each.time_ms <= until_ms)


IDENTITIES_MAX = 8
ENDED_MAX = 8
SAME_START_MS = 60_000  # two producers may report different starts of a run
OPEN_MAX_MS: Final = 30 * 86_400_000  # a job without a reported end is dropped after this time
EVIDENCE_KEEP_MS: Final = 86_400_000  # the evidence of an ended job is kept, because corrections may arrive
JobFact = JobStarted | JobCompleted | Identity


class Placement(msgspec.Struct, frozen=True, omit_defaults=True):
    """The application of a run (None if it has no model), its size, and how both were determined.

    `input_sizes` are the sizes of the run's input, if known.
    """

    application_id: str | None
    n: float | None
    source: str
    confidence: float
    input_sizes: tuple[tuple[str, float], ...] = ()

    def differs_from(self, before: "Placement") -> bool:
        """Return whether a run now has another application, size or input size than before."""
        now, then = ((one.application_id, one.n, one.input_sizes) for one in (self, before))
        return now != then


class EndedRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """A run that ended and waits to settle.

    `start` is the evidence that only the start event contained, `profile` a reported profile. `published` is the curve's prediction
    at the time of the first completion report; it is kept only for runs with features. `predicted` is the prediction that users saw
    during the run. `slowed_by` is the faulty host that explains why the run was slow.
    """

    event: JobCompleted
    placement: Placement
    settle_ms: int
    start: Evidence | None = None
    profile: Profile | None = None
    published: CurvePrediction | None = None
    predicted: PredictedAtStart | None = None
    slowed_by: SlowedBy | None = None


class Job(PlainProcessor, omit_defaults=True):
    """A job of a system, with its current run, ended runs, and evidence.

    `running` is the start event of the current run, `forecast` the last published forecast of this run, and `start_load` its
    prediction from the load of its hosts. `ended` are the runs that ended and wait to settle. `resized` is True if the job changed
    its size; its runs then do not belong to a single size. `networks` are the network reports that belong to no settled run yet.
    `alert_labels` are the labels of the open alerts about the job, empty without open alerts.
    """

    name: ClassVar[str] = "job"
    version: ClassVar[int] = 1

    running: JobStarted | None = msgspec.field(default=None, name="started")
    forecast: Forecast | None = None
    start_load: StartLoad | None = None
    revise_ms: int | None = None
    resized: bool = False
    evidence_by_source: dict[str, Identity] = msgspec.field(default_factory=dict, name="identities")
    ended: list[EndedRun] = msgspec.field(default_factory=list)
    keep_until_ms: int = 0
    networks: tuple[NetworkFeatures, ...] = ()
    predicted: StartPrediction | None = None
    alert_labels: dict[str, str] = msgspec.field(default_factory=dict)

    def prediction_for(self, event: JobCompleted) -> PredictedAtStart | None:
        """Return the prediction that users saw during a run; None if no prediction was published."""
        running, prediction = self.running, self.predicted
        same = running is not None and abs(running.start_ms - event.start_ms) <= SAME_START_MS
        return prediction.predicted if same and prediction is not None and prediction.time_ms <= event.end_ms else None

    @property
    def identities(self) -> tuple[Identity, ...]:
        """The evidence of the job besides starts and completions, sorted by source."""
        if not self.evidence_by_source:
            return ()
        return tuple(identity for _, identity in sorted(self.evidence_by_source.items()))

    def score(self, fact: JobFact) -> bool:
        """Return whether `fact` is new. A repeated event is not new, nor is a start event that arrives after the end of its run."""
        if isinstance(fact, Identity):
            evidence = self.evidence_by_source
            return evidence.get(fact.source) != fact and (fact.source in evidence or len(evidence) < IDENTITIES_MAX)
        if isinstance(fact, JobStarted):
            return fact != self.running and self._follows(fact)
        return all(fact != run.event for run in self.ended)

    def learn(self, fact: JobFact) -> None:
        """Learn a start or other evidence; a completion is learned by `end`."""
        if not self.score(fact):
            return
        if isinstance(fact, Identity):
            self.evidence_by_source = {**self.evidence_by_source, fact.source: fact}
        elif isinstance(fact, JobStarted):
            self.forget_run()
            self.running = fact
            self.keep_until(fact.start_ms + OPEN_MAX_MS)

    def end(
        self,
        event: JobCompleted,
        placement: Placement,
        settle_ms: int,
        *,
        published: CurvePrediction | None = None,
        predicted: PredictedAtStart | None = None,
        slowed_by: SlowedBy | None = None,
    ) -> None:
        """Learn a completion or a corrected completion; the run settles at `settle_ms`.

        `published` and `predicted` are the predictions for the run before it ended; a correction keeps those of the first report.
        """
        start = beyond(event.evidence, self.start_of(event.run_id))
        running = self.running
        if running is not None and (event.start_ms >= running.start_ms or event.end_ms > running.start_ms):
            self.forget_run()  # a job has one run at a time, even if two producers report different starts
        run = EndedRun(event, placement, settle_ms, start, None, published, predicted, slowed_by)
        before = self.ended_run(event.run_id)
        if before is not None:
            run = msgspec.structs.replace(
                run,
                profile=before.profile,
                published=published or before.published,
                predicted=before.predicted,
                slowed_by=before.slowed_by,
            )
        self.ended = [*(other for other in self.ended if other is not before), run]
        self.resized = self.resized or event.state == "RESIZING"
        # the last record of a resized job has the same start and must not count as a run of one size
        self.keep_until(event.end_ms + (OPEN_MAX_MS if event.state == "RESIZING" else EVIDENCE_KEEP_MS))

    def replace(self, run: EndedRun, by: EndedRun) -> None:
        self.ended = [by if other is run else other for other in self.ended]

    def settle(self, now_ms: int) -> list[EndedRun]:
        """Remove and return the runs that settle by `now_ms`, oldest first."""
        settled = [run for run in self.ended if run.settle_ms <= now_ms]
        self.ended = [run for run in self.ended if run.settle_ms > now_ms]
        return settled

    def settle_excess(self) -> list[EndedRun]:
        """Remove and return the oldest ended runs beyond ENDED_MAX, so that these runs settle without waiting for a tick."""
        excess = max(len(self.ended) - ENDED_MAX, 0)
        settled, self.ended = self.ended[:excess], self.ended[excess:]
        return settled

    def start_of(self, run_id: str) -> Evidence | None:
        """Return the evidence of the start of a run; for an ended run, only the part that its completion lacks. None if unknown."""
        if self.running is not None and self.running.run_id == run_id:
            return self.running.evidence
        run = self.ended_run(run_id)
        return run.start if run is not None else None

    def ended_run(self, run_id: str) -> EndedRun | None:
        return next((run for run in self.ended if run.event.run_id == run_id), None)

    def evidence_of(self, event: JobCompleted) -> Evidence:
        """Return the evidence of a run, from its completion and its start."""
        return merged_evidence(event.evidence, self.start_of(event.run_id))

    def keep_until(self, time_ms: int) -> None:
        """Keep the job in memory at least until `time_ms`."""
        self.keep_until_ms = max(self.keep_until_ms, time_ms)

    def forget_run(self) -> None:
        """Forget the current run and its predictions."""
        self.running = self.forecast = self.start_load = self.revise_ms = self.predicted = None

    def over(self, now_ms: int) -> bool:
        """Return whether no data of the job is needed any more."""
        if self.running is not None or self.ended:
            return False
        return now_ms >= self.keep_until_ms or not (self.evidence_by_source or self.resized or self.networks)

    def due_ms(self) -> int:
        """Return the time at which a run settles, the forecast is revised, or the job may be forgotten, whichever is first."""
        due_ms = self.keep_until_ms
        for run in self.ended:
            due_ms = min(due_ms, run.settle_ms)
        if self.running is not None and self.revise_ms is not None:
            due_ms = min(due_ms, self.revise_ms)
        return due_ms

    def expired(self, now_ms: int) -> bool:
        """Return whether the current run has lasted so long that the report of its end must be missing."""
        return self.running is not None and now_ms >= self.keep_until_ms

    def _follows(self, fact: JobStarted) -> bool:
        later = self.running is None or fact.start_ms >= self.running.start_ms
        ended = [run.event for run in self.ended]
        return later and all(fact.run_id != run.run_id and fact.start_ms >= run.end_ms for run in ended)


def merged_evidence(own: Evidence, start: Evidence | None) -> Evidence:
    """Return the evidence of a completion; fields that the completion lacks come from the evidence of the start."""
    more = lacking(own, start) if start is not None else {}
    return msgspec.structs.replace(own, **more) if more else own


def reported_attributes(job: Job, own: Evidence) -> dict[str, Attribute]:
    """Return the attributes of a run that distinguish builds and versions, such as module, container and executable.

    They come from the separate evidence of the job and from `own`, the evidence of the run's start and completion; `own` overrides.
    """
    attributes: dict[str, Attribute] = {}
    for evidence in (*(identity.evidence for identity in job.identities), own):
        programs = {"module": evidence.module, "container": evidence.container, "executable": evidence.executable}
        attributes |= {name: value for name, value in programs.items() if value} | evidence.attributes
    return attributes


COST_MS: Final = 20  # cost of a forecast: fifty forecasts a second in the long run
BURST: Final = 500  # most forecasts available at once, for the start of a job array
WAIT_MAX_MS: Final = 3_600_000


class ForecastAllowance(PlainProcessor):
    """The rate limit of one user's forecasts, a virtual clock: each forecast advances `virtual_ms` by COST_MS.

    The user has to wait if the virtual clock is more than BURST forecasts ahead of the real time.
    """

    name: ClassVar[str] = "forecast_allowance"
    version: ClassVar[int] = 1

    virtual_ms: int = 0

    def score(self, fact: int) -> int:
        """Return how many ms the forecast of a job has to wait if the job starts at the time `fact` in ms."""
        ahead_ms = max(self.virtual_ms - fact, 0) + COST_MS
        return min(max(ahead_ms - BURST * COST_MS, 0), WAIT_MAX_MS)

    def learn(self, fact: int) -> None:
        """Charge the user for one forecast at the time `fact` in ms."""
        self.virtual_ms = min(max(self.virtual_ms, fact) + COST_MS, fact + BURST * COST_MS + WAIT_MAX_MS)

    def due_ms(self) -> int | None:
        """Return the time when all forecasts are available again, so that the allowance may be forgotten."""
        return self.virtual_ms
