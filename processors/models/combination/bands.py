"""Bands that hold 90 % of the runs: a quantile of the scores of earlier forecasts, times the scale of this one.

Scores come from three places: those of the curves the agent was built with, those of the application itself, and those
of all other applications of the centre, for a new population may be rougher than the old one. The first are taken wider
than they were, most so far out, until the centre's own scores outweigh them. Near scores count most:
a score's weight falls with the difference of log2 of the distances (in doublings). Scores inside the range of a curve
are kept apart, and are told by their distance of 0.

Scores are kept as counts on a grid of score and distance. Counts are integers, so that adding and taking away in any
order gives the same bits.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from processors.models.combination.evidence import Floats
from processors.models.combination.replay import Scores

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
    told = [part * (APPLICATION_WEIGHT / (part.sum() / UNIT + APPLICATION_HALF)) for part in parts]
    return tuple(np.rint(np.concatenate(told)).astype(np.int64).tolist())


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
    return _kept(np.maximum(_grid(pool) - _grid(share(own)), 0.0))


@lru_cache(maxsize=64)
def _grid(counts: Counts) -> Floats:
    return _kept(np.array(counts, dtype=np.float64).reshape(DISTANCES.size + 1, CELLS) / UNIT)


def _kept(found: Floats) -> Floats:
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
    return _kept(weight)


@lru_cache(maxsize=16)
def _shipped_inside(atoms: tuple[float, ...]) -> Floats:
    """Return the shipped scores inside the range, shape (1, CELLS)."""
    scores = np.array(atoms) * WIDER_INSIDE
    counts = np.bincount(_cells(scores), minlength=CELLS).astype(np.float64)
    return _kept((counts * (SHIPPED_WEIGHT / scores.size))[None])


def _quantile(weight: Floats) -> Floats:
    """Return the score below which LEVEL of the weight of each row lies, linear in ln score within its cell."""
    reached = np.cumsum(weight, axis=1)
    wanted = LEVEL * reached[:, -1]
    cell = np.argmax(reached >= wanted[:, None], axis=1)
    rows = np.arange(cell.size)
    inside = weight[rows, cell]
    part = 1.0 - (reached[rows, cell] - wanted) / inside
    return np.asarray(SCORE_MIN * np.exp(_LN_STEP * (cell + part)))
