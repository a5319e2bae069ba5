"""A smooth regression on all counters: a Gaussian process with a linear and a smooth part.

Source: C. Rasmussen, C. Williams, "Gaussian Processes for Machine Learning", 2006, chapters 2.2 and 5.4. Counters enter as
deviations from their mean or as ranks among the runs. Scale, correlation length (reach) of the smooth part, and noise of a run
minimise the error on left-out groups, which has a closed form. All targets of the same runs share the matrices.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from processors.models.counters.selection import (
    HIGHEST,
    LOWEST,
    ColumnRange,
    ErrorByDistance,
    ErrorSums,
    errors,
    scaled,
    scales,
    thinned,
)
from processors.models.numerics.arrays import Bools, Floats, RowPredictions
from processors.models.numerics.scipy_functions import inverse_and_ln_determinant
from processors.models.training.table import FoldErrors, RowModel, RunTable
from processors.models.training.trainer import FitState

BEYOND: Final = 0.25  # largest extrapolation, as a share of the range of a counter
# correlation lengths of the smooth part, in standard deviations of all counters together
REACH: Final = (0.5, 1.0, 2.0)
NOISE: Final = (0.03, 0.1, 0.3, 1.0)  # tried noise variances of a run, as shares of the variance of the target
SCALES: Final = ("deviations", "ranks")
FAR: Final = 12.0  # a counter is clipped at this many standard deviations
RUNS_MIN: Final = 6
DEVIATION_MIN: Final = 0.002
_RANK_DEVIATION: Final = 12.0**0.5  # evenly spread ranks from 0 to 1 have a deviation of 1 / sqrt(12)


@dataclass(frozen=True, slots=True, eq=False)
class CounterScale:
    """The scale of all counters of a process: deviations from the mean, or ranks among the runs."""

    kind: str
    mean: Floats
    deviation: Floats
    steps: tuple[tuple[Floats, Floats], ...]

    @classmethod
    def of(cls, kind: str, values: Floats, weight: Floats) -> "CounterScale":
        mean, deviation = scales(values, weight)
        return cls(kind, mean, deviation, tuple(_step(column) for column in values.T) if kind == "ranks" else ())

    def apply(self, values: Floats) -> Floats:
        """Return the rows (m, p) on this scale.

        Deviations are clipped at FAR standard deviations; a value beyond the range of the runs gets the first or the last rank.
        """
        if self.kind == "deviations":
            return np.clip(scaled(values, self.mean, self.deviation), -FAR, FAR)
        ranked = np.empty(values.shape)
        for j, (value, rank) in enumerate(self.steps):
            ranked[:, j] = np.interp(values[:, j], value, rank)
        return ranked * _RANK_DEVIATION


@dataclass(frozen=True, slots=True, eq=False)
class CounterProcess(RowModel):
    """The fitted Gaussian process of a target over counters.

    `rows` are the scaled runs, `answer` (k,) is their weight in a prediction (inverse covariance times scaled target), and `inverse`
    is the inverse covariance, which gives the deviation. `errors` are those on left-out groups (near known runs) and on left-out
    clusters of runs (far from them).

    >>> from processors.models.training.table import finished
    >>> x = np.linspace(0, 3, 40)[:, None]
    >>> table = RunTable(("a",), x, 200 + 50 * np.sin(x[:, 0]), np.ones(40), np.arange(40))
    >>> found = finished(fitting(table))
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
        rows = self.scale.apply(self.range.apply(values))
        near = kernel(rows, self.rows, self.reach)
        mean = np.clip(self.centre + self.spread * (near @ self.answer), self.low, self.high)
        prior = 1.0 + (rows**2).mean(axis=1)
        variance = np.maximum(prior - (near @ self.inverse * near).sum(axis=1), 0.0)
        # the deviation on left-out runs; larger if no run is near
        distant = self.spread * np.sqrt(variance) / mean
        return RowPredictions(mean, np.hypot(self.errors.near_deviation, distant))


def kernel(a: Floats, b: Floats, reach: float) -> Floats:
    """Return the covariances (m, k) of rows (m, p) and (k, p): a Gaussian of their distance plus their scalar product over p.

    `reach` is the correlation length of the Gaussian, in standard deviations of a column.
    """
    columns = max(a.shape[1], 1)
    joint = a @ b.T
    between = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2.0 * joint
    return np.asarray(np.exp(-np.maximum(between, 0.0) / (2.0 * columns * reach**2)) + joint / columns)


def fitting(
    table: RunTable, state: FitState | None = None, far: Sequence[Bools] = ()
) -> Generator[FitState, None, CounterProcess]:
    """Fit the process, and yield the state after each step of some milliseconds, so that a fit can be resumed.

    `far` are masks (k,) of clusters of runs: the best process is fitted once without each cluster, to measure its error far from
    known runs. Raise ValueError for fewer than RUNS_MIN runs or without columns.

    >>> x = np.arange(9.0)[:, None]
    >>> table = RunTable(("a",), x, 1 + x[:, 0], np.ones(9), np.arange(9))
    >>> [state["tried"] for state in fitting(table)]
    [1, 2, 3, 4, 5, 6]
    """
    if len(table) < RUNS_MIN or not table.names:
        raise ValueError(f"A process needs {RUNS_MIN} runs and a counter.")
    runs = _Runs(table)
    best: FitState = state or {"tried": 0, "parts": 0, "far": list(ErrorSums())}
    for choice in range(best["tried"], len(SCALES) * len(REACH)):
        left = runs.left_out(choice)
        lowest = int(np.argmin([noise_errors.error for noise_errors in left]))
        if choice == 0 or left[lowest].error < best["error"]:
            best = {**best, **left[lowest]._asdict(), "choice": choice, "noise": NOISE[lowest]}
        best = {**best, "tried": choice + 1}
        yield best
    for out in far[best["parts"] :]:
        sums = ErrorSums(*best["far"]).plus(*_without(table, out, best))
        best = {**best, "parts": best["parts"] + 1, "far": list(sums)}
        yield best
    return runs.smooth(best)


def model(table: RunTable, state: FitState) -> CounterProcess:
    """Rebuild the process of a table from the state of its finished fit."""
    return _Runs(table).smooth(state)


def _without(table: RunTable, out: Bools, state: FitState) -> tuple[Floats, Floats]:
    """Return ln(actual / predicted) of the runs `out`, predicted by a process fitted to the other runs, and the weights of these runs."""
    rest = table.rows(~out)
    left_out = _Runs(rest).smooth(state).predict(rest.filled(table.values[out])).value
    return np.log(table.target[out] / left_out), table.weight[out]


class _Runs:
    """The runs of a table, and the processes that can be fitted to them."""

    def __init__(self, whole: RunTable) -> None:
        table = whole.rows(thinned(len(whole)))
        self.target, self.weight, self.shared = table.target, table.weight, whole.shared
        self.share = table.weight / table.weight.sum()
        self.values = table.filled()
        groups, size = np.unique(table.group, return_counts=True)
        self.groups = [np.flatnonzero(table.group == number) for number in groups[size > 1]]
        self.centre, self.spread = (float(scale[0]) for scale in scales(self.target[:, None], self.weight))
        self.low, self.high = LOWEST * float(self.target.min()), HIGHEST * float(self.target.max())
        self.scaled_target = (self.target - self.centre) / (self.spread or np.inf)

    def left_out(self, choice: int) -> list[FoldErrors]:
        """Return the errors on left-out groups, one for each of NOISE; `choice` counts the pairs of a scale and a correlation length."""
        return [self._error(self._off(inverse)) for inverse in self._shared("inverses", self._inverses, choice)]

    def smooth(self, state: FitState) -> CounterProcess:
        scale, rows, inverse = self._shared("inverse", self._inverted, state["choice"], state["noise"])
        return CounterProcess(
            scale=scale,
            range=ColumnRange.of(self.values, BEYOND),
            rows=rows,
            answer=inverse @ self.scaled_target,
            inverse=inverse,
            reach=REACH[state["choice"] % len(REACH)],
            noise=state["noise"],
            centre=self.centre,
            spread=self.spread,
            low=self.low,
            high=self.high,
            errors=errors(state["error"], state["deviation"], ErrorSums(*state["far"])),
        )

    def _error(self, missed_by: Floats) -> FoldErrors:
        left_out = np.clip(self.target - missed_by, self.low, self.high)
        error = float(self.share @ np.abs(left_out / self.target - 1.0))
        return FoldErrors(error, max(float(np.sqrt(self.share @ np.log(self.target / left_out) ** 2)), DEVIATION_MIN))

    def _off(self, inverse: Floats) -> Floats:
        """Return the actual minus the predicted target of each run, (k,), predicted from the runs outside its group.

        No refit is needed: the block of the group in the `inverse` covariance gives these errors.
        """
        answer = inverse @ self.scaled_target
        missed_by = np.asarray(answer / np.diagonal(inverse) * self.spread)  # the case of groups of one run
        for group in self.groups:
            missed_by[group] = np.linalg.solve(inverse[np.ix_(group, group)], answer[group]) * self.spread
        return missed_by

    def _shared(self, kind: str, work: Callable[..., Any], *arguments: float) -> Any:
        """Return `work(*arguments)`, cached for all targets of the same runs, because the result depends only on the values.

        Only the newest result of each kind is cached, because results are large.
        """
        cached = self.shared.get(kind)
        if cached is None or cached[0] != arguments:
            cached = self.shared[kind] = arguments, work(*arguments)
        return cached[1]

    def _covariance(self, choice: int) -> tuple[CounterScale, Floats, Floats]:
        scale = CounterScale.of(SCALES[choice // len(REACH)], self.values, self.weight)
        rows = scale.apply(self.values)
        return scale, rows, kernel(rows, rows, REACH[choice % len(REACH)])

    def _inverses(self, choice: int) -> list[Floats]:
        covariance = self._covariance(choice)[2]
        return [_inverse(covariance, noise / self.weight) for noise in NOISE]

    def _inverted(self, choice: int, noise: float) -> tuple[CounterScale, Floats, Floats]:
        scale, rows, covariance = self._covariance(choice)
        return scale, rows, _inverse(covariance, noise / self.weight)


def _inverse(covariance: Floats, noise: Floats) -> Floats:
    return inverse_and_ln_determinant(covariance + np.diag(noise))[0]


def _step(column: Floats) -> tuple[Floats, Floats]:
    """Return the distinct values of a column and their ranks from -1/2 to 1/2."""
    values, count = np.unique(column, return_counts=True)
    return values, (count.cumsum() - count / 2) / len(column) - 0.5
