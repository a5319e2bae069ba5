"""`scalewatch replay`: event files through the same agent."""

from pathlib import Path
from typing import Any

import click
import msgspec

from agent.app import compose
from agent.app.replay import Replay
from agent.cli.errors import FAILED
from agent.cli.options import config_option, load_or_default, timezone_option
from agent.cli.progress import progress
from agent.words import counted
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
    Format, plain or gzip; - is standard input. Logs of jobs are put in the order of time first. The exit code is 1 where
    the files hold no event at all.
    """
    settings = load_or_default(config)
    with JsonLines(folder) as sink, progress(quiet=quiet) as bar:
        task = bar.add_task("events", total=None)

        replay = Replay(settings, sink)
        replay.run(files, compose.file_options(settings, timezone), lambda events: bar.update(task, completed=events))
        summary = replay.summary()
        replay.agent.close()
    (folder / "summary.json").write_bytes(msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n")
    if not quiet:
        click.echo(_told(summary, folder), err=True)
    if not summary["events"]:
        click.get_current_context().exit(FAILED)


def _told(summary: dict[str, Any], folder: Path) -> str:
    why = f" ({folder}/deadletters.jsonl says why)" if summary["refused"] else ""
    return (
        f"{counted(summary['events'], 'event')}, {summary['refused']} refused{why}, "
        f"{counted(summary['applications'], 'application')} with a prediction; see {folder}/summary.json"
    )
