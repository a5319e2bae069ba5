"""A source partition that a collector reads: its decoders, its windows, the offset to commit, and the watermark.

Learners may advance time only up to the records that a collector has read and written. Otherwise runs would settle before the
samples of their hosts are read: after a stop, at a first start on filled topics, or if producers write samples minutes late.
"""

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from agent.collector.recorder import Attempts
from agent.collector.sources import TIMES
from processors.contracts.errors import InvalidInputError, UnavailableError
from processors.contracts.events import Decode, HostMinute, JobEvent
from processors.contracts.log import Assignment, Batch, Consumer, Position, TopicPartition
from processors.contracts.names import LATEST_MS
from processors.contracts.telemetry import DecodedBatch, DecodeSamples, Samples, SeriesIndex
from processors.windows.partition import PartitionWindows
from processors.windows.settings import Resume, WindowSettings

HEAD_BYTES: Final = 16
FORGOTTEN_MIN: Final = 1_000  # fewer unused series than this are kept in memory
FULL: Final = 7 / 8  # an index filled to this share counts as full
FREED: Final = 1 / 16  # minimum share of a full index that is worth freeing
Part = Callable[[], Iterator[HostMinute]]
"""Some of the hosts of a due minute; calling the part creates their events."""


class SourceDecoders(msgspec.Struct, frozen=True):
    """The decoders of a topic, and the name of its format.

    `decode` decodes single job messages. `telemetry` makes the decoder for slices of one partition, which also decodes job
    messages if the format has both. At most one of `decode` and `telemetry` is None. `ready` returns the number of leading
    messages that can be decoded now, and needs only the first HEAD_BYTES of each message; None means that all messages can be
    decoded. `keyed` merges the record key into a message, for the few formats whose key names the subject of the message.
    """

    format: str
    decode: Decode | None
    telemetry: Callable[[], DecodeSamples] | None = None
    ready: Callable[[Sequence[bytes | None]], int] | None = None
    keyed: Callable[[bytes | None, bytes | None], bytes | None] | None = None


class SourceWindows:
    """The windows of one source partition, as the collector sees them. They depend only on its records and their order."""

    def __init__(self, source: str, metadata: str, settings: WindowSettings, series_max: int) -> None:
        self._series_max = series_max
        self.index = SeriesIndex(series_max)
        resume: Resume | None = None
        # without stored metadata of this version, the first minutes may be written twice
        with suppress(InvalidInputError):
            resume = Resume.parse(metadata)
        self._windows = PartitionWindows(source, self.index, settings, resume)
        self._reported: dict[str, int] = {}

    def fold(
        self, samples: Samples, offsets: npt.NDArray[np.int64], received_ms: npt.NDArray[np.int64]
    ) -> Iterator[Part]:
        """Add samples, each with the offset and arrival time in ms of its record; yield the minutes that are now due, in parts.

        Exhaust the iterator before any other call. The caller may do other work between two parts.
        """
        return (partial(self._windows.events, due) for due in self._windows.fold(samples, offsets, received_ms))

    def end(self) -> Iterator[Part]:
        """Yield all unwritten changes of the open minutes, in parts; do not call `fold` afterwards."""
        return (partial(self._windows.events, due) for due in self._windows.end())

    @property
    def watermark_ms(self) -> int | None:
        """The sample time in ms that the windows have reached: all minutes due by then were yielded; None before the first sample."""
        return self._windows.watermark_ms

    def position(self, next_offset: int) -> Position:
        """Return the position from which a collector must read after a restart."""
        position = self._windows.position(next_offset)
        return Position(position.offset, "" if position.resume is None else position.resume.text())

    def counts(self) -> Mapping[str, int]:
        """Return the counts of samples by outcome since the last call; `repeated` and `thinned` samples also count as taken."""
        counts = self._windows.counts
        now = {name: counts[name] for name in ("taken", "late", "ahead", "not_finite", "repeated", "thinned")}
        before, self._reported = self._reported, now
        return {name: count - before.get(name, 0) for name, count in now.items()}

    def series_count(self) -> int:
        """Return the number of series with samples."""
        return self._windows.rings.series_count() + len(self._windows.sums)

    def forget(self) -> None:
        """Drop unused series if they outnumber the used ones, or if the index is nearly full and this frees enough room."""
        unused = len(self.index) - self.series_count()
        full = len(self.index) > self._series_max * FULL and unused > self._series_max * FREED
        if full or unused > max(FORGOTTEN_MIN, self.series_count()):
            self.index = SeriesIndex(self._series_max)
            self._windows.renumber(self.index)


class PartitionReading:
    """A source partition while this member reads it: its decoder, its windows, and the minutes being written.

    All records before `next_offset` are processed, and their due minutes written. While `part` is not None, minutes are being
    written: the caller must write `part` and call `advance` before it reads further records. `spoke_s` is the time at which
    records last arrived. After `end`, once all parts are written, create a new object with the metadata from `resume`. Discard
    the object if the partition is lost.
    """

    def __init__(
        self,
        source: SourceDecoders,
        windows: SourceWindows,
        committed: Position | None,
        spoke_s: float,
        attempts: Attempts,
    ) -> None:
        self.source = source
        self.committed = committed
        self.attempts = attempts
        self.spoke_s = spoke_s
        self.ended = False
        self.next_offset = None if committed is None else committed.offset
        self.part: Part | None = None
        self.newest_ms = 0  # timestamp of the newest message taken
        self._event_ms = 0  # newest event time
        self.windows = windows
        self._decode: DecodeSamples | None = None if source.telemetry is None else source.telemetry()
        self._parts: Iterator[Part] = iter(())
        self._until = 0
        self._index: SeriesIndex | None = None
        self._accepted = np.zeros(0, np.bool_)

    def decode(self, values: Sequence[bytes | None], received_ms: Sequence[int]) -> DecodedBatch:
        """Decode messages; return their samples, with series numbers of this partition's index, and all other parts.

        Raise ValueError if the format has no samples.
        """
        if self._decode is None:
            raise ValueError(f"The format {self.source.format} has no samples.")
        return self._decode(values, received_ms, self.windows.index)

    def accepted(self, series: npt.NDArray[np.int32], accepts: Callable[[str], bool]) -> npt.NDArray[np.bool_]:
        """Return for each sample whether its system is accepted, shape (m,)."""
        index = self.windows.index
        if index is not self._index:
            self._index, self._accepted = index, np.zeros(0, np.bool_)
        checked = len(self._accepted)
        if checked < len(index):
            new = [accepts(index[number].system) for number in range(checked, len(index))]
            self._accepted = np.concatenate((self._accepted, np.array(new, np.bool_)))
        accepted: npt.NDArray[np.bool_] = self._accepted[series]
        return accepted

    @property
    def time_ms(self) -> int | None:
        """The newest time in ms up to which all records are processed; None before the first record.

        If the partition has samples, this is the watermark of the windows, whose minutes may still be unwritten. Otherwise it
        is the newest event time, or the newest message time if there are no events.
        """
        samples_ms = self.windows.watermark_ms
        return max(self._event_ms or self.newest_ms, 0) or None if samples_ms is None else samples_ms

    def note(self, events: Sequence[JobEvent], written_ms: int) -> None:
        """Record the times of a message's events, each limited to the timestamp of the message."""
        for event in events:
            time_of = TIMES.get(type(event))
            time_ms = written_ms if time_of is None else time_of(event)
            self._event_ms = max(self._event_ms, min(time_ms, written_ms) if written_ms > 0 else time_ms)

    def take(self, batch: Batch, first: int, samples: Samples, message: npt.NDArray[np.int32]) -> None:
        """Add the samples of a batch to windows; `message` (m,) is the index of each sample's message, counted from `first`."""
        self._until, self.newest_ms = batch.next_offset, batch.timestamps_ms[-1]
        if len(samples.series):
            offsets = np.array(batch.offsets[first:], np.int64)
            received_ms = np.array(batch.timestamps_ms[first:], np.int64)
            received_ms = np.where(received_ms > 0, received_ms, LATEST_MS)  # the broker may set no timestamps
            self._parts = self.windows.fold(samples, offsets[message], received_ms[message])
        self.advance()

    def advance(self) -> None:
        """Move on to the next part of the due minutes; after the last part, the batch is finished."""
        self.part = next(self._parts, None)
        if self.part is None and not self.ended:
            self.next_offset = self._until
            self.windows.forget()

    def end(self) -> None:
        """Close the windows: queue all open minutes for writing, so that no window needs any further record."""
        self._parts, self.ended = self.windows.end(), True
        self.advance()

    def resume(self) -> str:
        """Return the metadata with which new windows continue after `end`."""
        return self.windows.position(self.next_offset or 0).metadata

    def position(self) -> Position | None:
        """Return the position to commit; None if no record was read yet, or while minutes are being written."""
        if self.part is not None or self.next_offset is None:
            return None
        windows = self.windows.position(self.next_offset)
        return Position(windows.offset, self.attempts.metadata(windows.metadata, windows.offset))


class WaitingPartitions:
    """Partitions that are paused because their next message cannot be decoded yet. No message is held in memory.

    `partitions` maps each of them to the first HEAD_BYTES of its next message, and to its source.
    """

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.partitions: dict[TopicPartition, tuple[bytes, SourceDecoders]] = {}

    def ready(self, batch: Batch, source: SourceDecoders) -> Batch:
        """Return the messages of a batch that can be decoded now.

        If a message cannot be decoded yet, its partition waits at this message and reads the message again later.
        """
        if source.keyed is not None:
            batch = msgspec.structs.replace(batch, values=list(map(source.keyed, batch.values, batch.keys)))
        partition, count = (batch.topic, batch.partition), len(batch.values)
        if partition in self.partitions:
            count = 0
        elif source.ready is not None:
            count = source.ready(batch.values)
            if count < len(batch.values):
                self.partitions[partition] = ((batch.values[count] or b"")[:HEAD_BYTES], source)
                self._consumer.seek(partition, batch.offsets[count])
                self._consumer.pause([partition])
        return batch.part(0, count)

    def over(self) -> list[TopicPartition]:
        """Return the waiting partitions whose next message can be decoded now; these partitions stop waiting."""
        ready = [
            partition
            for partition, (head, source) in self.partitions.items()
            if source.ready is None or source.ready([head])
        ]
        self.forget(ready)
        return ready

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop waiting for partitions that were lost or are read from another offset."""
        for partition in partitions:
            self.partitions.pop(partition, None)


_LOG = logging.getLogger("scalewatch.collector")
NEAR_MS: Final = 60_000  # a run waits longer than this before it settles
IDLE_S: Final = 90.0  # time waits this long for a partition's next record, because many producers write once a minute
LOOK_S: Final = 10.0  # time between two look-ups of the end offsets; a look-up may take half a second
START_S: Final = 30.0  # a group member has its partitions after this time
HANDOVER_S: Final = 30.0  # another member has taken over a lost partition after this time
# longest wait that counts, because a process that was suspended for an hour has not waited an hour for records
STEP_MAX_S: Final = 5.0


@dataclass(slots=True)
class Reached:
    """The progress of one partition: `time_ms` is the newest time of its records, and `moved_s` is when `time_ms` last grew.

    The partition is `behind` until the reader reaches `end`, the end offset at the last look-up. `lost_s` is when this member
    lost the partition. Both times in seconds are by the clock of `Watermark`.
    """

    moved_s: float
    time_ms: int | None = None
    behind: bool = True
    has_samples: bool = False
    end: int | None = None
    lost_s: float = math.inf


class Watermark:
    """The latest time to which the partitions of one collector let the journal's clock advance.

    A partition that is not read to its end allows times up to its newest record. A partition read to its end allows times up to
    now minus the delay of its samples; a delay over `hold_back_max_s` is ignored, because then the clock of the producers is
    wrong. A partition is ignored after IDLE_S without a newer record, and if it is more than `hold_back_max_s` behind the time
    already reached.
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
        """Whether ticks may be written: this member has been assigned partitions, or has waited START_S for an assignment."""
        return self._started or self._now_s >= START_S

    def follow(self, change: Assignment) -> None:
        for partition in change.lost:
            if partition in self._partitions:
                self._partitions[partition].lost_s = self._now_s
        for partition in change.gained:
            self._partitions[partition] = Reached(self._now_s)
            self._started = True

    def until_ms(self, now_ms: int, readings: Mapping[TopicPartition, PartitionReading]) -> int | None:
        """Return the time in ms up to which event time may advance, or None if no partition holds time back."""
        passed_s, self._last_s = self._monotonic_s() - self._last_s, self._monotonic_s()
        self._now_s += min(passed_s, STEP_MAX_S)
        if not self._hold_back_max_ms:
            return None
        for partition, reading in readings.items():
            self._note(partition, self._partitions[partition], reading, now_ms)
        over_s = self._now_s - HANDOVER_S
        self._partitions = {key: reached for key, reached in self._partitions.items() if reached.lost_s >= over_s}
        holds = {partition: self._hold_ms(reached, now_ms) for partition, reached in self._partitions.items()}
        first, until_ms = min(holds.items(), key=lambda hold: hold[1], default=(None, now_ms))
        held = until_ms < now_ms - NEAR_MS
        self._time_ms = max(self._time_ms, min(until_ms, now_ms))
        if until_ms:
            self._log_change(first if held else None, now_ms - until_ms if held else 0)
        return until_ms if held else None

    def _note(self, partition: TopicPartition, reached: Reached, reading: PartitionReading, now_ms: int) -> None:
        time_ms, reached.has_samples = reading.time_ms, reading.windows.watermark_ms is not None
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
        """Return the event time in ms up to which a partition lets time advance."""
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
        """Log when a partition begins to hold time back, and when no partition holds time back any more."""
        self.held_back_s = held_back_ms / 1000
        if partition is not None and self._held_by is None:
            _LOG.info("Time waits for %s/%d, which is %.0f minutes behind.", *partition, held_back_ms / 60_000)
        elif partition is None and self._held_by is not None:
            _LOG.info("Time waits for no partition any more.")
        self._held_by = partition
