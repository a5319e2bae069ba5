"""Runs of an application that are in no table yet, and which of them count little because they were strange."""

from collections.abc import Sequence
from statistics import median
from typing import Final

import msgspec

from processors.models.aggregates.sizes import PlacedRun, rounded_size, rounded_sizes
from processors.models.drift import agreeing
from processors.store import digest64

OUTLIER_MERGE_EACH: Final = 4


class RecentRun(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An unmerged run; `outlier` is 1 or -1 where it was strangely slow or fast when it was first reported.

    `ln_load` is what the load of its hosts explains of its run time.
    """

    run_id: str
    n: float
    run_time_s: float
    end_ms: int
    outlier: int = 0
    ln_load: float = 0.0

    @property
    def start_ms(self) -> int:
        """When it started, by its run time."""
        return self.end_ms - round(self.run_time_s * 1000)


def placed(runs: Sequence[RecentRun]) -> list[PlacedRun]:
    """Return runs as an aggregate wants them: strange ones count little unless others at their size agree."""
    if not any(run.outlier for run in runs):
        return [placed_run(run) for run in runs]
    return [placed_run(run, outlier=excluded(run, runs)) for run in runs]


def placed_run(run: RecentRun, *, outlier: bool = False) -> PlacedRun:
    """Return one run as an aggregate wants it."""
    return PlacedRun(run.n, run.run_time_s, run.start_ms, outlier)


def with_disturbed(runs: Sequence[RecentRun], run_id: str) -> list[RecentRun] | None:
    """Return the runs with one that others disturbed marked as strangely slow.

    None where it is no slower than is usual at its size, marked already, or not there.
    """
    found = next((run for run in runs if run.run_id == run_id and not run.outlier), None)
    if found is None:
        return None
    own, sizes = rounded_size(found.n), rounded_sizes(run.n for run in runs)
    if found.run_time_s <= median(run.run_time_s for run, size in zip(runs, sizes, strict=True) if size == own):
        return None
    return [msgspec.structs.replace(run, outlier=1) if run is found else run for run in runs]


def merges(runs: Sequence[RecentRun]) -> bool:
    """Return whether the first of the runs is merged once it is too old to be replaced.

    Of strange ones every fourth is, told by its id: together they count a quarter, whatever the order of events.
    """
    return not excluded(runs[0], runs) or digest64(runs[0].run_id) % OUTLIER_MERGE_EACH == 0


def excluded(run: RecentRun, runs: Sequence[RecentRun]) -> bool:
    """Return whether a run counts little: it was strange, and no others at its size agree."""
    if not run.outlier:
        return False
    own = rounded_size(run.n)
    at_size = sorted(
        (each.end_ms, each.run_id, each.outlier) for each in runs if each.n == own or rounded_size(each.n) == own
    )
    return not agreeing(run.outlier, [outlier for _, _, outlier in at_size])
