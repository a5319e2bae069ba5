"""Resources of hosts over time: charts with bands, alerts and jobs, and small charts of many hosts side by side."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from math import isfinite
from typing import Final, Literal

import msgspec

from processors.contracts.errors import InvalidInputError
from processors.contracts.hosts import HostLines, HostView, ResourceLine
from processors.contracts.names import measured, parse_rfc3339, resource_title, rfc3339, scale_of
from processors.contracts.nodes import names_host, spread
from processors.contracts.outputs import Alert
from processors.contracts.service import Service
from sinks.web.charts import Chart, band_points, band_sparkline, level_axis, time_axis
from sinks.web.formatting import View, moment, span, when
from sinks.web.queries import alert_link, job_link, job_of, key_of, ms_of
from sinks.web.views.hosts import IMPORTANT, most_important_first

Range = Literal["day", "hour"]
HOUR: Final = "hour"
CHARTS_MAX: Final = 8  # charts on one page; further charts need a click
JOBS_MAX: Final = 200
ROWS_MAX: Final = 30  # maximum rows of the table behind a chart
HOUR_MS: Final = 3_600_000
RATIO: Final = 0.3


class TimeMark(msgspec.Struct, frozen=True):
    """An alert or a job from its start to its end. The chart shows `label`; a tooltip shows `note`."""

    start_ms: int
    end_ms: int
    name: str
    label: str
    note: str
    href: str
    when: str


def shown_first(view: HostView, chosen: str) -> tuple[list[str], list[str]]:
    """Return the resources that get a chart, abnormal and important resources first, and the names of all other resources."""
    ordered = [entry.resource for entry in sorted(view.resources, key=most_important_first)]
    ordered.sort(key=lambda resource: resource != chosen)
    return ordered[:CHARTS_MAX], sorted(ordered[CHARTS_MAX:])


def lines_view(
    service: Service, view: HostView, alerts: Sequence[Alert], resources: Sequence[str], chosen: str
) -> View | None:
    """Return charts of some resources of a host, marks for all charts, and the time range; None if the host has no measurements."""
    lines = service.reading(view.system).host_lines(view.host)
    if lines is None or (not lines.hour.resources and not lines.day.resources):
        return None
    is_hour = chosen == HOUR or not lines.day.resources
    line, until_ms = lines.hour if is_hour else lines.day, parse_rfc3339(lines.as_of)
    from_ms = until_ms - HOUR_MS if is_hour else min(line.start_ms, until_ms - HOUR_MS)
    hours = round((until_ms - from_ms) / HOUR_MS)
    return View(
        range="hour" if is_hour else "day",
        title="The last hour" if hours == 1 else f"The last {hours} hours",
        band="range of the samples of a minute" if is_hour else "5 % to 95 % quantile of the samples of five minutes",
        charts={name: _chart(view, name, line, (from_ms, until_ms)) for name in resources if name in line.resources},
        alerts=list(alert_marks(alerts, from_ms, until_ms)),
        jobs=list(_job_marks(service, view, from_ms, until_ms)),
    )


def _chart(view: HostView, resource: str, line: ResourceLine, ends: tuple[int, int]) -> View:
    """Return the chart of one resource over time; the script draws `columns` divided by `factor`, in `unit`."""
    band, title = line.resources[resource], resource_title(resource)
    values = [value for column in (band.low, band.mean, band.high) for value in column if value is not None]
    top = max([value for value in values if isfinite(value)], default=0.0) or 1.0
    factor, unit = scale_of(resource, top)
    across = msgspec.structs.replace(time_axis(*ends), ends=ends)
    up = level_axis(max(top, 0.0) or 1.0, factor, f"{title} ({unit})" if unit else title)
    chart = Chart(f"{title} of {view.host} over time", across, up, RATIO)
    columns: View = {"start": line.start_ms, "step": line.step_s * 1000, "factor": factor, "unit": unit}
    columns |= msgspec.structs.asdict(band)
    return View(title=title, chart=chart, columns=columns, rows=list(_rows(resource, line)))


def _rows(resource: str, line: ResourceLine) -> Iterator[tuple[str, ...]]:
    """Yield at most about ROWS_MAX rows, each a summary of several points."""
    points = len(line.resources[resource].mean)
    step = next((count for count in (1, 3, 6, 12, 36) if points <= count * ROWS_MAX), 72)
    first = -(line.start_ms // (line.step_s * 1000)) % step  # all rows except the first begin at round times
    for point in band_points(line, resource, step, first):
        texts = (measured(resource, value) for value in (point.mean, point.low, point.high))
        yield when(round(point.start_ms)), *texts


def alert_marks(alerts: Sequence[Alert], from_ms: int, until_ms: int) -> Iterator[TimeMark]:
    """Yield the alerts between two times, without pending alerts."""
    for alert in alerts:
        start_ms, end_ms = ms_of(alert.starts) or until_ms, ms_of(alert.ends) or until_ms
        if alert.status == "pending" or end_ms < from_ms or start_ms > until_ms:
            continue
        starts = moment(alert.starts)
        shown = f"{starts} to {moment(alert.ends)[11:]}" if alert.ends else f"since {starts}"
        note = alert.annotations.get("summary", alert.name)
        label = f"{starts[11:]} {alert.name}"
        yield TimeMark(start_ms, end_ms, alert.name, label, note, alert_link(alert), shown)


def _job_marks(service: Service, view: HostView, from_ms: int, until_ms: int) -> Iterator[TimeMark]:
    """Yield the jobs on a host that the reader may see, newest first."""
    system, job_id = job_of(view.job or "")
    running = service.job(system, job_id) if view.job else None
    if running is not None:
        label = f"{job_id} {running.application or ''}".strip()
        shown, href = f"since {moment(running.start)}", job_link(system, job_id)
        yield TimeMark(ms_of(running.start) or until_ms, until_ms, label, label, label, href, shown)
    on_host = (
        run
        for run in service.recent_runs()
        if run.end_ms > from_ms and run.system == view.system and names_host(run.hosts, view.host)
    )
    for run in islice(on_host, JOBS_MAX):
        label = f"{run.job_id} {key_of(run.application_id).application}".strip()
        shown, href = f"{when(run.start_ms)} to {when(run.end_ms)[11:]}", job_link(run.system, run.job_id)
        yield TimeMark(run.start_ms, run.end_ms, label, label, label, href, shown)


HOSTS_MAX: Final = 24
RESOURCES_MAX: Final = 2
NEIGHBOURS_MAX: Final = 12
NAMES_MAX: Final = 50_000
PICTURE: Final = (220, 48)  # width and height in pixels
_DIGITS: Final = "0123456789"


_Time = tuple[int, int | None]  # start and end in ms; None as end means now


_Host = tuple[HostLines, HostView | None]


def of_job(service: Service, system: str, job_id: str) -> list[View]:
    """Return small charts of a job's hosts for the time of the job; empty if hosts or measurements are unknown."""
    running, runs = service.job(system, job_id), service.runs_of_job(system, job_id)
    if running is not None:
        names, start_ms, end_ms = service.reading(system).hosts_of_job(job_id), parse_rfc3339(running.start), None
    elif runs:
        names, start_ms, end_ms = runs[0].hosts, runs[0].start_ms, runs[0].end_ms
    else:
        return []
    try:
        total, shown = spread(names, HOSTS_MAX)
    except InvalidInputError:
        return []
    return _multiples(service, system, shown, total, (start_ms, end_ms))


def peers(service: Service, view: HostView) -> View | None:
    """Return pictures of a host and its peers: the hosts of its job, else of its rack, else with similar names; None without peers."""
    title, note, names = _peer_names(service, view)
    if len(names) < 2:
        return None
    parts = _multiples(service, view.system, _near(names, view.host), len(names))
    return View(title=title, note=note, parts=parts) if parts else None


def _peer_names(service: Service, view: HostView) -> tuple[str, str, list[str]]:
    if view.job is not None:
        system, job_id = job_of(view.job)
        names = service.reading(system).hosts_of_job(job_id)
        if len(names) > 1:
            return f"Hosts of job {view.job}", "on a common scale", sorted(names)
    of_system = sorted(host for system, host in service.host_names(NAMES_MAX) if system == view.system)
    rack = service.rack(view.system, view.host)
    in_rack = [host for host in of_system if service.rack(view.system, host) == rack] if rack is not None else []
    if rack is not None and len(in_rack) > 1:
        return f"Rack {rack.name}", f"same rack{rack.known_by}, on a common scale", in_rack
    alike = [host for host in of_system if _stem(host) == _stem(view.host)]
    return "Neighbours by name", "on a common scale; the racks are unknown", _near(alike, view.host)


def _stem(host: str) -> str:
    return host.rstrip(_DIGITS)


def _near(names: Sequence[str], host: str) -> list[str]:
    """Return at most NEIGHBOURS_MAX successive names of a list, with `host` in the middle if possible."""
    place = names.index(host) if host in names else 0
    first = max(0, min(place - NEIGHBOURS_MAX // 2, len(names) - NEIGHBOURS_MAX))
    return list(names[first : first + NEIGHBOURS_MAX])


def _multiples(
    service: Service, system: str, names: Sequence[str], total: int, time: _Time | None = None
) -> list[View]:
    """Return for each common resource the pictures of all hosts in the given time, by default over all stored measurements."""
    views = service.reading(system)
    hosts = [(lines, views.host(lines.host)) for name in names if (lines := views.host_lines(name)) is not None]
    if not hosts:
        return []
    now_ms = max(parse_rfc3339(lines.as_of) for lines, _ in hosts)
    start_ms, end_ms = time or (None, None)
    last_ms = now_ms if end_ms is None else end_ms
    first_ms = last_ms - 24 * HOUR_MS if start_ms is None else start_ms
    by_minute = last_ms - first_ms <= HOUR_MS and first_ms >= now_ms - HOUR_MS
    shown = [lines.hour if by_minute else lines.day for lines, _ in hosts]
    if start_ms is None:
        first_ms = max(first_ms, min(line.start_ms for line in shown))
    parts = (_part(hosts, shown, name, (first_ms, last_ms), total) for name in _resources(hosts, shown))
    return [part for part in parts if part is not None]


def _resources(hosts: Sequence[_Host], lines: Sequence[ResourceLine]) -> list[str]:
    """Return the resources that most hosts have: abnormal resources first, then important resources."""
    odd = {entry.resource for _, view in hosts if view for entry in view.resources if entry.anomalous_since}
    counts = Counter(name for line in lines for name in line.resources)
    often = [name for name, count in counts.items() if 2 * count > len(hosts)]
    rank = {name: place for place, name in enumerate(IMPORTANT)}
    often.sort(key=lambda name: (name not in odd, rank.get(name.partition(">")[0], len(rank)), name))
    return often[:RESOURCES_MAX]


def _part(
    hosts: Sequence[_Host], lines: Sequence[ResourceLine], resource: str, ends: tuple[int, int], total: int
) -> View | None:
    """Return a picture of a resource for each host that measured it in the time `ends`, all to one scale; None if no host did."""
    rows = []
    for host, line in zip(hosts, lines, strict=True):
        between = [p for p in band_points(line, resource) if ends[0] < p.stop_ms and p.start_ms < ends[1]]
        rows += [(host, between)] if between else []
    if not rows:
        return None
    low = min(0.0, *(point.low for _, points in rows for point in points))
    top = max(point.high for _, points in rows for point in points)
    title = resource_title(resource)
    shown = []
    for (measurements, view), points in rows:
        picture = band_sparkline(f"{title} of {measurements.host}", PICTURE, points, ends, low, top)
        mean = sum(point.mean for point in points) / len(points)
        entries = view.resources if view is not None else ()
        since = next((entry.anomalous_since for entry in entries if entry.resource == resource), None)
        odd = f"anomalous since {since[11:16]}" if since else ""
        text = measured(resource, mean)
        shown.append(View(system=measurements.system, host=measurements.host, picture=picture, mean=text, odd=odd))
    shown.sort(key=lambda host: (not host["odd"], host["host"]))
    times = span(rfc3339(ends[0]), rfc3339(ends[1]))
    scale = f"0 to {measured(resource, top)}"
    return View(title=title, scale=scale, span=times, hosts=shown, more=total - len(shown))
