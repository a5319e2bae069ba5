"""Job archives of ClusterCockpit: a folder per job with `meta.json` and `data.json`, alone or in a tree of any depth.

A job is read when it begins and dropped when it ends. The measurements of jobs that run at the same time are merged by time.
"""

import heapq
import os
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from agent.decode.clustercockpit import FORMAT, JOB, NODE, SCOPES, ArchivedJob, completed, factor_of, place_of, started
from agent.decode.message import FileRecord, FileTelemetry, decode_json, invalid
from agent.decode.opening import open_source
from agent.decode.telemetry.columns import Columns, number_of
from agent.decode.telemetry.metric import BoundsTable
from processors.contracts.errors import ConfigError, InvalidInputError
from processors.contracts.events import Decoded
from processors.contracts.telemetry import SeriesIndex

Floats = npt.NDArray[np.float64]

Values = list[float | None]

STEP_MAX_S: Final = 86_400.0
LOAD: Final = ("cpu_load", NODE)
LOAD1: Final = "load1"  # second resource for cpu_load, so that load1 windows exist as with line protocol


class _Unit(msgspec.Struct):
    base: str | None = None
    prefix: str | None = None


class _Series(msgspec.Struct):
    data: Values
    hostname: str
    id: int | str | None = None


class _Statistics(msgspec.Struct):
    mean: Values = []


class _Metric(msgspec.Struct, rename="camel"):
    timestep: float
    unit: _Unit | str | None = None
    series: list[_Series] | None = None
    statistics_series: _Statistics | None = None


_DATA: Final = msgspec.json.Decoder(dict[str, dict[str, msgspec.Raw]])
_METRIC: Final = msgspec.json.Decoder(_Metric)


class ArchiveBlock(NamedTuple):
    """Time series of a job with common times: values (series, n), one every `step_ms` from `first_ms` on, nan if missing.

    Values after `last_ms` are ignored.
    """

    first_ms: int
    last_ms: int
    step_ms: int
    series: npt.NDArray[np.int64]
    values: Floats

    def index_of(self, time_ms: int) -> int:
        """Return the index of the first value at or after `time_ms`."""
        return max(-((self.first_ms - time_ms) // self.step_ms), 0)

    def next_ms(self, now_ms: int) -> int:
        """Return the time in ms of the first value at or after `now_ms`; this time may lie beyond the end of the series."""
        return self.first_ms + self.index_of(now_ms) * self.step_ms

    @property
    def end_ms(self) -> int:
        return min(self.first_ms + len(self.values[0]) * self.step_ms, self.last_ms + 1)

    def add(self, from_ms: int, to_ms: int, columns: Columns) -> None:
        """Append the samples between `from_ms` (inclusive) and `to_ms` (exclusive) to `columns`; missing values are skipped."""
        stop = min(self.index_of(min(to_ms, self.last_ms + 1)), self.values.shape[1])
        for at in range(self.index_of(from_ms), stop):
            values = self.values[:, at]
            good = np.isfinite(values)
            if good.any():
                time_ms = self.first_ms + at * self.step_ms
                columns.add(self.series[good].tolist(), values[good].tolist(), time_ms, 0)


def measured(
    job: ArchivedJob, data: bytes, system: str, index: SeriesIndex, *, short_hosts: bool = False
) -> tuple[list[ArchiveBlock], dict[str, int]]:
    """Return the measurements in a job's `data.json`, and counts of missing values and of metrics that the agent does not use.

    For each metric the coarsest scope is used. If the archive has only statistics of the nodes, the mean of each node is used.
    Raise InvalidInputError if the document is malformed.

    >>> job = ArchivedJob(69, "emmy", start_time=1738842000, duration=600)
    >>> data = b'{"ipc": {"node": {"timestep": 60, "series": [{"hostname": "e0102", "data": [1.5, null, 1.6]}]}}}'
    >>> blocks, ignored = measured(job, data, "emmy", SeriesIndex(9))
    >>> blocks[0].values.tolist(), ignored
    ([[1.5, nan, 1.6]], {'null': 1, 'metric': 0})
    """
    ignored = {"null": 0, "metric": 0}
    rows: dict[tuple[int, int], Floats] = {}  # values by time step in ms and series number
    for name, scopes in decode_json(_DATA, data).items():
        scope = next((scope for scope in SCOPES if scope in scopes and place_of(name, scope, "0")), None)
        if scope is None:
            ignored["metric"] += 1
            continue
        metric = decode_json(_METRIC, scopes[scope])
        if not 0.001 <= metric.timestep <= STEP_MAX_S:
            raise invalid("out-of-range", f"The metric {name[:40]!a} has a time step of {metric.timestep} s.")
        step_ms = round(metric.timestep * 1000)
        for (host, resource, peer), values in _by_place(job, name, scope, metric, ignored).items():
            host_name = host.partition(".")[0] if short_hosts else host
            number = number_of(system, host_name, resource, peer, index)
            if number is None:
                ignored["metric"] += 1
            else:
                rows[step_ms, number] = _mean(values)
    # series of equal length share a block: padding all series to the longest could need memory quadratic in the file size
    alike: dict[tuple[int, int], dict[int, Floats]] = {}
    for (step_ms, number), row in rows.items():
        alike.setdefault((step_ms, len(row)), {})[number] = row
    first_ms, last_ms = job.start_ms, 2**62 if job.unfinished else job.end_ms
    blocks = [
        ArchiveBlock(first_ms, last_ms, step_ms, np.array([*series], np.int64), np.stack([*series.values()]))
        for (step_ms, _), series in alike.items()
    ]
    return blocks, ignored


def _by_place(
    job: ArchivedJob, name: str, scope: str, metric: _Metric, ignored: dict[str, int]
) -> dict[tuple[str, str, str | None], list[Floats]]:
    """Return the values of a metric in base units, keyed by host, resource and peer: a list with an array of values for each series.

    Nulls, which become nan, are counted in `ignored`.
    """
    unit = metric.unit
    factor = factor_of(name, f"{unit.prefix or ''}{unit.base or ''}" or "1" if isinstance(unit, _Unit) else unit)
    series = metric.series or ()
    if not series and metric.statistics_series is not None and scope == NODE:
        series = [_Series(metric.statistics_series.mean, host.hostname) for host in job.resources]
    rows: dict[tuple[str, str, str | None], list[Floats]] = {}
    for part in series:
        place = place_of(name, scope, "0" if part.id is None else str(part.id))
        if place is not None:
            ignored["null"] += part.data.count(None)
            rows.setdefault((part.hostname, *place), []).append(np.array(part.data, np.float64) * factor)
    if (name, scope) == LOAD:
        rows |= {(host, LOAD1, None): values for (host, _, _), values in rows.items()}
    return rows


def _mean(rows: list[Floats]) -> Floats:
    """Return the elementwise mean of arrays of different lengths; nan at times without a value."""
    if len(rows) == 1:
        return rows[0]
    length = max(map(len, rows))
    total, count = np.zeros(length), np.zeros(length)
    for row in rows:
        good = np.isfinite(row)
        total[: len(row)] += np.where(good, row, 0.0)
        count[: len(row)] += good
    mean = np.full(length, np.nan)
    np.divide(total, count, out=mean, where=count > 0)
    return mean


META: Final = "meta.json"
DATA: Final = ("data.json.gz", "data.json")
JOBS_MAX: Final = 1_000_000
META_BYTES_MAX: Final = 16 * 1024 * 1024
DATA_BYTES_MAX: Final = 512 * 1024 * 1024
VALUES_MAX: Final = 50_000_000  # maximum number of values of all jobs that run at the same time, 8 bytes each
SLICE_MS: Final = 60_000

Read = Callable[[str, int, FileTelemetry], Iterator[FileRecord]]
"""Reads a folder; the arguments are its path, the receive time in ms, and the options to decode telemetry."""


_JobFolder = tuple[int, str]
"""The start time of a job in ms, and the folder of the job. Jobs whose metadata cannot be read come first."""


def read_archive(folder: str, received_ms: int, telemetry: FileTelemetry) -> Iterator[FileRecord]:
    """Yield the records of an archive: starts and ends of jobs, and the samples of their hosts, one minute at a time.

    Raise ConfigError if the folder cannot be read or contains no job. A refused part of a job is reported with its position, and
    the remaining jobs are still read.
    """
    jobs = sorted(_jobs_in(folder))
    if not jobs:
        raise ConfigError(
            f"The folder {folder} holds no job of ClusterCockpit: neither the folder nor a folder below it has a file {META}. List files of other formats one by one."
        )
    yield from _Reading(folder, jobs, received_ms, telemetry).records()


def _jobs_in(folder: str) -> Iterator[_JobFolder]:
    folders = (place for place, _, names in os.walk(folder, onerror=_unreadable) if META in names)
    for number, place in enumerate(folders, 1):
        if number > JOBS_MAX:
            raise ConfigError(f"The folder {folder} holds more than {JOBS_MAX} jobs; list its subfolders one by one.")
        try:
            yield _job(place).start_ms, place
        except InvalidInputError:  # the second reading of the job reports the error
            yield 0, place


def _unreadable(error: OSError) -> None:
    raise ConfigError(f"The folder {error.filename} cannot be read: {error.strerror}.")


def _job(folder: str) -> ArchivedJob:
    return decode_json(JOB, _content(Path(folder, META), META_BYTES_MAX))


def _content(path: Path, bytes_max: int) -> bytes:
    if not path.is_file():  # reading a named pipe would block for ever
        raise invalid("file", f"{path} is no regular file.")
    try:
        with open_source(str(path)) as source:
            content = source.read(bytes_max + 1)
    except ConfigError as error:
        raise invalid("file", str(error)) from None
    if len(content) > bytes_max:
        raise invalid("too-large", f"The file has more than {bytes_max} bytes.")
    return content


class _Reading:
    """Merges the jobs of an archive in order of time, in slices of SLICE_MS; a job's data is loaded when the job starts."""

    def __init__(self, folder: str, jobs: list[_JobFolder], received_ms: int, telemetry: FileTelemetry) -> None:
        self._folder = folder
        self._waiting = deque(jobs)
        self._running: list[ArchiveBlock] = []
        self._events: list[tuple[int, int, int, FileRecord]] = []  # a heap ordered by time, ends before starts
        self._received_ms = received_ms
        self._options, self._index = telemetry.options, telemetry.index
        self._bounds = BoundsTable()
        self._order = count()

    def records(self) -> Iterator[FileRecord]:
        """Yield all records in order of time."""
        now_ms = 0
        while self._waiting or self._running or self._events:
            now_ms = self._next_ms(now_ms)
            while self._waiting and self._waiting[0][0] < now_ms + SLICE_MS:
                yield from self._begin(self._waiting.popleft()[1])
            yield from self._samples(now_ms)
            while self._events and self._events[0][0] < now_ms + SLICE_MS:
                record = heapq.heappop(self._events)[-1]
                record.until_ms = now_ms
                yield record
            now_ms += SLICE_MS
            self._running = [block for block in self._running if block.end_ms > now_ms]

    def _next_ms(self, now_ms: int) -> int:
        """Return the time of the next value, job start or job end, at which the next slice begins."""
        times = [block.next_ms(now_ms) for block in self._running]
        times += [self._waiting[0][0]] if self._waiting else []
        times += [self._events[0][0]] if self._events else []
        return max(now_ms, min(times) // SLICE_MS * SLICE_MS)

    def _begin(self, folder: str) -> Iterator[FileRecord]:
        """Read the job in `folder` and queue its events and measurements; yield a refusal for each invalid file."""
        place = f"{Path(folder, META)}:1"
        decoded = Decoded()
        try:
            job = _job(folder)
            start = started(job, self._received_ms, self._options.decode)
            ended = None if job.unfinished else completed(job, self._received_ms, self._options.decode)
        except InvalidInputError as error:
            yield FileRecord(place, FORMAT, b"", Decoded(), error=error)
            return
        yield from self._measure(folder, job, start.system, decoded)
        if ended is not None:
            self._happens(ended.end_ms, 0, FileRecord(place, FORMAT, b"", Decoded([ended])))
        if ended is None or ended.end_ms > start.start_ms:
            decoded.events.append(start)
        self._happens(start.start_ms, 1, FileRecord(place, FORMAT, b"", decoded))

    def _happens(self, time_ms: int, rank: int, record: FileRecord) -> None:
        heapq.heappush(self._events, (time_ms, rank, next(self._order), record))

    def _measure(self, folder: str, job: ArchivedJob, system: str, decoded: Decoded) -> Iterator[FileRecord]:
        path = next((each for each in (Path(folder, name) for name in DATA) if each.is_file()), None)
        if path is None:
            return
        try:
            content = _content(path, DATA_BYTES_MAX)
            # checked before the values become objects; the factor 2 allows for commas in names
            if content.count(b",") > 2 * VALUES_MAX:
                raise invalid("too-large", f"The job has more than {VALUES_MAX} values.")
            short_hosts = self._options.taken.short_hosts
            blocks, ignored = measured(job, content, system, self._index, short_hosts=short_hosts)
            if sum(block.values.size for block in (*self._running, *blocks)) > VALUES_MAX:
                raise invalid("too-large", f"The jobs that ran at the same time have more than {VALUES_MAX} values.")
        except InvalidInputError as error:
            yield FileRecord(f"{path}:1", FORMAT, b"", Decoded(), error=error)
            return
        decoded.ignored.update({what: count for what, count in ignored.items() if count})
        self._running += blocks

    def _samples(self, now_ms: int) -> Iterator[FileRecord]:
        columns = Columns([self._received_ms], self._index)
        for block in self._running:
            block.add(now_ms, now_ms + SLICE_MS, columns)
        batch = columns.batch(self._bounds, self._options)
        if not len(batch.samples.series) and not batch.others:
            return
        samples = batch.samples.take(np.argsort(batch.samples.time_ms, kind="stable"))
        decoded = Decoded()
        for _, other in batch.others:
            decoded.add(other)
        yield FileRecord(f"{self._folder}:1", FORMAT, b"", decoded, samples=samples)
