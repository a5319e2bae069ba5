"""`scalewatch replay`: process files of events and telemetry as the running agent would."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from agent.app.files import scores_file
from agent.app.replay import Replay
from agent.cli.options import FileInput, counted, finish, indented, progress, reads_files
from sinks.topics import JsonLines


@click.command
@click.argument("files", nargs=-1, required=True)
@click.option("--out", "folder", type=click.Path(file_okay=False, path_type=Path), required=True,
              help="Folder for summary.json and one JSON-lines file per output topic.")  # fmt: skip
@click.option("--scores", "scores", type=click.Path(dir_okay=False, path_type=Path), default=None,
              help="JSON-lines file for the anomaly score of each sample and host.")  # fmt: skip
@click.option("--host", default=None, metavar="NAME", help="Host to assume for telemetry records that name no host.")
@reads_files()
@click.option("--quiet", is_flag=True, help="Do not show the progress bar or the final summary line.")
def command(
    files: tuple[str, ...], folder: Path, scores: Path | None, host: str | None, source: FileInput, *, quiet: bool
) -> None:
    """Process FILES of job events and telemetry as the agent would, and write its messages to a folder.

    The first lines of a file decide its format; `scalewatch describe formats` lists all formats. A file may be gzip-compressed;
    - is standard input; a folder must be a ClusterCockpit job archive or a part of one.

    Files are merged by time. Tables of jobs are sorted first; telemetry must be in order, and samples more than two
    minutes late are left out and counted. The exit code is 1 if the files contain neither events nor samples, or if
    a file is damaged; the readable part is still processed.
    """
    with ExitStack() as stack:
        sink = stack.enter_context(JsonLines(folder))
        scored = None if scores is None else stack.enter_context(scores_file(scores))
        on_progress = stack.enter_context(progress("records", quiet=quiet))
        replay = Replay(source.config, sink, scored, host)
        replay.run(files, source.options(), on_progress)
        summary = replay.summary()
        replay.agent.close()
    (folder / "summary.json").write_text(indented(summary) + "\n", encoding="utf-8")
    if not quiet:
        click.echo(_summary_text(summary, folder), err=True)
    finish(replay.remarks, empty=not summary["events"] and not summary["telemetry"]["taken"], explained=True)


def _summary_text(summary: dict[str, Any], folder: Path) -> str:
    why, samples, telemetry = "", "", summary["telemetry"]
    if summary["refused"]:
        why = f" ({folder}/deadletters.jsonl says why)"
    if telemetry["taken"]:
        left_out = telemetry["late"] + telemetry["ahead"] + telemetry["not_finite"]
        rest = f" ({left_out} left out)" if left_out else ""
        samples = f"{counted(telemetry['taken'], 'sample')} of {counted(telemetry['hosts'], 'host')}{rest}, "
    return (
        f"{counted(summary['events'], 'event')}, {samples}{summary['refused']} refused{why}, "
        f"{counted(summary['applications'], 'application')} with a prediction; see {folder}/summary.json"
    )
