"""Run times of one application, explained by features other than size: attributes of the job, communication, counters.

The models are fitted to settled runs (`processors.models.features.features`). The forecasts of the models are combined with the
forecast of the curve in ln t. Weights follow from the errors of both on the same runs, before the models learned these runs.
The stages are combined in this order: the curve and the attributes; the placement of the hosts; the communication; the costs
that the applications of a system share (`processors.features.shared`); the counters, with forecasts from the profiles of runs
(`processors.power.model`). Beyond the observed sizes, a forecast follows the curve from the nearest observed size. Only the
costs of communication are computed for the new size itself, because the features of the run are known.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple

import msgspec
import numpy as np

from processors.contracts.events import Attribute
from processors.contracts.names import HORIZONS
from processors.contracts.outputs import RELIABLE, FeatureModel, HorizonError, Member, Model, Reliability
from processors.facts import Band, CurvePrediction, Measured, measured
from processors.features.shared import CONDITIONS, CommunicationPool, Condition, SharedForecast, SharedScore
from processors.models.features.communication import COUNTED, NAMES, comparable, r_squared, rcc, rcc_symmetric
from processors.models.features.communication_costs import COUNTED_KINDS, NETWORK_KINDS, PLACEMENT_KINDS
from processors.models.features.features import (
    ATTRIBUTE_KINDS,
    NETWORK,
    ColumnModel,
    ForecastBlend,
    LnForecast,
    encoded,
)
from processors.models.features.placement import SPREAD_NAMES
from processors.models.numerics.conformal import DEVIATION_MIN
from processors.models.numerics.statistics import Z95, six_digits
from processors.models.training.runs import BY_WHAT_THEY_ADD, LearnedRun, LevelWatch, Ratio
from processors.models.training.table import CHOICE
from processors.models.training.trainer import ModelKind, TargetLearner, Trainer
from processors.run_time.members import ERROR_MAX, WINDOW
from processors.run_time.verdict import REASON_TEXT, UNCERTAIN, WIDTH_MAX
from processors.store import RateLimit, counted, digest64, due, hexdigest


def step_cost(runs: int) -> int:
    """Return the cost of one step of a fit to `runs` runs, in units of about a millisecond."""
    return min(1 + int(runs / ROWS_PER_UNIT), COST_MAX)


ATTRIBUTES: Final = "attributes"
COMMUNICATION: Final = "communication"
PLACEMENT: Final = "placement"  # distances of the hosts in the network
ADAPTERS: Final = "adapters"  # counters of the network adapters of the hosts
SHARED: Final = "shared_communication"  # costs that the applications of a system share
OWN_STAGES: Final = (ATTRIBUTES, PLACEMENT, COMMUNICATION, ADAPTERS)
COUNTERS: Final = "counters"
STAGES: Final = (*OWN_STAGES, SHARED, COUNTERS)
SHARED_RECORDS: Final[Mapping[str, Condition]] = {f"{SHARED}.{condition}": condition for condition in CONDITIONS}
# scored runs of an application before these runs set the weight of the forecast from other applications
SHARED_SCORED_MIN: Final = 8
COMBINED: Final = "combination"
KINDS: Final[Mapping[str, Mapping[str, ModelKind]]] = {
    ATTRIBUTES: ATTRIBUTE_KINDS,
    PLACEMENT: PLACEMENT_KINDS,
    COMMUNICATION: NETWORK_KINDS,
    ADAPTERS: COUNTED_KINDS,
}
KNOWN_NAMES: Final = (*NAMES, *COUNTED, *SPREAD_NAMES)
SIZE: Final = "n"
ATTRIBUTES_MAX: Final = 40  # most attributes of a run
RANKED_MIN: Final = 8  # runs before rank correlations are reported
PAIRS_MAX: Final = 64  # newest runs that rank correlations use
SCORED_PER_TICK: Final = 4  # most scored runs of an application per tick
ROWS_PER_UNIT: Final = 200.0  # fitting a tree level or a sample matrix of 200 rows takes at most a millisecond
COST_MAX: Final = 12  # largest cost of a step; a larger fit takes several steps
USUAL: Final = 0.5  # if this share of the runs reports a feature, a new run must report the feature too


class FeatureFact(msgspec.Struct, frozen=True):
    """A run that has settled, with its attributes and its communication features.

    `curve` is the prediction that was published when the run ended; None for a repeated report, or if nothing was published.
    `shared` is the forecast from the costs that applications share, `counters` the forecast from counters. Both were made before the
    run ended.
    """

    run_id: str
    n: float
    run_time_s: float
    end_ms: int
    now_ms: int
    attributes: Mapping[str, Attribute] = {}
    network: Mapping[str, float] = {}
    curve: CurvePrediction | None = None
    shared: SharedForecast | None = None
    counters: Band | None = None


class ByCounters(NamedTuple):
    """The run time predicted from counters at the observed size nearest to the run (`own`), and the curve's band at that size (`near`)."""

    own: Band
    near: Band


class FeatureQuestion(NamedTuple):
    """A future run of size `n`: its features, the band of the curve at `n`, and the band at `near_n`, the nearest observed size.

    `shared` is the forecast from other applications, `counters` the forecast from counters.
    """

    attributes: Mapping[str, Attribute]
    network: Mapping[str, float]
    n: float
    at: Band
    near: Band
    near_n: float
    shared: SharedForecast | None = None
    counters: ByCounters | None = None


class Pooled(NamedTuple):
    """The run time in seconds predicted from the curve and the features together.

    `shares` is the weight of each stage that has a forecast; the curve has the remaining weight.
    """

    run_time_s: float
    low_s: float
    high_s: float
    shares: dict[str, float]
    measured: Measured | None = None


class _Predicted(NamedTuple):
    """The `forecast` of one stage, the combination `before` of all earlier stages, and the combination `pooled` of these two.

    `blend` has past errors, from which the weights in `pooled` follow; `record` is the key under which `blend` is stored.
    """

    stage: str
    record: str
    blend: ForecastBlend
    forecast: LnForecast
    before: LnForecast
    pooled: LnForecast


class FeatureTimesState(msgspec.Struct, omit_defaults=True):
    """Stored form of `FeatureTimes`.

    `errors` has, for each stage and each horizon (its index in HORIZONS), the number of scored runs and the mean of
    |ln(observed / predicted)|. `pairs` has the newest predicted and observed run times in s of each stage.
    """

    trainer: dict[str, Any] | None = None
    blends: dict[str, dict[str, Any]] = {}
    errors: dict[str, dict[int, tuple[int, float]]] = {}
    pairs: dict[str, list[tuple[float, float]]] = {}
    waiting_ms: int | None = None
    rate_limit: RateLimit = (0, 0)
    level: dict[str, Any] | None = None


class FeatureTimes:
    """The models that predict the run times of one application from features."""

    name: ClassVar[str] = "feature_times"
    version: ClassVar[int] = 4

    def __init__(self, runs_max: int, state: FeatureTimesState | None = None) -> None:
        stored = state or FeatureTimesState()
        self._runs_max = runs_max
        self._trainer = Trainer(KINDS, runs_max, stored.trainer, cost=step_cost, retention=BY_WHAT_THEY_ADD)
        self._blends = {stage: ForecastBlend.build(retained) for stage, retained in stored.blends.items()}
        self._errors = {name: dict(rows) for name, rows in stored.errors.items()}
        self._pairs = {stage: list(pairs) for stage, pairs in stored.pairs.items()}
        self._waiting_ms = stored.waiting_ms
        self._rate_limit = stored.rate_limit
        self._level = LevelWatch.build(stored.level) if stored.level is not None else LevelWatch()

    def nearest(self, n: float) -> float:
        """Return the size nearest to `n` between the smallest and the largest fitted size."""
        tables = [learner.table for learner in self._trainer.learners.values()]
        columns = [table.values[:, table.names.index(SIZE)] for table in tables if table is not None and len(table)]
        sizes = np.concatenate([*columns, [] if columns else [n]])
        return float(np.clip(n, sizes.min(), sizes.max()))

    def score(self, fact: FeatureQuestion) -> Pooled | None:
        """Return the combined forecast of a future run; None if all weight is on the curve."""
        stages = self._predicted(fact)
        if not any(stage.blend.share for stage in stages):
            return None
        rest, shares = 1.0, dict[str, float]()
        # the last stage gets its share of the whole, each earlier stage a share of the remainder
        for stage in reversed(stages):
            shares[stage.stage] = rest * stage.blend.share
            rest -= shares[stage.stage]
        last = stages[-1]
        band = last.blend.band(last.pooled)
        record = measured(last.blend.inside, last.blend.scored)
        return Pooled(band.value, band.low, band.high, dict(reversed(shares.items())), record)

    def missing(self, attributes: Mapping[str, Attribute], network: Mapping[str, float]) -> tuple[str, ...]:
        """Return the attributes and communication features that the model needs but the run lacks."""
        values = _values(attributes, network, 1.0, 1.0)
        stages = _stages(attributes, network)
        names = {name: None for stage in stages for name in self._missing(self._trainer.learners[stage], values)}
        return tuple(name.removeprefix(NETWORK) for name in names)

    def learn(self, fact: FeatureFact) -> None:
        """Compare all forecasts with a run, then learn the run. A run with a known id replaces the earlier report."""
        self.compared(fact)

    def compared(self, fact: FeatureFact) -> SharedScore | None:
        """Learn a run, and return the score of the forecast from other applications; None without this forecast."""
        values = _values(fact.attributes, fact.network, fact.n, fact.n)
        targets = dict.fromkeys(_stages(fact.attributes, fact.network), fact.run_time_s)
        run = LearnedRun(hexdigest(fact.run_id), fact.end_ms, values, targets)
        if targets and self._trainer.reservoir.find(run.id) == run:
            return None
        score = None
        if fact.curve is not None and due(self._rate_limit, fact.now_ms, SCORED_PER_TICK):
            self._rate_limit = counted(self._rate_limit, fact.now_ms)
            score = self._compare(fact, fact.curve)
            if targets:
                self._watch_level(run)
                self._trainer.learn(run)
        elif targets:
            self._trainer.reservoir.add(run)
        self._wait(fact.now_ms)
        return score

    def bound(self, bytes_max: int) -> bool:
        """Drop runs that do not fit into `bytes_max`, but keep at least RUNS_LEAST; return whether runs were dropped.

        Call this before each `learn` and `step`.
        """
        return self._trainer.reservoir.bound(bytes_max, self._runs_max)

    def forget(self, run_id: str, now_ms: int) -> None:
        if self._trainer.reservoir.drop(hexdigest(run_id)):
            self._wait(now_ms)

    def step(self) -> bool:
        """Do a part of the next fit; return whether parts of the fit remain."""
        self._trainer.tick()
        if self._trainer.wants:
            return True
        self._waiting_ms = None
        return False

    @property
    def step_cost(self) -> int:
        """The cost of the next step of the running fit, in units of about a millisecond."""
        return self._trainer.step_cost

    def errors(self, name: str) -> tuple[HorizonError, ...]:
        """Return the errors by horizon of the stage `name` (one of STAGES), or of the combined forecast (COMBINED)."""
        rows = sorted(self._errors.get(name, {}).items())
        return tuple(HorizonError(HORIZONS[at], scored, error) for at, (scored, error) in rows)

    def models(self) -> tuple[FeatureModel, ...]:
        """Return the reports on the fitted models, in the order of OWN_STAGES."""
        reports = []
        for stage in OWN_STAGES:
            learner = self._trainer.learners[stage]
            if learner.trusted is not None:
                model = learner.models[learner.trusted]
                importances = model.importances_by_name() if isinstance(model, ColumnModel) else {}
                reports.append(self._report(stage, learner.trusted, len(learner.table or ()), importances))
        return tuple(reports)

    def shared_model(self, pool: CommunicationPool) -> FeatureModel | None:
        """Return the report on costs shared among applications; None before they predicted a run of this application."""
        records = [blend for name, blend in self._blends.items() if name in SHARED_RECORDS]
        if pool.trusted is None or not records:
            return None
        blend = max(records, key=lambda record: record.scored)
        return self._report(SHARED, pool.trusted, len(pool), pool.importances(), blend)

    def counters_model(self, model: str, runs: int, importances: dict[str, float]) -> FeatureModel:
        """Return the report on the model of counters, which another processor fits."""
        return self._report(COUNTERS, model, runs, importances)

    @property
    def trusts_counters(self) -> bool:
        """Whether the past forecasts from counters were good enough to get any weight in predictions."""
        return self._blend(COUNTERS).share > 0.0

    def due_ms(self) -> int | None:
        return self._waiting_ms

    def snapshot(self) -> FeatureTimesState:
        return FeatureTimesState(
            self._trainer.snapshot(),
            {stage: blend.snapshot() for stage, blend in self._blends.items()},
            {name: dict(rows) for name, rows in self._errors.items()},
            {stage: list(pairs) for stage, pairs in self._pairs.items()},
            self._waiting_ms,
            self._rate_limit,
            self._level.snapshot() if self._level.runs else None,
        )

    def _report(
        self, features: str, model: str, runs: int, importances: dict[str, float], record: ForecastBlend | None = None
    ) -> FeatureModel:
        """Return the report on the model of the stage `features`; its errors come from `record`, by default the record of the stage."""
        blend, pairs = record or self._blend(features), self._pairs.get(features, ())
        curve_error, error, combined_error = (six_digits(error) if blend.scored else None for error in blend.errors)
        predicted, actual = np.array(pairs).reshape(-1, 2).T
        order = [score(predicted, actual) for score in (rcc, rcc_symmetric, r_squared)]
        ordered = [six_digits(value) if len(pairs) >= RANKED_MIN and math.isfinite(value) else None for value in order]
        coverage = measured(blend.inside, blend.scored)
        return FeatureModel(
            features=features,
            model=model,
            runs=runs,
            weight=six_digits(blend.share),
            scored=blend.scored,
            error=error,
            curve_error=curve_error,
            combined_error=combined_error,
            coverage_90=coverage.coverage if coverage else None,
            ranked=len(pairs),
            rcc=ordered[0],
            rcc_symmetric=ordered[1],
            r_squared=ordered[2],
            importances={name.removeprefix(NETWORK): six_digits(by) for name, by in importances.items() if by > 0},
        )

    def _predicted(self, question: FeatureQuestion) -> list[_Predicted]:
        """Return for each stage the forecast and its combination with the forecasts of all earlier stages."""
        values = _values(question.attributes, question.network, question.n, question.near_n)
        curve, near = (_ln(band) for band in (question.at, question.near))
        own = {stage: self._forecast(stage, values, curve, near) for stage in OWN_STAGES}
        forecasts = [(stage, stage, self._blend(stage), forecast) for stage, forecast in own.items() if forecast]
        if question.shared is not None:
            beyond = question.n != question.near_n
            condition: Condition = "alone" if own[COMMUNICATION] is None else "beyond" if beyond else "inside"
            record = f"{SHARED}.{condition}"
            blend = self._blend(record)
            if blend.scored < SHARED_SCORED_MIN:  # too few: the errors over all applications set the weight
                blend = question.shared.records.get(condition) or blend
            forecasts.append((SHARED, record, blend, question.shared.forecast))
        if question.counters is not None:
            by_counters, near = (_ln(band) for band in question.counters)
            forecasts.append((COUNTERS, COUNTERS, self._blend(COUNTERS), _moved(by_counters, near, curve)))
        pooled, predicted = curve, list[_Predicted]()
        for stage, record, blend, forecast in forecasts:
            before, pooled = pooled, blend.combined(pooled, forecast)
            predicted.append(_Predicted(stage, record, blend, forecast, before, pooled))
        return predicted

    def _forecast(
        self, stage: str, values: Mapping[str, float], curve: LnForecast, near: LnForecast
    ) -> LnForecast | None:
        learner = self._trainer.learners[stage]
        answer = None if self._missing(learner, values) else learner.answered(values)
        if answer is None:
            return None
        # no band here, because the blend calibrates the width, and two calibrations in a row oscillated
        ln_t = math.log(answer.record.levelled(answer.value)) + self._trainer.reservoir.level
        forecast = LnForecast(ln_t, max(answer.deviation, DEVIATION_MIN))
        return _moved(forecast, near, curve, _besides(learner, values))

    def _missing(self, learner: TargetLearner, values: Mapping[str, float]) -> tuple[str, ...]:
        """Return the columns that the trusted model uses, most runs report, and `values` lacks.

        The columns `name=word` of one attribute count as a single column `name`.
        """
        table, model = learner.table, learner.models.get(learner.trusted or "")
        if table is None or not isinstance(model, ColumnModel):
            return ()
        reported = {name.partition(CHOICE)[0] for name in values}
        usual_shares: dict[str, float] = {}
        for name, column in zip(model.names, table.values[:, list(model.positions)].T, strict=True):
            share_known = float((column == column).mean()) if CHOICE in name else 1.0  # noqa: PLR0124  # False for nan
            base = name.partition(CHOICE)[0]
            usual_shares[base] = usual_shares.get(base, 0.0) + share_known
        return tuple(name for name, share in usual_shares.items() if share >= USUAL and name not in reported)

    def _compare(self, fact: FeatureFact, curve: CurvePrediction) -> SharedScore | None:
        ln_t, horizon = math.log(fact.run_time_s), HORIZONS.index(curve.horizon)
        bands = curve.at.band, curve.near.band, curve.near.n
        counters = ByCounters(fact.counters, curve.at.band) if fact.counters is not None else None
        question = FeatureQuestion(fact.attributes, fact.network, fact.n, *bands, fact.shared, counters)
        prediction = self._predicted(question)
        score = None
        for each in prediction:
            blend = self._blends.setdefault(each.record, ForecastBlend())
            blend.learn(each.before, each.forecast, ln_t)
            if each.stage == SHARED:
                without = next((other.before for other in prediction if other.stage == COMMUNICATION), each.before)
                score = SharedScore(SHARED_RECORDS[each.record], without, each.before, each.forecast, ln_t)
            self._note(each.stage, horizon, ln_t - each.forecast.ln_t)
            pairs = self._pairs.setdefault(each.stage, [])
            pairs.append((six_digits(math.exp(each.forecast.ln_t)), six_digits(fact.run_time_s)))
            del pairs[:-PAIRS_MAX]
        if prediction:
            self._note(COMBINED, horizon, ln_t - prediction[-1].pooled.ln_t)
        return score

    def _watch_level(self, run: LearnedRun) -> None:
        """Compare a run with its prediction by the trusted model. If run times have shifted for good, scale the older runs to the new level."""
        stage = next(stage for stage in OWN_STAGES if stage in run.targets)
        answer = self._trainer.learners[stage].answered(run.values)
        if answer is None:
            return
        off = math.log(run.targets[stage] / answer.value) - self._trainer.reservoir.level
        configuration = digest64(*(f"{name}={value}" for name, value in run.values.items()))
        shift = self._level.learn(Ratio(run.time_ms, configuration, six_digits(off)), answer.deviation)
        if shift is not None:
            self._trainer.reservoir.shift(shift)

    def _note(self, name: str, horizon: int, off: float) -> None:
        rows = self._errors.setdefault(name, {})
        scored, mean = rows.get(horizon, (0, 0.0))
        error = min(abs(off), ERROR_MAX)
        rows[horizon] = scored + 1, six_digits(mean + (error - mean) / min(scored + 1, WINDOW))

    def _blend(self, stage: str) -> ForecastBlend:
        return self._blends.get(stage) or ForecastBlend()

    def _wait(self, now_ms: int) -> None:
        if self._waiting_ms is None and self._trainer.wants:
            self._waiting_ms = now_ms


def _ln(band: Band) -> LnForecast:
    """Return the forecast of `band.run_time_s` whose standard deviation follows from the 90 % band; only high_s / low_s matters."""
    return LnForecast(math.log(band.run_time_s), max(math.log(band.high_s / band.low_s) / (2 * Z95), DEVIATION_MIN))


def _moved(forecast: LnForecast, near: LnForecast, curve: LnForecast, besides: float = 1.0) -> LnForecast:
    """Move a forecast from the size of the prediction `near` to the size of the prediction `curve`, both made by the curve.

    Only the share `besides` of the run time changes in proportion to the curve; the rest, communication, stays.
    """
    further, grown_ln = max(curve.deviation**2 - near.deviation**2, 0.0), curve.ln_t - near.ln_t
    if besides < 1.0:
        grown_ln = math.log(1.0 - besides + besides * math.exp(grown_ln))
    return LnForecast(forecast.ln_t + grown_ln, math.sqrt(forecast.deviation**2 + besides**2 * further))


def _besides(learner: TargetLearner, values: Mapping[str, float]) -> float:
    """Return the share of the predicted run time that is not communication, from 0 to 1; 1 if the stage has no fitted model."""
    model = learner.models.get(learner.trusted or "")
    if learner.table is None or not isinstance(model, ColumnModel):
        return 1.0
    return float(model.besides(learner.table.row(dict(values)))[0])


def _stages(attributes: Mapping[str, Attribute], network: Mapping[str, float]) -> tuple[str, ...]:
    """Return the stages in OWN_STAGES for which the run has features."""
    has_features = {
        ATTRIBUTES: bool(attributes),
        PLACEMENT: not network.keys().isdisjoint(SPREAD_NAMES),
        COMMUNICATION: not network.keys().isdisjoint(NAMES),
        ADAPTERS: not network.keys().isdisjoint(COUNTED),
    }
    return tuple(stage for stage in OWN_STAGES if has_features[stage])


def _values(
    attributes: Mapping[str, Attribute], network: Mapping[str, float], n: float, size: float
) -> dict[str, float]:
    """Return the features of a run by name: its attributes, its communication under `network.`, and `size` under `n`.

    `n` is the size of the run, by which communication is made comparable.
    """
    attribute_values = sorted(encoded(attributes).items())[:ATTRIBUTES_MAX]
    network_values = comparable({name: network[name] for name in KNOWN_NAMES if name in network}, n)
    return {
        **{name: value for name, value in attribute_values if not name.startswith(NETWORK)},
        **{NETWORK + name: value for name, value in network_values.items()},
        SIZE: size,
    }


NAME: Final = "features"
DECIDES: Final = 0.5  # share from which features, not the curve, decide the verdict
WIDE: Final = "wide_band"


def model_with(model: Model, times: FeatureTimes, shares: Mapping[str, float]) -> Model:
    """Return the model of a prediction with each stage added as a member; the weights of the earlier members shrink so that the sum stays."""
    rest = 1.0 - sum(shares.values())
    before = (msgspec.structs.replace(member, weight=six_digits(member.weight * rest)) for member in model.members)
    members = (Member(stage, six_digits(share), {}, errors=times.errors(stage)) for stage, share in shares.items())
    return Model(NAME, (*before, *members), times.errors(COMBINED), model.study)


def judged(prediction: Pooled, curve: Reliability, *, inside: bool) -> Reliability:
    """Return the verdict on a forecast from curve and features; `curve` is the verdict on the curve alone.

    If the size is `inside` the observed sizes and features have at least DECIDES of the weight, only the width of the band decides
    the verdict. Otherwise the verdict is `curve`.
    """
    if sum(prediction.shares.values()) < DECIDES or not inside:
        return curve
    if math.log(prediction.high_s / prediction.low_s) / 2.0 <= WIDTH_MAX:
        return Reliability(RELIABLE)
    return Reliability(UNCERTAIN, (WIDE,), (f"The prediction is uncertain: {REASON_TEXT[WIDE]}.",))


def shares_text(shares: Mapping[str, float]) -> str:
    shares_by_stage = " and ".join(f"{stage.replace('_', ' ')} {share:.0%}" for stage, share in shares.items() if share)
    return f"Features of the run contribute: {shares_by_stage}."
