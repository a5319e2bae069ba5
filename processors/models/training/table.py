"""Runs as a table of columns with one target, predictions for its rows, and track records of models."""

import math
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from processors.models.numerics.arrays import Floats, RowPredictions
from processors.models.numerics.conformal import DEVIATION_MIN, ConformalRadius, PredictedBand
from processors.models.numerics.statistics import Z95

# The track record of a model: its predictions against the actual values, in the order of the runs.
# Bands are conformal (`processors.models.numerics.conformal`): they cover the promised share of runs whatever the model.

ERROR_RATE: Final = 0.05  # weight of the newest error
LEVEL_RATE: Final = 0.05
LEVEL_STEP: Final = 0.1  # largest error, in ln, by which one run moves the level
LEVEL_MAX: Final = 0.7  # ln; a model that is off by more than a factor of two saw another application
ERROR_MAX: Final = 2.0  # largest error that one run counts for, in ln


@dataclass(slots=True)
class TrackRecord:
    """The record of one model for one target: `error` is its recent mean |ln ratio|, `scored` the number of scored runs.

    `level` is the recent ln of actual over predicted: it corrects a model that is always off by the same factor, for
    example on a host that draws more power than others.

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
        """Score a prediction against the actual value; ValueError unless both are positive and finite."""
        if not (0.0 < value < math.inf and 0.0 < actual < math.inf):
            raise ValueError("Predicted and actual values must be positive and finite.")
        off = math.log(actual / value) - self.level
        self.radius.learn(abs(off) / max(deviation, DEVIATION_MIN))
        self.scored += 1
        rate = max(ERROR_RATE, 1.0 / self.scored)
        self.error += rate * (min(abs(off), ERROR_MAX) - self.error)
        moved = self.level + LEVEL_RATE * min(max(off, -LEVEL_STEP), LEVEL_STEP)
        self.level = min(max(moved, -LEVEL_MAX), LEVEL_MAX)

    def snapshot(self) -> dict[str, Any]:
        return {"radius": self.radius.snapshot(), "level": self.level, "error": self.error, "scored": self.scored}

    @classmethod
    def build(cls, state: Mapping[str, Any]) -> "TrackRecord":
        return cls(ConformalRadius.build(state["radius"]), state["level"], state["error"], state["scored"])


def best(comparison: Mapping[str, TrackRecord], prior: Mapping[str, float], prior_count: float = 5.0) -> str | None:
    """Return the name of the model with the least expected error; None without models.

    The expected error mixes `prior`, the error of each model's fit, with weight `prior_count` into the recorded errors. If
    two are equal the first name wins.
    """

    def expected(name: str) -> tuple[float, str]:
        tracked = comparison.get(name, TrackRecord())
        count = min(tracked.scored, 1.0 / ERROR_RATE)
        return (prior[name] * prior_count + tracked.error * count) / (prior_count + count), name

    return min(prior, key=expected, default=None)


Result = TypeVar("Result")

CHOICE: Final = "="  # marks a column name=word: 1 for runs that chose this word


def finished(steps: Generator[object, None, Result]) -> Result:
    """Run all steps of a generator and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


class RowModel(Protocol):
    """A fitted model that predicts one target from rows (m, p) of its table, none missing."""

    def predict(self, values: Floats) -> RowPredictions:
        """Return the prediction for each row."""

    def besides(self, values: Floats) -> Floats:
        """Return the share of each run time (m,) that is not a cost of the columns."""
        return np.ones(len(values))

    def importances(self) -> Floats:
        """Return the share of each column (p,) in the explanation, sum 1; all 0, or empty, if the model explains nothing."""
        return np.zeros(0)


class FittedModel(RowModel, Protocol):
    """A model that also reports the error of its fit."""

    @property
    def error(self) -> float:
        """The mean |ratio - 1| on runs that its fit left out, or an estimate of that."""


@dataclass(frozen=True, eq=False)
class RunTable:
    """k runs: `values` (k, p) of the columns `names`, nan if missing; `target` (k,) positive, `weight` (k,).

    `group` (k,) numbers runs that repeat one another; repeats must be left out of a fit together. `shared` caches results
    that depend on values and weights alone, for other targets of the same runs.

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
        """Return the values that replace missing ones, (p,): the mean of a column; 0 for a choice that was not made."""
        number = np.array([CHOICE not in name for name in self.names], dtype=bool)
        known = np.isfinite(self.values) & number
        total = np.where(known, self.values, 0.0).sum(axis=0)
        return np.asarray(total / np.maximum(known.sum(axis=0), 1))

    def filled(self, values: Floats | None = None) -> Floats:
        """Return values (m, p), by default those of the table, with missing ones replaced by `means`."""
        requested = self.values if values is None else values
        return np.where(np.isfinite(requested), requested, self.means)

    def row(self, values: dict[str, float]) -> Floats:
        """Return named values as one row (1, p): unknown names are ignored, missing values are replaced by `means`."""
        return self.filled(np.array([[values.get(name, np.nan) for name in self.names]]))

    def like(self, other: "RunTable") -> bool:
        """Return whether another table has the same runs, that is, differs in the target at most."""
        same = self.names == other.names and np.array_equal(self.weight, other.weight)
        rows = same and np.array_equal(self.group, other.group)
        return rows and np.array_equal(self.values, other.values, equal_nan=True)

    def only(self, names: tuple[str, ...]) -> "RunTable":
        """Return a table with these columns alone; KeyError if one does not exist."""
        position = {name: i for i, name in enumerate(self.names)}
        return RunTable(names, self.values[:, [position[name] for name in names]], self.target, self.weight, self.group)

    def rows(self, at: npt.NDArray[np.integer] | npt.NDArray[np.bool_]) -> "RunTable":
        return RunTable(self.names, self.values[at], self.target[at], self.weight[at], self.group[at])


FOLDS: Final = 4


class FoldErrors(NamedTuple):
    """The mean |ratio - 1| of left-out runs, and the deviation of the ln of these ratios."""

    error: float
    deviation: float


def left_out(
    table: RunTable,
    fit: Callable[[RunTable], Generator[None, None, RowModel]],
    folds: int = FOLDS,
    enough: float = math.inf,
) -> Generator[None, None, FoldErrors]:
    """Yield as the fits go on; return the errors of each fold of groups under a model fitted to the other folds.

    The loop stops once `enough` runs have been left out. If all runs are one group, no group can be left out, and the error is that
    of the fit itself. ValueError from `fit` passes to the caller.
    """
    off = np.full(len(table), np.nan)
    fold = np.unique(table.group, return_inverse=True)[1] % folds
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
    """Return the standard deviation of ln whose 90 % band holds nine of ten of the ln ratios `off` (m,), by `weight`.

    The root mean square depends on a few far runs: it changed by a factor of two from one fit to the next, and so did the bands
    that it scales.

    >>> round(spread(np.r_[np.linspace(-1.645, 1.645, 99), 40.0], np.ones(100)), 1)
    0.9
    """
    size = np.abs(off)
    order = np.argsort(size)
    middle = np.cumsum(weight[order]) - weight[order] / 2
    return float(np.interp(0.9, middle / weight.sum(), size[order])) / Z95
