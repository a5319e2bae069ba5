"""Hosts, alerts, jobs and the agent in a real browser: under the policy, live, by keyboard, on a phone, without barriers."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect
from starlette.routing import Route

from processors.contracts.service import Health
from sinks.web.pages import Pages
from tests.kit.browser import PHONE, overflow, visit
from tests.kit.messages import alert, curve_point, host_view, job, prediction, resource_view
from tests.kit.recent import NOON_MS, dead_letter_view, predicted, recent_run, source
from tests.kit.service import FixedService

pytestmark = pytest.mark.tools
ROOMS = (
    "/hosts",
    "/hosts/archer2/nid1",
    "/alerts",
    "/alerts/f1",
    "/jobs",
    "/jobs?tab=ended",
    "/users/u-1",
    "/projects/p-1",
    "/jobs/compare?a=archer2/812&b=archer2/813",
    "/jobs/archer2/812",
    "/agent",
    "/runbook",
)
NO_PAGES = ("/changes", "/favicon.ico")
CURVE = tuple(curve_point(2.0**k, 600.0 + 59_400.0 / 2**k) for k in range(9))


@pytest.fixture
def service() -> FixedService:
    """A centre in some trouble: every page has something of each kind to show."""
    labels = {"alertname": "HostAnomaly", "system": "archer2", "host": "nid1"}
    outlier = resource_view("memory_free", anomalous_since="2026-11-20T09:58:00Z")
    hosts = [host_view(f"nid{number}", state="drain" if number == 3 else "up") for number in range(60)]
    hosts[1] = host_view("nid1", resources=(resource_view(), outlier))
    usual = predicted(1530.0)
    return FixedService(
        [prediction(curve=CURVE)],
        [job("900"), job("901", probability_exceeds_limit=0.8), job("902", known=False, application=None)],
        [alert(labels=labels), alert("f2", status="resolved", ends="2026-11-20T09:40:00Z", severity="info")],
        [Health(role="learner", ready=True, partitions=(0, 1, 2), lag_s=900.0, checkpoint_age_s=4.0, restarts=1)],
        hosts,
        runs=[recent_run(run_time_s=1680.0, predicted=usual), recent_run("813", run_time_s=1500.0, predicted=usual)],
        dead_letters=[dead_letter_view(offset=number) for number in range(30)],
        sources=[source(), source("ldms", newest_ms=NOON_MS - 3_600_000)],
    )


def test_every_page_is_looked_at(service: FixedService) -> None:
    shown = ("/", "/applications/archer2/lammps/rhodo/nodes", *ROOMS)  # the first two by test_pages.py
    pages = [route for route in Pages(service).routes() if isinstance(route, Route) and route.path not in NO_PAGES]
    missed = [each.path for each in pages if not any(each.path_regex.match(path.partition("?")[0]) for path in shown)]
    assert missed == []


def ready(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.locator("#live")).to_have_text("live")


def test_the_rooms_have_no_barriers_in_the_dark(chromium: Browser, site: str) -> None:
    with visit(chromium, color_scheme="dark", bypass_csp=True) as page:
        for path in ROOMS:
            ready(page, site + path)
            page.evaluate("document.querySelectorAll('main details').forEach((folded) => { folded.open = true; })")
            found = Axe().run(page)
            assert found.violations_count == 0, f"{path}: {found.generate_report()}"


def test_the_rooms_fit_a_phone_and_have_no_barriers_there(chromium: Browser, site: str) -> None:
    with visit(chromium, viewport=PHONE, bypass_csp=True) as page:
        for path in ROOMS:
            ready(page, site + path)
            assert overflow(page) == 0, path
            found = Axe().run(page)
            assert found.violations_count == 0, f"{path}: {found.generate_report()}"


def test_the_rooms_load_under_their_policy_and_without_script(chromium: Browser, site: str) -> None:
    with visit(chromium) as page:
        for path in ROOMS:
            ready(page, site + path)
    with visit(chromium, java_script_enabled=False) as page:
        page.goto(f"{site}/jobs/archer2/812")
        page.get_by_text("Table of every size").click()
        expect(page.get_by_role("table", name="This run")).to_be_visible()
        page.goto(f"{site}/alerts")
        page.get_by_label("status").select_option("resolved")
        page.get_by_role("button", name="Show").click()
        expect(page.locator("#alerts li")).to_have_count(1)


def test_the_place_of_a_run_is_read_along_the_curve_by_keyboard(chromium: Browser, site: str) -> None:
    with visit(chromium) as page:
        ready(page, f"{site}/jobs/archer2/812")
        expect(page.get_by_text("The run took 28 min, 9.8 % longer than usual at 64 nodes")).to_be_visible()
        page.locator("figure .plot").focus()
        page.keyboard.press("End")
        expect(page.locator("figure .readout")).to_contain_text("256")
        page.keyboard.press("Home")
        expect(page.locator("figure .readout")).to_contain_text("16 h 40 min")


def test_the_histogram_of_a_host_is_read_by_keyboard(chromium: Browser, site: str) -> None:
    with visit(chromium) as page:
        ready(page, f"{site}/hosts/archer2/nid1")
        page.locator("#chart-1 .plot").focus()
        page.keyboard.press("ArrowRight")
        expect(page.locator("#chart-1 .readout")).to_contain_text("from 0.5 B, to 0.6 B, share 10 %")


def test_an_alert_appears_in_the_list_and_is_followed_to_its_page(
    chromium: Browser, site: str, service: FixedService
) -> None:
    with visit(chromium) as page:
        ready(page, f"{site}/alerts?status=open")
        expect(page.locator("#alerts li")).to_have_count(1)
        new = alert("f9", annotations={"summary": "lammps took twice as long."}, labels={"alertname": "StrangeRun"})
        service.held_alerts.append(new)
        expect(page.get_by_text("lammps took twice as long.")).to_be_visible()
        expect(page.locator("#spoken")).to_have_text("2 alerts are open: 2 warning.")
        page.get_by_role("link", name="StrangeRun").click()
        expect(page.get_by_role("heading", name="StrangeRun")).to_be_visible()
        expect(page.get_by_text("One run was far slower or faster than predicted")).to_be_visible()


def test_a_running_job_follows_its_forecast(chromium: Browser, site: str, service: FixedService) -> None:
    with visit(chromium) as page:
        ready(page, f"{site}/jobs/archer2/900")
        expect(page.get_by_text("The job should end at about 10:31 UTC")).to_be_visible()
        late = job("900", end="2026-11-20T10:50:00Z", time="2026-11-20T10:20:00Z", id="archer2/900@2")
        service.held_jobs = [late]
        expect(page.locator("#running .lead")).to_contain_text("The job should end at about 10:50 UTC")


def test_hosts_are_searched_in_place_and_paged(chromium: Browser, site: str) -> None:
    with visit(chromium) as page:
        ready(page, f"{site}/hosts")
        expect(page.locator(".host")).to_have_count(40)
        page.get_by_role("link", name="next").click()
        expect(page.get_by_text("page 2 of 2")).to_be_visible()
        page.get_by_label("find").fill("nid59")
        page.keyboard.press("Enter")
        expect(page.locator(".host")).to_have_count(1)
