"""Amdahl's law, and Amdahl's law with communication that grows with the logarithm of the size.

G. Amdahl, "Validity of the single processor approach" (1967): T = a/n + b, the parallel and the serial part. Broadcasts
and reductions along a tree add c log2 n.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from processors.models.members import Ability
from processors.models.nnls import nnls

Floats = NDArray[np.float64]

ABILITIES: Final = (
    Ability("amdahl", sizes_min=2, extrapolates=True),
    Ability("amdahl_log", sizes_min=2, extrapolates=True),
)


class AmdahlLaw(NamedTuple):
    """T(n) = parallel_s / n + serial_s + logarithmic_s log2 n in seconds.

    >>> AmdahlLaw(100.0, 5.0, 1.0).predict(np.array([4.0])).tolist()
    [32.0]
    """

    parallel_s: float
    serial_s: float
    logarithmic_s: float = 0.0

    def predict(self, n: Floats) -> Floats:
        """Return T in seconds at sizes of any shape, at least 1."""
        return np.asarray(self.parallel_s / n + self.serial_s + self.logarithmic_s * np.log2(n))


def fit_amdahl(n: Floats, run_time_s: Floats) -> AmdahlLaw:
    """Return Amdahl's law; `n` (distinct) and `run_time_s` have shape (k,), k >= 2.

    >>> law = fit_amdahl(np.array([4.0, 8.0, 16.0, 32.0]), np.array([262.0, 139.0, 78.5, 63.0]))
    >>> law.predict(np.array([12.0, 64.0])).round(3).tolist()
    [103.967, 45.233]
    """
    return AmdahlLaw(*_terms(np.stack([1.0 / n, np.ones_like(n)], axis=-1), run_time_s))


def fit_amdahl_log(n: Floats, run_time_s: Floats) -> AmdahlLaw:
    """Return Amdahl's law with logarithmic communication; arguments as above, sizes at least 1.

    >>> law = fit_amdahl_log(np.array([4.0, 8.0, 16.0, 32.0]), np.array([262.0, 139.0, 78.5, 63.0]))
    >>> law.predict(np.array([12.0, 64.0])).round(3).tolist()
    [101.861, 51.294]
    """
    return AmdahlLaw(*_terms(np.stack([1.0 / n, np.ones_like(n), np.log2(n)], axis=-1), run_time_s))


def _terms(basis: Floats, run_time_s: Floats) -> tuple[float, ...]:
    relative = basis / run_time_s[:, None]
    return tuple(nnls(relative.T @ relative, relative.sum(axis=0)).coefficients.tolist())
