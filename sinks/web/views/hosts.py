"""What the pages show of hosts: one with its resources, and the list, in which those that need attention come first."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, Literal
from urllib.parse import unquote

import msgspec
from markupsafe import Markup

from processors.contracts.hosts import (
    Band,
    ExplainedRun,
    HostFinding,
    HostLines,
    HostView,
    Line,
    ResourceForecast,
    ResourceView,
    quantile,
)
from processors.contracts.names import (
    ApplicationKey,
    host_link,
    measured,
    measured_apart,
    parse_rfc3339,
    resource_name,
    resource_title,
    rfc3339,
)
from processors.contracts.outputs import Alert, RecentRun
from processors.contracts.service import Service
from processors.contracts.telemetry import is_cumulative
from sinks.web.charts import Bar, Chart, Spark, bars, histogram_chart, sparkline, steps
from sinks.web.formatting import counted, moment
from sinks.web.queries import link
from sinks.web.views.alert_states import QUIETED, Alerts
from sinks.web.views.jobs import job_link

Key = tuple[str, str]  # system and name
NAMES_MAX: Final = 50_000
PAGE: Final = 40
CHIP: Final = (120, 28)  # pixels of a small histogram
TREND: Final = (400, 36)  # pixels of a small line
TREND_POINTS: Final = 72  # of a small line: more would make a page of hosts too long
TREND_HOURS_MIN: Final = 1.0
HOSTS_READ_MAX: Final = 2_000  # in one look: the models wait for it
RESOURCES_SHOWN: Final = {"attention": 8, "calm": 4}
AT_WORK: Final = frozenset({"", "up"})
OF_STATE: Final = frozenset({"HostAnomaly", "StragglerHost"})  # what is wrong with a host, until it is as before
ODD_NAMED: Final = 3
NO_ALERTS: Final = Alerts(())
IMPORTANT: Final = ("cpu_available", "load1", "memory_free", "memory_available", "power_w", "cpu_current", "bandwidth")


class ResourceRow(msgspec.Struct, frozen=True):
    """A resource of a host: its figures as text, its histogram, and the chart of it."""

    view: ResourceView
    mean: str
    spread: str
    forecast: str
    bars: Sequence[Bar]
    markers: Sequence[tuple[float, str]]
    chart: Chart


def find_host(service: Service, raw_path: str) -> HostView | None:
    """Return the host that the raw end of a URL names."""
    system, _, host = raw_path.partition("/")
    return service.reading(unquote(system)).host(unquote(host))


def named_lines(service: Service, raw_path: str) -> HostLines | None:
    """Return what the host that the raw end of a URL names measured over time."""
    system, _, host = raw_path.partition("/")
    return service.reading(unquote(system)).host_lines(unquote(host))


def matching_hosts(service: Service, system: str | None, host: str | None) -> tuple[Sequence[HostView], bool]:
    """Return the hosts with these names (None: any) among the first HOSTS_READ_MAX, and whether there may be more."""
    if system is not None and host is not None:
        found = service.reading(system).host(host)
        return ([] if found is None else [found]), False
    known = service.hosts(HOSTS_READ_MAX + 1)
    wanted = [view for view in known[:HOSTS_READ_MAX] if system in (None, view.system) and host in (None, view.host)]
    return wanted, len(known) > HOSTS_READ_MAX


def is_of_host(view: HostView, alert: Alert) -> bool:
    """Return whether an alert is about a host."""
    return (alert.labels.get("system"), alert.labels.get("host")) == (view.system, view.host)


def resource_row(view: HostView, entry: ResourceView) -> ResourceRow:
    """Return a resource as the page of its host shows it."""
    window, predicted = entry.window, entry.forecast
    formatter, label = partial(measured, entry.resource), measured_apart(entry.resource, window.edges)
    low, high = quantile(window, 0.05), quantile(window, 0.95)
    title = resource_title(entry.resource)
    found = bars(window.edges, window.shares, label)
    markers = [(window.mean, f"mean of the last minute {formatter(window.mean)}")]
    forecast = "-" if predicted is None else formatter(predicted.value)
    if predicted is not None:
        markers.append((predicted.value, f"forecast {forecast}"))
        forecast += _uncertainty(predicted, formatter)
    return ResourceRow(
        entry,
        formatter(window.mean),
        _range(formatter(low), formatter(high)),
        forecast,
        found,
        markers,
        histogram_chart(f"{title} of {view.host}", found, label, ratio=0.36, across=title),
    )


def _range(low: str, high: str) -> str:
    """Return two ends in words, their unit once; one end where both read alike."""
    (number, _, unit), (_, _, other) = low.partition(" "), high.partition(" ")
    if low == high:
        return low
    return f"{number if unit == other else low} to {high}"


def _uncertainty(forecast: ResourceForecast, formatter: Callable[[float], str]) -> str:
    """Return between which values 90 % are expected, or the standard error until that is known."""
    if forecast.q05 is not None and forecast.q95 is not None:
        return f" ({_range(formatter(forecast.q05), formatter(forecast.q95))})"
    return f" ± {formatter(forecast.error)}" if forecast.error is not None else ""


class Chip(msgspec.Struct, frozen=True):
    """A resource of a host in a few words, with its small histogram."""

    name: str
    picture: Markup
    mean: str
    odd: bool
    varies: bool
    old: bool


class Trend(msgspec.Struct, frozen=True):
    """The main resource of a host over the last hours: its name, its picture, and how far and how high that reaches."""

    title: str
    picture: Markup
    scale: str


class HostCard(msgspec.Struct, frozen=True, kw_only=True):
    """A host in the list: what stands out in words, its open alerts, and its resources, the strange ones first.

    `since` is when anything went wrong with it, "" where nothing is wrong; `odd` names the resources that are anomalous.
    `suspected` is what is too little for an alert, "" where there is one or nothing.
    """

    view: HostView
    href: str
    group: Literal["attention", "calm"]
    notes: Sequence[str]
    alerts: Sequence[Alert]
    chips: Sequence[Chip]
    more: int
    trend: Trend | None
    since: str
    odd: Sequence[str]
    suspected: str = ""

    @property
    def began(self) -> str:
        """Since when it needs attention; "" where it does not."""
        since = self.since or (self.alerts[0].starts if self.alerts else "")
        return _when(since, self.view) if since else ""


class HostPart(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the list. `known` counts all hosts, `found` those that were searched for."""

    cards: Sequence[HostCard]
    known: int
    found: int
    page: int
    pages: int

    def of(self, group: str) -> list[HostCard]:
        """Return the hosts of a group."""
        return [card for card in self.cards if card.group == group]


def host_part(service: Service, search: str, page: int) -> HostPart:
    """Return a page (from 1 on) of the hosts with a text in their name, or else of a rack, or else with it in their state or job."""
    of_hosts = Alerts.of(service).about(lambda alert: "host" in alert.labels)
    first = {_key(alert) for alert in of_hosts.open}
    names = sorted(service.host_names(NAMES_MAX), key=lambda key: key not in first)
    found = _searched(service, names, search.casefold()) if search else names
    pages = max(1, -(-len(found) // PAGE))
    page = min(max(page, 1), pages)
    shown = [service.reading(system).host(host) for system, host in found[(page - 1) * PAGE : page * PAGE]]
    named = _by_host(of_hosts)
    cards = [
        host_card(view, named.get((view.system, view.host), NO_ALERTS), trend(service, view))
        for view in shown
        if view is not None
    ]
    return HostPart(cards=cards, known=len(names), found=len(found), page=page, pages=pages)


def _key(alert: Alert) -> Key:
    return alert.labels.get("system", ""), alert.labels["host"]


def _by_host(alerts: Alerts) -> dict[Key, Alerts]:
    found: dict[Key, list[Alert]] = {}
    for alert in alerts.known:
        found.setdefault(_key(alert), []).append(alert)
    return {key: Alerts(known, alerts.silences) for key, known in found.items()}


def _searched(service: Service, names: Sequence[Key], sought: str) -> list[Key]:
    found = [key for key in names if sought in f"{key[0]}/{key[1]}".casefold()]
    if found:
        return found
    if in_rack := [key for key in names if (rack := service.rack(*key)) and rack.name.casefold() == sought]:
        return in_rack
    uses = service.host_uses(NAMES_MAX)
    return [(use.system, use.host) for use in uses if sought in f"{use.state} {use.job or ''}".casefold()]


def trend(service: Service, view: HostView) -> Trend | None:
    """Return the resource of a host that comes first over the last hours; None where nothing was kept of it."""
    names = (entry.resource for entry in sorted(view.resources, key=most_important_first))
    resource = next((name for name in names if not is_cumulative(name)), None)
    found = None if resource is None else service.reading(view.system).host_lines(view.host, resource)
    if resource is None or found is None:
        return None
    line = found.day if resource in found.day.resources else found.hour
    points = list(_thinned(line, line.resources[resource])) if resource in line.resources else []
    if not points:
        return None
    until_ms = parse_rfc3339(found.as_of)
    hours = max((until_ms - line.start_ms) / 3_600_000, TREND_HOURS_MIN)
    low, top = min(0.0, *(one[1] for one in points), 0.0), max(one[3] for one in points)
    area = [*((one[0], one[3]) for one in points), *((one[0], one[1]) for one in reversed(points))]
    spark = Spark(
        title=f"{resource_title(resource)} of {view.host} over time",
        area=area,
        lines=[("line", [(one[0], one[2]) for one in points])],
        frame=((until_ms - hours * 3_600_000, low), (float(until_ms), top)),
    )
    scale = f"last {hours:.0f} h, {measured(resource, low) if low else '0'} to {measured(resource, top)}"
    return Trend(resource_title(resource), sparkline(spark, *TREND), scale)


def _thinned(line: Line, band: Band) -> Iterator[tuple[float, float, float, float]]:
    """Yield TREND_POINTS or fewer points, each of so many neighbours: middle in ms, least low, mean, largest high."""
    each = -(-len(band.mean) // TREND_POINTS)
    for start in range(0, len(band.mean), each):
        means = [value for value in band.mean[start : start + each] if value is not None]
        lows = [value for value in band.low[start : start + each] if value is not None]
        highs = [value for value in band.high[start : start + each] if value is not None]
        if means and lows and highs:
            middle = start + min(each, len(band.mean) - start) / 2
            yield line.start_ms + middle * line.step_s * 1000, min(lows), sum(means) / len(means), max(highs)


def host_card(view: HostView, alerts: Alerts, line: Trend | None = None) -> HostCard:
    """Return a host as the list shows it; `alerts` are those about it."""
    notes = standing_out(view, alerts)
    is_open = alerts.open
    group: Literal["attention", "calm"] = "attention" if notes or is_open else "calm"
    ordered = sorted(view.resources, key=most_important_first)
    shown = ordered[: RESOURCES_SHOWN[group]]
    return HostCard(
        view=view,
        href=f"/hosts/{host_link(view.system, view.host)}",
        group=group,
        notes=notes,
        alerts=is_open,
        chips=[_chip(view, entry) for entry in shown],
        more=len(ordered) - len(shown),
        trend=line,
        since=_since(view),
        odd=[resource_name(entry.resource) for entry in view.resources if entry.anomalous_since],
        suspected=suspected_text(view, alerts),
    )


def suspected_text(view: HostView, alerts: Alerts) -> str:
    """Return since when a host has been suspected; "" where it is not, or where more is known of it."""
    if view.suspected_since is None or is_wrong(view, alerts) or _quieted(alerts):
        return ""
    return f"suspected since {_when(view.suspected_since, view)}"


def _when(time: str, view: HostView) -> str:
    """Return the time of a day, with its date where that is not the day of the view."""
    return moment(time)[-5:] if time[:10] == view.as_of[:10] else moment(time)


def is_wrong(view: HostView, alerts: Alerts) -> bool:
    """Return whether something is wrong with a host of which people want to hear: its alert is not silenced or withheld."""
    if any(_name(alert) in OF_STATE for alert in alerts.open):
        return True
    return _since(view) != "" and not _quieted(alerts)


def standing_out(view: HostView, alerts: Alerts, *, wrong: bool = True) -> list[str]:
    """Return what of a host needs attention, in a few words each; nothing while it is as usual.

    Without `wrong` what is wrong with it is left out, for it is said elsewhere.
    """
    notes = [] if view.state in AT_WORK else [view.state]
    if wrong and is_wrong(view, alerts):
        notes.append(_wrong(view, alerts))
    if not view.resources or all(entry.window.stale for entry in view.resources):
        notes.append("no recent measurements")
    return notes


def _wrong(view: HostView, alerts: Alerts) -> str:
    """Return what is wrong with a host in a few words; where no resource is named any more, what its alert is called."""
    odd = [entry.resource for entry in view.resources if entry.anomalous_since]
    since = _since(view)
    if odd:
        which = resource_name(odd[0]) if len(odd) == 1 else f"{len(odd)} of {len(view.resources)} resources"
        return f"{which} anomalous since {_when(since, view)}"
    if view.finding is not None and view.finding.differs_since is not None:
        return f"unlike its peers since {_when(view.finding.differs_since, view)}"
    if since:
        return f"anomalous since {_when(since, view)}"
    first = next(alert for alert in alerts.open if _name(alert) in OF_STATE)
    return f"{_name(first)} since {_when(first.starts, view)}"


def _quieted(alerts: Alerts) -> list[Alert]:
    """Return the alerts of a host's state of which nobody is notified, and why is known."""
    return [alert for alert in alerts.among(*QUIETED) if _name(alert) in OF_STATE]


def _name(alert: Alert) -> str:
    return alert.labels.get("alertname", "")


def _since(view: HostView) -> str:
    """Return since when anything is wrong with a host; "" where nothing is."""
    found = view.finding
    times = [entry.anomalous_since for entry in view.resources]
    times += [found.anomalous_since, found.differs_since] if found is not None else []
    return min((time for time in times if time), default="")


def state_text(view: HostView, alerts: Alerts, explained: int) -> str:
    """Return what is wrong with a host, since when and how many jobs met it, in one sentence; "" while nothing is."""
    found = view.finding or HostFinding()
    parts = [f"unlike its peers since {moment(found.differs_since)}"] if found.differs_since else []
    parts += [f"unlike its own past since {moment(found.anomalous_since)}"] if found.anomalous_since else []
    is_open = [alert for alert in alerts.open if _name(alert) in OF_STATE]
    if not parts and not is_open:
        return ""
    parts = parts or [f"anomalous since {moment(is_open[0].starts)}"]
    odd = [entry.resource for entry in view.resources if entry.anomalous_since]
    more = f" and {len(odd) - ODD_NAMED} more" if len(odd) > ODD_NAMED else ""
    which = f": {', '.join(map(resource_name, odd[:ODD_NAMED]))}{more}" if odd else ""
    hit = [f"{counted(found.jobs, 'job')} met it"] if found.jobs else []
    hit += [f"it explains {counted(explained, 'slow run')}"] if explained else []
    first = f"{view.host} has been {' and '.join(parts)} UTC{which}{'; ' if hit else ''}{', and '.join(hit)}."
    return " ".join([first, *dict.fromkeys(alerts.why(alert) for alert in _quieted(alerts))])


def most_important_first(entry: ResourceView) -> tuple[bool, bool, int, str]:
    """Return by what the resources of a host are ordered: the anomalous ones, then those that people look at first."""
    base = entry.resource.partition(">")[0]
    return (
        not entry.anomalous_since,
        base not in IMPORTANT,
        IMPORTANT.index(base) if base in IMPORTANT else 0,
        entry.resource,
    )


def _chip(view: HostView, entry: ResourceView) -> Chip:
    window = entry.window
    spark = Spark(
        title=f"{resource_title(entry.resource)} of {view.host}", area=steps(bars(window.edges, window.shares, str))
    )
    return Chip(
        resource_title(entry.resource),
        sparkline(spark, *CHIP),
        measured(entry.resource, window.mean),
        odd=bool(entry.anomalous_since),
        varies=entry.variation == "high",
        old=window.stale,
    )


FOREVER_MS: Final = 2**62


class ExplainedRow(msgspec.Struct, frozen=True):
    """A slow run in the list; empty links lead nowhere. `user` is None where it is no longer known."""

    job: str
    job_href: str
    application: str
    application_href: str
    factor: str
    ended: str
    user: str | None = None


class ExplainedRows(msgspec.Struct, frozen=True):
    """The slow runs that a host explains, the newest first, and how many there were in all."""

    rows: Sequence[ExplainedRow]
    count: int

    @property
    def title(self) -> str:
        """How many there are, and how many of them are listed."""
        return f"{self.count}" if self.count == len(self.rows) else f"the newest {len(self.rows)} of {self.count}"


def explained_rows(
    service: Service, system: str, host: str, since_ms: int = 0, until_ms: int = FOREVER_MS
) -> ExplainedRows:
    """Return the runs that a host explains and that were there in a time; by default all that are remembered."""
    found = service.reading(system).explained_runs(host)
    pairs = [(run, _settled(service, run.run_id)) for run in reversed(found.runs)]
    shown = [
        _row(service, run, settled)
        for run, settled in pairs
        if run.end_ms >= since_ms and (settled.start_ms if settled else run.end_ms) <= until_ms
    ]
    whole = len(shown) == len(found.runs)
    return ExplainedRows(shown, found.count if whole else len(shown))


def _settled(service: Service, run_id: str) -> RecentRun | None:
    system, job_id = job_of(run_id)
    return next((run for run in service.runs_of_job(system, job_id) if run.run_id == run_id), None)


def _row(service: Service, run: ExplainedRun, settled: RecentRun | None) -> ExplainedRow:
    system, job_id = job_of(run.run_id)
    known = service.prediction(run.application_id) is not None
    key = ApplicationKey.parse(run.application_id)
    return ExplainedRow(
        job=f"{system}/{job_id}",
        job_href=job_link(system, job_id) if settled is not None else "",
        application=" ".join(filter(None, (key.application, key.input))),
        application_href=f"/applications/{link(run.application_id)}" if known else "",
        factor=f"{run.factor:.2f}",
        ended=moment(rfc3339(run.end_ms)),
        user=settled.user if settled is not None else None,
    )


def job_of(run_id: str) -> tuple[str, str]:
    """Return system and id of the job of a run, from `system/job@start`."""
    system, _, rest = run_id.partition("/")
    job_id, at, _ = rest.rpartition("@")
    return unquote(system), unquote(job_id if at else rest)
