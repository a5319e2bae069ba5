"""Run time from communication as a sum of costs, which goes on beyond the sizes that were run.

What a network does takes time in parts that add up: so much for each byte of the busiest link, for each packet that waited,
for each message of the longest queue (the linear cost models that N. Jain et al., SC 2013, compare their features with). None
of them is negative. Trees know nothing beyond what they saw, and powers of features bend there; a sum of costs learned on 64
ranks orders mappings of 512, where features are comparable over sizes (`processors.models.features.communication`).

`CommunicationCosts` (the sum, times a law of the attributes) -> `Ranged` (inside the runs that were seen what was better on runs left out,
beyond them the sum).
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from processors.models.features.communication import FEATURE_SETS
from processors.models.features.communication import RUNS_MIN as COSTS_RUNS_MIN
from processors.models.features.communication_counters import BUSIEST_BYTES, BUSIEST_WAITS, NIC_BYTES, NIC_DELAY
from processors.models.features.features import NETWORK, ScoredModel, chosen, measured, of_set, small_forest
from processors.models.features.placement import SPREAD_SETS
from processors.models.features.smooth import RATIO_MAX, AttributeLaw, law
from processors.models.numerics.arrays import Floats
from processors.models.numerics.scipy_functions import least_squares_not_negative
from processors.models.training.table import FittedModel, RowPredictions, RunTable
from processors.models.training.trainer import Kind

ROUNDS: Final = 3  # costs and attributes by turns: what is left moves little after that
BEYOND: Final = 0.1  # of ln of a column beyond what was seen, from which the sum of costs alone answers


@dataclass(frozen=True, slots=True, eq=False)
class CommunicationCosts:
    """Cost of a unit of each of the columns `at`, and of a run (`start`), all >= 0; `others` is the law of the other columns.

    >>> x = np.arange(1.0, 17.0)[:, None]
    >>> found = costs(RunTable(("network.max_bytes",), x, 5.0 + 2.0 * x[:, 0], np.ones(16), np.arange(16)))
    >>> found.predict(np.array([[100.0]])).value.round(3).tolist(), found.importances().tolist()
    ([205.0], [1.0])
    """

    at: tuple[int, ...]
    cost: Floats
    start: float
    spread: Floats
    off: tuple[int, ...]
    others: AttributeLaw | None
    low_ln: float
    high_ln: float

    def ln(self, values: Floats) -> Floats:
        """Return ln of the target of rows (m, p)."""
        total = np.maximum(values[:, list(self.at)] @ self.cost + self.start, np.exp(self.low_ln))
        found = np.log(total)
        if self.others is not None:
            found = found + self.others.ln(values[:, list(self.off)])
        return np.clip(found, self.low_ln, self.high_ln)

    def predict(self, values: Floats) -> RowPredictions:
        """Return the target of rows (m, p); the deviation is not known here and told as 0."""
        return RowPredictions(np.exp(self.ln(values)), np.zeros(len(values)))

    def besides(self, values: Floats) -> Floats:
        """Return the share of a run (m,) that is no cost of communication: it goes on with the size as the curve does."""
        total = values[:, list(self.at)] @ self.cost + self.start
        return np.asarray(np.divide(self.start, total, out=np.ones(len(values)), where=total > 0))

    def importances(self) -> Floats:
        """Return the share of each column (p,) in what costs explain: cost times deviation; 0 of columns that are no cost."""
        found = np.zeros(len(self.at) + len(self.off))
        found[list(self.at)] = self.cost * self.spread
        total = float(found.sum())
        return found / total if total > 0 else found


def costs(table: RunTable) -> CommunicationCosts:
    """Return the costs of a table's columns of communication; ValueError for less than RUNS_MIN runs, or without such columns.

    The squares of relative errors are least (C. Lawson, R. Hanson, "Solving least squares problems", 1974, chapter 23).

    >>> costs(RunTable(("atoms",), np.ones((9, 1)), np.ones(9), np.ones(9), np.arange(9)))
    Traceback (most recent call last):
    ValueError: Costs need 6 runs and a feature of communication.
    """
    at = tuple(i for i, name in enumerate(table.names) if name.startswith(NETWORK))
    if len(table) < LEFT_RUNS_MIN or not at:
        raise ValueError(f"Costs need {LEFT_RUNS_MIN} runs and a feature of communication.")
    values, target = table.filled(), np.log(table.target)
    off = tuple(i for i in range(len(table.names)) if i not in at)
    varied = off and bool(np.ptp(values[:, list(off)], axis=0).any())
    low_ln, high_ln = float(target.min() - np.log(RATIO_MAX)), float(target.max() + np.log(RATIO_MAX))
    others, factor_ln = None, np.zeros(len(table))
    cost, start = _additive(values[:, list(at)], np.exp(target), table.weight)
    for _ in range(ROUNDS if varied else 0):
        total_ln = np.log(np.maximum(values[:, list(at)] @ cost + start, np.exp(low_ln)))
        names = tuple(table.names[i] for i in off)
        rest = RunTable(names, values[:, list(off)], np.exp(target - total_ln), table.weight, table.group)
        others = law(rest)
        factor_ln = others.ln(rest.values)
        cost, start = _additive(values[:, list(at)], np.exp(target - factor_ln), table.weight)
    return CommunicationCosts(at, cost, start, values[:, list(at)].std(axis=0), off, others, low_ln, high_ln)


LEFT_RUNS_MIN: Final = COSTS_RUNS_MIN * 3 // 4  # what is left of the least runs when a fold is out


def _additive(columns: Floats, target: Floats, weight: Floats) -> tuple[Floats, float]:
    """Return the costs of columns (k, p) and of a run, for which the weighted squares of relative errors are least."""
    scale = np.where(columns.max(axis=0) > 0, columns.mean(axis=0), 1.0)
    level = float(np.exp(np.log(target).mean()))
    terms = np.concatenate([columns / scale, np.ones((len(columns), 1))], axis=1)
    root = np.sqrt(weight)
    found = level * least_squares_not_negative(terms * (root * level / target)[:, None], root)
    return found[:-1] / scale, float(found[-1])


@dataclass(frozen=True, slots=True, eq=False)
class Ranged:
    """A model that answers inside what was seen (`low` to `high`, (p,) each), and one that answers beyond.

    Between them the share of the second grows with the distance, up to BEYOND in ln; where they differ the deviation does too.

    >>> class Line:
    ...     error = 0.1
    ...     def __init__(self, slope): self.slope = slope
    ...     def predict(self, values): return RowPredictions(1 + self.slope * values[:, 0], values[:, 0] * 0)
    >>> found = Ranged(Line(0.0), Line(1.0), np.array([1.0]), np.array([4.0]))
    >>> found.predict(np.array([[3.0], [8.0]])).value.round(6).tolist()
    [1.0, 9.0]
    """

    inside: FittedModel
    beyond: FittedModel
    low: Floats
    high: Floats

    @property
    def error(self) -> float:
        """The error of runs that were left out, inside what was seen."""
        return self.inside.error

    def predict(self, values: Floats) -> RowPredictions:
        """Return the target of rows (m, p)."""
        inside, beyond = self.inside.predict(values), self.beyond.predict(values)
        share = np.clip(self._distance(values) / BEYOND, 0.0, 1.0)
        apart = np.log(beyond.value / inside.value)
        deviation = np.sqrt((1 - share) * inside.deviation**2 + share * beyond.deviation**2 + (share * apart) ** 2)
        return RowPredictions(inside.value * np.exp(share * apart), deviation)

    def besides(self, values: Floats) -> Floats:
        """Return the share of a run (m,) that is no cost of communication, by the model that answers beyond."""
        return self.beyond.besides(values) if isinstance(self.beyond, ScoredModel) else np.ones(len(values))

    def importances(self) -> Floats:
        """Return the share of each column (p,) in what is explained inside."""
        return self.inside.importances() if isinstance(self.inside, ScoredModel) else np.zeros(len(self.low))

    def _distance(self, values: Floats) -> Floats:
        """Return by how much ln of the column that is furthest out lies beyond what was seen, (m,)."""
        least = np.maximum(self.high * 1e-6, 1e-300)  # what is 0 lies no further out than a millionth
        taken, low, high = (np.log(np.maximum(each, least)) for each in (values, self.low, self.high))
        return np.asarray(np.maximum(taken - high, low - taken).max(axis=1, initial=0.0))


def _costs(table: RunTable) -> Generator[None, None, CommunicationCosts]:
    found = costs(table)
    yield
    return found


def ranged(table: RunTable) -> Generator[None, None, FittedModel]:
    """Yield as fits go on, and return the model of mappings; ValueError for less than COSTS_RUNS_MIN runs.

    >>> from processors.models.training.table import finished
    >>> x = np.arange(1.0, 25.0)[:, None]
    >>> found = finished(ranged(RunTable(("network.max_bytes",), x, 2.0 * x[:, 0], np.ones(24), np.arange(24))))
    >>> found.predict(np.array([[48.0]])).value.round(3).tolist()
    [96.0]
    """
    if len(table) < COSTS_RUNS_MIN:
        raise ValueError(f"A model of mappings needs {COSTS_RUNS_MIN} runs.")
    linear = inside = yield from measured(_costs, table)
    try:
        smooth = yield from measured(small_forest, table)
    except ValueError:
        pass  # too few runs for trees
    else:
        inside = min(linear, smooth, key=lambda model: model.error)
    values = table.filled()
    return Ranged(inside, linear, values.min(axis=0), values.max(axis=0))


NETWORK_KINDS: Final[Mapping[str, Kind]] = {
    name: partial(chosen, partial(of_set, features), ranged) for name, features in FEATURE_SETS.items()
}
COUNTED_KINDS: Final[Mapping[str, Kind]] = {
    "bytes_and_delay": partial(chosen, partial(of_set, (NIC_BYTES, NIC_DELAY)), ranged),
    "bytes": partial(chosen, partial(of_set, (NIC_BYTES,)), ranged),
    "busiest": partial(chosen, partial(of_set, (BUSIEST_BYTES, BUSIEST_WAITS)), ranged),
    "busiest_bytes": partial(chosen, partial(of_set, (BUSIEST_BYTES,)), ranged),
}
PLACEMENT_KINDS: Final[Mapping[str, Kind]] = {
    name: partial(chosen, partial(of_set, features), ranged) for name, features in SPREAD_SETS.items()
}
