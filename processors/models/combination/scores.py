"""Scores of forecasts: ln of observed over forecast run time in units of the expected scale.

A band holds 90 % of the runs: it lies between two quantiles of the scores of earlier forecasts, times the scale of the new
forecast. A score keeps its sign, because nearly all misses far beyond the data lie above the forecast: a quantile of the
absolute score would put the lower end as far away as the upper end. Scores come from three sources: the curves that the agent
ships with, the application itself, and all other applications of the centre, because a new population may be rougher than the
old one. The shipped scores are widened, most of all far out, until the scores of the centre outweigh them. Near scores count
most: the weight of a score falls with the difference of log2 of the distances (in doublings). Scores inside the range of a
curve are kept apart and have the distance 0. All scores are kept as counts on a grid of score and distance. Counts are
integers, so that adding and subtracting in any order gives the same bits.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from processors.models.combination.evidence import OTHER_SYSTEM
from processors.models.numerics.arrays import Floats, read_only

DISTANCES: Final = np.array([0.5, 1.0, 2.0, 3.5])  # doublings: centres of the classes of distance
_EDGES: Final = np.array([0.75, 1.5, 2.75])
_REACH: Final = 1.5  # in log2 of the distance
_LEAST: Final = 1e-3  # doublings


def place(distance: Floats) -> NDArray[np.intp]:
    """Return the index of the class in DISTANCES that each distance (m,), in doublings, belongs to."""
    return np.searchsorted(_EDGES, distance)


def nearness(distance: Floats) -> Floats:
    """Return how much scores of each class in DISTANCES count for forecasts at distances (m,) in doublings: weights up to 1, (m, 4).

    >>> nearness(np.array([1.0])).round(2).tolist()
    [[0.51, 1.0, 0.51, 0.3]]
    """
    return np.asarray(np.exp(-np.abs(np.log2(np.maximum(distance, _LEAST))[:, None] - np.log2(DISTANCES)) / _REACH))


class ForecastScores(NamedTuple):
    """Scored runs: distance in doublings, ln(run / forecast) in units of the scale, weight; arrays (m,)."""

    distance: Floats
    score: Floats
    weight: Floats
    known_further: bool = False


OUTSIDE: Final = 0.05  # share of the runs beyond each end of a band
CELLS: Final = 64  # for one sign of the score
SCORE_MIN, SCORE_MAX = 0.04, 64.0
UNIT: Final = 1024  # counts per unit of weight
SHIPPED_WEIGHT: Final = 20.0
# factors of the shipped scores up to 2, up to 4 and beyond 4 times the largest size
WIDER: Final = (1.2, 1.15, 1.5)
WIDER_INSIDE: Final = (1.1,)
APPLICATION_WEIGHT: Final = 3.0  # weight of an application with many scores in the pool
APPLICATION_HALF: Final = 5.0  # total weight of scores that gives half of APPLICATION_WEIGHT
POOL_WEIGHT_MAX: Final = 60.0
SIGNED: Final = 2 * CELLS
_LN_STEP = np.log(SCORE_MAX / SCORE_MIN) / CELLS
_LN_EDGES = np.log(SCORE_MIN) + _LN_STEP * np.arange(1, CELLS + 1)

# rows of the grid: each distance for forecasts by laws, each distance for forecasts by related curves, then inside
_INSIDE = 2 * DISTANCES.size
_ROWS = _INSIDE + 1
_ONLY_INSIDE = np.eye(_ROWS)[_INSIDE:]

Counts = NDArray[np.int64]
"""The weight in each cell, (cells,), in whole parts of UNIT; the array is read-only, so that several objects may share it."""


NO_SCORES: Final[Counts] = read_only(np.zeros(_ROWS * SIGNED, dtype=np.int64))


class SystemScores(NamedTuple):
    """The scores of an application on one system, as counts on the grid of `Counts`, one row of cells after the other."""

    system: str
    counts: Counts


class KnownScores(NamedTuple):
    """The weights of earlier scores that the bands of a curve use, on the grid (rows, cells).

    `own` are the scores of the curve's application, less weighted if from another system; `others` those of all other applications
    of the centre, None if the centre has none.
    """

    own: Floats
    others: Floats | None


class EndsRequest(NamedTuple):
    """A request for the band ends of m forecasts of one curve.

    `near` (m, rows) says how much each row of the grid counts for each forecast; `shipped` (m, cells) are the scores that the agent
    ships with.
    """

    near: Floats
    shipped: Floats
    known: KnownScores


class Ends(NamedTuple):
    """The scores at the ends of m bands: `lower` is negative or 0, `upper` positive or 0.

    `shipped` is the share of the weight that comes from the scores that the agent ships with.
    """

    lower: Floats
    upper: Floats
    shipped: Floats


def tally(scores: Iterable[ForecastScores]) -> Counts:
    """Return the sum of the weights of all scores in each cell of the grid.

    >>> half = ForecastScores(np.array([1.0]), np.array([2.0]), np.array([0.5]))
    >>> int(tally([half, half]).sum()), int(tally([]).sum())
    (1024, 0)
    """
    total = np.zeros_like(NO_SCORES)
    for forecasts in scores:
        beyond_row = place(forecasts.distance) + DISTANCES.size * forecasts.known_further
        row = np.where(forecasts.distance > 0.0, beyond_row, _INSIDE)
        cell = row * SIGNED + _cells(forecasts.score)
        counts = np.bincount(cell, np.rint(forecasts.weight * UNIT), minlength=total.size)
        total += counts.astype(np.int64)  # sums of whole numbers, exact in any order
    return read_only(total)


def share(application: Sequence[SystemScores]) -> Counts:
    """Return the counts that an application adds to the pool of the centre.

    The weight of each of three parts (forecasts by laws, forecasts by related curves, inside the observed range) is limited to
    APPLICATION_WEIGHT.
    """
    total = pooled(each.counts for each in application)
    parts = np.split(total, [DISTANCES.size * SIGNED, _INSIDE * SIGNED])
    limited = [part * (APPLICATION_WEIGHT / (part.sum() / UNIT + APPLICATION_HALF)) for part in parts]
    return read_only(np.rint(np.concatenate(limited)).astype(np.int64))


def pooled(shares: Iterable[Counts]) -> Counts:
    """Return the sum of `shares` in each cell; for all applications of a centre, the sum is the pool of the centre."""
    total = np.zeros_like(NO_SCORES)
    for each in shares:
        total += each
    return read_only(total)


def known(system: str, own: Sequence[SystemScores], pool: Counts, shared: Counts) -> KnownScores:
    """Return the scores that the bands of a curve on `system` use; `shared` is what the curve's application has added to `pool`."""
    trusted = np.zeros((_ROWS, SIGNED))
    for each in own:
        trusted += _grid(each.counts) * (1.0 if each.system == system else OTHER_SYSTEM)
    return KnownScores(trusted, _grid(np.maximum(pool - shared, 0)) if pool.any() else None)


def beyond(distance: Floats, atoms: Sequence[Sequence[float]], *, known_further: bool = False) -> tuple[Floats, Floats]:
    """Return how much each row of the grid counts at distances (m,) in doublings, (m, rows), and the shipped scores there, (m, cells).

    With `known_further` the rows are those of forecasts by related curves, which err equally to both sides; forecasts by laws are
    mostly too short.
    """
    near = np.zeros((distance.size, _ROWS))
    before = DISTANCES.size * known_further
    near[:, before : before + DISTANCES.size] = nearness(distance)
    return near, _shipped(tuple(map(tuple, atoms)), WIDER)[_horizon(distance)]


def inside(atoms: Sequence[float], known: KnownScores) -> EndsRequest:
    """Return the request for one band inside the observed range of a curve; `atoms` are quantiles of the shipped scores."""
    return EndsRequest(_ONLY_INSIDE, _shipped((tuple(atoms),), WIDER_INSIDE), known)


def ends(requested: Sequence[EndsRequest]) -> list[Ends]:
    """Return the band ends for each request; a result does not depend on the other requests.

    >>> unknown = known("s", [], NO_SCORES, NO_SCORES)
    >>> [round(float(end[0]), 1) for end in ends([inside([-1.0] * 10 + [1.0] * 10, unknown)] * 2)[1]]
    [-1.1, 1.1, 1.0]
    """
    weight = np.concatenate([_weights(each) for each in requested])
    lower, upper = np.minimum(_quantile(weight, OUTSIDE), 0.0), np.maximum(_quantile(weight, 1.0 - OUTSIDE), 0.0)
    places = np.cumsum([0, *(each.near.shape[0] for each in requested)]).tolist()
    shipped = SHIPPED_WEIGHT / weight.sum(axis=1)
    return [Ends(*(column[first:last] for column in (lower, upper, shipped))) for first, last in pairwise(places)]


def _weights(requested: EndsRequest) -> Floats:
    """Return the weight of each cell, (m, cells), from own, other and shipped scores."""
    near, own, pool = requested.near, *requested.known
    weight = _product(near, own) + requested.shipped
    if pool is not None:
        added = _product(near, pool)
        total = added.sum(axis=1, keepdims=True)
        weight += added * np.minimum(1.0, POOL_WEIGHT_MAX / np.maximum(total, 1e-9))
    return weight


def _product(near: Floats, grid: Floats) -> Floats:
    """Return near @ grid; a single row is computed as two rows, because numpy sums a lone row in another order."""
    return near @ grid if near.shape[0] > 1 else (np.repeat(near, 2, axis=0) @ grid)[:1]


def _grid(counts: Counts) -> Floats:
    return counts.reshape(_ROWS, SIGNED) / UNIT


def _cells(score: Floats) -> NDArray[np.intp]:
    """Return the index of the cell of each score on the grid. Indices rise with the score; the first half is for scores below 0."""
    size = np.searchsorted(_LN_EDGES[:-1], np.log(np.maximum(np.abs(score), SCORE_MIN)), side="right")
    return np.where(score < 0.0, CELLS - 1 - size, CELLS + size)


def _horizon(distance: Floats) -> NDArray[np.intp]:
    return np.searchsorted(np.array([1.001, 2.001]), distance)


@lru_cache(maxsize=16)
def _shipped(atoms: tuple[tuple[float, ...], ...], wider: tuple[float, ...]) -> Floats:
    """Return the shipped scores as weights of cells, one row for each row of `atoms`, which is multiplied by its factor in `wider`."""
    scores = np.array(atoms) * np.array(wider)[:, None]
    weight = np.zeros((len(atoms), SIGNED))
    np.add.at(weight, (np.arange(len(atoms))[:, None], _cells(scores)), SHIPPED_WEIGHT / scores.shape[1])
    return read_only(weight)


def _quantile(weight: Floats, level: float) -> Floats:
    """Return the score below which the share `level` of the weight lies, by row, (m,); interpolated in ln |score| within a cell."""
    reached = np.cumsum(weight, axis=1)
    target = level * reached[:, -1]
    cell = np.argmax(reached >= target[:, None], axis=1)
    rows = np.arange(cell.size)
    part = 1.0 - (reached[rows, cell] - target) / weight[rows, cell]
    above = cell >= CELLS
    steps = np.where(above, cell - CELLS + part, CELLS - cell - part)
    return np.asarray(np.where(above, 1.0, -1.0) * SCORE_MIN * np.exp(_LN_STEP * steps))
