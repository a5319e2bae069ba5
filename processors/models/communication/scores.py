"""How well an order is predicted: the rank correlation coefficient of Jain et al., and R squared."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def rcc(predicted: Floats, actual: Floats) -> float:
    """Return the share of pairs that are ordered alike, as the source counts them: of a tie the first of a pair is above.

    With ties it depends on the order of the samples; `rcc_symmetric` does not. nan for less than two samples.

    >>> rcc(np.array([1.0, 1.0]), np.array([1.0, 2.0])), rcc(np.array([1.0, 1.0]), np.array([2.0, 1.0]))
    (1.0, 0.0)
    """
    first, second = np.tril_indices(len(predicted), -1)
    if not first.size:
        return float("nan")
    return float(np.mean((predicted[first] >= predicted[second]) == (actual[first] >= actual[second])))


def rcc_symmetric(predicted: Floats, actual: Floats) -> float:
    """Return the same, a pair that is tied in one of them alone as half; (1 + Kendall's tau) / 2 without ties.

    >>> rcc_symmetric(np.array([1.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0])).__round__(4)
    0.8333
    """
    first, second = np.tril_indices(len(predicted), -1)
    if not first.size:
        return float("nan")
    x, y = (np.sign(each[first] - each[second]) for each in (predicted, actual))
    return float(np.mean(np.where(x == y, 1.0, np.where((x == 0) | (y == 0), 0.5, 0.0))))


def r_squared(predicted: Floats, actual: Floats) -> float:
    """Return the share of the variance that is explained, below 0 where the mean would do better; nan where there is none.

    >>> r_squared(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 6.0])).__round__(3)
    0.357
    """
    total = float(((actual - actual.mean()) ** 2).sum()) if actual.size else 0.0
    return 1.0 - float(((predicted - actual) ** 2).sum()) / total if total > 0 else float("nan")
