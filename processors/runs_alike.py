"""Whether a run was disturbed: its counters against those of runs like it.

Runs are alike that had the same size. Where these are too few all of them are, with their counters moved to this size by
the power of n that each follows. Only the newest count, so that what has changed for good is soon nothing unusual.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from processors.models.counters.unusual import RUNS_MIN, Unusual, unusual, weight
from processors.models.training.runs import Run
from processors.models.training.table import Floats, Table
from processors.profile_values import COUNTER, LN_N, NIC, RATE

NEWEST: Final = 32
ADJUSTED_MIN: Final = 2 * RUNS_MIN
SLOPE_RIDGE: Final = 1.0  # of ln n squared: a counter does not follow the size before some runs say so
FAR: Final = 6.0  # robust deviations, where runs and counters are few; see `far`
SAME: Final = 1e-6  # of ln n


def unusual_among(runs: Sequence[Run], values: dict[str, float]) -> list[Unusual]:
    """Return the unusual counters of a run among the others, the farthest first; [] where too few runs are known.

    >>> like = [Run(f"r{i}", i, {"counter:ipc": 1.5 + 0.01 * (i % 5), "ln_n": 0.0}, {}) for i in range(20)]
    >>> [each.counter for each in unusual_among(like, {"counter:ipc": 0.7, "ln_n": 0.0})]
    ['counter:ipc']
    """
    names = tuple(sorted(name for name in values if name.startswith((COUNTER, RATE, NIC))))
    newest = sorted(runs, key=lambda run: (-run.time_ms, run.id))
    ln_n = values[LN_N]
    same = [run for run in newest if abs(run.values.get(LN_N, np.inf) - ln_n) <= SAME][:NEWEST]
    if not names:
        return []
    if len(same) >= RUNS_MIN:
        return unusual(_table(names, _rows(same, names)), values, far(len(same), len(names)))
    near = [run for run in newest if LN_N in run.values][: 2 * NEWEST]
    if len(near) < ADJUSTED_MIN:
        return []
    moved = _moved(_rows(near, names), np.array([run.values[LN_N] for run in near]), ln_n)
    return unusual(_table(names, moved), values, far(len(near), len(names)))


def weight_of(found: Sequence[Unusual]) -> float:
    """Return how much a run with these unusual counters counts (0 to 1).

    >>> weight_of([])
    1.0
    """
    return weight(found, FAR)


def far(runs: int, counters: int) -> float:
    """Return how many robust deviations are unusual among so many runs, so that it is rare for many counters together.

    >>> far(8, 1) > far(32, 1), far(32, 64) > far(32, 1)
    (True, True)
    """
    return FAR * (1.0 + 4.0 / runs) * (1.0 + 0.1 * float(np.log(max(counters, 1))))


def _rows(runs: Sequence[Run], names: tuple[str, ...]) -> Floats:
    return np.array([[run.values.get(name, np.nan) for name in names] for run in runs])


def _table(names: tuple[str, ...], rows: Floats) -> Table:
    return Table(names, rows, np.ones(len(rows)), np.ones(len(rows)), np.arange(len(rows)))


def _moved(rows: Floats, ln_n: Floats, to: float) -> Floats:
    """Return counters (k, p) of runs of sizes (k,) as they would be at another size."""
    found = rows.copy()
    off = ln_n - ln_n.mean()
    for j, column in enumerate(rows.T):
        known = np.isfinite(column) & (column > 0)
        if known.sum() < RUNS_MIN or not (column[np.isfinite(column)] > 0).all():
            continue
        ln_rate = np.log(column[known])
        slope = float(off[known] @ (ln_rate - ln_rate.mean()) / (off[known] @ off[known] + SLOPE_RIDGE))
        found[known, j] = np.exp(ln_rate + slope * (to - ln_n[known]))
    return found
