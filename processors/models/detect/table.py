"""State of many series or hosts as columns: arrays that grow together, and go into stored state as they are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

ROWS_FIRST: Final = 16
MARK_BYTES: Final = 4  # before stored rows: a mark of the columns


@dataclass(frozen=True, slots=True)
class Column:
    """What one row of a column is: its shape, its type, and what a new row starts with.

    >>> Column((2,), "float64", 0.0).empty(1).tolist()
    [[0.0, 0.0]]
    """

    shape: tuple[int, ...]
    dtype: str
    start: float

    def empty(self, rows: int) -> NDArray[Any]:
        """Return so many new rows."""
        return np.full((rows, *self.shape), self.start, self.dtype)


class Table:
    """Columns by name, each an array (rows, ...); `size` rows are in use.

    >>> table = Table({"count": Column((), "int64", 0)})
    >>> table.grow(3)
    >>> table["count"][1] = 7
    >>> other = Table({"count": Column((), "int64", 0)})
    >>> other.restore(1, 3, table.stored(1, 3))
    >>> other["count"][:3].tolist(), other.size, other.row_bytes
    ([0, 7, 0], 3, 8)
    """

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = dict(columns)
        self._mark = crc32(repr(sorted(columns.items())).encode()).to_bytes(MARK_BYTES, "little")
        self.size = 0
        self._arrays = {name: column.empty(0) for name, column in columns.items()}

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return the array of a column; it is replaced when the table grows."""
        return self._arrays[name]

    @property
    def row_bytes(self) -> int:
        """What one row takes, in memory and stored."""
        return sum(column.empty(1).nbytes for column in self._columns.values())

    def grow(self, rows: int) -> None:
        """Have at least so many rows; room is doubled, never given back."""
        room = next(iter(self._arrays.values())).shape[0]
        if rows > room:
            more = max(rows, 2 * room, ROWS_FIRST) - room
            for name, column in self._columns.items():
                self._arrays[name] = np.concatenate([self._arrays[name], column.empty(more)])
        self.size = max(self.size, rows)

    def clear(self, rows: NDArray[np.intp]) -> None:
        """Let these rows start anew."""
        for name, column in self._columns.items():
            self._arrays[name][rows] = column.start

    def stored(self, first: int, last: int) -> bytes:
        """Return the rows from `first` to before `last`: a mark of the columns, then each column's little-endian bytes."""
        return self._mark + b"".join(_little(self._arrays[name][first:last]).tobytes() for name in self._columns)

    def restore(self, first: int, last: int, state: bytes) -> None:
        """Put rows back that `stored` returned; ValueError where they are of other columns or another number of rows."""
        if state[:MARK_BYTES] != self._mark or len(state) != MARK_BYTES + (last - first) * self.row_bytes:
            message = "the stored rows are of other columns or another number of rows"
            raise ValueError(message)
        self.grow(last)
        at = MARK_BYTES
        for name, column in self._columns.items():
            kept = np.dtype(column.dtype).newbyteorder("<")
            count = (last - first) * int(np.prod(column.shape))
            flat = np.frombuffer(state, kept, count, at)
            self._arrays[name][first:last] = flat.reshape((last - first, *column.shape))
            at += count * kept.itemsize


def _little(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values in the byte order of stored rows."""
    return values.astype(values.dtype.newbyteorder("<"), copy=False)
