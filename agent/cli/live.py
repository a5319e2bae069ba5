"""`scalewatch status`, `job`, `hosts` and `app`: what a running agent knows, in a terminal."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from threading import Event
from typing import Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import quote

import click
import msgspec
from rich.console import Console, RenderableType
from rich.text import Text

from agent.cli.options import indented, json_option, table, token_option, with_options
from agent.cli.predict import token_of
from processors.contracts.errors import UnavailableError
from processors.contracts.hosts import HostView
from processors.contracts.names import duration
from processors.contracts.outputs import Alert, JobPrediction, Prediction
from processors.contracts.service import RecentRun
from sinks.terminal import STYLES, alerts_table, hosts_table, jobs_table
from sinks.web.formatting import printable, share, size, verdict_text, when
from sinks.web.views.alert_states import Alerts
from sinks.web.views.centre import CentreState

URL: Final = "SCALEWATCH_URL"
WATCH_S: Final = 5.0
ROWS_MAX: Final = 200
T = TypeVar("T")
Drawn = Iterable[RenderableType]
Answers = list[tuple[Any, Callable[[Any, int], Drawn]]]


class Rows(msgspec.Struct, Generic[T]):
    """A page of a list of the API."""

    total: int
    rows: list[T]


class OneJob(msgspec.Struct):
    """One job: its prediction while it runs, and its ended runs."""

    system: str
    job_id: str
    running: JobPrediction | None = None
    runs: list[RecentRun] = []


class Asking(NamedTuple):
    """A running agent: its address, and the token of the reader."""

    url: str
    token: str | None

    def get(self, resource: str, reply: type[T], **parameters: str | None) -> T:
        from agent.cli.asking import fetch  # noqa: PLC0415 - `alerts --replay` imports this module and needs no HTTP

        return fetch(self.url, resource, parameters, self.token, reply)


live_options = with_options(
    click.option("--url", envvar=URL, default="http://127.0.0.1:8080", show_default=True,
                 help=f"Address of the running agent; default: the environment variable {URL}, or else the demo's."),
    token_option,
    click.option("--watch", is_flag=True, help=f"Show it again every {WATCH_S:g} seconds until Ctrl-C."),
    json_option,
)  # fmt: skip


def show(look: Callable[[Asking], Answers], options: Mapping[str, Any]) -> None:
    """Print the answers that `look` returns, as text or JSON: once, or with --watch every WATCH_S."""
    asking, console = Asking(options["url"], token_of(options["token_file"])), Console()
    while True:
        answers = look(asking)
        if options["watch"]:
            console.clear()
        for answer, draw in answers:
            if options["as_json"]:
                click.echo(indented(answer))
            else:
                for part in draw(answer, console.width):
                    text = Text("\n".join(map(printable, part.splitlines()))) if isinstance(part, str) else part
                    console.print(text, soft_wrap=isinstance(part, str))
        if not options["watch"]:
            return
        Event().wait(WATCH_S)


@click.command
@live_options
def status(**options: Any) -> None:
    """Show what needs attention: the state of the centre, its open alerts, and the jobs that will probably hit their limit."""
    show(_status, options)


def _status(asking: Asking) -> Answers:
    return [
        (asking.get("centre", CentreState), _centre),
        *open_alerts(asking),
        (asking.get("jobs", Rows[JobPrediction], hits_limit="1"), _jobs),
    ]


def _centre(state: CentreState, _width: int) -> Drawn:
    styles = {**STYLES, "good": "green", "plain": ""}
    yield from (Text(printable(one.text), style=styles[one.kind]) for one in state.sentences)
    figures = {
        "running jobs": state.jobs, "applications": state.applications, "with a reliable prediction": state.reliable,
        "hosts": state.hosts.known, "abnormal hosts": state.hosts.abnormal,
    }  # fmt: skip
    yield ", ".join(f"{count:,} {name}" for name, count in figures.items())
    yield from (f"reads {source.topic}: {source.message}, {source.behind}" for source in state.sources)


def open_alerts(asking: Asking) -> Answers:
    return [(asking.get("alerts", Rows[Alert], status="open"), _alerts)]


def _alerts(found: Rows[Alert], width: int) -> Drawn:
    return alerts_table(Alerts(found.rows), width, ROWS_MAX) or ["No open alerts."]


@click.command
@click.argument("job")
@click.option("--system", default=None, help="System of the job; default: any.")
@live_options
def job(job: str, system: str | None, **options: Any) -> None:
    """Show JOB, the id of a running or ended job: its predicted end, its limit, and how its runs went."""
    show(partial(_job, job, system), options)


def _job(job_id: str, system: str | None, asking: Asking) -> Answers:
    if system is None:
        running = [one.system for one in asking.get("jobs", Rows[JobPrediction], job_id=job_id).rows]
        ended = [one.system for one in asking.get("runs", Rows[RecentRun], job_id=job_id).rows]
        system = next(iter(running + ended), None)
    if system is None:
        raise UnavailableError(f"The agent knows no job {job_id!r}.")
    return [(asking.get(f"jobs/{quote(system, safe='')}/{quote(job_id, safe='')}", OneJob), _one_job)]


def _one_job(found: OneJob, width: int) -> Drawn:
    yield from _jobs(Rows(1, [found.running]), width) if found.running is not None else ()
    head = ("ENDED", "APPLICATION", "SIZE", "STATE", "RUN TIME", "PREDICTED")
    runs = [
        (when(run.end_ms), run.application_id or "unknown", "-" if run.n is None else size(run.n), run.state,
         duration(run.run_time_s), duration(run.predicted.run_time_s) if run.predicted else "-")
        for run in found.runs
    ]  # fmt: skip
    yield table(head, runs) if runs else ""


@click.command
@click.argument("host", required=False)
@live_options
def hosts(host: str | None, **options: Any) -> None:
    """Show the hosts, those that need attention first; with HOST, only this one."""
    show(lambda asking: [(asking.get("hosts", Rows[HostView], host=host, limit=str(ROWS_MAX)), _hosts)], options)


def _hosts(found: Rows[HostView], width: int) -> Drawn:
    return hosts_table(found.rows, width, ROWS_MAX) or ["No such host sends telemetry."]


@click.command
@click.argument("application")
@click.option("--system", default=None, help="System of the application; default: any.")
@live_options
def app(application: str, system: str | None, **options: Any) -> None:
    """Show the predictions of APPLICATION: run times and bands by size, verdicts, and what to run next."""
    show(partial(_app, application, system), options)


def _app(application: str, system: str | None, asking: Asking) -> Answers:
    found = asking.get("applications", Rows[dict[str, Any]], application=application, system=system).rows
    if not found:
        raise UnavailableError(f"The agent has no model of {application!r}.")
    return [(asking.get(one["url"].removeprefix("/api/v1/"), Prediction), _application) for one in found]


def _application(found: Prediction, _width: int) -> Drawn:
    named = " ".join(filter(None, (found.application, found.input)))
    yield f"{named} on {found.system}: {verdict_text(found.reliability.verdict)}, {found.observations} runs"
    yield from found.reliability.advice
    head = (found.unit.upper(), "RUN TIME", "90 % BAND", "EFFICIENCY", "VERDICT")
    rows = [
        (size(point.n), duration(point.run_time_s), f"{duration(point.low_s)} to {duration(point.high_s)}",
         share(point.efficiency), verdict_text(point.reliability.verdict))
        for point in found.curve
    ]  # fmt: skip
    yield table(head, rows)


def _jobs(found: Rows[JobPrediction], width: int) -> Drawn:
    return jobs_table(found.rows, width, ROWS_MAX)
