"""State of many series or hosts as columns: arrays that grow together, and go into a snapshot as plain data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

VERSION: Final = 1
ROWS_FIRST: Final = 16


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
    >>> table["count"][:3].tolist(), table.row_bytes
    ([0, 0, 0], 8)
    >>> Table({"count": Column((), "int64", 0)}, table.snapshot()).size
    3
    """

    def __init__(self, columns: Mapping[str, Column], state: Mapping[str, Any] | None = None) -> None:
        """Start empty, or from a snapshot; ValueError where that is of another version or shape."""
        self._columns = dict(columns)
        self.size = 0
        self._arrays = {name: column.empty(0) for name, column in columns.items()}
        if state is not None:
            self._restore(state)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return the array of a column; it is replaced when the table grows."""
        return self._arrays[name]

    @property
    def row_bytes(self) -> int:
        """What one row takes."""
        return sum(column.empty(1).nbytes for column in self._columns.values())

    def grow(self, size: int) -> None:
        """Have at least so many rows; room is doubled, never given back."""
        room = next(iter(self._arrays.values())).shape[0]
        if size > room:
            more = max(size, 2 * room, ROWS_FIRST) - room
            for name, column in self._columns.items():
                self._arrays[name] = np.concatenate([self._arrays[name], column.empty(more)])
        self.size = max(self.size, size)

    def clear(self, row: int) -> None:
        """Let a row start anew."""
        for name, column in self._columns.items():
            self._arrays[name][row] = column.empty(1)[0]

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the rows in use: version, size, and little-endian bytes per column."""
        kept = {name: _little(self._arrays[name][: self.size]).tobytes() for name in self._columns}
        return {"version": VERSION, "size": self.size, "columns": kept}

    def _restore(self, state: Mapping[str, Any]) -> None:
        if state["version"] != VERSION or set(state["columns"]) != set(self._columns):
            message = "the snapshot is of another version or has other columns"
            raise ValueError(message)
        self.size = int(state["size"])
        for name, column in self._columns.items():
            dtype = np.dtype(column.dtype)
            flat = np.frombuffer(state["columns"][name], dtype.newbyteorder("<")).astype(dtype)
            self._arrays[name] = flat.reshape((self.size, *column.shape))


def _little(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values in the byte order of snapshots."""
    return values.astype(values.dtype.newbyteorder("<"))
