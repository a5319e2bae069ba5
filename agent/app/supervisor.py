"""The parent of the roles: starts them as processes and starts again what ended, later and later."""

import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog

from agent.clock import Clock
from agent.config.roles import LogSettings

BACKOFF_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
STEADY_S: Final = 60.0  # a process that lived so long starts again at once
LEAVE_S: Final = 30.0
LOOK_S: Final = 0.2
BAD_CONFIG: Final = 2
Start = Callable[[str, int], subprocess.Popen[bytes]]


def configure(settings: LogSettings) -> None:
    """Set up logging for this process; the libraries' own warnings go the same way."""
    level = logging.getLevelName(settings.level.upper())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if settings.format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer], foreign_pre_chain=shared
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger("kafka").setLevel(max(level, logging.ERROR))  # it warns of every retry
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def logger(role: str) -> Any:
    """Return a logger that names its role on every line."""
    return structlog.stdlib.get_logger().bind(role=role)


class Child:
    """One role's process, its restarts, and when to start it next."""

    def __init__(self, role: str, start: Start, now_s: float) -> None:
        self.role, self._start = role, start
        self.restarts = 0
        self.process = start(role, 0)
        self._since_s = now_s
        self._quick = 0
        self.again_s: float | None = None

    def ended(self) -> int | None:
        """Return the exit code of a process that ended and has not been started again."""
        return self.process.poll() if self.again_s is None else None

    def plan(self, now_s: float) -> float:
        """Decide when to start again; return the wait in seconds."""
        self._quick = 0 if now_s - self._since_s > STEADY_S else self._quick + 1
        wait_s = BACKOFF_S[min(self._quick, len(BACKOFF_S) - 1)]
        self.again_s = now_s + wait_s
        return wait_s

    def start_if_due(self, now_s: float) -> bool:
        """Start again when it is time."""
        if self.again_s is None or now_s < self.again_s:
            return False
        self.restarts += 1
        self.process, self._since_s, self.again_s = self._start(self.role, self.restarts), now_s, None
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
        log.error("role ended", child=child.role, exit_code=code, starts_again_in_s=child.plan(now_s))
    if child.start_if_due(now_s):
        log.warning("role started again", child=child.role, restarts=child.restarts, pid=child.process.pid)
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
