"""Numbers kept per row: what everything learned of many series or hosts at once has in common."""

from typing import Any, ClassVar, Final, Protocol

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.intp]
NEVER_MS: Final = -1  # the time of what did not happen yet


class Columns(Protocol):
    """Numbers of many rows, a row per series or per host. What a row becomes depends on what it was told, never on others.

    Rows are numbered by somebody else: a number is used again once its row was cleared.
    """

    def grow(self, rows: int) -> None:
        """Have at least so many rows; new ones are empty."""

    def clear(self, rows: Rows) -> None:
        """Let some rows (k,) start anew: they are then as new ones, to the bit."""

    def stored(self, first: int, last: int) -> bytes:
        """Return a copy of the rows from `first` up to `last`: plain numbers, as many bytes for every row."""

    def restore(self, first: int, last: int, stored: bytes) -> None:
        """Put rows back as `stored` gave them; they were grown before. ValueError where the bytes are of another form."""


class Kept(Columns, Protocol):
    """Columns that are kept through a restart: `name` begins the keys of their blocks, `version` numbers their form."""

    name: ClassVar[str]
    version: ClassVar[int]


class RowTable:
    """Rows of one form: a structured type, and what a new row is. Columns that are no more than that derive from it.

    >>> table = RowTable(np.dtype([("count", "<i4"), ("mean", "<f4", (2,))]), mean=np.nan)
    >>> table.grow(2)
    >>> table["count"][1] = 7
    >>> twin = RowTable(table.dtype, mean=np.nan)
    >>> twin.grow(2)
    >>> twin.restore(0, 2, table.stored(0, 2))
    >>> twin["count"].tolist()
    [0, 7]
    """

    def __init__(self, dtype: np.dtype[Any], **start: npt.ArrayLike) -> None:
        """Start without a row; fields that `start` does not name begin with zeros."""
        self.dtype = dtype
        self._empty = np.zeros((), dtype)
        for name, value in start.items():
            self._empty[name] = value
        self._rows = np.zeros(0, dtype)

    def __len__(self) -> int:
        """Return how many rows there are."""
        return len(self._rows)

    def __getitem__(self, field: str) -> npt.NDArray[Any]:
        """Return a field of all rows (rows, ...): a view until the table grows."""
        return self._rows[field]

    def grow(self, rows: int) -> None:
        """Have at least so many rows; new ones are empty."""
        more = rows - len(self._rows)
        if more > 0:
            self._rows = np.concatenate([self._rows, np.full(more, self._empty)])

    def clear(self, rows: Rows) -> None:
        """Let some rows start anew."""
        self._rows[rows] = self._empty

    def stored(self, first: int, last: int) -> bytes:
        """Return a copy of some rows."""
        return self._rows[first:last].tobytes()

    def restore(self, first: int, last: int, stored: bytes) -> None:
        """Put rows back; ValueError where there are more or fewer bytes than these rows have."""
        if len(stored) != (last - first) * self.dtype.itemsize:
            raise ValueError(
                f"{last - first} rows have {(last - first) * self.dtype.itemsize} bytes, not {len(stored)}."
            )
        self._rows[first:last] = np.frombuffer(stored, self.dtype)
