"""Check a built site: every link of a page leads to a file and a place in it, and nothing is fetched from elsewhere."""

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

_FETCHED: Final = {"img": "src", "script": "src", "iframe": "src", "source": "src", "object": "data"}
_LOADED: Final = frozenset({"stylesheet", "preload", "preconnect", "icon", "dns-prefetch"})


@dataclass
class Page:
    """What a page holds: its anchors, what it links to, and what a browser fetches to show it."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = Page()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value is not None}
        self.page.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.page.links.append(given["href"])
        if tag in _FETCHED and _FETCHED[tag] in given:
            self.page.fetched.append(given[_FETCHED[tag]])
        if tag == "link" and _LOADED & set(given.get("rel", "").split()):
            self.page.fetched.append(given["href"])


def read(text: str) -> Page:
    """Return what a page in HTML holds."""
    reader = _Reader()
    reader.feed(text)
    return reader.page


def problems(folder: Path) -> list[str]:
    """Return what is wrong with the links of the site in a folder, a line each."""
    pages = {path.relative_to(folder).as_posix(): read(path.read_text()) for path in sorted(folder.rglob("*.html"))}
    pages.pop("404.html", None)  # its links depend on the address of the site
    found = [problem for path, page in pages.items() for problem in _of_page(folder, path, page, pages)]
    return found or ([] if pages else [f"{folder} holds no page."])


def _of_page(folder: Path, path: str, page: Page, pages: Mapping[str, Page]) -> Iterator[str]:
    for link in page.fetched:
        if urlsplit(link).netloc:
            yield f"{path}: fetches {link}"
    for link in {*page.links, *page.fetched}:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = (
            posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(parts.path))) if parts.path else path
        )
        target = f"{target}/index.html" if (folder / target).is_dir() else target
        if target.startswith("..") or not (folder / target).is_file():
            yield f"{path}: no file at {link}"
        elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
            yield f"{path}: no place at {link}"
