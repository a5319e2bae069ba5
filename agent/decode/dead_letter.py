"""The dead letter of a message, or of one event of it, that could not be used."""

from base64 import b64encode
from typing import Final

from agent.contracts.decoding import DeadLetter
from agent.contracts.errors import InvalidInputError
from agent.contracts.moments import LATEST_MS, rfc3339

SCHEMA: Final = "scalewatch.dead-letter/1"
VALUE_BYTES_MAX: Final = 65_536
DETAIL_MAX: Final = 500


def dead_letter(
    topic: str,
    partition: int,
    offset: int,
    index: int,
    *,
    format_name: str,
    value: bytes | None,
    error: InvalidInputError,
    timestamp_ms: int,
) -> DeadLetter:
    """Return the dead letter of the refusal number `index` of a message.

    It keeps the first VALUE_BYTES_MAX bytes. `timestamp_ms` is the message's own time; one that no calendar has is
    moved to its nearest end, so that the letter of a bad message can always be written.

    >>> letter = dead_letter(
    ...     "slurm.jobs", 2, 71, 0, format_name="slurm", value=b"x", error=InvalidInputError("not-json", "It is no JSON."), timestamp_ms=0
    ... )
    >>> letter.id, letter.value_base64
    ('slurm.jobs/2/71/0', 'eA==')
    """
    value = value or b""
    return DeadLetter(
        schema=SCHEMA,
        id=f"{topic}/{partition}/{offset}/{index}",
        time=rfc3339(min(max(timestamp_ms, 0), LATEST_MS)),
        reason=error.reason,
        detail=str(error)[:DETAIL_MAX],
        topic=topic,
        partition=partition,
        offset=offset,
        format=format_name,
        value_base64=b64encode(value[:VALUE_BYTES_MAX]).decode(),
        value_bytes=len(value),
        truncated=len(value) > VALUE_BYTES_MAX,
    )
