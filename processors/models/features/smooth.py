"""Run time from attributes: a law of powers, corrected by the residuals of similar runs (Kriging)."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from processors.models.counters.selection import Linear, ridge
from processors.models.numerics.arrays import Floats, RowPredictions
from processors.models.numerics.kriging import Kriging, KrigingPoints, Reaches, Search, kriging, onward, searching
from processors.models.training.table import CHOICE, FOLDS, RowModel, RunTable, spread
from processors.models.training.trainer import FitState, Kind

LAW_RUNS_MIN: Final = 6
RUNS_PER_TERM: Final = 4  # runs for each term before the law gets products
BENDING_MAX: Final = 16  # attributes; more would have too many products
FURTHER: Final = 4.0  # extrapolate a power up to this multiple of the observed range
RATIO_MAX: Final = 30.0  # predictions stay within this factor of the extremes of the target


@dataclass(frozen=True, slots=True, eq=False)
class AttributeLaw(RowModel):
    """A law of the attributes: the columns that enter as ln, their observed ranges, and the coefficients.

    >>> x = np.arange(1.0, 31.0)[:, None]
    >>> found = law(RunTable(("n",), x, 100.0 / x[:, 0], np.ones(30), np.arange(30)))
    >>> round(found.predict(np.array([[60.0]])).value.item(), 1)
    1.7
    """

    by_ln: npt.NDArray[np.bool_]
    low: Floats
    high: Floats
    bends: bool
    linear: Linear
    low_ln: float
    high_ln: float

    def ln(self, values: Floats) -> Floats:
        """Return ln of the target for rows (m, p)."""
        ln_target = self.linear.predict(self._terms(transformed_columns(values, self.by_ln)))
        return np.clip(ln_target, self.low_ln, self.high_ln)

    def predict(self, values: Floats) -> RowPredictions:
        """Return the predictions for rows (m, p); their deviation is unknown here and set to 0."""
        value = np.exp(self.ln(values))
        return RowPredictions(value, np.zeros(len(value)))

    def _terms(self, columns: Floats) -> Floats:
        reach = np.where(self.by_ln, np.log(FURTHER), 0.0)
        straight = np.clip(columns, self.low - reach, self.high + reach)
        if not self.bends:
            return straight
        inside = np.clip(columns, self.low, self.high) - (self.low + self.high) / 2
        first, second = np.triu_indices(columns.shape[1])
        return np.concatenate([straight, inside[:, first] * inside[:, second]], axis=1)


def law(table: RunTable) -> AttributeLaw:
    """Return the law of a table; ValueError for fewer than LAW_RUNS_MIN runs or without columns.

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
    target = np.log(table.target)
    margin = np.log(RATIO_MAX)
    shape = AttributeLaw(
        by_ln,
        transformed.min(axis=0),
        transformed.max(axis=0),
        bends,
        _NOTHING,
        target.min() - margin,
        target.max() + margin,
    )
    linear = ridge(shape._terms(transformed), target, table.weight, 1.0 / len(table))  # noqa: SLF001  its own terms
    return AttributeLaw(by_ln, shape.low, shape.high, bends, linear, shape.low_ln, shape.high_ln)


_NOTHING: Final = Linear(0.0, np.zeros(0), np.zeros(0))


def transformed_columns(values: Floats, by_ln: npt.NDArray[np.bool_]) -> Floats:
    """Return the columns as the law uses them: ln, or arcsinh of a column that is not always positive.

    Values that are not positive in an ln column become the least float.
    """
    return np.where(by_ln, np.log(np.maximum(values, 1e-300)), np.arcsinh(values))


RUNS_MIN: Final = 12
LEFT_OUT_RUNS: Final = 32  # predicted runs of each fold, which takes some milliseconds
DEVIATION_MIN: Final = 0.005


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
        return RowPredictions(np.exp(self.law.ln(values) + residual.target), deviation)

    def importances(self) -> Floats:
        """Return the share of each column (p,): the inverse of its reach, sum 1."""
        return self.relevance


class SmoothKind(Kind):
    """Fits `SmoothLaw` in steps: first the search for reaches, then left-out runs, one fold at a time.

    >>> table = RunTable(("a",), np.arange(1.0, 14.0)[:, None], np.arange(2.0, 15.0), np.ones(13), np.arange(13))
    >>> steps = list(SmoothKind().fitting(table, None))
    >>> list(SmoothKind().fitting(table, steps[20]))[-1] == steps[-1], sorted(steps[-1])
    (True, ['deviation', 'error', 'off', 'search'])
    """

    def fitting(self, table: RunTable, state: FitState | None) -> Generator[FitState, None, SmoothLaw]:
        """Yield the state after each step; ValueError for fewer than RUNS_MIN runs or without columns."""
        if len(table) < RUNS_MIN:
            raise ValueError(f"A smooth function of attributes needs {RUNS_MIN} runs.")
        group, progress = _groups(table.names), state or {"search": None, "off": []}
        points, _ = _points(table)
        search: Search = progress["search"]
        for step in searching(points, group, search):
            search = step
            yield {"search": search, "off": []}
        chosen, errors = Reaches.of(search), list(progress["off"])
        for number in range(len(errors), FOLDS):
            errors.append(_left_out(table, chosen, number))
            yield {"search": search, "off": errors, **_errors(errors)}
        return self.model(table, {"search": search, **_errors(errors)})

    def again(self, state: FitState) -> FitState:
        """Return the state that the next fit starts from: the reaches of the last one."""
        return {"search": onward(state["search"]), "off": []}

    def model(self, table: RunTable, state: FitState) -> SmoothLaw:
        return _fitted(table, Reaches.of(state["search"]), state["error"], state["deviation"])


def _points(table: RunTable) -> tuple[KrigingPoints, AttributeLaw]:
    table_law, values = law(table), table.filled()
    return KrigingPoints.of(
        transformed_columns(values, table_law.by_ln), np.log(table.target) - table_law.ln(values), table.weight
    ), table_law


def _fitted(table: RunTable, chosen: Reaches, error: float = 0.0, deviation: float = 0.0) -> SmoothLaw:
    points, table_law = _points(table)
    group = _groups(table.names)
    shares = np.where(points.values.std(axis=0) > 0, 1.0 / chosen.reach[np.array(group)], 0.0)
    return SmoothLaw(table_law, kriging(points, group, chosen), shares / (shares.sum() or 1.0), error, deviation)


def _groups(names: Sequence[str]) -> list[int]:
    """Return the number of the reach of each column: the words of one attribute share one.

    >>> _groups(("n", "solver=cg", "solver=amg"))
    [0, 1, 1]
    """
    numbers: dict[str, int] = {}
    return [numbers.setdefault(name.partition(CHOICE)[0], len(numbers)) for name in names]


def _left_out(table: RunTable, chosen: Reaches, number: int) -> list[float]:
    """Return the weight of some runs of a fold, that times their mean |ratio - 1|, and that times the square of their spread.

    The law and the Kriging are fitted without these runs.
    """
    held_out = np.unique(table.group, return_inverse=True)[1] % FOLDS == number
    if not held_out.any() or held_out.all():
        return [0.0, 0.0, 0.0]
    rest, rows = table.rows(~held_out), np.flatnonzero(held_out)
    rows = rows[np.arange(min(len(rows), LEFT_OUT_RUNS)) * len(rows) // min(len(rows), LEFT_OUT_RUNS)]
    predicted = _fitted(rest, chosen).predict(rest.filled(table.values[rows])).value
    ln_ratios, weight = np.log(table.target[rows] / predicted), table.weight[rows]
    return [
        float(weight.sum()),
        float(weight @ np.abs(np.expm1(-ln_ratios))),
        float(weight.sum()) * spread(ln_ratios, weight) ** 2,
    ]


def _errors(sums_by_fold: Sequence[Sequence[float]]) -> dict[str, float]:
    weight, error, squares = (sum(sums[i] for sums in sums_by_fold) for i in range(3))
    if not weight:
        return {"error": 1.0, "deviation": 1.0}
    return {"error": error / weight, "deviation": max((squares / weight) ** 0.5, DEVIATION_MIN)}
