"""The status of the sources: events processed by topic, messages in their topics, and the collectors' reports and lag."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Final

import msgspec

from processors.contracts.events import (
    CollectorReport,
    HostMinute,
    HostState,
    JobCompleted,
    JobStarted,
    JournalRecord,
    Network,
    TopicReport,
)
from processors.contracts.log import TopicPartition, topic_pattern
from processors.contracts.service import Measures, SourceStatus

TOPICS_MAX: Final = 1000
COLLECTORS_MAX: Final = 256
FORGET_MS: Final = 86_400_000  # a collector that is silent for this time is assumed to be removed
MINUTE_MS: Final = 60_000
GRACE_S: Final = 15.0  # tolerance, because the end offsets are some seconds old and a batch takes time
TIMES: Final = {  # event types with an own time; all other events get the time of the tick before them
    JobStarted: attrgetter("start_ms"),
    JobCompleted: attrgetter("end_ms"),
    HostState: attrgetter("time_ms"),
    Network: attrgetter("time_ms"),
}


class Sources:
    """Counts events by topic. The thread that processes the journal calls `note` for each record.

    The counts are not part of the stored state and start from zero after a restart. Topics that are not sources, such as a file
    that was written into the journal, are ignored. Events of topics beyond TOPICS_MAX are left out and counted in a metric.
    """

    def __init__(self, is_source: Callable[[str], bool] = bool) -> None:
        self._is_source = lru_cache(maxsize=2 * TOPICS_MAX)(is_source)
        self._totals: dict[str, tuple[int, int]] = {}  # number of events, and newest event time
        self._left_out = 0
        self._lock = threading.Lock()

    def note(self, record: JournalRecord, now_ms: int) -> None:
        """Count a processed event; `now_ms`, the time of the newest tick, is the upper limit of the event's time."""
        event = record.event
        if type(event) is HostMinute:
            topic, time_ms = event.source.rpartition("/")[0], event.minute_ms + MINUTE_MS
        elif record.origin is None:
            return
        else:
            time_of = TIMES.get(type(event))
            topic, time_ms = record.origin.topic, now_ms if time_of is None else time_of(event)
        if not self._is_source(topic):
            return
        if now_ms and time_ms > now_ms:  # a source with one wrong clock must not look active for ever when it is silent
            time_ms = now_ms
        with self._lock:
            if topic not in self._totals and len(self._totals) >= TOPICS_MAX:
                self._left_out += 1
                return
            events, newest_ms = self._totals.get(topic, (0, time_ms))
            self._totals[topic] = events + 1, max(newest_ms, time_ms)

    def report(self, measures: Measures) -> None:
        """Publish the number of events that were left out since the last call."""
        if self._left_out:
            measures.add("scalewatch_bounds_hit_total", self._left_out, bound="source_topics_max")
            self._left_out = 0

    def status(self) -> list[SourceStatus]:
        """Return the sources with events, the most recently active first. Thread-safe."""
        with self._lock:
            totals = list(self._totals.items())
        return newest_first(
            SourceStatus(topic=topic, events=events, newest_ms=newest_ms) for topic, (events, newest_ms) in totals
        )


class Collectors:
    """The newest report of each collector, at most COLLECTORS_MAX; thread-safe."""

    def __init__(self) -> None:
        self._reports: dict[str, CollectorReport] = {}
        self._lock = threading.Lock()

    def take(self, report: CollectorReport) -> None:
        """Store a report unless a newer one exists, and drop the reports of collectors that are silent for FORGET_MS."""
        with self._lock:
            former = self._reports.pop(report.member, report)
            self._reports[report.member] = max(former, report, key=attrgetter("time_ms"))
            gone_ms = report.time_ms - FORGET_MS
            self._reports = {name: kept for name, kept in self._reports.items() if kept.time_ms >= gone_ms}
            if len(self._reports) > COLLECTORS_MAX:
                del self._reports[next(iter(self._reports))]

    def latest(self) -> list[CollectorReport]:
        """Return the newest report of each collector, sorted by name."""
        with self._lock:
            reports = list(self._reports.values())
        return sorted(reports, key=attrgetter("member"))


def newest_first(sources: Iterable[SourceStatus]) -> list[SourceStatus]:
    """Return sources ordered by the time of their last event, newest first; sources without events come last."""
    return sorted(sources, key=lambda source: (-(source.moved_ms or 0), source.topic))


def combined(
    configured: Sequence[str],
    folded: Sequence[SourceStatus],
    reported: Sequence[TopicReport],
    silent_s: Callable[[str], float],
) -> list[SourceStatus]:
    """Return every source once: those with events, those in collector reports, and those that are only configured.

    If several reports contain a topic, the last in `reported` is used. `silent_s` returns the time in seconds for which a topic
    may be silent.
    """
    sources = {source.topic: source for source in folded}
    for topic in reported:
        source = sources.get(topic.topic) or SourceStatus(topic=topic.topic)
        sources[topic.topic] = msgspec.structs.replace(source, messages=topic.messages, heard_ms=topic.newest_ms)
    for name in configured:
        if name not in sources and not any(map(topic_pattern([name]).fullmatch, sources)):
            sources[name] = SourceStatus(topic=name)
    limited = (msgspec.structs.replace(source, silent_s=silent_s(source.topic)) for source in sources.values())
    return newest_first(limited)


class PartitionProgress(msgspec.Struct, frozen=True):
    """The progress of a partition: the next offset, and the timestamp of its newest message (0 without a message)."""

    next_offset: int
    newest_ms: int


class Backlog:
    """Estimates how long messages of a collector have been waiting, from its progress and from slightly older end offsets.

    Timestamps of messages are used only while the collector is behind, because producers may set them.
    """

    def __init__(self) -> None:
        self._current_s: dict[TopicPartition, float] = {}

    def lag_s(
        self,
        taken: Mapping[TopicPartition, PartitionProgress],
        ends: Mapping[TopicPartition, int],
        now_s: float,
        now_ms: int,
    ) -> float:
        """Return the estimated waiting time in seconds of the next message in the partition furthest behind; 0 if none is behind."""
        self._current_s = {one: since_s for one, since_s in self._current_s.items() if one in taken}
        return max(
            (self._partition_lag_s(one, progress, ends.get(one, 0), now_s, now_ms) for one, progress in taken.items()),
            default=0.0,
        )

    def idle(self, now_s: float) -> None:
        """Record that nothing is waiting, because a poll returned no message; the end offsets may count transaction markers."""
        self._current_s = dict.fromkeys(self._current_s, now_s)

    def _partition_lag_s(
        self, partition: TopicPartition, progress: PartitionProgress, end: int, now_s: float, now_ms: int
    ) -> float:
        if progress.next_offset >= end:
            self._current_s[partition] = now_s
        waited_s = now_s - self._current_s.setdefault(partition, now_s)
        if waited_s < GRACE_S:
            return 0.0
        return max(waited_s, (now_ms - progress.newest_ms) / 1000 if progress.newest_ms > 0 else 0.0)
