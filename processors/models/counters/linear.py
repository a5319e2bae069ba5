"""The linear model of counters: of the few that were selected, or of all of them where that is the better one.

A selection that keeps nothing explains nothing: then a regression on all counters answers, with as much ridge as had the least
error about runs that were left out, near ones and far ones alike. It answers as well where its error is much the smaller:
few counters are believed as long as they can be, for they are right beyond the runs that were seen more often than many.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from processors.models.counters.selection import (
    SELECTION_RUNS_MIN,
    ErrorByDistance,
    ErrorSums,
    Mask,
    Parts,
    Selection,
    errors,
    on_all,
    parts,
    select,
)
from processors.models.numerics.arrays import Floats
from processors.models.training.table import RowPredictions, RunTable, finished
from processors.models.training.trainer import FitState

RIDGES: Final = (0.01, 0.03, 0.1, 0.3, 1.0)
MARGIN: Final = 2 / 3  # of the error of few counters, below which all answer
ALIKE: Final = 1.1  # times the least error, up to which more ridge is taken
_WAYS: Final[Sequence[Callable[[RunTable], Selection]]] = (select, *(partial(on_all, share=share) for share in RIDGES))


@dataclass(frozen=True, slots=True, eq=False)
class LinearModel:
    """A linear model, and what it was wrong by about runs that were left out.

    >>> x = np.arange(1.0, 9.0)[:, None]
    >>> found = fit(RunTable(("a",), x, 10 * x[:, 0], np.ones(8), np.arange(8)))
    >>> found.predict(np.array([[3.5]])).value.round(2).tolist()
    [35.0]
    """

    selection: Selection
    errors: ErrorByDistance

    def predict(self, values: Floats) -> RowPredictions:
        """Return the target of rows (m, p), with the deviation that left-out runs had."""
        found = self.selection.predict(values).value
        return RowPredictions(found, np.full(len(found), max(self.errors.near_deviation, self.selection.deviation)))


def fit(table: RunTable) -> LinearModel:
    """Return the linear model of a table, all at once; ValueError for less than SELECTION_RUNS_MIN runs.

    >>> fit(RunTable((), np.zeros((1, 0)), np.ones(1), np.ones(1), np.arange(1)))
    Traceback (most recent call last):
    ValueError: A linear model of counters needs 6 runs.
    """
    return finished(fitting(table, parts(table)))


def fitting(table: RunTable, left_out: Parts, found: FitState | None = None) -> Generator[FitState, None, LinearModel]:
    """Yield what was found after each part that was left out of all of the steps, and return the linear model of a table.

    >>> x = np.arange(1.0, 9.0)[:, None]
    >>> table = RunTable(("a",), x, 10 * x[:, 0], np.ones(8), np.arange(8))
    >>> [found["parts"] for found in fitting(table, parts(table))]
    [1, 2, 3, 4, 5]
    """
    if len(table) < SELECTION_RUNS_MIN:
        raise ValueError(f"A linear model of counters needs {SELECTION_RUNS_MIN} runs.")
    nothing = [list(ErrorSums()) for _ in _WAYS]
    so_far: FitState = found or {"parts": 0, "near": nothing, "far": nothing}
    every = [("near", out) for out in left_out.near] + [("far", out) for out in left_out.far]
    for kind, out in every[so_far["parts"] :]:
        off = [list(ErrorSums(*known).plus(*each)) for known, each in zip(so_far[kind], _off(table, out), strict=True)]
        so_far = {**so_far, kind: off, "parts": so_far["parts"] + 1}
        yield so_far
    return model(table, so_far)


def model(table: RunTable, found: FitState) -> LinearModel:
    """Return the linear model of a table again, from what its fit found in the end.

    >>> x = np.arange(1.0, 9.0)[:, None]
    >>> table = RunTable(("a",), x, 10 * x[:, 0], np.ones(8), np.arange(8))
    >>> *_, found = fitting(table, parts(table))
    >>> model(table, found).errors == fit(table).errors
    True
    """
    every = [
        errors(ErrorSums(*near).mean, ErrorSums(*near).deviation, ErrorSums(*far))
        for near, far in zip(found["near"], found["far"], strict=True)
    ]
    at = _ridge(every[1:]) + 1
    selected = select(table)
    if selected.chosen and _both(every[at]) >= MARGIN * _both(every[0]):
        return LinearModel(selected, every[0])
    return LinearModel(_WAYS[at](table), every[at])


def _off(table: RunTable, out: Mask) -> list[tuple[Floats, Floats]]:
    """Return the ln of ratios of the runs that are left out (k,), of each way, and their weights.

    Where all runs are one group, none can be left out.
    """
    rest = table if out.all() else table.rows(~out)
    requested, target, weight = rest.filled(table.values[out]), table.target[out], table.weight[out]
    return [(np.log(target / way(rest).predict(requested).value), weight) for way in _WAYS]


def _ridge(every: Sequence[ErrorByDistance]) -> int:
    """Return the most ridge whose error is about the least: what more freedom gains by so little it loses elsewhere."""
    least = min(_both(each) for each in every)
    return max(i for i, each in enumerate(every) if _both(each) <= ALIKE * least)


def _both(each: ErrorByDistance) -> float:
    return each.near + each.far
