"""The clock of the agent. Only this module reads the system time; all other code receives a Clock or a time."""

import math
import threading
import time
from typing import Final, Protocol

AGREE_MS: Final = 60_000  # maximum difference in ms between clocks that are synchronized over the network
# less than the broker's default of one hour for message.timestamp.after.max.ms
STAMP_AHEAD_MAX_MS: Final = 3_000_000

cpu_s = time.thread_time
"""Return the CPU time of this thread in seconds."""


class Clock(Protocol):
    """Tells the time to all roles, and lets them wait; tests pass a clock that they control."""

    def now_ms(self) -> int:
        """Return the wall-clock time in ms since the epoch. The clock may jump, so do not compute durations from it."""

    def monotonic_s(self) -> float:
        """Return seconds of a clock that never goes back; use it for deadlines and durations."""

    def sleep(self, seconds: float, stop: threading.Event) -> bool:
        """Wait for `seconds`, or until `stop` is set; return whether `stop` is set."""


class SystemClock:
    """The clock of the operating system."""

    monotonic_s = staticmethod(time.monotonic)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float, stop: threading.Event) -> bool:
        return stop.wait(max(0.0, seconds))


class BrokerClock:
    """The clock of this host while it agrees with the broker's clock; otherwise the broker's clock, as learned by `compare`.

    `ahead_ms` is how far the host's clock is ahead, negative if it is behind, and 0 while both agree within AGREE_MS.
    """

    def __init__(self, host: Clock) -> None:
        self._host = host
        self.monotonic_s, self.sleep = host.monotonic_s, host.sleep
        self.ahead_ms = 0
        # lower and upper bound of the time in ms by which the host's clock is ahead
        self._least_ms, self._most_ms = -math.inf, math.inf
        self._newest_ms: int | None = None
        # broker time in ms when the monotonic clock was 0; None unless the host's clock is wrong
        self._origin_ms: float | None = None

    def now_ms(self) -> int:
        return self._host.now_ms() if self._origin_ms is None else round(self._origin_ms + 1000 * self.monotonic_s())

    def stamp_ms(self) -> int:
        """Return a timestamp that the broker accepts, even before the first comparison of the clocks."""
        return min(self.now_ms(), self._newest_ms + STAMP_AHEAD_MAX_MS) if self._newest_ms else self.now_ms()

    def compare(self, written_ms: int, within_s: float) -> None:
        """Record that the broker's clock showed `written_ms` at some moment in the last `within_s` seconds."""
        now_ms = self._host.now_ms()
        most_ms, least_ms = now_ms - written_ms, now_ms - written_ms - 1000 * within_s
        if least_ms > self._most_ms or most_ms < self._least_ms:  # one of the clocks was set
            self._least_ms, self._most_ms = -math.inf, math.inf
        self._least_ms, self._most_ms = max(least_ms, self._least_ms), min(most_ms, self._most_ms)
        wrong = self._least_ms > AGREE_MS or self._most_ms < -AGREE_MS
        self.ahead_ms = round(self._most_ms) if wrong else 0
        self._origin_ms = now_ms - self._most_ms - 1000 * self.monotonic_s() if wrong else None
        self._newest_ms = written_ms
