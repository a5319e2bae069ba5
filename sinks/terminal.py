"""The demo's screen: applications, alerts, hosts and running jobs in a terminal, or plain lines if there is no terminal."""

from collections.abc import Callable, Sequence
from itertools import count
from math import log
from threading import Event
from typing import Final, Literal, NamedTuple

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from processors.contracts.hosts import HostView, ResourceView, quantile
from processors.contracts.load import UnderLoad
from processors.contracts.names import measured
from processors.contracts.outputs import RELIABLE, Alert, CurvePoint, JobPrediction, Prediction
from processors.contracts.service import Service
from sinks.web.formatting import duration, moment, power, printable, share, size, verdict_text
from sinks.web.queries import Truth
from sinks.web.views.agent import Faults
from sinks.web.views.alert_states import Alerts
from sinks.web.views.overview import ApplicationRow, change, error_against_truth, rows

BLOCKS: Final = "▁▂▃▄▅▆▇█"
APPLICATIONS_SHOWN: Final = 16
JOBS_SHOWN: Final = 8
ALERTS_SHOWN: Final = 6
HOSTS_SHOWN: Final = 6
LOADED_SHOWN: Final = 3


class Room(NamedTuple):
    """The number of rows of each table on a terminal, so that all tables fit."""

    applications: int
    alerts: int
    jobs: int
    hosts: int
    loaded: int

    @classmethod
    def of(cls, height: int) -> "Room":
        """Return the rows of each table for a terminal with `height` lines; an alert may need two lines."""
        hosts, loaded = (0, 0) if height < 36 else (min(height // 12, HOSTS_SHOWN), min(height // 18, LOADED_SHOWN))
        rest = max(height - 8 - (hosts + loaded + 4 if hosts else 0), 8)
        alerts, jobs = min(rest // 8, ALERTS_SHOWN), min(rest // 4, JOBS_SHOWN)
        return cls(min(rest - 2 * alerts - jobs, APPLICATIONS_SHOWN), alerts, jobs, hosts, loaded)


class TerminalColumn(NamedTuple):
    """A column of a table; it is hidden if the terminal is narrower than `from_width`."""

    name: str
    justify: Literal["left", "right"] = "left"
    from_width: int = 0


STYLES: Final = {"critical": "bold red", "warning": "yellow", "info": "cyan"}
_ALERT_COLUMNS: Final = (
    TerminalColumn("since", from_width=100),
    TerminalColumn("alert"),
    TerminalColumn("status"),
    TerminalColumn("summary"),
)
_JOB_COLUMNS: Final = (
    TerminalColumn("job"), TerminalColumn("application"), TerminalColumn("size", "right"), TerminalColumn("started", from_width=110),
    TerminalColumn("predicted end"), TerminalColumn("earliest to latest", from_width=90), TerminalColumn("chance to hit limit", "right"),
)  # fmt: skip
_HOST_COLUMNS: Final = (
    TerminalColumn("host"), TerminalColumn("job", from_width=120), TerminalColumn("resource"), TerminalColumn("5 min"), TerminalColumn("mean", "right"),
    TerminalColumn("90 % of samples", from_width=90), TerminalColumn("variation"), TerminalColumn("next", "right", 100), TerminalColumn("anomaly"),
)  # fmt: skip
_LOADED_COLUMNS: Final = (
    TerminalColumn("job"), TerminalColumn("application"), TerminalColumn("size", "right", 90), TerminalColumn("hosts", from_width=120),
    TerminalColumn("by its curve", "right"), TerminalColumn("under load", "right"), TerminalColumn("90 %", from_width=90),
    TerminalColumn("histogram", from_width=100), TerminalColumn("variation"),
)  # fmt: skip
_VARIATIONS: Final = (None, "low", "medium", "high")
_VARIATION_STYLES: Final = {"high": "yellow", "medium": "", "low": "green"}
REFRESH_S: Final = 1.0
SUMMARY_EVERY: Final = 30  # number of refreshes between two plain summaries
HOSTS_LOOKED_AT: Final = 60
POWER: Final = "power"
_APPLICATION_COLUMNS: Final = (
    TerminalColumn("application"), TerminalColumn("runs", "right", 90), TerminalColumn("curve", from_width=125), TerminalColumn("at", "right"),
    TerminalColumn("run time", "right"), TerminalColumn("90 % band", from_width=100), TerminalColumn(POWER, "right", 115), TerminalColumn("verdict"),
    TerminalColumn("error", "right"),
    TerminalColumn("in band", "right", 110), TerminalColumn("off truth", "right"),
)  # fmt: skip


def sparkline(values: Sequence[float]) -> str:
    """Return positive values as a row of block characters on a logarithmic scale."""
    logs = [log(value) for value in values if 0 < value < 1e300]
    if not logs:
        return ""
    low, high = min(logs), max(logs)
    if high - low < 1e-9:
        return BLOCKS[3] * len(logs)
    return "".join(BLOCKS[round((value - low) / (high - low) * (len(BLOCKS) - 1))] for value in logs)


def heights(shares: Sequence[float]) -> str:
    top = max(shares, default=0.0)
    return "".join(BLOCKS[round(value / top * (len(BLOCKS) - 1))] for value in shares) if top > 0 else ""


def table(
    columns: Sequence[TerminalColumn],
    rows_of_cells: Sequence[Sequence[Text]],
    width: int,
    title: str,
    hidden: frozenset[str] = frozenset(),
) -> Table:
    shown = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    retained = [
        index for index, column in enumerate(columns) if column.from_width <= width and column.name not in hidden
    ]
    for index in retained:
        shown.add_column(columns[index].name, justify=columns[index].justify, no_wrap=columns[index].name != "summary")
    for cells in rows_of_cells:
        shown.add_row(*(cells[index] for index in retained))
    return shown


def alerts_table(alerts: Alerts, width: int, rows_max: int) -> list[Table]:
    cells = []
    for alert in alerts.in_order()[:rows_max]:
        state = alerts.state(alert)
        style = STYLES[alert.severity] if state == "firing" else "dim"
        text = (moment(alert.starts), printable(alert.name), state, summary(alert))
        cells.append([Text(word, style=style) for word in text])
    return [table(_ALERT_COLUMNS, cells, width, "Alerts")] if cells else []


def jobs_table(jobs: Sequence[JobPrediction], width: int, rows_max: int) -> list[Table]:
    title = "Running jobs" if len(jobs) <= rows_max else f"Running jobs ({rows_max} of {len(jobs)})"
    newest = sorted(jobs, key=lambda job: job.start, reverse=True)[:rows_max]
    return [table(_JOB_COLUMNS, [_job_cells(job) for job in newest], width, title)] if newest else []


def hosts_table(views: Sequence[HostView], width: int, rows_max: int) -> list[Table]:
    """Return the table of hosts, each with its most abnormal resource; empty if there are no hosts.

    The first of `views` stays on top. Abnormal hosts follow, then all others in the order of `views`.
    """
    text = [(view, max(view.resources, key=_is_anomalous)) for view in views if view.resources]
    shown = [*text[:1], *sorted(text[1:], key=lambda pair: _is_anomalous(pair[1]), reverse=True)][:rows_max]
    cells = [_host_cells(view, entry) for view, entry in shown]
    return [table(_HOST_COLUMNS, cells, width, "Hosts")] if cells else []


def loaded_table(jobs: Sequence[JobPrediction], width: int, rows_max: int) -> list[Table]:
    pairs = [(job, job.under_load) for job in sorted(jobs, key=lambda job: job.start, reverse=True)]
    shown = [(job, load) for job, load in pairs if load is not None and load.histogram is not None][:rows_max]
    cells = [_loaded_cells(job, load) for job, load in shown]
    return [table(_LOADED_COLUMNS, cells, width, "Run times under the load of their hosts")] if cells else []


def summary(alert: Alert) -> str:
    return printable(alert.annotations.get("summary", ""))


def _job_cells(job: JobPrediction) -> list[Text]:
    return [
        Text(printable(job.job_id)),
        Text(printable(job.application or "unknown")),
        Text("-" if job.n is None else size(job.n)),
        Text(moment(job.start)),
        Text(moment(job.end)),
        Text(f"{moment(job.end_low)[11:]} to {moment(job.end_high)[11:]}" if job.known else "-"),
        Text(share(job.probability_exceeds_limit), style=_limit_style(job.probability_exceeds_limit)),
    ]


def _is_anomalous(entry: ResourceView) -> tuple[bool, int]:
    return entry.anomalous_since is not None, _VARIATIONS.index(entry.variation)


def _host_cells(view: HostView, entry: ResourceView) -> list[Text]:
    window, forecast = entry.window, entry.forecast
    low, high = (measured(entry.resource, quantile(window, part)) for part in (0.05, 0.95))
    style = "dim" if window.stale else STYLES["warning"] if entry.anomalous_since else ""
    return [
        Text(printable(view.host), style=style),
        Text(printable(view.job or "-")),
        Text(printable(entry.resource)),
        Text(heights(window.shares), style="blue"),
        Text(measured(entry.resource, window.mean)),
        Text(f"{low} to {high}"),
        Text(entry.variation or "-", style=_VARIATION_STYLES.get(entry.variation or "", "")),
        Text(measured(entry.resource, forecast.value) if forecast else "-"),
        Text(_anomaly(entry), style=style),
    ]


def _anomaly(entry: ResourceView) -> str:
    if entry.anomalous_since:
        return f"since {moment(entry.anomalous_since)[11:]}"
    return "-" if entry.score is None else f"{entry.score:.2f}"


def _loaded_cells(job: JobPrediction, load: UnderLoad) -> list[Text]:
    ends = (load.q05_s, load.q95_s)
    return [
        Text(printable(job.job_id)),
        Text(printable(job.application or "unknown")),
        Text("-" if job.n is None else size(job.n)),
        Text(printable(load.hosts)),
        Text("-" if job.run_time_s is None else duration(job.run_time_s)),
        Text("-" if load.q50_s is None else duration(load.q50_s)),
        Text(" to ".join("-" if end_s is None else duration(end_s) for end_s in ends)),
        Text(heights(load.histogram.probabilities if load.histogram else ()), style="blue"),
        Text(load.variation or "-", style=_VARIATION_STYLES.get(load.variation or "", "")),
    ]


def _limit_style(probability: float | None) -> str:
    return "bold red" if probability is not None and probability > 0.5 else ""


class Screen:
    """Shows a service until it is stopped.

    `headline` returns the first line, such as time and speed of a demo. `truth` returns the simulated truth, None if unknown;
    `faults` returns the troubles since the start. Names from outside appear without markup.
    """

    def __init__(
        self,
        service: Service,
        truth: Truth | None = None,
        headline: Callable[[], str] = str,
        faults: Faults = tuple,
        console: Console | None = None,
    ) -> None:
        self._service = service
        self._truth = truth
        self._headline = headline
        self._faults = faults
        self._console = console or Console()
        self._reported: set[tuple[str, str, str]] = set()

    def run(self, stop: Event, refresh_s: float = REFRESH_S) -> None:
        """Show the service until `stop` is set: a live screen in a terminal, else one line per change of an alert."""
        if self._console.is_terminal:
            with Live(self.render(), console=self._console, auto_refresh=False, screen=True) as live:
                while not stop.wait(refresh_s):
                    live.update(self.render(), refresh=True)
            return
        for refreshes in count():
            shown = self.lines() + (self.summary() if refreshes % SUMMARY_EVERY == 0 else [])
            for line in shown:
                self._console.print(line, markup=False, highlight=False, soft_wrap=True)
            if stop.wait(refresh_s):
                return

    def render(self) -> RenderableType:
        alerts = Alerts.of(self._service)
        predictions = self._service.predictions()
        room = Room.of(self._console.height)
        shown = rows(predictions, alerts.open, self._truth, room.applications)
        parts: list[RenderableType] = [Text(self._headline(), style="bold")]
        parts += [
            Text(f"The {role.role} is not ready: {'; '.join(role.reasons)}", style="yellow")
            for role in self._service.health()
            if not role.ready
        ]
        parts += [Text(fault.message, style="bold red" if fault.grave else "yellow") for fault in self._faults()]
        width, jobs = self._console.width, self._service.jobs()
        parts += [self._applications(shown, len(predictions)), *alerts_table(alerts, width, room.alerts)]
        parts += hosts_table(self._service.hosts(HOSTS_LOOKED_AT) if room.hosts else (), width, room.hosts)
        parts += [*loaded_table(jobs, width, room.loaded), *jobs_table(jobs, width, room.jobs)]
        return Group(*parts)

    def lines(self) -> list[str]:
        """Return a line for each alert whose status changed since the last call, oldest first."""
        alerts = self._service.alerts()
        changed = [alert for alert in alerts if _change(alert) not in self._reported]
        self._reported = {_change(alert) for alert in alerts}  # bounded, because the service's list of alerts is
        return [_alert_line(alert) for alert in sorted(changed, key=lambda alert: alert.time)]

    def summary(self) -> list[str]:
        is_open = Alerts.of(self._service).open
        shown = rows(self._service.predictions(), is_open, self._truth, APPLICATIONS_SHOWN)
        head = self._headline()
        text = [fault.message for fault in self._faults()]
        return [*([head] if head else []), *text, *(self._summary_line(row) for row in shown)]

    def _summary_line(self, row: ApplicationRow) -> str:
        entry, point = row.prediction, row.largest_observed
        parts = [f"{entry.observations} runs", verdict_text(entry.reliability.verdict)]
        if point is not None:
            parts.append(f"{duration(point.run_time_s)} at {size(point.n)} {entry.unit}")
        error = error_against_truth(entry, self._truth)
        if error is not None:
            parts.append(f"error against truth {share(error)}")
        return f"{_name(entry)}: {', '.join(parts)}"

    def _applications(self, shown: Sequence[ApplicationRow], total: int) -> Table:
        left_out = total - len(shown)
        title = f"Applications ({left_out} more on the page)" if left_out > 0 else "Applications"
        cells = [self._cells(row) for row in shown]
        hidden = {"off truth"} if self._truth is None else set()
        if all(row.prediction.power is None for row in shown):
            hidden.add(POWER)
        return table(_APPLICATION_COLUMNS, cells, self._console.width, title, frozenset(hidden))

    def _cells(self, row: ApplicationRow) -> list[Text]:
        entry, point = row.prediction, row.largest_observed
        verdict = entry.reliability.verdict
        true_s = self._truth(row.id, point.n) if self._truth and point else None
        return [
            Text(_name(entry), style=STYLES[row.alerts[0].severity] if row.alerts else ""),
            Text(str(entry.observations)),
            Text(sparkline([point.run_time_s for point in entry.curve]), style="blue"),
            Text(size(point.n) if point else "-"),
            Text(duration(point.run_time_s) if point else "-"),
            Text(_relative_band(point) if point else "-"),
            Text(power(point.power_w) if point else "-"),
            Text(verdict_text(verdict), style="green" if verdict == RELIABLE else ""),
            Text(share(entry.quality.median_error)),
            Text(share(entry.quality.coverage_90)),
            Text(change(point.run_time_s / true_s - 1) if point and true_s else "-"),
        ]


def _relative_band(point: CurvePoint) -> str:
    return f"{change(point.low_s / point.run_time_s - 1)} {change(point.high_s / point.run_time_s - 1)}"


def _name(entry: Prediction) -> str:
    return printable(f"{entry.application} {entry.input}".rstrip())


def _change(alert: Alert) -> tuple[str, str, str]:
    return alert.fingerprint, alert.status, alert.starts  # an alert that fires again is listed as open and as resolved


def _alert_line(alert: Alert) -> str:
    return f"{moment(alert.time)} {alert.status} {alert.severity} {printable(alert.name)}: {summary(alert)}"
