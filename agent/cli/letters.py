"""Dead letters on a log: which ones, printed or sent again."""

import base64
import binascii
from collections.abc import Callable

import msgspec

from agent.contracts.decoding import DeadLetter
from agent.contracts.errors import ConfigError, InvalidInputError
from agent.contracts.log import Batch, Log, Producer
from agent.contracts.moments import parse_rfc3339

_DECODER = msgspec.json.Decoder(DeadLetter)


class Filter(msgspec.Struct, frozen=True):
    """Which dead letters are wanted, and how many at most.

    >>> Filter(reason="not-json").limit
    10000
    """

    reason: str | None = None
    topic: str | None = None
    since_ms: int | None = None
    limit: int = 10_000

    def takes(self, letter: DeadLetter) -> bool:
        """Return whether a letter is wanted."""
        return (
            self.reason in (None, letter.reason)
            and self.topic in (None, letter.topic)
            and (self.since_ms is None or _time_ms(letter) >= self.since_ms)
        )


class Replayed(msgspec.Struct):
    """What became of a replay: messages sent, refused because they are not whole, and records that are no letters."""

    sent: int = 0
    truncated: int = 0
    unreadable: int = 0


def listed(log: Log, topic: str, wanted: Filter, write: Callable[[str], object], *, as_json: bool = False) -> int:
    """Write each wanted letter as one line and return their number. Raises UnavailableError."""
    count = 0

    def take(letter: DeadLetter | None) -> None:
        nonlocal count
        if letter is None or count >= wanted.limit or not wanted.takes(letter):
            return
        count += 1
        write(msgspec.json.encode(letter).decode() if as_json else _line(letter))

    _read(log, topic, take)
    return count


def replayed(log: Log, topic: str, wanted: Filter, *, flush_timeout_s: float, dry_run: bool = False) -> Replayed:
    """Send the original bytes of the wanted letters to their own topics, each message once.

    A message of several parts has a letter for each part that was refused, all with the bytes of the whole. Raises
    UnavailableError; what was sent by then may or may not be there, and sending it again does no harm.
    """
    done = Replayed()
    seen: set[tuple[str, int, int]] = set()
    producer = None if dry_run else log.producer()

    def take(letter: DeadLetter | None) -> None:
        if letter is None:
            done.unreadable += 1
            return
        message = (letter.topic, letter.partition, letter.offset)
        if message in seen or len(seen) >= wanted.limit or not wanted.takes(letter):
            return
        seen.add(message)
        _resend(letter, producer, done)

    try:
        _read(log, topic, take)
        if producer is not None:
            producer.flush(flush_timeout_s)
    finally:
        if producer is not None:
            producer.close()
    return done


def _resend(letter: DeadLetter, producer: Producer | None, done: Replayed) -> None:
    if letter.truncated:
        done.truncated += 1
        return
    try:
        value = base64.b64decode(letter.value_base64, validate=True)
    except binascii.Error:
        done.unreadable += 1
        return
    if producer is not None:
        producer.send(letter.topic, value)
    done.sent += 1


def _read(log: Log, topic: str, take: Callable[[DeadLetter | None], None]) -> None:
    count = log.partitions(topic)
    if count is None:
        raise ConfigError(f"The topic {topic} does not exist; `scalewatch topics --create` makes it.")

    def on_batch(batch: Batch) -> None:
        for value in batch.values:
            take(_letter(value))

    for partition in range(count):
        log.read(topic, partition, on_batch)


def _letter(value: bytes | None) -> DeadLetter | None:
    try:
        return _DECODER.decode(value or b"")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _time_ms(letter: DeadLetter) -> int:
    try:
        return parse_rfc3339(letter.time)
    except InvalidInputError:  # a message with an impossible time of its own is as old as can be
        return 0


def _line(letter: DeadLetter) -> str:
    where = f"{letter.topic}/{letter.partition}/{letter.offset}"
    cut = ", cut" if letter.truncated else ""
    return f"{letter.time}  {letter.reason}  {where}  {letter.format}, {letter.value_bytes} bytes{cut}: {letter.detail}"
