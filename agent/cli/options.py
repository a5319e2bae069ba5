"""What several commands share: options, tables of text, a bar of progress, and going on until they are stopped."""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from agent.app import compose
from agent.app.files import Remarks
from agent.cli import FAILED
from agent.config.load import load
from agent.config.tree import SYSTEM_NAME, Config
from agent.decode.message import DecodeOptions
from agent.decode.table import renamed_columns
from agent.reports.backtest.alerts import Label, labels_of
from processors.contracts.errors import ConfigError


def system_name(_context: click.Context, _parameter: click.Parameter, name: str | None) -> str | None:
    """Return the name of a system as an option has it; BadParameter if the configuration could not have it."""
    if name is not None and not SYSTEM_NAME.fullmatch(name):
        raise click.BadParameter("a system has 1 to 64 printable ASCII characters without spaces.")
    return name


config_option = click.option(
    "-c", "--config", type=click.Path(dir_okay=False), default=None, help="Configuration; without one, the defaults."
)
required_config_option = click.option(
    "-c", "--config", type=click.Path(dir_okay=False), required=True, help="Configuration of the agent."
)
timezone_option = click.option(
    "--timezone", default="UTC", show_default=True, metavar="ZONE",
    help="Zone of times without one, as sacct prints them; such as Europe/Oslo or +02:00.",
)  # fmt: skip
system_option = click.option(
    "--system", default=None, metavar="NAME", callback=system_name,
    help="System of the records in files that name none; default: the one that the configuration names.",
)  # fmt: skip
COLUMNS: Final = "scalewatch.columns"  # key in the context of a command


def keep_columns(context: click.Context, _parameter: click.Parameter, pairs: tuple[str, ...]) -> None:
    """Note the names of columns for `file_options`; BadParameter if a pair is none, or its column is not read."""
    columns = dict[str, str]()
    for pair in ",".join(pairs).split(",") if pairs else ():
        column, sign, name = pair.partition("=")
        if not (sign and column.strip() and name.strip()):
            raise click.BadParameter(f"{pair!r} is not COLUMN=NAME, such as job_id=id_job.")
        columns[column.strip()] = name.strip()
    try:
        renamed_columns(columns)
    except ConfigError as error:
        raise click.BadParameter(str(error)) from None
    context.meta[COLUMNS] = columns


columns_option = click.option(
    "--columns", multiple=True, metavar="COLUMN=NAME,...", callback=keep_columns, expose_value=False,
    help="Names of columns in tables of jobs, where they are not those of sacct: job_id=id_job,nodes=num_nodes.",
)  # fmt: skip


def file_options(
    config: Config, timezone: str, system: str | None = None, *, unnamed: str | None = "local"
) -> DecodeOptions:
    """Return the decoder options of the files of a command, with the names of columns that it was given."""
    context = click.get_current_context(silent=True)
    columns = context.meta.get(COLUMNS, {}) if context is not None else {}
    return msgspec.structs.replace(compose.file_options(config, timezone, system, unnamed=unnamed), columns=columns)


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")

labels_option = click.option(
    "--labels", "labels_file", type=click.Path(dir_okay=False, exists=True, path_type=Path), default=None,
    help="What was said of alerts, a JSON line each: fingerprint, time, real (true or false), comment; the page of an "
    "alert shows its line. Prints, by alert name, which share of the judged alerts was real.",
)  # fmt: skip


def read_labels(path: Path | None) -> list[Label]:
    """Return the labels of a file; none without one. ConfigError where a line is none."""
    return labels_of(path.read_bytes()) if path is not None else []


def load_or_default(path: str | None, *, sources_required: bool = False, reveal_secrets: bool = True) -> Config:
    """Return the configuration of a file, or the defaults where there is none; without secrets it needs none of them."""
    if path is None:
        return Config()
    return load(path, sources_required=sources_required, reveal_secrets=reveal_secrets)


def counted(count: int, thing: str) -> str:
    """Return a number of things."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return the rows below their head, every column as wide as its widest cell; numbers stand on the right."""
    lines = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[column]) for row in lines) for column in range(len(head))]
    right = [bool(rows) and all(_is_number(row[column]) for row in rows) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in lines
    )


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "", 1).removeprefix("-").isdigit()


def show_remarks(remarks: Remarks) -> None:
    """Write on standard error what was remarkable of files."""
    for text in remarks.messages():
        click.echo(f"scalewatch: {text}", err=True)


def finish(remarks: Remarks, *, empty: bool, explained: bool = False) -> None:
    """End a command on files: the exit code is 1 if they held nothing of use, or one is damaged.

    Files without use get one sentence that says why, unless the command has `explained` it.
    """
    show_remarks(remarks)
    if empty and not explained and not remarks.messages():
        click.echo(f"scalewatch: {remarks.first_refusal or 'The files hold nothing of use.'}", err=True)
    if empty or remarks.failed:
        click.get_current_context().exit(FAILED)


@contextmanager
def progress(what: str, *, total: int | None = None, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """Yield a function that shows how many are done, as a bar on standard error that leaves nothing behind.

    Where standard error is no terminal, nothing is shown.
    """
    from rich.console import Console  # noqa: PLC0415 - 40 modules, and a role shows no bar
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=quiet or not console.is_terminal, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


def stopped_by_signals() -> threading.Event:
    """Return an event that SIGTERM and Ctrl-C set from now on, in the place of ending the process where it is."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def report_retry(state: Any) -> None:
    """Tell on standard error why an attempt has failed, before the next one."""
    click.echo(f"scalewatch: {state.outcome.exception()} Trying again.", err=True)
