"""Resources of hosts over time: charts with bands and marked alerts and jobs, and small charts of many hosts beside each other."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from math import isfinite
from typing import Final, Literal
from urllib.parse import urlencode

import msgspec
from markupsafe import Markup

from processors.contracts.errors import InvalidInputError
from processors.contracts.hosts import Band, HostLines, HostView, Line
from processors.contracts.names import host_link, measured, parse_rfc3339, resource_title, rfc3339, scale_of
from processors.contracts.nodes import names_host, spread
from processors.contracts.outputs import Alert, RecentRun
from processors.contracts.service import Service
from sinks.web.charts import Chart, Spark, level_axis, sparkline, time_axis
from sinks.web.filters import key_of
from sinks.web.formatting import moment, span
from sinks.web.views.hosts import IMPORTANT, job_of, most_important_first
from sinks.web.views.jobs import job_link

Range = Literal["day", "hour"]
HOUR: Final = "hour"
CHARTS_MAX: Final = 8  # of one page; others are a click away
JOBS_MAX: Final = 200
ROWS_MAX: Final = 30  # of a table behind a chart
HOUR_MS: Final = 3_600_000
RATIO: Final = 0.3


class TimeMark(msgspec.Struct, frozen=True):
    """An alert or a job from its start to its end; the chart shows `label`, `note` has more."""

    kind: Literal["alert", "job"]
    start_ms: int
    end_ms: int
    name: str
    label: str
    note: str
    href: str
    when: str


class LineRow(msgspec.Struct, frozen=True):
    """A row of the table behind a line: time, mean, and ends of the band as text."""

    when: str
    mean: str
    low: str
    high: str


class LineChart(msgspec.Struct, frozen=True):
    """One resource over time; the script draws `columns`, divided by their `factor` and labelled with their `unit`."""

    resource: str
    title: str
    chart: Chart
    columns: dict[str, object]
    rows: Sequence[LineRow]


class LinesView(msgspec.Struct, frozen=True, kw_only=True):
    """The lines of a host: charts by resource, marks for all charts, and the time that is shown."""

    range: Range
    title: str
    band: str
    charts: dict[str, LineChart]
    marks: Sequence[TimeMark]
    from_ms: int
    until_ms: int

    @property
    def alerts(self) -> list[TimeMark]:
        return [mark for mark in self.marks if mark.kind == "alert"]

    @property
    def jobs(self) -> list[TimeMark]:
        return [mark for mark in self.marks if mark.kind == "job"]


class References(msgspec.Struct, frozen=True):
    """Links from a host's page to itself with another time, or with another resource first."""

    chosen: dict[str, str]

    def range(self, name: str) -> str:
        return self._with(range=name)

    def resource(self, name: str) -> str:
        return self._with(resource=name) + "#lines"

    def _with(self, **changes: str) -> str:
        return f"?{urlencode({name: value for name, value in (self.chosen | changes).items() if value})}"


def shown_first(view: HostView, chosen: str) -> tuple[list[str], list[str]]:
    """Return the resources with a chart, abnormal and important ones first, and the names of all others."""
    ordered = [entry.resource for entry in sorted(view.resources, key=most_important_first)]
    ordered.sort(key=lambda resource: resource != chosen)
    return ordered[:CHARTS_MAX], sorted(ordered[CHARTS_MAX:])


def lines_view(
    service: Service, view: HostView, alerts: Sequence[Alert], resources: Sequence[str], chosen: str
) -> LinesView | None:
    """Return the lines of these resources of a host; None if the host has no lines."""
    lines = service.reading(view.system).host_lines(view.host)
    if lines is None or (not lines.hour.resources and not lines.day.resources):
        return None
    is_hour = chosen == HOUR or not lines.day.resources
    line = lines.hour if is_hour else lines.day
    from_ms, until_ms = _ends(lines, line, is_hour=is_hour)
    charts = {
        name: _chart(view, name, line, line.resources[name], (from_ms, until_ms))
        for name in resources
        if name in line.resources
    }
    marks = [*alert_marks(alerts, from_ms, until_ms), *_job_marks(service, view, from_ms, until_ms)]
    return LinesView(
        range="hour" if is_hour else "day",
        title="The last hour" if is_hour else f"The last {round((until_ms - from_ms) / HOUR_MS)} hours",
        band="range of the samples of a minute" if is_hour else "5 % to 95 % quantile of the samples of five minutes",
        charts=charts,
        marks=marks,
        from_ms=from_ms,
        until_ms=until_ms,
    )


def _ends(lines: HostLines, line: Line, *, is_hour: bool) -> tuple[int, int]:
    """Return start and end of the shown time in ms: up to now, at least an hour."""
    until_ms = parse_rfc3339(lines.as_of)
    return min(line.start_ms, until_ms - HOUR_MS) if not is_hour else until_ms - HOUR_MS, until_ms


def _chart(view: HostView, resource: str, line: Line, band: Band, ends: tuple[int, int]) -> LineChart:
    values = [value for column in (band.low, band.mean, band.high) for value in column if value is not None]
    top = max([value for value in values if isfinite(value)], default=0.0) or 1.0
    factor, unit = scale_of(resource, top)
    title = resource_title(resource)
    across = msgspec.structs.replace(time_axis(*ends), ends=ends)
    columns = {
        "start": line.start_ms,
        "step": line.step_s * 1000,
        "factor": factor,
        "unit": unit,
        **{name: getattr(band, name) for name in ("low", "mean", "high")},
    }
    up = level_axis(max(top, 0.0) or 1.0, factor, f"{title} ({unit})" if unit else title)
    chart = Chart(f"{title} of {view.host} over time", across, up, RATIO)
    return LineChart(resource, title, chart, columns, list(_rows(resource, line, band)))


def _rows(resource: str, line: Line, band: Band) -> Iterator[LineRow]:
    """Yield the rows of a table of at most about ROWS_MAX rows: mean of the means, and widest ends of several points each."""
    points = len(band.mean)
    step = next((count for count in (1, 3, 6, 12, 36) if points <= count * ROWS_MAX), 72)
    written = partial(measured, resource)
    first = -(line.start_ms // (line.step_s * 1000)) % step
    for start in (0, *range(first or step, points, step)):
        last = min(points, first if start == 0 and first else start + step)
        means = [value for value in band.mean[start:last] if value is not None]
        if not means:
            continue
        low = min(value for value in band.low[start:last] if value is not None)
        high = max(value for value in band.high[start:last] if value is not None)
        when = moment(rfc3339(line.start_ms + start * line.step_s * 1000))
        yield LineRow(when, written(sum(means) / len(means)), written(low), written(high))


def alert_marks(alerts: Sequence[Alert], from_ms: int, until_ms: int) -> Iterator[TimeMark]:
    """Yield the alerts between two times that were more than pending."""
    for alert in alerts:
        start_ms, end_ms = _ms(alert.starts, until_ms), _ms(alert.ends, until_ms)
        if alert.status == "pending" or end_ms < from_ms or start_ms > until_ms:
            continue
        name = alert.labels.get("alertname", alert.kind)
        when = f"{moment(alert.starts)} to {moment(alert.ends)[11:]}" if alert.ends else f"since {moment(alert.starts)}"
        summary = alert.annotations.get("summary", name)
        yield TimeMark(
            "alert",
            start_ms,
            end_ms,
            name,
            f"{moment(alert.starts)[11:]} {name}",
            summary,
            f"/alerts/{alert.fingerprint}",
            when,
        )


def _job_marks(service: Service, view: HostView, from_ms: int, until_ms: int) -> Iterator[TimeMark]:
    """Yield the jobs on a host that the reader may see, the newest first."""
    system, job_id = job_of(view.job) if view.job else ("", "")
    running = service.job(system, job_id) if view.job else None
    if running is not None:
        label = f"{job_id} {running.application or ''}".strip()
        when = f"since {moment(running.start)}"
        yield TimeMark(
            "job", _ms(running.start, until_ms), until_ms, label, label, label, job_link(system, job_id), when
        )
    on_host = (run for run in service.recent_runs() if _ran_here(run, view, from_ms))
    for run, _ in zip(on_host, range(JOBS_MAX), strict=False):
        label = f"{run.job_id} {key_of(run.application_id).application}".strip()
        when = f"{moment(rfc3339(run.start_ms))} to {moment(rfc3339(run.end_ms))[11:]}"
        yield TimeMark("job", run.start_ms, run.end_ms, label, label, label, job_link(run.system, run.job_id), when)


def _ran_here(run: RecentRun, view: HostView, from_ms: int) -> bool:
    return run.end_ms > from_ms and run.system == view.system and names_host(run.hosts, view.host)


def _ms(time: str | None, otherwise: int) -> int:
    with suppress(InvalidInputError):
        return otherwise if time is None else parse_rfc3339(time)
    return otherwise


HOSTS_MAX: Final = 24
RESOURCES_MAX: Final = 2
NEIGHBOURS_MAX: Final = 12
NAMES_MAX: Final = 50_000
PICTURE: Final = (220, 48)  # pixels
MINUTES_MS: Final = 3_600_000  # shorter and more recent times have a point a minute
_DIGITS: Final = "0123456789"


class Multiple(msgspec.Struct, frozen=True):
    """A small chart of a host: name, page, picture, mean over the time, and its anomaly, if any."""

    host: str
    href: str
    picture: Markup
    mean: str
    odd: str


class Multiples(msgspec.Struct, frozen=True):
    """One resource of several hosts with a common scale; `more` counts the hosts without a picture."""

    resource: str
    title: str
    scale: str
    span: str
    hosts: Sequence[Multiple]
    more: int


class Peers(msgspec.Struct, frozen=True):
    """The hosts that a host is compared with: title, note, and their pictures."""

    title: str
    note: str
    parts: Sequence[Multiples]


_Time = tuple[int, int | None]  # start and end in ms; None is now


class _Host(msgspec.Struct, frozen=True):
    name: str
    lines: HostLines
    view: HostView | None


def of_job(service: Service, system: str, job_id: str) -> list[Multiples]:
    """Return small charts of the hosts of a job during the job; none if hosts or lines are unknown."""
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


def peers(service: Service, view: HostView) -> Peers | None:
    """Return the hosts to compare a host with: of its job, else of its rack, else its neighbours by name."""
    if view.job is not None:
        system, job_id = job_of(view.job)
        names = service.reading(system).hosts_of_job(job_id)
        if len(names) > 1:
            near = _near(sorted(names), view.host)
            parts = _multiples(service, view.system, near, len(names))
            note = "on a common scale"
            return Peers(f"Hosts of job {view.job}", note, parts) if parts else None
    known = sorted(host for system, host in service.host_names(NAMES_MAX) if system == view.system)
    rack = service.rack(view.system, view.host)
    same_rack = [host for host in known if service.rack(view.system, host) == rack] if rack is not None else []
    if rack is not None and len(same_rack) > 1:
        parts = _multiples(service, view.system, _near(same_rack, view.host), len(same_rack))
        note = f"same rack{rack.known_by}, on a common scale"
        return Peers(f"Rack {rack.name}", note, parts) if parts else None
    near = _near([host for host in known if _stem(host) == _stem(view.host)], view.host)
    parts = _multiples(service, view.system, near, len(near)) if len(near) > 1 else []
    note = "on a common scale; the racks are unknown"
    return Peers("Neighbours by name", note, parts) if parts else None


def _stem(host: str) -> str:
    return host.rstrip(_DIGITS)


def _near(names: Sequence[str], host: str) -> list[str]:
    """Return a host with the hosts around it."""
    place = names.index(host) if host in names else 0
    first = max(0, min(place - NEIGHBOURS_MAX // 2, len(names) - NEIGHBOURS_MAX))
    return list(names[first : first + NEIGHBOURS_MAX])


def _multiples(
    service: Service, system: str, names: Sequence[str], total: int, time: _Time | None = None
) -> list[Multiples]:
    """Return pictures of hosts by resource, between two times; by default over all of their lines."""
    pairs = [(name, service.reading(system).host_lines(name)) for name in names]
    hosts = [_Host(name, lines, service.reading(system).host(name)) for name, lines in pairs if lines is not None]
    if not hosts:
        return []
    now_ms = max(parse_rfc3339(host.lines.as_of) for host in hosts)
    start_ms, end_ms = time or (None, None)
    last_ms = now_ms if end_ms is None else end_ms
    first_ms = last_ms - 24 * MINUTES_MS if start_ms is None else start_ms
    by_minute = last_ms - first_ms <= MINUTES_MS and first_ms >= now_ms - MINUTES_MS
    lines = [host.lines.hour if by_minute else host.lines.day for host in hosts]
    if start_ms is None:
        first_ms = max(first_ms, min(line.start_ms for line in lines))
    parts = (_part(hosts, lines, name, (first_ms, last_ms)) for name in _resources(hosts, lines))
    return [msgspec.structs.replace(part, more=total - len(part.hosts)) for part in parts if part is not None]


def _resources(hosts: Sequence[_Host], lines: Sequence[Line]) -> list[str]:
    """Return the resources to show, among those that most hosts have: abnormal ones first, then important ones."""
    odd = {entry.resource for host in hosts if host.view for entry in host.view.resources if entry.anomalous_since}
    names = sorted({name for line in lines for name in line.resources})
    count = {name: sum(name in line.resources for line in lines) for name in names}
    often = [name for name in names if 2 * count[name] > len(hosts)]
    rank = {name: place for place, name in enumerate(IMPORTANT)}
    often.sort(key=lambda name: (name not in odd, rank.get(name.partition(">")[0], len(rank)), name))
    return often[:RESOURCES_MAX]


def _part(hosts: Sequence[_Host], lines: Sequence[Line], resource: str, ends: tuple[int, int]) -> Multiples | None:
    rows = [
        (host, line, line.resources[resource])
        for host, line in zip(hosts, lines, strict=True)
        if resource in line.resources
    ]
    points = [_points(line, band, ends) for _, line, band in rows]
    top = max((high for row in points for _, _, _, high in row), default=None)
    if top is None:
        return None
    frame = (0.0, min(0.0, *(low for row in points for _, low, _, _ in row))), (1.0, top)
    shown = [_multiple(host, resource, row, frame, ends) for (host, _, _), row in zip(rows, points, strict=True) if row]
    shown.sort(key=lambda multiple: (not multiple.odd, multiple.host))
    title = resource_title(resource)
    when = span(rfc3339(ends[0]), rfc3339(ends[1]))
    return Multiples(resource, title, f"0 to {measured(resource, top)}", when, shown, 0)


_Point = tuple[int, float, float, float]


def _points(line: Line, band: Band, ends: tuple[int, int]) -> list[_Point]:
    """Return the points of a band between two times: time in ms, low, mean, high."""
    step_ms = line.step_s * 1000
    times = (line.start_ms + place * step_ms for place in range(len(band.mean)))
    columns = zip(times, band.low, band.mean, band.high, strict=True)
    return [
        (time, low, mean, high)
        for time, low, mean, high in columns
        if low is not None and mean is not None and high is not None and ends[0] - step_ms < time < ends[1]
    ]


def _multiple(
    host: _Host, resource: str, points: Sequence[_Point], frame: tuple[tuple[float, float], tuple[float, float]],
    ends: tuple[int, int],
) -> Multiple:  # fmt: skip
    width = max(ends[1] - ends[0], 1)
    across = [min(max((time - ends[0]) / width, 0.0), 1.0) for time, *_ in points]
    low = [(x, point[1]) for x, point in zip(across, points, strict=True)]
    high = [(x, point[3]) for x, point in zip(across, points, strict=True)]
    line = [(x, point[2]) for x, point in zip(across, points, strict=True)]
    mean = sum(point[2] for point in points) / len(points)
    title = f"{resource_title(resource)} of {host.name}"
    spark = Spark(title=title, area=[*high, *reversed(low)], lines=[("line", line)], frame=frame)
    since = (
        next((entry.anomalous_since for entry in host.view.resources if entry.resource == resource), None)
        if host.view
        else None
    )
    odd = f"anomalous since {since[11:16]}" if since else ""
    href = f"/hosts/{host_link(host.lines.system, host.name)}"
    return Multiple(host.name, href, sparkline(spark, *PICTURE), measured(resource, mean), odd)
