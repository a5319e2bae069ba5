"""Curves of the same application that are known further out: what they did beyond the sizes of this one.

One curve alone seldom shows where it will saturate or turn up; other inputs and systems of the application often have shown it
already. Each of them says by what factor its own run time changed from the largest size here to the size that is asked.
It counts the more the better its slopes agree with this curve on the sizes both have, and all of them the more the better
they would have foretold what is known already.

The constants below were chosen on development curves; between neighbouring choices the differences lie within noise.
"""

from typing import Final, NamedTuple

import numpy as np

from processors.models.combination.evidence import LN2, Curve, Ints, Related, ScaledCurve, lost
from processors.models.combination.scores import DISTANCES, nearness, place
from processors.models.numerics.arrays import Floats

AGREEMENT: Final = 0.07  # disagreement of slopes at which the weight of a curve falls by a factor e
UNKNOWN_DISAGREEMENT: Final = 0.3  # with fewer sizes in common: as good as no weight
# two slopes that agree by chance carried a forecast far off: with two sizes in common nothing is known
COMMON_MIN: Final = 3
NEARNESS: Final = 0.7  # in ln n: what far sizes count less when slopes are compared
SAME_SIZE: Final = 1e-9  # in ln n
# what a curve's own laws may weigh beside a weight of 1 for another curve that agrees wholly, and how likely each is at first
OWN_WEIGHTS: Final = np.array([0.05, 0.15, 0.4, 1.0, 3.0, 20.0])
PRIOR: Final = np.array([0.02, 0.08, 0.2, 0.3, 0.25, 0.15])
FEW_ROWS: Final = 2.0  # forecasts that cost nothing, added to those of each distance

ShapeLosses = tuple[tuple[float, ...], ...]
NO_LOSSES: Final[ShapeLosses] = ((0.0,) * OWN_WEIGHTS.size,) * DISTANCES.size


class Shapes(NamedTuple):
    """What related curves say at m targets: ln of the factor from the last size, its spread, their weight; (m,).

    `factor` and `spread` are 0 where no curve reaches.
    """

    factor: Floats
    spread: Floats
    weight: Floats


class _Placed(NamedTuple):
    """Related curves (j,) on the axis of one curve: ln t at its sizes (j, k), nan where they do not reach; trust (j, 1)."""

    ln_t: Floats
    trust: Floats


def shapes(data: ScaledCurve, curve: Curve, related: Related, n: Floats) -> Shapes:
    """Return what the related curves say at relative sizes (m,) beyond the largest one.

    >>> from processors.models.combination.evidence import RelatedCurve, scaled
    >>> ln_n = tuple(np.log([1.0, 2.0, 4.0, 8.0, 16.0]))
    >>> other = RelatedCurve("b", "s", (), (), ln_n, tuple(np.log([8.0, 4.0, 2.0, 2.0, 3.0])))
    >>> own = Curve("a", "s", (1.0, 2.0, 4.0, 8.0), (80.0, 40.0, 20.0, 20.0))
    >>> found = shapes(scaled(own), own, Related((other,)), np.array([2.0, 4.0]))
    >>> np.exp(found.factor).round(3).tolist(), found.weight.round(3).tolist()
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
    """Return what the related curves would have said of sizes `target` (m,) from the prefixes `row` (m,).

    They are known whole: that is how they will be asked.

    >>> from processors.models.combination.evidence import RelatedCurve, scaled
    >>> ln_n = tuple(np.log([1.0, 2.0, 4.0, 8.0]))
    >>> other = RelatedCurve("b", "s", (), (), ln_n, tuple(np.log([8.0, 4.0, 2.0, 2.0])))
    >>> own = Curve("a", "s", (1.0, 2.0, 4.0, 8.0), (80.0, 40.0, 20.0, 20.0))
    >>> found = hindsight(scaled(own), own, Related((other,)), np.array([1]), np.array([3]))
    >>> np.exp(found.factor).round(3).tolist()
    [1.0]
    """
    placed = _placed(curve, related, data.x * LN2)
    if placed is None:
        return Shapes(*np.zeros((3, row.size)))
    weight = _weights(data, placed, np.arange(1, data.n.size))
    return _gathered(placed.ln_t[:, target] - placed.ln_t[:, row + 1], weight[:, row])


def _placed(curve: Curve, related: Related, at: Floats) -> _Placed | None:
    """Return the related curves at ln of relative sizes (m,), by straight lines in ln n and ln t; None without any."""
    ln_n, ln_t, count = related.points
    trust = related.trust_in_unit(curve.key, curve.system, curve.unit)
    (others,) = np.nonzero((trust > 0.0) & (count >= COMMON_MIN))
    if not others.size:
        return None
    x, y, last = ln_n[others] - np.log(curve.n[-1]), ln_t[others], count[others, None] - 1
    within = (at >= x[:, :1] - SAME_SIZE) & (at <= np.take_along_axis(x, last, axis=1) + SAME_SIZE)
    left = np.clip((x[:, None] <= at[:, None]).sum(axis=2) - 1, 0, last - 1)
    x_left, x_right, y_left, y_right = (np.take_along_axis(of, left + i, axis=1) for of in (x, y) for i in (0, 1))
    part = np.clip((at - x_left) / (x_right - x_left), 0.0, 1.0)
    return _Placed(np.where(within, y_left + part * (y_right - y_left), np.nan), trust[others, None])


def _weights(data: ScaledCurve, placed: _Placed, last: Ints) -> Floats:
    """Return the weight of each related curve for the prefixes that end at the sizes `last` (r,), shape (j, r)."""
    x, y = data.x * LN2, data.y
    far = x[last][:, None] - x  # (r, k)
    gap = np.where(far > SAME_SIZE, far, np.inf)  # no slope to the last size itself, nor to larger ones
    apart = (placed.ln_t - y)[:, None, :] - (placed.ln_t - y)[:, last, None]
    both = ~np.isnan(apart) & (far > SAME_SIZE)
    near = both / (gap + NEARNESS)
    slopes = np.where(both, apart, 0.0) / gap
    mean = (near * slopes**2).sum(axis=2) / np.maximum(near.sum(axis=2), 1e-300)
    disagreement = np.where(both.sum(axis=2) >= COMMON_MIN, np.sqrt(mean), UNKNOWN_DISAGREEMENT)
    return np.asarray(placed.trust * np.exp(-((disagreement / AGREEMENT) ** 2)))


def _gathered(rise: Floats, weight: Floats) -> Shapes:
    """Return weighted medians and spreads of what curves say (j, m), nan where they do not reach."""
    known = ~np.isnan(rise)
    rise, weight = np.where(known, rise, 0.0), np.where(known, weight, 0.0)
    total = weight.sum(axis=0)
    order = np.argsort(rise, axis=0, kind="stable")
    reached = np.cumsum(np.take_along_axis(weight, order, axis=0), axis=0)
    place = np.argmax(reached >= 0.5 * total, axis=0)
    median = np.take_along_axis(rise, order, axis=0)[place, np.arange(rise.shape[1])]
    spread = np.sqrt((weight * (rise - median) ** 2).sum(axis=0) / np.maximum(total, 1e-300))
    return Shapes(np.where(total > 0.0, median, 0.0), np.where(total > 0.0, spread, 0.0), total)


def trusted(known: Shapes, losses: ShapeLosses, distance: Floats) -> Floats:
    """Return the share of the shapes in forecasts at distances (m,) in doublings, by their record; 0 to 1, shape (m,).

    Each of OWN_WEIGHTS has a chance that falls with what it has cost so far at such distances, and answers by its chance.

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
    return np.asarray((chance * _shares(known)).sum(axis=1))


def _shares(known: Shapes) -> Floats:
    """Return the share of the shapes by each of OWN_WEIGHTS, (m, weights)."""
    return np.asarray(known.weight[:, None] / (known.weight[:, None] + OWN_WEIGHTS))


def blended(ln_t: Floats, known: Shapes, share: Floats) -> Floats:
    """Return forecasts (m,) with what related curves say.

    >>> blended(np.array([-1.0]), Shapes(*np.ones((3, 1))), np.array([0.5])).tolist()
    [0.0]
    """
    return np.asarray(ln_t + share * (known.factor - ln_t))


def mixed_spread(spread: Floats, ln_t: Floats, known: Shapes, share: Floats) -> Floats:
    """Return the standard deviation of ln t over laws and related curves, (m,); `spread` and `ln_t` are those of the laws.

    >>> nothing, one = np.zeros(1), np.ones(1)
    >>> mixed_spread(nothing, nothing, Shapes(one, nothing, one), 0.5 * one).tolist()
    [0.5]
    """
    apart = share * (1.0 - share) * (known.factor - ln_t) ** 2
    return np.asarray(np.sqrt((1.0 - share) * spread**2 + share * known.spread**2 + apart))


def losses(known: Shapes, ln_t: Floats, observed: Floats, distance: Floats, weight: Floats) -> Floats:
    """Return what each of OWN_WEIGHTS has cost in the forecasts of one curve, by distance, (distances, weights).

    Forecasts and what was observed are ln of the factor from the last size, (m,). A curve has one voice at each distance,
    and less with few forecasts.

    >>> known = Shapes(np.zeros(1), np.zeros(1), np.ones(1))
    >>> losses(known, np.array([-1.0]), np.zeros(1), np.ones(1), np.ones(1))[1].round(2).tolist()
    [0.26, 0.72, 1.33, 1.33, 1.33, 1.33]
    """
    share = _shares(known)
    loss = lost((ln_t - observed)[:, None] + share * (known.factor - ln_t)[:, None], distance)
    felt = weight * (known.weight > 0.0)
    cell = place(distance)
    total, count = np.zeros((DISTANCES.size, OWN_WEIGHTS.size)), np.zeros(DISTANCES.size)
    np.add.at(total, cell, felt[:, None] * loss)
    np.add.at(count, cell, felt)
    return np.asarray(total / (count + FEW_ROWS)[:, None])
