"""Telemetry in files: samples of each file through windows of its own, as minutes of hosts."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from agent.app import compose
from agent.config.tree import Config
from agent.contracts.events import HostMinute
from agent.contracts.telemetry import Samples, Series, SeriesIndex
from agent.decode.files import read_file
from agent.decode.options import DecodeOptions
from agent.decode.records import FileRecord, Telemetry
from processors.windows.far_ahead import FOLLOWING, far_ahead
from processors.windows.partition import PartitionWindows
from processors.windows.settings import MINUTE_MS, WindowSettings

INTERVAL_MS: Final = 10_000
WAITING_MAX: Final = 10_000  # records that wait for those after them
WAITING_BYTES_MAX: Final = 16_777_216

Ints = npt.NDArray[np.int64]
NONE: Final = np.zeros(0, np.int64)


def file_telemetry(config: Config, options: DecodeOptions, host: str | None = None) -> Telemetry:
    """Return how the telemetry of files is decoded: as that of the sources, all of whose resources and mappings count.

    `host` is that of records that name none.

    >>> file_telemetry(Config(), DecodeOptions(), host="nid1").options.host
    'nid1'
    """
    sources = [compose.telemetry_options(config, source) for source in config.sources] or [
        compose.telemetry_options(config)
    ]
    every = msgspec.structs.replace(
        sources[0],
        decode=options,
        host=host,
        resources=frozenset().union(*(source.resources for source in sources)),
        metrics=tuple(dict.fromkeys(metric for source in sources for metric in source.metrics)),
    )
    return Telemetry(every, SeriesIndex(config.hosts.series_max))


class TelemetryCounts(msgspec.Struct):
    """Samples by what became of them; `minutes` are those of hosts that were told, corrections included."""

    taken: int = 0
    late: int = 0
    ahead: int = 0
    not_finite: int = 0
    minutes: int = 0


class TelemetryFiles:
    """Files of telemetry that are read together, each with windows of its own; `samples` asks for the samples as well.

    Series have numbers of their own in each file; `index` has those of the samples that are asked for.

    >>> from agent.decode.telemetry.options import TelemetryOptions
    >>> files = TelemetryFiles(Telemetry(TelemetryOptions(), SeriesIndex(9)), ["load.jsonl"])
    >>> list(files.windows(0).end()), files.counts().taken
    ([], 0)
    """

    def __init__(
        self,
        telemetry: Telemetry,
        paths: Sequence[str],
        settings: WindowSettings | None = None,
        *,
        samples: bool = False,
    ) -> None:
        self.index = telemetry.index
        self._paths = paths
        every = telemetry.index if samples else None
        cut_ms = INTERVAL_MS if len(paths) > 1 else None
        self._files = [
            FileWindows(path, telemetry, settings or WindowSettings(), every=every, cut_ms=cut_ms) for path in paths
        ]

    def read(self, received_ms: int) -> list[Iterator[FileRecord]]:
        """Return the records of each file, to be read side by side."""
        return [
            read_file(path, received_ms, file.telemetry) for path, file in zip(self._paths, self._files, strict=True)
        ]

    def windows(self, number: int) -> "FileWindows":
        """Return the windows of a file, by its number."""
        return self._files[number]

    def counts(self) -> TelemetryCounts:
        """Return what became of the samples of all files."""
        parts = [file.counts() for file in self._files]
        sums = {name: sum(getattr(part, name) for part in parts) for name in TelemetryCounts.__struct_fields__}
        return TelemetryCounts(**sums)

    def series(self) -> set[Series]:
        """Return what was measured where, in all files."""
        return {file.telemetry.index[number] for file in self._files for number in range(len(file.telemetry.index))}


def with_following(records: Iterable[FileRecord]) -> Iterator[tuple[FileRecord, Ints]]:
    """Yield each record with the times of samples after it, as many as tell whether its own are far ahead.

    Records without samples wait for nobody. What waits is bounded in records and bytes.
    """
    waiting: deque[FileRecord] = deque()
    samples = size = 0
    for record in records:
        waiting.append(record)
        samples, size = samples + _count(record), size + len(record.value)
        while waiting and (
            not (own := _count(waiting[0]))
            or samples - own >= FOLLOWING
            or len(waiting) > WAITING_MAX
            or size > WAITING_BYTES_MAX
        ):
            first = waiting.popleft()
            samples, size = samples - own, size - len(first.value)
            yield first, _times(waiting) if own else NONE
    while waiting:
        yield waiting.popleft(), _times(waiting)


class FileWindows:
    """Takes the samples of one file, and yields the minutes of hosts that are complete.

    With an index of `every` file it yields the samples as well, numbered by it, and cut into intervals of `cut_ms`, so
    that those of several files can be merged. A file does not say when its samples came. So none is early, but for those
    far ahead of what follows.
    """

    def __init__(
        self,
        path: str,
        telemetry: Telemetry,
        settings: WindowSettings,
        *,
        every: SeriesIndex | None = None,
        cut_ms: int | None = None,
    ) -> None:
        self.telemetry = Telemetry(telemetry.options, SeriesIndex(telemetry.index.series_max))
        self._windows = PartitionWindows(path, self.telemetry.index, settings)
        self._ahead_ms = round(settings.late_max_s * 1000)
        self._every = every
        self._numbers = np.zeros(0, np.int32)
        self._cut_ms = cut_ms
        self._read = 0
        self._minutes = 0
        self._ahead = 0

    def take(self, samples: Samples, after_ms: Ints) -> Iterator[Samples | HostMinute]:
        """Take the samples of the next record; `after_ms` are the times of those after it."""
        ahead = far_ahead(samples.time_ms, after_ms, self._ahead_ms)
        if ahead.any():
            self._ahead += int(np.count_nonzero(ahead))
            samples = samples.take(~ahead)
        yield from self._fold(samples)

    def pass_time(self, time_ms: int) -> Iterator[HostMinute]:
        """Yield the minutes that are complete because no sample from before a time will follow."""
        for part in self._windows.pass_time(time_ms):
            yield from self._told(self._windows.events(part))

    def end(self) -> Iterator[HostMinute]:
        """Yield what is left, nothing more comes."""
        for part in self._windows.end():
            yield from self._told(self._windows.events(part))

    def counts(self) -> TelemetryCounts:
        """Return what became of the samples."""
        counts = self._windows.counts
        return TelemetryCounts(counts.taken, counts.late, self._ahead, counts.not_finite, self._minutes)

    def _fold(self, samples: Samples) -> Iterator[Samples | HostMinute]:
        if not len(samples.series):
            return
        if self._every is None:
            yield from self._minutes_of(samples)
            return
        shown = self._numbered(samples, self._every)
        if self._cut_ms is None:
            if len(shown.series):
                yield shown
            yield from self._minutes_of(samples)
            return
        told: list[Samples | HostMinute] = [*self._parts(shown, self._cut_ms), *self._minutes_of(samples)]
        yield from sorted(told, key=_first_ms)

    def _numbered(self, samples: Samples, every: SeriesIndex) -> Samples:
        """Return the samples with the numbers of another index, without those for which it has no room."""
        own = self.telemetry.index
        new = [every.number(own[number]) for number in range(len(self._numbers), len(own))]
        self._numbers = np.append(self._numbers, np.array([-1 if n is None else n for n in new], np.int32))
        numbers = self._numbers[samples.series]
        return Samples(numbers, samples.time_ms, samples.value).take(numbers >= 0)

    def _minutes_of(self, samples: Samples) -> Iterator[HostMinute]:
        offsets = np.arange(self._read, self._read + len(samples.series))
        self._read += len(samples.series)
        for columns in self._windows.fold(samples, offsets, samples.time_ms):
            yield from self._told(self._windows.events(columns))
        self._windows.position(self._read)  # forgets which records were needed

    def _parts(self, samples: Samples, cut_ms: int) -> Iterator[Samples]:
        interval = samples.time_ms // cut_ms
        if not len(interval):
            return
        starts = np.flatnonzero(np.concatenate(([True], interval[1:] != interval[:-1]))).tolist()
        for start, stop in zip(starts, [*starts[1:], len(interval)], strict=True):
            yield samples.take(slice(start, stop))

    def _told(self, events: Iterator[HostMinute]) -> Iterator[HostMinute]:
        for event in events:
            self._minutes += 1
            yield event


def _first_ms(told: Samples | HostMinute) -> int:
    return told.minute_ms + MINUTE_MS if isinstance(told, HostMinute) else int(told.time_ms[0])


def _count(record: FileRecord) -> int:
    return 0 if record.samples is None else len(record.samples.series)


def _times(records: Iterable[FileRecord]) -> Ints:
    found: list[Ints] = [NONE]
    count = 0
    for record in records:
        if count >= FOLLOWING:
            break
        if record.samples is not None:
            found.append(record.samples.time_ms[:FOLLOWING])
            count += len(found[-1])
    return np.concatenate(found)
