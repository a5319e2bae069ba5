"""Files and functions stay short."""

import ast
from collections.abc import Iterator

from tests.kit.sources import PRODUCT, Module, module, modules

FILE_LINES = 600  # two ideas may live in a longer one
FUNCTION_LINES = 60


def lengths(of: Module) -> Iterator[tuple[str, int, int]]:
    """Yield what has a length: its name, its lines and its limit."""
    yield of.path, len(of.text.splitlines()), FILE_LINES
    for node in ast.walk(of.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{of.path}:{node.name}", (node.end_lineno or 0) - node.lineno + 1, FUNCTION_LINES


def too_long(of: Module) -> dict[str, int]:
    return {name: lines for name, lines, limit in lengths(of) if lines > limit}


def test_no_file_or_function_is_longer_than_its_limit() -> None:
    found = {name: lines for each in modules(*PRODUCT, "tests") for name, lines in too_long(each).items()}
    assert found == {}


def test_a_long_function_and_a_long_file_are_found() -> None:
    body = "    pass\n" * 60
    assert too_long(module("sinks/long.py", f"def long():\n{body}")) == {"sinks/long.py:long": 61}
    assert too_long(module("sinks/long.py", "\n" * 601)) == {"sinks/long.py": 601}
