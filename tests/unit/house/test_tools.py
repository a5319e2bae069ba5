"""Programs that tests ask for are those that .ci/provide gets, and each is explained to newcomers."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.sources import ROOT, Module, dotted, module, modules
from tests.kit.tools import find, listed


def requested(of: Module) -> Iterator[str]:
    """Yield the programs that a module names where it asks for a tool."""
    for node in ast.walk(of.tree):
        if isinstance(node, ast.Call) and dotted(node.func) == "tool":
            yield from (
                each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)
            )


def test_every_program_that_tests_ask_for_is_one_that_is_provided() -> None:
    own = {"no-such-program"}
    request = {name for of in modules("tests") for name in requested(of)}
    assert request - own - set(listed()) == set()
    assert "promtool" in request


def test_every_provided_program_is_explained() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert [name for name in listed() if not re.search(rf"`{re.escape(name)}`", text)] == []


def test_a_program_that_is_asked_for_is_found_in_the_source() -> None:
    assert list(requested(module("tests/x.py", 'run([tool("a", "b"), other("c")])'))) == ["a", "b"]


def test_a_program_built_from_source_is_found_where_it_is_put(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SCALEWATCH_TOOLS_CACHE", str(tmp_path))
    reported = subprocess.run([ROOT / ".ci" / "build", "--where"], capture_output=True, text=True, check=True).stdout
    paths = [Path(line) for line in reported.splitlines()]
    assert {"helm3", "helm4", "helm-unittest", "telegraf"} <= {path.name for path in paths}
    for path in paths:
        path.parent.mkdir()
        path.touch(0o755)
    assert [find(path.name) for path in paths] == [str(path) for path in paths]


def test_make_alone_lists_every_target() -> None:
    targets = re.findall(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[0].split()
    reported = subprocess.run(
        ["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert [line.split()[1] for line in reported.splitlines()] == targets
