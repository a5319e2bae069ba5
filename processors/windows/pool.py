"""Rings of one length, a row each, close together in two arrays: (rows, capacity) times and values."""

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]
ROWS_STEP = 64


class Pool:
    """Rings of `capacity` samples; `owner` (rows,) names the series of each row.

    Times are milliseconds modulo 2**32 (49 days), eight bytes a sample in all. Rows stay dense: a removed row is
    filled by one from the end, so that memory follows use at once. Arrays grow in place; keep no view of them.

    >>> pool = Pool(capacity=16)
    >>> pool.add(np.array([7, 8])), pool.remove(np.array([0])), pool.owner[:pool.rows]
    (array([0, 1]), (array([8]), array([0])), array([8], dtype=int32))
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.rows = 0
        self.time = np.zeros((0, capacity), np.uint32)
        self.value = np.zeros((0, capacity), np.float32)
        self.owner = np.zeros(0, np.int32)

    def add(self, series: npt.NDArray[np.integer]) -> Rows:
        """Make room for these series; return their rows (m,), whose content is undefined."""
        rows = np.arange(self.rows, self.rows + len(series))
        self._resize(self.rows + len(series))
        self.owner[rows] = series
        return rows

    def remove(self, rows: Rows) -> tuple[Rows, Rows]:
        """Give rows back; return the series that moved into the gaps, and the rows where they are now."""
        left = self.rows - len(rows)
        gaps = rows[rows < left]
        stays = np.ones(self.rows - left, np.bool_)
        stays[rows[rows >= left] - left] = False
        movers = np.flatnonzero(stays) + left
        for column in (self.time, self.value, self.owner):
            column[gaps] = column[movers]
        moved = self.owner[gaps].astype(np.int64)
        self._resize(left)
        return moved, gaps

    def memory_bytes(self) -> int:
        """Return how many bytes the arrays take."""
        return self.time.nbytes + self.value.nbytes + self.owner.nbytes

    def _resize(self, rows: int) -> None:
        self.rows = rows
        allocated = len(self.owner)
        slack = max(ROWS_STEP, rows // 16)
        if rows <= allocated <= rows + 4 * slack:
            return
        wanted = rows + slack if rows else 0
        for column in (self.time, self.value):
            column.resize((wanted, self.capacity), refcheck=False)  # in place: no second copy of a large array
        self.owner.resize(wanted, refcheck=False)
