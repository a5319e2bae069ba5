"""The pages of alerts: the list, and one alert with its evidence and links."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final
from urllib.parse import quote

import msgspec

from processors.alerts.rules import ALERTS, HOST_ANOMALY, Unit
from processors.contracts.events import Attribute
from processors.contracts.names import ApplicationKey, job_key, measured, resource_name
from processors.contracts.nodes import HostRack
from processors.contracts.outputs import Alert
from processors.contracts.service import RunningJob, Service
from sinks.web.access import Reader
from sinks.web.formatting import View, counted, duration, linked, moment, power, rounded, section, share, sized
from sinks.web.queries import alert_link, application_page, host_page, is_in_rack, job_link, job_of, ms_of
from sinks.web.views.alert_states import ASIDE, AlertLabel, Alerts, State
from sinks.web.views.hosts import FOREVER_MS, OF_STATE, explained_rows
from sinks.web.views.jobs import may_see, owners
from sinks.web.views.overview import application_labels_of

NEAR_MS: Final = 3_600_000
RELATED_SHOWN: Final = 10
JOBS_SHOWN: Final = 12
USERS_SHOWN: Final = 12
RUNS_SHOWN: Final = 20
REASONS_MAX: Final = 3
HOSTS_MAX: Final = 50_000
NO_FIGURE: Final = "The alert has no figure for its certainty. Judge by the evidence."
Formatter = Callable[[float], str]
KINDS: Final = ("anomaly", "reliability")
_SHOWN_ELSEWHERE: Final = frozenset(
    {"alertname", "severity", "application", "system", "host", "rack", "partition", "n", "unit", "job"}
)
FORMATS: Final[dict[Unit, Formatter]] = {
    "seconds": duration,
    "share": share,
    "watts": lambda value: f"{power(value)} per host",
    "hosts": lambda value: f"{value:.0f}",
    "resource": lambda value: f"{value:.4g}",  # used if the evidence names no resource
    "number": lambda value: f"{value:.4g}",
}
OF_RUNS: Final = frozenset({"since_run", "job"})  # details of an alert that name a run or a job
NOT_RESOURCES: Final = frozenset({"job", "jobs"})
_NAMED: Final = {
    "conformal_p": "share of recent runs that deviated at least as much",
    "factor": "run time factor",
    "runs": "runs since the change",
    "scatter": "scatter of run times before the change",
    "changed": "changes at that time",
    "scored": "scored predictions",
    "deviations": "robust standard deviations from usual",
    "counters_off": "deviating counters",
    "weight": "weight of the run in the models",
    "slower": "times slower than expected",
    "target": "compared quantity",
    "jobs": "affected jobs",
}  # fmt: skip


def how_sure(alert: Alert) -> str:
    return " ".join(list(_sure(alert))[:REASONS_MAX]) or NO_FIGURE


def _sure(alert: Alert) -> Iterator[str]:
    evidence, detail = alert.evidence, alert.evidence.detail
    numbers = {key: float(value) for key, value in detail.items() if isinstance(value, int | float)}
    if (rule := ALERTS.get(alert.name)) is not None and rule.sure:
        figures = {"observed": evidence.observed, "expected": evidence.expected, "n": evidence.n}
        texts = {figure: FORMATS[rule.unit](value) for figure, value in figures.items() if value is not None}
        with suppress(KeyError):  # evidence from an older agent may lack a figure
            yield rule.sure.format_map(texts)
    if numbers.get("jobs"):
        yield f"{counted(round(numbers['jobs']), 'job')} met the difference."
    if "conformal_p" in numbers:
        yield f"At most {share(numbers['conformal_p'])} of the newest runs deviated as much."
    if "deviations" in numbers:
        yield f"The value is {abs(numbers['deviations']):.0f} times as far from the usual value as normal scatter."
    if alert.name == HOST_ANOMALY.name and len(detail) > 1:
        yield f"{len(detail)} resources left their usual ranges within minutes of each other."
    elif (outside := _outside(alert)) is not None:
        yield f"The value lies {share(outside)} outside its usual range."
    if "runs" in numbers:
        yield f"{counted(round(numbers['runs']), 'run')} {'shows' if numbers['runs'] == 1 else 'show'} the change."
    if "scored" in numbers:
        yield f"The model predicted {counted(round(numbers['scored']), 'run')} before it learned them."


def _outside(alert: Alert) -> float | None:
    """Return how far a value lies outside its usual range, as a share of the nearer end of the range; None if it is inside."""
    observed, low, high = alert.evidence.observed, alert.evidence.low, alert.evidence.high
    if observed is None or low is None or high is None or low <= observed <= high:
        return None
    end = high if observed > high else low
    return abs(observed - end) / abs(end) if end else None


def related(service: Service, alerts: Alerts, shown: Alert) -> list[tuple[Alert, str]]:
    """Return the alerts that began within an hour of the alert `shown`, each with the property common to both alerts.

    Alerts of the same host come first, then alerts of the same rack and of the same application.
    """
    shown_ms = ms_of(shown.starts)
    ranked: dict[str, tuple[int, int, Alert, str]] = {}
    for alert in alerts.entries:
        start_ms = ms_of(alert.starts)
        if alert.fingerprint == shown.fingerprint or start_ms is None or shown_ms is None:
            continue
        apart_ms = abs(start_ms - shown_ms)
        if apart_ms <= NEAR_MS:
            rank, common = _common(service, alert.labels, shown.labels)
            ranked.setdefault(alert.fingerprint, (rank, apart_ms, alert, common))
    nearest = sorted(ranked.values(), key=lambda entry: entry[:2])[:RELATED_SHOWN]
    return [(alert, common) for _, _, alert, common in nearest]


def _common(service: Service, labels: dict[str, str], shown: dict[str, str]) -> tuple[int, str]:
    """Return the closest property that an alert shares with the alert `shown`, and its rank: 0 for the same host, 4 for none."""
    if labels.get("system") != shown.get("system"):
        return 4, ""
    for rank, name in enumerate(("host", "rack", "application")):
        if labels.get(name) and labels.get(name) == shown.get(name):
            return rank, f"same {name}"
    rack, shown_rack = _rack(service, labels), _rack(service, shown)
    if rack is not None and shown_rack is not None and rack.name == shown_rack.name:
        return 1, f"same rack{rack.known_by or shown_rack.known_by}"
    return 3, "same system"


def _rack(service: Service, labels: dict[str, str]) -> HostRack | None:
    """Return the rack that an alert is about, else the rack of its host; None if unknown."""
    if "host" in labels:
        return service.rack(labels.get("system", ""), labels["host"])
    return HostRack(labels["rack"], listed=True) if "rack" in labels else None


def affected_users(service: Service, alert: Alert, running: Sequence[RunningJob], explained: View | None) -> list[str]:
    users = [job.user for job in running]
    users += [settled.user for _, settled in explained["rows"] if settled is not None] if explained is not None else []
    for run_id in alert.evidence.runs:
        users += [run.user for run in service.runs_of_job(*job_of(run_id)) if run.run_id == run_id]
    return list(filter(None, dict.fromkeys(users)))[:USERS_SHOWN]


def _running(service: Service, alert: Alert) -> list[RunningJob]:
    labels, running = alert.labels, service.running()
    system, keys = labels.get("system", ""), set[str | None]()
    if "job" in labels:
        keys = {job_key(system, labels["job"])}
    elif "host" in labels:
        view = service.reading(system).host(labels["host"])
        keys = {view.job} if view is not None else keys
    elif "rack" in labels:
        uses = service.host_uses(HOSTS_MAX)
        keys = {use.job for use in uses if use.job and is_in_rack(service, use.system, use.host, labels)}
    elif "application" in labels:
        key = application_labels_of(labels)
        return [job for job in running if (job.application, job.system, job.input, job.unit) == key]
    return [job for job in running if job_key(job.system, job.job_id) in keys]


def label_line(alert: Alert) -> str:
    """Return the line that marks an alert as a false alarm in a label file.

    The line has the time of the last change, because a label counts only if the alert was open at the label's time.
    """
    return msgspec.json.encode(AlertLabel(alert.fingerprint, alert.time, real=False)).decode()


def evidence_rows(alert: Alert) -> list[tuple[str, str]]:
    return [*_values(alert), *_details(alert)]


def _values(alert: Alert) -> Iterator[tuple[str, str]]:
    evidence, unit, resources = alert.evidence, _unit(alert), _resources(alert)
    if unit == "hosts":
        if evidence.observed is not None and evidence.n is not None:
            yield "hosts with an anomaly", f"{evidence.observed:.0f} of {evidence.n:.0f}"
        return
    if unit == "resource" and len(resources) > 1:
        return  # these figures are about one of several resources; the details list all resources by name
    if unit == "watts" and evidence.observed is not None and not evidence.expected:  # power of a host
        word = "more" if evidence.observed > 0 else "less"
        yield "compared with the power that counters explain", f"{power(abs(evidence.observed))} {word}"
        return

    def formatted(value: float) -> str:
        return measured(next(iter(resources), ""), value) if unit == "resource" else FORMATS[unit](value)

    if evidence.observed is not None:
        yield "observed", formatted(evidence.observed)
    if evidence.expected is not None:
        yield "expected", formatted(evidence.expected)
    if evidence.observed is not None and evidence.expected:
        yield "observed over expected", f"{evidence.observed / evidence.expected:.3g}"
    if evidence.low is not None and evidence.high is not None:
        yield "usual range", f"{formatted(evidence.low)} to {formatted(evidence.high)}"
    if evidence.n is not None:
        yield "size", sized(evidence.n, alert.labels.get("unit") or "nodes")
    if evidence.model is not None:
        yield "model", evidence.model


def _details(alert: Alert) -> Iterator[tuple[str, str]]:
    by_resource = _unit(alert) in {"resource", "hosts"}
    for name, value in alert.evidence.detail.items():
        if name not in OF_RUNS and value != "" and (name, value) != ("jobs", 0):
            plain = resource_name(name) if by_resource else name.replace("_", " ")
            yield _NAMED.get(name, plain), detail_text(name, value)


def detail_text(name: str, value: Attribute) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return share(value) if name in {"scatter", "conformal_p"} else f"{value:.4g}"
    return f"{moment(value)} UTC" if name == "since" else value


def _unit(alert: Alert) -> Unit:
    rule = ALERTS.get(alert.name)
    return rule.unit if rule is not None else "number"


def _resources(alert: Alert) -> list[str]:
    return [name for name in alert.evidence.detail if name not in NOT_RESOURCES]


def alert_rows(alerts: Alerts, shown: Iterable[Alert], now_ms: int | None = None) -> list[View]:
    return [alert_row(alerts, alert, now_ms) for alert in shown]


def alert_row(alerts: Alerts, alert: Alert, now_ms: int | None = None, common: str = "") -> View:
    """Return an alert as a list row. An open alert lasts until `now_ms`, or until its last report if `now_ms` is None.

    `why` is the reason why nobody is notified, `common` the property shared with the alert of the page. `kind` is the style of
    the status label, which shows the severity only while the alert is firing. The description is empty if the evidence lists
    the same resources.
    """
    state, is_listed = alerts.state(alert), alert.name == HOST_ANOMALY.name and bool(_resources(alert))
    return View(
        alert=alert,
        message=alert.annotations.get("summary") or f"{alert.name}: no summary.",
        description="" if is_listed else alert.annotations.get("description", ""),
        href=alert_link(alert),
        lasted=_lasted(alert, now_ms),
        state=state,
        kind=alert.severity if state == "firing" else "plain",
        why=alerts.why(alert),
        common=common,
    )


def aside(alerts: Alerts, rows_max: int, now_ms: int | None = None) -> list[tuple[State, list[View]]]:
    """Return the silenced, withheld and pending alerts by state; states without alerts are omitted."""
    by_state = ((state, alert_rows(alerts, alerts.among(state)[:rows_max], now_ms)) for state in ASIDE)
    return [(state, rows) for state, rows in by_state if rows]


def _lasted(alert: Alert, now_ms: int | None) -> str:
    since_ms, until_ms = ms_of(alert.starts), ms_of(alert.ends or alert.as_of)
    if since_ms is None or until_ms is None:
        return "-"
    if alert.ends is None and now_ms is not None:
        until_ms = max(until_ms, now_ms)
    return rounded(max(until_ms - since_ms, 0) / 1000)


def names(alerts: Sequence[Alert]) -> list[str]:
    """Return the names of alerts, most frequent first."""
    counts = Counter(alert.name for alert in alerts)
    return sorted(counts, key=lambda name: (-counts[name], name))


def find(alerts: Alerts, fingerprint: str) -> Alert | None:
    """Return the open alert with a fingerprint, else the one resolved last; None without a match."""
    return next((alert for alert in alerts.in_order() if alert.fingerprint == fingerprint), None)


def alert_view(service: Service, alerts: Alerts, alert: Alert, reader: Reader, now_ms: int | None = None) -> View:
    """Return the data of an alert's page, with the line for a label file that marks the alert as a false alarm.

    `explained` holds the slow runs that the host of the alert explains; None if the alert is not about a host.
    """
    explained = _explained(service, alert)
    in_detail = [value for name, value in alert.evidence.detail.items() if name in OF_RUNS and isinstance(value, str)]
    run_ids = list(filter(None, dict.fromkeys([*alert.evidence.runs, *in_detail])))
    runs = [run for run_id in run_ids if (run := _run(service, run_id, reader)) is not None][:RUNS_SHOWN]
    running = [] if alert.ends else _running(service, alert)
    runbook = alert.annotations.get("runbook_url", "")
    return View(
        row=alert_row(alerts, alert, now_ms),
        evidence=evidence_rows(alert),
        labels=sorted((name, value) for name, value in alert.labels.items() if value and name not in _SHOWN_ELSEWHERE),
        about=list(_about(service, alert)),
        runs=runs,
        runs_hidden=len(run_ids) - len(runs),
        how_sure=how_sure(alert),
        jobs=[linked(f"{job.system}/{job.job_id}", job_link(job.system, job.job_id)) for job in running[:JOBS_SHOWN]],
        jobs_more=max(len(running) - JOBS_SHOWN, 0),
        users=affected_users(service, alert, running, explained) if reader.operator else (),
        explained=explained,
        related=[alert_row(alerts, other, now_ms, common) for other, common in related(service, alerts, alert)],
        label=label_line(alert),
        runbook=section(alert.name),
        own_runbook=runbook if runbook.startswith(("https://", "http://")) else "",
    )


def _explained(service: Service, alert: Alert) -> View | None:
    """Return the slow runs on the host of an alert while the alert was open; None if the alert is not about a host."""
    since_ms, until_ms = ms_of(alert.starts), ms_of(alert.ends) if alert.ends else FOREVER_MS
    if alert.name not in OF_STATE or since_ms is None or until_ms is None:
        return None
    return explained_rows(service, alert.labels.get("system", ""), alert.labels.get("host", ""), since_ms, until_ms)


def _run(service: Service, run_id: str, reader: Reader) -> str | None:
    """Return the link to a run; None if the reader may not see the run."""
    system, job_id = job_of(run_id)
    users = owners(service, system, job_id)
    if not (may_see(reader, users) if users else reader.operator):
        return None
    return linked(f"{system}/{job_id}", job_link(system, job_id) if users else "")


def _about(service: Service, alert: Alert) -> Iterator[str]:
    labels = alert.labels
    system = labels.get("system", "")
    if "job" in labels:
        yield linked(f"job {labels['job']} on {system}", job_link(system, labels["job"]))
    elif "application" in labels:
        id_ = ApplicationKey(labels["application"], system, labels.get("input", ""), labels.get("unit", "")).id
        text = " ".join(filter(None, (labels["application"], labels.get("input"), "on", labels.get("system"))))
        yield linked(text, application_page(service, id_))
    if "host" in labels:
        has_page = service.reading(system).host(labels["host"]) is not None
        yield linked(f"host {labels['host']} on {system}", host_page(system, labels["host"]) if has_page else "")
    for place in ("rack", "partition"):
        if place in labels:
            yield linked(f"{place} {labels[place]} on {system}", f"/hosts?search={quote(labels[place])}")
    if "system" in labels and not {"application", "host", "rack", "partition", "job"} & set(labels):
        yield f"system {system}"
