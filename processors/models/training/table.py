"""Runs as columns: what a model of one target is fitted to, and what it answers with."""

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
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


class Predicted(NamedTuple):
    """A model's answer to m rows: the target (m,), and the standard deviation of its ln (m,).

    >>> Predicted(np.array([400.0]), np.array([0.02])).value.tolist()
    [400.0]
    """

    value: Floats
    deviation: Floats


class Answering(Protocol):
    """A model of one target, fitted: rows (m, p) of its table in, none missing, answers out."""

    def predict(self, values: Floats) -> Predicted:
        """Return the target of each row."""


class Model(Answering, Protocol):
    """A model that also says how wrong it was."""

    @property
    def error(self) -> float:
        """The mean |ratio - 1| of runs that were left out when it was fitted, or an estimate of that."""


@dataclass(frozen=True, eq=False)
class Table:
    """k runs: `values` (k, p) of the columns `names`, nan where a run has none; `target` (k,) positive, `weight` (k,).

    `group` (k,) numbers runs that are repeats of one another: what one tells, the others know. `shared` is what was worked
    out of the values and weights alone, for other targets of the same runs.

    >>> table = Table(("a", "b"), np.array([[1.0, np.nan], [3.0, 2.0]]), np.array([5.0, 6.0]), np.ones(2), np.arange(2))
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
        asked = self.values if values is None else values
        return np.where(np.isfinite(asked), asked, self.means)

    def row(self, values: dict[str, float]) -> Floats:
        """Return named values as a row of this table, (1, p): unknown names are left out, missing ones as `filled`."""
        return self.filled(np.array([[values.get(name, np.nan) for name in self.names]]))

    def like(self, other: "Table") -> bool:
        """Tell whether another table is of the same runs: all is alike but the target."""
        same = self.names == other.names and np.array_equal(self.weight, other.weight)
        rows = same and np.array_equal(self.group, other.group)
        return rows and np.array_equal(self.values, other.values, equal_nan=True)

    def sharing(self, other: "Table") -> "Table":
        """Return this table, with what is worked out of its values in common with another one that is `like` it."""
        return replace(self, shared=other.shared)

    def only(self, names: tuple[str, ...]) -> "Table":
        """Return the table of these columns alone; KeyError where one is not there."""
        at = {name: i for i, name in enumerate(self.names)}
        return Table(names, self.values[:, [at[name] for name in names]], self.target, self.weight, self.group)

    def rows(self, at: npt.NDArray[np.integer] | npt.NDArray[np.bool_]) -> "Table":
        """Return the table of these runs alone."""
        return Table(self.names, self.values[at], self.target[at], self.weight[at], self.group[at])
