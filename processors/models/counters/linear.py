"""A linear model of counters: either of a few selected ones, or of all of them.

All counters are used if the selection is empty, or if their error on left-out runs, near and far, is much smaller. Otherwise
few counters are preferred, because they are right more often beyond the runs that were seen. The regression on all counters
takes the amount of ridge with the least error.
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
    select,
)
from processors.models.numerics.arrays import Floats, RowPredictions
from processors.models.training.table import RowModel, RunTable
from processors.models.training.trainer import FitState

RIDGES: Final = (0.01, 0.03, 0.1, 0.3, 1.0)
MARGIN: Final = 2 / 3  # all counters are used if their error is below this share of the selection's
ALIKE: Final = 1.1  # take the most ridge whose error is within this factor of the least
_WAYS: Final[Sequence[Callable[[RunTable], Selection]]] = (select, *(partial(on_all, share=share) for share in RIDGES))


@dataclass(frozen=True, slots=True, eq=False)
class LinearModel(RowModel):
    """A linear model with its errors on left-out runs.

    >>> x = np.arange(1.0, 9.0)[:, None]
    >>> from processors.models.counters.selection import parts
    >>> from processors.models.training.table import finished
    >>> table = RunTable(("a",), x, 10 * x[:, 0], np.ones(8), np.arange(8))
    >>> found = finished(fitting(table, parts(table)))
    >>> found.predict(np.array([[3.5]])).value.round(2).tolist()
    [35.0]
    """

    selection: Selection
    errors: ErrorByDistance

    def predict(self, values: Floats) -> RowPredictions:
        """Return the predictions for rows (m, p), with the deviation on left-out runs."""
        value = self.selection.predict(values).value
        return RowPredictions(value, np.full(len(value), max(self.errors.near_deviation, self.selection.deviation)))


def fitting(table: RunTable, left_out: Parts, state: FitState | None = None) -> Generator[FitState, None, LinearModel]:
    """Yield the state after each left-out part; return the linear model. ValueError for fewer than SELECTION_RUNS_MIN runs."""
    if len(table) < SELECTION_RUNS_MIN:
        raise ValueError(f"A linear model of counters needs {SELECTION_RUNS_MIN} runs.")
    nothing = [list(ErrorSums()) for _ in _WAYS]
    progress: FitState = state or {"parts": 0, "near": nothing, "far": nothing}
    held_out_parts = [("near", held_out) for held_out in left_out.near] + [
        ("far", held_out) for held_out in left_out.far
    ]
    for kind, held_out in held_out_parts[progress["parts"] :]:
        sums = [
            list(ErrorSums(*stored).plus(*ratios))
            for stored, ratios in zip(progress[kind], _off(table, held_out), strict=True)
        ]
        progress = {**progress, kind: sums, "parts": progress["parts"] + 1}
        yield progress
    return model(table, progress)


def model(table: RunTable, state: FitState) -> LinearModel:
    """Rebuild the linear model of a table from the state of its finished fit."""
    errors_by_way = [
        errors(ErrorSums(*near).mean, ErrorSums(*near).deviation, ErrorSums(*far))
        for near, far in zip(state["near"], state["far"], strict=True)
    ]
    best = _ridge(errors_by_way[1:]) + 1
    selected = select(table)
    if selected.chosen and _both(errors_by_way[best]) >= MARGIN * _both(errors_by_way[0]):
        return LinearModel(selected, errors_by_way[0])
    return LinearModel(_WAYS[best](table), errors_by_way[best])


def _off(table: RunTable, held_out: Mask) -> list[tuple[Floats, Floats]]:
    """Return the ln ratios of left-out runs (k,) under each way of fitting, and their weights.

    If all runs are one group none can be left out, and the fit has seen them.
    """
    rest = table if held_out.all() else table.rows(~held_out)
    rows, target, weight = rest.filled(table.values[held_out]), table.target[held_out], table.weight[held_out]
    return [(np.log(target / way(rest).predict(rows).value), weight) for way in _WAYS]


def _ridge(errors_by_ridge: Sequence[ErrorByDistance]) -> int:
    """Return the number of the most ridge whose error is close to the least; more freedom would lose elsewhere."""
    least = min(_both(error) for error in errors_by_ridge)
    return max(i for i, error in enumerate(errors_by_ridge) if _both(error) <= ALIKE * least)


def _both(error: ErrorByDistance) -> float:
    return error.near + error.far
