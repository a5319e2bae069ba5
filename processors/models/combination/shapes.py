"""Curves of the same application that are known further out: what they did beyond the sizes of this one.

One curve alone seldom shows where it will saturate or turn up; other inputs and systems of the application often have shown it
already. Each of them tells by what factor its own run time changed from the largest size here to the size that is asked.
It counts the more the better its slopes agree with this curve on the sizes both have, and all of them the more the better
they would have told what is known already.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from processors.models.combination.evidence import LN2, OTHER_SYSTEM, Curve, Floats, Ints, RelatedCurve, Scaled

AGREEMENT: Final = 0.07  # disagreement of slopes at which the weight of a curve falls by a factor e
UNKNOWN_DISAGREEMENT: Final = 0.3  # with fewer than two sizes in common
COMMON_MIN: Final = 3
NEARNESS: Final = 0.7  # in ln n: what far sizes count less when slopes are compared
SAME_SIZE: Final = 1e-9  # in ln n
# what a curve's own laws may weigh beside a weight of 1 for another curve that agrees wholly, and how likely each is at first
OWN_WEIGHTS: Final = np.array([0.05, 0.15, 0.4, 1.0, 3.0, 20.0])
PRIOR: Final = np.array([0.02, 0.08, 0.2, 0.3, 0.25, 0.15])
LOSS_BASE, LOSS_PER_DOUBLING, LOSS_MAX = 0.01, 0.05, 4.0
DISTANCES: Final = np.array([0.5, 1.0, 2.0, 3.5])
DISTANCE_EDGES: Final = np.array([0.75, 1.5, 2.75])
REACH: Final = 1.5
FEW_ROWS: Final = 2.0

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


def shapes(data: Scaled, curve: Curve, related_curves: Sequence[RelatedCurve], n: Floats) -> Shapes:
    """Return what the related curves say at relative sizes (m,) beyond the largest one."""
    at = np.concatenate([data.x * LN2, np.log(n)])
    placed = _placed(curve, related_curves, at)
    if placed is None:
        return Shapes(*np.zeros((3, n.size)))
    k = data.n.size
    weight = _weights(data, placed._replace(ln_t=placed.ln_t[:, :k]), np.array([k - 1]))
    rise = placed.ln_t[:, k:] - placed.ln_t[:, k - 1 : k]
    return _gathered(rise, np.broadcast_to(weight, rise.shape))


def hindsight(data: Scaled, curve: Curve, related_curves: Sequence[RelatedCurve], row: Ints, target: Ints) -> Shapes:
    """Return what the related curves would have said of sizes `target` (m,) from the prefixes `row` (m,).

    They are known whole: that is how they will be asked.
    """
    placed = _placed(curve, related_curves, data.x * LN2)
    if placed is None:
        return Shapes(*np.zeros((3, row.size)))
    weight = _weights(data, placed, np.arange(1, data.n.size))
    return _gathered(placed.ln_t[:, target] - placed.ln_t[:, row + 1], weight[:, row])


def _placed(curve: Curve, related_curves: Sequence[RelatedCurve], at: Floats) -> _Placed | None:
    last, rows, trust = np.log(curve.n[-1]), [], []
    for related in related_curves:
        if related.key == curve.key or related.unit != curve.unit or len(related.ln_n) < COMMON_MIN:
            continue
        x = np.array(related.ln_n) - last
        within = (at >= x[0] - SAME_SIZE) & (at <= x[-1] + SAME_SIZE)
        rows.append(np.where(within, np.interp(at, x, np.array(related.ln_t)), np.nan))
        trust.append(1.0 if related.system == curve.system else OTHER_SYSTEM)
    return _Placed(np.array(rows), np.array(trust)[:, None]) if rows else None


def _weights(data: Scaled, placed: _Placed, last: Ints) -> Floats:
    """Return the weight of each related curve for the prefixes that end at the sizes `last` (r,), shape (j, r)."""
    x, y = data.x * LN2, data.y
    far = x[last][:, None] - x  # (r, k)
    earlier = far > SAME_SIZE
    with np.errstate(invalid="ignore", divide="ignore"):
        own = (y - y[last][:, None]) / far
        theirs = (placed.ln_t[:, None, :] - placed.ln_t[:, last][:, :, None]) / far
    apart = np.where(earlier, own - theirs, np.nan)
    near = np.where(np.isnan(apart), 0.0, 1.0 / (np.abs(far) + NEARNESS))
    mean = (near * np.nan_to_num(apart) ** 2).sum(axis=2) / np.maximum(near.sum(axis=2), 1e-300)
    common = (near > 0.0).sum(axis=2) >= COMMON_MIN
    disagreement = np.where(common, np.sqrt(mean), UNKNOWN_DISAGREEMENT)
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
    told = total > 0.0
    return Shapes(np.where(told, median, 0.0), np.where(told, spread, 0.0), total)


def trusted(known: Shapes, losses: ShapeLosses, distance: Floats) -> Floats:
    """Return the share of the shapes in forecasts at distances (m,) in doublings, by their record; 0 to 1, shape (m,)."""
    near = np.exp(-np.abs(np.log2(np.maximum(distance, 1e-3))[:, None] - np.log2(DISTANCES)) / REACH)
    logit = np.log(PRIOR) - near @ np.array(losses)
    mass = np.exp(logit - logit.max(axis=1, keepdims=True))
    chance = mass / mass.sum(axis=1, keepdims=True)
    return np.asarray((chance * _shares(known)).sum(axis=1))


def _shares(known: Shapes) -> Floats:
    """Return the share of the shapes by each of OWN_WEIGHTS, (m, weights)."""
    return np.asarray(known.weight[:, None] / (known.weight[:, None] + OWN_WEIGHTS))


def blended(ln_t: Floats, known: Shapes, share: Floats) -> Floats:
    """Return forecasts (m,) with what related curves say."""
    return np.asarray(ln_t + share * (known.factor - ln_t))


def mixed_spread(spread: Floats, ln_t: Floats, known: Shapes, share: Floats) -> Floats:
    """Return the standard deviation of ln t over laws and related curves, (m,); `spread` and `ln_t` are those of the laws."""
    apart = share * (1.0 - share) * (known.factor - ln_t) ** 2
    return np.asarray(np.sqrt((1.0 - share) * spread**2 + share * known.spread**2 + apart))


def losses(known: Shapes, ln_t: Floats, observed: Floats, distance: Floats, weight: Floats) -> Floats:
    """Return what each of OWN_WEIGHTS has cost in the forecasts of one curve, by distance, (distances, weights).

    Forecasts and what was observed are ln of the factor from the last size, (m,). A curve has one voice at each distance,
    and less with few forecasts.
    """
    share = _shares(known)
    error = np.abs(ln_t[:, None] + share * (known.factor - ln_t)[:, None] - observed[:, None])
    loss = np.minimum(error / (LOSS_BASE + LOSS_PER_DOUBLING * distance)[:, None], LOSS_MAX)
    felt = weight * (known.weight > 0.0)
    cell = np.searchsorted(DISTANCE_EDGES, distance)
    total, count = np.zeros((DISTANCES.size, OWN_WEIGHTS.size)), np.zeros(DISTANCES.size)
    np.add.at(total, cell, felt[:, None] * loss)
    np.add.at(count, cell, felt)
    return np.asarray(total / (count + FEW_ROWS)[:, None])
