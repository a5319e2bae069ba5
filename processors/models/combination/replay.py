"""All forecasts of a curve in hindsight, from which offsets per application are learned and bands are scored.

A row is the forecast of size i from the prefix of the r smallest sizes, r >= 2, i > r. The rows of all curves of an
application are replayed in one order (target, prefix, curve), so the result never depends on the order of events.
The last part names the unusual circumstances that make a forecast unsure.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from processors.models.combination.evidence import (
    LN2,
    NO_OFFSETS,
    PESSIMISM,
    LawEvidence,
    LawGate,
    LeftOutErrors,
    Related,
    anchored,
    judged_runs,
    logits,
    related_losses,
)
from processors.models.combination.inside import InsideScale, hindsight_features
from processors.models.combination.inside import scales as scales_inside
from processors.models.combination.scores import ForecastScores
from processors.models.combination.shapes import (
    NO_LOSSES,
    ShapeLosses,
    Shapes,
    blended,
    hindsight,
    mixed_spread,
    trusted,
)
from processors.models.combination.shapes import losses as shape_losses
from processors.models.numerics.arrays import Floats

GAP_MAX: Final = 2.0
LN_SCALE_MIN, LN_SCALE_MAX = -5.0, 1.0
# even the most regular curve may turn up without a warning: least scale per doubling, up to so many doublings
JUMP, JUMP_DOUBLINGS_MAX = 0.01, 3.0


class ErrorScale(NamedTuple):
    """The coefficients of ln s, where s is the expected scale of the error of a forecast in ln t; one per column of `features`."""

    constant: float
    distance: float
    spread: float
    own: float
    related: float
    sizes: float
    gap: float
    residual: float
    known_further: float = 0.0


# fitted to the same forecasts as the gate
SCALE: Final = ErrorScale(-0.8984, 0.0762, 0.6794, 0.0164, 0.2625, -0.2262, 0.1392, 0.2412, -0.8632)


class Circumstances(NamedTuple):
    """The properties of m forecasts that their errors depend on, known before the runs end; arrays of shape (m,).

    `distance` and `gap`, the distance of the last two sizes, are in doublings. `spread` is the standard deviation of ln t over the
    laws. `own` and `related` are the mean losses on this curve and on related curves. `sizes` is the number of sizes, `residual` ln
    of the error of the law `usl`, and `known_further` the share of related curves with larger sizes.
    """

    distance: Floats
    spread: Floats
    own: Floats
    related: Floats
    sizes: Floats
    gap: Floats
    residual: Floats
    known_further: Floats


def spread(distance: Floats, shares: Floats, elasticity: Floats) -> Floats:
    """Return the standard deviation of ln t over the laws, (m,).

    `distance` (m,) is in doublings; the weights of the laws, `shares`, and their `elasticity` have shape (m, laws).
    """
    centre = (shares * elasticity).sum(axis=-1, keepdims=True)
    return np.asarray(distance * LN2 * np.sqrt((shares * (elasticity - centre) ** 2).sum(axis=-1)))


def features(of: Circumstances) -> Floats:
    """Return the values that the coefficients of `ErrorScale` multiply, shape (m, 9)."""
    columns = [
        np.ones_like(of.distance),
        np.log(of.distance + 0.1),
        np.log(of.spread + 0.005),
        np.log(of.own + 0.2),
        np.log(of.related + 0.2),
        np.log(of.sizes) - 1.6,
        np.minimum(of.gap, GAP_MAX),
        of.residual + 4.0,
        of.known_further,
    ]
    return np.stack(columns, axis=-1)


def scales_of(scale: ErrorScale, factors: Floats, distance: Floats) -> Floats:
    """Return the scale of the error of each forecast in ln t, (m,), given its `factors` (m, 9) and its `distance` (m,) in doublings."""
    ln_s = np.clip((factors * np.array(scale)).sum(axis=1), LN_SCALE_MIN, LN_SCALE_MAX)
    return np.asarray(np.exp(ln_s) + JUMP * np.minimum(distance, JUMP_DOUBLINGS_MAX))


STEP: Final = 0.3
STEP_MAX: Final = 0.5
SHORT_PREFIX_WEIGHT: Final = 0.3  # weight of forecasts from two sizes
SOFT_SQUARE: Final = 0.0009  # errors below .03 in log2 move the offsets less


@dataclass(frozen=True, slots=True, eq=False)
class ForecastRows:
    """The m forecasts of one curve in hindsight, each of a size `target` from the prefix `row` (both are indices).

    `distance` is in doublings, `observed` the observed elasticity from the last size of the prefix; `elasticity` and `logit`
    (m, laws) are those of the laws. `own` and `related` (m, laws) are mean losses on this curve and on related curves; `sizes`,
    `gap` and `residual` are as in `Circumstances`. `ln_ratio` (m, runs) is ln(run / last run time of the prefix), nan for missing
    runs. `inside` are the errors of inner sizes left out, and `inside_error` (k - 2, runs) is ln(run / forecast) at these sizes.
    `shape` is the forecast by related curves.
    """

    key: str
    system: str
    target: list[int]
    row: list[int]
    distance: Floats
    observed: Floats
    elasticity: Floats
    logit: Floats
    weight: Floats
    own: Floats
    related: Floats
    sizes: Floats
    gap: Floats
    residual: Floats
    ln_ratio: Floats
    inside: LeftOutErrors
    inside_error: Floats
    shape: Shapes


class ReplayedOffsets(NamedTuple):
    """The offsets of the laws after all forecasts, and the weights of the laws (m, laws) in the forecasts of each curve at their turn."""

    offsets: tuple[float, ...]
    shares: tuple[Floats, ...]


def rows(gate: LawGate, evidence: LawEvidence, related: Related) -> ForecastRows:
    """Return the forecasts that could have been made of each size of a curve from each shorter prefix.

    A forecast uses as many sizes of the related curves as its own curve has below the target.

    >>> from processors.models.combination.evidence import GATE, NO_RELATED, Curve, evidence
    >>> rows(GATE, evidence(Curve("a", "s", (1.0, 2.0, 4.0), (4.0, 2.0, 1.0))), NO_RELATED).target
    [2]
    """
    row, target = np.nonzero(np.tri(evidence.k - 1, evidence.k, 1) == 0)
    related_means = related_losses(related, evidence.curve.key, evidence.curve.system, target)
    x, y = evidence.data.x, evidence.data.y
    runs, inner = _judged(evidence), evidence.left_out
    distance = x[target] - x[row + 1]
    law_before, law_after = evidence.ln_fits[row, :, row + 1], evidence.ln_fits[row, :, target]
    return ForecastRows(
        key=evidence.curve.key,
        system=evidence.curve.system,
        target=target.tolist(),
        row=row.tolist(),
        distance=distance,
        observed=(y[target] - y[row + 1]) / (distance * LN2),
        elasticity=anchored(law_after, law_before, y[row + 1, None], distance[:, None] * LN2),
        logit=logits(gate, evidence, row, related_means),
        weight=np.where(row == 0, SHORT_PREFIX_WEIGHT, 1.0),
        own=evidence.own[row],
        related=related_means.losses,
        sizes=np.asarray(row + 2, dtype=np.float64),
        gap=x[row + 1] - x[row],
        residual=evidence.residual[row],
        ln_ratio=runs[target] - y[row + 1, None],
        inside=inner,
        inside_error=runs[1:-1] - (y[1:-1] + inner.error)[:, None],
        shape=hindsight(evidence.data, evidence.curve, related, row, target),
    )


def replay(curves: Sequence[ForecastRows]) -> ReplayedOffsets:
    """Learn the offsets of an application from the forecasts of all its curves, in the order (target, prefix, curve)."""
    order = sorted(
        (target, row, curve.key, index, place)
        for index, curve in enumerate(curves)
        for place, (target, row) in enumerate(zip(curve.target, curve.row, strict=True))
    )
    lists = [_Plain(*(getattr(curve, name).tolist() for name in _Plain._fields)) for curve in curves]
    shares = [np.zeros_like(curve.logit) for curve in curves]
    offsets = list(NO_OFFSETS)
    for _, _, _, index, place in order:
        shares[index][place] = _step(offsets, lists[index], place)
    return ReplayedOffsets(tuple(offsets), tuple(shares))


class Hindsight(NamedTuple):
    """The m forecasts of one curve in hindsight: `ln_t`, ln of the factor from the last size, their circumstances, and their weights."""

    ln_t: Floats
    given: Circumstances
    weight: Floats


def hindsights(forecasts: ForecastRows, shares: Floats, losses: ShapeLosses) -> list[Hindsight]:
    """Return two forecasts for each row: by the laws alone, and blended with related curves.

    Both are scored. An application whose curves all end at the same size can learn only from forecasts by the laws.
    """
    alone = circumstances(forecasts, shares)
    ln_t = _by_laws(forecasts, shares)
    share = trusted(forecasts.shape, losses, forecasts.distance)
    spread = mixed_spread(alone.spread, ln_t, forecasts.shape, share)
    further = alone._replace(spread=spread, known_further=share)
    return [
        Hindsight(ln_t, alone, forecasts.weight),
        Hindsight(blended(ln_t, forecasts.shape, share), further, forecasts.weight * share),
    ]


def scores(scale: ErrorScale, forecasts: ForecastRows, shares: Floats, losses: ShapeLosses) -> list[ForecastScores]:
    """Return the scores of the judged runs, for forecasts by laws and for blended forecasts; the runs of a forecast share its weight."""
    result = []
    for carried, made in enumerate(hindsights(forecasts, shares, losses)):
        score = (forecasts.ln_ratio - made.ln_t[:, None]) / scales_of(scale, features(made.given), made.given.distance)[
            :, None
        ]
        result.append(_per_run(forecasts.distance, score, made.weight)._replace(known_further=bool(carried)))
    return result


def losses(forecasts: ForecastRows, shares: Floats) -> Floats:
    """Return the losses of one curve's forecasts by related curves, (distances, weights), as explained in `shapes.losses`."""
    observed = forecasts.observed * forecasts.distance * LN2
    return shape_losses(forecasts.shape, _by_laws(forecasts, shares), observed, forecasts.distance, forecasts.weight)


def total_losses(curves: Sequence[ForecastRows], replayed: ReplayedOffsets) -> ShapeLosses:
    """Return the losses of forecasts by related curves, summed over all curves of an application."""
    by_curve = (losses(forecasts, shares) for forecasts, shares in zip(curves, replayed.shares, strict=True))
    return tuple(tuple(row) for row in sum(by_curve, np.array(NO_LOSSES)).round(6).tolist())


def _by_laws(forecasts: ForecastRows, shares: Floats) -> Floats:
    """Return the forecasts by the laws alone, as ln of the factor from the last size, (m,)."""
    return np.asarray(((shares * forecasts.elasticity).sum(axis=1) + PESSIMISM) * forecasts.distance * LN2)


def inside_scores(scale: InsideScale, forecasts: ForecastRows) -> ForecastScores:
    """Return the scores of the single runs at inner sizes, each size predicted from all other sizes."""
    width = scales_inside(scale, hindsight_features(forecasts.inside))
    distance = np.zeros_like(width)
    return _per_run(distance, forecasts.inside_error / width[:, None], distance + 1.0)


def _per_run(distance: Floats, score: Floats, weight: Floats) -> ForecastScores:
    """Return the scores (m, runs) without missing runs (nan) as one array; the runs of a forecast share its weight."""
    judged = ~np.isnan(score)
    weights = weight[:, None] / judged.sum(axis=1, keepdims=True) * judged
    return ForecastScores(np.broadcast_to(distance[:, None], score.shape)[judged], score[judged], weights[judged])


def circumstances(forecasts: ForecastRows, shares: Floats) -> Circumstances:
    apart = spread(forecasts.distance, shares, forecasts.elasticity)
    own, related = ((shares * record).sum(axis=1) for record in (forecasts.own, forecasts.related))
    known = forecasts.sizes, forecasts.gap, forecasts.residual
    return Circumstances(forecasts.distance, apart, own, related, *known, np.zeros_like(forecasts.distance))


class _Plain(NamedTuple):
    """Columns of `ForecastRows` as lists, which are faster than arrays for one row at a time."""

    logit: list[list[float]]
    elasticity: list[list[float]]
    distance: list[float]
    observed: list[float]
    weight: list[float]


def _step(offsets: list[float], curve: _Plain, i: int) -> list[float]:
    """Update `offsets` by one forecast, and return the shares of the laws in that forecast."""
    raised = [logit + offset for logit, offset in zip(curve.logit[i], offsets, strict=True)]
    top = max(raised)
    mass = [math.exp(value - top) for value in raised]
    total = sum(mass)
    shares = [value / total for value in mass]
    elasticity, distance = curve.elasticity[i], curve.distance[i]
    forecast = sum(share * value for share, value in zip(shares, elasticity, strict=True))
    error = (forecast - curve.observed[i]) * distance
    pull = distance * error / math.sqrt(error * error + SOFT_SQUARE)
    for j, (share, value) in enumerate(zip(shares, elasticity, strict=True)):
        move = share * (value - forecast) * pull
        offsets[j] -= STEP * curve.weight[i] * min(max(move, -STEP_MAX), STEP_MAX)
    return shares


def _judged(evidence: LawEvidence) -> Floats:
    """Return ln of the single runs that forecasts are compared with, relative to the median of the last size, (k, runs).

    Missing runs are nan.
    """
    runs = [judged_runs(evidence.curve, i) for i in range(evidence.k)]
    width = max(map(len, runs))
    table = np.array([run + (math.nan,) * (width - len(run)) for run in runs])
    return np.asarray(np.log(table) - math.log(evidence.curve.median_s[-1]))


DISTANCE_MAX: Final = 4.0  # doublings
REASON_SHARE: Final = 0.2  # share of the excess from which a circumstance is named

TOO_FEW, TOO_FAR, BELOW, WIDE = "few_sizes", "far", "below_smallest", "wide_band"
# the circumstances in the order of the coefficients without the constant; USUAL has typical values of reliable forecasts
CIRCUMSTANCES: Final = (
    TOO_FAR,
    "members_disagree",
    "forecasts_missed",
    "related_curves_missed",
    "few_sizes",
    "wide_gap",
    "poor_fit",
    "known_further",
)
USUAL: Final = Circumstances(*(np.array([value]) for value in (1.0, 0.02, 0.3, 0.3, 8.0, 1.0, -4.5, 0.0)))
_USUAL = features(USUAL)


def reasons_of(scale: ErrorScale, factors: Floats, distance: Floats) -> list[tuple[str, ...]]:
    """Return the reasons that make each forecast unsure, the gravest first; `factors` are `features` (m, 9).

    >>> far = Circumstances(*(np.array([value]) for value in (6.0, 0.02, 0.3, 0.3, 8.0, 1.0, -4.5, 0.0)))
    >>> reasons_of(SCALE, features(far), far.distance)
    [('far',)]
    """
    excess = np.maximum((factors - _USUAL) * np.array(scale), 0.0)[:, 1:]
    grave = excess > REASON_SHARE * np.cumsum(excess, axis=1)[:, -1:]
    order = np.argsort(-excess, axis=1, kind="stable").tolist()
    rows = zip(order, grave.sum(axis=1).tolist(), (distance > DISTANCE_MAX).tolist(), strict=True)
    return [_named(tuple(places[:count]), far) for places, count, far in rows]


@lru_cache(maxsize=1024)
def _named(places: tuple[int, ...], far: bool) -> tuple[str, ...]:  # noqa: FBT001
    names = tuple(CIRCUMSTANCES[place] for place in places)
    if far and TOO_FAR not in names:
        return (TOO_FAR, *names)
    return names or (WIDE,)
