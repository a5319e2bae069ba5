"""Lines over time: what the pages of a host, a job and an application draw, what is marked in it, and the table behind it."""

import html
import json
import re
from typing import Any

import pytest
from starlette.applications import Starlette

from processors.contracts.hosts import HostLines, ResourceBand, ResourceLine
from processors.contracts.names import parse_rfc3339, rfc3339
from processors.contracts.nodes import HostRack, names_host
from processors.contracts.outputs import AlertEvidence
from sinks.prometheus.registry import Metrics
from sinks.web.charts import level_axis
from sinks.web.server import create_app
from tests.kit.cases import each
from tests.kit.get import get
from tests.kit.messages import alert, host_view, job, prediction, resource_view
from tests.kit.pages import parsed, read
from tests.kit.read_by import text_of
from tests.kit.readers import BOB, get_as, limited_app
from tests.kit.recent import predicted, recent_run
from tests.kit.service import FixedService

NOW = "2026-11-20T10:00:00Z"
NOW_MS = parse_rfc3339(NOW)
HOST = "/hosts/archer2/nid001000"


def band(*means: float | None) -> ResourceBand:
    ends = [[None if mean is None else factor * mean for mean in means] for factor in (0.9, 1.1)]
    return ResourceBand(tuple(ends[0]), means, tuple(ends[1]))


def lines(host: str = "nid001000", hours: int = 24, **resources: ResourceBand) -> HostLines:
    found = resources or {"cpu_available": band(*[0.8] * (12 * hours - 6), *[None] * 2, *[0.4] * 4)}
    day = ResourceLine(NOW_MS - hours * 3_600_000, 300, found)
    hour = ResourceLine(NOW_MS - 3_600_000, 60, {name: band(*[0.5] * 60) for name in found})
    return HostLines("archer2", host, NOW, day, hour)


def service(*hosts: str, **fields: Any) -> FixedService:
    made = FixedService([prediction()], hosts=[host_view(name, job=None) for name in hosts or ("nid001000",)], **fields)
    made.held_lines = {("archer2", name): lines(name) for name in hosts or ("nid001000",)}
    return made


def app_of(shown: FixedService) -> Starlette:
    return create_app(shown, Metrics(formats=(), reasons=(), processors=()))


def columns(page: str) -> list[dict[str, Any]]:
    return [json.loads(html.unescape(text)) for text in re.findall(r'data-columns="([^"]*)"', page)]


def marks(page: str) -> list[tuple[str, int, int]]:
    found = re.findall(r'data-mark="(\w+)" data-from="(\d+)" data-to="(\d+)"', page)
    return [(kind, int(start), int(end)) for kind, start, end in found]


def test_the_api_returns_lines_as_columns() -> None:
    shown = json.loads(get(app_of(service()), f"/api/v1{HOST}/lines").text)
    assert (shown["host"], shown["day"]["step_s"], shown["hour"]["step_s"]) == ("nid001000", 300, 60)
    assert shown["day"]["resources"]["cpu_available"]["mean"][-7:] == [0.8, None, None, 0.4, 0.4, 0.4, 0.4]
    assert get(app_of(service()), "/api/v1/hosts/archer2/none/lines").status_code == 404


def test_a_host_that_is_called_lines_is_found_all_the_same() -> None:
    assert json.loads(get(app_of(service("lines")), "/api/v1/hosts/archer2/lines").text)["host"] == "lines"
    assert "day" in json.loads(get(app_of(service("lines")), "/api/v1/hosts/archer2/lines/lines").text)


def test_a_hosts_page_draws_the_day_with_gaps_and_a_table_of_it() -> None:
    page = read(app_of(service()), HOST)
    parsed(page)
    (found,) = columns(page)
    assert (len(found["mean"]), found["mean"][-6], found["unit"], found["factor"]) == (288, None, "%", 0.01)
    assert "The last 24 hours" in text_of(page)
    assert "Processor available (%)" in page
    rows = re.findall(r'<tr><th scope="row">([^<]+)</th><td class="number">([^<]+)</td>', page)
    assert 20 <= len(rows) <= 31, "readable, not a row for each point"
    assert rows[0] == ("2026-11-19 10:00", "80 %")


def test_the_last_hour_is_drawn_by_the_minute() -> None:
    (found,) = columns(read(app_of(service()), f"{HOST}?range=hour"))
    assert (found["step"], len(found["mean"])) == (60_000, 60)


def test_all_charts_of_a_page_have_the_same_time() -> None:
    shown = service()
    resources = (resource_view(), resource_view("load1"))
    shown.held_hosts = [host_view(resources=resources, job=None)]
    shown.held_lines["archer2", "nid001000"] = lines(cpu_available=band(*[0.5] * 12), load1=band(*[3.0] * 288))
    page = read(app_of(shown), HOST)
    ends = re.findall(r'data-ends-x="([^"]*)"', page)
    assert len(ends) == 2
    assert len(set(ends)) == 1
    assert page.count('data-sync="host"') == 2


def test_alerts_are_marked_from_their_start_to_their_end_and_jobs_on_the_host_too() -> None:
    ended = alert(starts="2026-11-20T08:00:00Z", ends="2026-11-20T09:00:00Z", status="resolved",
                  labels={"alertname": "HostAnomaly", "system": "archer2", "host": "nid001000"})  # fmt: skip
    run = recent_run(
        system="archer2", start_ms=NOW_MS - 7_200_000, end_ms=NOW_MS - 3_600_000, hosts=("nid[001000-001003]",)
    )
    elsewhere = recent_run("813", system="archer2", end_ms=NOW_MS, hosts=("nid001001",))
    shown = service(alerts=[ended], runs=[run, elsewhere])
    page = read(app_of(shown), HOST)
    assert marks(page) == [
        ("alert", NOW_MS - 7_200_000, NOW_MS - 3_600_000),
        ("job", NOW_MS - 7_200_000, NOW_MS - 3_600_000),
    ]
    assert "1 job on this host" in text_of(page)


def test_jobs_of_others_are_not_marked() -> None:
    run = recent_run(system="archer2", start_ms=NOW_MS - 900_000, end_ms=NOW_MS, hosts=("nid001000",), user=BOB)
    app = limited_app(service(runs=[run]))
    assert marks(get_as("bob", app, HOST).text)
    assert not marks(get_as("ann", app, HOST).text)


def test_a_host_that_measures_a_lot_shows_what_is_odd_and_important_and_folds_the_others() -> None:
    names = [f"metric_{number}" for number in range(12)]
    odd = resource_view("metric_7", anomalous_since="2026-11-20T09:58:00Z")
    views = [odd if name == "metric_7" else resource_view(name) for name in names]
    shown = service()
    shown.held_hosts = [host_view(resources=(*views, resource_view()), job=None)]
    page = read(app_of(shown), HOST)
    assert re.findall(r'id="resource-(\w+)"', page)[:2] == ["metric_7", "cpu_available"]
    assert page.count('id="resource-') == 8
    assert "5 other resources" in text_of(page)
    chosen = read(app_of(shown), f"{HOST}?resource=metric_11")
    assert re.findall(r'id="resource-(\w+)"', chosen)[0] == "metric_11"


def test_hosts_of_the_job_are_shown_beside_a_host_on_the_same_scale() -> None:
    shown = service("nid001000", "nid001001", "login1")
    shown.held_hosts[0] = host_view("nid001000", job="archer2/812")
    shown.held_hosts_of_jobs = {("archer2", "812"): ("nid001000", "nid001001")}
    page = text_of(read(app_of(shown), HOST))
    assert "Hosts of job archer2/812" in page
    assert "0 to 88 %" in page
    assert "login1" not in page


def test_without_a_job_neighbours_by_name_are_shown_and_the_page_admits_that_racks_are_not_known() -> None:
    page = text_of(read(app_of(service("nid001000", "nid001001", "login1")), HOST))
    assert "Neighbours by name" in page
    assert "the racks are unknown" in page
    assert "nid001001" in page
    assert "login1" not in page


@pytest.mark.parametrize(("listed", "known_by"), [(True, ""), (False, " by its name")])
def test_hosts_of_the_same_rack_are_shown_beside_a_host(known_by: str, *, listed: bool) -> None:
    shown = service("nid001000", "nid001001", "login1")
    for host in ("nid001000", "login1"):
        shown.held_racks["archer2", host] = HostRack("r7", listed=listed)
    page = text_of(read(app_of(shown), HOST))
    assert "Rack r7" in page
    assert f"same rack{known_by}, on a common scale" in page
    assert "login1" in page
    assert "nid001001" not in page


def test_a_jobs_page_shows_its_hosts_over_its_time() -> None:
    run = recent_run(
        system="archer2", start_ms=NOW_MS - 7_200_000, end_ms=NOW_MS - 3_600_000, hosts=("nid[001000-001001]",)
    )
    shown = service("nid001000", "nid001001", runs=[run])
    page = read(app_of(shown), "/jobs/archer2/812")
    assert page.count('href="/hosts/archer2/') == 2
    assert "2026-11-20 08:00 to 09:00 UTC" in text_of(page)
    shown.held_lines = {}
    assert "Its hosts over its time" not in read(app_of(shown), "/jobs/archer2/812")


def test_an_applications_page_shows_when_its_runs_left_what_was_predicted() -> None:
    runs = [recent_run(str(k), 1700.0 * (1.5 if k > 8 else 1.0), end_ms=NOW_MS + k * 60_000) for k in range(12)]
    slow = alert(
        starts=rfc3339(NOW_MS + 540_000), ends=None, status="firing", evidence=AlertEvidence(runs=(runs[11].run_id,)),
        labels={"alertname": "StrangeRun", "application": "lammps", "system": "archer2", "input": "rhodo", "unit": "nodes"},
    )  # fmt: skip
    page = read(app_of(service(runs=runs, alerts=[slow])), f"/applications/{prediction_link()}")
    section = page[page.index('id="observed"') : page.index("Prediction quality so far")]
    assert re.findall(r'data-dot="([\d.]+)"', section) == ["1.0"] * 9 + ["1.5"] * 3
    assert re.findall(r'<tr data-kind="(\w+)"', section)[-3:] == ["outside", "outside", "anomaly"]
    assert marks(section)[0][:2] == ("alert", NOW_MS + 540_000)
    assert predicted().low_s / predicted().run_time_s == pytest.approx(
        float(re.findall(r'data-low="([\d.]+)"', section)[0])
    )


def prediction_link() -> str:
    return "archer2/lammps/rhodo/nodes"


@pytest.mark.parametrize(
    ("top", "factor", "labels"),
    [
        (0.93, 0.01, ["0", "20", "40", "60", "80"]),
        (1.84e11, 1e9, ["0", "50", "100", "150"]),
        (3.0, 1.0, ["0", "1", "2", "3"]),
    ],
)
def test_ticks_are_one_two_or_five_times_a_power_of_ten(top: float, factor: float, labels: list[str]) -> None:
    assert [text for _, text in level_axis(top, factor, "").ticks] == labels


@each(
    ("texts", "host", "named"),
    [
        (("nid[001000-001003,7]",), "nid001002", True), (("nid[001000-001003,7]",), "nid7", True),
        (("nid[001000-001003]",), "nid1002", False), (("a,b", "c"), "c", True), (("rack[1-2]node[01-02]",), "rack2node01", True),
        (("rack[1-2]node[01-02]",), "rack2node01x", False), (("a[",), "a", False), ((), "a", False),
    ],
)  # fmt: skip
def test_a_host_list_names_a_host(texts: tuple[str, ...], host: str, *, named: bool) -> None:
    assert names_host(texts, host) is named


def test_a_running_jobs_page_shows_its_hosts_since_its_start() -> None:
    shown = service("nid001000", "nid001001")
    shown.held_jobs = [job("900", start="2026-11-20T08:00:00Z")]
    shown.held_hosts_of_jobs = {("archer2", "900"): ("nid[001000-001001]",)}
    page = read(app_of(shown), "/jobs/archer2/900")
    assert page.count('href="/hosts/archer2/') == 2
    assert "2026-11-20 08:00 to 10:00 UTC" in text_of(page)


def test_the_list_of_hosts_draws_the_most_important_resource_of_each_over_time() -> None:
    shown = service("nid001000", "nid001001")
    shown.held_lines["archer2", "nid001001"] = lines("nid001001", memory_free=band(*[1e11] * 288))
    page = read(app_of(shown), "/hosts")
    assert text_of(page).count("Processor available, last 24 h, 0 to 88 %") == 1, "the other host has none of it"
    picture = page.partition('class="trend"')[2].partition("</svg>")[0]
    assert 'class="line"' in picture
    assert len(picture) < 3_000, "a page shows forty hosts"


def test_a_host_whose_lines_are_not_kept_is_listed_without_one() -> None:
    shown = service()
    shown.held_lines = {}
    assert "over time</title>" not in read(app_of(shown), "/hosts")
