"""The newest runs of an application, which a corrected report can still replace, and how much each of them counts."""

from collections.abc import Sequence
from typing import Final

import msgspec

from processors.digest import digest64
from processors.models.levels import PlacedRun
from processors.models.single_run import agreeing
from processors.models.sizes import rounded_size

STRANGE_MERGE_EACH: Final = 4


class RecentRun(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An unmerged run; `strange` is 1 or -1 where it was strangely slow or fast when it was first reported.

    >>> RecentRun("exa/1@0", n=4.0, run_time_s=60.0, end_ms=60_000).start_ms
    0
    """

    run_id: str
    n: float
    run_time_s: float
    end_ms: int
    strange: int = 0

    @property
    def start_ms(self) -> int:
        """When it started, by its run time."""
        return self.end_ms - round(self.run_time_s * 1000)


def placed(runs: Sequence[RecentRun]) -> list[PlacedRun]:
    """Return runs as an aggregate wants them: strange ones count little unless others at their size agree.

    >>> runs = [RecentRun(str(i), 4.0, 90.0, i, strange=1) for i in range(3)]
    >>> [run.strange for run in placed(runs[:2])], [run.strange for run in placed(runs)]
    ([True, True], [False, False, False])
    """
    if not any(run.strange for run in runs):
        return [placed_run(run) for run in runs]
    return [placed_run(run, strange=_doubted(run, runs)) for run in runs]


def placed_run(run: RecentRun, *, strange: bool = False) -> PlacedRun:
    """Return one run as an aggregate wants it.

    >>> placed_run(RecentRun("exa/1@0", n=4.0, run_time_s=60.0, end_ms=60_000)).start_ms
    0
    """
    return PlacedRun(run.n, run.run_time_s, run.start_ms, strange)


def merges(runs: Sequence[RecentRun]) -> bool:
    """Tell whether the first of the runs is merged once it is too old to be replaced.

    Of strange ones every fourth is, told by its id: together they count a quarter, whatever the order of events.

    >>> merges([RecentRun("exa/1@0", n=4.0, run_time_s=60.0, end_ms=60_000)])
    True
    """
    return not _doubted(runs[0], runs) or digest64(runs[0].run_id) % STRANGE_MERGE_EACH == 0


def _doubted(run: RecentRun, runs: Sequence[RecentRun]) -> bool:
    if not run.strange:
        return False
    size = rounded_size(run.n)
    at_size = sorted((each.end_ms, each.run_id, each.strange) for each in runs if rounded_size(each.n) == size)
    return not agreeing(run.strange, [strange for _, _, strange in at_size])
