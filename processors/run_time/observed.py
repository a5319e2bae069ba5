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
    """How far the run times of each size can be trusted.

    `apart` are sizes that differ from the curve of the other sizes and have enough runs to prove it, with their run times in s.
    They were slow from their first run, or have become slow or fast alone. The curve does not follow them; a prediction at such a
    size is its observed time. `excluded` are sizes that differ but have few runs: the study ignores them, and the ensemble of
    laws still fits them, because leaving them out made predictions worse. `moved` are the sizes in `apart` that changed alone,
    with their times in s before the change, which the ensemble fits. `scatter` is the half-width in ln T that contains nine of
    ten repeats, for sizes with many runs; empty with too few repeats, or if the runs scatter too widely to be of one kind.
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
    """Return how far each size of a study can be trusted.

    `runs` counts the runs of each size at all levels, without outliers: a size with many runs of an earlier level counts as
    frequently run, although these runs weigh little. `moved_alone` maps sizes that changed alone to their run times in s before
    the change.
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
