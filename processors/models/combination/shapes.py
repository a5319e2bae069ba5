"""Forecasts beyond the largest size of a curve, from the run times of related curves with larger sizes.

One curve alone seldom shows at which size it will saturate or turn up, but other inputs and systems of the application have often
been run at that size. Each related curve gives the factor by which its own run time changed from the largest size of this curve to
the target size. The weight of a curve grows with the agreement of slopes on the common sizes. The weight of all curves together
grows with the quality of the forecasts that they would have made for sizes already observed.

The forecast is a weighted median over the related curves and the laws of the curve itself, so that a single unusual curve cannot
decide the forecast. Beyond the last size that several curves reached, the forecast follows the slope of a single curve by half,
and the laws by half.

The constants below were chosen on development curves; between neighbouring choices the differences lie within noise.
"""

from typing import Final, NamedTuple

import numpy as np

from processors.models.combination.evidence import LN2, Curve, Related, ScaledCurve, lost
from processors.models.combination.scores import DISTANCES, nearness, place
from processors.models.numerics.arrays import Floats, Indices

AGREEMENT: Final = 0.07  # disagreement of slopes at which the weight of a curve falls by a factor e
UNKNOWN_DISAGREEMENT: Final = 0.3  # disagreement assumed with fewer common sizes, which gives almost no weight
# Two common sizes prove nothing: two slopes that agreed by chance led a forecast far astray.
COMMON_MIN: Final = 3
NEARNESS: Final = 0.7  # in ln n: far sizes count less in the comparison of slopes
SAME_SIZE: Final = 1e-9  # in ln n
# candidate weights of the laws against a weight of 1 for a curve that agrees fully, and their prior probabilities
OWN_WEIGHTS: Final = np.array([0.05, 0.15, 0.4, 1.0, 3.0, 20.0])
PRIOR: Final = np.array([0.02, 0.08, 0.2, 0.3, 0.25, 0.15])
FEW_ROWS: Final = 2.0  # forecasts without loss that are added at each distance
OWN_VOTE: Final = 0.3  # weight of the curve's own laws against 1 for a curve that agrees fully
VOTE_MIN: Final = 0.1  # weight from which a curve counts as one of several
ALONE_SHARE: Final = 0.5  # of a single curve in the slope beyond the others
SLOPE_RANGE: Final = (-1.5, 1.2)  # limits of d ln T / d ln n that a single curve may impose

ShapeLosses = tuple[tuple[float, ...], ...]
NO_LOSSES: Final[ShapeLosses] = ((0.0,) * OWN_WEIGHTS.size,) * DISTANCES.size


class Shapes(NamedTuple):
    """The forecasts of related curves at m targets: ln of the factor from the last size, its spread, and the weight of the curves; (m,).

    `factor` and `spread` are 0 without any curve. `reached`, 0 to 1, is the part of the distance in ln n that related curves have
    been run over; the laws predict the rest.
    """

    factor: Floats
    spread: Floats
    weight: Floats
    reached: Floats


class _UsableCurves(NamedTuple):
    """Related curves (j,) that can be compared: ln t and ln n, relative to the last size of the predicted curve, (j, most), padded.

    `last` (j, 1) is the index of the largest size of each related curve. `trust` (j, 1) is its weight by system, before the
    slopes are compared.
    """

    ln_n: Floats
    ln_t: Floats
    last: Indices
    trust: Floats

    @property
    def reach(self) -> Floats:
        """Ln of the largest size of each related curve, relative to the last size of the curve, (j,)."""
        return np.take_along_axis(self.ln_n, self.last, axis=1)[:, 0]

    def ln_run_times(self, ln_sizes: Floats) -> Floats:
        """Return ln t at ln of relative sizes (m,), linear in ln n, (j, m); nan beyond the range of a related curve."""
        x, y, last = self.ln_n, self.ln_t, self.last
        within = (ln_sizes >= x[:, :1] - SAME_SIZE) & (ln_sizes <= self.reach[:, None] + SAME_SIZE)
        left = np.clip((x[:, None] <= ln_sizes[:, None]).sum(axis=2) - 1, 0, last - 1)
        x_left, x_right, y_left, y_right = (
            np.take_along_axis(values, left + i, axis=1) for values in (x, y) for i in (0, 1)
        )
        part = np.clip((ln_sizes - x_left) / (x_right - x_left), 0.0, 1.0)
        return np.where(within, y_left + part * (y_right - y_left), np.nan)


def shapes(data: ScaledCurve, curve: Curve, related: Related, n: Floats, own: Floats) -> Shapes:
    """Return the forecasts of related curves at relative sizes `n` (m,) above 1; `own` (m,) is ln of the factor by the curve's own laws.

    >>> from processors.models.combination.evidence import RelatedCurve, evidence
    >>> ln_n = tuple(np.log([1.0, 2.0, 4.0, 8.0, 16.0]))
    >>> longer = tuple(RelatedCurve(key, "s", (), ln_n, tuple(np.log([8.0, 4.0, 2.0, 2.0, 3.0]))) for key in "bc")
    >>> curve = Curve("a", "s", (1.0, 2.0, 4.0, 8.0), (80.0, 40.0, 20.0, 20.0))
    >>> beyond = shapes(evidence(curve).data, curve, Related(longer), np.array([2.0, 4.0]), np.zeros(2))
    >>> np.exp(beyond.factor).round(3).tolist(), beyond.weight.round(3).tolist(), beyond.reached.round(3).tolist()
    ([1.5, 1.5], [2.0, 2.0], [1.0, 0.5])
    """
    k, ln_n, usable = data.n.size, np.log(n), _usable(curve, related)
    if usable is None:
        return Shapes(*np.zeros((4, n.size)))
    observed = usable.ln_run_times(data.x * LN2)
    weight = _weights(data, observed, usable.trust, np.array([k - 1]))[:, 0]
    voting = np.sort(usable.reach[weight >= VOTE_MIN])
    common = np.minimum(ln_n, max(float(voting[-2]), 0.0) if voting.size > 1 else 0.0)  # reached by several curves
    rise = usable.ln_run_times(np.concatenate([common, ln_n])) - observed[:, k - 1 : k]
    to_common, whole = rise[:, : n.size], rise[:, n.size :]
    law, farther = own / ln_n, ln_n - common
    votes = np.broadcast_to(np.append(weight, OWN_VOTE)[:, None], (weight.size + 1, n.size))
    factor, spread, total = _voted(np.vstack([to_common, law * common]), votes)
    slope, part = _single_slope(whole - to_common, weight, farther)
    beyond = law + part * (np.where(part > 0.0, slope, law) - law)
    weight_of_curves = np.maximum(total - OWN_VOTE, 0.0)
    return Shapes(
        np.where(weight_of_curves > 0.0, factor + beyond * farther, 0.0),
        np.hypot(spread, np.abs(beyond - law) * farther),
        weight_of_curves,
        (common + part * farther) / ln_n,
    )


def _single_slope(rise: Floats, weight: Floats, farther: Floats) -> tuple[Floats, Floats]:
    """Return the slope of ln T over ln n of one curve beyond the common sizes, and the share of this slope in the forecast; both (m,).

    The curve is the one with the largest `weight` (j,) among the curves that reach the target; the share is 0 if none does. `rise`
    (j, m) is the change of ln T over the distance `farther` (m,) in ln n, nan for curves that end before the target.
    """
    goes_on = ~np.isnan(rise) & (weight >= VOTE_MIN)[:, None] & (farther > SAME_SIZE)
    single = np.where(goes_on, weight[:, None], -np.inf).argmax(axis=0)
    place = single, np.arange(farther.size)
    part = np.where(goes_on[place], ALONE_SHARE * np.minimum(weight[single], 1.0), 0.0)
    return np.clip(rise[place] / np.where(farther > SAME_SIZE, farther, 1.0), *SLOPE_RANGE), part


def hindsight(data: ScaledCurve, curve: Curve, related: Related, row: Indices, target: Indices) -> Shapes:
    """Return the forecasts that related curves would have made of the sizes `target` (m,) from the prefixes `row` (m,).

    All sizes of the related curves are used, because a new forecast uses them as well.
    """
    usable = _usable(curve, related)
    if usable is None:
        return Shapes(*np.zeros((4, row.size)))
    ln_t = usable.ln_run_times(data.x * LN2)
    weight = _weights(data, ln_t, usable.trust, np.arange(1, data.n.size))
    factor, spread, total = _voted(ln_t[:, target] - ln_t[:, row + 1], weight[:, row])
    return Shapes(factor, spread, total, np.minimum(total, 1.0))


def _usable(curve: Curve, related: Related) -> _UsableCurves | None:
    """Return the related curves with enough sizes in the same unit; None if there are no such curves."""
    ln_n, ln_t, count = related.points
    trust = related.trust(curve.key, curve.system, curve.unit)
    (rows,) = np.nonzero((trust > 0.0) & (count >= COMMON_MIN))
    if not rows.size:
        return None
    return _UsableCurves(ln_n[rows] - np.log(curve.n[-1]), ln_t[rows], count[rows, None] - 1, trust[rows, None])


def _weights(data: ScaledCurve, ln_t: Floats, trust: Floats, last: Indices) -> Floats:
    """Return the weight of each related curve, by the agreement of its slopes with each prefix that ends at size `last` (r,); (j, r)."""
    x, y = data.x * LN2, data.y
    far = x[last][:, None] - x  # (r, k)
    gap = np.where(far > SAME_SIZE, far, np.inf)  # no slope to the last size itself or to larger sizes
    apart = (ln_t - y)[:, None, :] - (ln_t - y)[:, last, None]
    both = ~np.isnan(apart) & (far > SAME_SIZE)
    near = both / (gap + NEARNESS)
    slopes = np.where(both, apart, 0.0) / gap
    mean = (near * slopes**2).sum(axis=2) / np.maximum(near.sum(axis=2), 1e-300)
    disagreement = np.where(both.sum(axis=2) >= COMMON_MIN, np.sqrt(mean), UNKNOWN_DISAGREEMENT)
    return np.asarray(trust * np.exp(-((disagreement / AGREEMENT) ** 2)))


def _voted(rise: Floats, weight: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the weighted median and spread over curves, and the total weight, of `rise` (j, m); nan entries do not count."""
    reached_by = ~np.isnan(rise)
    rise, weight = np.where(reached_by, rise, 0.0), np.where(reached_by, weight, 0.0)
    total = weight.sum(axis=0)
    order = np.argsort(rise, axis=0, kind="stable")
    cumulative = np.cumsum(np.take_along_axis(weight, order, axis=0), axis=0)
    middle = np.argmax(cumulative >= 0.5 * total, axis=0)
    median = np.take_along_axis(rise, order, axis=0)[middle, np.arange(rise.shape[1])]
    spread = np.sqrt((weight * (rise - median) ** 2).sum(axis=0) / np.maximum(total, 1e-300))
    return np.where(total > 0.0, median, 0.0), np.where(total > 0.0, spread, 0.0), total


def trusted(from_related: Shapes, losses: ShapeLosses, distance: Floats) -> Floats:
    """Return the share (m,), 0 to 1, that related curves get in forecasts at distances (m,) in doublings.

    Each of OWN_WEIGHTS is a candidate for the weight of the laws; its probability falls with the losses that it would have caused
    at such distances. The result is the expected share.

    >>> ones = Shapes(*np.ones((4, 1)))
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
    """Return the share of the related curves if the laws have each of OWN_WEIGHTS, (m, weights)."""
    return np.asarray(from_related.weight[:, None] / (from_related.weight[:, None] + OWN_WEIGHTS))


def blended(ln_t: Floats, from_related: Shapes, share: Floats) -> Floats:
    """Return forecasts (m,) of which related curves have the part `share` (m,) and the laws (`ln_t`) the rest."""
    return np.asarray(ln_t + share * (from_related.factor - ln_t))


def mixed_spread(spread: Floats, ln_t: Floats, from_related: Shapes, share: Floats) -> Floats:
    """Return the standard deviation of ln t over laws and related curves, (m,); `spread` and `ln_t` are those of the laws."""
    apart = share * (1.0 - share) * (from_related.factor - ln_t) ** 2
    return np.asarray(np.sqrt((1.0 - share) * spread**2 + share * from_related.spread**2 + apart))


def losses(from_related: Shapes, ln_t: Floats, observed: Floats, distance: Floats, weight: Floats) -> Floats:
    """Return the mean loss of the blended forecasts of one curve for each of OWN_WEIGHTS, by class of distance, (distances, weights).

    Forecasts `ln_t` and `observed` are ln of the factor from the last size, (m,). The mean over a class includes FEW_ROWS
    forecasts without loss.

    >>> known = Shapes(np.zeros(1), np.zeros(1), np.ones(1), np.ones(1))
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
