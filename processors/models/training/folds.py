"""The error of a model on runs that it was not fitted to."""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Final

import numpy as np

from processors.models.training.table import Answering, Table

FOLDS: Final = 4


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The mean |ratio - 1| of runs that were left out, and the deviation of the ln of those ratios.

    >>> LeftOut(0.02, 0.03).error
    0.02
    """

    error: float
    deviation: float


def left_out(
    table: Table, fit: Callable[[Table], Generator[None, None, Answering]], folds: int = FOLDS
) -> Generator[None, None, LeftOut]:
    """Yield as the fits go on, and return the errors of each fold of the groups, which its fit did not see.

    Where all runs are one group, none can be left out: the error is that of the fit itself. What `fit` raises for too few
    runs goes on to the caller.

    >>> import numpy as np
    >>> from processors.models.counters.model import fitting
    >>> from processors.models.training.table import finished
    >>> x = np.arange(1.0, 17.0)[:, None]
    >>> finished(left_out(Table(("a",), x, 10 * x[:, 0], np.ones(16), np.arange(16)), fitting)).error < 1e-3
    True
    """
    off = np.zeros(len(table))
    fold = np.unique(table.group, return_inverse=True)[1] % folds
    for number in range(int(fold.max(initial=0)) + 1):
        out = fold == number
        rest = table if out.all() else table.rows(~out)
        model = yield from fit(rest)
        off[out] = np.log(table.target[out] / model.predict(rest.filled(table.values[out])).value)
        yield
    share = table.weight / table.weight.sum()
    return LeftOut(float(share @ np.abs(np.expm1(-off))), float(np.sqrt(share @ off**2)))
