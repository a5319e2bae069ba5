"""A real browser before a real server: what people see, with whatever goes wrong in it as a failure."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Page, Route, ViewportSize, sync_playwright

from tests.kit.tools import tool

PHONE = ViewportSize(width=390, height=844)
DESKTOP = ViewportSize(width=1280, height=900)


@contextmanager
def browser() -> Iterator[Browser]:
    """A headless Chromium; the test is skipped, or fails, where there is none."""
    program = tool("chromium")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield running
        finally:
            running.close()


class Visit:
    """One reader with a window of their own: `page`, and what went wrong in it."""

    def __init__(self, context: BrowserContext, expected: str = "") -> None:
        self.faults: list[str] = []
        self._expected = expected
        self.page: Page = context.new_page()
        self.page.set_default_timeout(30_000)
        self.page.on("console", lambda message: self._heard(message.type, message.text))
        self.page.on("pageerror", lambda error: self.faults.append(f"error in a script: {error}"))
        self.page.route("**/*", self._only_here)

    def _heard(self, kind: str, text: str) -> None:
        is_expected = bool(self._expected) and self._expected in text
        if kind in ("error", "warning") and not is_expected:
            self.faults.append(f"console {kind}: {text}")

    def _only_here(self, route: Route) -> None:
        if urlsplit(route.request.url).hostname == "127.0.0.1":
            route.continue_()
        else:
            self.faults.append(f"a request to {route.request.url}")
            route.abort()


@contextmanager
def visit(running: Browser, *, expected: str = "", **context: Any) -> Iterator[Page]:
    """A page of a fresh reader, who fails the test if the console complains or anything is asked of another host.

    Of complaints, those with an `expected` text are none.
    """
    opened = running.new_context(**({"viewport": DESKTOP, "reduced_motion": "reduce"} | context))
    try:
        reader = Visit(opened, expected)
        yield reader.page
        assert reader.faults == []
    finally:
        opened.close()


def overflow(page: Page) -> int:
    """How many pixels a page is wider than its window."""
    found: int = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return found
