"""Run time from the configuration of a job: sizes, counts and choices.

Attributes become numbers (`encoded`). A law of their powers and products predicts the run time; a forest, or the nearest
runs (`smooth`), predict the residuals of the law. A second forecast is blended in by its past errors (`ForecastBlend`).
"""

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from processors.models.features.smooth import AttributeLaw, SmoothKind, law
from processors.models.numerics.arrays import Floats, RowPredictions
from processors.models.numerics.conformal import DEVIATION_MIN, ConformalRadius, PredictedBand
from processors.models.numerics.statistics import Z95, six_digits
from processors.models.numerics.trees import ROWS_STEP, Forest, Growth, growing
from processors.models.training.table import CHOICE, FittedModel, RowModel, RunTable
from processors.models.training.trainer import (
    FitState,
    Kind,
    LeftOutKind,
)

FOREST_TREES: Final = 20
LEAF_ROWS: Final = 2  # run times have outliers: the median over several leaves of two is stable
RUNS_MIN: Final = 12
_NORMAL_90: Final = 1.645


@dataclass(frozen=True, slots=True, eq=False)
class AttributeForest(RowModel):
    """A law and the forest of its residuals; the prediction is the law times the median of the leaves.

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
        """Return the predictions for rows (m, p), with the deviation of the residuals in the leaves."""
        low, middle, high = self.forest.quantiles(values, (0.05, 0.5, 0.95)).T
        return RowPredictions(np.exp(self.law.ln(values) + middle), (high - low) / 2 / _NORMAL_90)


def fitting(
    table: RunTable, growth: Growth | None = None, rows_at_once: int = ROWS_STEP
) -> Generator[None, None, AttributeForest]:
    """Yield as trees grow, and return the AttributeForest; ValueError for fewer than RUNS_MIN runs or without columns."""
    if len(table) < RUNS_MIN:
        raise ValueError(f"A forest of residuals needs {RUNS_MIN} runs.")
    table_law = law(table)
    yield
    values = table.filled()
    residuals = np.log(table.target) - table_law.ln(values)
    growth = growth or Growth(FOREST_TREES, LEAF_ROWS)
    forest = yield from growing(values, residuals, table.weight, growth, rows_at_once)
    return AttributeForest(table_law, forest)


# Combination of two forecasts of a run time, weighted by their errors and the correlation of these.
# J. M. Bates, C. W. J. Granger, "The combination of forecasts", Operational Research Quarterly 20 (1969): the share of the
# second forecast that would have had the least squared error in ln t. A second forecast without new information gets a
# harmless share; a perfect one gets all. The band is conformal (`processors.models.numerics.conformal`).

FORGETTING: Final = 0.98
RUNS_FULL: Final = 8.0  # scored runs before the second forecast may have its full share
ERROR_MAX: Final = 1.0  # largest error in ln t that one run counts for
ALIKE: Final = 0.03  # in ln t; the first forecast is kept if the two differ by less
LN_BAND_MAX: Final = math.log(1000.0)
SCORED_MAX: Final = 1_000_000
WINDOW: Final = 64  # runs that a mean covers
WORST: Final = 2.0  # largest error in ln t that one run adds to a mean


@dataclass(frozen=True, slots=True)
class LnForecast:
    """The ln of a run time in seconds, and its standard deviation.

    >>> LnForecast.of_band(100.0, 80.0, 125.0).deviation.__round__(3)
    0.136
    """

    ln_t: float
    deviation: float

    @classmethod
    def of_band(cls, run_time_s: float, low_s: float, high_s: float) -> "LnForecast":
        """Return the forecast of a 90 % band about a run time; only the ratio of its ends matters."""
        return cls(math.log(run_time_s), max(math.log(high_s / low_s) / (2 * Z95), DEVIATION_MIN))


@dataclass(slots=True)
class ForecastBlend:
    """The record of two forecasts: discounted sums of squared errors, of their product, and of runs.

    `errors` are recent means of |ln(actual / predicted)| of the first, the second and the combined forecast, `inside` is the
    recent share of runs in the combined band; both cover about WINDOW runs.

    >>> blend = ForecastBlend()
    >>> for i in range(60):
    ...     blend.learn(LnForecast(5.0, 0.3), LnForecast(5.3 if i % 2 else 4.7, 0.05), 5.3 if i % 2 else 4.7)
    >>> blend.share > 0.99, round(blend.combined(LnForecast(5.0, 0.3), LnForecast(5.3, 0.05)).ln_t, 2)
    (True, 5.3)
    >>> ForecastBlend().share
    0.0
    """

    first: float = 0.0
    second: float = 0.0
    both: float = 0.0
    runs: float = 0.0
    scored: int = 0
    errors: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    inside: float = 0.0
    radius: ConformalRadius = field(default_factory=ConformalRadius)

    @property
    def share(self) -> float:
        apart = self.first + self.second - 2.0 * self.both
        best = (self.first - self.both) / (apart + RUNS_FULL / 2 * ALIKE**2)
        return min(max(best, 0.0), 1.0) * min(self.runs / RUNS_FULL, 1.0)

    def combined(self, first: LnForecast, second: LnForecast) -> LnForecast:
        """Combine the forecasts; the deviation is not yet calibrated on past errors."""
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
        first_error, second_error = (min(max(ln_t - each.ln_t, -ERROR_MAX), ERROR_MAX) for each in (first, second))
        self.first, self.second, self.both = (
            six_digits(FORGETTING * old + new)
            for old, new in (
                (self.first, first_error * first_error),
                (self.second, second_error * second_error),
                (self.both, first_error * second_error),
            )
        )
        self.runs = six_digits(FORGETTING * self.runs + 1.0)

    def snapshot(self) -> dict[str, Any]:
        return {
            "sums": [self.first, self.second, self.both, self.runs],
            "scored": self.scored,
            "errors": list(self.errors),
            "inside": self.inside,
            "radius": self.radius.snapshot(),
        }

    @classmethod
    def build(cls, state: Mapping[str, Any]) -> "ForecastBlend":
        first, second, both, runs = state["sums"]
        record = list(state["errors"]), state["inside"], ConformalRadius.build(state["radius"])
        return cls(first, second, both, runs, state["scored"], *record)

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


def _law(table: RunTable) -> Generator[None, None, RowModel]:
    found = law(table)
    yield
    return found


KINDS: Final[Mapping[str, Kind]] = {
    LAW: LeftOutKind(_law, MODEL_DEVIATION_MIN),
    FOREST: LeftOutKind(fitting, MODEL_DEVIATION_MIN),
    SMOOTH: SmoothKind(),
}


def encoded(attributes: Mapping[str, object]) -> dict[str, float]:
    """Return the attributes as values of a run: numbers, also those in text, as they are; a word as `name=word` with 1.

    Lists, nested attributes and numbers that are not finite are left out.

    >>> encoded({"atoms": 32000, "solver": "sweep", "steps": "100", "restart": True, "notes": None})
    {'atoms': 32000.0, 'solver=sweep': 1.0, 'steps': 100.0, 'restart': 1.0}
    """
    numbers: dict[str, float] = {}
    for name, value in attributes.items():
        if isinstance(value, int | float):
            numbers[name] = float(value)
        elif isinstance(value, str) and value:
            number = _number(value)
            if number is None:
                numbers[f"{name}{CHOICE}{value}"] = 1.0
            else:
                numbers[name] = number
    return {name: value for name, value in numbers.items() if math.isfinite(value)}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


# Models on a subset of the columns. Columns of communication features begin with `network.`: a model of attributes ignores
# them, and a model of a feature set (`processors.models.features.communication_costs`) uses its set and the attributes.

NETWORK: Final = "network."
TREES: Final = Growth(trees=10, leaf_rows=1)  # as in Jain et al.
Choose = Callable[[Sequence[str]], tuple[str, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnModel(FittedModel):
    """A model of some columns of a table: their names and their positions."""

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
        """Return the share of each run time (m,) that is not a cost of the columns, for rows (m, p) of the whole table."""
        return self.model.besides(values[:, list(self.positions)])

    def importances_by_name(self) -> dict[str, float]:
        """Return the share of each column in the model's explanation; {} if the model does not report it."""
        shares = self.model.importances()
        return dict(zip(self.names, shares.tolist(), strict=True)) if shares.any() else {}


def of_attributes(names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that are not communication features."""
    return tuple(name for name in names if not name.startswith(NETWORK))


def of_set(features: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Return the attributes and these features; ValueError if the table lacks one."""
    columns = tuple(NETWORK + name for name in features)
    missing = [name for name in columns if name not in names]
    if missing:
        raise ValueError(f"No run tells {', '.join(missing)}.")
    return (*of_attributes(names), *columns)


class OfColumns(Kind):
    """A kind of model on the columns that `choose` returns for the names of a table; ValueError if the table lacks them.

    >>> x = np.arange(1.0, 17.0)[:, None]
    >>> table = RunTable(("n", "network.hops"), np.hstack([x, x]), 10 * x[:, 0], np.ones(16), np.arange(16))
    >>> from processors.models.training.table import finished
    >>> finished(OfColumns(of_attributes, KINDS[LAW]).fitting(table, None)).names
    ('n',)
    """

    def __init__(self, choose: Choose, kind: Kind) -> None:
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


def small_forest(table: RunTable) -> Generator[None, None, AttributeForest]:
    """Yield as trees grow, and return the law of a table with a forest as small as that of Jain et al."""
    return fitting(table, TREES)


ATTRIBUTE_KINDS: Final[Mapping[str, Kind]] = {name: OfColumns(of_attributes, kind) for name, kind in KINDS.items()}
