"""Dead letters as a role writes them: one for each record and reason, and never more bytes than the topic can take."""

import logging
from collections.abc import Callable, Iterable
from typing import Final, Protocol

import msgspec

from processors.contracts.errors import DECODER, InvalidInputError
from processors.contracts.events import DeadLetter, Origin, Refused, by_reason

BURST_S: Final = 1200.0  # a source that is read again after a mistake may need as much at one go
Send = Callable[[bytes, bytes, int], None]
"""Sends a value, its key and its time to the topic of dead letters."""


class Refusal(msgspec.Struct, frozen=True):
    """A message that is refused for one reason, whole or in parts."""

    origin: Origin
    refused: Refused
    format: str
    value: bytes | None
    timestamp_ms: int


class Counts(Protocol):
    """Counts what is refused, and reached bounds."""

    def refused(self, topic: str, reason: str, parts: int) -> None:
        """Count the parts of a message of a topic that are refused for a reason; a whole one is one."""

    def bound(self, name: str) -> None:
        """Count that a bound was reached."""


class Left(msgspec.Struct, frozen=True):
    """What was left of an allowance at a time of its clock."""

    count: float
    at_s: float


class Allowance:
    """Bytes that may be spent: `bytes_per_s` on average, at once at most what BURST_S would bring; 0 allows none.

    `monotonic_s` is a clock that only grows, of the machine or of events. With what was `left` an allowance goes on where
    another one stopped.
    """

    def __init__(self, bytes_per_s: float, monotonic_s: Callable[[], float], left: Left | None = None) -> None:
        self._bytes_per_s, self._monotonic_s = bytes_per_s, monotonic_s
        self._left = bytes_per_s * BURST_S if left is None else left.count
        self._at_s = monotonic_s() if left is None else left.at_s

    @property
    def left(self) -> Left:
        """What was left when something was last asked for."""
        return Left(self._left, self._at_s)

    def spend(self, count: int) -> bool:
        """Spend so many bytes and return True, or nothing where they are more than is left."""
        now_s = self._monotonic_s()
        brought = (now_s - self._at_s) * self._bytes_per_s
        self._left, self._at_s = min(self._left + brought, self._bytes_per_s * BURST_S), now_s
        if count > self._left:
            return False
        self._left -= count
        return True


class Complaints:
    """Names in the log records that became dead letters by a defect: the 1st, 2nd, 4th, 8th and so on.

    A defect that is met in every record must not fill the log.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._count = 0

    def add(self, origin: Origin, what: str) -> None:
        """Take note of a record and of what was raised."""
        self._count += 1
        if self._count & (self._count - 1) == 0:
            place = f"{origin.topic}/{origin.partition}/{origin.offset}"
            self._log.warning("%s became a dead letter, number %d: %s", place, self._count, what)


class DeadLetterWriter:
    """Writes the dead letters of messages; beyond the allowance they are counted only."""

    def __init__(self, send: Send, make: Callable[[Refusal], DeadLetter], counts: Counts, allowance: Allowance) -> None:
        self._send, self._make, self._counts, self._allowance = send, make, counts, allowance
        self._complaints = Complaints(logging.getLogger("scalewatch.collector"))

    def write(
        self,
        errors: Iterable[InvalidInputError],
        origin: Origin,
        format_name: str,
        value: bytes | None,
        timestamp_ms: int,
    ) -> None:
        """Write a dead letter for each reason for which parts of a message are refused."""
        for refused in by_reason(errors):
            self._write(Refusal(origin, refused, format_name, value, timestamp_ms))

    def _write(self, refusal: Refusal) -> None:
        error = refusal.refused.error
        self._counts.refused(refusal.origin.topic, error.reason, refusal.refused.count)
        if error.reason == DECODER:
            self._complaints.add(refusal.origin, str(error))
        dead_letter = self._make(refusal)
        value = msgspec.json.encode(dead_letter)
        if self._allowance.spend(len(value)):
            self._send(value, dead_letter.id.encode(), refusal.timestamp_ms)
        else:
            self._counts.bound("deadletter_bytes_per_s_max")
