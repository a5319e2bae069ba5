"""Laws that share their terms, fitted together: Amdahl's, with and without logarithmic communication, Kazmina's, and all five.

G. Amdahl, "Validity of the single processor approach" (1967): T = a/n + b, the parallel and the serial part. Broadcasts
and reductions along a tree add c log2 n. Kazmina and Antonov: T = a n + b/n + c/sqrt n. The sum of all five terms holds
these laws and Gunther's. With as many terms as sizes anything fits, so in that sum terms that grow pay for it: their sums
with the right-hand side are reduced (an L1 penalty), the more the more a term says at the largest size. Kazmina's law is
left as it was published: its penalty made a growth that ends the speed-up at 657 nodes vanish from its own exact data.
Each law is the best nonnegative set of some of the same terms, so one solution of all sets serves them all, at about the
cost of one law alone.
"""

import math
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

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


TERMS: Final = ("parallel_s", "serial_s", "logarithmic_s", "root_s", "growth_s")  # of 1/n, 1, log2 n, 1/sqrt n, n
MEMBERS: Final = ("amdahl", "amdahl_log", "kazmina", "sup5")
GROWTH: Final = np.array([0.0, 0.0, 1.0, 0.3, 1.0])
NOISE: Final = 0.03
PRIOR_SIZE: Final = 0.1
NEWTON_STEPS: Final = 60
CONVERGED: Final = 1e-14  # relative
LN_RATIO_MAX: Final = 200.0  # of falling to growing terms: beyond, growth is nothing but noise
_USED: Final = np.array([[1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 0, 0, 1, 1], [1, 1, 1, 1, 1]], dtype=bool)
_PENALTY: Final = np.stack([np.zeros(5), np.zeros(5), np.zeros(5), NOISE**2 / PRIOR_SIZE * GROWTH])


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


def fastest_size(parallel_s: float, root_s: float, growth_s: float) -> float | None:
    """Return the size q with the least of growth_s q + parallel_s / q + root_s / sqrt q; None where T only falls, or only grows.

    Not rounded. In s = sqrt(q), T' = 0 is a s^4 - c s / 2 - b = 0, which has one positive root.
    Source: Kazmina's and Antonov's law, solved by Newton's method.

    >>> round(fastest_size(800.0, 5.0, 0.002), 3)
    657.303
    """
    a, b, c = growth_s, parallel_s, root_s
    if a <= 0 or b + c <= 0 or math.log(b + c) - math.log(a) > LN_RATIO_MAX:
        return None
    s = float((b / a) ** 0.25 + (c / (2.0 * a)) ** (1.0 / 3.0))
    for _ in range(NEWTON_STEPS):
        step = (a * s**4 - c * s / 2.0 - b) / (4.0 * a * s**3 - c / 2.0)
        s -= step
        if abs(step) <= CONVERGED * s:
            break
    return s * s


class AmdahlFits(NamedTuple):
    """One law per subset: `parallel_s` (a), `serial_s` (b) and `squares`, the sum of squared relative errors; shape (m,).

    >>> AmdahlFits(np.array([100.0]), np.array([1.0]), np.array([0.0])).predict(np.array([10.0])).tolist()
    [11.0]
    """

    parallel_s: Floats
    serial_s: Floats
    squares: Floats

    def predict(self, n: Floats) -> Floats:
        """Return T in seconds at one size per law, shape (m,).

        >>> AmdahlFits(np.array([8.0, 8.0]), np.array([1.0, 1.0]), np.zeros(2)).predict(np.array([4.0, 8.0])).tolist()
        [3.0, 2.0]
        """
        return self.parallel_s / n + self.serial_s


def least_squares_amdahl(n: Floats, run_time_s: Floats, weights: Floats) -> AmdahlFits:
    """Return the least squares of relative errors with a, b >= 0; `weights` has shape (m, k), zero leaves a size out.

    Of two unknowns the best nonnegative pair is the free optimum or lies on one axis, so it has a closed form.

    >>> n = np.array([1.0, 2.0, 4.0, 8.0])
    >>> fits = least_squares_amdahl(n, 100.0 / n + 5.0, np.ones((1, 4)))
    >>> fits.parallel_s.round(6).tolist(), fits.serial_s.round(6).tolist()
    ([100.0], [5.0])
    """
    unit, reference = float(n[0]), float(run_time_s[0])
    share, constant = unit / n * (reference / run_time_s), reference / run_time_s
    sums = (weights @ each for each in (share * share, share * constant, constant * constant, share, constant))
    coefficient_a, coefficient_b = _best_pair(*sums)
    residuals = coefficient_a[:, None] * share + coefficient_b[:, None] * constant - 1.0
    return AmdahlFits(coefficient_a * unit * reference, coefficient_b * reference, (weights * residuals**2).sum(axis=1))


def least_squares_amdahl_each(n: Floats, run_time_s: Floats) -> AmdahlFits:
    """Return the same for each of c curves (c, k), all of whose sizes count alike.

    >>> n = np.array([[1.0, 2.0, 4.0, 8.0]])
    >>> least_squares_amdahl_each(n, 100.0 / n + 5.0).serial_s.round(6).tolist()
    [5.0]
    """
    unit, reference = n[:, :1], run_time_s[:, :1]
    share, constant = unit / n * (reference / run_time_s), reference / run_time_s
    products = np.array([share * share, share * constant, constant * constant, share, constant])
    coefficient_a, coefficient_b = (each[:, None] for each in _best_pair(*products.sum(axis=2)))
    residuals = coefficient_a * share + coefficient_b * constant - 1.0
    found = (coefficient_a * unit * reference)[:, 0], (coefficient_b * reference)[:, 0]
    return AmdahlFits(*found, (residuals**2).sum(axis=1))


def _best_pair(aa: Floats, ab: Floats, bb: Floats, a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return the best coefficients that are not negative from the sums of products of the two terms and of the terms."""
    determinant = aa * bb - ab * ab
    with np.errstate(all="ignore"):
        free_a, free_b = (a * bb - b * ab) / determinant, (b * aa - a * ab) / determinant
        usable = (determinant > 1e-14 * aa * bb) & (free_a >= 0) & (free_b >= 0)
        only_a, only_b = a / aa, b / bb
    # what an axis explains is a^2 / aa or b^2 / bb
    on_a = ~usable & (a * only_a >= b * only_b)
    return (
        np.where(usable, free_a, np.where(on_a, only_a, 0.0)),
        np.where(usable, free_b, np.where(on_a, 0.0, only_b)),
    )


SLOPE_MIN, SLOPE_MAX = -1.1, 0.5
SLOPES_ALIKE = 1e-9


def fit_barnes(n: Floats, run_time_s: Floats, *, degree: int) -> tuple[float, ...]:
    """Return gamma_0, gamma_1 and with degree 2 gamma_2 of log2 T = gamma_0 + gamma_1 q + gamma_2 q^2, q = log2 n.

    Least squares of log2 T; `n` and `run_time_s` have shape (m,). Where sizes are too few or too alike the smallest
    coefficients that fit best are taken. Raises ValueError for a degree other than 1 and 2.

    >>> n, t = np.array([4.0, 8.0, 16.0, 32.0]), np.array([262.0, 139.0, 78.5, 63.0])
    >>> [round(float(2 ** log2_run_time(fit_barnes(n, t, degree=degree), 6.0, 2.0, 5.0)), 3) for degree in (1, 2)]
    [34.485, 57.852]
    """
    if degree not in {1, 2}:
        raise ValueError("The degree is 1 or 2.")
    q = np.log2(n)
    columns = np.column_stack([q**power for power in range(degree + 1)])
    return tuple(np.linalg.lstsq(columns, np.log2(run_time_s), rcond=None)[0].tolist())


def log2_run_time(gamma: tuple[float, ...], q: float, low: float, high: float) -> float:
    """Return log2 of T at one q = log2 n, observed sizes spanning [low, high] in q; beyond, the clipped slope is integrated.

    >>> round(log2_run_time((8.0, -1.0, 0.1), 8.0, 0.0, 4.0), 3)
    6.375
    """
    level, slope, *bend = gamma
    double = 2.0 * bend[0] if bend else 0.0
    nearest = min(max(q, low), high)
    inside = level + (slope + double / 2.0 * nearest) * nearest
    if nearest == q:
        return inside
    first, last = slope + double * nearest, slope + double * q
    if abs(last - first) < SLOPES_ALIKE:
        return inside + _clipped(first) * (q - nearest)
    return inside + (_integral(last) - _integral(first)) / (last - first) * (q - nearest)


def _clipped(slope: float) -> float:
    return min(max(slope, SLOPE_MIN), SLOPE_MAX)


def _integral(slope: float) -> float:
    """Return the integral of the clipped slope over the slope."""
    clipped = _clipped(slope)
    return clipped * slope - clipped * clipped / 2.0
