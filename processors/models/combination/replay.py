"""Every forecast a curve allows in hindsight: offsets per application are learned from them, and bands scored by them.

A row forecasts size i from the prefix of the r smallest sizes, r >= 2, i > r. Rows of all curves of an application are
replayed in one order - target, prefix, curve - so that the result never depends on when runs came.
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
# the most regular curves turn up without a sign: no scale is below this per doubling, up to so many
JUMP, JUMP_DOUBLINGS_MAX = 0.01, 3.0


class ErrorScale(NamedTuple):
    """Coefficients of ln s, one per circumstance.

    >>> len(SCALE)
    9
    """

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
    """What is known of m forecasts before their runs come; arrays of shape (m,).

    Distance in doublings, spread of the laws in ln t, mean losses of the laws on this curve and on related curves, number of
    sizes, last gap in doublings, ln of the misfit inside the range, share of related curves known further out.

    >>> Circumstances(*np.zeros((8, 1))).distance.tolist()
    [0.0]
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
    """Return the standard deviation of ln t over the laws: distance (m,), shares and elasticities (m, laws).

    >>> spread(np.array([1.0]), np.array([[0.5, 0.5]]), np.array([[-1.0, 1.0]])).round(6).tolist()
    [0.693147]
    """
    centre = (shares * elasticity).sum(axis=-1, keepdims=True)
    return np.asarray(distance * LN2 * np.sqrt((shares * (elasticity - centre) ** 2).sum(axis=-1)))


def features(given: Circumstances) -> Floats:
    """Return what the coefficients multiply, shape (m, 9).

    >>> features(Circumstances(*np.ones((8, 1)))).shape
    (1, 9)
    """
    columns = [
        np.ones_like(given.distance),
        np.log(given.distance + 0.1),
        np.log(given.spread + 0.005),
        np.log(given.own + 0.2),
        np.log(given.related + 0.2),
        np.log(given.sizes) - 1.6,
        np.minimum(given.gap, GAP_MAX),
        given.residual + 4.0,
        given.known_further,
    ]
    return np.stack(columns, axis=-1)


def scales(scale: ErrorScale, given: Circumstances) -> Floats:
    """Return s of each forecast, shape (m,).

    >>> reference = ErrorScale(-2.054, 0.369, 0.440, 0.128, 0.014, 0.272, 0.712, 0.212)
    >>> scales(reference, Circumstances(*np.ones((8, 1)))).round(2).tolist()
    [0.53]
    """
    return scales_of(scale, features(given), given.distance)


def scales_of(scale: ErrorScale, found: Floats, distance: Floats) -> Floats:
    """Return the same for circumstances as `features` gives them, (m, 9).

    >>> scales_of(ErrorScale(*(0.0,) * 9), np.ones((1, 9)), np.ones(1)).round(2).tolist()
    [1.01]
    """
    ln_s = np.clip((found * np.array(scale)).sum(axis=1), LN_SCALE_MIN, LN_SCALE_MAX)
    return np.asarray(np.exp(ln_s) + JUMP * np.minimum(distance, JUMP_DOUBLINGS_MAX))


STEP: Final = 0.3
STEP_MAX: Final = 0.5
SHORT_PREFIX_WEIGHT: Final = 0.3  # of forecasts from two sizes
SOFT_SQUARE: Final = 0.0009  # errors below .03 in log2 pull less


@dataclass(frozen=True, slots=True, eq=False)
class ForecastRows:
    """The m forecasts of one curve.

    Indices of targets and of the prefixes' rows; distance in doublings; observed mean elasticity; elasticities and
    logits of the laws (m, laws); weight; own losses and those of related curves (m, laws); sizes, gap and residual for
    the scale; `ln_ratio` (m, runs) of the judged runs to the prefix's last time, nan where there are fewer. `inside`
    reports the inner sizes left out, `inside_error` (k - 2, runs) ln(run / forecast) of their judged runs.
    `shape` is what related curves would have said.
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
    """Offsets of the application after all rows, and the laws' shares in every row of every curve as they were then."""

    offsets: tuple[float, ...]
    shares: tuple[Floats, ...]


def rows(gate: LawGate, found: LawEvidence, related: Related) -> ForecastRows:
    """Return all forecasts of a curve; of its related curves each forecast knows as many sizes as of its own curve.

    >>> from processors.models.combination.evidence import Curve, evidence, GATE
    >>> from processors.models.combination.evidence import NO_RELATED
    >>> rows(GATE, evidence(Curve("a", "s", (1.0, 2.0, 4.0), (4.0, 2.0, 1.0))), NO_RELATED).target
    [2]
    """
    row, target = np.nonzero(np.tri(found.k - 1, found.k, 1) == 0)
    given = related_losses(related, found.curve.key, found.curve.system, target)
    x, y = found.data.x, found.data.y
    runs, inner = _judged(found), found.left_out
    distance = x[target] - x[row + 1]
    here, there = found.ln_fits[row, :, row + 1], found.ln_fits[row, :, target]
    return ForecastRows(
        key=found.curve.key,
        system=found.curve.system,
        target=target.tolist(),
        row=row.tolist(),
        distance=distance,
        observed=(y[target] - y[row + 1]) / (distance * LN2),
        elasticity=anchored(there, here, y[row + 1, None], distance[:, None] * LN2),
        logit=logits(gate, found, row, given),
        weight=np.where(row == 0, SHORT_PREFIX_WEIGHT, 1.0),
        own=found.own[row],
        related=given.losses,
        sizes=np.asarray(row + 2, dtype=np.float64),
        gap=x[row + 1] - x[row],
        residual=found.residual[row],
        ln_ratio=runs[target] - y[row + 1, None],
        inside=inner,
        inside_error=runs[1:-1] - (y[1:-1] + inner.error)[:, None],
        shape=hindsight(found.data, found.curve, related, row, target),
    )


def replay(curves: Sequence[ForecastRows]) -> ReplayedOffsets:
    """Learn the offsets of an application from the rows of all its curves, in an order that they alone decide.

    >>> replay([]).offsets
    (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    """
    order = sorted(
        (target, row, each.key, index, i)
        for index, each in enumerate(curves)
        for i, (target, row) in enumerate(zip(each.target, each.row, strict=True))
    )
    plain = [_Plain.of(each) for each in curves]
    shares = [np.zeros_like(each.logit) for each in curves]
    offsets = list(NO_OFFSETS)
    for _, _, _, index, i in order:
        shares[index][i] = _step(offsets, plain[index], i)
    return ReplayedOffsets(tuple(offsets), tuple(shares))


class Hindsight(NamedTuple):
    """The forecasts of one curve as they would have been made, (m,): ln of the factor from the last size, circumstances."""

    ln_t: Floats
    given: Circumstances
    weight: Floats


def hindsights(given: ForecastRows, shares: Floats, losses: ShapeLosses) -> list[Hindsight]:
    """Return the forecasts by the laws alone, and those with what related curves say, where these reach.

    Both are scored: an application whose curves all end at the same size has to learn from the former alone.

    >>> from processors.models.combination.evidence import Curve, evidence, GATE, weights
    >>> from processors.models.combination.evidence import NO_RELATED
    >>> from processors.models.combination.shapes import NO_LOSSES
    >>> made = rows(GATE, evidence(Curve("a", "s", (1.0, 2.0, 4.0), (4.0, 2.0, 1.0))), NO_RELATED)
    >>> [each.weight.tolist() for each in hindsights(made, weights(made.logit), NO_LOSSES)]
    [[0.3], [0.0]]
    """
    alone = circumstances(given, shares)
    ln_t = _by_laws(given, shares)
    share = trusted(given.shape, losses, given.distance)
    spread = mixed_spread(alone.spread, ln_t, given.shape, share)
    further = alone._replace(spread=spread, known_further=share)
    return [
        Hindsight(ln_t, alone, given.weight),
        Hindsight(blended(ln_t, given.shape, share), further, given.weight * share),
    ]


def scores(scale: ErrorScale, given: ForecastRows, shares: Floats, losses: ShapeLosses) -> list[ForecastScores]:
    """Return how far the judged runs were off, in units of the scale; the runs of a forecast share its weight.

    >>> from processors.models.combination.evidence import Curve, evidence, GATE, weights
    >>> from processors.models.combination.evidence import NO_RELATED
    >>> from processors.models.combination.shapes import NO_LOSSES
    >>> made = rows(GATE, evidence(Curve("a", "s", (1.0, 2.0, 4.0), (4.0, 2.0, 1.0))), NO_RELATED)
    >>> scores(SCALE, made, weights(made.logit), NO_LOSSES)[0].distance.tolist()
    [1.0]
    """
    found = []
    for carried, each in enumerate(hindsights(given, shares, losses)):
        score = (given.ln_ratio - each.ln_t[:, None]) / scales(scale, each.given)[:, None]
        found.append(_shared(given.distance, score, each.weight)._replace(known_further=bool(carried)))
    return found


def losses(given: ForecastRows, shares: Floats) -> Floats:
    """Return what trust in related curves would have cost, (distances, weights); see `shapes.losses`.

    >>> from processors.models.combination.evidence import Curve, evidence, GATE, weights
    >>> from processors.models.combination.evidence import NO_RELATED
    >>> made = rows(GATE, evidence(Curve("a", "s", (1.0, 2.0, 4.0), (4.0, 2.0, 1.0))), NO_RELATED)
    >>> bool(losses(made, weights(made.logit)).any())
    False
    """
    observed = given.observed * given.distance * LN2
    return shape_losses(given.shape, _by_laws(given, shares), observed, given.distance, given.weight)


def total_losses(curves: Sequence[ForecastRows], replayed: ReplayedOffsets) -> ShapeLosses:
    """Return what trust in related curves would have cost all curves of an application.

    >>> total_losses([], replay([])) == NO_LOSSES
    True
    """
    each = (losses(made, shares) for made, shares in zip(curves, replayed.shares, strict=True))
    return tuple(tuple(row) for row in sum(each, np.array(NO_LOSSES)).round(6).tolist())


def _by_laws(given: ForecastRows, shares: Floats) -> Floats:
    """Return ln of the factor from the last size, (m,), as it is published where no related curve is known further out."""
    return np.asarray(((shares * given.elasticity).sum(axis=1) + PESSIMISM) * given.distance * LN2)


def inside_scores(scale: InsideScale, given: ForecastRows) -> ForecastScores:
    """Return how far the judged runs of inner sizes were off when these were left out, in units of the scale.

    >>> from processors.models.combination.evidence import Curve, evidence, GATE
    >>> from processors.models.combination.evidence import NO_RELATED
    >>> from processors.models.combination.inside import INSIDE_SCALE
    >>> made = rows(GATE, evidence(Curve("a", "s", (1.0, 2.0, 4.0), (4.0, 2.0, 1.0))), NO_RELATED)
    >>> inside_scores(INSIDE_SCALE, made).distance.tolist()
    [0.0]
    """
    width = scales_inside(scale, hindsight_features(given.inside))
    here = np.zeros_like(width)
    return _shared(here, given.inside_error / width[:, None], here + 1.0)


def _shared(distance: Floats, score: Floats, weight: Floats) -> ForecastScores:
    """Return one score per judged run; scores (m, runs) are nan where there are fewer."""
    judged = ~np.isnan(score)
    each = weight[:, None] / judged.sum(axis=1, keepdims=True) * judged
    return ForecastScores(np.broadcast_to(distance[:, None], score.shape)[judged], score[judged], each[judged])


def circumstances(given: ForecastRows, shares: Floats) -> Circumstances:
    """Return the circumstances of the forecasts of a curve.

    >>> from processors.models.combination.evidence import Curve, evidence, GATE, weights
    >>> from processors.models.combination.evidence import NO_RELATED
    >>> made = rows(GATE, evidence(Curve("a", "s", (1.0, 2.0, 4.0), (4.0, 2.0, 1.0))), NO_RELATED)
    >>> circumstances(made, weights(made.logit)).sizes.tolist()
    [2.0]
    """
    return Circumstances(
        given.distance,
        spread(given.distance, shares, given.elasticity),
        (shares * given.own).sum(axis=1),
        (shares * given.related).sum(axis=1),
        given.sizes,
        given.gap,
        given.residual,
        np.zeros_like(given.distance),
    )


class _Plain(NamedTuple):
    """The rows of a curve as lists: one row at a time is faster without arrays."""

    logit: list[list[float]]
    elasticity: list[list[float]]
    distance: list[float]
    observed: list[float]
    weight: list[float]

    @classmethod
    def of(cls, given: ForecastRows) -> "_Plain":
        return cls(
            *(each.tolist() for each in (given.logit, given.elasticity, given.distance, given.observed, given.weight))
        )


def _step(offsets: list[float], given: _Plain, i: int) -> list[float]:
    """Move the offsets by one forecast, and return the shares that it was made with."""
    raised = [logit + offset for logit, offset in zip(given.logit[i], offsets, strict=True)]
    top = max(raised)
    mass = [math.exp(value - top) for value in raised]
    total = sum(mass)
    shares = [value / total for value in mass]
    elasticity, distance = given.elasticity[i], given.distance[i]
    forecast = sum(share * value for share, value in zip(shares, elasticity, strict=True))
    error = (forecast - given.observed[i]) * distance
    pull = distance * error / math.sqrt(error * error + SOFT_SQUARE)
    for j, (share, value) in enumerate(zip(shares, elasticity, strict=True)):
        move = share * (value - forecast) * pull
        offsets[j] -= STEP * given.weight[i] * min(max(move, -STEP_MAX), STEP_MAX)
    return shares


def _judged(found: LawEvidence) -> Floats:
    """Return ln of the judged runs of each size relative to the last size, nan where there are fewer, (k, runs)."""
    runs = [judged_runs(found.curve, i) for i in range(found.k)]
    width = max(map(len, runs))
    table = np.array([run + (math.nan,) * (width - len(run)) for run in runs])
    return np.asarray(np.log(table) - math.log(found.curve.median_s[-1]))


DISTANCE_MAX: Final = 4.0  # doublings
REASON_SHARE: Final = 0.2  # of what speaks against a forecast, to be named

TOO_FEW, TOO_FAR, BELOW, WIDE = "few_sizes", "far", "below_smallest", "wide_band"
# the circumstances in the order of the coefficients, without the constant, and what is usual among reliable forecasts
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


def reasons(scale: ErrorScale, given: Circumstances) -> list[tuple[str, ...]]:
    """Return what makes each forecast unsure, the gravest first.

    >>> far = Circumstances(*(np.array([value]) for value in (6.0, 0.02, 0.3, 0.3, 8.0, 1.0, -4.5, 0.0)))
    >>> from processors.models.combination.replay import SCALE
    >>> reasons(SCALE, far)
    [('far',)]
    """
    return reasons_of(scale, features(given), given.distance)


def reasons_of(scale: ErrorScale, found: Floats, distance: Floats) -> list[tuple[str, ...]]:
    """Return the same for circumstances as `features` gives them, (m, 9).

    >>> from processors.models.combination.replay import SCALE
    >>> reasons_of(SCALE, features(USUAL), USUAL.distance)
    [('wide_band',)]
    """
    excess = np.maximum((found - _USUAL) * np.array(scale), 0.0)[:, 1:]
    grave = excess > REASON_SHARE * np.cumsum(excess, axis=1)[:, -1:]
    order = np.argsort(-excess, axis=1, kind="stable").tolist()
    rows = zip(order, grave.sum(axis=1).tolist(), (distance > DISTANCE_MAX).tolist(), strict=True)
    return [_named(tuple(places[:count]), far) for places, count, far in rows]


@lru_cache(maxsize=1024)
def _named(places: tuple[int, ...], far: bool) -> tuple[str, ...]:  # noqa: FBT001
    named = tuple(CIRCUMSTANCES[place] for place in places)
    if far and TOO_FAR not in named:
        return (TOO_FAR, *named)
    return named or (WIDE,)
