"""Rank correlation (C. Spearman, "The proof and measurement of association between two things", 1904)."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def ranks(columns: Floats) -> Floats:
    """Return the ranks of the rows in each column (k, p), from 1; those alike share the mean of theirs.

    >>> ranks(np.array([[1.0], [2.0], [2.0], [3.0]]))[:, 0].tolist()
    [1.0, 2.5, 2.5, 4.0]
    """
    found = np.empty(columns.shape)
    for j, column in enumerate(columns.T):
        _, place, count = np.unique(column, return_inverse=True, return_counts=True)
        found[:, j] = (count.cumsum() - (count - 1) / 2)[place]
    return found


def spearman(columns: Floats, target: Floats, weight: Floats | None = None) -> Floats:
    """Return the rank correlation of each column (k, p) with the target (k,); 0 where one of them does not change.

    `weight` (k,) is how much a row counts in the correlation of the ranks.

    >>> spearman(np.array([[1.0], [2.0], [2.0], [3.0]]), np.arange(4.0)).round(6).tolist()
    [0.948683]
    """
    heavy = np.ones(len(target)) if weight is None else weight
    share = heavy / heavy.sum()
    x, y = ranks(columns), ranks(target[:, None])[:, 0]
    x, y = x - share @ x, y - share @ y
    product = np.sqrt((share @ x**2) * (share @ y**2))
    found = np.zeros(columns.shape[1])
    np.divide(share @ (x * y[:, None]), product, out=found, where=product > 1e-12)
    return found
