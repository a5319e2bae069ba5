"""`scalewatch replay`: event files through the same agent."""

from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from agent.app import compose
from agent.app.replay import Replay
from agent.cli.options import config_option, load_or_default, timezone_option
from sinks.jsonl import JsonLines


@click.command
@click.argument("files", nargs=-1, required=True)
@click.option("--out", "folder", type=click.Path(file_okay=False, path_type=Path), required=True,
              help="Folder for one JSON-lines file per output topic and summary.json.")  # fmt: skip
@config_option
@timezone_option
@click.option("--quiet", is_flag=True, help="No progress bar and no closing line.")
def command(files: tuple[str, ...], folder: Path, config: str | None, timezone: str, quiet: bool) -> None:  # noqa: FBT001 - click passes flags so
    """Run event FILES through the agent and keep what comes out.

    Takes native JSON lines, Slurm completions, `sacct --parsable2` text, Sonar job records and the Standard Workload
    Format, plain or gzip; - is standard input. Logs of jobs are put in the order of time first.
    """
    settings = load_or_default(config)
    with JsonLines(folder) as sink, _bar(quiet) as bar:
        task = bar.add_task("events", total=None)

        replay = Replay(settings, sink)
        replay.run(files, compose.file_options(settings, timezone), lambda events: bar.update(task, completed=events))
        summary = replay.summary()
        replay.agent.close()
    (folder / "summary.json").write_bytes(msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n")
    if not quiet:
        click.echo(
            f"{summary['events']} events, {summary['refused']} refused, {summary['applications']} applications with a "
            f"prediction; see {folder}/summary.json",
            err=True,
        )


def _bar(quiet: bool) -> Progress:  # noqa: FBT001 - private
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), disable=quiet, transient=True)
