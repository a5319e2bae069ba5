"""A regression on all counters that bends: a Gaussian process of a linear part and a smooth one.

C. Rasmussen, C. Williams, "Gaussian Processes for Machine Learning", 2006, chapters 2.2 and 5.4. Counters are taken as
deviations from their mean or as ranks among the runs; which of them, how far the smooth part reaches and how noisy runs
are is chosen by the error of each group of runs when it is left out, which has a closed form. Matrices serve all targets of
the same runs.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from processors.models.counters.selection import (
    ColumnRange,
    ErrorByDistance,
    ErrorSums,
    Mask,
    errors,
    scaled,
    scales,
    thinned,
)
from processors.models.numerics.arrays import Floats
from processors.models.numerics.scipy_functions import lower_inverse
from processors.models.training.table import RowPredictions, RunTable, finished
from processors.models.training.trainer import FitState

BEYOND: Final = 0.25  # times the range of a counter, up to which a bend is followed
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
class CounterScale:
    """How counters become numbers of a like size: deviations, or ranks among those of the runs.

    >>> CounterScale.of("deviations", np.array([[1.0], [3.0]]), np.ones(2)).apply(np.array([[5.0]])).tolist()
    [[3.0]]
    >>> CounterScale.of("ranks", np.array([[1.0], [10.0], [99.0]]), np.ones(3)).apply(np.array([[10.0], [500.0]])).round(3).tolist()
    [[0.0], [1.155]]
    """

    kind: str
    mean: Floats
    deviation: Floats
    steps: tuple[tuple[Floats, Floats], ...]

    @classmethod
    def of(cls, kind: str, values: Floats, weight: Floats) -> "CounterScale":
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
class CounterProcess:
    """The process, fitted: rows on its scale, their weights in an answer, and the inverse that tells what it knows not.

    `errors` are those of each group when it was left out (its mean |ratio - 1|), and of clusters of them.

    >>> x = np.linspace(0, 3, 40)[:, None]
    >>> table = RunTable(("a",), x, 200 + 50 * np.sin(x[:, 0]), np.ones(40), np.arange(40))
    >>> found = fit(table)
    >>> round(found.predict(np.array([[1.5]])).value.item()), found.errors.near < 0.01
    (250, True)
    """

    scale: CounterScale
    range: ColumnRange
    rows: Floats
    answer: Floats
    inverse: Floats
    reach: float
    noise: float
    centre: float
    spread: float
    low: float
    high: float
    errors: ErrorByDistance

    def predict(self, values: Floats) -> RowPredictions:
        """Return the target of rows (m, p) of the table's columns, none missing."""
        requested = self.scale.apply(self.range.apply(values))
        near = kernel(requested, self.rows, self.reach)
        mean = np.clip(self.centre + self.spread * (near @ self.answer), self.low, self.high)
        own = 1.0 + (requested**2).mean(axis=1)
        unknown = np.maximum(own - (near @ self.inverse * near).sum(axis=1), 0.0)
        # what errors were when runs were left out, and more where no run is near
        further = self.spread * np.sqrt(unknown) / mean
        return RowPredictions(mean, np.hypot(self.errors.near_deviation, further))


def kernel(a: Floats, b: Floats, reach: float) -> Floats:
    """Return the covariances of rows (m, p) and (k, p): alike by 1, linear in each counter by 1/p.

    >>> kernel(np.zeros((1, 1)), np.array([[0.0], [1.0]]), 1.0).round(3).tolist()
    [[1.0, 0.607]]
    """
    columns = max(a.shape[1], 1)
    joint = a @ b.T
    between = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2.0 * joint
    return np.asarray(np.exp(-np.maximum(between, 0.0) / (2.0 * columns * reach**2)) + joint / columns)


def fit(table: RunTable) -> CounterProcess:
    """Return the process of a table, all at once; ValueError for less than RUNS_MIN runs or without columns.

    >>> fit(RunTable((), np.zeros((9, 0)), np.ones(9), np.ones(9), np.arange(9)))
    Traceback (most recent call last):
    ValueError: A process needs 6 runs and a column.
    """
    return finished(fitting(table))


def fitting(
    table: RunTable, found: FitState | None = None, far: Sequence[Mask] = ()
) -> Generator[FitState, None, CounterProcess]:
    """Yield what was found after each part of the work, which takes milliseconds, and return the process.

    `far` are clusters of runs (k,) that the best process is made without, to see how far off it is about them.

    >>> x = np.arange(9.0)[:, None]
    >>> table = RunTable(("a",), x, 1 + x[:, 0], np.ones(9), np.arange(9))
    >>> [found["tried"] for found in fitting(table)]
    [1, 2, 3, 4, 5, 6]
    >>> so_far = {"tried": 5, "error": 9.0, "deviation": 9.0, "choice": 0, "noise": 0.1, "parts": 0, "far": [0.0, 0.0, 0.0]}
    >>> [found["parts"] for found in fitting(table, so_far, [x[:, 0] > 7])]
    [0, 1]
    """
    if len(table) < RUNS_MIN or not table.names:
        raise ValueError(f"A process needs {RUNS_MIN} runs and a column.")
    runs = _Runs(table)
    best: FitState = found or {"tried": 0, "parts": 0, "far": list(ErrorSums())}
    for choice in range(best["tried"], len(SCALES) * len(REACH)):
        left = runs.left_out(choice)
        at = int(np.argmin([each.error for each in left]))
        if choice == 0 or left[at].error < best["error"]:
            best = {**best, **left[at]._asdict(), "choice": choice, "noise": NOISE[at]}
        best = {**best, "tried": choice + 1}
        yield best
    for out in far[best["parts"] :]:
        off = ErrorSums(*best["far"]).plus(*_without(table, out, best))
        best = {**best, "parts": best["parts"] + 1, "far": list(off)}
        yield best
    return runs.smooth(best)


def model(table: RunTable, found: FitState) -> CounterProcess:
    """Return the process of a table again, from what its fit found in the end.

    >>> x = np.arange(9.0)[:, None]
    >>> table = RunTable(("a",), x, 1 + x[:, 0], np.ones(9), np.arange(9))
    >>> *_, found = fitting(table)
    >>> model(table, found).errors == fit(table).errors
    True
    """
    return _Runs(table).smooth(found)


def _without(table: RunTable, out: Mask, found: FitState) -> tuple[Floats, Floats]:
    """Return the ln of ratios of runs that are left out of the process that a fit found, and their weights."""
    rest = table.rows(~out)
    left_out = _Runs(rest).smooth(found).predict(rest.filled(table.values[out])).value
    return np.log(table.target[out] / left_out), table.weight[out]


class _LeftOut(NamedTuple):
    """How wrong a process was about groups that were left out: mean |ratio - 1|, and the deviation of the ln of ratios."""

    error: float
    deviation: float


class _Runs:
    """The runs of a table, and the processes that can be made of them."""

    def __init__(self, whole: RunTable) -> None:
        table = whole.rows(thinned(len(whole)))
        self.target, self.weight, self.shared = table.target, table.weight, whole.shared
        self.share = table.weight / table.weight.sum()
        self.values = table.filled()
        groups, size = np.unique(table.group, return_counts=True)
        self.groups = [np.flatnonzero(table.group == each) for each in groups[size > 1]]
        self.centre, self.spread = (float(each[0]) for each in scales(self.target[:, None], self.weight))
        self.low, self.high = LOWEST * float(self.target.min()), HIGHEST * float(self.target.max())
        self.wanted = (self.target - self.centre) / self.spread if self.spread > 0 else np.zeros(len(self.target))

    def left_out(self, choice: int) -> list[_LeftOut]:
        """Return the errors of a choice of scale and reach, with each noise."""
        return [self._error(self._off(inverse)) for inverse in self._shared("inverses", self._inverses, choice)]

    def smooth(self, found: FitState) -> CounterProcess:
        """Return the process that was found the best."""
        scale, rows, inverse = self._shared("inverse", self._inverted, found["choice"], found["noise"])
        return CounterProcess(
            scale=scale,
            range=ColumnRange.of(self.values, BEYOND),
            rows=rows,
            answer=inverse @ self.wanted,
            inverse=inverse,
            reach=REACH[found["choice"] % len(REACH)],
            noise=found["noise"],
            centre=self.centre,
            spread=self.spread,
            low=self.low,
            high=self.high,
            errors=errors(found["error"], found["deviation"], ErrorSums(*found["far"])),
        )

    def _error(self, off: Floats) -> _LeftOut:
        left_out = np.clip(self.target - off, self.low, self.high)
        error = float(self.share @ np.abs(left_out / self.target - 1.0))
        return _LeftOut(error, max(float(np.sqrt(self.share @ np.log(self.target / left_out) ** 2)), DEVIATION_MIN))

    def _off(self, inverse: Floats) -> Floats:
        """Return by how much each run would be missed without its group: the group's block of the inverse tells."""
        answer = inverse @ self.wanted
        off = np.asarray(answer / np.diagonal(inverse) * self.spread)  # of a run alone
        for at in self.groups:
            off[at] = np.linalg.solve(inverse[np.ix_(at, at)], answer[at]) * self.spread
        return off

    def _shared(self, what: str, work: Callable[..., Any], *arguments: float) -> Any:
        """Return what was last worked out of the values alone; of each kind only the last is kept, for it is large."""
        known = self.shared.get(what)
        if known is None or known[0] != arguments:
            known = self.shared[what] = arguments, work(*arguments)
        return known[1]

    def _alike(self, choice: int) -> tuple[CounterScale, Floats, Floats]:
        scale = CounterScale.of(SCALES[choice // len(REACH)], self.values, self.weight)
        rows = scale.apply(self.values)
        return scale, rows, kernel(rows, rows, REACH[choice % len(REACH)])

    def _inverses(self, choice: int) -> list[Floats]:
        alike = self._alike(choice)[2]
        return [_inverse(alike, noise / self.weight) for noise in NOISE]

    def _inverted(self, choice: int, noise: float) -> tuple[CounterScale, Floats, Floats]:
        scale, rows, alike = self._alike(choice)
        return scale, rows, _inverse(alike, noise / self.weight)


def _inverse(alike: Floats, noise: Floats) -> Floats:
    """Return the inverse of covariances (k, k) of runs with this noise (k,), which is positive; by Cholesky."""
    inverse = lower_inverse(alike + np.diag(noise))
    below = np.tril(inverse, -1)
    return np.asarray(below + below.T + np.diag(np.diagonal(inverse)), np.float64)


def _step(column: Floats) -> tuple[Floats, Floats]:
    """Return the values of a column and their ranks from -1/2 to 1/2."""
    at, count = np.unique(column, return_counts=True)
    return at, (count.cumsum() - count / 2) / len(column) - 0.5
