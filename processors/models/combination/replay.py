"""Every forecast a curve allows in hindsight: offsets per application are learned from them, and bands scored by them.

A row forecasts size i from the prefix of the r smallest sizes, r >= 2, i > r. Rows of all curves of an application are
replayed in one order - target, prefix, curve - so that the result never depends on when runs came.

Bands hold 90 % of the runs: a quantile of the scores of earlier forecasts, times the scale of this one. Scores come from
three places: those of the curves the agent was built with, those of the application itself, and those of all other
applications of the centre, for a new population may be rougher than the old one. The first are taken wider than they
were, most so far out, until the centre's own scores outweigh them. Near scores count most: a score's weight falls with
the difference of log2 of the distances (in doublings). Scores inside the range of a curve are kept apart, and are told by
their distance of 0. They are kept as counts on a grid of score and distance. Counts are integers, so that adding and
taking away in any order gives the same bits.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from processors.models.combination.evidence import (
    LN2,
    NO_OFFSETS,
    Evidence,
    Floats,
    Gate,
    RelatedCurve,
    anchored,
    judged_runs,
    logits,
    related_losses,
)
from processors.models.combination.inside import InsideScale, LeftOut, hindsight_features, left_out
from processors.models.combination.inside import scales as scales_inside

GAP_MAX: Final = 2.0
LN_SCALE_MIN, LN_SCALE_MAX = -5.0, 1.0
# the most regular curves turn up without a sign: no scale is below this per doubling, up to so many
JUMP, JUMP_DOUBLINGS_MAX = 0.01, 3.0


class Scale(NamedTuple):
    """Coefficients of ln s, one per circumstance.

    >>> len(SCALE)
    8
    """

    constant: float
    distance: float
    spread: float
    own: float
    related: float
    sizes: float
    gap: float
    residual: float


# fitted to the same forecasts as the gate
SCALE: Final = Scale(-1.5249, 0.4173, 0.461, 0.0229, 0.1265, -0.2085, 0.4401, 0.2724)


class Circumstances(NamedTuple):
    """What is known of m forecasts before their runs come; arrays of shape (m,).

    Distance in doublings, spread of the laws in ln t, mean losses of the laws on this curve and on related curves, number of
    sizes, last gap in doublings, ln of the misfit inside the range.

    >>> Circumstances(*np.zeros((7, 1))).distance.tolist()
    [0.0]
    """

    distance: Floats
    spread: Floats
    own: Floats
    related: Floats
    sizes: Floats
    gap: Floats
    residual: Floats


def spread(distance: Floats, shares: Floats, elasticity: Floats) -> Floats:
    """Return the standard deviation of ln t over the laws: distance (m,), shares and elasticities (m, laws).

    >>> spread(np.array([1.0]), np.array([[0.5, 0.5]]), np.array([[-1.0, 1.0]])).round(6).tolist()
    [0.693147]
    """
    centre = (shares * elasticity).sum(axis=-1, keepdims=True)
    return np.asarray(distance * LN2 * np.sqrt((shares * (elasticity - centre) ** 2).sum(axis=-1)))


def features(given: Circumstances) -> Floats:
    """Return what the coefficients multiply, shape (m, 8).

    >>> features(Circumstances(*np.ones((7, 1)))).shape
    (1, 8)
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
    ]
    return np.stack(columns, axis=-1)


def scales(scale: Scale, given: Circumstances) -> Floats:
    """Return s of each forecast, shape (m,).

    >>> reference = Scale(-2.054, 0.369, 0.440, 0.128, 0.014, 0.272, 0.712, 0.212)
    >>> scales(reference, Circumstances(*np.ones((7, 1)))).round(2).tolist()
    [0.53]
    """
    ln_s = np.clip(features(given) @ np.array(scale), LN_SCALE_MIN, LN_SCALE_MAX)
    return np.asarray(np.exp(ln_s) + JUMP * np.minimum(given.distance, JUMP_DOUBLINGS_MAX))


STEP: Final = 0.3
STEP_MAX: Final = 0.5
SHORT_PREFIX_WEIGHT: Final = 0.3  # of forecasts from two sizes
SOFT_SQUARE: Final = 0.0009  # errors below .03 in log2 pull less


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The m forecasts of one curve.

    Indices of targets and of the prefixes' rows; distance in doublings; observed mean elasticity; elasticities and
    logits of the laws (m, laws); weight; own losses and those of related curves (m, laws); sizes, gap and residual for
    the scale; `ln_ratio` (m, runs) of the judged runs to the prefix's last time, nan where there are fewer. `inside`
    reports the inner sizes left out, `inside_error` (k - 2, runs) |ln error| of their judged runs.
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
    inside: LeftOut
    inside_error: Floats


class Scores(NamedTuple):
    """Runs that were forecast: distance in doublings, |ln error| in units of the scale, weight; arrays of shape (m,).

    >>> Scores(np.ones(1), np.ones(1), np.ones(1)).score.tolist()
    [1.0]
    """

    distance: Floats
    score: Floats
    weight: Floats


class Replayed(NamedTuple):
    """Offsets of the application after all rows, and the laws' shares in every row of every curve as they were then."""

    offsets: tuple[float, ...]
    shares: tuple[Floats, ...]


def rows(gate: Gate, found: Evidence, related_curves: Sequence[RelatedCurve]) -> Rows:
    """Return all forecasts of a curve; of its related curves each forecast knows as many sizes as of its own curve.

    >>> from processors.models.combination.evidence import GATE
    >>> from processors.models.combination.evidence import evidence
    >>> from processors.models.combination.evidence import Curve
    >>> rows(GATE, evidence(Curve("a", "s", (1.0, 2.0, 4.0), (4.0, 2.0, 1.0))), ()).target
    [2]
    """
    row, target = np.nonzero(np.tri(found.k - 1, found.k, 1) == 0)
    given = related_losses(related_curves, found.curve.key, found.curve.system, target)
    x, y = found.data.x, found.data.y
    runs, inner = _judged(found), left_out(found.data)
    distance = x[target] - x[row + 1]
    here, there = found.ln_fits[row, :, row + 1], found.ln_fits[row, :, target]
    return Rows(
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
        inside_error=np.abs(runs[1:-1] - (y[1:-1] + inner.error)[:, None]),
    )


def replay(curves: Sequence[Rows]) -> Replayed:
    """Learn the offsets of an application from the rows of all its curves, in an order that they alone decide.

    >>> replay([]).offsets
    (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
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
    return Replayed(tuple(offsets), tuple(shares))


def scores(scale: Scale, given: Rows, shares: Floats) -> Scores:
    """Return how far the judged runs were off, in units of the scale; the runs of a forecast share its weight.

    >>> from processors.models.combination.evidence import GATE, weights
    >>> from processors.models.combination.replay import SCALE
    >>> from processors.models.combination.evidence import evidence
    >>> from processors.models.combination.evidence import Curve
    >>> made = rows(GATE, evidence(Curve("a", "s", (1.0, 2.0, 4.0), (4.0, 2.0, 1.0))), ())
    >>> scores(SCALE, made, weights(made.logit)).distance.tolist()
    [1.0]
    """
    width = scales(scale, circumstances(given, shares))
    forecast = (shares * given.elasticity).sum(axis=1) * given.distance * LN2
    score = np.abs(given.ln_ratio - forecast[:, None]) / width[:, None]
    return _shared(given.distance, score, given.weight)


def inside_scores(scale: InsideScale, given: Rows) -> Scores:
    """Return how far the judged runs of inner sizes were off when these were left out, in units of the scale.

    >>> from processors.models.combination.evidence import GATE
    >>> from processors.models.combination.inside import INSIDE_SCALE
    >>> from processors.models.combination.evidence import evidence
    >>> from processors.models.combination.evidence import Curve
    >>> made = rows(GATE, evidence(Curve("a", "s", (1.0, 2.0, 4.0), (4.0, 2.0, 1.0))), ())
    >>> inside_scores(INSIDE_SCALE, made).distance.tolist()
    [0.0]
    """
    width = scales_inside(scale, hindsight_features(given.inside))
    here = np.zeros_like(width)
    return _shared(here, given.inside_error / width[:, None], here + 1.0)


def _shared(distance: Floats, score: Floats, weight: Floats) -> Scores:
    """Return one score per judged run; scores (m, runs) are nan where there are fewer."""
    judged = ~np.isnan(score)
    each = weight[:, None] / judged.sum(axis=1, keepdims=True) * judged
    return Scores(np.broadcast_to(distance[:, None], score.shape)[judged], score[judged], each[judged])


def circumstances(given: Rows, shares: Floats) -> Circumstances:
    """Return the circumstances of the forecasts of a curve.

    >>> from processors.models.combination.evidence import GATE, weights
    >>> from processors.models.combination.evidence import evidence
    >>> from processors.models.combination.evidence import Curve
    >>> made = rows(GATE, evidence(Curve("a", "s", (1.0, 2.0, 4.0), (4.0, 2.0, 1.0))), ())
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
    )


class _Plain(NamedTuple):
    """The rows of a curve as lists: one row at a time is faster without arrays."""

    logit: list[list[float]]
    elasticity: list[list[float]]
    distance: list[float]
    observed: list[float]
    weight: list[float]

    @classmethod
    def of(cls, given: Rows) -> "_Plain":
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


def _judged(found: Evidence) -> Floats:
    """Return ln of the judged runs of each size relative to the last size, nan where there are fewer, (k, runs)."""
    runs = [judged_runs(found.curve, i) for i in range(found.k)]
    width = max(map(len, runs))
    table = np.array([run + (math.nan,) * (width - len(run)) for run in runs])
    return np.asarray(np.log(table) - math.log(found.curve.median_s[-1]))


LEVEL: Final = 0.9
CELLS: Final = 64
SCORE_MIN, SCORE_MAX = 0.04, 64.0
DISTANCES: Final = np.array([0.5, 1.0, 2.0, 3.5])  # doublings, the centres of what is kept apart
DISTANCE_EDGES: Final = np.array([0.75, 1.5, 2.75])
UNIT: Final = 1024  # counts per unit of weight
REACH: Final = 1.5  # in log2 of the distance
SHIPPED_WEIGHT: Final = 20.0
WIDER: Final = np.array([1.2, 1.15, 1.5])  # shipped scores up to 2, up to 4 and beyond 4 times the largest size
WIDER_INSIDE: Final = 1.1
APPLICATION_WEIGHT: Final = 3.0  # of another application with many scores
APPLICATION_HALF: Final = 5.0  # with a total weight of this it has half of it
POOL_WEIGHT_MAX: Final = 60.0
OTHER_SYSTEM: Final = 0.5
_LN_STEP = np.log(SCORE_MAX / SCORE_MIN) / CELLS
_LN_EDGES = np.log(SCORE_MIN) + _LN_STEP * np.arange(1, CELLS + 1)

_ONLY_INSIDE = np.array([[0.0] * DISTANCES.size + [1.0]])  # what weighs in: none of the distances beyond

Counts = tuple[int, ...]
NO_SCORES: Final[Counts] = (0,) * ((DISTANCES.size + 1) * CELLS)


class SystemScores(NamedTuple):
    """Scores of an application on one system: counts by distance and score, the distances one after the other.

    Those inside the range come last.

    >>> SystemScores("archer2", NO_SCORES).system
    'archer2'
    """

    system: str
    counts: Counts


def tally(scores: Iterable[Scores]) -> Counts:
    """Return scores as counts.

    >>> one = Scores(np.array([1.0]), np.array([2.0]), np.array([0.5]))
    >>> sum(tally([one, one])), sum(tally([]))
    (1024, 0)
    """
    total = np.zeros(len(NO_SCORES), dtype=np.int64)
    for each in scores:
        cell = _cells(each.score)
        row = np.where(each.distance > 0.0, np.searchsorted(DISTANCE_EDGES, each.distance), DISTANCES.size)
        place = row * CELLS + cell
        counts = np.bincount(place, np.rint(each.weight * UNIT), minlength=len(NO_SCORES))
        total += counts.astype(np.int64)  # sums of whole numbers, exact in any order
    return tuple(total.tolist())


def share(application: Sequence[SystemScores]) -> Counts:
    """Return what an application adds to the pool of the centre: of many scores no more than APPLICATION_WEIGHT.

    Scores inside the range and beyond it have as much each.

    >>> sum(share([SystemScores("s", (5 * UNIT,) + NO_SCORES[1:])])) / UNIT
    1.5
    """
    total = np.zeros(len(NO_SCORES))
    for each in application:
        total += np.array(each.counts)
    parts = np.split(total, [DISTANCES.size * CELLS])
    given = [part * (APPLICATION_WEIGHT / (part.sum() / UNIT + APPLICATION_HALF)) for part in parts]
    return tuple(np.rint(np.concatenate(given)).astype(np.int64).tolist())


def pooled(shares: Iterable[Counts]) -> Counts:
    """Return the pool of a centre, the sum of what its applications add.

    >>> sum(pooled([(1,) + NO_SCORES[1:], (2,) + NO_SCORES[1:]]))
    3
    """
    total = np.zeros(len(NO_SCORES), dtype=np.int64)
    for each in shares:
        total += np.array(each, dtype=np.int64)
    return tuple(total.tolist())


def quantiles(
    distance: Floats,
    atoms: Sequence[Sequence[float]],
    system: str,
    own: Sequence[SystemScores],
    pool: Counts = NO_SCORES,
) -> Floats:
    """Return the score that holds 90 % of the runs at each distance (m,) in doublings, shape (m,).

    `atoms` are the shipped scores by distance, `own` those of the application, `pool` those of the whole centre; what the
    application itself added to the pool is taken out of it again.

    >>> shipped = [[1.0] * 20] * 3
    >>> quantiles(np.array([1.0]), shipped, "s", []).round(1).tolist()
    [1.3]
    """
    near = np.exp(-np.abs(np.log2(np.maximum(distance, 1e-3))[:, None] - np.log2(DISTANCES)) / REACH)
    near = np.pad(near, ((0, 0), (0, 1)))
    return _learned_quantile(near, _shipped(tuple(map(tuple, atoms)))[_horizon(distance)], system, own, pool)


def quantile_inside(
    atoms: Sequence[float], system: str, own: Sequence[SystemScores], pool: Counts = NO_SCORES
) -> float:
    """Return the score that holds 90 % of the runs inside the range of a curve.

    >>> round(quantile_inside([1.0] * 20, "s", []), 1)
    1.1
    """
    return float(_learned_quantile(_ONLY_INSIDE, _shipped_inside(tuple(atoms)), system, own, pool)[0])


def _learned_quantile(near: Floats, shipped: Floats, system: str, own: Sequence[SystemScores], pool: Counts) -> Floats:
    """Return the quantile of shipped scores (m, CELLS), own and pooled ones; `near` (m, rows) weighs the latter."""
    trusted = np.zeros((DISTANCES.size + 1, CELLS))
    for each in own:
        trusted += _grid(each.counts) * (1.0 if each.system == system else OTHER_SYSTEM)
    weight = near @ trusted + shipped
    if pool != NO_SCORES:
        others = near @ _of_others(pool, tuple(own))
        total = others.sum(axis=1, keepdims=True)
        weight += others * np.minimum(1.0, POOL_WEIGHT_MAX / np.maximum(total, 1e-9))
    return _quantile(weight)


@lru_cache(maxsize=64)
def _of_others(pool: Counts, own: tuple[SystemScores, ...]) -> Floats:
    """Return the pool without what an application added to it."""
    return _retained(np.maximum(_grid(pool) - _grid(share(own)), 0.0))


@lru_cache(maxsize=64)
def _grid(counts: Counts) -> Floats:
    return _retained(np.array(counts, dtype=np.float64).reshape(DISTANCES.size + 1, CELLS) / UNIT)


def _retained(found: Floats) -> Floats:
    """Return an array that a cache may keep."""
    found.flags.writeable = False
    return found


def _cells(score: Floats) -> NDArray[np.intp]:
    return np.searchsorted(_LN_EDGES[:-1], np.log(np.maximum(score, SCORE_MIN)), side="right")


def _horizon(distance: Floats) -> NDArray[np.intp]:
    return np.searchsorted(np.array([1.001, 2.001]), distance)


@lru_cache(maxsize=16)
def _shipped(atoms: tuple[tuple[float, ...], ...]) -> Floats:
    """Return the shipped scores on the grid, one row per horizon."""
    scores = np.array(atoms) * WIDER[:, None]
    cell = _cells(scores)
    weight = np.zeros((len(atoms), CELLS))
    np.add.at(weight, (np.arange(len(atoms))[:, None], cell), SHIPPED_WEIGHT / scores.shape[1])
    return _retained(weight)


@lru_cache(maxsize=16)
def _shipped_inside(atoms: tuple[float, ...]) -> Floats:
    """Return the shipped scores inside the range, shape (1, CELLS)."""
    scores = np.array(atoms) * WIDER_INSIDE
    counts = np.bincount(_cells(scores), minlength=CELLS).astype(np.float64)
    return _retained((counts * (SHIPPED_WEIGHT / scores.size))[None])


def _quantile(weight: Floats) -> Floats:
    """Return the score below which LEVEL of the weight of each row lies, linear in ln score within its cell."""
    reached = np.cumsum(weight, axis=1)
    wanted = LEVEL * reached[:, -1]
    cell = np.argmax(reached >= wanted[:, None], axis=1)
    rows = np.arange(cell.size)
    inside = weight[rows, cell]
    part = 1.0 - (reached[rows, cell] - wanted) / inside
    return np.asarray(SCORE_MIN * np.exp(_LN_STEP * (cell + part)))
