"""The agent's own log: tracebacks as bounded text, and an outage in as few lines as it takes."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from agent.app import logs
from agent.app.logs import TRACEBACK_LINES, Outage
from agent.config.roles import LogSettings
from tests.kit.clock import FakeClock


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Give the loggers of this process back as they were."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    levels = {name: logging.getLogger(name).level for name in logs.LIBRARIES}
    yield
    root.handlers[:], _ = handlers, root.setLevel(level)
    for name, least in levels.items():
        logging.getLogger(name).setLevel(least)
    structlog.reset_defaults()


def deep(depth: int) -> None:
    secret_of_a_user = "swordfish"  # noqa: F841, S105 - a traceback must not show it
    if depth == 0:
        raise ValueError("This is the end.")
    deeper(depth - 1)


def deeper(depth: int) -> None:  # a frame that repeats itself is left out of a traceback
    deep(depth - 1)


@pytest.mark.parametrize("form", ["json", "text"])
@pytest.mark.parametrize("writer", ["library", "learner"])
def test_a_traceback_is_text_of_bounded_length_without_values(
    form: Any, writer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure(LogSettings(format=form))
    log = logging.getLogger("uvicorn.error") if writer == "library" else logs.logger("learner")
    try:
        deep(40)
    except ValueError:
        log.exception("a request failed")
    written = capsys.readouterr().err
    if form == "json":
        (line,) = written.splitlines()
        written = json.loads(line)["exception"]
    assert "ValueError: This is the end." in written
    assert "lines are left out" in written
    assert "swordfish" not in written.replace('secret_of_a_user = "swordfish"', "")
    assert len(written.splitlines()) <= TRACEBACK_LINES + 1


def test_requests_and_attempts_to_connect_leave_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(LogSettings())
    logging.getLogger("httpx").info("HTTP Request: POST http://alertmanager/api/v2/alerts 200")
    logging.getLogger("uvicorn.access").info("GET / 200")
    logging.getLogger("kafka.conn").error("Connect attempt returned error 111.")
    assert capsys.readouterr().err == ""


class Lines:
    def __init__(self) -> None:
        self.written: list[tuple[str, dict[str, object]]] = []

    def warning(self, event: str, **more: object) -> None:
        self.written.append((event, more))

    info = warning


def test_an_outage_is_a_line_when_it_begins_one_a_minute_and_one_when_it_ends() -> None:
    lines, clock = Lines(), FakeClock()
    outage = Outage("broker", lines, clock)
    outage.over()
    for _ in range(26):
        outage.failed("refused")
        clock.advance(5.0)
    outage.over()
    outage.over()
    assert lines.written == [
        ("broker unavailable", {"reason": "refused"}),
        ("broker still unavailable", {"for_s": 60, "reason": "refused"}),
        ("broker still unavailable", {"for_s": 120, "reason": "refused"}),
        ("broker available again", {"after_s": 130}),
    ]


def test_a_process_that_is_started_in_an_outage_does_not_report_its_beginning_again() -> None:
    lines, clock = Lines(), FakeClock()
    clock.advance(1000.0)
    outage = Outage("broker", lines, clock, since_s=990.0)
    outage.failed("refused")
    outage.over()
    assert lines.written == [("broker available again", {"after_s": 10})]
