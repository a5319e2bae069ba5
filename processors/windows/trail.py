"""From which record on a source partition has to be read again, so that its open windows fill as they were."""

from collections import deque
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

BLOCK_MS: Final = 10_000
Ints = npt.NDArray[np.int64]


class Block(NamedTuple):
    """Records from `offset` on that came in the same ten seconds of event time, and the newest time that counted."""

    offset: int
    number: int
    newest_ms: int


class Trail:
    """Blocks of records as far back as one is needed; few, for the watermark only grows.

    >>> trail = Trail()
    >>> trail.add(np.array([5, 6, 7]), np.array([-1, 5_000, 30_000]), np.array([5_000, 30_000, 31_000]))
    >>> trail.start(needed_ms=20_000, next_offset=8), trail.start(needed_ms=31_000, next_offset=8)
    (6, 7)
    """

    def __init__(self) -> None:
        self._blocks: deque[Block] = deque()

    def __len__(self) -> int:
        """Return how many blocks are kept."""
        return len(self._blocks)

    def add(self, offsets: Ints, before_ms: Ints, newest_ms: Ints) -> None:
        """Note records in order, each (m,): offset, watermark before it, newest accepted time (or less than any)."""
        block = before_ms // BLOCK_MS
        starts = np.flatnonzero(np.concatenate(([True], block[1:] != block[:-1])))
        newest = np.maximum.reduceat(newest_ms, starts)
        for found in map(Block, offsets[starts].tolist(), block[starts].tolist(), newest.tolist()):
            last = self._blocks[-1] if self._blocks else None
            if last is not None and last.number == found.number:
                self._blocks[-1] = last._replace(newest_ms=max(last.newest_ms, found.newest_ms))
            else:
                self._blocks.append(found)

    def start(self, needed_ms: int, next_offset: int) -> int:
        """Return the offset where all samples from `needed_ms` on lie behind, and forget what lies before it.

        Where no record is needed that is `next_offset`.
        """
        while self._blocks and self._blocks[0].newest_ms < needed_ms:
            self._blocks.popleft()
        return self._blocks[0].offset if self._blocks else next_offset
