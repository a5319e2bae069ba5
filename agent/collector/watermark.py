"""The watermark of a collector: learners may let time pass only up to the records that it has read and written.

Otherwise runs would settle before the samples of their hosts are read: after a stop, at a first start on filled topics, or
if producers write their samples minutes late.
"""

import logging
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from agent.collector.reading import PartitionReading
from processors.contracts.errors import UnavailableError
from processors.contracts.log import Assignment, Consumer, TopicPartition

_LOG = logging.getLogger("scalewatch.collector")
NEAR_MS: Final = 60_000  # a run waits longer before it settles
IDLE_S: Final = 90.0  # time waits this long for the next record, because many producers write once a minute
LOOK_S: Final = 10.0  # between two look-ups of the ends of partitions; a look-up may take half a second
START_S: Final = 30.0  # by then a member of a group has its partitions
HANDOVER_S: Final = 30.0  # by then another member has a lost partition
# longest wait that counts: a process that was suspended for an hour has not waited an hour for records
STEP_MAX_S: Final = 5.0


@dataclass(slots=True)
class Reached:
    """How far one partition is read: `time_ms` is the newest time of its records, which last grew at `moved_s`.

    The partition is `behind` until it is read up to its `end` at the last look-up. Another member owns it since `lost_s`.
    """

    moved_s: float
    time_ms: int | None = None
    behind: bool = True
    has_samples: bool = False
    end: int | None = None
    lost_s: float = math.inf


class Watermark:
    """The partitions of one collector, and the time up to which they let time pass.

    A partition that is behind holds time at the newest time read from it. A partition that was read to its end holds time
    back by the delay of its samples, at most `hold_back_max_s`: beyond that the clock of its producers is wrong. No partition
    holds time for longer than IDLE_S without a newer record, nor further back than `hold_back_max_s` before the time reached.
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
        """Whether this member knows its partitions, or has waited long enough for them; no tick is written before."""
        return self._started or self._now_s >= START_S

    def follow(self, change: Assignment) -> None:
        for partition in change.lost:
            if partition in self._partitions:
                self._partitions[partition].lost_s = self._now_s
        for partition in change.gained:
            self._partitions[partition] = Reached(self._now_s)
            self._started = True

    def until_ms(self, now_ms: int, readings: Mapping[TopicPartition, PartitionReading]) -> int | None:
        """Return the time up to which time may pass, or None if nothing holds it back."""
        passed_s, self._last_s = self._monotonic_s() - self._last_s, self._monotonic_s()
        self._now_s += min(passed_s, STEP_MAX_S)
        if not self._hold_back_max_ms:
            return None
        for partition, reading in readings.items():
            self._note(partition, self._partitions[partition], reading, now_ms)
        for partition in [
            key for key, reached in self._partitions.items() if self._now_s - reached.lost_s > HANDOVER_S
        ]:
            del self._partitions[partition]
        holds = {partition: self._hold_ms(reached, now_ms) for partition, reached in self._partitions.items()}
        first, until_ms = min(holds.items(), key=lambda hold: hold[1], default=(None, now_ms))
        held = until_ms < now_ms - NEAR_MS
        self._time_ms = max(self._time_ms, min(until_ms, now_ms))
        if until_ms:
            self._log_change(first if held else None, now_ms - until_ms if held else 0)
        return until_ms if held else None

    def _note(self, partition: TopicPartition, reached: Reached, reading: PartitionReading, now_ms: int) -> None:
        time_ms, reached.has_samples = reading.time_ms, reading.has_samples
        moved = time_ms is not None and (reached.time_ms is None or time_ms > reached.time_ms)
        if moved:
            reached.time_ms, reached.moved_s = time_ms, self._now_s
        is_far = moved and not reached.behind and now_ms - (time_ms or 0) > NEAR_MS
        if reached.end is None or (is_far and self._now_s - self._looked_s >= LOOK_S):
            self._looked_s = self._now_s
            with suppress(UnavailableError):
                reached.end = self._consumer.end(partition)
                if reading.next_offset is None and self._consumer.beginning(partition) == reached.end:
                    reached.end = 0  # the partition is empty
        reached.behind = reached.end is None or (reading.next_offset or 0) < reached.end

    def _hold_ms(self, reached: Reached, now_ms: int) -> int:
        """Return the time up to which a partition lets time pass."""
        idle_s = self._now_s - reached.moved_s
        if idle_s > IDLE_S:
            return now_ms
        if reached.behind:
            hold_ms = reached.time_ms or 0
        elif reached.has_samples and reached.time_ms is not None:
            hold_ms = reached.time_ms + round(idle_s * 1000)
            if now_ms - hold_ms > self._hold_back_max_ms:
                return now_ms
        else:
            return now_ms
        return now_ms if 0 < hold_ms < self._time_ms - self._hold_back_max_ms else hold_ms

    def _log_change(self, partition: TopicPartition | None, held_back_ms: int) -> None:
        """Log when a partition begins to hold time back, and when none does any more."""
        self.held_back_s = held_back_ms / 1000
        if partition is not None and self._held_by is None:
            _LOG.info("Time waits for %s/%d, which is %.0f minutes behind.", *partition, held_back_ms / 60_000)
        elif partition is None and self._held_by is not None:
            _LOG.info("Time waits for no partition any more.")
        self._held_by = partition
