"""One source partition as a collector reads it: how it is decoded, its windows, and from where to read again."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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


class Source(msgspec.Struct, frozen=True):
    """The decoders of a topic and the name of its format.

    `decode` takes messages of jobs, one by one; `telemetry` makes the decoder of slices of one partition, which takes
    messages of jobs, too, where there are both. One of them may be missing. `ready` says how many messages, from the first on, can
    be decoded now; the first HEAD_BYTES of a message tell whether it can. None: all can. `keyed` makes one of a message and its key, for
    the few formats in which a key says what the message is about.
    """

    format: str
    decode: Decode | None
    telemetry: Callable[[], DecodeSamples] | None = None
    ready: Callable[[Sequence[bytes | None]], int] | None = None
    keyed: Callable[[bytes | None, bytes | None], bytes | None] | None = None


class Reading:
    """One source partition while this member reads it: its decoder, its windows, and what of them is on its way.

    Drop it when the partition is lost. `next_offset` is where to go on: all before it is folded, and told where due.

    While `part` is not None minutes are on their way, and nothing may be read: write it, and call `advance`. `spoke_s`
    is when records came last. After `end` and its parts nothing may be read any more: begin anew with `resume`.
    """

    def __init__(
        self,
        source: Source,
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
        self.newest_ms = 0  # when the newest message was written that was taken
        self._event_ms = 0  # of the newest event that is no sample
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
        """Tell of which samples the system is accepted, (m,)."""
        index = self._windows.index
        if index is not self._index:
            self._index, self._accepted, self._all_accepted = index, np.zeros(0, np.bool_), True
        known = len(self._accepted)
        if known < len(index):
            new = [accepts(index[number].system) for number in range(known, len(index))]
            self._accepted = np.concatenate((self._accepted, np.array(new, np.bool_)))
            self._all_accepted = self._all_accepted and all(new)
        if self._all_accepted:  # as nearly always
            return np.ones(len(series), np.bool_)
        found: npt.NDArray[np.bool_] = self._accepted[series]
        return found

    def system(self, series: int) -> str:
        """Return the system of a series."""
        return self._windows.index[series].system

    @property
    def has_samples(self) -> bool:
        """Whether the partition has brought any sample."""
        return self._windows.watermark_ms is not None

    @property
    def time_ms(self) -> int | None:
        """Return the newest time of which everything is written, None before the first record.

        Times of samples come first: their minutes may still be on their way. Else events have a time, or messages.
        """
        samples_ms = self._windows.watermark_ms
        return max(self._event_ms or self.newest_ms, 0) or None if samples_ms is None else samples_ms

    def note(self, events: Sequence[JobEvent], written_ms: int) -> None:
        """Take note of the times of events of a message; none is newer than the message."""
        for event in events:
            own = TIMES.get(type(event))
            time_ms = written_ms if own is None else own(event)
            self._event_ms = max(self._event_ms, min(time_ms, written_ms) if written_ms > 0 else time_ms)

    def take(self, batch: Batch, first: int, samples: Samples, message: npt.NDArray[np.int32]) -> None:
        """Fold the samples of a batch; `message` (m,) counts from the batch's message number `first` on."""
        self._until, self.newest_ms = batch.next_offset, batch.timestamps_ms[-1]
        if len(samples.series):
            offsets = np.array(batch.offsets[first:], np.int64)
            received_ms = np.array(batch.timestamps_ms[first:], np.int64)
            received_ms = np.where(received_ms > 0, received_ms, LATEST_MS)  # of a broker that notes no times
            self._parts = self._windows.fold(samples, offsets[message], received_ms[message])
        self.advance()

    def advance(self) -> None:
        """Go on to the next part of what is due; without one the batch is done."""
        self.part = next(self._parts, None)
        if self.part is None and not self.ended:
            self.next_offset = self._until
            self._windows.forget()

    def end(self) -> None:
        """Let all minutes that have begun be due, and hold on to no record."""
        self._parts, self.ended = self._windows.end(), True
        self.advance()

    def resume(self) -> str:
        """Return what has to be said to windows that go on where these have ended."""
        return self._windows.position(self.next_offset or 0).metadata

    def position(self) -> Position | None:
        """Return what to commit; None where nothing was read, or minutes are on their way."""
        if self.part is not None or self.next_offset is None:
            return None
        at = self._windows.position(self.next_offset)
        return Position(at.offset, self.attempts.metadata(at.metadata, at.offset))

    def counts(self) -> Mapping[str, int]:
        """Return what became of samples since the last call."""
        return self._windows.counts()

    def series_count(self) -> int:
        """Return how many series have samples."""
        return self._windows.series_count()


class Waits:
    """The partitions that are not read because their next message cannot be decoded yet; nothing of them is held in memory.

    `partitions` has how their next messages begin, and their sources.
    """

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.partitions: dict[TopicPartition, tuple[bytes, Source]] = {}

    def ready(self, batch: Batch, source: Source) -> Batch:
        """Return the messages of a batch that can be decoded now; from the first other one on the partition waits, and is read again."""
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
        """Return the partitions whose next message can be decoded by now; they wait no more."""
        found = [one for one, (head, source) in self.partitions.items() if source.ready is None or source.ready([head])]
        self.forget(found)
        return found

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Let partitions wait no more: they are another member's, or begin anew."""
        for partition in partitions:
            self.partitions.pop(partition, None)


def others_by_message(decoded: DecodedBatch) -> dict[int, Decoded]:
    """Return what is no sample by the number of its message, in one piece each."""
    found: dict[int, Decoded] = {}
    for at, parts in itertools.groupby(sorted(decoded.others, key=lambda other: other[0]), key=lambda other: other[0]):
        one = found[at] = Decoded()
        for _, part in parts:
            one.events += part.events
            one.rejects += part.rejects
            one.unknown_fields += part.unknown_fields
            for reason, count in part.ignored.items():
                one.ignored[reason] = one.ignored.get(reason, 0) + count
    return found
