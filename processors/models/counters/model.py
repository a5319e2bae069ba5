"""What is expected of a run from its counters: the linear model of a few, and the one of all that bends.

Both are fitted to the same runs; how each did with the runs since says which one answers
(`processors.models.training.learner`). The linear one explains, whoever answers.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from processors.models.counters import smooth
from processors.models.counters.regression import Floats
from processors.models.counters.selection import RUNS_MIN, Explanation, Selection, select
from processors.models.training.learner import Kind, Learner
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


def fitting(table: Table) -> Generator[None, None, Few]:
    """Yield after each part of the work, and return the linear model of a table.

    Its error is that of each fifth of the groups, left out of all of the steps of the selection.

    >>> x = np.arange(1.0, 9.0)[:, None]
    >>> len(list(fitting(Table(("a",), x, 10 * x[:, 0], np.ones(8), np.arange(8)))))
    6
    """
    if len(table) < RUNS_MIN:
        raise ValueError(f"A linear model of counters needs {RUNS_MIN} runs.")
    found = select(table)
    yield
    off = np.log(table.target / found.predict(table.filled()).value)
    for fold in range(FOLDS):
        out = table.group % FOLDS == fold
        if out.any() and not out.all():
            rest = table.rows(~out)
            left = select(rest).predict(rest.filled(table.values[out])).value
            off[out] = np.log(table.target[out] / left)
        yield
    share = table.weight / table.weight.sum()
    deviation = max(float(np.sqrt(share @ off**2)), found.deviation)
    return Few(found, float(share @ np.abs(np.expm1(-off))), deviation)


def explanation(learner: Learner) -> list[Explanation]:
    """Return the counters of a learner's linear model, the one that moves the target most first; [] before its first fit.

    >>> explanation(Learner("power_w", KINDS))
    []
    """
    model = learner.models.get(LINEAR)
    return model.selection.explanation() if isinstance(model, Few) else []


def _few(table: Table) -> Generator[None, None, Model]:
    found = yield from fitting(table)
    return found


def _smooth(table: Table) -> Generator[None, None, Model]:
    found = yield from smooth.fitting(table)
    return found


KINDS: Final[Mapping[str, Kind]] = {LINEAR: _few, SMOOTH: _smooth}
