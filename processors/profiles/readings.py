"""Readings of meters that wait until nothing can change their minute any more."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

READING: Final = np.dtype(
    [("meter", "<i4"), ("source", "<u4"), ("revision", "<i4"), ("count", "<i4"), ("value", "<f8")]
)
Readings = npt.NDArray[np.void]
"""Columns of m readings: the row of the meter, who told it, which telling it is, of how many samples, and the value."""


class WaitingReadings:
    """Readings by minute, in the order in which they came; at most `readings_max`.

    >>> waiting = WaitingReadings(readings_max=9)
    >>> waiting.add(60_000, np.zeros(2, READING)), waiting.add(0, np.zeros(8, READING)), len(waiting)
    (True, False, 2)
    >>> [(minute_ms, len(told)) for minute_ms, told in waiting.due(before_ms=120_000)], len(waiting)
    ([(60000, 2)], 0)
    """

    def __init__(self, readings_max: int) -> None:
        self.readings_max = readings_max
        self._parts: dict[int, list[Readings]] = {}
        self._count = 0

    def __len__(self) -> int:
        """Return how many wait."""
        return self._count

    def add(self, minute_ms: int, readings: Readings) -> bool:
        """Let readings of a minute wait; False where they would be too many."""
        if self._count + len(readings) > self.readings_max:
            return False
        self._count += len(readings)
        self._parts.setdefault(minute_ms, []).append(readings)
        return True

    def due(self, before_ms: int) -> Iterator[tuple[int, Readings]]:
        """Yield the minutes that begin before, each once, the oldest first."""
        for minute_ms in sorted(minute_ms for minute_ms in self._parts if minute_ms < before_ms):
            parts = self._parts.pop(minute_ms)
            self._count -= sum(map(len, parts))
            yield minute_ms, np.concatenate(parts)

    def by_minute(self) -> Iterator[tuple[int, Readings]]:
        """Yield all that waits, which stays."""
        for minute_ms, parts in sorted(self._parts.items()):
            self._parts[minute_ms] = [np.concatenate(parts)]
            yield minute_ms, self._parts[minute_ms][0]


def last_word(readings: Readings) -> Readings:
    """Return of what a source told of a meter the highest revision, of these the last; by meter, then by source.

    >>> told = np.array([(0, 1, 1, 6, 5.0), (0, 1, 0, 6, 4.0), (0, 2, 0, 6, 3.0)], READING)
    >>> last_word(told)["value"].tolist()
    [5.0, 3.0]
    """
    ordered = readings[np.argsort(readings["meter"], kind="stable")]
    meter = ordered["meter"]
    if (meter[1:] != meter[:-1]).all():
        return ordered
    ordered = ordered[np.lexsort((ordered["revision"], ordered["source"], ordered["meter"]))]
    after = ordered[1:]
    last = (after["meter"] != ordered["meter"][:-1]) | (after["source"] != ordered["source"][:-1])
    return ordered[np.append(last, True)] if len(ordered) else ordered
