"""Job archives of ClusterCockpit: a folder per job with `meta.json` and `data.json`, alone or in a tree of any depth.

A job is read when it begins and forgotten when it ends. The measurements of jobs that run at the same time are merged by time.
"""

import heapq
import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from agent.decode.clustercockpit import (
    FORMAT,
    NODE,
    SCOPES,
    Job,
    Place,
    completed,
    decoded_job,
    factor_of,
    place_of,
    started,
    unit_name,
)
from agent.decode.message import JSON_ERRORS, FileRecord, FileTelemetry, invalid, json_error
from agent.decode.opening import open_source
from agent.decode.telemetry.columns import Columns, number_of
from agent.decode.telemetry.metric import BoundsTable
from processors.contracts.errors import ConfigError, InvalidInputError
from processors.contracts.events import Decoded
from processors.contracts.telemetry import Samples, SeriesIndex

Floats = npt.NDArray[np.float64]

Values = list[float | None]

STEP_MAX_S: Final = 86_400.0
LOAD: Final = ("cpu_load", NODE)
LOAD1: Final = "load1"  # which has windows as well, as that of lines


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


class _Block(NamedTuple):
    """Series (k,) with common times: values (k, n), `step_ms` apart from the start of the job; a missing value is nan."""

    step_ms: int
    series: npt.NDArray[np.int64]
    values: Floats


class Measured(NamedTuple):
    """Measurements of a job: `nulls` counts missing values, `left_out` counts metrics that the agent does not use.

    >>> job = Job(69, "emmy", start_time=1738842000, duration=600)
    >>> data = b'{"ipc": {"node": {"timestep": 60, "series": [{"hostname": "e0102", "data": [1.5, null, 1.6]}]}}}'
    >>> index = SeriesIndex(9)
    >>> found = measured(job, data, "emmy", index)
    >>> columns = Columns([0], index)
    >>> found.add(job.start_ms, job.start_ms + 600_000, columns)
    >>> columns.values, found.nulls
    ([1.5, 1.6], 1)
    """

    first_ms: int
    last_ms: int
    blocks: tuple[_Block, ...]
    nulls: int
    left_out: int

    @property
    def size(self) -> int:
        return sum(block.values.size for block in self.blocks)

    def next_ms(self, now_ms: int) -> int:
        """Return the time of the first value at or after `now_ms`, or a time after the last value."""
        steps = [(max(-((self.first_ms - now_ms) // block.step_ms), 0), block.step_ms) for block in self.blocks]
        return self.first_ms + min((count * step_ms for count, step_ms in steps), default=0)

    @property
    def end_ms(self) -> int:
        ends = [self.first_ms + block.values.shape[1] * block.step_ms for block in self.blocks]
        return min(max(ends, default=self.first_ms), self.last_ms + 1)

    def add(self, from_ms: int, to_ms: int, columns: Columns) -> None:
        """Append the samples between `from_ms` (inclusive) and `to_ms` (exclusive) to `columns`."""
        for block in self.blocks:
            first, stop = (
                max(-((self.first_ms - time_ms) // block.step_ms), 0)
                for time_ms in (from_ms, min(to_ms, self.last_ms + 1))
            )
            for at in range(first, min(stop, block.values.shape[1])):
                values = block.values[:, at]
                good = np.isfinite(values)
                if good.any():
                    time_ms = self.first_ms + at * block.step_ms
                    columns.add(block.series[good].tolist(), values[good].tolist(), time_ms, 0)


def measured(job: Job, data: bytes, system: str, index: SeriesIndex, *, short_hosts: bool = False) -> Measured:
    """Return the measurements in a job's `data.json`. Raise InvalidInputError if the document is malformed.

    The coarsest scope of a metric is used. If the archive keeps only statistics of the nodes, the mean of each node is used.

    >>> measured(Job(69, start_time=1738842000, duration=60), b"{}", "emmy", SeriesIndex(9)).size
    0
    """
    try:
        metrics = _DATA.decode(data)
    except JSON_ERRORS as error:
        raise json_error(error) from None
    gathered = _Gathered(job, system, index, short_hosts=short_hosts)
    for name, scopes in metrics.items():
        scope = next((each for each in SCOPES if each in scopes and place_of(name, each, "0")), None)
        if scope is None:
            gathered.left_out += 1
        else:
            gathered.take(name, scope, _decoded(scopes[scope], name))
    return gathered.measured()


def _decoded(raw: msgspec.Raw, name: str) -> _Metric:
    try:
        metric = _METRIC.decode(raw)
    except JSON_ERRORS as error:
        raise json_error(error) from None
    if not 0.001 <= metric.timestep <= STEP_MAX_S:
        raise invalid("out-of-range", f"The metric {name[:40]!a} has a time step of {metric.timestep} s.")
    return metric


class _Gathered:
    """Rows of values by series: sums and counts, because parts of a host may share a series."""

    def __init__(self, job: Job, system: str, index: SeriesIndex, *, short_hosts: bool) -> None:
        self._job, self._system, self._index, self._short_hosts = job, system, index, short_hosts
        self._rows: dict[int, dict[int, Floats]] = {}
        self.nulls = 0
        self.left_out = 0

    def take(self, name: str, scope: str, metric: _Metric) -> None:
        """Add the series of a metric, converted to base units."""
        unit = metric.unit
        factor = factor_of(name, unit_name(unit.prefix, unit.base) if isinstance(unit, _Unit) else unit)
        rows: dict[tuple[str, Place], list[Floats]] = {}
        for each in self._series(metric, scope):
            place = place_of(name, scope, "0" if each.id is None else str(each.id))
            if place is not None:
                rows.setdefault((each.hostname, place), []).append(self._values(each.data) * factor)
        step_ms = round(metric.timestep * 1000)
        for (host, place), values in rows.items():
            found = _mean(values)
            self._put(host, place.resource, place.peer, step_ms, found)
            if (name, scope) == LOAD:
                self._put(host, LOAD1, None, step_ms, found)

    def measured(self) -> Measured:
        blocks = [block for step_ms, rows in self._rows.items() for block in _blocks(step_ms, rows)]
        last_ms = 2**62 if self._job.unfinished else self._job.end_ms
        return Measured(self._job.start_ms, last_ms, tuple(blocks), self.nulls, self.left_out)

    def _put(self, host: str, resource: str, peer: str | None, step_ms: int, values: Floats) -> None:
        host_name = host.partition(".")[0] if self._short_hosts else host
        number = number_of(self._system, host_name, resource, peer, self._index)
        if number is None:
            self.left_out += 1
        else:
            self._rows.setdefault(step_ms, {})[number] = values

    def _series(self, metric: _Metric, scope: str) -> Sequence[_Series]:
        if metric.series or metric.statistics_series is None or scope != NODE:
            return metric.series or ()
        return [_Series(metric.statistics_series.mean, host.hostname) for host in self._job.resources]

    def _values(self, data: Values) -> Floats:
        missing = data.count(None)
        self.nulls += missing
        return np.array([math.nan if value is None else value for value in data] if missing else data, np.float64)


def _mean(rows: list[Floats]) -> Floats:
    """Return the mean of rows of different lengths; nan at times without a value."""
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


def _blocks(step_ms: int, rows: dict[int, Floats]) -> Iterator[_Block]:
    """Yield a block for each row length. Rows filled up to the longest could need memory quadratic in the size of the file."""
    by_length: dict[int, list[int]] = {}
    for number, row in rows.items():
        by_length.setdefault(len(row), []).append(number)
    for numbers in by_length.values():
        yield _Block(step_ms, np.array(numbers, np.int64), np.stack([rows[number] for number in numbers]))


META: Final = "meta.json"
DATA: Final = ("data.json.gz", "data.json")
JOBS_MAX: Final = 1_000_000
META_BYTES_MAX: Final = 16 * 1024 * 1024
DATA_BYTES_MAX: Final = 512 * 1024 * 1024
VALUES_MAX: Final = 50_000_000  # of jobs that run at the same time, eight bytes each
SLICE_MS: Final = 60_000

Read = Callable[[str, int, FileTelemetry], Iterator[FileRecord]]
"""Reads a folder: its path, when it is read, and how its telemetry is decoded."""


class _Found(NamedTuple):
    """The start time of a job and its folder. Jobs whose metadata cannot be read come first."""

    start_ms: int
    folder: str


def read_archive(folder: str, received_ms: int, telemetry: FileTelemetry) -> Iterator[FileRecord]:
    """Yield the records of an archive: starts and ends of jobs, and the samples of their hosts, one minute at a time.

    Raise ConfigError if the folder cannot be read or holds no job. A refused part of a job is reported with its place; other
    jobs are not affected.

    >>> from processors.contracts.telemetry import SeriesIndex
    >>> from agent.decode.message import TelemetryOptions
    >>> next(read_archive("no/such/folder", 0, FileTelemetry(TelemetryOptions(), SeriesIndex(9))))
    Traceback (most recent call last):
    processors.contracts.errors.ConfigError: The folder no/such/folder cannot be read: No such file or directory.
    """
    jobs = sorted(_found(folder))
    if not jobs:
        raise ConfigError(
            f"The folder {folder} holds no job of ClusterCockpit: there is no {META} in it, nor below. Name files of other kinds themselves."
        )
    yield from _Reading(folder, jobs, received_ms, telemetry).records()


def _found(folder: str) -> Iterator[_Found]:
    count = 0
    for place, _, names in os.walk(folder, onerror=_unreadable):
        if META not in names:
            continue
        count += 1
        if count > JOBS_MAX:
            raise ConfigError(f"The folder {folder} holds more than {JOBS_MAX} jobs; give its parts.")
        try:
            yield _Found(_job(place).start_ms, place)
        except InvalidInputError:  # told when it is read again
            yield _Found(0, place)


def _unreadable(error: OSError) -> None:
    raise ConfigError(f"The folder {error.filename} cannot be read: {error.strerror}.")


def _job(folder: str) -> Job:
    return decoded_job(_content(Path(folder, META), META_BYTES_MAX))


def _content(path: Path, bytes_max: int) -> bytes:
    if not path.is_file():  # a named pipe would keep its reader waiting for ever
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
    """The jobs of an archive that wait or run while time passes slice by slice."""

    def __init__(self, folder: str, jobs: list[_Found], received_ms: int, telemetry: FileTelemetry) -> None:
        self._folder = folder
        self._waiting = deque(jobs)
        self._running: list[Measured] = []
        self._events: list[tuple[int, int, int, FileRecord]] = []  # a heap by time, ends before starts
        self._received_ms = received_ms
        self._options, self._index = telemetry.options, telemetry.index
        self._bounds = BoundsTable()
        self._order = 0

    def records(self) -> Iterator[FileRecord]:
        """Yield all records in order of time."""
        now_ms = 0
        while self._waiting or self._running or self._events:
            now_ms = self._next_ms(now_ms)
            while self._waiting and self._waiting[0].start_ms < now_ms + SLICE_MS:
                yield from self._begin(self._waiting.popleft().folder)
            yield from self._samples(now_ms)
            while self._events and self._events[0][0] < now_ms + SLICE_MS:
                record = heapq.heappop(self._events)[-1]
                record.until_ms = now_ms
                yield record
            now_ms += SLICE_MS
            self._running = [each for each in self._running if each.end_ms > now_ms]

    def _next_ms(self, now_ms: int) -> int:
        """Return the start of the next slice that has a value, or the start or end of a job."""
        times = [each.next_ms(now_ms) for each in self._running]
        times += [self._waiting[0].start_ms] if self._waiting else []
        times += [self._events[0][0]] if self._events else []
        return max(now_ms, min(times) // SLICE_MS * SLICE_MS)

    def _begin(self, folder: str) -> Iterator[FileRecord]:
        """Read the data of a job that begins; yield the parts that are refused."""
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
        self._order += 1
        heapq.heappush(self._events, (time_ms, rank, self._order, record))

    def _measure(self, folder: str, job: Job, system: str, decoded: Decoded) -> Iterator[FileRecord]:
        path = next((each for each in (Path(folder, name) for name in DATA) if each.is_file()), None)
        if path is None:
            return
        try:
            content = _content(path, DATA_BYTES_MAX)
            if content.count(b",") > 2 * VALUES_MAX:  # before each of them becomes an object; names have commas, too
                raise invalid("too-large", f"The job has more than {VALUES_MAX} values.")
            found = measured(job, content, system, self._index, short_hosts=self._options.taken.short_hosts)
            if sum(each.size for each in self._running) + found.size > VALUES_MAX:
                raise invalid("too-large", f"The jobs that ran at the same time have more than {VALUES_MAX} values.")
        except InvalidInputError as error:
            yield FileRecord(f"{path}:1", FORMAT, b"", Decoded(), error=error)
            return
        counts = {"null": found.nulls, "metric": found.left_out}
        decoded.ignored.update({what: count for what, count in counts.items() if count})
        self._running += [found._replace(blocks=(block,)) for block in found.blocks]  # forgotten as each of them ends

    def _samples(self, now_ms: int) -> Iterator[FileRecord]:
        columns = Columns([self._received_ms], self._index)
        for each in self._running:
            each.add(now_ms, now_ms + SLICE_MS, columns)
        batch = columns.batch(self._bounds, self._options)
        if not len(batch.samples.series) and not batch.others:
            return
        order = np.argsort(batch.samples.time_ms, kind="stable")
        every = batch.samples
        samples = Samples(every.series[order], every.time_ms[order], every.value[order])
        decoded = Decoded()
        for _, other in batch.others:
            decoded.rejects += other.rejects
            decoded.ignored.update(other.ignored)  # told once for the whole batch
        yield FileRecord(f"{self._folder}:1", FORMAT, b"", decoded, samples=samples)
