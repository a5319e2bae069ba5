"""Run time from counters where its size explains most of it: regression on rates, beside what each size takes anyway.

A counter is found by its rank correlation with the run time given the size, so that one which merely follows the size has
none (partial rank correlation; M. Kendall, "Partial rank correlation", 1942). Time is taken by its ln, or as a multiple of what
its size takes; rates as they are, by their ln, or against what the size takes, where a counter adds the same time at every
size. Counters come in one by one, for as long as what is left follows another (forward selection, by the error of each run
when it is left out: D. Allen, "The relationship between variable selection and data augmentation", 1974).
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import NormalDist
from typing import Final, NamedTuple

import numpy as np

from processors.models.counters.model import Explanation
from processors.models.counters.selection import scaled, scales, spearman
from processors.models.numerics.arrays import Floats
from processors.models.training.table import RowPredictions, RunTable, finished, left_out
from processors.models.training.trainer import FitState, ReplayedKind

RUNS_MIN: Final = 12
RUNS_PER_COUNTER: Final = 8
COUNTERS_MAX: Final = 8
CHANCE: Final = 0.05  # that among all counters, none of which matters, one is found
SIZE_PENALTY: Final = 0.3  # runs of a size that count as if it were in line with the others
COUNTER_PENALTY: Final = 0.01  # of the number of runs
GAIN_MIN: Final = 0.02  # of the squared error left out, that one more counter has to save
OWN_RUNS: Final = 3  # of a size, before it may be off the line
CURVED: Final = 4  # sizes, and the line through them may bend
LOWEST: Final = 0.5  # of the least multiple of what a size takes that was seen: nothing lies further down,
HIGHEST: Final = 1.5  # nor further up than this of the largest
DEVIATION_MIN: Final = 0.005
NORMAL: Final = math.sqrt(math.pi / 2)  # the deviation of a normal distribution, of its mean absolute error
SAME: Final = 5  # digits of ln n
LINEAR, BY_LN, OVER_LEVEL = "rate", "ln rate", "rate over level"
TRIED: Final = 6  # forms that correlate best
STILL: Final = 1e-6  # of a column: what is left of it by rounding


@dataclass(frozen=True, slots=True, eq=False)
class SizeTerms:
    """What each size takes by itself: a line through ln n of so many columns, `smooth`, and how each size that was run often is off it.

    >>> SizeTerms.of(np.log([1.0, 2.0, 2.0, 2.0])).terms(np.log([2.0, 4.0])).round(2).tolist()
    [[1.0, 0.58, 1.0], [1.0, 2.89, 0.0]]
    """

    middle: float
    spread: float
    often: Floats
    smooth: int

    @classmethod
    def of(cls, ln_n: Floats) -> "SizeTerms":
        """Return the sizes (s,) of runs (k,)."""
        known, runs = np.unique(ln_n.round(SAME), return_counts=True)
        spread, smooth = float(ln_n.std()), min(len(known), 2) + (len(known) >= CURVED)
        return cls(float(ln_n.mean()), spread if spread > 0 else 1.0, known[runs >= OWN_RUNS], smooth)

    def terms(self, ln_n: Floats) -> Floats:
        """Return the columns of the regression for sizes (m,)."""
        at = (ln_n - self.middle) / self.spread
        line = [np.ones(len(at)), at, at**2][: self.smooth]
        own = (ln_n.round(SAME)[:, None] == self.often).astype(np.float64)
        return np.column_stack([*line, own])

    @property
    def penalty(self) -> Floats:
        """How much each column is held back."""
        return np.append(np.full(self.smooth, 1e-9), np.full(len(self.often), SIZE_PENALTY))


class Fit(NamedTuple):
    """A regression: coefficients (q,), the inverse that says how well they are known (q, q), errors of runs left out (k,)."""

    coefficients: Floats
    inverse: Floats
    off: Floats

    @property
    def square(self) -> float:
        """The sum of squares of the errors of runs left out."""
        return float(self.off @ self.off)


def regression(columns: Floats, target: Floats, weight: Floats, penalty: Floats) -> Fit:
    """Return the regression of the target (k,) on columns (k, q), each held back by its penalty (q,); errors by their weight.

    >>> x = np.column_stack([np.ones(4), np.arange(4.0)])
    >>> regression(x, 1 + 2 * x[:, 1], np.ones(4), np.zeros(2)).coefficients.round(6).tolist()
    [1.0, 2.0]
    """
    heavy = columns * weight[:, None]
    inverse: Floats = np.asarray(np.linalg.inv(columns.T @ heavy + np.diag(penalty)), np.float64)
    coefficients = inverse @ (heavy.T @ target)
    share = np.minimum(((columns @ inverse) * heavy).sum(axis=1), 0.99)
    off = (target - columns @ coefficients) / (1.0 - share)
    return Fit(coefficients, inverse, np.sqrt(weight) * off)


class Term(NamedTuple):
    """A counter of the regression by its column, how it is taken, and its rank correlation with what the others left."""

    at: int
    form: str
    rho: float


@dataclass(frozen=True, slots=True, eq=False)
class GivenSize:
    """Run time by size and counters, fitted. `by_ln` tells that its ln is linear in the terms, else its multiple of the level.

    `level` (q,) are the coefficients of ln of what each size takes; those of the regression are of the sizes' columns and of the
    terms, which are taken in deviations from `mean` (t,) by `deviation` (t,). `error` is that of runs left out.

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
    fit: Fit
    low: float
    high: float
    error: float = 0.0

    def predict(self, values: Floats) -> RowPredictions:
        """Return the run time of rows (m, p) of the table's columns, none missing; wider where counters are unlike any before."""
        ln_level = self.sizes.terms(values[:, self.size]) @ self.level
        columns = self._columns(values, ln_level)
        found = columns @ self.fit.coefficients
        multiple = np.clip(np.exp(np.clip(found, -50.0, 50.0)) if self.by_ln else found, self.low, self.high)
        further = ((columns @ self.fit.inverse) * columns).sum(axis=1)
        deviation = max(NORMAL * self.error, DEVIATION_MIN) * np.sqrt(1.0 + np.maximum(further, 0.0))
        return RowPredictions(np.exp(ln_level) * multiple, deviation)

    def explanation(self, table: RunTable) -> list[Explanation]:
        """Return the counters, the one that moves the run times of a table most first; coefficients are in s per rate."""
        values = table.filled()
        level = float(np.exp((self.sizes.terms(values[:, self.size]) @ self.level).mean()))
        steps = self.fit.coefficients[len(self.fit.coefficients) - len(self.terms) :]
        moved = float(np.abs(steps).sum())
        found = []
        for term, step, deviation in zip(self.terms, steps.tolist(), self.deviation.tolist(), strict=True):
            rate = float(values[:, term.at].mean())
            per = {LINEAR: level, BY_LN: level / max(rate, 1e-300), OVER_LEVEL: 1.0}[term.form]
            share = abs(step) / moved if moved > 0 else 0.0
            found.append(Explanation(self.names[term.at], step / deviation * per, step, term.rho, step * level, share))
        return sorted(found, key=lambda each: (-abs(each.standardised), each.counter))

    def _columns(self, values: Floats, ln_level: Floats) -> Floats:
        own = [_taken(values[:, term.at], term.form, ln_level) for term in self.terms]
        moved = scaled(np.column_stack([np.zeros((len(values), 0)), *own]), self.mean, self.deviation)
        return np.column_stack([self.sizes.terms(values[:, self.size]), moved])


def _taken(rates: Floats, form: str, ln_level: Floats) -> Floats:
    if form == BY_LN:
        return np.log(np.maximum(rates, 1e-300))
    return rates if form == LINEAR else rates * np.exp(-ln_level)


def given_size(table: RunTable, size: str) -> GivenSize:
    """Return run time by the column `size`, which is ln n, and counters; ValueError for less than RUNS_MIN runs or without it.

    >>> rng = np.random.default_rng(1)
    >>> n, misses = 2.0 ** rng.integers(0, 4, 60), rng.random(60)
    >>> table = RunTable(("l2", "ln_n"), np.column_stack([misses, np.log(n)]), 100 / n + 50 * misses, np.ones(60), np.arange(60))
    >>> found = given_size(table, "ln_n")
    >>> found.predict(np.array([[0.5, np.log(4.0)]])).value.round().tolist(), found.terms[0].form
    ([50.0], 'rate over level')
    """
    return finished(fitting(table, size))


def fitting(table: RunTable, size: str) -> Generator[None, None, GivenSize]:
    """Yield after each counter that was looked for, and return what `given_size` does.

    >>> next(fitting(RunTable(("ln_n",), np.zeros((3, 1)), np.ones(3), np.ones(3), np.arange(3)), "ln_n"))
    Traceback (most recent call last):
    ValueError: Run time given the size needs 12 runs with a size.
    """
    if len(table) < RUNS_MIN or size not in table.names:
        raise ValueError(f"Run time given the size needs {RUNS_MIN} runs with a size.")
    runs = _Runs(table, size)
    by_ln = yield from runs.forward(by_ln=True)
    by_multiple = yield from runs.forward(by_ln=False)
    return min((by_ln, by_multiple), key=runs.square)


class _Forms(NamedTuple):
    """Counters in several forms as columns (k, c), in deviations, and what each is."""

    columns: Floats
    mean: Floats
    deviation: Floats
    counters: Sequence[int]
    forms: Sequence[str]


class _Runs:
    """The runs of a table: what their size takes, and the multiple of that which each took."""

    def __init__(self, table: RunTable, size: str) -> None:
        self.names, self.weight, self.values = table.names, table.weight, table.filled()
        self.size = table.names.index(size)
        ln_n = self.values[:, self.size]
        self.sizes = SizeTerms.of(ln_n)
        self.own = self.sizes.terms(ln_n)
        self.level = regression(self.own, np.log(table.target), table.weight, self.sizes.penalty).coefficients
        self.ln_level = self.own @ self.level
        self.multiple = table.target * np.exp(-self.ln_level)

    def forward(self, *, by_ln: bool) -> Generator[None, None, GivenSize]:
        """Yield after each counter, and return the regression of the multiple, or of its ln, on those that come in."""
        forms = self._forms((LINEAR, BY_LN) if by_ln else (LINEAR, OVER_LEVEL))
        target = np.log(self.multiple) if by_ln else self.multiple
        columns, penalty = self.own, self.sizes.penalty
        fit = regression(columns, target, self.weight, penalty)
        places: list[int] = []
        terms: list[Term] = []
        most = min(COUNTERS_MAX, len(target) // RUNS_PER_COUNTER)
        while len(terms) < most:
            rho = _partial(columns, penalty, forms.columns, target, self.weight)
            yield
            penalty_after = np.append(penalty, COUNTER_PENALTY * len(target))
            tried = [
                (regression(np.column_stack([columns, forms.columns[:, j]]), target, self.weight, penalty_after), j)
                for j in self._open(rho, forms, terms)
            ]
            best, j = min(tried, key=lambda each: (each[0].square, each[1]), default=(fit, -1))
            if best.square > (1.0 - GAIN_MIN) * fit.square:
                break
            fit, penalty, columns = best, penalty_after, np.column_stack([columns, forms.columns[:, j]])
            places.append(j)
            terms.append(Term(forms.counters[j], forms.forms[j], float(rho[j])))
        low, high = LOWEST * float(self.multiple.min()), HIGHEST * float(self.multiple.max())
        mean, deviation = forms.mean[places], forms.deviation[places]
        return GivenSize(
            self.names, self.size, self.sizes, self.level, by_ln, tuple(terms), mean, deviation, fit, low, high
        )

    def square(self, found: GivenSize) -> float:
        """Return the sum of squares of ln errors of runs left out."""
        if found.by_ln:
            return found.fit.square
        left = np.clip(self.multiple - found.fit.off / np.sqrt(self.weight), found.low, found.high)
        return float(self.weight @ np.log(self.multiple / left) ** 2)

    def _forms(self, wanted: Sequence[str]) -> _Forms:
        """Return all counters in these forms; only what is never 0 has a ln."""
        columns, counters, forms = [np.zeros((len(self.values), 0))], [], []
        for j, rates in enumerate(self.values.T):
            for form in wanted if j != self.size else ():
                if form != BY_LN or (rates > 0).all():
                    columns.append(_taken(rates, form, self.ln_level)[:, None])
                    counters.append(j)
                    forms.append(form)
        whole = np.concatenate(columns, axis=1)
        mean, deviation = scales(whole, np.ones(len(whole)))
        return _Forms(scaled(whole, mean, deviation), mean, np.where(deviation > 0, deviation, 1.0), counters, forms)

    def _open(self, rho: Floats, forms: _Forms, terms: Sequence[Term]) -> list[int]:
        """Return the forms of counters that may come in next, those that correlate best."""
        least = _rho_min(len(self.own) - self.own.shape[1], len(set(forms.counters)))
        taken = {term.at for term in terms}
        order = np.argsort(-np.abs(rho), kind="stable").tolist()
        return [j for j in order if abs(rho[j]) >= least and forms.counters[j] not in taken][:TRIED]


def _partial(columns: Floats, penalty: Floats, others: Floats, target: Floats, weight: Floats) -> Floats:
    """Return the rank correlation of others (k, c) with the target (k,), each as what columns (k, q) leave of it."""
    heavy = columns * weight[:, None]
    both = np.column_stack([target, others])
    left = both - columns @ np.linalg.solve(columns.T @ heavy + np.diag(penalty), heavy.T @ both)
    still = np.abs(left).max(axis=0) <= STILL * np.maximum(np.abs(both).max(axis=0), 1e-300)
    left[:, still] = 0.0
    return spearman(left[:, 1:], left[:, 0], weight)


def _rho_min(free: int, counters: int) -> float:
    """Return the rank correlation that chance gives to the best of so many counters in one of 1 / CHANCE tables of `free` runs.

    >>> round(_rho_min(76, 20), 2), round(_rho_min(252, 20), 2)
    (0.35, 0.19)
    """
    deviations = NormalDist().inv_cdf(1.0 - CHANCE / (2 * max(counters, 1)))
    return deviations / math.sqrt(max(free, 1))


class GivenSizeKind(ReplayedKind):
    """Run time given the size as a kind of model: fitted in steps, its error that of runs that all of it never saw.

    >>> x = np.column_stack([np.log(np.tile([1.0, 2.0], 20)), np.arange(40.0)])
    >>> table = RunTable(("ln_n", "l2"), x, np.exp(-x[:, 0]) * (100 + x[:, 1]), np.ones(40), np.arange(40))
    >>> finished(GivenSizeKind("ln_n")(table)).error < 0.01
    True
    """

    def __init__(self, size: str) -> None:
        super().__init__(self._measured)
        self._size = size

    def model(self, table: RunTable, found: FitState) -> GivenSize:
        """Return the model of a table again, from what its fit found in the end."""
        return replace(given_size(table, self._size), error=float(found["error"]))

    def _measured(self, table: RunTable) -> Generator[None, None, GivenSize]:
        found = yield from fitting(table, self._size)
        off = yield from left_out(table, partial(fitting, size=self._size))
        return replace(found, error=off.error)
