"""Trees of many runs: what a line through all counters leaves, where runs are more than a smooth model can take.

Extremely randomised trees (`processors.models.numerics.trees`) cost little for each run, so they have all of them where a matrix has some. They
tell apart what only many runs show, such as hosts that draw more than others and differ a little in what they count; the line goes on
beyond the runs that were seen.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Final

import numpy as np

from processors.models.counters.distance import ROWS_MAX
from processors.models.counters.selection import Floats, Linear, Range, ridge
from processors.models.numerics.trees import Forest, Growth, growing
from processors.models.training.table import Answering, Model, Predicted, Table, finished, left_out
from processors.models.training.trainer import Found, Replayed

TREES: Final = Growth(trees=20, leaf_rows=2)
BEYOND: Final = 0.25  # times the range of a counter, up to which the line is followed
RIDGE: Final = 1e-3
RATIO_MAX: Final = 1.5  # of the target to its extremes: nothing further is answered
LEFT_OUT: Final = 256  # runs that tell an error: those of one fold
DEVIATION_MIN: Final = 0.002
_NORMAL_90: Final = 1.645


@dataclass(frozen=True, slots=True, eq=False)
class Grown:
    """A line through the ln of the target, the trees of what it leaves, and how wrong both were on runs that were left out.

    >>> x = np.linspace(0.0, 6.0, 400)[:, None]
    >>> table = Table(("a",), x, 200.0 + 50.0 * np.sin(x[:, 0]), np.ones(400), np.arange(400))
    >>> found = finished(FOREST_KIND(table))
    >>> round(found.predict(np.array([[1.57]])).value.item(), -1), found.error < 0.01
    (250.0, True)
    """

    line: Linear
    range: Range
    forest: Forest
    low: float
    high: float
    error: float = 0.0
    deviation: float = 0.0

    def predict(self, values: Floats) -> Predicted:
        """Return the target of rows (m, p), none missing, and the deviation of left-out runs and of what lies in the leaves."""
        inside = self.range.apply(values)
        low, middle, high = self.forest.quantiles(inside, (0.05, 0.5, 0.95)).T
        found = np.clip(np.exp(self.line.predict(inside) + middle), self.low, self.high)
        own = (high - low) / 2 / _NORMAL_90
        return Predicted(found, np.hypot(np.where(own > 0, own, self.deviation), self.deviation) / 2**0.5)


def growing_on(table: Table) -> Generator[None, None, Grown]:
    """Yield as trees grow, and return the line and the trees of a table; ValueError without columns.

    >>> next(growing_on(Table((), np.ones((9, 0)), np.ones(9), np.ones(9), np.arange(9))))
    Traceback (most recent call last):
    ValueError: Trees need a counter.
    """
    if not table.names:
        raise ValueError("Trees need a counter.")
    values, target = table.filled(), np.log(table.target)
    line = ridge(values, target, table.weight, RIDGE)
    yield
    forest = yield from growing(values, target - line.predict(values), table.weight, TREES)
    low, high = float(table.target.min()) / RATIO_MAX, float(table.target.max()) * RATIO_MAX
    return Grown(line, Range.of(values, BEYOND), forest, low, high)


class ForestKind(Replayed):
    """Trees as a kind of model, of more runs than a smooth model takes; what is made again of what was found is not judged again.

    >>> next(FOREST_KIND(Table(("a",), np.ones((9, 1)), np.ones(9), np.ones(9), np.arange(9))))
    Traceback (most recent call last):
    ValueError: Trees need more than 256 runs.
    """

    def __init__(self) -> None:
        super().__init__(_judged)

    def found(self, model: Model) -> Found:
        """Return how a model did."""
        return {"error": model.error, "deviation": model.deviation} if isinstance(model, Grown) else {}

    def model(self, table: Table, found: Found) -> Grown:
        """Grow all at once."""
        return _with(finished(growing_on(table)), found["error"], found["deviation"])


def _judged(table: Table) -> Generator[None, None, Grown]:
    """Yield as trees grow, and return those of a table with their errors about runs that were left out."""
    if len(table) <= ROWS_MAX:
        raise ValueError(f"Trees need more than {ROWS_MAX} runs.")
    found = yield from growing_on(table)
    off = yield from left_out(table, _answering, enough=LEFT_OUT)
    return _with(found, off.error, max(off.deviation, DEVIATION_MIN))


def _answering(table: Table) -> Generator[None, None, Answering]:
    found = yield from growing_on(table)
    return found


def _with(found: Grown, error: float, deviation: float) -> Grown:
    return Grown(found.line, found.range, found.forest, found.low, found.high, float(error), float(deviation))


FOREST: Final = "forest"
FOREST_KIND: Final = ForestKind()
