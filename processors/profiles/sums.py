"""What runs got so far, summed by run and quantity."""

from typing import Final

import numpy as np
import numpy.typing as npt

from processors.profiles.names import NAMES_MAX
from processors.profiles.owners import Given

SUM: Final = np.dtype([("key", "<i8"), ("amount", "<f8"), ("seconds", "<f8")])
_PER_RUN: Final = 2 * NAMES_MAX

Sum = tuple[float, float]
"""Amount and seconds."""


class Sums:
    """Sums by row of the run, number of the quantity, and whether minutes were short; at most `sums_max`.

    >>> sums = Sums(sums_max=100)
    >>> once = Given(np.array([3]), np.array([7]), np.array([False]), np.array([600.0]), np.array([60.0]))
    >>> sums.add(once), sums.add(once), sums.of(3), sums.of(4)
    (0, 0, {(7, False): (1200.0, 120.0)}, {})
    """

    def __init__(self, sums_max: int) -> None:
        self.sums_max = sums_max
        self.rows = np.zeros(0, SUM)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.rows)

    def add(self, given: Given) -> int:
        """Add what runs got; return how many new sums there was no room for."""
        found = added(given)
        place = np.searchsorted(self.rows["key"], found["key"])
        known = place < len(self.rows)
        known[known] = self.rows["key"][place[known]] == found["key"][known]
        for field in ("amount", "seconds"):
            self.rows[field][place[known]] += found[field][known]
        new = np.flatnonzero(~known)
        kept = new[: max(0, self.sums_max - len(self.rows))]
        if len(kept):
            self.rows = np.insert(self.rows, place[kept], found[kept])
        return len(new) - len(kept)

    def of(self, run: int) -> dict[tuple[int, bool], Sum]:
        """Return the sums of a run by quantity, and whether its minutes were short."""
        first, last = np.searchsorted(self.rows["key"], (run * _PER_RUN, (run + 1) * _PER_RUN))
        return read(self.rows[first:last])

    def drop(self, runs: npt.NDArray[np.int64]) -> None:
        """Let the sums of some runs go."""
        self.rows = self.rows[~np.isin(self.rows["key"] // _PER_RUN, runs)]

    def quantities(self) -> npt.NDArray[np.int64]:
        """Return the numbers of all quantities of which there are sums."""
        return np.unique(self.rows["key"] % _PER_RUN // 2)


def added(given: Given) -> npt.NDArray[np.void]:
    """Return what runs got as sums, by key.

    >>> added(Given(np.array([0, 0]), np.array([7, 7]), np.zeros(2, bool), np.ones(2), np.ones(2)))["amount"].tolist()
    [2.0]
    """
    key, place = np.unique(given.run * _PER_RUN + 2 * given.quantity + given.short, return_inverse=True)
    found = np.zeros(len(key), SUM)
    found["key"] = key
    found["amount"] = np.bincount(place, given.amount, len(key))
    found["seconds"] = np.bincount(place, given.seconds, len(key))
    return found


def read(rows: npt.NDArray[np.void]) -> dict[tuple[int, bool], Sum]:
    """Return sums of one run by quantity, and whether its minutes were short.

    >>> read(np.array([(15, 600.0, 60.0)], SUM))
    {(7, True): (600.0, 60.0)}
    """
    return {(key % _PER_RUN // 2, bool(key % 2)): (amount, seconds) for key, amount, seconds in rows.tolist()}


class Total:
    """Sums of one run, with what is added for it alone.

    >>> total = Total(Sums(sums_max=9), run=3)
    >>> total.add(Given(np.array([3, 4]), np.array([7, 7]), np.zeros(2, bool), np.full(2, 600.0), np.full(2, 60.0)))
    >>> total.of()
    {(7, False): (600.0, 60.0)}
    """

    def __init__(self, sums: Sums, run: int) -> None:
        self._run = run
        self._amount, self._seconds = np.zeros(_PER_RUN), np.zeros(_PER_RUN)
        for (quantity, short), (amount, seconds) in sums.of(run).items():
            self._amount[2 * quantity + short], self._seconds[2 * quantity + short] = amount, seconds

    def add(self, given: Given) -> None:
        """Add what runs got, as far as it is this one's."""
        at = np.flatnonzero(given.run == self._run)
        key = 2 * given.quantity[at] + given.short[at]
        self._amount += np.bincount(key, given.amount[at], _PER_RUN)
        self._seconds += np.bincount(key, given.seconds[at], _PER_RUN)

    def of(self) -> dict[tuple[int, bool], Sum]:
        """Return the sums by quantity, and whether minutes were short."""
        there = np.flatnonzero(self._seconds)
        found = zip(there.tolist(), self._amount[there].tolist(), self._seconds[there].tolist(), strict=True)
        return {(key // 2, bool(key % 2)): (amount, seconds) for key, amount, seconds in found}
