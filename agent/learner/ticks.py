"""How far a tick is trusted: collectors write the time of their own clocks, and one clock may be wrong.

The broker notes when it took each record. So a tick that is ahead of that is a wrong clock of its collector, and a replay
of the journal finds the same.
"""

from typing import Final

import msgspec

from processors.contracts.events import JournalRecord, Tick

AHEAD_MAX_MS: Final = 5_000  # what clocks that are set over the network, and collectors under load, may differ by
FULL_SECOND_MS: Final = 1_000  # ticks of several collectors then stay the same


def is_ahead(record: JournalRecord, written_ms: int) -> bool:
    """Return whether a record is a tick ahead of the time at which the broker took it; never where it noted no time."""
    return type(record.event) is Tick and 0 < written_ms < record.event.time_ms - AHEAD_MAX_MS


def at_broker_time(record: JournalRecord, written_ms: int) -> JournalRecord:
    """Return a tick of the time at which the broker took it, in place of one that is ahead: time has to go on."""
    time_ms = written_ms - written_ms % FULL_SECOND_MS
    return msgspec.structs.replace(record, event=msgspec.structs.replace(record.event, time_ms=time_ms))
