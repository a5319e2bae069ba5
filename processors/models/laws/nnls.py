"""Least squares with coefficients that are not negative, solved exactly by trying every set of active terms.

Run-time laws have two to five terms with a meaning, so none may be negative. With so few terms all 2^p - 1 active sets
can be solved at once; the feasible one with the least objective is the optimum (Lawson and Hanson, "Solving Least
Squares Problems", 1974, say why), without iteration, start value or tolerance.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from processors.models.numerics.arrays import Floats

TERMS_MAX = 5
RIDGE = 1e-13  # of the diagonal: terms that say the same on these sizes stay solvable


class Solution(NamedTuple):
    """Coefficients (..., p) and the objective x'Gx - 2 c'x (...), which is 0 where nothing helps.

    >>> Solution(np.array([1.0]), np.float64(-1.0)).coefficients.tolist()
    [1.0]
    """

    coefficients: Floats
    objective: Floats


def nnls(gram: Floats, projection: Floats, ridge: float = RIDGE) -> Solution:
    """Return the x >= 0 that minimises x'Gx - 2 c'x, for a batch of problems at once.

    `gram` (..., p, p) are sums of products of the p columns, `projection` (..., p) their sums with the right-hand side.
    A column of zeros gets the coefficient 0. `ridge` is a share of the diagonal that is added to it.
    Raises ValueError for more than TERMS_MAX columns.

    >>> basis = np.array([[1.0, 1.0], [0.5, 1.0], [0.25, 1.0]])
    >>> nnls(basis.T @ basis, basis.T @ np.array([9.0, 5.0, 3.0])).coefficients.round(6).tolist()
    [8.0, 1.0]
    """
    columns = gram.shape[-1]
    if columns > TERMS_MAX:
        raise ValueError(f"At most {TERMS_MAX} terms can be enumerated.")
    diagonal = np.sqrt(np.einsum("...ii->...i", gram))
    unit = 1.0 / np.where(diagonal > 0, diagonal, np.inf)  # a column of zeros stays one, and is left out by its 0
    scaled = gram * (unit[..., :, None] * unit[..., None, :])
    right = projection * unit
    mask, pairs, fill, active = _active_sets(columns)
    systems = scaled[..., None, :, :] * pairs + (fill + ridge * active)
    if not diagonal.all():
        systems += np.eye(columns) * (diagonal == 0)[..., None, :, None]
    solutions = np.linalg.solve(systems, (right[..., None, :] * mask)[..., None])[..., 0]
    # at the optimum of a set x'Gx is c'x, less what was added to the diagonal
    objective = -(solutions @ right[..., None])[..., 0] - ridge * (solutions * solutions).sum(axis=-1)
    feasible = (solutions >= 0).all(axis=-1) & np.isfinite(objective)
    objective = np.where(feasible, objective, np.inf)
    best = objective.argmin(axis=-1)
    flat, places = objective.reshape(-1, objective.shape[-1]), best.ravel()
    rows = np.arange(places.size)
    chosen = solutions.reshape(*flat.shape, columns)[rows, places].reshape(projection.shape)
    least = flat[rows, places].reshape(best.shape)
    helpful = np.isfinite(least)
    return Solution(np.where(helpful[..., None], chosen * unit, 0.0), np.where(helpful, least, 0.0))


@lru_cache(maxsize=TERMS_MAX)
def _active_sets(columns: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the masks of all non-empty sets (s, p), which pairs are in a set, and the diagonals outside and inside it."""
    mask = np.array([[(number >> i) & 1 for i in range(columns)] for number in range(1, 2**columns)], dtype=float)
    unit = np.eye(columns)
    sets = (mask, mask[:, :, None] * mask[:, None, :], unit * (1.0 - mask)[:, :, None], unit * mask[:, :, None])
    for each in sets:
        each.flags.writeable = False
    return sets
