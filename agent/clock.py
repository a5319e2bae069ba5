"""The clock: the one file that asks what time it is. Everything else is handed a Clock, or the time itself."""

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """What the roles ask for the time and wait with; tests hand in one that obeys them."""

    def now_ms(self) -> int:
        """Return the wall-clock time in milliseconds since the epoch; it may jump, so never subtract two of them."""

    def monotonic_s(self) -> float:
        """Return seconds that only grow: deadlines and durations are differences of these."""

    def sleep(self, seconds: float, stop: threading.Event) -> bool:
        """Wait that long, or until `stop` is set; return whether it is set."""


class SystemClock:
    """The clock of this machine."""

    monotonic_s = staticmethod(time.monotonic)

    def now_ms(self) -> int:
        """Return the wall-clock time in milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float, stop: threading.Event) -> bool:
        """Wait that long, or until `stop` is set; return whether it is set."""
        return stop.wait(max(0.0, seconds))
