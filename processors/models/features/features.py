"""Run time from the attributes of a job, such as problem sizes, counts and choices.

Attributes become numbers (`encoded`). A law of powers and products of the attributes predicts the run time; a forest, or the
nearest runs (`SmoothLaw`), predict the residuals of the law. `ForecastBlend` combines two forecasts by their past errors.
"""

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from processors.models.counters.selection import Linear, ridge
from processors.models.numerics.arrays import Floats, PlainData, RowPredictions
from processors.models.numerics.conformal import DEVIATION_MIN, NORMAL_90, ConformalRadius, PredictedBand
from processors.models.numerics.kriging import Kriging, KrigingPoints, Reaches, Search, kriging, onward, searching
from processors.models.numerics.statistics import six_digits
from processors.models.numerics.trees import ROWS_STEP, Forest, Growth, growing
from processors.models.training.table import CHOICE, FOLDS, FittedModel, RowModel, RunTable, in_one_step, spread
from processors.models.training.trainer import (
    FitState,
    LeftOutKind,
    ModelKind,
)

LAW_RUNS_MIN: Final = 6
RUNS_PER_TERM: Final = 4  # runs needed for each term before the law gets products
BENDING_MAX: Final = 16  # most attributes for which the law gets products; more attributes would have too many products
FURTHER: Final = 4.0  # power laws are extrapolated up to this factor beyond the observed range
RATIO_MAX: Final = 30.0  # largest factor between a prediction and the extremes of the target
_NOTHING: Final = Linear(0.0, np.zeros(0), np.zeros(0))


@dataclass(frozen=True, slots=True, eq=False)
class AttributeLaw(RowModel):
    """A linear model of ln of the target over transformed columns.

    `by_ln` (p,) marks the columns that enter as ln; `low` and `high` (p,) are the observed ranges of the transformed columns. If
    `bends` is True, products of the columns are terms as well. Predictions of ln are clipped to `low_ln` and `high_ln`.
    """

    by_ln: npt.NDArray[np.bool_]
    low: Floats
    high: Floats
    bends: bool
    low_ln: float
    high_ln: float
    linear: Linear = _NOTHING

    def ln(self, values: Floats) -> Floats:
        """Return ln of the target for rows (m, p)."""
        ln_target = self.linear.predict(self.terms(transformed_columns(values, self.by_ln)))
        return np.clip(ln_target, self.low_ln, self.high_ln)

    def predict(self, values: Floats) -> RowPredictions:
        """Return the predictions for rows (m, p). The deviation of the predictions is unknown and set to 0."""
        return RowPredictions(np.exp(self.ln(values)), np.zeros(len(values)))

    def terms(self, columns: Floats) -> Floats:
        """Return the terms (m, t) of the law for transformed columns (m, p): the columns, and their products if the law bends."""
        reach = np.where(self.by_ln, np.log(FURTHER), 0.0)
        straight = np.clip(columns, self.low - reach, self.high + reach)
        if not self.bends:
            return straight
        inside = np.clip(columns, self.low, self.high) - (self.low + self.high) / 2
        first, second = np.triu_indices(columns.shape[1])
        return np.concatenate([straight, inside[:, first] * inside[:, second]], axis=1)


def law(table: RunTable) -> AttributeLaw:
    """Fit the law of a table. Raise ValueError for fewer than LAW_RUNS_MIN runs or without columns.

    >>> law(RunTable((), np.zeros((9, 0)), np.ones(9), np.ones(9), np.arange(9)))
    Traceback (most recent call last):
    ValueError: A law needs 6 runs and an attribute.
    """
    if len(table) < LAW_RUNS_MIN or not table.names:
        raise ValueError(f"A law needs {LAW_RUNS_MIN} runs and an attribute.")
    values = table.filled()
    by_ln = np.asarray((values > 0).all(axis=0))
    transformed = transformed_columns(values, by_ln)
    columns = transformed.shape[1]
    terms = columns * (columns + 3) // 2
    bends = columns <= BENDING_MAX and len(table) >= RUNS_PER_TERM * terms
    target, margin = np.log(table.target), np.log(RATIO_MAX)
    limits = target.min() - margin, target.max() + margin
    shape = AttributeLaw(by_ln, transformed.min(axis=0), transformed.max(axis=0), bends, *limits)
    return replace(shape, linear=ridge(shape.terms(transformed), target, table.weight, 1.0 / len(table)))


def transformed_columns(values: Floats, by_ln: npt.NDArray[np.bool_]) -> Floats:
    """Return ln of the columns marked in `by_ln` (p,), and arcsinh of the others, which may have values that are not positive.

    In a column with ln, a value that is not positive is replaced by 1e-300.
    """
    return np.where(by_ln, np.log(np.maximum(values, 1e-300)), np.arcsinh(values))


LEFT_OUT_RUNS: Final = 32  # left-out runs of each fold that are predicted, which takes some milliseconds


@dataclass(frozen=True, slots=True, eq=False)
class SmoothLaw(RowModel):
    """A law, the Kriging of its residuals, and the errors of both on left-out runs.

    >>> from processors.models.training.table import finished
    >>> x = np.linspace(1.0, 9.0, 60)[:, None]
    >>> table = RunTable(("a",), x, 200.0 + 50.0 * np.sin(x[:, 0]), np.ones(60), np.arange(60))
    >>> model = finished(SmoothKind().fitting(table, None))
    >>> round(model.predict(np.array([[1.57]])).value.item()), model.error < 0.01
    (250, True)
    """

    law: AttributeLaw
    process: Kriging
    relevance: Floats
    error: float = 0.0
    deviation: float = 0.0

    def predict(self, values: Floats) -> RowPredictions:
        """Return the predictions for rows (m, p); the deviation widens if no run is near."""
        residual = self.process.predict(transformed_columns(values, self.law.by_ln))
        deviation = np.hypot(residual.deviation, self.deviation) / 2**0.5
        return RowPredictions(np.exp(self.law.ln(values) + residual.value), deviation)

    def importances(self) -> Floats:
        """Return the share of each column (p,): the inverse of its correlation length (reach), scaled to the sum 1."""
        return self.relevance


class SmoothKind(ModelKind):
    """Fits `SmoothLaw` in steps: a search for the correlation lengths, then the errors on left-out runs, one fold per step.

    >>> table = RunTable(("a",), np.arange(1.0, 14.0)[:, None], np.arange(2.0, 15.0), np.ones(13), np.arange(13))
    >>> steps = list(SmoothKind().fitting(table, None))
    >>> list(SmoothKind().fitting(table, steps[20]))[-1] == steps[-1], sorted(steps[-1])
    (True, ['deviation', 'error', 'off', 'search'])
    """

    def fitting(self, table: RunTable, state: FitState | None) -> Generator[FitState, None, SmoothLaw]:
        """Yield the state after each step. Raise ValueError for fewer than RUNS_MIN runs or without columns."""
        if len(table) < RUNS_MIN:
            raise ValueError(f"A smooth function of attributes needs {RUNS_MIN} runs.")
        progress = state or {"search": None, "off": []}
        search: Search = progress["search"]
        for step in searching(_points(table)[0], _groups(table.names), search):
            search = step
            yield {"search": search, "off": []}
        errors = list(progress["off"])
        for number in range(len(errors), FOLDS):
            errors.append(_left_out(table, Reaches.of(search), number))
            yield {"search": search, "off": errors, **_errors(errors)}
        return self.model(table, {"search": search, **_errors(errors)})

    def again(self, state: FitState) -> FitState:
        """Return the start state of the next fit: the search for correlation lengths continues from those of the last fit."""
        return {"search": onward(state["search"]), "off": []}

    def model(self, table: RunTable, state: FitState) -> SmoothLaw:
        return _fitted(table, Reaches.of(state["search"]), state["error"], state["deviation"])


def _points(table: RunTable) -> tuple[KrigingPoints, AttributeLaw]:
    table_law, values = law(table), table.filled()
    columns, residuals = transformed_columns(values, table_law.by_ln), np.log(table.target) - table_law.ln(values)
    return KrigingPoints.of(columns, residuals, table.weight), table_law


def _fitted(table: RunTable, chosen: Reaches, error: float = 0.0, deviation: float = 0.0) -> SmoothLaw:
    points, table_law = _points(table)
    group = _groups(table.names)
    shares = np.where(points.values.std(axis=0) > 0, 1.0 / chosen.reach[np.array(group)], 0.0)
    return SmoothLaw(table_law, kriging(points, group, chosen), shares / (shares.sum() or 1.0), error, deviation)


def _groups(names: Sequence[str]) -> list[int]:
    """Return the index of the correlation length of each column; all columns `name=word` of an attribute share one.

    >>> _groups(("n", "solver=cg", "solver=amg"))
    [0, 1, 1]
    """
    numbers: dict[str, int] = {}
    return [numbers.setdefault(name.partition(CHOICE)[0], len(numbers)) for name in names]


def _left_out(table: RunTable, chosen: Reaches, number: int) -> list[float]:
    """Return three sums over runs of the fold `number`, predicted by a model fitted to the other folds; at most LEFT_OUT_RUNS runs.

    The sums are the weight, the weighted |predicted / actual - 1|, and weight times the squared spread of ln(actual / predicted).
    """
    held_out = np.unique(table.group, return_inverse=True)[1] % FOLDS == number
    if not held_out.any() or held_out.all():
        return [0.0, 0.0, 0.0]
    rest, rows = table.rows(~held_out), np.flatnonzero(held_out)
    rows = rows[np.arange(min(len(rows), LEFT_OUT_RUNS)) * len(rows) // min(len(rows), LEFT_OUT_RUNS)]
    predicted = _fitted(rest, chosen).predict(rest.filled(table.values[rows])).value
    ln_ratios, weight = np.log(table.target[rows] / predicted), table.weight[rows]
    total = float(weight.sum())
    return [total, float(weight @ np.abs(np.expm1(-ln_ratios))), total * spread(ln_ratios, weight) ** 2]


def _errors(sums_by_fold: Sequence[Sequence[float]]) -> dict[str, float]:
    weight, error, squares = (sum(sums[i] for sums in sums_by_fold) for i in range(3))
    if not weight:
        return {"error": 1.0, "deviation": 1.0}
    return {"error": error / weight, "deviation": max((squares / weight) ** 0.5, MODEL_DEVIATION_MIN)}


# run times have outliers, but the median over several leaves of two rows is stable
GROWTH: Final = Growth(trees=20, leaf_rows=2)
RUNS_MIN: Final = 12


@dataclass(frozen=True, slots=True, eq=False)
class AttributeForest(RowModel):
    """A law and the forest of its residuals; ln of the prediction is the law plus the median of the leaves.

    >>> from processors.models.training.table import finished
    >>> x = np.arange(1.0, 41.0)[:, None]
    >>> model = finished(fitting(RunTable(("n",), x, np.where(x[:, 0] < 20, 10.0, 50.0), np.ones(40), np.arange(40))))
    >>> model.predict(np.array([[10.0], [30.0]])).value.round(-1).tolist()
    [10.0, 50.0]
    """

    law: AttributeLaw
    forest: Forest

    def importances(self) -> Floats:
        return self.forest.importances()

    def predict(self, values: Floats) -> RowPredictions:
        """Return the predictions for rows (m, p), with the standard deviation of the residuals in the leaves."""
        low, middle, high = self.forest.quantiles(values, (0.05, 0.5, 0.95)).T
        return RowPredictions(np.exp(self.law.ln(values) + middle), (high - low) / 2 / NORMAL_90)


def fitting(
    table: RunTable, growth: Growth = GROWTH, rows_at_once: int = ROWS_STEP
) -> Generator[None, None, AttributeForest]:
    """Fit an AttributeForest, and yield between groups of trees. Raise ValueError for fewer than RUNS_MIN runs or without columns."""
    if len(table) < RUNS_MIN:
        raise ValueError(f"A forest of residuals needs {RUNS_MIN} runs.")
    table_law = law(table)
    yield
    values = table.filled()
    residuals = np.log(table.target) - table_law.ln(values)
    forest = yield from growing(values, residuals, table.weight, growth, rows_at_once)
    return AttributeForest(table_law, forest)


# Combination of two forecasts of a run time by J. M. Bates, C. W. J. Granger, "The combination of forecasts", Operational
# Research Quarterly 20 (1969): the second forecast gets the share with which the combination would have had the least squared
# error in ln t. A second forecast without new information gets a share that does no harm, and a perfect second forecast gets
# the share 1. The band is conformal (`processors.models.numerics.conformal`).

FORGETTING: Final = 0.98
RUNS_FULL: Final = 8.0  # scored runs before the second forecast may have its full share
ERROR_MAX: Final = 1.0  # largest error in ln t with which a run enters the sums
ALIKE: Final = 0.03  # if both forecasts differ by less (in ln t), the first keeps most of the weight
LN_BAND_MAX: Final = math.log(1000.0)
SCORED_MAX: Final = 1_000_000
WINDOW: Final = 64  # number of runs in recent means
WORST: Final = 2.0  # largest error in ln t with which a run enters a recent mean


@dataclass(frozen=True, slots=True)
class LnForecast:
    """The ln of a run time in seconds, and its standard deviation."""

    ln_t: float
    deviation: float


@dataclass(slots=True)
class ForecastBlend(PlainData):
    """The record of two forecasts of the same runs, from which the share of the second forecast in their combination follows.

    `sums` are discounted sums over runs: squared errors of the first forecast, of the second, the products of both errors, and the
    number of runs; errors are in ln t. `errors` are recent means of |ln(actual / predicted)| of the first, the second and the
    combined forecast, and `inside` is the recent share of runs within the combined band, both over about WINDOW runs.

    >>> blend = ForecastBlend()
    >>> for i in range(60):
    ...     blend.learn(LnForecast(5.0, 0.3), LnForecast(5.3 if i % 2 else 4.7, 0.05), 5.3 if i % 2 else 4.7)
    >>> blend.share > 0.99, round(blend.combined(LnForecast(5.0, 0.3), LnForecast(5.3, 0.05)).ln_t, 2)
    (True, 5.3)
    >>> ForecastBlend().share
    0.0
    """

    sums: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0, 0.0])
    scored: int = 0
    errors: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    inside: float = 0.0
    radius: ConformalRadius = field(default_factory=ConformalRadius)

    @property
    def share(self) -> float:
        first, second, both, runs = self.sums
        best = (first - both) / (first + second - 2.0 * both + RUNS_FULL / 2 * ALIKE**2)
        return min(max(best, 0.0), 1.0) * min(runs / RUNS_FULL, 1.0)

    def combined(self, first: LnForecast, second: LnForecast) -> LnForecast:
        """Combine two forecasts. The standard deviation is not calibrated on past errors; `band` calibrates it."""
        share = self.share
        return LnForecast(
            (1.0 - share) * first.ln_t + share * second.ln_t,
            (1.0 - share) * first.deviation + share * second.deviation,
        )

    def band(self, predicted: LnForecast) -> PredictedBand:
        return self.radius.band(math.exp(predicted.ln_t), predicted.deviation, ln_max=LN_BAND_MAX)

    def learn(self, first: LnForecast, second: LnForecast, ln_t: float) -> None:
        """Score both forecasts and their combination against the actual ln run time."""
        predicted = self.combined(first, second)
        self._note(predicted, [ln_t - each.ln_t for each in (first, second, predicted)])
        self.radius.learn(six_digits(abs(ln_t - predicted.ln_t) / max(predicted.deviation, DEVIATION_MIN)))
        a, b = (min(max(ln_t - each.ln_t, -ERROR_MAX), ERROR_MAX) for each in (first, second))
        self.sums = [
            six_digits(FORGETTING * total + new)
            for total, new in zip(self.sums, (a * a, b * b, a * b, 1.0), strict=True)
        ]

    def _note(self, predicted: LnForecast, errors: list[float]) -> None:
        self.scored = min(self.scored + 1, SCORED_MAX)
        rate = 1.0 / min(self.scored, WINDOW)
        covered = self.band(predicted).holds(math.exp(predicted.ln_t + errors[-1]))
        self.inside = six_digits(self.inside + rate * (covered - self.inside))
        self.errors = [
            six_digits(before + rate * (min(abs(error), WORST) - before))
            for before, error in zip(self.errors, errors, strict=True)
        ]


LAW: Final = "law"
FOREST: Final = "forest"
SMOOTH: Final = "smooth"
MODEL_DEVIATION_MIN: Final = 0.005


KINDS: Final[Mapping[str, ModelKind]] = {
    LAW: LeftOutKind(partial(in_one_step, law), MODEL_DEVIATION_MIN),
    FOREST: LeftOutKind(fitting, MODEL_DEVIATION_MIN),
    SMOOTH: SmoothKind(),
}


def encoded(attributes: Mapping[str, object]) -> dict[str, float]:
    """Return the attributes as numbers by name. Numbers, and texts that are numbers, are kept; a word becomes the name `name=word` with value 1.

    Lists, nested attributes and numbers that are not finite are left out.

    >>> encoded({"atoms": 32000, "solver": "sweep", "steps": "100", "restart": True, "notes": None})
    {'atoms': 32000.0, 'solver=sweep': 1.0, 'steps': 100.0, 'restart': 1.0}
    """
    numbers: dict[str, float] = {}
    for name, value in attributes.items():
        if isinstance(value, int | float):
            numbers[name] = float(value)
        elif isinstance(value, str) and value:
            try:
                numbers[name] = float(value)
            except ValueError:
                numbers[f"{name}{CHOICE}{value}"] = 1.0
    return {name: value for name, value in numbers.items() if math.isfinite(value)}


# Models on a subset of the columns. Columns of communication features begin with `network.`. A model of attributes ignores
# these columns, and a model of a feature set (`processors.models.features.communication_costs`) uses its set and the attributes.

NETWORK: Final = "network."
Choose = Callable[[Sequence[str]], tuple[str, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnModel(FittedModel):
    """A model of some columns of a table, with the names and positions of these columns."""

    names: tuple[str, ...]
    positions: tuple[int, ...]
    model: FittedModel

    @property
    def error(self) -> float:
        return self.model.error

    def predict(self, values: Floats) -> RowPredictions:
        """Return the predictions for rows (m, p) of the whole table."""
        return self.model.predict(values[:, list(self.positions)])

    def besides(self, values: Floats) -> Floats:
        """Return the share of each run time (m,) that does not come from the costs of the columns, for rows (m, p) of the whole table."""
        return self.model.besides(values[:, list(self.positions)])

    def importances_by_name(self) -> dict[str, float]:
        """Return the share of each column in the explained variation; {} if the model does not report shares."""
        shares = self.model.importances()
        return dict(zip(self.names, shares.tolist(), strict=True)) if shares.any() else {}


def of_attributes(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the columns that are not communication features."""
    return tuple(name for name in names if not name.startswith(NETWORK))


def of_set(features: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the columns of the attributes and of `features`. Raise ValueError if `names` lacks a feature."""
    columns = tuple(NETWORK + name for name in features)
    missing = [name for name in columns if name not in names]
    if missing:
        raise ValueError(f"No run tells {', '.join(missing)}.")
    return (*of_attributes(names), *columns)


class OfColumns(ModelKind):
    """A kind of model on some columns: `choose` maps the names of a table to those used, and raises ValueError if one is missing."""

    def __init__(self, choose: Choose, kind: ModelKind) -> None:
        self._choose, self._kind = choose, kind

    def fitting(self, table: RunTable, state: FitState | None) -> Generator[FitState, None, FittedModel]:
        names, positions = self._columns(table)
        model = yield from self._kind.fitting(table.only(names), state)
        return ColumnModel(names, positions, model)

    def model(self, table: RunTable, state: FitState) -> FittedModel:
        names, positions = self._columns(table)
        return ColumnModel(names, positions, self._kind.model(table.only(names), state))

    def again(self, state: FitState) -> FitState | None:
        return self._kind.again(state)

    def _columns(self, table: RunTable) -> tuple[tuple[str, ...], tuple[int, ...]]:
        names = self._choose(table.names)
        return names, tuple(table.names.index(name) for name in names)


ATTRIBUTE_KINDS: Final[Mapping[str, ModelKind]] = {name: OfColumns(of_attributes, kind) for name, kind in KINDS.items()}
