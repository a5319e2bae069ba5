"""Laws that trust the largest sizes most: the end of a curve says more about what lies beyond it than its beginning.

A local law is a/n + b n^e, a, b >= 0, whose weights fall by a factor e every `reach` doublings away from the last size.
Two power laws need the end of the curve only: perfect speed-up from the last size, and the slope of the last two.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from processors.models.laws import Ability

Floats = NDArray[np.float64]

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
ABILITIES: Final = (
    Ability("ideal", sizes_min=1, extrapolates=True),
    Ability("last_two", sizes_min=2, extrapolates=True),
    *(Ability(kind.name, sizes_min=2, extrapolates=True) for kind in KINDS),
)
_EXPONENTS = np.array([kind.exponent for kind in KINDS])[:, None]
_REACHES = np.array([kind.reach for kind in KINDS])[:, None, None]


class LocalLaw(NamedTuple):
    """T(n) = parallel_s / n + other_s n^exponent in seconds.

    >>> LocalLaw(100.0, 5.0, 0.0).predict(np.array([4.0])).tolist()
    [30.0]
    """

    parallel_s: float
    other_s: float
    exponent: float

    def predict(self, n: Floats) -> Floats:
        """Return T in seconds at sizes of any shape."""
        return np.asarray(self.parallel_s / n + self.other_s * n**self.exponent)


def fit_local(n: Floats, run_time_s: Floats, kind: LocalKind) -> LocalLaw:
    """Return the law of one kind; `n` (rising, distinct) and `run_time_s` have shape (k,), k >= 2.

    >>> n = np.array([4.0, 8.0, 16.0, 32.0])
    >>> law = fit_local(n, np.array([262.0, 139.0, 78.5, 63.0]), KINDS[0])
    >>> round(law.parallel_s, 3), round(law.other_s, 3)
    (606.93, 43.831)
    """
    fits = fit_prefixes(n / n[-1], run_time_s / run_time_s[-1])[KINDS.index(kind), -1]
    return LocalLaw(
        float(fits[0] * n[-1] * run_time_s[-1]),
        float(fits[1] * run_time_s[-1] / n[-1] ** kind.exponent),
        kind.exponent,
    )


def fit_prefixes(n: Floats, run_time_s: Floats) -> Floats:
    """Return a and b of all kinds on every prefix of 2 to k sizes, shape (kinds, k - 1, 2).

    `n` (rising, distinct) and `run_time_s` have shape (k,) and are best given relative to the last size.

    >>> fit_prefixes(np.array([0.5, 1.0]), np.array([2.0, 1.0]))[0, 0].tolist()
    [1.0, 0.0]
    """
    x = np.log2(n)
    distance = np.maximum(x[1:, None] - x, 0.0)
    weight = np.exp(-distance / _REACHES) * np.tri(n.size)[1:]
    rate = 1.0 / run_time_s
    first, second = np.broadcast_to(rate / n, (len(KINDS), n.size)), rate * n**_EXPONENTS
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
    """Return the slope of ln t over ln n between the last two sizes of every prefix of 2 to k sizes, shape (k - 1,).

    `x` is log2 n, `y` ln t. Slopes are clipped to [SLOPE_MIN, SLOPE_MAX].

    >>> last_slopes(np.array([0.0, 1.0]), np.log([4.0, 2.0])).round(6).tolist()
    [-1.0]
    """
    return np.asarray(np.clip(np.diff(y) / (np.diff(x) * np.log(2.0)), SLOPE_MIN, SLOPE_MAX))
