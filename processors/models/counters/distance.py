"""How far a run is from those that were learned, and what models are worth there.

A model is wrong by one error on runs like those it saw, and by another where none was like them: the first is that of groups
that were left out, the second that of clusters of groups that were left out whole (leave-one-cluster-out validation: B. Meredig
et al., "Can machine learning identify the next high-temperature superconductor?", 2018). Between the two an error goes with ln of
the distance to the nearest run.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from processors.models.counters.selection import scaled, scales
from processors.models.numerics.arrays import Floats
from processors.models.training.table import Table

Mask = npt.NDArray[np.bool_]

FOLDS: Final = 5
CLUSTERS: Final = 4
ROUNDS: Final = 25  # of k-means
REST_MIN: Final = 8  # runs that stay where a cluster is left out
ROWS_MAX: Final = 256  # that a distance is taken to
DEVIATIONS_MAX: Final = 6.0  # one counter is further away by no more than this
SHARE: Final = 0.9  # of the runs of a kind of leaving out are no further away than its distance
RATIO_MIN: Final = 1.2  # between the two distances
DISTANCE_MIN: Final = 1e-3  # deviations: counters are not more exact
UNKNOWN_FACTOR: Final = 2.0  # times the error near, where no cluster could be left out
OFF_MAX: Final = 0.5  # one run counts for at most this, in ln
ERROR_MIN: Final = 1e-4


class Parts(NamedTuple):
    """Runs to leave out: `near`, fifths of the groups, and `far`, clusters of them; each a mask (k,).

    >>> table = Table(("a",), np.arange(40.0)[:, None], np.ones(40), np.ones(40), np.arange(40))
    >>> found = parts(table)
    >>> len(found.near), [int(out.sum()) for out in found.far]
    (5, [10, 10, 10, 10])
    """

    near: tuple[Mask, ...]
    far: tuple[Mask, ...]


def parts(table: Table) -> Parts:
    """Return what to leave out of a table; `near` is all of it where that is one group, `far` nothing where runs are few.

    >>> [int(out.sum()) for out in parts(Table(("a",), np.ones((3, 1)), np.ones(3), np.ones(3), np.zeros(3, int))).near]
    [3]
    """
    groups, group = np.unique(table.group, return_inverse=True)
    near = tuple(group % FOLDS == fold for fold in range(min(FOLDS, len(groups))))
    if len(groups) < 2 * CLUSTERS or not table.names:
        return Parts(near, ())
    values = table.filled()
    count = np.bincount(group)[:, None]
    means = np.stack([np.bincount(group, column) for column in values.T], axis=1) / count
    cluster = clusters(_deviations(means, *scales(means, np.ones(len(means)))), CLUSTERS)[group]
    whole = (cluster == number for number in range(CLUSTERS))
    return Parts(near, tuple(out for out in whole if out.any() and (~out).sum() >= REST_MIN))


def clusters(rows: Floats, count: int) -> npt.NDArray[np.int64]:
    """Return the cluster of each row (k, p): k-means (S. Lloyd, 1982) that begins with parts of the first principal axis.

    >>> clusters(np.array([[0.0], [9.0], [1.0], [8.0]]), 2).tolist()
    [0, 1, 0, 1]
    """
    axis = np.linalg.eigh(rows.T @ rows)[1][:, -1]
    order = np.argsort(rows @ axis, kind="stable")
    centres = np.array([rows[at].mean(axis=0) for at in np.array_split(order, count)])
    found = np.zeros(len(rows), np.int64)
    for _ in range(ROUNDS):
        found = np.argmin(_squares(rows, centres), axis=1)
        alike = [found == number for number in range(count)]
        centres = np.array(
            [rows[at].mean(axis=0) if at.any() else centre for at, centre in zip(alike, centres, strict=True)]
        )
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Distance:
    """How far rows are from the runs of a table: 0 as near as runs are to others, 1 as far as one cluster is from the rest.

    >>> table = Table(("a",), np.arange(40.0)[:, None], np.ones(40), np.ones(40), np.arange(40))
    >>> Distance.of(table, parts(table)).far(np.array([[20.5], [43.0], [1000.0]])).round(2).tolist()
    [0.0, 0.66, 1.0]
    """

    mean: Floats
    deviation: Floats
    rows: Floats
    near: float
    ratio: float

    @classmethod
    def of(cls, table: Table, left_out: Parts) -> "Distance":
        """Return the distances of a table with columns, and what was left out of it."""
        at = thinned(len(table))
        mean, deviation = scales(table.filled(), table.weight)
        rows = _deviations(table.filled()[at], mean, deviation)
        between = _squares(rows, rows)
        near = _reach(between, [out[at] for out in left_out.near])
        far = _reach(between, [out[at] for out in left_out.far])
        return cls(mean, deviation, rows, near, max(far / near, RATIO_MIN))

    def far(self, values: Floats) -> Floats:
        """Return how far rows (m, p) are, none missing, from 0 to 1."""
        nearest = _root(_squares(_deviations(values, self.mean, self.deviation), self.rows).min(axis=1))
        return np.asarray(np.clip(np.log(nearest / self.near) / np.log(self.ratio), 0.0, 1.0))


class Errors(NamedTuple):
    """The mean |ln ratio| of runs that were left out, of those near and those far, and the deviation of the ln of these ratios.

    >>> Errors(0.02, 0.04, 0.03, 0.06).at(np.array([0.5])).round(3).tolist()
    [0.03]
    """

    near: float
    far: float
    near_deviation: float
    far_deviation: float

    def at(self, far: Floats) -> Floats:
        """Return the error so far away, (m,)."""
        return np.maximum(self.near + far * (self.far - self.near), ERROR_MIN)

    def deviation(self, far: Floats) -> Floats:
        """Return the deviation so far away, (m,); a far answer is no surer than a near one."""
        return np.asarray(self.near_deviation + far * max(self.far_deviation - self.near_deviation, 0.0))


class Off(NamedTuple):
    """How far off a model was on runs that were left out: sums, weighed by runs, of the weight, |ln ratio| and its square.

    >>> Off().plus(np.array([0.1, -0.3]), np.array([1.0, 1.0]))
    Off(weight=2.0, error=0.4, square=0.1)
    """

    weight: float = 0.0
    error: float = 0.0
    square: float = 0.0

    def plus(self, off: Floats, weight: Floats) -> "Off":
        """Return the sums with these ln of ratios (m,) of runs of these weights (m,)."""
        near = np.minimum(np.abs(off), OFF_MAX)
        return Off(
            self.weight + float(weight.sum()), self.error + float(weight @ near), self.square + float(weight @ near**2)
        )

    @property
    def mean(self) -> float:
        """The mean |ln ratio|."""
        return self.error / self.weight if self.weight > 0 else 0.0

    @property
    def deviation(self) -> float:
        """The deviation of the ln of ratios."""
        return float(np.sqrt(self.square / self.weight)) if self.weight > 0 else 0.0


def errors(near: float, deviation: float, far: Off) -> Errors:
    """Return the errors of a model that is off by this near; where no cluster could be left out it is UNKNOWN_FACTOR times that far.

    >>> errors(0.2, 0.3, Off()).far
    0.4
    """
    if far.weight > 0:
        return Errors(near, far.mean, deviation, far.deviation)
    return Errors(near, UNKNOWN_FACTOR * near, deviation, UNKNOWN_FACTOR * deviation)


def thinned(count: int) -> npt.NDArray[np.int64]:
    """Return the places of at most ROWS_MAX of so many runs, spread evenly.

    >>> len(thinned(1000)), thinned(3).tolist()
    (256, [0, 1, 2])
    """
    stays = min(count, ROWS_MAX)
    return np.arange(stays) * count // max(stays, 1)


def _reach(between: Floats, left_out: list[Mask]) -> float:
    """Return how far most of the runs that are left out are from the nearest that stays."""
    nearest = [_root(between[np.ix_(out, ~out)].min(axis=1)) for out in left_out if out.any() and not out.all()]
    return float(np.quantile(np.concatenate(nearest), SHARE)) if nearest else DISTANCE_MIN


def _deviations(values: Floats, mean: Floats, deviation: Floats) -> Floats:
    return np.clip(scaled(values, mean, deviation), -DEVIATIONS_MAX, DEVIATIONS_MAX)


def _squares(a: Floats, b: Floats) -> Floats:
    """Return the mean squares of the differences of rows (m, p) and (k, p), (m, k)."""
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2.0 * (a @ b.T)
    return np.asarray(np.maximum(squares, 0.0) / max(a.shape[1], 1))


def _root(squares: Floats) -> Floats:
    return np.maximum(np.sqrt(squares), DISTANCE_MIN)
