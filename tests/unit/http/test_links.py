"""Pages lead to the dashboard about the same thing, and a job to its page in the centre's own portal."""

import html
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.applications import Starlette

from sinks.prometheus.registry import Metrics
from sinks.web.queries import PageLinks
from sinks.web.server import create_app
from tests.kit.dashboards import dashboards, variables
from tests.kit.get import get
from tests.kit.service import busy_service

PORTAL = "https://portal/{system}/jobs/{job_id}"


def app(**links: str) -> Starlette:
    return create_app(busy_service(), Metrics(formats=(), reasons=(), processors=()), links=PageLinks(**links))


def dashboard_of(path: str) -> str:
    text = html.unescape(get(app(grafana_url="https://grafana/base/"), path).text)
    return next(part.partition('"')[0] for part in text.split('href="') if part.startswith("https://grafana/"))


@pytest.mark.parametrize(
    ("path", "name"),
    [("/", "centre"), ("/alerts", "centre"), ("/jobs", "jobs"), ("/hosts", "host"), ("/agent", "agent")],
)
def test_a_page_leads_to_the_dashboard_about_it(path: str, name: str) -> None:
    assert dashboard_of(path) == f"https://grafana/base/d/scalewatch-{name}"
    assert f"scalewatch-{name}" in {each["uid"] for each in dashboards().values()}


def test_the_page_of_an_application_leads_to_its_dashboard_with_its_variables_set() -> None:
    address = urlsplit(dashboard_of("/applications/archer2/lammps/rhodo/nodes"))
    chosen = {name.removeprefix("var-"): value for name, (value,) in parse_qs(address.query).items()}
    assert chosen == {"system": "archer2", "application": "lammps", "input": "input='rhodo'", "unit": "nodes"}
    assert set(chosen) <= set(variables(dashboards()["application"]))


def test_a_job_leads_to_the_portal_whatever_its_name_holds() -> None:
    service = busy_service()
    first = service.held_jobs[0]
    address = f"/jobs/{first.system}/{first.job_id}"
    assert f'href="https://portal/{first.system}/jobs/{first.job_id}"' in get(app(job_portal=PORTAL), address).text
    assert PageLinks(job_portal=PORTAL).portal("exa", "1/2?x=<b>") == "https://portal/exa/jobs/1%2F2%3Fx%3D%3Cb%3E"


def test_without_addresses_there_are_no_links() -> None:
    for path in ("/", "/jobs"):
        text = get(app(), path).text
        assert "Grafana" not in text
        assert "portal" not in text
