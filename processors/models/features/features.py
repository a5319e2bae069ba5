"""Run time from whatever is configured of a job: sizes, counts, choices.

`attributes` (attributes of a job as numbers) -> `law` (powers and products of them) -> `forest` and `smooth` (the law, and
what trees or what is near make of its residuals) -> `model` (all, and which one to believe).
"""

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np

from processors.models.features.smooth import AttributeLaw, SmoothKind, law
from processors.models.numerics.arrays import Floats
from processors.models.numerics.conformal import AggregatedRadius
from processors.models.numerics.statistics import Z95, six_digits
from processors.models.numerics.trees import Forest, Growth, growing
from processors.models.training.table import CHOICE, FittedModel, RowModel, RowPredictions, RunTable, finished, left_out
from processors.models.training.trainer import Continued, FitState, Kind, ReplayedKind, Resumable, resumable

FOREST_TREES: Final = 20
LEAF_ROWS: Final = 2  # run times have outliers: medians of several leaves of two are calm
RUNS_MIN: Final = 12
_NORMAL_90: Final = 1.645


@dataclass(frozen=True, slots=True, eq=False)
class AttributeForest:
    """A law and the forest of its residuals; the answer is the median of what lies in the leaves.

    >>> from processors.models.training.table import finished
    >>> x = np.arange(1.0, 41.0)[:, None]
    >>> found = finished(fitting(RunTable(("n",), x, np.where(x[:, 0] < 20, 10.0, 50.0), np.ones(40), np.arange(40))))
    >>> found.predict(np.array([[10.0], [30.0]])).value.round(-1).tolist()
    [10.0, 50.0]
    """

    law: AttributeLaw
    forest: Forest

    def importances(self) -> Floats:
        """Return the share of each column (p,) in what trees explain beyond the law."""
        return self.forest.importances()

    def predict(self, values: Floats) -> RowPredictions:
        """Return the target of rows (m, p), and the deviation of what lies in the leaves."""
        low, middle, high = self.forest.quantiles(values, (0.05, 0.5, 0.95)).T
        return RowPredictions(np.exp(self.law.ln(values) + middle), (high - low) / 2 / _NORMAL_90)


def fitting(
    table: RunTable, growth: Growth | None = None, rows_at_once: int | None = None
) -> Generator[None, None, AttributeForest]:
    """Yield as trees grow, and return the model of a table; ValueError for less than RUNS_MIN runs or without columns.

    >>> next(fitting(RunTable(("n",), np.ones((3, 1)), np.ones(3), np.ones(3), np.arange(3))))
    Traceback (most recent call last):
    ValueError: A forest of residuals needs 12 runs.
    """
    if len(table) < RUNS_MIN:
        raise ValueError(f"A forest of residuals needs {RUNS_MIN} runs.")
    found = law(table)
    yield
    values = table.filled()
    rest = np.log(table.target) - found.ln(values)
    given = growth or Growth(FOREST_TREES, LEAF_ROWS)
    many = {} if rows_at_once is None else {"rows_at_once": rows_at_once}
    forest = yield from growing(values, rest, table.weight, given, **many)
    return AttributeForest(found, forest)


# Two forecasts of one run time as one, weighted by how both did and by how alike their errors were.
# J. M. Bates, C. W. J. Granger, "The combination of forecasts", Operational Research Quarterly 20 (1969): the share of the
# second that would have had the least squared error in ln t. A second forecast that tells nothing new gets a share that does
# no harm; one that tells all gets all. The band is conformal: it holds as many runs as its own past bands say it has to be
# wide for (`processors.models.numerics.conformal`).

FORGETTING: Final = 0.98
RUNS_FULL: Final = 8.0  # scored runs before the second forecast may have the share that they say
ERROR_MAX: Final = 1.0  # of ln t, that one run counts for
ALIKE: Final = 0.03  # of ln t: forecasts that differ by less are alike, and the first is believed
DEVIATION_MIN: Final = 1e-3
LN_BAND_MAX: Final = math.log(1000.0)
SCORED_MAX: Final = 1_000_000
WINDOW: Final = 64  # runs, in means
WORST: Final = 2.0  # of ln t, that one run counts for in a mean


@dataclass(frozen=True, slots=True)
class LnForecast:
    """A run time by its logarithm, and the standard deviation of that.

    >>> LnForecast.of_band(100.0, 80.0, 125.0).deviation.__round__(3)
    0.136
    """

    ln_t: float
    deviation: float

    @classmethod
    def of_band(cls, run_time_s: float, low_s: float, high_s: float) -> "LnForecast":
        """Return what a band of 90 % about a run time says, ends in any unit of time."""
        return cls(math.log(run_time_s), max(math.log(high_s / low_s) / (2 * Z95), DEVIATION_MIN))


@dataclass(slots=True)
class ForecastBlend:
    """What is known of a first and a second forecast: weighted sums of squared errors, of their product, and of runs.

    `errors` are means of |ln(observed / predicted)| of the first, the second and both, `inside` is the share of runs in the
    band of both: of the newest ones mostly, about WINDOW of them.

    >>> blend = ForecastBlend()
    >>> for i in range(60):
    ...     blend.learn(LnForecast(5.0, 0.3), LnForecast(5.3 if i % 2 else 4.7, 0.05), 5.3 if i % 2 else 4.7)
    >>> blend.share > 0.99, round(blend.combined(LnForecast(5.0, 0.3), LnForecast(5.3, 0.05)).ln_t, 2)
    (True, 5.3)
    >>> ForecastBlend().share
    0.0
    """

    first: float = 0.0
    second: float = 0.0
    both: float = 0.0
    runs: float = 0.0
    scored: int = 0
    errors: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    inside: float = 0.0
    radius: AggregatedRadius = field(default_factory=AggregatedRadius)

    @property
    def share(self) -> float:
        """The share of the second forecast, from 0 to 1."""
        apart = self.first + self.second - 2.0 * self.both
        best = (self.first - self.both) / (apart + RUNS_FULL / 2 * ALIKE**2)
        return min(max(best, 0.0), 1.0) * min(self.runs / RUNS_FULL, 1.0)

    def combined(self, first: LnForecast, second: LnForecast) -> LnForecast:
        """Return the two as one; the deviation is not yet that of the past."""
        share = self.share
        return LnForecast(
            (1.0 - share) * first.ln_t + share * second.ln_t,
            (1.0 - share) * first.deviation + share * second.deviation,
        )

    def band(self, predicted: LnForecast) -> tuple[float, float, float]:
        """Return run time and band of what was `said`, in seconds."""
        reach = min(self.radius.radius() * max(predicted.deviation, DEVIATION_MIN), LN_BAND_MAX)
        return math.exp(predicted.ln_t), math.exp(predicted.ln_t - reach), math.exp(predicted.ln_t + reach)

    def learn(self, first: LnForecast, second: LnForecast, ln_t: float) -> None:
        """Take in what came after both."""
        predicted = self.combined(first, second)
        self._note(predicted, [ln_t - each.ln_t for each in (first, second, predicted)])
        self.radius.learn(six_digits(abs(ln_t - predicted.ln_t) / max(predicted.deviation, DEVIATION_MIN)))
        a, b = (min(max(ln_t - each.ln_t, -ERROR_MAX), ERROR_MAX) for each in (first, second))
        self.first, self.second, self.both = (
            six_digits(FORGETTING * old + new)
            for old, new in ((self.first, a * a), (self.second, b * b), (self.both, a * b))
        )
        self.runs = six_digits(FORGETTING * self.runs + 1.0)

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain data.

        >>> ForecastBlend.build(ForecastBlend().snapshot()) == ForecastBlend()
        True
        """
        return {
            "sums": [self.first, self.second, self.both, self.runs],
            "scored": self.scored,
            "errors": list(self.errors),
            "inside": self.inside,
            "radius": self.radius.snapshot(),
        }

    @classmethod
    def build(cls, state: Mapping[str, Any]) -> "ForecastBlend":
        """Return what a snapshot was taken of."""
        first, second, both, runs = state["sums"]
        given = list(state["errors"]), state["inside"], AggregatedRadius.build(state["radius"])
        return cls(first, second, both, runs, state["scored"], *given)

    def _note(self, predicted: LnForecast, off: list[float]) -> None:
        self.scored = min(self.scored + 1, SCORED_MAX)
        rate = 1.0 / min(self.scored, WINDOW)
        _, low, high = (math.log(each) for each in self.band(predicted))
        covered = 1.0 if low <= predicted.ln_t + off[-1] <= high else 0.0
        self.inside = six_digits(self.inside + rate * (covered - self.inside))
        self.errors = [
            six_digits(old + rate * (min(abs(new), WORST) - old)) for old, new in zip(self.errors, off, strict=True)
        ]


@runtime_checkable
class Explaining(Protocol):
    """A model that says how much of what it explains each column has."""

    def importances(self) -> Floats:
        """Return the shares of the columns, (p,), sum 1; all 0 or none where nothing is explained."""


@runtime_checkable
class Parting(Protocol):
    """A model that parts the costs of what a run's columns tell from what it takes besides."""

    def besides(self, values: Floats) -> Floats:
        """Return the share of a run (m,) that is none of these costs."""


LAW: Final = "law"
FOREST: Final = "forest"
SMOOTH: Final = "smooth"
MODEL_DEVIATION_MIN: Final = 0.005
LEFT_OUT: Final = 256  # runs that tell an error: those of one fold where runs are many


@dataclass(frozen=True, slots=True, eq=False)
class ScoredModel:
    """A model, and its error and deviation on runs that were left out.

    >>> class Same:
    ...     error = 0.0
    ...     def predict(self, values): return RowPredictions(values[:, 0], values[:, 0] * 0)
    >>> ScoredModel(Same(), 0.1, 0.2).predict(np.array([[3.0]])).deviation.round(2).tolist()
    [0.2]
    """

    model: RowModel
    error: float
    deviation: float

    def predict(self, values: Floats) -> RowPredictions:
        """Return the target of rows (m, p); deviations of the model's own widen or narrow that of left-out runs."""
        found = self.model.predict(values)
        own = np.where(found.deviation > 0, found.deviation, self.deviation)
        return RowPredictions(found.value, np.sqrt((self.deviation**2 + own**2) / 2))

    def besides(self, values: Floats) -> Floats:
        """Return the share of a run (m,) that the model does not count as a cost of its columns: all where it does not say."""
        return self.model.besides(values) if isinstance(self.model, Parting) else np.ones(len(values))

    def importances(self) -> Floats:
        """Return the share of each column (p,) in what the model explains; empty where it does not say."""
        return self.model.importances() if isinstance(self.model, Explaining) else np.zeros(0)


def _law(table: RunTable) -> Generator[None, None, RowModel]:
    found = law(table)
    yield
    return found


def _forest(table: RunTable) -> Generator[None, None, RowModel]:
    found = yield from fitting(table)
    return found


def measured(
    fit: Callable[[RunTable], Generator[None, None, RowModel]], table: RunTable
) -> Generator[None, None, FittedModel]:
    """Yield as the fits go on, and return what `fit` makes of a table, with its error on runs that were left out.

    >>> x = np.arange(1.0, 17.0)[:, None]
    >>> finished(measured(_law, RunTable(("n",), x, 10 * x[:, 0], np.ones(16), np.arange(16)))).error < 0.05
    True
    """
    model = yield from fit(table)
    off = yield from left_out(table, fit, enough=LEFT_OUT)
    return ScoredModel(model, off.error, max(off.deviation, MODEL_DEVIATION_MIN))


class LeftOutKind(ReplayedKind):
    """A kind whose error is that of runs that were left out; what is made again of what was found is not judged again.

    >>> x = np.arange(1.0, 17.0)[:, None]
    >>> finished(LeftOutKind(_law)(RunTable(("n",), x, 10 * x[:, 0], np.ones(16), np.arange(16)))).error < 0.05
    True
    """

    def __init__(self, fit: Callable[[RunTable], Generator[None, None, RowModel]]) -> None:
        super().__init__(partial(measured, fit))
        self._fit = fit

    def found(self, model: FittedModel) -> FitState:
        """Return how a model did."""
        return {"error": model.error, "deviation": model.deviation} if isinstance(model, ScoredModel) else {}

    def model(self, table: RunTable, found: FitState) -> FittedModel:
        """Fit all at once."""
        error = float(found["error"])
        deviation = float(found.get("deviation", error))  # older states have the error alone
        return ScoredModel(finished(self._fit(table)), error, max(deviation, MODEL_DEVIATION_MIN))


KINDS: Final[Mapping[str, Resumable]] = {LAW: LeftOutKind(_law), FOREST: LeftOutKind(_forest), SMOOTH: SmoothKind()}


def encoded(attributes: Mapping[str, object]) -> dict[str, float]:
    """Return the attributes as values of a run: numbers as they are, also those in text; a word as `name=word` with 1.

    Runs without a choice count as 0 there. Lists, nested attributes and what is not finite are left out.

    >>> encoded({"atoms": 32000, "solver": "sweep", "steps": "100", "restart": True, "notes": None})
    {'atoms': 32000.0, 'solver=sweep': 1.0, 'steps': 100.0, 'restart': 1.0}
    """
    found: dict[str, float] = {}
    for name, value in attributes.items():
        if isinstance(value, int | float):
            found[name] = float(value)
        elif isinstance(value, str) and value:
            number = _number(value)
            if number is None:
                found[f"{name}{CHOICE}{value}"] = 1.0
            else:
                found[name] = number
    return {name: value for name, value in found.items() if math.isfinite(value)}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


# Models of run time on columns of their own: those of attributes, and those of sets of communication features.
# Columns of communication begin with `network.`; a model of attributes does not look at them, one of a set of features
# (`processors.models.features.communication_costs`) looks at those of its set and at the attributes.

NETWORK: Final = "network."
TREES: Final = Growth(trees=10, leaf_rows=1)  # as in Jain et al.
Choose = Callable[[Sequence[str]], tuple[str, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnModel:
    """A model of some columns of a table: their names, and where they are.

    >>> import numpy as np
    >>> class Same:
    ...     error = 0.0
    ...     def predict(self, values): return RowPredictions(values[:, 0], values[:, 0] * 0)
    >>> ColumnModel(("b",), (1,), Same()).predict(np.array([[3.0, 4.0]])).value.tolist()
    [4.0]
    """

    names: tuple[str, ...]
    at: tuple[int, ...]
    model: FittedModel

    @property
    def error(self) -> float:
        """The error of runs that were left out."""
        return self.model.error

    def predict(self, values: Floats) -> RowPredictions:
        """Return the target of rows (m, p) of the whole table."""
        return self.model.predict(values[:, list(self.at)])

    def besides(self, values: Floats) -> Floats:
        """Return the share of a run (m,) that is no cost of the columns, of rows (m, p) of the whole table."""
        return self.model.besides(values[:, list(self.at)]) if isinstance(self.model, Parting) else np.ones(len(values))

    def importances(self) -> dict[str, float]:
        """Return the share of each column in what the model explains; {} where it does not say."""
        found = self.model.importances() if isinstance(self.model, Explaining) else np.zeros(0)
        return dict(zip(self.names, found.tolist(), strict=True)) if found.any() else {}


def of_attributes(names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that are not of communication.

    >>> of_attributes(("atoms", "n", "network.max_bytes"))
    ('atoms', 'n')
    """
    return tuple(name for name in names if not name.startswith(NETWORK))


def of_set(features: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Return the attributes and these features; ValueError where a table has not all of them.

    >>> of_set(("max_bytes",), ("n", "network.avg_bytes", "network.max_bytes"))
    ('n', 'network.max_bytes')
    """
    wanted = tuple(NETWORK + name for name in features)
    missing = [name for name in wanted if name not in names]
    if missing:
        raise ValueError(f"No run tells {', '.join(missing)}.")
    return (*of_attributes(names), *wanted)


def chosen(choose: Choose, kind: Kind, table: RunTable) -> Generator[None, None, FittedModel]:
    """Yield as the fit goes on, and return the model of the columns that are chosen.

    >>> from processors.models.training.table import finished
    >>> x = np.arange(1.0, 17.0)[:, None]
    >>> finished(chosen(of_attributes, KINDS[LAW], RunTable(("n",), x, 10 * x[:, 0], np.ones(16), np.arange(16)))).names
    ('n',)
    """
    names = choose(table.names)
    model = yield from kind(table.only(names))
    return ColumnModel(names, tuple(table.names.index(name) for name in names), model)


class OfColumns:
    """A kind of model on columns that `choose` takes of the names of a table; ValueError from it where they are not there.

    >>> x = np.arange(1.0, 17.0)[:, None]
    >>> table = RunTable(("n", "network.hops"), np.hstack([x, x]), 10 * x[:, 0], np.ones(16), np.arange(16))
    >>> finished(OfColumns(of_attributes, KINDS[LAW])(table)).names
    ('n',)
    """

    def __init__(self, choose: Choose, kind: Kind) -> None:
        self._choose, self._kind = choose, resumable(kind)

    def __call__(self, table: RunTable) -> Generator[None, None, FittedModel]:
        """Fit from the beginning."""
        names, at = self._columns(table)
        model = yield from self._kind(table.only(names))
        return ColumnModel(names, at, model)

    def fitting(self, table: RunTable, found: FitState | None) -> Generator[FitState, None, FittedModel]:
        """Yield what was found after each step, from `found` on."""
        names, at = self._columns(table)
        model = yield from self._kind.fitting(table.only(names), found)
        return ColumnModel(names, at, model)

    def model(self, table: RunTable, found: FitState) -> FittedModel:
        """Return the model of what was found."""
        names, at = self._columns(table)
        return ColumnModel(names, at, self._kind.model(table.only(names), found))

    def again(self, found: FitState) -> FitState | None:
        """Return what the next fit begins with; None where the kind begins anew."""
        return self._kind.again(found) if isinstance(self._kind, Continued) else None

    def _columns(self, table: RunTable) -> tuple[tuple[str, ...], tuple[int, ...]]:
        names = self._choose(table.names)
        return names, tuple(table.names.index(name) for name in names)


def small_forest(table: RunTable) -> Generator[None, None, RowModel]:
    """Yield as trees grow, and return the law of a table with a forest as small as that of Jain et al.

    >>> next(small_forest(RunTable(("n",), np.ones((3, 1)), np.ones(3), np.ones(3), np.arange(3))))
    Traceback (most recent call last):
    ValueError: A forest of residuals needs 12 runs.
    """
    found = yield from fitting(table, TREES)
    return found


ATTRIBUTE_KINDS: Final[Mapping[str, Resumable]] = {name: OfColumns(of_attributes, kind) for name, kind in KINDS.items()}
