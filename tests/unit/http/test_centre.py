"""The first line of the overview: what needs the operators of a centre, and whether its data are fresh."""

from processors.contracts.hosts import HostCounts
from processors.contracts.outputs import Alert, Severity
from processors.contracts.service import Health
from sinks.web.views.agent import SourceRow
from sinks.web.views.centre import sentences
from tests.kit.messages import alert

NOW_MS = 1_795_168_800_000
FRESH = [SourceRow("slurm.jobs", 12, "-", "newest", "", is_silent=False, waits=False)]
SILENT = [SourceRow("telegraf", 12, "-", "2 h behind", "", is_silent=True, waits=False)]
HEALTHY = [Health(role="learner", ready=True, lag_s=2.0)]


def about(name: str, severity: Severity = "warning", **labels: str) -> Alert:
    return alert(severity=severity, labels={"alertname": name, "system": "exa", **labels})


def line(*alerts: object, **changes: object) -> list[str]:
    facts = {"jobs_late": 0, "sources": FRESH, "health": HEALTHY, "hosts": HostCounts(20), "now_ms": NOW_MS}
    found = sentences(alerts=alerts, **{**facts, **changes})  # type: ignore[arg-type]
    return [f"{sentence.kind}: {sentence.text}" for sentence in found]


def test_a_centre_that_is_well_needs_nobody() -> None:
    assert line() == ["good: Nothing needs you.", "good: All data are fresh."]


def test_what_needs_somebody_is_counted_by_kind_and_once_a_subject_and_information_does_not_count() -> None:
    about_hosts = [about("HostAnomaly", host="n1"), about("PeerDifference", host="n1"), about("HostAnomaly", host="n2")]
    others = [
        about("RackAnomaly", severity="critical", rack="r3"),
        about("StrangeRun", severity="info", application="md"),
    ]
    assert line(*about_hosts, *others)[0] == "critical: 1 rack and 2 hosts need you."
    assert line(about_hosts[0])[0] == "warning: 1 host needs you."
    assert line(others[1])[0] == "good: Nothing needs you."


def test_jobs_near_their_limit_silent_sources_and_learning_have_sentences_of_their_own() -> None:
    learning = HostCounts(20, learning=20, learned_until="2026-11-30T08:00:00Z")
    assert line(jobs_late=2, sources=SILENT, hosts=learning)[1:] == [
        "warning: 2 jobs will probably hit the limit.",
        "warning: No data from telegraf.",
        "plain: 20 hosts are being learned, without alerts until 2026-11-30 08:00 UTC.",
    ]


def test_an_agent_that_catches_up_says_which_time_it_shows_and_not_that_data_are_fresh() -> None:
    behind = [Health(role="learner", ready=False, lag_s=25_200.0)]
    assert line(health=behind)[1:] == ["warning: The agent catches up: it is 2026-11-20 10:00 UTC here, 7 h behind."]
