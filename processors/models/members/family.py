"""Laws that share their terms, fitted together: Amdahl's, Amdahl's with logarithmic communication, Kazmina's and all five.

Each is the best nonnegative set of some of the same terms, so one solution of all sets serves them all, at about the cost
of one law alone.
"""

from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from processors.models.members import kazmina, sup5
from processors.models.nnls import RIDGE

Floats = NDArray[np.float64]

TERMS: Final = ("parallel_s", "serial_s", "logarithmic_s", "root_s", "growth_s")  # of 1/n, 1, log2 n, 1/sqrt n, n
MEMBERS: Final = ("amdahl", "amdahl_log", "kazmina", "sup5")
_USED: Final = np.array([[1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 0, 0, 1, 1], [1, 1, 1, 1, 1]], dtype=bool)
_PENALTY: Final = np.stack([
    np.zeros(5), np.zeros(5), kazmina.SHRINKAGE * sup5.GROWTH * _USED[2], sup5.NOISE**2 / sup5.PRIOR_SIZE * sup5.GROWTH,
])  # fmt: skip


def fit_family(n: Floats, run_time_s: Floats) -> Floats:
    """Return the coefficients in seconds of every law, rows by MEMBERS, columns by TERMS, shape (4, 5).

    `n` (rising, distinct) and `run_time_s` have shape (k,), k >= 2. Below a size of 1 the logarithm is negative: there
    the laws that have it say nothing.

    >>> found = fit_family(np.array([4.0, 8.0, 16.0, 32.0]), np.array([262.0, 139.0, 78.5, 63.0]))
    >>> found.round(3)[0].tolist()
    [867.448, 31.679, 0.0, 0.0, 0.0]
    """
    basis = np.stack([1.0 / n, np.ones_like(n), np.log2(n), 1.0 / np.sqrt(n), n], axis=-1) / run_time_s[:, None]
    return _best_sets(basis.T @ basis, basis.sum(axis=0) - _PENALTY * basis[-1])


def _best_sets(gram: Floats, projection: Floats) -> Floats:
    """Return of each row of `projection` the nonnegative solution among the sets of terms that its law may use."""
    masks, pairs, outside, inside, allowed = _sets()
    diagonal = np.sqrt(gram.diagonal())
    unit = 1.0 / np.where(diagonal > 0, diagonal, np.inf)  # a column of zeros is left out by its 0
    systems = (gram * (unit[:, None] * unit)) * pairs + outside + RIDGE * inside
    if not diagonal.all():
        systems += inside * (diagonal == 0)[:, None]
    right = projection * unit
    solutions = np.linalg.solve(systems, right.T * masks[:, :, None])  # (sets, terms, laws)
    objective = -(solutions * right.T).sum(axis=1)
    feasible = allowed & (solutions >= 0).all(axis=1) & np.isfinite(objective)
    best = np.where(feasible, objective, np.inf).argmin(axis=0)
    laws = np.arange(best.size)
    return np.asarray(np.where(feasible[best, laws, None], solutions[best, :, laws] * unit, 0.0))


@lru_cache(maxsize=1)
def _sets() -> tuple[Floats, Floats, Floats, Floats, NDArray[np.bool_]]:
    """Return the masks of all non-empty sets of terms, which pairs are in a set, the diagonals outside and inside it.

    Shapes are (sets, terms) and three times (sets, terms, terms); last comes which laws may use which sets (sets, laws).
    """
    terms = len(TERMS)
    masks = np.array([[number >> i & 1 for i in range(terms)] for number in range(1, 2**terms)], dtype=float)
    pairs, inside = masks[:, :, None] * masks[:, None, :], np.eye(terms) * masks[:, :, None]
    return masks, pairs, np.eye(terms) - inside, inside, np.asarray((masks[:, None, :] <= _USED).all(axis=-1))
