"""The law of Kazmina and Antonov: T(q) = a q + b/q + c/sqrt(q), with an optimum size.

They fit it by Levenberg and Marquardt to the minimum of repeated runs, since the spread of repeats reached 4188 %. The
law is linear in a, b and c, so it is solved exactly here, by relative error: absolute errors would see the smallest
sizes only. The growing term explodes under noise; `shrinkage` holds it back.
"""

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from processors.models.laws import Ability
from processors.models.laws.nnls import nnls

Floats = NDArray[np.float64]

ABILITY: Final = Ability("kazmina", sizes_min=2, extrapolates=True)
SHRINKAGE: Final = 0.009  # for times with a noise of about 3 %
GROWTH = np.array([1.0, 0.0, 0.3])
NEWTON_STEPS = 60
CONVERGED = 1e-14  # relative
LN_RATIO_MAX = 200.0  # of falling to growing terms: beyond, growth is nothing but noise


class KazminaLaw(NamedTuple):
    """Terms in seconds: growth (a), parallel work (b), what shrinks with the square root of the size (c).

    >>> KazminaLaw(0.0, 100.0, 10.0).predict(np.array([4.0])).tolist()
    [30.0]
    """

    growth_s: float
    parallel_s: float
    root_s: float

    def predict(self, n: Floats) -> Floats:
        """Return T in seconds at sizes of any shape."""
        return np.asarray(self.growth_s * n + self.parallel_s / n + self.root_s / np.sqrt(n))

    def best_size(self) -> float | None:
        """Return the size q* with the least run time, not rounded; None where T only falls, or only grows.

        In s = sqrt(q), T' = 0 is a s^4 - c s / 2 - b = 0, which has one positive root.

        >>> round(KazminaLaw(0.002, 800.0, 5.0).best_size(), 3)
        657.303
        """
        a, b, c = self
        if a <= 0 or b + c <= 0 or math.log(b + c) - math.log(a) > LN_RATIO_MAX:
            return None
        s = float((b / a) ** 0.25 + (c / (2.0 * a)) ** (1.0 / 3.0))
        for _ in range(NEWTON_STEPS):
            step = (a * s**4 - c * s / 2.0 - b) / (4.0 * a * s**3 - c / 2.0)
            s -= step
            if abs(step) <= CONVERGED * s:
                break
        return s * s

    def best_whole_size(self) -> int | None:
        """Return the whole size next to q* with the lesser run time, at least 1.

        >>> KazminaLaw(0.002, 800.0, 5.0).best_whole_size()
        657
        """
        best = self.best_size()
        if best is None:
            return None
        below = max(math.floor(best), 1)
        return min((below, below + 1), key=lambda n: float(self.predict(np.array(float(n)))))


def fit_kazmina(n: Floats, run_time_s: Floats, weight: Floats | None = None, *, shrinkage: float = 0.0) -> KazminaLaw:
    """Return the law; `n` (rising, distinct), `run_time_s` (best the minimum of repeats) and `weight` have shape (k,).

    Two sizes determine two of the terms; four are recommended. `shrinkage` is SHRINKAGE where noise matters.

    >>> law = fit_kazmina(np.array([4.0, 8.0, 16.0, 32.0]), np.array([262.0, 139.0, 78.5, 63.0]))
    >>> law.predict(np.array([12.0, 64.0])).round(3).tolist()
    [97.628, 76.808]
    """
    basis = np.stack([n, 1.0 / n, 1.0 / np.sqrt(n)], axis=-1) / run_time_s[:, None]
    trust = np.ones_like(n) if weight is None else weight
    projection = trust @ basis - shrinkage * GROWTH * basis[-1]
    return KazminaLaw(*nnls(basis.T @ (basis * trust[:, None]), projection).coefficients.tolist())
