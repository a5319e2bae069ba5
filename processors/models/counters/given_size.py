"""Run time from job size and counters: a level for each size, and a regression of the residuals on the rates of counters.

A counter qualifies by its partial rank correlation with the run time given the size (M. Kendall, "Partial rank correlation",
1942), so a counter that only follows the size is not chosen. The target is ln of the run time, or the run time as a multiple of
the level of its size. A rate enters unchanged, as its ln, or divided by the level if it adds the same time at every size.
Counters are added one by one while they reduce the error on left-out runs (D. Allen, "The relationship between variable
selection and data augmentation", 1974).
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import NormalDist
from typing import Final, NamedTuple

import numpy as np

from processors.models.counters.model import Explanation
from processors.models.counters.selection import scaled, scales
from processors.models.numerics.arrays import Floats, RowPredictions
from processors.models.numerics.statistics import spearman
from processors.models.training.table import RowModel, RunTable, finished, left_out
from processors.models.training.trainer import FitState, ReplayedKind

RUNS_MIN: Final = 12
RUNS_PER_COUNTER: Final = 8
COUNTERS_MAX: Final = 8
CHANCE: Final = 0.05  # probability of choosing any counter if none matters
SIZE_PENALTY: Final = 0.3  # number of imaginary runs that pull the level of a size to the line through all sizes
COUNTER_PENALTY: Final = 0.01  # ridge as a share of the number of runs
GAIN_MIN: Final = 0.02  # share of the squared left-out error that one more counter must save
OWN_RUNS: Final = 3  # runs of a size before it may deviate from the line
CURVED: Final = 4  # number of sizes from which the line may be a parabola
LOWEST: Final = 0.5  # least prediction, as a share of the least observed multiple of the level
HIGHEST: Final = 1.5  # largest prediction, as a share of the largest observed multiple of the level
DEVIATION_MIN: Final = 0.005
NORMAL: Final = math.sqrt(math.pi / 2)  # ratio of standard deviation to mean absolute error of a normal distribution
SAME: Final = 5  # two sizes are equal if ln n agrees to this many decimals
LINEAR, BY_LN, OVER_LEVEL = "rate", "ln rate", "rate over level"
TRIED: Final = 6  # most correlated forms of counters that are tried in each round
STILL: Final = 1e-6  # residuals below this share of a column are rounding errors


@dataclass(frozen=True, slots=True, eq=False)
class SizeTerms:
    """The regression columns of the job size: powers of ln n up to `smooth` - 1, and an indicator for each frequent size in `often`.

    >>> SizeTerms.of(np.log([1.0, 2.0, 2.0, 2.0])).terms(np.log([2.0, 4.0])).round(2).tolist()
    [[1.0, 0.58, 1.0], [1.0, 2.89, 0.0]]
    """

    middle: float
    spread: float
    often: Floats
    smooth: int

    @classmethod
    def of(cls, ln_n: Floats) -> "SizeTerms":
        distinct, runs = np.unique(ln_n.round(SAME), return_counts=True)
        spread, smooth = float(ln_n.std()), min(len(distinct), 2) + (len(distinct) >= CURVED)
        return cls(float(ln_n.mean()), spread if spread > 0 else 1.0, distinct[runs >= OWN_RUNS], smooth)

    def terms(self, ln_n: Floats) -> Floats:
        """Return the regression columns for sizes (m,), given as ln n."""
        scaled_n = (ln_n - self.middle) / self.spread
        line = [np.ones(len(scaled_n)), scaled_n, scaled_n**2][: self.smooth]
        frequent = (ln_n.round(SAME)[:, None] == self.often).astype(np.float64)
        return np.column_stack([*line, frequent])

    @property
    def penalty(self) -> Floats:
        return np.append(np.full(self.smooth, 1e-9), np.full(len(self.often), SIZE_PENALTY))


class PenalisedFit(NamedTuple):
    """A fitted regression: coefficients (q,), and the inverse of its penalised normal matrix (q, q).

    `off` (k,) is the weighted error of each run when it is predicted from all other runs.
    """

    coefficients: Floats
    inverse: Floats
    off: Floats

    @property
    def square(self) -> float:
        return float(self.off @ self.off)


def regression(columns: Floats, target: Floats, weight: Floats, penalty: Floats) -> PenalisedFit:
    """Return the weighted least-squares regression of the target (k,) on columns (k, q); `penalty` (q,) is the ridge of each column."""
    heavy = columns * weight[:, None]
    inverse: Floats = np.asarray(np.linalg.inv(columns.T @ heavy + np.diag(penalty)), np.float64)
    coefficients = inverse @ (heavy.T @ target)
    share = np.minimum(((columns @ inverse) * heavy).sum(axis=1), 0.99)
    errors = (target - columns @ coefficients) / (1.0 - share)
    return PenalisedFit(coefficients, inverse, np.sqrt(weight) * errors)


class Term(NamedTuple):
    """A counter in the regression: its column `at`, its form, and its partial rank correlation `rho` when it was added."""

    at: int
    form: str
    rho: float


@dataclass(frozen=True, slots=True, eq=False)
class GivenSize(RowModel):
    """A fitted regression on size and counters: of ln of the run time if `by_ln`, else of the run time divided by its level.

    The level is the run time expected from the size alone; `level` (q,) are the coefficients of its ln. `fit` has the size columns
    first, then the `terms`, scaled by `mean` (t,) and `deviation` (t,). `error` is the mean relative error on left-out runs.

    >>> x = np.column_stack([np.log(np.tile([1.0, 2.0], 20)), np.arange(40.0)])
    >>> found = given_size(RunTable(("ln_n", "l2"), x, np.exp(-x[:, 0]) * (100 + x[:, 1]), np.ones(40), np.arange(40)), "ln_n")
    >>> found.predict(np.array([[np.log(2.0), 20.0]])).value.round().tolist()
    [60.0]
    """

    names: tuple[str, ...]
    size: int
    sizes: SizeTerms
    level: Floats
    by_ln: bool
    terms: tuple[Term, ...]
    mean: Floats
    deviation: Floats
    fit: PenalisedFit
    low: float
    high: float
    error: float = 0.0

    def predict(self, values: Floats) -> RowPredictions:
        """Return the run times for rows (m, p) without missing values; their deviation grows for unusual counters."""
        ln_level = self.sizes.terms(values[:, self.size]) @ self.level
        columns = self._columns(values, ln_level)
        fitted = columns @ self.fit.coefficients
        multiple = np.clip(np.exp(np.clip(fitted, -50.0, 50.0)) if self.by_ln else fitted, self.low, self.high)
        leverage = ((columns @ self.fit.inverse) * columns).sum(axis=1)
        deviation = max(NORMAL * self.error, DEVIATION_MIN) * np.sqrt(1.0 + np.maximum(leverage, 0.0))
        return RowPredictions(np.exp(ln_level) * multiple, deviation)

    def explanation(self, table: RunTable) -> list[Explanation]:
        """Return the effects of the counters on the run times of `table`, largest first; a coefficient is in s per unit of the rate."""
        values = table.filled()
        level = float(np.exp((self.sizes.terms(values[:, self.size]) @ self.level).mean()))
        steps = self.fit.coefficients[len(self.fit.coefficients) - len(self.terms) :]
        moved = float(np.abs(steps).sum())
        explanations = []
        for term, step, deviation in zip(self.terms, steps.tolist(), self.deviation.tolist(), strict=True):
            rate = float(values[:, term.at].mean())
            per = {LINEAR: level, BY_LN: level / max(rate, 1e-300), OVER_LEVEL: 1.0}[term.form]
            share = abs(step) / moved if moved > 0 else 0.0
            effects = step / deviation * per, step, term.rho, step * level, share
            explanations.append(Explanation(self.names[term.at], *effects))
        return sorted(explanations, key=lambda effect: (-abs(effect.standardised), effect.counter))

    def _columns(self, values: Floats, ln_level: Floats) -> Floats:
        columns = [_in_form(values[:, term.at], term.form, ln_level) for term in self.terms]
        moved = scaled(np.column_stack([np.zeros((len(values), 0)), *columns]), self.mean, self.deviation)
        return np.column_stack([self.sizes.terms(values[:, self.size]), moved])


def _in_form(rates: Floats, form: str, ln_level: Floats) -> Floats:
    if form == BY_LN:
        return np.log(np.maximum(rates, 1e-300))
    return rates if form == LINEAR else rates * np.exp(-ln_level)


def given_size(table: RunTable, size: str) -> GivenSize:
    """Fit a regression of the run time on size and counters together; `size` names the column of ln n.

    Raise ValueError for fewer than RUNS_MIN runs or without the column of the size.

    >>> rng = np.random.default_rng(1)
    >>> n, misses = 2.0 ** rng.integers(0, 4, 60), rng.random(60)
    >>> table = RunTable(("l2", "ln_n"), np.column_stack([misses, np.log(n)]), 100 / n + 50 * misses, np.ones(60), np.arange(60))
    >>> found = given_size(table, "ln_n")
    >>> found.predict(np.array([[0.5, np.log(4.0)]])).value.round().tolist(), found.terms[0].form
    ([50.0], 'rate over level')
    """
    return finished(fitting(table, size))


def fitting(table: RunTable, size: str) -> Generator[None, None, GivenSize]:
    """Fit the regression of `given_size`, and yield after each search for a counter."""
    if len(table) < RUNS_MIN or size not in table.names:
        raise ValueError(f"Run time given the size needs {RUNS_MIN} runs with a size.")
    runs = _Runs(table, size)
    by_ln = yield from runs.forward(by_ln=True)
    by_multiple = yield from runs.forward(by_ln=False)
    return min((by_ln, by_multiple), key=runs.square)


class _Forms(NamedTuple):
    """Scaled columns (k, c), one for each counter in each form that it may have; `terms` are the counter and the form of each column."""

    columns: Floats
    mean: Floats
    deviation: Floats
    terms: Sequence[tuple[int, str]]


class _Runs:
    """The runs of a table, the run time expected at each size (its level), and each run time divided by this level."""

    def __init__(self, table: RunTable, size: str) -> None:
        self.names, self.weight, self.values = table.names, table.weight, table.filled()
        self.size = table.names.index(size)
        ln_n = self.values[:, self.size]
        self.sizes = SizeTerms.of(ln_n)
        self.size_columns = self.sizes.terms(ln_n)
        self.level = regression(self.size_columns, np.log(table.target), table.weight, self.sizes.penalty).coefficients
        self.ln_level = self.size_columns @ self.level
        self.multiple = table.target * np.exp(-self.ln_level)

    def forward(self, *, by_ln: bool) -> Generator[None, None, GivenSize]:
        """Fit the run times over their level, or ln of them, to counters that are added one by one.

        Yield after each search for a counter.
        """
        forms = self._forms((LINEAR, BY_LN) if by_ln else (LINEAR, OVER_LEVEL))
        target = np.log(self.multiple) if by_ln else self.multiple
        columns, penalty = self.size_columns, self.sizes.penalty
        fit = regression(columns, target, self.weight, penalty)
        places: list[int] = []
        terms: list[Term] = []
        terms_max = min(COUNTERS_MAX, len(target) // RUNS_PER_COUNTER)
        while len(terms) < terms_max:
            rho = _partial(columns, penalty, forms.columns, target, self.weight)
            yield
            penalty_after = np.append(penalty, COUNTER_PENALTY * len(target))
            tried = [
                (regression(np.column_stack([columns, forms.columns[:, j]]), target, self.weight, penalty_after), j)
                for j in self._open(rho, forms, terms)
            ]
            best, j = min(tried, key=lambda trial: (trial[0].square, trial[1]), default=(fit, -1))
            if best.square > (1.0 - GAIN_MIN) * fit.square:
                break
            fit, penalty, columns = best, penalty_after, np.column_stack([columns, forms.columns[:, j]])
            places.append(j)
            terms.append(Term(*forms.terms[j], float(rho[j])))
        limits = LOWEST * float(self.multiple.min()), HIGHEST * float(self.multiple.max())
        scale = forms.mean[places], forms.deviation[places]
        return GivenSize(self.names, self.size, self.sizes, self.level, by_ln, tuple(terms), *scale, fit, *limits)

    def square(self, model: GivenSize) -> float:
        """Return the weighted sum of squared ln(actual / predicted), each run predicted without itself."""
        if model.by_ln:
            return model.fit.square
        predicted = np.clip(self.multiple - model.fit.off / np.sqrt(self.weight), model.low, model.high)
        return float(self.weight @ np.log(self.multiple / predicted) ** 2)

    def _forms(self, allowed: Sequence[str]) -> _Forms:
        """Return each counter in each of the `allowed` forms; the form ln needs positive rates in all runs."""
        columns, terms = [np.zeros((len(self.values), 0))], list[tuple[int, str]]()
        for j, rates in enumerate(self.values.T):
            for form in allowed if j != self.size else ():
                if form != BY_LN or (rates > 0).all():
                    columns.append(_in_form(rates, form, self.ln_level)[:, None])
                    terms.append((j, form))
        whole = np.concatenate(columns, axis=1)
        mean, deviation = scales(whole, np.ones(len(whole)))
        return _Forms(scaled(whole, mean, deviation), mean, np.where(deviation > 0, deviation, 1.0), terms)

    def _open(self, rho: Floats, forms: _Forms, terms: Sequence[Term]) -> list[int]:
        """Return the columns that may be added next: of unused counters, with significant |rho|, at most TRIED, largest |rho| first."""
        least = _rho_min(len(self.size_columns) - self.size_columns.shape[1], len({at for at, _ in forms.terms}))
        used = {term.at for term in terms}
        order = np.argsort(-np.abs(rho), kind="stable").tolist()
        return [j for j in order if abs(rho[j]) >= least and forms.terms[j][0] not in used][:TRIED]


def _partial(columns: Floats, penalty: Floats, candidates: Floats, target: Floats, weight: Floats) -> Floats:
    """Return the partial rank correlations (c,) of `candidates` (k, c) with the target (k,), given the `columns` (k, q).

    Both sides are replaced by their residuals in a regression on `columns`.
    """
    heavy = columns * weight[:, None]
    both = np.column_stack([target, candidates])
    residuals = both - columns @ np.linalg.solve(columns.T @ heavy + np.diag(penalty), heavy.T @ both)
    still = np.abs(residuals).max(axis=0) <= STILL * np.maximum(np.abs(both).max(axis=0), 1e-300)
    residuals[:, still] = 0.0
    return spearman(residuals[:, 1:], residuals[:, 0], weight)


def _rho_min(free: int, counters: int) -> float:
    """Return the |rho| that the best of `counters` irrelevant counters exceeds with probability CHANCE.

    `free` is the number of degrees of freedom.

    >>> round(_rho_min(76, 20), 2), round(_rho_min(252, 20), 2)
    (0.35, 0.19)
    """
    deviations = NormalDist().inv_cdf(1.0 - CHANCE / (2 * max(counters, 1)))
    return deviations / math.sqrt(max(free, 1))


class GivenSizeKind(ReplayedKind):
    """The kind of model for `GivenSize`. Its error is cross-validated, with the choice of counters repeated for each fold."""

    def __init__(self, size: str) -> None:
        super().__init__(self._measured)
        self._size = size

    def model(self, table: RunTable, state: FitState) -> GivenSize:
        return replace(given_size(table, self._size), error=float(state["error"]))

    def _measured(self, table: RunTable) -> Generator[None, None, GivenSize]:
        model = yield from fitting(table, self._size)
        errors = yield from left_out(table, partial(fitting, size=self._size))
        return replace(model, error=errors.error)
