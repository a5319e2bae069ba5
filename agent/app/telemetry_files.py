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
from agent.contracts.telemetry import Samples, SeriesIndex
from agent.decode.files import FileRecord, Telemetry
from agent.decode.options import DecodeOptions
from agent.decode.telemetry.options import TelemetryOptions
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
    sources = [compose.telemetry_options(config, source) for source in config.sources] or [TelemetryOptions()]
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
    """The windows of files that are read together; `samples` asks for the samples as well.

    >>> from agent.contracts.telemetry import SeriesIndex
    >>> from agent.decode.telemetry.options import TelemetryOptions
    >>> files = TelemetryFiles(Telemetry(TelemetryOptions(), SeriesIndex(9)), ["load.jsonl"])
    >>> list(files.windows(0).end()), files.counts().taken
    ([], 0)
    """

    def __init__(
        self,
        telemetry: Telemetry,
        names: Sequence[str],
        settings: WindowSettings | None = None,
        *,
        samples: bool = False,
    ) -> None:
        self.telemetry = telemetry
        self._settings = settings or WindowSettings()
        self._names = names
        self._samples = samples
        self._files: dict[int, FileWindows] = {}

    def windows(self, number: int) -> "FileWindows":
        """Return the windows of a file, by its number."""
        if number not in self._files:
            several = self._samples and len(self._names) > 1
            cut_ms = INTERVAL_MS if several else None
            windows = PartitionWindows(self._names[number], self.telemetry.index, self._settings)
            self._files[number] = FileWindows(windows, self._settings.late_max_s, samples=self._samples, cut_ms=cut_ms)
        return self._files[number]

    def counts(self) -> TelemetryCounts:
        """Return what became of the samples of all files."""
        parts = [file.counts() for file in self._files.values()]
        sums = {name: sum(getattr(part, name) for part in parts) for name in TelemetryCounts.__struct_fields__}
        return TelemetryCounts(**sums)


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
    """Takes the samples of one file, and yields the minutes of hosts that are complete; with `samples` those too.

    A file does not say when its samples came. So none is early, but for those far ahead of what follows.
    Samples are cut into intervals of `cut_ms`, so that those of several files can be merged.
    """

    def __init__(
        self, windows: PartitionWindows, late_max_s: float, *, samples: bool = False, cut_ms: int | None = None
    ) -> None:
        self._windows = windows
        self._ahead_ms = round(late_max_s * 1000)
        self._samples = samples
        self._cut_ms = cut_ms
        self._read = 0
        self._minutes = 0
        self._ahead = 0

    def take(self, samples: Samples, after_ms: Ints) -> Iterator[Samples | HostMinute]:
        """Take the samples of the next record; `after_ms` are the times of those after it."""
        ahead = far_ahead(samples.time_ms, after_ms, self._ahead_ms)
        if ahead.any():
            self._ahead += int(np.count_nonzero(ahead))
            samples = taken(samples, ~ahead)
        yield from self._fold(samples)

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


def taken(samples: Samples, which: npt.NDArray[np.bool_] | slice) -> Samples:
    """Return some of the samples.

    >>> taken(Samples(np.zeros(2, np.int32), np.arange(2), np.ones(2)), slice(1, 2)).time_ms
    array([1])
    """
    return Samples(samples.series[which], samples.time_ms[which], samples.value[which])


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
