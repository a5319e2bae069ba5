"""The command line. Each command is loaded only when it is used: `scalewatch --help` imports next to nothing."""

import difflib
from importlib import import_module
from typing import Final

import click
import msgspec

from agent.cli import errors
from processors import __version__


class Entry(msgspec.Struct, frozen=True):
    """Where a command is, as `module:attribute`, and its summary for the list of commands."""

    target: str
    summary: str


COMMANDS: Final = {
    "demo": Entry("agent.cli.demo:command", "Show the agent at work on a simulated centre; needs nothing else."),
    "run": Entry("agent.cli.run:command", "Run the agent on Kafka."),
    "replay": Entry("agent.cli.replay:command", "Send event files through the agent and write what comes out."),
    "backtest": Entry(
        "agent.cli.backtest:command", "Score what would have been said about past jobs; try alert settings."
    ),
    "backfill": Entry("agent.cli.backfill:command", "Feed history into a running agent, so that day one has models."),
    "predict": Entry("agent.cli.predict:command", "Predict run times, from files or from a running agent."),
    "identify": Entry("agent.cli.identify:command", "Show what the rules make of the jobs in files."),
    "validate": Entry("agent.cli.validate:command", "Check a configuration and name everything that is wrong."),
    "plan": Entry("agent.cli.plan:command", "Say what memory, processors, disk and partitions a centre needs."),
    "topics": Entry("agent.cli.topics:command", "Check or create the agent's topics, or list the rights it needs."),
    "rebuild": Entry("agent.cli.rebuild:command", "Learn anew from the settled runs, with the rules of today."),
    "deadletter": Entry("agent.cli.deadletter:command", "List messages that could not be used, or send them again."),
    "subscribe": Entry("agent.cli.subscribe:command", "Print what the agent says, or keep a local table of it."),
    "simulate": Entry(
        "agent.cli.simulate:command", "Write what a simulated centre tells into the topics that are read."
    ),
    "describe": Entry("agent.cli.describe:command", "Print the reference, made from the code."),
}


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
        module, _, attribute = COMMANDS[cmd_name].target.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without loading any."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command in the arguments; one that is nearly right is named in the error."""
        close = difflib.get_close_matches(args[0], COMMANDS, n=1)
        if args[0] not in COMMANDS and close:
            ctx.fail(f"There is no command {args[0]!r}; did you mean {close[0]}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; an error becomes one sentence on standard error and the exit code."""
        try:
            result: object = super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:  # noqa: BLE001 - the last place: whatever it is, the user gets a sentence
            ctx.exit(errors.report(error, verbose=bool(ctx.params["verbose"])))
        return result


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="scalewatch", message="%(prog)s %(version)s")
@click.option("-v", "--verbose", is_flag=True, help="Show the full trace of an error.")
def main(verbose: bool) -> None:  # noqa: FBT001 - the name of the option is its meaning
    """Learn, while an HPC centre runs, how its applications scale; predict, explain and warn.

    Exit codes: 0 done, 1 failed, 2 wrong usage or configuration.
    """
    del verbose
