"""Which tests run a line, and how long each takes: recorded once, and kept until a module or a test changes."""

import hashlib
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import coverage
import msgspec
import pytest

SETUP: Final = "setup:"
VARIABLE: Final = "SCALEWATCH_MUTATION"
MARKED: Final = "not kafka and not slurm and not tools"


class Covering(msgspec.Struct):
    """What was recorded: `lines` names tests by their place in `tests`, by line and module."""

    fingerprint: str
    tests: list[str]
    seconds: list[float]
    lines: dict[str, dict[int, list[int]]]

    def of(self, path: str, first: int, last: int) -> list[tuple[float, str]]:
        """Return the tests that run any of some lines, the quickest first; of lines that no test runs, those of the module."""
        lines = self.lines.get(path, {})
        places = {place for line in range(first, last + 1) for place in lines.get(line, ())}
        places = places or {place for found in lines.values() for place in found}
        return sorted((self.seconds[place], self.tests[place]) for place in places)


class Recorder:
    """A plugin of pytest that measures by test; what the making of a fixture runs counts for every test of the file."""

    def __init__(self, modules: Iterable[str], to: Path) -> None:
        self._measured = coverage.Coverage(data_file=None, include=list(modules), config_file=False)
        self._to = to
        self._seconds: dict[str, float] = defaultdict(float)
        self._measured.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        self._measured.switch_context(SETUP + _file(item.nodeid))
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        self._measured.switch_context(item.nodeid)
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        self._measured.stop()
        self._to.write_text(json.dumps({"seconds": self._seconds, "contexts": dict(self._contexts())}))

    def _contexts(self) -> Iterator[tuple[str, dict[int, list[str]]]]:
        data = self._measured.get_data()
        for path in data.measured_files():
            yield os.path.relpath(path), data.contexts_by_lineno(path)


def _file(test: str) -> str:
    return test.partition("::")[0]


def pytest_configure(config: pytest.Config) -> None:
    """Register the recorder, where this module is named as a plugin of pytest."""
    reported = json.loads(os.environ[VARIABLE])
    config.pluginmanager.register(Recorder(reported["modules"], Path(reported["to"])))


def covering(modules: list[str], tests: list[str], folder: Path, root: Path) -> Covering:
    """Return what tests cover of modules, from the file of an earlier run where nothing of either has changed since."""
    retained = folder / "covering.json"
    found = fingerprint(root, [*modules, *tests])
    if retained.exists() and (known := msgspec.json.decode(retained.read_bytes(), type=Covering)).fingerprint == found:
        return known
    recorded = _recorded(modules, tests, folder / "recorded.json", root)
    known = _ordered(found, recorded)
    retained.write_bytes(msgspec.json.encode(known))
    return known


def fingerprint(root: Path, paths: list[str]) -> str:
    """Return a hash of what stands in files and folders."""
    files = [root / path for path in paths]
    every = sorted({file for each in files for file in ([each] if each.is_file() else each.rglob("*.py"))})
    return hashlib.sha256(b"".join(str(file).encode() + file.read_bytes() for file in every)).hexdigest()


def _recorded(modules: list[str], tests: list[str], to: Path, root: Path) -> dict[str, Any]:
    reported = {"modules": modules, "to": str(to.resolve())}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-n",
        "0",
        "-p",
        "tests.mutation.covering",
        "-m",
        MARKED,
        *tests,
    ]
    environment = {**os.environ, VARIABLE: json.dumps(reported), "PYTHONPATH": str(root)}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"Nothing can be said before all tests pass:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
    return json.loads(to.read_text())  # type: ignore[no-any-return]


def _ordered(found: str, recorded: dict[str, Any]) -> Covering:
    tests = sorted(recorded["seconds"])
    place = {test: i for i, test in enumerate(tests)}
    of_file = defaultdict(list)
    for test in tests:
        of_file[_file(test)].append(place[test])

    def places(contexts: list[str]) -> list[int]:
        named = [place[context] for context in contexts if context in place]
        set_up = [i for context in contexts if context.startswith(SETUP) for i in of_file[context.removeprefix(SETUP)]]
        return sorted({*named, *set_up})

    lines = {
        path: {int(line): tests_ for line, contexts in by_line.items() if (tests_ := places(contexts))}
        for path, by_line in recorded["contexts"].items()
    }
    return Covering(found, tests, [recorded["seconds"][test] for test in tests], lines)
