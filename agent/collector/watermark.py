"""How far a collector lets time pass: no further than the records that it has read and written into the journal.

Else runs would settle before the samples of their hosts are read: after a stop, at a first start on filled topics, or where
producers write their samples minutes late.
"""

import logging
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from agent.collector.reading import Reading
from processors.contracts.errors import UnavailableError
from processors.contracts.log import Assignment, Consumer, TopicPartition

_LOG = logging.getLogger("scalewatch.collector")
NEAR_MS: Final = 60_000  # a run waits for longer before it settles
IDLE_S: Final = 90.0  # time waits so long for the next record: many producers write once a minute
LOOK_S: Final = 10.0  # between two questions for the ends of partitions: each may wait for half a second
START_S: Final = 30.0  # a member of a group has its partitions by then
HANDOVER_S: Final = 30.0  # another member has a partition by then that was lost
STEP_MAX_S: Final = 5.0  # a process that was stopped for an hour has waited no hour for records


@dataclass(slots=True)
class Reached:
    """How far one partition is read: `time_ms` is the newest time of its records, which grew last at `moved_s`.

    It is `behind` until it was read to its `end` as looked up last. Another member owns it since `lost_s`.
    """

    moved_s: float
    time_ms: int | None = None
    behind: bool = True
    has_samples: bool = False
    end: int | None = None
    lost_s: float = math.inf


class Watermark:
    """The partitions of one collector, and up to when it lets time pass.

    A partition that is behind holds time at the newest time read from it. One that was read to its end holds time as far back
    as its samples come late, by `hold_back_max_s` at most: beyond that the clock of its producers is wrong. No partition
    holds time for longer than IDLE_S without a newer record, nor further than `hold_back_max_s` behind what time had reached.
    """

    def __init__(self, consumer: Consumer, hold_back_max_s: float, monotonic_s: Callable[[], float]) -> None:
        self._consumer, self._monotonic_s = consumer, monotonic_s
        self._hold_back_max_ms = round(hold_back_max_s * 1000)
        self._partitions: dict[TopicPartition, Reached] = {}
        self._last_s, self._now_s = monotonic_s(), 0.0
        self._time_ms, self._looked_s = 0, 0.0
        self._started = not self._hold_back_max_ms
        self._held_by: TopicPartition | None = None
        self.held_back_s = 0.0

    @property
    def started(self) -> bool:
        """Whether this member knows its partitions, or need not wait for them any longer: no tick is written before."""
        return self._started or self._now_s >= START_S

    def follow(self, change: Assignment) -> None:
        """Take in which partitions this member gained and lost."""
        for partition in change.lost:
            if partition in self._partitions:
                self._partitions[partition].lost_s = self._now_s
        for partition in change.gained:
            self._partitions[partition] = Reached(self._now_s)
            self._started = True

    def until_ms(self, now_ms: int, readings: Mapping[TopicPartition, Reading]) -> int | None:
        """Return up to when time may pass, or None if nothing holds it back."""
        passed_s, self._last_s = self._monotonic_s() - self._last_s, self._monotonic_s()
        self._now_s += min(passed_s, STEP_MAX_S)
        if not self._hold_back_max_ms:
            return None
        for partition, reading in readings.items():
            self._note(partition, self._partitions[partition], reading, now_ms)
        for partition in [one for one, at in self._partitions.items() if self._now_s - at.lost_s > HANDOVER_S]:
            del self._partitions[partition]
        holds = {one: self._hold_ms(at, now_ms) for one, at in self._partitions.items()}
        first, until_ms = min(holds.items(), key=lambda hold: hold[1], default=(None, now_ms))
        held = until_ms < now_ms - NEAR_MS
        self._time_ms = max(self._time_ms, min(until_ms, now_ms))
        if until_ms:
            self._log_change(first if held else None, now_ms - until_ms if held else 0)
        return until_ms if held else None

    def _note(self, partition: TopicPartition, at: Reached, reading: Reading, now_ms: int) -> None:
        time_ms, at.has_samples = reading.time_ms, reading.has_samples
        moved = time_ms is not None and (at.time_ms is None or time_ms > at.time_ms)
        if moved:
            at.time_ms, at.moved_s = time_ms, self._now_s
        is_far = moved and not at.behind and now_ms - (time_ms or 0) > NEAR_MS
        if at.end is None or (is_far and self._now_s - self._looked_s >= LOOK_S):
            self._looked_s = self._now_s
            with suppress(UnavailableError):
                at.end = self._consumer.end(partition)
                if reading.next_offset is None and self._consumer.beginning(partition) == at.end:
                    at.end = 0  # it is empty
        at.behind = at.end is None or (reading.next_offset or 0) < at.end

    def _hold_ms(self, at: Reached, now_ms: int) -> int:
        """Return up to when a partition lets time pass."""
        idle_s = self._now_s - at.moved_s
        if idle_s > IDLE_S:
            return now_ms
        if at.behind:
            hold_ms = at.time_ms or 0
        elif at.has_samples and at.time_ms is not None:
            hold_ms = at.time_ms + round(idle_s * 1000)
            if now_ms - hold_ms > self._hold_back_max_ms:
                return now_ms
        else:
            return now_ms
        return now_ms if 0 < hold_ms < self._time_ms - self._hold_back_max_ms else hold_ms

    def _log_change(self, partition: TopicPartition | None, held_back_ms: int) -> None:
        """Log which partition begins to hold time back, and when none does any more."""
        self.held_back_s = held_back_ms / 1000
        if partition is not None and self._held_by is None:
            _LOG.info("Time waits for %s/%d, which is %.0f minutes behind.", *partition, held_back_ms / 60_000)
        elif partition is None and self._held_by is not None:
            _LOG.info("Time waits for no partition any more.")
        self._held_by = partition
