"""Pages of the documentation as tests read them: their blocks of code, with language and title, in order."""

import re
from pathlib import Path
from typing import Final, NamedTuple

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
_BLOCK: Final = re.compile(r'^```(\w+)(?: title="([^"]*)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A block of a page: its language, its title or nothing, its text, and where the text lies in the page."""

    language: str
    title: str
    text: str
    span: tuple[int, int]


def blocks(page: str) -> list[Block]:
    """Return the blocks of the text of a page."""
    return [Block(found[1], found[2] or "", found[3], found.span(3)) for found in _BLOCK.finditer(page)]
