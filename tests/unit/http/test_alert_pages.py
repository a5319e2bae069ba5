"""What pages say of alerts that nobody is notified of, of hosts with which something is wrong, and of one alert in full."""

import json
from typing import Any

import pytest
from starlette.applications import Starlette

from agent.reports.backtest.alerts import labels_of
from processors.contracts.hosts import ExplainedRun, ExplainedRunList, HostFinding
from processors.contracts.nodes import HostRack
from processors.contracts.outputs import Alert, AlertEvidence
from processors.contracts.service import Silence
from sinks.prometheus.registry import Metrics
from sinks.web.server import create_app
from sinks.web.views.alerts import NO_FIGURE, how_sure
from tests.kit.cases import each
from tests.kit.get import get
from tests.kit.messages import alert, host_view, job, prediction
from tests.kit.pages import parsed, read
from tests.kit.read_by import text_of
from tests.kit.readers import ANN, BOB, get_as, limited_app, run
from tests.kit.service import FixedService

HOST = {"system": "archer2", "host": "nid1"}
APPLICATION = "archer2/lammps/rhodo/nodes"
SINCE = "2026-11-20T09:00:00Z"
SILENCE = Silence("ann", "2026-11-20T18:00:00Z", "waits for a part.")
QUIETED = {"withheld": {"status": "pending", "withheld_by": "maintenance (rack 3)"}, "pending": {"status": "pending"}}


def app_of(service: FixedService) -> Starlette:
    return create_app(service, Metrics(formats=(), reasons=(), processors=()))


def of_host(name: str = "PeerDifference", fingerprint: str = "f1", **changes: Any) -> Alert:
    return alert(fingerprint, **({"labels": {"alertname": name, **HOST}, "evidence": AlertEvidence()} | changes))


@pytest.mark.parametrize("state", QUIETED)
def test_what_is_pending_or_withheld_is_counted_as_open_nowhere(state: str) -> None:
    changes = QUIETED[state]
    service = FixedService([prediction()], alerts=[alert(severity="critical", **changes), of_host(fingerprint="f2", **changes)],
                           hosts=[host_view("nid1")])  # fmt: skip
    app = app_of(service)
    for path in ("/", f"/applications/{APPLICATION}", "/hosts", "/hosts/archer2/nid1", "/alerts"):
        text = read(app, path)
        parsed(text)
        assert 'class="pill critical"' not in text, path
        assert "1 open alert" not in text_of(text), path
    assert "0 open alerts" in text_of(read(app, "/"))
    assert "Need attention" not in read(app, "/hosts")
    assert "Nothing unusual." in read(app, "/hosts/archer2/nid1")
    assert json.loads(get(app, "/api/v1/alerts?status=open").text)["total"] == 0
    assert json.loads(get(app, f"/api/v1/alerts?status={state}").text)["total"] == 2


def test_a_withheld_alert_is_shown_apart_with_its_reason() -> None:
    app = app_of(FixedService([prediction()], alerts=[alert(**QUIETED["withheld"])]))
    for path in ("/", f"/applications/{APPLICATION}", "/alerts", "/alerts/f1"):
        assert "Withheld: maintenance (rack 3)." in text_of(read(app, path)), path


def test_a_silenced_alert_leaves_the_headline_and_shows_who_silenced_it() -> None:
    service = FixedService([prediction()], alerts=[alert(), of_host(fingerprint="f2")], hosts=[host_view("nid1")])
    service.held_silences = {"f1": SILENCE, "f2": SILENCE}
    app = app_of(service)
    page = text_of(read(app, "/"))
    assert "0 open alerts" in page
    assert "2 silenced alerts" in page
    assert "Silenced by ann until 2026-11-20 18:00 UTC: waits for a part." in page
    assert "silenced" in text_of(read(app, "/alerts/f1"))
    assert "Need attention" not in read(app, "/hosts")
    (row, _) = json.loads(get(app, "/api/v1/alerts?status=silenced").text)["rows"]
    assert row["silence"] == {"by": "ann", "until": "2026-11-20T18:00:00Z", "comment": "waits for a part."}
    assert json.loads(get(app, "/api/v1/alerts?status=firing").text)["total"] == 0


def test_who_silenced_an_alert_and_why_is_for_operators() -> None:
    service = FixedService([prediction()], alerts=[alert()])
    service.held_silences = {"f1": SILENCE}
    app = limited_app(service)
    assert "Silenced until 2026-11-20 18:00 UTC." in get_as("ann", app, "/alerts/f1").text
    assert "waits for a part" in get_as("operator", app, "/alerts/f1").text


@pytest.mark.parametrize("name", ["HostAnomaly", "PeerDifference"])
def test_a_host_stands_out_for_as_long_as_its_alert_is_open(name: str) -> None:
    app = app_of(FixedService(alerts=[of_host(name)], hosts=[host_view("nid1")]))
    page = text_of(read(app, "/hosts/archer2/nid1"))
    assert "Nothing unusual" not in page
    assert "nid1 has behaved abnormally since 2026-11-20 09:00 UTC." in page
    assert "1 abnormal host" in text_of(read(app, "/"))


def test_a_hosts_page_states_what_is_wrong_since_when_and_how_many_jobs_met_it() -> None:
    finding = HostFinding(differs_since=SINCE, jobs=7)
    service = FixedService(
        [prediction()], alerts=[of_host()], hosts=[host_view("nid1", finding=finding)], runs=[run("4712", BOB)]
    )
    ended = ExplainedRun("archer2/4712@1795168800000", APPLICATION, 1.8, 1795170600000)
    service.held_explained[HOST["system"], HOST["host"]] = ExplainedRunList(
        2, (ExplainedRun("archer2/1@0", "archer2/gone//nodes", 2.0, 0), ended)
    )
    text = read(app_of(service), "/hosts/archer2/nid1")
    parsed(text)
    page = text_of(text)
    assert (
        "nid1 has differed from its peers since 2026-11-20 09:00 UTC. 7 jobs were affected. The host explains 2 slow runs."
        in page
    )
    assert "Slow runs on this host 2 " in page
    assert page.index("archer2/4712") < page.index("archer2/1 "), "the newest comes first"
    assert 'href="/jobs/archer2/4712"' in text
    assert 'href="/jobs/archer2/1"' not in text, "nobody knows it any more"
    assert "lammps rhodo 1.80" in page


def test_a_reader_sees_only_their_own_of_the_runs_that_a_host_explains() -> None:
    service = FixedService([prediction()], alerts=[of_host()], hosts=[host_view("nid1", job=None)],
                           runs=[run("4712", ANN), run("4713", BOB)])  # fmt: skip
    both = tuple(
        ExplainedRun(f"archer2/{id_}@1795168800000", APPLICATION, 1.8, 1795170600000) for id_ in ("4712", "4713")
    )
    service.held_explained[HOST["system"], HOST["host"]] = ExplainedRunList(2, both)
    app = limited_app(service)
    for path in ("/hosts/archer2/nid1", "/alerts/f1"):
        assert "4713" in get_as("operator", app, path).text
        shown = get_as("ann", app, path).text
        assert "4712" in shown
        assert "4713" not in shown
        assert '<span class="more">1</span>' in shown
        assert BOB not in shown


def test_an_alerts_page_lists_the_runs_of_its_own_time() -> None:
    service = FixedService(
        alerts=[of_host(status="resolved", starts="2026-11-20T09:00:00Z", ends="2026-11-20T11:00:00Z")]
    )
    at_ms = {"early": 1795161600000, "then": 1795168800000, "late": 1795181600000}
    runs = tuple(ExplainedRun(f"archer2/{name}@0", APPLICATION, 1.8, end_ms) for name, end_ms in at_ms.items())
    service.held_explained[HOST["system"], HOST["host"]] = ExplainedRunList(3, runs)
    page = text_of(read(app_of(service), "/alerts/f1"))
    assert "archer2/then" in page
    assert "archer2/early" not in page
    assert "archer2/late" not in page


def test_of_many_slow_runs_the_newest_stand_open_and_the_others_are_folded() -> None:
    service = FixedService(alerts=[of_host(starts="2026-11-20T09:00:00Z")])
    runs = tuple(ExplainedRun(f"archer2/{number}@0", APPLICATION, 1.8, 1795168800000) for number in range(20))
    service.held_explained[HOST["system"], HOST["host"]] = ExplainedRunList(20, runs)
    text = read(app_of(service), "/alerts/f1")
    parsed(text)
    before, _, folded = text.partition("<summary>12 earlier runs</summary>")
    assert "archer2/19<" in before
    assert "archer2/11<" not in before
    assert "archer2/0<" in folded


def test_an_alerts_page_lists_whom_it_hits() -> None:
    service = FixedService([prediction()], [job("7", user="u-bob")], [alert()], runs=[run("4712", ANN)])
    page = text_of(read(app_of(service), "/alerts/f1"))
    assert "running jobs archer2/7" in page
    assert "users u-bob" in page


def test_an_alerts_page_lists_what_else_began_within_an_hour_what_has_most_in_common_first() -> None:
    near, far = "2026-11-20T09:50:00Z", "2026-11-20T10:30:00Z"
    service = FixedService(
        alerts=[
            of_host(),
            alert("other", labels={"alertname": "Other", "system": "exa"}, starts=near),
            alert("system", labels={"alertname": "OfSystem", "system": "archer2"}, starts=near),
            of_host("OfRack", "rack", labels={"alertname": "OfRack", "system": "archer2", "rack": "nid"}, starts=near),
            of_host("OfHost", "host", starts=near, status="resolved", ends=near),
            of_host("Later", "later", starts=far),
        ]
    )
    service.held_racks[of_host().labels["system"], of_host().labels["host"]] = HostRack("nid", listed=False)
    page = text_of(read(app_of(service), "/alerts/f1"))
    places = [page.index(name) for name in ("OfHost", "OfRack", "OfSystem", "Other")]
    assert places == sorted(places)
    assert "same host" in page
    assert "same rack by its name" in page
    assert "Later" not in page


def test_the_line_for_not_an_anomaly_is_one_that_the_file_of_labels_takes() -> None:
    text = read(app_of(FixedService(alerts=[alert("f1", time="2026-11-20T09:10:00Z")])), "/alerts/f1")
    shown = parsed(text)
    line = text.partition('<pre class="copied"><code>')[2].partition("</code>")[0].replace("&#34;", '"')
    (label,) = labels_of(line.encode())
    assert (label.fingerprint, label.time, label.real) == ("f1", "2026-11-20T09:10:00Z", False)
    assert shown


@each(
    ("name", "evidence", "text"),
    [
        ("StrangeRun", AlertEvidence(observed=108.0, low=65.0, high=80.0, detail={"conformal_p": 0.004}),
         "At most 0.4 % of the newest runs deviated as much. The value lies 35 % outside its usual range."),
        ("RackAnomaly", AlertEvidence(observed=4.0, n=6.0), "4 of the 6 hosts are anomalous at once, which is no coincidence."),
        ("PeerDifference", AlertEvidence(detail={"job": "exa/1", "jobs": 1}),
         "Every minute the host is compared with hosts that do the same work. 1 job met the difference."),
        ("ApplicationFailureRate", AlertEvidence(observed=0.5, expected=0.1), "50 % of the newest runs failed; 10 % failed before."),
        ("HostFailureRate", AlertEvidence(observed=0.5, expected=0.1), "50 % of the newest runs failed; 10 % were expected to fail."),
        ("HostAnomaly", AlertEvidence(observed=0.82, low=0.75, high=0.81, detail={"cpu": "82 %", "memory": "1 GB"}),
         "2 resources left their usual ranges within minutes of each other."),
        ("DisturbedRun", AlertEvidence(detail={"deviations": -9.2}), "The value is 9 times as far from the usual value as normal scatter."),
        ("Regression", AlertEvidence(detail={"runs": 5}), "5 runs show the change."),
        ("SlowSize", AlertEvidence(observed=9.0, expected=6.0),
         "It rests on all runs at this size and on the curve through the other sizes."),
        ("PredictionUnreliable", AlertEvidence(), NO_FIGURE),
    ],
)  # fmt: skip
def test_how_sure_an_alert_is_follows_from_its_evidence(name: str, evidence: AlertEvidence, text: str) -> None:
    assert how_sure(alert(labels={"alertname": name, **HOST}, evidence=evidence)) == text
