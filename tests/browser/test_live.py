"""Pages that follow what happens, in a real browser."""

import pytest
from playwright.sync_api import Browser, expect

from sinks.prometheus.registry import Metrics
from sinks.web.server import Server, create_app
from tests.kit.browser import visit
from tests.kit.messages import alert
from tests.kit.service import FixedService

pytestmark = pytest.mark.tools
APPLICATION = "/applications/archer2/lammps/rhodo/nodes"
SECOND = alert("f2", annotations={"summary": "nektar stands still."})


@pytest.mark.parametrize("path", ["/", "/hosts", APPLICATION, "/nowhere"])
def test_a_page_loads_under_its_policy_without_a_complaint(chromium: Browser, site: str, path: str) -> None:
    with visit(chromium) as page:
        if path != "/nowhere":  # a status of 404 is a complaint in itself
            page.goto(site + path)
            expect(page.locator("#live")).to_have_text("live")


def test_an_alert_appears_and_goes_without_a_reload(chromium: Browser, site: str, service: FixedService) -> None:
    with visit(chromium) as page:
        page.goto(site)
        expect(page.locator("#live")).to_have_text("live")
        page.evaluate("document.body.dataset.stays = 'yes'")
        page.get_by_label("find").fill("half a wor")
        page.get_by_label("find").focus()
        service.held_alerts.append(SECOND)
        expect(page.get_by_role("paragraph").filter(has_text="nektar stands still.")).to_be_visible()
        expect(page.locator("#spoken")).to_have_text("2 alerts open.")
        service.held_alerts.remove(SECOND)
        expect(page.get_by_role("paragraph").filter(has_text="nektar stands still.")).to_have_count(0)
        assert page.evaluate("document.body.dataset.stays") == "yes"
        assert page.get_by_label("find").input_value() == "half a wor"
        expect(page.get_by_label("find")).to_be_focused()


def test_a_table_that_was_opened_stays_open(chromium: Browser, site: str, service: FixedService) -> None:
    with visit(chromium) as page:
        page.goto(site + APPLICATION)
        page.get_by_text("Table of every size").click()
        service.held_alerts.append(SECOND)
        service.held_alerts[0] = alert(annotations={"summary": "Slower still."})
        service.held_alerts.append(alert("f3"))
        expect(page.get_by_role("paragraph").filter(has_text="Slower still.")).to_be_visible()
        expect(page.get_by_role("table", name="Predictions")).to_be_visible()


def test_a_page_for_which_there_is_no_stream_asks_by_itself(chromium: Browser, site: str) -> None:
    with visit(chromium, expected="status of 503") as page:
        page.route("**/changes", lambda route: route.fulfill(status=503, body="50 pages are open already."))
        page.goto(site)
        expect(page.locator("#live")).to_have_text("updates every few seconds")


def test_a_server_that_went_away_is_reported_and_a_new_one_is_followed(
    chromium: Browser, service: FixedService
) -> None:
    app = create_app(service, Metrics(formats=(), reasons=(), processors=()))
    with visit(chromium, expected="ERR_") as page:
        with Server(app, "127.0.0.1", 0) as first:
            page.goto(first.url)
            expect(page.locator("#live")).to_have_text("live")
        expect(page.locator("#live")).to_have_text("no answer, trying again")
        service.held_alerts.append(SECOND)
        with Server(app, "127.0.0.1", first.port):
            expect(page.get_by_role("paragraph").filter(has_text="nektar stands still.")).to_be_visible(timeout=10_000)
            expect(page.locator("#live")).to_have_text("live")


def test_whoever_does_not_want_to_follow_is_left_alone(chromium: Browser, site: str) -> None:
    with visit(chromium) as page:
        page.goto(f"{site}/?search=lammps")
        page.get_by_role("link", name="stop live updates").click()
        assert page.url == f"{site}/?search=lammps&refresh=off"
        expect(page.locator("#live")).to_be_hidden()
        expect(page.get_by_role("link", name="show live updates", exact=True)).to_be_visible()
