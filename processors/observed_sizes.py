"""What the sizes that were run say of themselves: which are out of line, which must be believed, how their runs scatter."""

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from processors.models.levels import LevelTable
from processors.models.log_normal import Z95
from processors.models.sizes import REPEATS_MIN, rounded_size
from processors.models.study import Study
from processors.recent_runs import RecentRun, placed

CONFIRMED_RUNS: Final = 3
SCATTER_MAX: Final = 0.3  # of ln T: runs that scatter more are of several kinds, and no normal law tells their band


class ObservedSizes(NamedTuple):
    """Sizes by what must be believed of them.

    `confirmed` are out of line and were run so often that they must be believed, with their times in s: the combination
    of laws takes them in, the study passes them by, and who asks for one gets what it really takes. `doubted` are out of
    line and were run less often: every curve passes them by. `scatter` is within what part of ln T nine of ten runs
    repeat, either way, at each size that was run often: how runs of one size scatter, over all sizes together. It is
    empty where they repeat too few times to tell, or are of several kinds.
    """

    confirmed: Mapping[float, float]
    doubted: frozenset[float]
    scatter: Mapping[float, float]


def observed_sizes(
    study: Study, weights: Mapping[float, float], table: LevelTable, unmerged: Sequence[RecentRun]
) -> ObservedSizes:
    """Return what is to be believed of the sizes of a study; `weights` is how many runs each counts for.

    Of a level that was left, runs weigh little; that the size was run often stays true.

    >>> from processors.models.adept import study
    >>> sizes, times_s = [1, 2, 4, 8, 16, 32], [100.0, 50.25, 25.38, 19.41, 6.72, 3.61]
    >>> found = observed_sizes(study(sizes, times_s), {8.0: 3.0}, LevelTable(), [])
    >>> found.confirmed, found.doubted, found.scatter
    ({8.0: 19.41}, frozenset(), {})
    """
    often = {n for n in study.n.tolist() if max(weights.get(n, 0.0), _runs(n, table, unmerged)) >= CONFIRMED_RUNS}
    repeats = sum(max(weight - 1.0, 0.0) for weight in weights.values())
    measured = often if repeats >= REPEATS_MIN and study.noise <= SCATTER_MAX else set()
    return ObservedSizes(
        {size.n: size.observed_s for size in study.anomalies if size.n in often},
        frozenset(size.n for size in study.anomalies if size.n not in often),
        {n: Z95 * study.noise * math.sqrt(1.0 + 1.0 / weights[n]) for n in sorted(measured) if weights.get(n)},
    )


def _runs(n: float, table: LevelTable, unmerged: Sequence[RecentRun]) -> int:
    return table.count(n) + sum(rounded_size(run.n) == n and not run.strange for run in placed(unmerged))
