"""Alerts as messages: labels that identify them, texts for people, and links in the words of Alertmanager."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

import msgspec

from processors.alerts.lifecycle import Condition, Transition
from processors.contracts.names import ApplicationKey, host_link, rfc3339
from processors.contracts.outputs import Alert, AlertStatus
from processors.run_time.messages import Context
from processors.store import hexdigest

TEXT_MAX: Final = 200  # characters of a summary or a description: what a phone shows at night


class Links(msgspec.Struct, frozen=True):
    """Where people read more: how they reach the agent's page, and the runbook of the site; "" where there is none."""

    external_url: str = ""
    runbook_url: str = ""

    def annotations(self, condition: Condition) -> dict[str, str]:
        """Return `runbook_url` and `dashboard_url` of an alert, where they are known."""
        page = self.external_url.rstrip("/")
        runbook = self.runbook_url or (f"{page}/runbook" if page else "")
        found = {"runbook_url": f"{runbook}#{condition.name.lower()}"} if runbook else {}
        return found | ({"dashboard_url": page + _place(condition.labels)} if page else {})


def fingerprint(name: str, labels: Mapping[str, str]) -> str:
    """Return what identifies an alert: its name and labels."""
    return hexdigest(name, *(f"{label}={value}" for label, value in sorted(labels.items())))


def message(key: str, change: Transition, links: Links, context: Context) -> Alert:
    """Return the message of a change of status."""
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
            "summary": shortened(condition.summary),
            "description": shortened(condition.description),
            **links.annotations(condition),
        },
        starts=rfc3339(change.starts_ms),
        ends=rfc3339(change.time_ms) if change.status == "resolved" else None,
        evidence=condition.evidence,
    )


def shortened(text: str, characters_max: int = TEXT_MAX) -> str:
    """Return a text of so many characters at most, cut after a word."""
    if len(text) <= characters_max:
        return text
    head = text[: characters_max - 1]
    return f"{head[: head.rfind(' ') + 1] or head}\N{HORIZONTAL ELLIPSIS}"


def _place(labels: dict[str, str]) -> str:
    """Return the page of what an alert is about: its host or application, else the list of alerts."""
    if "host" in labels and "system" in labels:
        return f"/hosts/{host_link(labels['system'], labels['host'])}"
    if "application" in labels:
        key = ApplicationKey(*(labels.get(name, "") for name in ("application", "system", "input", "unit")))
        return f"/applications/{quote(key.id)}"
    return "/alerts"
