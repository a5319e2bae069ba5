"""Files as one stream in the order of time: events of jobs, minutes of hosts, samples, and what was refused.

A file of events keeps its order, a table of jobs is sorted; files are merged by time, each a few thousand records ahead.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Final

import msgspec

from agent.app.telemetry_files import NONE, FileWindows, TelemetryFiles, with_following
from agent.contracts.errors import ConfigError, InvalidInputError
from agent.contracts.events import HostMinute, HostState, JobCompleted, JobEvent, JobStarted, Network
from agent.contracts.telemetry import Samples
from agent.decode.records import FileRecord
from processors.windows.settings import MINUTE_MS

TABLES: Final = frozenset({"sacct", "swf", "sonar"})  # formats that list jobs, not events in the order of their time
JOBS_MAX: Final = 5_000_000
WAITING_MAX: Final = 10_000  # events without a time before the first with one
NEVER_MS: Final = -1
END_MS: Final = 2**62


class TimedEvent(msgspec.Struct, frozen=True):
    """An event, the time at which the agent would have heard of it, and its place in a file."""

    time_ms: int | None
    event: JobEvent | HostMinute
    place: str


class TimedSamples(msgspec.Struct, frozen=True):
    """Samples of one file, in the order in which they came; `time_ms` is that of the first."""

    time_ms: int
    samples: Samples


Item = TimedEvent | TimedSamples | FileRecord
_Key = tuple[int, str]


def told_ms(event: JobEvent | HostMinute) -> int | None:
    """Return the time at which an event is told: starts when they happen, completions at the end of the run.

    >>> from agent.contracts.events import Evidence
    >>> told_ms(JobStarted("a", job_id="1", run_id="a/1@5", start_ms=5, evidence=Evidence()))
    5
    """
    if isinstance(event, JobCompleted):
        return event.end_ms
    if isinstance(event, HostMinute):
        return event.minute_ms + MINUTE_MS
    if isinstance(event, HostState | Network):
        return event.time_ms
    return event.start_ms if isinstance(event, JobStarted) else None


def in_order(files: Iterable[Iterable[FileRecord]], telemetry: TelemetryFiles | None = None) -> Iterator[Item]:
    """Yield the events of files in the order of time, and records that were refused as they come.

    Without `telemetry` samples stay in their records; with it they become minutes of hosts, and come themselves
    where it asks for them. ConfigError above JOBS_MAX jobs in tables.
    """
    merging = _Merging(telemetry)
    streams = [merging.stream(number, records) for number, records in enumerate(files)]
    for _, item in heapq.merge(*streams, key=itemgetter(0)):
        yield item


def refused(record: FileRecord) -> Sequence[InvalidInputError]:
    """Return everything that was refused of a record."""
    return [record.error] if record.error is not None else list(record.decoded.rejects)


class _Merging:
    """What the streams of files that are merged share."""

    def __init__(self, telemetry: TelemetryFiles | None) -> None:
        self._telemetry = telemetry
        self._gathered = 0

    def stream(self, number: int, records: Iterable[FileRecord]) -> Iterator[tuple[_Key, Item]]:
        """Yield the items of one file with keys that never fall."""
        windows = self._telemetry.windows(number) if self._telemetry is not None else None
        table: list[TimedEvent] = []
        for time_ms, item in _rising(self._items(records, windows, table), first=number == 0):
            yield (time_ms, ""), item
        table.sort(key=_order)
        for timed in table:
            yield _order(timed), timed

    def _items(
        self, records: Iterable[FileRecord], windows: FileWindows | None, table: list[TimedEvent]
    ) -> Iterator[Item]:
        place = ""
        for record, after_ms in with_following(records) if windows is not None else ((each, NONE) for each in records):
            place = record.place
            if record.error is not None or record.decoded.rejects or (record.samples is not None and windows is None):
                yield record
            if record.samples is not None and windows is not None:
                yield from _measured(windows.take(record.samples, after_ms), place)
            if record.until_ms is not None and windows is not None:
                yield from _measured(windows.pass_time(record.until_ms), place)
            for event in record.decoded.events:
                timed = TimedEvent(told_ms(event), event, place)
                if record.format in TABLES:
                    self._gather(timed, table)
                else:
                    yield timed
        if windows is not None:
            yield from _measured(windows.end(), place)

    def _gather(self, timed: TimedEvent, table: list[TimedEvent]) -> None:
        table.append(timed)
        self._gathered += 1
        if self._gathered > JOBS_MAX:
            raise ConfigError(f"The files list more than {JOBS_MAX} jobs; split them.")


def _measured(told: Iterable[Samples | HostMinute], place: str) -> Iterator[Item]:
    for each in told:
        if isinstance(each, HostMinute):
            yield TimedEvent(told_ms(each), each, place)
        else:
            yield TimedSamples(int(each.time_ms[0]), each)


def _order(timed: TimedEvent) -> _Key:
    return timed.time_ms or 0, timed.event.identity


def _rising(items: Iterable[Item], *, first: bool) -> Iterator[tuple[int, Item]]:
    """Give each item the newest time so far.

    Events before the first that has a time wait for it: who asks after a day of jobs does so in their midst. Where none
    has a time, those of the first file come before all others, and those of later ones after them.
    """
    waiting: list[Item] = []
    now_ms = NEVER_MS
    for item in items:
        time_ms = None if isinstance(item, FileRecord) else item.time_ms
        if isinstance(item, TimedEvent) and time_ms is None and now_ms == NEVER_MS and len(waiting) < WAITING_MAX:
            waiting.append(item)
            continue
        if time_ms is not None:
            now_ms = max(now_ms, time_ms)
        elif waiting and isinstance(item, TimedEvent):
            now_ms = 0 if first else END_MS
        if now_ms != NEVER_MS:
            yield from ((now_ms, each) for each in waiting)
            waiting.clear()
        yield now_ms, item
    yield from ((0 if first else END_MS, each) for each in waiting)
