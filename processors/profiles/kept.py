"""Closed minutes that may still be given away: a start or an end of a run may be told late, or not at all before its end."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from processors.profiles.closing import Amounts
from processors.windows.settings import MINUTE_MS


class KeptMinutes:
    """What hosts did, by minute and within it by host; at most `amounts_max`, the oldest minutes go first.

    >>> from processors.profiles.closing import AMOUNT
    >>> kept = KeptMinutes(amounts_max=9)
    >>> kept.add(60_000, np.array([(3, 7, 1, 600.0), (5, 7, 1, 300.0)], AMOUNT))
    0
    >>> [(minute_ms, did["host"].tolist()) for minute_ms, did in kept.within(90_000, 120_000, np.array([2, 5]))]
    [(60000, [1])]
    """

    def __init__(self, amounts_max: int) -> None:
        self.amounts_max = amounts_max
        self.minutes: dict[int, Amounts] = {}
        self._hosts: dict[int, npt.NDArray[np.int32]] = {}  # rows of hosts again, side by side: they are searched
        self._count = 0

    def __len__(self) -> int:
        """Return how many amounts are kept."""
        return self._count

    def add(self, minute_ms: int, amounts: Amounts) -> int:
        """Keep a closed minute that is not kept; return how many amounts of old ones had to go for it."""
        self.minutes[minute_ms] = amounts
        self._hosts[minute_ms] = np.ascontiguousarray(amounts["host"])
        self._count += len(amounts)
        gone = 0
        while self._count > self.amounts_max and len(self.minutes) > 1:
            gone += len(self.take(min(self.minutes)))
        return gone

    def take(self, minute_ms: int) -> Amounts:
        """Return a minute, which is no longer kept."""
        amounts = self.minutes.pop(minute_ms)
        del self._hosts[minute_ms]
        self._count -= len(amounts)
        return amounts

    def within(self, start_ms: int, end_ms: int, hosts: npt.NDArray[np.int64]) -> Iterator[tuple[int, Amounts]]:
        """Yield the minutes that touch a time, with what some hosts (k,) did; hosts are numbered by their place in `hosts`.

        `hosts` rise.
        """
        rows = hosts.astype(np.int32)
        for minute_ms in sorted(self.minutes):
            if minute_ms >= end_ms or minute_ms + MINUTE_MS <= start_ms:
                continue
            amounts = self.minutes[minute_ms]
            first = np.searchsorted(self._hosts[minute_ms], rows)
            count = np.searchsorted(self._hosts[minute_ms], rows, side="right") - first
            before = np.cumsum(count) - count
            at = np.repeat(first - before, count) + np.arange(count.sum())
            found = amounts[at]
            found["host"] = np.repeat(np.arange(len(hosts)), count)
            yield minute_ms, found
