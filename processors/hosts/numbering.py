"""Which row belongs to what: the smallest free number first, so that the numbering follows from what is kept alone."""

import heapq
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K")


class Numbering(Generic[K]):
    """Rows of keys. A key keeps its row until it is released; then the next new key may have it.

    >>> rows: Numbering[str] = Numbering()
    >>> [rows.add(key) for key in ("a", "b", "c")], rows.release([0])
    ([0, 1, 2], None)
    >>> rows.add("d"), rows.row("b"), rows.row("a"), rows.key(0), len(rows), rows.end
    (0, 1, None, 'd', 3, 3)
    """

    def __init__(self, keys: Iterable[tuple[int, K]] = ()) -> None:
        """Start with rows and their keys; ValueError where a row or a key stands twice or a row is negative."""
        given = dict(keys)
        self._keys: list[K | None] = [None] * (max(given, default=-1) + 1)
        for row, key in given.items():
            self._keys[row] = key
        self._rows = {key: row for row, key in given.items()}
        if min(given, default=0) < 0 or len(self._rows) < len(given):
            raise ValueError("A row or a key stands twice, or a row is negative.")
        self._free = [row for row, key in enumerate(self._keys) if key is None]

    def __len__(self) -> int:
        """Return how many keys there are."""
        return len(self._rows)

    def __iter__(self) -> Iterator[tuple[int, K]]:
        """Return rows in use and their keys, by row."""
        return ((row, key) for row, key in enumerate(self._keys) if key is not None)

    @property
    def end(self) -> int:
        """One more than the largest row that was ever in use."""
        return len(self._keys)

    def row(self, key: K) -> int | None:
        """Return the row of a key, None where it has none."""
        return self._rows.get(key)

    def key(self, row: int) -> K | None:
        """Return the key of a row, None of one that is not in use."""
        return self._keys[row] if row < len(self._keys) else None

    def add(self, key: K) -> int:
        """Give a new key the smallest free row and return it."""
        if self._free:
            row = heapq.heappop(self._free)
            self._keys[row] = key
        else:
            row = len(self._keys)
            self._keys.append(key)
        self._rows[key] = row
        return row

    def release(self, rows: Iterable[int]) -> None:
        """Let rows in use go."""
        for row in rows:
            key = self._keys[row]
            if key is not None:
                del self._rows[key]
                self._keys[row] = None
                heapq.heappush(self._free, row)

    def keys(self, first: int, last: int) -> list[K | None]:
        """Return the keys of the rows from `first` up to `last`, None of those that are not in use.

        >>> Numbering([(0, "a"), (2, "b")]).keys(1, 9)
        [None, 'b']
        """
        return self._keys[first:last]
