"""The predictor of run times, shared by published curves, answers to requests, and forecasts of running jobs.

A published curve is a prediction at many sizes, and an answer is a prediction at the requested sizes. The forecast of a
running job is conditioned on the time that the job has already run. Sources are tried in the order of
`Predictor.sources`: the first source that covers a size gives its run time, band, verdict and origin.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from processors.contracts.events import Evidence
from processors.contracts.names import ApplicationKey
from processors.contracts.outputs import AnswerPoint, Member, Model, Reliability, Source
from processors.facts import (
    N_MAX,
    N_MIN,
    REMEMBERED,
    Band,
    Measured,
    PublishedCurve,
    Remaining,
    remaining,
)
from processors.features.times import DECIDES, ByCounters, FeatureQuestion, judged, model_with
from processors.features.times import NAME as FEATURES
from processors.inputs import NAME as OTHER_INPUTS
from processors.inputs import OWN_SIZES_MAX, ApplicationInputs, Sizes, TransferPrediction
from processors.jobs.lifecycle import CURVE, FromInputs
from processors.models.combination.combine import Combination
from processors.models.numerics.conformal import PredictedBand
from processors.models.numerics.statistics import rounded, six_digits
from processors.pipeline.features import NOTHING, Features, KnownFeatures
from processors.pipeline.inputs import Machines, UnseenInputs
from processors.pipeline.similar_runs import SimilarRunForecasts, coming, home
from processors.pipeline.stage import guard
from processors.pipeline.state import CENTRE, ShardState, related_curves_key
from processors.power.model import ProfileModels, RunTimeByCounters
from processors.run_time.members import Fits, Members
from processors.run_time.messages import fits, model_of
from processors.run_time.model import RunTime
from processors.run_time.observed import CONFIRMED_RUNS
from processors.run_time.prediction import RunTimePrediction, curve_sizes, fitted_curve
from processors.run_time.quality import COVERAGE
from processors.run_time.related_curves import RelatedCurves
from processors.similar_runs import BETTER_AT_SIZE, NO_CURVE, NOT_BY_SIZE, ExpectedRunTime, conditioned, reliability
from processors.store import Store

EFFICIENCY_MAX: Final = 1.3
TOO_EFFICIENT: Final = (
    "An efficiency above 130 % is unusual: the run time at size 1 may be too long, or larger sizes use faster memory."
)
PROBABILITY_DIGITS: Final = 4  # digits of probabilities: the precision of some thousand runs
BY_CURVE: Final = Model(CURVE, ())
ALONE: Final = Model(CURVE, (Member(CURVE, 1.0, {}),))  # the curve as the only member, next to features
UNKNOWN: Final = Reliability("unknown", ("no_model",), ())


class Question(NamedTuple):
    """A future or running job to predict; the sizes are passed separately.

    `input_sizes` are the sizes of the job's input. `from_inputs` is an earlier prediction from other inputs, to be used again. If
    `explained`, the answer lists all ensemble members, otherwise only the name of the model. `runs` is True for a running job: if
    no other source covers it, the spread of all runs of the centre predicts its end. `fitted` is a fit that is about to replace
    the published curve.
    """

    system: str
    key: ApplicationKey | None
    evidence: Evidence = Evidence()
    input_sizes: Sizes = ()
    known: KnownFeatures = NOTHING
    from_inputs: FromInputs | None = None
    explained: bool = False
    runs: bool = False
    fitted: "Fitted | None" = None

    @property
    def curve(self) -> PublishedCurve | None:
        """The curve of `fitted`, None without it."""
        return self.fitted.curve if self.fitted is not None else None


class Predicted(NamedTuple):
    """The prediction for one size, by the first source that can predict this size.

    `measured` is the share of recent runs inside the bands of this source, None before enough runs were scored. `extrapolation`
    is the ratio of the size to the largest size that was run. `similar` is the distribution of similar runs, if they are the
    source. `follows_size` is False if run times at different sizes may differ for other reasons than the size, as those of
    similar runs do; the speed-up is then omitted.
    """

    n: float
    band: Band
    measured: Measured | None
    extrapolation: float
    source: Source
    reliability: Reliability
    model: Model
    similar: ExpectedRunTime | None = None
    follows_size: bool = True

    def remaining(self, elapsed_s: float, limit_s: float | None) -> Remaining:
        """Return the run time of the whole job, given that it has already run for `elapsed_s`; rounded as in messages."""
        if self.similar is not None:
            found = conditioned(self.similar, self.band, elapsed_s, limit_s)
        else:
            found = remaining(self.band, elapsed_s, limit_s)
        return _in_digits(found)

    def point(self, one_s: float | None) -> AnswerPoint:
        """Return the point of a message; `one_s` is the predicted run time at size 1, for the speed-up.

        Similar runs give no speed-up: a speed-up of 1.3 was once published that was only the difference between the
        users of two sizes.
        """
        speedup = efficiency = None
        if one_s is not None and self.follows_size:
            speedup, efficiency = _ratios(one_s, self.band.run_time_s, self.n)
        reliability = self.reliability
        if efficiency is not None and efficiency > EFFICIENCY_MAX:
            reliability = msgspec.structs.replace(reliability, advice=(*reliability.advice, TOO_EFFICIENT))
        return AnswerPoint(
            n=self.n,
            run_time_s=self.band.run_time_s,
            low_s=self.band.low_s,
            high_s=self.band.high_s,
            coverage=COVERAGE,
            coverage_measured=self.measured.coverage if self.measured is not None else None,
            coverage_runs=self.measured.runs if self.measured is not None else None,
            speedup=speedup,
            efficiency=efficiency,
            extrapolation=six_digits(self.extrapolation),
            source=self.source,
            reliability=reliability,
        )


@lru_cache(maxsize=REMEMBERED)
def _ratios(one_s: float, run_time_s: float, n: float) -> tuple[float, ...]:
    """Return speed-up and efficiency at a size; cached, because a curve is read at the same sizes repeatedly."""
    return rounded(one_s / run_time_s, one_s / run_time_s / n)


BySize = dict[float, Predicted]


class Prepared(NamedTuple):
    """The input of a fit: the ensemble, None if ADEPT's study alone answers, and the sizes of the curve."""

    combination: Combination | None
    sizes: list[float]


class Fitted(NamedTuple):
    """A fit before publication. `laws` are the fitted scaling laws, None if their fit failed."""

    key: ApplicationKey
    model: RunTime
    forecast: RunTimePrediction
    laws: Fits | None
    curve: PublishedCurve


FORECASTS_MAX: Final = 256  # forecasts in the cache


class Predictor:
    """Predicts run times in one shard from the state at the present offset of the journal; changes no state."""

    def __init__(
        self, state: ShardState, similar_runs: SimilarRunForecasts, features: Features, unseen: UnseenInputs
    ) -> None:
        self._state = state
        self._similar_runs = similar_runs
        self._features = features
        self._unseen_inputs = unseen
        self._machines = Machines(state)
        self._forecasts: dict[str, RunTimePrediction] = {}
        self._forecast_changes: tuple[int, ...] = ()
        self._forecast_stores: tuple[Store[Any], ...] = (
            state.models,
            state.members,
            state.related_curves,
            state.inputs,
            state.pool,
            state.allocations,
            state.node_shapes,
        )
        self.sources: tuple[Callable[[Question, Sequence[float]], BySize], ...] = (
            self._by_features,
            self._by_similar_runs_of_better_record,
            self._by_curve,
            self._by_other_inputs,
            self._by_similar_runs,
        )

    def prepare(self, key: ApplicationKey, model: RunTime) -> Prepared:
        """Return the input of a fit from the present state."""
        return Prepared(self._combination(key, model), self._published_sizes(model))

    def fitted(self, key: ApplicationKey, model: RunTime, prepared: Prepared) -> Fitted:
        forecast = self._forecast(key, model, prepared.combination)
        return Fitted(
            key, model, forecast, self._fits(key, model, forecast), self._curve(forecast, model, prepared.sizes)
        )

    def predict(self, question: Question, sizes: Sequence[float]) -> BySize:
        """Return the prediction of a run at each of `sizes` that a source covers."""
        found: dict[float, Predicted] = {}
        for source in self.sources:
            missing = [n for n in sizes if n not in found and N_MIN <= n <= N_MAX]
            if not missing:
                break
            found |= source(question, missing)
        return found

    def points(self, question: Question, sizes: Sequence[float]) -> tuple[tuple[AnswerPoint, ...], BySize]:
        """Predict a run at sizes; return message points with speed-up and efficiency, and the raw predictions by size."""
        found = self.predict(question, [*sizes, 1.0])
        one = found.get(1.0)
        one_s = one.band.run_time_s if one is not None and one.follows_size else None
        flat = question.key is not None and self._similar_runs.not_by_size(question.key.id)
        # predictions by attributes have a speed-up: that of runs with the same attributes
        points = (found[n].point(None if flat and found[n].source != FEATURES else one_s) for n in sizes if n in found)
        return tuple(points), found

    def fails(self, question: Question, n: float, predicted: Predicted | None) -> float | None:
        """Return the probability that a run does not complete; None if there are too few similar runs.

        If similar runs are the source of `predicted`, their failure share is used.
        """
        if predicted is not None and predicted.similar is not None:
            return round(predicted.similar.law.failing, PROBABILITY_DIGITS)
        application_id = question.key.id if question.key else None
        job = coming(application_id, n, question.evidence)
        found = self._similar_runs.fails(home(question.system, application_id), job)
        return round(found, PROBABILITY_DIGITS) if found is not None else None

    def curve(self, key: ApplicationKey) -> PublishedCurve | None:
        """Return the published curve of an application, or the present fit before the first publication."""
        model = self._state.models.get(key.id)
        if model is None or not model.observations:
            return None
        return model.published or self._curve(self.forecast(key, model), model, self._published_sizes(model))

    def _curve(self, forecast: RunTimePrediction, model: RunTime, sizes: Sequence[float]) -> PublishedCurve:
        centre = self._state.band_pool.open(CENTRE).counts
        return fitted_curve(forecast, model, sizes, self._state.now_ms, centre)

    def _published_sizes(self, model: RunTime) -> list[float]:
        return curve_sizes(model.sizes(), self._state.settings.run_time.curve_factor_max, model.observed().apart)

    def forecast(self, key: ApplicationKey, model: RunTime) -> RunTimePrediction:
        """Return ADEPT's study and the ensemble of an application, fitted with its related curves and other inputs.

        The result is cached until one of the stores that it depends on changes.
        """
        changes = tuple([store.changes for store in self._forecast_stores])
        if changes != self._forecast_changes or len(self._forecasts) >= FORECASTS_MAX:
            self._forecasts.clear()
            self._forecast_changes = changes
        if key.id not in self._forecasts:
            self._forecasts[key.id] = self._forecast(key, model, self._combination(key, model))
        return self._forecasts[key.id]

    def _forecast(self, key: ApplicationKey, model: RunTime, combination: Combination | None) -> RunTimePrediction:
        others = self._unseen_inputs.others(key) if len(model.sizes()) <= OWN_SIZES_MAX else None
        return RunTimePrediction(model.study(), combination, others, model.observed().scatter, model.slowed_by())

    def _fits(self, key: ApplicationKey, model: RunTime, predicted: RunTimePrediction) -> Fits | None:
        before = self._state.members.get(key.id)
        with guard(self._state, Members.name):  # an exception in an additional result must not prevent the prediction
            return fits(predicted, model.observations, before.fits if before else None, model.least_s())
        return None

    def _combination(self, key: ApplicationKey, model: RunTime) -> Combination | None:
        found = model.evidence(key.id, key.system, self._machines.bends(key))
        if found is None:
            return None
        related: RelatedCurves = self._state.related_curves.open(related_curves_key(key))
        coefficients = self._state.coefficients_of(key)
        return Combination(found, related.related, related.learned, self._state.pool.open(CENTRE).counts, coefficients)

    # The sources, in the order in which they are tried.

    def _by_features(self, question: Question, sizes: Sequence[float]) -> BySize:
        """Correct the prediction by size with attributes and communication features, unless similar runs predict better."""
        times = self._features.model(question.key.id) if question.key and question.known != NOTHING else None
        if times is None or question.key is None:
            return {}
        near = {n: times.nearest(n) for n in sizes}
        counted = self._by_counters(question.key, question.known, sizes)
        by_size = self._by_size(question, sorted({*sizes, *near.values(), *(each.n for each in counted.values())}))
        found = {}
        for n in sizes:
            if n not in by_size or near[n] not in by_size:
                continue
            at, of_near = by_size[n], by_size[near[n]]
            shared = self._features.shared(question.key, question.known, n)
            features, counters = (question.known.attributes, question.known.network), counted.get(n)
            own = (
                ByCounters(_seconds(counters.band), by_size[counters.n].band)
                if counters and counters.n in by_size
                else None
            )
            pooled = times.score(FeatureQuestion(*features, n, at.band, of_near.band, near[n], shared, own))
            decides = pooled is not None and sum(pooled.shares.values()) >= DECIDES
            if pooled is None or (at.similar is not None and not decides):
                continue
            found[n] = at._replace(
                band=_rounded(Band(pooled.run_time_s, pooled.low_s, pooled.high_s)),
                measured=pooled.measured,
                source=FEATURES if decides else at.source,
                reliability=judged(pooled, at.reliability, inside=near[n] == n and (not counters or counters.n == n)),
                model=model_with(at.model if at.model.members else ALONE, times, pooled.shares),
                similar=None,
                follows_size=True,
            )
        return found

    def _by_counters(
        self, key: ApplicationKey, known: KnownFeatures, sizes: Sequence[float]
    ) -> dict[float, RunTimeByCounters]:
        # an exception in counters must not prevent the run time prediction
        with guard(self._state, ProfileModels.name):
            found = {n: self._features.by_counters(key.id, n, known.counters) for n in sizes}
            return {n: each for n, each in found.items() if each is not None}
        return {}

    def _by_size(self, question: Question, sizes: Sequence[float]) -> BySize:
        """Predict from the size alone: from similar runs at sizes where `_preferred` prefers them, else from the curve."""
        found = self._by_similar_runs_of_better_record(question, sizes)
        return found | self._by_curve(question, [n for n in sizes if n not in found])

    def _by_similar_runs_of_better_record(self, question: Question, sizes: Sequence[float]) -> BySize:
        """Predict from similar runs if they have predicted the application better than its curve."""
        found: BySize = {}
        for n, why in self._preferred(question, sizes).items():
            found |= self._similar(question, [n], why, follows_size=why != NOT_BY_SIZE)
        return found

    def _preferred(self, question: Question, sizes: Sequence[float]) -> dict[float, str]:
        """Return the sizes at which similar runs are preferred to the curve, each with the reason.

        The scores at the size decide if both sources have enough scores there, else the scores at all sizes. Without enough
        scores, similar runs are preferred if the application was run only at this size. They are always preferred if the band of
        the curve is too wide to be useful.
        """
        key = question.key
        model = self._state.models.get(key.id) if key else None
        if key is None or model is None or not model.observations:
            return {}
        observed, counts = model.sizes(), model.runs_by_size()
        # however widely the runs of a size scatter, other sizes and other jobs say less about it
        unrun = [n for n in sizes if counts[n] < CONFIRMED_RUNS]
        curve = question.curve or model.published
        useless = [n for n in unrun if curve.is_uninformative(n)] if curve is not None else []
        own, found = key.id, {}
        by_record = NOT_BY_SIZE if self._similar_runs.not_by_size(own) else BETTER_AT_SIZE
        records = self._similar_runs.better_records(own, [n if n in observed else None for n in sizes])
        # one user's time limits or one slow run must not hide that run times fall with size
        if any(records) and model.falls_with_size:
            records = [False] * len(sizes)
        for n, better in zip(sizes, records, strict=True):
            if better or n in useless or (better is None and observed == (n,)):
                found[n] = by_record if better and len(observed) > 1 else NO_CURVE
        return found

    def _by_curve(self, question: Question, sizes: Sequence[float]) -> BySize:
        """Predict from the published curve; at sizes that it does not cover, from a fit to the present observations."""
        key = question.key
        model = self._state.models.get(key.id) if key else None
        if key is None or model is None:
            return {}
        curve = question.curve or (model.published if model.observations else None) or self._fitted(key, model)
        if curve is None:
            return {}
        read = curve.read(sizes)
        if len(read) < len(sizes):
            within = {reading.n for reading in read}
            beyond = [n for n in sizes if n not in within]
            further = self._fitted(key, model, beyond, question.fitted)
            read += further.read(beyond) if further is not None else []
        named = model_of(curve, self._state.members.get(key.id)) if question.explained else BY_CURVE
        return {reading.n: Predicted(*reading, named) for reading in read}

    def _fitted(
        self, key: ApplicationKey, model: RunTime, sizes: Sequence[float] | None = None, fitted: Fitted | None = None
    ) -> PublishedCurve | None:
        with guard(self._state, RunTime.name):  # a failing fit must not prevent a prediction from other sources
            if sizes is None:
                return self.curve(key)
            return self._curve(fitted.forecast if fitted else self.forecast(key, model), model, sizes)
        return None

    def _by_other_inputs(self, question: Question, sizes: Sequence[float]) -> BySize:
        """Predict an input without runs from the other inputs of its application."""
        if question.key is None or question.key.id in self._state.models:
            return {}
        if question.from_inputs is not None:
            before, model = question.from_inputs, Model(OTHER_INPUTS, ())
            return {
                n: Predicted(n, before.band, None, before.extrapolation, "transfer", before.reliability, model)
                for n in sizes
            }
        others = self._others(question.key, question.input_sizes)
        if others is None:
            return {}
        trust, model, found = others.reliability(), Model(OTHER_INPUTS, ()), {}
        for n in sizes:  # one by one, because the prediction of a size must not depend on the other requested sizes
            whole = _rounded(Band(*(float(column[0]) for column in others.band([n]))))
            found[n] = Predicted(n, whole, None, n / others.n_max, "transfer", trust, model)
        return found

    def _others(self, key: ApplicationKey, sizes: Sizes) -> TransferPrediction | None:
        with guard(self._state, ApplicationInputs.name):
            return self._unseen_inputs.others(key, sizes) if sizes else None
        return None

    def _by_similar_runs(self, question: Question, sizes: Sequence[float]) -> BySize:
        """Predict from past runs of the same user, name or class, if the question names any of these three."""
        comparable = question.runs or self._similar_runs.has_similar(question.system, question.key, question.evidence)
        return self._similar(question, sizes, NO_CURVE) if comparable else {}

    def _similar(self, question: Question, sizes: Sequence[float], why: str, *, follows_size: bool = False) -> BySize:
        application_id = question.key.id if question.key else None
        system = home(question.system, application_id)
        found = {}
        for n in sizes:
            known = self._similar_runs.predict(system, coming(application_id, n, question.evidence))
            if known is None:
                continue
            expected = known.expected
            band = Band(expected.run_time_s, expected.low_s, max(expected.high_s, expected.run_time_s))
            trust = reliability(expected.law.alike, why)
            found[n] = Predicted(
                n, _rounded(band), known.measured, 1.0, "similar_runs", trust, known.model, expected, follows_size
            )
        return found


@lru_cache(maxsize=REMEMBERED)
def _in_digits(found: Remaining) -> Remaining:
    chance = found.exceeds_limit
    lower_s, upper_s = rounded(*found.quartiles_s)
    exceeds = None if chance is None else round(chance, PROBABILITY_DIGITS)
    return Remaining(_rounded(found.band), exceeds, (lower_s, upper_s))


def _seconds(band: PredictedBand) -> Band:
    return Band(band.value, band.low, band.high)


def _rounded(band: Band) -> Band:
    return Band(*rounded(band.run_time_s, band.low_s, band.high_s))
