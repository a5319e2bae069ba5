"""Parts shared by several commands: options, text tables, progress bars and signal handling."""

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
from agent.reports.backtest.alerts import AlertLabel, labels_of
from processors.contracts.errors import ConfigError


def system_name(_context: click.Context, _parameter: click.Parameter, name: str | None) -> str | None:
    if name is not None and not SYSTEM_NAME.fullmatch(name):
        raise click.BadParameter("a system has 1 to 64 printable ASCII characters without spaces.")
    return name


config_option = click.option(
    "-c",
    "--config",
    type=click.Path(dir_okay=False),
    default=None,
    help="Configuration file; without it, all settings have their defaults.",
)
required_config_option = click.option(
    "-c", "--config", type=click.Path(dir_okay=False), required=True, help="Configuration file of the agent."
)
timezone_option = click.option(
    "--timezone", default="UTC", show_default=True, metavar="ZONE",
    help="Time zone of timestamps that carry none, such as those of sacct: Europe/Oslo or +02:00, for example.",
)  # fmt: skip
system_option = click.option(
    "--system", default=None, metavar="NAME", callback=system_name,
    help="System of records that name none; default: the only system in the configuration.",
)  # fmt: skip
COLUMNS: Final = "scalewatch.columns"  # key in the context of a command


def keep_columns(context: click.Context, _parameter: click.Parameter, pairs: tuple[str, ...]) -> None:
    """Keep the column names for `file_options`; BadParameter if a pair is malformed or its column is not read."""
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
    help="Map the columns of job tables that differ from sacct's, such as job_id=id_job,nodes=num_nodes.",
)  # fmt: skip


def file_options(
    config: Config, timezone: str, system: str | None = None, *, unnamed: str | None = "local"
) -> DecodeOptions:
    """Return the decoder options for the files of a command, including the names from --columns."""
    context = click.get_current_context(silent=True)
    columns = context.meta.get(COLUMNS, {}) if context is not None else {}
    return msgspec.structs.replace(compose.file_options(config, timezone, system, unnamed=unnamed), columns=columns)


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")

labels_option = click.option(
    "--labels", "labels_file", type=click.Path(dir_okay=False, exists=True, path_type=Path), default=None,
    help="JSON-lines file with your verdicts on alerts: fingerprint, time, real (true or false), comment. The page of an "
    "alert shows its line. Prints the share of real alerts by alert name.",
)  # fmt: skip


def read_labels(path: Path | None) -> list[AlertLabel]:
    return labels_of(path.read_bytes()) if path is not None else []


def load_or_default(path: str | None, *, sources_required: bool = False, reveal_secrets: bool = True) -> Config:
    if path is None:
        return Config()
    return load(path, sources_required=sources_required, reveal_secrets=reveal_secrets)


def indented(value: Any) -> str:
    """Return a value as JSON over several lines."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def counted(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an aligned text table; columns of numbers are aligned to the right."""
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
    for text in remarks.messages():
        click.echo(f"scalewatch: {text}", err=True)


def finish(remarks: Remarks, *, empty: bool, explained: bool = False) -> None:
    """Print the remarks about the files of a command; exit with 1 if the files are `empty` or damaged.

    For empty files this prints the first reason, unless the command has already `explained` it.
    """
    show_remarks(remarks)
    if empty and not explained and not remarks.messages():
        click.echo(f"scalewatch: {remarks.first_refusal or 'The files hold no usable record.'}", err=True)
    if empty or remarks.failed:
        click.get_current_context().exit(FAILED)


@contextmanager
def progress(what: str, *, total: int | None = None, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes the number of finished items and draws a progress bar on standard error.

    The bar disappears at the end. It is not drawn if standard error is not a terminal.
    """
    from rich.console import Console  # noqa: PLC0415 - 40 modules, which the roles do not need
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=quiet or not console.is_terminal, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


def stopped_by_signals() -> threading.Event:
    """Return an event that SIGTERM and Ctrl-C set instead of ending the process."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def report_retry(state: Any) -> None:
    click.echo(f"scalewatch: {state.outcome.exception()} Retrying.", err=True)
