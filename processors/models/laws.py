"""Laws of run time against size: laws that share their terms, fitted together, and laws fitted to every prefix of a curve.

All fits but those of Barnes's laws are least squares of relative errors with nonnegative terms. The right law differs between
applications and even along one curve; the combination decides which law to trust.

G. Amdahl, "Validity of the single processor approach" (1967): T = a/n + b, the parallel and the serial part. Broadcasts and
reductions along a tree add c log2 n. Kazmina and Antonov: T = a n + b/n + c/sqrt n. The sum of all five terms contains these
laws and Gunther's. Any data fit as many terms as sizes, so growing terms of that sum pay a penalty: their sums with the
right-hand side are reduced (an L1 penalty), in proportion to the term at the largest size. Kazmina's law has no penalty, as
published: a penalty removed a growth that ends the speed-up at 657 nodes from exact data of this law. Each law is the best
nonnegative combination of some of the same terms. Solving all sets of terms once therefore serves all laws, at about the cost
of one law alone.
"""

import math
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from processors.models.numerics.arrays import Floats

TERMS_MAX = 5
RIDGE = 1e-13  # added to the diagonal, as a share, so that collinear terms stay solvable


def nnls(gram: Floats, projection: Floats, ridge: float = RIDGE) -> Floats:
    """Return the x >= 0 (..., p) that minimises x'Gx - 2 c'x, for a batch of problems at once; 0 if no term reduces it.

    `gram` (..., p, p) is G, the products of the p columns summed over rows, and `projection` (..., p) is c, their products with the
    right-hand side. A column of zeros gets the coefficient 0. The diagonal of G is increased by the share `ridge`. Raises
    ValueError for more than TERMS_MAX columns.

    >>> basis = np.array([[1.0, 1.0], [0.5, 1.0], [0.25, 1.0]])
    >>> nnls(basis.T @ basis, basis.T @ np.array([9.0, 5.0, 3.0])).round(6).tolist()
    [8.0, 1.0]
    """
    columns = gram.shape[-1]
    if columns > TERMS_MAX:
        raise ValueError(f"At most {TERMS_MAX} terms can be enumerated.")
    diagonal = np.sqrt(np.einsum("...ii->...i", gram))
    unit = 1.0 / np.where(diagonal > 0, diagonal, np.inf)  # a column of zeros stays zero
    scaled = gram * (unit[..., :, None] * unit[..., None, :])
    right = projection * unit
    mask, pairs, fill, active = _active_sets(columns)
    systems = scaled[..., None, :, :] * pairs + (fill + ridge * active)
    if not diagonal.all():
        systems += np.eye(columns) * (diagonal == 0)[..., None, :, None]
    solutions = np.linalg.solve(systems, (right[..., None, :] * mask)[..., None])[..., 0]
    # at the optimum of a set, x'Gx equals c'x (apart from the ridge)
    objective = -(solutions @ right[..., None])[..., 0] - ridge * (solutions * solutions).sum(axis=-1)
    feasible = (solutions >= 0).all(axis=-1) & np.isfinite(objective)
    best = np.where(feasible, objective, np.inf).argmin(axis=-1).ravel()
    rows = np.arange(best.size)
    chosen = solutions.reshape(best.size, len(mask), columns)[rows, best].reshape(projection.shape)
    helpful = feasible.reshape(best.size, len(mask))[rows, best].reshape(*projection.shape[:-1], 1)
    return np.where(helpful, chosen * unit, 0.0)


@lru_cache(maxsize=TERMS_MAX)
def _active_sets(columns: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Return all non-empty sets of columns as masks (s, p), and for each set three matrices (s, p, p).

    They are 1 for pairs of columns inside the set, on the diagonal outside the set, and on the diagonal inside the set.
    """
    mask = np.array([[(number >> i) & 1 for i in range(columns)] for number in range(1, 2**columns)], dtype=float)
    unit = np.eye(columns)
    sets = (mask, mask[:, :, None] * mask[:, None, :], unit * (1.0 - mask)[:, :, None], unit * mask[:, :, None])
    for array in sets:
        array.flags.writeable = False
    return sets


# coefficients of 1/n, 1, log2 n, 1/sqrt n and n
TERMS: Final = ("parallel_s", "serial_s", "logarithmic_s", "root_s", "growth_s")
MEMBERS: Final = ("amdahl", "amdahl_log", "kazmina", "sup5")
GROWTH: Final = np.array([0.0, 0.0, 1.0, 0.3, 1.0])
NOISE: Final = 0.03
PRIOR_SIZE: Final = 0.1
NEWTON_STEPS: Final = 60
CONVERGED: Final = 1e-14  # relative tolerance
LN_RATIO_MAX: Final = 200.0  # largest ln ratio of falling to growing terms; smaller growth is noise
_USED: Final = np.array([[1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 0, 0, 1, 1], [1, 1, 1, 1, 1]], dtype=bool)
# sets that each law may use, (sets, laws)
_ALLOWED: Final = (_active_sets(len(TERMS))[0][:, None, :] <= _USED).all(axis=-1)
_PENALTY: Final = np.stack([np.zeros(5), np.zeros(5), np.zeros(5), NOISE**2 / PRIOR_SIZE * GROWTH])


def fit_family(n: Floats, run_time_s: Floats) -> Floats:
    """Return the coefficients in seconds of every law, rows by MEMBERS, columns by TERMS, shape (4, 5).

    `n` (ascending, distinct) and `run_time_s` have shape (k,), k >= 2. Below a size of 1 the logarithm is negative; callers
    must not use the laws with a logarithm at such sizes.

    >>> fit_family(np.array([4.0, 8.0, 16.0, 32.0]), np.array([262.0, 139.0, 78.5, 63.0])).round(3)[0].tolist()
    [867.448, 31.679, 0.0, 0.0, 0.0]
    """
    basis = np.stack([1.0 / n, np.ones_like(n), np.log2(n), 1.0 / np.sqrt(n), n], axis=-1) / run_time_s[:, None]
    return _best_sets(basis.T @ basis, basis.sum(axis=0) - _PENALTY * basis[-1])


def _best_sets(gram: Floats, projection: Floats) -> Floats:
    """Return the best nonnegative coefficients of each law, a row of `projection`, over all sets of terms that the law may use."""
    masks, pairs, outside, inside = _active_sets(len(TERMS))
    diagonal = np.sqrt(gram.diagonal())
    unit = 1.0 / np.where(diagonal > 0, diagonal, np.inf)  # a column of zeros stays zero
    systems = (gram * (unit[:, None] * unit)) * pairs + outside + RIDGE * inside
    if not diagonal.all():
        systems += inside * (diagonal == 0)[:, None]
    right = projection * unit
    solutions = np.linalg.solve(systems, right.T * masks[:, :, None])  # (sets, terms, laws)
    objective = -(solutions * right.T).sum(axis=1)
    feasible = _ALLOWED & (solutions >= 0).all(axis=1) & np.isfinite(objective)
    best = np.where(feasible, objective, np.inf).argmin(axis=0)
    laws = np.arange(best.size)
    return np.asarray(np.where(feasible[best, laws, None], solutions[best, :, laws] * unit, 0.0))


def fastest_size(parallel_s: float, root_s: float, growth_s: float) -> float | None:
    """Return the size q that minimises growth_s q + parallel_s / q + root_s / sqrt q; None if T only falls or only grows.

    The size is not rounded. In s = sqrt(q), T' = 0 is a s^4 - c s / 2 - b = 0, which has one positive root.
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
    """One law per subset: `parallel_s` (a), `serial_s` (b) and `squares`, the sum of squared relative errors; shape (m,)."""

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
    """Return the fits with the least squares of relative errors and a, b >= 0; `weights` has shape (m, k), zero leaves a size out.

    The best nonnegative a and b are the unconstrained optimum, or one of the two is 0; both cases have a closed form.

    >>> n = np.array([1.0, 2.0, 4.0, 8.0])
    >>> fits = least_squares_amdahl(n, 100.0 / n + 5.0, np.ones((1, 4)))
    >>> fits.parallel_s.round(6).tolist(), fits.serial_s.round(6).tolist()
    ([100.0], [5.0])
    """
    unit, reference = float(n[0]), float(run_time_s[0])
    share, constant = unit / n * (reference / run_time_s), reference / run_time_s
    sums = [weights @ each for each in (share * share, share * constant, constant * constant, share, constant)]
    coefficient_a, coefficient_b = _two_terms(np.stack(sums, axis=-1)).T
    residuals = coefficient_a[:, None] * share + coefficient_b[:, None] * constant - 1.0
    return AmdahlFits(coefficient_a * unit * reference, coefficient_b * reference, (weights * residuals**2).sum(axis=1))


SLOPE_MIN, SLOPE_MAX = -1.1, 0.5
SLOPES_ALIKE = 1e-9


def fit_barnes(n: Floats, run_time_s: Floats, *, degree: int) -> tuple[float, ...]:
    """Return gamma_0, gamma_1 and, with degree 2, gamma_2 of log2 T = gamma_0 + gamma_1 q + gamma_2 q^2, q = log2 n.

    `n` and `run_time_s` have shape (m,); the fit is least squares of log2 T. If it is not unique, because there are too few distinct
    sizes, the smallest coefficients are returned.

    >>> n, t = np.array([4.0, 8.0, 16.0, 32.0]), np.array([262.0, 139.0, 78.5, 63.0])
    >>> [round(float(2 ** log2_run_time(fit_barnes(n, t, degree=degree), 6.0, 2.0, 5.0)), 3) for degree in (1, 2)]
    [34.485, 57.852]
    """
    q = np.log2(n)
    columns = np.column_stack([q**power for power in range(degree + 1)])
    return tuple(np.linalg.lstsq(columns, np.log2(run_time_s), rcond=None)[0].tolist())


def log2_run_time(gamma: tuple[float, ...], q: float, low: float, high: float) -> float:
    """Return log2 of T at q = log2 n; `low` and `high` are the ends of the observed range of q.

    Beyond this range the slope of the law is clipped to [SLOPE_MIN, SLOPE_MAX] before it is integrated.
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
    """Return the antiderivative, at `slope`, of the function that clips a slope."""
    clipped = _clipped(slope)
    return clipped * slope - clipped * clipped / 2.0


# The laws that the combination weighs, fitted to every prefix of a curve at once.
# Gunther's universal scalability law: contention takes a share of all work, coherence grows with every processor
# (N. Gunther, "A general theory of computational scalability based on rational functions", 2008). In run times it is
# T = a/n + b (n - 1)/n + c (n - 1): a is T(1), b/a the contention sigma, c/a the coherence kappa. The same three terms are
# fitted here as a/n + b + c n, with a penalty on c: otherwise one noisy size at the end would make it explode.
# A local law trusts the largest sizes most, because the end of a curve says more about larger sizes than its beginning. It
# is a/n + b n^e, a, b >= 0, with weights that fall by a factor e every `reach` doublings away from the last size.
# Two power laws need only the end of the curve: perfect speed-up from the last size, and the slope of the last two sizes.

GROWTH_PENALTY = 0.004
UNIVERSAL_RIDGE = 1e-10
LAST_SLOPE_MIN, LAST_SLOPE_MAX = -1.3, 1.0  # limits of d ln t / d ln n for the law of the last two sizes
SINGULAR = 1e-14  # a determinant below this share of the product of the diagonal counts as 0


class LocalKind(NamedTuple):
    """A kind of local law a/n + b n^e: `exponent` e, and `reach`, the doublings over which the weight of a size falls by a factor e."""

    name: str
    exponent: float
    reach: float


KINDS: Final = (
    LocalKind("amdahl_short", 0.0, 0.5),
    LocalKind("root_short", 0.5, 0.5),
    LocalKind("linear_short", 1.0, 0.5),
    LocalKind("amdahl_middle", 0.0, 1.5),
)
_EXPONENTS = np.array([kind.exponent for kind in KINDS])[:, None]
_REACHES = np.array([kind.reach for kind in KINDS])[:, None, None]


def fit_universal(n: Floats, run_time_s: Floats) -> Floats:
    """Return a, b, c of a/n + b + c n on every prefix of 2 to k sizes, shape (..., k - 1, 3).

    `n` (ascending, distinct) and `run_time_s` have shape (..., k); callers should scale them to the last size. The result for a
    curve does not depend on the other curves, to the last bit; this holds for all fits to prefixes.

    >>> fit_universal(np.array([0.25, 0.5, 1.0]), np.array([4.0, 2.0, 1.0])).round(6).tolist()
    [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    """
    basis = np.stack([1.0 / n, np.ones_like(n), n], axis=-1) / run_time_s[..., None]
    gram = np.cumsum(basis[..., :, None] * basis[..., None, :], axis=-3)[..., 1:, :, :]
    projection = np.cumsum(basis, axis=-2)[..., 1:, :]
    projection[..., 2] -= GROWTH_PENALTY * basis[..., 1:, 2]
    return nnls(gram, projection, UNIVERSAL_RIDGE)


def fit_universal_each(n: Floats, run_time_s: Floats) -> Floats:
    """Return a, b, c of a/n + b + c n for m sets of k sizes, rows of `n` and `run_time_s` (m, k); shape (m, 3)."""
    basis = np.stack([1.0 / n, np.ones_like(n), n], axis=-1) / run_time_s[..., None]
    projection = basis.sum(axis=-2)
    projection[:, 2] -= GROWTH_PENALTY * basis[:, -1, 2]
    return nnls(np.swapaxes(basis, -1, -2) @ basis, projection, UNIVERSAL_RIDGE)


def fit_local(n: Floats, run_time_s: Floats) -> Floats:
    """Return a and b of all kinds on every prefix of 2 to k sizes, shape (..., kinds, k - 1, 2).

    `n` (ascending, distinct) and `run_time_s` have shape (..., k); callers should scale them to the last size.

    >>> fit_local(np.array([0.5, 1.0]), np.array([2.0, 1.0]))[0, 0].tolist()
    [1.0, 0.0]
    """
    x = np.log2(n)
    distance = np.maximum(x[..., None, 1:, None] - x[..., None, None, :], 0.0)
    weight = np.exp(-distance / _REACHES) * np.tri(n.shape[-1])[1:]
    rate = 1.0 / run_time_s[..., None, :]
    second = rate * n[..., None, :] ** _EXPONENTS
    first = np.broadcast_to(rate / n[..., None, :], second.shape)
    features = np.stack([first * first, first * second, second * second, first, second], axis=-1)
    return _two_terms(weight @ features)


def _two_terms(sums: Floats) -> Floats:
    """Return the two nonnegative coefficients that solve each pair of normal equations; a term with a negative coefficient is dropped."""
    aa, ab, bb, a, b = np.moveaxis(sums, -1, 0)
    determinant = aa * bb - ab * ab
    regular = determinant > SINGULAR * aa * bb
    with np.errstate(all="ignore"):
        free_a, free_b = (a * bb - b * ab) / determinant, (b * aa - a * ab) / determinant
        only_a, only_b = a / aa, b / bb
    no_a = regular & (free_a < 0)
    no_b = ~no_a & (~regular | (free_b < 0))
    return np.stack(
        [np.where(no_a, 0.0, np.where(no_b, only_a, free_a)), np.where(no_a, only_b, np.where(no_b, 0.0, free_b))],
        axis=-1,
    )


def last_slopes(x: Floats, y: Floats) -> Floats:
    """Return the slope of ln t over ln n between the last two sizes of every prefix of 2 to k sizes, shape (..., k - 1).

    `x` is log2 n, `y` ln t, (..., k). Slopes are clipped to [LAST_SLOPE_MIN, LAST_SLOPE_MAX].
    """
    return np.asarray(np.clip(np.diff(y) / (np.diff(x) * np.log(2.0)), LAST_SLOPE_MIN, LAST_SLOPE_MAX))
