"""Charts, boxes and forms in a real browser: by keyboard, on a phone, in light and dark, and for screen readers."""

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from processors.contracts.outputs import PredictedAtStart
from processors.contracts.service import RecentRun, SourceStatus
from tests.kit.browser import PHONE, overflow, visit
from tests.kit.messages import host_view, power_fields, prediction, resource_view, under_load
from tests.kit.service import FixedService, busy_service

pytestmark = pytest.mark.tools
APPLICATION = "/applications/archer2/lammps/rhodo/nodes"
EXPECTED = PredictedAtStart(run_time_s=71.9, low_s=65.0, high_s=79.0, coverage=0.9, verdict="reliable", source="curve")


@pytest.fixture
def service() -> FixedService:
    """All that pages can show of applications."""
    shown = busy_service()
    shown.held_predictions[0] = prediction(**(power_fields() | {"under_load": under_load()}))
    outlier = resource_view("memory_free", anomalous_since="2026-11-20T09:58:00Z")
    shown.held_hosts = [host_view(resources=(resource_view(), outlier))]
    shown.held_sources = [SourceStatus(topic="slurm", events=7, newest_ms=1_795_170_000_000)]
    shown.held_runs = [settled(number) for number in range(30)]
    return shown


def settled(number: int) -> RecentRun:
    return RecentRun(
        run_id=f"archer2/{number}@0", system="archer2", job_id=str(number), application_id="archer2/lammps/rhodo/nodes",
        n=16.0, start_ms=0, end_ms=1_795_170_000_000 - number * 600_000, run_time_s=66.0 + number, state="COMPLETED",
        predicted=EXPECTED,
    )  # fmt: skip


def colour(page: Page, selector: str) -> Any:
    return page.locator(selector).evaluate("element => getComputedStyle(element).backgroundColor")


def test_the_charts_are_drawn(chromium: Browser, site: str) -> None:
    with visit(chromium) as page:
        page.goto(site + APPLICATION)
        for name in ("scaling", "error", "coverage", "power", "energy", "load"):
            expect(page.locator(f"#{name} canvas")).to_be_visible()
        drawn = page.locator("#scaling canvas").evaluate(
            "c => new Set(c.getContext('2d').getImageData(0, 0, c.width, c.height).data).size"
        )
        assert drawn > 20  # colours and their shades: not an empty canvas


def test_without_script_there_are_tables_and_answers(chromium: Browser, site: str) -> None:
    with visit(chromium, java_script_enabled=False) as page:
        page.goto(site + APPLICATION)
        expect(page.locator("figure .plot")).to_have_count(0)
        page.get_by_text("Table of every size").click()
        expect(page.get_by_role("row", name="128").first).to_be_visible()
        page.get_by_role("spinbutton").fill("48")
        page.get_by_role("button", name="Predict").click()
        expect(page.get_by_text("At 48 nodes a run takes about")).to_be_visible()


def test_arrow_keys_go_along_the_points_and_what_lies_there_is_reported(chromium: Browser, site: str) -> None:
    with visit(chromium) as page:
        page.goto(site + APPLICATION)
        chart = page.locator("#scaling .plot")
        published = page.locator("#scaling .readout")
        expect(published).to_have_attribute("aria-live", "polite")
        chart.focus()
        page.keyboard.press("ArrowRight")
        expect(published).to_contain_text("nodes 1, run time 16 min 40 s, 90 % band 15 min to 18 min 20 s")
        page.keyboard.press("ArrowRight")
        expect(published).to_contain_text("nodes 2, ")
        page.keyboard.press("End")
        expect(published).to_contain_text("nodes 256, ")
        before = page.locator("#scaling .u-cursor-x").evaluate("line => line.style.transform")
        page.keyboard.press("Home")
        assert page.locator("#scaling .u-cursor-x").evaluate("line => line.style.transform") != before
        page.keyboard.press("Tab")
        expect(published).to_contain_text("arrow keys")


def test_a_pointer_on_a_dot_reports_the_run(chromium: Browser, site: str) -> None:
    with visit(chromium) as page:
        page.goto(site + APPLICATION)
        over = page.locator("#error .u-over")
        over.hover()
        expect(page.locator("#error .readout")).to_contain_text("ended 2026-11-")


def test_the_box_answers_in_place(chromium: Browser, site: str) -> None:
    with visit(chromium) as page:
        page.goto(site + APPLICATION)
        page.evaluate("document.body.dataset.stays = 'yes'")
        page.get_by_role("spinbutton").fill("256")
        page.keyboard.press("Enter")
        expect(page.get_by_text("At 256 nodes a run takes about")).to_be_visible()
        expect(page.get_by_text("beyond the largest useful size, 192")).to_be_visible()
        expect(page.get_by_role("spinbutton")).to_be_focused()
        assert page.url == f"{site}{APPLICATION}?n=256"
        assert page.evaluate("document.body.dataset.stays") == "yes"


def test_the_overview_asks_about_the_application_that_is_chosen(chromium: Browser, site: str) -> None:
    with visit(chromium) as page:
        page.goto(site)
        page.get_by_role("combobox").fill("nektar")
        page.get_by_role("spinbutton").fill("32")
        page.get_by_role("button", name="Predict").click()
        expect(page.get_by_text("At 32 nodes a run takes about")).to_be_visible()
        page.get_by_label("find").fill("lamm")
        page.keyboard.press("Enter")
        expect(page.get_by_role("link", name="nektar")).to_have_count(0)
        expect(page.get_by_role("link", name="lammps")).to_be_visible()


@pytest.mark.parametrize("path", ["/", APPLICATION])
def test_a_phone_shows_everything_without_scrolling_sideways(chromium: Browser, site: str, path: str) -> None:
    with visit(chromium, viewport=PHONE, has_touch=True, is_mobile=True) as page:
        page.goto(site + path)
        expect(page.locator("#live")).to_have_text("live")
        assert overflow(page) == 0
        for chart in page.locator("figure .plot canvas").all():
            box = chart.bounding_box()
            assert box is not None
            assert box["width"] <= PHONE["width"]


def test_charts_follow_the_width_of_the_window_and_the_colours_of_the_system(chromium: Browser, site: str) -> None:
    with visit(chromium, color_scheme="light") as page:
        page.goto(site + APPLICATION)
        canvas = page.locator("#scaling canvas")
        wide = canvas.bounding_box()
        page.set_viewport_size(PHONE)
        expect(page.locator("#scaling .uplot")).not_to_have_css("width", f"{wide and wide['width']}px")
        assert overflow(page) == 0
        light, drawn = colour(page, "body"), canvas.evaluate("c => c.toDataURL()")
        page.emulate_media(color_scheme="dark")
        assert colour(page, "body") != light
        assert page.locator("#scaling canvas").evaluate("c => c.toDataURL()") != drawn


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/", f"{APPLICATION}?n=256"])
def test_a_page_has_no_barriers(chromium: Browser, site: str, path: str, scheme: str) -> None:
    with visit(chromium, bypass_csp=True, color_scheme=scheme) as page:
        page.goto(site + path)
        expect(page.locator("#live")).to_have_text("live")
        for summary in page.locator("summary").all():
            summary.click()  # what is folded counts, too
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()


def test_a_reader_by_keyboard_can_go_past_the_navigation(chromium: Browser, site: str) -> None:
    with visit(chromium) as page:
        page.goto(site)
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("#main")).to_be_focused()
        page.keyboard.press("/")
        expect(page.get_by_label("find")).to_be_focused()
