"""Run time as a sum of communication costs, which extrapolates beyond the sizes that were run.

The time in the network is a sum of costs that are not negative: a cost for each byte on the busiest link, for each packet that
waited, and for each message in the longest queue (the linear cost models to which N. Jain et al., SC 2013, compare their
features). Trees cannot extrapolate, and powers of features bend. A sum of costs fitted to 64 ranks orders mappings of 512 ranks,
because the features are comparable over sizes (`processors.models.features.communication`).

`CommunicationCosts` is the sum times a law of the attributes. `Ranged` uses the better of this sum and of trees inside the
observed range, and the sum beyond the range.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from processors.models.features.communication import BUSIEST_BYTES, BUSIEST_WAITS, FEATURE_SETS, NIC_BYTES, NIC_DELAY
from processors.models.features.communication import RUNS_MIN as COSTS_RUNS_MIN
from processors.models.features.features import (
    MODEL_DEVIATION_MIN,
    NETWORK,
    RATIO_MAX,
    AttributeLaw,
    OfColumns,
    fitting,
    law,
    of_attributes,
    of_set,
)
from processors.models.features.placement import SPREAD_SETS
from processors.models.numerics.arrays import Floats, RowPredictions
from processors.models.numerics.scipy_functions import least_squares_not_negative
from processors.models.numerics.trees import Growth
from processors.models.training.table import FittedModel, RowModel, RunTable, in_one_step
from processors.models.training.trainer import ModelKind, ReplayedKind, scored

ROUNDS: Final = 3  # rounds of fitting costs and attributes in turn; more rounds change little
BEYOND: Final = 0.1  # distance in ln beyond the observed range from which only the sum of costs predicts
TREES: Final = Growth(trees=10, leaf_rows=1)  # as in Jain et al.


@dataclass(frozen=True, slots=True, eq=False)
class CommunicationCosts(RowModel):
    """A model of the run time: a sum of costs, times a law of the columns that are not communication features.

    The sum is `cost` >= 0 per unit of each of `columns`, and `start` per run.

    >>> x = np.arange(1.0, 17.0)[:, None]
    >>> found = costs(RunTable(("network.max_bytes",), x, 5.0 + 2.0 * x[:, 0], np.ones(16), np.arange(16)))
    >>> found.predict(np.array([[100.0]])).value.round(3).tolist(), found.importances().tolist()
    ([205.0], [1.0])
    """

    columns: tuple[int, ...]
    cost: Floats
    start: float
    spread: Floats
    other_columns: tuple[int, ...]
    attribute_law: AttributeLaw | None
    low_ln: float
    high_ln: float

    def ln(self, values: Floats) -> Floats:
        """Return ln of the target for rows (m, p)."""
        total = np.maximum(values[:, list(self.columns)] @ self.cost + self.start, np.exp(self.low_ln))
        ln_target = np.log(total)
        if self.attribute_law is not None:
            ln_target = ln_target + self.attribute_law.ln(values[:, list(self.other_columns)])
        return np.clip(ln_target, self.low_ln, self.high_ln)

    def predict(self, values: Floats) -> RowPredictions:
        """Return the predictions for rows (m, p). The deviation of the predictions is unknown and set to 0."""
        return RowPredictions(np.exp(self.ln(values)), np.zeros(len(values)))

    def besides(self, values: Floats) -> Floats:
        """Return the share of each run time (m,) that is `start`, not a cost of the columns; only this part scales with the size."""
        total = values[:, list(self.columns)] @ self.cost + self.start
        return np.asarray(np.divide(self.start, total, out=np.ones(len(values)), where=total > 0))

    def importances(self) -> Floats:
        """Return how much each column (p,) varies the costs: cost times its standard deviation, scaled to the sum 1; 0 for other columns."""
        shares = np.zeros(len(self.columns) + len(self.other_columns))
        shares[list(self.columns)] = self.cost * self.spread
        return shares / (float(shares.sum()) or 1.0)


def costs(table: RunTable) -> CommunicationCosts:
    """Fit the costs of the communication columns of a table. Raise ValueError for fewer than LEFT_RUNS_MIN runs or without such columns.

    The fit minimises the squares of relative errors (C. Lawson, R. Hanson, "Solving least squares problems", 1974, chapter 23).
    """
    columns = tuple(i for i, name in enumerate(table.names) if name.startswith(NETWORK))
    if len(table) < LEFT_RUNS_MIN or not columns:
        raise ValueError(f"Costs need {LEFT_RUNS_MIN} runs and a feature of communication.")
    values, target = table.filled(), np.log(table.target)
    other_columns = tuple(i for i in range(len(table.names)) if i not in columns)
    names, network, others = of_attributes(table.names), values[:, list(columns)], values[:, list(other_columns)]
    low_ln, high_ln = float(target.min() - np.log(RATIO_MAX)), float(target.max() + np.log(RATIO_MAX))
    attribute_law = None
    cost, start = _additive(network, np.exp(target), table.weight)
    for _ in range(ROUNDS if np.ptp(others, axis=0).any() else 0):
        total_ln = np.log(np.maximum(network @ cost + start, np.exp(low_ln)))
        attribute_law = law(RunTable(names, others, np.exp(target - total_ln), table.weight, table.group))
        cost, start = _additive(network, np.exp(target - attribute_law.ln(others)), table.weight)
    return CommunicationCosts(columns, cost, start, network.std(axis=0), other_columns, attribute_law, low_ln, high_ln)


LEFT_RUNS_MIN: Final = COSTS_RUNS_MIN * 3 // 4  # runs that remain of COSTS_RUNS_MIN if one fold is left out


def _additive(columns: Floats, target: Floats, weight: Floats) -> tuple[Floats, float]:
    """Return the costs per unit of each column (k, p) and per run with the least weighted squares of relative errors."""
    scale = np.where(columns.max(axis=0) > 0, columns.mean(axis=0), 1.0)
    level = float(np.exp(np.log(target).mean()))
    terms = np.concatenate([columns / scale, np.ones((len(columns), 1))], axis=1)
    root = np.sqrt(weight)
    scaled_costs = level * least_squares_not_negative(terms * (root * level / target)[:, None], root)
    return scaled_costs[:-1] / scale, float(scaled_costs[-1])


@dataclass(frozen=True, slots=True, eq=False)
class Ranged(FittedModel):
    """Two models: `inside` for rows in the observed range (`low` to `high`, (p,) each), `beyond` for rows outside.

    Outside the range the weight of `beyond` grows with the distance from the range, up to 1 at a distance of BEYOND in ln. The
    deviation grows with the disagreement of the two models.
    """

    inside: FittedModel
    beyond: FittedModel
    low: Floats
    high: Floats

    @property
    def error(self) -> float:
        """The error of the inner model on left-out runs."""
        return self.inside.error

    def predict(self, values: Floats) -> RowPredictions:
        inside, beyond = self.inside.predict(values), self.beyond.predict(values)
        share = np.clip(self._distance(values) / BEYOND, 0.0, 1.0)
        apart = np.log(beyond.value / inside.value)
        deviation = np.sqrt((1 - share) * inside.deviation**2 + share * beyond.deviation**2 + (share * apart) ** 2)
        return RowPredictions(inside.value * np.exp(share * apart), deviation)

    def besides(self, values: Floats) -> Floats:
        return self.beyond.besides(values)

    def importances(self) -> Floats:
        return self.inside.importances()

    def _distance(self, values: Floats) -> Floats:
        """Return the distance in ln (m,) from the observed range, of the column that is farthest outside."""
        least = np.maximum(self.high * 1e-6, 1e-300)  # 0 counts as a millionth of the maximum
        logs, low, high = (np.log(np.maximum(each, least)) for each in (values, self.low, self.high))
        return np.asarray(np.maximum(logs - high, low - logs).max(axis=1, initial=0.0))


def ranged(table: RunTable) -> Generator[None, None, FittedModel]:
    """Fit a model of run time from communication features that also extrapolates, and yield between steps.

    Raise ValueError for fewer than COSTS_RUNS_MIN runs.

    >>> from processors.models.training.table import finished
    >>> x = np.arange(1.0, 25.0)[:, None]
    >>> found = finished(ranged(RunTable(("network.max_bytes",), x, 2.0 * x[:, 0], np.ones(24), np.arange(24))))
    >>> found.predict(np.array([[48.0]])).value.round(3).tolist()
    [96.0]
    """
    if len(table) < COSTS_RUNS_MIN:
        raise ValueError(f"A model of mappings needs {COSTS_RUNS_MIN} runs.")
    linear = inside = yield from scored(partial(in_one_step, costs), table, MODEL_DEVIATION_MIN)
    try:
        trees = yield from scored(partial(fitting, growth=TREES), table, MODEL_DEVIATION_MIN)
        inside = min(linear, trees, key=lambda model: model.error)
    except ValueError:
        pass  # too few runs for trees
    values = table.filled()
    return Ranged(inside, linear, values.min(axis=0), values.max(axis=0))


def _kind(*features: str) -> ModelKind:
    return OfColumns(partial(of_set, features), ReplayedKind(ranged))


NETWORK_KINDS: Final[Mapping[str, ModelKind]] = {name: _kind(*features) for name, features in FEATURE_SETS.items()}
COUNTED_KINDS: Final[Mapping[str, ModelKind]] = {
    "bytes_and_delay": _kind(NIC_BYTES, NIC_DELAY),
    "bytes": _kind(NIC_BYTES),
    "busiest": _kind(BUSIEST_BYTES, BUSIEST_WAITS),
    "busiest_bytes": _kind(BUSIEST_BYTES),
}
PLACEMENT_KINDS: Final[Mapping[str, ModelKind]] = {name: _kind(*features) for name, features in SPREAD_SETS.items()}
