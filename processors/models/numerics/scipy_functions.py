"""The functions of scipy that models need, imported when first called.

The import takes half a second of processor time, and a start or a request for a run time must not wait for it.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from processors.models.numerics.arrays import Floats


def load() -> None:
    """Import all functions while no request waits. The first failure of a job once blocked the agent for 0.17 s."""
    import scipy.linalg.lapack  # noqa: PLC0415  loaded late, as the module says
    import scipy.optimize  # noqa: PLC0415  loaded late, as the module says
    import scipy.special  # noqa: F401, PLC0415  loaded late, as the module says


def normal_share_below(deviations: npt.ArrayLike) -> Any:
    """Return the normal distribution function at `deviations` standard deviations (`ndtr`)."""
    from scipy.special import ndtr  # noqa: PLC0415  loaded late, as the module says

    return ndtr(deviations)


def beta_share_below(a: float, b: float, x: float) -> float:
    """Return the distribution function of a beta distribution at x (`betainc`)."""
    from scipy.special import betainc  # noqa: PLC0415  loaded late, as the module says

    return float(betainc(a, b, x))


def least_squares_not_negative(a: Floats, b: Floats) -> Floats:
    """Return the x >= 0 that minimises |ax - b| (Lawson, Hanson 1974).

    >>> least_squares_not_negative(np.eye(2), np.array([3.0, -1.0])).tolist()
    [3.0, 0.0]
    """
    from scipy.optimize import nnls  # noqa: PLC0415  loaded late, as the module says

    solution: Floats = nnls(a, b)[0]
    return solution


def inverse_and_ln_determinant(matrix: Floats) -> tuple[Floats, float]:
    """Return the inverse of a positive definite matrix and ln of its determinant; the matrix is overwritten.

    >>> inverse, ln_determinant = inverse_and_ln_determinant(np.array([[4.0, 2.0], [2.0, 2.0]]))
    >>> inverse.round(6).tolist(), round(ln_determinant, 6)
    ([[0.5, -0.5], [-0.5, 1.0]], 1.386294)
    """
    from scipy.linalg.lapack import dpotrf, dpotri  # noqa: PLC0415  loaded late, as the module says

    factor, _ = dpotrf(matrix, lower=1, overwrite_a=1)
    ln_determinant = 2.0 * float(np.log(np.diag(factor)).sum())
    lower: Floats = dpotri(factor, lower=1)[0]
    inverse = np.tril(lower)
    inverse += np.tril(lower, -1).T
    return inverse, ln_determinant
