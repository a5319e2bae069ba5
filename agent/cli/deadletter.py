"""`scalewatch deadletter`: list rejected messages or send them again."""

import base64
import binascii
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

import click
import msgspec

from agent.app.kafka import connected
from agent.app.lookout import time_ms
from agent.cli import FAILED
from agent.cli.options import counted, json_option, required_config_option
from agent.config.load import load
from processors.contracts.errors import ConfigError, InvalidInputError
from processors.contracts.events import DeadLetter
from processors.contracts.log import FLUSH_TIMEOUT_S, Batch, Log, Producer
from processors.contracts.names import parse_rfc3339
from sinks.web.views.agent import parts_text

_DECODER = msgspec.json.Decoder(DeadLetter)
LIMIT: Final = 10_000
Command = TypeVar("Command", bound=Callable[..., Any])


class Filter(msgspec.Struct, frozen=True):
    """Selection criteria for dead letters, and the maximum number to select."""

    reason: str | None = None
    topic: str | None = None
    since_ms: int | None = None
    limit: int = 10_000

    def takes(self, dead_letter: DeadLetter) -> bool:
        """Return whether a dead letter matches the criteria."""
        return (
            self.reason in (None, dead_letter.reason)
            and self.topic in (None, dead_letter.topic)
            and (self.since_ms is None or time_ms(dead_letter.time) >= self.since_ms)
        )


class Replayed(msgspec.Struct):
    """Counts of a replay: messages sent, messages refused because they are truncated, and records that are not dead letters."""

    sent: int = 0
    truncated: int = 0
    unreadable: int = 0


def listed(
    log: Log,
    topic: str,
    wanted: Filter,
    write: Callable[[str], object],
    *,
    as_json: bool = False,
    complain: Callable[[str], object] = lambda _: None,
) -> int:
    """Write each selected dead letter as one line and return their number; pass an error for each unreadable record to `complain`.

    Raise UnavailableError if the log is unreachable.
    """
    count = unreadable = 0

    def take(dead_letter: DeadLetter | None) -> None:
        nonlocal count, unreadable
        unreadable += dead_letter is None
        if dead_letter is None or count >= wanted.limit or not wanted.takes(dead_letter):
            return
        count += 1
        write(msgspec.json.encode(dead_letter).decode() if as_json else _line(dead_letter))

    _read(log, topic, take)
    if unreadable:
        complain(_unreadable_text(unreadable))
    return count


def replayed(log: Log, topic: str, wanted: Filter, *, dry_run: bool = False) -> Replayed:
    """Send the original bytes of the selected dead letters to their source topics, each message once.

    A message may have several dead letters, one for each reason that parts of it were refused, and each holds the whole message.
    Raise UnavailableError if the log is unreachable; messages may have been sent by then, and sending them again is safe.
    """
    done = Replayed()
    seen: set[tuple[str, int, int]] = set()
    producer = None if dry_run else log.producer()

    def take(dead_letter: DeadLetter | None) -> None:
        if dead_letter is None:
            done.unreadable += 1
            return
        message = (dead_letter.topic, dead_letter.partition, dead_letter.offset)
        if message in seen or len(seen) >= wanted.limit or not wanted.takes(dead_letter):
            return
        seen.add(message)
        _resend(dead_letter, producer, done)

    try:
        _read(log, topic, take)
        if producer is not None:
            producer.flush(FLUSH_TIMEOUT_S)
    finally:
        if producer is not None:
            producer.close()
    return done


def _resend(dead_letter: DeadLetter, producer: Producer | None, done: Replayed) -> None:
    if dead_letter.truncated:
        done.truncated += 1
        return
    try:
        value = base64.b64decode(dead_letter.value_base64, validate=True)
    except binascii.Error:
        done.unreadable += 1
        return
    if producer is not None:
        producer.send(dead_letter.topic, value)
    done.sent += 1


def _read(log: Log, topic: str, take: Callable[[DeadLetter | None], None]) -> None:
    count = log.partitions(topic)
    if count is None:
        raise ConfigError(f"The topic {topic} does not exist; `scalewatch topics --create` makes it.")

    def on_batch(batch: Batch) -> None:
        for value in batch.values:
            take(_dead_letter(value))

    for partition in range(count):
        log.read(topic, partition, on_batch)


def _dead_letter(value: bytes | None) -> DeadLetter | None:
    try:
        return _DECODER.decode(value or b"")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _line(dead_letter: DeadLetter) -> str:
    where = f"{dead_letter.topic}/{dead_letter.partition}/{dead_letter.offset}"
    cut = ", cut" if dead_letter.truncated else ""
    what = (
        f"{dead_letter.format}, {dead_letter.value_bytes} bytes{cut}{parts_text(dead_letter.count, dead_letter.places)}"
    )
    return f"{dead_letter.time}  {dead_letter.reason}  {where}  {what}: {dead_letter.detail}"


@click.group(short_help="List the messages that the agent rejected, or send them again.")
def command() -> None:
    """List the messages that the agent rejected (dead letters), or send them again after the cause is fixed."""


def _filters(function: Command) -> Command:
    options = (
        required_config_option,
        click.option("--reason", metavar="NAME", help="Only dead letters with this reason."),
        click.option("--topic", metavar="NAME", help="Only dead letters from this source topic."),
        click.option(
            "--since", metavar="TIME", help="Only dead letters since this time, such as 2026-11-20T10:00:00Z."
        ),
        click.option(
            "--limit", default=LIMIT, show_default=True, type=click.IntRange(1), help="Maximum number of dead letters."
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


@command.command("list")
@_filters
@json_option
def list_dead_letters(config: str, as_json: bool, **filters: Any) -> None:  # noqa: FBT001 - options
    """Print dead letters, oldest first.

    A line shows time, reason, source position and error. With --json, each line is the complete dead letter.
    """
    settings = load(config)
    wanted = _filter(**filters)
    with connected(settings) as log:
        count = listed(
            log,
            settings.topics.deadletters,
            wanted,
            click.echo,
            as_json=as_json,
            complain=partial(click.echo, err=True),
        )
    if not as_json:
        click.echo(f"{counted(count, 'dead letter')}.")


@command.command("replay")
@_filters
@click.option("--dry-run", is_flag=True, help="Count the messages without sending them.")
def replay_dead_letters(config: str, dry_run: bool, **filters: Any) -> None:  # noqa: FBT001 - options
    """Send the original messages of dead letters to their source topics again.

    Sending a message twice is safe, because the agent recognises repeated events. A message that is still invalid becomes a
    dead letter again. Dead letters that hold only the beginning of a long message are not sent, and the exit code is 1.
    """
    settings = load(config)
    wanted = _filter(**filters)
    with connected(settings) as log:
        done = replayed(log, settings.topics.deadletters, wanted, dry_run=dry_run)
    click.echo(_summary_text(done, dry_run=dry_run))
    if done.truncated or done.unreadable:
        click.get_current_context().exit(FAILED)


def _summary_text(done: Replayed, *, dry_run: bool) -> str:
    lines = [f"{'Would send' if dry_run else 'Sent'} {counted(done.sent, 'message')} again."]
    if done.truncated:
        lines.append(f"Not sent, because only the beginning of the message was stored: {done.truncated}.")
    if done.unreadable:
        lines.append(_unreadable_text(done.unreadable))
    return "\n".join(lines)


def _unreadable_text(count: int) -> str:
    return f"Skipped, because they are not dead letters: {counted(count, 'record')} of the topic."


def _filter(reason: str | None, topic: str | None, since: str | None, limit: int) -> Filter:
    try:
        since_ms = None if since is None else parse_rfc3339(since)
    except InvalidInputError as error:
        raise ConfigError(f"--since: {error}") from error
    return Filter(reason=reason, topic=topic, since_ms=since_ms, limit=limit)
