"""A forest of regression trees as arrays, and what it answers.

A leaf keeps the targets of its rows, so that the forest answers with a distribution and not with a mean alone
(N. Meinshausen, "Quantile regression forests", JMLR 2006): each tree's leaf counts alike, each row in it by its weight.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
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
    held: Floats
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
        target, weight = self.held[place], self.share[place] / self.trees
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
    held = np.cumsum([0, *(len(each.held) for each in forests)])

    def nodes(columns: Sequence[npt.NDArray[np.generic]]) -> npt.NDArray[np.generic]:
        pairs = list(zip(columns, forests, strict=True))
        return np.concatenate([*(c[: f.trees] for c, f in pairs), *(c[f.trees :] for c, f in pairs)])

    return Forest(
        trees=trees,
        feature=np.asarray(nodes([each.feature for each in forests]), np.int64),
        threshold=np.asarray(nodes([each.threshold for each in forests]), np.float64),
        left=np.asarray(nodes(moved), np.int64),
        start=np.asarray(nodes([each.start + at for each, at in zip(forests, held, strict=False)]), np.int64),
        stop=np.asarray(nodes([each.stop + at for each, at in zip(forests, held, strict=False)]), np.int64),
        value=np.asarray(nodes([each.value for each in forests]), np.float64),
        held=np.concatenate([each.held for each in forests]),
        share=np.concatenate([each.share for each in forests]),
        gain=np.sum([each.gain for each in forests], axis=0),
    )
