"""Principal components (K. Pearson, 1901): how much each column takes part in what the columns do together."""

import numpy as np
import numpy.typing as npt

from processors.models.counters.regression import scaled, scales

Floats = npt.NDArray[np.float64]


def loadings(columns: Floats, weight: Floats, variance_share: float) -> tuple[Floats, int]:
    """Return the part each column (k, p) takes in the components that are kept, (p,), and how many those are.

    Kept are the first components that hold `variance_share` of the variance of the scaled columns. The part is the
    largest of |loading| times the root of the component's variance relative to the first one's.

    >>> x = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [3.0, 6.0, 0.0], [4.0, 8.0, 0.0]])
    >>> part, count = loadings(x, np.ones(4), 0.9)
    >>> part.round(3).tolist(), count
    ([0.707, 0.707, 0.0], 1)
    """
    x = scaled(columns, *scales(columns, weight))
    share = weight / weight.sum()
    variance, vectors = np.linalg.eigh(x.T @ (share[:, None] * x))
    variance, vectors = np.maximum(variance[::-1], 0.0), vectors[:, ::-1]
    total = float(variance.sum())
    if total <= 0.0:
        return np.zeros(columns.shape[1]), 0
    count = int(np.searchsorted(variance.cumsum() / total, variance_share - 1e-12)) + 1
    part = np.abs(vectors[:, :count]) * np.sqrt(variance[:count] / variance[0])
    return np.asarray(part.max(axis=1)), count
