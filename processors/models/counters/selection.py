"""The counters that explain a target, and the linear model of them: MuMMI's performance-tuned supervised PCA.

1. Counters that correlate with the target by rank. 2. A regression on them, 3. without those whose coefficient is
negligible. 4. Principal components of the rest; 5. the counters that take part in them. 6. The final linear model.
(C. Lively et al., "E-AMOM: an energy-aware modeling and optimization methodology", 2014, describe the same steps.)

Where there are fewer runs than counters plain regression has no one answer: step 2 takes a little ridge on scaled
columns, and the final model has at most as many counters as runs allow.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from processors.models.counters.components import loadings
from processors.models.counters.correlation import spearman
from processors.models.counters.regression import Floats, Linear, ridge
from processors.models.training.table import Predicted, Table

RUNS_MIN: Final = 6
LOWEST: Final = 0.5  # of the least target that was seen: no prediction lies further down,
HIGHEST: Final = 1.5  # nor further up than this of the largest
DEVIATION_MIN: Final = 0.005


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What the steps keep: |rho|, |standardised coefficient|, share of variance, part in a component of the largest part.

    >>> Thresholds().correlation
    0.6
    """

    correlation: float = 0.6
    coefficient: float = 0.001
    variance: float = 0.9
    part: float = 0.3
    regression_ridge: float = 1e-3
    final_ridge: float = 1e-6


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why: a counter of the final model, its coefficient in the target's unit per rate, the same in deviations, and rho.

    >>> Explanation("PAPI_L2_TCM", 120.0, 0.8, 0.91).counter
    'PAPI_L2_TCM'
    """

    counter: str
    coefficient: float
    standardised: float
    rho: float


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The final linear model of a table: which columns (`chosen`), how, and how far it may go.

    `deviation` is that of ln of the target about the model, corrected for the number of coefficients.

    >>> rng = np.random.default_rng(1)
    >>> x = rng.random((30, 3))
    >>> table = Table(("a", "b", "c"), x, 100 + 50 * x[:, 1], np.ones(30), np.arange(30))
    >>> found = select(table)
    >>> found.names, [round(each.coefficient) for each in found.explanation()]
    (('b',), [50])
    """

    table_names: tuple[str, ...]
    chosen: tuple[int, ...]
    rho: Floats
    linear: Linear
    low: float
    high: float
    deviation: float
    components: int
    condition: float

    @property
    def names(self) -> tuple[str, ...]:
        """The counters of the final model."""
        return tuple(self.table_names[i] for i in self.chosen)

    def predict(self, values: Floats) -> Predicted:
        """Return the target of rows (m, p) of the table's columns, none missing."""
        found = np.clip(self.linear.predict(values[:, list(self.chosen)]), self.low, self.high)
        return Predicted(found, np.full(len(found), self.deviation))

    def explanation(self) -> list[Explanation]:
        """Return the counters of the final model, the one that moves the target most first."""
        told = zip(self.chosen, self.linear.coefficients, self.linear.standard, strict=True)
        found = [
            Explanation(self.table_names[i], float(coefficient), float(standard), float(self.rho[i]))
            for i, coefficient, standard in told
        ]
        return sorted(found, key=lambda each: (-abs(each.standardised), each.counter))


def select(table: Table, thresholds: Thresholds | None = None) -> Selection:
    """Return the selection of a table of at least one run; the mean of the target where no counter survives.

    Raises ValueError for a table without runs.

    >>> select(Table((), np.zeros((2, 0)), np.array([3.0, 5.0]), np.ones(2), np.arange(2))).predict(np.zeros((1, 0))).value
    array([4.])
    """
    if not len(table):
        raise ValueError("A selection needs at least one run.")
    told = thresholds or Thresholds()
    values, target, weight = table.filled(), table.target, table.weight
    rho = spearman(values, target, weight) if len(table) > 1 else np.zeros(values.shape[1])
    chosen = np.flatnonzero(np.abs(rho) >= told.correlation)
    first = ridge(values[:, chosen], target, weight, told.regression_ridge)
    chosen = chosen[np.abs(first.standard) >= told.coefficient]
    part, components = loadings(values[:, chosen], weight, told.variance)
    chosen = chosen[part >= told.part * part.max(initial=0.0)]
    chosen = _most(chosen, rho, max(len(table) - 2, 0))
    linear = ridge(values[:, chosen], target, weight, told.final_ridge)
    low, high = LOWEST * float(target.min()), HIGHEST * float(target.max())
    fitted = np.clip(linear.predict(values[:, chosen]), low, high)
    return Selection(
        table_names=table.names,
        chosen=tuple(int(i) for i in chosen),
        rho=rho,
        linear=linear,
        low=low,
        high=high,
        deviation=_deviation(table, fitted, len(chosen) + 1),
        components=components,
        condition=_condition(values[:, chosen]),
    )


def _most(chosen: np.ndarray, rho: Floats, count: int) -> np.ndarray:
    """Return at most so many of the chosen, those with the largest |rho|, in their order."""
    order = np.argsort(-np.abs(rho[chosen]), kind="stable")
    return np.sort(chosen[order[:count]])


def _deviation(table: Table, fitted: Floats, coefficients: int) -> float:
    """Return the deviation of ln of the target about what was fitted, with so many coefficients."""
    share = table.weight / table.weight.sum()
    left = max(len(table) - coefficients, 1)
    square = float(share @ np.log(table.target / fitted) ** 2)
    return max(float(np.sqrt(square * len(table) / left)), DEVIATION_MIN)


def _condition(columns: Floats) -> float:
    """Return the condition number of the correlations of the columns, 1 without any: large where they say the same."""
    if columns.shape[1] < 2:
        return 1.0
    spread = columns.std(axis=0)
    found = np.linalg.eigvalsh(np.corrcoef(columns[:, spread > 0].T)) if (spread > 0).sum() > 1 else np.ones(1)
    return float(found[-1] / max(found[0], 1e-12))
