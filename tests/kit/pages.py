"""Pages as a reader gets them: asked for, checked for open tags, and taken apart."""

from html.parser import HTMLParser

from starlette.types import ASGIApp

from tests.kit.get import get

HOSTILE = "<script>alert('&\"')</script>"
VOID = {"meta", "link", "input", "img", "br"}


class Balance(HTMLParser):
    """Checks that tags close in order and collects tags and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.sources: list[str] = []  # of scripts and pictures

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        self.links += [value or "" for name, value in attrs if name == "href"]
        reported = [value or "" for name, value in attrs if name == "src"]
        self.sources += reported or (["inline"] if tag == "script" else [])
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def read(app: ASGIApp, path: str, status: int = 200) -> str:
    response = get(app, path)
    assert response.status_code == status
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    return response.text


def parsed(text: str) -> Balance:
    balance = Balance()
    balance.feed(text)
    assert balance.open == []
    return balance
