"""The laws that the combination weighs, fitted to every prefix of a curve at once.

Gunther's universal scalability law: contention takes a share of all work, coherence grows with every processor
(N. Gunther, "A general theory of computational scalability based on rational functions", 2008). In run times it is
T = a/n + b (n - 1)/n + c (n - 1): a is T(1), b/a the contention sigma, c/a the coherence kappa. The same three terms are
fitted here as a/n + b + c n, with c held back: one noisy size at the end would otherwise make it explode.

Local laws trust the largest sizes most: the end of a curve says more about what lies beyond it than its beginning.
A local law is a/n + b n^e, a, b >= 0, whose weights fall by a factor e every `reach` doublings away from the last size.
Two power laws need the end of the curve only: perfect speed-up from the last size, and the slope of the last two.
"""

from typing import Final, NamedTuple

import numpy as np

from processors.models.laws.family import nnls
from processors.models.numerics.arrays import Floats

GROWTH_PENALTY = 0.004
UNIVERSAL_RIDGE = 1e-10
SLOPE_MIN, SLOPE_MAX = -1.3, 1.0  # of ln t over ln n, for the law of the last two sizes
SINGULAR = 1e-14  # of the product of the diagonal


class LocalKind(NamedTuple):
    """A kind of local law: exponent e of its second term and reach of its weights in doublings.

    >>> LocalKind("amdahl_short", 0.0, 0.5).reach
    0.5
    """

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

    `n` (rising, distinct) and `run_time_s` have shape (..., k) and are best given relative to the last size. Of many curves
    at once each gets what it would alone, to the last bit; that holds for all that is fitted here.

    >>> fit_universal(np.array([0.25, 0.5, 1.0]), np.array([4.0, 2.0, 1.0])).round(6).tolist()
    [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    """
    basis = np.stack([1.0 / n, np.ones_like(n), n], axis=-1) / run_time_s[..., None]
    gram = np.cumsum(basis[..., :, None] * basis[..., None, :], axis=-3)[..., 1:, :, :]
    projection = np.cumsum(basis, axis=-2)[..., 1:, :]
    projection[..., 2] -= GROWTH_PENALTY * basis[..., 1:, 2]
    return nnls(gram, projection, UNIVERSAL_RIDGE).coefficients


def fit_universal_each(n: Floats, run_time_s: Floats) -> Floats:
    """Return a, b, c of a/n + b + c n for each of m sets of k sizes, rows of `n` and `run_time_s` (m, k); shape (m, 3).

    >>> fit_universal_each(np.array([[0.25, 0.5, 1.0]]), np.array([[4.0, 2.0, 1.0]])).round(6).tolist()
    [[1.0, 0.0, 0.0]]
    """
    basis = np.stack([1.0 / n, np.ones_like(n), n], axis=-1) / run_time_s[..., None]
    projection = basis.sum(axis=-2)
    projection[:, 2] -= GROWTH_PENALTY * basis[:, -1, 2]
    return nnls(np.swapaxes(basis, -1, -2) @ basis, projection, UNIVERSAL_RIDGE).coefficients


def fit_local(n: Floats, run_time_s: Floats) -> Floats:
    """Return a and b of all kinds on every prefix of 2 to k sizes, shape (..., kinds, k - 1, 2).

    `n` (rising, distinct) and `run_time_s` have shape (..., k) and are best given relative to the last size.

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
    """Return the nonnegative pair of each normal equation; the one negative term is dropped."""
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

    `x` is log2 n, `y` ln t, (..., k). Slopes are clipped to [SLOPE_MIN, SLOPE_MAX].

    >>> last_slopes(np.array([0.0, 1.0]), np.log([4.0, 2.0])).round(6).tolist()
    [-1.0]
    """
    return np.asarray(np.clip(np.diff(y) / (np.diff(x) * np.log(2.0)), SLOPE_MIN, SLOPE_MAX))
