"""Scores of forecasts: how far runs were off, in units of the scale that was expected, with their sign.

Bands hold 90 % of the runs: two quantiles of the scores of earlier forecasts, times the scale of this one. A score keeps
its sign, for far out nearly all misses lie above: with one quantile of the size, the lower end was as far away as the
upper. Scores come from three places: those of the curves the agent was built with, those of the application itself, and
those of all other applications of the centre, for a new population may be rougher than the old one. The first are taken
wider than they were, most so far out, until the centre's own scores outweigh them. Near scores count most: a score's
weight falls with the difference of log2 of the distances (in doublings). Scores inside the range of a curve are kept
apart, and are known by their distance of 0. They are kept as counts on a grid of score and distance. Counts are integers,
so that adding and taking away in any order gives the same bits.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from processors.models.combination.evidence import OTHER_SYSTEM
from processors.models.numerics.arrays import Floats

DISTANCES: Final = np.array([0.5, 1.0, 2.0, 3.5])  # doublings, the centres of what is kept apart
_EDGES: Final = np.array([0.75, 1.5, 2.75])
_REACH: Final = 1.5  # in log2 of the distance
_LEAST: Final = 1e-3  # doublings


def place(distance: Floats) -> NDArray[np.intp]:
    """Return which of DISTANCES the records of distances (m,) in doublings belong to.

    >>> place(np.array([0.1, 1.0, 9.0])).tolist()
    [0, 1, 3]
    """
    return np.searchsorted(_EDGES, distance)


def nearness(distance: Floats) -> Floats:
    """Return what the records of each of DISTANCES weigh at distances (m,) in doublings, shape (m, 4).

    >>> nearness(np.array([1.0])).round(2).tolist()
    [[0.51, 1.0, 0.51, 0.3]]
    """
    return np.asarray(np.exp(-np.abs(np.log2(np.maximum(distance, _LEAST))[:, None] - np.log2(DISTANCES)) / _REACH))


class ForecastScores(NamedTuple):
    """Runs that were forecast: distance in doublings, ln(run / forecast) in units of the scale, weight; arrays (m,).

    >>> ForecastScores(np.ones(1), np.ones(1), np.ones(1)).score.tolist()
    [1.0]
    """

    distance: Floats
    score: Floats
    weight: Floats
    known_further: bool = False


OUTSIDE: Final = 0.05  # share of the runs beyond either end of a band
CELLS: Final = 64  # of one sign
SCORE_MIN, SCORE_MAX = 0.04, 64.0
UNIT: Final = 1024  # counts per unit of weight
SHIPPED_WEIGHT: Final = 20.0
WIDER: Final = np.array([1.2, 1.15, 1.5])  # shipped scores up to 2, up to 4 and beyond 4 times the largest size
WIDER_INSIDE: Final = 1.1
APPLICATION_WEIGHT: Final = 3.0  # of another application with many scores
APPLICATION_HALF: Final = 5.0  # with a total weight of this it has half of it
POOL_WEIGHT_MAX: Final = 60.0
SIGNED: Final = 2 * CELLS
_LN_STEP = np.log(SCORE_MAX / SCORE_MIN) / CELLS
_LN_EDGES = np.log(SCORE_MIN) + _LN_STEP * np.arange(1, CELLS + 1)

# rows of the grid: each distance for forecasts of the laws, then for those that related curves carry, then inside
_INSIDE = 2 * DISTANCES.size
_ROWS = _INSIDE + 1
_PLACES = np.arange(_ROWS)
_ONLY_INSIDE = np.eye(_ROWS)[_INSIDE:]

Counts = NDArray[np.int64]
"""How much weight there is in each cell, (cells,), in whole parts of UNIT; whoever holds one may keep it, for none is written to."""


def _retained(found: Any) -> Any:
    """Return an array that others may keep."""
    found.flags.writeable = False
    return found


NO_SCORES: Final[Counts] = _retained(np.zeros(_ROWS * SIGNED, dtype=np.int64))


class SystemScores(NamedTuple):
    """Scores of an application on one system: counts by distance and score, the distances one after the other.

    Those inside the range come last.

    >>> SystemScores("archer2", NO_SCORES).system
    'archer2'
    """

    system: str
    counts: Counts


class KnownScores(NamedTuple):
    """What scores of a curve rest on beside the shipped ones, as weights by row of the grid and score, (rows, cells).

    `own` are those of its application, `others` those of all others of the centre; None where the centre has none.
    """

    own: Floats
    others: Floats | None


class EndsRequest(NamedTuple):
    """Where scores of one curve are wanted.

    `near` (m, rows) weighs the rows of the grid, `shipped` (m, cells) are the scores that the agent was built with.
    """

    near: Floats
    shipped: Floats
    known: KnownScores


class Ends(NamedTuple):
    """The scores at the ends of bands, (m,): the lower ones are negative, the upper ones positive.

    `learned` is what share of them rests on scores of the centre that lie as far out.
    """

    lower: Floats
    upper: Floats
    learned: Floats


def tally(scores: Iterable[ForecastScores]) -> Counts:
    """Return scores as counts.

    >>> one = ForecastScores(np.array([1.0]), np.array([2.0]), np.array([0.5]))
    >>> int(tally([one, one]).sum()), int(tally([]).sum())
    (1024, 0)
    """
    total = np.zeros_like(NO_SCORES)
    for each in scores:
        beyond = place(each.distance) + DISTANCES.size * each.known_further
        row = np.where(each.distance > 0.0, beyond, _INSIDE)
        cell = row * SIGNED + _cells(each.score)
        counts = np.bincount(cell, np.rint(each.weight * UNIT), minlength=total.size)
        total += counts.astype(np.int64)  # sums of whole numbers, exact in any order
    return cast("Counts", _retained(total))


def share(application: Sequence[SystemScores]) -> Counts:
    """Return what an application adds to the pool of the centre: of many scores no more than APPLICATION_WEIGHT.

    Scores of forecasts by laws, of those that related curves carry, and of those inside the range have as much each.

    >>> float(share([SystemScores("s", tally([ForecastScores(np.ones(5), np.ones(5), np.ones(5))]))]).sum()) / UNIT
    1.5
    """
    total = pooled(each.counts for each in application)
    parts = np.split(total, [DISTANCES.size * SIGNED, _INSIDE * SIGNED])
    given = [part * (APPLICATION_WEIGHT / (part.sum() / UNIT + APPLICATION_HALF)) for part in parts]
    return cast("Counts", _retained(np.rint(np.concatenate(given)).astype(np.int64)))


def pooled(shares: Iterable[Counts]) -> Counts:
    """Return the sum of counts, such as the pool of a centre, which is the sum of what its applications add.

    >>> one = tally([ForecastScores(np.ones(1), np.ones(1), np.ones(1))])
    >>> int(pooled([one, one]).sum()) == 2 * UNIT
    True
    """
    total = np.zeros_like(NO_SCORES)
    for each in shares:
        total += each
    return cast("Counts", _retained(total))


def known(system: str, own: Sequence[SystemScores], pool: Counts, shared: Counts) -> KnownScores:
    """Return what is known for a curve of a system; `shared` is what its application added to the pool.

    >>> known("s", [], NO_SCORES, NO_SCORES).others is None
    True
    """
    trusted = np.zeros((_ROWS, SIGNED))
    for each in own:
        trusted += _grid(each.counts) * (1.0 if each.system == system else OTHER_SYSTEM)
    return KnownScores(trusted, _grid(np.maximum(pool - shared, 0)) if pool.any() else None)


def quantiles(
    distance: Floats,
    atoms: Sequence[Sequence[float]],
    system: str,
    own: Sequence[SystemScores],
    pool: Counts = NO_SCORES,
    *,
    known_further: bool = False,
) -> Ends:
    """Return the scores between which 90 % of the runs lie at each distance (m,) in doublings.

    `atoms` are the shipped scores by distance, `own` those of the application, `pool` those of the whole centre; what the
    application itself added to the pool is taken out of it again. `known_further` asks for those of forecasts that
    related curves carry: they miss to both sides alike, where laws are too fast.

    >>> shipped = [[-1.0] * 10 + [1.0] * 10] * 3
    >>> found = quantiles(np.array([1.0]), shipped, "s", [])
    >>> found.lower.round(1).tolist(), found.upper.round(1).tolist()
    ([-1.3], [1.3])
    """
    near, shipped = beyond(distance, atoms, known_further=known_further)
    return ends([EndsRequest(near, shipped, known(system, own, pool, share(own)))])[0]


def beyond(distance: Floats, atoms: Sequence[Sequence[float]], *, known_further: bool = False) -> tuple[Floats, Floats]:
    """Return what the rows of the grid weigh at distances (m,) in doublings, and the shipped scores there; see `EndsRequest`.

    >>> [part.shape for part in beyond(np.array([1.0]), [[-1.0] * 10 + [1.0] * 10] * 3)]
    [(1, 9), (1, 128)]
    """
    near = np.zeros((distance.size, _ROWS))
    before = DISTANCES.size * known_further
    near[:, before : before + DISTANCES.size] = nearness(distance)
    return near, _shipped(tuple(map(tuple, atoms)))[_horizon(distance)]


def quantiles_inside(
    atoms: Sequence[float], system: str, own: Sequence[SystemScores], pool: Counts = NO_SCORES
) -> tuple[float, float]:
    """Return the scores between which 90 % of the runs lie inside the range of a curve.

    >>> [round(end, 1) for end in quantiles_inside([-1.0] * 10 + [1.0] * 10, "s", [])]
    [-1.1, 1.1]
    """
    found = ends([inside(atoms, known(system, own, pool, share(own)))])[0]
    return float(found.lower[0]), float(found.upper[0])


def inside(atoms: Sequence[float], known: KnownScores) -> EndsRequest:
    """Return where scores inside the range of a curve lie; see `quantiles_inside`.

    >>> inside([-1.0] * 10 + [1.0] * 10, known("s", [], NO_SCORES, NO_SCORES)).near.sum()
    np.float64(1.0)
    """
    return EndsRequest(_ONLY_INSIDE, _shipped_inside(tuple(atoms)), known)


def ends(requested: Sequence[EndsRequest]) -> list[Ends]:
    """Return the ends of bands by shipped scores, own and pooled ones, for many curves at once; each as if it were alone.

    >>> nothing = known("s", [], NO_SCORES, NO_SCORES)
    >>> [round(float(end[0]), 1) for end in ends([inside([-1.0] * 10 + [1.0] * 10, nothing)] * 2)[1][:2]]
    [-1.1, 1.1]
    """
    weights = [_weights(each) for each in requested]
    weight = np.concatenate([each for each, _ in weights])
    lower, upper = np.minimum(_quantile(weight, OUTSIDE), 0.0), np.maximum(_quantile(weight, 1.0 - OUTSIDE), 0.0)
    places = np.cumsum([0, *(each.near.shape[0] for each in requested)]).tolist()
    return [
        Ends(lower[first:last], upper[first:last], learned)
        for first, last, (_, learned) in zip(places[:-1], places[1:], weights, strict=True)
    ]


def _weights(requested: EndsRequest) -> tuple[Floats, Floats]:
    """Return what the cells of the grid weigh, (m, cells), and how much of it is learned; see `_as_far`."""
    near, own, others = requested.near, *requested.known
    weight = _product(near, own) + requested.shipped
    learned = own.sum(axis=1)
    if others is not None:
        added = _product(near, others)
        total = added.sum(axis=1, keepdims=True)
        weight += added * np.minimum(1.0, POOL_WEIGHT_MAX / np.maximum(total, 1e-9))
        learned += others.sum(axis=1)
    return weight, _as_far(near, learned)


def _product(near: Floats, grid: Floats) -> Floats:
    """Return the product of matrices, each row as among any others: a single one would be summed in another order."""
    return near @ grid if near.shape[0] > 1 else (np.repeat(near, 2, axis=0) @ grid)[:1]


def _as_far(near: Floats, known: Floats) -> Floats:
    """Return what share of what is known of a distance (m,) are scores of the centre that lie as far out."""
    farther = np.argmax(near, axis=1)[:, None] <= _PLACES
    weight = (near * farther * known).sum(axis=1)
    return np.asarray(weight / (weight + SHIPPED_WEIGHT))


def _grid(counts: Counts) -> Floats:
    return counts.reshape(_ROWS, SIGNED) / UNIT


def _cells(score: Floats) -> NDArray[np.intp]:
    """Return the place of scores on the grid, which rises with the score: half of its cells are below 0."""
    size = np.searchsorted(_LN_EDGES[:-1], np.log(np.maximum(np.abs(score), SCORE_MIN)), side="right")
    return np.where(score < 0.0, CELLS - 1 - size, CELLS + size)


def _horizon(distance: Floats) -> NDArray[np.intp]:
    return np.searchsorted(np.array([1.001, 2.001]), distance)


@lru_cache(maxsize=16)
def _shipped(atoms: tuple[tuple[float, ...], ...]) -> Floats:
    """Return the shipped scores on the grid, one row per horizon."""
    scores = np.array(atoms) * WIDER[:, None]
    weight = np.zeros((len(atoms), SIGNED))
    np.add.at(weight, (np.arange(len(atoms))[:, None], _cells(scores)), SHIPPED_WEIGHT / scores.shape[1])
    return cast("Floats", _retained(weight))


@lru_cache(maxsize=16)
def _shipped_inside(atoms: tuple[float, ...]) -> Floats:
    """Return the shipped scores inside the range, shape (1, cells)."""
    scores = np.array(atoms) * WIDER_INSIDE
    counts = np.bincount(_cells(scores), minlength=SIGNED).astype(np.float64)
    return cast("Floats", _retained((counts * (SHIPPED_WEIGHT / scores.size))[None]))


def mixed(alone: Ends, carried: Ends, share: Floats) -> Ends:
    """Return the ends of forecasts that related curves carry by a share, (m,).

    >>> one, two = (Ends(np.array([-end]), np.array([end]), np.zeros(1)) for end in (1.0, 2.0))
    >>> mixed(one, two, np.array([0.5])).upper.tolist()
    [1.5]
    """
    return Ends(*(first + share * (second - first) for first, second in zip(alone, carried, strict=True)))


def _quantile(weight: Floats, level: float) -> Floats:
    """Return the score below which `level` of the weight of each row lies, linear in ln of its size within its cell."""
    reached = np.cumsum(weight, axis=1)
    wanted = level * reached[:, -1]
    cell = np.argmax(reached >= wanted[:, None], axis=1)
    rows = np.arange(cell.size)
    part = 1.0 - (reached[rows, cell] - wanted) / weight[rows, cell]
    above = cell >= CELLS
    steps = np.where(above, cell - CELLS + part, CELLS - cell - part)
    return np.asarray(np.where(above, 1.0, -1.0) * SCORE_MIN * np.exp(_LN_STEP * steps))
