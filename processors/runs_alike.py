"""Whether a run was disturbed: its counters against those of runs like it.

Runs are alike that had the same size. Where these are too few all of them are, with their counters moved to this size by
the power of n that each follows. Only the newest count, so that what has changed for good is soon nothing unusual.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from processors.models.counters.unusual import RUNS_MIN, Unusual, unusual, weight
from processors.models.training.runs import Run
from processors.models.training.table import Floats, Table
from processors.profile_values import COUNTER, LN_N, NIC, RATE

NEWEST: Final = 32
ADJUSTED_MIN: Final = 2 * RUNS_MIN
SLOPE_RIDGE: Final = 1.0  # of ln n squared: a counter does not follow the size before some runs say so
SAME: Final = 1e-5  # of ln n
FAR_MIN: Final = 5.0  # robust deviations


class Disturbance(NamedTuple):
    """The unusual counters of a run, the farthest first, and how much it counts for that (0 to 1).

    >>> Disturbance().weight
    1.0
    """

    unusual: tuple[Unusual, ...] = ()
    weight: float = 1.0


def disturbance(runs: Sequence[Run], values: dict[str, float]) -> Disturbance:
    """Return how a run was disturbed, as the other runs let it be seen; nothing where too few of them are known.

    >>> like = [Run(f"r{i}", i, {"counter:ipc": 1.5 + 0.01 * (i % 5), "ln_n": 0.0}, {}) for i in range(20)]
    >>> found = disturbance(like, {"counter:ipc": 0.7, "ln_n": 0.0})
    >>> [each.counter for each in found.unusual], found.weight
    (['counter:ipc'], 0.05)
    """
    names = tuple(sorted(name for name in values if name.startswith((COUNTER, RATE, NIC))))
    newest = sorted(runs, key=lambda run: (-run.time_ms, run.id))
    ln_n = values[LN_N]
    same = [run for run in newest if abs(run.values.get(LN_N, np.inf) - ln_n) <= SAME][:NEWEST]
    near = [run for run in newest if LN_N in run.values][: 2 * NEWEST]
    if names and len(same) >= RUNS_MIN:
        return _judged(_table(names, _rows(same, names)), values)
    if names and len(near) >= ADJUSTED_MIN:
        return _judged(
            _table(names, _moved(_rows(near, names), np.array([run.values[LN_N] for run in near]), ln_n)), values
        )
    return Disturbance()


def far(runs: int, counters: int) -> float:
    """Return how many robust deviations are unusual among so many runs, for so many counters together.

    About one undisturbed run in a hundred has a counter further out: measured on normal and log-normal counters and on some
    with heavy tails. Of few runs the median deviation is often much too small, hence the square.

    >>> far(32, 1), round(far(32, 64), 1), round(far(8, 64), 1)
    (5.0, 10.3, 24.1)
    """
    return max((4.0 + 1.3 * math.log(max(counters, 1))) * (1.0 + (10.0 / runs) ** 2), FAR_MIN)


def _judged(table: Table, values: dict[str, float]) -> Disturbance:
    least = far(len(table), len(table.names))
    found = unusual(table, values, least)
    return Disturbance(tuple(found), weight(found, least))


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
