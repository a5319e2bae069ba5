"""Hosts on the page and over the API: what they measured, found by names that come from outside."""

import json
import re
from urllib.parse import quote

import pytest
from starlette.applications import Starlette

from processors.contracts.hosts import HostView, ResourceForecast
from processors.contracts.outputs import Alert
from sinks.prometheus.registry import Metrics
from sinks.web.server import create_app
from tests.kit.get import get
from tests.kit.messages import alert, host_view, host_window, resource_view
from tests.kit.pages import HOSTILE, parsed, read
from tests.kit.read_by import text_of
from tests.kit.service import FixedService


def app_of(*hosts: HostView, alerts: tuple[Alert, ...] = ()) -> Starlette:
    return create_app(FixedService(hosts=hosts, alerts=alerts), Metrics(formats=(), reasons=(), processors=()))


def listed(app: Starlette, query: str = "") -> list[str]:
    return [row["host"] for row in json.loads(get(app, f"/api/v1/hosts{query}").text)["rows"]]


def test_the_list_of_hosts_has_their_windows_and_is_read_in_parts() -> None:
    app = app_of(*(host_view(f"nid{number}") for number in range(5)))
    shown = json.loads(get(app, "/api/v1/hosts?offset=1&limit=2").text)
    assert (shown["total"], shown["offset"], shown["more"]) == (5, 1, False)
    assert [row["host"] for row in shown["rows"]] == ["nid1", "nid2"]
    assert shown["rows"][0]["resources"][0]["window"]["shares"] == [0.1, 0.1, 0.2, 0.4, 0.2]
    assert get(app, "/api/v1/hosts?limit=many").status_code == 400


def test_hosts_are_filtered_by_system_and_name() -> None:
    app = app_of(host_view("a"), host_view("b"), host_view("a", system="exa"))
    assert listed(app, "?system=archer2") == ["a", "b"]
    assert listed(app, "?host=a") == ["a", "a"]
    assert listed(app, "?system=exa&host=a") == ["a"]
    assert listed(app, "?system=exa&host=none") == []


def test_only_so_many_hosts_are_looked_through_and_that_is_reported() -> None:
    app = app_of(*(host_view(f"nid{number:05}", resources=()) for number in range(2_500)))
    shown = json.loads(get(app, "/api/v1/hosts?limit=10").text)
    assert (shown["total"], shown["more"]) == (2_000, True)
    assert listed(app, "?system=archer2&host=nid02400") == ["nid02400"], "one that is named is found all the same"


@pytest.mark.parametrize("name", ["nid1", "rack1/nid1", "a b", "%2F", "ü", "..", "?x=1", HOSTILE])
def test_a_host_is_found_on_page_and_api_whatever_it_is_called(name: str) -> None:
    app = app_of(host_view(name, system="a/b"))
    overview = parsed(read(app, "/hosts"))
    link = next(link for link in overview.links if link.startswith("/hosts/"))
    assert link == f"/hosts/a%2Fb/{quote(name, safe='')}"
    if name != "..":  # which clients take out of an address before they ask
        assert "cpu_available" in read(app, link)
        assert json.loads(get(app, f"/api/v1{link}").text)["host"] == name


def test_a_host_that_is_not_known_is_reported_as_missing() -> None:
    assert "is unknown." in read(app_of(), "/hosts/exa/nid1", 404)
    assert "is unknown." in json.loads(get(app_of(), "/api/v1/hosts/exa/nid1").text)["error"]
    assert get(app_of(), "/api/v1/hosts/").status_code == 404


def test_the_list_of_hosts_shows_state_job_histograms_and_anomalies() -> None:
    outlier = resource_view("memory_free", variation=None, forecast=None, anomalous_since="2026-11-20T09:58:00Z")
    text = read(app_of(host_view(state="drain", resources=(resource_view(), outlier))), "/hosts")
    parsed(text)
    page = text_of(text)
    for shown in ("nid001000", "drain; memory free abnormal since 09:58", "archer2/812", "80 %", "varies"):
        assert shown in page, shown
    assert page.index("Memory free") < page.index("Processor available"), "what is strange comes first"
    assert 'href="/jobs/archer2/812"' in text
    assert text.count("<svg") == 2


def test_hosts_that_need_attention_stand_apart_from_normal_ones() -> None:
    silent = host_view("silent", resources=(resource_view(window=host_window(stale=True)),))
    out = host_view("out", state="maintenance")
    page = text_of(read(app_of(host_view("calm", state="up"), silent, out), "/hosts"))
    assert "Need attention 2" in page
    assert "Normal 1" in page
    assert page.index("silent") < page.index("Normal") < page.index("calm")
    assert "no recent measurements" in page
    assert "maintenance" in page


def test_a_suspected_host_is_shown_as_such_among_the_normal_ones_and_on_its_page() -> None:
    app = app_of(host_view("odd", state="up", suspected_since="2026-11-20T09:02:00Z"), host_view("calm", state="up"))
    page = text_of(read(app, "/hosts"))
    assert "Normal 2" in page
    assert page.count("suspected since 09:02 UTC; no alert") == 1
    page = text_of(read(app, "/hosts/archer2/odd"))
    assert "No alert; suspected since 09:02 UTC." in page
    assert "raises no alert; look here first" in page
    assert "Nothing unusual" not in page
    assert "suspected" not in text_of(read(app, "/hosts/archer2/calm"))


def test_days_with_short_deviations_are_told_of_a_host_without_an_alert() -> None:
    app = app_of(host_view("odd", state="up", unusual_days=3), host_view("calm", state="up"))
    assert "unusual minutes on 3 of the last 7 days; no alert" in text_of(read(app, "/hosts"))
    assert "No alert; unusual minutes on 3 of the last 7 days." in text_of(read(app, "/hosts/archer2/odd"))
    assert "unusual minutes" not in text_of(read(app, "/hosts/archer2/calm"))


def test_a_new_host_tells_until_when_it_is_learned() -> None:
    app = app_of(host_view("new", learned_until="2026-11-23T09:02:00Z"), host_view("old"))
    assert "raises no alert about it before 2026-11-23 09:02 UTC" in text_of(read(app, "/hosts/archer2/new"))
    assert "This host is new" not in text_of(read(app, "/hosts/archer2/old"))


def test_a_suspicion_of_another_day_has_its_date_and_an_alert_takes_its_place() -> None:
    assert "suspected since 2026-11-19 23:02" in text_of(
        read(app_of(host_view("odd", suspected_since="2026-11-19T23:02:00Z")), "/hosts")
    )
    outlier = resource_view("memory_free", anomalous_since="2026-11-19T09:58:00Z")
    page = text_of(
        read(app_of(host_view("odd", suspected_since="2026-11-20T09:02:00Z", resources=(outlier,))), "/hosts")
    )
    assert "memory free abnormal since 2026-11-19 09:58" in page
    assert "suspected" not in page


def test_ten_thousand_hosts_are_read_a_page_at_a_time_and_found_by_their_names() -> None:
    app = app_of(*(host_view(f"nid{number:05}") for number in range(10_000)))
    first = read(app, "/hosts")
    assert "10,000 hosts" in text_of(first)
    assert first.count('class="host ') == 40
    assert len(first) < 300_000
    assert 'href="/hosts?page=2" rel="next"' in first
    assert "nid09999" in read(app, "/hosts?page=250")
    assert "nid09999" in read(app, "/hosts?page=999999"), "beyond the last page is the last one"
    found = read(app, "/hosts?search=NID0999")
    assert found.count('class="host ') == 10
    assert "10 of 10,000 hosts found" in text_of(found)
    assert 'href="/hosts?search=nid00&amp;page=3" rel="next"' in read(app, "/hosts?search=nid00&page=2")
    assert get(app, "/hosts?page=many").status_code == 400


def test_hosts_with_open_alerts_come_before_all_others() -> None:
    labels = {"alertname": "HostFailureRate", "system": "archer2", "host": "nid00099"}
    app = app_of(*(host_view(f"nid{number:05}") for number in range(100)), alerts=(alert(labels=labels),))
    text = read(app, "/hosts")
    assert re.findall(r'<li class="host (\w+)" id="host-archer2-(\w+)"', text)[0] == ("attention", "nid00099")
    assert 'href="/alerts/f1"' in text


def test_a_hosts_page_draws_the_histogram_of_each_resource_with_the_table_behind_it() -> None:
    resources = (resource_view(), resource_view("latency", window=host_window(edges=(2e-6,), shares=(1.0,))))
    text = read(app_of(host_view(resources=resources)), "/hosts/archer2/nid001000")
    parsed(text)
    assert len(re.findall(r'data-bar="', text)) == 6
    assert '<td data-x="0.5">50 %</td><td data-x2="0.6">60 %</td>' in text
    assert ">2 µs</td>" in text
    page = text_of(text)
    for shown in (
        "Nothing unusual.",
        "55 to 97.5 %",
        "variation high",
        "83 % (79 to 86 %)",
        "forecast method mean of 5",
        "0.25",
    ):
        assert shown in page, shown
    assert 'href="/jobs/archer2/812"' in text


def test_a_forecast_whose_errors_are_not_known_yet_is_shown_with_its_standard_error() -> None:
    young = resource_view(forecast=ResourceForecast(0.83, 0.02, "last"))
    assert "83 % ± 2 %" in text_of(read(app_of(host_view(resources=(young,))), "/hosts/archer2/nid001000"))


def test_a_hosts_page_states_since_when_it_is_anomalous() -> None:
    outlier = resource_view("memory_free", anomalous_since="2026-11-20T09:58:00Z")
    page = text_of(
        read(app_of(host_view(state="drain", resources=(resource_view(), outlier))), "/hosts/archer2/nid001000")
    )
    assert "drain; memory free abnormal since 09:58." in page
    assert "Memory free anomalous since 2026-11-20 09:58" in page


def test_alerts_of_a_host_are_on_its_page_and_its_row() -> None:
    labels = {"alertname": "HostLoad", "system": "archer2", "host": "nid001000"}
    app = app_of(host_view(), host_view("other"), alerts=(alert(labels=labels),))
    assert "HostLoad" in read(app, "/hosts/archer2/nid001000")
    assert "HostLoad" not in read(app, "/hosts/archer2/other")
    assert read(app, "/hosts").count("HostLoad") == 1


def test_hosts_are_searched_by_name_system_state_and_job() -> None:
    app = app_of(host_view("a", state="drain"), host_view("b", job="archer2/9"))
    assert "/hosts/archer2/b" not in read(app, "/hosts?search=DRAIN")
    assert "/hosts/archer2/b" in read(app, "/hosts?search=archer2/9")
    assert "No host name" in read(app, "/hosts?search=none")


def test_without_telemetry_the_pages_report_it() -> None:
    assert "No host has sent telemetry" in read(app_of(), "/hosts")
    assert "No host has sent telemetry" in read(app_of(), "/")
    assert '<h2><a href="/hosts">Hosts</a></h2>' in read(app_of(host_view()), "/")
