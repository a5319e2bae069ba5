"""Samples far ahead of those that follow, as hosts with wrong clocks send them; for streams without times of arrival."""

from typing import Final

import numpy as np
import numpy.typing as npt

FOLLOWING: Final = 256
FOLLOWING_MIN: Final = 2  # that have to be behind
Ints = npt.NDArray[np.int64]


def far_ahead(time_ms: Ints, after_ms: Ints, ahead_ms: int) -> npt.NDArray[np.bool_]:
    """Tell which samples (m,) are more than `ahead_ms` ahead of most of the FOLLOWING samples after them.

    `after_ms` are those after the last one, as many as there are. A sample that is no more ahead makes none late that
    may be as late. In a stream in the order of time none is ahead, whatever its gaps; and a clock that is wrong, or
    behind all others, costs its own samples alone.

    >>> far_ahead(np.array([0, 10_000, 99_000_000, 20_000, 30_000]), np.zeros(0, np.int64), 120_000)
    array([False, False,  True, False, False])
    """
    found = np.zeros(len(time_ms), np.bool_)
    if not len(time_ms):
        return found
    every = np.concatenate((time_ms, after_ms[:FOLLOWING]))
    least_after_ms = np.minimum.accumulate(every[::-1])[::-1][: len(time_ms)]
    for at in np.flatnonzero(time_ms > least_after_ms + ahead_ms).tolist():
        following = every[at + 1 : at + 1 + FOLLOWING]
        behind = int(np.count_nonzero(following < every[at] - ahead_ms))
        found[at] = behind >= FOLLOWING_MIN and 2 * behind > len(following)
    return found
