"""The pages of hosts: one host with its resources, and the host list, which begins with hosts that need attention."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final
from urllib.parse import unquote

from markupsafe import Markup

from processors.contracts.hosts import (
    HostFinding,
    HostView,
    ResourceForecast,
    ResourceView,
    quantile,
)
from processors.contracts.names import (
    grouped,
    measured,
    measured_apart,
    parse_rfc3339,
    resource_name,
    resource_title,
)
from processors.contracts.outputs import Alert
from processors.contracts.service import Service
from processors.contracts.telemetry import is_cumulative
from sinks.web.charts import band_points, band_sparkline, bars, histogram_chart, sparkline, steps
from sinks.web.formatting import View, clock, counted, moment
from sinks.web.queries import job_of
from sinks.web.views.alert_states import QUIETED, Alerts

Key = tuple[str, str]  # system and host name
NAMES_MAX: Final = 50_000
PAGE: Final = 40
CHIP: Final = (120, 28)  # width and height of a small histogram in pixels
TREND: Final = (400, 36)  # width and height of a small line chart in pixels
TREND_POINTS: Final = 72  # points of a small line chart; more points would make a page of hosts too large
TREND_HOURS_MIN: Final = 1.0
HOSTS_READ_MAX: Final = 2_000  # maximum hosts read in one call; the models wait during the call
RESOURCES_SHOWN: Final = {"attention": 8, "calm": 4}
AT_WORK: Final = frozenset({"", "up"})
OF_STATE: Final = frozenset({"HostAnomaly", "PeerDifference"})  # alerts that last as long as the host is abnormal
ODD_NAMED: Final = 3
NO_ALERTS: Final = Alerts(())
IMPORTANT: Final = ("cpu_available", "load1", "memory_free", "memory_available", "power_w", "cpu_current", "bandwidth")


def find_host(service: Service, raw_path: str) -> HostView | None:
    """Return the host named by the raw end of a URL; None if the host is unknown."""
    system, _, host = map(unquote, raw_path.partition("/"))
    return service.reading(system).host(host)


def matching_hosts(service: Service, system: str | None, host: str | None) -> tuple[Sequence[HostView], bool]:
    """Return the hosts with these names (None for any) among the first HOSTS_READ_MAX, and whether there may be more."""
    if system is not None and host is not None:
        view = service.reading(system).host(host)
        return ([] if view is None else [view]), False
    views = service.hosts(HOSTS_READ_MAX + 1)
    matching = [view for view in views[:HOSTS_READ_MAX] if system in (None, view.system) and host in (None, view.host)]
    return matching, len(views) > HOSTS_READ_MAX


def is_of_host(view: HostView, alert: Alert) -> bool:
    return (alert.labels.get("system"), alert.labels.get("host")) == (view.system, view.host)


def resource_row(view: HostView, entry: ResourceView) -> View:
    """Return a resource of a host as a row: mean, range and forecast as text, and a histogram of the window."""
    window, predicted = entry.window, entry.forecast
    formatter, label = partial(measured, entry.resource), measured_apart(entry.resource, window.edges)
    low, high = quantile(window, 0.05), quantile(window, 0.95)
    title = resource_title(entry.resource)
    histogram = bars(window.edges, window.shares, label)
    markers = [(window.mean, f"mean of the last minute {formatter(window.mean)}")]
    forecast = "-" if predicted is None else formatter(predicted.value)
    if predicted is not None:
        markers.append((predicted.value, f"forecast {forecast}"))
        forecast += _uncertainty(predicted, formatter)
    return View(
        view=entry,
        mean=formatter(window.mean),
        spread=_range(formatter(low), formatter(high)),
        forecast=forecast,
        bars=histogram,
        markers=markers,
        chart=histogram_chart(f"{title} of {view.host}", histogram, label, ratio=0.36, across=title),
    )


def _range(low: str, high: str) -> str:
    """Return a range as text with one unit, or one value if both ends have the same text."""
    (number, _, unit), (_, _, high_unit) = low.partition(" "), high.partition(" ")
    if low == high:
        return low
    return f"{number if unit == high_unit else low} to {high}"


def _uncertainty(forecast: ResourceForecast, formatter: Callable[[float], str]) -> str:
    """Return the 90 % range of a forecast, or its standard error as long as the range is unknown."""
    if forecast.q05 is not None and forecast.q95 is not None:
        return f" ({_range(formatter(forecast.q05), formatter(forecast.q95))})"
    return f" ± {formatter(forecast.error)}" if forecast.error is not None else ""


def host_part(service: Service, search: str, page: int) -> View:
    """Return a page, from 1 on, of the hosts that match a search: by name, or if no name matches by rack, or else by state or job.

    `known` counts all hosts, `found` the hosts that match the search.
    """
    of_hosts = Alerts.of(service).about(lambda alert: "host" in alert.labels)
    first = {_key(alert) for alert in of_hosts.open}
    names = sorted(service.host_names(NAMES_MAX), key=lambda key: key not in first)
    matching = _searched(service, names, search.casefold()) if search else names
    pages = max(1, -(-len(matching) // PAGE))
    page = min(max(page, 1), pages)
    shown = [service.reading(system).host(host) for system, host in matching[(page - 1) * PAGE : page * PAGE]]
    by_host = _by_host(of_hosts)
    cards = [
        host_card(view, by_host.get((view.system, view.host), NO_ALERTS), trend(service, view))
        for view in shown
        if view is not None
    ]
    return View(cards=cards, known=len(names), found=len(matching), page=page, pages=pages)


def _key(alert: Alert) -> Key:
    return alert.labels.get("system", ""), alert.labels["host"]


def _by_host(alerts: Alerts) -> dict[Key, Alerts]:
    return {key: Alerts(of_host, alerts.silences) for key, of_host in grouped(alerts.entries, _key).items()}


def _searched(service: Service, names: Sequence[Key], sought: str) -> list[Key]:
    if by_name := [key for key in names if sought in f"{key[0]}/{key[1]}".casefold()]:
        return by_name
    if in_rack := [key for key in names if (rack := service.rack(*key)) and rack.name.casefold() == sought]:
        return in_rack
    uses = service.host_uses(NAMES_MAX)
    return [(use.system, use.host) for use in uses if sought in f"{use.state} {use.job or ''}".casefold()]


def trend(service: Service, view: HostView) -> View | None:
    """Return the course of a host's first resource (abnormal ones first) over hours: name, picture and scale; None without measurements."""
    names = (entry.resource for entry in sorted(view.resources, key=most_important_first))
    resource = next((name for name in names if not is_cumulative(name)), None)
    lines = None if resource is None else service.reading(view.system).host_lines(view.host, resource)
    if resource is None or lines is None:
        return None
    line = lines.day if resource in lines.day.resources else lines.hour
    band = line.resources.get(resource)
    points = list(band_points(line, resource, -(-len(band.mean) // TREND_POINTS) or 1)) if band is not None else []
    if not points:
        return None
    until_ms = parse_rfc3339(lines.as_of)
    hours = max((until_ms - line.start_ms) / 3_600_000, TREND_HOURS_MIN)
    low, top = min(0.0, *(point.low for point in points), 0.0), max(point.high for point in points)
    title = resource_title(resource)
    ends = (until_ms - hours * 3_600_000, until_ms)
    picture = band_sparkline(f"{title} of {view.host} over time", TREND, points, ends, low, top)
    scale = f"last {hours:.0f} h, {measured(resource, low) if low else '0'} to {measured(resource, top)}"
    return View(title=title, picture=picture, scale=scale)


def host_card(view: HostView, alerts: Alerts, line: View | None = None) -> View:
    """Return a host in the list: reasons for attention, open alerts, and resources, abnormal resources first.

    `since` is the start of the anomaly, `began` the start of the anomaly or else of the first alert; both may be empty. `odd`
    names the abnormal resources. `suspected` describes a deviation that is too small for an alert.
    """
    notes = attention_notes(view, alerts)
    is_open, since = alerts.open, _since(view)
    group = "attention" if notes or is_open else "calm"
    began = since or (is_open[0].starts if is_open else "")
    ordered = sorted(view.resources, key=most_important_first)
    shown = ordered[: RESOURCES_SHOWN[group]]
    return View(
        view=view,
        group=group,
        notes=notes,
        alerts=is_open,
        chips=shown,
        more=len(ordered) - len(shown),
        trend=line,
        since=since,
        began=clock(began, view.as_of) if began else "",
        odd=[resource_name(entry.resource) for entry in view.resources if entry.anomalous_since],
        suspected=suspected_text(view, alerts),
    )


def suspected_text(view: HostView, alerts: Alerts) -> str:
    """Return since when a host has been suspected, and its unusual days; empty if neither, or if an alert says more."""
    if is_wrong(view, alerts) or _quieted(alerts):
        return ""
    since = f"suspected since {clock(view.suspected_since, view.as_of)} UTC" if view.suspected_since else ""
    days = f"unusual minutes on {view.unusual_days} of the last 7 days" if view.unusual_days else ""
    return "; ".join(filter(None, (since, days)))


def is_wrong(view: HostView, alerts: Alerts) -> bool:
    """Return whether a host has an open alert about its state, or is abnormal without a silenced or withheld alert about it."""
    if any(alert.name in OF_STATE for alert in alerts.open):
        return True
    return _since(view) != "" and not _quieted(alerts)


def attention_notes(view: HostView, alerts: Alerts, *, wrong: bool = True) -> list[str]:
    """Return the reasons, a few words each, why a host needs attention. They include its anomaly if `wrong`."""
    notes = [] if view.state in AT_WORK else [view.state]
    if wrong and is_wrong(view, alerts):
        notes.append(_wrong(view, alerts))
    if not view.resources or all(entry.window.stale for entry in view.resources):
        notes.append("no recent measurements")
    return notes


def _wrong(view: HostView, alerts: Alerts) -> str:
    """Return the anomaly of a host and its start in a few words, or the name of its open alert if the anomaly has ended."""
    odd = [entry.resource for entry in view.resources if entry.anomalous_since]
    since = _since(view)
    if odd:
        which = resource_name(odd[0]) if len(odd) == 1 else f"{len(odd)} of {len(view.resources)} resources"
        return f"{which} abnormal since {clock(since, view.as_of)}"
    if view.finding is not None and view.finding.differs_since is not None:
        return f"differs from its peers since {clock(view.finding.differs_since, view.as_of)}"
    if since:
        return f"abnormal since {clock(since, view.as_of)}"
    first = next(alert for alert in alerts.open if alert.name in OF_STATE)
    return f"{first.name} since {clock(first.starts, view.as_of)}"


def _quieted(alerts: Alerts) -> list[Alert]:
    return [alert for alert in alerts.among(*QUIETED) if alert.name in OF_STATE]


def _since(view: HostView) -> str:
    """Return the start of the anomaly of a host; empty without an anomaly."""
    finding = view.finding
    times = [entry.anomalous_since for entry in view.resources]
    times += [finding.anomalous_since, finding.differs_since] if finding is not None else []
    return min((time for time in times if time), default="")


def state_text(view: HostView, alerts: Alerts, explained: int) -> str:
    """Return the anomaly of a host, its start, and the number of affected jobs; empty without an anomaly."""
    finding = view.finding or HostFinding()
    parts = [f"differed from its peers since {moment(finding.differs_since)}"] if finding.differs_since else []
    parts += [f"behaved abnormally since {moment(finding.anomalous_since)}"] if finding.anomalous_since else []
    is_open = [alert for alert in alerts.open if alert.name in OF_STATE]
    if not parts and not is_open:
        return ""
    parts = parts or [f"behaved abnormally since {moment(is_open[0].starts)}"]
    odd = [entry.resource for entry in view.resources if entry.anomalous_since]
    more = f" and {len(odd) - ODD_NAMED} more" if len(odd) > ODD_NAMED else ""
    which = f": {', '.join(map(resource_name, odd[:ODD_NAMED]))}{more}" if odd else ""
    sentences = [f"{view.host} has {' and '.join(parts)} UTC{which}."]
    if finding.jobs:
        sentences.append(f"{counted(finding.jobs, 'job')} {'was' if finding.jobs == 1 else 'were'} affected.")
    if explained:
        sentences.append(f"The host explains {counted(explained, 'slow run')}.")
    return " ".join([*sentences, *dict.fromkeys(alerts.why(alert) for alert in _quieted(alerts))])


def most_important_first(entry: ResourceView) -> tuple[bool, bool, int, str]:
    """Return the sort key of a resource: abnormal resources first, then the resources that people check first."""
    base = entry.resource.partition(">")[0]
    return (
        not entry.anomalous_since,
        base not in IMPORTANT,
        IMPORTANT.index(base) if base in IMPORTANT else 0,
        entry.resource,
    )


def histogram_sketch(view: HostView, entry: ResourceView) -> Markup:
    area = steps(bars(entry.window.edges, entry.window.shares, str))
    return sparkline(f"{resource_title(entry.resource)} of {view.host}", CHIP, area)


FOREVER_MS: Final = 2**62


def explained_rows(service: Service, system: str, host: str, since_ms: int = 0, until_ms: int = FOREVER_MS) -> View:
    """Return the slow runs that the anomaly of a host explains and that ran between two times (default: all stored), newest first.

    A row has the run and, if it is still stored, the settled run. `count` may exceed the number of rows, because only the
    newest runs are stored.
    """
    explained = service.reading(system).explained_runs(host)
    rows = []
    for run in reversed(explained.runs):
        job = job_of(run.run_id)
        settled = next((entry for entry in service.runs_of_job(*job) if entry.run_id == run.run_id), None)
        start_ms = settled.start_ms if settled is not None else run.end_ms
        if run.end_ms >= since_ms and start_ms <= until_ms:
            rows.append((run, settled))
    count = explained.count if len(rows) == len(explained.runs) else len(rows)
    title = f"{count}" if count == len(rows) else f"the newest {len(rows)} of {count}"
    return View(rows=rows, count=count, title=title)
