"""The end of a test run says loudly what could not be run and why; where everything is required, that is a failure.

A part of pytest that tests/conftest.py takes in.
"""

import os
from collections import Counter
from collections.abc import Generator

import pytest

REQUIRE = ("SCALEWATCH_REQUIRE_KAFKA", "SCALEWATCH_REQUIRE_SLURM", "SCALEWATCH_REQUIRE_TOOLS")


def everything_is_required() -> bool:
    """Return whether this is a run as in .ci/run, where nothing may be left out."""
    return all(os.environ.get(name) == "1" for name in REQUIRE)


def reasons(config: pytest.Config) -> Counter[str]:
    """Return why tests were left out, and how many for each reason; what is known to fail is left out, too."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:  # a worker, which tells what happened to the process that has one
        return Counter()
    skipped = (_reason(report) for report in reporter.stats.get("skipped", []))
    known = (f"expected to fail: {report.wasxfail}" for report in reporter.stats.get("xfailed", []))
    return Counter([*skipped, *known])


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that left something out where everything is required."""
    if everything_is_required() and session.exitstatus == pytest.ExitCode.OK and reasons(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> Generator[None, None, None]:
    """Say at the very end what was left out, the most frequent reason first."""
    yield
    if left_out := reasons(config):
        _report(terminalreporter, left_out)


def _report(terminalreporter: pytest.TerminalReporter, left_out: Counter[str]) -> None:
    required = everything_is_required()
    colour = {"red": True} if required else {"yellow": True}
    terminalreporter.section(f"{left_out.total()} TESTS DID NOT RUN", sep="!", bold=True, **colour)
    for reason, count in left_out.most_common():
        terminalreporter.line(f"{count:5} {'test ' if count == 1 else 'tests'}  {reason}", **colour)
    if required:
        terminalreporter.line("That is a failure: everything is required here.", bold=True, **colour)
    else:
        terminalreporter.line("As root on Debian or Ubuntu, .ci/provide kafka, slurm and tools get what is missing.")


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    reported = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reported.removeprefix("Skipped: ")
