"""A law of attributes: ln of the target is linear in ln of each, and bends a little where runs are many.

Products and powers of attributes (the extra-linear terms of H. Zhu's and B. Barnes's regressions of run times: B. Barnes
et al., "A regression-based approach to scalability prediction", ICS 2008). Beyond what was seen powers go on for a while,
bends do not.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from processors.models.counters.selection import Linear, ridge
from processors.models.numerics.arrays import Floats
from processors.models.training.table import Predicted, Table

LAW_RUNS_MIN: Final = 6
RUNS_PER_TERM: Final = 4  # so many, and the law may bend
BENDING_MAX: Final = 16  # attributes: the products of more are too many
FURTHER: Final = 4.0  # times the range that was seen, up to which a power goes on
RATIO_MAX: Final = 30.0  # of the target to its extremes: nothing further is answered


@dataclass(frozen=True, slots=True, eq=False)
class Law:
    """The law of a table: which columns are taken by their ln, what was seen of each, and the coefficients.

    >>> x = np.arange(1.0, 31.0)[:, None]
    >>> found = law(Table(("n",), x, 100.0 / x[:, 0], np.ones(30), np.arange(30)))
    >>> round(found.predict(np.array([[60.0]])).value.item(), 1)
    1.7
    """

    by_ln: npt.NDArray[np.bool_]
    low: Floats
    high: Floats
    bends: bool
    linear: Linear
    low_ln: float
    high_ln: float

    def ln(self, values: Floats) -> Floats:
        """Return ln of the target of rows (m, p)."""
        found = self.linear.predict(self._terms(taken(values, self.by_ln)))
        return np.clip(found, self.low_ln, self.high_ln)

    def predict(self, values: Floats) -> Predicted:
        """Return the target of rows (m, p); the deviation is not known here and told as 0."""
        found = np.exp(self.ln(values))
        return Predicted(found, np.zeros(len(found)))

    def _terms(self, given: Floats) -> Floats:
        reach = np.where(self.by_ln, np.log(FURTHER), 0.0)
        straight = np.clip(given, self.low - reach, self.high + reach)
        if not self.bends:
            return straight
        inside = np.clip(given, self.low, self.high) - (self.low + self.high) / 2
        first, second = np.triu_indices(given.shape[1])
        return np.concatenate([straight, inside[:, first] * inside[:, second]], axis=1)


def law(table: Table) -> Law:
    """Return the law of a table; ValueError for less than RUNS_MIN runs or without columns.

    >>> law(Table((), np.zeros((9, 0)), np.ones(9), np.ones(9), np.arange(9)))
    Traceback (most recent call last):
    ValueError: A law needs 6 runs and an attribute.
    """
    if len(table) < LAW_RUNS_MIN or not table.names:
        raise ValueError(f"A law needs {LAW_RUNS_MIN} runs and an attribute.")
    values = table.filled()
    by_ln = np.asarray((values > 0).all(axis=0))
    known = taken(values, by_ln)
    columns = known.shape[1]
    terms = columns * (columns + 3) // 2
    bends = columns <= BENDING_MAX and len(table) >= RUNS_PER_TERM * terms
    target = np.log(table.target)
    far = np.log(RATIO_MAX)
    shape = Law(by_ln, known.min(axis=0), known.max(axis=0), bends, _NOTHING, target.min() - far, target.max() + far)
    linear = ridge(shape._terms(known), target, table.weight, 1.0 / len(table))  # noqa: SLF001  its own terms
    return Law(by_ln, shape.low, shape.high, bends, linear, shape.low_ln, shape.high_ln)


_NOTHING: Final = Linear(0.0, np.zeros(0), np.zeros(0))


def taken(values: Floats, by_ln: npt.NDArray[np.bool_]) -> Floats:
    """Return the columns as the law takes them: by their ln, or, where some are not positive, by what is like it.

    What is not positive where all were is the least there is.

    >>> taken(np.array([[1.0, 0.0]]), np.array([True, False])).tolist()
    [[0.0, 0.0]]
    """
    return np.where(by_ln, np.log(np.maximum(values, 1e-300)), np.arcsinh(values))
