"""What an operator may choose about decoding; every default in one place."""

from typing import Final

import msgspec

from agent.contracts.moments import EARLIEST_MS

DAY_MS: Final = 86_400_000


class DecodeOptions(msgspec.Struct, frozen=True):
    """Options of all decoders; each uses those that concern it.

    `default_system` names the system of records that do not name it. Scripts, comments and working directories of
    jobs are private: they are dropped here unless asked for. A time is refused before `earliest_ms`, or more than
    `future_ms` after the message was received. `timezone` (such as ``Europe/Oslo`` or ``+02:00``) is the zone of
    `sacct` times, which carry none.

    >>> DecodeOptions(default_system="archer2").keep_script
    False
    """

    default_system: str | None = None
    keep_script: bool = False
    keep_comment: bool = False
    keep_paths: bool = False
    max_message_bytes: int = 4 * 1024 * 1024
    elements_max: int = 10_000
    earliest_ms: int = EARLIEST_MS
    future_ms: int = DAY_MS
    timezone: str = "UTC"
