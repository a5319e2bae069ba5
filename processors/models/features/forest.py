"""The law of a table, and what trees make of its residuals: powers go on where trees end, trees find what powers do not."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Final

import numpy as np

from processors.models.features.law import Law, law
from processors.models.training.table import Floats, Predicted, Table
from processors.models.trees.forest import Forest
from processors.models.trees.grow import Growth, growing

TREES: Final = 20
LEAF_ROWS: Final = 2  # run times have outliers: medians of several leaves of two are calm
RUNS_MIN: Final = 12
_NORMAL_90: Final = 1.645


@dataclass(frozen=True, slots=True, eq=False)
class Grown:
    """A law and the forest of its residuals; the answer is the median of what lies in the leaves.

    >>> from processors.models.training.table import finished
    >>> x = np.arange(1.0, 41.0)[:, None]
    >>> found = finished(fitting(Table(("n",), x, np.where(x[:, 0] < 20, 10.0, 50.0), np.ones(40), np.arange(40))))
    >>> found.predict(np.array([[10.0], [30.0]])).value.round(-1).tolist()
    [10.0, 50.0]
    """

    law: Law
    forest: Forest

    def predict(self, values: Floats) -> Predicted:
        """Return the target of rows (m, p), and the deviation of what lies in the leaves."""
        low, middle, high = self.forest.quantiles(values, (0.05, 0.5, 0.95)).T
        return Predicted(np.exp(self.law.ln(values) + middle), (high - low) / 2 / _NORMAL_90)


def fitting(
    table: Table, growth: Growth | None = None, rows_at_once: int | None = None
) -> Generator[None, None, Grown]:
    """Yield as trees grow, and return the model of a table; ValueError for less than RUNS_MIN runs or without columns.

    >>> next(fitting(Table(("n",), np.ones((3, 1)), np.ones(3), np.ones(3), np.arange(3))))
    Traceback (most recent call last):
    ValueError: A forest of residuals needs 12 runs.
    """
    if len(table) < RUNS_MIN:
        raise ValueError(f"A forest of residuals needs {RUNS_MIN} runs.")
    found = law(table)
    yield
    values = table.filled()
    rest = np.log(table.target) - found.ln(values)
    told = growth or Growth(TREES, LEAF_ROWS)
    many = {} if rows_at_once is None else {"rows_at_once": rows_at_once}
    forest = yield from growing(values, rest, table.weight, told, **many)
    return Grown(found, forest)
