"""What is expected of a run from its attributes: by a law, or by a law and trees; each tells how wrong it was left out."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from processors.models.features.forest import Grown
from processors.models.features.forest import fitting as growing
from processors.models.features.law import law
from processors.models.training.folds import left_out
from processors.models.training.kind import Kind
from processors.models.training.learner import Learner
from processors.models.training.table import Answering, Floats, Model, Predicted, Table

LAW: Final = "law"
FOREST: Final = "forest"
DEVIATION_MIN: Final = 0.005


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """A model, and its error and deviation on runs that were left out.

    >>> class Same:
    ...     error = 0.0
    ...     def predict(self, values): return Predicted(values[:, 0], values[:, 0] * 0)
    >>> Measured(Same(), 0.1, 0.2).predict(np.array([[3.0]])).deviation.round(2).tolist()
    [0.2]
    """

    model: Answering
    error: float
    deviation: float

    def predict(self, values: Floats) -> Predicted:
        """Return the target of rows (m, p); deviations of the model's own widen or narrow that of left-out runs."""
        found = self.model.predict(values)
        own = np.where(found.deviation > 0, found.deviation, self.deviation)
        return Predicted(found.value, np.sqrt((self.deviation**2 + own**2) / 2))


def importances(learner: Learner) -> dict[str, float]:
    """Return the share of each attribute in what the trees explain beyond the law; {} where there are none.

    >>> importances(Learner("run_time_s", KINDS))
    {}
    """
    found = learner.models.get(FOREST)
    if learner.table is None or not isinstance(found, Measured) or not isinstance(found.model, Grown):
        return {}
    return dict(zip(learner.table.names, found.model.forest.importances().tolist(), strict=True))


def _law(table: Table) -> Generator[None, None, Answering]:
    found = law(table)
    yield
    return found


def _forest(table: Table) -> Generator[None, None, Answering]:
    found = yield from growing(table)
    return found


def measured(fit: Callable[[Table], Generator[None, None, Answering]], table: Table) -> Generator[None, None, Model]:
    """Yield as the fits go on, and return what `fit` makes of a table, with its error on runs that were left out.

    >>> from processors.models.training.table import finished
    >>> x = np.arange(1.0, 17.0)[:, None]
    >>> finished(measured(_law, Table(("n",), x, 10 * x[:, 0], np.ones(16), np.arange(16)))).error < 0.05
    True
    """
    model = yield from fit(table)
    off = yield from left_out(table, fit)
    return Measured(model, off.error, max(off.deviation, DEVIATION_MIN))


KINDS: Final[Mapping[str, Kind]] = {LAW: partial(measured, _law), FOREST: partial(measured, _forest)}
