"""The functions of scipy that models need, each loaded when it is first called.

Loading them takes half a second of processor time: a start or a question about run times must not wait for what it never calls.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from processors.models.numerics.arrays import Floats


def load() -> None:
    """Load them all, at a moment at which nobody waits. A fold that met the first failure of a job stood still for .17 s.

    >>> import sys
    >>> load()
    >>> "scipy.special" in sys.modules
    True
    """
    import scipy.linalg.lapack  # noqa: PLC0415  loaded late, as the module says
    import scipy.optimize  # noqa: PLC0415  loaded late, as the module says
    import scipy.special  # noqa: F401, PLC0415  loaded late, as the module says


def normal_share_below(deviations: npt.ArrayLike) -> Any:
    """Return the share of a normal distribution below so many standard deviations (`ndtr`).

    >>> float(normal_share_below(0.0))
    0.5
    """
    from scipy.special import ndtr  # noqa: PLC0415  loaded late, as the module says

    return ndtr(deviations)


def beta_share_below(a: float, b: float, x: float) -> float:
    """Return the share of a beta distribution below x (`betainc`).

    >>> beta_share_below(1.0, 1.0, 0.25)
    0.25
    """
    from scipy.special import betainc  # noqa: PLC0415  loaded late, as the module says

    return float(betainc(a, b, x))


def least_squares_not_negative(a: Floats, b: Floats) -> Floats:
    """Return the x without negative numbers for which |Ax - b| is least (Lawson, Hanson 1974).

    >>> least_squares_not_negative(np.eye(2), np.array([3.0, -1.0])).tolist()
    [3.0, 0.0]
    """
    from scipy.optimize import nnls  # noqa: PLC0415  loaded late, as the module says

    found: Floats = nnls(a, b)[0]
    return found


def inverse_and_ln_determinant(matrix: Floats) -> tuple[Floats, float]:
    """Return the inverse of a positive definite matrix, and ln of its determinant; the matrix is written over.

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


def lower_inverse(matrix: Floats) -> Floats:
    """Return the inverse of a positive definite matrix on and below its diagonal; the matrix is written over.

    >>> lower_inverse(np.array([[4.0]])).tolist()
    [[0.25]]
    """
    from scipy.linalg.lapack import dpotrf, dpotri  # noqa: PLC0415  loaded late, as the module says

    factor, _ = dpotrf(matrix, lower=1, overwrite_a=1)
    inverse: Floats = dpotri(factor, lower=1, overwrite_c=1)[0]
    return inverse
