"""What is expected of a run from its counters: a linear model and one that bends, each believed as far as it was right.

Both are fitted to the same runs. How wrong each was about groups of runs that were left out, and about whole clusters of them,
says how much each counts, near what was learned and far from it (`processors.models.counters.selection`). So the one that bends
answers among the runs that it saw, where it is the better one, and beyond them the line.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from processors.models.counters import gaussian_process, linear
from processors.models.counters.gaussian_process import CounterProcess
from processors.models.counters.linear import LinearModel
from processors.models.counters.selection import (
    ROWS_MAX,
    SELECTION_RUNS_MIN,
    ColumnRange,
    Distance,
    Linear,
    parts,
    ridge,
    scales,
    spearman,
    thinned,
)
from processors.models.numerics.arrays import Floats
from processors.models.numerics.trees import Forest, Growth, growing
from processors.models.training.table import FittedModel, RowModel, RowPredictions, RunTable, finished, left_out, silent
from processors.models.training.trainer import FitState, Kind, ReplayedKind, TargetLearner

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
    >>> table = RunTable(("a",), x, 200.0 + 50.0 * np.sin(x[:, 0]), np.ones(400), np.arange(400))
    >>> found = finished(FOREST_KIND(table))
    >>> round(found.predict(np.array([[1.57]])).value.item(), -1), found.error < 0.01
    (250.0, True)
    """

    line: Linear
    range: ColumnRange
    forest: Forest
    low: float
    high: float
    error: float = 0.0
    deviation: float = 0.0

    def predict(self, values: Floats) -> RowPredictions:
        """Return the target of rows (m, p), none missing, and the deviation of left-out runs and of what lies in the leaves."""
        inside = self.range.apply(values)
        low, middle, high = self.forest.quantiles(inside, (0.05, 0.5, 0.95)).T
        found = np.clip(np.exp(self.line.predict(inside) + middle), self.low, self.high)
        own = (high - low) / 2 / _NORMAL_90
        return RowPredictions(found, np.hypot(np.where(own > 0, own, self.deviation), self.deviation) / 2**0.5)


def growing_on(table: RunTable) -> Generator[None, None, Grown]:
    """Yield as trees grow, and return the line and the trees of a table; ValueError without columns.

    >>> next(growing_on(RunTable((), np.ones((9, 0)), np.ones(9), np.ones(9), np.arange(9))))
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
    return Grown(line, ColumnRange.of(values, BEYOND), forest, low, high)


class ForestKind(ReplayedKind):
    """Trees as a kind of model, of more runs than a smooth model takes; what is made again of what was found is not judged again.

    >>> next(FOREST_KIND(RunTable(("a",), np.ones((9, 1)), np.ones(9), np.ones(9), np.arange(9))))
    Traceback (most recent call last):
    ValueError: Trees need more than 256 runs.
    """

    def __init__(self) -> None:
        super().__init__(_judged)

    def found(self, model: FittedModel) -> FitState:
        """Return how a model did."""
        return {"error": model.error, "deviation": model.deviation} if isinstance(model, Grown) else {}

    def model(self, table: RunTable, found: FitState) -> Grown:
        """Grow all at once."""
        return _with(finished(growing_on(table)), found["error"], found["deviation"])


def _judged(table: RunTable) -> Generator[None, None, Grown]:
    """Yield as trees grow, and return those of a table with their errors about runs that were left out."""
    if len(table) <= ROWS_MAX:
        raise ValueError(f"Trees need more than {ROWS_MAX} runs.")
    found = yield from growing_on(table)
    off = yield from left_out(table, _answering, enough=LEFT_OUT)
    return _with(found, off.error, max(off.deviation, DEVIATION_MIN))


def _answering(table: RunTable) -> Generator[None, None, RowModel]:
    found = yield from growing_on(table)
    return found


def _with(found: Grown, error: float, deviation: float) -> Grown:
    return Grown(found.line, found.range, found.forest, found.low, found.high, float(error), float(deviation))


FOREST: Final = "forest"
FOREST_KIND: Final = ForestKind()


STEPS: Final = 8  # of the way from the mean run to a point
COUNTERS_MAX: Final = 12  # that are followed on the way; the others add next to nothing
SHARE_MIN: Final = 0.005  # of what all counters move: less explains nothing


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why: a counter, and what it does to the target.

    `coefficient` is in the target's unit per rate, `standardised` the same in deviations of both, `rho` the rank correlation.
    `effect` is what one deviation of the counter adds in the target's unit, `share` its part of what all counters move.

    >>> Explanation("PAPI_L2_TCM", 120.0, 0.8, 0.91, 16.0, 0.6).counter
    'PAPI_L2_TCM'
    """

    counter: str
    coefficient: float
    standardised: float
    rho: float
    effect: float
    share: float


@dataclass(frozen=True, slots=True)
class AddedPart:
    """What a counter adds to one answer beyond that for the mean run, in the target's unit, and its share of all that is added.

    >>> AddedPart("PAPI_L2_TCM", -4.0, 0.25).amount
    -4.0
    """

    counter: str
    amount: float
    share: float


def explained(model: RowModel, table: RunTable) -> list[Explanation]:
    """Return the counters that move what a model of a table says, the one that moves it most first.

    >>> from processors.models.counters.selection import on_all
    >>> x = np.arange(8.0)[:, None]
    >>> table = RunTable(("a", "b"), np.hstack([x, x % 2]), 100 + 50 * (x[:, 0] % 2), np.ones(8), np.arange(8))
    >>> [(each.counter, round(each.effect), round(each.share, 2)) for each in explained(on_all(table, 1e-6), table)]
    [('b', 25, 1.0)]
    """
    values = table.filled()
    mean, deviation = scales(values, table.weight)
    spread = float(scales(table.target[:, None], table.weight)[1][0])
    effect = _differences(model, mean[None, :], deviation)[0] if table.names else np.zeros(0)
    rho = spearman(values, table.target, table.weight)
    share = _shares(effect)
    coefficient = np.divide(effect, deviation, out=np.zeros(len(effect)), where=deviation > 0)
    found = [
        Explanation(
            name,
            float(coefficient[i]),
            float(effect[i]) / spread if spread > 0 else 0.0,
            float(rho[i]),
            float(effect[i]),
            float(share[i]),
        )
        for i, name in enumerate(table.names)
        if share[i] >= SHARE_MIN
    ]
    return sorted(found, key=lambda each: (-each.share, each.counter))


def added(model: RowModel, table: RunTable, row: Floats) -> list[AddedPart]:
    """Return what counters add to the answer to a row (1, p), none missing, the one that adds most first.

    >>> from processors.models.counters.selection import on_all
    >>> x = np.arange(8.0)[:, None]
    >>> table = RunTable(("a", "b"), np.hstack([x, x % 2]), 100 + 50 * (x[:, 0] % 2), np.ones(8), np.arange(8))
    >>> [(each.counter, round(each.amount)) for each in added(on_all(table, 1e-6), table, np.array([[3.0, 1.0]]))]
    [('b', 25)]
    """
    if not table.names:
        return []
    mean = scales(table.filled(), table.weight)[0]
    way = row[0] - mean
    about = np.abs(_differences(model, mean[None, :] + way / 2, way / 2)[0])
    most = np.argsort(-about, kind="stable")[:COUNTERS_MAX]
    at = (np.arange(STEPS) + 0.5) / STEPS
    amounts = np.zeros(len(way))
    amounts[most] = 2.0 * _differences(model, mean + at[:, None] * way, way / (2 * STEPS), most).sum(axis=0)
    ends = model.predict(np.stack([row[0], mean])).value
    sizes = np.abs(amounts).sum()
    if sizes > 0.0:  # what the steps missed belongs to those that move most
        amounts = amounts + (ends[0] - ends[1] - amounts.sum()) * np.abs(amounts) / sizes
    return _named(table.names, amounts)


def _named(names: Sequence[str], amounts: Floats) -> list[AddedPart]:
    share = _shares(amounts)
    found = [
        AddedPart(name, float(amounts[i]), float(share[i])) for i, name in enumerate(names) if share[i] >= SHARE_MIN
    ]
    return sorted(found, key=lambda each: (-each.share, each.counter))


def _differences(model: RowModel, points: Floats, steps: Floats, at: npt.NDArray[np.integer] | None = None) -> Floats:
    """Return half of what the answers differ by, at points (m, p), between a step (p,) up and one down in each column (q,): (m, q)."""
    each = np.diag(steps) if at is None else np.diag(steps)[at]
    columns = len(each)
    moved = np.repeat(points, columns, axis=0)
    step = np.tile(each, (len(points), 1))
    both = model.predict(np.concatenate([moved + step, moved - step])).value
    return np.asarray((both[: len(moved)] - both[len(moved) :]).reshape(len(points), columns) / 2.0)


def _shares(amounts: Floats) -> Floats:
    total = np.abs(amounts).sum()
    return np.abs(amounts) / total if total > 0 else np.zeros(len(amounts))


CYCLES: Final = ("PAPI_TOT_CYC", "cycles", "cpu_cycles", "cpu-cycles", "CPU_CLK_UNHALTED_CORE")


def per_cycle(counters: Mapping[str, float], names: tuple[str, ...] = CYCLES) -> dict[str, float]:
    """Return each counter per cycle; empty where none of the names of cycles has a positive number.

    Counters are totals over the same time. What is negative is no count and left out, the cycles themselves too.

    >>> per_cycle({"PAPI_TOT_CYC": 1e9, "PAPI_TOT_INS": 1.5e9, "PAPI_L2_DCM": -1.0})
    {'PAPI_TOT_INS': 1.5}
    """
    cycles = next((name for name in names if counters.get(name, 0.0) > 0.0), None)
    if cycles is None:
        return {}
    counts = {name: value for name, value in counters.items() if name != cycles and value >= 0.0}
    rates = {name: value / counters[cycles] for name, value in counts.items()}
    return {name: rate for name, rate in rates.items() if rate < float("inf")}


# Which counters of a run are not as they are in runs like it, and how much such a run should count.
# A run that was disturbed by others shows it: more waiting, fewer instructions per cycle. Distances are in robust deviations
# (median and median absolute deviation: F. Hampel, "The influence curve and its role in robust estimation", 1974), so that
# disturbed runs among those compared do not hide the next one.

RUNS_MIN: Final = 8
FAR: Final = 5.0  # robust deviations: less is a run like others
FLOOR: Final = 0.01  # of the median: counters are not more exact than this
WEIGHT_MIN: Final = 0.05
_NORMAL: Final = 1.4826  # from the median absolute deviation to that of a normal distribution


class Unusual(NamedTuple):
    """A counter that is far from what it is in runs like this one: its rate, the usual one, and how far, with its sign.

    >>> Unusual("PAPI_RES_STL", 0.8, 0.4, 9.0).counter
    'PAPI_RES_STL'
    """

    counter: str
    rate: float
    usual: float
    deviations: float


def unusual(table: RunTable, values: Mapping[str, float], far: float = FAR) -> list[Unusual]:
    """Return the unusual counters of a run among runs that should be like it (of its size), the farthest first.

    [] where fewer than RUNS_MIN runs have a counter, or the run does not have it, or it is 0 in all of them: then nobody
    can say how far is far.

    >>> rng = np.random.default_rng(1)
    >>> like = RunTable(("ipc",), 1.5 + 0.05 * rng.normal(size=(20, 1)), np.ones(20), np.ones(20), np.arange(20))
    >>> [each.counter for each in unusual(like, {"ipc": 0.7})], unusual(like, {"ipc": 1.52})
    (['ipc'], [])
    """
    found = []
    for name, column in zip(table.names, table.values.T, strict=True):
        known = column[np.isfinite(column)]
        rate = values.get(name, float("nan"))
        if len(known) < RUNS_MIN or not np.isfinite(rate):
            continue
        usual = float(np.median(known))
        deviation = _deviation(known, usual)
        if deviation > 0.0 and abs(rate - usual) >= far * deviation:
            found.append(Unusual(name, float(rate), usual, (rate - usual) / deviation))
    return sorted(found, key=lambda each: (-abs(each.deviations), each.counter))


def _deviation(known: Floats, usual: float) -> float:
    """Return the robust deviation of a counter; where most runs have the same, how far the farthest of them is."""
    off = np.abs(known - usual)
    spread = _NORMAL * float(np.median(off)) or float(off.max())
    return max(spread, FLOOR * abs(usual))


def weight(found: Sequence[Unusual], far: float = FAR) -> float:
    """Return how much a run with these unusual counters counts: 1 without any, less the farther the farthest is.

    >>> weight([]), weight([Unusual("ipc", 0.7, 1.5, -10.0)])
    (1.0, 0.25)
    """
    if not found:
        return 1.0
    return max((far / max(abs(each.deviations) for each in found)) ** 2, WEIGHT_MIN)


BLEND: Final = "blend"
POWER: Final = 2.0  # of one over its error, by which a model counts


@dataclass(frozen=True, slots=True, eq=False)
class CounterBlend:
    """Both models of a table, and what each was wrong by, near and far; without `smooth` where there are no columns.

    >>> x = np.arange(1.0, 31.0)[:, None]
    >>> found = blend(RunTable(("a",), 10 * np.sqrt(x), x[:, 0], np.ones(30), np.arange(30)))
    >>> found.predict(np.array([[30.0]])).value.round(1).tolist(), found.weights(np.array([[30.0]]))[0].round(2).tolist()
    ([9.0], [0.01, 0.99])
    """

    linear: LinearModel
    smooth: CounterProcess | None
    distance: Distance | None

    @property
    def error(self) -> float:
        """The mean error about groups that were left out, at most: those of the models, as they count near."""
        weight = self._weights(np.zeros(1))[0]
        return float(weight @ [each.errors.near for each in self._models])

    def weights(self, values: Floats) -> Floats:
        """Return how much each model counts in the answer to rows (m, p): (m, models), shares of 1."""
        return self._weights(self._far(values))

    def predict(self, values: Floats) -> RowPredictions:
        """Return the target of rows (m, p) of the table's columns, none missing."""
        far = self._far(values)
        weight = self._weights(far)
        answers = [each.predict(values) for each in self._models]
        value = np.stack([each.value for each in answers], axis=1)
        # what errors were when runs were left out, and more where a model knows it
        left_out = [each.errors.deviation(far) for each in self._models]
        deviation = np.stack(
            [np.maximum(off, each.deviation) for off, each in zip(left_out, answers, strict=True)], axis=1
        )
        return RowPredictions((weight * value).sum(axis=1), (weight * deviation).sum(axis=1))

    @property
    def _models(self) -> tuple[LinearModel | CounterProcess, ...]:
        return (self.linear,) if self.smooth is None else (self.linear, self.smooth)

    def _far(self, values: Floats) -> Floats:
        return np.zeros(len(values)) if self.distance is None else self.distance.far(values)

    def _weights(self, far: Floats) -> Floats:
        weight = np.stack([each.errors.at(far) ** -POWER for each in self._models], axis=1)
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def blend(table: RunTable) -> CounterBlend:
    """Return both models of a table, all at once.

    Raises ValueError for less than SELECTION_RUNS_MIN runs.

    >>> blend(RunTable((), np.zeros((1, 0)), np.ones(1), np.ones(1), np.arange(1)))
    Traceback (most recent call last):
    ValueError: A model of counters needs 6 runs.
    """
    return finished(fitting(table))


def fitting(table: RunTable, found: FitState | None = None) -> Generator[FitState, None, CounterBlend]:
    """Yield what was found after each part of the work, which takes milliseconds, and return both models of a table.

    >>> x = np.arange(1.0, 9.0)[:, None]
    >>> table = RunTable(("a",), x, 10 * x[:, 0], np.ones(8), np.arange(8))
    >>> [sorted(found) for found in fitting(table)][4:6], len(list(fitting(table)))
    ([['linear'], ['linear', 'smooth']], 12)
    """
    if len(table) < SELECTION_RUNS_MIN:
        raise ValueError(f"A model of counters needs {SELECTION_RUNS_MIN} runs.")
    table = _some(table)
    left_out = parts(table)
    so_far: FitState = found or {}
    if "smooth" not in so_far:
        for line in linear.fitting(table, left_out, so_far.get("linear")):
            so_far = {"linear": line}
            yield so_far
    if table.names:
        for smooth in gaussian_process.fitting(table, so_far.get("smooth"), left_out.far):
            so_far = {**so_far, "smooth": smooth}
            yield so_far
    whole = model(table, so_far)
    if "error" not in so_far:
        yield {**so_far, "error": whole.error}
    return whole


def _some(table: RunTable) -> RunTable:
    """Return as many runs of a table as matrices are made of, spread evenly; what is worked out of them is shared as that of all."""
    at = thinned(len(table))
    return table if len(at) == len(table) else replace(table.rows(at), shared=table.shared)


def model(table: RunTable, found: FitState) -> CounterBlend:
    """Return both models of a table again, from what their fit found in the end.

    >>> x = np.arange(1.0, 9.0)[:, None]
    >>> table = RunTable(("a",), x, 10 * x[:, 0], np.ones(8), np.arange(8))
    >>> *_, found = fitting(table)
    >>> model(table, found).error == blend(table).error
    True
    """
    table = _some(table)
    line = linear.model(table, found["linear"])
    if not table.names:
        return CounterBlend(line, None, None)
    return CounterBlend(line, gaussian_process.model(table, found["smooth"]), Distance.of(table, parts(table)))


def explanation(learner: TargetLearner) -> list[Explanation]:
    """Return what each counter adds to what a learner expects, the one that moves it most first; [] before its first fit.

    >>> explanation(TargetLearner("power_w", KINDS))
    []
    """
    found = learner.models.get(learner.trusted or "")
    return [] if found is None or learner.table is None else explained(found, learner.table)


def adds(learner: TargetLearner, values: Mapping[str, float]) -> list[AddedPart]:
    """Return what counters add to what a learner expects of these values, that which adds most first; [] before its first fit.

    >>> adds(TargetLearner("power_w", KINDS), {"ipc": 1.0})
    []
    """
    found = learner.models.get(learner.trusted or "")
    return (
        [] if found is None or learner.table is None else added(found, learner.table, learner.table.row(dict(values)))
    )


class _Both:
    """Both models as a kind that can be taken up again."""

    def __call__(self, table: RunTable) -> Generator[None, None, FittedModel]:
        found = yield from silent(fitting(table))
        return found

    def fitting(self, table: RunTable, found: FitState | None) -> Generator[FitState, None, FittedModel]:
        return fitting(table, found)

    def model(self, table: RunTable, found: FitState) -> FittedModel:
        return model(table, found)


KINDS: Final[Mapping[str, Kind]] = {BLEND: _Both()}
POWER_KINDS: Final[Mapping[str, Kind]] = {**KINDS, FOREST: FOREST_KIND}
"""Those of power: of many runs, on many hosts, trees see more."""
