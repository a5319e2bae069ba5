"""Runs as a table of columns with one target, predictions for its rows, and track records of models."""

import math
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from processors.models.numerics.arrays import Floats, PlainData, RowPredictions
from processors.models.numerics.conformal import DEVIATION_MIN, ConformalRadius, PredictedBand
from processors.models.numerics.statistics import Z95

# The track record of a model compares its predictions with the actual values, in the order of the runs.
# Bands are conformal (`processors.models.numerics.conformal`), so they cover the promised share of runs for any model.

ERROR_RATE: Final = 0.05  # weight of the newest error
LEVEL_RATE: Final = 0.05
LEVEL_STEP: Final = 0.1  # largest error, in ln, by which one run moves the level
LEVEL_MAX: Final = 0.7  # in ln; a model that is wrong by more than a factor of two was fitted to another application
ERROR_MAX: Final = 2.0  # largest counted error of one run, in ln


@dataclass(slots=True)
class TrackRecord(PlainData):
    """How well one model has predicted one target: `error` is the recent mean of |ln(actual / predicted)| over `scored` runs.

    `level` is the recent mean of ln(actual / predicted). It corrects a model that is always wrong by the same factor, for example on
    a host that draws more power than others; `error` is measured after this correction.

    >>> tracked = TrackRecord()
    >>> for _ in range(100):
    ...     tracked.learn(400.0, 0.02, 408.0)
    >>> round(tracked.band(400.0, 0.02).value), tracked.scored
    (408, 100)
    """

    radius: ConformalRadius = field(default_factory=ConformalRadius)
    level: float = 0.0
    error: float = 0.0
    scored: int = 0

    def levelled(self, value: float) -> float:
        return value * math.exp(self.level)

    def band(self, value: float, deviation: float) -> PredictedBand:
        return self.radius.band(self.levelled(value), deviation)

    def learn(self, value: float, deviation: float, actual: float) -> None:
        """Score the predicted `value` against the actual value; ValueError unless both are positive and finite."""
        if not (0.0 < value < math.inf and 0.0 < actual < math.inf):
            raise ValueError("Predicted and actual values must be positive and finite.")
        off = math.log(actual / value) - self.level
        self.radius.learn(abs(off) / max(deviation, DEVIATION_MIN))
        self.scored += 1
        rate = max(ERROR_RATE, 1.0 / self.scored)
        self.error += rate * (min(abs(off), ERROR_MAX) - self.error)
        moved = self.level + LEVEL_RATE * min(max(off, -LEVEL_STEP), LEVEL_STEP)
        self.level = min(max(moved, -LEVEL_MAX), LEVEL_MAX)


def best(comparison: Mapping[str, TrackRecord], prior: Mapping[str, float], prior_count: float = 5.0) -> str | None:
    """Return the name of the model with the least expected error; None without models.

    The expected error is a weighted mean of the recorded error and of `prior`, the error of the model's fit, which counts as
    `prior_count` runs. Among equal models the first by name wins.
    """

    def expected(name: str) -> tuple[float, str]:
        tracked = comparison.get(name, TrackRecord())
        count = min(tracked.scored, 1.0 / ERROR_RATE)
        return (prior[name] * prior_count + tracked.error * count) / (prior_count + count), name

    return min(prior, key=expected, default=None)


Step = TypeVar("Step")
Result = TypeVar("Result")

CHOICE: Final = "="  # marks a column name=word: 1 for runs that chose this word


class Steps(Generic[Step, Result]):
    """The steps of a generator; after the last step, `result` has the value that the generator returned."""

    result: Result

    def __init__(self, steps: Generator[Step, None, Result]) -> None:
        self._steps = steps

    def __iter__(self) -> Iterator[Step]:
        self.result = yield from self._steps


def finished(steps: Generator[object, None, Result]) -> Result:
    """Run all steps of a generator and return its result."""
    all_steps = Steps(steps)
    deque(all_steps, maxlen=0)
    return all_steps.result


def in_one_step(fit: Callable[["RunTable"], Result], table: "RunTable") -> Generator[None, None, Result]:
    """Fit a model to a table in a single step."""
    model = fit(table)
    yield
    return model


class RowModel(Protocol):
    """A fitted model that predicts one target for rows (m, p), which have the columns of its table and no missing value."""

    def predict(self, values: Floats) -> RowPredictions:
        """Return the prediction for each row."""

    def besides(self, values: Floats) -> Floats:
        """Return the share of each run time (m,) that is not a cost of communication, for rows `values` (m, p); 1 without such costs."""
        return np.ones(len(values))

    def importances(self) -> Floats:
        """Return the share of each column (p,) in the explained variation, sum 1; all 0, or empty, if the model explains nothing."""
        return np.zeros(0)


class FittedModel(RowModel, Protocol):
    """A model that also reports the error of its fit."""

    @property
    def error(self) -> float:
        """The mean |predicted / actual - 1| on runs that the fit left out, or an estimate of this mean."""


@dataclass(frozen=True, eq=False)
class RunTable:
    """The inputs of k runs and one target: `values` (k, p) of the columns `names`, nan if missing, and positive `target` (k,).

    `weight` (k,) is the weight of each run. Runs with the same number in `group` (k,) are repeats and are always left out of a fit
    together. `shared` caches results that depend only on values and weights; tables of the same runs with other targets share it.

    >>> table = RunTable(("a", "b"), np.array([[1.0, np.nan], [3.0, 2.0]]), np.array([5.0, 6.0]), np.ones(2), np.arange(2))
    >>> table.filled().tolist(), table.row({"b": 7.0}).tolist()
    ([[1.0, 2.0], [3.0, 2.0]], [[2.0, 7.0]])
    """

    names: tuple[str, ...]
    values: Floats
    target: Floats
    weight: Floats
    group: npt.NDArray[np.int64]
    shared: dict[Any, Any] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.target)

    @cached_property
    def means(self) -> Floats:
        """Return the value (p,) that replaces missing values of a column: its mean, or 0 for a choice that was not made."""
        number = np.array([CHOICE not in name for name in self.names], dtype=bool)
        known = np.isfinite(self.values) & number
        total = np.where(known, self.values, 0.0).sum(axis=0)
        return np.asarray(total / np.maximum(known.sum(axis=0), 1))

    def filled(self, values: Floats | None = None) -> Floats:
        """Return `values` (m, p), by default those of the table, with missing values replaced by `means`."""
        raw = self.values if values is None else values
        return np.where(np.isfinite(raw), raw, self.means)

    def row(self, values: dict[str, float]) -> Floats:
        """Return named values as one row (1, p): unknown names are ignored, missing values are replaced by `means`."""
        return self.filled(np.array([[values.get(name, np.nan) for name in self.names]]))

    def like(self, other: "RunTable") -> bool:
        """Return whether another table has the same runs; only its target may differ."""
        arrays = ((self.weight, other.weight), (self.group, other.group), (self.values, other.values))
        return self.names == other.names and all(np.array_equal(a, b, equal_nan=True) for a, b in arrays)

    def only(self, names: tuple[str, ...]) -> "RunTable":
        """Return a table with only the columns `names`. Raise ValueError if a column does not exist."""
        columns = [self.names.index(name) for name in names]
        return RunTable(names, self.values[:, columns], self.target, self.weight, self.group)

    def rows(self, at: npt.NDArray[np.integer] | npt.NDArray[np.bool_]) -> "RunTable":
        return RunTable(self.names, self.values[at], self.target[at], self.weight[at], self.group[at])


FOLDS: Final = 4


class FoldErrors(NamedTuple):
    """The errors of left-out runs: mean of |predicted / actual - 1|, and standard deviation of ln(actual / predicted)."""

    error: float
    deviation: float


def left_out(
    table: RunTable,
    fit: Callable[[RunTable], Generator[None, None, RowModel]],
    enough: float = math.inf,
) -> Generator[None, None, FoldErrors]:
    """Cross-validate `fit`: predict each fold of groups with a model fitted to the other folds. Yield between fits.

    Folds are skipped once `enough` runs have been predicted. If all runs are one group, the error is that on the fitted runs
    themselves. A ValueError from `fit` passes to the caller.
    """
    off = np.full(len(table), np.nan)
    fold = np.unique(table.group, return_inverse=True)[1] % FOLDS
    for number in range(int(fold.max(initial=0)) + 1):
        held_out = fold == number
        rest = table if held_out.all() else table.rows(~held_out)
        model = yield from fit(rest)
        off[held_out] = np.log(table.target[held_out] / model.predict(rest.filled(table.values[held_out])).value)
        yield
        if np.isfinite(off).sum() >= enough:
            break
    predicted = np.isfinite(off)
    off, share = off[predicted], table.weight[predicted] / table.weight[predicted].sum()
    return FoldErrors(float(share @ np.abs(np.expm1(-off))), spread(off, share))


def spread(off: Floats, weight: Floats) -> float:
    """Return the standard deviation of the ln ratios `off` (m,) for bands: 9 of 10 of them, weighted by `weight`, lie within 1.645 of it.

    The root mean square is not used: a few far runs changed it, and thus the bands, by a factor of two from fit to fit.

    >>> round(spread(np.r_[np.linspace(-1.645, 1.645, 99), 40.0], np.ones(100)), 1)
    0.9
    """
    size = np.abs(off)
    order = np.argsort(size)
    middle = np.cumsum(weight[order]) - weight[order] / 2
    return float(np.interp(0.9, middle / weight.sum(), size[order])) / Z95
