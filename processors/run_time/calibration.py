"""Calibration of published bands by the signed scores of an application and of the whole centre, by horizon.

Each side of a band has a factor: the .05 or the .95 conformal quantile of the signed scores of one horizon. The factor is shrunk
towards the centre's factor of that horizon, and the centre's factor towards 1, by the number of scores. Repeats of a size calibrate
only that size's own band; the factors of a size with few runs are shrunk towards the factors of the other sizes.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import ClassVar, Final, NamedTuple

import msgspec

from processors.facts import COVERAGE_RUNS_MIN, Measured, measured
from processors.run_time.quality import COVERAGE, OWN, ROWS, Score, by_row
from processors.store import PlainProcessor

SIDE: Final = (1.0 + COVERAGE) / 2.0  # share of the runs below the upper end; the same share lies above the lower end
OWN_RANGE: Final = (0.5, 20.0)  # limits of the factors of a size with runs of its own
# Limits of the factors of all other sizes: their bands are only widened. On measured curves run in a shuffled order the next size
# fell into three quarters of its band; bands narrowed by that factor held 85 % instead of 90 % of the runs beyond the four smallest
# sizes.
HORIZON_RANGE: Final = (1.0, 8.0)
OWN_SCORES_MAX: Final = 40  # newest scores of one size; older ones may belong to another level

# Number of a size's own scores that weigh as much as the prior. Beyond the data and between sizes a size counts once, because its
# repeats share one forecast.
PRIOR_OWN: Final = 10.0
PRIOR_HORIZON: Final = 8.0
PRIOR_CENTRE: Final = 20.0
PRIOR_COVERAGE: Final = 20.0

# The pool is a grid of integer counts, so that the share of an application can be subtracted exactly.
MAGNITUDES: Final = 24
MAGNITUDE_MIN, MAGNITUDE_MAX = 0.05, 20.0
CELLS: Final = 2 * MAGNITUDES
INSIDE: Final = CELLS  # index of the count of runs inside their bands, which follows the cells of a row
STRIDE: Final = CELLS + 1
UNIT: Final = 1024  # counts per unit of weight
APPLICATION_WEIGHT: Final = 3.0  # weight of an application with many scores at a horizon
APPLICATION_HALF: Final = 5.0  # number of scores that gives half of APPLICATION_WEIGHT
_LN_STEP: Final = math.log(MAGNITUDE_MAX / MAGNITUDE_MIN) / MAGNITUDES


class Sides(NamedTuple):
    """The factors by which the lower and the upper side of a band are widened."""

    lower: float
    upper: float


Counts = dict[int, int]  # counts by cell; missing cells are 0
NO_COUNTS: Final[Counts] = {}
Weighed = list[tuple[Score, float]]
AS_THEY_ARE: Final = Sides(1.0, 1.0)


def share(scores: Sequence[Score]) -> Counts:
    """Return the counts that an application adds to the centre's pool.

    In each horizon they weigh at most APPLICATION_WEIGHT runs.
    """
    counts: Counts = {}
    for row, horizon_scores in enumerate(by_row(scores)):
        weighed = _by_size(horizon_scores)
        total = sum(weight for _, weight in weighed)
        unit = UNIT * APPLICATION_WEIGHT / (total + APPLICATION_HALF)
        for score, weight in weighed:
            for cell in (row * STRIDE + _cell(score.signed), *((row * STRIDE + INSIDE,) if score.inside else ())):
                counts[cell] = counts.get(cell, 0) + round(weight * unit)
    return counts


def _by_size(scores: Sequence[Score]) -> Weighed:
    """Return each score with its weight: one divided by the number of scores of its size, so that every size weighs the same."""
    runs: dict[float, int] = {}
    for score in scores:
        runs[score.n] = runs.get(score.n, 0) + 1
    return [(score, 1.0 / runs[score.n]) for score in scores]


@lru_cache(maxsize=4096)  # scores have four decimals, and every refit requests them again
def _cell(signed: float) -> int:
    ln_magnitude = math.log(max(abs(signed), MAGNITUDE_MIN) / MAGNITUDE_MIN)
    magnitude = min(int(ln_magnitude / _LN_STEP), MAGNITUDES - 1)
    return MAGNITUDES + magnitude if signed >= 0.0 else MAGNITUDES - 1 - magnitude


class BandPool(PlainProcessor, omit_defaults=True):
    """Counts of the signed scores of published bands, from all applications of the centre, by horizon."""

    name: ClassVar[str] = "band_pool"
    version: ClassVar[int] = 1

    counts: Counts = msgspec.field(default_factory=dict)

    def score(self, fact: tuple[Counts, Counts]) -> bool:
        return fact[0] != fact[1]

    def learn(self, fact: tuple[Counts, Counts]) -> None:
        """Replace the counts of one application; `fact` has its old and its new counts."""
        self.counts = combined(self.counts, fact[1], without=fact[0])


def combined(counts: Counts, added: Counts, *, without: Counts = NO_COUNTS) -> Counts:
    """Return `counts` plus `added` minus `without`, in the order of cells and without empty cells."""
    total = dict(counts)
    for cell, count in added.items():
        total[cell] = total.get(cell, 0) + count
    for cell, count in without.items():
        total[cell] = total.get(cell, 0) - count
    return {cell: count for cell, count in sorted(total.items()) if count > 0}


class Calibration:
    """Computes the factors that widen the bands of one application, from its scores and from the centre's.

    `left_out` are sizes off the curve, whose scores do not count for other sizes. `centre` holds the counts of all applications,
    `own` the part of `centre` that came from this application, which is subtracted.
    """

    def __init__(
        self, scores: Sequence[Score], left_out: frozenset[float], centre: Counts, own: Counts = NO_COUNTS
    ) -> None:
        self._rows = by_row(scores)
        self._centre = _cells_of(centre, own)
        self._weighed = [_by_size([score for score in found if score.n not in left_out]) for found in self._rows]
        weighed = [_scattered(self._weighed[OWN]), *self._weighed[OWN + 1 :]]
        self._own: dict[float, list[float]] = {}  # signed scores of the runs of each size, newest last
        for score in self._rows[OWN]:
            self._own.setdefault(score.n, []).append(score.signed)
        self._horizons = [
            self._sides(row, each, centre_sides(self._centre[row], row)) for row, each in enumerate(weighed)
        ]

    def sides(self, row: int, n: float) -> Sides:
        """Return the factors by which the sides of the band at size `n` are widened; `row` is the index of the horizon in ROWS."""
        if row != OWN:
            return self._horizons[row]
        signed = sorted(self._own.get(n, ())[-OWN_SCORES_MAX:])
        if not signed:
            return self._horizons[OWN]
        rank = min(math.ceil(SIDE * (len(signed) + 1) - NEAR), len(signed)) - 1  # equals `quantile` of runs of weight 1
        ends = -signed[-1 - rank], signed[rank]
        return _drawn_to(self._horizons[OWN], OWN, ends, len(signed))

    def measured(self, row: int) -> Measured | None:
        """Return the share of runs inside their bands, and the number of scored runs; None before there are enough runs.

        The share is shrunk towards the centre's share, and the centre's share towards the nominal coverage of bands.
        """
        runs = len(self._rows[row])
        if runs < COVERAGE_RUNS_MIN:
            return None
        weighed = _by_size(self._rows[row])
        if row == OWN:
            weighed = [(score, 1.0) for score, _ in weighed]
        pooled, inside = sum(self._centre[row][:CELLS]) / UNIT, self._centre[row][INSIDE] / UNIT
        usual = (inside + PRIOR_COVERAGE * COVERAGE) / (pooled + PRIOR_COVERAGE)
        total = sum(weight for _, weight in weighed)
        held = sum(weight for score, weight in weighed if score.inside)
        return measured((held + PRIOR_COVERAGE * usual) / (total + PRIOR_COVERAGE), runs)

    def _sides(self, row: int, weighed: Weighed, usual: Sides) -> Sides:
        if not weighed:
            return usual
        return _drawn_to(usual, row, _ends(weighed), sum(weight for _, weight in weighed))


def _drawn_to(usual: Sides, row: int, ends: tuple[float, float], weight: float) -> Sides:
    """Return the factors of a band: the quantiles `ends` of its scores, shrunk towards the factors `usual`.

    `weight` is the total weight of the scores: the larger it is, the less the factors are shrunk.
    """
    prior, (below, above) = PRIOR_OWN if row == OWN else PRIOR_HORIZON, ends
    return Sides(
        _drawn(_within(row, below), weight, usual.lower, prior), _drawn(_within(row, above), weight, usual.upper, prior)
    )


NEAR: Final = 1e-9  # rounding error of a weight, which is a sum of shares
MOVED_RUNS: Final = 3  # successive misses that show that a size has moved


def _scattered(weighed: Weighed) -> Weighed:
    """Return the scores of sizes with runs of their own, without MOVED_RUNS or more successive misses on the same side.

    Such a streak shows a change in the run time of the size, not the scatter of its runs: one size that was slow for a while
    widened the bands of all other sizes fourfold.
    """
    by_size: dict[float, list[Score]] = {}
    for score, _ in weighed:
        by_size.setdefault(score.n, []).append(score)
    scattered: Weighed = []
    for scores in by_size.values():
        for missed, streak in groupby(scores, key=_missed):
            alike = list(streak)
            scattered += [(score, 1.0) for score in alike if not missed or len(alike) < MOVED_RUNS]
    return scattered


def _missed(score: Score) -> int:
    """Return the position of a run relative to the uncalibrated band: -1 below the band, 1 above, 0 inside."""
    return 0 if score.distance <= 1.0 else 1 if score.signed > 0.0 else -1


def _ends(weighed: Weighed) -> tuple[float, float]:
    """Return the SIDE quantiles of the scores on the lower and on the upper side."""
    above = sorted([(score.signed, weight) for score, weight in weighed])
    return quantile([(-signed, weight) for signed, weight in reversed(above)]), quantile(above)


def _within(row: int, factor: float) -> float:
    least, most = OWN_RANGE if row == OWN else HORIZON_RANGE
    return min(max(factor, least), most)


def quantile(scores: Sequence[tuple[float, float]]) -> float:
    """Return the conformal SIDE quantile of weighted scores on one side.

    For a total weight w, the quantile is the smallest score up to which the weight exceeds SIDE (w + 1). Few scores give the
    largest score.
    """
    weight_wanted = SIDE * (sum(weight for _, weight in scores) + 1.0)
    reached, reached_score = 0.0, 0.0
    for score, weight in sorted(scores):
        reached_score, reached = score, reached + weight
        if reached >= weight_wanted - NEAR:
            break
    return reached_score


def _drawn(factor: float, weight: float, to: float, prior: float) -> float:
    return math.exp((weight * math.log(factor) + prior * math.log(to)) / (weight + prior))


def _cells_of(counts: Counts, subtracted: Counts) -> list[list[int]]:
    """Return `counts` minus `subtracted`, with all STRIDE cells of each row as a list."""
    cells = [0] * (STRIDE * len(ROWS))
    for cell, count in counts.items():
        cells[cell] = count
    for cell, count in subtracted.items():
        cells[cell] = max(cells[cell] - count, 0)
    return [cells[first : first + STRIDE] for first in range(0, len(cells), STRIDE)]


def centre_sides(cells: Sequence[int], row: int) -> Sides:
    """Return the factors of one horizon by the scores of the centre, shrunk towards 1."""
    total = sum(cells[:CELLS])
    if not total:
        return AS_THEY_ARE
    below, above = cells[:MAGNITUDES][::-1], cells[MAGNITUDES:CELLS]
    return Sides(
        *(_drawn(_within(row, _grid_quantile(side, total)), total / UNIT, 1.0, PRIOR_CENTRE) for side in (below, above))
    )


def _grid_quantile(side: Sequence[int], total: int) -> float:
    """Return the magnitude that only a share of 1 - SIDE of all scores exceeds on one side, interpolated within its cell.

    `side` has the counts of this side by magnitude, `total` is the number of all scores.
    """
    left = (1.0 - SIDE) * total
    for magnitude in reversed(range(MAGNITUDES)):
        if side[magnitude] >= left:
            part = 1.0 - left / side[magnitude] if side[magnitude] else 0.0
            return MAGNITUDE_MIN * math.exp(_LN_STEP * (magnitude + part))
        left -= side[magnitude]
    return 0.0
