"""The agent's own log: its form, what of the libraries is in it, and an outage as few lines."""

import json
import logging
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from agent.clock import Clock
from agent.config.roles import LogSettings

TRACEBACK_LINES: Final = 20
REMIND_S: Final = 60.0
COLORS: Final = {"warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[31m"}
LIBRARIES: Final = {  # the least level of what they write, where the agent's own is higher than debug
    "httpx": logging.WARNING,  # a line for each request to an Alertmanager
    "httpcore": logging.WARNING,
    "uvicorn": logging.WARNING,
    "confluent_kafka": logging.CRITICAL,  # as the next
    "kafka": logging.CRITICAL,  # a line for each attempt to connect; what an error means is told by the role that gets it
}


def configure(settings: LogSettings) -> None:
    """Set up logging for this process; the libraries' own warnings go the same way."""
    level = logging.getLevelName(settings.level.upper())
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if settings.format == "json" else TextLines(colors=sys.stderr.isatty()))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name, least in LIBRARIES.items():
        logging.getLogger(name).setLevel(max(level, least) if level > logging.DEBUG else level)


class Logger:
    """Writes events with fields: what happened as one constant text, and beside it by name what is different each time."""

    def __init__(self, **fields: object) -> None:
        self._fields = fields
        self._log = logging.getLogger("scalewatch")
        self.debug = partial(self._write, logging.DEBUG)
        self.info = partial(self._write, logging.INFO)
        self.warning = partial(self._write, logging.WARNING)
        self.error = partial(self._write, logging.ERROR)
        self.exception = partial(self._write, logging.ERROR, exc_info=True)

    def _write(self, level: int, event: str, *, exc_info: bool = False, **fields: object) -> None:
        self._log.log(level, event, exc_info=exc_info, extra={"fields": {**self._fields, **fields}})


class JsonLines(logging.Formatter):
    """A JSON object a line: the fields, then event, level and time."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record; what was raised is text without the values of variables, and bounded."""
        line = {
            **_fields(record),
            "event": record.getMessage(),
            "level": record.levelname.lower(),
            "timestamp": _time(record),
        }
        raised = record.exc_info[1] if record.exc_info else None
        if raised is not None:
            line["exception"] = traceback_text(raised)
        return json.dumps(line, default=repr)


class TextLines(logging.Formatter):
    """Time, level, event and fields on a line, for people; in colour on a terminal."""

    def __init__(self, *, colors: bool) -> None:
        super().__init__()
        self._colors = colors

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record, and below it the traceback of what was raised."""
        level = record.levelname.lower()
        fields = " ".join(f"{name}={_plain(value)}" for name, value in _fields(record).items())
        color, off = (COLORS.get(level, ""), "\x1b[0m") if self._colors else ("", "")
        line = f"{_time(record)} [{color}{level:<9}{off}] {record.getMessage():<30} {fields}".rstrip()
        raised = record.exc_info[1] if record.exc_info else None
        return line if raised is None else f"{line}\n{traceback_text(raised)}"


if logging.lastResort is not None:  # what writes where nobody configured a log, as most commands: in the same form
    logging.lastResort.setFormatter(TextLines(colors=False))


def _fields(record: logging.LogRecord) -> Mapping[str, object]:
    found: Mapping[str, object] = getattr(record, "fields", {})
    return found


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")


def _plain(value: object) -> str:
    """Return a value as it is where it is one word, else in quotes: it may come from anybody, and stays on its line."""
    text = str(value)
    return text if text.isprintable() and text and not set(text) & set(" ='\"") else repr(value)


def traceback_text(error: BaseException) -> str:
    """Return the last TRACEBACK_LINES lines of a traceback; they end with what was raised."""
    lines = "".join(traceback.format_exception(error)).rstrip().splitlines()
    left_out = len(lines) - TRACEBACK_LINES
    if left_out > 0:
        lines = [f"... {left_out + 1} lines are left out", *lines[left_out + 1 :]]
    return "\n".join(lines)


def logger(role: str) -> Logger:
    """Return a logger that names its role on every line."""
    return Logger(role=role)


class Outage:
    """Tells of something that is away: one line when it begins, one a minute, one when it ends.

    `since_s` is when it began where a process goes on with the outage of the one before it, by a clock that only grows.
    """

    def __init__(self, what: str, log: Any, clock: Clock, since_s: float | None = None) -> None:
        self._what, self._log, self._clock = what, log, clock
        self.since_s = self._reported_s = since_s

    def failed(self, reason: str) -> None:
        """Take note of a failure."""
        now_s = self._clock.monotonic_s()
        if self.since_s is None or self._reported_s is None:
            self.since_s = self._reported_s = now_s
            self._log.warning(f"{self._what} unavailable", reason=reason)
        elif now_s - self._reported_s >= REMIND_S:
            self._reported_s = now_s
            self._log.warning(f"{self._what} still unavailable", for_s=round(now_s - self.since_s), reason=reason)

    def over(self) -> None:
        """Take note that it is there; nothing is told unless it was away."""
        if self.since_s is not None:
            away_s = round(self._clock.monotonic_s() - self.since_s)
            self.since_s = self._reported_s = None
            self._log.info(f"{self._what} available again", after_s=away_s)
