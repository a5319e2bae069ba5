"""Alerts as people read them: the list with its filters, and one with its evidence, its links and what to do."""

import re
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette

from processors.alerts.rules import ALERTS
from processors.contracts.outputs import Alert, AlertEvidence
from sinks.prometheus.registry import Metrics
from sinks.web.access import Reader
from sinks.web.formatting import parsed as of_markdown
from sinks.web.formatting import sections
from sinks.web.server import create_app
from sinks.web.views.alert_states import Alerts
from sinks.web.views.alerts import evidence_rows
from tests.kit.cases import each
from tests.kit.messages import alert, host_view, job, prediction
from tests.kit.pages import HOSTILE, parsed, read
from tests.kit.read_by import ReadBy, text_of
from tests.kit.recent import recent_run
from tests.kit.service import FixedService


def app_of(*alerts: Alert, **things: Any) -> Starlette:
    return create_app(FixedService(alerts=alerts, **things), Metrics(formats=(), reasons=(), processors=()))


def named(name: str, **changes: Any) -> Alert:
    labels = {"alertname": name, "system": "archer2", "host": "nid1"}
    return alert(changes.pop("fingerprint", name), **({"labels": labels} | changes))


def listed(app: Starlette, query: str = "") -> list[str]:
    return re.findall(r'<a href="/alerts/([^"]+)">', read(app, f"/alerts{query}"))


def test_alerts_are_listed_open_ones_first_and_the_worst_of_them_first() -> None:
    app = app_of(
        named("A", status="resolved", ends="2026-11-20T09:30:00Z"),
        named("B", severity="info"),
        named("C", status="pending", severity="critical"),
        named("D", severity="critical"),
        named("E", status="pending", severity="critical", withheld_by="dry run"),
    )
    assert listed(app) == ["D", "B", "E", "C", "A"]
    assert "2 alerts are open: 1 critical, 1 info. 1 is withheld, 1 is pending." in read(app, "/alerts")


def test_alerts_are_filtered_by_status_kind_severity_and_name() -> None:
    app = app_of(
        named("A", status="resolved"),
        named("B", kind="reliability"),
        named("C", severity="critical"),
        named("C", fingerprint="c2", status="pending"),
    )
    assert listed(app, "?status=open") == ["C", "B"]
    assert listed(app, "?status=pending") == ["c2"]
    assert listed(app, "?status=resolved") == ["A"]
    assert listed(app, "?kind=reliability") == ["B"]
    assert listed(app, "?severity=critical&status=firing") == ["C"]
    assert listed(app, "?name=C&kind=") == ["C", "c2"]
    assert "No alert matches." in read(app, "/alerts?name=nothing")
    assert '<option value="firing" selected>' in read(app, "/alerts?status=firing")


def test_a_filter_keeps_what_was_chosen_whatever_it_was() -> None:
    parsed(read(app_of(), f"/alerts?name={quote(HOSTILE)}"))


def test_the_empty_list_states_since_when_it_is_quiet() -> None:
    ended = named("StrangeRun", status="resolved", ends="2026-11-20T09:30:00Z")
    earlier = named("SlowSize", status="resolved", ends="2026-11-20T08:30:00Z")
    since = "No alert has been open since 2026-11-20 09:30 UTC, when StrangeRun ended."
    assert Alerts([earlier, ended]).standing() == since
    assert Alerts([earlier, ended, named("A", status="pending")]).standing() == f"{since} 1 is pending."
    assert "No alert is open, and none ended recently." in read(app_of(), "/alerts")


def test_one_alert_has_its_message_its_evidence_and_what_to_do() -> None:
    service = FixedService(
        [prediction()], alerts=[alert()], runs=[recent_run("7")], jobs=[job("8", as_of="2026-11-20T12:28:00Z")]
    )
    text = read(create_app(service, Metrics(formats=(), reasons=(), processors=())), "/alerts/f1")
    parsed(text)
    page = text_of(text)
    assert "lammps is 50 % slower at 16 nodes than its curve says." in page
    assert "observed 1 min 48 s expected 1 min 11 s observed over expected 1.5" in page.replace(
        "1 min 12 s", "1 min 11 s"
    )
    assert "size 16 nodes" in page
    assert "since 2026-11-20 09:00 UTC, for 3 h 28 min" in page
    assert "Means. At one size" in page, "the paragraph of the runbook"
    assert "/applications/archer2/lammps/rhodo/nodes" in text
    assert 'href="/jobs/archer2/7"' in text


def test_an_alert_of_a_host_leads_to_the_host() -> None:
    labels = {"alertname": "HostAnomaly", "system": "archer2", "host": "nid001000"}
    text = read(app_of(alert(labels=labels), hosts=[host_view()]), "/alerts/f1")
    assert 'href="/hosts/archer2/nid001000"' in text


def test_an_alert_that_is_gone_is_reported_as_missing() -> None:
    assert "is unknown or no longer known." in read(app_of(), "/alerts/f9", 404)


def test_a_centre_with_a_runbook_of_its_own_is_linked_to_it() -> None:
    theirs = alert(annotations={"summary": "Slow.", "runbook_url": "https://wiki.example.org/runbook#slowsize"})
    assert 'href="https://wiki.example.org/runbook#slowsize"' in read(app_of(theirs), "/alerts/f1")
    odd = alert(annotations={"summary": "Slow.", "runbook_url": "javascript:alert(1)"})
    assert "javascript:" not in read(app_of(odd), "/alerts/f1")


def test_runs_of_others_are_left_out_for_those_who_may_not_see_them() -> None:
    evidence = AlertEvidence(runs=("archer2/7@1", "archer2/8@1", "archer2/9@1"), detail={"since_run": "archer2/8@1"})
    service = FixedService(
        alerts=[alert(evidence=evidence)], runs=[recent_run("7", user="u-1"), recent_run("8", user="u-2")]
    )
    app = create_app(service, Metrics(formats=(), reasons=(), processors=()))
    text = read(ReadBy(app, Reader(user="u-1")), "/alerts/f1")
    assert "archer2/7" in text
    assert "archer2/8" not in text
    assert "archer2/9" not in text
    assert "and 2 not shown" in text
    assert "archer2/8" in read(app, "/alerts/f1")


@each(
    ("name", "evidence", "rows"),
    [
        ("StrangeRun", AlertEvidence(observed=108.0, expected=72.0, low=65.0, high=79.0, detail={"conformal_p": 0.004}),
         [("observed", "1 min 48 s"), ("usual range", "1 min 5 s to 1 min 19 s"), ("share of recent runs that deviated at least as much", "0.4 %")]),
        ("ApplicationFailureRate", AlertEvidence(observed=0.5, expected=0.1), [("observed", "50 %"), ("expected", "10 %")]),
        ("UnexplainedPower", AlertEvidence(observed=512.0, expected=400.0, n=8.0), [("observed", "512 W per host"), ("size", "8 nodes")]),
        ("HostAnomaly", AlertEvidence(observed=0.02, low=0.6, high=1.0, detail={"cpu_available": "0.02 (until now 0.6 to 1)"}),
         [("observed", "2 %"), ("usual range", "60 % to 100 %"), ("processor available", "0.02 (until now 0.6 to 1)")]),
        ("PeerDifference", AlertEvidence(observed=2e9, expected=8e9, detail={"job": "exa/1", "memory_free": "2e9, peers 8e9"}),
         [("observed", "2 GB"), ("expected", "8 GB"), ("memory free", "2e9, peers 8e9")]),
        ("RackAnomaly", AlertEvidence(observed=4.0, expected=0.0, n=6.0, detail={"power": "on 4 hosts"}),
         [("hosts with an anomaly", "4 of 6"), ("power", "on 4 hosts")]),
        ("DisturbedRun", AlertEvidence(observed=0.8, expected=0.4, detail={"target": "stalls", "counters_off": 3}),
         [("observed", "0.8"), ("compared quantity", "stalls"), ("deviating counters", "3")]),
        ("Regression", AlertEvidence(detail={"since": "2026-11-20T09:30:00Z", "changed": "module", "before": ""}),
         [("since", "2026-11-20 09:30 UTC"), ("changes at that time", "module")]),
        ("OfALaterVersion", AlertEvidence(observed=1.5, model="linear"), [("observed", "1.5"), ("model", "linear")]),
        ("PredictionUnreliable", AlertEvidence(), []),
    ],
)  # fmt: skip
def test_evidence_is_reported_with_its_units(name: str, evidence: AlertEvidence, rows: list[tuple[str, str]]) -> None:
    shown = evidence_rows(named(name, evidence=evidence))
    assert [row for row in shown if row in rows] == rows
    if not rows:
        assert shown == []


def test_of_several_resources_each_has_its_own_figures_and_none_borrows_those_of_another() -> None:
    detail = {"bandwidth": "6 GB/s (9 GB/s to 13 GB/s until then)", "cpu_available": "82 % (75 % to 81 % until then)"}
    known = AlertEvidence(observed=0.82, low=0.75, high=0.81, detail={**detail})
    shown = evidence_rows(named("HostAnomaly", evidence=known))
    assert shown == [("bandwidth", detail["bandwidth"]), ("processor available", detail["cpu_available"])]


def test_the_power_of_a_host_is_what_counters_do_not_explain() -> None:
    about = {"alertname": "UnexplainedPower", "system": "exa", "host": "nid1"}
    for excess_w, word in ((50.0, "50 W more"), (-50.0, "50 W less")):
        known = AlertEvidence(observed=excess_w, detail={"runs": 4})
        assert ("compared with the power that counters explain", word) in evidence_rows(
            alert(labels=about, evidence=known)
        )


@each("name", ALERTS)
def test_each_alert_has_its_paragraphs_of_the_runbook_on_its_page(name: str) -> None:
    text = read(app_of(named(name)), f"/alerts/{name}")
    parsed(text)
    assert "<strong>Means.</strong>" in text


def test_the_whole_runbook_is_a_page_whose_links_lead_to_its_headings() -> None:
    text = read(app_of(), "/runbook")
    page = parsed(text)
    anchors = set(re.findall(r'<h[123][^>]* id="([^"]+)"', text))
    assert {each.anchor for each in sections()} == anchors
    assert {link.partition("#")[2] for link in page.links if link.startswith("/runbook#")} <= anchors
    assert "**" not in text
    assert "`" not in text


def test_html_in_a_runbook_is_text_and_its_own_links_lead_to_its_page() -> None:
    (found,) = of_markdown(f"# A heading\n\n{HOSTILE} [there](#other) [here](https://example.org)")
    assert (found.anchor, found.heading, found.level) == ("a-heading", "A heading", 1)
    assert "<script" not in found.html
    assert 'href="/runbook#other"' in found.html
    assert 'href="https://example.org"' in found.html


def test_what_an_alert_states_is_escaped_everywhere() -> None:
    labels = {"alertname": HOSTILE, "system": HOSTILE, "application": HOSTILE, "host": HOSTILE, "rack": HOSTILE}
    evidence = AlertEvidence(runs=(HOSTILE,), model=HOSTILE, detail={HOSTILE: HOSTILE})
    hostile = alert(labels=labels, annotations={"summary": HOSTILE, "description": HOSTILE}, evidence=evidence)
    for path in ("/alerts", "/alerts/f1"):
        parsed(read(app_of(hostile), path))
