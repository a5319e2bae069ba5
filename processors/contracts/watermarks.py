"""The time of one journal partition: the clock of the collectors, held back by collectors whose sources are behind.

Every tick carries the clock of its collector. A collector that has not yet read what its sources held at that time adds
`until_ms`: records up to this time are in the journal. Time is the smallest of these, so a collector that is not behind
cannot push time past one that is. All of it follows from the ticks in their order.
"""

from typing import Final

import msgspec

from processors.contracts.events import Tick

SILENT_MS: Final = 120_000  # longer than a group needs to give the partitions of a dead collector to another one
COLLECTORS_MAX: Final = 256


class Hold(msgspec.Struct, frozen=True):
    """A collector lets time pass until `until_ms`; `clock_ms` was the newest clock when it said so."""

    until_ms: int
    clock_ms: int


class Watermarks(msgspec.Struct, frozen=True):
    """The newest clock of all collectors, and the hold of each collector that is behind, by its name.

    A hold ends with the next tick of its collector, or SILENT_MS after it: that collector is dead, and another one reads its
    partitions. A frozen value: a checkpoint keeps it while the fold goes on.

    >>> marks = Watermarks().after(Tick("", 900_000, "a", 300_000)).after(Tick("", 901_000, "b"))
    >>> marks.now_ms, marks.after(Tick("", 902_000, "a")).now_ms
    (300000, 902000)
    """

    clock_ms: int = 0
    holds: dict[str, Hold] = {}

    @property
    def now_ms(self) -> int:
        """The present time of the partition."""
        return min((self.clock_ms, *(hold.until_ms for hold in self.holds.values())))

    def after(self, tick: Tick) -> "Watermarks":
        """Return the watermarks after the next tick."""
        clock_ms = max(self.clock_ms, tick.time_ms)
        if not self.holds and tick.until_ms is None:
            return Watermarks(clock_ms)
        holds = {
            name: hold
            for name, hold in self.holds.items()
            if name != tick.collector and clock_ms - hold.clock_ms < SILENT_MS
        }
        if tick.until_ms is not None and len(holds) < COLLECTORS_MAX:
            holds[tick.collector] = Hold(tick.until_ms, clock_ms)
        return Watermarks(clock_ms, holds)
