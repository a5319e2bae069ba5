"""Lines of a host over time: a chart with a band for each resource, with alerts and jobs marked, all over the same time."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from math import isfinite
from typing import Final, Literal
from urllib.parse import urlencode

import msgspec

from processors.contracts.errors import InvalidInputError
from processors.contracts.hosts import Band, HostLines, HostView, Line
from processors.contracts.names import measured, parse_rfc3339, resource_title, rfc3339, scale_of
from processors.contracts.nodes import names_host
from processors.contracts.outputs import Alert, RecentRun
from processors.contracts.service import Service
from sinks.web.charts import Chart, level_axis, time_axis
from sinks.web.filters import key_of
from sinks.web.formatting import moment
from sinks.web.views.hosts import job_of, most_important_first
from sinks.web.views.jobs import job_link

Range = Literal["day", "hour"]
HOUR: Final = "hour"
CHARTS_MAX: Final = 8  # of one page; the others are a click away
JOBS_MAX: Final = 200
ROWS_MAX: Final = 30  # of a table behind a chart
HOUR_MS: Final = 3_600_000
RATIO: Final = 0.3


class Mark(msgspec.Struct, frozen=True):
    """What was there from one time to another: an alert or a job. `label` is drawn, `note` says more."""

    kind: Literal["alert", "job"]
    start_ms: int
    end_ms: int
    name: str
    label: str
    note: str
    href: str
    when: str


class LineRow(msgspec.Struct, frozen=True):
    """A row of the table behind a line: a time, and the mean between the ends of the band as text."""

    when: str
    mean: str
    low: str
    high: str


class LineChart(msgspec.Struct, frozen=True):
    """One resource over time. The script draws `columns`, in the `unit` that is `factor` of the resource's own."""

    resource: str
    title: str
    chart: Chart
    columns: dict[str, object]
    rows: Sequence[LineRow]


class LinesView(msgspec.Struct, frozen=True, kw_only=True):
    """The lines of a host: charts by resource, what else there is, the marks of all, and how long it goes back."""

    range: Range
    title: str
    band: str
    charts: dict[str, LineChart]
    marks: Sequence[Mark]
    from_ms: int
    until_ms: int

    @property
    def alerts(self) -> list[Mark]:
        """The alerts among the marks."""
        return [mark for mark in self.marks if mark.kind == "alert"]

    @property
    def jobs(self) -> list[Mark]:
        """The jobs among the marks."""
        return [mark for mark in self.marks if mark.kind == "job"]


class References(msgspec.Struct, frozen=True):
    """Links of a host's page to itself: the same with another time, or with another resource first."""

    chosen: dict[str, str]

    def range(self, name: str) -> str:
        """Return the address of the page over another time."""
        return self._with(range=name)

    def resource(self, name: str) -> str:
        """Return the address of the page with a resource first."""
        return self._with(resource=name) + "#lines"

    def _with(self, **other: str) -> str:
        return f"?{urlencode({name: value for name, value in (self.chosen | other).items() if value})}"


def shown_first(view: HostView, chosen: str) -> tuple[list[str], list[str]]:
    """Return the resources that have a chart, the odd and the important ones first, and the others, by their names."""
    ordered = [entry.resource for entry in sorted(view.resources, key=most_important_first)]
    ordered.sort(key=lambda resource: resource != chosen)
    return ordered[:CHARTS_MAX], sorted(ordered[CHARTS_MAX:])


def lines_view(
    service: Service, view: HostView, alerts: Sequence[Alert], resources: Sequence[str], chosen: str
) -> LinesView | None:
    """Return the lines of these resources of a host; None where nothing is known of them over time."""
    found = service.reading(view.system).host_lines(view.host)
    if found is None or (not found.hour.resources and not found.day.resources):
        return None
    is_hour = chosen == HOUR or not found.day.resources
    line = found.hour if is_hour else found.day
    from_ms, until_ms = _ends(found, line, is_hour=is_hour)
    charts = {
        name: _chart(view, name, line, line.resources[name], (from_ms, until_ms))
        for name in resources
        if name in line.resources
    }
    marks = [*alert_marks(alerts, from_ms, until_ms), *_job_marks(service, view, from_ms, until_ms)]
    return LinesView(
        range="hour" if is_hour else "day",
        title="The last hour" if is_hour else f"The last {round((until_ms - from_ms) / HOUR_MS)} hours",
        band="least to largest sample of a minute" if is_hour else "5 % to 95 % of the samples of five minutes",
        charts=charts,
        marks=marks,
        from_ms=from_ms,
        until_ms=until_ms,
    )


def _ends(found: HostLines, line: Line, *, is_hour: bool) -> tuple[int, int]:
    """Return from when until when is shown: up to now, at least an hour."""
    until_ms = parse_rfc3339(found.as_of)
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
    """Yield rows of a table, so many points to a row that it stays short: means of their means, and the widest ends."""
    points = len(band.mean)
    each = next((count for count in (1, 3, 6, 12, 36) if points <= count * ROWS_MAX), 72)
    written = partial(measured, resource)
    first = -(line.start_ms // (line.step_s * 1000)) % each
    for start in (0, *range(first or each, points, each)):
        last = min(points, first if start == 0 and first else start + each)
        means = [value for value in band.mean[start:last] if value is not None]
        if not means:
            continue
        low = min(value for value in band.low[start:last] if value is not None)
        high = max(value for value in band.high[start:last] if value is not None)
        when = moment(rfc3339(line.start_ms + start * line.step_s * 1000))
        yield LineRow(when, written(sum(means) / len(means)), written(low), written(high))


def alert_marks(alerts: Sequence[Alert], from_ms: int, until_ms: int) -> Iterator[Mark]:
    """Yield alerts that were not only pending, as far as they lie between two times."""
    for alert in alerts:
        start_ms, end_ms = _ms(alert.starts, until_ms), _ms(alert.ends, until_ms)
        if alert.status == "pending" or end_ms < from_ms or start_ms > until_ms:
            continue
        name = alert.labels.get("alertname", alert.kind)
        when = f"{moment(alert.starts)} to {moment(alert.ends)[11:]}" if alert.ends else f"since {moment(alert.starts)}"
        summary = alert.annotations.get("summary", name)
        yield Mark(
            "alert",
            start_ms,
            end_ms,
            name,
            f"{moment(alert.starts)[11:]} {name}",
            summary,
            f"/alerts/{alert.fingerprint}",
            when,
        )


def _job_marks(service: Service, view: HostView, from_ms: int, until_ms: int) -> Iterator[Mark]:
    """Yield the jobs that ran on a host, as far as the reader may know of them, the newest first."""
    system, job_id = job_of(view.job) if view.job else ("", "")
    running = service.job(system, job_id) if view.job else None
    if running is not None:
        label = f"{job_id} {running.application or ''}".strip()
        when = f"since {moment(running.start)}"
        yield Mark("job", _ms(running.start, until_ms), until_ms, label, label, label, job_link(system, job_id), when)
    on_host = (run for run in service.recent_runs() if _ran_here(run, view, from_ms))
    for run, _ in zip(on_host, range(JOBS_MAX), strict=False):
        label = f"{run.job_id} {key_of(run.application_id).application}".strip()
        when = f"{moment(rfc3339(run.start_ms))} to {moment(rfc3339(run.end_ms))[11:]}"
        yield Mark("job", run.start_ms, run.end_ms, label, label, label, job_link(run.system, run.job_id), when)


def _ran_here(run: RecentRun, view: HostView, from_ms: int) -> bool:
    return run.end_ms > from_ms and run.system == view.system and names_host(run.hosts, view.host)


def _ms(time: str | None, otherwise: int) -> int:
    with suppress(InvalidInputError):
        return otherwise if time is None else parse_rfc3339(time)
    return otherwise
