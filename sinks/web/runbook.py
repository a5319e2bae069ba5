"""The runbook as it is packed with the agent: its sections by heading, as HTML."""

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from itertools import pairwise

import msgspec
from markupsafe import Markup, escape


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
    """Yield the sections of a text; its tables scroll where they are wide, its own links lead to the page of the runbook."""
    from markdown_it import MarkdownIt  # noqa: PLC0415  read by those who open the page, and 60 modules large

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(text)
    for token in [each for block in tokens for each in (block, *(block.children or ()))]:
        target = str(token.attrs.get("href", ""))
        if target.startswith("#"):
            token.attrSet("href", f"/runbook{target}")
        if token.type == "th_open":
            token.attrSet("scope", "col")
    starts = [place for place, token in enumerate(tokens) if token.type == "heading_open"]
    for start, stop in pairwise([*starts, len(tokens)]):
        heading = tokens[start + 1].content
        html = markdown.renderer.render(tokens[start + 3 : stop], markdown.options, {})
        region = f'<div class="wide" tabindex="0" role="region" aria-label="table: {escape(heading)}">'
        html = html.replace("<table>", f"{region}<table>")
        html = html.replace("</table>", "</table></div>")
        yield Section(anchor(heading), heading, int(tokens[start].tag[1]), Markup(html))  # noqa: S704 -- no HTML passes


def anchor(heading: str) -> str:
    """Return what a link to a heading ends with."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
