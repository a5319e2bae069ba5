"""What the pages of alerts show, worked out from the service: filters, one alert with its links, and how long it is quiet."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import quote, unquote

import msgspec

from agent.contracts.errors import InvalidInputError
from agent.contracts.moments import parse_rfc3339
from agent.contracts.names import ApplicationKey
from agent.contracts.outputs import Alert
from agent.contracts.service import Service
from agent.http.access import Reader
from agent.http.evidence import JOB, RUNS, evidence_rows, sentence
from agent.http.hosts import host_link
from agent.http.job_view import job_link, may_see, owners
from agent.http.lookup import link
from agent.http.rounded import rounded
from agent.http.runbook import Section, section
from agent.words import counted, moment

OPEN: Final = "open"
STATUSES: Final = (OPEN, "firing", "pending", "resolved")
KINDS: Final = ("anomaly", "reliability")
SEVERITIES: Final = ("critical", "warning", "info")
RUNS_SHOWN: Final = 20
_SHOWN_ELSEWHERE: Final = frozenset({"alertname", "severity", "application", "system", "host", "rack", "partition"})


class Link(msgspec.Struct, frozen=True):
    """A word and where it leads; empty where it leads nowhere.

    >>> Link("lammps", "").href
    ''
    """

    text: str
    href: str


class AlertRow(msgspec.Struct, frozen=True):
    """An alert in the list."""

    alert: Alert
    name: str
    sentence: str
    href: str
    lasted: str


class AlertView(msgspec.Struct, frozen=True, kw_only=True):
    """One alert: its evidence in words, the labels, what it is about, runs that a reader may see, and the runbook."""

    row: AlertRow
    description: str
    evidence: Sequence[tuple[str, str]]
    labels: Sequence[tuple[str, str]]
    about: Sequence[Link]
    runs: Sequence[Link]
    runs_hidden: int
    runbook: Section | None
    own_runbook: str


def alert_row(alert: Alert, now_ms: int | None = None) -> AlertRow:
    """Return an alert as the list shows it; one that is open has lasted until `now_ms`, by default as long as it told.

    >>> from types import SimpleNamespace
    >>> alert = SimpleNamespace(fingerprint="f1", kind="anomaly", labels={"alertname": "SlowSize"}, annotations={},
    ...                         starts="2026-11-20T09:00:00Z", ends="2026-11-20T09:30:00Z")
    >>> alert_row(alert).href, alert_row(alert).lasted
    ('/alerts/f1', '30 min')
    """
    name = alert.labels.get("alertname", alert.kind)
    return AlertRow(alert, name, sentence(alert), f"/alerts/{alert.fingerprint}", _lasted(alert, now_ms))


def _lasted(alert: Alert, now_ms: int | None) -> str:
    try:
        until_ms = parse_rfc3339(alert.ends or alert.as_of)
        since_ms = parse_rfc3339(alert.starts)
    except InvalidInputError:
        return "-"
    if alert.ends is None and now_ms is not None:
        until_ms = max(until_ms, now_ms)
    return rounded(max(until_ms - since_ms, 0) / 1000)


def wanted(alerts: Sequence[Alert], filters: Mapping[str, str]) -> list[Alert]:
    """Return the alerts that pass: status (`open`: not resolved), kind, severity and name; empty filters let all pass.

    >>> from types import SimpleNamespace
    >>> known = [SimpleNamespace(status="firing"), SimpleNamespace(status="resolved")]
    >>> [entry.status for entry in wanted(known, {"status": "open", "kind": ""})]
    ['firing']
    """
    return [alert for alert in alerts if all(_passes(alert, name, value) for name, value in filters.items() if value)]


def _passes(alert: Alert, name: str, value: str) -> bool:
    if name == "status" and value == OPEN:
        return alert.status != "resolved"
    if name == "name":
        return alert.labels.get("alertname") == value
    told: str = getattr(alert, name)
    return told == value


def in_order(alerts: Sequence[Alert]) -> list[Alert]:
    """Return alerts in the order of a list: firing, pending, resolved, and of each the worst first, then as given.

    >>> from types import SimpleNamespace
    >>> known = [SimpleNamespace(status=status, severity="info") for status in ("resolved", "firing")]
    >>> [entry.status for entry in in_order(known)]
    ['firing', 'resolved']
    """
    status = ("firing", "pending", "resolved")
    return sorted(alerts, key=lambda each: (status.index(each.status), SEVERITIES.index(each.severity)))


def names(alerts: Sequence[Alert]) -> list[tuple[str, int]]:
    """Return the names there are, the most frequent first.

    >>> from types import SimpleNamespace
    >>> names([SimpleNamespace(labels={"alertname": "SlowSize"}, kind="anomaly")] * 2)
    [('SlowSize', 2)]
    """
    found = Counter(alert.labels.get("alertname", alert.kind) for alert in alerts)
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))


def quiet_since(alerts: Sequence[Alert]) -> str:
    """Return since when no alert is open, in one sentence; empty while one is.

    >>> quiet_since([])
    'No alert is open, and none has ended of late.'
    """
    if any(alert.status != "resolved" for alert in alerts):
        return ""
    ended = [alert for alert in alerts if alert.ends]
    if not ended:
        return "No alert is open, and none has ended of late."
    last = max(ended, key=lambda alert: alert.ends or "")
    name = last.labels.get("alertname", last.kind)
    return f"No alert is open since {moment(last.ends)} UTC, when the last one ended ({name})."


def find(alerts: Sequence[Alert], fingerprint: str) -> Alert | None:
    """Return the alert with a fingerprint: the open one, else the one that was resolved last.

    >>> find([], "f1") is None
    True
    """
    return next((alert for alert in in_order(alerts) if alert.fingerprint == fingerprint), None)


def alert_view(service: Service, alert: Alert, reader: Reader, now_ms: int | None = None) -> AlertView:
    """Return what to show of one alert; runs of others are left out for those who may not see them.

    >>> from types import SimpleNamespace
    >>> from agent.contracts.outputs import AlertEvidence
    >>> alert = SimpleNamespace(fingerprint="f1", kind="anomaly", labels={"alertname": "SlowSize"}, annotations={},
    ...                         starts="", ends="", as_of="", evidence=AlertEvidence(observed=90.0))
    >>> view = alert_view(None, alert, Reader(operator=True))
    >>> view.evidence, view.runbook.anchor
    ([('observed', '1 min 30 s')], 'slowsize')
    """
    told = [*alert.evidence.runs, *_runs_in_detail(alert)]
    runs = [shown for run_id in dict.fromkeys(told) if (shown := _run(service, run_id, reader)) is not None]
    runbook = alert.annotations.get("runbook", "")
    return AlertView(
        row=alert_row(alert, now_ms),
        description=alert.annotations.get("description", ""),
        evidence=evidence_rows(alert),
        labels=sorted((name, value) for name, value in alert.labels.items() if value and name not in _SHOWN_ELSEWHERE),
        about=list(_about(service, alert)),
        runs=runs[:RUNS_SHOWN],
        runs_hidden=len(dict.fromkeys(told)) - len(runs[:RUNS_SHOWN]),
        runbook=section(alert.labels.get("alertname", "")),
        own_runbook=runbook if runbook.startswith(("https://", "http://")) else "",
    )


def _runs_in_detail(alert: Alert) -> Iterator[str]:
    for name, value in alert.evidence.detail.items():
        if name in RUNS and isinstance(value, str):
            yield value
        if name == JOB and isinstance(value, str) and value:
            yield value


def _run(service: Service, run_id: str, reader: Reader) -> Link | None:
    system, _, rest = run_id.partition("/")
    job_id = unquote(rest.partition("@")[0])
    users = owners(service, unquote(system), job_id)
    if not (may_see(reader, users) if users else reader.operator):
        return None
    return Link(run_id, job_link(unquote(system), job_id) if users else "")


def _about(service: Service, alert: Alert) -> Iterator[Link]:
    labels = alert.labels
    if "application" in labels:
        id_ = ApplicationKey(*(labels.get(name, "") for name in ("application", "system", "input", "unit"))).id
        text = " ".join(filter(None, (labels["application"], labels.get("input"), "on", labels.get("system"))))
        yield Link(text, f"/applications/{link(id_)}" if service.prediction(id_) is not None else "")
    if "host" in labels:
        system, host = labels.get("system", ""), labels["host"]
        known = service.host(system, host) is not None
        yield Link(f"host {host} on {system}", f"/hosts/{host_link(system, host)}" if known else "")
    for place in ("rack", "partition"):
        if place in labels:
            yield Link(
                f"{place} {labels[place]} on {labels.get('system', '')}", f"/hosts?search={quote(labels[place])}"
            )
    if "system" in labels and not {"application", "host", "rack", "partition"} & set(labels):
        yield Link(f"system {labels['system']}", "")


def summary(alerts: Sequence[Alert]) -> str:
    """Return how many alerts are open, by severity, in words.

    >>> from types import SimpleNamespace
    >>> summary([SimpleNamespace(status="firing", severity=severity) for severity in ("warning", "critical")])
    '2 alerts are open: 1 critical, 1 warning.'
    """
    is_open = [alert for alert in alerts if alert.status != "resolved"]
    if not is_open:
        return ""
    by_severity = Counter(alert.severity for alert in is_open)
    said = ", ".join(f"{by_severity[name]} {name}" for name in SEVERITIES if by_severity[name])
    verb = "is" if len(is_open) == 1 else "are"
    return f"{counted(len(is_open), 'alert')} {verb} open: {said}."
