"""From which record on a source partition has to be read again, so that its open windows fill as they were."""

from collections import deque
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

BLOCK_MS: Final = 10_000
Ints = npt.NDArray[np.int64]


class Block(NamedTuple):
    """Records from `offset` on: the watermark before the first of them, and the newest time that counted."""

    offset: int
    watermark_ms: int | None
    newest_ms: int


class Trail:
    """Blocks of records, one per ten seconds of event time, as far back as one is needed.

    >>> trail = Trail()
    >>> trail.add(np.array([5, 6, 7]), np.array([0, 5_000, 30_000]), np.array([5_000, 30_000, 31_000]), None)
    >>> trail.start(needed_ms=20_000, next_offset=8), trail.start(needed_ms=31_000, next_offset=8)
    (Block(offset=5, watermark_ms=None, newest_ms=30000), Block(offset=7, watermark_ms=30000, newest_ms=31000))
    """

    def __init__(self) -> None:
        self._blocks: deque[Block] = deque()

    def __len__(self) -> int:
        """Return how many blocks are kept."""
        return len(self._blocks)

    def add(self, offsets: Ints, before_ms: Ints, newest_ms: Ints, watermark_ms: int | None) -> None:
        """Note records in order, each (m,): offset, watermark before it, newest accepted time (or less than any).

        `watermark_ms` stands for the first `before_ms`, as there is none before the first sample of all.
        """
        block = before_ms // BLOCK_MS
        starts = np.flatnonzero(np.concatenate(([True], block[1:] != block[:-1])))
        newest = np.maximum.reduceat(newest_ms, starts)
        for number, (start, time_ms) in enumerate(zip(starts.tolist(), newest.tolist(), strict=True)):
            before = int(before_ms[start]) if start else watermark_ms
            if number == 0 and self._blocks and self._same(before):
                last = self._blocks[-1]
                self._blocks[-1] = last._replace(newest_ms=max(last.newest_ms, time_ms))
            else:
                self._blocks.append(Block(int(offsets[start]), before, time_ms))

    def start(self, needed_ms: int, next_offset: int, watermark_ms: int | None = None) -> Block:
        """Return where to begin for all samples from `needed_ms` on; forget what lies before.

        Where no record is needed that is `next_offset`, with the watermark of now.
        """
        while self._blocks and self._blocks[0].newest_ms < needed_ms:
            self._blocks.popleft()
        return self._blocks[0] if self._blocks else Block(next_offset, watermark_ms, needed_ms - 1)

    def _same(self, before: int | None) -> bool:
        last = self._blocks[-1].watermark_ms
        if last is None or before is None:
            return last is before
        return last // BLOCK_MS == before // BLOCK_MS
