"""`scalewatch deadletter`: messages that could not be used, to look at or to send again."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from agent.cli.errors import FAILED
from agent.cli.letters import Filter, Replayed, listed, replayed
from agent.cli.options import required_config_option
from agent.cli.output import json_option
from agent.config.load import load
from agent.config.tree import Config
from agent.contracts.errors import ConfigError, InvalidInputError
from agent.contracts.log import Log
from agent.contracts.moments import parse_rfc3339
from agent.words import counted

LIMIT: Final = 10_000
Command = TypeVar("Command", bound=Callable[..., Any])


@click.group(short_help="List messages that could not be used, or send them again.")
def command() -> None:
    """List messages that could not be used, or send them again once their cause is gone."""


def _filters(function: Command) -> Command:
    options = (
        required_config_option,
        click.option("--reason", metavar="NAME", help="Only those refused for this reason."),
        click.option("--topic", metavar="NAME", help="Only those from this topic."),
        click.option("--since", metavar="TIME", help="Only those from this time on, such as 2026-11-20T10:00:00Z."),
        click.option("--limit", default=LIMIT, show_default=True, type=click.IntRange(1), help="At most so many."),
    )
    for option in reversed(options):
        function = option(function)
    return function


@command.command("list")
@_filters
@json_option
def list_letters(  # noqa: PLR0917 - options
    config: str,
    reason: str | None,
    topic: str | None,
    since: str | None,
    limit: int,
    as_json: bool,  # noqa: FBT001
) -> None:
    """Print dead letters, oldest first: when, why, where from and the sentence; with --json whole, one on a line."""
    settings = load(config)
    wanted = _filter(reason, topic, since, limit)
    count = _with_log(
        settings, lambda log: listed(log, settings.topics.deadletters, wanted, click.echo, as_json=as_json)
    )
    if not as_json:
        click.echo(f"{counted(count, 'dead letter')}.")


@command.command("replay")
@_filters
@click.option("--dry-run", is_flag=True, help="Count only; send nothing.")
def replay_letters(  # noqa: PLR0917 - options
    config: str,
    reason: str | None,
    topic: str | None,
    since: str | None,
    limit: int,
    dry_run: bool,  # noqa: FBT001
) -> None:
    """Send the original bytes of dead letters to their original topics again.

    To do twice what was done once is safe: what arrives again changes nothing. A message that is still bad becomes a
    dead letter again. Letters that do not hold all bytes of their message are refused, and the exit code is 1.
    """
    settings = load(config)
    wanted = _filter(reason, topic, since, limit)
    timeout_s = settings.collector.flush_timeout_s
    done = _with_log(
        settings,
        lambda log: replayed(log, settings.topics.deadletters, wanted, flush_timeout_s=timeout_s, dry_run=dry_run),
    )
    click.echo(_told(done, dry_run=dry_run))
    if done.truncated or done.unreadable:
        click.get_current_context().exit(FAILED)


def _told(done: Replayed, *, dry_run: bool) -> str:
    lines = [f"{'Would be sent' if dry_run else 'Sent'} again: {counted(done.sent, 'message')}."]
    if done.truncated:
        lines.append(f"Refused, because a dead letter keeps only the beginning of a long message: {done.truncated}.")
    if done.unreadable:
        lines.append(f"Not readable as dead letters: {counted(done.unreadable, 'record')} of the topic.")
    return "\n".join(lines)


def _filter(reason: str | None, topic: str | None, since: str | None, limit: int) -> Filter:
    try:
        since_ms = None if since is None else parse_rfc3339(since)
    except InvalidInputError as error:
        raise ConfigError(f"--since: {error}") from error
    return Filter(reason=reason, topic=topic, since_ms=since_ms, limit=limit)


Result = TypeVar("Result")


def _with_log(config: Config, work: Callable[[Log], Result]) -> Result:
    from agent.app.compose import kafka_settings  # noqa: PLC0415 - the Kafka client is loaded only where it is used
    from agent.log.kafka import KafkaLog  # noqa: PLC0415

    log = KafkaLog(kafka_settings(config))
    try:
        return work(log)
    finally:
        log.close()
