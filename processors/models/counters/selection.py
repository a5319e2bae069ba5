"""The counters that explain a target, and the linear model of them: MuMMI's performance-tuned supervised PCA.

1. Counters that correlate with the target by rank. 2. A regression on them, 3. without those whose coefficient is
negligible. 4. Principal components of the rest; 5. the counters that take part in them. 6. The final linear model.
(C. Lively et al., "E-AMOM: an energy-aware modeling and optimization methodology", 2014, describe the same steps.)

Where there are fewer runs than counters plain regression has no one answer: step 2 takes a little ridge on scaled
columns, and the final model has at most as many counters as runs allow. Where no counter survives these steps `on_all` has a
regression on all of them; `processors.models.counters.linear` says when it answers.
"""

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from processors.models.numerics.arrays import Floats
from processors.models.training.table import RowPredictions, RunTable

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
class ColumnRange:
    """How far a model follows each column: the range that was seen, and so many times its width beyond either end.

    >>> ColumnRange.of(np.array([[1.0], [3.0]]), 0.5).apply(np.array([[9.0], [2.0]])).tolist()
    [[4.0], [2.0]]
    """

    low: Floats
    high: Floats

    @classmethod
    def of(cls, values: Floats, beyond: float) -> "ColumnRange":
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
    >>> table = RunTable(("a", "b", "c"), x, 100 + 50 * x[:, 1], np.ones(30), np.arange(30))
    >>> found = select(table)
    >>> found.names, found.linear.coefficients.round().tolist()
    (('b',), [50.0])
    """

    table_names: tuple[str, ...]
    chosen: tuple[int, ...]
    rho: Floats
    linear: Linear
    range: ColumnRange
    low: float
    high: float
    deviation: float
    components: int
    condition: float

    @property
    def names(self) -> tuple[str, ...]:
        """The counters of the final model."""
        return tuple(self.table_names[i] for i in self.chosen)

    def predict(self, values: Floats) -> RowPredictions:
        """Return the target of rows (m, p) of the table's columns, none missing."""
        found = np.clip(self.linear.predict(self.range.apply(values)[:, list(self.chosen)]), self.low, self.high)
        return RowPredictions(found, np.full(len(found), self.deviation))


def select(table: RunTable, thresholds: Thresholds | None = None) -> Selection:
    """Return the selection of a table of at least one run; the mean of the target where no counter survives.

    Raises ValueError for a table without runs.

    >>> select(RunTable((), np.zeros((2, 0)), np.array([3.0, 5.0]), np.ones(2), np.arange(2))).predict(np.zeros((1, 0))).value
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


def on_all(table: RunTable, share: float) -> Selection:
    """Return the regression on all columns that move, with this share of ridge; ValueError for a table without runs.

    >>> x = np.arange(8.0)[:, None]
    >>> table = RunTable(("a", "b"), np.hstack([x, x % 2]), 100 + 50 * (x[:, 0] % 2), np.ones(8), np.arange(8))
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


def _selection(table: RunTable, rho: Floats, chosen: np.ndarray, linear: Linear, beyond: float) -> Selection:
    """Return the linear model of the chosen columns."""
    values, target = table.filled(), table.target
    low, high = LOWEST * float(target.min()), HIGHEST * float(target.max())
    fitted = np.clip(linear.predict(values[:, chosen]), low, high)
    return Selection(
        table_names=table.names,
        chosen=tuple(int(i) for i in chosen),
        rho=rho,
        linear=linear,
        range=ColumnRange.of(values, beyond),
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


def _deviation(table: RunTable, fitted: Floats, coefficients: int) -> float:
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


Mask = npt.NDArray[np.bool_]

FOLDS: Final = 5
CLUSTERS: Final = 4
ROUNDS: Final = 25  # of k-means
REST_MIN: Final = 8  # runs that stay where a cluster is left out
ROWS_MAX: Final = 256  # that a distance is taken to
DEVIATIONS_MAX: Final = 6.0  # one counter is further away by no more than this
SHARE: Final = 0.9  # of the runs of a kind of leaving out are no further away than its distance
RATIO_MIN: Final = 1.2  # between the two distances
DISTANCE_MIN: Final = 1e-3  # deviations: counters are not more exact
UNKNOWN_FACTOR: Final = 2.0  # times the error near, where no cluster could be left out
OFF_MAX: Final = 0.5  # one run counts for at most this, in ln
ERROR_MIN: Final = 1e-4


class Parts(NamedTuple):
    """Runs to leave out: `near`, fifths of the groups, and `far`, clusters of them; each a mask (k,).

    >>> table = RunTable(("a",), np.arange(40.0)[:, None], np.ones(40), np.ones(40), np.arange(40))
    >>> found = parts(table)
    >>> len(found.near), [int(out.sum()) for out in found.far]
    (5, [10, 10, 10, 10])
    """

    near: tuple[Mask, ...]
    far: tuple[Mask, ...]


def parts(table: RunTable) -> Parts:
    """Return what to leave out of a table; `near` is all of it where that is one group, `far` nothing where runs are few.

    >>> [int(out.sum()) for out in parts(RunTable(("a",), np.ones((3, 1)), np.ones(3), np.ones(3), np.zeros(3, int))).near]
    [3]
    """
    groups, group = np.unique(table.group, return_inverse=True)
    near = tuple(group % FOLDS == fold for fold in range(min(FOLDS, len(groups))))
    if len(groups) < 2 * CLUSTERS or not table.names:
        return Parts(near, ())
    values = table.filled()
    count = np.bincount(group)[:, None]
    means = np.stack([np.bincount(group, column) for column in values.T], axis=1) / count
    cluster = clusters(_deviations(means, *scales(means, np.ones(len(means)))), CLUSTERS)[group]
    whole = (cluster == number for number in range(CLUSTERS))
    return Parts(near, tuple(out for out in whole if out.any() and (~out).sum() >= REST_MIN))


def clusters(rows: Floats, count: int) -> npt.NDArray[np.int64]:
    """Return the cluster of each row (k, p): k-means (S. Lloyd, 1982) that begins with parts of the first principal axis.

    >>> clusters(np.array([[0.0], [9.0], [1.0], [8.0]]), 2).tolist()
    [0, 1, 0, 1]
    """
    axis = np.linalg.eigh(rows.T @ rows)[1][:, -1]
    order = np.argsort(rows @ axis, kind="stable")
    centres = np.array([rows[at].mean(axis=0) for at in np.array_split(order, count)])
    found = np.zeros(len(rows), np.int64)
    for _ in range(ROUNDS):
        found = np.argmin(_squares(rows, centres), axis=1)
        alike = [found == number for number in range(count)]
        centres = np.array(
            [rows[at].mean(axis=0) if at.any() else centre for at, centre in zip(alike, centres, strict=True)]
        )
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Distance:
    """How far rows are from the runs of a table: 0 as near as runs are to others, 1 as far as one cluster is from the rest.

    >>> table = RunTable(("a",), np.arange(40.0)[:, None], np.ones(40), np.ones(40), np.arange(40))
    >>> Distance.of(table, parts(table)).far(np.array([[20.5], [43.0], [1000.0]])).round(2).tolist()
    [0.0, 0.66, 1.0]
    """

    mean: Floats
    deviation: Floats
    rows: Floats
    near: float
    ratio: float

    @classmethod
    def of(cls, table: RunTable, left_out: Parts) -> "Distance":
        """Return the distances of a table with columns, and what was left out of it."""
        at = thinned(len(table))
        mean, deviation = scales(table.filled(), table.weight)
        rows = _deviations(table.filled()[at], mean, deviation)
        between = _squares(rows, rows)
        near = _reach(between, [out[at] for out in left_out.near])
        far = _reach(between, [out[at] for out in left_out.far])
        return cls(mean, deviation, rows, near, max(far / near, RATIO_MIN))

    def far(self, values: Floats) -> Floats:
        """Return how far rows (m, p) are, none missing, from 0 to 1."""
        nearest = _root(_squares(_deviations(values, self.mean, self.deviation), self.rows).min(axis=1))
        return np.asarray(np.clip(np.log(nearest / self.near) / np.log(self.ratio), 0.0, 1.0))


class ErrorByDistance(NamedTuple):
    """The mean |ln ratio| of runs that were left out, of those near and those far, and the deviation of the ln of these ratios.

    >>> ErrorByDistance(0.02, 0.04, 0.03, 0.06).at(np.array([0.5])).round(3).tolist()
    [0.03]
    """

    near: float
    far: float
    near_deviation: float
    far_deviation: float

    def at(self, far: Floats) -> Floats:
        """Return the error so far away, (m,)."""
        return np.maximum(self.near + far * (self.far - self.near), ERROR_MIN)

    def deviation(self, far: Floats) -> Floats:
        """Return the deviation so far away, (m,); a far answer is no surer than a near one."""
        return np.asarray(self.near_deviation + far * max(self.far_deviation - self.near_deviation, 0.0))


class ErrorSums(NamedTuple):
    """How far off a model was on runs that were left out: sums, weighed by runs, of the weight, |ln ratio| and its square.

    >>> ErrorSums().plus(np.array([0.1, -0.3]), np.array([1.0, 1.0]))
    ErrorSums(weight=2.0, error=0.4, square=0.1)
    """

    weight: float = 0.0
    error: float = 0.0
    square: float = 0.0

    def plus(self, off: Floats, weight: Floats) -> "ErrorSums":
        """Return the sums with these ln of ratios (m,) of runs of these weights (m,)."""
        near = np.minimum(np.abs(off), OFF_MAX)
        return ErrorSums(
            self.weight + float(weight.sum()), self.error + float(weight @ near), self.square + float(weight @ near**2)
        )

    @property
    def mean(self) -> float:
        """The mean |ln ratio|."""
        return self.error / self.weight if self.weight > 0 else 0.0

    @property
    def deviation(self) -> float:
        """The deviation of the ln of ratios."""
        return float(np.sqrt(self.square / self.weight)) if self.weight > 0 else 0.0


def errors(near: float, deviation: float, far: ErrorSums) -> ErrorByDistance:
    """Return the errors of a model that is off by this near; where no cluster could be left out it is UNKNOWN_FACTOR times that far.

    >>> errors(0.2, 0.3, ErrorSums()).far
    0.4
    """
    if far.weight > 0:
        return ErrorByDistance(near, far.mean, deviation, far.deviation)
    return ErrorByDistance(near, UNKNOWN_FACTOR * near, deviation, UNKNOWN_FACTOR * deviation)


def thinned(count: int) -> npt.NDArray[np.int64]:
    """Return the places of at most ROWS_MAX of so many runs, spread evenly.

    >>> len(thinned(1000)), thinned(3).tolist()
    (256, [0, 1, 2])
    """
    stays = min(count, ROWS_MAX)
    return np.arange(stays) * count // max(stays, 1)


def _reach(between: Floats, left_out: list[Mask]) -> float:
    """Return how far most of the runs that are left out are from the nearest that stays."""
    nearest = [_root(between[np.ix_(out, ~out)].min(axis=1)) for out in left_out if out.any() and not out.all()]
    return float(np.quantile(np.concatenate(nearest), SHARE)) if nearest else DISTANCE_MIN


def _deviations(values: Floats, mean: Floats, deviation: Floats) -> Floats:
    return np.clip(scaled(values, mean, deviation), -DEVIATIONS_MAX, DEVIATIONS_MAX)


def _squares(a: Floats, b: Floats) -> Floats:
    """Return the mean squares of the differences of rows (m, p) and (k, p), (m, k)."""
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2.0 * (a @ b.T)
    return np.asarray(np.maximum(squares, 0.0) / max(a.shape[1], 1))


def _root(squares: Floats) -> Floats:
    return np.maximum(np.sqrt(squares), DISTANCE_MIN)
