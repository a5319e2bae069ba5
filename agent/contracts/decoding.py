"""What a decoder yields for one raw message."""

from collections.abc import Callable

import msgspec

from agent.contracts.errors import InvalidInputError
from agent.contracts.events import JobEvent


class Decoded(msgspec.Struct):
    """The events of one message, the parts of it that are refused, and what was left out on purpose.

    One message may be a batch: an event can be refused while its neighbours are taken. `ignored` counts, by reason,
    parts that are well-formed and of no use (a job step, a record of a pending job).
    """

    events: list[JobEvent] = []
    rejects: list[InvalidInputError] = []
    ignored: dict[str, int] = {}
    unknown_fields: int = 0


Decode = Callable[[bytes, int], Decoded]
"""A decoder: message bytes and the time the message was received, in ms; raises InvalidInputError for the whole."""


class DeadLetter(msgspec.Struct, frozen=True):
    """A message that could not be used: why, where it stood, and its bytes (base64, bounded)."""

    schema: str
    id: str
    time: str
    reason: str
    detail: str
    topic: str
    partition: int
    offset: int
    format: str
    value_base64: str
    value_bytes: int
    truncated: bool
