"""Minutes of many series at once, as the processors of hosts take them."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class MinuteBatch(NamedTuple):
    """A minute each of m series, every series once: what came between two ticks, in the order of the rows.

    `row` (m,) numbers the series, `host` (m,) their hosts, `minute_ms` (m,) is when the minute begins, and `means`
    (m, 6) are its 10-second means, nan where there is none.

    >>> batch = MinuteBatch(np.array([0]), np.array([0]), np.array([60_000]), np.full((1, 6), 0.83))
    >>> batch.means.shape
    (1, 6)
    """

    row: npt.NDArray[np.intp]
    host: npt.NDArray[np.intp]
    minute_ms: npt.NDArray[np.int64]
    means: npt.NDArray[np.float64]
