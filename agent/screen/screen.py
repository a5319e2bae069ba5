"""The demo's screen: applications, alerts, hosts and running jobs in the terminal; plain lines where there is none."""

from collections.abc import Callable, Sequence
from threading import Event
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from agent.contracts.outputs import Alert, CurvePoint, Prediction
from agent.contracts.service import Service
from agent.http.lookup import Truth
from agent.http.troubles import Troubles
from agent.http.view import Row, change, error_against_truth, rows, worst_first
from agent.screen.panels import STYLES, alert_name, alerts_table, hosts_table, jobs_table, loaded_table, summary
from agent.screen.tables import APPLICATIONS_SHOWN, Column, Room, sparkline, table
from agent.words import duration, moment, power, printable, share, size

REFRESH_S: Final = 1.0
SUMMARY_EVERY: Final = 30  # refreshes between two plain summaries
HOSTS_LOOKED_AT: Final = 60
POWER: Final = "power"
_APPLICATION_COLUMNS: Final = (
    Column("application"), Column("runs", "right", 90), Column("curve", from_width=125), Column("at", "right"),
    Column("run time", "right"), Column("90 % band", from_width=100), Column(POWER, "right", 115), Column("verdict"),
    Column("error", "right"),
    Column("in band", "right", 110), Column("off truth", "right"),
)  # fmt: skip


def observed_end(entry: Prediction) -> CurvePoint | None:
    """Return the point of the curve at the largest size that was run, None where none was.

    >>> from types import SimpleNamespace
    >>> observed_end(SimpleNamespace(curve=())) is None
    True
    """
    observed = [point for point in entry.curve if point.source == "observed"]
    return max(observed, key=lambda point: point.n, default=None)


class Screen:
    """Shows a service until it is told to stop.

    `headline` gives the first line: what a demo wants to say of its time and pace. `truth` is what predictions are
    shown against, None where it is not known; `troubles` tells what went wrong. Names are shown as text: markup in them
    has no effect.

    >>> from io import StringIO
    >>> class Silent:
    ...     def predictions(self): return ()
    ...     def alerts(self): return ()
    ...     def jobs(self): return ()
    ...     def health(self): return ()
    ...     def hosts(self, limit): return ()
    >>> screen = Screen(Silent(), console=Console(file=StringIO(), width=80))
    >>> screen.lines()
    []
    """

    def __init__(
        self,
        service: Service,
        truth: Truth | None = None,
        headline: Callable[[], str] = str,
        troubles: Troubles = tuple,
        console: Console | None = None,
    ) -> None:
        self._service = service
        self._truth = truth
        self._headline = headline
        self._troubles = troubles
        self._console = console or Console()
        self._told: set[tuple[str, str, str]] = set()

    def run(self, stop: Event, refresh_s: float = REFRESH_S) -> None:
        """Show until `stop` is set: a live screen in a terminal, else a line for each change of an alert."""
        if self._console.is_terminal:
            self._run_live(stop, refresh_s)
        else:
            self._run_plain(stop, refresh_s)

    def _run_live(self, stop: Event, refresh_s: float) -> None:
        with Live(self.render(), console=self._console, auto_refresh=False, screen=True) as live:
            while not stop.wait(refresh_s):
                live.update(self.render(), refresh=True)

    def _run_plain(self, stop: Event, refresh_s: float) -> None:
        refreshes = 0
        while True:
            told = self.lines() + (self.summary() if refreshes % SUMMARY_EVERY == 0 else [])
            for line in told:
                self._console.print(line, markup=False, highlight=False, soft_wrap=True)
            refreshes += 1
            if stop.wait(refresh_s):
                return

    def render(self) -> RenderableType:
        """Return the whole screen as it is now."""
        alerts = self._service.alerts()
        predictions = self._service.predictions()
        room = Room.of(self._console.height)
        shown = rows(predictions, alerts, self._truth, room.applications)
        parts: list[RenderableType] = [Text(self._headline(), style="bold")]
        parts += [
            Text(f"The {role.role} is not ready: {'; '.join(role.reasons)}", style="yellow")
            for role in self._service.health()
            if not role.ready
        ]
        parts += [Text(said, style="bold red" if grave else "yellow") for said, grave in self._troubles()]
        width, jobs = self._console.width, self._service.jobs()
        parts += [self._applications(shown, len(predictions)), *alerts_table(alerts, width, room.alerts)]
        parts += hosts_table(self._service.hosts(HOSTS_LOOKED_AT) if room.hosts else (), width, room.hosts)
        parts += [*loaded_table(jobs, width, room.loaded), *jobs_table(jobs, width, room.jobs)]
        return Group(*parts)

    def lines(self) -> list[str]:
        """Return a line for each alert that changed its status since the last call, the oldest first."""
        alerts = self._service.alerts()
        changed = [alert for alert in alerts if _change(alert) not in self._told]
        self._told = {_change(alert) for alert in alerts}  # bounded as the service's list is
        return [_alert_line(alert) for alert in sorted(changed, key=lambda alert: alert.time)]

    def summary(self) -> list[str]:
        """Return the state in plain lines: one for each application, those that need attention first."""
        shown = rows(self._service.predictions(), self._service.alerts(), self._truth, APPLICATIONS_SHOWN)
        head = self._headline()
        said = [trouble.sentence for trouble in self._troubles()]
        return [*([head] if head else []), *said, *(self._summary_line(row) for row in shown)]

    def _summary_line(self, row: Row) -> str:
        entry, point = row.prediction, observed_end(row.prediction)
        parts = [f"{entry.observations} runs", row.verdict]
        if point is not None:
            parts.append(f"{duration(point.run_time_s)} at {size(point.n)} {entry.unit}")
        error = error_against_truth(entry, self._truth)
        if error is not None:
            parts.append(f"{share(error)} off the truth")
        return f"{_name(entry)}: {', '.join(parts)}"

    def _applications(self, shown: Sequence[Row], total: int) -> Table:
        left_out = total - len(shown)
        title = f"Applications ({left_out} more on the page)" if left_out > 0 else "Applications"
        cells = [self._cells(row) for row in shown]
        hidden = {"off truth"} if self._truth is None else set()
        if all(row.prediction.power is None for row in shown):
            hidden.add(POWER)
        return table(_APPLICATION_COLUMNS, cells, self._console.width, title, frozenset(hidden))

    def _cells(self, row: Row) -> list[Text]:
        entry, point = row.prediction, observed_end(row.prediction)
        worst = worst_first(row.alerts)
        true_s = self._truth(row.id, point.n) if self._truth and point else None
        return [
            Text(_name(entry), style=STYLES[worst[0].severity] if worst else ""),
            Text(str(entry.observations)),
            Text(sparkline([point.run_time_s for point in entry.curve]), style="blue"),
            Text(size(point.n) if point else "-"),
            Text(duration(point.run_time_s) if point else "-"),
            Text(_relative_band(point) if point else "-"),
            Text(power(point.power_w) if point else "-"),
            Text(row.verdict, style="green" if row.verdict == "reliable" else ""),
            Text(share(entry.quality.median_error)),
            Text(share(entry.quality.coverage_90)),
            Text(change(point.run_time_s / true_s - 1) if point and true_s else "-"),
        ]


def _relative_band(point: CurvePoint) -> str:
    return f"{change(point.low_s / point.run_time_s - 1)} {change(point.high_s / point.run_time_s - 1)}"


def _name(entry: Prediction) -> str:
    return printable(f"{entry.application} {entry.input}".rstrip())


def _change(alert: Alert) -> tuple[str, str, str]:
    return alert.fingerprint, alert.status, alert.starts  # an alert that came again is there twice: open and resolved


def _alert_line(alert: Alert) -> str:
    return f"{moment(alert.time)} {alert.status} {alert.severity} {alert_name(alert)}: {summary(alert)}"
