"""What the pages of alerts show, the list with its filters, and one alert with its evidence and links."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import quote, unquote

import msgspec

from processors.contracts.errors import InvalidInputError
from processors.contracts.events import Attribute
from processors.contracts.names import ApplicationKey, measured, parse_rfc3339
from processors.contracts.outputs import Alert
from processors.contracts.service import Service
from sinks.web.access import Reader
from sinks.web.formatting import counted, duration, moment, power, rounded, share, sized
from sinks.web.queries import link
from sinks.web.runbook import Section, section
from sinks.web.views.hosts import host_link
from sinks.web.views.jobs import job_link, may_see, owners
from sinks.web.views.overview import SEVERITIES

Formatter = Callable[[float], str]
OPEN: Final = "open"
STATUSES: Final = (OPEN, "firing", "pending", "resolved")
KINDS: Final = ("anomaly", "reliability")
RUNS_SHOWN: Final = 20
_SHOWN_ELSEWHERE: Final = frozenset({"alertname", "severity", "application", "system", "host", "rack", "partition"})
TIMES: Final = frozenset({"SlowSize", "FastSize", "StrangeRun", "Regression", "Improvement"})
RATES: Final = frozenset({"ApplicationFailureRate", "HostFailureRate"})
OF_HOSTS: Final = frozenset({"HostAnomaly", "StragglerHost"})
RACK: Final = "RackAnomaly"
POWER: Final = "UnexplainedPower"
RUNS: Final = frozenset({"since_run"})  # details that name runs
JOB: Final = "job"
_NAMED: Final = {
    "conformal_p": "share of recent runs at least as far off",
    "factor": "run time factor",
    "since": "since",
    "runs": "runs since then",
    "scatter": "scatter of run times before",
    "changed": "changed at that time",
    "before": "before",
    "after": "after",
    "reasons": "reasons",
    "counters": "counters",
    "scored": "runs predicted before they were learned",
    "deviations": "robust standard deviations off",
    "counters_off": "deviating counters",
    "weight": "weight of the run in the models",
    "slower": "times slower than expected",
    "target": "compared quantity",
}  # fmt: skip


def evidence_rows(alert: Alert) -> list[tuple[str, str]]:
    """Return what an alert rests on: a name and a value with its unit, for each thing that is known."""
    return [*_values(alert), *_details(alert)]


def _values(alert: Alert) -> Iterator[tuple[str, str]]:
    known, formatter = alert.evidence, _formatter(alert)
    if _name(alert) == RACK:
        if known.observed is not None and known.n is not None:
            yield "hosts with an anomaly", f"{known.observed:.0f} of {known.n:.0f}"
        return
    if known.observed is not None:
        yield "observed", formatter(known.observed)
    if known.expected is not None:
        yield "expected", formatter(known.expected)
    if known.observed is not None and known.expected:
        yield "observed over expected", f"{known.observed / known.expected:.3g}"
    if known.low is not None and known.high is not None:
        yield "usual range", f"{formatter(known.low)} to {formatter(known.high)}"
    if known.n is not None:
        yield "size", sized(known.n, alert.labels.get("unit") or "nodes")
    if known.model is not None:
        yield "model", known.model


def _details(alert: Alert) -> Iterator[tuple[str, str]]:
    for name, value in alert.evidence.detail.items():
        if name not in RUNS and name != JOB and value != "":
            yield _NAMED.get(name, name), detail_text(name, value)


def detail_text(name: str, value: Attribute) -> str:
    """Return a detail of the evidence as people write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return share(value) if name in {"scatter", "conformal_p"} else f"{value:.4g}"
    return f"{moment(value)} UTC" if name == "since" else value


def _formatter(alert: Alert) -> Formatter:
    name = _name(alert)
    if name in TIMES:
        return duration
    if name in RATES:
        return share
    if name == POWER:
        return lambda value: f"{power(value)} a host"
    if name in OF_HOSTS:
        resource = next((entry for entry in alert.evidence.detail if entry != JOB), "")
        return lambda value: measured(resource, value, 4)
    return lambda value: f"{value:.4g}"


def _name(alert: Alert) -> str:
    return alert.labels.get("alertname", "")


def summary_text(alert: Alert) -> str:
    """Return the sentence of an alert, or what it is where it has none."""
    return alert.annotations.get("summary") or f"{_name(alert) or alert.kind}: no summary."


class Link(msgspec.Struct, frozen=True):
    """A word and where it leads; empty where it leads nowhere."""

    text: str
    href: str


class AlertRow(msgspec.Struct, frozen=True):
    """An alert in the list."""

    alert: Alert
    name: str
    message: str
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
    """Return an alert as the list shows it; one that is open has lasted until `now_ms`, by default until its last report."""
    name = alert.labels.get("alertname", alert.kind)
    return AlertRow(alert, name, summary_text(alert), f"/alerts/{alert.fingerprint}", _lasted(alert, now_ms))


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
    """Return the alerts that pass: status (`open`: not resolved), kind, severity and name; empty filters let all pass."""
    return [alert for alert in alerts if all(_passes(alert, name, value) for name, value in filters.items() if value)]


def _passes(alert: Alert, name: str, value: str) -> bool:
    if name == "status" and value == OPEN:
        return alert.status != "resolved"
    if name == "name":
        return alert.labels.get("alertname") == value
    shown: str = getattr(alert, name)
    return shown == value


def in_order(alerts: Sequence[Alert]) -> list[Alert]:
    """Return alerts in the order of a list: firing, pending, resolved, and of each the worst first, then as given."""
    status = ("firing", "pending", "resolved")
    return sorted(alerts, key=lambda each: (status.index(each.status), SEVERITIES.index(each.severity)))


def names(alerts: Sequence[Alert]) -> list[tuple[str, int]]:
    """Return the names there are, the most frequent first."""
    found = Counter(alert.labels.get("alertname", alert.kind) for alert in alerts)
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))


def quiet_since(alerts: Sequence[Alert]) -> str:
    """Return since when no alert is open, in one sentence; empty while one is."""
    if any(alert.status != "resolved" for alert in alerts):
        return ""
    ended = [alert for alert in alerts if alert.ends]
    if not ended:
        return "No alert is open, and none ended recently."
    last = max(ended, key=lambda alert: alert.ends or "")
    name = last.labels.get("alertname", last.kind)
    return f"No open alerts since {moment(last.ends)} UTC, when the last one ended ({name})."


def find(alerts: Sequence[Alert], fingerprint: str) -> Alert | None:
    """Return the alert with a fingerprint: the open one, else the one that was resolved last."""
    return next((alert for alert in in_order(alerts) if alert.fingerprint == fingerprint), None)


def alert_view(service: Service, alert: Alert, reader: Reader, now_ms: int | None = None) -> AlertView:
    """Return what to show of one alert; runs of others are left out for those who may not see them."""
    text = [*alert.evidence.runs, *_runs_in_detail(alert)]
    runs = [shown for run_id in dict.fromkeys(text) if (shown := _run(service, run_id, reader)) is not None]
    runbook = alert.annotations.get("runbook_url", "")
    return AlertView(
        row=alert_row(alert, now_ms),
        description=alert.annotations.get("description", ""),
        evidence=evidence_rows(alert),
        labels=sorted((name, value) for name, value in alert.labels.items() if value and name not in _SHOWN_ELSEWHERE),
        about=list(_about(service, alert)),
        runs=runs[:RUNS_SHOWN],
        runs_hidden=len(dict.fromkeys(text)) - len(runs[:RUNS_SHOWN]),
        runbook=section(alert.labels.get("alertname", "")),
        own_runbook=runbook if runbook.startswith(("https://", "http://")) else "",
    )


def _runs_in_detail(alert: Alert) -> Iterator[str]:
    for name, value in alert.evidence.detail.items():
        if isinstance(value, str) and (name in RUNS or (name == JOB and value)):
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
    """Return how many alerts are open, by severity, in words."""
    is_open = [alert for alert in alerts if alert.status != "resolved"]
    if not is_open:
        return ""
    by_severity = Counter(alert.severity for alert in is_open)
    text = ", ".join(f"{by_severity[name]} {name}" for name in SEVERITIES if by_severity[name])
    verb = "is" if len(is_open) == 1 else "are"
    return f"{counted(len(is_open), 'alert')} {verb} open: {text}."
