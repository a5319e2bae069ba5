"""What is expected of a run from its counters: the linear model of a few, and the one of all that bends.

Both are fitted to the same runs; how each did with the runs since says which one answers
(`processors.models.training.learner`). The linear one explains, whoever answers.
"""

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from processors.models.counters import smooth
from processors.models.counters.regression import Floats
from processors.models.counters.selection import RUNS_MIN, Explanation, Selection, select
from processors.models.training.kind import Found, Kind
from processors.models.training.learner import Learner
from processors.models.training.table import Model, Predicted, Table, finished

LINEAR: Final = "linear"
SMOOTH: Final = "smooth"
FOLDS: Final = 5


@dataclass(frozen=True, slots=True, eq=False)
class Few:
    """The linear model of a few counters, and its error when runs were left out.

    >>> x = np.arange(1.0, 9.0)[:, None]
    >>> found = few(Table(("a",), x, 10 * x[:, 0], np.ones(8), np.arange(8)))
    >>> found.predict(np.array([[3.5]])).value.round(2).tolist()
    [35.0]
    """

    selection: Selection
    error: float
    deviation: float

    def predict(self, values: Floats) -> Predicted:
        """Return the target of rows (m, p), with the deviation that left-out runs had."""
        found = self.selection.predict(values).value
        return Predicted(found, np.full(len(found), self.deviation))


def few(table: Table) -> Few:
    """Return the linear model of a table, all at once.

    Raises ValueError for less than RUNS_MIN runs.

    >>> few(Table((), np.zeros((1, 0)), np.ones(1), np.ones(1), np.arange(1)))
    Traceback (most recent call last):
    ValueError: A linear model of counters needs 6 runs.
    """
    return finished(fitting(table))


def fitting(table: Table, found: Found | None = None) -> Generator[Found, None, Few]:
    """Yield what was found after each part of the work, and return the linear model of a table.

    Its error is that of each fifth of the groups, left out of all of the steps of the selection.

    >>> x = np.arange(1.0, 9.0)[:, None]
    >>> [found["folds"] for found in fitting(Table(("a",), x, 10 * x[:, 0], np.ones(8), np.arange(8)))]
    [1, 2, 3, 4, 5]
    """
    if len(table) < RUNS_MIN:
        raise ValueError(f"A linear model of counters needs {RUNS_MIN} runs.")
    so_far: Found = found or {"folds": 0, "error": 0.0, "square": 0.0}
    share = table.weight / table.weight.sum()
    for fold in range(so_far["folds"], FOLDS):
        out = table.group % FOLDS == fold
        # where all runs are one group, none can be left out
        rest = table if out.all() else table.rows(~out)
        left = select(rest).predict(rest.filled(table.values[out])).value if out.any() else np.zeros(0)
        off = np.log(table.target[out] / left)
        so_far = {
            "folds": fold + 1,
            "error": so_far["error"] + float(share[out] @ np.abs(np.expm1(-off))),
            "square": so_far["square"] + float(share[out] @ off**2),
        }
        yield so_far
    return model(table, so_far)


def model(table: Table, found: Found) -> Few:
    """Return the linear model of a table again, from what its fit found in the end.

    >>> x = np.arange(1.0, 9.0)[:, None]
    >>> model(Table(("a",), x, 10 * x[:, 0], np.ones(8), np.arange(8)), {"error": 0.1, "square": 0.04}).deviation
    0.2
    """
    selection = select(table)
    return Few(selection, found["error"], max(math.sqrt(found["square"]), selection.deviation))


def explanation(learner: Learner) -> list[Explanation]:
    """Return the counters of a learner's linear model, the one that moves the target most first; [] before its first fit.

    >>> explanation(Learner("power_w", KINDS))
    []
    """
    model = learner.models.get(LINEAR)
    return model.selection.explanation() if isinstance(model, Few) else []


class _Linear:
    """The linear model as a kind that can be taken up again."""

    def __call__(self, table: Table) -> Generator[None, None, Model]:
        found = yield from _silent(fitting(table))
        return found

    def fitting(self, table: Table, found: Found | None) -> Generator[Found, None, Model]:
        return fitting(table, found)

    def model(self, table: Table, found: Found) -> Model:
        return model(table, found)


class _Smooth:
    """The smooth model as a kind that can be taken up again."""

    def __call__(self, table: Table) -> Generator[None, None, Model]:
        found = yield from _silent(smooth.fitting(table))
        return found

    def fitting(self, table: Table, found: Found | None) -> Generator[Found, None, Model]:
        return smooth.fitting(table, found)

    def model(self, table: Table, found: Found) -> Model:
        return smooth.model(table, found)


def _silent(steps: Generator[Found, None, Model]) -> Generator[None, None, Model]:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Model = end.value
            return found
        yield


KINDS: Final[Mapping[str, Kind]] = {LINEAR: _Linear(), SMOOTH: _Smooth()}
