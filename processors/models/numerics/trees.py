"""Extremely randomised trees in numpy: all trees of a forest grow together, one level at a time.

A forest depends only on its rows, in their order, and on the seed. A restore therefore grows the forest again instead of storing it.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from processors.models.numerics.arrays import Floats, Ints

# A leaf stores the targets of its rows, so that a forest predicts a distribution and not only a mean (N. Meinshausen, "Quantile
# regression forests", JMLR 2006). The leaves of all trees have equal weight; a row has its own weight within its leaf.


LEAF: Final = -1
_ENOUGH: Final = 1.0 - 1e-9  # tolerance for rounding in sums of weights


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """The nodes of all trees in arrays (nodes,), the `roots` (trees,), and the targets of all leaves in one array.

    `feature` is LEAF for a leaf. A row whose value is at most `threshold` goes to the node `left`, any other row to the node after
    `left`. The targets of a leaf are in `retained` from `start` to `stop`, and `share` has their weights within the leaf. `gain`
    (features,) is the sum by which splits on a feature reduced the weighted sum of squares.
    """

    roots: Ints
    feature: Ints
    threshold: Floats
    left: Ints
    start: Ints
    stop: Ints
    retained: Floats
    share: Floats
    gain: Floats

    def leaves(self, values: Floats) -> Ints:
        """Return the leaf of each row (m, features) in each tree, (m, trees)."""
        node = np.repeat(self.roots[None, :], len(values), axis=0)
        row = np.arange(len(values))[:, None]
        while True:
            feature = self.feature[node]
            inner = feature != LEAF
            if not inner.any():
                return node
            right = values[row, np.maximum(feature, 0)] > self.threshold[node]
            node = np.where(inner, self.left[node] + right, node)

    def quantiles(self, values: Floats, shares: Sequence[float]) -> Floats:
        """Return quantiles (m, len(shares)) of the targets in the leaves of each row.

        A quantile is the least target at which the cumulative weight reaches the share. If the cumulative weight equals the share,
        the quantile lies half way to the next target.
        """
        leaf = self.leaves(values)
        count = (self.stop - self.start)[leaf]
        rows = np.repeat(np.arange(len(values)), count.sum(axis=1))
        flat, sizes = self.start[leaf].ravel(), count.ravel()
        place = np.arange(sizes.sum()) + np.repeat(flat - (sizes.cumsum() - sizes), sizes)
        target, weight = self.retained[place], self.share[place] / len(self.roots)
        order = np.lexsort((target, rows))
        target, reached = target[order], weight[order].cumsum()
        first = np.concatenate([[0], count.sum(axis=1).cumsum()])
        before = np.concatenate([[0.0], reached])[first[:-1]]
        result = np.empty((len(values), len(shares)))
        for i, share in enumerate(shares):
            low = np.searchsorted(reached, before + share * _ENOUGH)
            high = np.searchsorted(reached, before + share / _ENOUGH)
            low, high = (np.clip(index, first[:-1], first[1:] - 1) for index in (low, high))
            result[:, i] = (target[low] + target[high]) / 2
        return result

    def importances(self) -> Floats:
        """Return the share of each feature in the explained variance, (features,), sum 1; 0 if nothing is explained."""
        return self.gain / (float(self.gain.sum()) or 1.0)


# P. Geurts, D. Ernst, L. Wehenkel, "Extremely randomized trees", Machine Learning 63 (2006): at each node a threshold for each
# feature is drawn evenly between the least and the largest value of the feature at the node, and the feature whose threshold
# reduces the variance most is chosen. There is no bootstrap, and every feature is tried at every node. The nodes of a level are
# split at once in all trees. Each tree has its own random generator, so that growing in parts does not change a forest.

ROWS_STEP: Final = 1 << 11  # rows of the trees that grow together in a step
COLUMNS_USUAL: Final = 8  # with more columns a step has fewer rows
LEVELS_STEP: Final = 16  # levels in a step; trees of ROWS_STEP rows have about this many levels
_STILL = 1e-12  # share of the spread of all targets below which targets are equal


@dataclass(frozen=True, slots=True)
class Growth:
    """The parameters of a forest: number of trees, least number of rows in a leaf, and the seed."""

    trees: int = 10
    leaf_rows: int = 1
    seed: int = 1


def growing(
    values: Floats, target: Floats, weight: Floats, growth: Growth, rows_at_once: int = ROWS_STEP
) -> Generator[None, None, Forest]:
    """Grow a forest, and yield after each group of trees that have about `rows_at_once` rows together.

    Rows (n, features), targets (n,) and positive weights (n,) are finite, and n is at least 1. A group with more rows also yields
    between its levels, after about the same amount of work.

    >>> x = np.arange(40.0)[:, None]
    >>> len(list(growing(x, x[:, 0], np.ones(40), Growth(10), rows_at_once=120)))
    4
    """
    narrow = min(1.0, COLUMNS_USUAL / values.shape[1])  # every column is tried at every node
    at_once = max(1, int(rows_at_once * narrow) // len(target))
    forest = _Growing(values, target, weight, growth)
    numbers = range(growth.trees)
    for first in numbers[::at_once]:
        forest.plant(numbers[first : first + at_once])
        cells = 0
        while forest.grow():
            cells += len(forest.level.rows) * values.shape[1]
            if cells >= LEVELS_STEP * rows_at_once * COLUMNS_USUAL:
                cells = 0
                yield
        yield
    return forest.grown()


@dataclass(slots=True)
class _Level:
    """The nodes of one level of all trees: `rows` (m,) are the rows of all nodes, one node after the other.

    `start` (nodes,) is the position of the first row of each node in `rows`, `tree` (nodes,) the tree of the node.
    """

    rows: Ints
    start: Ints
    tree: Ints

    def size(self) -> Ints:
        return np.diff(np.append(self.start, len(self.rows)))


class _Growing:
    """A forest while it grows: the finished nodes of all trees, and the lowest level of the newest group of trees."""

    def __init__(self, values: Floats, target: Floats, weight: Floats, growth: Growth) -> None:
        self.columns = np.ascontiguousarray(values.T)
        self.target, self.weight, self.growth = target, weight, growth
        self.centre = float(np.average(target, weights=weight))
        self.still = _STILL * float(np.ptp(target))
        self.gain = np.zeros(values.shape[1])
        self.roots: list[Ints] = []
        self.nodes: list[tuple[Ints, Floats, Ints, Ints, Ints]] = []
        self.retained: list[Ints] = []
        self.node_count = self.leaf_rows = 0

    def plant(self, numbers: range) -> None:
        """Start growing the trees with these numbers; the number of a tree seeds its random generator."""
        trees, rows = np.arange(len(numbers)), len(self.target)
        self.generators = [np.random.default_rng([self.growth.seed, number]) for number in numbers]
        self.roots.append(self.node_count + trees)
        self.level = _Level(np.tile(np.arange(rows), len(trees)), trees * rows, trees)

    def grow(self) -> bool:
        """Split the nodes of the lowest level; return whether there is a next level."""
        level = self.level
        feature, threshold, right = self._splits(level)
        inner = feature != LEAF
        self.node_count += len(inner)
        left = self.node_count + 2 * (inner.cumsum() - inner)
        size = level.size()
        leaf_rows = np.where(inner, 0, size)
        stop = self.leaf_rows + leaf_rows.cumsum()
        self.leaf_rows += int(leaf_rows.sum())
        self.nodes.append((feature, threshold, left, stop - leaf_rows, stop))
        of_inner = np.repeat(inner, size)
        self.retained.append(level.rows[~of_inner])
        self.level = _below(level, inner, right[of_inner], level.rows[of_inner])
        return len(self.level.start) > 0

    def grown(self) -> Forest:
        feature, threshold, left, start, stop = (np.concatenate(column) for column in zip(*self.nodes, strict=True))
        rows = np.concatenate(self.retained)
        weight = self.weight[rows]
        leaf = np.flatnonzero(feature == LEAF)  # leaves are in the order of their rows
        share = weight / np.repeat(np.add.reduceat(weight, start[leaf]), (stop - start)[leaf])
        roots = np.concatenate(self.roots)
        return Forest(roots, feature, threshold, left, start, stop, self.target[rows], share, self.gain)

    def _splits(self, level: _Level) -> tuple[Ints, Floats, npt.NDArray[np.bool_]]:
        """Return the feature and the threshold of the best split of each node, and a mask of the rows that go to the right child.

        The feature is LEAF if no split is possible or all targets of the node are equal.
        """
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
        """Return how much each split reduces the weighted sum of squares, (features, nodes); -inf if a child would have too few rows."""
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

    def _draws(self, tree: Ints, features: int) -> Floats:
        """Return a random number for each feature and node, (features, nodes), from the random generator of the node's tree."""
        counts = np.bincount(tree, minlength=len(self.generators))
        pairs = zip(self.generators, counts.tolist(), strict=True)
        return np.concatenate([generator.random((nodes, features)) for generator, nodes in pairs if nodes]).T


def _below(level: _Level, inner: npt.NDArray[np.bool_], right: npt.NDArray[np.bool_], rows: Ints) -> _Level:
    """Return the next level, with the left and the right child of each split node one after the other.

    `inner` (nodes,) marks the split nodes; `rows` (m,) are their rows, and `right` (m,) marks the rows of right children.
    """
    size = level.size()[inner]
    side = 2 * np.repeat(np.arange(len(size)), size) + right
    order = np.argsort(side, kind="stable")
    count = np.bincount(side, minlength=2 * len(size))
    # trees keep their order from level to level, so that each tree's draws stay together
    return _Level(rows[order], count.cumsum() - count, np.repeat(level.tree[inner], 2))
