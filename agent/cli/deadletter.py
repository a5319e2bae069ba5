"""`scalewatch deadletter`: list rejected messages or send them again."""

import base64
import binascii
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import click
import msgspec

from agent.app.kafka import connected
from agent.app.lookout import time_ms
from agent.cli import FAILED
from agent.cli.options import counted, json_option, moment_ms, required_config_option, with_options
from agent.config.load import load
from processors.contracts.errors import ConfigError
from processors.contracts.events import DeadLetter
from processors.contracts.log import FLUSH_TIMEOUT_S, Batch, Log, Producer
from sinks.web.views.agent import parts_text

_DECODER: Final = msgspec.json.Decoder(DeadLetter)


class Filter(msgspec.Struct, frozen=True):
    """Selection criteria for dead letters, and the maximum number to select."""

    reason: str | None = None
    topic: str | None = None
    since_ms: int | None = None
    limit: int = 10_000

    def takes(self, dead_letter: DeadLetter) -> bool:
        return (
            self.reason in (None, dead_letter.reason)
            and self.topic in (None, dead_letter.topic)
            and (self.since_ms is None or time_ms(dead_letter.time) >= self.since_ms)
        )


class Replayed(msgspec.Struct):
    """Counts of a replay: messages sent, truncated messages that were not sent, and records that are not dead letters."""

    sent: int = 0
    truncated: int = 0
    unreadable: int = 0


def listed(
    log: Log,
    topic: str,
    selection: Filter,
    write: Callable[[str], object],
    *,
    as_json: bool = False,
    complain: Callable[[str], object] = lambda _: None,
) -> int:
    """Pass each selected dead letter as one line to `write`, and return their number.

    If the topic has unreadable records, pass a message with their number to `complain`. Raise UnavailableError if the log is
    unreachable.
    """
    count = 0

    def take(dead_letter: DeadLetter) -> None:
        nonlocal count
        if count < selection.limit:
            count += 1
            write(msgspec.json.encode(dead_letter).decode() if as_json else _line(dead_letter))

    unreadable = _read(log, topic, selection, take)
    if unreadable:
        complain(_unreadable_text(unreadable))
    return count


def replayed(log: Log, topic: str, selection: Filter, *, dry_run: bool = False) -> Replayed:
    """Send the original bytes of the selected dead letters to their source topics, each message once.

    A message has one dead letter for each reason why a part was refused, and each dead letter holds the whole message.
    Raise UnavailableError if the log is unreachable; messages may have been sent by then, and sending them again is safe.
    """
    result = Replayed()
    messages: set[tuple[str, int, int]] = set()
    producer = None if dry_run else log.producer()

    def take(dead_letter: DeadLetter) -> None:
        message = (dead_letter.topic, dead_letter.partition, dead_letter.offset)
        if message not in messages and len(messages) < selection.limit:
            messages.add(message)
            _resend(dead_letter, producer, result)

    try:
        unreadable = _read(log, topic, selection, take)
        result.unreadable += unreadable  # in a statement of its own, because `_read` also changes result.unreadable
        if producer is not None:
            producer.flush(FLUSH_TIMEOUT_S)
    finally:
        if producer is not None:
            producer.close()
    return result


def _resend(dead_letter: DeadLetter, producer: Producer | None, result: Replayed) -> None:
    if dead_letter.truncated:
        result.truncated += 1
        return
    try:
        value = base64.b64decode(dead_letter.value_base64, validate=True)
    except binascii.Error:
        result.unreadable += 1
        return
    if producer is not None:
        producer.send(dead_letter.topic, value)
    result.sent += 1


def _read(log: Log, topic: str, selection: Filter, take: Callable[[DeadLetter], None]) -> int:
    """Pass the selected dead letters of a topic to `take`; return the number of records that are not dead letters."""
    partitions = log.partitions(topic)
    if partitions is None:
        raise ConfigError(f"The topic {topic} does not exist; `scalewatch topics --create` makes it.")
    unreadable = 0

    def on_batch(batch: Batch) -> None:
        nonlocal unreadable
        for value in batch.values:
            try:
                dead_letter = _DECODER.decode(value or b"")
            except (msgspec.DecodeError, UnicodeDecodeError):
                unreadable += 1
                continue
            if selection.takes(dead_letter):
                take(dead_letter)

    for partition in range(partitions):
        log.read(topic, partition, on_batch)
    return unreadable


def _line(dead_letter: DeadLetter) -> str:
    where = f"{dead_letter.topic}/{dead_letter.partition}/{dead_letter.offset}"
    cut = ", cut" if dead_letter.truncated else ""
    content = (
        f"{dead_letter.format}, {dead_letter.value_bytes} bytes{cut}{parts_text(dead_letter.count, dead_letter.places)}"
    )
    return f"{dead_letter.time}  {dead_letter.reason}  {where}  {content}: {dead_letter.detail}"


@click.group(short_help="List the messages that the agent rejected, or send them again.")
def command() -> None:
    """List the messages that the agent rejected (dead letters), or send them again after the cause is fixed."""


_filters = with_options(
    required_config_option,
    click.option("--reason", metavar="NAME", help="Only dead letters with this reason."),
    click.option("--topic", metavar="NAME", help="Only dead letters from this source topic."),
    click.option("--since", "since_ms", metavar="TIME", callback=moment_ms,
                 help="Only dead letters since this time, such as 2026-11-20T10:00:00Z."),
    click.option("--limit", default=10_000, show_default=True, type=click.IntRange(1),
                 help="Maximum number of dead letters."),
)  # fmt: skip


@command.command("list")
@_filters
@json_option
def list_dead_letters(config: str, as_json: bool, **filters: Any) -> None:  # noqa: FBT001 - options
    """Print dead letters, oldest first.

    A line shows time, reason, source position and error. With --json, each line is the complete dead letter.
    """
    settings = load(config)
    with connected(settings) as log:
        complain = partial(click.echo, err=True)
        topic = settings.topics.deadletters
        count = listed(log, topic, Filter(**filters), click.echo, as_json=as_json, complain=complain)
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
    with connected(settings) as log:
        result = replayed(log, settings.topics.deadletters, Filter(**filters), dry_run=dry_run)
    click.echo(f"{'Would send' if dry_run else 'Sent'} {counted(result.sent, 'message')} again.")
    if result.truncated:
        click.echo(f"Not sent, because only the beginning of the message was stored: {result.truncated}.")
    if result.unreadable:
        click.echo(_unreadable_text(result.unreadable))
    if result.truncated or result.unreadable:
        click.get_current_context().exit(FAILED)


def _unreadable_text(count: int) -> str:
    return f"Skipped, because they are not dead letters: {counted(count, 'record')} of the topic."
