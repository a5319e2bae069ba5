"""The trust in the run times of each size: the size agrees with the other sizes, differs from the others, or is doubtful."""

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from processors.models.adept.study import Study
from processors.models.aggregates.sizes import REPEATS_MIN, AggregatedSizes
from processors.models.numerics.statistics import Z95

CONFIRMED_RUNS: Final = 3
ALONE_SHARE_MAX: Final = 0.25  # share of the sizes; if more sizes move alone, the curve itself has changed
SCATTER_MAX: Final = 0.3  # in ln T; runs that scatter more are of several kinds, and not normally distributed


class ObservedSizes(NamedTuple):
    """The trust in the run times of each size.

    `apart` maps sizes with many runs off the curve of the other sizes to their run times in s. The curve does not follow these sizes, and an answer
    at such a size gives the observed time. These sizes were slow from their first run, or became slow or fast while the others stayed. `excluded`
    sizes are off the curve and have few runs: the study ignores them, and the combination fits them, because dropping them cost more than it saved.
    The combination fits the sizes in `moved`, which moved alone, at their times in s before they moved. `scatter` is the half-width in ln T that
    holds nine of ten repeats, by size with many runs; empty with too few repeats, or with runs of several kinds.
    """

    apart: Mapping[float, float]
    excluded: frozenset[float]
    scatter: Mapping[float, float]
    moved: Mapping[float, float] = {}

    @property
    def out_of_line(self) -> frozenset[float]:
        """The sizes off the curve, which are ignored when other sizes are judged."""
        return frozenset({*self.apart, *self.excluded})


def observed_sizes(
    study: Study, sizes: AggregatedSizes, runs: Mapping[float, int], moved_alone: Mapping[float, float]
) -> ObservedSizes:
    """Return the trust in each size of a study of aggregated sizes.

    `runs` counts the runs of each size at any level, without outliers: runs of an earlier level weigh little, but a size with many of
    these runs still counts as frequently run. `moved_alone` maps sizes whose run time alone changed to the run time in s before.
    """
    weights = dict(zip(sizes.n.tolist(), sizes.count.tolist(), strict=True))
    often = {n for n in study.n.tolist() if max(weights.get(n, 0.0), runs.get(n, 0)) >= CONFIRMED_RUNS}
    repeats = sum(max(weight - 1.0, 0.0) for weight in weights.values())
    measured = often if repeats >= REPEATS_MIN and study.noise <= SCATTER_MAX else set()
    times_s = dict(zip(study.n.tolist(), study.run_time_s.tolist(), strict=True))
    moved = _exceptions(moved_alone, study.n.tolist())
    confirmed = [size for size in study.anomalies if size.n in often]
    doubted = [size for size in study.anomalies if size.n not in often]
    return ObservedSizes(
        {size.n: size.observed_s for size in confirmed} | {n: times_s[n] for n in moved},
        frozenset(size.n for size in doubted),
        {n: Z95 * study.noise * math.sqrt(1.0 + 1.0 / weights[n]) for n in sorted(measured) if weights.get(n)},
        moved,
    )


def _exceptions(moved_alone: Mapping[float, float], sizes: Sequence[float]) -> dict[float, float]:
    """Return the inner sizes in `moved_alone`, whose run time changed while other sizes kept theirs; empty if there are too many.

    The smallest and the largest size are left out, because these two sizes determine the forecasts beyond the observed sizes.
    """
    moved = {n: time_s for n, time_s in moved_alone.items() if n in sizes[1:-1]}
    return moved if len(moved) <= max(1, int(ALONE_SHARE_MAX * len(sizes))) else {}
