"""The newest runs of an application, which a corrected report can still replace, and how much each of them counts."""

from collections.abc import Sequence
from statistics import median
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


def with_disturbed(runs: Sequence[RecentRun], run_id: str) -> list[RecentRun] | None:
    """Return the runs with one that others disturbed marked as strangely slow.

    None where it is no slower than is usual at its size, marked already, or not there.

    >>> runs = [RecentRun(str(i), 4.0, 60.0 + i, i) for i in range(3)]
    >>> [run.strange for run in with_disturbed(runs, "2")], with_disturbed(runs, "0")
    ([0, 0, 1], None)
    """
    found = next((run for run in runs if run.run_id == run_id and not run.strange), None)
    at_size = [run.run_time_s for run in runs if found is not None and rounded_size(run.n) == rounded_size(found.n)]
    if found is None or found.run_time_s <= median(at_size):
        return None
    return [msgspec.structs.replace(run, strange=1) if run is found else run for run in runs]


def others_before(runs: Sequence[RecentRun], n: float, since_run: str) -> bool:
    """Tell whether, of the runs before one, more than a third up to the last of another size were of other sizes.

    >>> others_before([RecentRun("a", 2.0, 9.0, 1), RecentRun("b", 4.0, 5.0, 2)], 4.0, "b")
    True
    """
    ids = [run.run_id for run in runs]
    before = runs[: ids.index(since_run) if since_run in ids else None]
    others = [i for i, run in enumerate(before, 1) if run.n != n]
    return bool(others) and len(others) * 3 > others[-1]


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
