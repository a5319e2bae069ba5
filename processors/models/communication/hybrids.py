"""Sets of features that predict together, and the forest of each: which one to believe, every application tells.

H1 to H6 are the sets of Jain et al.; `dilation` and `bytes` are what was used before them.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from processors.models.training.folds import left_out
from processors.models.training.kind import Kind
from processors.models.training.table import Floats, Model, Predicted, Table, finished
from processors.models.trees.forest import Forest
from processors.models.trees.grow import Growth, growing

H1: Final = ("avg_bytes", "max_bytes", "max_fifo")
HYBRIDS: Final[Mapping[str, tuple[str, ...]]] = {
    "H1": H1,
    "H2": (*H1, "sum_dilation_ao"),
    "H3": (*H1, "avg_buffer"),
    "H4": ("avg_bytes", "max_bytes", "avg_buffer_to"),
    "H5": ("avg_bytes_to", "avg_buffer_to", "avg_delay_ao", "sum_dilation_ao", "max_fifo"),
    "H6": ("avg_bytes_to", "avg_buffer_ao", "avg_delay_to", "avg_delay_ao", "sum_dilation_ao", "max_fifo"),
    "dilation": ("max_dilation", "avg_dilation"),
    "bytes": ("avg_bytes", "max_bytes"),
}
RUNS_MIN: Final = 8
TREES: Final = 10
DEVIATION_MIN: Final = 0.005


@dataclass(frozen=True, slots=True, eq=False)
class Mapped:
    """A forest of ln of the target on some columns of a table, and its error when runs were left out.

    >>> x = np.arange(16.0)[:, None]
    >>> found = mapped(("max_bytes",), Table(("max_bytes",), x, 10.0 + x[:, 0], np.ones(16), np.arange(16)))
    >>> found.predict(np.array([[5.0]])).value.round(6).tolist(), found.importances()
    ([15.0], {'max_bytes': 1.0})
    """

    names: tuple[str, ...]
    columns: tuple[int, ...]
    forest: Forest
    error: float
    deviation: float

    def predict(self, values: Floats) -> Predicted:
        """Return the target of rows (m, p) of the table's columns, none missing."""
        found = np.exp(self.forest.mean(values[:, list(self.columns)]))
        return Predicted(found, np.full(len(found), self.deviation))

    def importances(self) -> dict[str, float]:
        """Return the share of each feature in what the forest explains."""
        return dict(zip(self.names, self.forest.importances().tolist(), strict=True))


def fitting(names: tuple[str, ...], table: Table) -> Generator[None, None, Mapped]:
    """Yield after a few trees each, and return the forest of these columns.

    Raises ValueError for less than RUNS_MIN runs, or where the table has not all of the columns.

    >>> next(fitting(("max_bytes",), Table((), np.zeros((9, 0)), np.ones(9), np.ones(9), np.arange(9))))
    Traceback (most recent call last):
    ValueError: No run tells max_bytes.
    """
    missing = [name for name in names if name not in table.names]
    if missing:
        raise ValueError(f"No run tells {', '.join(missing)}.")
    if len(table) < RUNS_MIN:
        raise ValueError(f"A forest of mappings needs {RUNS_MIN} runs.")
    columns = tuple(table.names.index(name) for name in names)
    forest = yield from _forest(table.only(names))
    off = yield from left_out(table, partial(_alone, names))
    return Mapped(names, columns, forest, off.error, max(off.deviation, DEVIATION_MIN))


def mapped(names: tuple[str, ...], table: Table) -> Mapped:
    """Return the forest of these columns, all at once; ValueError as `fitting`.

    >>> x = np.arange(16.0)[:, None]
    >>> mapped(("a",), Table(("a",), x, 10.0 + x[:, 0], np.ones(16), np.arange(16))).names
    ('a',)
    """
    return finished(fitting(names, table))


def _forest(table: Table) -> Generator[None, None, Forest]:
    return growing(table.filled(), np.log(table.target), table.weight, Growth(TREES))


def _alone(names: tuple[str, ...], table: Table) -> Generator[None, None, Model]:
    """Return a forest whose error nobody asks for."""
    forest = yield from _forest(table.only(names))
    return Mapped(names, tuple(table.names.index(name) for name in names), forest, 0.0, DEVIATION_MIN)


def _model(names: tuple[str, ...], table: Table) -> Generator[None, None, Model]:
    found = yield from fitting(names, table)
    return found


KINDS: Final[Mapping[str, Kind]] = {name: partial(_model, names) for name, names in HYBRIDS.items()}
