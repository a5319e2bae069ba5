"""Which pages the pictures show: a line for each template, style, script and view, with a hash of what it does.

Spaces, comments of templates and docstrings change no page, so they change no hash.
"""

import ast
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

WEB = Path("sinks/web")
SHOWN = (("templates", "*.html"), ("static", "*.css"), ("static", "*.js"), ("views", "*.py"))
NAME = "pages.txt"  # beside the pictures
_COMMENT = re.compile(r"\{#.*?#\}", re.DOTALL)


def stamp(root: Path) -> str:
    """Return the stamp of the pages of a tree."""
    return "".join(f"{_hash(path)}  {path.relative_to(root)}\n" for path in _pages(root))


def changed(root: Path, stamped: str) -> list[str]:
    """Return the files that are not as they were when a stamp was made, that are new, or gone."""
    then, now = set(stamped.splitlines()), set(stamp(root).splitlines())
    return sorted({line.split()[-1] for line in then ^ now})


def _pages(root: Path) -> Iterator[Path]:
    for folder, pattern in SHOWN:
        yield from sorted((root / WEB / folder).glob(pattern))


def _hash(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    meant = _code(text) if path.suffix == ".py" else " ".join(_COMMENT.sub("", text).split())
    return hashlib.sha256(meant.encode()).hexdigest()[:16]


def _code(text: str) -> str:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)
