"""Runs as columns: what a model of one target is fitted to, and what it answers with."""

import math
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from processors.models.numerics.arrays import Floats
from processors.models.numerics.conformal import AggregatedRadius
from processors.models.numerics.statistics import Z95

# A model's answers against what came, strictly in order: its error, its level, its band, and whom to believe.
# Bands are conformal (`processors.models.numerics.conformal`): the share of runs they hold is that of the past, whatever the model.

ERROR_RATE: Final = 0.05  # how quickly an error is forgotten
LEVEL_RATE: Final = 0.05
LEVEL_STEP: Final = 0.1  # one answer moves the level as if it had been off by at most this, in ln
LEVEL_MAX: Final = 0.7  # beyond a factor of two it is no level but another application
ERROR_MAX: Final = 2.0  # one answer counts for at most this, in ln
DEVIATION_MIN: Final = 1e-3


@dataclass(frozen=True, slots=True)
class PredictedBand:
    """What is expected, and between what most runs will lie.

    >>> PredictedBand(400.0, 380.0, 420.0).holds(419.0)
    True
    """

    value: float
    low: float
    high: float

    def holds(self, actual: float) -> bool:
        """Whether a value lies within."""
        return self.low <= actual <= self.high


@dataclass(slots=True)
class TrackRecord:
    """The answers of one model for one target. `error` is the mean |ln ratio| recently, `scored` how many there were.

    `level` follows where a model is off by the same factor all the time, such as a host that draws more than others.

    >>> tracked = TrackRecord()
    >>> for _ in range(100):
    ...     tracked.learn(400.0, 0.02, 408.0)
    >>> round(tracked.band(400.0, 0.02).value), tracked.scored
    (408, 100)
    """

    radius: AggregatedRadius = field(default_factory=AggregatedRadius)
    level: float = 0.0
    error: float = 0.0
    scored: int = 0

    def levelled(self, value: float) -> float:
        """Return a model's answer at the level that it was off by recently."""
        return value * math.exp(self.level)

    def band(self, value: float, deviation: float) -> PredictedBand:
        """Return the band about a model's answer (> 0) with this deviation of its ln."""
        middle = self.levelled(value)
        reach = min(self.radius.radius() * max(deviation, DEVIATION_MIN), 50.0)
        return PredictedBand(middle, middle * math.exp(-reach), middle * math.exp(reach))

    def learn(self, value: float, deviation: float, actual: float) -> None:
        """Take in what came after an answer; ValueError unless both are positive and finite."""
        if not (0.0 < value < math.inf and 0.0 < actual < math.inf):
            raise ValueError("Answers and what came are positive and finite.")
        off = math.log(actual / value) - self.level
        self.radius.learn(abs(off) / max(deviation, DEVIATION_MIN))
        self.scored += 1
        rate = max(ERROR_RATE, 1.0 / self.scored)
        self.error += rate * (min(abs(off), ERROR_MAX) - self.error)
        moved = self.level + LEVEL_RATE * min(max(off, -LEVEL_STEP), LEVEL_STEP)
        self.level = min(max(moved, -LEVEL_MAX), LEVEL_MAX)

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain data."""
        return {
            "radius": self.radius.snapshot(),
            "level": self.level,
            "error": self.error,
            "scored": self.scored,
        }

    @classmethod
    def build(cls, state: Mapping[str, Any]) -> "TrackRecord":
        """Return what a snapshot was taken of."""
        radius = AggregatedRadius.build(state["radius"])
        return cls(radius, state["level"], state["error"], state["scored"])


def best(comparison: Mapping[str, TrackRecord], prior: Mapping[str, float], prior_count: float = 5.0) -> str | None:
    """Return the name of the model to believe: that with the least error, where each brings `prior` (its error when fitted).

    The prior counts as `prior_count` answers; of those alike the first name. None without any.

    >>> good, bad = TrackRecord(error=0.02, scored=50), TrackRecord(error=0.05, scored=50)
    >>> best({"a": bad, "b": good}, {"a": 0.01, "b": 0.04})
    'b'
    """

    def expected(name: str) -> tuple[float, str]:
        tracked = comparison.get(name, TrackRecord())
        count = min(tracked.scored, 1.0 / ERROR_RATE)
        return (prior[name] * prior_count + tracked.error * count) / (prior_count + count), name

    return min(prior, key=expected, default=None)


Result = TypeVar("Result")

CHOICE: Final = "="  # in a name: one of several words, not a number


def finished(steps: Generator[object, None, Result]) -> Result:
    """Return the result of work that is done in steps, all at once.

    >>> def work():
    ...     yield
    ...     return 7
    >>> finished(work())
    7
    """
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


def silent(steps: Generator[object, None, Result]) -> Generator[None, None, Result]:
    """Yield as the steps go on, but not what they found, and return what they return.

    >>> def work():
    ...     yield {"tried": 1}
    ...     return 7
    >>> list(silent(work())), finished(silent(work()))
    ([None], 7)
    """
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
        yield


class RowPredictions(NamedTuple):
    """A model's answer to m rows: the target (m,), and the standard deviation of its ln (m,).

    >>> RowPredictions(np.array([400.0]), np.array([0.02])).value.tolist()
    [400.0]
    """

    value: Floats
    deviation: Floats


class RowModel(Protocol):
    """A model of one target, fitted: rows (m, p) of its table in, none missing, answers out."""

    def predict(self, values: Floats) -> RowPredictions:
        """Return the target of each row."""


class FittedModel(RowModel, Protocol):
    """A model that also says how wrong it was."""

    @property
    def error(self) -> float:
        """The mean |ratio - 1| of runs that were left out when it was fitted, or an estimate of that."""


@dataclass(frozen=True, eq=False)
class RunTable:
    """k runs: `values` (k, p) of the columns `names`, nan where a run has none; `target` (k,) positive, `weight` (k,).

    `group` (k,) numbers runs that are repeats of one another: what one tells, the others know. `shared` is what was worked
    out of the values and weights alone, for other targets of the same runs.

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
        """Return what stands for what is missing, (p,): the mean of a column; 0 for a choice, which was not made then."""
        number = np.array([CHOICE not in name for name in self.names], dtype=bool)
        known = np.isfinite(self.values) & number
        total = np.where(known, self.values, 0.0).sum(axis=0)
        return np.asarray(total / np.maximum(known.sum(axis=0), 1))

    def filled(self, values: Floats | None = None) -> Floats:
        """Return these values (m, p), the table's own by default, with `means` where one is missing."""
        requested = self.values if values is None else values
        return np.where(np.isfinite(requested), requested, self.means)

    def row(self, values: dict[str, float]) -> Floats:
        """Return named values as a row of this table, (1, p): unknown names are left out, missing ones as `filled`."""
        return self.filled(np.array([[values.get(name, np.nan) for name in self.names]]))

    def like(self, other: "RunTable") -> bool:
        """Return whether another table is of the same runs: all is alike but the target."""
        same = self.names == other.names and np.array_equal(self.weight, other.weight)
        rows = same and np.array_equal(self.group, other.group)
        return rows and np.array_equal(self.values, other.values, equal_nan=True)

    def sharing(self, other: "RunTable") -> "RunTable":
        """Return this table, with what is worked out of its values in common with another one that is `like` it."""
        return replace(self, shared=other.shared)

    def only(self, names: tuple[str, ...]) -> "RunTable":
        """Return the table of these columns alone; KeyError where one is not there."""
        at = {name: i for i, name in enumerate(self.names)}
        return RunTable(names, self.values[:, [at[name] for name in names]], self.target, self.weight, self.group)

    def rows(self, at: npt.NDArray[np.integer] | npt.NDArray[np.bool_]) -> "RunTable":
        """Return the table of these runs alone."""
        return RunTable(self.names, self.values[at], self.target[at], self.weight[at], self.group[at])


FOLDS: Final = 4


@dataclass(frozen=True, slots=True)
class FoldErrors:
    """The mean |ratio - 1| of runs that were left out, and the deviation of the ln of those ratios.

    >>> FoldErrors(0.02, 0.03).error
    0.02
    """

    error: float
    deviation: float


def left_out(
    table: RunTable,
    fit: Callable[[RunTable], Generator[None, None, RowModel]],
    folds: int = FOLDS,
    enough: float = math.inf,
) -> Generator[None, None, FoldErrors]:
    """Yield as the fits go on, and return the errors of each fold of the groups, which its fit did not see.

    Once `enough` runs were left out no further fold is. Where all runs are one group, none can be: the error is that of the
    fit itself. What `fit` raises for too few runs goes on to the caller.

    >>> import numpy as np
    >>> from processors.models.counters.model import fitting
    >>> from processors.models.training.table import finished
    >>> x = np.arange(1.0, 17.0)[:, None]
    >>> finished(left_out(RunTable(("a",), x, 10 * x[:, 0], np.ones(16), np.arange(16)), fitting)).error < 1e-3
    True
    """
    off = np.full(len(table), np.nan)
    fold = np.unique(table.group, return_inverse=True)[1] % folds
    for number in range(int(fold.max(initial=0)) + 1):
        out = fold == number
        rest = table if out.all() else table.rows(~out)
        model = yield from fit(rest)
        off[out] = np.log(table.target[out] / model.predict(rest.filled(table.values[out])).value)
        yield
        if np.isfinite(off).sum() >= enough:
            break
    known = np.isfinite(off)
    off, share = off[known], table.weight[known] / table.weight[known].sum()
    return FoldErrors(float(share @ np.abs(np.expm1(-off))), spread(off, share))


def spread(off: Floats, weight: Floats) -> float:
    """Return the deviation of ln that would have nine of ten runs as near as these, (m,) ln ratios with their weights.

    The root of the mean square is that of a few runs far out: from one fit to the next it changed by a factor of two, and
    bands that are scaled by it with it.

    >>> round(spread(np.r_[np.linspace(-1.645, 1.645, 99), 40.0], np.ones(100)), 1)
    0.9
    """
    size = np.abs(off)
    order = np.argsort(size)
    middle = np.cumsum(weight[order]) - weight[order] / 2
    return float(np.interp(0.9, middle / weight.sum(), size[order])) / Z95
