"""The pages of alerts: the list, and one alert with its evidence and links."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final
from urllib.parse import quote

import msgspec

from processors.alerts.rules import ALERTS, HOST_ANOMALY, Unit
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import Attribute
from processors.contracts.names import ApplicationKey, host_link, job_key, measured, parse_rfc3339, resource_name
from processors.contracts.outputs import Alert
from processors.contracts.racks import HostRack
from processors.contracts.running import RunningJob
from processors.contracts.service import Service
from sinks.web.access import Reader
from sinks.web.formatting import Section, counted, duration, moment, power, rounded, section, share, sized
from sinks.web.queries import is_in_rack, link
from sinks.web.views.alert_states import ASIDE, Alerts, State
from sinks.web.views.hosts import FOREVER_MS, OF_STATE, ExplainedRows, explained_rows, job_of
from sinks.web.views.jobs import job_link, may_see, owners
from sinks.web.views.overview import application_labels_of

NEAR_MS: Final = 3_600_000
OTHERS_SHOWN: Final = 10
JOBS_SHOWN: Final = 12
USERS_SHOWN: Final = 12
REASONS_MAX: Final = 3
HOSTS_MAX: Final = 50_000
NO_FIGURE: Final = "The alert has no figure for its certainty. Judge by the evidence."


def how_sure(alert: Alert) -> str:
    """Return how certain an alert is, derived from its evidence."""
    return " ".join(list(_sure(alert))[:REASONS_MAX]) or NO_FIGURE


def _sure(alert: Alert) -> Iterator[str]:
    evidence, detail, name = alert.evidence, alert.evidence.detail, alert.labels.get("alertname", "")
    numbers = {key: float(value) for key, value in detail.items() if isinstance(value, int | float)}
    if (rule := ALERTS.get(name)) is not None and rule.sure:
        figures = {"observed": evidence.observed, "expected": evidence.expected, "n": evidence.n}
        texts = {figure: FORMATS[rule.unit](value) for figure, value in figures.items() if value is not None}
        with suppress(KeyError):  # evidence of an older agent may lack a figure
            yield rule.sure.format_map(texts)
    if numbers.get("jobs"):
        yield f"{counted(round(numbers['jobs']), 'job')} met the difference."
    if "conformal_p" in numbers:
        yield f"At most {share(numbers['conformal_p'])} of the newest runs deviated as much."
    if "deviations" in numbers:
        yield f"The value is {abs(numbers['deviations']):.0f} robust standard deviations away."
    if name == HOST_ANOMALY.name and len(detail) > 1:
        yield f"{len(detail)} resources left their usual ranges within minutes of each other."
    elif (outside := _outside(alert)) is not None:
        yield f"The value lies {share(outside)} outside its usual range."
    if "runs" in numbers:
        yield f"{counted(round(numbers['runs']), 'run')} {'shows' if numbers['runs'] == 1 else 'show'} the change."
    if "scored" in numbers:
        yield f"The model predicted {counted(round(numbers['scored']), 'run')} before it learned them."


def _outside(alert: Alert) -> float | None:
    """Return how far a value lies beyond the nearer end of its usual range, as a share of that end."""
    observed, low, high = alert.evidence.observed, alert.evidence.low, alert.evidence.high
    if observed is None or low is None or high is None or low <= observed <= high:
        return None
    end = high if observed > high else low
    return abs(observed - end) / abs(end) if end else None


class Link(msgspec.Struct, frozen=True):
    """A text and its link, which may be empty."""

    text: str
    href: str


class RelatedAlert(msgspec.Struct, frozen=True):
    """An alert that began at about the same time, and its common property with the shown alert, which may be empty."""

    alert: Alert
    common: str


def others(service: Service, alerts: Sequence[Alert], shown: Alert) -> list[RelatedAlert]:
    """Return the alerts that began within an hour of an alert, those of the same host, rack or application first."""
    shown_ms = _start_ms(shown)
    if shown_ms is None:
        return []
    ranked: dict[str, tuple[int, int, RelatedAlert]] = {}
    for alert in alerts:
        start_ms = _start_ms(alert)
        if alert.fingerprint == shown.fingerprint or start_ms is None or abs(start_ms - shown_ms) > NEAR_MS:
            continue
        rank, common = _common(service, alert.labels, shown.labels)
        ranked.setdefault(alert.fingerprint, (rank, abs(start_ms - shown_ms), RelatedAlert(alert, common)))
    return [related for _, _, related in sorted(ranked.values(), key=lambda entry: entry[:2])[:OTHERS_SHOWN]]


def _common(service: Service, labels: dict[str, str], shown: dict[str, str]) -> tuple[int, str]:
    """Return the rank of an alert and its common property with the shown alert."""
    if labels.get("system") != shown.get("system"):
        return 4, ""
    for rank, name in ((0, "host"), (1, "rack"), (2, "application")):
        if labels.get(name) and labels.get(name) == shown.get(name):
            return rank, f"same {name}"
    rack, shown_rack = _rack(service, labels), _rack(service, shown)
    if rack is not None and shown_rack is not None and rack.name == shown_rack.name:
        return 1, f"same rack{rack.known_by or shown_rack.known_by}"
    return 3, "same system"


def _rack(service: Service, labels: dict[str, str]) -> HostRack | None:
    """Return the rack that an alert is about, or the rack of its host, if known."""
    if "host" in labels:
        return service.rack(labels.get("system", ""), labels["host"])
    return HostRack(labels["rack"], listed=True) if "rack" in labels else None


def _start_ms(alert: Alert) -> int | None:
    with suppress(InvalidInputError):
        return parse_rfc3339(alert.starts)
    return None


class Affected(msgspec.Struct, frozen=True):
    """The running jobs that an alert affects, their number, and their users if the reader may know them."""

    jobs: Sequence[Link]
    jobs_count: int
    users: Sequence[str]


def hit(service: Service, alert: Alert, explained: ExplainedRows | None, reader: Reader) -> Affected:
    """Return whom an alert affects; the service shows a reader only their own jobs."""
    running = [] if alert.ends else list(_running(service, alert))
    users: list[str | None] = [job.user for job in running]
    users += [row.user for row in explained.rows] if explained is not None else []
    for run_id in alert.evidence.runs:
        users += [run.user for run in service.runs_of_job(*job_of(run_id)) if run.run_id == run_id]
    names = dict.fromkeys(user for user in users if user and reader.sees(user))
    jobs = [Link(f"{job.system}/{job.job_id}", job_link(job.system, job.job_id)) for job in running[:JOBS_SHOWN]]
    return Affected(jobs, len(running), list(names)[:USERS_SHOWN] if reader.operator else ())


def _running(service: Service, alert: Alert) -> Iterator[RunningJob]:
    """Yield the running jobs on the host or rack, or of the application, of an alert."""
    labels = alert.labels
    if "host" in labels:
        view = service.reading(labels.get("system", "")).host(labels["host"])
        on_host = job_of(view.job) if view is not None and view.job else None
        yield from (job for job in service.running() if (job.system, job.job_id) == on_host)
    elif "rack" in labels:
        uses = service.host_uses(HOSTS_MAX)
        in_rack = {use.job for use in uses if use.job and is_in_rack(service, use.system, use.host, labels)}
        yield from (job for job in service.running() if job_key(job.system, job.job_id) in in_rack)
    elif "application" in labels:
        key = application_labels_of(labels)
        yield from (job for job in service.running() if (job.application, job.system, job.input, job.unit) == key)


class _Label(msgspec.Struct, frozen=True):
    fingerprint: str
    time: str
    real: bool
    comment: str


def label_line(alert: Alert) -> str:
    """Return the line of a label file that marks an alert as false, at the time of its last change, when it was open."""
    return msgspec.json.encode(_Label(alert.fingerprint, alert.time, real=False, comment="")).decode()


Formatter = Callable[[float], str]
KINDS: Final = ("anomaly", "reliability")
RUNS_SHOWN: Final = 20
_SHOWN_ELSEWHERE: Final = frozenset(
    {"alertname", "severity", "application", "system", "host", "rack", "partition", "n", "unit"}
)
FORMATS: Final[dict[Unit, Formatter]] = {
    "seconds": duration,
    "share": share,
    "watts": lambda value: f"{power(value)} per host",
    "hosts": lambda value: f"{value:.0f}",
    "resource": lambda value: f"{value:.4g}",  # until the evidence names the resource
    "number": lambda value: f"{value:.4g}",
}
RUNS: Final = frozenset({"since_run"})  # details that name runs
JOB: Final = "job"
OF_JOBS: Final = frozenset({JOB, "jobs"})  # details that are not resources
_NAMED: Final = {
    "conformal_p": "share of recent runs that deviated at least as much",
    "factor": "run time factor",
    "since": "since",
    "runs": "runs since the change",
    "scatter": "scatter of run times before the change",
    "changed": "changes at that time",
    "before": "before",
    "after": "after",
    "reasons": "reasons",
    "counters": "counters",
    "scored": "scored predictions",
    "deviations": "robust standard deviations from usual",
    "counters_off": "deviating counters",
    "weight": "weight of the run in the models",
    "slower": "times slower than expected",
    "target": "compared quantity",
    "jobs": "affected jobs",
}  # fmt: skip


def evidence_rows(alert: Alert) -> list[tuple[str, str]]:
    """Return the evidence of an alert: names, and values with their units."""
    return [*_values(alert), *_details(alert)]


def _values(alert: Alert) -> Iterator[tuple[str, str]]:
    evidence, formatter = alert.evidence, _formatter(alert)
    if _unit(alert) == "hosts":
        if evidence.observed is not None and evidence.n is not None:
            yield "hosts with an anomaly", f"{evidence.observed:.0f} of {evidence.n:.0f}"
        return
    if _unit(alert) == "resource" and len(_resources(alert)) > 1:
        return  # these figures belong to one of its resources; the details list all resources by name
    if _unit(alert) == "watts" and evidence.observed is not None and not evidence.expected:  # of a host
        word = "more" if evidence.observed > 0 else "less"
        yield "compared with the power that counters explain", f"{power(abs(evidence.observed))} {word}"
        return
    if evidence.observed is not None:
        yield "observed", formatter(evidence.observed)
    if evidence.expected is not None:
        yield "expected", formatter(evidence.expected)
    if evidence.observed is not None and evidence.expected:
        yield "observed over expected", f"{evidence.observed / evidence.expected:.3g}"
    if evidence.low is not None and evidence.high is not None:
        yield "usual range", f"{formatter(evidence.low)} to {formatter(evidence.high)}"
    if evidence.n is not None:
        yield "size", sized(evidence.n, alert.labels.get("unit") or "nodes")
    if evidence.model is not None:
        yield "model", evidence.model


def _details(alert: Alert) -> Iterator[tuple[str, str]]:
    for name, value in alert.evidence.detail.items():
        if name not in RUNS and name != JOB and value != "" and (name, value) != ("jobs", 0):
            yield _NAMED.get(name) or _detail_name(alert, name), detail_text(name, value)


def _detail_name(alert: Alert, name: str) -> str:
    return resource_name(name) if _unit(alert) in {"resource", "hosts"} else name.replace("_", " ")


def detail_text(name: str, value: Attribute) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return share(value) if name in {"scatter", "conformal_p"} else f"{value:.4g}"
    return f"{moment(value)} UTC" if name == "since" else value


def _formatter(alert: Alert) -> Formatter:
    resource = next(iter(_resources(alert)), "")
    return (lambda value: measured(resource, value)) if _unit(alert) == "resource" else FORMATS[_unit(alert)]


def _unit(alert: Alert) -> Unit:
    rule = ALERTS.get(_name(alert))
    return rule.unit if rule is not None else "number"


def _resources(alert: Alert) -> list[str]:
    return [entry for entry in alert.evidence.detail if entry not in OF_JOBS]


def _name(alert: Alert) -> str:
    return alert.labels.get("alertname", "")


def summary_text(alert: Alert) -> str:
    """Return the summary of an alert, or its name if it has none."""
    return alert.annotations.get("summary") or f"{_name(alert) or alert.kind}: no summary."


class AlertRow(msgspec.Struct, frozen=True):
    """An alert in a list; `why` tells why nobody is notified, `common` what it shares with the shown alert; both may be empty."""

    alert: Alert
    name: str
    message: str
    href: str
    lasted: str
    state: State
    why: str
    common: str = ""

    @property
    def description(self) -> str:
        """The description; empty if the evidence lists the same resources."""
        listed = self.name == HOST_ANOMALY.name and bool(_resources(self.alert))
        return "" if listed else self.alert.annotations.get("description", "")

    @property
    def kind(self) -> str:
        """The style of its pill: coloured by severity only while the alert is open."""
        return self.alert.severity if self.state == "firing" else "plain"


class AlertView(msgspec.Struct, frozen=True, kw_only=True):
    """One alert: evidence, certainty, affected jobs, other alerts at that time, runbook, and the label that rejects it.

    `explained` are the slow runs that its host explains, None if it is not about a host.
    """

    row: AlertRow
    evidence: Sequence[tuple[str, str]]
    labels: Sequence[tuple[str, str]]
    about: Sequence[Link]
    runs: Sequence[Link]
    runs_hidden: int
    how_sure: str
    hit: Affected
    explained: ExplainedRows | None
    others: Sequence[AlertRow]
    label: str
    runbook: Section | None
    own_runbook: str


def alert_rows(alerts: Alerts, shown: Iterable[Alert], now_ms: int | None = None) -> list[AlertRow]:
    return [alert_row(alerts, alert, now_ms) for alert in shown]


def alert_row(alerts: Alerts, alert: Alert, now_ms: int | None = None, common: str = "") -> AlertRow:
    """Return an alert as lists show it; an open alert has lasted until `now_ms`, by default until its last report."""
    return AlertRow(
        alert,
        alert.labels.get("alertname", alert.kind),
        summary_text(alert),
        f"/alerts/{quote(alert.fingerprint)}",
        _lasted(alert, now_ms),
        alerts.state(alert),
        alerts.why(alert),
        common,
    )


def aside(alerts: Alerts, rows_max: int, now_ms: int | None = None) -> list[tuple[State, list[AlertRow]]]:
    """Return the silenced, withheld and pending alerts by state, without empty states."""
    by_state = ((state, alert_rows(alerts, alerts.among(state)[:rows_max], now_ms)) for state in ASIDE)
    return [(state, rows) for state, rows in by_state if rows]


def _lasted(alert: Alert, now_ms: int | None) -> str:
    try:
        until_ms = parse_rfc3339(alert.ends or alert.as_of)
        since_ms = parse_rfc3339(alert.starts)
    except InvalidInputError:
        return "-"
    if alert.ends is None and now_ms is not None:
        until_ms = max(until_ms, now_ms)
    return rounded(max(until_ms - since_ms, 0) / 1000)


def names(alerts: Sequence[Alert]) -> list[tuple[str, int]]:
    """Return the names of alerts with their counts, the most frequent first."""
    counts = Counter(alert.labels.get("alertname", alert.kind) for alert in alerts)
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def find(alerts: Alerts, fingerprint: str) -> Alert | None:
    """Return the alert with a fingerprint: the open one, else the one resolved last."""
    return next((alert for alert in alerts.in_order() if alert.fingerprint == fingerprint), None)


def alert_view(service: Service, alerts: Alerts, alert: Alert, reader: Reader, now_ms: int | None = None) -> AlertView:
    """Return the page of an alert, without runs that the reader may not see."""
    explained = _explained(service, alert)
    text = [*alert.evidence.runs, *_runs_in_detail(alert)]
    runs = [shown for run_id in dict.fromkeys(text) if (shown := _run(service, run_id, reader)) is not None]
    runbook = alert.annotations.get("runbook_url", "")
    return AlertView(
        row=alert_row(alerts, alert, now_ms),
        evidence=evidence_rows(alert),
        labels=sorted((name, value) for name, value in alert.labels.items() if value and name not in _SHOWN_ELSEWHERE),
        about=list(_about(service, alert)),
        runs=runs[:RUNS_SHOWN],
        runs_hidden=len(dict.fromkeys(text)) - len(runs[:RUNS_SHOWN]),
        how_sure=how_sure(alert),
        hit=hit(service, alert, explained, reader),
        explained=explained,
        others=[
            alert_row(alerts, related.alert, now_ms, related.common)
            for related in others(service, alerts.entries, alert)
        ],
        label=label_line(alert),
        runbook=section(alert.labels.get("alertname", "")),
        own_runbook=runbook if runbook.startswith(("https://", "http://")) else "",
    )


def _explained(service: Service, alert: Alert) -> ExplainedRows | None:
    """Return the slow runs on the host of an alert while the alert lasted."""
    if _name(alert) not in OF_STATE:
        return None
    try:
        since_ms = parse_rfc3339(alert.starts)
        until_ms = parse_rfc3339(alert.ends) if alert.ends else FOREVER_MS
    except InvalidInputError:
        return None
    return explained_rows(service, alert.labels.get("system", ""), alert.labels.get("host", ""), since_ms, until_ms)


def _runs_in_detail(alert: Alert) -> Iterator[str]:
    for name, value in alert.evidence.detail.items():
        if isinstance(value, str) and (name in RUNS or (name == JOB and value)):
            yield value


def _run(service: Service, run_id: str, reader: Reader) -> Link | None:
    system, job_id = job_of(run_id)
    users = owners(service, system, job_id)
    if not (may_see(reader, users) if users else reader.operator):
        return None
    return Link(f"{system}/{job_id}", job_link(system, job_id) if users else "")


def _about(service: Service, alert: Alert) -> Iterator[Link]:
    labels = alert.labels
    if "application" in labels:
        id_ = ApplicationKey(*(labels.get(name, "") for name in ("application", "system", "input", "unit"))).id
        text = " ".join(filter(None, (labels["application"], labels.get("input"), "on", labels.get("system"))))
        yield Link(text, f"/applications/{link(id_)}" if service.prediction(id_) is not None else "")
    if "host" in labels:
        system, host = labels.get("system", ""), labels["host"]
        has_page = service.reading(system).host(host) is not None
        yield Link(f"host {host} on {system}", f"/hosts/{host_link(system, host)}" if has_page else "")
    for place in ("rack", "partition"):
        if place in labels:
            yield Link(
                f"{place} {labels[place]} on {labels.get('system', '')}", f"/hosts?search={quote(labels[place])}"
            )
    if "system" in labels and not {"application", "host", "rack", "partition"} & set(labels):
        yield Link(f"system {labels['system']}", "")
