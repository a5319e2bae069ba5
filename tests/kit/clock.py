"""A clock that stands still until a test moves it."""

import threading


class FakeClock:
    """A Clock whose time passes only by `advance` and by sleeping; sleeping costs no real time.

    Wall-clock and monotonic time move together; `jump_wall_ms` moves the wall clock alone, as an NTP step does.
    """

    def __init__(self, now_ms: int = 1_795_168_800_000) -> None:  # 2026-11-20T10:00:00Z
        self.slept_s: list[float] = []
        self._start_ms = now_ms
        self._passed_s = 0.0
        self._lock = threading.Lock()

    def now_ms(self) -> int:
        with self._lock:
            return self._start_ms + round(self._passed_s * 1000)

    def monotonic_s(self) -> float:
        with self._lock:
            return self._passed_s

    def sleep(self, seconds: float, stop: threading.Event) -> bool:
        if not stop.is_set():
            with self._lock:
                self._passed_s += max(0.0, seconds)
                self.slept_s.append(seconds)
        return stop.is_set()

    def advance(self, seconds: float) -> None:
        with self._lock:
            self._passed_s += seconds

    def jump_wall_ms(self, milliseconds: int) -> None:
        with self._lock:
            self._start_ms += milliseconds
