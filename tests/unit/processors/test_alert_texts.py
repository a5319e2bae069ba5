"""The texts of all alerts: short enough, never empty, and cut between findings if at all."""

import json
import re
from pathlib import Path

import pytest

from processors.alerts import rules
from processors.alerts.hosts import Contradicts, Differing, Odd, Rack, host_anomaly, peer_difference, rack_anomaly
from processors.alerts.lifecycle import Condition, Transition
from processors.alerts.policy import AlertLinks, message
from processors.alerts.rules import ALERTS, AlertType, Text, shortened
from processors.contracts.alerts import AlertSettings, HostAnomaly, PeerDifference, RackAnomaly
from processors.contracts.outputs import AlertEvidence
from processors.hosts.detectors import Mark
from processors.hosts.peers import Difference
from processors.run_time.messages import Context

CASES = Path(__file__).parents[2] / "cases"
NOW_MS = 1_795_168_800_000
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
TEXTS = [
    *((alert, alert.text) for alert in ALERTS.values()),
    (rules.STRANGE_RUN, rules.SIZE_TURNED),
    (rules.UNEXPLAINED_POWER, rules.POWER_OF_HOST),
]
LONG = {"findings": "f" * 190, "counters": "c" * 100, "differences": "d" * 110, "run": f"{'r' * 48} on 128 nodes"}
RESOURCES = [f"a_resource_with_quite_a_long_name_{number}" for number in range(12)]


def sent(condition: Condition) -> dict[str, str]:
    change, context = Transition("firing", NOW_MS, NOW_MS, condition), Context("test", NOW_MS)
    return message("f1", change, AlertLinks(), context).annotations


@pytest.mark.parametrize(("alert", "text"), TEXTS, ids=lambda one: getattr(one, "name", ""))
def test_a_text_of_the_table_fits_with_long_names_and_has_a_description(alert: AlertType, text: Text) -> None:
    labels = dict.fromkeys(re.findall(r"{(application|system|unit|host|n)}", "".join(text)), "name_of_" + "x" * 200)
    evidence = AlertEvidence(observed=123456.7, expected=12345.6, low=12345.6, high=123456.7, n=65536)
    others = set(re.findall(r"{(\w+)[:}]", "".join(text))) - labels.keys()
    values: dict[str, object] = {name: LONG.get(name, 1234.567) for name in others}
    found = sent(alert.condition(labels, getattr(AlertSettings(), alert.section), NOW_MS, values, evidence, text=text))
    assert len(found["summary"]) <= 300
    assert found["summary"].endswith((".", "234.567", "1234.57")), "it is whole"
    assert found["description"]
    assert not found["description"].endswith(ELLIPSIS)


@pytest.mark.parametrize("path", sorted(CASES.glob("fold/*/expected/alerts.json")), ids=lambda path: path.parts[-3])
def test_alerts_of_the_cases_are_whole(path: Path) -> None:
    for emitted in json.loads(path.read_text()):
        summary, description = (emitted["value"]["annotations"][name] for name in ("summary", "description"))
        assert 0 < len(summary) <= 300
        assert description
        assert ELLIPSIS not in summary + description


def test_the_reason_of_a_host_alert_is_whole_however_much_follows() -> None:
    marks = {name: Mark(NOW_MS, NOW_MS, 123.4, 1.234, 2.345, "value") for name in RESOURCES}
    contradicts = Contradicts(RESOURCES[0], 123.4, 1.234, NOW_MS, fired=True)
    labels = {"system": "the-large-system", "host": "x1000c0s0b0n0.cluster.example.org"}
    found = sent(host_anomaly(labels, Odd(NOW_MS, marks, 12, contradicts), HostAnomaly(), NOW_MS))
    assert len(found["summary"]) <= 300
    assert found["summary"].endswith(f" least: 123 where the others predict 1.23; {ELLIPSIS}")
    assert "If it is at fault, drain it" in found["description"]
    without = sent(host_anomaly(labels, Odd(NOW_MS, marks, 12), HostAnomaly(), NOW_MS))["summary"]
    assert f"{RESOURCES[0]} 123 (1.23 to 2.35 until then), " in without


def test_hosts_and_racks_with_many_resources_have_whole_texts() -> None:
    rack = Rack("the-large-system", "rack", "x1000")
    hosts, counts = [f"x1000c0s{number}b0n0" for number in range(40)], dict.fromkeys(RESOURCES, 40)
    of_rack = sent(
        rack_anomaly(rack, hosts, 64, counts, NOW_MS, settings=RackAnomaly(), now_ms=NOW_MS, end_is_seen=True)
    )
    difference = Difference(NOW_MS, 123.4, 1.234)
    differing = Differing("exa/812", 3, NOW_MS, dict.fromkeys(RESOURCES, difference))
    of_host = sent(peer_difference({"system": "exa", "host": "x1000c0s0b0n0"}, differing, PeerDifference(), NOW_MS))
    for found in (of_rack, of_host):
        assert len(found["summary"]) <= 300
        assert ELLIPSIS not in found["summary"]
        assert found["description"]


def test_a_text_is_cut_after_a_finding_else_a_sentence_else_a_part_of_a_list_else_a_word() -> None:
    assert shortened("one, two; three, four. five", 20) == f"one, two; {ELLIPSIS}"
    assert shortened("one, two. three, four five", 20) == f"one, two. {ELLIPSIS}"
    assert shortened("one, two three four five", 20) == f"one, {ELLIPSIS}"
    assert shortened("one two three four five", 20) == f"one two three four {ELLIPSIS}"
    assert shortened("o" * 30, 20) == "o" * 19 + ELLIPSIS
    assert shortened("o" * 20, 20) == "o" * 20
