"""Merges files into one stream in order of time: job events, host minutes, samples, and refused records.

A file of events keeps its order, and a table of jobs is sorted by time. The merge reads each file a few thousand records ahead.
"""

import heapq
import shlex
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, pairwise, repeat
from operator import itemgetter
from pathlib import Path
from typing import IO, Final

import msgspec
import numpy as np

from agent.app import compose
from agent.config.tree import Config
from agent.decode.files import read_file
from agent.decode.message import DecodeOptions, FileRecord, FileTelemetry
from processors.contracts.errors import ConfigError, InvalidInputError, UnavailableError
from processors.contracts.events import HostMinute, HostState, JobCompleted, JobEvent, JobStarted, Network
from processors.contracts.telemetry import Samples, Series, SeriesIndex, is_power, is_profiled
from processors.hosts.stream import ScoreLine, StreamScorer
from processors.models.numerics.arrays import Ints
from processors.windows.minutes import MinutePart
from processors.windows.partition import FOLLOWING, PartitionWindows, far_ahead
from processors.windows.settings import MINUTE_MS, WindowSettings

INTERVAL_MS: Final = 10_000
WAITING_MAX: Final = 10_000  # maximum number of records that wait until later records are read
WAITING_BYTES_MAX: Final = 16_777_216
NONE: Final = np.zeros(0, np.int64)
_ENCODER = msgspec.json.Encoder()
TABLES: Final = frozenset({"sacct", "swf", "sonar"})  # formats that list jobs, not events in order of time
JOBS_MAX: Final = 5_000_000
NEVER_MS: Final = -1
END_MS: Final = 2**62
REMARKS_MAX: Final = 20
OTHERS: Final = "and others"
DAMAGED: Final = "file"  # refusal reason for a file with an unreadable part
NOT_UTF8: Final = "encoding"  # refusal reason for text in another encoding
_Key = tuple[int, str]


def file_telemetry(config: Config, options: DecodeOptions, host: str | None = None) -> FileTelemetry:
    """Return the decoding options for telemetry files.

    The resources and metric mappings of all sources apply to every file, because a file names no source. `host` is the host of
    records without a host name.
    """
    sources = [compose.telemetry_options(config, source) for source in config.sources] or [
        compose.telemetry_options(config)
    ]
    every = msgspec.structs.replace(
        sources[0],
        decode=options,
        host=host,
        taken=sources[0].taken.model_copy(
            update={
                "resources": tuple({name for source in sources for name in source.taken.resources}),
                "metrics": tuple(mapping for source in sources for mapping in source.taken.metrics),
            }
        ),
    )
    return FileTelemetry(every, SeriesIndex(config.hosts.series_max))


def telemetry_files(
    config: Config, paths: Sequence[str], options: DecodeOptions, host: str | None = None, *, samples: bool = False
) -> "TelemetryFiles":
    """Return readers of telemetry files, with the decoders and windows of the configuration."""
    telemetry = file_telemetry(config, options, host)
    return TelemetryFiles(telemetry, paths, compose.window_settings(config), samples=samples)


class TelemetryFiles:
    """Readers of telemetry files whose data is merged by time; each file has its own windows.

    Each file numbers its series independently. With `samples`, the windows also yield the samples, with series numbers of the
    common `index`.
    """

    def __init__(
        self, telemetry: FileTelemetry, paths: Sequence[str], settings: WindowSettings, *, samples: bool = False
    ) -> None:
        self.index = telemetry.index
        self._paths = paths
        every = telemetry.index if samples else None
        cut_ms = INTERVAL_MS if len(paths) > 1 else None
        self.files = [FileWindows(path, telemetry, settings, every=every, cut_ms=cut_ms) for path in paths]

    def read(self, received_ms: int) -> list[Iterator[FileRecord]]:
        """Return one iterator of records for each file; the caller may advance the iterators in any order."""
        return [
            read_file(path, received_ms, file.telemetry) for path, file in zip(self._paths, self.files, strict=True)
        ]

    def counts(self) -> Counter[str]:
        """Return the number of samples by outcome, and of host `minutes`, in which a corrected minute counts again."""
        counts = Counter[str]()
        for file in self.files:
            counts.update(file.counts())
        return counts

    def series(self) -> set[Series]:
        return {file.telemetry.index[number] for file in self.files for number in range(len(file.telemetry.index))}


def with_following(records: Iterable[FileRecord]) -> Iterator[tuple[FileRecord, Ints]]:
    """Yield each record with the times in ms of later samples, from which to decide whether the record's own samples are far ahead.

    At least FOLLOWING later samples are included, fewer at the end of the file, or if too many records or bytes are waiting. A
    record without samples does not wait for later samples.
    """
    waiting: deque[FileRecord] = deque()
    samples = size = 0
    for record in records:
        waiting.append(record)
        samples, size = samples + _count(record), size + len(record.value)
        while waiting and (
            not (count := _count(waiting[0]))
            or samples - count >= FOLLOWING
            or len(waiting) > WAITING_MAX
            or size > WAITING_BYTES_MAX
        ):
            first = waiting.popleft()
            samples, size = samples - count, size - len(first.value)
            yield first, _times(waiting) if count else NONE
    while waiting:
        yield waiting.popleft(), _times(waiting)


class FileWindows:
    """Computes completed host minutes from the samples of one file.

    With `every`, a common index of the series of all files, the samples are yielded, too. They have the series numbers of
    `every` and are split into intervals of `cut_ms`, so that the samples of several files can be merged. A file does not
    contain the arrival times of samples, so a sample is dropped as too early only if it is far ahead of the samples after it.
    """

    def __init__(
        self,
        path: str,
        telemetry: FileTelemetry,
        settings: WindowSettings,
        *,
        every: SeriesIndex | None = None,
        cut_ms: int | None = None,
    ) -> None:
        self.telemetry = FileTelemetry(telemetry.options, SeriesIndex(telemetry.index.series_max))
        self._windows = PartitionWindows(path, self.telemetry.index, settings)
        self._ahead_ms = round(settings.late_max_s * 1000)
        self._every = every
        self._numbers = np.zeros(0, np.int32)
        self._cut_ms = cut_ms
        self._read = 0
        self._minutes = 0
        self._ahead = 0

    def take(self, record: FileRecord, after_ms: Ints) -> Iterator[Samples | HostMinute]:
        """Yield the host minutes that end with the next record, and its samples if requested; `after_ms` has the times of later samples."""
        if (samples := record.samples) is not None:
            ahead = far_ahead(samples.time_ms, after_ms, self._ahead_ms)
            self._ahead += int(np.count_nonzero(ahead))
            yield from self._fold(samples.take(~ahead) if ahead.any() else samples)
        if record.until_ms is not None:
            yield from self._events(self._windows.pass_time(record.until_ms))

    def end(self) -> Iterator[HostMinute]:
        """Yield the remaining host minutes at the end of the file."""
        yield from self._events(self._windows.end())

    def counts(self) -> Counter[str]:
        counts = self._windows.counts
        read = Counter(taken=counts["taken"], late=counts["late"], ahead=self._ahead)
        return Counter(**read, not_finite=counts["not_finite"], minutes=self._minutes)

    def _fold(self, samples: Samples) -> Iterator[Samples | HostMinute]:
        if not len(samples.series):
            return
        if self._every is None:
            yield from self._minutes_of(samples)
            return
        numbered = self._numbered(samples, self._every)
        reported: list[Samples | HostMinute] = [*self._parts(numbered), *self._minutes_of(samples)]
        yield from reported if self._cut_ms is None else sorted(reported, key=_first_ms)

    def _numbered(self, samples: Samples, every: SeriesIndex) -> Samples:
        """Return the samples with their series numbers in the index `every`. Samples of a series without a number are dropped."""
        index = self.telemetry.index
        new = [every.number(index[number]) for number in range(len(self._numbers), len(index))]
        self._numbers = np.append(self._numbers, np.array([-1 if n is None else n for n in new], np.int32))
        numbers = self._numbers[samples.series]
        return Samples(numbers, samples.time_ms, samples.value).take(numbers >= 0)

    def _minutes_of(self, samples: Samples) -> Iterator[HostMinute]:
        offsets = np.arange(self._read, self._read + len(samples.series))
        self._read += len(samples.series)
        yield from self._events(self._windows.fold(samples, offsets, samples.time_ms))
        self._windows.position(self._read)  # discards the offsets that the windows keep for rereading a log

    def _parts(self, samples: Samples) -> Iterator[Samples]:
        """Yield the samples of each interval of `cut_ms`; without `cut_ms` all samples at once."""
        if not len(samples.series):
            return
        interval = samples.time_ms // (self._cut_ms or END_MS)
        starts = [0, *(np.flatnonzero(interval[1:] != interval[:-1]) + 1).tolist()]
        for start, stop in pairwise([*starts, len(interval)]):
            yield samples.take(slice(start, stop))

    def _events(self, parts: Iterable[MinutePart]) -> Iterator[HostMinute]:
        for part in parts:
            for event in self._windows.events(part):
                self._minutes += 1
                yield event


def of_profiles(minute: HostMinute) -> HostMinute:
    """Return a host minute with only the resources that job profiles use: counters and power."""
    resources = {name: row for name, row in minute.resources.items() if is_profiled(name) or is_power(name)}
    return msgspec.structs.replace(minute, resources=resources)


def _first_ms(reported: Samples | HostMinute) -> int:
    return reported.minute_ms + MINUTE_MS if isinstance(reported, HostMinute) else int(reported.time_ms[0])


def _count(record: FileRecord) -> int:
    return 0 if record.samples is None else len(record.samples.series)


def _times(records: Iterable[FileRecord]) -> Ints:
    times: list[Ints] = [NONE]
    count = 0
    for record in records:
        if count >= FOLLOWING:
            break
        if record.samples is not None:
            times.append(record.samples.time_ms[:FOLLOWING])
            count += len(times[-1])
    return np.concatenate(times)


class ScoreWriter:
    """Computes the anomaly scores of samples that arrive in order of time, and writes the scores of each completed interval."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._scorer: StreamScorer | None = None
        self.lines = 0

    @property
    def unscored(self) -> int:
        """The number of samples that were skipped because samples of a later interval came first."""
        return 0 if self._scorer is None else self._scorer.late

    def write(self, samples: Samples, index: SeriesIndex) -> None:
        """Score samples and write the complete scores. Raise UnavailableError if the file cannot be written."""
        if self._scorer is None:
            self._scorer = StreamScorer(index)
        self._write(self._scorer.score(samples))

    def end(self) -> None:
        """Write the scores of intervals that are still open."""
        if self._scorer is not None:
            self._write(self._scorer.end())

    def _write(self, lines: Iterator[ScoreLine]) -> None:
        every = [*lines]
        self.lines += len(every)
        try:
            self._file.write(_ENCODER.encode_lines(every))
        except OSError as error:
            raise UnavailableError(f"The scores cannot be written: {error.strerror}.") from error


@contextmanager
def scores_file(path: Path) -> Iterator[ScoreWriter]:
    """Open a score file for writing; raise ConfigError if it cannot be written."""
    try:
        file = path.open("wb")
    except OSError as error:
        raise ConfigError(f"The file {path} cannot be written: {error.strerror}.") from error
    with file:
        scores = ScoreWriter(file)
        try:
            yield scores
        except BaseException:
            if not scores.lines:  # an empty file would look like a result
                path.unlink(missing_ok=True)
            raise


class ReportedEvent(msgspec.Struct, frozen=True):
    """An event, the time in ms at which the agent would have received it, and its position in a file."""

    time_ms: int | None
    event: JobEvent | HostMinute
    place: str


class TimedSamples(msgspec.Struct, frozen=True):
    """Samples of one file in file order; `time_ms` is the time of the first sample."""

    time_ms: int
    samples: Samples


Item = ReportedEvent | TimedSamples | FileRecord


def reported_ms(event: JobEvent | HostMinute) -> int | None:
    """Return the time in ms at which an event is reported: a job start when it happens, a completion at the end of the run."""
    if isinstance(event, JobCompleted):
        return event.end_ms
    if isinstance(event, HostMinute):
        return event.minute_ms + MINUTE_MS
    if isinstance(event, HostState | Network):
        return event.time_ms
    return event.start_ms if isinstance(event, JobStarted) else None


def in_order(files: Iterable[Iterable[FileRecord]], telemetry: TelemetryFiles | None = None) -> Iterator[Item]:
    """Yield the events of files in order of time, and in between the records that are refused in whole or in part.

    With `telemetry`, the host minutes computed from the samples are yielded, too, and also the samples if `telemetry` was
    created with `samples`. Without `telemetry`, each record with samples is yielded. Raise ConfigError if the tables hold more
    than JOBS_MAX jobs.
    """
    table_jobs = count(1)
    streams = [
        _stream(records, telemetry.files[number] if telemetry is not None else None, table_jobs, first=number == 0)
        for number, records in enumerate(files)
    ]
    for _, item in heapq.merge(*streams, key=itemgetter(0)):
        yield item


def refused(record: FileRecord) -> Sequence[InvalidInputError]:
    """Return the errors of all refused parts of a record."""
    return [record.error] if record.error is not None else list(record.decoded.rejects)


class Remarks:
    """Counts of file records, and messages for the user about assumptions made for a file and about damaged files.

    The readable part of a damaged file is used, so the user must know that the results cover only that part.
    """

    def __init__(self, config: Config) -> None:
        self.texts: list[str] = []
        self.damaged = False
        self.first_refusal: str | None = None
        self.records = 0
        self.ignored = Counter[str]()  # number of ignored records by reason
        self._config = config
        self._accepted = 0
        self._left_out = Counter[str]()
        self._not_utf8: set[str] = set()

    @property
    def failed(self) -> bool:
        """Whether a file is damaged, or the configuration accepts none of the events."""
        return self.damaged or bool(self._left_out and not self._accepted)

    def accepts(self, system: str) -> bool:
        """Return whether the configuration accepts the system of an event; also count the event."""
        if self._config.journal_partition(system) is not None:
            self._accepted += 1
            return True
        if len(self._left_out) >= REMARKS_MAX and system not in self._left_out:
            system = OTHERS
        self._left_out[system] += 1
        return False

    def messages(self) -> list[str]:
        if not self._left_out:
            return self.texts
        total = self._left_out.total()
        systems = f"{'system' if len(self._left_out) == 1 else 'systems'} {', '.join(self._left_out)}"
        text = (
            f"{total} of {total + self._accepted} events are left out, because the configuration does not list the {systems}; "
            "add the name under `systems`, or to the aliases of a system."
        )
        return [*self.texts, text]

    def passing(self, records: Iterable[FileRecord]) -> Iterator[FileRecord]:
        """Yield the records of a file unchanged, and collect its remarks."""
        for record in records:
            self.take(record)
            yield record

    def take(self, record: FileRecord) -> None:
        """Collect the remarks of one record; the number of remarks is bounded, because archives contain up to a million files."""
        self.records += record.records
        self.ignored.update(record.decoded.ignored)
        damaged = record.error is not None and record.error.reason == DAMAGED
        self.damaged = self.damaged or damaged
        for error in refused(record):
            if error.reason == "system":
                raise ConfigError(_ask_for_system(record.place, self._config))
            self.first_refusal = self.first_refusal or f"{record.place}: {error}"
        text = record.error if damaged else record.remark
        if text is not None and len(self.texts) < REMARKS_MAX:
            self.texts.append(f"{record.place}: {text}")
        if any(error.reason == NOT_UTF8 for error in refused(record)):
            self._take_encoding(record.place.rpartition(":")[0] or record.place)

    def _take_encoding(self, file: str) -> None:
        """Add a remark, once per file, that the text is not UTF-8, with the command that converts Latin-1."""
        if file not in self._not_utf8 and len(self.texts) < REMARKS_MAX:
            self._not_utf8.add(file)
            self.texts.append(
                f"{file}: The text is not UTF-8, so lines with letters beyond ASCII are left out. If it is Latin-1, convert it first: "
                f"iconv -f LATIN1 -t UTF-8 {shlex.quote(file)}"
            )


def _ask_for_system(place: str, config: Config) -> str:
    systems = compose.systems_of_files(config)
    if systems:
        return f"{place} names no system, and there are several ({', '.join(systems)}): choose one with --system."
    return f"{place} names no system, and neither does the configuration: name it with --system."


def _stream(
    records: Iterable[FileRecord], windows: FileWindows | None, table_jobs: Iterator[int], *, first: bool
) -> Iterator[tuple[_Key, Item]]:
    """Yield the items of one file with a sort key that never decreases; tables are sorted. `table_jobs` counts the jobs of all tables."""
    table: list[ReportedEvent] = []
    for time_ms, item in _rising(_items(records, windows, table, table_jobs), first=first):
        yield (time_ms, ""), item
    table.sort(key=_order)
    for timed in table:
        yield _order(timed), timed


def _items(
    records: Iterable[FileRecord], windows: FileWindows | None, table: list[ReportedEvent], table_jobs: Iterator[int]
) -> Iterator[Item]:
    place = ""
    for record, after_ms in with_following(records) if windows is not None else zip(records, repeat(NONE)):
        place = record.place
        if record.error is not None or record.decoded.rejects or (record.samples is not None and windows is None):
            yield record
        if windows is not None:
            yield from _measured(windows.take(record, after_ms), place)
        for event in record.decoded.events:
            timed = ReportedEvent(reported_ms(event), event, place)
            if record.format not in TABLES:
                yield timed
                continue
            table.append(timed)
            if next(table_jobs) > JOBS_MAX:
                raise ConfigError(f"The files list more than {JOBS_MAX} jobs; split them.")
    if windows is not None:
        yield from _measured(windows.end(), place)


def _measured(reported: Iterable[Samples | HostMinute], place: str) -> Iterator[Item]:
    for part in reported:
        if isinstance(part, HostMinute):
            yield ReportedEvent(reported_ms(part), part, place)
        else:
            yield TimedSamples(int(part.time_ms[0]), part)


def _order(timed: ReportedEvent) -> _Key:
    return timed.time_ms or 0, timed.event.identity


def _rising(items: Iterable[Item], *, first: bool) -> Iterator[tuple[int, Item]]:
    """Yield each item with the latest time in ms among this item and all earlier items.

    Events before the first event with a time get the time of that event, so that a prediction request between the jobs of a day
    keeps its position. If no event of a file has a time, its events come before those of all other files if it is the first
    file, and after them otherwise.
    """
    waiting: list[Item] = []
    now_ms = NEVER_MS
    for item in items:
        time_ms = None if isinstance(item, FileRecord) else item.time_ms
        if isinstance(item, ReportedEvent) and time_ms is None and now_ms == NEVER_MS and len(waiting) < WAITING_MAX:
            waiting.append(item)
            continue
        if time_ms is not None:
            now_ms = max(now_ms, time_ms)
        elif waiting and isinstance(item, ReportedEvent):
            now_ms = 0 if first else END_MS
        if now_ms != NEVER_MS:
            yield from ((now_ms, early) for early in waiting)
            waiting.clear()
        yield now_ms, item
    yield from ((0 if first else END_MS, early) for early in waiting)
