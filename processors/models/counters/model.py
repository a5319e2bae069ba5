"""Predictions from counters by a linear and a smooth model, weighted by the errors of both; and the effect of each counter.

Both models are fitted to the same runs. The errors on left-out groups set the weights of both models near known runs; the
errors on left-out clusters set the weights far from known runs (`processors.models.counters.selection`). The smooth model
therefore usually dominates among known runs, and the linear model beyond them.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from processors.models.counters import gaussian_process
from processors.models.counters.gaussian_process import CounterProcess
from processors.models.counters.selection import (
    ROWS_MAX,
    SELECTION_RUNS_MIN,
    ColumnRange,
    Distance,
    Linear,
    LinearModel,
    fitting_linear,
    linear_model,
    parts,
    ridge,
    scales,
    thinned,
)
from processors.models.numerics.arrays import Floats, RowPredictions
from processors.models.numerics.conformal import NORMAL_90
from processors.models.numerics.statistics import spearman
from processors.models.numerics.trees import Forest, Growth, growing
from processors.models.training.table import FittedModel, RowModel, RunTable
from processors.models.training.trainer import FitState, LeftOutKind, ModelKind, TargetLearner

TREES: Final = Growth(trees=20, leaf_rows=2)
BEYOND: Final = 0.25  # the linear part is extrapolated by this share of the range of a counter
RIDGE: Final = 1e-3
RATIO_MAX: Final = 1.5  # largest factor between a prediction and the extremes of the target
DEVIATION_MIN: Final = 0.002


@dataclass(frozen=True, slots=True, eq=False)
class CounterForest(RowModel):
    """A linear model of ln of the target, and a forest of trees for its residuals.

    >>> from processors.models.training.table import finished
    >>> x = np.linspace(0.0, 6.0, 400)[:, None]
    >>> table = RunTable(("a",), x, 200.0 + 50.0 * np.sin(x[:, 0]), np.ones(400), np.arange(400))
    >>> model = finished(FOREST_KIND.fitting(table, None))
    >>> round(model.predict(np.array([[1.57]])).value.item(), -1), model.error < 0.01
    (250.0, True)
    """

    line: Linear
    range: ColumnRange
    forest: Forest
    low: float
    high: float

    def predict(self, values: Floats) -> RowPredictions:
        """Return the predictions for rows (m, p) without missing values, with the standard deviation of the targets in the leaves."""
        inside = self.range.apply(values)
        low, middle, high = self.forest.quantiles(inside, (0.05, 0.5, 0.95)).T
        value = np.clip(np.exp(self.line.predict(inside) + middle), self.low, self.high)
        return RowPredictions(value, (high - low) / 2 / NORMAL_90)


def growing_on(table: RunTable) -> Generator[None, None, RowModel]:
    """Fit the CounterForest of a table, and yield between groups of trees. Raise ValueError without columns."""
    if not table.names:
        raise ValueError("Trees need a counter.")
    values, target = table.filled(), np.log(table.target)
    line = ridge(values, target, table.weight, RIDGE)
    yield
    forest = yield from growing(values, target - line.predict(values), table.weight, TREES)
    low, high = float(table.target.min()) / RATIO_MAX, float(table.target.max()) * RATIO_MAX
    return CounterForest(line, ColumnRange.of(values, BEYOND), forest, low, high)


class ForestKind(LeftOutKind):
    """The kind of model for `CounterForest`; it needs tables of more than ROWS_MAX runs."""

    def fitting(self, table: RunTable, state: FitState | None) -> Generator[FitState, None, FittedModel]:
        if len(table) <= ROWS_MAX:
            raise ValueError(f"Trees need more than {ROWS_MAX} runs.")
        return super().fitting(table, state)


FOREST: Final = "forest"
FOREST_KIND: Final = ForestKind(growing_on, DEVIATION_MIN)


STEPS: Final = 8  # integration steps from the mean run to a point
COUNTERS_MAX: Final = 12  # counters whose effect is integrated; other counters add next to nothing
SHARE_MIN: Final = 0.005  # least reported share in the effect of all counters


@dataclass(frozen=True, slots=True)
class Explanation:
    """The effect of a counter on the target.

    `coefficient` is in the target's unit per unit of the counter's rate, `standardised` the same in standard deviations of both, and
    `rho` the rank correlation. `effect` is the change of the target for one standard deviation of the counter, in the target's
    unit, and `share` is |effect| divided by the sum over all counters.
    """

    counter: str
    coefficient: float
    standardised: float
    rho: float
    effect: float
    share: float


@dataclass(frozen=True, slots=True)
class AddedPart:
    """The amount that a counter adds to one prediction compared with an average run, in the target's unit.

    `share` is |amount| divided by the sum over all counters.
    """

    counter: str
    amount: float
    share: float


def explained(model: RowModel, table: RunTable) -> list[Explanation]:
    """Return the effects of the counters on the predictions of a model for its table, largest first.

    >>> from processors.models.counters.selection import on_all
    >>> x = np.arange(8.0)[:, None]
    >>> table = RunTable(("a", "b"), np.hstack([x, x % 2]), 100 + 50 * (x[:, 0] % 2), np.ones(8), np.arange(8))
    >>> [(each.counter, round(each.effect), round(each.share, 2)) for each in explained(on_all(table, 1e-6), table)]
    [('b', 25, 1.0)]
    """
    values = table.filled()
    mean, deviation = scales(values, table.weight)
    spread = float(scales(table.target[:, None], table.weight)[1][0])
    effect = _differences(model, mean[None, :], deviation)[0]
    rho = spearman(values, table.target, table.weight)
    coefficient = np.divide(effect, deviation, out=np.zeros(len(effect)), where=deviation > 0)
    standardised = effect / spread if spread > 0 else np.zeros(len(effect))
    columns = (column.tolist() for column in (coefficient, standardised, rho, effect, _shares(effect)))
    return _by_share(map(Explanation, table.names, *columns))


def added(model: RowModel, table: RunTable, row: Floats) -> list[AddedPart]:
    """Return the parts that the counters add to the prediction for `row` (1, p), compared with an average run, largest first.

    `row` has no missing values. The parts are integrated gradients along the line from the mean run to `row`; the shares below
    SHARE_MIN are left out.

    >>> from processors.models.counters.selection import on_all
    >>> x = np.arange(8.0)[:, None]
    >>> table = RunTable(("a", "b"), np.hstack([x, x % 2]), 100 + 50 * (x[:, 0] % 2), np.ones(8), np.arange(8))
    >>> [(each.counter, round(each.amount)) for each in added(on_all(table, 1e-6), table, np.array([[3.0, 1.0]]))]
    [('b', 25)]
    """
    mean = scales(table.filled(), table.weight)[0]
    offset = row[0] - mean
    estimate = np.abs(_differences(model, mean[None, :] + offset / 2, offset / 2)[0])
    most = np.argsort(-estimate, kind="stable")[:COUNTERS_MAX]
    points = (np.arange(STEPS) + 0.5) / STEPS
    amounts = np.zeros(len(offset))
    amounts[most] = 2.0 * _differences(model, mean + points[:, None] * offset, offset / (2 * STEPS), most).sum(axis=0)
    ends = model.predict(np.stack([row[0], mean])).value
    sizes = np.abs(amounts).sum()
    if sizes > 0.0:  # distribute the error of the integration in proportion
        amounts = amounts + (ends[0] - ends[1] - amounts.sum()) * np.abs(amounts) / sizes
    return _by_share(map(AddedPart, table.names, amounts.tolist(), _shares(amounts).tolist()))


Part = TypeVar("Part", Explanation, AddedPart)


def _by_share(parts: Iterable[Part]) -> list[Part]:
    """Return the parts with a share of at least SHARE_MIN, largest first."""
    return sorted((part for part in parts if part.share >= SHARE_MIN), key=lambda part: (-part.share, part.counter))


def _differences(model: RowModel, points: Floats, steps: Floats, at: npt.NDArray[np.integer] | None = None) -> Floats:
    """Return half the change (m, q) of the prediction from one step below to one step above each of `points` (m, p), by column.

    `steps` (p,) has the step of each column; `at` (q,) selects columns, by default all.
    """
    single_steps = np.diag(steps) if at is None else np.diag(steps)[at]
    moved, step = np.repeat(points, len(single_steps), axis=0), np.tile(single_steps, (len(points), 1))
    up, down = np.split(model.predict(np.concatenate([moved + step, moved - step])).value, 2)
    return np.asarray((up - down).reshape(len(points), len(single_steps)) / 2.0)


def _shares(amounts: Floats) -> Floats:
    return np.abs(amounts) / (float(np.abs(amounts).sum()) or 1.0)


CYCLES: Final = ("PAPI_TOT_CYC", "cycles", "cpu_cycles", "cpu-cycles", "CPU_CLK_UNHALTED_CORE")


def per_cycle(counters: Mapping[str, float]) -> dict[str, float]:
    """Return each counter per cycle; empty if no counter in CYCLES is positive.

    `counters` are totals over the same time. Negative counters and the counter of cycles are left out.

    >>> per_cycle({"PAPI_TOT_CYC": 1e9, "PAPI_TOT_INS": 1.5e9, "PAPI_L2_DCM": -1.0})
    {'PAPI_TOT_INS': 1.5}
    """
    cycles = next((name for name in CYCLES if counters.get(name, 0.0) > 0.0), None)
    if cycles is None:
        return {}
    rates = {name: value / counters[cycles] for name, value in counters.items() if name != cycles}
    return {name: rate for name, rate in rates.items() if 0.0 <= rate < float("inf")}


# Unusual counters of a run among similar runs, and the weight of a run with unusual counters.
# Counters show that other jobs disturbed a run, for example by fewer instructions per cycle. Distances are in robust standard
# deviations (median and median absolute deviation: F. Hampel, "The influence curve and its role in robust estimation", 1974),
# so that some disturbed runs do not hide the next disturbed run.

RUNS_MIN: Final = 8
FLOOR: Final = 0.01  # least standard deviation as a share of the median, because counters are not more exact
WEIGHT_MIN: Final = 0.05
_NORMAL: Final = 1.4826  # factor from the median absolute deviation to the standard deviation of a normal distribution


class Unusual(NamedTuple):
    """A counter far from its value in similar runs: its rate, the median rate of these runs, and their distance.

    `deviations` is the signed distance in robust standard deviations.
    """

    counter: str
    rate: float
    usual: float
    deviations: float


def unusual(names: Sequence[str], rows: Floats, values: Mapping[str, float], far: float) -> list[Unusual]:
    """Return the counters in `values` that lie at least `far` robust standard deviations from similar runs, farthest first.

    `rows` (k, p) are the rates of the similar runs, nan if missing, in the order of `names`. A counter is skipped if it is missing
    in `values`, known for fewer than RUNS_MIN runs, or 0 in all of them.

    >>> rng = np.random.default_rng(1)
    >>> rows = 1.5 + 0.05 * rng.normal(size=(20, 1))
    >>> [counter.counter for counter in unusual(("ipc",), rows, {"ipc": 0.7}, 5.0)], unusual(("ipc",), rows, {"ipc": 1.52}, 5.0)
    (['ipc'], [])
    """
    counters = []
    for name, column in zip(names, rows.T, strict=True):
        finite, rate = column[np.isfinite(column)], values.get(name, float("nan"))
        if len(finite) < RUNS_MIN or not np.isfinite(rate):
            continue
        usual = float(np.median(finite))
        off = np.abs(finite - usual)
        spread = _NORMAL * float(np.median(off)) or float(off.max())  # the median is 0 if most runs have the same value
        deviation = max(spread, FLOOR * abs(usual))
        if deviation > 0.0 and abs(rate - usual) >= far * deviation:
            counters.append(Unusual(name, float(rate), usual, (rate - usual) / deviation))
    return sorted(counters, key=lambda counter: (-abs(counter.deviations), counter.counter))


def weight(counters: Sequence[Unusual], far: float) -> float:
    """Return the weight of a run: 1 without unusual counters, else the square of `far` / largest deviation, at least WEIGHT_MIN.

    >>> weight([], 5.0), weight([Unusual("ipc", 0.7, 1.5, -10.0)], 5.0)
    (1.0, 0.25)
    """
    farthest = max((abs(counter.deviations) for counter in counters), default=far)
    return max((far / farthest) ** 2, WEIGHT_MIN)


BLEND: Final = "blend"
POWER: Final = 2.0  # the weight of a model is its error to minus this power


@dataclass(frozen=True, slots=True, eq=False)
class CounterBlend(FittedModel):
    """A linear and a smooth model of the same table, whose weights in a prediction depend on its distance from known runs.

    >>> from processors.models.training.table import finished
    >>> x = np.arange(1.0, 31.0)[:, None]
    >>> found = finished(KINDS[BLEND].fitting(RunTable(("a",), 10 * np.sqrt(x), x[:, 0], np.ones(30), np.arange(30)), None))
    >>> found.predict(np.array([[30.0]])).value.round(1).tolist(), found.weights(np.array([[30.0]]))[0].round(2).tolist()
    ([9.0], [0.01, 0.99])
    """

    linear: LinearModel
    smooth: CounterProcess
    distance: Distance

    @property
    def error(self) -> float:
        """An upper bound of the mean error on left-out groups: the mean of both models' errors, with their weights near known runs."""
        weight = self._weights(np.zeros(1))[0]
        return float(weight @ [model.errors.near for model in (self.linear, self.smooth)])

    def weights(self, values: Floats) -> Floats:
        """Return the share of each model in the predictions for rows (m, p): (m, models), sum 1."""
        return self._weights(self.distance.far(values))

    def predict(self, values: Floats) -> RowPredictions:
        distance, answers, deviations = self.distance.far(values), [], []
        for model in (self.linear, self.smooth):
            answer = model.predict(values)
            answers.append(answer.value)
            # the larger of the deviation on left-out runs and the model's own
            deviations.append(np.maximum(model.errors.deviation(distance), answer.deviation))
        columns = (np.stack(rows, axis=1) for rows in (answers, deviations))
        weight = self._weights(distance)
        return RowPredictions(*((weight * column).sum(axis=1) for column in columns))

    def _weights(self, far: Floats) -> Floats:
        weight = np.stack([model.errors.at(far) ** -POWER for model in (self.linear, self.smooth)], axis=1)
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))


class BlendKind(ModelKind):
    """The kind of model for `CounterBlend`: the linear model is fitted first, then the smooth model."""

    def fitting(self, table: RunTable, state: FitState | None) -> Generator[FitState, None, CounterBlend]:
        """Fit both models of a table, and yield the state after each step of some milliseconds.

        Raise ValueError for fewer than SELECTION_RUNS_MIN runs or without columns.
        """
        if len(table) < SELECTION_RUNS_MIN or not table.names:
            raise ValueError(f"A model of counters needs {SELECTION_RUNS_MIN} runs.")
        table = _thinned_table(table)
        held_out = parts(table)
        so_far: FitState = state or {}
        if "smooth" not in so_far:
            for line in fitting_linear(table, held_out, so_far.get("linear")):
                so_far = {"linear": line}
                yield so_far
        for smooth in gaussian_process.fitting(table, so_far.get("smooth"), held_out.far):
            so_far = {**so_far, "smooth": smooth}
            yield so_far
        whole = self.model(table, so_far)
        if "error" not in so_far:
            yield {**so_far, "error": whole.error}
        return whole

    def model(self, table: RunTable, state: FitState) -> CounterBlend:
        table = _thinned_table(table)
        line = linear_model(table, state["linear"])
        return CounterBlend(line, gaussian_process.model(table, state["smooth"]), Distance.of(table, parts(table)))


def _thinned_table(table: RunTable) -> RunTable:
    """Return `table` or, if it is larger, ROWS_MAX of its runs, evenly spread; both share one cache of matrices."""
    rows = thinned(len(table))
    return table if len(rows) == len(table) else replace(table.rows(rows), shared=table.shared)


def explanation(learner: TargetLearner) -> list[Explanation]:
    """Return the effects of the counters on the predictions of a learner, largest first; [] before its first fit."""
    model = learner.models.get(learner.trusted or "")
    return [] if model is None or learner.table is None else explained(model, learner.table)


def adds(learner: TargetLearner, values: Mapping[str, float]) -> list[AddedPart]:
    """Return the parts that the counters add to the prediction of `learner` for `values`, largest first; [] before its first fit."""
    model, table = learner.models.get(learner.trusted or ""), learner.table
    return [] if model is None or table is None else added(model, table, table.row(dict(values)))


KINDS: Final[Mapping[str, ModelKind]] = {BLEND: BlendKind()}
POWER_KINDS: Final[Mapping[str, ModelKind]] = {**KINDS, FOREST: FOREST_KIND}
"""Kinds of model for power. With many runs on many hosts, trees predict power better."""
