"""Five terms at once: parallel, serial, logarithmic, square root and growing; laws of Amdahl, Kazmina and Gunther lie within.

With as many terms as sizes anything fits, so terms that grow pay for it: their sums with the right-hand side are reduced
(an L1 penalty), the more the more a term says at the largest size.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from processors.models.members import Ability
from processors.models.nnls import nnls

Floats = NDArray[np.float64]

ABILITY: Final = Ability("sup5", sizes_min=2, extrapolates=True)
GROWTH: Final = np.array([0.0, 0.0, 1.0, 0.3, 1.0])
NOISE = 0.03
PRIOR_SIZE = 0.1


class FiveTerms(NamedTuple):
    """T(n) = a/n + b + c log2 n + d/sqrt(n) + e n, the coefficients in seconds.

    >>> FiveTerms(8.0, 1.0, 1.0, 2.0, 0.5).predict(np.array([4.0])).tolist()
    [8.0]
    """

    parallel_s: float
    serial_s: float
    logarithmic_s: float
    root_s: float
    growth_s: float

    def predict(self, n: Floats) -> Floats:
        """Return T in seconds at sizes of any shape, at least 1."""
        return np.asarray(_basis(n) @ np.array(self))


def fit_sup5(n: Floats, run_time_s: Floats, noise: float = NOISE) -> FiveTerms:
    """Return the best of the 31 sets of terms; `n` (rising, distinct, at least 1) and `run_time_s` have shape (k,).

    `noise` is the standard deviation of ln t.

    >>> law = fit_sup5(np.array([4.0, 8.0, 16.0, 32.0]), np.array([262.0, 139.0, 78.5, 63.0]))
    >>> law.predict(np.array([12.0, 64.0])).round(3).tolist()
    [99.121, 69.152]
    """
    relative = _basis(n) / run_time_s[:, None]
    projection = relative.sum(axis=0) - noise**2 / PRIOR_SIZE * GROWTH * relative[-1]
    return FiveTerms(*nnls(relative.T @ relative, projection).coefficients.tolist())


def _basis(n: Floats) -> Floats:
    return np.stack([1.0 / n, np.ones_like(n), np.log2(n), 1.0 / np.sqrt(n), n], axis=-1)
