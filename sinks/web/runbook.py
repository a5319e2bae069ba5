"""The runbook as it is packed with the agent: its sections by name, as HTML of the few things that it is written with."""

import re
from collections.abc import Iterator
from functools import cache
from html import escape
from importlib.resources import files
from typing import Final

import msgspec
from markupsafe import Markup

_HEADING: Final = re.compile(r"^(#{1,2}) (.+)$", re.MULTILINE)
_CODE: Final = re.compile(r"`([^`]+)`")
_LINK: Final = re.compile(r"\[([^\]]+)\]\(#([\w-]+)\)")
_STRONG: Final = re.compile(r"\*\*([^*]+)\*\*")
_STRESSED: Final = re.compile(r"(?<!\*)\*([^*]+)\*(?!\*)")
_RULER: Final = re.compile(r"^\|[-| :]+\|$")


class Section(msgspec.Struct, frozen=True):
    """A section of the runbook: the anchor, the heading, its level (1: of a group), and the text as HTML."""

    anchor: str
    heading: str
    level: int
    html: Markup


def section(name: str) -> Section | None:
    """Return the section with a heading; None where there is none."""
    return next((each for each in sections() if each.heading == name), None)


@cache
def sections() -> tuple[Section, ...]:
    """Return all sections, in their order."""
    return tuple(parsed((files("sinks.web") / "runbook.md").read_text(encoding="utf-8")))


def parsed(text: str) -> Iterator[Section]:
    r"""Return the sections of a text with headings of one or two signs."""
    found = list(_HEADING.finditer(text))
    stops = [*(each.start() for each in found[1:]), len(text)]
    for each, stop in zip(found, stops, strict=True):
        heading = each[2].strip()
        yield Section(anchor(heading), heading, len(each[1]), _html(text[each.end() : stop]))


def anchor(heading: str) -> str:
    """Return what a link to a heading ends with."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def _html(text: str) -> Markup:
    blocks = (block.strip() for block in re.split(r"\n\s*\n", text))
    made = [_table(block) if block.startswith("|") else f"<p>{_inline(block)}</p>" for block in blocks if block]
    return Markup("\n".join(made))  # noqa: S704 -- _inline escapes before it marks up


def _inline(text: str) -> str:
    said = escape(" ".join(text.split()), quote=False)
    said = _CODE.sub(r"<code>\1</code>", said)
    said = _LINK.sub(r'<a href="/runbook#\2">\1</a>', said)
    return _STRESSED.sub(r"<em>\1</em>", _STRONG.sub(r"<strong>\1</strong>", said))


def _table(block: str) -> str:
    lines = [line for line in block.splitlines() if not _RULER.match(line)]
    rows = [[_inline(cell.strip()) for cell in line.strip().strip("|").split("|")] for line in lines]
    head = "".join(f'<th scope="col">{cell}</th>' for cell in rows[0])
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows[1:])
    return f'<div class="wide" tabindex="0" role="region" aria-label="table"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
