"""Events into the journal, with ticks made from event time."""

from collections.abc import Iterator
from typing import Final, Protocol

from agent.app.streams import TimedEvent
from agent.contracts.events import HostMinute, JobEvent, Origin

TICK_MS: Final = 10_000
PAUSES_MS: Final = (60_000, 300_000, 600_000)  # in a gap time passes in growing steps
LONG_MS: Final = 1_800_000
GAP_MAX_MS: Final = 2 * 86_400_000


class Journal(Protocol):
    """Where events and ticks go."""

    def write(self, event: JobEvent | HostMinute, origin: Origin) -> None:
        """Write an event; InvalidInputError where its system is not accepted."""

    def tick(self, time_ms: int) -> None:
        """Write a tick."""


class Feed:
    """Writes events into a journal and lets its time pass with theirs; `records` counts events and ticks written."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._now_ms: int | None = None
        self._written = 0
        self.records = 0

    def take(self, timed: TimedEvent) -> None:
        """Write an event, after the ticks that came before it. Raises InvalidInputError as the journal does."""
        if timed.time_ms is not None:
            self.pass_time(timed.time_ms)
        name, _, _ = timed.place.rpartition(":")
        self._journal.write(timed.event, Origin(name, 0, self._written))
        self._written += 1
        self.records += 1

    def finish(self, wait_ms: int) -> None:
        """Let so much more time pass, so that runs settle and alerts resolve."""
        if self._now_ms is not None:
            self.pass_time(self._now_ms + wait_ms)

    def pass_time(self, time_ms: int) -> None:
        """Write the ticks up to a time; it never goes backwards."""
        target_ms = time_ms - time_ms % TICK_MS
        for tick_ms in ticks(self._now_ms, target_ms):
            self._journal.tick(tick_ms)
            self._now_ms = tick_ms
            self.records += 1


def ticks(now_ms: int | None, target_ms: int) -> Iterator[int]:
    """Yield the ticks from now, exclusive, to the target, inclusive: few in a long gap, one in a very long one.

    >>> list(ticks(None, 20_000)), list(ticks(0, 20_000)), list(ticks(20_000, 0))
    ([20000], [10000, 20000], [])
    >>> len(list(ticks(0, 86_400_000)))
    53
    """
    if now_ms is None or target_ms - now_ms > GAP_MAX_MS:
        yield target_ms
        return
    steps = iter(PAUSES_MS)
    step_ms = TICK_MS
    while now_ms < target_ms:
        now_ms = min(now_ms + step_ms, target_ms)
        yield now_ms
        step_ms = next(steps, LONG_MS) if target_ms - now_ms > step_ms else TICK_MS
