"""Telemetry in files: samples of each file through windows of its own, as minutes of hosts."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import numpy as np

from agent.config.tree import Config
from agent.contracts.events import HostMinute
from agent.contracts.telemetry import Samples, SeriesIndex
from agent.decode.files import Telemetry
from agent.decode.options import DecodeOptions
from agent.decode.telemetry.options import TelemetryOptions
from processors.windows.far_ahead import FOLLOWING, far_ahead
from processors.windows.partition import PartitionWindows
from processors.windows.settings import MINUTE_MS, WindowSettings

INTERVAL_MS: Final = 10_000


def file_telemetry(config: Config, options: DecodeOptions, host: str | None = None) -> Telemetry:
    """Return how the telemetry of files is decoded; `host` is that of records that name none.

    >>> file_telemetry(Config(), DecodeOptions(), host="nid1").options.host
    'nid1'
    """
    return Telemetry(TelemetryOptions(decode=options, host=host), SeriesIndex(config.hosts.series_max))


class TelemetryCounts(msgspec.Struct):
    """Samples by what became of them; `minutes` are those of hosts that were told, corrections included."""

    taken: int = 0
    late: int = 0
    ahead: int = 0
    not_finite: int = 0
    minutes: int = 0


class TelemetryFiles:
    """The windows of files that are read together; `samples` asks for the samples as well.

    >>> from agent.contracts.telemetry import SeriesIndex
    >>> from agent.decode.telemetry.options import TelemetryOptions
    >>> files = TelemetryFiles(Telemetry(TelemetryOptions(), SeriesIndex(9)), ["load.jsonl"])
    >>> list(files.windows(0).end()), files.counts().taken
    ([], 0)
    """

    def __init__(self, telemetry: Telemetry, names: Sequence[str], *, samples: bool = False) -> None:
        self.telemetry = telemetry
        self._names = names
        self._samples = samples
        self._files: dict[int, FileWindows] = {}

    def windows(self, number: int) -> "FileWindows":
        """Return the windows of a file, by its number."""
        if number not in self._files:
            several = self._samples and len(self._names) > 1
            cut_ms = INTERVAL_MS if several else None
            self._files[number] = FileWindows(self._names[number], self.telemetry, samples=self._samples, cut_ms=cut_ms)
        return self._files[number]

    def counts(self) -> TelemetryCounts:
        """Return what became of the samples of all files."""
        parts = [file.counts() for file in self._files.values()]
        sums = {name: sum(getattr(part, name) for part in parts) for name in TelemetryCounts.__struct_fields__}
        return TelemetryCounts(**sums)


class FileWindows:
    """Takes the samples of one file, and yields the minutes of hosts that are complete; with `samples` those too.

    A file does not say when its samples came. So none is early, but for those far ahead of all around them.
    Samples are cut into intervals of `cut_ms`, so that those of several files can be merged.
    """

    def __init__(self, name: str, telemetry: Telemetry, *, samples: bool = False, cut_ms: int | None = None) -> None:
        self._windows = PartitionWindows(name, telemetry.index, WindowSettings())
        self._guard = FarAhead()
        self._samples = samples
        self._cut_ms = cut_ms
        self._read = 0
        self._minutes = 0

    def take(self, samples: Samples) -> Iterator[Samples | HostMinute]:
        """Take the samples of the next records."""
        yield from self._fold(self._guard.take(samples))

    def end(self) -> Iterator[Samples | HostMinute]:
        """Yield what is left, nothing more comes."""
        yield from self._fold(self._guard.end())
        for part in self._windows.end():
            yield from self._told(self._windows.events(part))

    def counts(self) -> TelemetryCounts:
        """Return what became of the samples."""
        counts = self._windows.counts
        return TelemetryCounts(counts.taken, counts.late, self._guard.passed_over, counts.not_finite, self._minutes)

    def _fold(self, samples: Samples) -> Iterator[Samples | HostMinute]:
        if not len(samples.series):
            return
        if self._cut_ms is not None:
            told: list[Samples | HostMinute] = [*self._parts(samples, self._cut_ms), *self._minutes_of(samples)]
            yield from sorted(told, key=_first_ms)
            return
        if self._samples:
            yield samples
        yield from self._minutes_of(samples)

    def _minutes_of(self, samples: Samples) -> Iterator[HostMinute]:
        offsets = np.arange(self._read, self._read + len(samples.series))
        self._read += len(samples.series)
        for columns in self._windows.fold(samples, offsets, samples.time_ms):
            yield from self._told(self._windows.events(columns))
        self._windows.position(self._read)  # forgets which records were needed

    def _parts(self, samples: Samples, cut_ms: int) -> Iterator[Samples]:
        interval = samples.time_ms // cut_ms
        starts = np.flatnonzero(np.concatenate(([True], interval[1:] != interval[:-1]))).tolist()
        for start, stop in zip(starts, [*starts[1:], len(interval)], strict=True):
            yield taken(samples, slice(start, stop))

    def _told(self, events: Iterator[HostMinute]) -> Iterator[HostMinute]:
        for event in events:
            self._minutes += 1
            yield event


def _first_ms(told: Samples | HostMinute) -> int:
    return told.minute_ms + MINUTE_MS if isinstance(told, HostMinute) else int(told.time_ms[0])
