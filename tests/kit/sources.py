"""The repository as the tests of the house see it: its files, and its modules as syntax trees."""

import ast
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("agent", "processors", "sinks")
_NOT_OURS = {
    ".git",
    ".venv",
    "dist",
    "build",
    "htmlcov",
    "out",
    "bench-results",
    "mutation-results",
    "harden-results",
    "__pycache__",
    "node_modules",
}


@dataclass(frozen=True)
class Module:
    """One Python file: its path within the repository, its dotted name and its text."""

    path: str
    name: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The module as syntax, parsed once for all tests of the house; nobody changes it."""
        return ast.parse(self.text, self.path)


@cache
def modules(*folders: str) -> tuple[Module, ...]:
    """Return the modules below some folders, sorted by path."""
    paths = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return tuple(module(str(path.relative_to(ROOT)), path.read_text()) for path in paths)


def module(path: str, text: str) -> Module:
    """Return a module by its path and text; a package has the name of its folder."""
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return Module(path, name, text)


def lines(problems: Callable[[Module], Iterable[str]], *folders: str) -> str:
    """Return what a check finds in the modules of some folders, a line each: pytest shows every one when it is not empty."""
    return "\n".join(problem for each in modules(*folders) for problem in problems(each))


def files() -> list[str]:
    """Return the paths of all files that are, or are about to be, under version control."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = listed.stdout.splitlines() if listed.returncode == 0 else list(_walk())  # an archive has no git
    return [path for path in found if (ROOT / path).is_file()]


def _walk() -> Iterator[str]:
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        if not any(part in _NOT_OURS or part.endswith("_cache") for part in parts):
            yield "/".join(parts)


def dotted(node: ast.AST) -> str | None:
    """Return a name or a chain of attributes as text (`a.b.c`), None for any other expression."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (head := dotted(node.value)):
        return f"{head}.{node.attr}"
    return None


def imported_names(tree: ast.AST) -> dict[str, str]:
    """Return what each imported name of a module stands for: `{"datetime": "datetime.datetime"}`."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                found[name.asname or name.name.split(".")[0]] = name.name if name.asname else name.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                found[name.asname or name.name] = f"{node.module}.{name.name}"
    return found
