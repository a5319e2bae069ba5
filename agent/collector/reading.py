"""A source partition that a collector reads: its decoders, its windows, and the position to commit."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from agent.collector.recorder import Attempts, part_of
from agent.collector.sources import TIMES
from processors.contracts.events import Decode, Decoded, JobEvent
from processors.contracts.log import Batch, Consumer, Position, TopicPartition
from processors.contracts.names import LATEST_MS
from processors.contracts.telemetry import DecodedBatch, DecodeSamples, Part, Samples, SampleWindows, SeriesIndex

HEAD_BYTES: Final = 16
Accepts = Callable[[str], bool]
NO_ATTEMPTS: Final = Attempts(("", 0), "", ())


class SourceDecoders(msgspec.Struct, frozen=True):
    """The decoders of a topic and the name of its format.

    `decode` decodes single messages of jobs. `telemetry` makes the decoder for slices of one partition; it also decodes
    messages of jobs, if the format has both. One of the two may be missing. `ready` returns how many messages, from the
    first on, can be decoded now; it needs only the first HEAD_BYTES of each. None: all can. `keyed` combines a message with
    its key, for the few formats whose key says what the message is about.
    """

    format: str
    decode: Decode | None
    telemetry: Callable[[], DecodeSamples] | None = None
    ready: Callable[[Sequence[bytes | None]], int] | None = None
    keyed: Callable[[bytes | None, bytes | None], bytes | None] | None = None


class PartitionReading:
    """A source partition while this member reads it: its decoder, its windows, and the minutes being written.

    Drop the object when the partition is lost. All records before `next_offset` are folded, and their due minutes written.

    While `part` is not None, minutes are being written, and nothing may be read: write `part`, and call `advance`.
    `spoke_s` is the time of the last records. After `end` and its parts the object cannot be used any more: make a new one
    with the metadata of `resume`.
    """

    def __init__(
        self,
        source: SourceDecoders,
        windows: SampleWindows,
        committed: Position | None,
        spoke_s: float = 0.0,
        attempts: Attempts = NO_ATTEMPTS,
    ) -> None:
        self.source = source
        self.committed = committed
        self.attempts = attempts
        self.spoke_s = spoke_s
        self.ended = False
        self.next_offset = None if committed is None else committed.offset
        self.part: Part | None = None
        self.newest_ms = 0  # timestamp of the newest message taken
        self._event_ms = 0  # newest time of an event
        self._windows = windows
        self._decode: DecodeSamples | None = None if source.telemetry is None else source.telemetry()
        self._parts: Iterator[Part] = iter(())
        self._until = 0
        self._index: SeriesIndex | None = None
        self._accepted = np.zeros(0, np.bool_)
        self._all_accepted = True

    def decode(self, values: Sequence[bytes | None], received_ms: Sequence[int]) -> DecodedBatch:
        """Decode messages into samples of this partition's series, and everything else beside them."""
        if self._decode is None:
            raise ValueError(f"The format {self.source.format} has no samples.")
        return self._decode(values, received_ms, self._windows.index)

    def accepted(self, series: npt.NDArray[np.int32], accepts: Accepts) -> npt.NDArray[np.bool_]:
        """Return for each sample whether its system is accepted, shape (m,)."""
        index = self._windows.index
        if index is not self._index:
            self._index, self._accepted, self._all_accepted = index, np.zeros(0, np.bool_), True
        checked = len(self._accepted)
        if checked < len(index):
            new = [accepts(index[number].system) for number in range(checked, len(index))]
            self._accepted = np.concatenate((self._accepted, np.array(new, np.bool_)))
            self._all_accepted = self._all_accepted and all(new)
        if self._all_accepted:  # the usual case
            return np.ones(len(series), np.bool_)
        accepted: npt.NDArray[np.bool_] = self._accepted[series]
        return accepted

    def system(self, series: int) -> str:
        return self._windows.index[series].system

    @property
    def has_samples(self) -> bool:
        return self._windows.watermark_ms is not None

    @property
    def time_ms(self) -> int | None:
        """The newest time whose records are all written, None before the first record.

        With samples it is the time of their windows, whose minutes may still be unwritten. Else it is the newest time of
        events, or of messages.
        """
        samples_ms = self._windows.watermark_ms
        return max(self._event_ms or self.newest_ms, 0) or None if samples_ms is None else samples_ms

    def note(self, events: Sequence[JobEvent], written_ms: int) -> None:
        """Record the times of the events of a message, none newer than the message."""
        for event in events:
            time_of = TIMES.get(type(event))
            time_ms = written_ms if time_of is None else time_of(event)
            self._event_ms = max(self._event_ms, min(time_ms, written_ms) if written_ms > 0 else time_ms)

    def take(self, batch: Batch, first: int, samples: Samples, message: npt.NDArray[np.int32]) -> None:
        """Fold the samples of a batch; `message` (m,) holds each sample's message number, counted from the batch's message `first`."""
        self._until, self.newest_ms = batch.next_offset, batch.timestamps_ms[-1]
        if len(samples.series):
            offsets = np.array(batch.offsets[first:], np.int64)
            received_ms = np.array(batch.timestamps_ms[first:], np.int64)
            received_ms = np.where(received_ms > 0, received_ms, LATEST_MS)  # for a broker that sets no timestamps
            self._parts = self._windows.fold(samples, offsets[message], received_ms[message])
        self.advance()

    def advance(self) -> None:
        """Move to the next part of the due minutes; without one the batch is finished."""
        self.part = next(self._parts, None)
        if self.part is None and not self.ended:
            self.next_offset = self._until
            self._windows.forget()

    def end(self) -> None:
        """Make all minutes that have begun due, so that no open window needs a record any more."""
        self._parts, self.ended = self._windows.end(), True
        self.advance()

    def resume(self) -> str:
        """Return the metadata with which new windows continue after `end`."""
        return self._windows.position(self.next_offset or 0).metadata

    def position(self) -> Position | None:
        """Return the position to commit; None if nothing was read, or while minutes are being written."""
        if self.part is not None or self.next_offset is None:
            return None
        windows = self._windows.position(self.next_offset)
        return Position(windows.offset, self.attempts.metadata(windows.metadata, windows.offset))

    def counts(self) -> Mapping[str, int]:
        """Return the counts of samples by outcome since the last call."""
        return self._windows.counts()

    def series_count(self) -> int:
        """Return the number of series with samples."""
        return self._windows.series_count()


class WaitingPartitions:
    """Partitions that are paused because their next message cannot be decoded yet. No message is held in memory.

    `partitions` holds the head of each next message, and its source.
    """

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.partitions: dict[TopicPartition, tuple[bytes, SourceDecoders]] = {}

    def ready(self, batch: Batch, source: SourceDecoders) -> Batch:
        """Return the messages of a batch that can be decoded now. From the first other message on the partition waits, and is read again."""
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
        if count == len(batch.values):
            return batch
        return part_of(batch, 0, count)

    def over(self) -> list[TopicPartition]:
        """Return the partitions whose next message can be decoded by now, and stop waiting for them."""
        ready = [
            partition
            for partition, (head, source) in self.partitions.items()
            if source.ready is None or source.ready([head])
        ]
        self.forget(ready)
        return ready

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop waiting for partitions that were lost or begin anew."""
        for partition in partitions:
            self.partitions.pop(partition, None)


def others_by_message(decoded: DecodedBatch) -> dict[int, Decoded]:
    """Return everything but samples by message number, merged into one `Decoded` for each message."""
    by_message: dict[int, Decoded] = {}
    for number, part in sorted(decoded.others, key=itemgetter(0)):
        merged = by_message.setdefault(number, Decoded())
        merged.events += part.events
        merged.rejects += part.rejects
        merged.unknown_fields += part.unknown_fields
        for reason, count in part.ignored.items():
            merged.ignored[reason] = merged.ignored.get(reason, 0) + count
    return by_message
