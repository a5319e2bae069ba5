"""Related curves with larger sizes: their run times beyond the largest size of this curve.

One curve alone seldom shows where it will saturate or turn up, but other inputs and systems of the application often have
shown that already. Each of these curves gives the factor by which its own run time changed from the largest size of this
curve to the target size. The weight of a curve grows with the agreement of slopes on the common sizes. The weight of all
curves together grows with the quality of the forecasts they would have made for sizes already observed.

The constants below were chosen on development curves; between neighbouring choices the differences lie within noise.
"""

from typing import Final, NamedTuple

import numpy as np

from processors.models.combination.evidence import LN2, Curve, Ints, Related, ScaledCurve, lost
from processors.models.combination.scores import DISTANCES, nearness, place
from processors.models.numerics.arrays import Floats

AGREEMENT: Final = 0.07  # disagreement of slopes at which the weight of a curve falls by a factor e
UNKNOWN_DISAGREEMENT: Final = 0.3  # with fewer common sizes: next to no weight
# two slopes that agreed by chance led a forecast far astray: two common sizes prove nothing
COMMON_MIN: Final = 3
NEARNESS: Final = 0.7  # in ln n: far sizes count less in the comparison of slopes
SAME_SIZE: Final = 1e-9  # in ln n
# candidate weights of the laws against a weight of 1 for a curve that agrees fully, and their prior probabilities
OWN_WEIGHTS: Final = np.array([0.05, 0.15, 0.4, 1.0, 3.0, 20.0])
PRIOR: Final = np.array([0.02, 0.08, 0.2, 0.3, 0.25, 0.15])
FEW_ROWS: Final = 2.0  # forecasts without loss that are added at each distance

ShapeLosses = tuple[tuple[float, ...], ...]
NO_LOSSES: Final[ShapeLosses] = ((0.0,) * OWN_WEIGHTS.size,) * DISTANCES.size


class Shapes(NamedTuple):
    """Related curves at m targets: ln of the factor from the last size, its spread, weight of the curves; (m,).

    `factor` and `spread` are 0 if no curve reaches the target.
    """

    factor: Floats
    spread: Floats
    weight: Floats


class _Placed(NamedTuple):
    """Related curves (j,) at the sizes of one curve: ln t (j, k), nan beyond the range of a related curve; trust (j, 1)."""

    ln_t: Floats
    trust: Floats


def shapes(data: ScaledCurve, curve: Curve, related: Related, n: Floats) -> Shapes:
    """Return the prediction of the related curves at relative sizes (m,) beyond the largest one.

    >>> from processors.models.combination.evidence import RelatedCurve, scaled
    >>> ln_n = tuple(np.log([1.0, 2.0, 4.0, 8.0, 16.0]))
    >>> longer = RelatedCurve("b", "s", (), (), ln_n, tuple(np.log([8.0, 4.0, 2.0, 2.0, 3.0])))
    >>> curve = Curve("a", "s", (1.0, 2.0, 4.0, 8.0), (80.0, 40.0, 20.0, 20.0))
    >>> beyond = shapes(scaled(curve), curve, Related((longer,)), np.array([2.0, 4.0]))
    >>> np.exp(beyond.factor).round(3).tolist(), beyond.weight.round(3).tolist()
    ([1.5, 1.0], [1.0, 0.0])
    """
    placed = _placed(curve, related, np.concatenate([data.x * LN2, np.log(n)]))
    if placed is None:
        return Shapes(*np.zeros((3, n.size)))
    k = data.n.size
    weight = _weights(data, placed._replace(ln_t=placed.ln_t[:, :k]), np.array([k - 1]))
    rise = placed.ln_t[:, k:] - placed.ln_t[:, k - 1 : k]
    return _gathered(rise, np.broadcast_to(weight, rise.shape))


def hindsight(data: ScaledCurve, curve: Curve, related: Related, row: Ints, target: Ints) -> Shapes:
    """Return the predictions that related curves would have made for sizes `target` (m,) from the prefixes `row` (m,).

    The related curves are used in full, as for a new forecast.
    """
    placed = _placed(curve, related, data.x * LN2)
    if placed is None:
        return Shapes(*np.zeros((3, row.size)))
    weight = _weights(data, placed, np.arange(1, data.n.size))
    return _gathered(placed.ln_t[:, target] - placed.ln_t[:, row + 1], weight[:, row])


def _placed(curve: Curve, related: Related, ln_sizes: Floats) -> _Placed | None:
    """Return the related curves at ln of relative sizes (m,), linear in ln n and ln t; None without any."""
    ln_n, ln_t, count = related.points
    trust = related.trust_in_unit(curve.key, curve.system, curve.unit)
    (usable,) = np.nonzero((trust > 0.0) & (count >= COMMON_MIN))
    if not usable.size:
        return None
    x, y, last = ln_n[usable] - np.log(curve.n[-1]), ln_t[usable], count[usable, None] - 1
    within = (ln_sizes >= x[:, :1] - SAME_SIZE) & (ln_sizes <= np.take_along_axis(x, last, axis=1) + SAME_SIZE)
    left = np.clip((x[:, None] <= ln_sizes[:, None]).sum(axis=2) - 1, 0, last - 1)
    x_left, x_right, y_left, y_right = (
        np.take_along_axis(values, left + i, axis=1) for values in (x, y) for i in (0, 1)
    )
    part = np.clip((ln_sizes - x_left) / (x_right - x_left), 0.0, 1.0)
    return _Placed(np.where(within, y_left + part * (y_right - y_left), np.nan), trust[usable, None])


def _weights(data: ScaledCurve, placed: _Placed, last: Ints) -> Floats:
    """Return the weight of each related curve for the prefixes that end at the sizes `last` (r,), shape (j, r)."""
    x, y = data.x * LN2, data.y
    far = x[last][:, None] - x  # (r, k)
    gap = np.where(far > SAME_SIZE, far, np.inf)  # no slope to the last size itself or to larger sizes
    apart = (placed.ln_t - y)[:, None, :] - (placed.ln_t - y)[:, last, None]
    both = ~np.isnan(apart) & (far > SAME_SIZE)
    near = both / (gap + NEARNESS)
    slopes = np.where(both, apart, 0.0) / gap
    mean = (near * slopes**2).sum(axis=2) / np.maximum(near.sum(axis=2), 1e-300)
    disagreement = np.where(both.sum(axis=2) >= COMMON_MIN, np.sqrt(mean), UNKNOWN_DISAGREEMENT)
    return np.asarray(placed.trust * np.exp(-((disagreement / AGREEMENT) ** 2)))


def _gathered(rise: Floats, weight: Floats) -> Shapes:
    """Return weighted medians and spreads of the factors of curves (j, m), nan beyond the range of a curve."""
    reached_by = ~np.isnan(rise)
    rise, weight = np.where(reached_by, rise, 0.0), np.where(reached_by, weight, 0.0)
    total = weight.sum(axis=0)
    order = np.argsort(rise, axis=0, kind="stable")
    cumulative = np.cumsum(np.take_along_axis(weight, order, axis=0), axis=0)
    middle = np.argmax(cumulative >= 0.5 * total, axis=0)
    median = np.take_along_axis(rise, order, axis=0)[middle, np.arange(rise.shape[1])]
    spread = np.sqrt((weight * (rise - median) ** 2).sum(axis=0) / np.maximum(total, 1e-300))
    return Shapes(np.where(total > 0.0, median, 0.0), np.where(total > 0.0, spread, 0.0), total)


def trusted(from_related: Shapes, losses: ShapeLosses, distance: Floats) -> Floats:
    """Return the share of the related curves in forecasts at distances (m,) in doublings, by their record; 0 to 1, (m,).

    The chance of each of OWN_WEIGHTS falls with the losses that it has caused at such distances; the share is the mean over
    these chances.

    >>> ones = Shapes(*np.ones((3, 1)))
    >>> trusted(ones, NO_LOSSES, np.ones(1)).round(2).tolist()
    [0.45]
    >>> doubted = ((4.0, 3.0, 2.0, 1.0, 0.5, 0.0),) * 4
    >>> trusted(ones, doubted, np.ones(1)).round(2).tolist()
    [0.16]
    """
    logit = np.log(PRIOR) - nearness(distance) @ np.array(losses)
    mass = np.exp(logit - logit.max(axis=1, keepdims=True))
    chance = mass / mass.sum(axis=1, keepdims=True)
    return np.asarray((chance * _shares(from_related)).sum(axis=1))


def _shares(from_related: Shapes) -> Floats:
    """Return the share of the related curves for each of OWN_WEIGHTS, (m, weights)."""
    return np.asarray(from_related.weight[:, None] / (from_related.weight[:, None] + OWN_WEIGHTS))


def blended(ln_t: Floats, from_related: Shapes, share: Floats) -> Floats:
    """Return forecasts (m,) blended with related curves by their share."""
    return np.asarray(ln_t + share * (from_related.factor - ln_t))


def mixed_spread(spread: Floats, ln_t: Floats, from_related: Shapes, share: Floats) -> Floats:
    """Return the standard deviation of ln t over laws and related curves, (m,); `spread` and `ln_t` are those of the laws."""
    apart = share * (1.0 - share) * (from_related.factor - ln_t) ** 2
    return np.asarray(np.sqrt((1.0 - share) * spread**2 + share * from_related.spread**2 + apart))


def losses(from_related: Shapes, ln_t: Floats, observed: Floats, distance: Floats, weight: Floats) -> Floats:
    """Return the loss of each of OWN_WEIGHTS in the forecasts of one curve, by distance, (distances, weights).

    Forecasts and observations are ln of the factor from the last size, (m,). At each distance the losses of a curve are
    averaged over its forecasts, and shrunk if these are few.

    >>> known = Shapes(np.zeros(1), np.zeros(1), np.ones(1))
    >>> losses(known, np.array([-1.0]), np.zeros(1), np.ones(1), np.ones(1))[1].round(2).tolist()
    [0.26, 0.72, 1.33, 1.33, 1.33, 1.33]
    """
    share = _shares(from_related)
    loss = lost((ln_t - observed)[:, None] + share * (from_related.factor - ln_t)[:, None], distance)
    felt = weight * (from_related.weight > 0.0)
    row = place(distance)
    total, count = np.zeros((DISTANCES.size, OWN_WEIGHTS.size)), np.zeros(DISTANCES.size)
    np.add.at(total, row, felt[:, None] * loss)
    np.add.at(count, row, felt)
    return np.asarray(total / (count + FEW_ROWS)[:, None])
