"""Which pages of the repository the site shows, and where a link between them leads in it.

A page keeps its place in the repository and is never copied. What it links to that is no page of the site comes along as a file.
"""

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = "docs"
FILES: Final = "files"
INCLUDED: Final[Mapping[str, str]] = {
    "README.md": "index.md",
    "deploy/README.md": "run/ways.md",
    "deploy/SLURM.md": "run/slurm.md",
    "deploy/ACCESS.md": "run/access.md",
    "helm/scalewatch/README.md": "run/helm.md",
    "deploy/grafana/README.md": "run/grafana.md",
    "deploy/RUNBOOK.md": "run/runbook.md",
    "CHANGELOG.md": "run/changes.md",
    "CONTRIBUTING.md": "extend/contributing.md",
    "tests/README.md": "extend/tests.md",
    "agent/DESIGN.md": "extend/design.md",
    "agent/DECISIONS.md": "extend/decisions.md",
}
"""Path in the repository, path in the site."""

_CODE: Final = re.compile(r"^( *)(```|~~~).*?^\1\2\s*$", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?://|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")


def pages() -> dict[str, str]:
    """Return the place in the site of each page of the repository, those of `docs` among them."""
    own = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / DOCS).rglob("*.md"))
    return {**INCLUDED, **{path: path.removeprefix(f"{DOCS}/") for path in own}}


def origin(uri: str) -> str:
    """Return where the source of a page of the site lies in the repository; what is made from code lies in `docs`."""
    return next((path for path, place in INCLUDED.items() if place == uri), f"{DOCS}/{uri}")


def linked(text: str, path: str) -> Iterator[str]:
    """Yield the paths that a page of the repository links to."""
    for found in _LINK.finditer(_CODE.sub("", text)):
        yield resolved(path, found[3])


def resolved(path: str, target: str) -> str:
    """Return the path that a link of a page means; a folder with a README is that page."""
    joined = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    inside = f"{joined}/README.md"
    return inside if (ROOT / inside).is_file() else joined


def attached(texts: Mapping[str, str]) -> list[str]:
    """Return the files and folders that pages link to and that are no pages: text by path in the repository."""
    found = {each for path, text in texts.items() for each in linked(text, path)}
    return sorted(each for each in found - pages().keys() if (ROOT / each).exists() and not _in_docs(each))


def file_uri(path: str) -> str:
    """Return the place in the site of a file of the repository; names that begin with a dot are no part of a site."""
    return posixpath.join(FILES, *(part.lstrip(".") for part in path.split("/")))


def listing_uri(path: str) -> str:
    """Return the place in the site of the list of a folder's files."""
    return f"{file_uri(path)}/index.md"


def listing(path: str, listed: Iterable[str]) -> str:
    """Return the page that lists the files of a folder."""
    lines = [f"- [{posixpath.relpath(each, path)}]({posixpath.relpath(each, path)})" for each in listed]
    return "\n".join([f"# {path}", "", "Files of the sources.", "", *lines, ""])


def rewritten(text: str, path: str, uri: str) -> str:
    """Return a page with its links as the site needs them: to pages of the site and to the files that come along."""
    known = pages()

    def link(found: re.Match[str]) -> str:
        target = resolved(path, found[3])
        place = known.get(target)
        if place is None and not _in_docs(target):
            place = listing_uri(target) if (ROOT / target).is_dir() else file_uri(target)
        if place is None:
            return found[0]
        return f"{found[1]}[{found[2]}]({posixpath.relpath(place, posixpath.dirname(uri) or '.')}{found[4] or ''})"

    return _outside_code(text, lambda part: _LINK.sub(link, part))


def _in_docs(path: str) -> bool:
    return path.startswith(f"{DOCS}/")


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    done, position = [], 0
    for block in _CODE.finditer(text):
        done += [change(text[position : block.start()]), block[0]]
        position = block.end()
    return "".join([*done, change(text[position:])])
