"""The clock: the one file that asks what time it is. Everything else is handed a Clock, or the time itself."""

import math
import threading
import time
from typing import Final, Protocol

AGREE_MS: Final = 60_000  # clocks that are set over the network differ by less
STAMP_AHEAD_MAX_MS: Final = (
    3_000_000  # a broker refuses records from more than an hour ahead (message.timestamp.after.max.ms)
)

cpu_s = time.thread_time
"""Return the seconds of processor time that this thread has taken."""


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


class BrokerClock:
    """The clock of this host while it agrees with the broker's; else the broker's, as far as `compare` has told it.

    `ahead_ms` is by how much the host's clock is ahead, negative if behind, and 0 while both agree within AGREE_MS.
    """

    def __init__(self, host: Clock) -> None:
        self._host = host
        self.monotonic_s, self.sleep = host.monotonic_s, host.sleep
        self.ahead_ms = 0
        self._least_ms, self._most_ms = -math.inf, math.inf  # bounds of how far the host's clock is ahead
        self._newest_ms: int | None = None
        self._origin_ms: float | None = None  # the broker's time at 0 of the monotonic clock, while the host's is wrong

    def now_ms(self) -> int:
        """Return the wall-clock time in milliseconds since the epoch."""
        return self._host.now_ms() if self._origin_ms is None else round(self._origin_ms + 1000 * self.monotonic_s())

    def stamp_ms(self) -> int:
        """Return a time for a record that the broker accepts, even before the clocks have been compared."""
        return min(self.now_ms(), self._newest_ms + STAMP_AHEAD_MAX_MS) if self._newest_ms else self.now_ms()

    def compare(self, written_ms: int, within_s: float) -> None:
        """Take in that the broker's clock showed `written_ms` at some moment of the last `within_s` seconds."""
        now_ms = self._host.now_ms()
        most_ms, least_ms = now_ms - written_ms, now_ms - written_ms - 1000 * within_s
        if least_ms > self._most_ms or most_ms < self._least_ms:  # one of the clocks was set
            self._least_ms, self._most_ms = -math.inf, math.inf
        self._least_ms, self._most_ms = max(least_ms, self._least_ms), min(most_ms, self._most_ms)
        wrong = self._least_ms > AGREE_MS or self._most_ms < -AGREE_MS
        self.ahead_ms = round(self._most_ms) if wrong else 0
        self._origin_ms = now_ms - self._most_ms - 1000 * self.monotonic_s() if wrong else None
        self._newest_ms = written_ms
