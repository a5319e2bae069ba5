"""The counters that explain a target, and the linear model of them: MuMMI's performance-tuned supervised PCA.

1. Counters that correlate with the target by rank. 2. A regression on them, 3. without those whose coefficient is
negligible. 4. Principal components of the rest; 5. the counters that take part in them. 6. The final linear model.
(C. Lively et al., "E-AMOM: an energy-aware modeling and optimization methodology", 2014, describe the same steps.)

Where there are fewer runs than counters plain regression has no one answer: step 2 takes a little ridge on scaled
columns, and the final model has at most as many counters as runs allow. Where no counter survives these steps `on_all` has a
regression on all of them; `processors.models.counters.linear` says when it answers.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from processors.models.numerics.arrays import Floats
from processors.models.training.table import Predicted, Table

# Rank correlation (C. Spearman, "The proof and measurement of association between two things", 1904).


def ranks(columns: Floats) -> Floats:
    """Return the ranks of the rows in each column (k, p), from 1; those alike share the mean of theirs.

    >>> ranks(np.array([[1.0], [2.0], [2.0], [3.0]]))[:, 0].tolist()
    [1.0, 2.5, 2.5, 4.0]
    """
    found = np.empty(columns.shape)
    for j, column in enumerate(columns.T):
        _, place, count = np.unique(column, return_inverse=True, return_counts=True)
        found[:, j] = (count.cumsum() - (count - 1) / 2)[place]
    return found


def spearman(columns: Floats, target: Floats, weight: Floats | None = None) -> Floats:
    """Return the rank correlation of each column (k, p) with the target (k,); 0 where one of them does not change.

    `weight` (k,) is how much a row counts in the correlation of the ranks.

    >>> spearman(np.array([[1.0], [2.0], [2.0], [3.0]]), np.arange(4.0)).round(6).tolist()
    [0.948683]
    """
    heavy = np.ones(len(target)) if weight is None else weight
    share = heavy / heavy.sum()
    x, y = ranks(columns), ranks(target[:, None])[:, 0]
    x, y = x - share @ x, y - share @ y
    product = np.sqrt((share @ x**2) * (share @ y**2))
    found = np.zeros(columns.shape[1])
    np.divide(share @ (x * y[:, None]), product, out=found, where=product > 1e-12)
    return found


STILL = 1e-9  # of a column's size: what moves by less does not move


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """y = intercept + values @ coefficients, (p,); `standard` are the coefficients in deviations of column and target.

    >>> Linear(2.0, np.array([3.0]), np.array([1.0])).predict(np.array([[4.0]])).tolist()
    [14.0]
    """

    intercept: float
    coefficients: Floats
    standard: Floats

    def predict(self, values: Floats) -> Floats:
        """Return y of rows (m, p)."""
        return np.asarray(self.intercept + values @ self.coefficients)


def scales(columns: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Return mean and deviation of each column (p,); the deviation is 0 where a column does not move.

    >>> mean, deviation = scales(np.array([[1.0, 5.0], [3.0, 5.0]]), np.ones(2))
    >>> mean.tolist(), deviation.tolist()
    ([2.0, 5.0], [1.0, 0.0])
    """
    share = weight / weight.sum()
    mean = share @ columns
    deviation = np.sqrt(share @ (columns - mean) ** 2)
    return mean, np.where(deviation > STILL * np.abs(columns).max(axis=0, initial=0.0), deviation, 0.0)


def scaled(columns: Floats, mean: Floats, deviation: Floats) -> Floats:
    """Return columns in deviations from their mean; 0 where one does not move.

    >>> scaled(np.array([[3.0, 7.0]]), np.array([1.0, 5.0]), np.array([2.0, 0.0])).tolist()
    [[1.0, 0.0]]
    """
    return np.divide(columns - mean, deviation, out=np.zeros(columns.shape), where=deviation > 0)


def ridge(columns: Floats, target: Floats, weight: Floats, share: float) -> Linear:
    """Return the regression of the target (k,) on columns (k, p), each scaled to one deviation.

    `share` times the number of rows is added to the diagonal (A. Hoerl, R. Kennard, "Ridge regression", 1970).

    >>> x = np.array([[1.0], [2.0], [3.0]])
    >>> found = ridge(x, 2.0 + 3.0 * x[:, 0], np.ones(3), 1e-9)
    >>> round(found.intercept, 6), found.coefficients.round(6).tolist(), found.standard.round(6).tolist()
    (2.0, [3.0], [1.0])
    """
    mean, deviation = scales(columns, weight)
    centre, spread = (float(each[0]) for each in scales(target[:, None], weight))
    x, y = scaled(columns, mean, deviation), target - centre
    gram = x.T @ (weight[:, None] * x) + share * weight.sum() * np.eye(x.shape[1])
    found = np.linalg.solve(gram, x.T @ (weight * y))
    coefficients = np.divide(found, deviation, out=np.zeros(len(found)), where=deviation > 0)
    standard = found / spread if spread > 0 else np.zeros(len(found))
    return Linear(centre - float(mean @ coefficients), coefficients, standard)


@dataclass(frozen=True, slots=True, eq=False)
class Range:
    """How far a model follows each column: the range that was seen, and so many times its width beyond either end.

    >>> Range.of(np.array([[1.0], [3.0]]), 0.5).apply(np.array([[9.0], [2.0]])).tolist()
    [[4.0], [2.0]]
    """

    low: Floats
    high: Floats

    @classmethod
    def of(cls, values: Floats, beyond: float) -> "Range":
        """Return the range of rows (k, p), k at least 1."""
        low, high = values.min(axis=0), values.max(axis=0)
        return cls(low - beyond * (high - low), high + beyond * (high - low))

    def apply(self, values: Floats) -> Floats:
        """Return rows (m, p), each value as near to its own as the range allows."""
        return np.clip(values, self.low, self.high)


# Principal components (K. Pearson, 1901): how much each column takes part in what the columns do together.


def loadings(columns: Floats, weight: Floats, variance_share: float) -> tuple[Floats, int]:
    """Return the part each column (k, p) takes in the components that are kept, (p,), and how many those are.

    Kept are the first components that hold `variance_share` of the variance of the scaled columns. The part is the
    largest of |loading| times the root of the component's variance relative to the first one's.

    >>> x = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [3.0, 6.0, 0.0], [4.0, 8.0, 0.0]])
    >>> part, count = loadings(x, np.ones(4), 0.9)
    >>> part.round(3).tolist(), count
    ([0.707, 0.707, 0.0], 1)
    """
    x = scaled(columns, *scales(columns, weight))
    share = weight / weight.sum()
    variance, vectors = np.linalg.eigh(x.T @ (share[:, None] * x))
    variance, vectors = np.maximum(variance[::-1], 0.0), vectors[:, ::-1]
    total = float(variance.sum())
    if total <= 0.0:
        return np.zeros(columns.shape[1]), 0
    count = int(np.searchsorted(variance.cumsum() / total, variance_share - 1e-12)) + 1
    part = np.abs(vectors[:, :count]) * np.sqrt(variance[:count] / variance[0])
    return np.asarray(part.max(axis=1)), count


SELECTION_RUNS_MIN: Final = 6
LOWEST: Final = 0.5  # of the least target that was seen: no prediction lies further down,
HIGHEST: Final = 1.5  # nor further up than this of the largest
DEVIATION_MIN: Final = 0.005
SELECTED_BEYOND: Final = 1.0  # times the range of a counter that was chosen: a line goes on so far,
ALL_BEYOND: Final = 0.5  # and one of many counters, most of which say the same, half as far


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What the steps keep: |rho|, |standardised coefficient|, share of variance, part in a component of the largest part.

    >>> Thresholds().correlation
    0.6
    """

    correlation: float = 0.6
    coefficient: float = 0.001
    variance: float = 0.9
    part: float = 0.3
    regression_ridge: float = 1e-3
    final_ridge: float = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The final linear model of a table: which columns (`chosen`), how, and how far it may go.

    `deviation` is that of ln of the target about the model, corrected for the number of coefficients.

    >>> rng = np.random.default_rng(1)
    >>> x = rng.random((30, 3))
    >>> table = Table(("a", "b", "c"), x, 100 + 50 * x[:, 1], np.ones(30), np.arange(30))
    >>> found = select(table)
    >>> found.names, found.linear.coefficients.round().tolist()
    (('b',), [50.0])
    """

    table_names: tuple[str, ...]
    chosen: tuple[int, ...]
    rho: Floats
    linear: Linear
    range: Range
    low: float
    high: float
    deviation: float
    components: int
    condition: float

    @property
    def names(self) -> tuple[str, ...]:
        """The counters of the final model."""
        return tuple(self.table_names[i] for i in self.chosen)

    def predict(self, values: Floats) -> Predicted:
        """Return the target of rows (m, p) of the table's columns, none missing."""
        found = np.clip(self.linear.predict(self.range.apply(values)[:, list(self.chosen)]), self.low, self.high)
        return Predicted(found, np.full(len(found), self.deviation))


def select(table: Table, thresholds: Thresholds | None = None) -> Selection:
    """Return the selection of a table of at least one run; the mean of the target where no counter survives.

    Raises ValueError for a table without runs.

    >>> select(Table((), np.zeros((2, 0)), np.array([3.0, 5.0]), np.ones(2), np.arange(2))).predict(np.zeros((1, 0))).value
    array([4.])
    """
    if not len(table):
        raise ValueError("A selection needs at least one run.")
    given = thresholds or Thresholds()
    values, target, weight = table.filled(), table.target, table.weight
    rho = spearman(values, target, weight) if len(table) > 1 else np.zeros(values.shape[1])
    chosen = np.flatnonzero(np.abs(rho) >= given.correlation)
    first = ridge(values[:, chosen], target, weight, given.regression_ridge)
    chosen = chosen[np.abs(first.standard) >= given.coefficient]
    part, components = loadings(values[:, chosen], weight, given.variance)
    chosen = chosen[part >= given.part * part.max(initial=0.0)]
    chosen = _most(chosen, rho, max(len(table) - 2, 0))
    linear = ridge(values[:, chosen], target, weight, given.final_ridge)
    return replace(_selection(table, rho, chosen, linear, SELECTED_BEYOND), components=components)


def on_all(table: Table, share: float) -> Selection:
    """Return the regression on all columns that move, with this share of ridge; ValueError for a table without runs.

    >>> x = np.arange(8.0)[:, None]
    >>> table = Table(("a", "b"), np.hstack([x, x % 2]), 100 + 50 * (x[:, 0] % 2), np.ones(8), np.arange(8))
    >>> on_all(table, 1e-6).linear.coefficients.round(1).tolist()
    [0.0, 50.0]
    """
    if not len(table):
        raise ValueError("A regression needs at least one run.")
    values = table.filled()
    chosen = np.flatnonzero(scales(values, table.weight)[1] > 0)
    rho = spearman(values, table.target, table.weight)
    linear = ridge(values[:, chosen], table.target, table.weight, share)
    return _selection(table, rho, chosen, linear, ALL_BEYOND)


def _selection(table: Table, rho: Floats, chosen: np.ndarray, linear: Linear, beyond: float) -> Selection:
    """Return the linear model of the chosen columns."""
    values, target = table.filled(), table.target
    low, high = LOWEST * float(target.min()), HIGHEST * float(target.max())
    fitted = np.clip(linear.predict(values[:, chosen]), low, high)
    return Selection(
        table_names=table.names,
        chosen=tuple(int(i) for i in chosen),
        rho=rho,
        linear=linear,
        range=Range.of(values, beyond),
        low=low,
        high=high,
        deviation=_deviation(table, fitted, len(chosen) + 1),
        components=0,
        condition=_condition(values[:, chosen]),
    )


def _most(chosen: np.ndarray, rho: Floats, count: int) -> np.ndarray:
    """Return at most so many of the chosen, those with the largest |rho|, in their order."""
    order = np.argsort(-np.abs(rho[chosen]), kind="stable")
    return np.sort(chosen[order[:count]])


def _deviation(table: Table, fitted: Floats, coefficients: int) -> float:
    """Return the deviation of ln of the target about what was fitted, with so many coefficients."""
    share = table.weight / table.weight.sum()
    left = max(len(table) - coefficients, 1)
    square = float(share @ np.log(table.target / fitted) ** 2)
    return max(float(np.sqrt(square * len(table) / left)), DEVIATION_MIN)


def _condition(columns: Floats) -> float:
    """Return the condition number of the correlations of the columns, 1 without any: large where they say the same."""
    if columns.shape[1] < 2:
        return 1.0
    spread = columns.std(axis=0)
    found = np.linalg.eigvalsh(np.corrcoef(columns[:, spread > 0].T)) if (spread > 0).sum() > 1 else np.ones(1)
    return float(found[-1] / max(found[0], 1e-12))
