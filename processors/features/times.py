"""Run times of one application, explained by features other than size: attributes of the job, communication, counters.

The models learn from settled runs (`processors.models.features.features`). Their forecasts are pooled with those of the curve in
ln t, weighted by the errors of both on the same runs before the runs were learned. The stages are pooled in this order:
the curve and the attributes; the placement of the hosts; the communication; the costs that the applications of a system share
(`processors.features.shared`); the counters, with forecasts from the profiles of runs (`processors.power.model`).
Beyond the observed sizes, a forecast follows the curve from the nearest observed size. Only the costs of communication are
taken for the new size itself, because the features of the run are known.
"""

import math
from collections.abc import Mapping, Sequence
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
from processors.models.numerics.statistics import six_digits
from processors.models.training.runs import BY_WHAT_THEY_ADD, LearnedRun, LevelWatch, Ratio
from processors.models.training.table import CHOICE
from processors.models.training.trainer import ModelKind, TargetLearner, Trainer
from processors.run_time.members import ERROR_MAX, WINDOW
from processors.run_time.verdict import REASON_TEXT, UNCERTAIN, WIDTH_MAX
from processors.store import RateLimit, counted, digest64, due, hexdigest

RANKED_MIN = 8


def step_cost(runs: int) -> int:
    """Return the cost of a step of a fit to `runs` runs, in units of about a millisecond."""
    return min(1 + int(runs / ROWS_PER_UNIT), COST_MAX)


def reported_model(
    features: str,
    answering: tuple[str, int, dict[str, float]],
    blend: ForecastBlend,
    pairs: Sequence[tuple[float, float]],
) -> FeatureModel:
    """Return the report on a features model, with name, number of runs and importances of the model in use."""
    name, runs, importances = answering
    first, second, both = (six_digits(each) if blend.scored else None for each in blend.errors)
    predicted, actual = np.array(pairs).reshape(-1, 2).T
    order = [score(predicted, actual) for score in (rcc, rcc_symmetric, r_squared)]
    ordered = [six_digits(value) if len(pairs) >= RANKED_MIN and math.isfinite(value) else None for value in order]
    return FeatureModel(
        features=features,
        model=name,
        runs=runs,
        weight=six_digits(blend.share),
        scored=blend.scored,
        error=second,
        curve_error=first,
        combined_error=both,
        coverage_90=held.coverage if (held := measured(blend.inside, blend.scored)) else None,
        ranked=len(pairs),
        rcc=ordered[0],
        rcc_symmetric=ordered[1],
        r_squared=ordered[2],
        importances={name.removeprefix(NETWORK): six_digits(share) for name, share in importances.items() if share > 0},
    )


ATTRIBUTES: Final = "attributes"
COMMUNICATION: Final = "communication"
PLACEMENT: Final = "placement"  # distances of the hosts in the network
ADAPTERS: Final = "adapters"  # counters of the hosts' network adapters
SHARED: Final = "shared_communication"  # costs that the applications of a system share
OWN_STAGES: Final = (ATTRIBUTES, PLACEMENT, COMMUNICATION, ADAPTERS)
COUNTERS: Final = "counters"
STAGES: Final = (*OWN_STAGES, SHARED, COUNTERS)
SHARED_RECORD: Final[Mapping[Condition, str]] = {each: f"{SHARED}.{each}" for each in CONDITIONS}
SHARED_RECORDS: Final = tuple(SHARED_RECORD.values())
CONDITION: Final[Mapping[str, Condition]] = {name: each for each, name in SHARED_RECORD.items()}
SHARED_SCORED_MIN: Final = 8  # scored runs before the application's own record sets the weight of other applications
COMBINED: Final = "combination"
KINDS: Final[Mapping[str, Mapping[str, ModelKind]]] = {
    ATTRIBUTES: ATTRIBUTE_KINDS,
    PLACEMENT: PLACEMENT_KINDS,
    COMMUNICATION: NETWORK_KINDS,
    ADAPTERS: COUNTED_KINDS,
}
KNOWN_NAMES: Final = (*NAMES, *COUNTED, *SPREAD_NAMES)
SIZE: Final = "n"
ATTRIBUTES_MAX: Final = 40  # attributes of a run
PAIRS_MAX: Final = 64  # newest runs that rank correlations use
SCORED_PER_TICK: Final = 4  # scored runs of an application
ROWS_PER_UNIT: Final = 200.0  # fitting a tree level or a sample matrix of 200 rows takes at most a millisecond
COST_MAX: Final = 12  # cost of a step; a larger fit takes several steps
USUAL: Final = 0.5  # if this share of runs reports a feature, a new run must report it, too


class FeatureFact(msgspec.Struct, frozen=True):
    """A settled run: its attributes and the features of its communication.

    `curve` is the prediction that was published when the run ended. It is None for a repeated report, or if nothing was published.
    `shared` is the earlier forecast from other applications, `counters` the earlier forecast from counters.
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
    """The run time predicted from counters at the nearest observed size, and the band of the curve there."""

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
    """The run time from curve and features together, in seconds, and the share of each of STAGES with a forecast."""

    run_time_s: float
    low_s: float
    high_s: float
    shares: dict[str, float]
    measured: Measured | None = None


class _Predicted(NamedTuple):
    """The forecast of a stage, the forecast before it, and the pool of both; `blend` sets the weights and is stored under `record`."""

    stage: str
    record: str
    blend: ForecastBlend
    forecast: LnForecast
    before: LnForecast
    pooled: LnForecast


class FeatureTimesState(msgspec.Struct, omit_defaults=True):
    """Stored form; `errors` has, by stage and index of the horizon, the number of scored runs and their mean |ln(observed / predicted)|."""

    trainer: dict[str, Any] | None = None
    blends: dict[str, dict[str, Any]] = {}
    errors: dict[str, dict[int, tuple[int, float]]] = {}
    pairs: dict[str, list[tuple[float, float]]] = {}
    waiting_ms: int | None = None
    rate_limit: RateLimit = (0, 0)
    level: dict[str, Any] | None = None


class FeatureTimes:
    """The models of one application's run times by features."""

    name: ClassVar[str] = "feature_times"
    version: ClassVar[int] = 3

    def __init__(self, runs_max: int, state: FeatureTimesState) -> None:
        self._runs_max = runs_max
        self._trainer = Trainer(KINDS, runs_max, state.trainer, cost=step_cost, retention=BY_WHAT_THEY_ADD)
        self._blends = {stage: ForecastBlend.build(retained) for stage, retained in state.blends.items()}
        self._errors = {name: dict(rows) for name, rows in state.errors.items()}
        self._pairs = {stage: list(pairs) for stage, pairs in state.pairs.items()}
        self._waiting_ms = state.waiting_ms
        self._rate_limit = state.rate_limit
        self._level = LevelWatch.build(state.level) if state.level is not None else LevelWatch()

    @classmethod
    def build(cls, runs_max: int, state: FeatureTimesState | None = None) -> "FeatureTimes":
        return cls(runs_max, state or FeatureTimesState())

    def nearest(self, n: float) -> float:
        """Return the size nearest to `n` between the smallest and the largest fitted size."""
        tables = [learner.table for learner in self._trainer.learners.values()]
        sizes = [table.values[:, table.names.index(SIZE)] for table in tables if table is not None and len(table)]
        if not sizes:
            return n
        return float(min(max(n, min(each.min() for each in sizes)), max(each.max() for each in sizes)))

    def score(self, fact: FeatureQuestion) -> Pooled | None:
        """Return the pooled forecast of a future run; None if features have no share in it."""
        prediction = self._predicted(fact)
        if not any(each.blend.share for each in prediction):
            return None
        rest, shares = 1.0, dict[str, float]()
        # the last stage gets its share of the whole, each earlier stage a share of the rest
        for each in reversed(prediction):
            shares[each.stage] = rest * each.blend.share
            rest -= shares[each.stage]
        last = prediction[-1]
        ordered: dict[str, float] = {stage: shares[stage] for stage in STAGES if stage in shares}
        band = last.blend.band(last.pooled)
        record = measured(last.blend.inside, last.blend.scored)
        return Pooled(band.value, band.low, band.high, ordered, record)

    def missing(self, attributes: Mapping[str, Attribute], network: Mapping[str, float]) -> tuple[str, ...]:
        """Return the attributes and communication features that the model needs but the run lacks."""
        values = _values(attributes, network, 1.0, 1.0)
        stages = _stages(attributes, network)
        names = {name: None for stage in stages for name in self._missing(self._trainer.learners[stage], values)}
        return tuple(name.removeprefix(NETWORK) for name in names)

    def learn(self, fact: FeatureFact) -> None:
        """Compare all forecasts with a run, then learn the run. A run with a known id replaces the earlier run."""
        self.compared(fact)

    def compared(self, fact: FeatureFact) -> SharedScore | None:
        """Learn a run, and return the score of the forecast from other applications; None if there was no forecast to compare."""
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
        """Do a part of the next fit; return whether more is left to do."""
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
        """Return the errors of one of STAGES, or of COMBINED, by horizon."""
        rows = sorted(self._errors.get(name, {}).items())
        return tuple(HorizonError(HORIZONS[at], scored, error) for at, (scored, error) in rows)

    def models(self) -> tuple[FeatureModel, ...]:
        reports = []
        for stage in OWN_STAGES:
            learner = self._trainer.learners[stage]
            if learner.trusted is not None:
                model = learner.models[learner.trusted]
                importances = model.importances_by_name() if isinstance(model, ColumnModel) else {}
                answering = learner.trusted, len(learner.table or ()), importances
                reports.append(reported_model(stage, answering, self._blend(stage), self._pairs.get(stage, ())))
        return tuple(reports)

    def shared_model(self, pool: CommunicationPool) -> FeatureModel | None:
        """Return the report on costs shared among applications; None before they predicted a run of this application."""
        records = [blend for name, blend in self._blends.items() if name in SHARED_RECORDS]
        if pool.trusted is None or not records:
            return None
        blend = max(records, key=lambda record: record.scored)
        answering = pool.trusted, len(pool), pool.importances()
        return reported_model(SHARED, answering, blend, self._pairs.get(SHARED, ()))

    def counters_model(self, model: str, runs: int, importances: dict[str, float]) -> FeatureModel:
        """Return the report on counters; another processor fits their model."""
        pairs = self._pairs.get(COUNTERS, ())
        return reported_model(COUNTERS, (model, runs, importances), self._blend(COUNTERS), pairs)

    @property
    def trusts_counters(self) -> bool:
        """Whether the record of counters is good enough to give them a share."""
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

    def _predicted(self, requested: FeatureQuestion) -> list[_Predicted]:
        """Return the forecast of each stage, and its pool with the forecast before it."""
        values = _values(requested.attributes, requested.network, requested.n, requested.near_n)
        curve, near = (
            LnForecast.of_band(point.run_time_s, point.low_s, point.high_s) for point in (requested.at, requested.near)
        )
        pooled, forecasts = curve, list[_Predicted]()
        for stage in OWN_STAGES:
            own = self._forecast(stage, values, curve, near)
            if own is not None:
                blend = self._blend(stage)
                before, pooled = pooled, blend.combined(pooled, own)
                forecasts.append(_Predicted(stage, stage, blend, own, before, pooled))
        if requested.shared is not None:
            has_own = any(each.stage == COMMUNICATION for each in forecasts)
            beyond = requested.n != requested.near_n
            condition: Condition = ("beyond" if beyond else "inside") if has_own else "alone"
            blend, forecast = self._shared_blend(condition, requested.shared), requested.shared.forecast
            combined = blend.combined(pooled, forecast)
            forecasts.append(_Predicted(SHARED, SHARED_RECORD[condition], blend, forecast, pooled, combined))
            pooled = combined
        if requested.counters is not None:
            own, near = (LnForecast.of_band(each.run_time_s, each.low_s, each.high_s) for each in requested.counters)
            blend, forecast = self._blend(COUNTERS), _moved(own, near, curve)
            forecasts.append(_Predicted(COUNTERS, COUNTERS, blend, forecast, pooled, blend.combined(pooled, forecast)))
        return forecasts

    def _shared_blend(self, condition: Condition, shared: SharedForecast) -> ForecastBlend:
        """Return the weights of other applications, from their record on this application, or on all while it has too few runs."""
        own_blend = self._blend(SHARED_RECORD[condition])
        return own_blend if own_blend.scored >= SHARED_SCORED_MIN else shared.records.get(condition) or own_blend

    def _forecast(
        self, stage: str, values: Mapping[str, float], curve: LnForecast, near: LnForecast
    ) -> LnForecast | None:
        learner = self._trainer.learners[stage]
        answered = None if self._missing(learner, values) else learner.levelled(values)
        if answered is None:
            return None
        # no band here: the blend calibrates the width, and two calibrations in a row oscillated
        value, deviation = answered
        forecast = LnForecast(math.log(value) + self._trainer.reservoir.level, max(deviation, DEVIATION_MIN))
        return _moved(forecast, near, curve, _besides(learner, values))

    def _missing(self, learner: TargetLearner, values: Mapping[str, float]) -> tuple[str, ...]:
        """Return the usual columns of the model in use that `values` lack. All words of a category column count as its value."""
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
                score = SharedScore(CONDITION[each.record], without, each.before, each.forecast, ln_t)
            self._note(each.stage, horizon, ln_t - each.forecast.ln_t)
            pairs = self._pairs.setdefault(each.stage, [])
            pairs.append((six_digits(math.exp(each.forecast.ln_t)), six_digits(fact.run_time_s)))
            del pairs[:-PAIRS_MAX]
        if prediction:
            self._note(COMBINED, horizon, ln_t - prediction[-1].pooled.ln_t)
        return score

    def _watch_level(self, run: LearnedRun) -> None:
        """Compare a run with the model in use. If the run times have shifted to a new level, shift the older runs to that level."""
        stage = next((each for each in OWN_STAGES if each in run.targets), ATTRIBUTES)
        answered = self._trainer.learners[stage].answered(run.values) if run.targets else None
        if answered is None:
            return
        value, deviation = answered
        off = math.log(run.targets[stage] / value) - self._trainer.reservoir.level
        shift = self._level.learn(
            Ratio(run.time_ms, digest64(*(f"{name}={value}" for name, value in run.values.items())), six_digits(off)),
            deviation,
        )
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


def _moved(forecast: LnForecast, near: LnForecast, curve: LnForecast, besides: float = 1.0) -> LnForecast:
    """Move a forecast along the curve to another size; only the share `besides` of the run time follows the size."""
    further, grown_ln = max(curve.deviation**2 - near.deviation**2, 0.0), curve.ln_t - near.ln_t
    if besides < 1.0:
        grown_ln = math.log(1.0 - besides + besides * math.exp(grown_ln))
    return LnForecast(forecast.ln_t + grown_ln, math.sqrt(forecast.deviation**2 + besides**2 * further))


def _besides(learner: TargetLearner, values: Mapping[str, float]) -> float:
    """Return the share of a run time that follows the size as the curve does: all except communication."""
    model = learner.models.get(learner.trusted or "")
    if learner.table is None or not isinstance(model, ColumnModel):
        return 1.0
    return float(model.besides(learner.table.row(dict(values)))[0])


def _stages(attributes: Mapping[str, Attribute], network: Mapping[str, float]) -> tuple[str, ...]:
    """Return those of OWN_STAGES for which the run has features."""
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
    """Return the features of a run of size n as values by name: attributes, communication under `network.`, and the size."""
    attribute_values = sorted(encoded(attributes).items())[:ATTRIBUTES_MAX]
    network_values = comparable({name: network[name] for name in KNOWN_NAMES if name in network}, n)
    return {
        **{name: value for name, value in attribute_values if not name.startswith(NETWORK)},
        **{NETWORK + name: value for name, value in network_values.items()},
        SIZE: size,
    }


NAME: Final = "features"
DECIDES: Final = 0.5  # from this share on, features decide the verdict instead of the curve
WIDE: Final = "wide_band"


def model_with(model: Model, times: FeatureTimes, shares: Mapping[str, float]) -> Model:
    """Return the model of a prediction with the features added as members, and with less weight for the other members."""
    rest = 1.0 - sum(shares.values())
    before = (msgspec.structs.replace(each, weight=six_digits(each.weight * rest)) for each in model.members)
    members = (
        Member(stage, six_digits(shares[stage]), {}, errors=times.errors(stage)) for stage in STAGES if stage in shares
    )
    return Model(NAME, (*before, *members), times.errors(COMBINED), model.study)


def judged(prediction: Pooled, curve: Reliability, *, inside: bool) -> Reliability:
    """Return the verdict on a forecast from curve and features, given the verdict on the curve.

    If features have most of the weight, the width of the band decides the verdict within the observed sizes.
    """
    if sum(prediction.shares.values()) < DECIDES or not inside:
        return curve
    if math.log(prediction.high_s / prediction.low_s) / 2.0 <= WIDTH_MAX:
        return Reliability(RELIABLE)
    return Reliability(UNCERTAIN, (WIDE,), (f"The prediction is uncertain: {REASON_TEXT[WIDE]}.",))


def shares_text(shares: Mapping[str, float]) -> str:
    shares_by_stage = " and ".join(f"{stage.replace('_', ' ')} {share:.0%}" for stage, share in shares.items() if share)
    return f"Features of the run contribute: {shares_by_stage}."
