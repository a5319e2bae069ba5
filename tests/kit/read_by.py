"""The pages as one reader meets them, and the words of a page."""

import re
from html import unescape

from starlette.types import ASGIApp, Receive, Scope, Send

from sinks.web.access import Reader


class ReadBy:
    """An application as one reader meets it."""

    def __init__(self, app: ASGIApp, reader: Reader) -> None:
        self._app, self._reader = app, reader

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app({**scope, "scalewatch.reader": self._reader}, receive, send)


def text_of(text: str) -> str:
    """The words of the main part of a page, one space between them."""
    main = text[text.index("<main") : text.index("</main>")]
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", main)).split())
