"""The end of a test run: what was left out is said, and fails a run where everything is required."""

import pytest

from tests.kit.not_run import REQUIRE
from tests.kit.sources import ROOT
from tests.kit.tools import REQUIRED, how_to_get, tool

TESTS = """
    import pytest
    from tests.kit.tools import tool

    @pytest.mark.parametrize("size", [1, 2])
    def test_with_a_tool(size):
        tool("no-such-program")

    def test_that_runs():
        assert True
"""
KNOWN = """
    import pytest

    @pytest.mark.xfail(reason="it rains")
    def test_known():
        assert False
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for name in REQUIRE:
        monkeypatch.delenv(name, raising=False)
    return pytester


@pytest.mark.parametrize("workers", ["0", "2"])
def test_what_could_not_be_run_is_reported_with_the_reason_and_the_number_of_tests(
    run: pytest.Pytester, workers: str
) -> None:
    run.makepyfile(TESTS)
    done = run.runpytest_subprocess("-ra", "-p", "tests.kit.not_run", "-n", workers)
    assert done.ret == pytest.ExitCode.OK
    done.stdout.fnmatch_lines(
        ["*short test summary*", "!* 2 TESTS DID NOT RUN !*", "*2 tests  no-such-program is missing: install it", "*"]
    )


def test_the_section_is_in_colour_where_there_is_one(run: pytest.Pytester) -> None:
    run.makepyfile(TESTS)
    done = run.runpytest_inprocess("-p", "tests.kit.not_run", "--color=yes")
    assert "\x1b[33m" in next(line for line in done.outlines if "no-such-program" in line)


def test_nothing_is_reported_where_all_ran(run: pytest.Pytester) -> None:
    run.makepyfile("def test_that_runs(): pass")
    done = run.runpytest_inprocess("-p", "tests.kit.not_run")
    assert done.ret == pytest.ExitCode.OK
    done.stdout.no_fnmatch_line("*DID NOT RUN*")


@pytest.mark.parametrize("tests", ["import pytest\ndef test_x(): pytest.skip('it rains')", KNOWN])
def test_any_skip_is_a_failure_where_everything_is_required(
    run: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tests: str
) -> None:
    for name in REQUIRE:
        monkeypatch.setenv(name, "1")
    run.makepyfile(tests)
    done = run.runpytest_inprocess("-p", "tests.kit.not_run")
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    done.stdout.fnmatch_lines(["!* 1 TESTS DID NOT RUN !*", "*it rains", "That is a failure*"])


def test_a_missing_tool_is_a_failure_where_tools_are_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REQUIRED, "1")
    with pytest.raises(pytest.fail.Exception, match="no-such-program is missing: install it"):
        tool("no-such-program")


def test_what_to_do_is_reported_for_packages_and_for_what_is_built() -> None:
    assert how_to_get("collectd") == "apt-get install collectd-core librdkafka1 libyajl2"
    assert how_to_get("alertmanager") == "apt-get install prometheus-alertmanager"
    assert how_to_get("helm4") == "with Go, .ci/provide tools builds it"
