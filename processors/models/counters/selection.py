"""Selection of the counters that explain a target, and a linear model of them: MuMMI's performance-tuned supervised PCA.

Steps: 1. keep the counters whose rank correlates with the target; 2. fit a regression on these counters; 3. drop counters with
negligible coefficients; 4. find the principal components of the remaining counters; 5. keep the counters with large loadings;
6. fit the final linear model. C. Lively et al., "E-AMOM: an energy-aware modeling and optimization methodology", 2014, describe
the same steps.

With fewer runs than counters, plain regression has no unique solution. Step 2 is therefore a ridge regression on scaled columns,
and the final model has at most as many counters as the runs allow. The alternative `on_all` is a regression on all counters.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import add
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from processors.models.numerics.arrays import Bools, Floats, RowPredictions
from processors.models.numerics.statistics import spearman
from processors.models.training.table import RowModel, RunTable
from processors.models.training.trainer import FitState

STILL = 1e-9  # a column counts as constant if its standard deviation is below this share of its largest value


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """The linear model y = intercept + values @ coefficients (p,).

    `standard` (p,) are the coefficients for columns and target in units of their standard deviations.
    """

    intercept: float
    coefficients: Floats
    standard: Floats

    def predict(self, values: Floats) -> Floats:
        return np.asarray(self.intercept + values @ self.coefficients)


def scales(columns: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Return the weighted mean and standard deviation (p,) of each column (k, p); the deviation of a constant column is 0."""
    share = weight / weight.sum()
    mean = share @ columns
    deviation = np.sqrt(share @ (columns - mean) ** 2)
    return mean, np.where(deviation > STILL * np.abs(columns).max(axis=0, initial=0.0), deviation, 0.0)


def scaled(columns: Floats, mean: Floats, deviation: Floats) -> Floats:
    """Return the deviations of columns from their `mean`, in standard deviations; a constant column becomes 0."""
    return np.divide(columns - mean, deviation, out=np.zeros(columns.shape), where=deviation > 0)


def ridge(columns: Floats, target: Floats, weight: Floats, share: float) -> Linear:
    """Return the regression of the target (k,) on columns (k, p), each scaled to a standard deviation of 1.

    `share` times the sum of weights is added to the diagonal (A. Hoerl, R. Kennard, "Ridge regression", 1970).

    >>> x = np.array([[1.0], [2.0], [3.0]])
    >>> solution = ridge(x, 2.0 + 3.0 * x[:, 0], np.ones(3), 1e-9)
    >>> round(solution.intercept, 6), solution.coefficients.round(6).tolist(), solution.standard.round(6).tolist()
    (2.0, [3.0], [1.0])
    """
    mean, deviation = scales(columns, weight)
    centre, spread = (float(scale[0]) for scale in scales(target[:, None], weight))
    x, y = scaled(columns, mean, deviation), target - centre
    gram = x.T @ (weight[:, None] * x) + share * weight.sum() * np.eye(x.shape[1])
    solution = np.linalg.solve(gram, x.T @ (weight * y))
    coefficients = np.divide(solution, deviation, out=np.zeros(len(solution)), where=deviation > 0)
    standard = solution / spread if spread > 0 else np.zeros(len(solution))
    return Linear(centre - float(mean @ coefficients), coefficients, standard)


@dataclass(frozen=True, slots=True, eq=False)
class ColumnRange:
    """The range of each column to which a model clips its input: the observed range, extended on either side by a share of its width."""

    low: Floats
    high: Floats

    @classmethod
    def of(cls, values: Floats, beyond: float) -> "ColumnRange":
        """Return the range of the rows (k, p), k >= 1, extended by the share `beyond`."""
        low, high = values.min(axis=0), values.max(axis=0)
        return cls(low - beyond * (high - low), high + beyond * (high - low))

    def apply(self, values: Floats) -> Floats:
        """Return rows (m, p) clipped to the range."""
        return np.clip(values, self.low, self.high)


def loadings(columns: Floats, weight: Floats) -> Floats:
    """Return the largest |loading| (p,) of each column (k, p) on the leading principal components (K. Pearson, 1901).

    The leading components explain the share VARIANCE of the variance of the scaled columns. A loading is multiplied by the standard
    deviation of its component, divided by that of the first component.

    >>> x = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [3.0, 6.0, 0.0], [4.0, 8.0, 0.0]])
    >>> loadings(x, np.ones(4)).round(3).tolist()
    [0.707, 0.707, 0.0]
    """
    x = scaled(columns, *scales(columns, weight))
    share = weight / weight.sum()
    variance, vectors = np.linalg.eigh(x.T @ (share[:, None] * x))
    variance, vectors = np.maximum(variance[::-1], 0.0), vectors[:, ::-1]
    total = float(variance.sum())
    if total <= 0.0:
        return np.zeros(columns.shape[1])
    count = int(np.searchsorted(variance.cumsum() / total, VARIANCE - 1e-12)) + 1
    return np.asarray((np.abs(vectors[:, :count]) * np.sqrt(variance[:count] / variance[0])).max(axis=1))


SELECTION_RUNS_MIN: Final = 6
LOWEST: Final = 0.5  # least prediction, as a share of the least target
HIGHEST: Final = 1.5  # largest prediction, as a multiple of the largest target
DEVIATION_MIN: Final = 0.005
SELECTED_BEYOND: Final = 1.0  # extrapolation of a selected counter, as a multiple of its range
ALL_BEYOND: Final = 0.5  # extrapolation if all counters are used, because most of them are redundant


CORRELATION_MIN: Final = 0.6  # least |rho| of a selected counter
COEFFICIENT_MIN: Final = 0.001  # least |standardised coefficient| of a selected counter
VARIANCE: Final = 0.9  # share of the variance that the leading components hold
PART_MIN: Final = 0.3  # least loading of a selected counter, as a share of the largest
FIRST_RIDGE, FINAL_RIDGE = 1e-3, 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Selection(RowModel):
    """A linear model of the columns `chosen`, and the range to which it clips its input.

    `deviation` is the standard deviation of the residuals of ln of the target, corrected for the number of coefficients.

    >>> x = np.random.default_rng(1).random((30, 3))
    >>> selection = select(RunTable(("a", "b", "c"), x, 100 + 50 * x[:, 1], np.ones(30), np.arange(30)))
    >>> selection.chosen, selection.linear.coefficients.round().tolist()
    ((1,), [50.0])
    """

    chosen: tuple[int, ...]
    linear: Linear
    range: ColumnRange
    low: float
    high: float
    deviation: float

    def predict(self, values: Floats) -> RowPredictions:
        value = np.clip(self.linear.predict(self.range.apply(values)[:, list(self.chosen)]), self.low, self.high)
        return RowPredictions(value, np.full(len(value), self.deviation))


def select(table: RunTable) -> Selection:
    """Return a linear model of the counters that explain the target; it predicts the mean of the target if no counter qualifies.

    >>> select(RunTable((), np.zeros((2, 0)), np.array([3.0, 5.0]), np.ones(2), np.arange(2))).predict(np.zeros((1, 0))).value
    array([4.])
    """
    values, target, weight = table.filled(), table.target, table.weight
    rho = np.abs(spearman(values, target, weight)) if len(table) > 1 else np.zeros(values.shape[1])
    chosen = np.flatnonzero(rho >= CORRELATION_MIN)
    first = ridge(values[:, chosen], target, weight, FIRST_RIDGE)
    chosen = chosen[np.abs(first.standard) >= COEFFICIENT_MIN]
    part = loadings(values[:, chosen], weight)
    chosen = chosen[part >= PART_MIN * part.max(initial=0.0)]
    strongest = np.argsort(-rho[chosen], kind="stable")[: max(len(table) - 2, 0)]
    return _selection(table, np.sort(chosen[strongest]), FINAL_RIDGE, SELECTED_BEYOND)


def on_all(table: RunTable, share: float) -> Selection:
    """Return a ridge regression on all columns that are not constant, for a table with runs.

    >>> x = np.arange(8.0)[:, None]
    >>> table = RunTable(("a", "b"), np.hstack([x, x % 2]), 100 + 50 * (x[:, 0] % 2), np.ones(8), np.arange(8))
    >>> on_all(table, 1e-6).linear.coefficients.round(1).tolist()
    [0.0, 50.0]
    """
    return _selection(table, np.flatnonzero(scales(table.filled(), table.weight)[1] > 0), share, ALL_BEYOND)


def _selection(table: RunTable, chosen: np.ndarray, share: float, beyond: float) -> Selection:
    values, target = table.filled(), table.target
    linear = ridge(values[:, chosen], target, table.weight, share)
    low, high = LOWEST * float(target.min()), HIGHEST * float(target.max())
    fitted = np.clip(linear.predict(values[:, chosen]), low, high)
    weight = table.weight / table.weight.sum()
    square = float(weight @ np.log(target / fitted) ** 2) * len(table) / max(len(table) - len(chosen) - 1, 1)
    deviation = max(float(np.sqrt(square)), DEVIATION_MIN)
    return Selection(tuple(chosen.tolist()), linear, ColumnRange.of(values, beyond), low, high, deviation)


FOLDS: Final = 5
CLUSTERS: Final = 4
ROUNDS: Final = 25  # rounds of k-means
REST_MIN: Final = 8  # runs that must remain when a cluster is left out
ROWS_MAX: Final = 256  # most runs in matrices and distances; larger tables are thinned
DEVIATIONS_MAX: Final = 6.0  # largest distance in one counter, in standard deviations
SHARE: Final = 0.9  # quantile of the distances of left-out runs that defines near and far
RATIO_MIN: Final = 1.2  # least ratio of the far distance to the near distance
DISTANCE_MIN: Final = 1e-3  # least distance in standard deviations, because counters are not more exact
UNKNOWN_FACTOR: Final = 2.0  # ratio of the far error to the near error if no cluster could be left out
OFF_MAX: Final = 0.5  # largest |ln ratio| with which one run enters an error
ERROR_MIN: Final = 1e-4


class Parts(NamedTuple):
    """Masks (k,) of runs to leave out, for errors near known runs and far from them.

    Each mask in `near` is a fifth of the groups, each mask in `far` a cluster of similar groups.

    >>> table = RunTable(("a",), np.arange(40.0)[:, None], np.ones(40), np.ones(40), np.arange(40))
    >>> found = parts(table)
    >>> len(found.near), [int(out.sum()) for out in found.far]
    (5, [10, 10, 10, 10])
    """

    near: tuple[Bools, ...]
    far: tuple[Bools, ...]


def parts(table: RunTable) -> Parts:
    """Return the masks of the runs to leave out of a table.

    If all runs are one group, the only mask in `near` is the whole table; with few groups, `far` is empty.
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
    return Parts(near, tuple(mask for mask in whole if mask.any() and (~mask).sum() >= REST_MIN))


def clusters(rows: Floats, count: int) -> npt.NDArray[np.int64]:
    """Return the cluster of each row (k, p) by k-means (S. Lloyd, 1982), starting from sections along the first principal axis.

    >>> clusters(np.array([[0.0], [9.0], [1.0], [8.0]]), 2).tolist()
    [0, 1, 0, 1]
    """
    axis = np.linalg.eigh(rows.T @ rows)[1][:, -1]
    order = np.argsort(rows @ axis, kind="stable")
    centres = np.array([rows[members].mean(axis=0) for members in np.array_split(order, count)])
    nearest = np.zeros(len(rows), np.int64)
    for _ in range(ROUNDS):
        nearest = np.argmin(_squares(rows, centres), axis=1)
        masks = [nearest == number for number in range(count)]
        pairs = zip(masks, centres, strict=True)
        centres = np.array([rows[members].mean(axis=0) if members.any() else centre for members, centre in pairs])
    return nearest


@dataclass(frozen=True, slots=True, eq=False)
class Distance:
    """The distance of a row from the runs of a table, scaled to 0 (near) to 1 (far).

    It is 0 up to the distance at which left-out groups lie from the other runs, and 1 from the distance of left-out clusters on.

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
        retained = thinned(len(table))
        mean, deviation = scales(table.filled(), table.weight)
        rows = _deviations(table.filled()[retained], mean, deviation)
        between = _squares(rows, rows)
        near, far = (_reach(between, [mask[retained] for mask in masks]) for masks in left_out)
        return cls(mean, deviation, rows, near, max(far / near, RATIO_MIN))

    def far(self, values: Floats) -> Floats:
        """Return the distance of rows (m, p) without missing values, from 0 (near) to 1 (far)."""
        nearest = _root(_squares(_deviations(values, self.mean, self.deviation), self.rows).min(axis=1))
        return np.asarray(np.clip(np.log(nearest / self.near) / np.log(self.ratio), 0.0, 1.0))


class ErrorByDistance(NamedTuple):
    """Errors of left-out runs near known runs and far from them: means of |ln(actual / predicted)|, and standard deviations of this ln."""

    near: float
    far: float
    near_deviation: float
    far_deviation: float

    def at(self, far: Floats) -> Floats:
        return np.maximum(self.near + far * (self.far - self.near), ERROR_MIN)

    def deviation(self, far: Floats) -> Floats:
        """Return the standard deviation of ln(actual / predicted) at distances (m,), 0 (near) to 1 (far); it never falls with the distance."""
        return np.asarray(self.near_deviation + far * max(self.far_deviation - self.near_deviation, 0.0))


class ErrorSums(NamedTuple):
    """Sums over left-out runs: of weights, of weighted |ln(actual / predicted)|, and of weighted squares of this ln."""

    weight: float = 0.0
    error: float = 0.0
    square: float = 0.0

    def plus(self, ln_ratios: Floats, weight: Floats) -> "ErrorSums":
        """Return the sums with further runs, given their ln(actual / predicted) and weights, (m,) each; every |ln| is limited to OFF_MAX."""
        clipped = np.minimum(np.abs(ln_ratios), OFF_MAX)
        further = float(weight.sum()), float(weight @ clipped), float(weight @ clipped**2)
        return ErrorSums(*map(add, self, further))

    @property
    def mean(self) -> float:
        return self.error / self.weight if self.weight > 0 else 0.0

    @property
    def deviation(self) -> float:
        return float(np.sqrt(self.square / self.weight)) if self.weight > 0 else 0.0


def errors(near: float, deviation: float, far: ErrorSums) -> ErrorByDistance:
    """Return the errors near known runs (`near`, `deviation`) and far from them, from the sums `far` over left-out clusters.

    If no cluster could be left out, errors and deviations far away are UNKNOWN_FACTOR times those near known runs.
    """
    if far.weight > 0:
        return ErrorByDistance(near, far.mean, deviation, far.deviation)
    return ErrorByDistance(near, UNKNOWN_FACTOR * near, deviation, UNKNOWN_FACTOR * deviation)


def thinned(count: int) -> npt.NDArray[np.int64]:
    """Return at most ROWS_MAX evenly spread positions of `count` runs."""
    stays = min(count, ROWS_MAX)
    return np.arange(stays) * count // max(stays, 1)


def _reach(between: Floats, left_out: list[Bools]) -> float:
    """Return the distance from a left-out run to its nearest other run that the share SHARE of the left-out runs does not exceed.

    `between` (k, k) are squared distances, `left_out` masks (k,). The result is DISTANCE_MIN if no run could be left out.
    """
    nearest = [_root(between[np.ix_(mask, ~mask)].min(axis=1)) for mask in left_out if mask.any() and not mask.all()]
    return float(np.quantile(np.concatenate(nearest), SHARE)) if nearest else DISTANCE_MIN


def _deviations(values: Floats, mean: Floats, deviation: Floats) -> Floats:
    return np.clip(scaled(values, mean, deviation), -DEVIATIONS_MAX, DEVIATIONS_MAX)


def _squares(a: Floats, b: Floats) -> Floats:
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2.0 * (a @ b.T)
    return np.asarray(np.maximum(squares, 0.0) / max(a.shape[1], 1))


def _root(squares: Floats) -> Floats:
    return np.maximum(np.sqrt(squares), DISTANCE_MIN)


RIDGES: Final = (0.01, 0.03, 0.1, 0.3, 1.0)
MARGIN: Final = 2 / 3  # all counters are used if their error is below this share of the error of the selection
ALIKE: Final = 1.1  # of all ridges with an error within this factor of the least error, the strongest is used
_WAYS: Final[Sequence[Callable[[RunTable], Selection]]] = (select, *(partial(on_all, share=share) for share in RIDGES))


@dataclass(frozen=True, slots=True, eq=False)
class LinearModel(RowModel):
    """A linear model with its errors on left-out runs.

    >>> x = np.arange(1.0, 9.0)[:, None]
    >>> from processors.models.counters.selection import parts
    >>> from processors.models.training.table import finished
    >>> table = RunTable(("a",), x, 10 * x[:, 0], np.ones(8), np.arange(8))
    >>> found = finished(fitting_linear(table, parts(table)))
    >>> found.predict(np.array([[3.5]])).value.round(2).tolist()
    [35.0]
    """

    selection: Selection
    errors: ErrorByDistance

    def predict(self, values: Floats) -> RowPredictions:
        """Return the predictions for rows (m, p), with the deviation on left-out runs."""
        value = self.selection.predict(values).value
        return RowPredictions(value, np.full(len(value), max(self.errors.near_deviation, self.selection.deviation)))


def fitting_linear(
    table: RunTable, left_out: Parts, state: FitState | None = None
) -> Generator[FitState, None, LinearModel]:
    """Yield the state after each left-out part and return the linear model. Raise ValueError for fewer than SELECTION_RUNS_MIN runs."""
    if len(table) < SELECTION_RUNS_MIN:
        raise ValueError(f"A linear model of counters needs {SELECTION_RUNS_MIN} runs.")
    nothing = [list(ErrorSums()) for _ in _WAYS]
    progress: FitState = state or {"parts": 0, "near": nothing, "far": nothing}
    masks = [(kind, mask) for kind, masks in left_out._asdict().items() for mask in masks]
    for kind, mask in masks[progress["parts"] :]:
        ratios, weight = _off(table, mask), table.weight[mask]
        sums = [list(ErrorSums(*stored).plus(off, weight)) for stored, off in zip(progress[kind], ratios, strict=True)]
        progress = {**progress, kind: sums, "parts": progress["parts"] + 1}
        yield progress
    return linear_model(table, progress)


def linear_model(table: RunTable, state: FitState) -> LinearModel:
    """Rebuild the linear model of a table from the state of its finished fit."""
    errors_by_way = [
        errors(ErrorSums(*near).mean, ErrorSums(*near).deviation, ErrorSums(*far))
        for near, far in zip(state["near"], state["far"], strict=True)
    ]
    least = min(map(_both, errors_by_way[1:]))
    # the strongest ridge whose error is close to the least error; weaker ridges have larger errors on other runs
    best = max(i for i, error in enumerate(errors_by_way) if i and _both(error) <= ALIKE * least)
    selected = select(table)
    if selected.chosen and _both(errors_by_way[best]) >= MARGIN * _both(errors_by_way[0]):
        return LinearModel(selected, errors_by_way[0])
    return LinearModel(_WAYS[best](table), errors_by_way[best])


def _off(table: RunTable, held_out: Bools) -> list[Floats]:
    """Return ln(actual / predicted) of the runs in `held_out`, one array for each of _WAYS, fitted to the other runs.

    If `held_out` has all runs, because they are one group, the fit includes the predicted runs.
    """
    rest = table if held_out.all() else table.rows(~held_out)
    rows, target = rest.filled(table.values[held_out]), table.target[held_out]
    return [np.log(target / way(rest).predict(rows).value) for way in _WAYS]


def _both(error: ErrorByDistance) -> float:
    return error.near + error.far
