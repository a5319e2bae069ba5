"""What is photographed, and how: one entry for each picture."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from playwright.sync_api import Page

from processors.contracts.names import host_link
from processors.contracts.service import Service
from sinks.web.queries import id_of, link
from tests.kit.browser import PHONE, browser, visit
from tests.pictures.png import smaller

APPLICATION = "molecules"  # has power, counters, and a knee inside of the sizes that were run
BYTES_MAX = 200_000


@dataclass(frozen=True)
class View:
    """A picture: the file's name, which page, the window, and what is done on the page before."""

    name: str
    path: Callable[[Service], str | None]
    width: int = 1280
    height: int = 1000
    scheme: Literal["light", "dark"] = "light"
    prepare: Callable[[Page], None] = lambda _page: None


def application(service: Service) -> str | None:
    found = (entry for entry in service.predictions() if entry.application == APPLICATION)
    return next((f"/applications/{link(id_of(entry))}?n=96" for entry in found), None)


def host(service: Service) -> str | None:
    found = service.hosts(1)
    return f"/hosts/{host_link(found[0].system, found[0].host)}" if found else None


def alert(service: Service) -> str | None:
    found = (entry for entry in service.alerts() if entry.status == "firing" and entry.kind == "anomaly")
    return next((f"/alerts/{entry.fingerprint}" for entry in found), None)


def job(service: Service) -> str | None:
    runs = [
        run for entry in service.predictions() if entry.application == APPLICATION for run in service.runs(id_of(entry))
    ]
    return next((f"/jobs/{run.system}/{run.job_id}" for run in runs if run.predicted is not None), None)


def settle(page: Page) -> None:
    """Let a reader rest on a point of the chart."""
    page.locator("#scaling .plot").focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")


VIEWS = (
    View("overview", lambda _service: "/"),
    View("overview-dark", lambda _service: "/", scheme="dark"),
    View("overview-phone", lambda _service: "/", PHONE["width"], 1100),
    View("application", application, height=1100, prepare=settle),
    View("application-dark", application, height=1100, scheme="dark"),
    View("application-phone", application, PHONE["width"], 1100),
    View("host", host),
    View("alert", alert),
    View("job", job),
    View("jobs", lambda _service: "/jobs?tab=ended"),
    View("agent", lambda _service: "/agent"),
)


def take(url: str, service: Service, folder: Path) -> None:
    """Write every picture into a folder; a page that complains, is missing or makes too large a file is an error."""
    folder.mkdir(parents=True, exist_ok=True)
    with browser() as running:
        for view in VIEWS:
            path = view.path(service)
            if path is None:
                raise SystemExit(f"The demo has nothing to show for {view.name}.")
            size = {"width": view.width, "height": view.height}
            with visit(running, viewport=size, color_scheme=view.scheme) as page:
                answer = page.goto(url + path)
                if answer is None or answer.status != 200:
                    raise SystemExit(f"{path} is no page for {view.name}.")
                page.wait_for_selector("#live:not([hidden])")
                view.prepare(page)
                written = folder / f"{view.name}.png"
                written.write_bytes(smaller(page.screenshot()))
                if written.stat().st_size > BYTES_MAX:
                    raise SystemExit(f"{written.name} has {written.stat().st_size} bytes, more than {BYTES_MAX}.")
