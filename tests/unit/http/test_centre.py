"""The state of a centre in sentences: what needs its operators, and whether its data are fresh."""

from typing import Any

from processors.contracts.hosts import HostCounts
from processors.contracts.outputs import Alert, Severity
from processors.contracts.service import Health, SourceStatus
from sinks.web.views.centre import state_of_centre
from tests.kit.messages import alert, job
from tests.kit.service import FixedService

NOW_MS = 1_795_168_800_000
HOUR_MS = 3_600_000


def about(name: str, severity: Severity = "warning", **labels: str) -> Alert:
    return alert(name, severity=severity, labels={"alertname": name, "system": "exa", **labels})


def healthy(lag_s: float = 2.0) -> Health:
    return Health(role="learner", ready=lag_s < 60, lag_s=lag_s, folded_ms=NOW_MS)


def line(*alerts: Alert, heard_ms: int = NOW_MS, lag_s: float = 2.0, **parts: Any) -> list[str]:
    source = SourceStatus(topic="telegraf", events=12, newest_ms=heard_ms)
    service = FixedService(alerts=alerts, sources=[source], health=[healthy(lag_s)], jobs=parts.pop("jobs", ()))
    service.held_counts = parts.pop("counts", HostCounts(20))
    return [f"{one.kind}: {one.text}" for one in state_of_centre(service, service.running()).sentences]


def test_a_centre_that_is_well_needs_nobody() -> None:
    assert line() == ["good: Nothing needs you.", "good: All data are fresh."]


def test_what_needs_somebody_is_counted_once_a_subject_by_kind_and_information_does_not_count() -> None:
    about_hosts = [about("HostAnomaly", host="n1"), about("PeerDifference", host="n1"), about("HostAnomaly", host="n2")]
    rack, strange = about("RackAnomaly", "critical", rack="r3"), about("StrangeRun", "info", application="md")
    assert line(*about_hosts, rack, strange)[0] == "critical: 1 rack and 2 hosts need you."
    assert line(about("UnexplainedPower", hosts="n1,n2"))[0] == "warning: 1 host needs you."
    assert line(about_hosts[0])[0] == "warning: 1 host needs you."
    assert line(strange)[0] == "good: Nothing needs you."


def test_jobs_near_their_limit_silent_sources_and_new_hosts_have_sentences_of_their_own() -> None:
    learning = HostCounts(20, learning=20, learned_until="2026-11-30T08:00:00Z")
    late = [job("1", probability_exceeds_limit=0.9), job("2", probability_exceeds_limit=0.01)]
    assert line(jobs=late, heard_ms=NOW_MS - 24 * HOUR_MS, counts=learning)[1:] == [
        "warning: 1 job will probably hit the limit.",
        "warning: No data from telegraf.",
        "plain: 20 hosts are being learned, without alerts until 2026-11-30 08:00 UTC.",
    ]


def test_an_agent_that_catches_up_says_which_time_it_shows_and_not_that_data_are_fresh() -> None:
    assert line(lag_s=25_200.0)[1:] == ["warning: The agent catches up: it is 2026-11-20 10:00 UTC here, 7 h behind."]
