"""`scalewatch backtest`: what the agent would have said of past jobs, scored."""

from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress, TaskID

from agent.app import compose
from agent.app.backtest import backtest, candidates, read
from agent.backtest.page import page, summary
from agent.backtest.report import Report, encoded
from agent.cli.errors import FAILED
from agent.cli.options import config_option, load_or_default, progress, timezone_option
from agent.config.changes import settings_of
from processors.contracts.errors import InvalidInputError
from processors.contracts.names import parse_rfc3339


def _moment_ms(_context: click.Context, _parameter: click.Parameter, value: str | None) -> int | None:
    try:
        return None if value is None else parse_rfc3339(value)
    except InvalidInputError as error:
        raise click.BadParameter(f"{error} Write it as 2026-01-31 or 2026-01-31T12:00:00Z.") from None


@click.command
@click.argument("files", nargs=-1, required=True)
@click.option("--out", "folder", type=click.Path(file_okay=False, path_type=Path), required=True,
              help="Folder for report.html and report.json.")  # fmt: skip
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE",
              help="Also try the configuration with this key changed; may be repeated, each is a variant of its own. "
              "Semicolons join keys of one variant. Keys of alerts, run_time, jobs, profiles and identify, as in the file.")  # fmt: skip
@click.option("--since", callback=_moment_ms, metavar="TIME",
              help="Score runs that start from here on; what came before is only learned.")  # fmt: skip
@click.option("--until", callback=_moment_ms, metavar="TIME", help="Leave out what happened from here on.")
@click.option("--top", default=12, show_default=True, type=click.IntRange(1, 1000), metavar="N",
              help="How many applications have rows and curves of their own.")  # fmt: skip
@config_option
@timezone_option
@click.option("--quiet", is_flag=True, help="No progress bar and no table.")
def command(**given: Any) -> None:
    """Score what the agent would have said about the jobs in FILES, and count the alerts it would have raised.

    Each job is predicted when it starts, from the jobs that had ended by then, and scored when it ends: errors, bias
    and coverage by application and by how far a size lay beyond those known, against the users' requested times and
    their last jobs. Takes every file and folder that replay takes; - is standard input.

    \b
    scalewatch backtest jobs.txt --out results
    scalewatch backtest log.swf.gz --out results --since 2026-03-01 \\
      --set alerts.strange_run.factor_min=1.5 --set "alerts.slow_size.for_s=0; alerts.slow_size.deviation_min=0.3"

    The report, DIR/report.html, opens without a network; DIR/report.json holds the same figures (schema
    scalewatch.backtest/1, see describe schemas). The jobs are held in memory, the figures take the same room for any
    number of them. The exit code is 1 where the files hold no run.
    """  # noqa: D301 - click wants the character itself
    files: tuple[str, ...] = given["files"]
    config = load_or_default(given["config"])
    tried = candidates(config, [settings_of(text) for text in given["sets"]])
    with progress(quiet=given["quiet"]) as bar:
        task = bar.add_task("records", total=None)
        options = compose.file_options(config, given["timezone"])
        past = read(config, files, options, until_ms=given["until"], on_progress=partial(_told, bar, task))
        bar.reset(task, description="events", total=len(past.moments) * len(tried))
        told = partial(_told, bar, task)
        report = backtest(past, tried, files=files, since_ms=given["since"], top=given["top"], on_progress=told)
    folder: Path = given["folder"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_bytes(encoded(report))
    (folder / "report.html").write_text(page(report), encoding="utf-8")
    if not given["quiet"]:
        _show(report, folder)
    if not report.history.runs:
        click.get_current_context().exit(FAILED)


def _told(bar: Progress, task: TaskID, done: int) -> None:
    bar.update(task, completed=done)


def _show(report: Report, folder: Path) -> None:
    console = Console()
    for part in summary(report):
        console.print(part)
    click.echo(f"see {folder}/report.html")
