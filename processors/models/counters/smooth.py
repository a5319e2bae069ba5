"""A regression on all counters that bends: a Gaussian process of a linear part and a smooth one.

C. Rasmussen, C. Williams, "Gaussian Processes for Machine Learning", 2006, chapters 2.2 and 5.4. Counters are taken as
deviations from their mean or as ranks among the runs; which of them, how far the smooth part reaches and how noisy runs
are is chosen by the error of each group of runs when it is left out, which has a closed form.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from processors.models.counters.regression import Floats, scaled, scales
from processors.models.training.table import Predicted, Table, finished

ROWS_MAX: Final = 256  # a matrix of so many rows is inverted in a few milliseconds
REACH: Final = (0.5, 1.0, 2.0)  # of the smooth part, in deviations of all counters together
NOISE: Final = (0.03, 0.1, 0.3, 1.0)  # variance of a run, of the variance of the target
SCALES: Final = ("deviations", "ranks")
LOWEST: Final = 0.5  # of the least target: no prediction lies further down,
HIGHEST: Final = 1.5  # nor further up than this of the largest
FAR: Final = 12.0  # deviations, beyond which a counter is taken to be there
RUNS_MIN: Final = 6
DEVIATION_MIN: Final = 0.002
_RANK_DEVIATION: Final = 12.0**0.5  # even ranks from 0 to 1 have the deviation of 1 over this


@dataclass(frozen=True, slots=True, eq=False)
class Scale:
    """How counters become numbers of a like size: deviations, or ranks among those of the runs.

    >>> Scale.of("deviations", np.array([[1.0], [3.0]]), np.ones(2)).apply(np.array([[5.0]])).tolist()
    [[3.0]]
    >>> Scale.of("ranks", np.array([[1.0], [10.0], [99.0]]), np.ones(3)).apply(np.array([[10.0], [500.0]])).round(3).tolist()
    [[0.0], [1.155]]
    """

    kind: str
    mean: Floats
    deviation: Floats
    steps: tuple[tuple[Floats, Floats], ...]

    @classmethod
    def of(cls, kind: str, values: Floats, weight: Floats) -> "Scale":
        """Return the scale of rows (k, p)."""
        mean, deviation = scales(values, weight)
        return cls(kind, mean, deviation, tuple(_step(column) for column in values.T) if kind == "ranks" else ())

    def apply(self, values: Floats) -> Floats:
        """Return rows (m, p) on this scale; a rank ends where the runs do."""
        if self.kind == "deviations":
            return np.clip(scaled(values, self.mean, self.deviation), -FAR, FAR)
        found = np.empty(values.shape)
        for j, (at, rank) in enumerate(self.steps):
            found[:, j] = np.interp(values[:, j], at, rank)
        return found * _RANK_DEVIATION


@dataclass(frozen=True, slots=True, eq=False)
class Smooth:
    """The process, fitted: rows on its scale, their weights in an answer, and the inverse that tells what it knows not.

    `error` is the mean |ratio - 1| of each group when it was left out.

    >>> x = np.linspace(0, 3, 40)[:, None]
    >>> table = Table(("a",), x, 200 + 50 * np.sin(x[:, 0]), np.ones(40), np.arange(40))
    >>> found = fit(table)
    >>> round(found.predict(np.array([[1.5]])).value.item()), found.error < 0.01
    (250, True)
    """

    scale: Scale
    rows: Floats
    answer: Floats
    inverse: Floats
    reach: float
    noise: float
    centre: float
    spread: float
    low: float
    high: float
    error: float
    deviation: float

    def predict(self, values: Floats) -> Predicted:
        """Return the target of rows (m, p) of the table's columns, none missing."""
        asked = self.scale.apply(values)
        near = kernel(asked, self.rows, self.reach)
        mean = np.clip(self.centre + self.spread * (near @ self.answer), self.low, self.high)
        own = 1.0 + (asked**2).mean(axis=1)
        unknown = np.maximum(own - (near @ self.inverse * near).sum(axis=1), 0.0)
        # what errors were when runs were left out, and more where no run is near
        further = self.spread * np.sqrt(unknown) / mean
        return Predicted(mean, np.hypot(self.deviation, further))


def kernel(a: Floats, b: Floats, reach: float) -> Floats:
    """Return the covariances of rows (m, p) and (k, p): alike by 1, linear in each counter by 1/p.

    >>> kernel(np.zeros((1, 1)), np.array([[0.0], [1.0]]), 1.0).round(3).tolist()
    [[1.0, 0.607]]
    """
    columns = max(a.shape[1], 1)
    together = a @ b.T
    between = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2.0 * together
    return np.asarray(np.exp(-np.maximum(between, 0.0) / (2.0 * columns * reach**2)) + together / columns)


def fit(table: Table) -> Smooth:
    """Return the process of a table, all at once; ValueError for less than RUNS_MIN runs or without columns.

    >>> fit(Table((), np.zeros((9, 0)), np.ones(9), np.ones(9), np.arange(9)))
    Traceback (most recent call last):
    ValueError: A process needs 6 runs and a column.
    """
    return finished(fitting(table))


def fitting(table: Table) -> Generator[None, None, Smooth]:
    """Yield after each part of the work, which takes milliseconds, and return the process.

    >>> x = np.arange(9.0)[:, None]
    >>> len(list(fitting(Table(("a",), x, 1 + x[:, 0], np.ones(9), np.arange(9)))))
    24
    """
    if len(table) < RUNS_MIN or not table.names:
        raise ValueError(f"A process needs {RUNS_MIN} runs and a column.")
    best: Smooth | None = None
    for found in _Candidates(_bounded(table)).all():
        if best is None or found.error < best.error:
            best = found
        yield
    if best is None:
        raise ValueError("A process needs a choice of scales.")
    return best


class _Candidates:
    """A table, and the processes of every choice of scale, reach and noise."""

    def __init__(self, table: Table) -> None:
        self.target, self.weight = table.target, table.weight
        self.share = table.weight / table.weight.sum()
        self.values = table.filled()
        groups, size = np.unique(table.group, return_counts=True)
        self.groups = [np.flatnonzero(table.group == each) for each in groups[size > 1]]
        self.centre, self.spread = (float(each[0]) for each in scales(self.target[:, None], self.weight))
        self.low, self.high = LOWEST * float(self.target.min()), HIGHEST * float(self.target.max())

    def all(self) -> Iterator[Smooth]:
        for kind in SCALES:
            scale = Scale.of(kind, self.values, self.weight)
            rows = scale.apply(self.values)
            for reach in REACH:
                alike = kernel(rows, rows, reach)
                for noise in NOISE:
                    yield self.one(scale, rows, alike, reach, noise)

    def one(self, scale: Scale, rows: Floats, alike: Floats, reach: float, noise: float) -> Smooth:
        inverse = np.asarray(np.linalg.inv(alike + np.diag(noise / self.weight)), np.float64)
        wanted = (self.target - self.centre) / self.spread if self.spread > 0 else np.zeros(len(self.target))
        answer = inverse @ wanted
        left_out: Floats = np.clip(self.target - self._off(inverse, answer), self.low, self.high)
        return Smooth(
            scale=scale,
            rows=rows,
            answer=answer,
            inverse=inverse,
            reach=reach,
            noise=noise,
            centre=self.centre,
            spread=self.spread,
            low=self.low,
            high=self.high,
            error=float(self.share @ np.abs(left_out / self.target - 1.0)),
            deviation=max(float(np.sqrt(self.share @ np.log(self.target / left_out) ** 2)), DEVIATION_MIN),
        )

    def _off(self, inverse: Floats, answer: Floats) -> Floats:
        """Return by how much each run would be missed without its group: the group's block of the inverse tells."""
        off = answer / np.diagonal(inverse) * self.spread  # of a run alone
        for at in self.groups:
            off[at] = np.linalg.solve(inverse[np.ix_(at, at)], answer[at]) * self.spread
        return off


def _bounded(table: Table) -> Table:
    """Return at most ROWS_MAX runs, spread evenly over the table."""
    if len(table) <= ROWS_MAX:
        return table
    at = np.arange(ROWS_MAX) * len(table) // ROWS_MAX
    return table.rows(at)


def _step(column: Floats) -> tuple[Floats, Floats]:
    """Return the values of a column and their ranks from -1/2 to 1/2."""
    at, count = np.unique(column, return_counts=True)
    return at, (count.cumsum() - count / 2) / len(column) - 0.5
