"""The parent of the roles: starts them as processes and starts again what ended, later and later."""

import signal
import subprocess
import threading
from collections.abc import Mapping
from typing import Any, Final, Protocol

from agent.clock import Clock

BACKOFF_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
STEADY_S: Final = 60.0  # a process that lived so long starts again at once
LEAVE_S: Final = 30.0
LOOK_S: Final = 0.2
BAD_CONFIG: Final = 2
UNAVAILABLE: Final = 75  # the broker is away: the role has told it, and its successor tells when it is back


class Start(Protocol):
    """Starts the process of a role, after so many restarts, in an outage since a time by the clock that only grows."""

    def __call__(self, role: str, restarts: int, away_since_s: float | None, /) -> subprocess.Popen[bytes]:
        """Return the process."""


class Child:
    """One role's process, its restarts, and when to start it next."""

    def __init__(self, role: str, start: Start, now_s: float) -> None:
        self.role, self._start = role, start
        self.restarts = 0
        self.process = start(role, 0, None)
        self.away_since_s: float | None = None
        self._since_s = now_s
        self._quick = 0
        self.again_s: float | None = None

    def ended(self) -> int | None:
        """Return the exit code of a process that ended and has not been started again."""
        return self.process.poll() if self.again_s is None else None

    def plan(self, code: int, now_s: float) -> float:
        """Decide when to start again after an end with this code; return the wait in seconds."""
        self.away_since_s = now_s if code == UNAVAILABLE else None
        self._quick = 0 if now_s - self._since_s > STEADY_S else self._quick + 1
        wait_s = BACKOFF_S[min(self._quick, len(BACKOFF_S) - 1)]
        self.again_s = now_s + wait_s
        return wait_s

    def start_if_due(self, now_s: float) -> bool:
        """Start again when it is time."""
        if self.again_s is None or now_s < self.again_s:
            return False
        self.restarts += 1
        self.process, self._since_s, self.again_s = (
            self._start(self.role, self.restarts, self.away_since_s),
            now_s,
            None,
        )
        return True


def supervise(roles: Mapping[str, Start], clock: Clock, stop: threading.Event, log: Any) -> int:
    """Run the roles until `stop` is set, or until one of them refuses the configuration; return the exit code."""
    children = [Child(role, start, clock.monotonic_s()) for role, start in roles.items()]
    code = 0
    try:
        while not stop.is_set() and code != BAD_CONFIG:
            for child in children:
                code = max(code, _look(child, clock.monotonic_s(), log))
            clock.sleep(LOOK_S, stop)
    finally:
        _leave(children, clock)
    return code


def _look(child: Child, now_s: float, log: Any) -> int:
    code = child.ended()
    if code == BAD_CONFIG:
        log.error("role refused its configuration", child=child.role)
        return BAD_CONFIG
    if code is not None:
        wait_s = child.plan(code, now_s)
        write = log.debug if code == UNAVAILABLE else log.error
        write("role ended", child=child.role, exit_code=code, starts_again_in_s=wait_s)
    if child.start_if_due(now_s):
        write = log.warning if child.away_since_s is None else log.debug
        write("role started again", child=child.role, restarts=child.restarts, pid=child.process.pid)
    return 0


def _leave(children: list[Child], clock: Clock) -> None:
    deadline_s = clock.monotonic_s() + LEAVE_S  # one for all: whoever stops the agent waits for the sum
    for child in children:
        if child.process.poll() is None:
            child.process.send_signal(signal.SIGTERM)
    for child in children:
        try:
            child.process.wait(max(0.0, deadline_s - clock.monotonic_s()))
        except subprocess.TimeoutExpired:
            child.process.kill()
            child.process.wait()
