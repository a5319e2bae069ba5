"""The trust in the run times of each size: the size agrees with the other sizes, differs from them, or is doubtful."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from processors.models.adept.study import Study
from processors.models.aggregates.sizes import REPEATS_MIN, AggregatedSizes, LevelTable
from processors.models.numerics.statistics import Z95

CONFIRMED_RUNS: Final = 3
ALONE_SHARE_MAX: Final = 0.25  # share of the sizes; if more sizes move alone, the curve itself has changed
SCATTER_MAX: Final = 0.3  # in ln T; runs that scatter more are of several kinds, and not normally distributed


class ObservedSizes(NamedTuple):
    """The trust in the run times of each size.

    `apart` holds sizes with many runs off the curve of the other sizes, with their times in s. The curve does not follow these
    sizes, and an answer at such a size gives the observed time. These sizes were slow from their first run, or became slow or fast
    while the others stayed. `excluded` sizes are off the curve and have few runs: the study ignores them, and the combination fits
    them at a time between observation and expectation, because dropping them cost more than it saved. `weighed` has the times in s
    at which the combination fits sizes of both kinds. `scatter` is the half-width in ln T that holds nine of ten repeats, by size
    with many runs; empty with too few repeats, or with runs of several kinds.
    """

    apart: Mapping[float, float]
    excluded: frozenset[float]
    scatter: Mapping[float, float]
    weighed: Mapping[float, float] = MappingProxyType({})

    @property
    def out_of_line(self) -> frozenset[float]:
        """The sizes off the curve, which are ignored when other sizes are judged."""
        return frozenset({*self.apart, *self.excluded})


def observed_sizes(
    study: Study, sizes: AggregatedSizes, table: LevelTable, unmerged: Mapping[float, int]
) -> ObservedSizes:
    """Return the trust in each size of a study of aggregated sizes.

    `unmerged` counts, by size, the runs that are in no table yet, without outliers. Runs of an earlier level weigh little, but a
    size with many of these runs still counts as frequently run.
    """
    runs, weights = table.counts(), dict(zip(sizes.n.tolist(), sizes.count.tolist(), strict=True))
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
        {
            size.n: size.expected_s * (size.observed_s / size.expected_s) ** _share_confirmed(weights.get(size.n, 0.0))
            for size in doubted
        }
        | {n: times_s[n] / math.exp(ln_factor) for n, ln_factor in moved.items()},
    )


def _moved_alone(table: LevelTable, sizes: Sequence[float]) -> dict[float, float]:
    """Return the inner sizes that moved alone, with ln of the factor; empty if too many sizes moved to be exceptions.

    The smallest and the largest size are never included, because they determine the forecast beyond them.
    """
    moved = {n: ln_factor for n, ln_factor in table.moved_alone().items() if n in sizes[1:-1]}
    return moved if len(moved) <= max(1, int(ALONE_SHARE_MAX * len(sizes))) else {}


def _share_confirmed(runs: float) -> float:
    """Return the share of its deviation that a size off the curve keeps, by its number of runs: four fifths for one run.

    On measured curves, keeping all costs less than keeping half: .18 against .30 in ln T far out.
    """
    return runs / (runs + 0.25)
