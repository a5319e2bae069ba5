"""One source partition while this member reads it: its decoder, its windows, and what of them is on its way."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from agent.collector.routes import Source
from agent.contracts.log import Batch, Position
from agent.contracts.moments import LATEST_MS
from agent.contracts.telemetry import DecodedBatch, DecodeSamples, Part, Samples, SampleWindows, SeriesIndex

Accepts = Callable[[str], bool]


class Reading:
    """Drop it when the partition is lost. `next_offset` is where to go on: all before it is folded, and told where due.

    While `part` is not None minutes are on their way, and nothing may be read: write it, and call `advance`.

    >>> from agent.app import compose
    >>> from agent.config.sources import Source as SourceSettings
    >>> from agent.config.tree import Config
    >>> config = Config(sources=(SourceSettings(topics=("load",), format="line-protocol", system="exa"),))
    >>> routes = compose.routes(config)
    >>> reading = Reading(routes.source("load"), routes.windows("load/0", ""), None)
    >>> batch = Batch("load", 0, 1, [0], [b"system,host=nid1 load1=3 1795168800"], [None], [1795168800000])
    >>> decoded = reading.decode(batch.values, batch.timestamps_ms)
    >>> reading.take(batch, 0, decoded.samples, decoded.sample_message)
    >>> reading.position().offset, reading.next_offset
    (0, 1)
    """

    def __init__(self, source: Source, windows: SampleWindows, committed: Position | None) -> None:
        self.source = source
        self.committed = committed
        self.next_offset = None if committed is None else committed.offset
        self.part: Part | None = None
        self._windows = windows
        self._decode: DecodeSamples | None = None if source.telemetry is None else source.telemetry()
        self._parts: Iterator[Part] = iter(())
        self._until = 0
        self._index: SeriesIndex | None = None
        self._accepted = np.zeros(0, np.bool_)

    def decode(self, values: Sequence[bytes | None], received_ms: Sequence[int]) -> DecodedBatch:
        """Decode messages into samples of this partition's series, and everything else beside them."""
        if self._decode is None:
            raise ValueError(f"The format {self.source.format} has no samples.")
        return self._decode(values, received_ms, self._windows.index)

    def accepted(self, series: npt.NDArray[np.int32], accepts: Accepts) -> npt.NDArray[np.bool_]:
        """Tell of which samples the system is accepted, (m,)."""
        index = self._windows.index
        if index is not self._index:
            self._index, self._accepted = index, np.zeros(0, np.bool_)
        known = len(self._accepted)
        if known < len(index):
            new = [accepts(index[number].system) for number in range(known, len(index))]
            self._accepted = np.concatenate((self._accepted, np.array(new, np.bool_)))
        found: npt.NDArray[np.bool_] = self._accepted[series]
        return found

    def system(self, series: int) -> str:
        """Return the system of a series."""
        return self._windows.index[series].system

    def take(self, batch: Batch, first: int, samples: Samples, message: npt.NDArray[np.int32]) -> None:
        """Fold the samples of a batch; `message` (m,) counts from the batch's message number `first` on."""
        self._until = batch.next_offset
        if len(samples.series):
            offsets = np.array(batch.offsets[first:], np.int64)[message]
            received_ms = np.array(batch.timestamps_ms[first:], np.int64)[message]
            received_ms = np.where(received_ms > 0, received_ms, LATEST_MS)  # of a broker that notes no times
            self._parts = self._windows.fold(samples, offsets, received_ms)
        self.advance()

    def advance(self) -> None:
        """Go on to the next part of what is due; without one the batch is done."""
        self.part = next(self._parts, None)
        if self.part is None:
            self.next_offset = self._until
            self._windows.forget()

    def position(self) -> Position | None:
        """Return what to commit; None where nothing was read, or minutes are on their way."""
        if self.part is not None or self.next_offset is None:
            return None
        return self._windows.position(self.next_offset)

    def counts(self) -> Mapping[str, int]:
        """Return what became of samples since the last call."""
        return self._windows.counts()

    def series_held(self) -> int:
        """Return how many series have samples."""
        return self._windows.series_held()
