"""The agent's own log: its format, the log levels of libraries, and rate-limited lines during an outage."""

import logging
import sys
import traceback
from collections.abc import MutableMapping
from typing import Any, Final

import structlog

from agent.clock import Clock
from agent.config.roles import LogSettings

TRACEBACK_LINES: Final = 20
REMIND_S: Final = 60.0
LIBRARIES: Final = {  # lowest level that each library may log, unless the agent's own level is debug
    "httpx": logging.WARNING,  # httpx logs each request to an Alertmanager
    "httpcore": logging.WARNING,
    "uvicorn": logging.WARNING,
    "confluent_kafka": logging.CRITICAL,  # for the reason given at the entry "kafka"
    "kafka": logging.CRITICAL,  # the library logs each connection attempt; the role that gets the error reports it
}


def configure(settings: LogSettings) -> None:
    """Set up logging for this process, including the libraries' warnings."""
    level = logging.getLevelName(settings.level.upper())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        with_traceback,
    ]
    renderer: Any = structlog.processors.JSONRenderer()
    if settings.format != "json":
        plain = structlog.dev.plain_traceback
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)
    formatter = structlog.stdlib.ProcessorFormatter(
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer], foreign_pre_chain=shared
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    limit_libraries(level)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def limit_libraries(level: int = logging.WARNING) -> None:
    """Limit the log levels of libraries to LIBRARIES, unless the level is debug."""
    for name, least in LIBRARIES.items():
        logging.getLogger(name).setLevel(max(level, least) if level > logging.DEBUG else level)


def with_traceback(_logger: object, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Replace an exception by a text of bounded length without the values of variables, which may contain private data."""
    raised = line.pop("exc_info", None)
    line.pop("stack_info", None)
    if raised is True:
        raised = sys.exc_info()
    error = raised[1] if isinstance(raised, tuple) else raised
    if isinstance(error, BaseException):
        line["exception"] = traceback_text(error)
    return line


def traceback_text(error: BaseException) -> str:
    """Return the last TRACEBACK_LINES lines of a traceback, which end with the exception."""
    lines = "".join(traceback.format_exception(error)).rstrip().splitlines()
    left_out = len(lines) - TRACEBACK_LINES
    if left_out > 0:
        lines = [f"... {left_out + 1} lines are left out", *lines[left_out + 1 :]]
    return "\n".join(lines)


def logger(role: str) -> Any:
    """Return a logger that adds its role to every line."""
    return structlog.stdlib.get_logger().bind(role=role)


class Outage:
    """Logs an outage: one line when it begins, one line per minute, and one line when it ends.

    `since_s` is the start of the outage in seconds of the monotonic clock. A process that restarts during an outage passes
    `since_s` to the new process.
    """

    def __init__(self, what: str, log: Any, clock: Clock, since_s: float | None = None) -> None:
        self._what, self._log, self._clock = what, log, clock
        self.since_s = self._reported_s = since_s

    def failed(self, reason: str) -> None:
        now_s = self._clock.monotonic_s()
        if self.since_s is None or self._reported_s is None:
            self.since_s = self._reported_s = now_s
            self._log.warning(f"{self._what} unavailable", reason=reason)
        elif now_s - self._reported_s >= REMIND_S:
            self._reported_s = now_s
            self._log.warning(f"{self._what} still unavailable", for_s=round(now_s - self.since_s), reason=reason)

    def over(self) -> None:
        """Log the end of the outage, if there was one."""
        if self.since_s is not None:
            away_s = round(self._clock.monotonic_s() - self.since_s)
            self.since_s = self._reported_s = None
            self._log.info(f"{self._what} available again", after_s=away_s)
