"""Run time from attributes by a law, and by what runs near in them were off it (`processors.models.numerics.kriging`)."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from processors.models.counters.selection import Linear, ridge
from processors.models.numerics.arrays import Floats
from processors.models.numerics.kriging import Kriging, KrigingPoints, Reaches, Search, kriging, onward, searching
from processors.models.training.table import CHOICE, FOLDS, RowPredictions, RunTable, silent, spread
from processors.models.training.trainer import FitState

LAW_RUNS_MIN: Final = 6
RUNS_PER_TERM: Final = 4  # so many, and the law may bend
BENDING_MAX: Final = 16  # attributes: the products of more are too many
FURTHER: Final = 4.0  # times the range that was seen, up to which a power goes on
RATIO_MAX: Final = 30.0  # of the target to its extremes: nothing further is answered


@dataclass(frozen=True, slots=True, eq=False)
class AttributeLaw:
    """The law of a table: which columns are taken by their ln, what was seen of each, and the coefficients.

    >>> x = np.arange(1.0, 31.0)[:, None]
    >>> found = law(RunTable(("n",), x, 100.0 / x[:, 0], np.ones(30), np.arange(30)))
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

    def predict(self, values: Floats) -> RowPredictions:
        """Return the target of rows (m, p); the deviation is not known here and told as 0."""
        found = np.exp(self.ln(values))
        return RowPredictions(found, np.zeros(len(found)))

    def _terms(self, given: Floats) -> Floats:
        reach = np.where(self.by_ln, np.log(FURTHER), 0.0)
        straight = np.clip(given, self.low - reach, self.high + reach)
        if not self.bends:
            return straight
        inside = np.clip(given, self.low, self.high) - (self.low + self.high) / 2
        first, second = np.triu_indices(given.shape[1])
        return np.concatenate([straight, inside[:, first] * inside[:, second]], axis=1)


def law(table: RunTable) -> AttributeLaw:
    """Return the law of a table; ValueError for less than RUNS_MIN runs or without columns.

    >>> law(RunTable((), np.zeros((9, 0)), np.ones(9), np.ones(9), np.arange(9)))
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
    shape = AttributeLaw(
        by_ln, known.min(axis=0), known.max(axis=0), bends, _NOTHING, target.min() - far, target.max() + far
    )
    linear = ridge(shape._terms(known), target, table.weight, 1.0 / len(table))  # noqa: SLF001  its own terms
    return AttributeLaw(by_ln, shape.low, shape.high, bends, linear, shape.low_ln, shape.high_ln)


_NOTHING: Final = Linear(0.0, np.zeros(0), np.zeros(0))


def taken(values: Floats, by_ln: npt.NDArray[np.bool_]) -> Floats:
    """Return the columns as the law takes them: by their ln, or, where some are not positive, by what is like it.

    What is not positive where all were is the least there is.

    >>> taken(np.array([[1.0, 0.0]]), np.array([True, False])).tolist()
    [[0.0, 0.0]]
    """
    return np.where(by_ln, np.log(np.maximum(values, 1e-300)), np.arcsinh(values))


RUNS_MIN: Final = 12
LEFT_OUT_RUNS: Final = 32  # of each fold, that are requested: so many are answered in some milliseconds
DEVIATION_MIN: Final = 0.005


@dataclass(frozen=True, slots=True, eq=False)
class SmoothLaw:
    """A law, the process of what runs were off it, and how wrong both were on runs that were left out.

    >>> from processors.models.training.table import finished
    >>> x = np.linspace(1.0, 9.0, 60)[:, None]
    >>> table = RunTable(("a",), x, 200.0 + 50.0 * np.sin(x[:, 0]), np.ones(60), np.arange(60))
    >>> found = finished(SmoothKind()(table))
    >>> round(found.predict(np.array([[1.57]])).value.item()), found.error < 0.01
    (250, True)
    """

    law: AttributeLaw
    process: Kriging
    relevance: Floats
    error: float = 0.0
    deviation: float = 0.0

    def predict(self, values: Floats) -> RowPredictions:
        """Return the target of rows (m, p); the deviation widens where no run is near."""
        off = self.process.predict(taken(values, self.law.by_ln))
        own = np.hypot(off.deviation, self.deviation) / 2**0.5
        return RowPredictions(np.exp(self.law.ln(values) + off.target), own)

    def importances(self) -> Floats:
        """Return the share of each column (p,) by how quickly what is near changes with it, sum 1."""
        return self.relevance


class SmoothKind:
    """Fits `SmoothLaw` in steps: reaches are looked for, then runs are left out, a fold at a time.

    >>> table = RunTable(("a",), np.arange(1.0, 14.0)[:, None], np.arange(2.0, 15.0), np.ones(13), np.arange(13))
    >>> steps = list(SmoothKind().fitting(table, None))
    >>> list(SmoothKind().fitting(table, steps[20]))[-1] == steps[-1], sorted(steps[-1])
    (True, ['deviation', 'error', 'off', 'search'])
    """

    def __call__(self, table: RunTable) -> Generator[None, None, SmoothLaw]:
        """Fit from the beginning."""
        found = yield from silent(self.fitting(table, None))
        return found

    def fitting(self, table: RunTable, found: FitState | None) -> Generator[FitState, None, SmoothLaw]:
        """Yield what was found after each step; ValueError for less than RUNS_MIN runs, or without columns."""
        if len(table) < RUNS_MIN:
            raise ValueError(f"A smooth function of attributes needs {RUNS_MIN} runs.")
        group, given = _groups(table.names), found or {"search": None, "off": []}
        points, _ = _points(table)
        search: Search = given["search"]
        for step in searching(points, group, search):
            search = step
            yield {"search": search, "off": []}
        chosen, off = Reaches.of(search), list(given["off"])
        for number in range(len(off), FOLDS):
            off.append(_left_out(table, chosen, number))
            yield {"search": search, "off": off, **_errors(off)}
        return self.model(table, {"search": search, **_errors(off)})

    def again(self, found: FitState) -> FitState:
        """Return what the next fit begins with: the reaches of the last one."""
        return {"search": onward(found["search"]), "off": []}

    def model(self, table: RunTable, found: FitState) -> SmoothLaw:
        """Return the model of a table with the reaches that were found."""
        return _fitted(table, Reaches.of(found["search"]), found["error"], found["deviation"])


def _points(table: RunTable) -> tuple[KrigingPoints, AttributeLaw]:
    found, values = law(table), table.filled()
    return KrigingPoints.of(taken(values, found.by_ln), np.log(table.target) - found.ln(values), table.weight), found


def _fitted(table: RunTable, chosen: Reaches, error: float = 0.0, deviation: float = 0.0) -> SmoothLaw:
    points, found = _points(table)
    group = _groups(table.names)
    shares = np.where(points.values.std(axis=0) > 0, 1.0 / chosen.reach[np.array(group)], 0.0)
    return SmoothLaw(found, kriging(points, group, chosen), shares / (shares.sum() or 1.0), error, deviation)


def _groups(names: Sequence[str]) -> list[int]:
    """Return whose reach each column has: words of one attribute share theirs.

    >>> _groups(("n", "solver=cg", "solver=amg"))
    [0, 1, 1]
    """
    known: dict[str, int] = {}
    return [known.setdefault(name.partition(CHOICE)[0], len(known)) for name in names]


def _left_out(table: RunTable, chosen: Reaches, number: int) -> list[float]:
    """Return of some runs of a fold, which the law and the process did not see: their weight, and that times |ratio - 1| and the square of their spread."""
    out = np.unique(table.group, return_inverse=True)[1] % FOLDS == number
    if not out.any() or out.all():
        return [0.0, 0.0, 0.0]
    rest, requested = table.rows(~out), np.flatnonzero(out)
    requested = requested[
        np.arange(min(len(requested), LEFT_OUT_RUNS)) * len(requested) // min(len(requested), LEFT_OUT_RUNS)
    ]
    predicted = _fitted(rest, chosen).predict(rest.filled(table.values[requested])).value
    off, weight = np.log(table.target[requested] / predicted), table.weight[requested]
    return [float(weight.sum()), float(weight @ np.abs(np.expm1(-off))), float(weight.sum()) * spread(off, weight) ** 2]


def _errors(off: Sequence[Sequence[float]]) -> dict[str, float]:
    weight, error, squares = (sum(each[at] for each in off) for at in range(3))
    if not weight:
        return {"error": 1.0, "deviation": 1.0}
    return {"error": error / weight, "deviation": max((squares / weight) ** 0.5, DEVIATION_MIN)}
