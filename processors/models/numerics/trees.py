"""Extremely randomised trees in numpy: all trees of a forest grow together, a level at a time.

`forest` (what a forest is, and its answers: means, medians and quantiles of what lies in the leaves), `grow` (how it
comes about). A forest is a function of its rows, in their order, and of the seed: it is never stored, but grown again.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from processors.models.numerics.arrays import Floats

# A forest of regression trees as arrays, and what it answers.
# A leaf keeps the targets of its rows, so that the forest answers with a distribution and not with a mean alone
# (N. Meinshausen, "Quantile regression forests", JMLR 2006): each tree's leaf counts alike, each row in it by its weight.

Integers = npt.NDArray[np.int64]

LEAF: Final = -1
_ENOUGH: Final = 1.0 - 1e-9  # of a share of weight: sums of parts round


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Nodes of all trees in arrays (nodes,), the first `trees` of them the roots; targets of leaves side by side.

    `feature` is LEAF for a leaf; rows at most at `threshold` go to `left`, others to the node after it. The targets
    `held` of a leaf, and their `share` of it, lie from `start` to `stop`; `value` is their mean, 0 of other nodes. `gain` (features,) is by how much the splits
    on a feature lessened the weighted sum of squares.

    >>> one = np.zeros(1)
    >>> Forest(1, one.astype(int) - 1, one, one.astype(int), one.astype(int), one.astype(int) + 1, one + 7, one + 7, one + 1, one).trees
    1
    """

    trees: int
    feature: Integers
    threshold: Floats
    left: Integers
    start: Integers
    stop: Integers
    value: Floats
    retained: Floats
    share: Floats
    gain: Floats

    def leaves(self, values: Floats) -> Integers:
        """Return the leaf of each row in each tree, (m, trees); rows are (m, features)."""
        node = np.repeat(np.arange(self.trees)[None, :], len(values), axis=0)
        row = np.arange(len(values))[:, None]
        while True:
            feature = self.feature[node]
            inner = feature != LEAF
            if not inner.any():
                return node
            right = values[row, np.maximum(feature, 0)] > self.threshold[node]
            node = np.where(inner, self.left[node] + right, node)

    def mean(self, values: Floats) -> Floats:
        """Return the mean over trees of the means of the leaves, (m,)."""
        return np.asarray(self.value[self.leaves(values)].mean(axis=1))

    def quantiles(self, values: Floats, shares: Sequence[float]) -> Floats:
        """Return quantiles (m, len(shares)) of the targets in the leaves of each row; 0.5 is their median.

        A quantile is the least target up to which the trees hold that share; where it is met exactly, half way to the next.
        """
        at = self.leaves(values)
        count = (self.stop - self.start)[at]
        rows = np.repeat(np.arange(len(values)), count.sum(axis=1))
        flat, sizes = self.start[at].ravel(), count.ravel()
        place = np.arange(sizes.sum()) + np.repeat(flat - (sizes.cumsum() - sizes), sizes)
        target, weight = self.retained[place], self.share[place] / self.trees
        order = np.lexsort((target, rows))
        target, reached = target[order], weight[order].cumsum()
        first = np.concatenate([[0], count.sum(axis=1).cumsum()])
        before = np.concatenate([[0.0], reached])[first[:-1]]
        found = np.empty((len(values), len(shares)))
        for i, share in enumerate(shares):
            low = np.searchsorted(reached, before + share * _ENOUGH)
            high = np.searchsorted(reached, before + share / _ENOUGH)
            low, high = (np.clip(each, first[:-1], first[1:] - 1) for each in (low, high))
            found[:, i] = (target[low] + target[high]) / 2
        return found

    def importances(self) -> Floats:
        """Return the share of each feature in what the splits explained, (features,), sum 1; 0 where nothing was."""
        total = float(self.gain.sum())
        return self.gain / total if total > 0 else np.zeros_like(self.gain)


def joined(forests: Sequence[Forest]) -> Forest:
    """Return one forest of all their trees; ValueError without any.

    >>> one = np.zeros(1)
    >>> leaf = Forest(1, one.astype(int) - 1, one, one.astype(int), one.astype(int), one.astype(int) + 1, one + 7, one + 7, one + 1, one)
    >>> joined([leaf, leaf]).mean(np.zeros((1, 1))).tolist()
    [7.0]
    """
    if not forests:
        raise ValueError("At least one forest is joined.")
    if len(forests) == 1:
        return forests[0]
    trees = sum(each.trees for each in forests)
    # roots come first: what is below the roots of a forest moves behind those of all
    below = np.cumsum([trees, *(len(each.feature) - each.trees for each in forests)])
    moved = [each.left + (at - each.trees) for each, at in zip(forests, below, strict=False)]
    retained = np.cumsum([0, *(len(each.retained) for each in forests)])

    def nodes(columns: Sequence[npt.NDArray[np.generic]]) -> npt.NDArray[np.generic]:
        pairs = list(zip(columns, forests, strict=True))
        return np.concatenate([*(c[: f.trees] for c, f in pairs), *(c[f.trees :] for c, f in pairs)])

    return Forest(
        trees=trees,
        feature=np.asarray(nodes([each.feature for each in forests]), np.int64),
        threshold=np.asarray(nodes([each.threshold for each in forests]), np.float64),
        left=np.asarray(nodes(moved), np.int64),
        start=np.asarray(nodes([each.start + at for each, at in zip(forests, retained, strict=False)]), np.int64),
        stop=np.asarray(nodes([each.stop + at for each, at in zip(forests, retained, strict=False)]), np.int64),
        value=np.asarray(nodes([each.value for each in forests]), np.float64),
        retained=np.concatenate([each.retained for each in forests]),
        share=np.concatenate([each.share for each in forests]),
        gain=np.sum([each.gain for each in forests], axis=0),
    )


# How a forest comes about: extremely randomised trees.
# P. Geurts, D. Ernst, L. Wehenkel, "Extremely randomized trees", Machine Learning 63 (2006): at each node one threshold per
# feature is drawn evenly between the least and the largest value there, and the feature whose threshold lessens the
# variance most is taken. No bootstrap; every feature at every node. Nodes of a level, of all trees, are split at once.
# Each tree draws from its own generator, so that a forest may be grown in parts and comes out the same.

ROWS_MAX: Final = 1 << 17  # that grow together: what is beyond is grown in parts, to bound memory
ROWS_STEP: Final = 1 << 11  # that grow together where nothing may stand still for long
COLUMNS_USUAL: Final = 8  # of more, fewer rows are a step
LEVELS_STEP: Final = 16  # that such a step splits: trees of so many rows have about as many
_STILL = 1e-12  # of the spread of all targets: what lies closer is alike


@dataclass(frozen=True, slots=True)
class Growth:
    """How many trees, the least rows of a leaf, and the seed.

    >>> Growth().trees
    10
    """

    trees: int = 10
    leaf_rows: int = 1
    seed: int = 1


def grow(values: Floats, target: Floats, weight: Floats | None = None, growth: Growth | None = None) -> Forest:
    """Return the forest of rows (n, features) with targets (n,) and positive weights (n,), by default alike.

    Raises ValueError without rows or features, where shapes do not fit, or where something is not finite.

    >>> values = np.arange(20.0)[:, None]
    >>> forest = grow(values, np.where(values[:, 0] < 10, 1.0, 5.0))
    >>> forest.mean(np.array([[3.0], [17.0]])).tolist(), forest.importances().tolist()
    ([1.0, 5.0], [1.0])
    """
    given = growth or Growth()
    heavy = np.ones(len(target)) if weight is None else weight
    steps = growing(values, target, heavy, given, ROWS_MAX)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            forest: Forest = end.value
            return forest


def growing(
    values: Floats, target: Floats, weight: Floats, growth: Growth, rows_at_once: int = ROWS_STEP
) -> Generator[None, None, Forest]:
    """Yield after a few trees, so many that they have `rows_at_once` rows together, and return the forest; else as `grow`.

    Trees that have more yield between their levels, after about as much work.

    >>> x = np.arange(40.0)[:, None]
    >>> len(list(growing(x, x[:, 0], np.ones(40), Growth(10), rows_at_once=120)))
    4
    """
    _check(values, target, weight)
    narrow = min(1.0, COLUMNS_USUAL / values.shape[1])  # every column is tried at every node
    at_once = max(1, int(rows_at_once * narrow) // len(target))
    numbers = range(growth.trees)
    forests = []
    for first in numbers[::at_once]:
        tree = _Growing(values, target, weight, growth, numbers[first : first + at_once])
        cells = 0
        while tree.grow():
            cells += len(tree.level.rows) * values.shape[1]
            if cells >= LEVELS_STEP * rows_at_once * COLUMNS_USUAL:
                cells = 0
                yield
        forests.append(tree.grown())
        yield
    return joined(forests)


def grow_trees(values: Floats, target: Floats, weight: Floats, growth: Growth, numbers: range) -> Forest:
    """Return those trees of a forest that have these numbers, so that a large one may be grown a few at a time.

    >>> values, target = np.arange(8.0)[:, None], np.arange(8.0) ** 2
    >>> parts = [grow_trees(values, target, np.ones(8), Growth(2), range(i, i + 1)) for i in range(2)]
    >>> joined(parts).mean(values).tolist() == grow(values, target, growth=Growth(2)).mean(values).tolist()
    True
    """
    growing_ = _Growing(values, target, weight, growth, numbers)
    while growing_.grow():
        pass
    return growing_.grown()


@dataclass(slots=True)
class _Level:
    """The nodes of a level: rows of all nodes side by side (m,), where each node starts, and whose tree it is (nodes,)."""

    rows: Integers
    start: Integers
    tree: Integers

    def size(self) -> Integers:
        return np.diff(np.append(self.start, len(self.rows)))


class _Growing:
    def __init__(self, values: Floats, target: Floats, weight: Floats, growth: Growth, numbers: range) -> None:
        self.columns = np.ascontiguousarray(values.T)
        self.target, self.weight, self.growth = target, weight, growth
        self.centre = float(np.average(target, weights=weight))
        self.still = _STILL * float(np.ptp(target))
        self.generators = [np.random.default_rng([growth.seed, number]) for number in numbers]
        self.gain = np.zeros(values.shape[1])
        self.nodes: list[tuple[Integers, Floats, Integers, Integers, Integers]] = []
        self.retained: list[Integers] = []
        trees, count = len(self.generators), len(target)
        self.level = _Level(np.tile(np.arange(count), trees), np.arange(trees) * count, np.arange(trees))
        self.known = self.leaves = 0

    def grow(self) -> bool:
        """Split the nodes of the lowest level; return whether there is one below."""
        level = self.level
        feature, threshold, right = self._splits(level)
        inner = feature != LEAF
        self.known += len(inner)
        left = self.known + 2 * (inner.cumsum() - inner)
        size = level.size()
        leaf_rows = np.where(inner, 0, size)
        stop = self.leaves + leaf_rows.cumsum()
        self.leaves += int(leaf_rows.sum())
        self.nodes.append((feature, threshold, left, stop - leaf_rows, stop))
        of_inner = np.repeat(inner, size)
        self.retained.append(level.rows[~of_inner])
        self.level = _below(level, inner, right[of_inner], level.rows[of_inner])
        return len(self.level.start) > 0

    def grown(self) -> Forest:
        """Return the forest, all levels of which are split."""
        feature, threshold, left, start, stop = (np.concatenate(each) for each in zip(*self.nodes, strict=True))
        rows = np.concatenate(self.retained)
        weight = self.weight[rows]
        leaf = np.flatnonzero(feature == LEAF)  # they lie in the order of their rows
        share = weight / np.repeat(np.add.reduceat(weight, start[leaf]), (stop - start)[leaf])
        value = np.zeros(len(feature))
        value[leaf] = np.add.reduceat(self.target[rows] * share, start[leaf])
        trees, target = len(self.generators), self.target[rows]
        return Forest(trees, feature, threshold, left, start, stop, value, target, share, self.gain)

    def _splits(self, level: _Level) -> tuple[Integers, Floats, npt.NDArray[np.bool_]]:
        """Return feature and threshold of each node, LEAF where it stays one, and which rows go to the right."""
        start, size = level.start, level.size()
        values = self.columns[:, level.rows]
        low, high = (ufunc.reduceat(values, start, axis=1) for ufunc in (np.minimum, np.maximum))
        threshold = low + self._draws(level.tree, len(low)) * (high - low)
        threshold = np.where(threshold < high, threshold, low)
        right = values > np.repeat(threshold, size, axis=1)
        gain = self._gains(level, right)
        target = self.target[level.rows]
        mixed = np.maximum.reduceat(target, start) - np.minimum.reduceat(target, start) > self.still
        best = gain.argmax(axis=0)
        node = np.arange(len(start))
        inner = mixed & (gain[best, node] > -np.inf)
        np.add.at(self.gain, best[inner], gain[best, node][inner])
        return (
            np.where(inner, best, LEAF),
            threshold[best, node],
            right[np.repeat(best, size), np.arange(len(level.rows))],
        )

    def _gains(self, level: _Level, right: npt.NDArray[np.bool_]) -> Floats:
        """Return by how much each feature (features, nodes) lessens the sum of squares; -inf where it cannot split."""
        start, size = level.start, level.size()
        weight = self.weight[level.rows]
        moment = weight * (self.target[level.rows] - self.centre)
        beyond = np.add.reduceat(right, start, axis=1, dtype=np.int64)
        weights, moments = np.add.reduceat(weight, start), np.add.reduceat(moment, start)
        heavy = np.add.reduceat(right * weight, start, axis=1)
        far = np.add.reduceat(right * moment, start, axis=1)
        least = self.growth.leaf_rows
        possible = (beyond >= least) & (size - beyond >= least)
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = far**2 / heavy + (moments - far) ** 2 / (weights - heavy) - moments**2 / weights
        return np.where(possible, np.maximum(gain, 0.0), -np.inf)

    def _draws(self, tree: Integers, features: int) -> Floats:
        """Return one draw per feature and node (features, nodes), each from the generator of the node's tree."""
        counts = np.bincount(tree, minlength=len(self.generators))
        pairs = zip(self.generators, counts.tolist(), strict=True)
        return np.concatenate([generator.random((nodes, features)) for generator, nodes in pairs if nodes]).T


def _below(level: _Level, inner: npt.NDArray[np.bool_], right: npt.NDArray[np.bool_], rows: Integers) -> _Level:
    """Return the level below: the rows of each node that was split, those that go left first."""
    size = level.size()[inner]
    side = 2 * np.repeat(np.arange(len(size)), size) + right
    order = np.argsort(side, kind="stable")
    count = np.bincount(side, minlength=2 * len(size))
    # trees keep their order from level to level, so that the draws of each stay together
    return _Level(rows[order], count.cumsum() - count, np.repeat(level.tree[inner], 2))


def _check(values: Floats, target: Floats, weight: Floats) -> None:
    if values.ndim != 2 or not values.size or target.shape != (len(values),) or weight.shape != target.shape:
        raise ValueError("A forest needs rows (n, features), and a target and a weight for each.")
    if not (np.isfinite(values).all() and np.isfinite(target).all()):
        raise ValueError("Rows and targets of a forest are finite.")
    if not ((weight > 0) & np.isfinite(weight)).all():
        raise ValueError("Weights of rows are positive and finite.")
