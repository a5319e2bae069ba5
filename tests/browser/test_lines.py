"""Lines over time in a real browser: by keyboard, with cursors that go along, live, on a phone, without barriers."""

import msgspec
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from processors.contracts.hosts import HostLines, ResourceBand, ResourceLine
from processors.contracts.names import parse_rfc3339
from tests.kit.browser import PHONE, overflow, visit
from tests.kit.messages import alert, host_view, prediction, resource_view
from tests.kit.recent import recent_run
from tests.kit.service import FixedService

pytestmark = pytest.mark.tools
NOW = "2026-11-20T10:00:00Z"
NOW_MS = parse_rfc3339(NOW)
HOSTS = ("nid1", "nid2", "nid3")
PAGES = (
    "/hosts/archer2/nid1",
    "/hosts/archer2/nid1?range=hour",
    "/jobs/archer2/812",
    "/applications/archer2/lammps/rhodo/nodes",
)


def lines(host: str, last: float = 0.4) -> HostLines:
    def band(points: int, size: float) -> ResourceBand:
        mean = [size * 0.8] * (points - 4) + [size * last] * 4
        return ResourceBand(tuple(0.9 * value for value in mean), tuple(mean), tuple(1.1 * value for value in mean))

    def line(points: int, step_s: int) -> ResourceLine:
        found = {"cpu_available": band(points, 1.0), "memory_free": band(points, 2e11)}
        return ResourceLine(NOW_MS - points * step_s * 1000, step_s, found)

    return HostLines("archer2", host, NOW, line(288, 300), line(60, 60))


@pytest.fixture
def service() -> FixedService:
    """Three hosts that ran one job, of which one is unlike its past since an hour."""
    odd = resource_view("memory_free", anomalous_since="2026-11-20T09:00:00Z")
    about = {"alertname": "HostAnomaly", "system": "archer2", "host": "nid1"}
    shown = FixedService(
        [prediction()],
        alerts=[alert(labels=about)],
        hosts=[host_view(name, job=None, resources=(resource_view(), odd)) for name in HOSTS],
        runs=[recent_run(start_ms=NOW_MS - 7_200_000, end_ms=NOW_MS - 3_600_000, hosts=("nid[1-3]",))],
    )
    shown.held_lines = {("archer2", name): lines(name) for name in HOSTS}
    return shown


def ready(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.locator("#live")).to_have_text("live")


def test_arrow_keys_read_a_line_and_the_other_charts_go_along(chromium: Browser, site: str) -> None:
    with visit(chromium) as page:
        ready(page, site + PAGES[0])
        first, second = (page.locator(f"#line-{name} .plot") for name in ("cpu_available", "memory_free"))
        first.focus()
        page.keyboard.press("End")
        expect(page.locator("#line-cpu_available .readout")).to_have_text("09:55 to 10:00 UTC: mean 40 %, 36 % to 44 %")
        expect(page.locator("#line-memory_free .readout")).to_have_text(
            "09:55 to 10:00 UTC: mean 80 GB, 72 GB to 88 GB"
        )
        page.keyboard.press("Home")
        expect(page.locator("#line-cpu_available .readout")).to_contain_text("10:00 to 10:05 UTC: mean 80 %")
        assert first.get_attribute("role") == second.get_attribute("role") == "application"


def test_an_open_page_draws_the_next_five_minutes(chromium: Browser, site: str, service: FixedService) -> None:
    with visit(chromium) as page:
        ready(page, site + PAGES[0])
        page.locator("#line-cpu_available summary").click()
        service.held_lines["archer2", "nid1"] = lines("nid1", last=0.2)
        service.held_hosts = [
            msgspec.structs.replace(view, as_of="2026-11-20T10:05:00Z") for view in service.held_hosts
        ]
        row = page.locator("#line-cpu_available tbody tr").last
        expect(row).to_contain_text("18 %")
        expect(row).to_be_visible()
        page.locator("#line-cpu_available .plot").focus()
        page.keyboard.press("End")
        expect(page.locator("#line-cpu_available .readout")).to_contain_text("mean 20 %")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_lines_fit_a_phone_and_have_no_barriers(chromium: Browser, site: str, theme: str) -> None:
    with visit(chromium, viewport=PHONE, color_scheme=theme, bypass_csp=True) as page:
        for path in PAGES:
            ready(page, site + path)
            assert overflow(page) == 0, path
            for folded in page.locator("main summary").all():
                folded.click()
            found = Axe().run(page)
            assert found.violations_count == 0, f"{path}: {found.generate_report()}"
