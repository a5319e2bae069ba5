"""What the screen shows beside the applications: alerts, running jobs, hosts, and run times under their load."""

from collections.abc import Sequence
from typing import Final

from rich.table import Table
from rich.text import Text

from agent.contracts.hosts import HostView, ResourceView, quantile
from agent.contracts.outputs import Alert, JobPrediction
from agent.contracts.under_load import UnderLoad
from agent.contracts.units import measured
from agent.http.view import worst_first
from agent.screen.tables import Column, heights, table
from agent.words import duration, moment, printable, share, size

STYLES: Final = {"critical": "bold red", "warning": "yellow", "info": "cyan"}
_ALERT_COLUMNS: Final = (Column("since", from_width=100), Column("alert"), Column("status"), Column("what"))
_JOB_COLUMNS: Final = (
    Column("job"), Column("application"), Column("size", "right"), Column("started", from_width=110),
    Column("predicted end"), Column("earliest to latest", from_width=90), Column("exceeds limit", "right"),
)  # fmt: skip
_HOST_COLUMNS: Final = (
    Column("host"), Column("job", from_width=120), Column("resource"), Column("5 min"), Column("mean", "right"),
    Column("90 % of samples", from_width=90), Column("variation"), Column("next", "right", 100), Column("anomaly"),
)  # fmt: skip
_LOADED_COLUMNS: Final = (
    Column("job"), Column("application"), Column("size", "right", 90), Column("hosts", from_width=120),
    Column("by its curve", "right"), Column("under load", "right"), Column("90 %", from_width=90),
    Column("histogram", from_width=100), Column("variation"),
)  # fmt: skip
_VARIATIONS: Final = (None, "low", "medium", "high")
_VARIATION_STYLES: Final = {"high": "yellow", "medium": "", "low": "green"}


def alerts_table(alerts: Sequence[Alert], width: int, rows_max: int) -> list[Table]:
    """Return the table of alerts, open ones first; nothing where there is none.

    >>> alerts_table([], 80, 6)
    []
    """
    shown = [*worst_first(alerts), *(alert for alert in alerts if alert.status == "resolved")][:rows_max]
    cells = []
    for alert in shown:
        style = "dim" if alert.status == "resolved" else STYLES[alert.severity]
        words = (moment(alert.starts), alert_name(alert), alert.status, summary(alert))
        cells.append([Text(word, style=style) for word in words])
    return [table(_ALERT_COLUMNS, cells, width, "Alerts")] if cells else []


def jobs_table(jobs: Sequence[JobPrediction], width: int, rows_max: int) -> list[Table]:
    """Return the table of running jobs, those that started last first; nothing where there is none.

    >>> jobs_table([], 80, 6)
    []
    """
    title = "Running jobs" if len(jobs) <= rows_max else f"Running jobs ({rows_max} of {len(jobs)})"
    newest = sorted(jobs, key=lambda job: job.start, reverse=True)[:rows_max]
    return [table(_JOB_COLUMNS, [_job_cells(job) for job in newest], width, title)] if newest else []


def hosts_table(views: Sequence[HostView], width: int, rows_max: int) -> list[Table]:
    """Return the table of hosts, of each the resource that tells most; nothing without hosts.

    The first host stays first. Then come those with anomalies, and those whose load changes most.

    >>> hosts_table([HostView("exa", "nid1", "")], 80, 6)
    []
    """
    told = [(view, max(view.resources, key=_tells)) for view in views if view.resources]
    shown = [*told[:1], *sorted(told[1:], key=lambda pair: _tells(pair[1]), reverse=True)][:rows_max]
    cells = [_host_cells(view, entry) for view, entry in shown]
    return [table(_HOST_COLUMNS, cells, width, "Hosts")] if cells else []


def loaded_table(jobs: Sequence[JobPrediction], width: int, rows_max: int) -> list[Table]:
    """Return the table of the jobs that started last of those whose hosts' load tells their run time.

    >>> loaded_table([], 80, 3)
    []
    """
    pairs = [(job, job.under_load) for job in sorted(jobs, key=lambda job: job.start, reverse=True)]
    told = [(job, load) for job, load in pairs if load is not None and load.histogram is not None][:rows_max]
    cells = [_loaded_cells(job, load) for job, load in told]
    return [table(_LOADED_COLUMNS, cells, width, "Run times under the load of their hosts")] if cells else []


def summary(alert: Alert) -> str:
    """Return what an alert says, in one sentence.

    >>> from types import SimpleNamespace
    >>> summary(SimpleNamespace(annotations={"summary": "It is slow."}))
    'It is slow.'
    """
    return printable(alert.annotations.get("summary", ""))


def alert_name(alert: Alert) -> str:
    """Return the name of an alert.

    >>> from types import SimpleNamespace
    >>> alert_name(SimpleNamespace(labels={}, kind="anomaly"))
    'anomaly'
    """
    return printable(alert.labels.get("alertname", alert.kind))


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


def _tells(entry: ResourceView) -> tuple[bool, int]:
    """Return how much a resource has to say: what is anomalous first, then by its class of variation."""
    return entry.anomalous_since is not None, _VARIATIONS.index(entry.variation)


def _host_cells(view: HostView, entry: ResourceView) -> list[Text]:
    window, outlook = entry.window, entry.outlook
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
        Text(measured(entry.resource, outlook.value) if outlook else "-"),
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
