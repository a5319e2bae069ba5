"""Gunther's universal scalability law: contention takes a share of all work, coherence grows with every processor.

N. Gunther, "A general theory of computational scalability based on rational functions" (2008). In run times it is
T = a/n + b (n - 1)/n + c (n - 1): a is T(1), b/a the contention sigma, c/a the coherence kappa. The combination uses
the same three terms as a/n + b + c n, with c held back: one noisy size at the end would otherwise make it explode.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from processors.models.laws import Ability
from processors.models.laws.nnls import nnls

Floats = NDArray[np.float64]

ABILITY: Final = Ability("usl", sizes_min=2, extrapolates=True)
GROWTH_PENALTY = 0.004
RIDGE = 1e-10


class UniversalLaw(NamedTuple):
    """T(n) in seconds by its terms: T(1), contention and coherence.

    >>> UniversalLaw(100.0, 0.0, 0.0).predict(np.array([4.0])).tolist()
    [25.0]
    """

    t1_s: float
    contention_s: float
    coherence_s: float

    def predict(self, n: Floats) -> Floats:
        """Return T in seconds at sizes of any shape."""
        return np.asarray((self.t1_s + self.contention_s * (n - 1.0)) / n + self.coherence_s * (n - 1.0))


def fit_usl(n: Floats, run_time_s: Floats) -> UniversalLaw:
    """Return the law; `n` (distinct, at least 1) and `run_time_s` have shape (k,), k >= 2.

    >>> law = fit_usl(np.array([4.0, 8.0, 16.0, 32.0]), np.array([262.0, 139.0, 78.5, 63.0]))
    >>> law.predict(np.array([12.0, 64.0])).round(3).tolist()
    [97.44, 77.655]
    """
    basis = np.stack([1.0 / n, (n - 1.0) / n, n - 1.0], axis=-1) / run_time_s[:, None]
    t1_s, contention_s, coherence_s = nnls(basis.T @ basis, basis.sum(axis=0)).coefficients
    return UniversalLaw(float(t1_s), float(contention_s), float(coherence_s))


def fit_prefixes(n: Floats, run_time_s: Floats) -> Floats:
    """Return a, b, c of a/n + b + c n on every prefix of 2 to k sizes, shape (k - 1, 3).

    `n` (rising, distinct) and `run_time_s` have shape (k,) and are best given relative to the last size.

    >>> fit_prefixes(np.array([0.25, 0.5, 1.0]), np.array([4.0, 2.0, 1.0])).round(6).tolist()
    [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    """
    basis = np.stack([1.0 / n, np.ones_like(n), n], axis=-1) / run_time_s[:, None]
    gram = np.cumsum(basis[:, :, None] * basis[:, None, :], axis=0)[1:]
    projection = np.cumsum(basis, axis=0)[1:]
    projection[:, 2] -= GROWTH_PENALTY * basis[1:, 2]
    return nnls(gram, projection, RIDGE).coefficients


def fit_each(n: Floats, run_time_s: Floats) -> Floats:
    """Return a, b, c of a/n + b + c n for each of m sets of k sizes, rows of `n` and `run_time_s` (m, k); shape (m, 3).

    >>> fit_each(np.array([[0.25, 0.5, 1.0]]), np.array([[4.0, 2.0, 1.0]])).round(6).tolist()
    [[1.0, 0.0, 0.0]]
    """
    basis = np.stack([1.0 / n, np.ones_like(n), n], axis=-1) / run_time_s[..., None]
    projection = basis.sum(axis=-2)
    projection[:, 2] -= GROWTH_PENALTY * basis[:, -1, 2]
    return nnls(np.swapaxes(basis, -1, -2) @ basis, projection, RIDGE).coefficients
