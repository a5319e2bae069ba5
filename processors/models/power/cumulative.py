"""Counters that only grow: how much they did between two readings, where they wrap, and where they start anew.

A counter that falls has either wrapped (its range is known, and what it must have done fits the time) or was reset, by a
restart or a new driver. What a reset counter did before is lost, so nothing is made up for it. Where the time between
two readings is enough for a whole range at the largest possible rate, one wrap can not be told from two.
"""

from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# what the powercap driver of Linux publishes as max_energy_range_uj: 32 bits of units of 61 and of 15.3 microjoules
# (Intel, "Software Developer's Manual", volume 3B, 15.10: MSR_RAPL_POWER_UNIT)
RAPL_RANGE_J: Final = 262_143.328_850
RAPL_FINE_RANGE_J: Final = 65_532.610_987  # memory of servers, and processors of AMD


class Step(IntEnum):
    """What a counter did between two readings.

    >>> Step.WRAPPED.name
    'WRAPPED'
    """

    GREW = 0
    WRAPPED = 1
    RESET = 2  # nothing is known of it
    DOUBTFUL = 3  # more than is possible, or whole ranges may be missing
    UNKNOWN = 4  # a reading is missing, no count, or not later than the one before


class Increments(NamedTuple):
    """By how much counters grew (m,), nan where that is not known; and what they did (m,), a Step.

    >>> Increments(np.array([5.0]), np.array([0])).amount.tolist()
    [5.0]
    """

    amount: Floats
    step: npt.NDArray[np.int8]

    def counts(self) -> dict[str, int]:
        """Return how many did what.

        >>> Increments(np.array([5.0, np.nan]), np.array([0, 2])).counts()
        {'grew': 1, 'wrapped': 0, 'reset': 1, 'doubtful': 0, 'unknown': 0}
        """
        found = np.bincount(self.step, minlength=len(Step)).tolist()
        return {each.name.lower(): found[each] for each in Step}


def increments(
    before: npt.ArrayLike,
    now: npt.ArrayLike,
    elapsed_s: npt.ArrayLike,
    span: npt.ArrayLike = np.inf,
    rate_max: npt.ArrayLike = np.inf,
) -> Increments:
    """Return what counters did from one reading to the next, `elapsed_s` later; arrays or numbers, alike in shape.

    `span` is where a counter starts at 0 again (inf: never), `rate_max` the most it can do in a second (inf: not known).

    >>> found = increments([10.0, 262_140.0, 500.0], [25.0, 6.67115, 3.0], 1.0, RAPL_RANGE_J, 400.0)
    >>> found.amount.round(1).tolist(), [Step(each).name for each in found.step]
    ([15.0, 10.0, nan], ['GREW', 'WRAPPED', 'RESET'])
    """
    old, new, elapsed, whole, most = np.broadcast_arrays(
        *(np.atleast_1d(np.asarray(each, np.float64)) for each in (before, now, elapsed_s, span, rate_max))
    )
    with np.errstate(invalid="ignore", over="ignore"):
        known = (old >= 0) & (new >= 0) & (elapsed > 0) & np.isfinite(old + new + elapsed)
        possible = most * elapsed
        fell = new < old
        grown = np.where(fell, new + whole - old, new - old)
        # without a known rate a counter that fell by less than half of its range did not go round
        wrapped = fell & np.isfinite(whole) & (old <= whole) & (grown <= np.minimum(possible, _half(whole, most)))
        doubtful = ~(fell & ~wrapped) & ((grown > possible) | (grown + whole <= possible) & np.isfinite(most))
    step = np.select(
        [~known, fell & ~wrapped, doubtful, wrapped],
        [Step.UNKNOWN, Step.RESET, Step.DOUBTFUL, Step.WRAPPED],
        Step.GREW,
    ).astype(np.int8)
    return Increments(np.where(step <= Step.WRAPPED, grown, np.nan), step)


def _half(whole: Floats, most: Floats) -> Floats:
    return np.where(np.isfinite(most), np.inf, whole / 2)
