"""Limits of dead letters: their bytes per second, and their lines in the log."""

import logging
from collections.abc import Callable
from typing import Final

from processors.contracts.events import Origin
from processors.contracts.log import BytesLeft

BURST_S: Final = 1200.0  # a source that is read again after a mistake may need the bytes of this time at once


class Allowance:
    """A byte budget: `bytes_per_s` on average, and at most BURST_S seconds' worth at once; with 0 nothing may be spent.

    `monotonic_s` is a clock that never goes back: the clock of the machine, or event time. With `left` the allowance starts
    with the balance of a former allowance; the attribute `left` is the balance after the last call of `spend`.
    """

    def __init__(self, bytes_per_s: float, monotonic_s: Callable[[], float], left: BytesLeft | None = None) -> None:
        self._bytes_per_s, self._monotonic_s = bytes_per_s, monotonic_s
        self.left = left or BytesLeft(bytes_per_s * BURST_S, monotonic_s())

    def spend(self, count: int) -> bool:
        """Spend `count` bytes and return True; spend nothing and return False if fewer are left."""
        now_s = self._monotonic_s()
        brought = (now_s - self.left.at_s) * self._bytes_per_s
        balance = min(self.left.count + brought, self._bytes_per_s * BURST_S)
        enough = count <= balance
        self.left = BytesLeft(balance - count if enough else balance, now_s)
        return enough


class Complaints:
    """Logs dead letters that a defect of the agent caused, but only the 1st, 2nd, 4th, 8th and so on.

    Otherwise a defect that affects every record would fill the log.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._count = 0

    def add(self, origin: Origin, error: str) -> None:
        self._count += 1
        if self._count & (self._count - 1) == 0:
            place = f"{origin.topic}/{origin.partition}/{origin.offset}"
            self._log.warning("%s became a dead letter, number %d: %s", place, self._count, error)
