"""The best Downey curve for each given average parallelism A: variable projection, exact and without a loop.

With A fixed and with the piece of 1/S on which each size lies, T(n) = T1 g0(n) + T1 w g1(n) is linear in (T1, T1 w).
Relative least squares is then a 2x2 problem per *segment*, a range of w in which no size changes its piece: one segment
for sigma <= 1 (there the pieces depend on A alone) and k + 1 for sigma >= 1 (the p smallest sizes are not saturated).
A segment's problem is convex, so its optimum is the free one clipped to the segment. All sums over sizes come from
prefix sums, so A costs O(k) and all A are done at once.
Source of the method: Golub and Pereyra, variable projection (1973).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from processors.models.downey import Floats
from processors.models.observations import Observations, observations

_TINY = 1e-200


@dataclass(frozen=True, slots=True)
class Limits:
    """What a fit may choose: curvature w between two bounds and at most serial_share_max * A, T1 between two bounds.

    >>> Limits(serial_share_max=0.02).curvature_max(np.array([10.0, 100.0])).tolist()
    [0.2, 1.0]
    """

    w_bounds: tuple[float, float] = (0.0, 1.0)
    serial_share_max: float | None = None
    t1_bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        """Refuse bounds that no curve can meet."""
        low, high = self.w_bounds
        if not 0 <= low <= high <= 1:
            raise ValueError("The bounds of w must be ordered and lie between 0 and 1.")
        if self.serial_share_max is not None and not self.serial_share_max >= 0:
            raise ValueError("The largest serial share must be at least 0.")
        if self.t1_bounds is not None and not 0 < self.t1_bounds[0] <= self.t1_bounds[1] < np.inf:
            raise ValueError("The bounds of T1 must be ordered, positive and finite.")

    def curvature_max(self, parallelism: Floats) -> Floats:
        """Return the largest curvature at each A, shape (m,); the lower bound gives way where both cannot hold."""
        if self.serial_share_max is None:
            return np.full_like(parallelism, self.w_bounds[1])
        return np.minimum(self.w_bounds[1], self.serial_share_max * parallelism)


class Profile(NamedTuple):
    """The best curve at each A, fields of shape (m,): A, w, T1 in seconds, objective sum of weight (T/t - 1)^2."""

    parallelism: Floats
    curvature: Floats
    t1_s: Floats
    objective: Floats


class _Forms(NamedTuple):
    """Sums of a = a0 + f a1 and b = b00 + 2 f b01 + f^2 b11 with objective = total - 2 T1 a + T1^2 b, per segment.

    The serial share f = w/A takes the place of w: the sums of the linear section then do not depend on A.
    """

    a0: Floats
    a1: Floats
    b00: Floats
    b01: Floats
    b11: Floats


def profile(
    n: ArrayLike,
    run_time_s: ArrayLike,
    parallelism: ArrayLike,
    weight: ArrayLike | None = None,
    limits: Limits | None = None,
) -> Profile:
    """Return the best weighted fit of relative errors at each A of `parallelism`, shape (m,).

    The objective is exact within about 1e-15 of the sum of weights (it is a difference of sums).
    Raises ValueError on invalid observations or an A below 1.

    >>> best = profile([1, 4, 8, 16], [100.0, 26.5, 14.3, 8.3], [8.0, 16.0])
    >>> bool(best.objective[1] < best.objective[0])
    True
    """
    values = np.asarray(parallelism, dtype=np.float64)
    if values.ndim != 1 or not (np.isfinite(values).all() and (values >= 1).all()):
        raise ValueError("The average parallelisms must be a list of finite numbers of at least 1.")
    seen = observations(n, run_time_s, weight)
    best = ProfileSolver(seen, limits or Limits()).solve(values)
    with np.errstate(over="ignore"):
        t1_s = np.clip(best.t1_s * seen.scale_s, np.finfo(np.float64).tiny, np.finfo(np.float64).max)
    return best._replace(t1_s=t1_s)


class ProfileSolver:
    """Profiles of one set of observations; T1 is in units of their scale.

    `sums` are prefix sums over sizes, shape (8, k + 1), of weight * (u r, (1-u) r, r, u^2 r^2, u (1-u) r^2,
    (1-u)^2 r^2, r^2, u r^2) with u = 1/n and the rate r.

    >>> seen = observations([1, 4], [100.0, 25.0])
    >>> float(ProfileSolver(seen, Limits()).solve(np.array([4.0])).curvature[0])
    0.0
    """

    def __init__(self, seen: Observations, limits: Limits) -> None:
        u = 1 / seen.n
        v, first = 1 - u, seen.weight * seen.rate
        second = first * seen.rate
        self._n = seen.n
        self._total = float(seen.weight.sum())
        self._limits = limits
        self._t1_bounds = None if limits.t1_bounds is None else [bound / seen.scale_s for bound in limits.t1_bounds]
        self.sums = np.zeros((8, seen.n.size + 1))
        terms = [first * u, first * v, first, second * u * u, second * u * v, second * v * v, second, second * u]
        np.cumsum(terms, axis=1, out=self.sums[:, 1:])
        self._inverse_gap = 1 / np.maximum(seen.n - 1, _TINY)
        self._middle = self.sums[[0, 2, 3, 6, 7]]
        self._columns = self.sums[[0, 1, 3, 4, 5, 2, 6]]
        self._columns[5:] = self.sums[[2, 6], -1:] - self._columns[5:]

    def solve(self, parallelism: Floats) -> Profile:
        """Return the best curve at each A, shape (m,)."""
        q = 1 / parallelism[:, None]
        low, high = self._segments(q)
        forms = self._forms(parallelism, q)
        share = _best_share(forms, low, high)
        if self._t1_bounds is not None:
            held = [(forms.a1 - t1 * forms.b01) / np.maximum(t1 * forms.b11, _TINY) for t1 in self._t1_bounds]
            share = np.stack([share, *(_between(value, low, high) for value in held)], axis=1)
            forms = _Forms(*(form[:, None] for form in forms))
            low, high = low[:, None], high[:, None]
        a, b = forms.a0 + share * forms.a1, forms.b00 + share * (2 * forms.b01 + share * forms.b11)
        t1 = a / b
        if self._t1_bounds is not None:
            t1 = np.clip(t1, self._t1_bounds[0], self._t1_bounds[1])
        gain = np.where(low <= high, t1 * (2 * a - t1 * b), -np.inf).reshape(parallelism.size, -1)
        best = gain.argmax(axis=1) + np.arange(0, gain.size, gain.shape[1])
        objective = np.maximum(self._total - gain.ravel()[best], 0)
        return Profile(parallelism, share.ravel()[best] * parallelism, t1.ravel()[best], objective)

    def _segments(self, q: Floats) -> tuple[Floats, Floats]:
        """Return the ends of f, shape (m, k + 2): p = 0..k sizes not saturated with sigma >= 1, then sigma <= 1.

        A size saturates when w <= (n - A)/(n - 1), that is f <= q - (1 - q)/(n - 1) with q = 1/A.
        """
        w_low, w_high = self._limits.w_bounds
        share_max = self._limits.serial_share_max
        low, high = np.empty((2, q.size, self._n.size + 2))
        bottom, top = w_low * q, w_high * q
        if share_max is not None:
            bottom, top = np.minimum(bottom, share_max), np.minimum(top, share_max)
        saturation = q - (1 - q) * self._inverse_gap
        half = 0.5 * q
        middle = np.maximum(half, bottom) if w_low > 0 else half
        np.maximum(saturation, middle, out=low[:, 1:-1])
        np.minimum(saturation, top, out=high[:, :-2])
        low[:, :1], low[:, -1:], high[:, -2:-1] = middle, bottom, top
        np.minimum(top, half, out=high[:, -1:])
        return low, high

    def _forms(self, parallelism: Floats, q: Floats) -> _Forms:
        """Return the sums of each segment, shape (m, k + 2)."""
        linear = np.searchsorted(self._n, parallelism, side="right")
        picked = np.empty((7, parallelism.size, self._n.size + 2))
        picked[:, :, :-1] = self._columns[:, None, :]
        picked[:, :, -1] = self._columns[:, linear]
        picked[0] += q * picked[5]
        picked[2] += q * q * picked[6]
        forms = _Forms(*picked[:5])
        self._add_between(forms, parallelism, linear)
        return forms

    def _add_between(self, forms: _Forms, parallelism: Floats, linear: NDArray[np.intp]) -> None:
        """Add what sizes between A and 2A - 1 contribute with sigma <= 1: T = T1 (1/A + f ((2A - 1) u - 1))."""
        span = 2 * parallelism - 1
        full = np.searchsorted(self._n, span, side="right")
        u1, one1, uu2, one2, u2 = self._middle[:, full] - self._middle[:, linear]
        forms.a1[:, -1] += span * u1 - one1
        forms.b01[:, -1] += (span * u2 - one2) / parallelism
        forms.b11[:, -1] += span * (span * uu2 - 2 * u2) + one2


def _best_share(forms: _Forms, low: Floats, high: Floats) -> Floats:
    """Return the optimum of each convex problem, drawn into its segment.

    A T1 below 0 (or none) means that the optimum lies beyond infinite f: then the sign of T1 f names the nearer end.
    """
    t1_f = forms.a1 * forms.b00 - forms.a0 * forms.b01
    t1 = forms.a0 * forms.b11 - forms.a1 * forms.b01
    return _between(t1_f / np.maximum(t1, _TINY), low, high)


def _between(share: Floats, low: Floats, high: Floats) -> Floats:
    return np.maximum(np.minimum(share, high), low)
