"""The command line. Each command is loaded only when it is used: `scalewatch --help` imports next to nothing."""

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
    """Look for no garbage until the end of the block, and never in what it made: it lasts as long as the process.

    A look at all objects takes as long as ten modules, and without this a role takes several while it starts.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


COMMANDS: Final = {
    "demo": "Show the agent at work on a simulated centre; needs nothing else.",
    "run": "Run the agent on Kafka.",
    "replay": "Send event files through the agent and write what comes out.",
    "backtest": "Score the predictions for past jobs; try alert settings.",
    "alerts": "Print the alerts that files would have raised, and what was withheld.",
    "report": "Report what a week's runs cost beyond need, per user, with advice.",
    "backfill": "Feed history into a running agent, so that day one has models.",
    "predict": "Predict run times, from files or from a running agent.",
    "identify": "Show what the rules make of the jobs in files.",
    "validate": "Check a configuration and name everything that is wrong.",
    "plan": "Say what memory, processors, disk and partitions a centre needs.",
    "topics": "Check or create the agent's topics, or list the rights it needs.",
    "rebuild": "Learn anew from the settled runs, with the rules of today.",
    "deadletter": "List messages that could not be used, or send them again.",
    "subscribe": "Print what the agent publishes, or keep a local table of it.",
    "simulate": "Write the events of a simulated centre into the source topics.",
    "describe": "Print the reference, made from the code.",
}
DONE: Final = 0
FAILED: Final = 1
WRONG: Final = 2  # usage or configuration


def report_error(error: Exception, *, verbose: bool) -> int:
    """Write the sentence, and with `verbose` the trace before it; return the exit code."""
    if verbose:
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    for line in error_text(error).splitlines():
        click.echo(f"scalewatch: {line}", err=True)
    return WRONG if isinstance(error, ConfigError) else FAILED


def error_text(error: Exception) -> str:
    """Return what an error means; one that nobody foresaw says so."""
    if isinstance(error, ScalewatchError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename!r}." if error.filename else f"{error.strerror}."
    text = " ".join(str(error).split())[:200]
    return f"This should not have happened ({type(error).__name__}: {text}); --verbose before the command shows where."


class Commands(click.Group):
    """The commands of COMMANDS, in that order, each imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, None where there is none of that name."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        if (
            cmd_name == "run"
        ):  # a signal to reload ends a process that is still loading, unless it waits until `run` listens
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
        return _loaded(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without loading any."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command in the arguments; one that is nearly right is named in the error."""
        if args[0] not in COMMANDS and (close := _close_to(args[0])):
            ctx.fail(f"There is no command {args[0]!r}; did you mean {close[0]}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; an error becomes one sentence on standard error and the exit code."""
        try:
            result: object = super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:  # noqa: BLE001 - the last place: whatever it is, the user gets a sentence
            ctx.exit(report_error(error, verbose=bool(ctx.params["verbose"])))
        return result


def _loaded(name: str) -> click.Command:
    """Import a command."""
    with lasting():
        command: click.Command = import_module(f"agent.cli.{name}").command
    return command


def _close_to(name: str) -> list[str]:
    from difflib import get_close_matches  # noqa: PLC0415 - for a slip alone

    return get_close_matches(name, COMMANDS, n=1)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="scalewatch", message="%(prog)s %(version)s")
@click.option("-v", "--verbose", is_flag=True, help="Show the full trace of an error.")
def main(verbose: bool) -> None:  # noqa: FBT001 - the name of the option is its meaning
    """Learn, while an HPC centre runs, how its applications scale; predict, explain and warn.

    Exit codes: 0 done, 1 failed, 2 wrong usage or configuration.
    """
    del verbose
