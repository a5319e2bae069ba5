"""Delivery of alerts: the decision to send or withhold an alert, and the message with texts and links."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Final, NamedTuple
from urllib.parse import quote

import msgspec

from processors.alerts.lifecycle import Condition, Transition
from processors.alerts.rules import ALERTS, DESCRIPTION_MAX, SUMMARY_MAX, shortened
from processors.contracts.alerts import EXCLUDED_HOSTS_MAX, AlertRule, AlertSettings, Exclusion, Maintenance
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import Evidence
from processors.contracts.names import LATEST_MS, ApplicationKey, host_link, rfc3339
from processors.contracts.nodes import expand, folded
from processors.contracts.outputs import Alert, AlertStatus
from processors.run_time.messages import Context
from processors.store import hexdigest

RUN_HOSTS_MAX: Final = 4_096  # exclusions by host ignore runs with more hosts
DRY_RUN: Final = "dry run"
SHORT: Final = "short run"
NEIGHBOURS_SHOWN: Final = 3
PLACE_MAX: Final = 64  # characters of the hosts of a run, and of the neighbours
OF_RUN: Final = ("partition", "user", "account", "qos", "reservation")
PATTERNS: Final = ("system", "application", *OF_RUN)


class About(NamedTuple):
    """Evidence and run time of the run that an alert is about, and the keys of jobs on its hosts; empty for other alerts."""

    evidence: Evidence = Evidence()
    run_time_s: float | None = None
    neighbours: Sequence[str] = ()

    @property
    def place(self) -> dict[str, str]:
        """The hosts of the run, and the jobs that shared these hosts, as texts; unknown ones are left out."""
        neighbours = ", ".join(f"job {job}" for job in self.neighbours[:NEIGHBOURS_SHOWN])
        texts = {"hosts": ",".join(folded(self.evidence.hosts)), "neighbours": neighbours}
        return {name: shortened(text, PLACE_MAX) for name, text in texts.items() if text}


NO_RUN: Final = About()
Matches = Callable[[Condition, About], bool]


class Policy:
    """The alert settings of an agent, prepared to decide whether an alert is sent or withheld."""

    def __init__(self, settings: AlertSettings) -> None:
        self._settings = settings
        exclusions: list[tuple[str, Exclusion | Maintenance]] = [
            (f"exclusion {number}", each) for number, each in enumerate(settings.exclusions, 1)
        ]
        filters = [*exclusions, *(("maintenance", window) for window in settings.maintenance)]
        self._filters = [
            (f"{reason} ({each.comment})" if each.comment else reason, _matches(each)) for reason, each in filters
        ]

    def rule(self, name: str) -> AlertRule:
        rule: AlertRule = getattr(self._settings, ALERTS[name].section)
        return rule

    def withheld_by(self, condition: Condition, about: About = NO_RUN) -> str:
        """Return the reason why an alert is withheld, "" if it is sent."""
        for reason, matches in self._filters:
            if matches(condition, about):
                return reason
        rule = self.rule(condition.name)
        if about.run_time_s is not None and about.run_time_s < rule.run_time_min_s:
            return SHORT
        return DRY_RUN if rule.dry_run else ""


def _matches(filters: Exclusion | Maintenance) -> Matches:
    """Return a function that tells whether an alert matches all keys set in `filters`, and for a Maintenance also the time."""
    alerts, start_ms, end_ms = frozenset[str](), 0, LATEST_MS
    if isinstance(filters, Maintenance):
        start_ms, end_ms = (round(time.timestamp() * 1000) for time in (filters.start, filters.end))
    else:
        alerts = frozenset(filters.alerts)
    patterns = {name: pattern for name in PATTERNS if (pattern := getattr(filters, name, None))}
    hosts = frozenset(expand(filters.hosts, EXCLUDED_HOSTS_MAX)) if filters.hosts else frozenset[str]()

    def matches(condition: Condition, about: About) -> bool:
        texts = {name: getattr(about.evidence, name) or "" for name in OF_RUN} | condition.labels
        return (
            (not alerts or condition.name in alerts)
            and start_ms <= condition.time_ms < end_ms
            and all(fnmatchcase(texts.get(name, ""), pattern) for name, pattern in patterns.items())
            and (not hosts or not hosts.isdisjoint(_hosts(condition, about)))
        )

    return matches


def _hosts(condition: Condition, about: About) -> tuple[str, ...]:
    if names := condition.labels.get("host") or condition.labels.get("hosts"):
        return tuple(names.split(","))
    with suppress(InvalidInputError):
        return expand(",".join(about.evidence.hosts), RUN_HOSTS_MAX) if about.evidence.hosts else ()
    return ()


class AlertLinks(msgspec.Struct, frozen=True):
    """The addresses of the agent's pages and of the site's own runbook; "" for a missing address."""

    external_url: str = ""
    runbook_url: str = ""

    def annotations(self, condition: Condition) -> dict[str, str]:
        """Return the annotations `runbook_url` and `dashboard_url` of an alert, each only if its address is known."""
        page = self.external_url.rstrip("/")
        runbook = self.runbook_url or (f"{page}/runbook" if page else "")
        links = {"runbook_url": f"{runbook}#{ALERTS[condition.name].anchor}"} if runbook else {}
        return links | ({"dashboard_url": page + _page_of(condition.labels)} if page else {})


def fingerprint(name: str, labels: Mapping[str, str]) -> str:
    """Return the identity of an alert, a digest of its name and labels."""
    return hexdigest(name, *(f"{label}={value}" for label, value in sorted(labels.items())))


def message(key: str, change: Transition, links: AlertLinks, context: Context) -> Alert:
    condition = change.condition
    status: AlertStatus = "pending" if condition.withheld_by else change.status
    return Alert(
        schema="scalewatch.alert/1",
        id=f"{key}:{status}@{change.time_ms}",
        time=context.time,
        as_of=context.time,
        agent_version=context.agent_version,
        fingerprint=key,
        status=status,
        withheld_by=condition.withheld_by,
        kind=condition.kind,
        severity=condition.severity,
        labels={"alertname": condition.name, "severity": condition.severity, **condition.labels},
        annotations={
            "summary": shortened(condition.summary, SUMMARY_MAX),
            "description": shortened(condition.description, DESCRIPTION_MAX),
            **links.annotations(condition),
        },
        starts=rfc3339(change.starts_ms),
        ends=rfc3339(change.time_ms) if change.status == "resolved" else None,
        evidence=condition.evidence,
    )


def _page_of(labels: dict[str, str]) -> str:
    """Return the path of the page of the alert's job, host or application, or else of the list of alerts."""
    if "job" in labels:
        return f"/jobs/{quote(labels['system'], safe='')}/{quote(labels['job'], safe='')}"
    if "host" in labels and "system" in labels:
        return f"/hosts/{host_link(labels['system'], labels['host'])}"
    if "application" in labels:
        key = ApplicationKey(*(labels.get(name, "") for name in ("application", "system", "input", "unit")))
        return f"/applications/{quote(key.id)}"
    return "/alerts"
