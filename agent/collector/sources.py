"""What is known of the sources: what of them was folded, what their topics hold, and how the collectors are that read them."""

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
FORGET_MS: Final = 86_400_000  # a collector that is not heard of for so long was taken away
MINUTE_MS: Final = 60_000
GRACE_S: Final = 15.0  # the ends are those of a look some seconds ago, and a batch takes its time
TIMES: Final = {  # where an event has a time of its own; others are as new as the tick before them
    JobStarted: attrgetter("start_ms"),
    JobCompleted: attrgetter("end_ms"),
    HostState: attrgetter("time_ms"),
    Network: attrgetter("time_ms"),
}


class Sources:
    """Counts events by topic: `note` for each record, in the thread that folds, `report` after a batch of them.

    It is no part of any state: after a restart it begins anew. What is no source, such as a file that was fed into the
    journal, is left out. More than TOPICS_MAX topics are not followed, and counted.
    """

    def __init__(self, is_source: Callable[[str], bool] = bool) -> None:
        self._is_source = lru_cache(maxsize=2 * TOPICS_MAX)(is_source)
        self._noted: dict[str, list[int]] = {}
        self._seen: dict[str, tuple[int, int]] = {}
        self._lock = threading.Lock()

    def note(self, record: JournalRecord, now_ms: int) -> None:
        """Take note of an event that was folded; `now_ms` is the newest tick, and no event is taken for newer."""
        event = record.event
        if type(event) is HostMinute:
            topic, time_ms = event.source.rpartition("/")[0], event.minute_ms + MINUTE_MS
        elif record.origin is None:
            return
        else:
            own = TIMES.get(type(event))
            topic, time_ms = record.origin.topic, now_ms if own is None else own(event)
        if not self._is_source(topic):
            return
        if now_ms and time_ms > now_ms:  # one wrong clock must not make a silent source look alive for ever
            time_ms = now_ms
        noted = self._noted.get(topic)
        if noted is None:
            self._noted[topic] = [1, time_ms]
            return
        noted[0] += 1
        noted[1] = max(noted[1], time_ms)

    def report(self, measures: Measures | None) -> None:
        """Let readers see what was noted since the last call."""
        if not self._noted:
            return
        left_out = 0
        with self._lock:
            for topic, (events, newest_ms) in self._noted.items():
                if topic not in self._seen and len(self._seen) >= TOPICS_MAX:
                    left_out += 1
                    continue
                before, former_ms = self._seen.get(topic, (0, newest_ms))
                self._seen[topic] = before + events, max(newest_ms, former_ms)
        self._noted = {}
        if left_out and measures is not None:
            measures.add("scalewatch_bounds_hit_total", left_out, bound="source_topics_max")

    def status(self) -> list[SourceStatus]:
        """Return the sources that had events, the one that spoke last first; for any thread."""
        with self._lock:
            seen = list(self._seen.items())
        return newest_first(
            SourceStatus(topic=topic, events=events, newest_ms=newest_ms) for topic, (events, newest_ms) in seen
        )


class Collectors:
    """The newest report of each collector, at most COLLECTORS_MAX of them; safe from any thread."""

    def __init__(self) -> None:
        self._reports: dict[str, CollectorReport] = {}
        self._lock = threading.Lock()

    def take(self, report: CollectorReport) -> None:
        """Keep a report unless a newer one of its collector is known, and forget collectors that are long gone."""
        with self._lock:
            former = self._reports.pop(report.member, report)
            self._reports[report.member] = max(former, report, key=lambda one: one.time_ms)
            gone_ms = report.time_ms - FORGET_MS
            for member in [name for name, known in self._reports.items() if known.time_ms < gone_ms]:
                del self._reports[member]
            if len(self._reports) > COLLECTORS_MAX:
                del self._reports[next(iter(self._reports))]

    def latest(self) -> list[CollectorReport]:
        """Return the newest report of each collector, by name."""
        with self._lock:
            reports = list(self._reports.values())
        return sorted(reports, key=lambda report: report.member)


def newest_first(sources: Iterable[SourceStatus]) -> list[SourceStatus]:
    """Return sources, the one that spoke last first, those that never did at the end."""
    return sorted(sources, key=lambda source: (-(source.moved_ms or 0), source.topic))


def combined(
    wanted: Sequence[str],
    folded: Sequence[SourceStatus],
    reported: Sequence[TopicReport],
    silent_s: Callable[[str], float],
) -> list[SourceStatus]:
    """Return every source: those with events, those whose topics were reported, and those that are only configured.

    Of two reports of a topic the later one in the sequence counts. `silent_s` says how long a topic may be silent.
    """
    found = {source.topic: source for source in folded}
    for topic in reported:
        known = found.get(topic.topic) or SourceStatus(topic=topic.topic)
        found[topic.topic] = msgspec.structs.replace(known, messages=topic.messages, heard_ms=topic.newest_ms)
    for name in wanted:
        if name not in found and not any(map(topic_pattern([name]).fullmatch, found)):
            found[name] = SourceStatus(topic=name)
    limited = (msgspec.structs.replace(source, silent_s=silent_s(source.topic)) for source in found.values())
    return newest_first(limited)


class Taken(msgspec.Struct, frozen=True):
    """How far a partition is taken: the offset to go on with, and the time of the newest message, 0 where it has none."""

    next_offset: int
    newest_ms: int


class Backlog:
    """Tells how far behind a collector is, from what it has taken and from ends that were looked up a little earlier.

    Clocks of producers count only while it is behind: they say of messages that wait how old they are.
    """

    def __init__(self) -> None:
        self._current_s: dict[TopicPartition, float] = {}

    def lag_s(
        self, taken: Mapping[TopicPartition, Taken], ends: Mapping[TopicPartition, int], now_s: float, now_ms: int
    ) -> float:
        """Return the age of what is taken now in the partition that is furthest behind, 0 where none is."""
        self._current_s = {one: since_s for one, since_s in self._current_s.items() if one in taken}
        return max(
            (self._partition_lag_s(one, at, ends.get(one, 0), now_s, now_ms) for one, at in taken.items()), default=0.0
        )

    def idle(self, now_s: float) -> None:
        """Take note that nothing waits: a poll brought nothing, although ends may be marks of transactions."""
        self._current_s = dict.fromkeys(self._current_s, now_s)

    def _partition_lag_s(self, partition: TopicPartition, at: Taken, end: int, now_s: float, now_ms: int) -> float:
        if at.next_offset >= end:
            self._current_s[partition] = now_s
        waited_s = now_s - self._current_s.setdefault(partition, now_s)
        if waited_s < GRACE_S:
            return 0.0
        return max(waited_s, (now_ms - at.newest_ms) / 1000 if at.newest_ms > 0 else 0.0)
