"""Linear regression on columns that are scaled alike, with a little ridge so that it always has one answer."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

STILL = 1e-9  # of a column's size: what moves by less does not move


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """y = intercept + values @ coefficients, (p,); `standard` are the coefficients in deviations of column and target.

    >>> Linear(2.0, np.array([3.0]), np.array([1.0])).predict(np.array([[4.0]])).tolist()
    [14.0]
    """

    intercept: float
    coefficients: Floats
    standard: Floats

    def predict(self, values: Floats) -> Floats:
        """Return y of rows (m, p)."""
        return np.asarray(self.intercept + values @ self.coefficients)


def scales(columns: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Return mean and deviation of each column (p,); the deviation is 0 where a column does not move.

    >>> mean, deviation = scales(np.array([[1.0, 5.0], [3.0, 5.0]]), np.ones(2))
    >>> mean.tolist(), deviation.tolist()
    ([2.0, 5.0], [1.0, 0.0])
    """
    share = weight / weight.sum()
    mean = share @ columns
    deviation = np.sqrt(share @ (columns - mean) ** 2)
    return mean, np.where(deviation > STILL * np.abs(columns).max(axis=0, initial=0.0), deviation, 0.0)


def scaled(columns: Floats, mean: Floats, deviation: Floats) -> Floats:
    """Return columns in deviations from their mean; 0 where one does not move.

    >>> scaled(np.array([[3.0, 7.0]]), np.array([1.0, 5.0]), np.array([2.0, 0.0])).tolist()
    [[1.0, 0.0]]
    """
    return np.divide(columns - mean, deviation, out=np.zeros(columns.shape), where=deviation > 0)


def ridge(columns: Floats, target: Floats, weight: Floats, share: float) -> Linear:
    """Return the regression of the target (k,) on columns (k, p), each scaled to one deviation.

    `share` times the number of rows is added to the diagonal (A. Hoerl, R. Kennard, "Ridge regression", 1970).

    >>> x = np.array([[1.0], [2.0], [3.0]])
    >>> found = ridge(x, 2.0 + 3.0 * x[:, 0], np.ones(3), 1e-9)
    >>> round(found.intercept, 6), found.coefficients.round(6).tolist(), found.standard.round(6).tolist()
    (2.0, [3.0], [1.0])
    """
    mean, deviation = scales(columns, weight)
    centre, spread = (float(each[0]) for each in scales(target[:, None], weight))
    x, y = scaled(columns, mean, deviation), target - centre
    gram = x.T @ (weight[:, None] * x) + share * weight.sum() * np.eye(x.shape[1])
    found = np.linalg.solve(gram, x.T @ (weight * y))
    coefficients = np.divide(found, deviation, out=np.zeros(len(found)), where=deviation > 0)
    standard = found / spread if spread > 0 else np.zeros(len(found))
    return Linear(centre - float(mean @ coefficients), coefficients, standard)
