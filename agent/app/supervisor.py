"""The parent process of the roles: starts each role as a process, and restarts ended processes at growing intervals."""

import faulthandler
import math
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from agent.clock import Clock
from agent.collector.recorder import Recorder

READING_MAX_S: Final = 60.0  # time limit for one slice, or for one journal record including the model fits of a tick
WAITING_MAX_S: Final = 300.0  # time limit for work between reads: a rebalance, a checkpoint, or the closing of clients
# maximum time counted per check: if more time has passed, the parent was suspended, and the role with it
LOOK_MAX_S: Final = 1.0
ARM_S: Final = 1.0
BACKOFF_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
STEADY_S: Final = 60.0  # a process that ran longer than this restarts after the shortest wait
LEAVE_S: Final = 30.0
LOOK_S: Final = 0.2
BAD_CONFIG: Final = 2
CERTAIN_S: Final = 1.0  # a process that was stuck on a record for this time died because of that record
UNAVAILABLE: Final = 75  # exit code if the broker is unreachable; the outage is already in the log


class Watch:
    """Measures in the parent process for how long the loop of a role has made no progress."""

    def __init__(self, recorder: Recorder, now_s: float) -> None:
        self._recorder = recorder
        self._beats, self._looked_s = 0, now_s
        self.still_s = 0.0

    def too_long(self, now_s: float) -> bool:
        """Return whether the role's loop has hung for too long; False as long as the role is loading, because its loop has not started."""
        beats, passed_s = self._recorder.beats(), min(now_s - self._looked_s, LOOK_MAX_S)
        self.still_s = self.still_s + passed_s if beats == self._beats else 0.0
        self._beats, self._looked_s = beats, now_s
        return beats > 0 and self.still_s > (READING_MAX_S if self._recorder.reads() else WAITING_MAX_S)


class Fuse:
    """Ends a hung role that has no parent process: a timer outside the interpreter prints the traceback and exits with code 1."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._armed_s, self._reading = -math.inf, False

    def __call__(self, reading: bool) -> None:  # noqa: FBT001 - the call of a recorder
        """Restart the timer when reading begins, and otherwise at most every ARM_S seconds, because a restart costs 80 µs."""
        now_s = self._clock.monotonic_s()
        if (reading and not self._reading) or now_s - self._armed_s >= ARM_S:
            self._armed_s, self._reading = now_s, reading
            faulthandler.dump_traceback_later(READING_MAX_S if reading else WAITING_MAX_S, exit=True)


StartRole = Callable[[str, int, float | None], subprocess.Popen[bytes]]
"""Starts a role's process from its name, its number of restarts, and the start of the broker's outage in monotonic seconds."""


class Reloads(Protocol):
    """Reads the configuration again on request."""

    def look(self) -> bool:
        """Return whether there is a new configuration, so that the roles must restart."""

    def undo(self, role: str, /) -> bool:
        """Restore the previous configuration, because `role` refused the new one; return False if that is not possible."""


class Child:
    """The process of one role, its restarts, and the time of its next start. `attempt` is the read during which the last process died."""

    def __init__(self, role: str, start: StartRole, recorder: Recorder, now_s: float) -> None:
        self.role, self._start, self._recorder = role, start, recorder
        self.restarts = 0
        self.attempt = recorder.settle()  # a read attempt of a former parent, which ended together with its roles
        self._watch = Watch(recorder, now_s)
        self.process = start(role, 0, None)
        self.away_since_s: float | None = None
        self._since_s = now_s
        self._quick = 0
        self.again_s: float | None = None
        self.kill_s: float | None = None  # deadline for an orderly shutdown; None if no shutdown was requested

    def ended(self) -> int | None:
        """Return the exit code of a process that has ended and was not restarted yet; None otherwise."""
        return self.process.poll() if self.again_s is None else None

    def kill_if_still(self, now_s: float) -> str | None:
        """Kill the process if its loop has hung for too long; return a text with its current records and the time, or None."""
        if self.again_s is not None or not self._watch.too_long(now_s) or self.process.poll() is not None:
            return None
        self.process.kill()  # SIGTERM would not work, because Python handles it only after the loop continues
        return f"{self._recorder.reads() or 'no record'} for {self._watch.still_s:.0f} s"

    def plan(self, code: int, now_s: float) -> float:
        """Set the time of the restart after an exit with `code`; return the delay in seconds, which grows with each early exit in a row."""
        certain = code not in (-signal.SIGKILL, -signal.SIGTERM) or self._watch.still_s >= CERTAIN_S
        self.attempt = self._recorder.settle(certain=certain)
        self.away_since_s = now_s if code == UNAVAILABLE else None
        self._quick = 0 if now_s - self._since_s > STEADY_S else self._quick + 1
        wait_s = BACKOFF_S[min(self._quick, len(BACKOFF_S) - 1)]
        self.again_s = now_s + wait_s
        return wait_s

    def start_if_due(self, now_s: float) -> bool:
        if self.again_s is None or now_s < self.again_s:
            return False
        self.restarts += 1
        self._begin(self.away_since_s, now_s)
        return True

    def leave(self, now_s: float) -> None:
        """Make the process restart with a new configuration: ask it to shut down, or end the delay of a pending restart."""
        self._quick = 0
        if self.again_s is not None:
            self.again_s = now_s
        else:
            self.process.send_signal(signal.SIGTERM)
            self.kill_s = now_s + LEAVE_S

    def start_if_left(self, now_s: float) -> bool:
        """Start the new process once the old one has ended, without counting a restart; kill the old process if it takes too long."""
        if self.process.poll() is None:
            if self.kill_s is not None and now_s >= self.kill_s:
                self.process.kill()
            return False
        self.attempt = self._recorder.settle()
        self._begin(None, now_s)
        return True

    def _begin(self, away_since_s: float | None, now_s: float) -> None:
        self._watch = Watch(self._recorder, now_s)
        self.process, self._since_s = self._start(self.role, self.restarts, away_since_s), now_s
        self.again_s = self.kill_s = None


def supervise(
    recorders: Mapping[str, Recorder],
    start: StartRole,
    clock: Clock,
    stop: threading.Event,
    log: Any,
    *,
    reloads: Reloads,
) -> int:
    """Start the roles, and restart each role that ends, until `stop` is set; return the exit code.

    If a role rejects a reloaded configuration, the former configuration is restored.
    """
    children = [Child(role, start, recorder, clock.monotonic_s()) for role, recorder in recorders.items()]
    code = 0
    try:
        while not stop.is_set() and code != BAD_CONFIG:
            anew = reloads.look()
            for child in children:
                exit_code = _look(child, clock.monotonic_s(), log)
                undone = exit_code == BAD_CONFIG and reloads.undo(child.role)
                anew, code = anew or undone, code if undone else max(code, exit_code)
            for child in children if anew else ():
                child.leave(clock.monotonic_s())
            clock.sleep(LOOK_S, stop)
    finally:
        _leave(children, clock)
    return code


def _look(child: Child, now_s: float, log: Any) -> int:
    if child.kill_s is not None:
        if child.start_if_left(now_s):
            log.info("role started with the new configuration", child=child.role, pid=child.process.pid)
        return 0
    if reading := child.kill_if_still(now_s):
        log.error("role hangs and is killed", child=child.role, pid=child.process.pid, reading=reading)
        return 0
    code = child.ended()
    if code == BAD_CONFIG:
        log.error("role rejected its configuration", child=child.role)
        return BAD_CONFIG
    if code is not None:
        wait_s = child.plan(code, now_s)
        write = log.debug if code == UNAVAILABLE else log.error
        reading = None if child.attempt is None else str(child.attempt)
        write("role ended", child=child.role, exit_code=code, starts_again_in_s=wait_s, reading=reading)
    if child.start_if_due(now_s):
        write = log.warning if child.away_since_s is None else log.debug
        write("role restarted", child=child.role, restarts=child.restarts, pid=child.process.pid)
    return 0


def _leave(children: list[Child], clock: Clock) -> None:
    # all roles share one deadline, so that stopping the agent does not take the sum of their deadlines
    deadline_s = clock.monotonic_s() + LEAVE_S
    for child in children:
        if child.process.poll() is None:
            child.process.send_signal(signal.SIGTERM)
    for child in children:
        try:
            child.process.wait(max(0.0, deadline_s - clock.monotonic_s()))
        except subprocess.TimeoutExpired:
            child.process.kill()
            child.process.wait()
