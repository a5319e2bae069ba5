"""How far to believe each size that was run: in line with the others, apart from them, or doubted."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from processors.models.adept.study import Study
from processors.models.aggregates.sizes import REPEATS_MIN, LevelTable
from processors.models.numerics.statistics import Z95

CONFIRMED_RUNS: Final = 3
ALONE_SHARE_MAX: Final = 0.25  # of the sizes; if more move alone, the curve itself has changed
SCATTER_MAX: Final = 0.3  # of ln T; runs that scatter more are of several kinds, and no normal law gives their band


class ObservedSizes(NamedTuple):
    """How far to believe the sizes that were run.

    `apart` are sizes with many runs off the curve of the others, with their times in s: the curve passes them by, and an answer at that
    size gives the observed time. They were slow from their first run, or became slow or fast while the others stayed. `excluded` sizes
    are out of line and have few runs: the study ignores them, and the combination fits them at a time between observation and
    expectation, because dropping them cost more than it saved. `weighed` has the times in s at which the combination fits sizes of both
    kinds. `scatter` is the half-width in ln T that holds nine of ten repeats, by size with many runs; empty with too few repeats to
    know, or with runs of several kinds.
    """

    apart: Mapping[float, float]
    excluded: frozenset[float]
    scatter: Mapping[float, float]
    weighed: Mapping[float, float] = MappingProxyType({})

    @property
    def out_of_line(self) -> frozenset[float]:
        """The sizes that say nothing of the others."""
        return frozenset({*self.apart, *self.excluded})


def observed_sizes(
    study: Study, weights: Mapping[float, float], table: LevelTable, unmerged: Mapping[float, int]
) -> ObservedSizes:
    """Return how far to believe each size of a study; `weights` is the number of runs that each size counts for.

    `unmerged` counts the runs that are in no table yet, without outliers. Runs of an earlier level weigh little; a size with many of
    them still counts as run often.
    """
    runs = table.counts()
    runs.update(unmerged)
    often = {n for n in study.n.tolist() if max(weights.get(n, 0.0), runs[n]) >= CONFIRMED_RUNS}
    repeats = sum(max(weight - 1.0, 0.0) for weight in weights.values())
    measured = often if repeats >= REPEATS_MIN and study.noise <= SCATTER_MAX else set()
    times_s = dict(zip(study.n.tolist(), study.run_time_s.tolist(), strict=True))
    moved = _moved_alone(table, study.n.tolist())
    confirmed = [size for size in study.anomalies if size.n in often]
    doubted = [size for size in study.anomalies if size.n not in often]
    return ObservedSizes(
        {size.n: size.observed_s for size in confirmed} | {n: times_s[n] for n in moved},
        frozenset(size.n for size in doubted),
        {n: Z95 * study.noise * math.sqrt(1.0 + 1.0 / weights[n]) for n in sorted(measured) if weights.get(n)},
        # runs are slowed by accident, and hardly ever sped up: only a slow size bends no neighbour
        {size.n: size.expected_s for size in confirmed if size.direction == "slow"}
        | {
            size.n: size.expected_s * (size.observed_s / size.expected_s) ** _share_confirmed(weights.get(size.n, 0.0))
            for size in doubted
        }
        | {n: times_s[n] / math.exp(ln_factor) for n, ln_factor in moved.items()},
    )


def _moved_alone(table: LevelTable, sizes: Sequence[float]) -> dict[float, float]:
    """Return the inner sizes that moved alone, with ln of the factor; empty if too many moved to be exceptions.

    The smallest and the largest size determine the forecast beyond them, whatever moved them.
    """
    moved = {n: ln_factor for n, ln_factor in table.moved_alone().items() if n in sizes[1:-1]}
    return moved if len(moved) <= max(1, int(ALONE_SHARE_MAX * len(sizes))) else {}


def _share_confirmed(runs: float) -> float:
    """Return how much of its deviation to believe of a size out of line, by its number of runs: four fifths for one run.

    On measured curves believing all costs less than believing half: .18 against .30 in ln T far out.
    """
    return runs / (runs + 0.25)
