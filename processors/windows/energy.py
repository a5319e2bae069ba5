"""Energy of a minute from samples of power."""

from typing import Final

import numpy as np
import numpy.typing as npt

from processors.windows.settings import MINUTE_MS

GAP_MAX_MS: Final = 120_000  # between two samples, for power to be linear between them
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def energy_j(row: Ints, after_ms: Ints, power_w: Floats, rows: int) -> Floats:
    """Return the energy of the minute for each row (rows,) in J; nan where a row has no sample in it.

    Samples (m,) are in any order: the row of each, its time after the minute's begin (negative for those before it) and
    its power. Between two samples at most GAP_MAX_MS apart power is linear (trapezoidal rule), also from the last sample
    before the minute. After a longer gap, and after the minute's last sample, the nearest sample's power is taken: so a
    minute never depends on what came after it, and one without samples has no energy.

    >>> energy_j(np.zeros(3, np.int64), np.array([30_000, -30_000, 0]), np.array([500.0, 300.0, 400.0]), 1)
    array([28500.])
    """
    near = np.flatnonzero((after_ms >= -GAP_MAX_MS) & (after_ms < MINUTE_MS))
    order = near[np.lexsort((after_ms[near], row[near]))]
    row, at_s, power = row[order], after_ms[order] / 1000.0, power_w[order]
    minute = at_s >= 0.0
    same = np.concatenate(([False], row[1:] == row[:-1])) if len(row) else np.zeros(0, np.bool_)
    before_s, before = np.concatenate(([0.0], at_s))[: len(row)], np.concatenate(([0.0], power))[: len(row)]
    step_s = np.where(same, at_s - before_s, np.inf)
    linked = step_s * 1000.0 <= GAP_MAX_MS
    start_s = np.where(linked, np.maximum(before_s, 0.0), 0.0)  # from where on this sample's step counts
    share = np.where(linked & (step_s > 0.0), (at_s - start_s) / np.where(step_s > 0.0, step_s, 1.0), 0.0)
    at_start = np.where(linked, power + share * (before - power), power)
    of_step = np.where(minute, (at_s - start_s) * (at_start + power) / 2.0, 0.0)
    last = minute & np.concatenate((~same[1:], np.ones(min(1, len(row)), np.bool_)))
    of_rest = np.where(last, (MINUTE_MS / 1000.0 - at_s) * power, 0.0)
    total = np.bincount(row, of_step + of_rest, minlength=rows)
    return np.where(np.bincount(row, minute, minlength=rows) > 0, total, np.nan)
