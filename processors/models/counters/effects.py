"""What each counter adds to an answer: of the model in general, and of one asked point.

In general it is what the model says one deviation of a counter makes, all others at their mean. At a point it is that
counter's part of the way from the mean run to it, along a straight line (integrated gradients: M. Sundararajan et al.,
"Axiomatic attribution for deep networks", 2017; the sharing of costs of R. Aumann and L. Shapley, 1974): the parts add up to what
the answer is beyond that for the mean run. Both are exact for a line and hold for what bends.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from processors.models.counters.selection import Floats, scales, spearman
from processors.models.training.table import Answering, Table

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
class Added:
    """What a counter adds to one answer beyond that for the mean run, in the target's unit, and its share of all that is added.

    >>> Added("PAPI_L2_TCM", -4.0, 0.25).amount
    -4.0
    """

    counter: str
    amount: float
    share: float


def explained(model: Answering, table: Table) -> list[Explanation]:
    """Return the counters that move what a model of a table says, the one that moves it most first.

    >>> from processors.models.counters.selection import on_all
    >>> x = np.arange(8.0)[:, None]
    >>> table = Table(("a", "b"), np.hstack([x, x % 2]), 100 + 50 * (x[:, 0] % 2), np.ones(8), np.arange(8))
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


def added(model: Answering, table: Table, row: Floats) -> list[Added]:
    """Return what counters add to the answer to a row (1, p), none missing, the one that adds most first.

    >>> from processors.models.counters.selection import on_all
    >>> x = np.arange(8.0)[:, None]
    >>> table = Table(("a", "b"), np.hstack([x, x % 2]), 100 + 50 * (x[:, 0] % 2), np.ones(8), np.arange(8))
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


def _named(names: Sequence[str], amounts: Floats) -> list[Added]:
    share = _shares(amounts)
    found = [Added(name, float(amounts[i]), float(share[i])) for i, name in enumerate(names) if share[i] >= SHARE_MIN]
    return sorted(found, key=lambda each: (-each.share, each.counter))


def _differences(model: Answering, points: Floats, steps: Floats, at: npt.NDArray[np.integer] | None = None) -> Floats:
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
