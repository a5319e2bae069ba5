"""The command line. A command is imported only when it runs, so `scalewatch --help` starts fast."""

import gc
import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Final

import click

from processors import __version__
from processors.contracts.errors import ConfigError, ScalewatchError


@contextmanager
def lasting() -> Iterator[None]:
    """Disable the garbage collector inside the block, and exempt objects created in the block from later collections.

    A full collection takes as long as importing ten modules, and a starting role would otherwise run several of them.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        # new objects between two collections; with 700, the default, a replay of telemetry spends a sixth of its time in collections
        gc.set_threshold(50_000)
        gc.enable()


COMMANDS: Final = {
    "demo": "Show the agent on a simulated centre; needs no broker and no files.",
    "run": "Run the agent on Kafka.",
    "status": "Show what needs attention at the centre of a running agent.",
    "job": "Show a running or ended job: its predicted end and its runs.",
    "hosts": "Show the hosts of a running agent, abnormal ones first.",
    "app": "Show the predictions of an application by size.",
    "replay": "Process files as the agent would and write its messages to a folder.",
    "backtest": "Predict past jobs, score the predictions, and compare settings.",
    "alerts": "Show the open alerts, or those that files would have raised.",
    "report": "Report the node-hours or the energy that each user spent in a week.",
    "backfill": "Load past runs into a running agent, so that it predicts from day one.",
    "predict": "Predict run times from files, or ask a running agent.",
    "explain": "Show what changed the model of an application: runs, shifts, fits and verdicts.",
    "identify": "Show which application each job in files is assigned to.",
    "validate": "Check a configuration and list every problem.",
    "plan": "Estimate the memory, CPU, disk and partitions that a centre needs.",
    "topics": "Check or create the agent's topics, or print the ACLs that it needs.",
    "rebuild": "Rebuild all models from the stored runs with the current rules.",
    "deadletter": "List the messages that the agent rejected, or send them again.",
    "subscribe": "Print the agent's messages, or keep a local table of predictions.",
    "simulate": "Write the jobs and host data of a simulated centre to Kafka.",
    "describe": "Print reference pages: configuration, metrics, formats, messages.",
}
LIVE: Final = frozenset({"status", "job", "hosts", "app"})  # commands that ask a running agent and share a module
DONE: Final = 0
FAILED: Final = 1
WRONG: Final = 2  # usage or configuration


def report_error(error: Exception, *, verbose: bool) -> int:
    """Print an error to standard error, with its traceback if `verbose`; return the exit code."""
    if verbose:
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    for line in error_text(error).splitlines():
        click.echo(f"scalewatch: {line}", err=True)
    return WRONG if isinstance(error, ConfigError) else FAILED


def error_text(error: Exception) -> str:
    if isinstance(error, ScalewatchError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename!r}." if error.filename else f"{error.strerror}."
    text = " ".join(str(error).split())[:200]
    return f"Internal error ({type(error).__name__}: {text}). Run `scalewatch --verbose ...` to get the traceback for a report."


class Commands(click.Group):
    """The group of all commands in the order of COMMANDS; each command is imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        if cmd_name == "run":  # SIGHUP would end a process that is still importing, so hold it until `run` handles it
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
        with lasting():
            if cmd_name in LIVE:
                live: click.Command = getattr(import_module("agent.cli.live"), cmd_name)
                return live
            command: click.Command = import_module(f"agent.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS:
            from difflib import get_close_matches  # noqa: PLC0415 - needed only for a mistyped command

            for name in get_close_matches(args[0], COMMANDS, n=1):
                ctx.fail(f"There is no command {args[0]!r}; did you mean {name}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        try:
            result: object = super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:  # noqa: BLE001 - the last handler: the user gets a sentence for any error
            ctx.exit(report_error(error, verbose=bool(ctx.params["verbose"])))
        return result


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="scalewatch", message="%(prog)s %(version)s")
@click.option("-v", "--verbose", is_flag=True, help="Show the Python traceback of an error.")
def main(verbose: bool) -> None:  # noqa: FBT001 - click passes flags so
    """Learn how the applications of an HPC centre scale, predict their run times, and warn about odd runs and hosts.

    Exit codes: 0 success, 1 failure, 2 wrong usage or configuration.
    """
    del verbose
