"""Which raw topics the events came from that the learner has folded, and how new they are."""

import threading
from operator import attrgetter
from typing import Final

from agent.contracts.events import HostMinute, HostState, JobCompleted, JobStarted, JournalRecord, Network
from agent.contracts.measures import Measures
from agent.contracts.recent import SourceSeen

TOPICS_MAX: Final = 1000
MINUTE_MS: Final = 60_000
TIMES: Final = {  # where an event has a time of its own; others are as new as the tick before them
    JobStarted: attrgetter("start_ms"),
    JobCompleted: attrgetter("end_ms"),
    HostState: attrgetter("time_ms"),
    Network: attrgetter("time_ms"),
}


class Sources:
    """Counts events by topic: `note` for each record, in the thread that folds, `tell` after a batch of them.

    It is no part of any state: after a restart it begins anew. More than TOPICS_MAX topics are not followed, and counted.

    >>> from agent.contracts.events import Evidence, Origin
    >>> sources = Sources()
    >>> started = JobStarted("exa", job_id="1", run_id="exa/1@0", start_ms=5_000, evidence=Evidence())
    >>> sources.note(JournalRecord(started, Origin("slurm", 0, 7)), now_ms=9_000)
    >>> sources.seen(), sources.tell(None)
    ([], None)
    >>> sources.seen()
    [SourceSeen(topic='slurm', events=1, newest_ms=5000)]
    """

    def __init__(self) -> None:
        self._noted: dict[str, list[int]] = {}
        self._seen: dict[str, SourceSeen] = {}
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
        if now_ms and time_ms > now_ms:  # one wrong clock must not make a silent source look alive for ever
            time_ms = now_ms
        noted = self._noted.get(topic)
        if noted is None:
            self._noted[topic] = [1, time_ms]
            return
        noted[0] += 1
        noted[1] = max(noted[1], time_ms)

    def tell(self, measures: Measures | None) -> None:
        """Let readers see what was noted since the last call."""
        if not self._noted:
            return
        left_out = 0
        with self._lock:
            for topic, (events, newest_ms) in self._noted.items():
                former = self._seen.get(topic)
                if former is None and len(self._seen) >= TOPICS_MAX:
                    left_out += 1
                    continue
                if former is not None:
                    events, newest_ms = events + former.events, max(newest_ms, former.newest_ms)  # noqa: PLW2901
                self._seen[topic] = SourceSeen(topic=topic, events=events, newest_ms=newest_ms)
        self._noted = {}
        if left_out and measures is not None:
            measures.add("scalewatch_bounds_hit_total", left_out, bound="source_topics_max")

    def seen(self) -> list[SourceSeen]:
        """Return the sources, the one that spoke last first; for any thread."""
        with self._lock:
            found = list(self._seen.values())
        return sorted(found, key=lambda source: (-source.newest_ms, source.topic))
