"""Code shared by several commands: options, text tables, progress bars and signal handling."""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, wraps
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
from agent.reports.backtest.alerts import labels_of
from processors.contracts.errors import ConfigError, InvalidInputError
from processors.contracts.names import parse_rfc3339
from sinks.web.views.alert_states import AlertLabel

Command = Callable[..., Any]
Option = Callable[[Command], Command]


def with_options(*options: Option) -> Option:
    """Return a decorator that adds options to a command; the help lists them in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _system_name(_context: click.Context, _parameter: click.Parameter, name: str | None) -> str | None:
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


def _columns(_context: click.Context, _parameter: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
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
    return columns


def moment_ms(_context: click.Context, _parameter: click.Parameter, value: str | None) -> int | None:
    """Return the value of a time option in ms since the epoch."""
    try:
        return None if value is None else parse_rfc3339(value)
    except InvalidInputError as error:
        raise click.BadParameter(f"{error} Write the time as 2026-01-31 or 2026-01-31T12:00:00Z.") from None


class FileInput:
    """The configuration of a command that reads files, and how the files are decoded."""

    def __init__(self, path: str | None, system: str | None, timezone: str, columns: dict[str, str]) -> None:
        self.path, self.system, self.timezone = path, system, timezone
        self._columns = columns

    @cached_property
    def config(self) -> Config:
        return load_or_default(self.path)

    def options(self, *, unnamed: str | None = "local") -> DecodeOptions:
        options = compose.file_options(self.config, self.timezone, self.system, unnamed=unnamed)
        return msgspec.structs.replace(options, columns=self._columns)


def reads_files(
    config: Option = config_option,
    system_help: str = "System to assume for records that name no system; default: the only system in the configuration.",
) -> Option:
    """Add the options of commands that read files; the command receives them as one FileInput named `source`."""
    options = (
        config,
        click.option("--system", default=None, metavar="NAME", callback=_system_name, help=system_help),
        click.option(
            "--timezone", default="UTC", show_default=True, metavar="ZONE",
            help="Time zone of timestamps that carry none, such as those of sacct: Europe/Oslo or +02:00, for example.",
        ),
        click.option(
            "--columns", multiple=True, metavar="COLUMN=NAME,...", callback=_columns,
            help="For job tables with other columns than sacct: FIELD=COLUMN, with your column second, such as job_id=id_job,nodes=num_nodes.",
        ),
    )  # fmt: skip

    def decorate(command: Command) -> Command:
        @wraps(command)
        def opened(
            *, config: str | None, system: str | None, timezone: str, columns: dict[str, str], **others: Any
        ) -> Any:
            return command(source=FileInput(config, system, timezone, columns), **others)

        return with_options(*options)(opened)

    return decorate


quiet_option = click.option("--quiet", is_flag=True, help="Do not show a progress bar.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def _labels(_context: click.Context, _parameter: click.Parameter, path: Path | None) -> list[AlertLabel]:
    return labels_of(path.read_bytes()) if path is not None else []


labels_option = click.option(
    "--labels", type=click.Path(dir_okay=False, exists=True, path_type=Path), default=None, callback=_labels,
    help="JSON-lines file with your verdicts on alerts: fingerprint, time, real (true or false), comment. The page of an "
    "alert shows the line to add. Prints the share of real alerts by alert name.",
)  # fmt: skip
TOKEN: Final = "SCALEWATCH_TOKEN"  # noqa: S105 - the name of an environment variable


token_option = click.option(
    "--token-file", type=click.Path(dir_okay=False, path_type=Path),
    help=f"File with the bearer token for --url; default: the environment variable {TOKEN}.",
)  # fmt: skip
# the options of commands that can query a running agent
asks_agent = with_options(
    click.option("--url", default=None, help="Ask the running agent at this address, such as http://127.0.0.1:8080."),
    token_option,
)


def load_or_default(path: str | None, *, reveal_secrets: bool = True) -> Config:
    return Config() if path is None else load(path, reveal_secrets=reveal_secrets)


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
    """Print the remarks about the files of a command; exit with code 1 if a file is damaged, or if `empty` (nothing was usable).

    If there are no remarks, an `empty` result prints the first refusal, unless the command has `explained` the result already.
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
