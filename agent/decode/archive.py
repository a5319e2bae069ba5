"""Archives of ClusterCockpit: a folder per job with `meta.json` and `data.json`, alone or in a tree of any depth.

Jobs are read when they begin and forgotten when they end; what those that run at the same time measured is merged by time.
"""

import heapq
import os
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from agent.contracts.decoding import Decoded
from agent.contracts.errors import ConfigError, InvalidInputError
from agent.contracts.telemetry import Samples
from agent.decode.archive_job import Measured, measured
from agent.decode.clustercockpit import FORMAT, Job, completed, decoded_job, started
from agent.decode.opening import open_source
from agent.decode.reasons import invalid
from agent.decode.records import FileRecord, Telemetry
from agent.decode.telemetry.columns import Columns
from agent.decode.telemetry.resources import BoundsTable

META: Final = "meta.json"
DATA: Final = ("data.json.gz", "data.json")
JOBS_MAX: Final = 1_000_000
META_BYTES_MAX: Final = 16 * 1024 * 1024
DATA_BYTES_MAX: Final = 512 * 1024 * 1024
VALUES_MAX: Final = 50_000_000  # of jobs that run at the same time, eight bytes each
SLICE_MS: Final = 60_000


Read = Callable[[str, int, Telemetry], Iterator[FileRecord]]
"""Reads a folder: its path, when it is read, and how its telemetry is decoded."""


class _Found(NamedTuple):
    """When a job began, and its folder; jobs whose metadata cannot be read come first."""

    start_ms: int
    folder: str


def read_archive(folder: str, received_ms: int, telemetry: Telemetry) -> Iterator[FileRecord]:
    """Return the records of an archive: starts and ends of its jobs and the samples of their hosts, a minute at a time.

    Raises ConfigError where the folder cannot be read, or holds no job. What is refused of a job comes with its place and
    costs the others nothing.

    >>> from agent.contracts.telemetry import SeriesIndex
    >>> from agent.decode.telemetry.options import TelemetryOptions
    >>> next(read_archive("no/such/folder", 0, Telemetry(TelemetryOptions(), SeriesIndex(9))))
    Traceback (most recent call last):
    agent.contracts.errors.ConfigError: The folder no/such/folder cannot be read: No such file or directory.
    """
    jobs = sorted(_found(folder))
    if not jobs:
        raise ConfigError(f"The folder {folder} holds no job of ClusterCockpit: there is no {META} in it, nor below.")
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
    try:
        with open_source(str(path)) as source:
            content = source.read(bytes_max + 1)
    except ConfigError as error:
        raise invalid("file", str(error)) from None
    if len(content) > bytes_max:
        raise invalid("too-large", f"The file has more than {bytes_max} bytes.")
    return content


class _Reading:
    """The jobs of an archive that wait and that run, while its time passes slice by slice."""

    def __init__(self, folder: str, jobs: list[_Found], received_ms: int, telemetry: Telemetry) -> None:
        self._folder = folder
        self._waiting = deque(jobs)
        self._running: list[Measured] = []
        self._events: list[tuple[int, int, int, FileRecord]] = []  # a heap by time, ends before starts
        self._received_ms = received_ms
        self._options, self._index = telemetry.options, telemetry.index
        self._bounds = BoundsTable()
        self._order = 0

    def records(self) -> Iterator[FileRecord]:
        """Return all there is, in order of time."""
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
        """Return where the next slice begins: now, or where something happens next when nothing is measured."""
        if self._running:
            return now_ms
        times = [self._waiting[0].start_ms] if self._waiting else []
        times += [self._events[0][0]] if self._events else []
        return max(now_ms, min(times) // SLICE_MS * SLICE_MS)

    def _begin(self, folder: str) -> Iterator[FileRecord]:
        """Read a job; yield what is refused of it."""
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
            found = measured(job, content, system, self._index, short_hosts=self._options.short_hosts)
            if sum(each.size for each in self._running) + found.size > VALUES_MAX:
                raise invalid("too-large", f"The jobs that ran at the same time have more than {VALUES_MAX} values.")
        except InvalidInputError as error:
            yield FileRecord(f"{path}:1", FORMAT, b"", Decoded(), error=error)
            return
        counts = {"null": found.nulls, "metric": found.left_out}
        decoded.ignored.update({what: count for what, count in counts.items() if count})
        self._running.append(found)

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
